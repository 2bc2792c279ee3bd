//! Room for files in tiers.

use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_capture::{Image, SpoolPlace};
use knarr_routes::compress::Repacked;
use knarr_tier::{Account, Bucket, Room, Tier, sync_directory};
use serde::{Deserialize, Serialize};

/// Bytes that are read at a time.
pub(super) const PIECE: usize = 4 << 20;
/// Bytes that a file may have beside its values, as a rule.
pub(in crate::launch) const HEADER: u64 = 1 << 20;

/// The tiers in which files may wait, and those of this run's spool in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::launch) struct Staging {
    pub(in crate::launch) place: SpoolPlace,
    /// Numbers of the tiers, the fastest first, and where files lie there.
    pub(in crate::launch) tiers: Vec<(usize, PathBuf)>,
}

impl Staging {
    /// Room for a file whose values take `bytes` bytes, in the first tier that has it; `None` if none has.
    pub(in crate::launch::jobs) fn reserve(&self, bytes: u64, directory: &Path) -> Option<Reserved> {
        let of = |(number, spool): &(usize, PathBuf)| {
            let (tier, _) = self.place.tier(*number)?;
            let room = Room::take(&tier, bytes.saturating_add(HEADER), 0)?;
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(".image");
            let path = spool.join(name);
            Some(Reserved { path, room: Some(room), bucket: self.place.bucket(*number) })
        };
        self.tiers.iter().find_map(of)
    }

    /// Room for a file of so many bytes at `path`, in the tier whose spool is at `spool`; `None` if that would not have `spare` bytes left
    /// for others.
    pub(super) fn reserve_at(&self, spool: &Path, path: PathBuf, (bytes, spare): (u64, u64)) -> Option<Reserved> {
        let room = Room::take(&self.tier_at(spool)?, bytes, spare)?;
        Some(Reserved { path, room: Some(room), bucket: self.bucket_at(spool) })
    }

    /// What makes the tier as slow as what it stands for whose spool is at `spool`; `None` if it is no slower than it is.
    pub(super) fn bucket_at(&self, spool: &Path) -> Option<Bucket> {
        self.place.bucket(self.number_at(spool)?)
    }

    fn number_at(&self, spool: &Path) -> Option<usize> {
        self.tiers.iter().find(|(_, tier)| tier == spool).map(|(number, _)| *number)
    }

    /// The tier whose spool is at `spool`.
    pub(super) fn tier_at(&self, spool: &Path) -> Option<Arc<dyn Tier>> {
        self.place.tier(self.number_at(spool)?).map(|(tier, _)| tier)
    }

    /// What makes the place of the files as slow as what it stands for; `None` if it is no slower than it is.
    pub(in crate::launch::jobs) fn last(&self) -> Option<Bucket> {
        self.place.bucket(self.last_number()?)
    }

    /// What is counted of the place of the files.
    pub(super) fn account_of_last(&self) -> Option<Account> {
        self.place.account(self.last_number()?)
    }

    fn last_number(&self) -> Option<usize> {
        self.place.places.len().checked_sub(1)
    }
}

/// Room for a file in a tier. What lies there goes with it, and the room is given back, unless the file is kept.
pub(in crate::launch::jobs) struct Reserved {
    pub(in crate::launch::jobs) path: PathBuf,
    /// `None` when the file is kept.
    room: Option<Room>,
    bucket: Option<Bucket>,
}

impl Reserved {
    /// The file is whole, and synced: it waits there from now on.
    ///
    /// # Errors
    /// `Read`, `Write`.
    pub(in crate::launch::jobs) fn keep(self, directory: &Path, made: (Repacked, bool)) -> Result<(Repacked, bool)> {
        let (found, checksum) = summed(&self.path, self.bucket.as_ref())?;
        let image = Image { bytes: found.len(), checksum, made };
        image.keep(directory, &self.path)?;
        self.stays(&found);
        Ok(image.made)
    }

    /// The file stays, and the tier counts what it takes.
    pub(super) fn stays(mut self, found: &Metadata) {
        self.room.take().into_iter().for_each(|room| room.filled(found));
    }
}

/// What the system says of a file in a tier, and its CRC-32C. It takes its time from what makes the tier slow.
pub(in crate::launch::jobs) fn summed(path: &Path, bucket: Option<&Bucket>) -> Result<(Metadata, u32)> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let mut file = File::open(path).map_err(read_error)?;
    let found = file.metadata().map_err(read_error)?;
    bucket.iter().for_each(|bucket| bucket.pass(found.len()));
    let (mut checksum, mut piece) = (0, vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece).map_err(read_error)?;
        if read == 0 {
            return Ok((found, checksum));
        }
        checksum = crc32c::crc32c_append(checksum, piece.get(..read).unwrap_or_default());
    }
}

/// Syncs the files in a directory, and that.
pub(super) fn sync(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_directory(directory)
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.room.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
