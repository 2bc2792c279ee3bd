//! The file with the parity that a node keeps of a set, beside its files of frames.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::group::ParityGroup;
use crate::disk::set::is_parity;
use crate::levels::copying::PIECE;
use knarr_array::error::{Error, Result};
use knarr_flow::engine::Engine;
use knarr_flow::output::temporary_name;

/// First bytes of the file; the last one is the version.
const MAGIC: [u8; 8] = *b"KNARRPA\x01";
/// Bytes of a checksum, and of the length of the head.
const WORD: u64 = 4;
/// Bytes of the head, at most.
const LONGEST_HEAD: u32 = 1 << 26;

/// What such a file says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::levels) struct Head {
    /// The node that keeps it, by its lowest rank.
    pub(in crate::levels) node: usize,
    pub(in crate::levels) group: ParityGroup,
}

/// Name of the file with the parity that this node keeps.
pub(in crate::levels) fn name(node: usize) -> String {
    format!("parity-{node}.knarr")
}

/// A file that was opened, of which the head was read and makes sense, and which is as long as it says.
pub(in crate::levels) struct ParityFile {
    path: PathBuf,
    file: File,
    pub(in crate::levels) head: Head,
    /// Where the parity begins.
    start: u64,
}

impl ParityFile {
    /// Opens the file `name` in `part`.
    ///
    /// # Errors
    /// `NotFound`, `Read`; `Corrupt`.
    pub(in crate::levels) fn open(part: &Path, name: &str) -> Result<Self> {
        let path = part.join(name);
        let read_error = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged(&path, "ends early"),
            _ => Error::read(&path, &error),
        };
        let mut file = File::open(&path).map_err(read_error)?;
        let mut begin = [0; 12];
        file.read_exact(&mut begin).map_err(read_error)?;
        let (magic, length) = begin.split_at(MAGIC.len());
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
        if magic != MAGIC || length > LONGEST_HEAD {
            return Err(damaged(&path, "no file of parity of this version"));
        }
        let mut head = vec![0; length as usize];
        file.read_exact(&mut head).map_err(read_error)?;
        let mut sum = [0; 4];
        file.read_exact(&mut sum).map_err(read_error)?;
        if u32::from_le_bytes(sum) != crc32c::crc32c_append(crc32c::crc32c(&begin), &head) {
            return Err(damaged(&path, "its head has another CRC-32C"));
        }
        let head: Head = serde_json::from_slice(&head).map_err(|error| damaged(&path, &error.to_string()))?;
        head.group.check().map_err(|error| error.at(path.display().to_string()))?;
        let start = begin.len() as u64 + u64::from(length) + WORD;
        let found = file.metadata().map_err(read_error)?.len();
        let is_possible = head.group.number(head.node).is_some() && name == self::name(head.node);
        if !is_possible || found != start + head.group.stripes().parity() + WORD {
            return Err(damaged(&path, "its head is not that of this file"));
        }
        Ok(Self { path, file, head, start })
    }

    /// A piece of the parity.
    ///
    /// # Errors
    /// `Read`.
    pub(in crate::levels) fn piece(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact_at(&mut bytes, self.start.saturating_add(at));
        read.map_err(|error| Error::read(&self.path, &error)).map(|()| bytes)
    }

    /// Reads all of it, and compares it with its checksum.
    ///
    /// # Errors
    /// `Read`, `Corrupt`, `Interrupted`.
    pub(in crate::levels) fn check(&self, engine: &Engine) -> Result<()> {
        self.each_piece(engine, |_| Ok(()))
    }

    /// Copies it to the directory `target`, and compares it with its checksum.
    ///
    /// # Errors
    /// `Read`, `Write`, `Corrupt`, `Interrupted`.
    pub(in crate::levels) fn copy(&self, engine: &Engine, target: &Path) -> Result<()> {
        write(target, &self.head, |put| self.each_piece(engine, put))
    }

    /// Hands over the parity piece by piece, and compares all with the checksum.
    fn each_piece(&self, engine: &Engine, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (length, mut at, mut sum) = (self.head.group.stripes().parity(), 0, 0);
        while at < length {
            engine.check_cancelled()?;
            let piece = self.piece(at, usize::try_from(length - at).map_or(PIECE, |left| left.min(PIECE)))?;
            sum = crc32c::crc32c_append(sum, &piece);
            take(&piece)?;
            at += piece.len() as u64;
        }
        if self.piece(length, 4)? != sum.to_le_bytes() {
            return Err(damaged(&self.path, "its parity has another CRC-32C"));
        }
        Ok(())
    }
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::corrupt(what).hint_damage("set").at(path.display().to_string())
}

