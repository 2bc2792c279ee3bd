//! An ordered list of codecs, and how one is found in it.

use std::fmt;
use std::sync::Arc;

use super::Codec;
use knarr_array::error::{Error, Result};
use knarr_array::filter::FilterId;

/// An ordered list of codecs. Order breaks ties in choices, so it is part of the result.
#[derive(Clone, Default)]
pub struct CodecList(Vec<Arc<dyn Codec>>);

impl fmt::Debug for CodecList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|codec| codec.name())).finish()
    }
}

impl CodecList {
    /// A list of codecs whose names and wire ids differ.
    pub(super) fn in_order(codecs: Vec<Arc<dyn Codec>>) -> Self {
        Self(codecs)
    }

    /// Appends a codec.
    ///
    /// # Errors
    /// `Internal` if its name or wire id is taken.
    pub fn push(&mut self, codec: Arc<dyn Codec>) -> Result<()> {
        if let Some(other) = self.iter().find(|c| c.name() == codec.name() || c.wire_id() == codec.wire_id()) {
            return Err(Error::internal(format!("codec '{}' clashes with '{}'", codec.name(), other.name())));
        }
        self.0.push(codec);
        Ok(())
    }

    /// All codecs in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Codec>> {
        self.0.iter()
    }

    /// The codec called `name`.
    ///
    /// # Errors
    /// `Usage` that lists the names there are.
    pub fn named(&self, name: &str) -> Result<&Arc<dyn Codec>> {
        self.iter().find(|codec| codec.name() == name).ok_or_else(|| {
            let names: Vec<_> = self.iter().map(|codec| codec.name()).collect();
            Error::usage(format!("there is no codec '{name}'")).hint(format!("choose from: {}", names.join(", ")))
        })
    }

    /// The codec with this number in frames.
    pub fn with_wire_id(&self, id: u16) -> Option<&Arc<dyn Codec>> {
        self.iter().find(|codec| codec.wire_id() == id)
    }

    /// Codecs that understand the HDF5 filter `id`.
    pub fn for_hdf5(&self, id: FilterId) -> impl Iterator<Item = &Arc<dyn Codec>> {
        self.iter().filter(move |codec| codec.hdf5_ids().contains(&id))
    }
}
