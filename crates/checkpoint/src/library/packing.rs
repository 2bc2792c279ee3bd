//! What becomes of a step that a program handed over: a part of a checkpoint set.

use std::path::Path;

use crate::files::layout::FileLayout;
use crate::{Group, Packed, Part, Together};
use knarr_array::comm::Comm;
use knarr_array::error::Result;
use knarr_flow::engine::Silent;
use knarr_handover::Delivery;

/// The groups that this rank packs of a set that all ranks make.
pub(super) struct Packing {
    pub(super) together: Together,
    pub(super) groups: Vec<Group>,
    /// Finds where values lie in files.
    pub(super) find: fn(&Path) -> Result<FileLayout>,
}

impl Delivery for Packing {
    type Delivered = Part;
    /// On rank 0 what was packed.
    type Outcome = Option<Packed>;

    fn deliver(&self) -> Result<Part> {
        self.together.pack_groups(&self.groups, &self.find, &Silent)
    }

    fn finish(self, comm: &dyn Comm, part: Result<Part>) -> Result<Option<Packed>> {
        self.together.finish(comm, part)
    }
}
