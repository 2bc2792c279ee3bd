//! A set that is being made.

use std::path::PathBuf;

use crate::disk::set::Set;
use crate::packing::options::PackOptions;
use knarr_flow::engine::Engine;

/// What the packing of every group needs to know of the set.
pub(crate) struct NewSet {
    pub(crate) engine: Engine,
    pub(crate) options: PackOptions,
    /// What the set is called when it is complete.
    pub(crate) target: PathBuf,
    /// Where it is written until then.
    pub(crate) directory: PathBuf,
    /// The earlier set whose content need not be stored again.
    pub(crate) base: Option<Set>,
    /// For each store of the earlier set whether the directory has a link to it.
    pub(crate) linked: Vec<bool>,
}

impl NewSet {
    /// Whether the directory has a link to a file of the earlier set of this name.
    pub(crate) fn is_linked(&self, name: &str) -> bool {
        self.linked_names().any(|other| other == name)
    }

    pub(crate) fn linked_names(&self) -> impl Iterator<Item = &str> {
        let stores = self.base.iter().flat_map(|set| &set.manifest().stores);
        stores.zip(&self.linked).filter(|(_, linked)| **linked).map(|(store, _)| store.name.as_str())
    }
}
