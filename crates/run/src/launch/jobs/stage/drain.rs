//! Moves a file of route `stage` from the tier in which it waits to its place, on a file system or in a bucket. Its bytes stay what they
//! are.

use std::fs::{File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{HandedOver, Image};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::AtomicFile;
use knarr_flow::read_store::Part;
use knarr_flow::urls::{StoreResolver, url_of};
use knarr_routes::compress::Repacked;
use knarr_tier::{Account, Bucket, Space};
use serde::{Deserialize, Serialize};

use super::kept::Unnamed;
use super::room::{PIECE, Staging};
use crate::launch::jobs::exchange::copy_attributes;
use crate::launch::jobs::tasks::{Made, Mask};
use knarr_worker::Task;

/// Copies the file that waits to its place.
#[derive(Serialize, Deserialize)]
pub(crate) struct Drain {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch::jobs) directory: PathBuf,
    pub(in crate::launch::jobs) handed: HandedOver,
    /// The tiers, while the run that has staged the file goes on.
    pub(in crate::launch::jobs) staging: Option<Staging>,
    /// An older version was made in this recovery: it is replaced.
    pub(in crate::launch::jobs) was_made: bool,
    /// A copy of it is to stay in the tier.
    pub(in crate::launch::jobs) is_kept: bool,
}

impl Task for Drain {
    const NAME: &'static str = "drain";
    type Answer = Made;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Made> {
        let Self { directory, handed, staging, was_made, is_kept } = self;
        let _mask = handed.umask.map(Mask::of_program);
        handed.forget_made(&directory)?;
        let gone = || Error::corrupt("the file that waited in a tier is gone").at(directory.display().to_string());
        let (image, path) = Image::<(Repacked, bool)>::of(&directory)?.ok_or_else(gone)?;
        let Image { bytes, checksum, made: (repacked, is_file) } = image;
        let way = Way::of((&path, bytes, checksum), &handed, (staging.as_ref(), was_made))?;
        let made = handed.rule.made_of(&handed.target);
        let placed = match url_of(&made).filter(|_| handed.rule.place.is_some()) {
            Some(url) => way.to_bucket(url, engine, progress).map(|()| None)?,
            None => way.to_file((&handed, &directory), is_kept, engine, progress)?,
        };
        handed.note_made(&directory);
        Ok(Made { repacked, is_file, is_staged: false, placed })
    }
}

/// A file on its way to its place: read piece by piece, no faster than its rule and the device of its place allow.
pub(in crate::launch::jobs) struct Way<'a> {
    path: &'a Path,
    source: File,
    bytes: u64,
    /// CRC-32C.
    checksum: u32,
    cap: Option<Bucket>,
    last: Option<Bucket>,
    account: Option<Account>,
    /// What is in a bucket may be replaced: the program wants that, and this run or recovery puts versions there in their order.
    may_replace: bool,
}

