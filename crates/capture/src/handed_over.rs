//! A file whose values a program has handed over in memory, and that is to be made of them.
//!
//! The ranks of a program share one directory for each such file, in the spool of the run. The program's own library wrote
//! the header there; each rank has a file of values and a log of its puts (`knarr_handover::PutLog`). One rank writes what is
//! in this module: when the file is created, under a name that says that it is open, and when all ranks have closed it, under
//! the name by which the launcher delivers it. A file that stays open, because its program was killed, holds what was put
//! until then; a file is made of it only if the user asks for that.

mod datasets;
mod image;
mod nodes;
mod packed_image;
mod removal;
mod versions;
mod whole;

pub use datasets::Datasets;
pub use image::Image;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ALIVE;
use crate::document::{get, put, put_reserved, reserve};
use crate::parts::NodePart;
use crate::settled::settled;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::path_bytes;
use knarr_codec::codec::FilterSet;
use knarr_config::{FileRule, Output, Route, WhenLate};
use knarr_flow::output::FileIdentity;

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

/// How far a file was when what was put until then became visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Puts of later collective calls are not to be seen.
    pub order: u64,
    /// Records along the unlimited dimension.
    pub records: u64,
    /// Of `dtf_transfer_multiple`: those that read have this until they say that they need it no more.
    #[serde(default)]
    pub stays: bool,
}

/// What of a file that is open readers may see already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The newest point.
    pub newest: Point,
    /// The points of all calls of `dtf_transfer`, in their order.
    #[serde(default)]
    pub transfers: Vec<Point>,
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
    /// Number of ranks: each has its values and its log. 0 for a whole classic file, [`Transcoded::CLASSIC`](crate::Transcoded::CLASSIC).
    pub ranks: usize,
    /// Records along the unlimited dimension; `None` as long as the file is open.
    pub records: Option<u64>,
    /// Bytes of all values.
    pub bytes: u64,
    /// The longest time that one of the ranks spent in calls that hand values over, and to open and close the file. Seconds.
    pub blocked_s: f64,
    /// Of a transfer: how often the program has created the file until now, this time included; else 0.
    pub session: u64,
    /// Of a transfer: when the program has closed the file, in milliseconds since 1970.
    #[serde(default)]
    pub closed_ms: Option<u64>,
    /// Of a transfer: numbers of the variables that have fill values where nothing was put.
    pub filled: Vec<i32>,
    /// Files that were begun later have larger numbers. Of two of one name, that with the larger one is the newer version.
    pub generation: u64,
    /// The program asked for a file that was not there before.
    pub is_new: bool,
    /// What had the name when the program began the file.
    pub replaced: Option<FileIdentity>,
    /// What had the name of what is made of it, if that is another one.
    pub output_replaced: Option<FileIdentity>,
    /// Permissions that the program denies new files; `None` if the system does not say.
    #[serde(default)]
    pub umask: Option<u32>,
    /// Bytes of the records in all logs; `None` if the file was not closed, and nobody knows.
    pub logged: Option<u64>,
    /// Why the program was told that the file could not be handed over. What was put without an error is there.
    pub failure: Option<Error>,
    /// If its ranks are on several nodes, what each of them holds; the first one makes the file. Else nothing.
    #[serde(default)]
    pub parts: Vec<NodePart>,
    /// Number of the part that is in this directory.
    #[serde(default)]
    pub part: usize,
    /// All ranks write one header, which nodes reach on the disk that they share.
    #[serde(default)]
    pub shares_header: bool,
    /// One process writes it without MPI. Chunks in which nothing was put are not there then.
    #[serde(default)]
    pub is_serial: bool,
    /// Filters that the program's own HDF5 has, of those that it was asked about: the program may want to read the file.
    #[serde(default)]
    pub filters: Option<FilterSet>,
    /// The program itself writes the file, whole, in a tier: the bytes that were taken there for it. It has no ranks then.
    #[serde(default)]
    pub reserved: Option<u64>,
}

