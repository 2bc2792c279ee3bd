//! Codecs: one reversible step each, in one file each. This file lists them all.
//!
//! A codec is a static description ([`Codec`], in `contract.rs`) that prepares a [`Step`] for chunks of one
//! type and shape. Kinds are those of the Zarr v3 specification. A codec also says how it
//! is written as a registered HDF5 filter and as Zarr v3 metadata, if it can be.

// The codecs; their order in choices is that of `CodecList::pure`.
mod bitround;
pub mod bitshuffle;
mod brotli;
mod delta;
mod fixedscale;
mod fletcher32;
mod granular;
mod gridded;
mod lorenzo;
mod pcodec;
mod quantize;
mod quantize_rel;
mod round;
mod runs;
mod shuffle;
mod signs;
mod snappy;
mod trailing;
mod xor;

// What codecs are made of.
mod buffers;
mod contract;
mod forms;
pub mod grid;
mod lattice;
mod list;
mod options;
pub mod order;
pub mod planes;
mod registered;
mod rounding;

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
}
