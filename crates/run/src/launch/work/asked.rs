//! What the program asks for, and waits for.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Request};
use knarr_flow::engine::Silent;

use super::super::jobs::deliver::Show;
use super::super::jobs::hand_back::HandBack;
use super::super::news::{News, spawn};
use super::{UnderWay, Work};
use crate::worker::Effort;

impl Work<'_> {
    /// Begins to do what is asked for in a directory.
    pub(super) fn answer(&mut self, directory: PathBuf) {
        let cancel = Arc::new(AtomicBool::new(false));
        let (worker, stop) = (Arc::clone(&self.worker), Arc::clone(&cancel));
        let (jobs, disk) = (self.begun.engine.jobs, self.begun.scratch.path().to_owned());
        let job: Box<dyn FnOnce() -> Result<()> + Send> = match Request::asked(&directory) {
            Ok(Request::Show(shown)) => {
                let task = Show::new(directory.clone(), disk, *shown);
                Box::new(move || {
                    let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
                    let effort = Effort { jobs, background: false };
                    worker.ask(&task, effort, &stop, &Silent).map_err(Error::from)
                })
            }
            Ok(Request::HandBack { path }) => {
                let (packed, gate, send) = (Arc::clone(&self.packed), self.begun.stage.gate(), self.send.clone());
                let job = HandBack { path, packed, worker, jobs, cancel: stop, gate, scratch: disk };
                Box::new(move || {
                    let is_changed = job.run()?;
                    if is_changed {
                        // It is heard of before the program goes on.
                        let _ = send.send(News::GivenBack(job.path));
                    }
                    Ok(())
                })
            }
            Err(error) => return tell(&directory, &Err(error)),
        };
        let (send, place) = (self.send.clone(), directory.clone());
        let started = spawn("answerer", move || {
            tell(&place, &job());
            let _ = send.send(News::Answered);
        });
        match started {
            Ok(()) => {
                let (path, since) = (directory, Instant::now());
                let (directory, after_end, is_awaited) = (None, false, true);
                self.under_way = Some(UnderWay { path, directory, cancel, after_end, is_awaited, since });
            }
            Err(error) => tell(&directory, &Err(error)),
        }
    }
}

/// Says what became of it. If that cannot be written the program finds the directory gone.
fn tell(directory: &Path, outcome: &Result<()>) {
    if Request::answer(directory, outcome).is_err() {
        HandedOver::discard(directory);
    }
}
