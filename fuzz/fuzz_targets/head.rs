//! The first bytes of an input choose what the rest is given to.

use knarr_array::array::{ArraySpec, Endian};
use knarr_codec::chain::{Chain, ChainSpec, StepSpec};
use knarr_codec::codec::{Codec, CodecList, OptionKind, OptionValue, Options};
use knarr_testing::data::DTYPES;

/// A chain of one codec of the list and the bytes for it; `None` if the choice cannot be served.
pub fn choose<'a>(codecs: &CodecList, data: &'a [u8]) -> Option<(Chain, &'a [u8])> {
    let ([codec, dtype, fill, rank, a, b, c, option], rest) = data.split_first_chunk::<8>()?;
    let codec = codecs.iter().nth(usize::from(*codec) % codecs.iter().count())?;
    let dtype = DTYPES[usize::from(*dtype) % DTYPES.len()];
    let extents = [*a, *b, *c].map(usize::from);
    let mut array = ArraySpec::new(dtype, &extents[..usize::from(*rank) % 4]);
    if fill & 1 == 1 {
        array.fills.push(u64::from(*fill));
    }
    if fill & 2 == 2 {
        array.endian = Endian::Big;
    }
    let mut step = StepSpec::new(codec.name());
    step.options = options(codec.as_ref(), *option);
    Some((Chain::prepare(codecs, &ChainSpec(vec![step]), &array).ok()?, rest))
}

/// Options within their ranges.
fn options(codec: &dyn Codec, choice: u8) -> Options {
    codec.options().iter().fold(Options::default(), |options, doc| {
        let value = match doc.kind {
            OptionKind::Numbers => return options,
            OptionKind::Int { min, max, .. } => OptionValue::Int((min + i64::from(choice)).min(max)),
            OptionKind::Float | OptionKind::FloatOr(_) | OptionKind::Optional => {
                OptionValue::Float(0.1f64.powi(i32::from(choice % 20)))
            }
            OptionKind::Word(words) => OptionValue::Word(words[usize::from(choice) % words.len()].to_owned()),
        };
        options.with(doc.name, value)
    })
}
