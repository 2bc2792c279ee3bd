//! Files whose ranks are on several nodes: what one node knows of what the others hold.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};

use super::HandedOver;
use crate::parts::NodePart;

/// Name of an empty file that says that the file is made, whatever has its name since.
pub(super) const DELIVERED: &str = "delivered";
/// What the names of empty files begin with that say, by its number, which part was removed before the file was made.
const FREED: &str = "freed.";
/// How often a note is removed that stays.
const FEW: usize = 3;

impl HandedOver {
    /// The same as a node sees it on which no part of it is. If it has no parts, all of it is in `whole`.
    pub fn elsewhere(self, whole: NodePart) -> Self {
        let parts = if self.parts.is_empty() { vec![whole] } else { self.parts };
        Self { part: parts.len(), parts, ..self }
    }

    /// The node that makes the file, if it is another one.
    pub fn maker(&self) -> Option<&NodePart> {
        self.parts.first().filter(|_| self.part > 0)
    }

    /// The header on the disk that the nodes share, if their ranks write it together: `token` is that of the spool of the first
    /// node, `file` the directory of the file there.
    pub fn shared_header(disk: &Path, token: &str, file: &str) -> PathBuf {
        disk.join(format!("header-{token}-{file}.nc"))
    }

    /// A file beside it by which the other nodes see that they share the disk, while the file is begun.
    pub fn shared_mark(disk: &Path, token: &str, file: &str) -> PathBuf {
        disk.join(format!("header-{token}-{file}.begin"))
    }

    /// True for names of what is needed only while ranks open a header that they share: marks, and files by which MPI-IO tries
    /// whether locks work. Ranks that are killed leave them.
    pub fn is_mark(name: &str) -> bool {
        let is_shared = name.starts_with("header-") || name.starts_with("shown-");
        is_shared && (name.ends_with(".begin") || name.contains(".nc.locktest."))
    }

    /// False if the ranks of several nodes share a header and it was never written: so the call that creates the file has returned
    /// nowhere. True if that cannot be seen.
    pub fn may_have_header(&self) -> bool {
        let Some(first) = self.parts.first() else { return true };
        if !self.shares_header || !self.rule.directory.is_dir() {
            return true;
        }
        Self::shared_header(&self.disk(), &first.token, &first.file).try_exists().unwrap_or(true)
    }

    /// The directory on the disk that the nodes share.
    pub fn disk(&self) -> PathBuf {
        self.rule.directory.join(".knarr")
    }

    /// A note there: the file of which a node holds part `part` is made.
    fn note_of(&self, part: usize) -> Option<PathBuf> {
        let first = self.parts.first()?;
        Some(self.disk().join(format!("made-{}-{}.{part}", first.token, first.file)))
    }

    /// Those for all other nodes than the first, but for those that are known to need none.
    fn notes(&self, directory: &Path) -> impl Iterator<Item = PathBuf> {
        let is_needed = |part: &usize| !directory.join(format!("{FREED}{part}")).exists();
        (1..self.parts.len()).filter(is_needed).filter_map(|part| self.note_of(part))
    }

    /// Notes in the directory of a file that waits in a tier that another node has removed its part: it is not looked for any more.
    pub fn note_freed(directory: &Path, part: usize) {
        // Without it, a note stays if the file is made by recovery.
        let _ = fs::write(directory.join(format!("{FREED}{part}")), b"");
    }

    /// Notes, in its directory and for all other nodes, that the file is made: the process that has made it may be gone before
    /// it removes the directory, and before they ask.
    pub fn note_made(&self, directory: &Path) {
        for note in self.notes(directory).chain([directory.join(DELIVERED)]) {
            // Without it, what is left has to be removed by hand if that happens.
            let _ = fs::write(note, b"");
        }
    }

    /// What was noted of an earlier attempt does not hold: the file is made once more.
    ///
    /// # Errors
    /// `Write` if a note stays.
    pub fn forget_made(&self, directory: &Path) -> Result<()> {
        let stays = self.notes(directory).chain([directory.join(DELIVERED)]).find(|note| take(note) && note.exists());
        stays.map_or(Ok(()), |note| {
            Err(Error::new(ErrorKind::Write, "what an earlier attempt to make the file has noted cannot be removed")
                .hint("remove it; 'knarr run --recover' makes the file then")
                .at(note.display().to_string()))
        })
    }

    /// True if the file was made of what lies in a directory. It may have been replaced since.
    pub fn was_made(directory: &Path) -> bool {
        directory.join(DELIVERED).exists()
    }

    /// Removes the notes for all other nodes: nothing of the file is left there.
    pub fn take_notes(&self) {
        (1..self.parts.len()).filter_map(|part| self.note_of(part)).for_each(|note| {
            take(&note);
        });
    }

    /// Removes the note for this part. True if there was one.
    pub fn take_note(&self) -> bool {
        self.note_of(self.part).is_some_and(|note| take(&note))
    }

    /// The part that is in this directory, if its ranks are on several nodes.
    pub fn own_part(&self) -> Option<&NodePart> {
        self.parts.get(self.part)
    }

    /// Bytes of the values in this directory, where each rank has put about as many.
    pub fn bytes_here(&self) -> u64 {
        self.own_part().map_or(self.bytes, |part| self.bytes / self.ranks.max(1) as u64 * part.ranks.len() as u64)
    }
}

/// Removes a note. True if there was one.
fn take(note: &Path) -> bool {
    for _ in 0..FEW {
        match fs::remove_file(note) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
            // Nobody else would remove it.
            Err(_) => {}
        }
    }
    note.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_from_headers() {
        let disk = Path::new("/disk");
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        let (header, mark) = (HandedOver::shared_header(disk, "a1", "7-0"), HandedOver::shared_mark(disk, "a1", "7-0"));
        let header = name(header);
        for mark in [name(mark), format!("{header}.locktest.12"), "shown-a1-7-0.nc.locktest.0".to_owned()] {
            assert!(HandedOver::is_mark(&mark), "{mark}");
        }
        for other in
            [header.as_str(), "shown-a1-7-0.nc", "made-a1-7-0.1", "learned.json", "my.begin", "x.nc.locktest.0"]
        {
            assert!(!HandedOver::is_mark(other), "{other}");
        }
    }

    #[test]
    fn a_note_that_cannot_be_removed_counts() {
        let top = std::env::temp_dir().join(format!("knarr-notes-{}", std::process::id()));
        // A directory is not removed as a file is.
        fs::create_dir_all(top.join("note")).unwrap();
        fs::write(top.join("other"), b"").unwrap();
        assert!(take(&top.join("note")) && take(&top.join("other")) && !take(&top.join("other")));
        fs::remove_dir_all(&top).unwrap();
    }
}
