//! A set that is being made.

use std::path::PathBuf;

use super::options::PackOptions;
use super::set::Set;
use knarr_flow::engine::Engine;

/// What the packing of every group needs to know of the set.
pub(super) struct NewSet {
    pub(super) engine: Engine,
    pub(super) options: PackOptions,
    /// What the set is called when it is complete.
    pub(super) target: PathBuf,
    /// Where it is written until then.
    pub(super) directory: PathBuf,
    /// The earlier set whose content need not be stored again.
    pub(super) base: Option<Set>,
    /// For each store of the earlier set whether the directory has a link to it.
    pub(super) linked: Vec<bool>,
}

impl NewSet {
    /// Whether the directory has a link to a file of the earlier set of this name.
    pub(super) fn is_linked(&self, name: &str) -> bool {
        self.linked_names().any(|other| other == name)
    }

    pub(super) fn linked_names(&self) -> impl Iterator<Item = &str> {
        let stores = self.base.iter().flat_map(|set| &set.manifest().stores);
        stores.zip(&self.linked).filter(|(_, linked)| **linked).map(|(store, _)| store.name.as_str())
    }
}
