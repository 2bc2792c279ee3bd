//! A file whose values a program has handed over in memory, and that is to be made of them.
//!
//! The ranks of a program share one directory for each such file, in the spool of the run. The program's own library wrote
//! the header there; each rank has a file of values and a log of its puts (`knarr_handover::PutLog`). One rank writes what is
//! in this module: when the file is created, under a name that says that it is open, and when all ranks have closed it, under
//! the name by which the launcher delivers it. A file that stays open, because its program was killed, holds what was put
//! until then; a file is made of it only if the user asks for that.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::ALIVE;
use crate::config::{FileRule, Keep, Route};
use crate::document::{get, put};
use crate::message::path_bytes;
use crate::parts::NodePart;
use crate::snapshot::free_of;
use knarr_array::error::{Error, Result};

/// How far a component is with a file that is transferred to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It has opened it.
    Begun,
    /// It has all it wants of it.
    Done,
}

impl Reading {
    fn name(self, component: &str) -> String {
        let name = match self {
            Self::Begun => "reading",
            Self::Done => "taken",
        };
        format!("{name}.{component}")
    }
}

/// What of a file that is open readers may see already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Puts of later collective calls are not to be seen.
    pub order: u64,
    /// Records along the unlimited dimension.
    pub records: u64,
}

impl Published {
    const NAME: &'static str = "published.json";

    /// Writes it into the directory of the file.
    ///
    /// # Errors
    /// `Write`.
    pub fn save(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// Reads that of a directory; `None` if nothing may be seen yet.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        get(directory, Self::NAME)
    }
}

/// What is to become of the values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandedOver {
    /// The file that the program has written, in its eyes.
    #[serde(with = "path_bytes")]
    pub target: PathBuf,
    /// What was asked for.
    pub rule: FileRule,
    /// Number of ranks: each has its values and its log. 0 for a whole classic file, [`Shown::CLASSIC`](crate::Shown::CLASSIC).
    pub ranks: usize,
    /// Records along the unlimited dimension; `None` as long as the file is open.
    pub records: Option<u64>,
    /// Bytes of all values.
    pub bytes: u64,
    /// The longest time that one of the ranks spent in calls that hand values over, and to open and close the file. Seconds.
    pub blocked_s: f64,
    /// Of a transfer: how often the program has created the file until now, this time included; else 0.
    pub session: u64,
    /// Of a transfer: numbers of the variables that have fill values where nothing was put.
    pub filled: Vec<i32>,
    /// The program asked for a file that was not there before.
    #[serde(default)]
    pub is_new: bool,
    /// What [`identity`] said of the file when the program created it anew, if there was one.
    #[serde(default)]
    pub replaced: Option<(u64, u64, i64)>,
    /// If its ranks are on several nodes, what each of them holds; the first one makes the file. Else nothing.
    #[serde(default)]
    pub parts: Vec<NodePart>,
    /// Number of the part that is in this directory.
    #[serde(default)]
    pub part: usize,
}

/// Device, number and time of the last change, in nanoseconds, of a regular file: whether it is still the same.
pub fn identity(path: &Path) -> Option<(u64, u64, i64)> {
    let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((found.dev(), found.ino(), found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec())))
}

