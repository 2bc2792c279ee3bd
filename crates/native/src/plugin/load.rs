//! Opening one filter plugin.

use knarr_array::filter::FilterId;
use knarr_array::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::abi::{CLASS_VERSION, Class, DECODE, Filter, TYPE_FILTER};

/// Plugins whose callback keeps no state between calls (checked in their sources); all others get one caller at a
/// time, because several keep global contexts.
const THREAD_SAFE: &[FilterId] = &[307, 32004, 32015];

/// What is done to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards the file.
    Encode,
    /// From the file.
    Decode,
}

/// A loaded filter plugin. It stays loaded until the process ends: plugins start threads and register exit
/// handlers that must not lose their code.
pub(crate) struct Plugin {
    pub(crate) id: FilterId,
    pub(crate) name: String,
    pub(crate) has_encoder: bool,
    pub(crate) has_decoder: bool,
    callback: Filter,
    /// Present if only one caller may be inside at a time.
    turn: Option<Mutex<()>>,
}

impl Plugin {
    /// Opens a shared object and reads its filter class.
    ///
    /// # Errors
    /// `Unsupported` with the reason: a symbol that nothing provides, another kind of plugin, another interface.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        provide_libm();
        // All symbols are resolved at once, so that a missing one is an error here and not a crash later.
        // SAFETY: opening runs the constructors of the object. HDF5 would do the same to the same file.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| refuse(format!("cannot be loaded: {}", loader_message(&error))))?;
        // SAFETY: the types are those that H5PLextern.h gives these two functions.
        let (get_type, get_info) = unsafe {
            let get_type = library.get::<unsafe extern "C" fn() -> c_int>(b"H5PLget_plugin_type\0");
            let get_info = library.get::<unsafe extern "C" fn() -> *const Class>(b"H5PLget_plugin_info\0");
            match (get_type, get_info) {
                (Ok(get_type), Ok(get_info)) => (*get_type, *get_info),
                _ => return Err(refuse("is not an HDF5 plugin")),
            }
        };
        std::mem::forget(library);
        // SAFETY: both functions take nothing and return a number and the address of a static.
        let class = unsafe {
            if get_type() != TYPE_FILTER {
                return Err(refuse("is an HDF5 plugin of another kind than filters"));
            }
            get_info().as_ref().ok_or_else(|| refuse("has no filter class"))?
        };
        if class.version != CLASS_VERSION {
            return Err(refuse(format!("has a filter class of version {}, only 1 is known", class.version)));
        }
        let callback = class.filter.ok_or_else(|| refuse("has no filter function"))?;
        let id = FilterId::try_from(class.id).map_err(|_| refuse("has a negative filter number"))?;
        // SAFETY: the name is null or a string that lives as long as the library, which is never closed.
        let name = unsafe { class.name.as_ref().map(|name| CStr::from_ptr(name)) };
        Ok(Self {
            id,
            name: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            has_encoder: class.encoder_present != 0,
            has_decoder: class.decoder_present != 0,
            callback,
            turn: (!THREAD_SAFE.contains(&id)).then(|| Mutex::new(())),
        })
    }

    /// Runs the filter. Returns `None` if it refuses the chunk.
    ///
    /// # Errors
    /// `Unsupported` if there is no memory; `Internal` if the plugin breaks its contract.
    pub(crate) fn run(&self, direction: Direction, cd_values: &[u32], input: &[u8]) -> Result<Option<Output>> {
        let mut output = Output::copy_of(input)?;
        let mut capacity = input.len();
        let flags = match direction {
            Direction::Encode => 0,
            Direction::Decode => DECODE,
        };
        let turn = self.turn.as_ref().map(|turn| turn.lock().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: this is the call that HDF5 makes: a buffer from malloc, of which `input.len()` bytes are the
        // chunk, that the plugin may free and replace by another from malloc.
        let length = unsafe {
            (self.callback)(
                flags,
                cd_values.len(),
                cd_values.as_ptr(),
                input.len(),
                &raw mut capacity,
                &raw mut output.start,
            )
        };
        drop(turn);
        if length == 0 {
            return Ok(None);
        }
        // What the plugin says about the buffer's size is not relied on: some leave it as it was.
        let room = output.room();
        if length > room {
            return Err(Error::internal(format!(
                "plugin '{}' reports {length} bytes in a buffer of {room}",
                self.name
            )));
        }
        output.length = length;
        Ok(Some(output))
    }
}

/// A buffer from `malloc` that a plugin filled.
pub(crate) struct Output {
    start: *mut c_void,
    length: usize,
}

impl Output {
    fn copy_of(input: &[u8]) -> Result<Self> {
        let capacity = input.len().max(1);
        // SAFETY: `malloc` of at least one byte.
        let start = unsafe { libc::malloc(capacity) };
        if start.is_null() {
            return Err(Error::unsupported(format!("{capacity} bytes of memory are not available")));
        }
        // SAFETY: the new buffer has room for the input and cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(input.as_ptr(), start.cast::<u8>(), input.len()) };
        Ok(Self { start, length: 0 })
    }

    /// Bytes that the allocation holds.
    fn room(&self) -> usize {
        // SAFETY: the buffer is null, for which the answer is 0, or came from `malloc`.
        unsafe { libc::malloc_usable_size(self.start) }
    }

    /// What the plugin wrote.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `run` checked that `length` bytes lie within the buffer; the plugin wrote them.
        unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), self.length) }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: the buffer came from `malloc`, here or in the plugin, and nothing else holds it.
        unsafe { libc::free(self.start) };
    }
}

fn refuse(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::MissingFilter, why)
}

/// The loader's own words, which name the symbol or library that is missing.
fn loader_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Some plugins use the mathematical library without naming it, because every Python has it loaded.
fn provide_libm() {
    static LIBM: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the constructors of libm have no effect on the process.
    LIBM.get_or_init(|| unsafe { Library::open(Some("libm.so.6"), RTLD_NOW | RTLD_GLOBAL) }.ok());
}
