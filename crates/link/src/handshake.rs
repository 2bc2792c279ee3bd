//! Both sides prove that they know the secret, by hashes of random numbers that the other one has chosen.
//!
//! ```text
//! asks:    magic and version, its number
//! answers: magic and version, its number, hash of both numbers
//! asks:    hash of both numbers, another one
//! ```

use std::io::{self, Read, Write};

use crate::peer::Secret;

/// First bytes of a link; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRLK\x05";
const NUMBER: usize = 32;
type Number = [u8; NUMBER];

/// What tells the hashes of the two sides apart.
const ANSWERS: u8 = 1;
const ASKS: u8 = 2;

fn proof(secret: &Secret, side: u8, asks: &Number, answers: &Number) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret.bytes());
    hasher.update(&[side]).update(asks).update(answers);
    hasher.finalize()
}

fn number() -> io::Result<Number> {
    let secret = Secret::new().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(*secret.bytes())
}

fn read<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

fn write(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

fn read_greeting(from: &mut impl Read) -> io::Result<Number> {
    let magic: [u8; MAGIC.len()] = read(from)?;
    if magic[..MAGIC.len() - 1] != MAGIC[..MAGIC.len() - 1] {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "somebody else answers there"));
    }
    if magic != MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "another version of Knarr answers there"));
    }
    read(from)
}

fn check(found: [u8; blake3::OUT_LEN], expected: blake3::Hash) -> io::Result<()> {
    // This comparison takes the same time for all bytes.
    match blake3::Hash::from_bytes(found) == expected {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "the other side does not know the secret")),
    }
}

/// On the side that asks.
pub(crate) fn ask(stream: &mut (impl Read + Write), secret: &Secret) -> io::Result<()> {
    let mine = number()?;
    write(stream, &[MAGIC.as_slice(), &mine].concat())?;
    let theirs = read_greeting(stream)?;
    check(read(stream)?, proof(secret, ANSWERS, &mine, &theirs))?;
    write(stream, proof(secret, ASKS, &mine, &theirs).as_bytes())
}

/// On the side that answers.
pub(crate) fn answer(stream: &mut (impl Read + Write), secret: &Secret) -> io::Result<()> {
    let theirs = read_greeting(stream)?;
    let mine = number()?;
    let proven = proof(secret, ANSWERS, &theirs, &mine);
    write(stream, &[MAGIC.as_slice(), &mine, proven.as_bytes()].concat())?;
    check(read(stream)?, proof(secret, ASKS, &theirs, &mine))
}
