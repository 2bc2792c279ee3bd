//! Chunks that this node has encoded for another one, which makes a file of them, and keeps until it hears where in that file they
//! belong. It writes them there itself, and their bytes need not cross the network.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::elsewhere::KeptChunk;
use knarr_flow::output::{is_common, is_temporary_name};
use rustix::fs::OFlags;

/// Outputs of a file that are open, at most: a store has many.
const MOST_OPEN: usize = 256;

/// Encoded chunks, and the outputs that they are written into.
pub struct KeptChunks {
    /// Bytes of chunks, at most.
    most: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number that was given last.
    last: u64,
    /// Bytes of all chunks.
    bytes: u64,
    /// By the names of files, as questions have them.
    files: BTreeMap<String, OfFile>,
}

/// What belongs to one file.
#[derive(Default)]
struct OfFile {
    chunks: BTreeMap<u64, Vec<u8>>,
    /// Open from the first write on: the system tells those of a failed write that had the file open. The latest last.
    outputs: Vec<(PathBuf, Arc<File>)>,
    /// What did not become durable: the system says so once.
    failed: Option<Error>,
}

impl KeptChunks {
    /// Keeps so many bytes of chunks, at most.
    pub fn new(most: u64) -> Self {
        Self { most, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an encoded chunk, if there is room: the bytes are taken then.
    pub(crate) fn keep(&self, file: &str, bytes: &mut Vec<u8>) -> Option<KeptChunk> {
        let (length, checksum) = (bytes.len() as u64, crc32c::crc32c(bytes));
        let mut state = self.lock();
        let with = state.bytes.checked_add(length).filter(|with| *with <= self.most)?;
        state.bytes = with;
        state.last += 1;
        let number = state.last;
        state.files.entry(file.to_owned()).or_default().chunks.insert(number, std::mem::take(bytes));
        Some(KeptChunk { number, length, checksum })
    }

    /// Writes chunks of a file into its output at `path`, each at its byte. None of them is kept any more.
    ///
    /// # Errors
    /// `NotFound` if one is not kept, or if the output is not there; `Usage` for what is no output under way; `Write`.
    pub fn write(&self, file: &str, path: &[u8], chunks: &[(KeptChunk, u64)]) -> Result<()> {
        // A question may come twice, and who asks makes again what is not here: so it goes whatever happens.
        let taken: Vec<_> = chunks.iter().map(|(kept, at)| (self.take(file, *kept), *at)).collect();
        let path = Path::new(OsStr::from_bytes(path));
        let output = self.output(file, path)?;
        for (bytes, at) in taken {
            let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::NotFound, "a chunk that is not kept"))?;
            let end = at.checked_add(bytes.len() as u64);
            // Whoever makes the output has given it its length, and its name as long as it is under way.
            let is_it = |now: std::fs::Metadata, own: std::fs::Metadata| {
                (now.dev(), now.ino()) == (own.dev(), own.ino()) && end.is_some_and(|end| end <= own.len())
            };
            let found = path.symlink_metadata().and_then(|now| Ok(is_it(now, output.metadata()?)));
            if !found.map_err(|error| Error::write(path, &error))? {
                return Err(Error::usage("no place in an output that is under way").at(path.display().to_string()));
            }
            output.write_all_at(&bytes, at).map_err(|error| Error::write(path, &error))?;
        }
        Ok(())
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
        outputs.iter().try_for_each(|(path, output)| self.sync_one(file, path, output))?;
        let failed = self.lock().files.get(file).and_then(|of| of.failed.clone());
        failed.map_or(Ok(()), Err)
    }

    fn sync_one(&self, file: &str, path: &Path, output: &File) -> Result<()> {
        let synced = output.sync_data().map_err(|error| Error::write(path, &error));
        if let (Err(error), Some(of)) = (&synced, self.lock().files.get_mut(file)) {
            of.failed.get_or_insert_with(|| error.clone());
        }
        synced
    }

    /// Keeps nothing more of a file, and lets its outputs go.
    pub fn forget(&self, file: &str) {
        let mut state = self.lock();
        let of = state.files.remove(file).unwrap_or_default();
        state.bytes -= of.chunks.values().map(|bytes| bytes.len() as u64).sum::<u64>();
    }

    fn take(&self, file: &str, kept: KeptChunk) -> Option<Vec<u8>> {
        let mut state = self.lock();
        let bytes = state.files.get_mut(file)?.chunks.remove(&kept.number)?;
        state.bytes -= bytes.len() as u64;
        Some(bytes).filter(|bytes| bytes.len() as u64 == kept.length && crc32c::crc32c(bytes) == kept.checksum)
    }

    /// The output at `path`, which is there.
    fn output(&self, file: &str, path: &Path) -> Result<Arc<File>> {
        let mut state = self.lock();
        let outputs = &mut state.files.entry(file.to_owned()).or_default().outputs;
        if let Some((_, output)) = outputs.iter().find(|(open, _)| open == path) {
            return Ok(Arc::clone(output));
        }
        let is_under_way = path.is_absolute()
            && path.components().any(|part| is_temporary_name(part.as_os_str()))
            && !path.components().any(|part| part.as_os_str() == "..");
        if !is_under_way {
            return Err(Error::usage("no output that is under way").at(path.display().to_string()));
        }
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
        let output = opened.map_err(|error| Error::write(path, &error))?;
        if !is_common(&output) {
            let what = "an output on a file system on which nodes cannot write one file together";
            return Err(Error::unsupported(what).at(path.display().to_string()));
        }
        let output = Arc::new(output);
        outputs.push((path.to_owned(), Arc::clone(&output)));
        let oldest = (outputs.len() > MOST_OPEN).then(|| outputs.remove(0));
        drop(state);
        oldest.map_or(Ok(()), |(path, oldest)| self.sync_one(file, &path, &oldest)).map(|()| output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_flow::output::temporary_name;
    use std::fs;

    fn keep(kept: &KeptChunks, bytes: &[u8]) -> Option<KeptChunk> {
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
        let kept = KeptChunks::new(6);
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
        let other = KeptChunk { checksum: chunk.checksum + 1, ..chunk };
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
