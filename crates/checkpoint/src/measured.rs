//! What checkpoints and restarts took: one line for each, in a file beside the sets, for [`interval`](super::interval).
//! Sets themselves hold no times, so that equal inputs give equal sets.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disk::sets::directory_of;
use knarr_array::error::{Error, Result};
use knarr_flow::output::AtomicFile;

/// The file's name; hidden, so that no search for restart files finds it.
pub const NAME: &str = ".knarr-costs.jsonl";
/// A longer file loses the older half of its lines.
const LONGEST: u64 = 64 << 10;
/// Only so many of the newest measurements count: programs and machines change.
const NEWEST: usize = 20;

/// What measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// `knarr checkpoint watch`, beside the program.
    Watch,
    /// `knarr run`, around the program.
    Run,
    /// The library, inside the program.
    Library,
    /// `knarr checkpoint pack`, which knows nothing of the program.
    Pack,
    /// `knarr checkpoint restore`.
    Restore,
    /// `knarr checkpoint prune`, which says how many sets stay.
    Prune,
}

impl By {
    /// What users call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Watch => "knarr checkpoint watch",
            Self::Run => "knarr run",
            Self::Library => "the checkpoint library",
            Self::Pack => "knarr checkpoint pack",
            Self::Restore => "knarr checkpoint restore",
            Self::Prune => "knarr checkpoint prune",
        }
    }
}

/// One measurement; what was not measured is `None`. All in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What measured it.
    pub by: By,
    /// For how long a checkpoint stopped the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_s: Option<f64>,
    /// How long packing its set took, while the program computed or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_s: Option<f64>,
    /// How long a restart took to bring everything back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_s: Option<f64>,
    /// How many of the newest sets were left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
}

impl Measured {
    /// A set that was made.
    pub fn checkpoint(by: By, stopped: Option<Duration>, packed_s: f64) -> Self {
        let stopped_s = stopped.map(|time| time.as_secs_f64());
        Self { by, stopped_s, packed_s: Some(packed_s), restart_s: None, keep: None }
    }

    /// A set that was brought back, whole.
    pub fn restart(by: By, took: Duration) -> Self {
        Self { by, stopped_s: None, packed_s: None, restart_s: Some(took.as_secs_f64()), keep: None }
    }
}

/// How many sets stay in a directory that has `sets` of them, as the last prune said. `None` where that is not done each
/// time: there are more.
pub fn kept(directory: &Path, sets: usize) -> Option<u32> {
    let last = read(directory).ok()?.into_iter().rev().find_map(|one| one.keep)?;
    (sets <= usize::try_from(last).ok()?).then_some(last)
}

/// Notes how many sets a prune has left in a directory, if the last one did not say so.
pub fn note_kept(directory: &Path, keep: u32) {
    let last = read(directory).ok().and_then(|all| all.into_iter().rev().find_map(|one| one.keep));
    if last != Some(keep) {
        let kept = Measured { by: By::Prune, stopped_s: None, packed_s: None, restart_s: None, keep: Some(keep) };
        note(&directory.join("set"), &kept);
    }
}

/// Adds a measurement of `set` to those of its directory. A checkpoint is worth more than knowing what it took: where the
/// line cannot be written it is left out.
pub fn note(set: &Path, measured: &Measured) {
    let _ = append(set, measured);
}

fn append(set: &Path, measured: &Measured) -> Result<()> {
    let path = directory_of(set).join(NAME);
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Ok(());
    }
    let write_error = |error: std::io::Error| Error::write(&path, &error);
    // Who may not read the set may not read of it.
    let mode = set.metadata().map_or(0o600, |metadata| 0o600 | metadata.permissions().mode() & 0o044);
    let opened = OpenOptions::new().read(true).append(true).create(true).mode(mode).open(&path);
    let mut file = opened.map_err(write_error)?;
    let length = file.metadata().map_err(write_error)?.len();
    if length > LONGEST {
        shorten(&path, &file, length)?;
        return append(set, measured);
    }
    let mut line = Vec::new();
    let mut last = [b'\n'];
    if length > 0 && file.read_exact_at(&mut last, length - 1).is_ok() && last != [b'\n'] {
        // Who wrote the last line was killed meanwhile.
        line.push(b'\n');
    }
    serde_json::to_writer(&mut line, measured).map_err(|error| Error::internal(error.to_string()))?;
    line.push(b'\n');
    // In one piece: others may add theirs at the same time.
    file.write_all(&line).map_err(write_error)
}

