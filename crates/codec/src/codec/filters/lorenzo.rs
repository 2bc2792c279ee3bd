//! `lorenzo`: differences along several axes at once.
//!
//! The Lorenzo predictor (L. Ibarria et al., Computer Graphics Forum 22, 2003) is the product of one
//! difference per axis. A row of residuals is a sum of rows of the input with small factors, which the
//! compiler vectorises, followed by differences within the row.

use pulp::Arch;
use std::marker::PhantomData;

use crate::codec::order::{Order, Word, with_word};
use crate::codec::{Codec, Kind, OptionDoc, OptionKind, Options, Stage, Step, check_limit, sized};
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};

/// N-dimensional Lorenzo residuals of order-preserving integers, modulo 2^n, zigzag-coded.
pub(in crate::codec) struct Lorenzo;

impl Codec for Lorenzo {
    fn name(&self) -> &'static str {
        "lorenzo"
    }

    fn wire_id(&self) -> u16 {
        5
    }

    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn summary(&self) -> &'static str {
        "Lorenzo prediction along the last axes, on order-preserving integers, zigzag-coded (Ibarria et al., 2003)"
    }

    fn examples(&self) -> &'static [&'static str] {
        &["lorenzo", "lorenzo:1", "lorenzo:2,order=2", "lorenzo:4,order=2 | lorenzo:4", "lorenzo | pcodec:0"]
    }

    fn options(&self) -> &'static [OptionDoc] {
        &[
            OptionDoc {
                name: "dims",
                kind: OptionKind::Int { min: 1, max: 4, default: Some(3) },
                doc: "axes to predict along, counted from the last one; axes of length 1 do not count",
            },
            OptionDoc {
                name: "order",
                kind: OptionKind::Int { min: 1, max: 2, default: Some(1) },
                doc: "1 predicts a constant slope of 0 along each axis, 2 a constant slope",
            },
        ]
    }

    fn supports(&self, dtype: DType) -> bool {
        dtype.is_number()
    }

    fn needs_values(&self) -> bool {
        true
    }

    fn prepare(&self, options: &Options, input: &Stage) -> Result<Box<dyn Step>> {
        let dims = usize::try_from(options.int("dims")?).map_err(|_| Error::internal("lorenzo: dims"))?;
        let second = options.int("order")? == 2;
        let order = Order::of(input.spec.dtype);
        with_word!("lorenzo", input.spec.dtype, W => {
            Box::new(Prepared::<W> { rows: Rows::new(&input.spec.shape, dims, second), order, word: PhantomData })
        })
    }
}

struct Prepared<W> {
    rows: Rows,
    order: Order,
    word: PhantomData<fn() -> W>,
}

impl<W: Word> Step for Prepared<W> {
    fn max_encoded_len(&self, input_len: usize) -> usize {
        input_len
    }

    fn encode(&self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let (elements, out) = (W::words(input), W::words_mut(sized(out, input.len())));
        Arch::new().dispatch(
            #[inline(always)]
            || self.rows.encode::<W>(self.order, elements, out),
        );
        Ok(())
    }

    fn decode(&self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
        check_limit(input.len(), limit)?;
        let (residuals, out) = (W::words(input), W::words_mut(sized(out, input.len())));
        Arch::new().dispatch(
            #[inline(always)]
            || self.rows.decode::<W>(self.order, residuals, out),
        );
        Ok(())
    }
}

/// An earlier row that takes part in the prediction of a row.
struct Neighbour {
    /// Steps back along each predicted axis but the last, slowest first.
    back: Vec<usize>,
    /// Rows back in memory.
    distance: usize,
    /// Its factor in the residual.
    factor: i8,
}

/// The rows of an array and what each is predicted from. Rows outside the array count as zero.
pub(in crate::codec) struct Rows {
    /// Elements per row, at least 1.
    len: usize,
    /// Extents of the predicted axes but the last, slowest first.
    axes: Vec<usize>,
    neighbours: Vec<Neighbour>,
    /// Second differences instead of first ones.
    second: bool,
}

