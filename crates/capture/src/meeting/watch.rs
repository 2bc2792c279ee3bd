//! Waiting for something to appear in a directory.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
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
}

impl Watch {
    /// One that watches nothing yet.
    pub fn new() -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Self { events: inotify::init(flags).ok() }
    }

    /// Watches a directory; if it is not there, the one in which it, or one above it, will appear.
    pub fn on(&mut self, directory: &Path) {
        use inotify::WatchFlags as Flags;
        let Some(there) = directory.ancestors().find(|path| path.is_dir()) else { return };
        let flags = Flags::CREATE | Flags::MOVED_TO | Flags::DELETE | Flags::DELETE_SELF | Flags::ONLYDIR;
        if self.events.as_ref().is_some_and(|events| inotify::add_watch(events, there, flags).is_err()) {
            self.events = None;
        }
    }

    /// Returns when something has happened, or after a moment.
    pub fn wait(&self) {
        let Some(events) = &self.events else { return std::thread::sleep(LOOK_OFTEN) };
        let Ok(most) = Timespec::try_from(LOOK_EVERY) else { return };
        if poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&most)).is_ok_and(|ready| ready > 0) {
            let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
            let mut told = inotify::Reader::new(events, &mut buffer);
            while told.next().is_ok() {}
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
        std::fs::remove_dir_all(folder).unwrap();
    }
}
