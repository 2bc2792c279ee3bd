//! Sends what was written to the disk while more is encoded, so that the last sync has little left to wait for.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::room::Room;

/// Bytes after which the disk is asked again: what is left when the last chunk was written is waited for. A slow disk is
/// asked less often.
const STEP: u64 = 4 << 20;

/// A thread that sends one file to the disk now and then, and room for what the file will hold.
#[derive(Debug)]
pub struct WriteBehind {
    asked: SyncSender<()>,
    thread: JoinHandle<io::Result<File>>,
    pending: u64,
    room: Room,
}

impl WriteBehind {
    /// # Errors
    /// Those of opening the file and of starting a thread.
    pub fn start(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let room = Room::new(file.try_clone()?);
        let (asked, requests) = sync_channel(1);
        let thread = std::thread::Builder::new().name("knarr-sync".to_owned()).spawn(move || {
            let mut sent = 0;
            for () in requests {
                let end = file.metadata()?.len();
                send_to_disk(&file, sent, end)?;
                sent = end;
            }
            Ok(file)
        })?;
        Ok(Self { asked, thread, pending: 0, room })
    }

    /// So many more bytes were written. Nobody else may make the file longer meanwhile.
    pub fn written(&mut self, bytes: u64) {
        self.room.written(bytes);
        self.pending += bytes;
        // A request that waits already covers these bytes.
        if self.pending >= STEP && self.asked.try_send(()).is_ok() {
            self.pending = 0;
        }
    }

    /// Ends the thread, once all is written, and waits for the disk.
    ///
    /// # Errors
    /// What the sync reports, also of bytes that were sent before: by a file that was open all the time, for the system
    /// tells of a failed write once.
    pub fn finish(self) -> io::Result<()> {
        drop(self.asked);
        let stopped = |_| Err(io::Error::other("the thread that writes behind stopped"));
        let file = self.thread.join().unwrap_or_else(stopped)?;
        file.sync_data()?;
        self.room.give_back()
    }
}

/// Sends the bytes from `start` to `end` of a file to the disk. They are not waited for, which would keep a core busy with
/// the file system's journal: to say that they will not be needed starts their way and does no more to pages that are on it
/// (posix_fadvise(2)).
///
/// # Errors
/// Those of a sync, where there is nothing else.
#[cfg(target_os = "linux")]
pub fn send_to_disk(file: &File, start: u64, end: u64) -> io::Result<()> {
    use rustix::fs::{Advice, fadvise};
    match std::num::NonZeroU64::new(end.saturating_sub(start)) {
        Some(length) => fadvise(file, start, Some(length), Advice::DontNeed).or_else(|_| file.sync_data()),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn send_to_disk(file: &File, _start: u64, _end: u64) -> io::Result<()> {
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn it_ends_after_any_number_of_requests() {
        let path = std::env::temp_dir().join(format!("knarr-write-behind-{}", std::process::id()));
        let mut file = std::fs::File::create(&path).unwrap();
        let mut behind = WriteBehind::start(&path).unwrap();
        for _ in 0..20 {
            file.write_all(&[1; 1000]).unwrap();
            behind.written(STEP / 2);
        }
        behind.finish().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(WriteBehind::start(&path).is_err());
    }
}
