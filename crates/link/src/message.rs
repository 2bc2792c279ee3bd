//! Questions and answers on a connection. A question has a number, and what comes back has the same: bytes that belong to
//! another question are never taken for an answer.
//!
//! ```text
//! question: its number (8 bytes), what is asked
//! answer:   the number, the answer, its kind (1 byte)
//! ```

use std::io::{self, Read, Write};

use crate::{LONGEST_ANSWER, LONGEST_QUESTION, frame};

/// Bytes of a number.
const NUMBER: usize = 8;

/// What comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer.
    Bytes,
    /// An error in place of an answer.
    Error,
    /// The answer comes later.
    Alive,
    /// All places are taken: the question is to be asked again later, on another connection.
    Busy,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Bytes => 0,
            Self::Error => 1,
            Self::Alive => 2,
            Self::Busy => 3,
        }
    }

    fn of(byte: u8) -> Option<Self> {
        [Self::Bytes, Self::Error, Self::Alive, Self::Busy].into_iter().find(|kind| kind.byte() == byte)
    }
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that makes no sense")
}

/// Asks.
pub(crate) fn ask(out: &mut impl Write, number: u64, question: &[u8]) -> io::Result<()> {
    frame::write(out, &[number.to_le_bytes().as_slice(), question].concat())
}

/// The next question, with its number; `None` if the other side has ended.
pub(crate) fn read_question(from: &mut impl Read) -> io::Result<Option<(u64, Vec<u8>)>> {
    let Some(mut message) = frame::read(from, NUMBER + LONGEST_QUESTION)? else { return Ok(None) };
    let number = message.first_chunk().map(|number| u64::from_le_bytes(*number)).ok_or_else(senseless)?;
    message.drain(..NUMBER);
    Ok(Some((number, message)))
}

/// Answers the question with this number.
pub(crate) fn write(out: &mut impl Write, number: u64, mut answer: Vec<u8>, kind: Kind) -> io::Result<()> {
    answer.push(kind.byte());
    frame::write_parts(out, &number.to_le_bytes(), &answer)
}

/// What comes back for the question with this number, when it is more than that the answer comes.
pub(crate) fn read_answer(from: &mut impl Read, number: u64) -> io::Result<(Vec<u8>, Kind)> {
    loop {
        let read = frame::read_parts::<NUMBER>(from, LONGEST_ANSWER + 1)?;
        let (of, mut answer) = read.ok_or(io::ErrorKind::UnexpectedEof)?;
        let kind = answer.pop().and_then(Kind::of).ok_or_else(senseless)?;
        if u64::from_le_bytes(of) != number {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer to another question"));
        }
        if kind != Kind::Alive {
            return Ok((answer, kind));
        }
    }
}
