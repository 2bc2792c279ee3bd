//! Which bytes are copied from the files of values of all ranks to where.

use crate::gather::runs::Move;

/// What elements are that were not put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beneath<'a> {
    /// This element.
    Fill(&'a [u8]),
    /// An error. Elements have so many bytes.
    Nothing(usize),
}

impl Beneath<'_> {
    /// Bytes of an element.
    pub fn size(&self) -> usize {
        match self {
            Self::Fill(element) => element.len(),
            Self::Nothing(size) => *size,
        }
    }
}

/// Where the values of a question came from.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) moves: Vec<Move>,
    /// Some elements are fill values.
    pub(crate) fills: bool,
}
