//! Chunks that this node has encoded for the node that makes a file. It keeps them until that node sends their offsets in the
//! file, and writes them there itself, so their bytes need not cross the network.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::output::{is_common, is_temporary_name, path_to_be, send_to_disk};
use knarr_flow::remote_encoder::PendingChunk;
use knarr_tier::{Account, Space};
use rustix::fs::OFlags;

/// Outputs of a file that are open, at most: a store has many.
const MOST_OPEN: usize = 256;
/// After this nobody asks for a chunk any more: the answer that it is kept was lost, or its output was given up.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Encoded chunks, and the outputs that they are written into.
pub struct PendingChunks {
    /// Counts the bytes of chunks.
    account: Account,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number that was given last.
    last: u64,
    /// By the names of files, as questions have them.
    files: BTreeMap<String, OfFile>,
}

/// What belongs to one file.
#[derive(Default)]
struct OfFile {
    chunks: BTreeMap<u64, Chunk>,
    /// Open from the first write on: the system tells those of a failed write that had the file open. The latest last.
    outputs: Vec<Arc<Output>>,
}

struct Chunk {
    bytes: Vec<u8>,
    since: Instant,
}

/// An output that is under way.
struct Output {
    path: PathBuf,
    file: File,
    /// Why it is not durable: the system says so once.
    failed: Mutex<Option<Error>>,
}

impl PendingChunks {
    /// Keeps so many bytes of chunks, at most.
    pub fn new(most: u64) -> Self {
        Self { account: Account::of(Space { bytes: most, ..Space::UNLIMITED }), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an encoded chunk, if there is room: the bytes are taken then.
    pub(crate) fn keep(&self, file: &str, bytes: &mut Vec<u8>) -> Option<PendingChunk> {
        let (length, checksum) = (bytes.len() as u64, crc32c::crc32c(bytes));
        let mut state = self.lock();
        let take = || self.account.take(Space::bytes(length));
        if !take() {
            state.forget_old(&self.account);
            take().then_some(())?;
        }
        state.last += 1;
        let number = state.last;
        let mut bytes = std::mem::take(bytes);
        // Codecs take room for the worst case.
        bytes.shrink_to_fit();
        let chunk = Chunk { bytes, since: Instant::now() };
        state.files.entry(file.to_owned()).or_default().chunks.insert(number, chunk);
        Some(PendingChunk { number, length, checksum })
    }

    /// Writes chunks of a file into its output at `path`, each at its byte. None of them is kept any more.
    ///
    /// # Errors
    /// `NotFound` if one is not kept; `Usage` for what is no output under way; `Write`.
    pub fn write(&self, file: &str, path: &[u8], chunks: &[(PendingChunk, u64)]) -> Result<()> {
        // A question may come twice, and who asks makes again what is not here: so it goes whatever happens.
        let taken: Vec<_> =
            chunks.iter().map(|(kept, at)| (self.lock().take(file, *kept, &self.account), *at)).collect();
        let path = Path::new(OsStr::from_bytes(path));
        let output = self.output(file, path)?;
        let length = output.length().map_err(|error| Error::write(&path_to_be(path), &error))?;
        let mut written: Option<(u64, u64)> = None;
        for (bytes, at) in taken {
            let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::NotFound, "a chunk that is not kept"))?;
            // Whoever makes the output has given it its length.
            let end = at.checked_add(bytes.len() as u64);
            let Some(end) = end.filter(|end| length.is_some_and(|length| *end <= length)) else {
                return Err(
                    Error::usage("no place in an output that is under way").at(path_to_be(path).display().to_string())
                );
            };
            output.file.write_all_at(&bytes, at).map_err(|error| Error::write(&path_to_be(path), &error))?;
            written = Some(written.map_or((at, end), |(first, last)| (first.min(at), last.max(end))));
        }
        // So the sync in the end has little left to wait for.
        written.map_or(Ok(()), |(first, last)| output.durable(|file| send_to_disk(file, first, last)))
    }

    /// Makes durable what was written for a file. Who asks twice gets the same answer.
    ///
    /// # Errors
    /// `Write`, also if something that was written before is not durable; `NotFound` if nothing was written.
    pub fn sync(&self, file: &str) -> Result<()> {
        let outputs = self.lock().files.get(file).map(|of| of.outputs.clone()).unwrap_or_default();
        if outputs.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("nothing was written for '{file}'")));
        }
        outputs.iter().try_for_each(|output| output.sync())
    }

    /// Keeps nothing more of a file, and lets its outputs go.
    pub fn forget(&self, file: &str) {
        let mut state = self.lock();
        let of = state.files.remove(file).unwrap_or_default();
        self.account.give_back(Space::bytes(of.chunks.values().map(|chunk| chunk.bytes.len() as u64).sum()));
    }

    /// The output of a file at `path`, which is there.
    fn output(&self, file: &str, path: &Path) -> Result<Arc<Output>> {
        let known = self.lock().files.get(file).map(|of| of.outputs.clone()).unwrap_or_default();
        if let Some(output) = known.iter().find(|output| output.path == path) {
            return Ok(Arc::clone(output));
        }
        let opened = Arc::new(Output::open(path)?);
        // Those of an attempt that was given up, or of a file that has its name, are nobody's any more.
        let mut gone: Vec<_> = known.iter().filter(|output| !output.length().is_ok_and(|it| it.is_some())).collect();
        if gone.is_empty() && known.len() >= MOST_OPEN {
            known.first().map_or(Ok(()), |oldest| oldest.sync())?;
            gone.extend(known.first());
        }
        let mut state = self.lock();
        let outputs = &mut state.files.entry(file.to_owned()).or_default().outputs;
        outputs.retain(|output| !gone.iter().any(|gone| Arc::ptr_eq(gone, output)));
        outputs.push(Arc::clone(&opened));
        Ok(opened)
    }
}

