//! Codecs that wrap C libraries, and the loader of installed HDF5 filter plugins: unsafe code lives here.
//!
//! [`codecs`] is the one list of everything a Knarr program can use; each codec has its own file.

mod allocator;
mod bitshuffle;
mod blosc;
mod bzip2;
mod deflate;
mod ended;
mod entropy;
mod lz4;
mod lz4_sized;
mod lzf;
pub mod plugin;
mod runs;
mod support;
mod sz3;
mod szip;
mod xz;
mod zfp;
mod zlib;
mod zstd;

pub use allocator::give_back_freed;
pub use ended::wait_status;

use knarr_array::{ErrorKind, Result};
use knarr_codec::chain::Scratch;
use knarr_codec::codec::{Codec, CodecList, KNARR_FILTER};
use knarr_codec::frame::Frame;
use knarr_codec::frame::Framed;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// All codecs: those of `knarr-codec`, the ones of this crate in a fixed order, then the HDF5 filter plugins found in
/// [`plugin::directories`].
///
/// # Errors
/// `Internal` if two codecs share a name or wire id.
pub fn codecs() -> Result<CodecList> {
    codecs_with_plugins(&plugin::directories())
}

/// As [`codecs`], with the plugins of the given directories.
///
/// # Errors
/// `Internal` if two codecs share a name or wire id.
pub fn codecs_with_plugins(directories: &[PathBuf]) -> Result<CodecList> {
    let mut list = CodecList::pure();
    let own: Vec<Arc<dyn Codec>> = vec![
        Arc::new(zstd::Zstd),
        Arc::new(deflate::ZLIB),
        Arc::new(deflate::GZIP),
        Arc::new(lz4::Lz4),
        Arc::new(lz4_sized::Lz4Sized),
        Arc::new(bitshuffle::LZ4),
        Arc::new(bitshuffle::ZSTD),
        Arc::new(blosc::Blosc),
        Arc::new(blosc::Blosc2),
        Arc::new(bzip2::Bzip2),
        Arc::new(xz::Xz),
        Arc::new(zfp::ZFP),
        Arc::new(zfp::ZFPY),
        Arc::new(lzf::Lzf),
        Arc::new(zlib::Zlib),
        Arc::new(szip::Szip),
    ];
    for codec in own {
        list.push(codec)?;
    }
    let plugins = plugin::load(directories);
    if let Some(sz3) = sz3::Sz3::by(&plugins) {
        list.push(Arc::new(sz3))?;
    }
    // Knarr's own plugin may be installed: what it does is done here by `Framed`, with better messages.
    let others = plugins.into_iter().filter(|plugin| plugin.id != KNARR_FILTER);
    for codec in others.filter_map(plugin::PluginCodec::new) {
        list.push(Arc::new(codec))?;
    }
    // Frames may name any of the codecs above.
    let framed = Framed::new(list.clone());
    list.push(Arc::new(framed))?;
    Ok(list)
}

/// Codecs of those who write frames for others and read anybody's: made when they are first needed, shared by threads.
#[derive(Debug, Default)]
pub struct FrameCodecs {
    own: OnceLock<Result<CodecList>>,
    all: OnceLock<Result<CodecList>>,
}

impl FrameCodecs {
    /// None yet.
    pub const fn new() -> Self {
        Self { own: OnceLock::new(), all: OnceLock::new() }
    }

    /// Those that every Knarr has.
    ///
    /// # Errors
    /// As for [`codecs`].
    pub fn own(&self) -> Result<CodecList> {
        self.own.get_or_init(|| codecs_with_plugins(&[])).clone()
    }

    /// With the HDF5 filter plugins that are installed.
    ///
    /// # Errors
    /// As for [`codecs`].
    pub fn all(&self) -> Result<CodecList> {
        self.all.get_or_init(codecs).clone()
    }

    /// Decodes a frame into `out`. Plugins are only looked for if it needs one.
    ///
    /// # Errors
    /// As for [`Frame::decode`].
    pub fn decode(&self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<()> {
        match frame.decode(&self.own()?, &mut Scratch::default(), out) {
            Err(error) if error.kind() == ErrorKind::MissingFilter => {
                frame.decode(&self.all()?, &mut Scratch::default(), out)
            }
            done => done,
        }
    }
}
