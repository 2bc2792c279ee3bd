//! `knarr checkpoint watch`: each time step of a running program becomes a set once its last file is closed.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::table;
use knarr_checkpoint::measured::By;
use knarr_checkpoint::pattern::Pattern;
use knarr_checkpoint::{Input, PackOptions};
use knarr_config::Ranks;
use knarr_flow::engine::{Engine, Progress};
use knarr_watch::{Complete, Directory, End, Host, Made, Packing, Rules, Steps, Stop, Verdict, Watching, Writers};
use knarr_watch::{are_written, readable, take};
use knarr_worker::means::Means;

use super::args::Watch;
use super::merging::Configured;
use crate::printing::progress::Bar;

pub(super) fn run(arguments: &Watch) -> Result<u8> {
    let pattern: Pattern = arguments.pattern.parse()?;
    let ranks: Ranks =
        arguments.ranks.parse().map_err(|error: Error| error.at(format!("--ranks '{}'", arguments.ranks)))?;
    let is_one = ranks.0 == (0..=0);
    if !pattern.has_step() || !pattern.has_rank() && !is_one {
        return Err(Error::usage(format!("pattern '{pattern}' tells steps or ranks not apart"))
            .hint("write both {step} and {rank} into it, like restart_{step}_{rank}.h5"));
    }
    let rules = Rules {
        ranks: ranks.0,
        settle: arguments.settle,
        patience: arguments.patience,
        force: arguments.force,
        live: false,
        ranks_key: "--ranks",
        remove_key: "--remove",
    };
    // Before anything is made.
    readable(&arguments.directory)?;
    let configured = Configured::read(&arguments.merging)?;
    let means = arguments.resources.means(&configured.machine())?;
    let engine = means.engine()?;
    let _lock = take(&arguments.output)?;
    let stop = Stop::listen(Arc::clone(&engine.cancel))?;
    let directory = Directory::open(&arguments.directory, pattern, &arguments.output)?;
    let packing = Packing {
        steps: Steps::new(rules),
        sets: arguments.output.clone(),
        remove: arguments.remove,
        keep: arguments.keep,
        by: By::Watch,
    };
    let mut watching = Watching { directory, writers: Writers::default(), packing };
    let mut command = Command { arguments, configured, means, engine, stop, sets: Vec::new(), worst: None };
    watching.run(&mut command)?;
    if arguments.once && watching.packing.steps.saw_nothing() && !command.stop.came() {
        let error = nothing_there(arguments);
        if arguments.remove {
            // Earlier ones may have packed and removed all there was.
            errln!("knarr: {error}");
        } else {
            command.notify(&error);
        }
    }
    Ok(command.exit_code(&watching.packing.steps))
}

/// A watch that was to pack what is there has found no file.
fn nothing_there(arguments: &Watch) -> Error {
    Error::new(ErrorKind::NotFound, format!("no file matches the pattern '{}'", arguments.pattern))
        .hint(
            "check directory and pattern: it is the path of a file below the directory, like restart_{step}_{rank}.h5",
        )
        .at(arguments.directory.display().to_string())
}

/// The command as host of its watch.
struct Command<'a> {
    arguments: &'a Watch,
    configured: Configured<'a>,
    means: Means,
    engine: Engine,
    stop: Stop,
    /// Of each set that was made, in words for machines.
    sets: Vec<serde_json::Value>,
    /// The first thing that went wrong: it gives the exit code.
    worst: Option<ErrorKind>,
}

impl Host for Command<'_> {
    fn engine(&self) -> (Engine, bool) {
        (self.engine.clone(), !self.arguments.once)
    }

    fn means(&self) -> &Means {
        &self.means
    }

    fn options(&self, inputs: &[Input]) -> Result<PackOptions> {
        self.configured.options(inputs.first().map(|input| input.path.as_path()))
    }

    fn progress(&self, step: u64) -> Box<dyn Progress> {
        Box::new(Bar::new(format!("step {step}")))
    }

    fn end(&self) -> End {
        if self.stop.came() {
            End::Now
        } else if self.arguments.once {
            End::WhenPacked
        } else {
            End::Open
        }
    }

    fn news(&self) -> BorrowedFd<'_> {
        self.stop.news().as_fd()
    }

    fn judge(&mut self, complete: &Complete) -> Verdict {
        let torn = complete.files.values().find_map(|file| Some((file.torn.as_ref()?, file)));
        if let Some((how, file)) = torn {
            let why = format!("{how} while it had the file open for writing: its step is not packed");
            return Verdict::Leave(
                Error::new(ErrorKind::Corrupt, why)
                    .hint("if the file is whole, 'knarr checkpoint pack' packs the step")
                    .at(file.path.display().to_string())
                    .at(format!("step {}", complete.step)),
            );
        }
        if are_written(complete.files.values().map(|file| &file.state)) { Verdict::Wait } else { Verdict::Pack }
    }

    fn unproven(&self, complete: &Complete) -> Option<String> {
        complete.unproven()
    }

    fn notify(&mut self, error: &Error) {
        errln!("knarr: {error}");
        self.worst.get_or_insert(error.kind());
    }

    fn packed(&mut self, made: &Made<'_>) {
        let Made { step, set, files, packed, unproven } = made;
        errln!(
            "step {step}: {}, {} in {}, ratio {}, {:.1} s: {}",
            table::count(*files, "file"),
            table::bytes(packed.raw_bytes),
            table::bytes(packed.packed_bytes),
            table::ratio(packed.raw_bytes, packed.packed_bytes),
            packed.seconds,
            set.display()
        );
        if let Some(why) = unproven {
            errln!("step {step}: {why}; the files stay");
        }
        self.sets.push(serde_json::json!({
            "step": step, "set": set, "files": files, "raw_bytes": packed.raw_bytes,
            "packed_bytes": packed.packed_bytes, "seconds": packed.seconds, "unproven": unproven,
        }));
    }

    fn removed(&mut self, set: &Path) {
        errln!("removed {}", set.display());
    }
}

impl Command<'_> {
    fn exit_code(mut self, steps: &Steps) -> u8 {
        for (step, why, told) in steps.unfinished() {
            if told {
                continue;
            }
            let error = Error::new(ErrorKind::Interrupted, format!("step {step} {why}")).hint("watch again to pack it");
            // A watch that is stopped leaves the rest to the next one; one that was to pack all did not do so.
            errln!("knarr: {error}");
            if self.arguments.once {
                self.worst.get_or_insert(ErrorKind::NotFound);
            }
        }
        if self.arguments.json {
            println!("{}", serde_json::json!({ "sets": self.sets }));
        }
        self.worst.map_or(0, ErrorKind::exit_code)
    }
}
