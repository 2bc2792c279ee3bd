//! The route `estimate`. It takes those keys of `compress` that have an effect on what it tells, so that a trial ends by changing
//! one word.

use super::traits::{Traits, UNTOUCHED};

pub(super) const ESTIMATE: Traits = Traits {
    word: "estimate",
    does: "writes no file, and tells what compressing would give",
    compress: || &["goal", "portable", "low", "variables"],
    is_told: true,
    is_done_when_closed: true,
    not_repacked: Some("it is to stay untouched, and 'knarr run' tells what compressing it would give"),
    classic_is_left: Some("estimates are made of HDF5 and netCDF-4 files; 'knarr advise' reads this one, too"),
    ..UNTOUCHED
};
