//! Knarr's errors as Python exceptions.

use knarr_core::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyValueError,
};

create_exception!(
    knarr,
    KnarrError,
    PyException,
    "Something in the data or the request cannot be served; the text says what and how to mend it."
);

/// The exception Python programmers expect for each kind.
pub(crate) fn raise(error: Error) -> PyErr {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Usage | ErrorKind::Config => PyValueError::new_err(text),
        ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::Exists => PyFileExistsError::new_err(text),
        ErrorKind::Read | ErrorKind::Write => PyOSError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => KnarrError::new_err(text),
    }
}
