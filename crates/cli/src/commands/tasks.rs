//! What `knarr worker` can be asked to do. Each task lies with what needs it.

use knarr_worker::Tasks;

use crate::commands::repack_tasks::{Lacking, Planning, Repacking};
use crate::report::LookInto;

/// Those of the library, and those of the commands here.
pub(crate) fn all() -> Tasks {
    knarr_run::worker_tasks().with::<Repacking>().with::<Planning>().with::<Lacking>().with::<LookInto>()
}
