//! How a watch ends: a signal lets it finish the set it is writing, a second one stops that too.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use knarr_array::error::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use knarr_capture::processes::ignored_signals;

/// Whether a signal came.
pub struct Stop {
    came: Arc<AtomicBool>,
    news: UnixStream,
}

impl Stop {
    /// Begins to listen. The second signal sets `cancel`. Signals that are ignored, as under `nohup`, stay so.
    ///
    /// # Errors
    /// `Internal` if signals cannot be handled.
    pub fn listen(cancel: Arc<AtomicBool>) -> Result<Self> {
        let internal = |error: std::io::Error| Error::internal(format!("cannot handle signals: {error}"));
        let ignored = ignored_signals();
        let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let mut signals = Signals::new(wanted).map_err(internal)?;
        let (news, mut teller) = UnixStream::pair().map_err(internal)?;
        let came = Arc::new(AtomicBool::new(false));
        let first = Arc::clone(&came);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for _ in signals.forever() {
                    if first.swap(true, Ordering::Relaxed) {
                        cancel.store(true, Ordering::Relaxed);
                    }
                    // Only to end a wait.
                    let _ = teller.write(&[1]);
                }
            })
            .map_err(internal)?;
        Ok(Self { came, news })
    }

    /// True once a signal came.
    pub fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Becomes readable when a signal comes.
    pub fn news(&self) -> &UnixStream {
        &self.news
    }
}
