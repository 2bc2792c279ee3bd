//! Single variables of single ranks, as NumPy files: what partial restores write.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::disk::parents::make_parent;
use crate::disk::set::Set;
use crate::files::layout::{Extent, StoredVariable};
use crate::files::rank_file::RankFile;
use crate::restoring::restore::{Damage, Proof, fetch, no_rank};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::npy;
use knarr_array::region::{Placed, chunk_region, runs, volume};
use knarr_array::region::{chunk_count, chunk_position};
use knarr_codec::chain::{Chain, Scratch};
use knarr_codec::codec::CodecList;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::AtomicFile;
use knarr_flow::settings::glob_matches;

/// What was extracted.
#[derive(Debug, Clone, Default)]
pub struct Extracted {
    /// Rank, variable and the file that holds it.
    pub files: Vec<(usize, String, PathBuf)>,
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Ranks and variables that could not be brought back. Everything else was.
    pub damage: Vec<Damage>,
}

/// Extracts the variables that match one of `patterns` (`*` any characters, `?` one), of each of `ranks`, into
/// `target/FILE/PATH.npy`, where FILE is the name of the rank's file and PATH that of the variable. Characters of paths
/// that files cannot have are written `%XX`. Only frames that hold some of them are read.
///
/// # Errors
/// `Usage` for ranks that the set does not have, and if no variable of any of them matches; `Exists`, `Write`.
pub fn extract(
    engine: &Engine,
    set: &Set,
    ranks: &[usize],
    patterns: &[String],
    target: &Path,
    force: bool,
    progress: &dyn Progress,
) -> Result<Extracted> {
    let mut extracted = Extracted::default();
    let mut groups: BTreeMap<usize, Vec<Wanted<'_>>> = BTreeMap::new();
    std::fs::create_dir_all(target).map_err(|error| Error::write(target, &error))?;
    for rank in holders(set, ranks, patterns)? {
        let described = set.manifest().ranks.get(rank).ok_or_else(|| no_rank(set, rank))?;
        let variables = &described.layout.layout.variables;
        let wanted: Vec<bool> = variables.iter().map(|variable| matches(patterns, &variable.path)).collect();
        let of_group = groups.entry(described.group).or_default();
        if of_group.iter().all(|other| other.rank != rank) {
            of_group.push(Wanted { rank, described, variables: wanted });
        }
    }
    for wanted in groups.values() {
        of_group(engine, set, wanted, (target, force), progress, &mut extracted)?;
    }
    Ok(extracted)
}

/// Those of `ranks` that have a variable that matches one of `patterns`, as [`extract`] understands them.
///
/// # Errors
/// `Usage` for ranks that the set does not have, and if there is none.
pub fn holders(set: &Set, ranks: &[usize], patterns: &[String]) -> Result<Vec<usize>> {
    let mut holders = Vec::new();
    for &rank in ranks {
        let described = set.manifest().ranks.get(rank).ok_or_else(|| no_rank(set, rank))?;
        if described.layout.layout.variables.iter().any(|variable| matches(patterns, &variable.path)) {
            holders.push(rank);
        }
    }
    if !holders.is_empty() {
        return Ok(holders);
    }
    let ranks = ranks.iter().filter_map(|&rank| set.manifest().ranks.get(rank));
    let mut names: Vec<&str> =
        ranks.flat_map(|rank| rank.layout.layout.variables.iter().map(|v| v.path.as_str())).collect();
    names.sort_unstable();
    names.dedup();
    let pattern = patterns.join("', '");
    let hint = match knarr_flow::settings::nearest(&pattern, names.into_iter(), 8) {
        near if near.is_empty() => "no variables are known of these files: restore them whole".to_owned(),
        near => format!("the set has: {near}"),
    };
    Err(Error::usage(format!("no variable matches '{pattern}'")).hint(hint).at(set.path().display().to_string()))
}

fn matches(patterns: &[String], path: &str) -> bool {
    let name = path.trim_start_matches('/');
    patterns.iter().any(|pattern| glob_matches(pattern, name) || glob_matches(pattern, path))
}

/// What is wanted of one rank.
struct Wanted<'a> {
    rank: usize,
    described: &'a RankFile,
    /// For each variable of its file.
    variables: Vec<bool>,
}

impl Wanted<'_> {
    fn has(&self, piece: usize) -> bool {
        let variable = self.described.layout.pieces.get(piece).and_then(|piece| piece.variable);
        variable.is_some_and(|variable| self.variables.get(variable) == Some(&true))
    }
}

