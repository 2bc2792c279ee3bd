//! What is exchanged: chains, each with arrays of several types and shapes.

use knarr_core::array::{ArraySpec, DType};
use knarr_core::chain::{Chain, ChainSpec};
use knarr_core::codec::CodecList;
use knarr_core::testing::data::{Pattern, sample};

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

/// Which arrays a chain is exchanged with.
enum Types {
    All,
}

/// A line of the table: chain, the peer's filter, types.
struct Line(&'static str, Option<&'static str>, Types);

const TABLE: &[Line] = &[
    Line("zstd:3", Some("hdf5plugin.Zstd(clevel=3)"), Types::All),
    Line("deflate:5", None, Types::All),
    Line("gzip:5", None, Types::All),
    Line("lz4", Some("hdf5plugin.LZ4(nbytes=0)"), Types::All),
    Line("blosc:lz4,shuffle=byte", Some("hdf5plugin.Blosc(cname='lz4', clevel=5, shuffle=1)"), Types::All),
    Line("blosc:lz4hc,level=9,shuffle=bit", Some("hdf5plugin.Blosc(cname='lz4hc', clevel=9, shuffle=2)"), Types::All),
    Line("blosc:zlib,shuffle=no", Some("hdf5plugin.Blosc(cname='zlib', clevel=5, shuffle=0)"), Types::All),
    Line("blosc:zstd,level=1,shuffle=bit", Some("hdf5plugin.Blosc(cname='zstd', clevel=1, shuffle=2)"), Types::All),
    Line("blosc2:lz4", Some("hdf5plugin.Blosc2(cname='lz4', clevel=5, filters=1)"), Types::All),
    Line("blosc2:zstd,level=1,filter=bytedelta", None, Types::All),
    Line("blosc2:lz4hc,filter=bitshuffle", Some("hdf5plugin.Blosc2(cname='lz4hc', clevel=5, filters=2)"), Types::All),
    Line("blosc2:zlib,filter=no", Some("hdf5plugin.Blosc2(cname='zlib', clevel=5, filters=0)"), Types::All),
    Line("blosc2:zstd,filter=delta", None, Types::All),
    Line("bzip2:5", Some("hdf5plugin.BZip2(blocksize=5)"), Types::All),
    Line("xz:2", None, Types::All),
    Line("lzf", Some("'lzf'"), Types::All),
    Line("lz4:9,block=1024", Some("hdf5plugin.LZ4(nbytes=1024)"), Types::All),
];

const TYPES: &[DType] = &[DType::F32, DType::F64, DType::U8, DType::I16, DType::U32, DType::I64];
const SHAPES: &[&[usize]] = &[&[1], &[1000], &[33, 129], &[5, 37, 41], &[13, 1, 31], &[2, 3, 4, 5, 6]];
const PATTERNS: &[Pattern] = &[Pattern::Constant, Pattern::Smooth, Pattern::Masked, Pattern::Noise];

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (line, Line(chain, peer, types)) in TABLE.iter().enumerate() {
        let dtypes: &[DType] = match types {
            Types::All => TYPES,
        };
        for (turn, dtype) in dtypes.iter().enumerate() {
            for (number, shape) in SHAPES.iter().enumerate() {
                // Each pattern meets each type and each shape, though not every pair of them.
                let Some(pattern) = PATTERNS.get((turn + number) % PATTERNS.len()) else { continue };
                let made = sample(*dtype, shape, *pattern, 5);
                cases.push(Case {
                    id: format!("{line}-{dtype}-{number}-{pattern:?}"),
                    chain,
                    spec: made.spec,
                    bytes: made.bytes,
                    in_hdf5: true,
                    in_zarr: true,
                    peer: *peer,
                    same_cd_values: true,
                });
            }
        }
    }
    cases
}
