//! Byte compressors for one block at a time, with their contexts kept: what zstd, Blosc and bitshuffle share.

use knarr_array::{Error, Result};
use libdeflater::{CompressionLvl, Compressor, Decompressor};
use zstd_safe::DCtx;

use super::{lz4_block, resize, zstd_frame};

/// How a block is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// LZ4 or LZ4HC.
    Lz4(lz4_block::Method),
    /// zlib stream, level 1 to 9.
    Zlib { level: i32 },
    /// Zstandard frame, level 1 to 22. Shuffled numbers have `planes`, equal parts that differ in kind.
    Zstd { level: i32, planes: Option<usize> },
}

/// How a block was encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// LZ4 block.
    Lz4,
    /// Snappy block.
    Snappy,
    /// zlib stream.
    Zlib,
    /// Zstandard frame.
    Zstd,
}

impl Method {
    /// What decodes it.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Lz4(_) => Format::Lz4,
            Self::Zlib { .. } => Format::Zlib,
            Self::Zstd { .. } => Format::Zstd,
        }
    }

    /// Upper bound of the encoded length.
    pub(crate) fn bound(self, plain: usize) -> usize {
        match self {
            // LZ4_COMPRESSBOUND
            Self::Lz4(_) => plain + plain / 255 + 16,
            // Stored blocks of at least 10,000 bytes with 5 bytes each (libdeflate's own bound) and the framing.
            Self::Zlib { .. } => plain + 5 * plain.div_ceil(5000) + 64,
            Self::Zstd { .. } => zstd_safe::compress_bound(plain),
        }
    }
}

/// Contexts, made when they are first needed.
#[derive(Default)]
pub(crate) struct Coder {
    zstd_encoder: Option<zstd_frame::Encoder>,
    zstd_decoder: Option<DCtx<'static>>,
    zlib_encoder: Option<(i32, Compressor)>,
    zlib_decoder: Option<Decompressor>,
}

impl Coder {
    /// Appends the encoded form of `plain`.
    pub(crate) fn append(&mut self, method: Method, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match method {
            Method::Lz4(method) => lz4_block::append(method, plain, out),
            Method::Zstd { level, planes } => {
                if self.zstd_encoder.as_ref().is_some_and(|encoder| encoder.level() != level) {
                    self.zstd_encoder = None;
                }
                made(&mut self.zstd_encoder, || zstd_frame::Encoder::new(level).ok())?.append(plain, planes, out)
            }
            Method::Zlib { level } => {
                let encoder = self.zlib_encoder(level)?;
                let start = out.len();
                resize(out, start + method.bound(plain.len()))?;
                let written = encoder
                    .zlib_compress(plain, out.get_mut(start..).unwrap_or(&mut []))
                    .map_err(|error| Error::internal(format!("deflate: {error}")))?;
                out.truncate(start + written);
                Ok(())
            }
        }
    }

    /// Decodes into `plain`, which limits the decoder, and returns how many bytes there are.
    pub(crate) fn decode(&mut self, format: Format, data: &[u8], plain: &mut [u8]) -> Result<usize> {
        match format {
            Format::Lz4 => lz4_block::expand(data, plain).map(|()| plain.len()),
            Format::Snappy => snap::raw::Decoder::new()
                .decompress(data, plain)
                .map_err(|error| Error::corrupt(format!("snappy: {error}"))),
            Format::Zlib => made(&mut self.zlib_decoder, || Some(Decompressor::new()))?
                .zlib_decompress(data, plain)
                .map_err(|error| Error::corrupt(format!("deflate: {error}"))),
            Format::Zstd => made(&mut self.zstd_decoder, DCtx::try_create)?
                .decompress(plain, data)
                .map_err(|code| Error::corrupt(format!("zstd: {}", zstd_safe::get_error_name(code)))),
        }
    }

    /// Decodes a block that holds exactly as many bytes as `plain` has.
    pub(crate) fn expand(&mut self, format: Format, data: &[u8], plain: &mut [u8]) -> Result<()> {
        let length = self.decode(format, data, plain)?;
        if length != plain.len() {
            return Err(Error::corrupt(format!("a block of {} bytes decodes to {length}", plain.len())));
        }
        Ok(())
    }

    fn zlib_encoder(&mut self, level: i32) -> Result<&mut Compressor> {
        if self.zlib_encoder.as_ref().is_some_and(|(made_for, _)| *made_for != level) {
            self.zlib_encoder = None;
        }
        let compression = CompressionLvl::new(level).map_err(|_| Error::internal("no such zlib level"))?;
        made(&mut self.zlib_encoder, || Some((level, Compressor::new(compression)))).map(|(_, encoder)| encoder)
    }
}

/// The context in `place`, made if there is none.
fn made<T>(place: &mut Option<T>, make: impl FnOnce() -> Option<T>) -> Result<&mut T> {
    if place.is_none() {
        *place = make();
    }
    place.as_mut().ok_or_else(|| Error::unsupported("no memory for a compression context"))
}
