//! The guard of every function: errors become a status and a message of the thread, panics never leave.

use knarr_array::guard::guarded;
use knarr_array::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

use crate::types::knarr_status;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of the function called `name`.
pub(crate) fn call(name: &str, work: impl FnOnce() -> Result<()>) -> knarr_status {
    match guarded(work) {
        Ok(()) => knarr_status::KNARR_OK,
        Err(error) => {
            let status = status(error.kind());
            // A message that cannot be kept, as in a thread that ends, leaves the status.
            let _ = guarded(|| remember(error.at(name)));
            status
        }
    }
}

fn remember(error: Error) -> Result<()> {
    let text = CString::new(error.to_string().replace('\0', " ")).map_err(|_| Error::internal("a message with NUL"))?;
    LAST.try_with(|last| *last.borrow_mut() = text).map_err(|_| Error::internal("the thread ends"))
}

/// Message of the last call of this thread that failed.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn status(kind: ErrorKind) -> knarr_status {
    match kind {
        ErrorKind::Usage => knarr_status::KNARR_USAGE,
        ErrorKind::Config => knarr_status::KNARR_CONFIG,
        ErrorKind::NotFound => knarr_status::KNARR_NOT_FOUND,
        ErrorKind::Exists => knarr_status::KNARR_EXISTS,
        ErrorKind::Read => knarr_status::KNARR_READ,
        ErrorKind::Write => knarr_status::KNARR_WRITE,
        ErrorKind::Corrupt => knarr_status::KNARR_CORRUPT,
        ErrorKind::MissingFilter => knarr_status::KNARR_MISSING_FILTER,
        ErrorKind::Unsupported => knarr_status::KNARR_UNSUPPORTED,
        ErrorKind::Quality => knarr_status::KNARR_QUALITY,
        ErrorKind::Differs => knarr_status::KNARR_DIFFERS,
        ErrorKind::Interrupted => knarr_status::KNARR_INTERRUPTED,
        _ => knarr_status::KNARR_INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn status_numbers_are_those_of_the_kinds() {
        for number in 1..=13 {
            let kinds = [
                ErrorKind::Usage,
                ErrorKind::Config,
                ErrorKind::NotFound,
                ErrorKind::Exists,
                ErrorKind::Read,
                ErrorKind::Write,
                ErrorKind::Corrupt,
                ErrorKind::MissingFilter,
                ErrorKind::Unsupported,
                ErrorKind::Quality,
                ErrorKind::Differs,
                ErrorKind::Interrupted,
                ErrorKind::Internal,
            ];
            let kind = kinds[number - 1];
            assert_eq!((kind as usize, status(kind) as usize), (number, number));
        }
    }

    #[test]
    fn a_panic_is_an_error_with_a_message_of_its_thread() {
        assert_eq!(call("knarr_test", || panic!("out of\0bounds")), knarr_status::KNARR_INTERNAL);
        // SAFETY: the message is NUL-terminated and no call of this thread follows.
        let text = unsafe { CStr::from_ptr(last()) }.to_str().unwrap();
        assert!(text.starts_with("knarr_test: a defect of Knarr: out of bounds; "), "{text}");
        let other = std::thread::spawn(|| {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(last()) }.to_bytes().len()
        });
        assert_eq!(other.join().unwrap(), 0);
    }
}
