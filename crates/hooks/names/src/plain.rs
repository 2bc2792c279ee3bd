//! Files that the program writes where they are to be, and that a rule wants packed when they are closed. Which library writes them does not
//! matter: the launcher hears that one was opened, and looks itself when no process has it open to write any more.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use knarr_capture::{Event, key_of};
use knarr_captured::guard;
use knarr_captured::wanted;
use knarr_captured::whole::{Makes, WholeFile};
use knarr_names::{Names, is_opened_by_library};

use super::does::Does;
use super::signals::Blocked;
use super::uses::Use;

/// The call has succeeded. Tells the launcher if it has opened such a file to write.
pub(crate) fn opened(names: &Names, uses: &Use) {
    let may_write = uses.makes.is_some() || uses.does == Does::Opens && !uses.reads;
    // Processes of other nodes may write the file, too: nobody sees when they are done.
    let is_other = is_opened_by_library() || uses.name.is_elsewhere() || names.notes().is_some();
    if !may_write || is_other || !uses.name.satisfies(WholeFile::may_be) {
        return;
    }
    let _blocked = Blocked::new();
    guard((), || {
        let wanted = uses.name.bytes().and_then(|path| wanted(&path)).filter(|found| found.rule.packs_when_closed());
        let is_pending = |target: &Path| key_of(target).is_some_and(|key| names.find(&key, u64::MAX).is_some());
        if let Some(wanted) = wanted
            // What it writes in a tier is packed there.
            && !is_pending(&wanted.target)
            && let Ok(found) = std::fs::metadata(&wanted.target)
            && found.is_file()
        {
            let created = match uses.makes {
                Some(Makes::New | Makes::Anew) => true,
                Some(Makes::IfNone) => found.len() == 0,
                None => false,
            };
            let identity = (found.dev(), found.ino());
            wanted.run.notify(Event::Written { path: wanted.target, created, identity: Some(identity) });
        }
    });
}
