//! What the program asks for, and waits for.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use knarr_array::error::{Error, Result};
use knarr_capture::{HandedOver, Request};
use knarr_flow::engine::Silent;
use knarr_flow::urls::url_of;

use super::Supervisor;
use super::running_jobs::Todo;
use crate::launch::jobs::cost;
use crate::launch::jobs::deliver::Transcode;
use crate::launch::jobs::hand_back::HandBack;
use crate::launch::news::{News, spawn};
use knarr_capture::processes::Identity;
use knarr_decisions::queue::{JobId, Key};
use knarr_worker::Share;

impl Supervisor<'_> {
    /// The program waits for an answer.
    pub(super) fn asked_for(&mut self, directory: PathBuf) {
        if !self.in_spool.known.insert(directory.clone()) {
            return;
        }
        self.in_spool.lent.insert(directory.clone());
        let mut keys = vec![Key::Path(directory.clone())];
        let mut cost = cost::of_bytes(0);
        match Request::asked(&directory) {
            Ok(Request::Transcode(shown)) => {
                cost = cost::of_path(&shown.source);
                // A file keeps its content while it is open, whatever takes its place; what consists of several may change.
                if shown.source.is_dir() || url_of(&shown.source).is_some() {
                    keys.push(Key::Path(shown.source));
                }
            }
            Ok(Request::HandBack { path }) => {
                cost = cost::of_path(&path);
                keys.extend(std::fs::metadata(&path).ok().map(|found| Key::File(Identity::of(&found))));
                keys.push(Key::Path(path));
            }
            // It is told when the turn has come.
            Err(_) => {}
        }
        self.jobs.queue.push_first(keys, cost, Todo::Answer(directory));
    }

    /// Begins to do what is asked for in a directory. False if that cannot be: the program is told.
    pub(super) fn begin_answer(
        &mut self,
        id: JobId,
        share: Share,
        cancel: Arc<AtomicBool>,
        directory: PathBuf,
    ) -> bool {
        let (workers, disk) = (Arc::clone(&self.jobs.workers), self.setup.scratch.path().to_owned());
        let job: Box<dyn FnOnce() -> Result<()> + Send> = match Request::asked(&directory) {
            Ok(Request::Transcode(shown)) => {
                let task = Transcode::new(directory.clone(), disk, *shown);
                Box::new(move || workers.ask(&task, &share, &cancel, &Silent).map_err(Error::from))
            }
            Ok(Request::HandBack { path }) => {
                let (packed, gate, send) =
                    (Arc::clone(&self.packed), self.setup.run_directory.gate(), self.send.clone());
                let job = HandBack { path, packed, workers, share, cancel, gate, scratch: disk };
                Box::new(move || {
                    let is_changed = job.run()?;
                    if is_changed {
                        // It is heard of before the program goes on.
                        let _ = send.send(News::GivenBack(job.path));
                    }
                    Ok(())
                })
            }
            Err(error) => {
                notify(&directory, &Err(error));
                return false;
            }
        };
        let (send, place) = (self.send.clone(), directory.clone());
        let started = spawn("answerer", move || {
            notify(&place, &job());
            let _ = send.send(News::Answered(id));
        });
        let is_started = started.is_ok();
        if let Err(error) = started {
            notify(&directory, &Err(error));
        }
        is_started
    }
}

/// Says what became of it. If that cannot be written the program finds the directory gone.
fn notify(directory: &Path, outcome: &Result<()>) {
    if Request::answer(directory, outcome).is_err() {
        HandedOver::discard(directory);
    }
}
