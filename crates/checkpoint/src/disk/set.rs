//! A set on disk: a directory with a file of frames per group and the manifest.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::classes::frame_sizes::MAX_DECODED_FRAME;
use crate::classes::interleave;
use crate::disk::manifest::{FrameEntry, Manifest, Store, StoredPiece};
use crate::disk::parts::PARTS;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_codec::chain::Scratch;
use knarr_codec::codec::CodecList;
use knarr_codec::frame;
use knarr_flow::output::DirectoryKind;

/// Name of the manifest in the directory of a set.
pub const MANIFEST: &str = "manifest.knarr";
/// Name of its copy: without a manifest all else is lost.
pub const MANIFEST_COPY: &str = "manifest-copy.knarr";
/// A set that is being made.
pub(crate) const SET: DirectoryKind = DirectoryKind { noun: "checkpoint set", is: is_set, foreign, many_files: false };
/// First bytes of a file of frames; the last one is the version. The id follows.
const STORE_MAGIC: [u8; 8] = *b"KNARRST\x01";
/// Bytes of a store before its first frame.
pub(crate) const STORE_HEAD: u64 = 24;
/// Files of frames that are open at a time: a set may have more of them than a process may have files.
const OPEN_STORES: usize = 32;

/// A set that was opened: its manifest was read and makes sense.
#[derive(Debug)]
pub struct Set {
    path: PathBuf,
    manifest: Manifest,
    manifest_bytes: u64,
    /// Bytes of the manifest and its copy.
    index_bytes: u64,
    manifest_damage: Option<Error>,
    /// Files of frames that were opened last, by their number and which of the two copies it is.
    open: Mutex<VecDeque<Opened>>,
    /// What is wrong with files whose second copy served.
    spared: Mutex<Vec<Error>>,
    /// Reads files of frames that are not in the directory.
    elsewhere: Option<Arc<dyn Elsewhere>>,
    /// Permission bits of the directory of the whole set, if this one may not be there.
    mode: Option<u32>,
}

/// Reads files of frames that lie on other nodes.
pub(crate) trait Elsewhere: std::fmt::Debug + Send + Sync {
    /// True for a file that has to be read there.
    fn has(&self, name: &str) -> bool;

    /// Fills `out` with bytes of the file `name` from the offset `at` on.
    ///
    /// # Errors
    /// `Read`, with the node.
    fn read(&self, name: &str, at: u64, out: &mut [u8]) -> Result<()>;
}

/// An open file of frames, with its number and which of the two copies it is.
type Opened = ((usize, Which), Arc<File>);

/// Where a frame is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Its file, and the second copy of it if that is damaged.
    Any,
    /// Its file.
    First,
    /// The second copy of its file.
    Second,
}

/// Damage that the second copy made good is told of so many places.
const MOST_SPARED: usize = 16;

/// The first bytes of a file of frames.
pub(crate) fn store_head(id: &[u8; 16]) -> Vec<u8> {
    [&STORE_MAGIC[..], id].concat()
}

/// True if a directory is a set.
pub fn is_set(path: &Path) -> bool {
    path.join(MANIFEST).is_file() || path.join(MANIFEST_COPY).is_file()
}

/// True for names of files that hold a group.
pub(crate) fn is_group(name: &str) -> bool {
    name.starts_with("group-") && name.ends_with(".knarr")
}

/// True for names of files with the parity of a group of nodes.
pub(crate) fn is_parity(name: &str) -> bool {
    name.starts_with("parity-") && name.ends_with(".knarr")
}

/// Something in the set's directory that has no name of a set's file. The manifest, which may be damaged, is not asked.
pub(crate) fn foreign(path: &Path) -> Option<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_own = [MANIFEST, MANIFEST_COPY, PARTS].contains(&&*name) || is_group(&name) || is_parity(&name);
        !is_own || !path.is_file()
    })
}

/// True if the directory may not be entered, so that only others can say whether it is a set.
pub(crate) fn is_closed(path: &Path) -> bool {
    path.join(MANIFEST).metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

fn read_manifest(file: &Path, codecs: &CodecList) -> Result<(Manifest, u64)> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| Error::read(file, &error))?;
    let manifest = Manifest::read(codecs, &bytes);
    let manifest = manifest.map_err(|error| error.hint_damage("set").at(file.display().to_string()))?;
    Ok((manifest, bytes.len() as u64))
}

impl Set {
    /// Opens the set in the directory `path`. Where the manifest is damaged, its copy serves.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` if manifest and copy are damaged, `Unsupported` for one of a later version.
    pub fn open(path: &Path, codecs: &CodecList) -> Result<Self> {
        if path.is_dir() && !is_set(path) && !is_closed(path) {
            return Err(Error::new(ErrorKind::NotFound, "not a checkpoint set: it has no manifest.knarr")
                .hint("give the directory that 'knarr checkpoint pack' wrote")
                .at(path.display().to_string()));
        }
        let read = |name| read_manifest(&path.join(name), codecs);
        let (manifest, manifest_bytes, manifest_damage) = match read(MANIFEST) {
            Ok((manifest, bytes)) => (manifest, bytes, None),
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
            Err(error) => match read(MANIFEST_COPY) {
                Ok((manifest, bytes)) => (manifest, bytes, Some(error)),
                Err(_) => return Err(error),
            },
        };
        let length = |name| path.join(name).metadata().map_or(0, |metadata| metadata.len());
        Ok(Self {
            path: path.to_owned(),
            open: Mutex::default(),
            spared: Mutex::default(),
            manifest,
            manifest_bytes,
            index_bytes: length(MANIFEST) + length(MANIFEST_COPY),
            manifest_damage,
            elsewhere: None,
            mode: None,
        })
    }

