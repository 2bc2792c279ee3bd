//! Finishes what runs that were killed have left in their spools.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use knarr_array::error::Result;
use knarr_capture::HandedOver;

use super::deliver::Delivery;
use super::outcome::{Done, Files, Outcome};
use super::spool;
use crate::means::Means;
use crate::worker::{Effort, Worker};

/// Makes the files that were handed over and not delivered, in the spool `directory` or in the spools in it. Files that were
/// not closed hold what was put into them. The command as typed, and the day, are noted in the files.
///
/// # Errors
/// `Usage` if there is nothing, or a run that goes on delivers it; those of the engine. What becomes of each file is a result.
pub fn recover(means: &Means, directory: &Path, (command, when): (&str, &str)) -> Result<Vec<Done>> {
    let jobs = means.engine()?.jobs;
    let worker = Arc::new(Mutex::new(Worker::new(means.clone())));
    let mut files = Files::default();
    for spool in spool::recoverable(directory)? {
        for (directory, handed) in HandedOver::left(&spool) {
            let (path, outcome) = match handed {
                Ok(handed) => {
                    let target = handed.target.clone();
                    let job = Delivery {
                        directory,
                        handed,
                        worker: Arc::clone(&worker),
                        effort: Effort { jobs, background: false },
                        cancel: Arc::new(AtomicBool::new(false)),
                        command: command.to_owned(),
                        when: when.to_owned(),
                    };
                    (target, job.run())
                }
                Err(error) => (directory.clone(), Outcome::Undelivered(error, directory)),
            };
            files.add(path, outcome, String::new());
        }
        if HandedOver::left(&spool).is_empty() {
            // It is found and tried again next time.
            let _ = std::fs::remove_dir_all(&spool);
        }
    }
    Ok(files.into_list())
}