impl HandedOver {
    /// Name of the file with all this, as JSON.
    pub const NAME: &'static str = "handed-over.json";
    /// Its name as long as the program has the file open.
    pub const OPEN: &'static str = "open.json";
    /// Its name when delivery has failed, and nobody waits for the file any more.
    const SET_ASIDE: &'static str = "set-aside.json";
    /// Its name when a file was made of a transfer that a component was to read.
    const MADE: &'static str = "made.json";
    /// Its name when the program does not want the file any more. Nothing is made of it.
    pub const GIVEN_UP: &'static str = "given-up.json";
    /// Names of files that make a directory one in which something is handed over.
    pub const RECORDS: [&'static str; 3] = [Self::NAME, Self::SET_ASIDE, Self::OPEN];
    /// The same in the order in which they are looked for. What has one of them may get another one meanwhile.
    const LOOKED_FOR: [&'static str; 5] = [Self::NAME, Self::SET_ASIDE, Self::OPEN, Self::NAME, Self::SET_ASIDE];
    /// Name of an empty file that says that something newer has the name of what was set aside. It takes no room.
    const OLDER_THAN_NAME: &'static str = "older-than-its-name";
    /// Name of the header: a classic netCDF file without values, or an HDF5 file whose datasets have none if there are
    /// [`Datasets`], too.
    pub const HEADER: &'static str = "header.nc";

    /// Its name as it was before the program's definitions began again, until they end: the library may not get the new one
    /// written.
    pub const EARLIER_HEADER: &'static str = "header.earlier.nc";

    /// Name of a link to the file as it is to be, whole, in a tier from which it is moved to its place.
    pub const IMAGE: &'static str = "image";

    /// Name of a link to the file in whose place a packed one waits in a tier.
    const PLAIN: &'static str = "plain";

    /// Name of the header as components that read the file see it: that of the last time when definitions ended.
    pub const PUBLISHED: &'static str = "published.nc";
    /// Its name when they are not to see it any more.
    const TAKEN_BACK: &'static str = "taken-back.nc";

    /// What the name of a header ends in that lies beside the file, to which that in the spool is a link.
    pub const KEPT_HEADER: &'static str = "knarr-header";

    /// Name of the header that a rank has open, or of a link to it.
    pub fn header_of(rank: usize) -> String {
        format!("header.{rank}.h5")
    }

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
        Self {
            target,
            rule,
            ranks,
            records: None,
            bytes: 0,
            blocked_s: 0.0,
            session: 0,
            closed_ms: None,
            filled: Vec::new(),
            generation: 0,
            is_new: false,
            replaced: None,
            output_replaced: None,
            umask: None,
            logged: None,
            failure: None,
            parts: Vec::new(),
            part: 0,
            shares_header: false,
            is_serial: false,
            filters: None,
            reserved: None,
        }
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

    /// Bytes of memory that values in a spool take which could not be delivered.
    pub fn bytes_set_aside(spool: &Path) -> u64 {
        Self::all(spool, &[Self::SET_ASIDE]).iter().map(|(directory, _)| removal::taken_by(directory).0.bytes).sum()
    }

    /// Filters that may be chosen, if the rule names no readers: the program is one then.
    pub fn readers_filters(&self) -> Option<FilterSet> {
        let compress = self.rule.compress();
        self.filters.filter(|_| compress.portable.is_none() && *compress.output() == Output::Netcdf4)
    }

    /// True if a file is to be made of it, whoever reads it before.
    pub fn may_be_kept(&self) -> bool {
        self.rule.route() != Route::Transfer || self.rule.transfer().keep()
    }

    /// True if a file has to be made of what lies in a directory when its run is gone: it is no transfer, or a file is to be kept
    /// of it, or it was closed and not all have taken it.
    pub fn is_owed(&self, directory: &Path) -> bool {
        let rule = self.rule.transfer();
        let is_closed = Self::is_set_aside(directory) || !directory.join(Self::OPEN).exists();
        // One that could not read all of it has closed it, too: a file is made of it.
        let has_all = |reader: &String| {
            Self::is_noted(directory, reader, Reading::Done) && Self::failure(directory, reader).is_none()
        };
        let is_taken = || rule.to().iter().all(has_all);
        let is_wanted = || rule.to().iter().any(|reader| Self::wants_file(directory, reader));
        let may_be_late = rule.when_late() != WhenLate::Discard && rule.is_read(self.session);
        self.may_be_kept() || is_closed && (may_be_late && !is_taken() || is_wanted())
    }

    /// Notes in the directory of a transfer how far a component is with reading it.
    ///
    /// # Errors
    /// `Write`.
    pub fn note(directory: &Path, component: &str, reading: Reading) -> Result<()> {
        let path = directory.join(reading.name(component));
        fs::write(&path, b"").map_err(|error| Error::write(&path, &error))
    }

    /// Notes in the directory of a transfer that a component has opened it: one whose launcher has the spool with this token.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_begun(directory: &Path, component: &str, token: &str) -> Result<()> {
        put(directory, &Reading::Begun.name(component), &token)
    }

    /// The token of the spool of the launcher whose program has opened the transfer in the directory last.
    pub fn begun_by(directory: &Path, component: &str) -> Option<String> {
        get(directory, &Reading::Begun.name(component)).ok().flatten()
    }

    /// Notes in the directory of a transfer how often a component has called `dtf_transfer`.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_transferred(directory: &Path, component: &str, count: u64) -> Result<()> {
        put(directory, &format!("transferred.{component}"), &count)
    }

