//! Signals of a thread that holds a lock. A handler could make a call that wants the same lock.

use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// No signal is handled in this thread as long as this lives, but those that end it.
pub(crate) struct Blocked(libc::sigset_t);

impl Blocked {
    pub(crate) fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::zeroed());
        // SAFETY: the first call fills the set, the second one gets two valid places. One that fails leaves zeros: an empty set.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: a set that the system has filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

/// What holds a lock, which goes before signals are handled again.
pub(crate) struct Guarded<T> {
    pub(crate) value: T,
    _blocked: Blocked,
}

impl<T> Guarded<T> {
    pub(crate) fn new(value: T, blocked: Blocked) -> Self {
        Self { value, _blocked: blocked }
    }
}
