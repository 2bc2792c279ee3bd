//! Watching a directory: each time step of a running program becomes a set once its last file is closed. How it ends,
//! what is packed how, and who hears of it is the business of a [`Host`].

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use knarr_array::error::{Error, Result};
use knarr_checkpoint::Input;
use knarr_checkpoint::sets::lock;
use knarr_flow::output::remove_abandoned;

use super::host::{End, Host, Verdict};
use super::look::Directory;
use super::packing::Packing;
use super::steps::Complete;
use super::writers::Writers;

/// How often the directory is looked at when nothing is told of it: other machines' writing is not.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Files that are closed together are looked at together.
const TOGETHER: Duration = Duration::from_millis(100);

/// What is watched, and what becomes of it.
pub struct Watching {
    /// Where files come.
    pub directory: Directory,
    /// Who writes the files.
    pub writers: Writers,
    /// What becomes of them.
    pub packing: Packing,
}

impl Watching {
    /// Watches until the host says that it is enough.
    ///
    /// # Errors
    /// If a directory cannot be read any more. What is wrong with a step alone is told, and others go on.
    pub fn run(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut last = false;
        loop {
            // Before the look, so that the last look is one after the end.
            let end = host.end();
            if end == End::WhenPacked && !last {
                last = true;
                self.packing.steps.retry(Instant::now());
            }
            let found = self.directory.look()?;
            self.writers.look(&found);
            for trouble in self.packing.steps.look(found, Instant::now()) {
                host.notify(&trouble);
            }
            if host.end() == End::Now {
                return Ok(());
            }
            if let Some(mut complete) = self.packing.steps.complete(Instant::now()) {
                for file in complete.files.values_mut() {
                    file.torn = self.writers.torn(&file.state);
                    file.unproven = self.writers.ended_somehow(&file.state)
                        || !file.followed && !self.directory.is_of_this_machine(&file.path);
                }
                match host.judge(&complete) {
                    Verdict::Wait => self.packing.steps.restless(complete.step, Instant::now()),
                    Verdict::Leave(error) => {
                        host.notify(&error);
                        self.packing.steps.left(complete.step);
                        continue;
                    }
                    Verdict::Pack => {
                        self.pack(host, &complete)?;
                        continue;
                    }
                }
            }
            let waits = self.packing.steps.waits_to_settle(Instant::now());
            if end == End::WhenPacked && !waits {
                return Ok(());
            }
            let rules = self.packing.steps.rules();
            let rest = if waits { rules.settle } else { rules.patience };
            self.directory.wait(host.news(), rest.clamp(TOGETHER, LOOK_EVERY));
            // At once: who writes a file may not live long.
            self.writers.look(&self.directory.look()?);
            let Self { directory, writers, .. } = self;
            directory.rest(TOGETHER, None, || writers.look_again());
        }
    }

    /// Packs a step. Meanwhile the program writes the next: who has which file open is looked at as ever, since nothing
    /// tells it of a process that is gone.
    fn pack(&mut self, host: &mut dyn Host, complete: &Complete) -> Result<()> {
        let Self { directory, writers, packing } = self;
        let input = |(&number, file): (&u64, &super::steps::Finished)| Input {
            path: file.path.clone(),
            name: directory.name(&file.path).to_vec(),
            number,
        };
        let inputs: Vec<Input> = complete.files.iter().map(input).collect();
        let internal = |error: std::io::Error| Error::internal(format!("cannot make a socket: {error}"));
        let (end, packed) = UnixStream::pair().map_err(internal)?;
        std::thread::scope(|scope| {
            let packing = scope.spawn(move || {
                let result = packing.pack(host, complete, &inputs);
                // Ends the wait of who looks.
                drop(packed);
                result
            });
            // The next look after the packing says what is wrong with the directory.
            let look = |writers: &mut Writers| directory.look().map_or((), |found| writers.look(&found));
            while !packing.is_finished() {
                directory.wait(&end, LOOK_EVERY);
                look(writers);
                // Once more, because a new file is told of before its process has it.
                directory.rest(TOGETHER, Some(end.as_fd()), || writers.look_again());
                look(writers);
            }
            packing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Makes the directory of sets, and removes what killed watches left there. Two watches would pack every step twice: it
/// belongs to this one until the result is dropped.
///
/// # Errors
/// `Exists` if somebody else has it, `Write` if it cannot be made.
pub fn take(sets: &Path) -> Result<File> {
    fs::create_dir_all(sets).map_err(|error| Error::write(sets, &error))?;
    let taken = lock(sets)?;
    remove_abandoned(sets);
    Ok(taken)
}
