//! The first look at ranks' files: their layouts, the hash of all of each and of its pieces, and whether they hold still.

use std::fs::{File, Metadata};
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::attributes::Attributes;
use crate::files::holes::{Holes, ZEROS};
use crate::files::layout::FileLayout;
use crate::files::piece_hash::{PieceHash, piece_hash};
use crate::files::pieces::{PIECE, Piece, cut};
use crate::files::rank_file::RankLayout;
use crate::files::recipe::{ByteOrigin, COPIES, Chunk, Recipe};
use crate::files::unfiltered::{Candidate, repeatable, unfilter};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::chain::Scratch;
use knarr_codec::codec::CodecList;
use knarr_flow::cache::ChunkCache;
use knarr_flow::engine::{Engine, Progress};

/// Finds the layout of a file. The room that knows formats provides it.
pub type Finder<'a> = &'a (dyn Fn(&Path) -> Result<FileLayout> + Sync);

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
pub(crate) struct Watched {
    path: PathBuf,
    identity: Identity,
}

/// A rank's file, looked at once from the first byte to the last. Layout and pieces are those of its unfiltered form.
pub(crate) struct Scanned {
    file: File,
    watched: Watched,
    /// What is known of it, which the manifest shares: ranks with many variables have much of it.
    pub(crate) known: Arc<RankLayout>,
    /// Why the file is carried as bytes, if its format could not be read.
    pub(crate) carried_whole: Option<String>,
    pub(crate) hashes: Vec<PieceHash>,
    /// BLAKE3 of the whole file.
    pub(crate) hash: [u8; 32],
    /// What the file was like.
    pub(crate) attributes: Attributes,
    metadata: Metadata,
}

impl Deref for Scanned {
    type Target = RankLayout;

    fn deref(&self) -> &RankLayout {
        &self.known
    }
}

/// What decoding chunks of scanned files takes: chunks of which more than a piece is needed are kept for a while.
pub(crate) struct Values<'a> {
    pub(crate) codecs: &'a CodecList,
    pub(crate) cache: ChunkCache,
}

/// Looks at files, in the order of `paths`. With `unfiltering`, chunks that can be made again from their values are taken
/// as these.
///
/// # Errors
/// `Read`, `NotFound`; `Differs` if a file changes meanwhile; `Unsupported` if it is no regular file.
pub(crate) fn scan(
    engine: &Engine,
    paths: &[&Path],
    find: Finder<'_>,
    unfiltering: bool,
    progress: &dyn Progress,
) -> Result<Vec<Scanned>> {
    let mut files = engine.parallel(paths.len(), |index| match paths.get(index) {
        Some(path) => Scanned::open(path, find),
        None => Err(Error::internal("no such input")),
    })?;
    if unfiltering {
        let candidates: Vec<Candidate<'_>> = files
            .iter()
            .map(|file| Candidate { path: &file.watched.path, file: &file.file, layout: &file.layout })
            .collect();
        let repeatable = repeatable(engine, &candidates, progress)?;
        for (file, variables) in files.iter_mut().zip(repeatable) {
            let known = file.unshared()?;
            (known.layout, known.recipe) =
                unfilter(std::mem::replace(&mut known.layout, FileLayout::opaque(0)), &variables)?;
        }
    }
    let largest = files.iter().map(|file| file.recipe.largest()).max().unwrap_or(0);
    progress.begin("reading", files.iter().map(|file| file.layout.length).sum());
    let contents = engine.fitting(COPIES * largest).parallel(files.len(), |index| match files.get(index) {
        Some(file) => file.contents(engine, progress),
        None => Err(Error::internal("no such input")),
    })?;
    for (file, contents) in files.iter_mut().zip(contents) {
        (file.unshared()?.pieces, file.hashes, file.hash) = contents;
    }
    Ok(files)
}

