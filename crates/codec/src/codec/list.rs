//! The ordered list of codecs: the only place that names them all.

use std::fmt;
use std::sync::Arc;

use super::{
    Codec, FilterId, bitround, bitshuffle, brotli, delta, fixedscale, fletcher32, granular, gridded, lorenzo, pcodec,
    quantize, quantize_rel, round, runs, shuffle, signs, snappy, trailing, xor,
};
use knarr_array::error::{Error, Result};

/// An ordered list of codecs. Order breaks ties in choices, so it is part of the result.
#[derive(Clone, Default)]
pub struct CodecList(Vec<Arc<dyn Codec>>);

impl fmt::Debug for CodecList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|codec| codec.name())).finish()
    }
}

impl CodecList {
    /// The codecs of this crate: pure Rust, no foreign library.
    pub fn pure() -> Self {
        Self(vec![
            Arc::new(bitround::BitRound),
            Arc::new(granular::Granular),
            Arc::new(quantize::Quantize),
            Arc::new(quantize_rel::QuantizeRel),
            Arc::new(delta::Delta),
            Arc::new(lorenzo::Lorenzo),
            Arc::new(xor::Xor),
            Arc::new(shuffle::Shuffle),
            Arc::new(bitshuffle::Bitshuffle),
            Arc::new(fletcher32::Fletcher32),
            Arc::new(pcodec::Pcodec),
            Arc::new(fixedscale::FixedScale),
            Arc::new(trailing::Trailing),
            Arc::new(brotli::Brotli),
            Arc::new(snappy::Snappy),
            Arc::new(round::Round),
            Arc::new(gridded::Grid),
            Arc::new(signs::Signs),
            Arc::new(runs::Runs),
        ])
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
