//! Codecs: one reversible step each, in one file each. This file lists them all, by kind and in the order of choices.
//!
//! A codec is a static description ([`Codec`], in `contract.rs`) that prepares a [`Step`] for chunks of one
//! type and shape. Kinds are those of the Zarr v3 specification. A codec also says how it
//! is written as a registered HDF5 filter and as Zarr v3 metadata, if it can be.

/// From an array to bytes. `lattice` finds the steps that numbers are multiples of.
mod array_to_bytes {
    pub(super) mod fixedscale;
    pub(super) mod gridded;
    pub(super) mod lattice;
    pub(super) mod pcodec;
    pub(super) mod runs;
    pub(super) mod trailing;
}

/// From bytes to bytes.
mod compressors {
    pub mod bitshuffle;
    pub(super) mod brotli;
    pub(super) mod fletcher32;
    pub(super) mod shuffle;
    pub(super) mod snappy;
}

/// Filters that lose nothing: from an array to one of the same type and shape.
mod filters {
    pub(super) mod delta;
    pub(super) mod lorenzo;
    pub(super) mod signs;
    pub(super) mod xor;
}

/// Filters that change values, within what was promised. `rounding` is what they share.
mod lossy {
    pub(super) mod bitround;
    pub(super) mod granular;
    pub(super) mod quantize;
    pub(super) mod quantize_rel;
    pub(super) mod round;
    pub(super) mod rounding;
}

// What codecs are made of.
mod buffers;
mod contract;
mod forms;
mod list;
mod options;
pub mod order;
pub mod planes;
mod registered;

pub use compressors::bitshuffle;

pub use array_to_bytes::gridded::GRID_LIBRARIES;
pub use buffers::{check_limit, sized};
pub use contract::{Codec, Kind, Loss, Stage, Step};
pub use forms::{Hdf5Form, ReaderLevel, ZarrCodec, ZarrKind, zarr_entry};
pub use list::CodecList;
pub use options::{OptionDoc, OptionKind, OptionValue, Options};
pub use registered::{FilterSet, KNARR_FILTER, Provider, REGISTERED, Registered, filter_name, registered};

use std::sync::Arc;

impl CodecList {
    /// The codecs of this crate: pure Rust, no foreign library. The order breaks ties of choices: new ones come last.
    pub fn pure() -> Self {
        Self::in_order(vec![
            Arc::new(lossy::bitround::BitRound),
            Arc::new(lossy::granular::Granular),
            Arc::new(lossy::quantize::Quantize),
            Arc::new(lossy::quantize_rel::QuantizeRel),
            Arc::new(filters::delta::Delta),
            Arc::new(filters::lorenzo::Lorenzo),
            Arc::new(filters::xor::Xor),
            Arc::new(compressors::shuffle::Shuffle),
            Arc::new(compressors::bitshuffle::Bitshuffle),
            Arc::new(compressors::fletcher32::Fletcher32),
            Arc::new(array_to_bytes::pcodec::Pcodec),
            Arc::new(array_to_bytes::fixedscale::FixedScale),
            Arc::new(array_to_bytes::trailing::Trailing),
            Arc::new(compressors::brotli::Brotli),
            Arc::new(compressors::snappy::Snappy),
            Arc::new(lossy::round::Round),
            Arc::new(array_to_bytes::gridded::Grid),
            Arc::new(filters::signs::Signs),
            Arc::new(array_to_bytes::runs::Runs),
        ])
    }
}
