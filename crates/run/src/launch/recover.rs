//! Finishes what runs that were killed have left in their spools.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::HandedOver;
use knarr_capture::config::{Output, zarr_name};

use super::deliver::Delivery;
use super::outcome::{Done, Files, Outcome};
use super::spool;
use crate::means::Means;
use crate::processes::{Identity, writer};
use crate::worker::{Effort, Worker};

/// Makes the files that were handed over and not delivered, in the spool `directory` or in the spools in it. Files that were
/// not closed hold what was put into them. Nothing is made that a program still writes, or that would replace a newer file. The command as typed, and the day, are noted in the files.
///
/// # Errors
/// `Usage` if there is nothing, or a run that goes on delivers it; those of the engine. What becomes of each file is a result.
pub fn recover(means: &Means, directory: &Path, (command, when): (&str, &str)) -> Result<Vec<Done>> {
    let jobs = means.engine()?.jobs;
    let worker = Arc::new(Mutex::new(Worker::new(means.clone())));
    let mut files = Files::default();
    for spool in spool::recoverable(directory)? {
        for (directory, handed) in HandedOver::to_be_made(&spool) {
            let (path, outcome) = match handed {
                Ok(handed) if let Some(error) = refused(&directory, &handed) => {
                    (handed.target, Outcome::Undelivered(error, directory))
                }
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
        if HandedOver::to_be_made(&spool).is_empty() {
            // It is found and tried again next time.
            let _ = std::fs::remove_dir_all(&spool);
        }
    }
    Ok(files.into_list())
}

/// Why nothing is made of what lies in `directory`: a program still writes it, or what has its name is newer.
fn refused(directory: &Path, handed: &HandedOver) -> Option<Error> {
    let logs = (0..handed.ranks).map(|rank| directory.join(HandedOver::log(rank)));
    let identities = logs.filter_map(|log| std::fs::metadata(log).ok()).map(|found| Identity::of(&found));
    if let Some(process) = identities.into_iter().find_map(writer) {
        let what = format!("process {process} still writes the file");
        return Some(Error::usage(what).hint("wait until the program has ended"));
    }
    let time = |path: &Path| std::fs::metadata(path).and_then(|found| found.modified()).ok();
    let output = match handed.rule.compress.output() {
        Output::Zarr => zarr_name(&handed.target),
        _ => handed.target.clone(),
    };
    let (there, put) = (time(&output)?, time(&directory.join(HandedOver::HEADER)).or_else(|| time(directory))?);
    (there > put).then(|| {
        Error::new(ErrorKind::Exists, "what is there is newer than what was handed over")
            .hint(format!("move it away to have the other one made, or remove {}", directory.display()))
            .at(output.display().to_string())
    })
}
