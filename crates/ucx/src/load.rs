//! UCX in this process.

use std::sync::OnceLock;

use crate::sys::Context;

/// UCX, loaded and initialized. It stays so until the process ends.
#[derive(Debug)]
pub struct Ucx {
    pub(crate) context: Context,
    process: u32,
}

static LOADED: OnceLock<Result<Ucx, String>> = OnceLock::new();

/// Loads UCX, once in a process.
///
/// # Errors
/// Says why it cannot be used: it is not installed, its version is too old, or it finds nothing to communicate by. A process
/// that was forked after its parent loaded UCX cannot use it, because UCX has threads and devices that are not copied.
pub fn load() -> Result<&'static Ucx, String> {
    let begun = || Ok(Ucx { context: Context::new()?, process: std::process::id() });
    let ucx = LOADED.get_or_init(begun).as_ref().map_err(Clone::clone)?;
    match ucx.is_here() {
        true => Ok(ucx),
        false => Err("this process was forked from one that uses UCX".to_owned()),
    }
}

impl Ucx {
    /// Its version, as `1.13.1`.
    pub fn version(&self) -> &str {
        self.context.version()
    }

    /// False in a process that was forked from the one that loaded it.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }
}
