//! `libknarr_h5.so`, which holds Knarr's HDF5 filter: loaded only where it is needed, for it is large.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::host::CallerHdf5;
use knarr_capture::program as run;

/// The loaded library. It stays loaded until the process ends.
pub(crate) struct Library {
    /// Its filter, as `H5PLget_plugin_info` gives it.
    class: *const c_void,
}

// SAFETY: the address of a static that is never written.
unsafe impl Sync for Library {}
// SAFETY: as above.
unsafe impl Send for Library {}

/// The library.
///
/// # Errors
/// In words, why it is not there.
pub(crate) fn library() -> Result<&'static Library, String> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| {
        let path = run::run().and_then(|run| run.rules().library.as_deref());
        Library::load(path.ok_or("Knarr's filter plugin was not found")?)
    });
    loaded.as_ref().map_err(Clone::clone)
}

impl Library {
    fn load(path: &Path) -> Result<Self, String> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: opening runs the constructors of Knarr's own plugin, which have no effect on the process.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            // SAFETY: `dlerror` has no preconditions; what it returns lives until its next call.
            let why = unsafe { libc::dlerror().as_ref() }.map(|why| unsafe { CStr::from_ptr(why) });
            let why = why.unwrap_or_default().to_string_lossy();
            return Err(format!("Knarr's filter plugin cannot be loaded: {why}"));
        }
        // SAFETY: the handle is open and the names are C strings. A null pointer is `None`; any other is the function
        // that H5PLextern.h, or Knarr's plugin, declares under this name.
        let info = unsafe {
            let info = libc::dlsym(handle, c"H5PLget_plugin_info".as_ptr());
            std::mem::transmute::<*mut c_void, Option<extern "C" fn() -> *const c_void>>(info)
        };
        let class = info.map_or(std::ptr::null(), |info| info());
        if class.is_null() {
            return Err(format!("{} is no filter plugin", path.display()));
        }
        Ok(Self { class })
    }
}

impl CallerHdf5 {
    /// To be called before this HDF5 opens a file: where files may have chunks that only Knarr's filter reads, the
    /// program must be able to read them again.
    pub(crate) fn prepare(&self) {
        if run::run().is_some_and(run::Run::uses_own_filter) {
            // Without it HDF5 says that it lacks the filter.
            let _ = self.own_filter();
        }
    }

    /// Gives this HDF5 Knarr's filter, whatever it has for a plugin path. Done once.
    ///
    /// # Errors
    /// In words, why it has none.
    fn own_filter(&self) -> Result<(), String> {
        let done = self.own_filter.get_or_init(|| {
            let class = library()?.class;
            let register = self.register_filter.ok_or("the program's HDF5 registers no filters")?;
            // SAFETY: the class lives as long as the process and is laid out as this HDF5's headers say.
            let registered = self.quietly(|_| unsafe { register(class) } >= 0);
            if registered == Some(true) { Ok(()) } else { Err("HDF5 did not take Knarr's filter".to_owned()) }
        });
        done.clone()
    }
}
