//! Which files of the program are handed over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knarr_capture::program::{Run, run};
use knarr_capture::{Event, Part, SpoolPlace};
use knarr_config::FileRule;

/// A file that a rule matches, and may want handed over.
pub struct Wanted {
    /// The run that the program belongs to.
    pub run: &'static Run,
    /// Where values go.
    pub spool: &'static SpoolPlace,
    /// The file, in the eyes of the program.
    pub target: PathBuf,
    /// What is to become of it.
    pub rule: FileRule,
    /// What the program does with it, if it is transferred between components.
    pub part: Option<Part>,
}

impl Wanted {
    /// True if there is the file, or what was made in place of it, or may be in a bucket.
    pub fn is_there(&self) -> bool {
        let may_be_in_bucket = self.rule.compress().output().url().is_some();
        self.target.exists() || self.rule.made_of(&self.target).exists() || may_be_in_bucket
    }

    /// True if values of the file are handed over.
    pub fn is_captured(&self) -> bool {
        self.rule.route().traits().is_handed_over || self.part.is_some()
    }

    /// Tells the launcher why the file is left to the library.
    pub fn passed(&self, why: String) {
        self.run.notify(Event::Passed { path: self.target.clone(), why });
    }
}

/// What the program's file of this name is to become, if anything.
pub fn wanted(named: &[u8]) -> Option<Wanted> {
    wanted_to(named, None)
}

/// As [`wanted`]. Rules may say of the same files that components transfer them in either direction: one counts in which this
/// component does what it `does`, if there is one.
pub fn wanted_to(named: &[u8], does: Option<Part>) -> Option<Wanted> {
    matched(named, does).filter(Wanted::is_captured)
}

/// False if no rule can match a file of this name, unless it is a link. If the rules were read before, this asks for no memory.
pub(crate) fn may_be_wanted(named: &[u8]) -> bool {
    let last = named.rsplit(|byte| *byte == b'/').next().and_then(|last| std::str::from_utf8(last).ok());
    // Others are looked at more closely.
    run().is_some_and(|run| last.is_none_or(|last| run.rules().may_concern(last)))
}

/// The program's file of this name, if a rule matches it, whatever its route.
pub fn matched(named: &[u8], does: Option<Part>) -> Option<Wanted> {
    let run = run()?;
    let spool = run.rules().spool.as_ref()?;
    let named = Path::new(OsStr::from_bytes(without_file_system(named)));
    let may_concern = named.file_name().is_some_and(|last| run.rules().may_concern(&last.to_string_lossy()));
    if !may_concern && !named.is_symlink() {
        return None;
    }
    let absolute = std::path::absolute(named).ok()?;
    let target = std::fs::canonicalize(&absolute).unwrap_or_else(|_| in_directory(absolute));
    let rule = run.rules().rule_to(&target, does)?;
    let part = run.rules().part(rule);
    Some(Wanted { run, spool, rule: rule.clone(), target, part })
}

/// What MPI-IO calls file systems before a colon: `lustre:/out/hist.nc` (ROMIO, `ad_fstype.c`; `strip_fstype` of PnetCDF).
const FILE_SYSTEMS: [&[u8]; 11] =
    [b"ufs", b"nfs", b"xfs", b"pvfs2", b"gpfs", b"panfs", b"lustre", b"daos", b"ime", b"testfs", b"quobyte"];

/// A name without the file system that MPI-IO knows. Others have a colon, too: `wrfout_2001-01-01_00:00:00`.
fn without_file_system(named: &[u8]) -> &[u8] {
    let parts =
        named.iter().position(|&byte| byte == b':').and_then(|at| Some((named.get(..at)?, named.get(at + 1..)?)));
    parts.filter(|(first, _)| FILE_SYSTEMS.contains(first)).map_or(named, |(_, path)| path)
}

/// Links that lead to links, at most, as for the system.
const MOST_LINKS: usize = 40;

/// The path of a file that is not there, without links to its directory. A link that leads to no file is followed: that is made.
fn in_directory(path: PathBuf) -> PathBuf {
    let mut path = path;
    for _ in 0..MOST_LINKS {
        let found = path.parent().and_then(|parent| std::fs::canonicalize(parent).ok()).zip(path.file_name());
        path = found.map(|(parent, name)| parent.join(name)).unwrap_or(path);
        match (std::fs::read_link(&path), path.parent()) {
            (Ok(to), Some(parent)) => path = parent.join(to),
            _ => break,
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_are_no_part_of_a_name() {
        for (named, path) in [
            ("lustre:/out/hist.nc", "/out/hist.nc"),
            ("ufs:hist.nc", "hist.nc"),
            ("wrfout_d01_2001-01-01_00:00:00.nc", "wrfout_d01_2001-01-01_00:00:00.nc"),
            ("out/a:b.nc", "out/a:b.nc"),
            (":hist.nc", ":hist.nc"),
            ("hist.nc", "hist.nc"),
        ] {
            assert_eq!(without_file_system(named.as_bytes()), path.as_bytes());
        }
    }

    #[test]
    fn a_link_that_leads_to_no_file_is_followed() {
        let top = std::env::temp_dir().join(format!("knarr-dangling-{}", std::process::id()));
        std::fs::create_dir_all(top.join("real")).unwrap();
        let top = std::fs::canonicalize(top).unwrap();
        std::os::unix::fs::symlink("b.nc", top.join("a.nc")).unwrap();
        std::os::unix::fs::symlink("real/target.nc", top.join("b.nc")).unwrap();
        std::os::unix::fs::symlink("c.nc", top.join("c.nc")).unwrap();
        for (named, path) in [("a.nc", "real/target.nc"), ("none.nc", "none.nc"), ("c.nc", "c.nc")] {
            assert_eq!(in_directory(top.join(named)), top.join(path));
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
