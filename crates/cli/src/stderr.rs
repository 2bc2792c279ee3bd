//! Lines on stderr. The ranks of a job and their `mpirun` share one stderr: each line is one write, which none of them
//! can break into. (`eprintln!` writes each piece of its format by itself.)

use std::fmt::Arguments;
use std::io::Write;

use knarr_run::notices::Notices;

/// `eprintln!` in one write.
macro_rules! errln {
    ($($format:tt)*) => { $crate::stderr::line(format_args!($($format)*)) };
}

/// Writes `text` and a line feed. What nobody can be told is not told: the exit code says that something failed.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Prints what the library tells.
pub(crate) struct Lines {
    /// Only what is wrong.
    pub(crate) quiet: bool,
}

impl Notices for Lines {
    fn notify(&self, text: &str) {
        if !self.quiet {
            errln!("knarr: {text}");
        }
    }

    fn warn(&self, text: &str) {
        errln!("knarr: {text}");
    }
}
