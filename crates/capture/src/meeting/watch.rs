//! Waiting for something to appear in a directory.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// Longest wait: what the kernel does not tell of is seen then.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Where the kernel tells nothing.
const LOOK_OFTEN: Duration = Duration::from_millis(5);

/// Watches directories. Look after [`Watch::on`] and before [`Watch::wait`], so that nothing is missed.
#[derive(Debug)]
pub struct Watch {
    /// `None` where the kernel has no more watches to give.
    events: Option<OwnedFd>,
    /// What is watched.
    watched: BTreeSet<i32>,
}

/// Descriptors for the next watches. The kernel takes 25 ms to close one, in which a whole file could have been read.
static KEPT: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// More are closed: threads that wait at the same time are few.
const MOST_KEPT: usize = 8;

impl Watch {
    /// One that watches nothing yet.
    pub fn new() -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self { events: kept.or_else(|| inotify::init(flags).ok()), watched: BTreeSet::new() }
    }

    /// Watches a directory; if it is not there, the one in which it, or one above it, will appear.
    pub fn on(&mut self, directory: &Path) {
        use inotify::WatchFlags as Flags;
        let Some(there) = directory.ancestors().find(|path| path.is_dir()) else { return };
        let flags = Flags::CREATE | Flags::MOVED_TO | Flags::DELETE | Flags::DELETE_SELF | Flags::ONLYDIR;
        let Some(events) = &self.events else { return };
        match inotify::add_watch(events, there, flags) {
            Ok(number) => {
                self.watched.insert(number);
            }
            Err(_) => self.events = None,
        }
    }

    /// Returns when something has happened, or after a moment.
    pub fn wait(&self) {
        self.wait_for(if self.events.is_some() { LOOK_EVERY } else { LOOK_OFTEN });
    }

    /// Returns when something has happened, or after so long.
    pub fn wait_for(&self, most: Duration) {
        let Some(events) = &self.events else { return std::thread::sleep(most) };
        let Ok(most) = Timespec::try_from(most) else { return };
        if poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&most)).is_ok_and(|ready| ready > 0) {
            forget(events);
        }
    }
}

/// Reads what has happened.
fn forget(events: &OwnedFd) {
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut told = inotify::Reader::new(events, &mut buffer);
    while told.next().is_ok() {}
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(events) = self.events.take() else { return };
        // One that is gone with its directory is removed already.
        for &number in &self.watched {
            let _ = inotify::remove_watch(&events, number);
        }
        forget(&events);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(events);
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_appears_ends_the_wait() {
        let folder = std::env::temp_dir().join(format!("knarr-watch-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut watch = Watch::new();
        watch.on(&folder.join("a/b"));
        let maker = std::thread::spawn({
            let folder = folder.clone();
            move || {
                std::thread::sleep(Duration::from_millis(10));
                std::fs::create_dir(folder.join("a")).unwrap();
            }
        });
        let begin = Instant::now();
        while !folder.join("a").exists() {
            watch.wait();
            assert!(begin.elapsed() < Duration::from_secs(10));
        }
        maker.join().unwrap();
        // Nothing comes: the wait ends all the same.
        watch.wait();
        drop(watch);
        // The next one hears nothing of what the last one watched.
        let next = Watch::new();
        std::fs::create_dir(folder.join("b")).unwrap();
        assert!(next.events.as_ref().is_some_and(|events| {
            !poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        }));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
