//! The directory of a run: snapshot, socket and gate; see `knarr_capture`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::Snapshot;

use crate::launch::spools::left_behind::left_behind;
use knarr_capture::processes::any_of_run;

/// Names of sockets are at most this long.
const LONGEST_SOCKET: usize = 107;

const NAME: &str = "knarr-run-";
/// Locked as long as the launcher lives.
const ALIVE: &str = "alive";

/// The directory, removed when dropped.
pub(in crate::launch) struct RunDirectory {
    pub(in crate::launch) directory: PathBuf,
    pub(in crate::launch) socket: UnixDatagram,
    _alive: File,
}

impl RunDirectory {
    pub(in crate::launch) fn new(snapshot: &Snapshot) -> Result<Self> {
        sweep();
        let directory = make_directory()?;
        let write_error = |error: std::io::Error| Error::write(&directory, &error);
        let prepare = || -> Result<(UnixDatagram, File)> {
            let alive = mark(&directory).map_err(write_error)?;
            let text = serde_json::to_vec(snapshot).map_err(|error| Error::internal(error.to_string()))?;
            knarr_flow::output::replace(&directory.join(knarr_capture::SNAPSHOT), &text)?;
            std::fs::write(directory.join(knarr_capture::GATE), b"").map_err(write_error)?;
            Ok((UnixDatagram::bind(directory.join(knarr_capture::SOCKET)).map_err(write_error)?, alive))
        };
        match prepare() {
            Ok((socket, alive)) => Ok(Self { directory, socket, _alive: alive }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                Err(error)
            }
        }
    }

    pub(in crate::launch) fn gate(&self) -> PathBuf {
        self.directory.join(knarr_capture::GATE)
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where such directories are: where temporary files go, if names of sockets there are not too long.
fn parent() -> PathBuf {
    let parent = std::path::absolute(std::env::temp_dir()).unwrap_or_else(|_| PathBuf::from("/tmp"));
    let is_short = parent.as_os_str().len() + knarr_capture::SOCKET.len() + 32 <= LONGEST_SOCKET;
    if is_short { parent } else { PathBuf::from("/tmp") }
}

/// Removes the directories of runs whose launcher was killed and whose programs have ended.
pub(in crate::launch) fn sweep() {
    let user = rustix::process::geteuid().as_raw();
    for (directory, lock) in left_behind(&parent(), NAME, ALIVE, user) {
        if lock.is_some() && !any_of_run(&directory) {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Locks the mark of a launcher that lives, and puts it into the directory then: without it nobody removes the directory, so
/// where the file system has no locks there is none.
fn mark(directory: &Path) -> std::io::Result<File> {
    let beside = directory.join("alive.new");
    let alive = File::create(&beside)?;
    if alive.try_lock().is_ok() {
        std::fs::rename(beside, directory.join(ALIVE))?;
    }
    Ok(alive)
}

/// A new directory that only this user may enter.
fn make_directory() -> Result<PathBuf> {
    let parent = parent();
    for number in 0..1000 {
        let directory = parent.join(format!("{NAME}{:x}-{number}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Error::write(&directory, &error).hint("name a directory for temporary files in TMPDIR"));
            }
        }
    }
    Err(Error::new(ErrorKind::Write, "every name for a temporary directory is taken").at(parent.display().to_string()))
}

/// The library that programs get, beside the program `knarr` or in `lib/knarr` next to its directory.
pub(in crate::launch) fn library() -> Result<PathBuf> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize);
    let directory = program.ok().and_then(|program| program.parent().map(Path::to_path_buf)).unwrap_or_default();
    let places = [directory.join(knarr_capture::PRELOAD), directory.join("../lib/knarr").join(knarr_capture::PRELOAD)];
    places.iter().find(|place| place.is_file()).cloned().ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "the library that programs are to load is missing")
            .hint(
                "build it with 'cargo build --release -p knarr-preload', or install it beside knarr or in ../lib/knarr",
            )
            .at(places.first().map(|place| place.display().to_string()).unwrap_or_default())
    })
}

/// `LD_PRELOAD` for the program: the library, then what was there.
pub(in crate::launch) fn preload(library: &Path) -> Result<OsString> {
    let text = library.as_os_str().to_os_string();
    if text.to_string_lossy().contains([' ', ':']) {
        return Err(Error::new(ErrorKind::Unsupported, "the loader takes no path with a space or a colon")
            .hint("install knarr in another directory")
            .at(library.display().to_string()));
    }
    let mut all = text;
    if let Some(before) = std::env::var_os("LD_PRELOAD").filter(|before| !before.is_empty()) {
        all.push(":");
        all.push(before);
    }
    Ok(all)
}
