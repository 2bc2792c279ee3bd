//! What `knarr worker` can be asked to do. Each task lies with the command that needs it.

use knarr_flow::engine::Engine;
use serde_json::Value;

use crate::checkpoint::PackSet;
use crate::repack_tasks::{Lacking, Planning, Repacking};
use crate::report::LookInto;
use crate::run::{Deliver, Look, PackFile, Show};
use crate::worker::{Asker, Task};

/// Does the task of this name, and answers.
pub(crate) fn run(name: &str, task: Value, engine: &Engine, asker: &Asker) {
    match name {
        Repacking::NAME => asker.answer::<Repacking>(task, engine),
        Planning::NAME => asker.answer::<Planning>(task, engine),
        Lacking::NAME => asker.answer::<Lacking>(task, engine),
        LookInto::NAME => asker.answer::<LookInto>(task, engine),
        PackFile::NAME => asker.answer::<PackFile>(task, engine),
        Deliver::NAME => asker.answer::<Deliver>(task, engine),
        Show::NAME => asker.answer::<Show>(task, engine),
        Look::NAME => asker.answer::<Look>(task, engine),
        PackSet::NAME => asker.answer::<PackSet>(task, engine),
        _ => asker.refuse(name),
    }
}