/// Ranks of a group share frames, each of which is read once.
fn of_group(
    engine: &Engine,
    set: &Set,
    wanted: &[Wanted<'_>],
    (target, force): (&Path, bool),
    progress: &dyn Progress,
    extracted: &mut Extracted,
) -> Result<()> {
    // The pieces of a rank go where they lay in its file, most of which stays a hole.
    let mut scratch = BTreeMap::new();
    for one in wanted {
        let mut temporary = AtomicFile::create(&target.join(format!("rank-{}", one.rank)), true)?;
        temporary.limit_mode(set.file_mode())?;
        scratch.insert(one.rank, (one, temporary));
    }
    let is_wanted = |rank: usize, number: usize| scratch.get(&rank).is_some_and(|(one, ..)| one.has(number));
    let put = |rank: usize, offset: u64, bytes: &[u8]| {
        progress.advance(bytes.len() as u64);
        let Some((_, temporary)) = scratch.get(&rank) else { return Ok(()) };
        temporary.file().write_all_at(bytes, offset).map_err(|error| Error::write(target, &error))
    };
    let (read, mut damage) = fetch(engine, set, Proof::Hashes, is_wanted, put)?;
    extracted.read_bytes += read;
    for (rank, (one, pieces)) in &scratch {
        let damage = damage.remove(rank);
        of_rank(&engine.codecs, one, pieces.file(), damage.as_ref(), (target, force, set.file_mode()), extracted)?;
        extracted.damage.extend(damage);
    }
    Ok(())
}

/// Writes the wanted variables of a rank but for those that `damage` names.
fn of_rank(
    codecs: &CodecList,
    wanted: &Wanted<'_>,
    pieces: &File,
    damage: Option<&Damage>,
    (target, force, mode): (&Path, bool, u32),
    extracted: &mut Extracted,
) -> Result<()> {
    let described = wanted.described;
    let variables = described.layout.layout.variables.iter().zip(&wanted.variables);
    for (variable, _) in variables.filter(|(_, wanted)| **wanted) {
        if damage.is_some_and(|damage| damage.variables.contains(&variable.path)) {
            continue;
        }
        let done = file_name(&variable.path).and_then(|name| {
            let path = target.join(described.path()).join(name);
            make_parent(target, &path)?;
            let mut output = AtomicFile::create(&path, force)?;
            output.limit_mode(mode)?;
            write(codecs, variable, pieces, output.file(), &path)?;
            output.publish()?;
            Ok(path)
        });
        match done {
            Ok(path) => extracted.files.push((wanted.rank, variable.path.clone(), path)),
            Err(error) if matches!(error.kind(), ErrorKind::Write | ErrorKind::Exists) => return Err(error),
            Err(error) => extracted.damage.push(Damage {
                rank: described.number,
                name: described.display(),
                variables: vec![variable.path.clone()],
                error: error.at_variable(&variable.path),
            }),
        }
    }
    Ok(())
}

/// The path of a variable as that of a file. What files cannot have is written `%XX`; so is the dot of groups that are
/// called like the file of a variable.
fn file_name(path: &str) -> Result<PathBuf> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let mut out = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        let is_dots = part.bytes().all(|byte| byte == b'.');
        let dot = part.len().checked_sub(NPY.len()).filter(|_| !is_last && part.ends_with(NPY));
        let begin = out.len();
        for (at, byte) in part.bytes().enumerate() {
            if byte < 0x20 || byte == 0x7F || byte == b'%' || byte == b'\\' || is_dots || dot == Some(at) {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                out.push(byte);
            }
        }
        if is_last {
            out.extend_from_slice(NPY.as_bytes());
        }
        if out.len() - begin > LONGEST_NAME {
            return Err(Error::unsupported("its name is too long for a file")
                .hint("restore the whole file and read the variable from it"));
        }
        if !is_last {
            out.push(b'/');
        }
    }
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&out)))
}

/// What files of variables end with.
const NPY: &str = ".npy";
/// Bytes of a file name that file systems take (`NAME_MAX`).
const LONGEST_NAME: usize = 255;

