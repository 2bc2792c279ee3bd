//! What happens before and after a call that takes names.

use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use knarr_capture::HandedOver;
use knarr_captured::{by_name, guard, sibling_files};
use knarr_names::{Came, Found, Hold, Names, Notes, Over, Path, Writing, here, is_own};

use super::does::Does;
use super::instead;
use super::kept;
use super::next::{Answer, errno, fail};
use super::path::Target;
use super::plain;
use super::signals::{Blocked, Guarded};
use super::transferred;
use super::uses::Use;
use super::whole::{self, Made};

/// Makes a call that does this with names.
#[inline]
pub(crate) fn asked<A: Answer>(uses: impl FnOnce() -> Use, call: impl Fn() -> A) -> A {
    match here() {
        Some(names)
            if names.any()
                || names.notes().is_some()
                || names.has_transfers()
                || names.writes_in_tiers()
                || names.has_copies()
                || names.packs_when_closed()
                || sibling_files::has_any()
                || by_name::any() =>
        {
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
    if by_name::any() {
        open_ones(uses);
    }
    let answer = named(names, uses, call);
    if names.packs_when_closed() && !answer.has_failed() {
        plain::opened(names, uses);
    }
    let is_absent = answer.has_failed() && errno() == libc::ENOENT;
    if is_absent && is_linked(uses) { named(names, uses, call) } else { answer }
}

/// The call has not found what it wants to open. True if it is to be made again: the name leads beside a captured file now.
fn is_linked(uses: &Use) -> bool {
    let path = || uses.name.bytes();
    let is_linked = |path: &[u8]| sibling_files::is_linked(std::path::Path::new(OsStr::from_bytes(path)));
    uses.gives_descriptor && sibling_files::has_any() && guard(false, || path().as_deref().is_some_and(is_linked))
}

/// Names of files that this process has open. Directories are listed without these: Python does so for every module that it loads.
fn open_ones(uses: &Use) {
    let names = [Some((uses.name, uses.does)), uses.other];
    for (name, does) in names.into_iter().flatten().filter(|(name, _)| !name.is_elsewhere()) {
        if !matches!(does, Does::Nothing | Does::Lists | Does::RemovesDirectory | Does::Scans | Does::Walks) {
            guard((), || name.bytes().iter().for_each(|path| by_name::used(path)));
        }
    }
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
        Ok(Settled::Free) => None,
        Ok(Settled::Held(hold)) => Some(hold),
        Ok(Settled::Staged(path)) => return staged(names, uses, &path, call),
        Ok(Settled::Written(file)) => return written(names, uses, &file.value, call),
        Ok(Settled::Around(path)) => return instead::with(uses.name.path, path.as_ptr(), call),
        Ok(Settled::Moves(holds)) => return whole::move_to(uses, holds),
        Ok(Settled::Busy) => return fail(libc::EBUSY),
        Ok(Settled::Same) => return A::DONE,
        Err(reason) => return fail(reason),
    };
    if held.is_none() && names.writes_in_tiers() {
        match whole::make(names, uses, call) {
            Made::Whole(answer) => return answer,
            Made::Again => return pending(names, &Use { makes: None, ..*uses }, call),
            Made::Itself => {}
        }
        if let Some(answer) = whole::move_directory(names, uses, call) {
            return answer;
        }
    }
    if held.is_none()
        && names.has_copies()
        && let Some(answer) = kept::read(names, uses, call)
    {
        return answer;
    }
    let answer = call();
    let is_absent = answer.has_failed() && errno() == libc::ENOENT;
    if let Some(held) = held {
        // Where the file would have been the first of its name, the program could have removed it.
        let is_removed = uses.does.removes() && is_absent;
        if answer.has_failed() && !is_removed {
            return answer;
        }
        held.value.give_up([HandedOver::NAME, HandedOver::OPEN], HandedOver::GIVEN_UP);
        return if is_removed { A::DONE } else { answer };
    }
    if !is_absent || !uses.follows || !names.any() {
        return answer;
    }
    match through_links(names, uses) {
        Some(Settled::Staged(path)) => staged(names, uses, &path, call),
        Some(Settled::Written(file)) => written(names, uses, &file.value, call),
        Some(_) => call(),
        None => answer,
    }
}

/// The call reads what waits in a tier.
fn staged<A: Answer>(names: &Names, uses: &Use, path: &Path, call: &dyn Fn() -> A) -> A {
    let answer = instead::with(uses.name.path, path.as_ptr(), call);
    if answer.has_failed() && errno() == libc::ENOENT {
        // It was packed at this moment, and lies elsewhere there.
        if let Ok(Settled::Staged(now)) = before(names, uses)
            && now.as_c_str() != path.as_c_str()
        {
            return staged(names, uses, &now, call);
        }
        // It is in its place by now, or will be in a moment, or newer values are pending. If the launcher is gone, nobody says so.
        return pending(names, &Use { reads: false, ..*uses }, call);
    }
    answer
}

/// The call may change what the program itself writes in a tier.
fn written<A: Answer>(names: &Names, uses: &Use, file: &Writing, call: &dyn Fn() -> A) -> A {
    let answer = instead::with(uses.name.path, file.path.as_ptr(), call);
    let is_gone = answer.has_failed() && errno() == libc::ENOENT && names.is_launcher_gone();
    // It was recovered since.
    if is_gone { call() } else { answer }
}

/// What the call finds of the names that it uses.
#[allow(clippy::large_enum_variant, reason = "nothing here may ask for memory")]
enum Settled<'n> {
    /// Nothing is pending under them any more.
    Free,
    /// A file that it may give up.
    Held(Guarded<Hold<'n>>),
    /// A file that can be read here.
    Staged(Path),
    /// A file that the program itself writes, in a tier.
    Written(Guarded<Writing>),
    /// The same, and the call asks about its surroundings, which are those of this directory.
    Around(Path),
    /// The same, which gets another name, and a file that has this name and may be given up.
    Moves(Guarded<(Hold<'n>, Option<Hold<'n>>)>),
    /// The same, which has the name already.
    Same,
    /// What would have to be waited for while a lock is held.
    Busy,
}

/// Waits for what is pending under the names; or why the call fails.
fn before<'n>(names: &'n Names, uses: &Use) -> Result<Settled<'n>, c_int> {
    let Some((other, does)) = uses.other else { return one(names, uses, true) };
    let second = Use { name: other, does, follows: false, other: None, ..*uses };
    loop {
        // The first name leaves, so its file has to be there in any case.
        let mut holds = match one(names, &Use { name: uses.name, other: None, ..*uses }, false)? {
            Settled::Moves(holds) => holds,
            // Two names cannot lead to one file of which one is in a tier.
            Settled::Written(_) => return Err(libc::EXDEV),
            _ => return one(names, &second, true),
        };
        if does == Does::MovesFrom {
            // Two names cannot be exchanged of which one is in a tier.
            return Err(libc::EINVAL);
        }
        if matches!(other.target(names, false), Target::Pending(key) if holds.value.0.is_for(&key.key())) {
            // It has the name already.
            return Ok(Settled::Same);
        }
        match one(names, &Use { is_locked: true, ..second }, true)? {
            Settled::Free => return Ok(Settled::Moves(holds)),
            Settled::Held(over) => {
                holds.value.1 = Some(over.value);
                return Ok(Settled::Moves(holds));
            }
            Settled::Busy => {}
            _ => return Err(libc::EBUSY),
        }
        let find = || match other.target(names, false) {
            Target::Pending(key) => names.find(&key.key(), u64::MAX).filter(|found| !names.is_written(*found)),
            _ => None,
        };
        // Nothing is held while the other file is waited for.
        let busy = find();
        drop(holds);
        one(names, &second, false)?;
        if busy.is_some() && find() == busy {
            // The launcher does not get on.
            return Err(libc::EIO);
        }
    }
}