    /// What [`HandedOver::note_transferred`] has said last.
    pub fn transferred(directory: &Path, component: &str) -> u64 {
        get(directory, &format!("transferred.{component}")).ok().flatten().unwrap_or(0)
    }

    /// Notes in the directory of a transfer that a component could not read all that it asked for.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_failed(directory: &Path, component: &str, why: &str) -> Result<()> {
        put(directory, &format!("failed.{component}"), &why)
    }

    /// Why a component could not read all of the transfer in the directory; `None` if it could.
    pub fn failure(directory: &Path, component: &str) -> Option<String> {
        get(directory, &format!("failed.{component}")).ok().flatten()
    }

    /// Notes in the directory of a transfer that a component wants a file of it: its programs use calls of the C library.
    ///
    /// # Errors
    /// `Write`.
    pub fn want_file(directory: &Path, component: &str) -> Result<()> {
        put(directory, &format!("file.{component}"), &())
    }

    /// True if [`HandedOver::want_file`] was noted.
    pub fn wants_file(directory: &Path, component: &str) -> bool {
        directory.join(format!("file.{component}")).exists()
    }

    /// Notes in an empty place that a file was made of the transfer, which the components `late` have not taken: they get the
    /// file. To those of them that `want` one it is a file like any other.
    ///
    /// # Errors
    /// `Write`.
    pub fn note_file(&self, directory: &Path, late: &[String], want: &[String]) -> Result<()> {
        fs::create_dir_all(directory).map_err(|error| Error::write(directory, &error))?;
        want.iter().try_for_each(|reader| Self::want_file(directory, reader))?;
        for reader in self.rule.transfer().to().iter().filter(|reader| !late.contains(reader)) {
            Self::note(directory, reader, Reading::Done)?;
        }
        put(directory, Self::MADE, self)
    }

    /// What [`HandedOver::note_file`] has noted in a directory.
    pub fn file_of(directory: &Path) -> Option<Self> {
        get(directory, Self::MADE).ok().flatten()
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

    /// Takes the transfer in the directory back: nobody takes it for [unread](HandedOver::is_unread) any more. False if it is not
    /// offered.
    pub fn take_back(directory: &Path) -> bool {
        fs::rename(directory.join(Self::PUBLISHED), directory.join(Self::TAKEN_BACK)).is_ok()
    }

    /// Undoes [`HandedOver::take_back`]. False if that cannot be.
    pub fn offer_again(directory: &Path) -> bool {
        fs::rename(directory.join(Self::TAKEN_BACK), directory.join(Self::PUBLISHED)).is_ok()
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
        put_reserved(directory, Self::NAME, self)?;
        // It counts less than the other name.
        let _ = fs::remove_file(directory.join(Self::OPEN));
        Ok(())
    }

    /// Writes it into the directory of a file that the program begins. Room is set aside for what is written when the file is
    /// closed.
    ///
    /// # Errors
    /// `Write`.
    pub fn begin(&self, directory: &Path) -> Result<()> {
        put(directory, Self::OPEN, self)?;
        let bytes = serde_json::to_vec(self).map_or(0, |text| text.len());
        reserve(directory, bytes + MORE_AT_CLOSE)
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

    /// That of a directory, whatever became of it; `None` if there is none.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn left_in(directory: &Path) -> Result<Option<Self>> {
        Self::LOOKED_FOR.iter().find_map(|name| get(directory, name).transpose()).transpose()
    }

    /// That of a directory of which the program wants no file any more; `None` if it wants one.
    pub fn given_up(directory: &Path) -> Option<Self> {
        get(directory, Self::GIVEN_UP).ok().flatten()
    }

    /// That of the directory of a file that the program has open.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn begun(directory: &Path) -> Result<Self> {
        let found = get(directory, Self::OPEN)?;
        found.ok_or_else(|| Error::new(ErrorKind::Read, "its record is gone").at(directory.display().to_string()))
    }

    /// Has what was closed and set aside delivered once more.
    ///
    /// # Errors
    /// `Write`.
    pub fn hand_over_again(directory: &Path) -> Result<()> {
        let renamed = fs::rename(directory.join(Self::SET_ASIDE), directory.join(Self::NAME));
        renamed.map_err(|error| Error::write(directory, &error))
    }

    /// Writes it into the directory of a file that the program has closed, and that could not be handed over: the values stay,
    /// nobody waits for the file, and no component takes them.
    ///
    /// # Errors
    /// `Write`.
    pub fn keep(&self, directory: &Path) -> Result<()> {
        put_reserved(directory, Self::SET_ASIDE, self)?;
        // The name by which it was handed over counts more, that by which it was open less.
        for name in [Self::NAME, Self::OPEN] {
            let _ = settled(|| fs::remove_file(directory.join(name)));
        }
        Self::take_back(directory);
        Ok(())
    }

    /// Notes that delivery has failed: the values stay, nobody waits for the file, and no component takes them.
    ///
    /// # Errors
    /// `Write`.
    pub fn set_aside(directory: &Path) -> Result<()> {
        let aside = directory.join(Self::SET_ASIDE);
        let rename = |name: &str| settled(|| fs::rename(directory.join(name), &aside));
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let renamed =
            rename(Self::NAME).or_else(|error| if is_missing(&error) { rename(Self::OPEN) } else { Err(error) });
        Self::take_back(directory);
        match renamed {
            // It was set aside before.
            Err(error) if is_missing(&error) && Self::is_set_aside(directory) => Ok(()),
            renamed => renamed.map_err(|error| Error::write(directory, &error)),
        }
    }

    /// As [`HandedOver::set_aside`], because something newer has the name of the file.
    ///
    /// # Errors
    /// `Write`.
    pub fn set_aside_as_older(directory: &Path) -> Result<()> {
        // Without it, programs are told that the file is missing.
        let _ = settled(|| fs::write(directory.join(Self::OLDER_THAN_NAME), b""));
        Self::set_aside(directory)
    }

    /// True if delivery has failed.
    pub fn is_set_aside(directory: &Path) -> bool {
        directory.join(Self::SET_ASIDE).exists()
    }

    /// As [`HandedOver::left`], but for transfers of which no file is [owed](HandedOver::is_owed).
    pub fn to_be_made(spool: &Path) -> Vec<(PathBuf, Result<Self>)> {
        let mut left = Self::left(spool);
        left.retain(|(directory, handed)| handed.as_ref().map_or(true, |handed| handed.is_owed(directory)));
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
        Self::all(spool, &Self::LOOKED_FOR)
    }

    fn all(spool: &Path, names: &[&str]) -> Vec<(PathBuf, Result<Self>)> {
        let read = |directory: PathBuf| {
            let found = names.iter().find_map(|name| get(&directory, name).transpose())?;
            Some((directory, found))
        };
        match Self::directories(spool) {
            Ok(directories) => directories.into_iter().filter_map(read).collect(),
            // What cannot be looked at is not empty.
            Err(error) => vec![(spool.to_owned(), Err(error))],
        }
    }

    /// The directories of files in a spool, in the order of their names. There are others in it. None if there is no spool.
    ///
    /// # Errors
    /// `Read`.
    pub fn directories(spool: &Path) -> Result<Vec<PathBuf>> {
        let read_error = |error: io::Error| Error::read(spool, &error);
        let entries = match settled(|| fs::read_dir(spool)?.collect::<io::Result<Vec<_>>>()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(read_error(error)),
        };
        // What is being removed has a hidden name.
        let entries = entries.into_iter().filter(|entry| NodePart::is_name(&entry.file_name().to_string_lossy()));
        // What cannot be told is no file: reading it says what is the matter.
        let directories = entries.filter(|entry| entry.file_type().map_or(true, |kind| kind.is_dir()));
        let mut directories: Vec<PathBuf> = directories.map(|entry| entry.path()).collect();
        directories.sort();
        Ok(directories)
    }
}

/// Bytes by which a record may be longer when its file is closed: numbers of variables, an error.
const MORE_AT_CLOSE: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;

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
    fn a_file_is_owed_of_what_a_component_could_not_read() {
        let directory = std::env::temp_dir().join(format!("knarr-owed-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let text = "[[file]]\npattern = \"*\"\nroute = \"transfer\"\nfrom = \"a\"\nto = [\"b\"]\n";
        let rule = Config::parse(text).unwrap().file.remove(0);
        let handed = HandedOver { session: 1, ..HandedOver::new(PathBuf::from("/out/a.nc"), rule, 1) };
        assert!(handed.is_owed(&directory), "nobody has read it");
        HandedOver::note(&directory, "b", Reading::Done).unwrap();
        assert!(!handed.is_owed(&directory), "all have read it");
        HandedOver::note_failed(&directory, "b", "the node of some values is gone").unwrap();
        assert!(handed.is_owed(&directory), "who could not read all of it has closed it, too");
        fs::remove_dir_all(directory).unwrap();
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
