//! `delta`: differences of neighbouring elements. `numcodecs.delta` in Zarr for integers.

use pulp::Arch;
use std::marker::PhantomData;

use crate::codec::order::{Order, Word, with_word};
use crate::codec::{Codec, Kind, Loss, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec, ZarrKind};
use crate::codec::{check_limit, sized, zarr_entry};
use knarr_array::array::DType;
use knarr_array::error::Result;

/// Each element minus the one before it in memory order, modulo 2^n; the first is kept.
pub(in crate::codec) struct Delta;

impl Codec for Delta {
    fn name(&self) -> &'static str {
        "delta"
    }

    fn wire_id(&self) -> u16 {
        4
    }

    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn summary(&self) -> &'static str {
        "difference to the previous element, modulo 2^n; numcodecs.delta for integers"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["delta", "delta:raw", "delta:rounded", "delta | delta | shuffle"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "floats",
            kind: OptionKind::Word(&["ordered", "raw", "rounded"]),
            doc: "how floats become integers: in the order of their values, or their bits as they are; rounded takes \
                  differences of the floats themselves, as numcodecs does, which loses digits",
        }]
    }

    fn loss(&self, options: &Options) -> Loss {
        if options.word("floats").is_ok_and(|word| word == ROUNDED) { Loss::Lossy } else { Loss::Lossless }
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let order = match (options.word("floats")?, input.spec.dtype) {
            (ROUNDED, DType::F32) => return Ok(Box::new(Rounded::<f32>(PhantomData))),
            (ROUNDED, DType::F64) => return Ok(Box::new(Rounded::<f64>(PhantomData))),
            ("raw", _) => Order::Integer,
            _ => Order::of(input.spec.dtype),
        };
        with_word!("delta", input.spec.dtype, W => Box::new(Prepared::<W> { order, word: PhantomData }))
    }

    fn zarr(&self, options: &Options, input: &Stage) -> Option<ZarrCodec> {
        let letter = match (input.spec.dtype.is_integer(), input.spec.dtype.is_signed()) {
            (false, _) if self.loss(options) == Loss::Lossy => 'f',
            // numcodecs takes differences of floats as floats, which is not exact.
            (false, _) => return None,
            (true, true) => 'i',
            (true, false) => 'u',
        };
        let dtype = format!("<{letter}{}", input.spec.dtype.size());
        Some(zarr_entry(ZarrKind::ArrayToArray, "numcodecs.delta", serde_json::json!({"dtype": dtype})))
    }
}

/// Value of the option `floats`.
const ROUNDED: &str = "rounded";

/// Differences of floats as floats: numbers lose the digits that the difference cannot hold.
struct Rounded<F>(PhantomData<fn() -> F>);

macro_rules! rounded {
    ($float:ty, $size:literal) => {
        impl Step for Rounded<$float> {
            fn max_encoded_len(&self, input_len: usize) -> usize {
                input_len
            }

            fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
                // The first element is kept as it is: subtracting zero would lose the sign of -0.
                let mut before: Option<$float> = None;
                let places = sized(out, input.len()).as_chunks_mut::<$size>().0;
                for (place, element) in places.iter_mut().zip(input.as_chunks::<$size>().0) {
                    let element = <$float>::from_le_bytes(*element);
                    *place = before.map_or(element, |before| element - before).to_le_bytes();
                    before = Some(element);
                }
                Ok(())
            }

            fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
                check_limit(input.len(), limit)?;
                let mut sum: Option<$float> = None;
                let places = sized(out, input.len()).as_chunks_mut::<$size>().0;
                for (place, difference) in places.iter_mut().zip(input.as_chunks::<$size>().0) {
                    let difference = <$float>::from_le_bytes(*difference);
                    let element = sum.map_or(difference, |sum| sum + difference);
                    *place = element.to_le_bytes();
                    sum = Some(element);
                }
                Ok(())
            }
        }
    };
}

rounded!(f32, 4);
rounded!(f64, 8);

struct Prepared<W> {
    order: Order,
    word: PhantomData<fn() -> W>,
}

impl<W: Word> Step for Prepared<W> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let out = W::words_mut(sized(out, input.len()));
        let elements = W::words(input);
        let order = self.order;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                if let ([first, ..], [first_out, rest @ ..]) = (elements, out) {
                    *first_out = order.map(W::from_le(*first)).to_le();
                    for ((difference, before), element) in rest.iter_mut().zip(elements).zip(elements.iter().skip(1)) {
                        let (before, element) = (order.map(W::from_le(*before)), order.map(W::from_le(*element)));
                        *difference = element.minus(before).to_le();
                    }
                }
            },
        );
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        let mut sum = W::default();
        for (element, difference) in W::words_mut(sized(out, input.len())).iter_mut().zip(W::words(input)) {
            sum = sum.plus(W::from_le(*difference));
            *element = self.order.map(sum).to_le();
        }
        Ok(())
    }
}
