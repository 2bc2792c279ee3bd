//! Which blocks make a band.

use knarr_array::model::{StorageLayout, Variable};
use knarr_array::region::chunk_count;
use knarr_array::region::volume;

/// Of values that lie in one run, so many bytes are read at once.
const RUN: u64 = 1 << 20;

/// A piece that is read is there as it is stored, as it is read, and between the steps of its chain.
const COPIES: u64 = 4;

/// Of these a thread keeps some for its next piece.
const KEPT: u64 = 2;

/// What it takes to keep a block besides its values.
const PLACE: u64 = 64;

/// How blocks make bands: `step` of them along `axis`, all along the axes behind it, one along those before.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) axis: usize,
    pub(super) step: u64,
    /// What is read at once: the shape of stored chunks.
    pub(super) piece: Vec<u64>,
    /// How many of them are read at the same time.
    pub(super) at_once: u64,
}

impl Plan {
    /// `None` where blocks are as well read one by one.
    pub(super) fn of(variable: &Variable, block: &[u64], cache: u64, memory: u64, jobs: u64) -> Option<Self> {
        let (shape, size) = (&variable.shape, variable.dtype.size() as u64);
        if !exceeds_cache(variable, block, cache) {
            return None;
        }
        let piece = piece_shape(variable)?;
        let bytes = |shape: &[u64]| volume(shape)?.checked_mul(size);
        let (piece_bytes, block_bytes) = (bytes(&piece)?, bytes(block)?);
        let at_once = (memory / 2 / COPIES.checked_mul(piece_bytes)?).clamp(1, jobs.max(1));
        let reading = piece_bytes.checked_mul(at_once * COPIES + (jobs.max(1) - at_once) * KEPT)?;
        let fitting = memory.saturating_sub(reading) / (block_bytes + PLACE);
        let blocks = |axis: usize| shape[axis].div_ceil(block[axis]);
        let (mut axis, mut inner) = (shape.len().checked_sub(1)?, 1u64);
        while axis > 0 && inner.saturating_mul(blocks(axis)) <= fitting {
            inner *= blocks(axis);
            axis -= 1;
        }
        let most = (fitting / inner).min(blocks(axis));
        if most * inner < 2 {
            return None;
        }
        // Ends of bands that are ends of stored chunks cut none of them in two.
        let whole = if piece[axis].is_multiple_of(block[axis]) { piece[axis] / block[axis] } else { 1 };
        let step = if most < whole {
            most
        } else {
            let largest = most / whole * whole;
            let bands = blocks(axis).div_ceil(largest);
            blocks(axis).div_ceil(bands).next_multiple_of(whole).min(largest)
        };
        Some(Self { axis, step, piece, at_once })
    }

    /// Which band a block is in: number of the band, of its first block, and how many blocks along the axis it has.
    pub(super) fn band(&self, shape: &[u64], block: &[u64], number: u64) -> (u64, u64, u64) {
        let inner = chunk_count(&shape[self.axis + 1..], &block[self.axis + 1..]);
        let along = shape[self.axis].div_ceil(block[self.axis]);
        let (outer, at) = (number / (along * inner), number % (along * inner) / inner / self.step);
        let first = (outer * along + at * self.step) * inner;
        (outer * along.div_ceil(self.step) + at, first, self.step.min(along - at * self.step))
    }
}

/// True if of the chunks that blocks need more than `cache` bytes lie between two uses of one.
pub(super) fn exceeds_cache(variable: &Variable, block: &[u64], cache: u64) -> bool {
    let late = || {
        let (shape, piece) = (&variable.shape, piece_shape(variable)?);
        if shape.contains(&0) || block.contains(&0) || piece.contains(&0) {
            return None;
        }
        let piece_bytes = volume(&piece)?.checked_mul(variable.dtype.size() as u64)?;
        let between = between_uses(shape, &piece, block)?;
        // One chunk is kept in any case. Threads are at several blocks at a time, which takes more than one of them.
        Some(between > 1 && between.saturating_mul(piece_bytes).saturating_mul(2) > cache)
    };
    late().unwrap_or(false)
}

/// What is read at once: stored chunks.
fn piece_shape(variable: &Variable) -> Option<Vec<u64>> {
    match &variable.layout {
        StorageLayout::Chunked(chunk) => {
            Some(chunk.iter().zip(&variable.shape).map(|(chunk, n)| *chunk.min(n)).collect())
        }
        StorageLayout::Contiguous => Some(run_shape(&variable.shape, variable.dtype.size() as u64)),
        _ => None,
    }
}

/// Trailing axes, and a part of one more, of about [`RUN`] bytes.
fn run_shape(shape: &[u64], size: u64) -> Vec<u64> {
    let mut room = (RUN / size.max(1)).max(1);
    let mut run = vec![1; shape.len()];
    for axis in (0..shape.len()).rev() {
        run[axis] = shape[axis].min(room);
        room /= run[axis].max(1);
        if run[axis] < shape[axis] {
            break;
        }
    }
    run
}

/// How many pieces are read between two uses of one, if blocks are read in order; `None` if none is used twice.
fn between_uses(shape: &[u64], piece: &[u64], block: &[u64]) -> Option<u64> {
    let is_cut = |axis: usize| block[axis] < shape[axis] && !block[axis].is_multiple_of(piece[axis].max(1));
    let axis = (0..shape.len()).find(|&axis| is_cut(axis))?;
    let all = |axis: usize| shape[axis].div_ceil(piece[axis].max(1));
    let of_block = |axis: usize| {
        let crossed = block[axis].div_ceil(piece[axis].max(1));
        let cut = is_cut(axis) && !(piece[axis].is_multiple_of(block[axis]));
        (crossed + u64::from(cut)).min(all(axis))
    };
    (0..shape.len()).try_fold(1u64, |product, n| product.checked_mul(if n <= axis { of_block(n) } else { all(n) }))
}
