//! What a set holds beside the content of files: links, directories, and what each file was like.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::disk::parents::make_parent;
use crate::files::attributes::PERMISSIONS;
use crate::files::names;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::wire::{Reader, put_bytes, put_number};
use knarr_flow::output::Replaces;

/// What a link leads to is not longer than this.
const LONGEST_TARGET: usize = 4095;

/// Links and directories below the directory that was packed. All names are paths below that of a restore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tree {
    /// Symbolic links, each with what it leads to, which is never followed.
    pub links: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directories with their permission bits, parents before what is in them.
    pub directories: Vec<(Vec<u8>, u32)>,
}

impl Tree {
    /// True if there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.directories.is_empty()
    }

    /// Permission bits for reading that one of the directories takes from those who may not enter it.
    pub(crate) fn lacked(&self) -> u32 {
        let all = self.directories.iter().fold(0, |lacked, (_, mode)| lacked | !mode);
        (all & 0o011) << 2
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_number(out, self.links.len() as u64);
        for (name, target) in &self.links {
            put_bytes(out, name);
            put_bytes(out, target);
        }
        put_number(out, self.directories.len() as u64);
        for (name, mode) in &self.directories {
            put_bytes(out, name);
            put_number(out, u64::from(*mode));
        }
    }

    /// Reads what [`Tree::write`] wrote, which is hostile.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let mut tree = Self::default();
        for _ in 0..reader.number()? {
            tree.links.push((reader.bytes()?.to_vec(), reader.bytes()?.to_vec()));
        }
        for _ in 0..reader.number()? {
            let name = reader.bytes()?.to_vec();
            let mode = u32::try_from(reader.number()?).ok().filter(|mode| *mode <= PERMISSIONS);
            tree.directories.push((name, mode.ok_or_else(|| reader.impossible("mode of a directory"))?));
        }
        Ok(tree)
    }

    /// Checks that names stay below the directory of a restore, are there once, and that nothing lies below a link.
    /// `files` are the names of all files.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn check<'a>(&'a self, files: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        let links = || self.links.iter().map(|(name, _)| name.as_slice());
        let directories = || self.directories.iter().map(|(name, _)| name.as_slice());
        for name in links().chain(directories()) {
            names::check(name)?;
        }
        let is_target = |target: &[u8]| (1..=LONGEST_TARGET).contains(&target.len()) && !target.contains(&0);
        if let Some((name, _)) = self.links.iter().find(|(_, target)| !is_target(target)) {
            return Err(Error::corrupt(format!("the link '{}' leads to no path", name.escape_ascii())));
        }
        let is_link: HashSet<&[u8]> = links().collect();
        let mut seen = HashSet::new();
        for name in files.chain(links()).chain(directories()) {
            if !seen.insert(name) {
                return Err(Error::corrupt(format!("'{}' is there twice", name.escape_ascii())));
            }
            let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            if slashes.into_iter().any(|at| is_link.contains(name.get(..at).unwrap_or_default())) {
                return Err(Error::corrupt(format!("'{}' lies below a link", name.escape_ascii()))
                    .hint("the set is damaged or forged: restore it from a copy"));
            }
        }
        Ok(())
    }

    /// Makes the directories below `target` that are not there. They get their permissions at the end, when all is in
    /// them.
    ///
    /// # Errors
    /// `Write` if one cannot be made, or a link leads out of `target`; `Exists` for a link that is there, unless `force`.
    pub fn begin<'a>(&'a self, target: &'a Path, force: bool) -> Result<Growing<'a>> {
        for (name, _) in &self.links {
            Replaces::from(force).check(&below(target, name))?;
        }
        let mut growing = Growing { tree: self, target, force, made: Vec::new(), is_done: false };
        fs::create_dir_all(target).map_err(|error| Error::write(target, &error))?;
        for (name, mode) in &self.directories {
            let path = below(target, name);
            make_parent(target, &path)?;
            match fs::DirBuilder::new().mode(mode & PERMISSIONS | 0o700).create(&path) {
                Ok(()) => growing.made.push((path, mode & PERMISSIONS)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::write(&path, &error)),
            }
        }
        Ok(growing)
    }
}

/// A tree that is being made again. Dropped before [`Growing::finish`], directories that it made and that are empty go.
pub struct Growing<'a> {
    tree: &'a Tree,
    target: &'a Path,
    force: bool,
    /// Directories that were made, with the permissions they get, parents first.
    made: Vec<(PathBuf, u32)>,
    is_done: bool,
}

impl Growing<'_> {
    /// Makes the links, when all files are there: so nothing is written through one. Then gives directories their
    /// permissions.
    ///
    /// # Errors
    /// `Write`; `Exists` if something came in the way.
    pub fn finish(mut self) -> Result<()> {
        for (name, leads_to) in &self.tree.links {
            let path = below(self.target, name);
            make_parent(self.target, &path)?;
            self.link(&path, Path::new(std::ffi::OsStr::from_bytes(leads_to)))?;
        }
        for (path, mode) in self.made.iter().rev() {
            fs::set_permissions(path, Permissions::from_mode(*mode)).map_err(|error| Error::write(path, &error))?;
        }
        self.is_done = true;
        Ok(())
    }

    fn link(&self, path: &Path, leads_to: &Path) -> Result<()> {
        let write_error = |error: std::io::Error| Error::write(path, &error);
        let Ok(there) = path.symlink_metadata() else { return symlink(leads_to, path).map_err(write_error) };
        Replaces::from(self.force).check(path)?;
        if there.is_dir() {
            return Err(Error::new(ErrorKind::Exists, "a directory has the name of a link of the set")
                .hint("restore into an empty directory")
                .at(path.display().to_string()));
        }
        fs::remove_file(path).and_then(|()| symlink(leads_to, path)).map_err(write_error)
    }
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            // What holds something stays.
            self.made.iter().rev().for_each(|(path, _)| drop(fs::remove_dir(path)));
        }
    }
}

fn below(target: &Path, name: &[u8]) -> PathBuf {
    target.join(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(links: &[(&str, &str)], directories: &[&str]) -> Tree {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Tree {
            links: links.iter().map(|(name, target)| (bytes(name), bytes(target))).collect(),
            directories: directories.iter().map(|name| (bytes(name), 0o750)).collect(),
        }
    }

    fn check(tree: &Tree, files: &[&str]) -> Result<()> {
        tree.check(files.iter().map(|name| name.as_bytes()))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let tree = tree(&[("a", "/etc/passwd"), ("b/c", "../..")], &["b", "d/e"]);
        let mut bytes = Vec::new();
        tree.write(&mut bytes);
        let mut reader = Reader::new("tree", &bytes);
        assert_eq!(Tree::read(&mut reader).unwrap(), tree);
        assert_eq!(reader.left(), 0);
        check(&tree, &["b/x", "y"]).unwrap();
        assert_eq!(tree.lacked(), 0o004);
    }

    #[test]
    fn nothing_lies_below_a_link_or_outside() {
        for (bad, files) in [
            (tree(&[("a", "/tmp")], &[]), &["a/b"][..]),
            (tree(&[("a", "/tmp")], &["a/d"]), &[]),
            (tree(&[("a", "x"), ("a/b", "x")], &[]), &[]),
            (tree(&[("a", "x")], &[]), &["a"]),
            (tree(&[("../a", "x")], &[]), &[]),
            (tree(&[("/a", "x")], &[]), &[]),
            (tree(&[("a", "")], &[]), &[]),
            (tree(&[], &["a", "a"]), &[]),
            (tree(&[], &[".."]), &[]),
        ] {
            assert_eq!(check(&bad, files).unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
        }
    }
}
