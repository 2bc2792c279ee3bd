//! The first look at a rank's file: its layout, the hash of all of it and of each piece, and whether it holds still.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::pieces::{PIECE, Piece, cut};
use crate::engine::{Engine, Progress};
use crate::error::{Error, ErrorKind, Result};

/// Hash of a piece: the first 16 bytes of its BLAKE3.
pub(super) type PieceHash = [u8; 16];

/// Finds the layout of a file. The room that knows formats provides it.
pub type Finder<'a> = &'a (dyn Fn(&Path) -> Result<Layout> + Sync);

/// What tells a file from a later state of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file that must not change.
pub(super) struct Watched {
    path: PathBuf,
    identity: Identity,
}

/// A rank's file, looked at once from the first byte to the last.
pub(super) struct Scanned {
    file: File,
    watched: Watched,
    pub(super) layout: Layout,
    /// Why the file is carried as bytes, if its format could not be read.
    pub(super) carried_whole: Option<String>,
    pub(super) pieces: Vec<Piece>,
    pub(super) hashes: Vec<PieceHash>,
    /// BLAKE3 of the whole file.
    pub(super) hash: [u8; 32],
    /// Permission bits of the file.
    pub(super) mode: u32,
}

/// Looks at `path`.
///
/// # Errors
/// `Read`, `NotFound`; `Differs` if the file changes meanwhile; `Unsupported` if it is no regular file.
pub(super) fn scan(engine: &Engine, path: &Path, find: Finder<'_>, progress: &dyn Progress) -> Result<Scanned> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    // Opening a pipe would wait for who writes to it.
    if !std::fs::metadata(path).map_err(read_error)?.is_file() {
        return Err(Error::unsupported("not a regular file")
            .mend("name the files that the program wrote")
            .at(path.display().to_string()));
    }
    let file = File::open(path).map_err(read_error)?;
    let metadata = file.metadata().map_err(read_error)?;
    let identity = Identity::of(&metadata);
    let (layout, carried_whole) = match find(path) {
        Ok(layout) if layout.length != identity.length => return Err(changed(path)),
        Ok(layout) => match layout.check() {
            Ok(()) => (layout, None),
            Err(error) => (Layout::opaque(identity.length), Some(error.to_string())),
        },
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Read | ErrorKind::Interrupted) => {
            return Err(error);
        }
        // Whatever a file holds, its bytes can be carried.
        Err(error) => (Layout::opaque(identity.length), Some(error.to_string())),
    };
    let pieces = cut(&layout, usize::MAX)?;
    let watched = Watched { path: path.to_owned(), identity };
    let mut scanned = Scanned {
        file,
        watched,
        layout,
        carried_whole,
        pieces,
        hashes: Vec::new(),
        hash: [0; 32],
        mode: metadata.mode(),
    };
    scanned.read_all(engine, progress)?;
    scanned.watched.check()?;
    Ok(scanned)
}

impl Scanned {
    /// Reads the file in runs of whole pieces.
    fn read_all(&mut self, engine: &Engine, progress: &dyn Progress) -> Result<()> {
        const RUN: u64 = 8 * PIECE;
        let mut whole = blake3::Hasher::new();
        let mut hashes = Vec::with_capacity(self.pieces.len());
        let mut buffer = Vec::new();
        let mut rest = self.pieces.as_slice();
        while let Some(first) = rest.first() {
            engine.check_cancelled()?;
            let count = rest.partition_point(|piece| piece.offset + piece.length <= first.offset + RUN).max(1);
            let (run, left) = rest.split_at(count);
            let length: u64 = run.iter().map(|piece| piece.length).sum();
            self.read(first.offset, length, &mut buffer)?;
            whole.update(&buffer);
            let mut bytes = buffer.as_slice();
            for piece in run {
                let (mine, others) = bytes.split_at(usize::try_from(piece.length).unwrap_or(0).min(bytes.len()));
                hashes.push(piece_hash(mine));
                bytes = others;
            }
            progress.advance(length);
            rest = left;
        }
        self.hashes = hashes;
        self.hash = *whole.finalize().as_bytes();
        Ok(())
    }

    /// Replaces `out` by bytes of the file.
    fn read(&self, offset: u64, length: u64, out: &mut Vec<u8>) -> Result<()> {
        let length = usize::try_from(length).map_err(|_| Error::internal("a piece longer than memory"))?;
        out.clear();
        out.resize(length, 0);
        self.file.read_exact_at(out, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => changed(&self.watched.path),
            _ => Error::read(&self.watched.path, &error),
        })
    }

    /// Appends a piece to `out`, as it was when the file was looked at.
    ///
    /// # Errors
    /// `Read`; `Differs` if it is another one by now.
    pub(super) fn append(&self, number: usize, buffer: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<()> {
        let (piece, hash) = self
            .pieces
            .get(number)
            .zip(self.hashes.get(number))
            .ok_or_else(|| Error::internal(format!("{}: no piece {number}", self.watched.path.display())))?;
        self.read(piece.offset, piece.length, buffer)?;
        if piece_hash(buffer) != *hash {
            return Err(changed(&self.watched.path));
        }
        out.extend_from_slice(buffer);
        Ok(())
    }

    /// The file as it has to stay until the set is complete.
    pub(super) fn into_watched(self) -> Watched {
        self.watched
    }
}

impl Watched {
    /// Checks that the name still leads to the file that was looked at, and that nobody wrote to it.
    ///
    /// # Errors
    /// `Differs`.
    pub(super) fn check(&self) -> Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(now) if Identity::of(&now) == self.identity => Ok(()),
            _ => Err(changed(&self.path)),
        }
    }
}

/// Hash of the bytes of a piece.
pub(super) fn piece_hash(bytes: &[u8]) -> PieceHash {
    let hash = blake3::hash(bytes);
    let mut short = PieceHash::default();
    short.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    short
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::Differs, "the file changed while it was packed; nothing was written")
        .mend("pack when the program has finished writing its checkpoint")
        .at(path.display().to_string())
}
