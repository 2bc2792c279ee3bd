//! The codecs `zfp` and `zfpy`: compressed floating-point and integer arrays of one to four dimensions (LLNL zfp 1.0).

mod header;
mod library;
mod scalar;

use knarr_array::array::{DType, Endian};
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step, check_limit};

use crate::support::{check_ordinary, filter};
use header::Mode;
use library::Field;
use scalar::Scalar;

const FILTER: FilterId = 32013;
/// First of the filter's cd_values: versions of zfp (1.0.1.0), of its codec (5) and of H5Z-ZFP (1.1.1), as the
/// filter of that version writes them.
const VERSIONS: u32 = 0x1010_5111;

const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "mode",
        kind: OptionKind::Word(&["reversible", "accuracy", "precision"]),
        doc: "reversible is lossless; accuracy bounds the absolute error; precision keeps so many bit planes",
    },
    OptionDoc {
        name: "value",
        kind: OptionKind::FloatOr(0.0),
        doc: "largest absolute error, in the variable's unit, or number of bit planes from 1 to 63",
    },
];

/// zfp streams.
pub(crate) struct Zfp {
    /// Behind zfp's own header, which says what they hold.
    headed: bool,
}

/// Streams without header, as the HDF5 filter stores them.
pub(crate) const ZFP: Zfp = Zfp { headed: false };
/// Streams behind zfp's header, as Python's `zfpy` and numcodecs write them.
pub(crate) const ZFPY: Zfp = Zfp { headed: true };

impl Codec for Zfp {
    fn name(&self) -> &'static str {
        if self.headed { "zfpy" } else { "zfp" }
    }

    fn wire_id(&self) -> u16 {
        if self.headed { 115 } else { 108 }
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        if self.headed {
            "zfp behind its own header, as Python's zfpy and numcodecs write it: read from Zarr, whatever its mode"
        } else {
            "zfp (P. Lindstrom, IEEE TVCG 20, 2014) by LLNL's library: blocks of 4 elements per axis, transformed"
        }
    }

    fn examples(&self) -> &'static [&'static str] {
        if self.headed {
            &["zfpy", "zfpy:accuracy,value=0.01", "zfpy:precision,value=20"]
        } else {
            &["zfp", "zfp:accuracy,value=0.01", "zfp:precision,value=20"]
        }
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn loss(&self, options: &Options) -> Loss {
        if options.word("mode").is_ok_and(|mode| mode == "reversible") { Loss::Lossless } else { Loss::Lossy }
    }

    fn supports(&self, dtype: DType) -> bool {
        Scalar::of(dtype).is_some()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let (mode, field) = settings(options, input)?;
        Ok(Box::new(Prepared { headed: self.headed, mode, field, dtype: input.spec.dtype }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        // The filter takes the bytes of big-endian elements for little-endian values.
        if self.headed || input.spec.endian == Endian::Big {
            return Hdf5Form::None;
        }
        let Ok((mode, field)) = settings(options, input) else { return Hdf5Form::None };
        let words = header::words(field.scalar, &field.extents, mode);
        filter(FILTER, [VERSIONS].into_iter().chain(words).collect())
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        if self.headed { &[] } else { &[FILTER] }
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, input: &Stage) -> Option<Options> {
        let words = filter.cd_values.get(1..)?;
        let (scalar, extents, mode) = header::parse(words)?;
        let field = field(input).ok()?;
        if input.spec.endian == Endian::Big || scalar != field.scalar || extents != field.extents {
            return None;
        }
        let options = Options::default();
        Some(match mode {
            Mode::Reversible => options.with_word("mode", "reversible"),
            Mode::Precision(planes) => options
                .with_word("mode", "precision")
                .with("value", knarr_codec::codec::OptionValue::Float(f64::from(planes))),
            Mode::Accuracy(exponent) => options
                .with_word("mode", "accuracy")
                .with("value", knarr_codec::codec::OptionValue::Float(f64::from(exponent).exp2())),
        })
    }
}

fn settings(options: &Options, input: &Stage) -> Result<(Mode, Field)> {
    let field = field(input)?;
    let value = options.float("value")?;
    let mode = match options.word("mode")? {
        "reversible" => Mode::Reversible,
        "accuracy" => Mode::accuracy(value)?,
        _ => Mode::precision(value)?,
    };
    if mode != Mode::Reversible && !input.spec.dtype.is_float() {
        return Err(Error::unsupported(format!("zfp keeps no bound on elements of type {}", input.spec.dtype))
            .hint("use 'zfp:reversible' for integers"));
    }
    Ok((mode, field))
}

fn field(input: &Stage) -> Result<Field> {
    let spec = &input.spec;
    let scalar = Scalar::of(spec.dtype)
        .ok_or_else(|| Error::unsupported(format!("zfp does not take elements of type {}", spec.dtype)))?;
    let extents = header::extents(&spec.shape).ok_or_else(|| {
        Error::unsupported(format!("zfp cannot serve chunks of shape {:?}", spec.shape))
            .hint("it needs at least two elements and at most 2^48")
    })?;
    Ok(Field { scalar, extents })
}

struct Prepared {
    headed: bool,
    mode: Mode,
    field: Field,
    dtype: DType,
}

impl Step for Prepared {
    fn max_encoded_len(&self, _input_len: usize) -> usize {
        library::max_len(&self.field, self.mode).unwrap_or(usize::MAX / 2)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.field.check_len(input.len())?;
        if self.mode != Mode::Reversible {
            check_ordinary("zfp", self.dtype, input)?;
        }
        library::compress(&self.field, self.mode, self.headed, input, out)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(self.field.byte_len(), limit)?;
        if self.headed {
            library::decompress_headed(&self.field, input, out)
        } else {
            library::decompress(&self.field, self.mode, input, out)
        }
    }
}
