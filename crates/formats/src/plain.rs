//! What outputs that hold nothing but values have in common: CSV and raw.

use knarr_flow::energy::Stopwatch;
use knarr_flow::generate::Generated;
use knarr_flow::store::Source;

/// Processor time of reading and of writing.
#[derive(Debug, Default)]
pub struct Clocks {
    /// Of reading.
    pub read: Stopwatch,
    /// Of writing.
    pub write: Stopwatch,
}

/// How the user says which variables to write, behind "choose …".
pub(crate) fn chosen_by(source: &dyn Source) -> &'static str {
    if source.as_any().is::<Generated>() { "by naming fewer patterns" } else { "with --variable" }
}