    /// A set with this manifest whose files lie on several nodes: those here are in the directory `path`, which need not be there.
    /// `mode` are the permission bits of such a directory.
    pub(crate) fn on_nodes(path: PathBuf, manifest: Manifest, mode: u32, elsewhere: Arc<dyn Elsewhere>) -> Self {
        Self {
            path,
            open: Mutex::default(),
            spared: Mutex::default(),
            manifest,
            manifest_bytes: 0,
            index_bytes: 0,
            manifest_damage: None,
            elsewhere: Some(elsewhere),
            mode: Some(mode),
        }
    }

    /// What reads this file of frames, if it is not in the directory.
    fn elsewhere(&self, store: &Store) -> Option<&dyn Elsewhere> {
        self.elsewhere.as_deref().filter(|elsewhere| elsewhere.has(&store.name))
    }

    /// What is wrong with the manifest, if its copy had to serve.
    pub fn manifest_damage(&self) -> Option<&Error> {
        self.manifest_damage.as_ref()
    }

    /// What is wrong with the copy of a manifest that is whole itself.
    pub(crate) fn copy_damage(&self, codecs: &CodecList) -> Option<Error> {
        if self.manifest_damage.is_some() {
            return None;
        }
        let copy = self.path.join(MANIFEST_COPY);
        let is_equal = |(manifest, _): &(Manifest, u64)| *manifest == self.manifest;
        match read_manifest(&copy, codecs) {
            Ok(read) if is_equal(&read) => None,
            Ok(_) => {
                Some(Error::corrupt("not the copy of the manifest").hint_damage("set").at(copy.display().to_string()))
            }
            Err(error) => Some(error),
        }
    }