/// Writes the elements of a variable, which lie in `pieces` as in the rank's file.
fn write(codecs: &CodecList, variable: &StoredVariable, pieces: &File, out: &File, path: &Path) -> Result<()> {
    let header = npy::header(variable.dtype, variable.endian, &variable.shape)?;
    out.write_all_at(&header, 0).map_err(|error| Error::write(path, &error))?;
    let (size, begin) = (variable.dtype.size() as u64, header.len() as u64);
    let incomplete = || {
        Error::unsupported("not all of its elements are stored in pieces that were written")
            .hint("restore the whole file and read the variable from it")
    };
    let chunk = variable.extents.first().ok_or_else(incomplete)?.shape.clone();
    let is_grid = chunk.len() == variable.shape.len()
        && volume(&variable.shape).is_some()
        && chunk_count(&variable.shape, &chunk) == variable.extents.len() as u64
        && variable.extents.iter().all(|extent| extent.shape == chunk);
    if !is_grid {
        return Err(incomplete());
    }
    let (mut stored, mut decoded) = (Vec::new(), Vec::new());
    if let [extent] = variable.extents.as_slice()
        && extent.filters.is_empty()
        && chunk[..] == variable.shape[..]
    {
        return copy(pieces, extent, out, begin, path);
    }
    for (number, extent) in variable.extents.iter().enumerate() {
        read(codecs, variable, extent, (pieces, path), &mut stored, &mut decoded)?;
        let position = chunk_position(&variable.shape, &chunk, number as u64);
        let region = chunk_region(&variable.shape, &chunk, &position);
        let origin = vec![0; chunk.len()];
        let (from, to) =
            (Placed { shape: &chunk, start: &origin }, Placed { shape: &variable.shape, start: &region.start });
        let mut written = Ok(());
        runs(from, to, &region.count, |from, to, run| {
            let bytes = usize::try_from(from * size).ok().zip(usize::try_from(run * size).ok());
            let run = bytes.and_then(|(from, run)| decoded.get(from..from + run)).unwrap_or_default();
            if written.is_ok() {
                written = out.write_all_at(run, begin + to * size);
            }
        });
        written.map_err(|error| Error::write(path, &error))?;
    }
    Ok(())
}

/// Copies the bytes of a variable that lies in one piece, which may be larger than memory.
fn copy(pieces: &File, extent: &Extent, out: &File, begin: u64, path: &Path) -> Result<()> {
    const BLOCK: u64 = 8 << 20;
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < extent.length {
        let length = BLOCK.min(extent.length - at);
        buffer.resize(usize::try_from(length).unwrap_or(0), 0);
        pieces.read_exact_at(&mut buffer, extent.offset + at).map_err(|error| Error::read(path, &error))?;
        out.write_all_at(&buffer, begin + at).map_err(|error| Error::write(path, &error))?;
        at += length;
    }
    Ok(())
}

/// The elements of one piece, its filters undone.
fn read(
    codecs: &CodecList,
    variable: &StoredVariable,
    extent: &Extent,
    (pieces, path): (&File, &Path),
    stored: &mut Vec<u8>,
    decoded: &mut Vec<u8>,
) -> Result<()> {
    let too_large = || Error::unsupported("a piece of it is larger than memory");
    stored.clear();
    stored.resize(usize::try_from(extent.length).map_err(|_| too_large())?, 0);
    pieces.read_exact_at(stored, extent.offset).map_err(|error| Error::read(path, &error))?;
    if extent.filters.is_empty() {
        std::mem::swap(stored, decoded);
        return Ok(());
    }
    let shape: Option<Vec<usize>> = extent.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let spec = ArraySpec {
        dtype: variable.dtype,
        endian: variable.endian,
        shape: shape.ok_or_else(too_large)?,
        fills: Vec::new(),
    };
    let chain = Chain::from_hdf5(codecs, &extent.filters, &spec).ok_or_else(|| {
        Error::unsupported("its HDF5 filters are not known here")
            .hint("restore the whole file and read the variable with the program that wrote it")
    })?;
    chain.decode(stored, &mut Scratch::default(), decoded)?;
    if decoded.len() != spec.byte_len() {
        return Err(Error::corrupt("a chunk decodes to another length than its elements have"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn variables_have_names_that_files_can_have() {
        for (path, name) in [
            ("/Grid1/rho", "Grid1/rho.npy"),
            ("T", "T.npy"),
            ("/../a", "%2E%2E/a.npy"),
            ("/a/./b", "a/%2E/b.npy"),
            ("/50%\n", "50%25%0A.npy"),
            ("/x.npy", "x.npy.npy"),
            ("/x.npy/y", "x%2Enpy/y.npy"),
        ] {
            assert_eq!(file_name(path).unwrap().to_str(), Some(name));
        }
        assert!(file_name(&"v".repeat(251)).is_ok());
        assert!(file_name(&"v".repeat(252)).is_err());
    }
}
