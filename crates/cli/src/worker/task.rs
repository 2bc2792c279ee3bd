//! What a process can be asked to do. Each task lies with the command that needs it.

use knarr_core::engine::Engine;
use serde::{Deserialize, Serialize};

use super::serve::Asker;
use crate::repack::One;

#[derive(Serialize, Deserialize)]
pub(crate) enum Task {
    Repack(One),
    Plan(One),
    Lacking(One),
}

impl Task {
    pub(super) fn run(self, engine: &Engine, asker: &Asker) {
        match self {
            Self::Repack(one) => asker.answer(one.repack(engine, asker)),
            Self::Plan(one) => asker.answer(one.plan(engine, asker)),
            Self::Lacking(one) => asker.answer(one.lacking(engine, asker)),
        }
    }
}
