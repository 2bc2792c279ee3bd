//! What runs beside a program: the launcher of `knarr run`. The `knarr` command gives it options and prints what came of them: nothing here prints or exits, and what
//! users should know goes to a [`notices::Notices`].
//!
//! [`launch`] starts a program, and packs what it closes.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod launch;
pub mod notices;
pub mod sets;

/// The tasks of this crate, for the process that [`knarr_worker::serve`] makes of the program.
#[must_use]
pub fn tasks() -> knarr_worker::Tasks {
    knarr_worker::Tasks::default()
        .with::<launch::PackFile>()
        .with::<launch::Estimate>()
        .with::<launch::Deliver>()
        .with::<launch::Drain>()
        .with::<launch::Seal>()
        .with::<launch::Improve>()
        .with::<launch::EncodeAhead>()
        .with::<launch::Transcode>()
        .with::<launch::Unpack>()
        .with::<launch::FindBounds>()
        .with::<knarr_watch::PackSet>()
}

pub use knarr_capture::processes;
