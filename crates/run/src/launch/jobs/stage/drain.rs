//! Moves a file of route `stage` from the tier in which it waits to its place. Its bytes stay what they are.

use std::fs::{File, FileTimes};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Image};
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::AtomicFile;
use knarr_routes::compress::Repacked;
use knarr_tier::{Account, Bucket, Space};
use serde::{Deserialize, Serialize};

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
}

impl Task for Drain {
    const NAME: &'static str = "drain";
    type Answer = Made;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Made> {
        let Self { directory, handed, staging } = self;
        let _mask = handed.umask.map(Mask::of_program);
        handed.forget_made(&directory)?;
        let gone = || Error::corrupt("the file that waited in a tier is gone").at(directory.display().to_string());
        let (image, path) = Image::<(Repacked, bool)>::of(&directory)?.ok_or_else(gone)?;
        let Image { bytes, checksum, made: (repacked, is_file) } = image;
        let source = File::open(&path).map_err(|error| Error::read(&path, &error))?;
        let target = &handed.target;
        let mut output = AtomicFile::create(target, handed.replaces(target, &directory))?;
        let cap = handed.rule.stage().and_then(|rule| rule.drain);
        let cap = cap.map(|rate| Bucket::new(rate.0, Account::of(Space::UNLIMITED)));
        let last = staging.as_ref().and_then(Staging::last);
        let account = staging.as_ref().and_then(Staging::account_of_last);
        progress.begin("moving", bytes);
        let (mut at, mut sum, mut piece, mut took) = (0, 0, vec![0; PIECE], Duration::ZERO);
        while at < bytes {
            engine.check_cancelled()?;
            let length = usize::try_from(bytes - at).map_or(PIECE, |left| left.min(PIECE));
            let piece = piece.get_mut(..length).unwrap_or_default();
            source.read_exact_at(piece, at).map_err(|error| Error::read(&path, &error))?;
            sum = crc32c::crc32c_append(sum, piece);
            let begin = Instant::now();
            // Of a file that is sparse what is not there takes no room there either.
            if piece.iter().any(|&byte| byte != 0) {
                output.file().write_all_at(piece, at).map_err(|error| Error::write(target, &error))?;
            }
            at += length as u64;
            output.written(length as u64)?;
            last.iter().for_each(|bucket| bucket.pass(length as u64));
            took += begin.elapsed();
            cap.iter().for_each(|bucket| bucket.pass(length as u64));
            progress.advance(length as u64);
        }
        output.reach(bytes)?;
        if sum != checksum {
            let what = format!(
                "the file that waited in a tier was damaged there: its CRC-32C is {sum:08x}, not {checksum:08x}"
            );
            return Err(Error::corrupt(what).at(path.display().to_string()));
        }
        if handed.reserved.is_some() {
            bring_attributes(&source, &mut output).map_err(|error| Error::write(target, &error))?;
        }
        let begin = Instant::now();
        output.publish()?;
        // Bytes that are not synced are not there yet.
        if let (Some(account), Ok(bytes)) = (&account, usize::try_from(bytes)) {
            account.wrote(bytes, took + begin.elapsed());
        }
        handed.note_made(&directory);
        Ok(Made { repacked, is_file, is_staged: false })
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
    file.set_times(FileTimes::new().set_accessed(found.accessed()?).set_modified(found.modified()?))
}
