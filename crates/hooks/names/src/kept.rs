//! Files in their places that have a copy in a tier: whoever only reads one reads the copy.

use knarr_names::{Identity, Names, Path};

use super::does::Does;
use super::instead;
use super::next::{Answer, errno, fail};
use super::path::Name;
use super::uses::Use;

/// Makes a call that only reads a file with the copy of that. `None` if it has none: then the call is to be made as it is. Of a file that
/// the call may change nobody reads the copy any more.
pub(crate) fn read<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> Option<A> {
    let before = errno();
    let answer = if uses.only_reads { copied(names, uses, call) } else { give_up(names, uses) };
    if answer.is_none() {
        // As if nothing had been looked at.
        let _: A = fail(before);
    }
    answer
}

fn copied<A: Answer>(names: &Names, uses: &Use, call: &dyn Fn() -> A) -> Option<A> {
    let (identity, path) = copy_of(names, uses.name, uses.follows)?;
    let opens = uses.does == Does::Opens;
    // What the system said without opening it may be older, if another node has changed the file.
    if opens && uses.name.identity_opened(uses.follows) != Some(identity) {
        return None;
    }
    let answer = instead::with(uses.name.path, path.as_ptr(), call);
    // It was given up at this moment, or cannot be opened so where it lies.
    if answer.has_failed() {
        return None;
    }
    if opens {
        names.reads_copy(&identity);
    }
    Some(answer)
}

fn copy_of(names: &Names, name: Name, follows: bool) -> Option<(Identity, Path)> {
    let identity = if name.is_elsewhere() { None } else { name.identity(follows) }?;
    Some((identity, names.copy_of(&identity)?))
}

fn give_up<A>(names: &Names, uses: &Use) -> Option<A> {
    for (name, does) in [Some((uses.name, uses.does)), uses.other].into_iter().flatten() {
        if does.may_change()
            && !name.is_elsewhere()
            && let Some(identity) = name.identity(uses.follows)
        {
            names.give_copy_up(&identity);
        }
    }
    None
}
