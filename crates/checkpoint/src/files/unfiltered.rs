//! The unfiltered form of a file: which variables have one, and what its layout is.
//!
//! A variable is taken unfiltered if each of its chunks was decoded, encoded again and found to be the same, byte for
//! byte. Files whose filters were written by another program's deflate fail at the first chunk, and cost no more.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::files::layout::{Extent, FileLayout, StoredVariable};
use crate::files::recipe::{COPIES, Chunk, LARGEST_CHUNK, Recipe, chain};
use knarr_array::error::{Error, Result};
use knarr_array::filter::FilterId;
use knarr_array::goal::Goal;
use knarr_array::region::volume;
use knarr_codec::chain::{ChainSpec, Scratch};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Progress};

const DEFLATE: FilterId = 1;
/// What part of the memory the copies of a chunk may take, of each worker.
const SHARE: u64 = 6;
/// By which a set of smooth fields gets smaller at least, and what it costs: MB/s of values that zlib encodes, once to try
/// and once to restore.
const GAIN: f64 = 1.25;
const ZLIB_MB_S: f64 = 50.0;

/// True if a goal would rather have sets small than done quickly.
pub(crate) fn is_worth(engine: &Engine, goal: &Goal) -> bool {
    let unfiltered = engine.profile.merits_of_speeds(GAIN, ZLIB_MB_S, ZLIB_MB_S);
    let as_they_are = engine.profile.merits(&engine.codecs, &ChainSpec::raw(), 1.0);
    goal.score(&unfiltered) > goal.score(&as_they_are)
}

/// A file and its layout.
pub(crate) struct Candidate<'a> {
    pub(crate) path: &'a Path,
    pub(crate) file: &'a File,
    pub(crate) layout: &'a FileLayout,
}