impl HandedOver {
    /// Name of the file with all this, as JSON.
    pub const NAME: &'static str = "handed-over.json";
    /// Its name as long as the program has the file open.
    const OPEN: &'static str = "open.json";
    /// Its name when delivery has failed, and nobody waits for the file any more.
    const SET_ASIDE: &'static str = "set-aside.json";
    /// Names of files that make a directory one in which something is handed over.
    pub const RECORDS: [&'static str; 3] = [Self::NAME, Self::SET_ASIDE, Self::OPEN];
    /// Name of the header: a classic netCDF file without values, or an HDF5 file whose datasets have none if there are
    /// [`Datasets`], too.
    pub const HEADER: &'static str = "header.nc";

    /// Name of the header as components that read the file see it: that of the last time when definitions ended.
    pub const PUBLISHED: &'static str = "published.nc";

    /// Name of the values of a rank.
    pub fn values(rank: usize) -> String {
        format!("values.{rank}")
    }

    /// Name of the log of a rank.
    pub fn log(rank: usize) -> String {
        format!("log.{rank}")
    }

    /// A file that `ranks` ranks begin.
    pub fn new(target: PathBuf, rule: FileRule, ranks: usize) -> Self {
        let (records, filled, parts) = (None, Vec::new(), Vec::new());
        let (bytes, blocked_s, session, is_new, replaced, part) = (0, 0.0, 0, false, None, 0);
        Self { target, rule, ranks, records, bytes, blocked_s, session, filled, is_new, replaced, parts, part }
    }

    /// The same as a node sees it on which no part of it is. If it has no parts, all of it is in `whole`.
    pub fn elsewhere(self, whole: NodePart) -> Self {
        let parts = if self.parts.is_empty() { vec![whole] } else { self.parts };
        Self { part: parts.len(), parts, ..self }
    }

    /// The token of the spool, and the name in it, by which all nodes know what lies in `directory`.
    ///
    /// # Errors
    /// `Read` if the spool is gone.
    pub fn origin(&self, directory: &Path) -> Result<(String, String)> {
        if let Some(first) = self.parts.first() {
            return Ok((first.token.clone(), first.file.clone()));
        }
        let alive = directory.with_file_name(ALIVE);
        let token = fs::read_to_string(&alive).map_err(|error| Error::read(&alive, &error))?;
        Ok((token, directory.file_name().unwrap_or_default().to_string_lossy().into_owned()))
    }

    /// The node that makes the file, if it is another one.
    pub fn maker(&self) -> Option<&NodePart> {
        self.parts.first().filter(|_| self.part > 0)
    }

    /// The part that is in this directory, if its ranks are on several nodes.
    pub fn own_part(&self) -> Option<&NodePart> {
        self.parts.get(self.part)
    }

    /// Bytes of the values in this directory, where each rank has put about as many.
    pub fn bytes_here(&self) -> u64 {
        self.own_part().map_or(self.bytes, |part| self.bytes / self.ranks.max(1) as u64 * part.ranks.len() as u64)
    }

    /// Bytes of the values in a spool that could not be delivered.
    pub fn bytes_set_aside(spool: &Path) -> u64 {
        let set_aside = Self::all(spool, &[Self::SET_ASIDE]).into_iter().filter_map(|(_, handed)| handed.ok());
        set_aside.map(|handed| handed.bytes_here()).sum()
    }

    /// True if a file may have to be made of it.
    pub fn may_be_kept(&self) -> bool {
        self.rule.route != Route::Transfer || self.rule.transfer.keep() != Keep::No
    }

    /// Notes in the directory of a transfer how far a component is with reading it.
    ///
    /// # Errors
    /// `Write`.
    pub fn note(directory: &Path, component: &str, reading: Reading) -> Result<()> {
        let path = directory.join(reading.name(component));
        fs::write(&path, b"").map_err(|error| Error::write(&path, &error))
    }

    /// True if a component has come so far with the transfer in the directory.
    pub fn is_noted(directory: &Path, component: &str, reading: Reading) -> bool {
        directory.join(reading.name(component)).exists()
    }

    /// True if the header of the transfer in the directory can be read, and a component has not taken its values.
    pub fn is_unread(directory: &Path, component: &str) -> bool {
        // In this order: a directory that is discarded loses its header before its notes.
        !Self::is_noted(directory, component, Reading::Done) && directory.join(Self::PUBLISHED).exists()
    }

    /// True if the writer has closed the file: all of its values are there.
    pub fn is_closed(directory: &Path) -> bool {
        directory.join(Self::NAME).exists()
    }

    /// Writes it into the directory: from then on the file is handed over.
    ///
    /// # Errors
    /// `Write`.
    pub fn save(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)?;
        // It counts less than the other name.
        let _ = fs::remove_file(directory.join(Self::OPEN));
        Ok(())
    }

