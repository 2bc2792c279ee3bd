//! Which files of the program are handed over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knarr_capture::config::{FileRule, Output};
use knarr_capture::program::{Run, run};
use knarr_capture::{Part, SpoolPlace};

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
    pub(crate) fn is_there(&self) -> bool {
        let may_be_in_bucket = matches!(self.rule.compress.output(), Output::S3(_));
        self.target.exists() || self.rule.made_of(&self.target).exists() || may_be_in_bucket
    }

    /// True if values of the file are handed over.
    pub fn is_captured(&self) -> bool {
        self.rule.route.traits().is_handed_over || self.part.is_some()
    }
}

/// What the program's file of this name is to become, if anything.
pub fn wanted(named: &[u8]) -> Option<Wanted> {
    wanted_to(named, None)
}

/// As [`wanted`]. Rules may say of the same files that components transfer them in either direction: one counts in which this
/// component does what it `does`, if there is one.
pub(crate) fn wanted_to(named: &[u8], does: Option<Part>) -> Option<Wanted> {
    matched(named, does).filter(Wanted::is_captured)
}

/// The program's file of this name, if a rule matches it, whatever its route.
pub fn matched(named: &[u8], does: Option<Part>) -> Option<Wanted> {
    let run = run()?;
    let spool = run.rules().spool.as_ref()?;
    // MPI-IO knows file systems by what stands before a colon: `lustre:/out/hist.nc`.
    let prefix = named.iter().position(|&byte| byte == b':').filter(|&at| at > 0 && !named[..at].contains(&b'/'));
    let named = Path::new(OsStr::from_bytes(prefix.map_or(named, |at| &named[at + 1..])));
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

/// The path of a file that is not there, without links to its directory.
fn in_directory(path: PathBuf) -> PathBuf {
    let found = path.parent().and_then(|parent| std::fs::canonicalize(parent).ok()).zip(path.file_name());
    found.map(|(parent, name)| parent.join(name)).unwrap_or(path)
}
