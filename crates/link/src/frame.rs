//! The bytes of a message: its length and its CRC-32C, four bytes each, then the message.

use std::io::{self, Read, Write};

const HEAD: usize = 8;
/// Bytes of memory that a length alone takes, at most.
const AHEAD: usize = 1 << 22;

/// Writes a message.
pub(crate) fn write(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(|_| io::Error::other("a message that is too long"))?;
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32c::crc32c(message).to_le_bytes());
    out.write_all(&head)?;
    out.write_all(message)?;
    out.flush()
}

/// Reads a message of at most `longest` bytes. `None` if the other side has ended before one began.
pub(crate) fn read(from: &mut impl Read, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    let begun = loop {
        match from.read(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            begun => break begun?,
        }
    };
    if begun == 0 {
        return Ok(None);
    }
    from.read_exact(&mut head[begun..])?;
    let [a, b, c, d, e, f, g, h] = head;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is longer than messages are"));
    }
    // Memory comes with the bytes: a length alone takes little.
    let mut message = Vec::with_capacity(length.min(AHEAD));
    from.take(length as u64).read_to_end(&mut message)?;
    if message.len() != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if crc32c::crc32c(&message) != u32::from_le_bytes([e, f, g, h]) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message has another checksum than it says"));
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_damaged_ones_do_not() {
        let message: Vec<u8> = (0..=255).cycle().take(1000).collect();
        for length in [0, 1, 999, 1000] {
            let mut bytes = Vec::new();
            write(&mut bytes, &message[..length]).unwrap();
            assert_eq!(read(&mut bytes.as_slice(), 1000).unwrap().unwrap(), &message[..length]);
            for cut in 1..bytes.len() {
                assert!(read(&mut &bytes[..cut], 1000).is_err(), "{cut} of {length}");
            }
            for place in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 0x10;
                assert!(read(&mut damaged.as_slice(), 1000).is_err(), "byte {place} of {length}");
            }
        }
        assert!(read(&mut [].as_slice(), 1000).unwrap().is_none());
        let mut long = Vec::new();
        write(&mut long, &message).unwrap();
        assert!(read(&mut long.as_slice(), 999).is_err());
        // A length of 4 GiB and no bytes.
        assert!(read(&mut [0xFF; HEAD].as_slice(), usize::MAX).is_err());
    }
}