/// Writes the file with this head to `part`, of what `fill` hands over piece by piece. It appears there whole; its bytes are synced,
/// its name is not.
///
/// # Errors
/// `Write`; that of `fill`.
pub(in crate::levels) fn write(
    part: &Path,
    head: &Head,
    fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let name = name(head.node);
    let (path, hidden) = (part.join(&name), part.join(temporary_name(name.as_ref())));
    let write_error = |error: std::io::Error| Error::write(&path, &error);
    let write = || {
        let described = serde_json::to_vec(head).map_err(|error| Error::internal(error.to_string()))?;
        let length = u32::try_from(described.len()).ok().filter(|&length| length <= LONGEST_HEAD);
        let length = length.ok_or_else(|| Error::unsupported("too many files for a file of parity"))?;
        let mut begin = [&MAGIC[..], &length.to_le_bytes(), &described].concat();
        begin.extend(crc32c::crc32c(&begin).to_le_bytes());
        let mut file = File::create(&hidden).map_err(write_error)?;
        file.write_all(&begin).map_err(write_error)?;
        let mut sum = 0;
        fill(&mut |bytes| {
            sum = crc32c::crc32c_append(sum, bytes);
            file.write_all(bytes).map_err(write_error)
        })?;
        file.write_all(&sum.to_le_bytes()).map_err(write_error)?;
        file.sync_all().and_then(|()| fs::rename(&hidden, &path)).map_err(write_error)
    };
    write().inspect_err(|_| drop(fs::remove_file(&hidden)))
}

/// Files of parity in `part` that can be opened and are of the set with this `id`.
pub(in crate::levels) fn all(part: &Path, id: &str) -> Vec<ParityFile> {
    let entries = fs::read_dir(part).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| is_parity(name));
    let files = names.filter_map(|name| ParityFile::open(part, &name).ok());
    files.filter(|file| file.head.group.set == id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_codec::codec::CodecList;

    #[test]
    fn whatever_byte_is_damaged_or_missing_is_noticed() {
        let part = std::env::temp_dir().join(format!("knarr-parity-file-{}", std::process::id()));
        fs::create_dir_all(&part).unwrap();
        let group = serde_json::json!({"set": "ab", "losses": 1, "nodes": [
            {"node": 0, "files": [["group-0.knarr", 100]]}, {"node": 3, "files": []}]});
        let head = Head { node: 3, group: serde_json::from_value(group).unwrap() };
        write(&part, &head, |put| put(&[7; 64]).and_then(|()| put(&[9; 64]))).unwrap();
        let (path, engine) = (part.join("parity-3.knarr"), Engine::new(CodecList::pure()));
        let read = || ParityFile::open(&part, "parity-3.knarr").and_then(|file| file.check(&engine).map(|()| file));
        assert_eq!(read().unwrap().head, head);
        assert_eq!(read().unwrap().piece(63, 2).unwrap(), [7, 9]);
        assert_eq!((all(&part, "ab").len(), all(&part, "cd").len()), (1, 0));
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, &bytes).unwrap();
            assert!(read().is_err(), "byte {at}");
            fs::write(&path, &whole[..at]).unwrap();
            assert!(read().is_err(), "{at} bytes");
        }
        // What could not be filled is not there.
        let failed = write(&part, &head, |_| Err(Error::internal("full")));
        assert!(failed.is_err() && fs::read(&path).unwrap().len() == whole.len() - 1);
        assert_eq!(fs::read_dir(&part).unwrap().count(), 1);
        fs::remove_dir_all(part).unwrap();
    }
}
