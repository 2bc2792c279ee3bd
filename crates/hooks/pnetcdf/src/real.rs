//! The PnetCDF that a call is for. A process may have several, those of plugins and Python modules visible to nobody else.
//! The address a call returns to lies in the calling object, and leads to the PnetCDF that it is linked to.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use knarr_caller::{Cache, Object, forget_failures, is_own};

use crate::codes::{ENOTSUPPORT, WRITE, has_opened};

/// A call of `ncmpi_create` or `ncmpi_open`, but for the name.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) real: unsafe extern "C" fn(usize, *const c_char, c_int, usize, *mut c_int) -> c_int,
    pub(crate) comm: usize,
    pub(crate) mode: c_int,
    pub(crate) info: usize,
    pub(crate) id: *mut c_int,
}

impl Opening {
    /// Has the library create or open `file`. Returns its code, and the number of the file if it has. `None` if no file can have
    /// that name.
    ///
    /// # Safety
    /// The arguments are the program's own, and `real` is that function.
    pub(crate) unsafe fn at(self, file: &Path) -> Option<(c_int, Option<c_int>)> {
        let file = CString::new(file.as_os_str().as_bytes()).ok()?;
        // SAFETY: the caller's promise, and a name that ends in a zero.
        let code = unsafe { (self.real)(self.comm, file.as_ptr(), self.mode, self.info, self.id) };
        // SAFETY: the library has put the number there.
        Some((code, has_opened(code).then(|| unsafe { *self.id })))
    }

    /// The same call, which only reads: puts are refused as for any file that is opened so.
    pub(crate) fn to_read(self) -> Self {
        Self { mode: self.mode & !WRITE, ..self }
    }
}

/// The function of PnetCDF with this name and these arguments. The program calls it, so it is there.
macro_rules! real {
    ($name:ident($($argument:ty),* $(,)?)) => {
        $crate::real::real!(@ concat!(stringify!($name), "\0"), ($($argument),*))
    };
    (@ $name:expr, ($($argument:ty),* $(,)?)) => {{
        static FUNCTION: $crate::real::FunctionAddress = $crate::real::FunctionAddress::new();
        let found = FUNCTION.find($name);
        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> std::ffi::c_int>(found)
    }};
}
pub(crate) use real;

thread_local! {
    /// The address that the call under way returns to.
    static CALLER: Cell<usize> = const { Cell::new(0) };
}

/// Notes the address that a call returns to. Trampolines call this before the function that was called.
///
/// A function of PnetCDF that ends in a call of another one has that return to its own caller. If this is Knarr, the call is still
/// for the library that Knarr called.
pub(crate) extern "C" fn note_caller(caller: usize) {
    if !is_own(caller) {
        CALLER.set(caller);
    }
}

/// Calls of this thread are for the library that is known as `library` from now on, until the program makes one.
pub(crate) fn use_library(library: usize) {
    CALLER.set(library);
}

/// One PnetCDF of this process.
struct Library {
    /// Where it is loaded; 0 if there is none.
    base: usize,
    find: Box<dyn Fn(&CStr) -> *mut c_void>,
}

// SAFETY: a handle of the loader, which any thread may use, and addresses in objects that stay loaded.
unsafe impl Sync for Library {}

/// By the address a call returns to.
static CALLS: Cache<Library, 4096> = Cache::new();
/// By the address an object is loaded at, that of a caller or a library.
static OBJECTS: Cache<Library, 256> = Cache::new();

impl Library {
    /// That of the call under way.
    fn current() -> &'static Self {
        let caller = CALLER.get();
        if let Some(library) = CALLS.get(caller) {
            return library;
        }
        let object = Object::holding(caller);
        let library = OBJECTS.get(object.base()).unwrap_or_else(|| {
            let find = object.linked();
            let base = Object::holding(find(c"ncmpi_create") as usize).base();
            forget_failures();
            // Callers that use the same library have the same things: its files are known by it.
            let found = OBJECTS.get(base).filter(|found| base > 0 && found.base == base);
            let library = found.unwrap_or_else(|| Box::leak(Box::new(Self { base, find: Box::new(find) })));
            for base in [base, object.base()].into_iter().filter(|base| *base > 0) {
                OBJECTS.put(base, library);
            }
            library
        });
        if caller > 0 {
            CALLS.put(caller, library);
        }
        library
    }
}

/// By what the library of the call under way is known among others.
pub(crate) fn library() -> usize {
    Library::current().base
}

/// Where a function is, in the library that was the first to be asked for it. Almost always there is one library.
pub(crate) struct FunctionAddress {
    /// One more than where the library is loaded; 0 before it is known.
    library: AtomicUsize,
    function: AtomicPtr<c_void>,
}

impl FunctionAddress {
    pub(crate) const fn new() -> Self {
        Self { library: AtomicUsize::new(0), function: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function called `name`, which ends in a zero, in the library of the call under way. One that it lacks, which no program
    /// could have called, returns `NC_ENOTSUPPORT`.
    pub(crate) fn find(&self, name: &'static str) -> *mut c_void {
        let library = Library::current();
        if self.library.load(Ordering::Acquire) == library.base + 1 {
            return self.function.load(Ordering::Relaxed);
        }
        let found =
            CStr::from_bytes_with_nul(name.as_bytes()).map_or(std::ptr::null_mut(), |name| (library.find)(name));
        forget_failures();
        let found = if found.is_null() { missing as *mut c_void } else { found };
        // Whoever stores the function first also says whose it is.
        let stored = self.function.compare_exchange(std::ptr::null_mut(), found, Ordering::AcqRel, Ordering::Relaxed);
        if stored.is_ok() {
            self.library.store(library.base + 1, Ordering::Release);
        }
        found
    }
}

/// Whatever the arguments are: those who call clean up behind them.
extern "C" fn missing() -> c_int {
    ENOTSUPPORT
}