/// For each file, the numbers of the variables whose chunks can be made again from their values. No file but the
/// filtered parts of it is read.
///
/// # Errors
/// `Read`; `Interrupted`.
pub(crate) fn repeatable(engine: &Engine, files: &[Candidate<'_>], progress: &dyn Progress) -> Result<Vec<Vec<usize>>> {
    let most = LARGEST_CHUNK.min(engine.max_mem / (SHARE * COPIES));
    let mut jobs = Vec::new();
    for (number, file) in files.iter().enumerate() {
        for (index, variable) in file.layout.variables.iter().enumerate() {
            if may_gain(&engine.codecs, variable, most) {
                jobs.push((number, index, file, variable));
            }
        }
    }
    let mut found = vec![Vec::new(); files.len()];
    if jobs.is_empty() {
        return Ok(found);
    }
    let stored = |variable: &StoredVariable| filtered(variable).map(|extent| extent.length).sum::<u64>();
    progress.begin("decoding", jobs.iter().map(|(.., variable)| stored(variable)).sum());
    let largest = jobs.iter().flat_map(|(.., variable)| filtered(variable).filter_map(|e| values(variable, e))).max();
    let is_repeatable = engine.fitting(COPIES * largest.unwrap_or(0)).parallel(jobs.len(), |job| {
        let Some((_, _, file, variable)) = jobs.get(job) else { return Ok(false) };
        let repeats = repeats(engine, file, variable)?;
        progress.advance(stored(variable));
        Ok(repeats)
    })?;
    for ((number, index, ..), _) in jobs.iter().zip(is_repeatable).filter(|(_, repeats)| *repeats) {
        if let Some(of) = found.get_mut(*number) {
            of.push(*index);
        }
    }
    Ok(found)
}

fn filtered(variable: &StoredVariable) -> impl Iterator<Item = &Extent> {
    variable.extents.iter().filter(|extent| !extent.filters.is_empty())
}

/// Bytes of the values of an extent.
fn values(variable: &StoredVariable, extent: &Extent) -> Option<u64> {
    volume(&extent.shape)?.checked_mul(variable.dtype.size() as u64)
}

/// Whether a variable has chunks whose filters are all known, and which deflate, if it was one of them, made smaller.
fn may_gain(codecs: &CodecList, variable: &StoredVariable, most: u64) -> bool {
    let (mut before, mut after, mut any) = (0u64, 0u64, false);
    let mut known: Option<&Extent> = None;
    for extent in filtered(variable) {
        let Some(length) = values(variable, extent).filter(|length| (1..=most).contains(length)) else { return false };
        let is_alike = known.is_some_and(|known| known.filters == extent.filters && known.shape == extent.shape);
        if !is_alike && chain(codecs, &extent.filters, length).is_none() {
            return false;
        }
        (known, any) = (Some(extent), true);
        if extent.filters.iter().any(|filter| filter.id == DEFLATE) {
            (before, after) = (before.saturating_add(length), after.saturating_add(extent.length));
        }
    }
    any && (before == 0 || after < before)
}

/// Decodes and encodes the chunks of a variable until one is not what it was.
fn repeats(engine: &Engine, file: &Candidate<'_>, variable: &StoredVariable) -> Result<bool> {
    let codecs = &engine.codecs;
    let mut scratch = Scratch::default();
    let [mut stored, mut decoded, mut again] = [const { Vec::new() }; 3];
    for extent in filtered(variable) {
        engine.check_cancelled()?;
        let chunk = Chunk {
            offset: 0,
            length: values(variable, extent).unwrap_or(0),
            stored_offset: extent.offset,
            stored_length: extent.length,
            filters: Arc::clone(&extent.filters),
        };
        // A chunk is rarely longer than its values, and one that is far longer is none of zlib's.
        let length = usize::try_from(extent.length).ok().filter(|_| extent.length <= 2 * chunk.length + 1024);
        let Some(length) = length else { return Ok(false) };
        stored.resize(length, 0);
        match file.file.read_exact_at(&mut stored, extent.offset) {
            // It changed meanwhile, which is noticed when all of it is read.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read.map_err(|error| Error::read(file.path, &error))?,
        }
        let done = chunk
            .decode(codecs, &stored, &mut scratch, &mut decoded)
            .and_then(|()| chunk.encode(codecs, &decoded, &mut scratch, &mut again));
        if done.is_err() || again != stored {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The layout of a file's unfiltered form, in which the variables with these numbers have their values, and the recipe.
///
/// # Errors
/// `Corrupt` for a layout that does not hold.
pub(crate) fn unfilter(mut layout: FileLayout, numbers: &[usize]) -> Result<(FileLayout, Recipe)> {
    let mut recipe = Recipe::default();
    if numbers.is_empty() {
        return Ok((layout, recipe));
    }
    let mut chosen = vec![false; layout.variables.len()];
    numbers.iter().filter_map(|&number| chosen.get_mut(number).map(|chosen| *chosen = true)).for_each(drop);
    let mut extents: Vec<(u64, &mut Extent)> = Vec::new();
    for (variable, is_chosen) in layout.variables.iter_mut().zip(chosen) {
        let size = variable.dtype.size() as u64;
        let length = |extent: &Extent| volume(&extent.shape).and_then(|count| count.checked_mul(size));
        let is_taken = |extent: &Extent| is_chosen && !extent.filters.is_empty();
        extents.extend(variable.extents.iter_mut().map(|e| (if is_taken(e) { length(e).unwrap_or(0) } else { 0 }, e)));
    }
    extents.sort_by_key(|(_, extent)| extent.offset);
    // Ends of the last chunk that was taken, in the file and in the unfiltered form.
    let (mut stored_end, mut end) = (0, 0);
    for (length, extent) in extents {
        let before = Error::corrupt("pieces that share bytes");
        let offset = extent.offset.checked_sub(stored_end).and_then(|gap| gap.checked_add(end)).ok_or(before)?;
        if length > 0 {
            recipe.push(offset, length, extent.length, std::mem::take(&mut extent.filters))?;
            stored_end = extent.offset + extent.length;
            end = offset + length;
            extent.length = length;
        }
        extent.offset = offset;
    }
    layout.length = layout.length.saturating_sub(stored_end).saturating_add(end);
    Ok((layout, recipe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_that_want_speed_leave_chunks_as_they_are() {
        let engine = Engine::new(CodecList::pure());
        let is_worth = |goal: &str| is_worth(&engine, &goal.parse().unwrap());
        assert!(is_worth(crate::packing::options::GOAL) && is_worth("ratio"));
        assert!(!is_worth("speed") && !is_worth("balanced") && !is_worth("archive") && !is_worth("energy"));
    }
}
