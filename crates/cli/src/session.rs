//! The engine of one invocation, and what an interrupt does.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use knarr_array::error::{Error, Result};
use knarr_config::Machine;
use knarr_flow::engine::Engine;
use knarr_worker::means::Means;

use crate::arguments::resources::Resources;

/// A limit of file sizes (`ulimit -f`) is an error of the write that meets it, told as others are, and not the end of
/// the program. Programs that are started get what they would have got.
pub(crate) fn outlive_file_limits() {
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Sets up codecs, threads, memory, profile, model and what Ctrl-C and termination do.
pub(crate) fn engine(resources: &Resources, machine: &Machine) -> Result<Engine> {
    engine_of(&resources.means(machine)?)
}

/// As [`engine`], from what was found already.
pub(crate) fn engine_of(means: &Means) -> Result<Engine> {
    let engine = means.engine()?;
    register(&engine)?;
    Ok(engine)
}

/// As [`engine`], with the user's profile and the built-in model.
pub(crate) fn engine_without_model(resources: &Resources) -> Result<Engine> {
    engine_of(&Means::without_model(&resources.asked())?)
}

/// As [`engine`], with the built-in profile and model whatever the user has.
pub(crate) fn engine_without_profile(resources: &Resources) -> Result<Engine> {
    engine_of(&Means::without_costs(&resources.asked())?)
}

fn register(engine: &Engine) -> Result<()> {
    for signal in STOPPING {
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register(signal, Arc::clone(&engine.cancel))
            .and_then(|_| signal_hook::flag::register_usize(signal, Arc::clone(stopped_by()), number))
            .map_err(|error| Error::internal(format!("cannot handle signals: {error}")))?;
    }
    Ok(())
}

/// Signals that stop at the next chunk, with nothing left behind.
const STOPPING: [i32; 3] = [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM];

/// Number of the signal that came; 0 if none did. Signals belong to the process, not to an engine.
fn stopped_by() -> &'static Arc<AtomicUsize> {
    static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
    SIGNAL.get_or_init(Arc::default)
}

/// Exit code after an interrupt: 128 and the number of the signal, as shells count.
pub(crate) fn interrupted_code() -> Option<u8> {
    let signal = stopped_by().load(Ordering::Relaxed);
    u8::try_from(128 + signal).ok().filter(|_| signal > 0)
}