impl<'a> Way<'a> {
    /// That of the file at a path, with its length and checksum. An older version `was_made` in this recovery.
    ///
    /// # Errors
    /// `NotFound`, `Read`.
    pub(in crate::launch::jobs) fn of(
        (path, bytes, checksum): (&'a Path, u64, u32),
        handed: &HandedOver,
        (staging, was_made): (Option<&Staging>, bool),
    ) -> Result<Self> {
        let source = File::open(path).map_err(|error| Error::read(path, &error))?;
        let cap = handed.rule.stage().and_then(|rule| rule.drain);
        let cap = cap.map(|rate| Bucket::new(rate.0, Account::of(Space::UNLIMITED)));
        let (last, account) = (staging.and_then(Staging::last), staging.and_then(Staging::account_of_last));
        let may_replace = (staging.is_some() || was_made) && !handed.is_new;
        Ok(Self { path, source, bytes, checksum, cap, last, account, may_replace })
    }

    /// Puts the file below its name, with what the program has said of it. Returns what it is known by there if a copy of it `is_kept`.
    fn to_file(
        &self,
        (handed, directory): (&HandedOver, &Path),
        is_kept: bool,
        engine: &Engine,
        progress: &dyn Progress,
    ) -> Result<Option<String>> {
        let target = &handed.target;
        let mut output = AtomicFile::create(target, handed.replaces(target, directory))?;
        let took = self.read(engine, progress, &mut |piece, at| {
            // Of a file that is sparse what is not there takes no room there either.
            if piece.iter().any(|&byte| byte != 0) {
                output.file().write_all_at(piece, at).map_err(|error| Error::write(target, &error))?;
            }
            output.written(piece.len() as u64)
        })?;
        output.reach(self.bytes)?;
        if handed.reserved.is_some() {
            bring_attributes(&self.source, &mut output).map_err(|error| Error::write(target, &error))?;
        }
        let unnamed = is_kept.then(|| Unnamed::of(output.file())).flatten();
        self.finish(took, || output.publish().map(drop))?;
        Ok(unnamed.and_then(|unnamed| unnamed.named(target)))
    }

    /// Puts the file into a bucket.
    ///
    /// # Errors
    /// `Read`, `Write`; `Corrupt` if it was damaged where it waited, `Exists` if a newer one may be there. Then there is no object, or
    /// the one that was there.
    pub(in crate::launch::jobs) fn to_bucket(&self, url: &str, engine: &Engine, progress: &dyn Progress) -> Result<()> {
        let stores = engine.stores.as_ref().ok_or_else(|| Error::internal("a run without a network"))?;
        if !self.may_replace && self.is_there(&**stores, url)? {
            return Ok(());
        }
        let mut upload = stores.upload(url)?;
        let took = self.read(engine, progress, &mut |piece, _| upload.write(piece))?;
        self.finish(took, || upload.finish())
    }

    /// True if the object is in the bucket: the launcher may have been killed when it had put it there.
    ///
    /// # Errors
    /// `Exists` if another one is there.
    fn is_there(&self, stores: &dyn StoreResolver, url: &str) -> Result<bool> {
        let Some((store, key)) = stores.object(url)? else { return Ok(false) };
        let (mut at, mut sum, mut piece) = (0, 0, Vec::new());
        let Some(length) = store.get(&key, Part::Last { length: 1 }, &mut piece)? else { return Ok(false) };
        while at < self.bytes && length == self.bytes {
            let part = Part::At { offset: at, length: (self.bytes - at).min(PIECE as u64) };
            if store.get(&key, part, &mut piece)? != Some(length) || piece.is_empty() {
                break;
            }
            sum = crc32c::crc32c_append(sum, &piece);
            at += piece.len() as u64;
        }
        if (length, at, sum) == (self.bytes, self.bytes, self.checksum) {
            return Ok(true);
        }
        let hint = "move it elsewhere, or remove it, and have this one sent by 'knarr run --recover'";
        let what = "what is there may be newer, or is not to be replaced";
        Err(Error::new(ErrorKind::Exists, what).hint(hint).at(url))
    }

    /// Reads the file, piece by piece. Returns how long it took to `write`.
    fn read(
        &self,
        engine: &Engine,
        progress: &dyn Progress,
        write: &mut dyn FnMut(&[u8], u64) -> Result<()>,
    ) -> Result<Duration> {
        progress.begin("moving", self.bytes);
        let (mut at, mut sum, mut piece, mut took) = (0, 0, vec![0; PIECE], Duration::ZERO);
        while at < self.bytes {
            engine.check_cancelled()?;
            let length = usize::try_from(self.bytes - at).map_or(PIECE, |left| left.min(PIECE));
            let piece = piece.get_mut(..length).unwrap_or_default();
            self.source.read_exact_at(piece, at).map_err(|error| Error::read(self.path, &error))?;
            sum = crc32c::crc32c_append(sum, piece);
            let begin = Instant::now();
            write(piece, at)?;
            at += length as u64;
            self.last.iter().for_each(|bucket| bucket.pass(length as u64));
            took += begin.elapsed();
            self.cap.iter().for_each(|bucket| bucket.pass(length as u64));
            progress.advance(length as u64);
        }
        if sum != self.checksum {
            let checksum = self.checksum;
            let what = format!(
                "the file that waited in a tier was damaged there: its CRC-32C is {sum:08x}, not {checksum:08x}"
            );
            return Err(Error::corrupt(what).at(self.path.display().to_string()));
        }
        Ok(took)
    }

    /// The file appears in its place. Bytes that are not safe are not there yet, so that counts.
    fn finish(&self, took: Duration, publish: impl FnOnce() -> Result<()>) -> Result<()> {
        let begin = Instant::now();
        publish()?;
        if let (Some(account), Ok(bytes)) = (&self.account, usize::try_from(self.bytes)) {
            account.wrote(bytes, took + begin.elapsed());
        }
        Ok(())
    }
}

/// Gives a file what the program has said of the one that it has written: access, owner, times, and attributes as far as the file
/// system has them.
fn bring_attributes(source: &File, output: &mut AtomicFile) -> std::io::Result<()> {
    let found = source.metadata()?;
    output.set_mode(found.mode() & 0o7777);
    let file = output.file();
    let now = file.metadata()?;
    if (found.uid(), found.gid()) != (now.uid(), now.gid()) {
        // A user may give a file to a group, and to nobody else.
        let _ = std::os::unix::fs::fchown(file, Some(found.uid()), Some(found.gid()));
    }
    copy_attributes(source, file);
    let times = FileTimes::new().set_accessed(found.accessed()?).set_modified(found.modified()?);
    output.file().set_times(times)?;
    output.set_times(times);
    Ok(())
}