impl Scanned {
    /// Opens a file and finds its layout.
    fn open(path: &Path, find: Finder<'_>) -> Result<Self> {
        let read_error = |error: std::io::Error| Error::read(path, &error);
        // Opening a pipe would wait for who writes to it.
        if !std::fs::metadata(path).map_err(read_error)?.is_file() {
            return Err(Error::unsupported("not a regular file")
                .hint("name the files that the program wrote")
                .at(path.display().to_string()));
        }
        let file = File::open(path).map_err(read_error)?;
        let metadata = file.metadata().map_err(read_error)?;
        let identity = Identity::of(&metadata);
        let (layout, carried_whole) = match find(path) {
            Ok(layout) if layout.length != identity.length => return Err(changed(path)),
            Ok(layout) => match layout.check() {
                Ok(()) => (layout, None),
                Err(error) => (FileLayout::opaque(identity.length), Some(error.to_string())),
            },
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Read | ErrorKind::Interrupted) => {
                return Err(error);
            }
            // Whatever a file holds, its bytes can be carried.
            Err(error) => (FileLayout::opaque(identity.length), Some(error.to_string())),
        };
        Ok(Self {
            file,
            watched: Watched { path: path.to_owned(), identity },
            known: Arc::new(RankLayout { layout, recipe: Recipe::default(), pieces: Vec::new() }),
            carried_whole,
            hashes: Vec::new(),
            hash: [0; 32],
            attributes: Attributes::of(&metadata),
            metadata,
        })
    }

    /// What is known of the file, as long as nobody shares it.
    fn unshared(&mut self) -> Result<&mut RankLayout> {
        Arc::get_mut(&mut self.known).ok_or_else(|| Error::internal("a layout that is still looked for is shared"))
    }

    /// Cuts the unfiltered form and reads the file in runs of whole pieces: pieces, their hashes and that of the file.
    fn contents(&self, engine: &Engine, progress: &dyn Progress) -> Result<(Vec<Piece>, Vec<PieceHash>, [u8; 32])> {
        const RUN: u64 = 8 * PIECE;
        let pieces = cut(&self.layout, usize::MAX)?;
        let mut whole = blake3::Hasher::new();
        let mut hashes = Vec::with_capacity(pieces.len());
        let (mut buffer, mut values, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
        let mut holes = Holes::of(&self.file, &self.metadata);
        let zero = piece_hash(&ZEROS);
        let mut rest = pieces.as_slice();
        while let Some(first) = rest.first() {
            engine.check_cancelled()?;
            let place = self.recipe.place(first.offset);
            if let ByteOrigin::File { offset, .. } = place
                && first.length == ZEROS.len() as u64
                && holes.zeros(offset, first.length) == first.length
            {
                // Nothing is there to be read.
                whole.update(&ZEROS);
                hashes.push(zero);
                progress.advance(first.length);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = match place {
                ByteOrigin::File { until, .. } => until.min(first.offset + RUN),
                ByteOrigin::Values(_, chunk) => chunk.offset + chunk.length,
            };
            let (run, left) = rest.split_at(rest.partition_point(|piece| piece.offset + piece.length <= end).max(1));
            let length: u64 = run.iter().map(|piece| piece.length).sum();
            let mut bytes = match place {
                ByteOrigin::File { offset, .. } => {
                    self.read(offset, length, &mut buffer)?;
                    buffer.as_slice()
                }
                ByteOrigin::Values(_, chunk) => {
                    self.decode(&engine.codecs, chunk, &mut buffer, &mut scratch, &mut values)?;
                    values.as_slice()
                }
            };
            whole.update(&buffer);
            for piece in run {
                let (mine, others) = bytes.split_at(usize::try_from(piece.length).unwrap_or(0).min(bytes.len()));
                hashes.push(piece_hash(mine));
                bytes = others;
            }
            progress.advance(length);
            rest = left;
        }
        self.watched.check()?;
        Ok((pieces, hashes, *whole.finalize().as_bytes()))
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

    /// Replaces `out` by the values of a chunk, and `stored` by its bytes in the file.
    fn decode(
        &self,
        codecs: &CodecList,
        chunk: &Chunk,
        stored: &mut Vec<u8>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        self.read(chunk.stored_offset, chunk.stored_length, stored)?;
        // It was decoded before.
        chunk.decode(codecs, stored, scratch, out).map_err(|_| changed(&self.watched.path))
    }

    /// Appends a piece to `out`, as it was when the file was looked at. `rank` is that of the file in its group.
    ///
    /// # Errors
    /// `Read`; `Differs` if it is another one by now.
    pub(crate) fn append(
        &self,
        values: &Values<'_>,
        (rank, number): (usize, usize),
        buffers: &mut PieceBuffers,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (piece, hash) = self
            .pieces
            .get(number)
            .zip(self.hashes.get(number))
            .ok_or_else(|| Error::internal(format!("{}: no piece {number}", self.watched.path.display())))?;
        let PieceBuffers { piece: bytes, stored, scratch } = buffers;
        match self.recipe.place(piece.offset) {
            ByteOrigin::File { offset, .. } => self.read(offset, piece.length, bytes)?,
            ByteOrigin::Values(_, chunk) if chunk.length == piece.length => {
                self.decode(values.codecs, chunk, stored, scratch, bytes)?;
            }
            ByteOrigin::Values(chunk_number, chunk) => {
                let size = usize::try_from(chunk.length).unwrap_or(usize::MAX);
                let decode = || {
                    let mut decoded = Vec::new();
                    self.decode(values.codecs, chunk, stored, scratch, &mut decoded).map(|()| decoded)
                };
                let from = usize::try_from(piece.offset - chunk.offset).unwrap_or(usize::MAX);
                let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
                values.cache.get((rank, chunk_number as u64), size, decode, |chunk| {
                    bytes.clear();
                    bytes.extend_from_slice(chunk.get(from..).and_then(|rest| rest.get(..length)).unwrap_or_default());
                })?;
            }
        }
        if piece_hash(bytes) != *hash {
            return Err(changed(&self.watched.path));
        }
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// The file as it has to stay until the set is complete.
    pub(crate) fn into_watched(self) -> Watched {
        self.watched
    }
}

/// Buffers of one who reads pieces.
#[derive(Default)]
pub(crate) struct PieceBuffers {
    piece: Vec<u8>,
    stored: Vec<u8>,
    scratch: Scratch,
}

impl Watched {
    /// Checks that the name still leads to the file that was looked at, and that nobody wrote to it.
    ///
    /// # Errors
    /// `Differs`.
    pub(crate) fn check(&self) -> Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(now) if Identity::of(&now) == self.identity => Ok(()),
            _ => Err(changed(&self.path)),
        }
    }
}

fn changed(path: &Path) -> Error {
    Error::new(ErrorKind::Differs, "the file changed while it was packed; nothing was written")
        .hint("pack when the program has finished writing its checkpoint")
        .at(path.display().to_string())
}