fn one<'n>(names: &'n Names, uses: &Use, may_hold: bool) -> Result<Settled<'n>, c_int> {
    let Use { name, does, .. } = *uses;
    if does == Does::Nothing || name.is_elsewhere() {
        return Ok(Settled::Free);
    }
    let settled = if names.any() { near(names, uses, may_hold)? } else { Settled::Free };
    if matches!(settled, Settled::Free)
        && let Some(notes) = names.notes()
    {
        elsewhere(notes, uses)?;
    }
    Ok(settled)
}

/// Waits for what this node makes.
fn near<'n>(names: &'n Names, uses: &Use, may_hold: bool) -> Result<Settled<'n>, c_int> {
    let Use { name, does, .. } = *uses;
    // Afterwards nobody could tell that there was a link.
    let is_made = matches!(does, Does::Empties | Does::Makes | Does::OpensOrMakes);
    let needs_links = uses.follows && (is_made || names.any_replaces());
    match name.target(names, needs_links) {
        Target::Pending(key) => settle(names, &key.key(), uses, may_hold),
        // Everything that is under way below goes along, or is listed.
        Target::Directory | Target::Other => {
            name.settle_below(names, does)?;
            Ok(Settled::Free)
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

/// Waits until a name is pending no longer, unless the call may give it up, or reads what waits in a tier.
fn settle<'n>(names: &'n Names, key: &knarr_names::Key<'_>, uses: &Use, may_hold: bool) -> Result<Settled<'n>, c_int> {
    let Use { does, mut reads, .. } = *uses;
    let last = names.generation();
    while let Some(found) = names.find(key, last) {
        if names.is_whole(found)
            && let Some(settled) = settle_whole(names, (found, key), &Use { reads, ..*uses }, may_hold)?
        {
            return Ok(settled);
        }
        if may_hold
            && does.gives_up()
            && !names.is_whole(found)
            && let Some(hold) = names.hold(found)
        {
            return Ok(Settled::Held(Guarded::new(hold, Blocked::new())));
        }
        if uses.is_locked {
            return Ok(Settled::Busy);
        }
        // An older version may be waiting while a newer one is made.
        let is_newest = || names.is_newest(found, key, last);
        match names.wait(found, does.call(), reads && is_newest()) {
            Over::Free => {}
            Over::Staged => {
                if let Some(path) = names.staged(found) {
                    return Ok(Settled::Staged(path));
                }
                // It is in its place in a moment, or the launcher is gone, and its spool.
                reads = false;
            }
            // Newer versions will not come either.
            Over::Gone if does.needs_file() && !is_newest() => return Err(libc::EIO),
            over => return after(names, found, does, over).map(|()| Settled::Free),
        }
    }
    Ok(Settled::Free)
}

/// What a call gets of a file that the program itself writes in a tier, or has written there; `None` if it is as for others.
fn settle_whole<'n>(
    names: &'n Names,
    (found, key): (Found, &knarr_names::Key<'_>),
    uses: &Use,
    may_hold: bool,
) -> Result<Option<Settled<'n>>, c_int> {
    let reason = |error: rustix::io::Errno| error.raw_os_error();
    if !names.has_place(found) && names.is_launcher_gone() {
        // It was recovered since, or is lost.
        names.abandon(found);
        return Ok(Some(Settled::Free));
    }
    match uses.does {
        Does::Makes => return Err(libc::EEXIST),
        Does::Resolves => return Ok(Some(Settled::Free)),
        Does::LooksAround => return Ok(uses.name.directory().map(Settled::Around)),
        // The file is opened later, by the C library in another process, which asks nobody.
        Does::Prepares => names.await_place(key, uses.does.call(), MOMENT),
        _ => {}
    }
    let gives_up = uses.does.removes() || uses.does == Does::MovesTo;
    if uses.reads {
        return Ok(None);
    }
    if gives_up && !may_hold {
        // It is not waited for while the program may have it open: whoever asks tries again to hold it.
        return Ok(names.is_written(found).then_some(Settled::Free));
    }
    let blocked = Blocked::new();
    if gives_up {
        let hold = names.hold_whole(found, uses.is_locked);
        return Ok(hold.map(|hold| Settled::Held(Guarded::new(hold, blocked))));
    }
    if uses.does == Does::MovesFrom {
        let hold = names.hold_whole(found, uses.is_locked);
        return Ok(hold.map(|hold| Settled::Moves(Guarded::new((hold, None), blocked))));
    }
    let file = names.write(found).map_err(reason)?;
    Ok(file.map(|file| Settled::Written(Guarded::new(file, blocked))))
}

/// How long the launcher may take to see that a file is closed.
const MOMENT: Duration = Duration::from_secs(1);

/// The file did not come.
fn after(names: &Names, found: Found, does: Does, over: Over) -> Result<(), c_int> {
    if does.needs_file() && (over == Over::Failed || names.replaces(found)) {
        // What is there is older than what the program has written.
        return Err(libc::EIO);
    }
    if over == Over::Gone && does.changes_file() && names.is_launcher_gone() {
        // From now on what the program makes of the name counts.
        names.abandon(found);
    } else if does.takes_name() {
        names.forget(found);
    }
    Ok(())
}

/// What was pending under a name that does not lead to a file, but to a pending one, which has been waited for; `None` if it leads
/// to none.
fn through_links<'n>(names: &'n Names, uses: &Use) -> Option<Settled<'n>> {
    match uses.name.target(names, true) {
        Target::Pending(key) => settle(names, &key.key(), uses, false).ok(),
        _ => None,
    }
}
