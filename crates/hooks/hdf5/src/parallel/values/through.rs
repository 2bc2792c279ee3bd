//! How many collective writes of a file each rank is through with. A collective write waits for nobody, so a rank that is through with
//! one may read, independently, what others have not written yet. With HDF5 itself it finds that in practice, as ranks meet in a
//! collective write. So an independent read on one node waits for the ranks that are behind.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use knarr_capture::HandedOver;
use knarr_handover::PutLog;

/// Name of a file in the directory of the captured one: a number of 8 bytes for each rank.
const NAME: &str = "collective-writes";
const LEN: usize = size_of::<u64>();
/// Between two looks at what others have done.
const PAUSE: Duration = Duration::from_micros(100);
/// Looks until it is asked whether a rank that is behind still lives.
const LOOKS: u32 = 100;

/// What this rank knows of its own collective writes.
#[derive(Debug, Default)]
pub(in crate::parallel) struct Through {
    /// Those it is through with.
    mine: u64,
}

/// Makes the file for so many ranks. Without it nobody waits. To be called on one rank, before the others may write.
pub(in crate::parallel) fn begin(directory: &Path, ranks: usize) {
    let path = directory.join(NAME);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    // Memory is taken now, so that no later write finds none.
    if made.and_then(|file| file.write_all_at(&vec![0; LEN * ranks], 0)).is_err() {
        give_up(&path);
    }
}

/// What one rank is through with cannot be told, and the others must not wait for it.
fn give_up(path: &Path) {
    let _ = fs::remove_file(path);
}

impl Through {
    /// This rank is through with one more.
    pub(in crate::parallel) fn wrote(&mut self, directory: &Path, rank: usize) {
        self.mine += 1;
        self.notify(directory, rank);
    }

    /// This rank writes no more.
    pub(in crate::parallel) fn ends(&mut self, directory: &Path, rank: usize) {
        self.mine = u64::MAX;
        self.notify(directory, rank);
    }

    fn notify(&self, directory: &Path, rank: usize) {
        let path = directory.join(NAME);
        let told = OpenOptions::new().write(true).open(&path);
        let told = told.and_then(|file| file.write_all_at(&self.mine.to_le_bytes(), (LEN * rank) as u64));
        if told.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
            give_up(&path);
        }
    }

    /// Waits until all ranks are as far as this one, or have ended.
    pub(in crate::parallel) fn await_others(&self, directory: &Path) {
        let path = directory.join(NAME);
        let is_held = |rank: &usize| PutLog::is_held(&directory.join(HandedOver::log(*rank)));
        for look in 1u32.. {
            let Ok(all) = all(&path) else { return };
            let mut behind = (0..).zip(all).filter(|(_, done)| *done < self.mine).map(|(rank, _)| rank);
            if !behind.any(|rank| look % LOOKS > 0 || is_held(&rank)) {
                return;
            }
            sleep(PAUSE);
        }
    }
}

/// What each rank is through with.
fn all(path: &Path) -> io::Result<Vec<u64>> {
    let bytes = fs::read(path)?;
    Ok(bytes.chunks_exact(LEN).filter_map(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_read_waits_for_ranks_that_are_behind_and_live() {
        let folder = std::env::temp_dir().join(format!("knarr-through-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let locked = |rank| {
            let log = File::create(folder.join(HandedOver::log(rank))).unwrap();
            log.lock().unwrap();
            log
        };
        let [_first, second] = [locked(0), locked(1)];
        begin(&folder, 2);
        let [mut ahead, mut behind] = [Through::default(), Through::default()];
        // Nobody is behind.
        ahead.await_others(&folder);
        ahead.wrote(&folder, 0);
        behind.await_others(&folder);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| ahead.await_others(&folder));
            sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            behind.wrote(&folder, 1);
            waits.join().unwrap();
        });
        // One that has ended is not waited for, and neither is one that closes the file.
        ahead.wrote(&folder, 0);
        drop(second);
        ahead.await_others(&folder);
        let _second = locked(1);
        behind.ends(&folder, 1);
        ahead.await_others(&folder);
        // Nobody waits where a rank cannot tell what it has done.
        fs::remove_file(folder.join(NAME)).unwrap();
        ahead.wrote(&folder, 0);
        ahead.await_others(&folder);
        assert!(!folder.join(NAME).exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
