//! Knarr's errors as Python exceptions.

use knarr_array::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{
    PyException, PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyValueError,
};

create_exception!(
    knarr,
    KnarrError,
    PyException,
    "Something in the data or the request cannot be served; the text says what, and what to do."
);

/// The exception Python programmers expect for each kind.
pub(crate) fn raise(error: Error) -> PyErr {
    let text = in_python(&error);
    match error.kind() {
        ErrorKind::Usage | ErrorKind::Config => PyValueError::new_err(text),
        ErrorKind::NotFound => PyFileNotFoundError::new_err(text),
        ErrorKind::Exists => PyFileExistsError::new_err(text),
        ErrorKind::Read | ErrorKind::Write => PyOSError::new_err(text),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(text),
        _ => KnarrError::new_err(text),
    }
}

/// Options of the program that are arguments of functions here, too.
const ARGUMENTS: [&str; 13] = [
    "chain",
    "chunks",
    "exact-from",
    "exact-up-to",
    "finest-abs-error",
    "goal",
    "jobs",
    "max-abs-error",
    "max-range-error",
    "max-rel-error",
    "model",
    "significant-bits",
    "significant-digits",
];

/// The error in words of Python: advice for the command line names its options.
fn in_python(error: &Error) -> String {
    let mut text = error.to_string();
    for part in [Some(error.message()), error.advice()].into_iter().flatten() {
        text = text.replacen(part, &with_arguments(part), 1);
    }
    text
}

fn with_arguments(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("--") {
        let end = after.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(after.len());
        let (name, tail) = after.split_at(end);
        let value: String = tail.chars().skip(1).take_while(char::is_ascii_alphanumeric).collect();
        let is_size = value.starts_with(|c: char| c.is_ascii_digit());
        out.push_str(before);
        rest = tail;
        match name {
            "force" => out.push_str("force=True"),
            "no-verify" => out.push_str("verify=False"),
            "portable" | "max-mem" if tail.starts_with(' ') && (name == "portable" || is_size) => {
                out.push_str(&format!("{}=\"{value}\"", name.replace('-', "_")));
                rest = tail.get(1 + value.len()..).unwrap_or_default();
            }
            _ if name == "max-mem" || name == "portable" || ARGUMENTS.contains(&name) => {
                out.push_str(&name.replace('-', "_"));
            }
            "" => out.push_str("--"),
            // What only the program can do.
            _ => out.push_str(&format!("knarr repack --{name}")),
        }
    }
    out.push_str(rest);
    out
}
