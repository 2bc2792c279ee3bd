//! What the program itself has written in a tier is packed there, if its rule has `when = "close"`.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::HandedOver;
use knarr_codec::codec::{FilterSet, ReaderLevel};
use knarr_decisions::level::EncodingLevel;
use knarr_flow::engine::{Engine, Progress};
use knarr_flow::output::Replaces;
use knarr_flow::settings::Settings;
use knarr_routes::compress::{RepackOptions, Repacked, is_classic, pack as pack_unlocked};
use knarr_tier::Room;
use serde::{Deserialize, Serialize};

use super::room::Staging;
use crate::launch::jobs::exchange::copy_properties;

/// How a file is packed.
#[derive(Serialize, Deserialize)]
pub(in crate::launch::jobs) struct Packing {
    /// The rule for its name says so.
    pub(in crate::launch::jobs) is_wanted: bool,
    /// How well, if that is not what its rule says.
    pub(in crate::launch::jobs) level: Option<EncodingLevel>,
    /// The command as typed, and when: files that lose something say so.
    pub(in crate::launch::jobs) command: String,
    pub(in crate::launch::jobs) when: String,
    /// It is tried again with more memory if that is too little.
    pub(in crate::launch::jobs) may_grow: bool,
    /// Packing the file has ended the process that did it: it is moved as it is.
    pub(in crate::launch::jobs) has_died: bool,
}

/// A packed file beside that of the program.
pub(super) struct Packed {
    pub(super) path: PathBuf,
    pub(super) repacked: Box<Repacked>,
    /// What was taken for it in its tier, if that counts.
    pub(super) room: Option<Room>,
}

/// Why a file is as it is.
const AS_WRITTEN: &str = "moved as the program wrote it";

/// Packs the file at `path`. It has what the program has said of its own: access, owner, times, attributes. Or says why that is moved
/// instead.
///
/// # Errors
/// `Interrupted`; what more memory may help with.
pub(super) fn pack(
    packing: &Packing,
    (directory, handed, staging): (&Path, &HandedOver, Option<&Staging>),
    (path, file): (&Path, &File),
    (engine, progress): (&Engine, &dyn Progress),
) -> Result<Result<Packed, String>> {
    let left = |why: &str| Ok(Err(format!("{AS_WRITTEN}: {why}")));
    if !packing.is_wanted {
        return Ok(Err(AS_WRITTEN.to_owned()));
    }
    if !handed.is_closed_in(directory) {
        return left("it was not closed, or packing it was interrupted");
    }
    let before = file.metadata().map_err(|error| Error::read(path, &error))?;
    let spool = directory.parent().unwrap_or(directory);
    let tier = staging.and_then(|staging| staging.tier_at(spool));
    if packing.has_died {
        if HandedOver::drop_packed(directory) {
            drop(tier.map(|tier| Room::taken(&tier, before.len())));
        }
        return left("packing it has ended the process that did it");
    }
    if !is_classic(file) {
        return left("it is no classic netCDF file");
    }
    let room = tier.as_ref().map(|tier| Room::take(tier, before.len(), 0));
    let Some(room) = room.map_or(Some(None), |room| room.map(Some)) else {
        return left("its tier has no room to pack it");
    };
    let Some(to) = HandedOver::begin_packed(directory) else {
        return left("nothing more can be written beside it");
    };
    let made = write(packing, handed, (path, &to), (engine, progress)).and_then(|repacked| {
        let found = copy_properties(file, &before, &to).and_then(|()| synced(&to));
        found.map_err(|error| Error::write(&to, &error)).map(|found| (repacked, found))
    });
    let why = match made {
        Ok((repacked, found)) if found.len() < before.len() => {
            let repacked = Box::new(Repacked { input_bytes: before.len(), ..repacked });
            return Ok(Ok(Packed { path: to, repacked, room }));
        }
        Ok(_) => Ok("packing would not make it smaller".to_owned()),
        Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
        Err(error) if packing.may_grow && error.kind() == ErrorKind::Usage => Err(error),
        Err(error) => Ok(error.message().to_owned()),
    };
    HandedOver::drop_packed(directory);
    why.map(|why| Err(format!("{AS_WRITTEN}: {why}")))
}

fn write(
    Packing { level, command, when, .. }: &Packing,
    handed: &HandedOver,
    (from, to): (&Path, &Path),
    (engine, progress): (&Engine, &dyn Progress),
) -> Result<Repacked> {
    let (command, when) = (command.clone(), when.clone());
    let options =
        RepackOptions { replaces: Replaces::Anything, is_private: true, command, when, ..RepackOptions::default() };
    let settings = handed.rule.lenient_settings()?;
    let goal = level.map_or_else(|| settings.goal.clone(), EncodingLevel::goal);
    // Whoever wrote it may want to read it, and has not said what it can decode.
    let filters = handed.rule.compress().portable.is_none().then(|| FilterSet::of(ReaderLevel::Core));
    let settings = Settings { filters, goal, ..settings };
    pack_unlocked(engine, from, to, &settings, &options, progress)
}

/// Syncs a file, and says what the system knows of it.
pub(super) fn synced(path: &Path) -> std::io::Result<Metadata> {
    let file = File::open(path)?;
    file.sync_all()?;
    file.metadata()
}
