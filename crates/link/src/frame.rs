//! The bytes of a message: its length and its CRC-32C, four bytes each, then the message.

use std::io::{self, Read, Write};

const HEAD: usize = 8;
/// Bytes of memory that a length alone takes, at most.
const AHEAD: usize = 1 << 22;
/// Bytes that are copied to be written with the head, at most.
const SHORT: usize = 1 << 12;

/// Writes a message.
pub(crate) fn write(out: &mut impl Write, message: &[u8]) -> io::Result<()> {
    write_parts(out, &[], message)
}

/// Writes a message that consists of two parts.
pub(crate) fn write_parts(out: &mut impl Write, first: &[u8], rest: &[u8]) -> io::Result<()> {
    let length = u32::try_from(first.len() + rest.len()).map_err(|_| io::Error::other("a message that is too long"))?;
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..].copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(first), rest).to_le_bytes());
    // What is short goes at once.
    let (near, far) = if rest.len() <= SHORT { (rest, [].as_slice()) } else { ([].as_slice(), rest) };
    out.write_all(&[head.as_slice(), first, near].concat())?;
    out.write_all(far)?;
    out.flush()
}

/// Reads a message of at most `longest` bytes. `None` if the other side has ended before one began.
pub(crate) fn read(from: &mut impl Read, longest: usize) -> io::Result<Option<Vec<u8>>> {
    Ok(read_parts::<0>(from, longest)?.map(|(_, message)| message))
}

/// Reads a message whose first part has `N` bytes, and the rest at most `longest`.
pub(crate) fn read_parts<const N: usize>(
    from: &mut impl Read,
    longest: usize,
) -> io::Result<Option<([u8; N], Vec<u8>)>> {
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
    let refused = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let length = (u32::from_le_bytes([a, b, c, d]) as usize).checked_sub(N);
    let length = length.ok_or_else(|| refused("a message is shorter than messages are".to_owned()))?;
    if length > longest {
        return Err(refused(format!("a message exceeds the limit of {longest} bytes")));
    }
    let mut first = [0; N];
    from.read_exact(&mut first)?;
    // Memory comes with the bytes: a length alone takes little.
    let mut message = Vec::with_capacity(length.min(AHEAD));
    from.take(length as u64).read_to_end(&mut message)?;
    if message.len() != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if crc32c::crc32c_append(crc32c::crc32c(&first), &message) != u32::from_le_bytes([e, f, g, h]) {
        return Err(refused("a message has another checksum than it says".to_owned()));
    }
    Ok(Some((first, message)))
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