    /// Writes it into the directory of a file that the program begins.
    ///
    /// # Errors
    /// `Write`.
    pub fn begin(&self, directory: &Path) -> Result<()> {
        put(directory, Self::OPEN, self)
    }

    /// Reads that of a directory; `None` if the file there is not complete.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        get(directory, Self::NAME)
    }

    /// That of a directory, whether the file there is complete or not; `None` if nothing is known of it.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn find(directory: &Path) -> Result<Option<Self>> {
        // The file may be closed at this moment.
        for name in [Self::NAME, Self::OPEN, Self::NAME] {
            if let Some(found) = get(directory, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// That of a directory, whatever became of it; `None` if it cannot be read.
    pub fn left_in(directory: &Path) -> Option<Self> {
        Self::RECORDS.iter().find_map(|name| get(directory, name).ok().flatten())
    }

    /// When what is in a directory was closed, or begun if it was not.
    pub fn since(directory: &Path) -> Option<SystemTime> {
        Self::RECORDS.iter().find_map(|name| fs::metadata(directory.join(name)).and_then(|found| found.modified()).ok())
    }

    /// Has what was closed and set aside delivered once more.
    ///
    /// # Errors
    /// `Write`.
    pub fn hand_over_again(directory: &Path) -> Result<()> {
        let renamed = fs::rename(directory.join(Self::SET_ASIDE), directory.join(Self::NAME));
        renamed.map_err(|error| Error::write(directory, &error))
    }

    /// Notes that delivery has failed: the values stay, and nobody waits for the file.
    ///
    /// # Errors
    /// `Write`.
    pub fn set_aside(directory: &Path) -> Result<()> {
        let name = if directory.join(Self::NAME).exists() { Self::NAME } else { Self::OPEN };
        let renamed = fs::rename(directory.join(name), directory.join(Self::SET_ASIDE));
        renamed.map_err(|error| Error::write(directory, &error))
    }

    /// True if delivery has failed.
    pub fn is_set_aside(directory: &Path) -> bool {
        directory.join(Self::SET_ASIDE).exists()
    }

    /// Takes out of the spool what was delivered. Values leave their memory to files that come; what cannot be removed goes
    /// with the spool.
    pub fn remove(&self, directory: &Path) {
        for name in Self::RECORDS {
            let _ = fs::remove_file(directory.join(name));
        }
        let free = directory.parent().map(free_of).unwrap_or_default();
        for rank in 0..self.ranks {
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{rank}"));
            let _ = fs::rename(directory.join(Self::values(rank)), free.join(name));
        }
        Self::discard(directory);
    }

    /// Removes the directory of a file, with what lies on a disk because memory was short. Nobody takes it for
    /// [unread](HandedOver::is_unread) meanwhile.
    pub fn discard(directory: &Path) {
        let _ = fs::remove_file(directory.join(Self::PUBLISHED));
        let links = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        for more in links.filter_map(|path| fs::read_link(path).ok()) {
            let _ = fs::remove_file(more);
        }
        let _ = fs::remove_dir_all(directory);
    }

    /// As [`HandedOver::left`], but for transfers of which no file is kept.
    pub fn to_be_made(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        let mut left = Self::left(spool);
        left.retain(|(_, handed)| handed.as_ref().map_or(true, Self::may_be_kept));
        left
    }

    /// All that is handed over in a spool and not set aside, with its directory, in the order of the names of the
    /// directories. What cannot be read is an error of its own.
    pub fn pending(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        Self::all(spool, &[Self::NAME])
    }

    /// What the program has not closed, in the same way.
    pub fn open(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        Self::all(spool, &[Self::OPEN])
    }

    /// As [`HandedOver::pending`], with what was set aside and what was not closed.
    pub fn left(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        Self::all(spool, &Self::RECORDS)
    }

    fn all(spool: &Path, names: &[&str]) -> Vec<(PathBuf, Result<Self>)> {
        let entries = fs::read_dir(spool).into_iter().flatten().flatten();
        let mut directories: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        directories.sort();
        let read = |directory: PathBuf| {
            let found = names.iter().find_map(|name| get(&directory, name).transpose())?;
            Some((directory, found))
        };
        directories.into_iter().filter_map(read).collect()
    }
}

/// The datasets of a header that is an HDF5 file. A put says which one it is for by a number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Datasets {
    /// Address in the header of each; `None` for one that was removed.
    pub addresses: Vec<Option<u64>>,
}

