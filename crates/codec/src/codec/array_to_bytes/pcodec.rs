//! `pcodec`: dense lossless coding of numbers, by the crate `pco`; `numcodecs.pcodec` in Zarr.

use bytemuck::Pod;
use pco::data_types::{Number, NumberType};
use pco::errors::PcoError;
use pco::metadata::DeltaEncoding;
use pco::standalone::{self, guarantee};
use pco::{ChunkConfig, DEFAULT_MAX_PAGE_N, PagingSpec, wrapped};
use std::borrow::Cow;
use std::marker::PhantomData;

use crate::codec::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec, ZarrKind};
use crate::codec::{check_limit, zarr_entry};
use knarr_array::array::{DType, swap_bytes};
use knarr_array::error::{Error, Result};

/// Pcodec's standalone format exactly as `numcodecs.pcodec` writes it (M. Loncaric et al., 2025,
/// arXiv:2502.06112; `docs/format.md` of mwlon/pcodec).
pub(in crate::codec) struct Pcodec;

impl Codec for Pcodec {
    fn name(&self) -> &'static str {
        "pcodec"
    }

    fn wire_id(&self) -> u16 {
        16
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "Pcodec: finds multiples and trends in numbers, then bins and entropy-codes them (crate pco, arXiv:2502.06112)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["pcodec", "pcodec:0", "pcodec:1 | shuffle | fletcher32"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "level",
            kind: OptionKind::Int { min: 0, max: 12, default: Some(8) },
            doc: "effort: 0 is fastest, 12 densest",
        }]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let level = usize::try_from(options.int("level")?).map_err(|_| Error::internal("pcodec: level"))?;
        Ok(match input.spec.dtype {
            DType::I8 => prepared::<i8>(level),
            DType::I16 => prepared::<i16>(level),
            DType::I32 => prepared::<i32>(level),
            DType::I64 => prepared::<i64>(level),
            DType::U8 => prepared::<u8>(level),
            DType::U16 => prepared::<u16>(level),
            DType::U32 => prepared::<u32>(level),
            DType::U64 => prepared::<u64>(level),
            DType::F32 => prepared::<f32>(level),
            DType::F64 => prepared::<f64>(level),
            other => return Err(Error::unsupported(format!("pcodec does not code elements of type {other}"))),
        })
    }

    fn zarr(&self, options: &Options, input: &Stage) -> Option<ZarrCodec> {
        // numcodecs names no 8-bit types.
        if input.spec.dtype.size() < 2 {
            return None;
        }
        let configuration = serde_json::json!({
            "level": options.int("level").ok()?,
            "mode_spec": "auto",
            "delta_spec": "auto",
            "paging_spec": "equal_pages_up_to",
            "delta_encoding_order": null,
            "equal_pages_up_to": DEFAULT_MAX_PAGE_N,
        });
        Some(zarr_entry(ZarrKind::ArrayToBytes, "numcodecs.pcodec", configuration))
    }
}

/// Largest lookback window that is decoded, in elements as a power of two. Encoders use at most 2^15; the format
/// allows windows whose buffers would take 256 MiB.
const MAX_WINDOW_LOG: u32 = 20;

/// Number of the mode whose metadata holds a dictionary, and the bits of mode and dictionary length.
const DICT_MODE: u32 = 4;
const MODE_BITS: u32 = 4;
const DICT_LEN_BITS: u32 = 25;

fn prepared<T: Number + Pod>(level: usize) -> Box<dyn Step> {
    Box::new(Prepared::<T> { level, element: PhantomData })
}

