//! What runs beside a program: the launcher of `knarr run`, the watch for restart files, and the processes that read files
//! of others. The `knarr` command gives it options and prints what came of them: nothing here prints or exits, and what
//! users should know goes to a [`notices::Notices`].
//!
//! Reading order: [`launch`] (start a program, pack what it closes), [`watch`] (restart files become sets), [`worker`]
//! (child processes), [`means`] (what an engine is made of), [`processes`] (who has a file open).
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod launch;
pub mod means;
pub mod notices;
pub mod processes;
pub mod sets;
mod signals;
pub mod watch;
pub mod worker;

/// The tasks of this crate, for the process that [`worker::serve`] makes of the program.
#[must_use]
pub fn tasks() -> worker::Tasks {
    worker::Tasks::default()
        .with::<launch::PackFile>()
        .with::<launch::Estimate>()
        .with::<launch::Deliver>()
        .with::<launch::EncodeAhead>()
        .with::<launch::Show>()
        .with::<launch::Unpack>()
        .with::<launch::FindBounds>()
        .with::<launch::Look>()
        .with::<watch::PackSet>()
}
