//! The codec `sz3`, by the installed HDF5 filter plugin: SZ3's own source is not linked because of the licence of its
//! Rust bindings (GPL-3.0-only).

use knarr_array::array::{DType, Endian};
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::{Error, Result};
use knarr_codec::codec::{Codec, Hdf5Form, Kind, Loss, OptionDoc, OptionKind, OptionValue, Options, Stage, Step};
use std::sync::Arc;

use crate::plugin::{Plugin, PluginStep};
use crate::support::{check_ordinary, filter};

/// Number of the filter.
pub(crate) const FILTER: FilterId = 32024;

const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "mode",
        kind: OptionKind::Word(&["abs", "rel"]),
        doc: "what is bounded: the absolute error, or the error as a fraction of the chunk's range of values",
    },
    OptionDoc { name: "bound", kind: OptionKind::Float, doc: "largest error, in the variable's unit or as a fraction" },
];

/// Dimensions that SZ3 predicts in.
const MOST_DIMENSIONS: usize = 4;

/// SZ3 streams as the HDF5 filter stores them.
pub(crate) struct Sz3 {
    plugin: Arc<Plugin>,
}

impl Sz3 {
    /// The codec by the first SZ3 plugin among `plugins`; `None` if there is none that encodes and decodes.
    pub(crate) fn by(plugins: &[Arc<Plugin>]) -> Option<Self> {
        let plugin = plugins.iter().find(|plugin| plugin.id == FILTER)?;
        (plugin.has_encoder && plugin.has_decoder).then(|| Self { plugin: Arc::clone(plugin) })
    }
}

impl Codec for Sz3 {
    fn name(&self) -> &'static str {
        "sz3"
    }

    fn wire_id(&self) -> u16 {
        110
    }

    fn kind(&self) -> Kind {
        Kind::ArrayToBytes
    }

    fn summary(&self) -> &'static str {
        "SZ3 (X. Liang et al., IEEE TBD 9, 2023) by the installed HDF5 filter plugin: prediction and quantisation"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["sz3:abs,bound=0.01", "sz3:rel,bound=0.001"]
    }

    fn has_fixed_output(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [OptionDoc] {
        OPTIONS
    }

    fn loss(&self, _options: &Options) -> Loss {
        Loss::Lossy
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_float()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let cd_values = cd_values(options, input)?;
        let plugin = PluginStep { plugin: Arc::clone(&self.plugin), cd_values };
        Ok(Box::new(Prepared { plugin, dtype: input.spec.dtype }))
    }

    fn hdf5(&self, options: &Options, input: &Stage) -> Hdf5Form {
        // The filter takes the bytes of big-endian elements for little-endian values.
        if input.spec.endian == Endian::Big {
            return Hdf5Form::None;
        }
        cd_values(options, input).map_or(Hdf5Form::None, |cd_values| filter(FILTER, cd_values))
    }

    fn hdf5_ids(&self) -> &'static [FilterId] {
        &[FILTER]
    }

    fn from_hdf5(&self, filter: &Hdf5Filter, input: &Stage) -> Option<Options> {
        let layout = layout(input).ok()?;
        let (written, rest) = filter.cd_values.split_at_checked(layout.len())?;
        let [mode, abs_high, abs_low, rel_high, rel_low, ..] = *rest else { return None };
        if written != layout || input.spec.endian == Endian::Big {
            return None;
        }
        let (mode, high, low) = match mode {
            0 => ("abs", abs_high, abs_low),
            1 => ("rel", rel_high, rel_low),
            _ => return None,
        };
        let bound = f64::from_bits(u64::from(high) << 32 | u64::from(low));
        let sound = bound.is_finite() && bound > 0.0;
        sound.then(|| Options::default().with_word("mode", mode).with("bound", OptionValue::Float(bound)))
    }
}

struct Prepared {
    plugin: PluginStep,
    dtype: DType,
}

impl Step for Prepared {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        self.plugin.max_encoded_len(input_len)
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        check_ordinary("sz3", self.dtype, input)?;
        self.plugin.encode(input, out)
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        self.plugin.decode(input, limit, out)
    }
}

/// What `set_local` of the filter writes: rank, type, extents (fastest first; that of one dimension in 64 bits), mode,
/// then the bounds of the four modes (absolute, relative, L2 norm, peak signal-to-noise ratio) as the two halves of a
/// binary64, the upper one first.
fn cd_values(options: &Options, input: &Stage) -> Result<Vec<u32>> {
    let bits = options.float("bound")?.to_bits();
    let halves = |bits: u64| {
        let [a, b, c, d, e, f, g, h] = bits.to_be_bytes();
        [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
    };
    let mut values = layout(input)?;
    let relative = options.word("mode")? == "rel";
    values.push(u32::from(relative));
    let none = halves(0);
    let bounds = if relative { [none, halves(bits)] } else { [halves(bits), none] };
    values.extend(bounds.into_iter().chain([none, none]).flatten());
    Ok(values)
}

/// The part of cd_values that comes from type and shape.
fn layout(input: &Stage) -> Result<Vec<u32>> {
    let spec = &input.spec;
    let kind = match spec.dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        other => return Err(Error::unsupported(format!("sz3 does not take elements of type {other}"))),
    };
    let refuse = || Error::unsupported(format!("sz3 cannot serve chunks of shape {:?}", spec.shape));
    let mut extents: Vec<usize> = spec.shape.iter().copied().filter(|extent| *extent != 1).collect();
    if extents.is_empty() || extents.contains(&0) {
        return Err(refuse().hint("it needs at least two elements"));
    }
    // The slowest dimensions are merged until SZ3 can take them.
    while extents.len() > MOST_DIMENSIONS {
        let [first, second, ..] = extents.as_slice() else { break };
        let merged = first.checked_mul(*second).ok_or_else(refuse)?;
        extents.splice(..2, [merged]);
    }
    let mut values = vec![u32::try_from(extents.len()).map_err(|_| refuse())?, kind];
    if extents.len() == 1 {
        values.push(0);
    }
    for extent in extents.iter().rev() {
        values.push(u32::try_from(*extent).map_err(|_| refuse())?);
    }
    Ok(values)
}
