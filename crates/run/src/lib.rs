//! What runs beside a program: the launcher of `knarr run`. The `knarr` command gives it options and prints what came of them: nothing here prints or exits, and what
//! users should know goes to a [`notices::Notices`].
//!
//! [`launch`] starts a program, and packs what it closes.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod launch;
pub mod notices;
pub mod sets;

pub use knarr_capture::processes;
pub use launch::worker_tasks;
