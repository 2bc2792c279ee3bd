//! Copies of files that wait in a tier of another node, for processes of this one that read them before they are in their places.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::{Image, NodePart, tier_of_spool};
use knarr_handover::Question;
use knarr_link::Link;
use knarr_routes::compress::Repacked;
use knarr_tier::Room;

/// The directory of a spool in which they lie.
const COPIES: &str = "copies";
/// Bytes that are sent at once.
const PIECE: u64 = 1 << 24;
/// Bytes of length and checksum.
const HEADER: usize = 12;

/// What another node is answered that asks for a file which waits here, from byte `from` on.
///
/// # Errors
/// `NotFound` if it does not wait any more; `Read`.
pub(super) fn piece(directory: &Path, from: u64) -> Result<Vec<u8>> {
    let gone = || Error::new(ErrorKind::NotFound, "no file waits in a tier").at(directory.display().to_string());
    let (image, path) = Image::<(Repacked, bool)>::of(directory)?.ok_or_else(gone)?;
    let length = usize::try_from(image.bytes.saturating_sub(from).min(PIECE)).unwrap_or_default();
    let mut bytes = vec![0; HEADER + length];
    let (header, found) = bytes.split_at_mut(HEADER);
    let (size, checksum) = header.split_at_mut(8);
    size.copy_from_slice(&image.bytes.to_le_bytes());
    checksum.copy_from_slice(&image.checksum.to_le_bytes());
    let read = File::open(&path).and_then(|file| file.read_exact_at(found, from));
    read.map_err(|error| Error::read(&path, &error)).map(|()| bytes)
}

/// A copy. It goes, and its memory is given back, with this.
pub(super) struct ImageCopy {
    pub(super) path: PathBuf,
    /// It is given back when the file is gone.
    _room: Room,
}

impl ImageCopy {
    /// Copies the file `file` of the node at the other end of a link to the memory of this one, beside the part `own`, as long as it
    /// `may_go_on`.
    ///
    /// # Errors
    /// `Interrupted`; `Write` if there is no room; `NotFound` if it does not wait there any more; `Corrupt` if it did not come as it
    /// is; those of the link.
    pub(super) fn fetch(link: &dyn Link, file: &str, own: &NodePart, may_go_on: impl Fn() -> bool) -> Result<Self> {
        let ask = |from| link.ask(&Question::Image { file: file.to_owned(), from }.to_bytes()?);
        let (bytes, checksum, first) = split(ask(0)?)?;
        let directory = own.spool.join(COPIES);
        let room = Room::take(&tier_of_spool(&own.spool), bytes, 0);
        let no_room = || Error::new(ErrorKind::Write, "there is no room in memory").at(directory.display().to_string());
        let copy = Self { path: directory.join(&own.file), _room: room.ok_or_else(no_room)? };
        let write_error = |error: std::io::Error| Error::write(&copy.path, &error);
        fs::create_dir_all(&directory).map_err(write_error)?;
        let output = File::create(&copy.path).map_err(write_error)?;
        let (mut at, mut sum, mut piece) = (0, 0, first);
        loop {
            sum = crc32c::crc32c_append(sum, &piece);
            output.write_all_at(&piece, at).map_err(write_error)?;
            at += piece.len() as u64;
            if at >= bytes {
                break;
            }
            if !may_go_on() {
                return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
            }
            piece = split(ask(at)?)?.2;
            if piece.is_empty() {
                break;
            }
        }
        if (at, sum) == (bytes, checksum) { Ok(copy) } else { Err(Error::corrupt("a file has not come as it is")) }
    }
}

impl Drop for ImageCopy {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // If it is the last one.
        self.path.parent().map(fs::remove_dir);
    }
}

/// Length and checksum of the file, and a piece of it.
fn split(answer: Vec<u8>) -> Result<(u64, u32, Vec<u8>)> {
    let of = |answer: &[u8]| {
        let (size, rest) = answer.split_first_chunk()?;
        let (checksum, piece) = rest.split_first_chunk()?;
        Some((u64::from_le_bytes(*size), u32::from_le_bytes(*checksum), piece.to_vec()))
    };
    of(&answer).ok_or_else(|| Error::corrupt("an answer makes no sense"))
}
