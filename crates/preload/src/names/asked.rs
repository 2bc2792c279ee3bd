//! What happens before and after a call that takes names.

use std::ffi::c_int;

use knarr_capture::HandedOver;
use knarr_names::{Came, Found, Hold, Names, Notes, Over, here, is_own};

use super::beside;
use super::does::Does;
use super::next::{Answer, errno, fail};
use super::path::Target;
use super::transferred;
use super::uses::Use;

/// Makes a call that does this with names.
#[inline]
pub(super) fn asked<A: Answer>(uses: impl FnOnce() -> Use, call: impl Fn() -> A) -> A {
    match here() {
        Some(names) if names.any() || names.notes().is_some() || names.has_transfers() || beside::has_any() => {
            concerned(names, &uses(), &call)
        }
        _ => call(),
    }
}

/// Some name is pending, or may be on another node, or files come from other components, or are captured.
#[cold]
fn concerned<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> A {
    if is_own() {
        return call();
    }
    let answer = named(names, uses, call);
    let is_absent = answer.has_failed() && errno() == libc::ENOENT;
    if is_absent && beside::is_linked(uses) { named(names, uses, call) } else { answer }
}

/// What the name leads to may be pending, or is transferred.
fn named<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> A {
    if !names.has_transfers() {
        return pending(names, uses, call);
    }
    transferred::before(uses);
    let answer = pending(names, uses, call);
    if !answer.has_failed() {
        transferred::after(uses);
    } else if uses.does.removes() && errno() == libc::ENOENT && transferred::is_removed(uses) {
        return A::DONE;
    }
    answer
}

/// Some name is pending.
fn pending<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> A {
    let held = match before(names, uses) {
        Ok(held) => held,
        Err(reason) => return fail(reason),
    };
    let answer = call();
    let is_absent = answer.has_failed() && errno() == libc::ENOENT;
    if let Some(hold) = held {
        // Where the file would have been the first of its name, the program could have removed it.
        let is_removed = uses.does.removes() && is_absent;
        if answer.has_failed() && !is_removed {
            hold.keep();
            return answer;
        }
        hold.give_up(HandedOver::NAME, HandedOver::GIVEN_UP);
        return if is_removed { A::DONE } else { answer };
    }
    if is_absent && uses.follows && names.any() && through_links(names, uses) { call() } else { answer }
}

/// Waits for what is pending under the names. Returns what the call may give up; or why it fails.
fn before<'n>(names: &'n Names, uses: &Use) -> Result<Option<Hold<'n>>, c_int> {
    if let Some((other, does)) = uses.other {
        // The first name leaves, so its file has to be there in any case.
        one(names, &Use { name: uses.name, other: None, ..*uses }, false)?;
        return one(names, &Use { name: other, does, follows: false, other: None, ..*uses }, true);
    }
    one(names, uses, true)
}

fn one<'n>(names: &'n Names, uses: &Use, may_hold: bool) -> Result<Option<Hold<'n>>, c_int> {
    let Use { name, does, .. } = *uses;
    if does == Does::Nothing || name.is_elsewhere() {
        return Ok(None);
    }
    let held = if names.any() { near(names, uses, may_hold)? } else { None };
    if held.is_none()
        && let Some(notes) = names.notes()
    {
        elsewhere(notes, uses)?;
    }
    Ok(held)
}

/// Waits for what this node makes.
fn near<'n>(names: &'n Names, uses: &Use, may_hold: bool) -> Result<Option<Hold<'n>>, c_int> {
    let Use { name, does, .. } = *uses;
    // Afterwards nobody could tell that there was a link.
    let is_made = matches!(does, Does::Empties | Does::Makes | Does::OpensOrMakes);
    let needs_links = uses.follows && (is_made || names.any_replaces());
    match name.target(names, needs_links) {
        Target::Pending(key) => settle(names, &key.key(), does, may_hold),
        // Everything that is under way below goes along, or is listed.
        Target::Directory | Target::Other => {
            name.settle_below(names, does);
            Ok(None)
        }
    }
}

/// Waits for what other nodes make.
fn elsewhere(notes: &Notes, uses: &Use) -> Result<(), c_int> {
    let Use { name, does, follows, .. } = *uses;
    let reason = |error: rustix::io::Errno| error.raw_os_error();
    let Some(named) = name.noted(notes, follows).map_err(reason)? else { return Ok(()) };
    let Came { over, replaces } = notes.settle(&named.key(), does.call()).map_err(reason)?;
    if over == Over::Free {
        return Ok(());
    }
    if does.needs_file() && (over == Over::Failed || replaces) {
        return Err(libc::EIO);
    }
    if does.takes_name() {
        notes.forget(&named.key());
    }
    Ok(())
}

/// Waits until a name is pending no longer, unless the call may give it up.
fn settle<'n>(
    names: &'n Names,
    key: &knarr_names::Key<'_>,
    does: Does,
    may_hold: bool,
) -> Result<Option<Hold<'n>>, c_int> {
    let last = names.generation();
    while let Some(found) = names.find(key, last) {
        if may_hold
            && does.gives_up()
            && let Some(hold) = names.hold(found)
        {
            return Ok(Some(hold));
        }
        match names.wait(found, does.call()) {
            Over::Free => {}
            over => return after(names, found, does, over).map(|()| None),
        }
    }
    Ok(None)
}

/// The file did not come.
fn after(names: &Names, found: Found, does: Does, over: Over) -> Result<(), c_int> {
    if does.needs_file() && (over == Over::Failed || names.replaces(found)) {
        // What is there is older than what the program has written.
        return Err(libc::EIO);
    }
    if does.takes_name() {
        names.forget(found);
    }
    Ok(())
}

/// True if a name that does not lead to a file leads to a pending one, which has been waited for.
fn through_links(names: &Names, uses: &Use) -> bool {
    match uses.name.target(names, true) {
        Target::Pending(key) => settle(names, &key.key(), uses.does, false).is_ok(),
        _ => false,
    }
}
