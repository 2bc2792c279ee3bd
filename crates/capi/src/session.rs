//! What the functions of all sessions have in common. A session is a checkpoint or an output that a program holds; its ranks
//! call the same functions in the same order.

use knarr_array::comm::{Comm, Solo};
use knarr_array::{Error, Result};
use knarr_mpi::Mpi;
use std::ffi::{c_char, c_void};

use crate::errors::call;
use crate::knarr_comm;
use crate::memory::{handle_mut, optional_text, put, text};
use crate::types::knarr_status;

/// A session behind a pointer of C.
pub(crate) trait Session: Sized {
    /// What messages call its pointer and its path.
    const NAMES: (&'static str, &'static str);

    /// Opens it at `path`. `words` are its options: an error of one rank in them is an error on all.
    fn open(path: &str, words: Result<&str>, ranks: Box<dyn Comm>) -> Result<Self>;

    /// Notes that something could not be handed over.
    fn fail(&mut self, error: &Error);

    fn close(self) -> Result<()>;
}

/// The function `name`, which opens a session. A failure leaves a null pointer.
///
/// # Safety
/// `path` and `options` are null or NUL-terminated; `comm` is null or a struct knarr_comm; `session` is null or writable.
pub(crate) unsafe fn open<S: Session>(
    name: &str,
    path: *const c_char,
    options: *const c_char,
    comm: *const knarr_comm,
    session: *mut *mut S,
) -> knarr_status {
    call(name, || {
        // SAFETY: null or writable. What was there is not looked at.
        unsafe { put(session, std::ptr::null_mut(), S::NAMES.0)? };
        let ranks: Box<dyn Comm> = if comm.is_null() {
            Box::new(Solo)
        } else {
            // SAFETY: a table as knarr_comm.h describes it.
            Box::new(unsafe { Mpi::of_program(comm.cast::<c_void>())? })
        };
        // SAFETY: null or NUL-terminated.
        let words = unsafe { optional_text(options, "options") }.map(Option::unwrap_or_default);
        // SAFETY: null or NUL-terminated.
        let made = S::open(unsafe { text(path, S::NAMES.1)? }, words, ranks)?;
        // SAFETY: null or writable.
        unsafe { put(session, Box::into_raw(Box::new(made)), S::NAMES.0) }
    })
}

/// The function `name`, which does `work` with a session.
///
/// # Safety
/// `session` is null or a session, which nothing else uses meanwhile.
pub(crate) unsafe fn with<S: Session>(
    name: &str,
    session: *mut S,
    work: impl FnOnce(&mut S) -> Result<()>,
) -> knarr_status {
    // SAFETY: the caller's promise.
    call(name, || work(unsafe { handle_mut(session, S::NAMES.0)? }))
}

/// As [`with`], where `work` hands something over: after an error the session goes without it, whoever ignores the status.
///
/// # Safety
/// As for [`with`].
pub(crate) unsafe fn hand_over<S: Session>(
    name: &str,
    session: *mut S,
    work: impl FnOnce(&mut S) -> Result<()>,
) -> knarr_status {
    let noted = |session: &mut S| {
        let done = work(session);
        done.inspect_err(|error| session.fail(error))
    };
    // SAFETY: the caller's promise.
    unsafe { with(name, session, noted) }
}

/// The function `name`, which ends a session and frees it, whatever becomes of it. Null is allowed.
///
/// # Safety
/// `session` is null, or came from [`open`] and was not closed.
pub(crate) unsafe fn close<S: Session>(name: &str, session: *mut S) -> knarr_status {
    call(name, || {
        if session.is_null() {
            return Ok(());
        }
        // SAFETY: it was made by `Box::into_raw` and is freed once.
        unsafe { Box::from_raw(session) }.close()
    })
}
