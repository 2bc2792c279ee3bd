//! Sends what was written to the disk while more is encoded, so that the last sync has little left to wait for.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::room::Room;

/// Bytes after which the disk is asked again: what is left when the last chunk was written is waited for. A slow disk is
/// asked less often.
const STEP: u64 = 4 << 20;

/// A thread that syncs one file now and then, and room for what the file will hold.
#[derive(Debug)]
pub(crate) struct WriteBehind {
    asked: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
    pending: u64,
    room: Room,
}

impl WriteBehind {
    /// # Errors
    /// Those of opening the file and of starting a thread.
    pub(crate) fn start(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let room = Room::new(file.try_clone()?);
        let (asked, requests) = sync_channel(1);
        let thread = std::thread::Builder::new().name("knarr-sync".to_owned()).spawn(move || {
            let mut outcome = Ok(());
            for () in requests {
                outcome = outcome.and(file.sync_data());
            }
            outcome
        })?;
        Ok(Self { asked, thread, pending: 0, room })
    }

    /// So many more bytes were written. Nobody else may write the file meanwhile.
    pub(crate) fn written(&mut self, bytes: u64) {
        self.room.written(bytes);
        self.pending += bytes;
        // A request that waits already covers these bytes.
        if self.pending >= STEP && self.asked.try_send(()).is_ok() {
            self.pending = 0;
        }
    }

    /// Ends the thread, once all is written.
    ///
    /// # Errors
    /// What any sync reported. It must not be lost: the system tells of a failed write once, and a later sync of the
    /// file may succeed.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.asked);
        let synced = self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs stopped")));
        synced.and_then(|()| self.room.give_back())
    }
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
