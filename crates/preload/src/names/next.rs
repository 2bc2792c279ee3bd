//! The functions of the same names in the libraries behind this one: another preloaded library's, or the C library's.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// True once functions may be looked up. Before, the process may be about to set its allocator up, which a look-up may need.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Functions may be looked up from now on.
pub(super) fn begin() {
    HAS_BEGUN.store(true, Ordering::Release);
}

/// A function behind this one.
pub(super) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    /// Its address; `None` if the system has none of that name. It is looked up by its name and not linked: the library has to be
    /// loaded where the C library is older than this function.
    #[inline]
    pub(super) fn get(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Acquire);
        if found.is_null() { self.look_up() } else { Some(found) }
    }

    /// The same for a function that is a system call and little else: `None`, too, as long as nothing may be looked up.
    #[inline]
    pub(super) fn get_late(&self) -> Option<*mut c_void> {
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
pub(super) trait Answer: Copy {
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
pub(super) fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Lets the program's call fail for this reason.
pub(super) fn fail<A: Answer>(reason: c_int) -> A {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *libc::__errno_location() = reason };
    A::FAILED
}

/// Defines functions under the names of the C library. Each says what it does with which name, by an expression of its
/// arguments that is a [`Use`](super::asked::Use), and calls the function behind it. `or` is the system call that does the same,
/// for times when that cannot be called; `or nothing` if there is none.
macro_rules! hooks {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $use:expr, or nothing;)*) => {
        $($crate::names::next::hooks!(@ $name ($($argument: $type),*) $result, $use, get,
            $crate::names::next::fail(libc::ENOSYS));)*
    };
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty = $use:expr, or $call:expr;)*) => {
        $($crate::names::next::hooks!(@ $name ($($argument: $type),*) $result, $use, get_late, $call);)*
    };
    (@ $name:ident ($($argument:ident: $type:ty),*) $result:ty, $use:expr, $get:ident, $otherwise:expr) => {
        #[unsafe(export_name = stringify!($name))]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static NEXT: $crate::names::next::Next = $crate::names::next::Next::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let call = || match NEXT.$get() {
                Some(next) => {
                    // SAFETY: the C library has the function under this name, with these arguments; they are the program's own.
                    unsafe {
                        std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(next)(
                            $($argument),*
                        )
                    }
                }
                None => $otherwise,
            };
            $crate::names::asked::asked(|| $use, call)
        }
    };
}
pub(super) use hooks;

/// A system call with these arguments, which are the program's own. Its result is that of the function of the C library.
macro_rules! system {
    ($number:ident $(, $argument:expr)*) => {{
        // SAFETY: the system checks what it is given.
        let result = unsafe { libc::syscall(libc::$number $(, $argument)*) };
        #[allow(clippy::cast_possible_truncation, reason = "what the function returns has as many bits")]
        let result = result as _;
        result
    }};
}
pub(super) use system;
