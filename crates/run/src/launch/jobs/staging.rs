//! The file of route `stage` in a fast tier, where it waits to be moved to its place: made there, or written there by the program
//! itself.

use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Image, SpoolPlace};
use knarr_flow::engine::{Engine, Progress};
use knarr_routes::compress::Repacked;
use knarr_tier::{Account, Bucket, Space, sync_directory};
use serde::{Deserialize, Serialize};

use super::tasks::Made;
use knarr_worker::Task;

/// Bytes that are read at a time.
pub(super) const PIECE: usize = 4 << 20;
/// Unit of the blocks that the system says a file has.
const BLOCK: u64 = 512;
/// Bytes that a file may have beside its values, as a rule.
const HEADER: u64 = 1 << 20;

/// The tiers in which files may wait, and those of this run's spool in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::launch) struct Staging {
    pub(in crate::launch) place: SpoolPlace,
    /// Numbers of the tiers, the fastest first, and where files lie there.
    pub(in crate::launch) tiers: Vec<(usize, PathBuf)>,
}

impl Staging {
    /// Room for a file whose values take `bytes` bytes, in the first tier that has it; `None` if none has.
    pub(super) fn reserve(&self, bytes: u64, directory: &Path) -> Option<Reserved> {
        let bytes = bytes.saturating_add(HEADER);
        let space = Space { bytes, inodes: 1 };
        let of = |(number, spool): &(usize, PathBuf)| {
            let (tier, _) = self.place.tier(*number)?;
            let account = tier.account().clone();
            let left = tier.left();
            if left.bytes < bytes || left.inodes == 0 || !account.take(space) {
                return None;
            }
            let mut name = directory.file_name().unwrap_or_default().to_owned();
            name.push(".image");
            let path = spool.join(name);
            Some(Reserved { path, account, space, bucket: self.place.bucket(*number), is_kept: false })
        };
        self.tiers.iter().find_map(of)
    }

    /// What makes the place of the files as slow as what it stands for; `None` if it is no slower than it is.
    pub(super) fn last(&self) -> Option<Bucket> {
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
pub(super) struct Reserved {
    pub(super) path: PathBuf,
    account: Account,
    space: Space,
    bucket: Option<Bucket>,
    is_kept: bool,
}

impl Reserved {
    /// The file is whole, and synced: it waits there from now on.
    ///
    /// # Errors
    /// `Read`, `Write`.
    pub(super) fn keep(mut self, directory: &Path, made: (Repacked, bool)) -> Result<(Repacked, bool)> {
        let (found, checksum) = summed(&self.path, self.bucket.as_ref())?;
        let image = Image { bytes: found.len(), checksum, made };
        image.keep(directory, &self.path)?;
        let (reserved, takes) = (self.space.bytes, found.blocks() * BLOCK);
        self.account.charge(Space::bytes(takes.saturating_sub(reserved)));
        self.account.give_back(Space::bytes(reserved.saturating_sub(takes)));
        self.is_kept = true;
        Ok(image.made)
    }
}

/// What the system says of a file in a tier, and its CRC-32C. It takes its time from what makes the tier slow.
fn summed(path: &Path, bucket: Option<&Bucket>) -> Result<(Metadata, u32)> {
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

/// Has a file that the program itself has written in a tier wait there, to be moved to its place.
#[derive(Serialize, Deserialize)]
pub(crate) struct Seal {
    #[serde(with = "knarr_array::path_bytes")]
    pub(super) directory: PathBuf,
    pub(super) handed: HandedOver,
    /// The tiers, while the run goes on in which the file was written.
    pub(super) staging: Option<Staging>,
}

impl Task for Seal {
    const NAME: &'static str = "seal";
    type Answer = Made;

    fn run(self, engine: &Engine, _: &dyn Progress) -> Result<Made> {
        let Self { directory, handed, staging } = self;
        let begin = Instant::now();
        let unknown = || Error::corrupt("nobody knows where the file lies").at(directory.display().to_string());
        let path = HandedOver::whole_path(&directory).ok_or_else(unknown)?;
        let file = File::open(&path).map_err(|error| Error::read(&path, &error))?;
        file.sync_all().map_err(|error| Error::write(&path, &error))?;
        let spool = directory.parent().unwrap_or(&directory);
        let bucket = staging.as_ref().and_then(|staging| {
            let (number, _) = staging.tiers.iter().find(|(_, tier)| tier == spool)?;
            staging.place.bucket(*number)
        });
        let (found, checksum) = summed(&path, bucket.as_ref())?;
        let repacked = Repacked::as_it_is(engine, found.len(), AS_WRITTEN, begin.elapsed().as_secs_f64());
        let image = Image { bytes: found.len(), checksum, made: (repacked, false) };
        image.note(&directory)?;
        sync(&directory).and_then(|()| sync_directory(spool)).map_err(|error| Error::write(spool, &error))?;
        handed.count_whole(&directory);
        Ok(Made { repacked: image.made.0, is_file: false, is_staged: true })
    }
}

/// Syncs the files in a directory, and that.
fn sync(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            File::open(entry.path())?.sync_all()?;
        }
    }
    sync_directory(directory)
}

/// Why a file is as it is.
const AS_WRITTEN: &str = "moved as the program wrote it";

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_file(&self.path);
            self.account.give_back(self.space);
        }
    }
}
