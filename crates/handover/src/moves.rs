//! Which bytes are copied from the files of values of all ranks to where.

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

/// Runs of bytes that are copied. They are alike, and equally far apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// Twice the number of the rank, and 1 more for its second file of values.
    pub(crate) file: usize,
    /// The first byte of the first run there, and where it is wanted.
    pub(crate) from: u64,
    pub(crate) to: usize,
    /// Bytes of a run.
    pub(crate) len: usize,
    pub(crate) runs: u64,
    /// How far the next run is.
    pub(crate) from_step: u64,
    pub(crate) to_step: usize,
}

impl Move {
    /// Bytes of all runs; saturates.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.saturating_mul(self.len as u64)
    }

    /// Where the run with a number begins, and where it is wanted; saturates.
    pub(crate) fn run(&self, number: u64) -> (u64, usize) {
        let to = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(self.to_step);
        (self.from.saturating_add(number.saturating_mul(self.from_step)), self.to.saturating_add(to))
    }
}

/// Where the values of a question came from.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) moves: Vec<Move>,
    /// Some elements are fill values.
    pub(crate) fills: bool,
}
