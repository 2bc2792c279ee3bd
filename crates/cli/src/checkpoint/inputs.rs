//! Which files are packed, and in which order: one per rank.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knarr_core::checkpoint::pattern::Pattern;
use knarr_core::checkpoint::set::is_set;
use knarr_core::checkpoint::{Input, natural};
use knarr_core::error::{Error, Result};

/// The files of all ranks, in their order.
pub(super) fn find(names: &[String], pattern: Option<&str>) -> Result<Vec<Input>> {
    let at_pattern = |error: Error| error.at("--pattern");
    let parsed: Option<Pattern> = pattern.map(str::parse).transpose().map_err(at_pattern)?;
    let mut inputs = Vec::new();
    let paths = crate::inputs::expand(names)?;
    let files: Vec<&PathBuf> = paths.iter().filter(|path| !path.is_dir()).collect();
    let common = common_directory(&files);
    for path in &paths {
        if path.is_dir() {
            below(path, path, &mut inputs)?;
        } else {
            inputs.push(input(path, &common)?);
        }
    }
    let Some(parsed) = parsed else {
        inputs.sort_by(|a, b| natural(&a.name, &b.name));
        return Ok(inputs);
    };
    let some = inputs.iter().take(3).map(|input| format!("'{}'", shown(input))).collect::<Vec<_>>().join(", ");
    let found = chosen(inputs, &parsed)?;
    if found.is_empty() && !some.is_empty() {
        let pattern = pattern.unwrap_or_default();
        return Err(at_pattern(
            Error::usage(format!("no file matches '{pattern}'")).mend(format!("write it for names such as {some}")),
        ));
    }
    Ok(found)
}

/// The inputs whose names say a rank, in the order of ranks.
fn chosen(inputs: Vec<Input>, pattern: &Pattern) -> Result<Vec<Input>> {
    let named = |input: Input| pattern.parse(&input.name).map(|named| (named, input));
    let mut found: Vec<_> = inputs.into_iter().filter_map(named).collect();
    found.sort_by(|(a, x), (b, y)| a.rank.cmp(&b.rank).then_with(|| natural(&x.name, &y.name)));
    if let Some([(_, one), (_, other)]) = found.array_windows().find(|[(a, _), (b, _)]| a.step != b.step) {
        return Err(Error::usage(format!("'{}' and '{}' are of different steps", shown(one), shown(other)))
            .mend("pack one step at a time: write its number in --pattern"));
    }
    let same = |pair: &&[(_, _); 2]| {
        let [(a, _), (b, _)]: &[(knarr_core::checkpoint::pattern::Named, Input); 2] = pair;
        pattern.has_rank() && a.rank == b.rank
    };
    if let Some([(_, one), (_, other)]) = found.array_windows().find(same) {
        return Err(Error::usage(format!("'{}' and '{}' are of the same rank", shown(one), shown(other)))
            .mend("make --pattern more exact"));
    }
    Ok(found.into_iter().map(|(_, input)| input).collect())
}

fn shown(input: &Input) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&input.name)
}

/// All regular files below `directory`, named relative to `root`. Links, hidden files and sets do not count.
fn below(root: &Path, directory: &Path, inputs: &mut Vec<Input>) -> Result<()> {
    if is_set(directory) {
        return Ok(());
    }
    let read_error = |error: std::io::Error| Error::read(directory, &error);
    for entry in std::fs::read_dir(directory).map_err(read_error)? {
        let entry = entry.map_err(read_error)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(read_error)?);
        if entry.file_name().as_bytes().starts_with(b".") {
            continue;
        }
        if kind.is_dir() {
            below(root, &path, inputs)?;
        } else if kind.is_file() {
            inputs.push(input(&path, root)?);
        }
    }
    Ok(())
}

fn input(path: &Path, root: &Path) -> Result<Input> {
    let name = path.strip_prefix(root).unwrap_or(path);
    let name = name.as_os_str().as_bytes().to_vec();
    if name.is_empty() {
        return Err(Error::usage(format!("'{}' has no name", path.display())));
    }
    Ok(Input { path: path.to_owned(), name })
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
            names.iter().map(|name| Input { path: PathBuf::from(name), name: name.as_bytes().to_vec() }).collect()
        };
        let pattern = "r_{step}_{rank}".parse().unwrap();
        let found = chosen(inputs(&["r_5_10", "r_5_9", "log"]), &pattern).unwrap();
        assert_eq!(found, inputs(&["r_5_9", "r_5_10"]));
        assert!(chosen(inputs(&["r_5_10", "r_6_9"]), &pattern).is_err());
        assert!(chosen(inputs(&["r_5_1", "r_5_01"]), &pattern).is_err());
    }
}
