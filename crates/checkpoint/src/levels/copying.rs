//! One file of frames, copied and compared with its checksum.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::disk::manifest::Store;
use crate::disk::parts::Parts;
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_flow::output::temporary_name;

/// Bytes that are read at a time. Links carry so many.
pub(super) const PIECE: usize = 4 << 20;

/// A file of frames that is to be copied, with its CRC-32C.
#[derive(Debug, Clone)]
pub(super) struct Copied {
    pub(super) store: Store,
    pub(super) crc32c: u32,
}

impl Copied {
    /// Of a file of the set whose parts these are.
    ///
    /// # Errors
    /// `Corrupt` if its checksum is not known.
    pub(super) fn of(store: &Store, parts: &Parts) -> Result<Self> {
        Ok(Self { store: store.clone(), crc32c: parts.checksum(&store.name)? })
    }

    /// Makes the file in `directory` of what `read` reads, a piece at a time from an offset. It appears there whole; its bytes are
    /// synced, its name is not.
    ///
    /// # Errors
    /// That of `read`; `Write`; `Corrupt` for other bytes than were packed; `Interrupted`.
    pub(super) fn make(
        &self,
        engine: &Engine,
        directory: &Path,
        read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let path = directory.join(&self.store.name);
        let hidden = directory.join(temporary_name(self.store.name.as_ref()));
        let write_error = |error: std::io::Error| Error::write(&path, &error);
        let copy = || {
            let mut file = File::create(&hidden).map_err(write_error)?;
            self.each_piece(engine, read, |piece| file.write_all(piece).map_err(write_error))?;
            file.sync_all().and_then(|()| fs::rename(&hidden, &path)).map_err(write_error)
        };
        copy().inspect_err(|_| drop(fs::remove_file(&hidden)))
    }

    /// Reads the file in `part`, and compares it with its checksum.
    ///
    /// # Errors
    /// `NotFound`, `Read`; `Corrupt`; `Interrupted`.
    pub(super) fn check(&self, engine: &Engine, part: &Path) -> Result<()> {
        self.each_piece(engine, |at, length| piece(part, &self.store.name, at, length), |_| Ok(()))
    }

    /// Hands over piece by piece what `read` reads, and compares all with the checksum.
    fn each_piece(
        &self,
        engine: &Engine,
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut at, mut sum) = (0, 0);
        while at < self.store.length {
            engine.check_cancelled()?;
            let length = usize::try_from(self.store.length - at).map_or(PIECE, |left| left.min(PIECE));
            let piece = read(at, length)?;
            if piece.len() != length {
                return Err(Error::internal("a piece of another length than was asked for"));
            }
            sum = crc32c::crc32c_append(sum, &piece);
            take(&piece)?;
            at += length as u64;
        }
        if sum != self.crc32c {
            let what = format!("its CRC-32C is {sum:08x}, not {:08x} as when it was packed", self.crc32c);
            return Err(Error::corrupt(what).hint_damage("set").at(self.store.name.clone()));
        }
        Ok(())
    }
}

/// Reads a piece of a file of frames in `part`.
///
/// # Errors
/// `Read`.
pub(super) fn piece(part: &Path, name: &str, at: u64, length: usize) -> Result<Vec<u8>> {
    let path = part.join(name);
    let mut bytes = vec![0; length];
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, at));
    read.map_err(|error| Error::read(&path, &error)).map(|()| bytes)
}
