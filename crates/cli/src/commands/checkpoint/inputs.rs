//! Which files are packed, and in which order: one per rank. And what lies beside them: links, directories, and what no
//! set can hold.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::pattern::Pattern;
use knarr_checkpoint::set::is_set;
use knarr_checkpoint::{Input, Tree, natural};
use knarr_watch::ranks::{Expected, missing};
use serde::Serialize;

/// What there is to pack.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The files of all ranks, in their order.
    pub(super) inputs: Vec<Input>,
    /// Links and directories below the directories that were named.
    pub(super) tree: Tree,
    /// What is no file, link or directory.
    pub(super) left_out: Vec<LeftOut>,
    /// Links to files; a pattern may mean them.
    linked: Vec<Input>,
}

/// Something that a set does not hold.
#[derive(Debug, Serialize)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) kind: &'static str,
}

/// Looks for what is to be packed. With a pattern only files whose names match it count; then `ranks` may say which ranks
/// there are, as the user wrote it.
///
/// # Errors
/// `Usage` for a pattern or ranks that make no sense, and for files that the pattern does not tell apart; `NotFound` if
/// ranks have no file; `Read`.
pub(super) fn find(names: &[String], pattern: Option<&str>, ranks: Option<&str>) -> Result<Found> {
    let at_pattern = |error: Error| error.at("--pattern");
    let parsed: Option<Pattern> = pattern.map(str::parse).transpose().map_err(at_pattern)?;
    let ranks: Option<Expected> = ranks.map(str::parse).transpose().map_err(|error: Error| error.at("--ranks"))?;
    if ranks.is_some() && !parsed.as_ref().is_some_and(Pattern::has_rank) {
        return Err(Error::usage("without a pattern the rank of a file is its place in the order of names")
            .hint("say with --pattern where names hold the rank, like restart_{rank}.h5")
            .at("--ranks"));
    }
    let mut found = Found::default();
    let paths = crate::arguments::inputs::expand(names)?;
    let files: Vec<&PathBuf> = paths.iter().filter(|path| !path.is_dir()).collect();
    let common = common_directory(&files);
    for path in &paths {
        if path.is_dir() {
            found.below(path, path)?;
        } else {
            found.inputs.push(input(path, &common)?);
        }
    }
    let Some(parsed) = parsed else {
        // Hidden files are the last: the others keep their places.
        found
            .inputs
            .sort_by(|a, b| is_hidden(&a.name).cmp(&is_hidden(&b.name)).then_with(|| natural(&a.name, &b.name)));
        (0..).zip(&mut found.inputs).for_each(|(place, input)| input.number = place);
        return Ok(found);
    };
    let Found { mut inputs, linked, .. } = found;
    inputs.extend(linked);
    let some = inputs.iter().take(3).map(|input| format!("'{}'", shown(input))).collect::<Vec<_>>().join(", ");
    let inputs = chosen(inputs, &parsed, ranks.as_ref())?;
    if inputs.is_empty() && !some.is_empty() {
        let pattern = pattern.unwrap_or_default();
        return Err(at_pattern(
            Error::usage(format!("no file matches '{pattern}'")).hint(format!("write it for names such as {some}")),
        ));
    }
    Ok(Found { inputs, ..Found::default() })
}

fn is_hidden(name: &[u8]) -> bool {
    name.split(|&byte| byte == b'/').any(|part| part.starts_with(b"."))
}

