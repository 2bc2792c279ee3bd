//! What the program itself has written in a tier waits there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Image};
use knarr_flow::engine::{Engine, Progress};
use knarr_routes::compress::Repacked;
use knarr_tier::sync_directory;
use serde::{Deserialize, Serialize};

use super::packed::{Packed, Packing, pack};
use super::room::{Staging, summed, sync};
use crate::launch::jobs::tasks::Made;
use knarr_worker::Task;

/// Has a file that the program itself has written in a tier wait there, to be moved to its place: packed, if its rule says so.
#[derive(Serialize, Deserialize)]
pub(crate) struct Seal {
    #[serde(with = "knarr_array::path_bytes")]
    pub(in crate::launch::jobs) directory: PathBuf,
    pub(in crate::launch::jobs) handed: HandedOver,
    /// The tiers, while the run goes on in which the file was written.
    pub(in crate::launch::jobs) staging: Option<Staging>,
    pub(in crate::launch::jobs) packing: Packing,
}

impl Task for Seal {
    const NAME: &'static str = "seal";
    type Answer = Made;

    fn run(self, engine: &Engine, progress: &dyn Progress) -> Result<Made> {
        let directory = &self.directory;
        let begin = Instant::now();
        let unknown = || Error::corrupt("nobody knows where the file lies").at(directory.display().to_string());
        let path = HandedOver::whole_path(directory).ok_or_else(unknown)?;
        let file = File::open(&path).map_err(|error| Error::read(&path, &error))?;
        file.sync_all().map_err(|error| Error::write(&path, &error))?;
        let spool = directory.parent().unwrap_or(directory);
        let bucket = self.staging.as_ref().and_then(|staging| staging.bucket_at(spool));
        self.handed.count_whole(directory);
        let what = (directory.as_path(), &self.handed, self.staging.as_ref());
        let packed = pack(&self.packing, what, (&path, &file), (engine, progress))?;
        let lies = packed.as_ref().map_or(path.as_path(), |packed| packed.path.as_path());
        let (found, checksum) = summed(lies, bucket.as_ref())?;
        let waits = |path: &Path, repacked| -> Result<Repacked> {
            let image = Image { bytes: found.len(), checksum, made: (repacked, false) };
            image.note(directory, path)?;
            sync(directory).and_then(|()| sync_directory(spool)).map_err(|error| Error::write(spool, &error))?;
            Ok(image.made.0)
        };
        let repacked = match packed {
            Ok(Packed { path, repacked, room }) => {
                // The plain one is counted until it is removed.
                room.into_iter().for_each(|room| room.filled(&found));
                let repacked = waits(&path, *repacked)?;
                HandedOver::exchange_for_packed(directory, &path)?;
                sync_directory(directory).map_err(|error| Error::write(directory, &error))?;
                repacked
            }
            Err(why) => waits(&path, Repacked::as_it_is(engine, found.len(), &why, begin.elapsed().as_secs_f64()))?,
        };
        Ok(Made { repacked, is_file: false, is_staged: true, placed: None })
    }
}
