//! Names of files that were closed and are not there yet: who hands one over says so first, and who begins or opens one waits
//! for it.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use knarr_array::comm::{Comm, agree};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_capture::program::{Run, run};
use knarr_capture::{Event, HandedOver, SpoolPlace, key_of, place_of};
use knarr_config::{FileRule, Wait};
use knarr_names::{Call, Names, Over, here};

use crate::waiting::await_launcher;
use crate::wanted::wanted;

/// Waits until nothing handed over of earlier times is to become the file `target`. False if the newest version could not be
/// made: what has the name, if anything has, is older.
pub fn await_delivery(target: &Path) -> bool {
    await_version(target, HandedOver::under_way)
}

/// The same, but a file that waits in a tier is not waited for: the call that opens it, to read, finds it there.
fn await_readable(target: &Path) -> bool {
    await_version(target, HandedOver::pending)
}

fn await_version(target: &Path, all: impl Fn(&Path) -> Vec<(PathBuf, Result<HandedOver>)>) -> bool {
    let Some(run) = run() else { return true };
    let Some(SpoolPlace { directory: spool, .. }) = &run.rules().spool else { return true };
    if is_free(run, target) {
        return true;
    }
    let is_pending = || {
        let becomes = |handed: &HandedOver| handed.target == target && handed.may_be_kept();
        all(spool).iter().any(|(_, handed)| handed.as_ref().is_ok_and(becomes))
    };
    await_launcher(run, || !is_pending());
    !HandedOver::is_missing(spool, target)
}

/// True if the page of names says that nothing on this node is to become the file, and that nothing could not be made of what was
/// to: then nobody has to look through the spool, which takes long if it holds many files. What comes from other components or
/// goes into a bucket is not on the page.
fn is_free(run: &Run, target: &Path) -> bool {
    let is_free = |names: &Names, last: &OsStr| !names.has_transfers() && !names.may_have(last.as_bytes());
    let goes_away = |rule: &FileRule| rule.compress().output().url().is_some();
    here().zip(target.file_name()).is_some_and(|(names, last)| is_free(names, last))
        && run.rules().rule_for(target).is_none_or(|(_, rule)| !goes_away(rule))
}

/// The same for what other nodes make of the name.
pub(crate) fn await_elsewhere(target: &Path) -> bool {
    let Some((notes, key)) = here().and_then(Names::notes).zip(key_of(target)) else { return true };
    notes.settle(&key, Call::Open).is_ok_and(|came| came.over == Over::Free)
}

/// The same for the name that a program gives a file, on all nodes. Whoever only `reads` it may find it in a tier.
///
/// # Safety
/// `path` is null or NUL-terminated.
pub unsafe fn await_named(path: *const c_char, reads: bool) -> bool {
    if path.is_null() {
        return true;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { std::ffi::CStr::from_ptr(path) }.to_bytes();
    wanted(named).is_none_or(|wanted| {
        let target = &wanted.target;
        noted(target, if reads { await_readable(target) } else { await_delivery(target) } && await_elsewhere(target))
    })
}

/// The same for the file `target`. The launcher is told of one that could not be made.
pub fn await_everywhere(target: &Path) -> bool {
    noted(target, await_delivery(target) && await_elsewhere(target))
}

fn noted(target: &Path, is_made: bool) -> bool {
    if !is_made {
        note(target, "it could not be made: the program is not shown an older version".to_owned());
    }
    is_made
}

/// If the rule has closing wait for the file, waits until it is in its place. Collective.
///
/// # Errors
/// `Write` if it was not delivered: its values are kept.
pub fn await_place(comm: &dyn Comm, (target, rule, directory): (&Path, &FileRule, &Path)) -> Result<()> {
    if rule.compress().wait != Some(Wait::Close) {
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
    note(&handed.target, text);
    notify(Event::HandedOver { directory: directory.to_owned() });
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

/// Has the launcher tell something about a file. A library does not print: the program's standard error is its own.
pub fn note(path: &Path, text: String) {
    notify(Event::Note { path: path.to_owned(), text });
}

/// Tells the launcher, if there is one.
pub fn notify(event: Event) {
    if let Some(run) = run() {
        run.notify(event);
    }
}
