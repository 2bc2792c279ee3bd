//! The functions of the same names in the libraries behind this one: another preloaded library's, or the C library's.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// True once functions may be looked up. Before, the process may be about to set its allocator up, which a look-up may need.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Functions may be looked up from now on.
pub(crate) fn begin() {
    HAS_BEGUN.store(true, Ordering::Release);
}

/// A function behind this one.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// Its address; `None` if the system has none of that name. It is looked up by its name and not linked: the library has to be
    /// loaded where the C library is older than this function.
    #[inline]
    pub(crate) fn get(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() { self.look_up() } else { Some(found) }
    }

    /// The same for a function that is a system call and little else: `None`, too, as long as nothing may be looked up.
    #[inline]
    pub(crate) fn get_late(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return Some(found);
        }
        if HAS_BEGUN.load(Ordering::Acquire) { self.look_up() } else { None }
    }

    #[cold]
    fn look_up(&self) -> Option<*mut c_void> {
        // SAFETY: a NUL-terminated name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            knarr_caller::forget_failures();
            return None;
        }
        self.found.store(found, Ordering::Release);
        Some(found)
    }
}

/// What functions return that fail.
pub(crate) trait Answer: Copy {
    /// What says that the call failed.
    const FAILED: Self;
    /// What says that there was nothing to do.
    const DONE: Self;

    /// True if the call failed, for the reason that `errno` says.
    fn has_failed(self) -> bool;
}

impl Answer for c_int {
    const FAILED: Self = -1;
    const DONE: Self = 0;

    fn has_failed(self) -> bool {
        self == -1
    }
}

impl Answer for isize {
    const FAILED: Self = -1;
    const DONE: Self = 0;

    fn has_failed(self) -> bool {
        self == -1
    }
}

impl Answer for *mut c_void {
    const FAILED: Self = null_mut();
    const DONE: Self = null_mut();

    fn has_failed(self) -> bool {
        self.is_null()
    }
}

/// The reason why a call of this thread has failed.
pub(crate) fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Lets the program's call fail for this reason.
pub(crate) fn fail<A: Answer>(reason: c_int) -> A {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = reason };
    A::FAILED
}

/// The function of the libraries behind this one; it has this type.
macro_rules! behind {
    ($name:literal, $type:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new($name);
        // SAFETY: the C library has a function of this type under the name.
        NEXT.get().map(|next| unsafe { std::mem::transmute::<*mut c_void, $type>(next) })
    }};
}
pub(crate) use behind;