/// The inputs whose names say a rank, in the order of ranks, each with its number. All ranks must be there.
fn chosen(inputs: Vec<Input>, pattern: &Pattern, ranks: Option<&Expected>) -> Result<Vec<Input>> {
    let named = |input: Input| pattern.parse(&input.name).map(|named| (named, input));
    let mut found: Vec<_> = inputs.into_iter().filter_map(named).collect();
    found.sort_by(|(a, x), (b, y)| a.rank.cmp(&b.rank).then_with(|| natural(&x.name, &y.name)));
    if let Some([(_, one), (_, other)]) = found.array_windows().find(|[(a, _), (b, _)]| a.step != b.step) {
        return Err(Error::usage(format!("'{}' and '{}' are of different steps", shown(one), shown(other)))
            .hint("pack one step at a time: write its number in --pattern"));
    }
    let same = |pair: &&[(_, _); 2]| {
        let [(a, _), (b, _)]: &[(knarr_checkpoint::pattern::Named, Input); 2] = pair;
        pattern.has_rank() && a.rank == b.rank
    };
    if let Some([(_, one), (_, other)]) = found.array_windows().find(same) {
        return Err(Error::usage(format!("'{}' and '{}' are of the same rank", shown(one), shown(other)))
            .hint("make --pattern more exact"));
    }
    let numbers: Option<Vec<u64>> = found.iter().map(|(named, _)| named.rank).collect();
    if let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) {
        check_ranks(&numbers, ranks)?;
    }
    let numbered = |(place, (named, input)): (u64, (knarr_checkpoint::pattern::Named, Input))| Input {
        number: named.rank.unwrap_or(place),
        ..input
    };
    Ok((0..).zip(found).map(numbered).collect())
}

/// Refuses files of which some are missing. Without `expected` the ranks are those from 0 to the last one found.
fn check_ranks(numbers: &[u64], expected: Option<&Expected>) -> Result<()> {
    let last = numbers.last().copied().unwrap_or(0);
    let (gaps, foreign) = match expected {
        Some(expected) => (expected.missing(numbers), numbers.iter().find(|rank| !expected.has(**rank))),
        None => (missing(&(0..=last), numbers.iter()), None),
    };
    if let Some(rank) = foreign {
        return Err(Error::usage(format!("there is a file of rank {rank}, which --ranks does not name"))
            .hint("correct --ranks, or make --pattern more exact"));
    }
    if gaps.is_empty() {
        return Ok(());
    }
    let first = numbers.first().copied().unwrap_or(0);
    let hint = match expected {
        Some(_) => "see why these ranks did not write".to_owned(),
        None => format!(
            "see why these ranks did not write; if there are no such ranks, say which there are: --ranks {}",
            Expected::of(numbers).unwrap_or_else(|| format!("{first}-{last}"))
        ),
    };
    Err(Error::new(ErrorKind::NotFound, format!("there is no file of {gaps}")).hint(hint))
}

fn shown(input: &Input) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&input.name)
}

impl Found {
    /// Takes in all that lies below `directory`, with names relative to `root`. Sets are left out, and what Knarr itself
    /// has under hidden names.
    fn below(&mut self, root: &Path, directory: &Path) -> Result<()> {
        let read_error = |error: std::io::Error| Error::read(directory, &error);
        let entries = std::fs::read_dir(directory).map_err(read_error)?.collect::<Result<Vec<_>, _>>();
        let mut entries = entries.map_err(read_error)?;
        // Equal directories give equal sets.
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type().map_err(read_error)?);
            if is_own(entry.file_name().as_bytes()) {
                continue;
            }
            let found = input(&path, root)?;
            if kind.is_symlink() {
                let leads_to = std::fs::read_link(&path).map_err(|error| Error::read(&path, &error))?;
                self.tree.links.push((found.name.clone(), leads_to.as_os_str().as_bytes().to_vec()));
                if path.is_file() {
                    self.linked.push(found);
                }
            } else if kind.is_dir() && is_set(&path) {
                self.left_out.push(LeftOut { name: shown(&found).into_owned(), kind: "checkpoint set" });
            } else if kind.is_dir() {
                let mode = entry.metadata().map_err(|error| Error::read(&path, &error))?.permissions().mode();
                self.tree.directories.push((found.name, mode & 0o777));
                self.below(root, &path)?;
            } else if kind.is_file() {
                self.inputs.push(found);
            } else {
                let kind = if kind.is_fifo() {
                    "pipe"
                } else if kind.is_socket() {
                    "socket"
                } else {
                    "device"
                };
                self.left_out.push(LeftOut { name: shown(&found).into_owned(), kind });
            }
        }
        Ok(())
    }
}