impl Datasets {
    const NAME: &'static str = "datasets.json";

    /// Writes them into the directory of a file.
    ///
    /// # Errors
    /// `Write`.
    pub fn save(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// Reads those of a directory; `None` if its header is no HDF5 file.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        get(directory, Self::NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn what_is_handed_over_comes_back_and_the_rest_is_not_seen() {
        let spool = std::env::temp_dir().join(format!("knarr-handed-over-{}", std::process::id()));
        for name in ["a", "b", "c"] {
            fs::create_dir_all(spool.join(name)).unwrap();
        }
        let rule = Config::parse("[[file]]\npattern = \"*\"\ngoal = \"ratio\"\n").unwrap().file.remove(0);
        let target = PathBuf::from("/out/hist 1.nc");
        let handed = HandedOver {
            records: Some(12),
            bytes: 1 << 40,
            blocked_s: 0.25,
            session: 2,
            filled: vec![1],
            ..HandedOver::new(target, rule, 4)
        };
        handed.save(&spool.join("b")).unwrap();
        fs::write(spool.join("c").join(HandedOver::NAME), "{").unwrap();
        let mut all = HandedOver::pending(&spool).into_iter();
        let (directory, read) = all.next().unwrap();
        assert_eq!((directory, read.unwrap()), (spool.join("b"), handed));
        assert!(all.next().unwrap().1.is_err() && all.next().is_none());
        assert!(!HandedOver::is_noted(&spool.join("b"), "x", Reading::Begun));
        HandedOver::note(&spool.join("b"), "x", Reading::Begun).unwrap();
        let noted = |component: &str, reading| HandedOver::is_noted(&spool.join("b"), component, reading);
        assert!(noted("x", Reading::Begun) && !noted("x", Reading::Done) && !noted("y", Reading::Begun));
        HandedOver::set_aside(&spool.join("b")).unwrap();
        assert_eq!((HandedOver::pending(&spool).len(), HandedOver::left(&spool).len()), (1, 2));
        fs::remove_dir_all(spool).unwrap();
    }

    #[test]
    fn what_a_component_has_taken_is_never_unread_again() {
        let directory = std::env::temp_dir().join(format!("knarr-taken-{}", std::process::id()));
        for notes_come_last in [false, true] {
            for _ in 0..500 {
                fs::create_dir_all(&directory).unwrap();
                let taken = || HandedOver::note(&directory, "x", Reading::Done).unwrap();
                let fill = || (0..20).for_each(|rank| fs::write(directory.join(HandedOver::log(rank)), b"").unwrap());
                if notes_come_last {
                    fill();
                }
                fs::write(directory.join(HandedOver::PUBLISHED), b"").unwrap();
                assert!(HandedOver::is_unread(&directory, "x"));
                taken();
                if !notes_come_last {
                    fill();
                }
                let remover = std::thread::spawn({
                    let directory = directory.clone();
                    move || HandedOver::discard(&directory)
                });
                while directory.exists() {
                    assert!(!HandedOver::is_unread(&directory, "x"));
                }
                remover.join().unwrap();
            }
        }
    }
}
