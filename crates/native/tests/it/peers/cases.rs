//! What is exchanged: chains, each with arrays of several types and shapes.

use knarr_array::array::{ArraySpec, DType};
use knarr_codec::chain::{Chain, ChainSpec};
use knarr_codec::codec::CodecList;
use knarr_testing::data::{Pattern, sample};

/// One chunk that goes both ways.
pub(crate) struct Case {
    /// Name of its files.
    pub(crate) id: String,
    /// Chain in text form.
    pub(crate) chain: &'static str,
    /// Type and shape.
    pub(crate) spec: ArraySpec,
    /// Elements.
    pub(crate) bytes: Vec<u8>,
    /// Whether it is exchanged in HDF5 files, if it has that form.
    pub(crate) in_hdf5: bool,
    /// Whether it is exchanged in Zarr, if it has that form.
    pub(crate) in_zarr: bool,
    /// Python expression of the filter that the peer uses; without it the cd_values of the chain.
    pub(crate) peer: Option<&'static str>,
    /// Whether the peer must arrive at the same cd_values.
    pub(crate) same_cd_values: bool,
}

impl Case {
    /// The chain for this chunk.
    pub(crate) fn prepare(&self, codecs: &CodecList) -> Chain {
        let spec: ChainSpec = self.chain.parse().unwrap();
        Chain::prepare(codecs, &spec, &self.spec).unwrap()
    }

    /// The element type as NumPy calls it.
    pub(crate) fn numpy(&self) -> &'static str {
        match self.spec.dtype {
            DType::I8 => "<i1",
            DType::I16 => "<i2",
            DType::I32 => "<i4",
            DType::I64 => "<i8",
            DType::U8 => "<u1",
            DType::U16 => "<u2",
            DType::U32 => "<u4",
            DType::U64 => "<u8",
            DType::F32 => "<f4",
            DType::F64 => "<f8",
            other => panic!("{other} is not exchanged"),
        }
    }
}

/// Which types a chain is exchanged with, and how close the peer's filter comes to it.
enum Like {
    /// All types; the peer arrives at the same cd_values.
    Same,
    /// All types; the peer writes something that this codec reads, but with other cd_values.
    Readable,
    /// Types and shapes that zfp and SZ3 take; the peer arrives at the same cd_values.
    Numeric,
}

/// A line of the table: chain, the peer's filter.
struct Line(&'static str, Option<&'static str>, Like);

const TABLE: &[Line] = &[
    Line("zstd:3", Some("hdf5plugin.Zstd(clevel=3)"), Like::Same),
    Line("deflate:5", None, Like::Same),
    Line("gzip:5", None, Like::Same),
    Line("lz4", Some("hdf5plugin.LZ4(nbytes=0)"), Like::Same),
    Line("bitshuffle-lz4", Some("hdf5plugin.Bitshuffle(cname='lz4')"), Like::Same),
    Line("bitshuffle-zstd:5", Some("hdf5plugin.Bitshuffle(cname='zstd', clevel=5)"), Like::Same),
    Line("blosc:lz4,shuffle=byte", Some("hdf5plugin.Blosc(cname='lz4', clevel=5, shuffle=1)"), Like::Same),
    Line("blosc:lz4hc,level=9,shuffle=bit", Some("hdf5plugin.Blosc(cname='lz4hc', clevel=9, shuffle=2)"), Like::Same),
    Line("blosc:zlib,shuffle=no", Some("hdf5plugin.Blosc(cname='zlib', clevel=5, shuffle=0)"), Like::Same),
    Line("blosc:zstd,level=1,shuffle=bit", Some("hdf5plugin.Blosc(cname='zstd', clevel=1, shuffle=2)"), Like::Same),
    Line("blosc2:lz4", Some("hdf5plugin.Blosc2(cname='lz4', clevel=5, filters=1)"), Like::Same),
    Line("blosc2:zstd,level=1,filter=bytedelta", None, Like::Same),
    Line("blosc2:lz4hc,filter=bitshuffle", Some("hdf5plugin.Blosc2(cname='lz4hc', clevel=5, filters=2)"), Like::Same),
    Line("blosc2:zlib,filter=no", Some("hdf5plugin.Blosc2(cname='zlib', clevel=5, filters=0)"), Like::Same),
    Line("blosc2:zstd,filter=delta", None, Like::Same),
    Line("blosc:lz4", Some("hdf5plugin.Blosc(cname='blosclz', clevel=9, shuffle=1)"), Like::Readable),
    Line("blosc:lz4", Some("hdf5plugin.Blosc(cname='snappy', clevel=5, shuffle=2)"), Like::Readable),
    Line("blosc2:lz4", Some("hdf5plugin.Blosc2(cname='blosclz', clevel=9, filters=2)"), Like::Readable),
    Line("blosc2:lz4", Some("hdf5plugin.Blosc2(cname='zstd', clevel=5, filters=3)"), Like::Readable),
    Line("zfp", Some("hdf5plugin.Zfp(reversible=True)"), Like::Numeric),
    Line("zfp:accuracy,value=0.01", Some("hdf5plugin.Zfp(accuracy=0.01)"), Like::Numeric),
    Line("zfp:precision,value=14", Some("hdf5plugin.Zfp(precision=14)"), Like::Numeric),
    Line("sz3:abs,bound=0.01", Some("hdf5plugin.SZ3(absolute=0.01)"), Like::Numeric),
    Line("bzip2:5", Some("hdf5plugin.BZip2(blocksize=5)"), Like::Same),
    Line("xz:2", None, Like::Same),
    Line("lzf", Some("'lzf'"), Like::Same),
    Line("lz4:9,block=1024", Some("hdf5plugin.LZ4(nbytes=1024)"), Like::Same),
];

const TYPES: &[DType] = &[DType::F32, DType::F64, DType::U8, DType::I16, DType::U32, DType::I64];
const SHAPES: &[&[usize]] = &[&[1], &[1000], &[33, 129], &[5, 37, 41], &[13, 1, 31], &[2, 3, 4, 5, 6], &[33, 90, 110]];
/// Index of the shape that takes several blocks; met by two types only.
const LARGE: usize = 6;
const PATTERNS: &[Pattern] = &[Pattern::Constant, Pattern::Smooth, Pattern::Masked, Pattern::Noise];

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (line, Line(chain, peer, like)) in TABLE.iter().enumerate() {
        for (turn, dtype) in TYPES.iter().enumerate() {
            for (number, shape) in SHAPES.iter().enumerate() {
                // Each pattern meets each type and each shape, though not every pair of them.
                if number == LARGE && turn > 1 {
                    continue;
                }
                // Both filters take no more than four dimensions (SZ3's ends the process), and integers have no bound.
                let type_fits = dtype.is_float() || (*chain == "zfp" && *dtype == DType::I64);
                let takes = shape.len() <= 4 && shape != &[1] && type_fits;
                if matches!(like, Like::Numeric) && !takes {
                    continue;
                }
                let Some(pattern) = PATTERNS.get((turn + number) % PATTERNS.len()) else { continue };
                if pattern == &Pattern::Noise && (chain.starts_with("zfp:") || chain.starts_with("sz3")) {
                    continue;
                }
                let made = sample(*dtype, shape, *pattern, 5);
                cases.push(Case {
                    id: format!("{line}-{dtype}-{number}-{pattern:?}"),
                    chain,
                    spec: made.spec,
                    bytes: made.bytes,
                    in_hdf5: true,
                    in_zarr: true,
                    peer: *peer,
                    same_cd_values: !matches!(like, Like::Readable),
                });
            }
        }
    }
    cases
}
