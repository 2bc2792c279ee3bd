//! What a process can be asked to do. Each task lies with the command that needs it.

use knarr_core::engine::Engine;
use serde::{Deserialize, Serialize};

use super::serve::Asker;
use crate::checkpoint::PackSet;
use crate::repack::One;
use crate::report::LookInto;
use crate::run::{Look, PackFile};

#[derive(Serialize, Deserialize)]
pub(crate) enum Task {
    Repack(One),
    Plan(One),
    LookInto(LookInto),
    PackFile(PackFile),
    Look(Look),
    PackSet(PackSet),
    Lacking(One),
}

impl Task {
    pub(super) fn run(self, engine: &Engine, asker: &Asker) {
        match self {
            Self::Repack(one) => asker.answer(one.repack(engine, asker)),
            Self::Plan(one) => asker.answer(one.plan(engine, asker)),
            Self::LookInto(file) => asker.answer(Ok(file.run(engine))),
            Self::PackFile(file) => asker.answer(file.run(engine, asker)),
            Self::Look(file) => asker.answer(file.run(engine, asker)),
            Self::PackSet(set) => asker.answer(set.run(engine, asker)),
            Self::Lacking(one) => asker.answer(one.lacking(engine, asker)),
        }
    }
}
