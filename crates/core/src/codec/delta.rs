//! `delta`: differences of neighbouring elements. `numcodecs.delta` in Zarr for integers.

use pulp::Arch;
use std::marker::PhantomData;

use super::order::{Order, Word, with_word};
use super::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, ZarrCodec, ZarrKind};
use super::{check_limit, sized, zarr_entry};
use crate::array::DType;
use crate::error::Result;

/// Each element minus the one before it in memory order, modulo 2^n; the first is kept.
pub(super) struct Delta;

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

    fn options(&self) -> &'static [OptionDoc] {
        &[OptionDoc {
            name: "floats",
            kind: OptionKind::Word(&["ordered", "raw"]),
            doc: "how floats become integers: in the order of their values, or their bits as they are",
        }]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let order = match options.word("floats")? {
            "raw" => Order::Integer,
            _ => Order::of(input.spec.dtype),
        };
        with_word!("delta", input.spec.dtype, W => Box::new(Prepared::<W> { order, word: PhantomData }))
    }

    fn zarr(&self, _options: &Options, input: &Stage) -> Option<ZarrCodec> {
        let letter = match (input.spec.dtype.is_integer(), input.spec.dtype.is_signed()) {
            // numcodecs takes differences of floats as floats, which is not exact.
            (false, _) => return None,
            (true, true) => 'i',
            (true, false) => 'u',
        };
        let dtype = format!("<{letter}{}", input.spec.dtype.size());
        Some(zarr_entry(ZarrKind::ArrayToArray, "numcodecs.delta", serde_json::json!({"dtype": dtype})))
    }
}

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
