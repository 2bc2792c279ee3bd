//! Packing the files of many ranks into one set by one process.

use std::path::Path;

use crate::files::scan::Finder;
use crate::packing::grouping::{Grouping, Member, deal};
use crate::packing::input::Input;
use crate::packing::options::PackOptions;
use crate::packing::packed::Packed;
use crate::packing::together::Together;
use knarr_array::comm::Solo;
use knarr_array::error::{Error, Result};
use knarr_flow::engine::{Engine, Progress};

/// Packs `inputs`, in the order of ranks, into the set `target`. On error nothing is left behind and an existing set is
/// untouched.
///
/// # Errors
/// `Usage` for no inputs, names twice or impossible options; what reading and writing report, with the file; `Differs`
/// if a file changes meanwhile.
pub fn pack(
    engine: &Engine,
    inputs: &[Input],
    target: &Path,
    options: &PackOptions,
    find: Finder<'_>,
    progress: &dyn Progress,
) -> Result<Packed> {
    let members: Vec<Member> = inputs.iter().cloned().enumerate().map(|(rank, input)| Member { rank, input }).collect();
    let groups = deal(&Solo, &members, Grouping::RankOrder, options.group_size)?;
    let together = Together::begin(engine, &Solo, target, options)?;
    let part = together.pack_groups(&groups, find, progress);
    together.finish(&Solo, part)?.ok_or_else(|| Error::internal("one process got nothing back"))
}