/// What Knarr writes beside sets and files while it works, and what it measured.
fn is_own(name: &[u8]) -> bool {
    let hidden = name.strip_prefix(b".").unwrap_or_default();
    let holds = |word: &[u8]| hidden.windows(word.len()).any(|part| part == word);
    hidden.starts_with(b"knarr") || holds(b".knarr-") || holds(b".removed-")
}

fn input(path: &Path, root: &Path) -> Result<Input> {
    let name = path.strip_prefix(root).unwrap_or(path);
    let name = name.as_os_str().as_bytes().to_vec();
    if name.is_empty() {
        return Err(Error::usage(format!("'{}' has no name", path.display())));
    }
    Ok(Input { path: path.to_owned(), name, number: 0 })
}

/// The directory that all files lie below: names in the set are relative to it.
fn common_directory(files: &[&PathBuf]) -> PathBuf {
    let mut parents = files.iter().map(|path| path.parent().unwrap_or(Path::new("")));
    let mut common = parents.next().unwrap_or(Path::new("")).to_owned();
    for parent in parents {
        while !parent.starts_with(&common) && common.pop() {}
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_what_files_share() {
        let paths = ["/a/b/x", "/a/b/c/y", "/a/bb/z"].map(PathBuf::from);
        assert_eq!(common_directory(&paths.iter().collect::<Vec<_>>()), Path::new("/a"));
        assert_eq!(common_directory(&[&paths[0]]), Path::new("/a/b"));
        assert_eq!(common_directory(&[&PathBuf::from("x"), &PathBuf::from("d/y")]), Path::new(""));
    }

    #[test]
    fn patterns_say_rank_and_step() {
        let inputs = |names: &[&str]| -> Vec<Input> {
            let input = |name: &&str| Input { path: PathBuf::from(name), name: name.as_bytes().to_vec(), number: 0 };
            names.iter().map(input).collect()
        };
        let pattern = "r_{step}_{rank}".parse().unwrap();
        let ranks = |text: &str| Some(text.parse::<Expected>().unwrap());
        let chosen = |names: &[&str], ranks: Option<Expected>| chosen(inputs(names), &pattern, ranks.as_ref());
        let found = chosen(&["r_5_10", "r_5_9", "log"], ranks("9-10")).unwrap();
        let found: Vec<_> = found.iter().map(|input| (shown(input).into_owned(), input.number)).collect();
        assert_eq!(found, [("r_5_9".to_owned(), 9), ("r_5_10".to_owned(), 10)]);
        assert!(chosen(&["r_5_0", "r_6_1"], None).is_err());
        assert!(chosen(&["r_5_0", "r_5_00"], None).is_err());
        let said = |names: &[&str], ranks: Option<Expected>| chosen(names, ranks).unwrap_err().to_string();
        let gap = said(&["r_5_0", "r_5_1", "r_5_3"], None);
        assert!(gap.contains("no file of rank 2") && gap.contains("--ranks 0-1,3"), "{gap}");
        assert!(said(&["r_5_1", "r_5_2"], None).contains("no file of rank 0"));
        assert!(said(&["r_5_0", "r_5_1"], ranks("4")).contains("no file of ranks 2-3"));
        assert!(said(&["r_5_0", "r_5_4"], ranks("0,3")).contains("rank 4, which --ranks"));
    }

    #[test]
    fn what_knarr_writes_itself_is_known() {
        for own in [".knarr-costs.jsonl", ".knarr", ".set.knarr-12-0", ".a.h5.knarr-1-2.tmp", ".step_4.removed-3"] {
            assert!(is_own(own.as_bytes()), "{own}");
        }
        for other in [".hidden", "knarr", "x.knarr-1", ".nfs0001", "."] {
            assert!(!is_own(other.as_bytes()), "{other}");
        }
    }
}
