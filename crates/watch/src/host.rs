//! What a watch asks of who has it run: how sets are packed, when it ends, and who hears of it.

use std::os::fd::BorrowedFd;
use std::path::Path;

use knarr_array::error::{Error, Result};
use knarr_checkpoint::{Input, PackOptions};
use knarr_flow::engine::{Engine, Progress};

use super::pack_set::PackedSet;
use super::steps::Complete;
use knarr_worker::means::Means;

/// When a watch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not yet.
    Open,
    /// When no complete step is left to pack.
    WhenPacked,
    /// At once.
    Now,
}

/// What is to become of a complete step.
pub enum Verdict {
    /// A set.
    Pack,
    /// Somebody still writes to its files.
    Wait,
    /// It is not to be packed, for this reason.
    Leave(Error),
}

/// A set that was made.
pub struct Made<'a> {
    /// The step.
    pub step: u64,
    /// Where its set is.
    pub set: &'a Path,
    /// How many files the set holds.
    pub files: usize,
    /// What packing them came to.
    pub packed: &'a PackedSet,
    /// Why nothing says that the files are whole, if so: they stay, whatever was asked.
    pub unproven: Option<&'a str>,
}

/// Who has a directory watched. Sets are packed on a thread of their own.
pub trait Host: Send {
    /// What packs the next set, and whether a program runs that it must not disturb.
    fn engine(&self) -> (Engine, bool);
    /// What the engine of another process needs.
    fn means(&self) -> &Means;
    /// How a set of these files is packed.
    ///
    /// # Errors
    /// Why that is not known.
    fn options(&self, inputs: &[Input]) -> Result<PackOptions>;
    /// Hears how far the set of a step is.
    fn progress(&self, step: u64) -> Box<dyn Progress>;
    /// Whether to go on.
    fn end(&self) -> End;
    /// Becomes readable when that changes.
    fn news(&self) -> BorrowedFd<'_>;
    /// Whether the step, whose files rest, is to be packed.
    fn judge(&mut self, complete: &Complete) -> Verdict;
    /// Why nothing says that the files of the step are whole, if so.
    fn unproven(&self, complete: &Complete) -> Option<String>;
    /// Hears what is wrong, each thing once.
    fn notify(&mut self, error: &Error);
    /// Hears of a set that was made.
    fn packed(&mut self, made: &Made<'_>);
    /// Hears of a set that was removed because newer ones are to be kept alone.
    fn removed(&mut self, set: &Path);
}
