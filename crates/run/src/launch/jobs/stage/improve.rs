//! Encodes a file anew that waits in a tier, when there is time until it is moved: so it becomes smaller, and is moved sooner.

use std::path::PathBuf;
use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{HandedOver, Image};
use knarr_choose::plan::Plan;
use knarr_decisions::level::EncodingLevel;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_routes::compress::{RepackOptions, Repacked, pack};
use knarr_tier::{Room, sync_directory};
use serde::{Deserialize, Serialize};

use super::packed::synced;
use super::room::{Staging, summed, sync};
use crate::launch::jobs::tasks::Mask;
use knarr_worker::{Failure, Task};

/// Encodes a file of which nothing was rounded, and that was handed over, at another level.
#[derive(Serialize, Deserialize)]
pub(crate) struct Improve {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch) directory: PathBuf,
    pub(in crate::launch) handed: HandedOver,
    pub(in crate::launch) staging: Staging,
    pub(in crate::launch) level: EncodingLevel,
    /// What was chosen at this level for an earlier file of the same rule.
    pub(in crate::launch) earlier: Option<Plan>,
    pub(in crate::launch) command: String,
    pub(in crate::launch) when: String,
}

/// What became of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Improved {
    /// What was made.
    pub(in crate::launch) repacked: Repacked,
    /// It waits in place of the other file.
    pub(in crate::launch) is_kept: bool,
}

/// The part of a file by which it has to become smaller.
const WORTH_IT: f64 = 0.02;

impl Task for Improve {
    const NAME: &'static str = "improve";
    type Answer = Improved;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Improved> {
        let improved = self.encode(engine, progress);
        if !improved.as_ref().is_ok_and(|improved| improved.is_kept) {
            HandedOver::drop_packed(&self.directory);
        }
        improved
    }
}

impl Improve {
    /// What became of it. A process that was killed leaves what it has begun.
    ///
    /// # Errors
    /// Why it was not encoded.
    pub(in crate::launch) fn ended(&self, answer: Result<Improved, Failure>) -> Result<Improved> {
        let Self { directory, staging, .. } = self;
        if answer.is_err()
            && let Ok(Some((image, _))) = Image::<(Repacked, bool)>::of(directory)
            && HandedOver::drop_packed(directory)
            && let Some(tier) = directory.parent().and_then(|spool| staging.tier_at(spool))
        {
            drop(Room::taken(&tier, image.bytes));
        }
        Ok(answer?)
    }

    fn encode(&self, engine: &Engine, progress: &dyn Progress) -> Result<Improved> {
        let Self { directory, handed, staging, level, earlier, .. } = self;
        let _mask = handed.umask.map(Mask::of_program);
        let gone = || Error::new(ErrorKind::NotFound, "no file waits there").at(directory.display().to_string());
        let (image, path) = Image::<(Repacked, bool)>::of(directory)?.ok_or_else(gone)?;
        let spool = directory.parent().unwrap_or(directory);
        let write_error = |error: std::io::Error| Error::write(spool, &error);
        let to = HandedOver::begin_packed(directory).ok_or_else(|| {
            Error::new(ErrorKind::Write, "nothing more can be written there").at(directory.display().to_string())
        })?;
        // It goes, and its room is given back, unless it is kept.
        let bytes = (image.bytes, handed.bytes);
        let reserved = staging.reserve_at(spool, to.clone(), bytes).ok_or_else(|| {
            Error::new(ErrorKind::Write, "its tier has no room for it").at(spool.display().to_string())
        })?;
        let (command, when) = (self.command.clone(), self.when.clone());
        let options =
            RepackOptions { replaces: Replaces::Anything, is_private: true, command, when, ..RepackOptions::default() };
        let (filters, earlier) = (handed.readers_filters(), earlier.clone().map(Arc::new));
        let settings = Settings { earlier, filters, goal: level.goal(), ..handed.rule.lenient_settings()? };
        let made = pack(engine, &path, &to, &settings, &options, progress)?;
        let found = synced(&to).map_err(write_error)?;
        let bucket = staging.bucket_at(spool);
        // If the file has its checksum now, what was read of it before was right.
        if summed(&path, bucket.as_ref())?.1 != image.checksum {
            return Err(
                Error::corrupt("the file that waited in a tier was damaged there").at(path.display().to_string())
            );
        }
        let (before, is_file) = image.made;
        let repacked = Repacked {
            output_bytes: made.output_bytes,
            plan: made.plan,
            execution: made.execution,
            reader: made.reader,
            filters: made.filters,
            seconds: before.seconds + made.seconds,
            choosing_seconds: before.choosing_seconds + made.choosing_seconds,
            ..before
        };
        if found.len() as f64 > image.bytes as f64 * (1.0 - WORTH_IT) {
            return Ok(Improved { repacked, is_kept: false });
        }
        let (_, checksum) = summed(&to, bucket.as_ref())?;
        let image = Image { bytes: found.len(), checksum, made: (repacked, is_file) };
        image.note(directory, &to)?;
        sync(directory).and_then(|()| sync_directory(spool)).map_err(write_error)?;
        HandedOver::exchange_for_packed(directory, &to)?;
        reserved.stays(&found);
        sync_directory(directory).map_err(write_error)?;
        Ok(Improved { repacked: image.made.0, is_kept: true })
    }
}