/// Keeps the newer half of the lines.
fn shorten(path: &Path, file: &File, length: u64) -> Result<()> {
    let write_error = |error: std::io::Error| Error::write(path, &error);
    let mut kept = tail(file, length, LONGEST / 2).map_err(write_error)?;
    // It begins in the middle of a line.
    let begin = kept.iter().position(|&byte| byte == b'\n').map_or(kept.len(), |at| at + 1);
    kept.drain(..begin);
    let mut temporary = AtomicFile::create(path, true)?;
    temporary.limit_mode(file.metadata().map_err(write_error)?.permissions().mode())?;
    temporary.file().write_all(&kept).map_err(write_error)?;
    temporary.publish().map(drop)
}

/// The last `most` bytes, or all.
fn tail(mut file: &File, length: u64, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The measurements in a directory of sets, the newest last. Lines that say nothing are passed over.
///
/// # Errors
/// `NotFound` or `Read` if the directory or the file cannot be read; a directory without the file has none.
pub fn read(sets: &Path) -> Result<Vec<Measured>> {
    std::fs::read_dir(sets).map_err(|error| Error::read(sets, &error))?;
    let path = sets.join(NAME);
    if !path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(Vec::new());
    }
    let read = || {
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        tail(&file, length, 2 * LONGEST)
    };
    let bytes = read().map_err(|error| Error::read(&path, &error))?;
    Ok(bytes.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// What the newest measurements of one kind say.
#[derive(Debug, Clone, PartialEq)]
pub struct Typical {
    /// The median.
    pub median: Duration,
    /// The shortest.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
    /// How many there are.
    pub count: usize,
    /// What measured them, each once.
    pub by: Vec<By>,
}

impl Typical {
    /// Of the newest of `measured` that have `seconds`; `None` if none has.
    pub fn of(measured: &[Measured], seconds: impl Fn(&Measured) -> Option<f64>) -> Option<Self> {
        let time = |one: &Measured| Some((one.by, Duration::try_from_secs_f64(seconds(one)?).ok()?));
        let newest: Vec<(By, Duration)> = measured.iter().rev().filter_map(time).take(NEWEST).collect();
        let mut times: Vec<Duration> = newest.iter().map(|(_, time)| *time).collect();
        times.sort_unstable();
        let mut by = Vec::new();
        newest.iter().for_each(|(one, _)| {
            if !by.contains(one) {
                by.push(*one);
            }
        });
        let (least, most, count) = (*times.first()?, *times.last()?, times.len());
        let (low, high) = (*times.get((count - 1) / 2)?, *times.get(count / 2)?);
        // Of times that a file claims, two may be too many for their sum.
        let median = low + (high - low) / 2;
        Some(Self { median, least, most, count, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Sets(PathBuf);

    impl Sets {
        fn new(name: &str) -> Self {
            let sets = std::env::temp_dir().join(format!("knarr-measured-{name}-{}", std::process::id()));
            std::fs::create_dir_all(sets.join("step_1")).unwrap();
            Self(sets)
        }

        fn note(&self, seconds: f64) {
            note(
                &self.0.join("step_1"),
                &Measured::checkpoint(By::Watch, Duration::try_from_secs_f64(seconds).ok(), 1.0),
            );
        }

        fn file(&self) -> PathBuf {
            self.0.join(NAME)
        }

        fn stopped(&self) -> Vec<f64> {
            read(&self.0).unwrap().iter().filter_map(|one| one.stopped_s).collect()
        }
    }

    impl Drop for Sets {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn lines_come_back_in_their_order_and_torn_ones_are_passed_over() {
        let sets = Sets::new("lines");
        assert!(read(&sets.0).unwrap().is_empty());
        sets.note(1.5);
        let restart = Measured::restart(By::Restore, Duration::from_millis(250));
        note(&sets.0.join("step_1"), &restart);
        assert_eq!(read(&sets.0).unwrap()[1], restart);
        let whole = std::fs::read_to_string(sets.file()).unwrap();
        let first = "{\"by\":\"watch\",\"stopped_s\":1.5,\"packed_s\":1.0}\n";
        assert_eq!(whole, format!("{first}{{\"by\":\"restore\",\"restart_s\":0.25}}\n"));
        // A kill in the middle of a line, at any byte.
        for cut in 0..first.len() {
            std::fs::write(sets.file(), format!("{first}{}", &first[..cut])).unwrap();
            sets.note(2.5);
            let found = sets.stopped();
            assert!(found == [1.5, 2.5] || found == [1.5, 1.5, 2.5] && cut == first.len() - 1, "{cut}: {found:?}");
        }
        std::fs::write(sets.file(), b"\xff\n{}\n{\"by\":\"moon\"}\n{\"by\":\"watch\",\"stopped_s\":-1,\"new\":1}\n")
            .unwrap();
        sets.note(3.0);
        let typical = Typical::of(&read(&sets.0).unwrap(), |one| one.stopped_s).unwrap();
        assert_eq!((typical.count, typical.median), (1, Duration::from_secs(3)));
    }

    #[test]
    fn the_file_stays_short_and_keeps_what_is_newest() {
        let sets = Sets::new("short");
        for number in 0..5000 {
            sets.note(f64::from(number));
            assert!(sets.file().metadata().unwrap().len() <= LONGEST + 100);
        }
        let found = sets.stopped();
        assert!(found.len() > 300 && found.is_sorted() && found.last() == Some(&4999.0), "{}", found.len());
        assert_eq!(std::fs::read_dir(&sets.0).unwrap().count(), 2);
    }

    #[test]
    fn what_is_in_the_way_is_left_alone() {
        let sets = Sets::new("way");
        std::fs::create_dir(sets.file()).unwrap();
        sets.note(1.0);
        assert!(sets.stopped().is_empty());
        std::fs::remove_dir(sets.file()).unwrap();
        let other = sets.0.join("other");
        std::fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, sets.file()).unwrap();
        sets.note(1.0);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine");
        assert!(read(&sets.0.join("none")).is_err());
    }

    #[test]
    fn the_file_is_no_more_open_than_the_set() {
        let sets = Sets::new("mode");
        for (set, most) in [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)] {
            std::fs::set_permissions(sets.0.join("step_1"), std::fs::Permissions::from_mode(set)).unwrap();
            sets.note(1.0);
            assert_eq!(sets.file().metadata().unwrap().permissions().mode() & 0o777 & !most, 0);
            std::fs::remove_file(sets.file()).unwrap();
        }
    }

    #[test]
    fn the_median_is_that_of_the_newest() {
        let one = |seconds: f64| Measured { stopped_s: Some(seconds), ..Measured::checkpoint(By::Run, None, 9.0) };
        let all: Vec<Measured> = [1000.0; 30].into_iter().chain((1..=20).map(f64::from)).map(one).collect();
        let typical = Typical::of(&all, |one| one.stopped_s).unwrap();
        let seconds = Duration::from_secs_f64;
        assert_eq!((typical.median, typical.least, typical.most), (seconds(10.5), seconds(1.0), seconds(20.0)));
        assert_eq!((typical.count, typical.by), (NEWEST, vec![By::Run]));
        assert_eq!(Typical::of(&all, |one| one.restart_s), None);
        assert_eq!(Typical::of(&[one(f64::NAN), one(1e300), one(-1.0)], |one| one.stopped_s), None);
        let longest = Typical::of(&[one(1.8e19), one(1.8e19)], |one| one.stopped_s).unwrap();
        assert_eq!(longest.median, seconds(1.8e19));
    }
}