    /// Directory of the set.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Bytes of the manifest: what has to be read before anything else.
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest_bytes
    }

    /// Bytes of all files of the set. Those it shares with other sets count in each.
    pub fn stored_bytes(&self) -> u64 {
        let bytes = |store: &Store| store.length * (1 + u64::from(store.has_copy));
        self.index_bytes + self.manifest.stores.iter().map(bytes).sum::<u64>()
    }

    /// Names of all files that the set may have in its directory.
    pub fn file_names(&self) -> Vec<String> {
        let stores = self.manifest.stores.iter();
        let names = stores.flat_map(|store| [Some(store.name.clone()), store.has_copy.then(|| store.copy_name())]);
        names.flatten().chain([MANIFEST, MANIFEST_COPY, PARTS].map(str::to_owned)).collect()
    }

    /// What was found wrong so far with files of which the second copy served.
    pub fn spared(&self) -> Vec<Error> {
        self.spared.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn spare(&self, error: Error) {
        let mut spared = self.spared.lock().unwrap_or_else(PoisonError::into_inner);
        if spared.len() < MOST_SPARED {
            spared.push(error);
        }
    }

    /// Checks that all files of frames are there, or their copies, and as long as they should be; frames are not read. Files on other
    /// nodes are not looked at.
    ///
    /// # Errors
    /// `NotFound` or `Read`; `Corrupt` for a file of another length or of another set.
    pub fn check_files(&self) -> Result<()> {
        let is_there = |store| match self.open_store(store, Which::First) {
            Err(_) if store.has_copy => self.open_store(store, Which::Second).map(drop),
            opened => opened.map(drop),
        };
        self.manifest.stores.iter().filter(|store| self.elsewhere(store).is_none()).try_for_each(is_there)
    }

    /// True if this file of frames is there, as long as it should be.
    pub(crate) fn has_file(&self, store: &Store) -> bool {
        self.open_store(store, Which::First).is_ok()
    }

    /// Permission bits that files restored from the set get at most: nobody may read them who may not read the set.
    pub(crate) fn file_mode(&self) -> u32 {
        let found = || self.path.metadata().ok().map(|metadata| metadata.permissions().mode());
        self.mode.or_else(found).map_or(0o600, |mode| 0o700 | mode & 0o077)
    }

    /// Path of a file of frames.
    fn store_path(&self, store: &Store, which: Which) -> PathBuf {
        self.path.join(if which == Which::Second { store.copy_name() } else { store.name.clone() })
    }

    fn store(&self, number: usize) -> Result<&Store> {
        self.manifest.stores.get(number).ok_or_else(|| Error::internal("a frame in no store"))
    }

    /// Fills `out` with bytes of a file of frames from the offset `at` on.
    fn read_at(&self, number: usize, which: Which, at: u64, out: &mut [u8]) -> Result<()> {
        let store = self.store(number)?;
        if let Some(elsewhere) = self.elsewhere(store) {
            return elsewhere.read(&store.name, at, out);
        }
        let file = self.opened_store(number, which)?;
        file.read_exact_at(out, at).map_err(|error| Error::read(&self.store_path(store, which), &error))
    }

    fn opened_store(&self, number: usize, which: Which) -> Result<Arc<File>> {
        let store = self.store(number)?;
        let known = self.opened().iter().find(|(open, _)| *open == (number, which)).map(|(_, file)| Arc::clone(file));
        if let Some(file) = known {
            return Ok(file);
        }
        let file = Arc::new(self.open_store(store, which)?);
        let mut open = self.opened();
        if open.len() >= OPEN_STORES {
            open.pop_front();
        }
        open.push_back(((number, which), Arc::clone(&file)));
        Ok(file)
    }

    fn opened(&self) -> MutexGuard<'_, VecDeque<Opened>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_store(&self, store: &Store, which: Which) -> Result<File> {
        let path = self.store_path(store, which);
        let read_error = |error: std::io::Error| Error::read(&path, &error);
        let file = File::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::corrupt("the set lacks this file, which its manifest names")
                .hint_damage("set")
                .at(path.display().to_string()),
            _ => read_error(error),
        })?;
        let length = file.metadata().map_err(read_error)?.len();
        if length != store.length {
            return Err(Error::corrupt(format!("{length} bytes long, the manifest says {}", store.length))
                .hint_damage("set")
                .at(path.display().to_string()));
        }
        let mut head = vec![0; store_head(&store.id).len()];
        file.read_exact_at(&mut head, 0).map_err(read_error)?;
        if head != store_head(&store.id) {
            return Err(Error::corrupt("not the file of frames that the manifest names")
                .hint_damage("set")
                .at(path.display().to_string()));
        }
        Ok(file)
    }

    /// True if there is a second copy of the frame.
    pub(crate) fn has_copy(&self, entry: &FrameEntry) -> bool {
        self.manifest.stores.get(entry.store).is_some_and(|store| store.has_copy)
    }

    /// Decodes a frame into `out`, its lanes still merged.
    fn read_frame(
        &self,
        codecs: &CodecList,
        entry: &FrameEntry,
        which: Which,
        buffers: &mut FrameBuffers,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if which == Which::Any {
            let read = self.read_frame(codecs, entry, Which::First, buffers, out);
            let is_spared = read.is_err()
                && self.has_copy(entry)
                && self.read_frame(codecs, entry, Which::Second, buffers, out).is_ok();
            return match read {
                Err(error) if is_spared => {
                    self.spare(error);
                    Ok(())
                }
                read => read,
            };
        }
        let store = self.store(entry.store)?;
        let place = |error: Error| {
            error
                .hint_damage("set")
                .at(format!("frame at byte {}", entry.offset))
                .at(self.store_path(store, which).display().to_string())
        };
        let length = usize::try_from(entry.length).map_err(|_| place(Error::corrupt("impossible length")))?;
        // The manifest was checked against the store's length, which was checked against the file's.
        buffers.encoded.clear();
        buffers.encoded.resize(length, 0);
        self.read_at(entry.store, which, entry.offset, &mut buffers.encoded)?;
        let frame = frame::read(&buffers.encoded).map_err(place)?;
        let expected: Option<usize> = entry.lane_lengths().map(|lanes| lanes.iter().sum());
        let found = frame.array.byte_len();
        if Some(found) != expected || found as u64 > MAX_DECODED_FRAME {
            return Err(place(Error::corrupt(format!("the frame holds {found} bytes, the manifest says other"))));
        }
        frame.decode(codecs, &mut buffers.scratch, out).map_err(place)
    }

    /// Decodes a frame and hands its pieces to `take`, in their order.
    ///
    /// # Errors
    /// `Corrupt` with the place, `Read`; what `take` returns.
    pub(crate) fn read_pieces(
        &self,
        codecs: &CodecList,
        entry: &FrameEntry,
        which: Which,
        buffers: &mut FrameBuffers,
        mut take: impl FnMut(&StoredPiece, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut merged = std::mem::take(&mut buffers.merged);
        let read = self.read_frame(codecs, entry, which, buffers, &mut merged);
        buffers.merged = merged;
        read?;
        let lanes = entry.lane_lengths().unwrap_or_default();
        let mut rest = if entry.block == 0 {
            buffers.merged.as_slice()
        } else {
            interleave::split(&buffers.merged, &lanes, entry.block, &mut buffers.split);
            buffers.split.as_slice()
        };
        for piece in &entry.pieces {
            let length = usize::try_from(piece.length).unwrap_or(usize::MAX);
            let (bytes, left) =
                rest.split_at_checked(length).ok_or_else(|| Error::internal("a piece without bytes"))?;
            take(piece, bytes)?;
            rest = left;
        }
        Ok(())
    }
}

/// Buffers of one reader of frames.
#[derive(Default)]
pub(crate) struct FrameBuffers {
    encoded: Vec<u8>,
    merged: Vec<u8>,
    split: Vec<u8>,
    scratch: Scratch,
}
