//! Names of files that were closed and are not there yet: who hands one over says so first, and who begins or opens one waits
//! for it.

use std::ffi::c_char;
use std::path::Path;

use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::program::run;
use knarr_capture::{Event, HandedOver, SpoolPlace, key_of, place_of};
use knarr_config::{FileRule, Wait};
use knarr_names::{Call, Names, Over, here};

use crate::waiting::await_launcher;
use crate::wanted::wanted;

/// Waits until nothing handed over of earlier times is to become the file `target`. False if the newest version could not be
/// made: what has the name, if anything has, is older.
pub fn await_delivery(target: &Path) -> bool {
    let Some(run) = run() else { return true };
    let Some(SpoolPlace { directory: spool, .. }) = &run.rules().spool else { return true };
    let is_pending = || {
        let becomes = |handed: &HandedOver| handed.target == target && handed.may_be_kept();
        HandedOver::pending(spool).iter().any(|(_, handed)| handed.as_ref().is_ok_and(becomes))
    };
    await_launcher(run, || !is_pending());
    !HandedOver::is_missing(spool, target)
}

/// The same for what other nodes make of the name.
pub fn await_elsewhere(target: &Path) -> bool {
    let Some((notes, key)) = here().and_then(Names::notes).zip(key_of(target)) else { return true };
    notes.settle(&key, Call::Open).is_ok_and(|came| came.over == Over::Free)
}

/// The same for the name that a program gives a file, on all nodes.
///
/// # Safety
/// `path` is null or NUL-terminated.
pub unsafe fn await_named(path: *const c_char) -> bool {
    if path.is_null() {
        return true;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    wanted(named).is_none_or(|wanted| {
        let is_made = await_delivery(&wanted.target) && await_elsewhere(&wanted.target);
        if !is_made {
            let text = "it could not be made: the program is not shown an older version".to_owned();
            tell(Event::Note { path: wanted.target, text });
        }
        is_made
    })
}

/// If the rule has closing wait for the file, waits until it is in its place. Collective.
///
/// # Errors
/// `Write` if it was not delivered: its values are kept.
pub fn await_place(comm: &dyn Comm, (target, rule, directory): (&Path, &FileRule, &Path)) -> Result<()> {
    if rule.compress.wait != Some(Wait::Close) {
        return Ok(());
    }
    await_delivery(target);
    agree(comm, if comm.rank() == 0 { not_left(directory) } else { Ok(()) })
}

/// Notes that a file is handed over. Before, its name is: who looks for the file from now on waits for it. If other nodes cannot
/// be told, the program waits here until the file is there.
///
/// # Errors
/// `Write`.
pub fn save(handed: &HandedOver, directory: &Path) -> Result<()> {
    // A session is for other components: the launcher says when a file is to be made of it.
    let names = here().filter(|_| handed.session == 0);
    let told = names.map_or(Ok(()), |names| handed.enter(names, directory, true));
    handed.save(directory).inspect_err(|_| {
        if let Some((names, place)) = names.zip(place_of(directory)) {
            names.withdraw(place);
        }
    })?;
    let Err(error) = told else { return Ok(()) };
    let text = format!("other nodes are not told of it, so the program waits until it is there: {error}");
    tell(Event::Note { path: handed.target.clone(), text });
    tell(Event::HandedOver { directory: directory.to_owned() });
    await_delivery(&handed.target);
    not_left(directory)
}

/// # Errors
/// `Write` if a file was not delivered: the launcher takes the directory away when it is in its place. `Read` or `Corrupt` if that
/// is not known.
fn not_left(directory: &Path) -> Result<()> {
    let what = "it was not delivered; its values are kept";
    HandedOver::left_in(directory)?.map_or(Ok(()), |_| Err(Error::new(ErrorKind::Write, what)))
}

/// Tells the launcher, if there is one.
pub fn tell(event: Event) {
    if let Some(run) = run() {
        run.tell(event);
    }
}