impl State {
    /// Takes a chunk, if it is the one that is meant.
    fn take(&mut self, file: &str, kept: PendingChunk, account: &Account) -> Option<Vec<u8>> {
        let bytes = self.files.get_mut(file)?.chunks.remove(&kept.number)?.bytes;
        account.give_back(Space::bytes(bytes.len() as u64));
        Some(bytes).filter(|bytes| bytes.len() as u64 == kept.length && crc32c::crc32c(bytes) == kept.checksum)
    }

    fn forget_old(&mut self, account: &Account) {
        for of in self.files.values_mut() {
            of.chunks.retain(|_, chunk| {
                let stays = chunk.since.elapsed() < FORGOTTEN;
                account.give_back(Space::bytes(if stays { 0 } else { chunk.bytes.len() as u64 }));
                stays
            });
        }
    }
}

impl Output {
    /// Opens an output that is under way.
    fn open(path: &Path) -> Result<Self> {
        let is_under_way = path.is_absolute()
            && path.components().any(|part| is_temporary_name(part.as_os_str()))
            && !path.components().any(|part| part.as_os_str() == "..");
        if !is_under_way {
            return Err(Error::usage("no output that is under way").at(path.display().to_string()));
        }
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| Error::write(&path_to_be(path), &error))?;
        if !is_common(&file) {
            let what = "an output on a file system on which nodes cannot write one file together";
            return Err(Error::unsupported(what).at(path.display().to_string()));
        }
        Ok(Self { path: path.to_owned(), file, failed: Mutex::default() })
    }

    /// Bytes that it has; `None` if it has another name by now, or none.
    fn length(&self) -> io::Result<Option<u64>> {
        let own = self.file.metadata()?;
        let is_it = |now: std::fs::Metadata| (now.dev(), now.ino()) == (own.dev(), own.ino());
        Ok(self.path.symlink_metadata().is_ok_and(is_it).then_some(own.len()))
    }

    fn sync(&self) -> Result<()> {
        self.durable(File::sync_data)
    }

    /// Makes something durable, or begins to. What fails once has failed for ever.
    fn durable(&self, work: impl FnOnce(&File) -> io::Result<()>) -> Result<()> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed.as_ref() {
            return Err(error.clone());
        }
        let done = work(&self.file).map_err(|error| Error::write(&path_to_be(&self.path), &error));
        done.inspect_err(|error| *failed = Some(error.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_flow::output::temporary_name;
    use std::fs;

    fn keep(kept: &PendingChunks, bytes: &[u8]) -> Option<PendingChunk> {
        kept.keep("f", &mut bytes.to_vec())
    }

    #[test]
    fn chunks_are_written_once_where_they_belong_and_nowhere_else() {
        let folder = std::env::temp_dir().join(format!("knarr-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let output = folder.join(temporary_name(OsStr::new("out.nc")));
        fs::write(&output, [0; 8]).unwrap();
        let path = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let kept = PendingChunks::new(6);
        let (a, b) = (keep(&kept, b"abc").unwrap(), keep(&kept, b"de").unwrap());
        assert_eq!(keep(&kept, b"fg"), None, "there is no room");
        assert_eq!(kept.sync("f").unwrap_err().kind(), ErrorKind::NotFound);
        kept.write("f", &path(&output), &[(a, 5), (b, 1)]).unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"\0de\0\0abc");
        // It is kept no more, and there is room again.
        let error = kept.write("f", &path(&output), &[(a, 0)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        kept.sync("f").and_then(|()| kept.sync("f")).unwrap();

        // Behind the end of the output, and of numbers; another chunk of that number; a name that is none of an output.
        let plain = folder.join("out.nc");
        fs::write(&plain, [7; 8]).unwrap();
        let link = folder.join(temporary_name(OsStr::new("link")));
        std::os::unix::fs::symlink(&plain, &link).unwrap();
        let up = folder.join(temporary_name(OsStr::new("x"))).join("../out.nc");
        for (path, at) in [
            (path(&output), 6),
            (path(&output), u64::MAX),
            (path(&plain), 0),
            (path(&link), 0),
            (path(&up), 0),
            (path(&folder.join(temporary_name(OsStr::new("gone")))), 0),
            (b"relative".to_vec(), 0),
            (Vec::new(), 0),
        ] {
            let chunk = keep(&kept, b"xyz").unwrap();
            assert!(kept.write("f", &path, &[(chunk, at)]).is_err(), "{path:?} at {at}");
        }
        let chunk = keep(&kept, b"xyz").unwrap();
        let other = PendingChunk { checksum: chunk.checksum + 1, ..chunk };
        assert!(kept.write("f", &path(&output), &[(other, 0)]).is_err());
        // An output that has got its name meanwhile is nobody's to write.
        let chunk = keep(&kept, b"xyz").unwrap();
        fs::rename(&output, folder.join("published.nc")).unwrap();
        assert!(kept.write("f", &path(&output), &[(chunk, 0)]).is_err());
        assert_eq!(fs::read(folder.join("published.nc")).unwrap(), b"\0de\0\0abc");
        assert_eq!(fs::read(&plain).unwrap(), [7; 8]);

        keep(&kept, b"123456").unwrap();
        kept.forget("f");
        assert_eq!(kept.sync("f").unwrap_err().kind(), ErrorKind::NotFound);
        assert!(keep(&kept, b"123456").is_some());
        fs::remove_dir_all(folder).unwrap();
    }
}