struct Prepared<T> {
    level: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Number + Pod> Step for Prepared<T> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        let count = input_len / size_of::<T>();
        guarantee::file_size::<T::L>(count, &PagingSpec::default()).unwrap_or(usize::MAX)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut config = ChunkConfig::default().with_compression_level(self.level);
        config.enable_8_bit = true;
        *out = standalone::simple_compress(&load::<T>(input), &config)
            .map_err(|error| Error::internal(format!("pcodec: {error}")))?;
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let mut elements = Vec::new();
        let (header, mut rest) = standalone::FileDecompressor::new(input).map_err(corrupt)?;
        let version = header.format_version();
        let version = [version.major, version.minor];
        let (file, _) = wrapped::FileDecompressor::new(version.as_slice()).map_err(corrupt)?;
        while let Some((count, chunk)) = chunk_start::<T>(rest)? {
            check_limit(out.len().saturating_add(count.saturating_mul(size_of::<T>())), limit)?;
            elements.resize(count, T::zeroed());
            rest = decode_chunk(&file, chunk, &mut elements)?;
            store(&elements, out);
        }
        Ok(())
    }
}

/// Reads what stands before a chunk: number type and count. `None` at the end of the stream.
fn chunk_start<T: Number>(bytes: &[u8]) -> Result<Option<(usize, &[u8])>> {
    let short = || Error::corrupt("pcodec: stream ends early");
    match bytes {
        [] => Err(short()),
        [0] => Ok(None),
        [0, ..] => Err(Error::corrupt(format!("pcodec: {} bytes follow the stream", bytes.len() - 1))),
        [number, low, middle, high, chunk @ ..] if *number == NumberType::new::<T>() as u8 => {
            let count = u32::from_le_bytes([*low, *middle, *high, 0]) as usize + 1;
            Ok(Some((count, chunk)))
        }
        [_, _, _, _, ..] => Err(Error::corrupt("pcodec: stream holds numbers of another type")),
        _ => Err(short()),
    }
}

/// Decodes one chunk and returns the bytes behind it. Lengths of tables are checked before the library
/// allocates them.
fn decode_chunk<'a, T: Number>(
    file: &wrapped::FileDecompressor,
    bytes: &'a [u8],
    elements: &mut [T],
) -> Result<&'a [u8]> {
    let start = bytes.first_chunk::<4>().map_or(0, |start| u32::from_le_bytes(*start));
    let dictionary = (start >> MODE_BITS) & ((1 << DICT_LEN_BITS) - 1);
    if start & ((1 << MODE_BITS) - 1) == DICT_MODE && dictionary as usize > bytes.len() / size_of::<T>() {
        return Err(Error::corrupt(format!("pcodec: dictionary of {dictionary} values in {} bytes", bytes.len())));
    }
    let (mut chunk, rest) = file.chunk_decompressor::<T, _>(bytes).map_err(corrupt)?;
    if let DeltaEncoding::Lookback { config, .. } = &chunk.meta().delta_encoding
        && config.window_n_log > MAX_WINDOW_LOG
    {
        return Err(Error::unsupported(format!("pcodec: lookback window of 2^{} values", config.window_n_log)));
    }
    let mut page = chunk.page_decompressor(rest, elements.len()).map_err(corrupt)?;
    page.read(elements).map_err(corrupt)?;
    Ok(page.into_src())
}

fn corrupt(error: PcoError) -> Error {
    Error::corrupt(format!("pcodec: {error}"))
}

/// The little-endian elements in `bytes`, without a copy where the machine and the alignment allow it.
fn load<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    let collect =
        |bytes: &[u8]| Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect());
    if cfg!(target_endian = "little") {
        bytemuck::try_cast_slice(bytes).map_or_else(|_| collect(bytes), Cow::Borrowed)
    } else {
        let mut swapped = bytes.to_vec();
        swap_bytes(&mut swapped, size_of::<T>());
        collect(&swapped)
    }
}

/// Appends `elements` in little-endian order.
fn store<T: Pod>(elements: &[T], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(bytemuck::cast_slice(elements));
    if cfg!(target_endian = "big") {
        swap_bytes(out.get_mut(start..).unwrap_or_default(), size_of::<T>());
    }
}
