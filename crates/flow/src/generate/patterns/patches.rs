//! Adaptive mesh refinement: blocks of equal values that are small near a front and large elsewhere.

use super::{SCALE, count};
use crate::generate::smooth::Smooth;
use crate::generate::{Asked, Field, Pattern, Stream};
use knarr_array::error::Result;
use knarr_codec::codec::{OptionDoc, OptionKind};

/// Axes that are refined.
const AXES: usize = 3;

pub(super) struct Patches;

impl Pattern for Patches {
    fn name(&self) -> &'static str {
        "patches"
    }

    fn summary(&self) -> &'static str {
        "blocks of equal values refined towards a front, as of adaptive meshes (AMR) on a regular grid"
    }

    fn options(&self) -> &'static [OptionDoc] {
        const OPTIONS: &[OptionDoc] = &[
            OptionDoc {
                name: "levels",
                kind: OptionKind::Int { min: 0, max: 10, default: Some(4) },
                doc: "refinements; the coarsest blocks are 2 to this power wide",
            },
            SCALE,
        ];
        OPTIONS
    }

    fn prepare(&self, asked: &Asked<'_>) -> Result<Box<dyn Field>> {
        let inner = asked.shape.get(asked.shape.len().saturating_sub(AXES)..).unwrap_or_default();
        let stream = Stream::new(asked.seed, "patches");
        let shortest = inner.iter().copied().min().unwrap_or(1) as f64;
        let longest = inner.iter().copied().max().unwrap_or(1) as f64;
        Ok(Box::new(Mesh {
            smooth: Smooth::new(asked.seed, asked.shape, AXES, asked.options.float("scale")?),
            levels: count(asked.options, "levels")?,
            outer: asked.shape.len() - inner.len(),
            centre: inner.iter().zip(0..).map(|(n, i)| stream.between(i, 0.35, 0.65) * *n as f64).collect(),
            // A front that is seen whole, or crosses a long and thin array.
            radius: 0.3 * (shortest * longest).sqrt(),
        }))
    }
}

struct Mesh {
    smooth: Smooth,
    levels: u32,
    /// Axes that are not refined.
    outer: usize,
    centre: Vec<f64>,
    radius: f64,
}

impl Mesh {
    /// Distance of the middle of the block of `size` around `inner` from the front, in elements; negative inside.
    fn beyond_front(&self, inner: &[u64], size: u64) -> f64 {
        let middle = |i: u64| (i / size * size) as f64 + 0.5 * size as f64;
        let squares = inner.iter().zip(&self.centre).map(|(i, c)| (middle(*i) - c) * (middle(*i) - c));
        squares.sum::<f64>().sqrt() - self.radius
    }

    /// Width of the block that holds an element: blocks that the front may cross are divided.
    fn block(&self, inner: &[u64]) -> u64 {
        let crossed = |size: &u64| self.beyond_front(inner, *size).abs() > *size as f64;
        (0..=self.levels).rev().map(|level| 1u64 << level).find(crossed).unwrap_or(1)
    }
}

impl Field for Mesh {
    fn row(&self, start: &[u64], out: &mut [f64]) {
        let mut index = start.to_vec();
        let mut corner = start.to_vec();
        let mut done = 0;
        while done < out.len() {
            let position = start.last().copied().unwrap_or(0) + done as u64;
            if let Some(last) = index.last_mut() {
                *last = position;
            }
            let inner = index.get(self.outer..).unwrap_or_default();
            let size = self.block(inner);
            for (corner, i) in corner.iter_mut().zip(&index).skip(self.outer) {
                *corner = i / size * size;
            }
            let hill = self.smooth.value(&self.smooth.place(&corner), 1.0);
            let inside = if self.beyond_front(inner, size) < 0.0 { 0.5 } else { 0.0 };
            let value = inside + 0.25 + 0.25 * hill;
            let left = usize::try_from(size - position % size).unwrap_or(usize::MAX);
            let end = done.saturating_add(left).min(out.len());
            out[done..end].fill(value);
            done = end;
        }
    }
}