impl Rows {
    /// Prediction along the last `dims` axes of `shape` that are longer than 1.
    pub(in crate::codec) fn new(shape: &[usize], dims: usize, second: bool) -> Self {
        let long: Vec<usize> = shape.iter().copied().filter(|&extent| extent > 1).collect();
        let used = long.get(long.len().saturating_sub(dims)..).unwrap_or_default();
        let (len, axes) = used.split_last().map_or((1, &[][..]), |(len, axes)| (*len, axes));
        let weights: &[i8] = if second { &[1, -2, 1] } else { &[1, -1] };
        let mut neighbours = vec![Neighbour { back: Vec::new(), distance: 0, factor: 1 }];
        let mut stride: usize = axes.iter().product();
        for &extent in axes {
            stride /= extent;
            let step = |before: &Neighbour| -> Vec<Neighbour> {
                let along = |(back, weight): (usize, &i8)| Neighbour {
                    back: [before.back.as_slice(), &[back]].concat(),
                    distance: before.distance + back * stride,
                    factor: before.factor * weight,
                };
                weights.iter().enumerate().map(along).collect()
            };
            neighbours = neighbours.iter().flat_map(step).collect();
        }
        // The row itself is the first: no steps back along any axis.
        neighbours.remove(0);
        Self { len, axes: axes.to_vec(), neighbours, second }
    }

    /// Adds the neighbours of row `index` in `rows` to `sum` with their factors, or subtracts them.
    #[inline(always)]
    fn add_neighbours<W: Word>(&self, order: Order, rows: &[W::Bytes], index: usize, sum: &mut [W], negate: bool) {
        for neighbour in &self.neighbours {
            if !self.has(neighbour, index) {
                continue;
            }
            let start = (index - neighbour.distance) * self.len;
            let row = rows.get(start..start + self.len).unwrap_or_default();
            let factor = if negate { -neighbour.factor } else { neighbour.factor };
            match factor {
                1 => sum.iter_mut().zip(row).for_each(|(sum, x)| *sum = sum.plus(order.map(W::from_le(*x)))),
                -1 => sum.iter_mut().zip(row).for_each(|(sum, x)| *sum = sum.minus(order.map(W::from_le(*x)))),
                _ => sum.iter_mut().zip(row).for_each(|(sum, x)| {
                    *sum = sum.plus(order.map(W::from_le(*x)).times(factor));
                }),
            }
        }
    }

    /// Whether `neighbour` of row `index` lies within the array.
    fn has(&self, neighbour: &Neighbour, index: usize) -> bool {
        let mut rest = index;
        self.axes.iter().zip(&neighbour.back).rev().all(|(&extent, &back)| {
            let position = rest % extent;
            rest /= extent;
            position >= back
        })
    }

    /// Writes the zigzag-coded residuals of `elements`.
    #[inline(always)]
    pub(in crate::codec) fn encode<W: Word>(&self, order: Order, elements: &[W::Bytes], out: &mut [W::Bytes]) {
        // Two zeros before the row stand for the elements before its start.
        let mut line = vec![W::default(); self.len + 2];
        for (index, (row, out)) in elements.chunks_exact(self.len).zip(out.chunks_exact_mut(self.len)).enumerate() {
            let Some(sum) = line.get_mut(2..) else { return };
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum = order.map(W::from_le(*x)));
            self.add_neighbours(order, elements, index, sum, false);
            let (before, here) = (line.iter().skip(1), line.iter().skip(2));
            if self.second {
                for (((out, here), before), first) in out.iter_mut().zip(here).zip(before).zip(&line) {
                    *out = here.minus(*before).minus(before.minus(*first)).zigzag().to_le();
                }
            } else {
                for ((out, here), before) in out.iter_mut().zip(here).zip(before) {
                    *out = here.minus(*before).zigzag().to_le();
                }
            }
        }
    }

    /// Inverse of [`Rows::encode`].
    #[inline(always)]
    pub(in crate::codec) fn decode<W: Word>(&self, order: Order, residuals: &[W::Bytes], out: &mut [W::Bytes]) {
        // A damaged header may claim rows of any length: no more memory than there is data for.
        let mut line = vec![W::default(); self.len.min(residuals.len())];
        for (index, row) in residuals.chunks_exact(self.len).enumerate() {
            line.iter_mut().zip(row).for_each(|(sum, x)| *sum = W::from_le(*x).unzigzag());
            accumulate(&mut line);
            if self.second {
                accumulate(&mut line);
            }
            let (decoded, rest) = out.split_at_mut(index * self.len);
            self.add_neighbours(order, decoded, index, &mut line, true);
            rest.iter_mut().zip(&line).for_each(|(out, sum)| *out = order.map(*sum).to_le());
        }
    }
}

/// Running sums.
#[inline(always)]
fn accumulate<W: Word>(line: &mut [W]) {
    let mut sum = W::default();
    for value in line {
        sum = sum.plus(*value);
        *value = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_longer_than_the_data_take_no_memory() {
        let step = Prepared::<u32> { rows: Rows::new(&[1 << 60], 1, false), order: Order::Integer, word: PhantomData };
        let mut out = Vec::new();
        step.decode(&[1, 2, 3, 4], usize::MAX, &mut out).unwrap();
        assert_eq!(out.len(), 4);
    }
}
