//! Merging schemes: in which order like pieces are merged, and where frames begin and end. Pure.
//!
//! After section 3.2 of the paper. A scheme knows lengths and shapes, never bytes; what it returns is carried out by
//! the packer.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::classes::frame_sizes::{MAX_DECODED_FRAME, TARGET_FRAME};
use crate::classes::similarity::Unit;
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::{Error, Result};

/// How the pieces of a group are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Whole files one after the other.
    Agnostic,
    /// Whole files, in turn a block of each.
    AgnosticBlock,
    /// Like variables one after the other.
    Aware,
    /// Like variables, in turn a block of each.
    AwareBlock,
    /// Every variable of every rank by itself: what a restore of one reads is what it needs.
    Separate,
    /// What suits each class of variables, found on samples.
    #[default]
    Auto,
}

/// Bytes of the blocks of schemes with blocks, unless something else is asked for.
pub const BLOCK_SIZE: u64 = 4096;

/// Bytes of a frame, about: what is read at once to get at a part of it.
const FRAME: u64 = 4 << 20;
/// Bytes of a frame of small variables, about, unless the order says fewer.
pub(crate) const MIXED_FRAME: u64 = 1 << 20;
/// Variables of this many bytes in a rank share frames with as many others as the order says, and no more.
pub(crate) const LARGE: u64 = 256 << 10;
/// Bytes of frames in which no variable shares one with another.
pub(crate) const SEPARATE: u64 = 1;
/// Ranks that may share a frame.
pub(crate) const MOST_TOGETHER: usize = 64;

/// Order of the like pieces of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MergeOrder {
    /// Variables of different ranks that share a frame where they are large: 1 keeps them apart.
    pub together: usize,
    /// Bytes that are taken of each in turn; 0 takes all of one, then all of the next.
    pub block: u64,
    /// Bytes that frames of large variables may have where repeats lie far apart, or that frames of small ones have,
    /// about; 0 for as many as are usual.
    #[serde(default)]
    pub span: u64,
}

/// What a frame holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merged {
    /// As in [`MergeOrder::block`].
    pub(crate) block: u64,
    /// Lanes that are merged; pieces, as rank in the group and number in its file, follow each other in a lane.
    pub(crate) lanes: Vec<Vec<(usize, usize)>>,
}

impl Scheme {
    /// True for the schemes that merge variables, not files.
    pub fn is_aware(self) -> bool {
        !matches!(self, Self::Agnostic | Self::AgnosticBlock)
    }

    /// The order of a class of variables, or of what is none; `None` where trials find the order of each class.
    pub(crate) fn order(self, block: u64, is_variables: bool) -> Option<MergeOrder> {
        match self {
            Self::Separate if is_variables => Some(MergeOrder { together: 1, block: 0, span: SEPARATE }),
            Self::Agnostic | Self::Aware => Some(MergeOrder { together: 1, block: 0, span: 0 }),
            Self::AgnosticBlock | Self::AwareBlock => Some(MergeOrder { together: MOST_TOGETHER, block, span: 0 }),
            Self::Separate | Self::Auto => None,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agnostic => "agnostic",
            Self::AgnosticBlock => "agnostic-block",
            Self::Aware => "aware",
            Self::AwareBlock => "aware-block",
            Self::Separate => "separate",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Agnostic, Self::AgnosticBlock, Self::Aware, Self::AwareBlock, Self::Separate, Self::Auto];
        all.into_iter().find(|scheme| scheme.to_string() == text).ok_or_else(|| {
            Error::usage(format!("there is no scheme '{text}'"))
                .hint("schemes are agnostic, agnostic-block, aware, aware-block, separate and auto")
        })
    }
}

impl fmt::Display for MergeOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.block {
            0 => f.write_str("one after the other")?,
            block => write!(f, "blocks of {block} B in turn")?,
        }
        if self.together > 1 {
            write!(f, ", {} ranks a frame", self.together)?;
        }
        match self.span {
            0 => Ok(()),
            SEPARATE => f.write_str(", each variable by itself"),
            span @ 1..MIXED_FRAME => write!(f, ", frames of {} KiB", span >> 10),
            span => write!(f, " of up to {} MiB", span >> 20),
        }
    }
}

/// Lays the units of a class into frames, in their order. `length` is that of a piece.
pub(crate) fn arrange(units: &[Unit], order: MergeOrder, length: impl Fn(usize, usize) -> u64) -> Vec<Merged> {
    let together = order.together.clamp(1, MOST_TOGETHER);
    // The last of them may go beyond it.
    let enough = if order.span == 0 { MIXED_FRAME } else { order.span.min(MAX_DECODED_FRAME - LARGE) };
    let mut frames = Vec::new();
    let mut small: Vec<&Unit> = Vec::new();
    let mut large: Vec<&Unit> = Vec::new();
    for unit in units {
        if unit.bytes >= LARGE {
            mixed(&mut small, order, &mut frames);
            large.push(unit);
            if large.len() == together {
                apart(&mut large, order, &length, &mut frames);
            }
        } else {
            apart(&mut large, order, &length, &mut frames);
            small.push(unit);
            if small.iter().map(|unit| unit.bytes).sum::<u64>() >= enough {
                mixed(&mut small, order, &mut frames);
            }
        }
    }
    mixed(&mut small, order, &mut frames);
    apart(&mut large, order, &length, &mut frames);
    frames
}

/// One frame of small units.
fn mixed(units: &mut Vec<&Unit>, order: MergeOrder, frames: &mut Vec<Merged>) {
    if !units.is_empty() {
        let lanes = units.drain(..).map(|unit| unit.pieces.iter().map(|&piece| (unit.rank, piece)).collect());
        frames.push(merged(order.block, lanes.collect()));
    }
}

/// Frames of large units: in each, the same part of all of them.
fn apart(units: &mut Vec<&Unit>, order: MergeOrder, length: impl Fn(usize, usize) -> u64, frames: &mut Vec<Merged>) {
    let whole: u64 = units.iter().map(|unit| unit.bytes).sum();
    let share =
        if whole <= TARGET_FRAME.max(order.span) { whole } else { FRAME.max(order.span) / (units.len() as u64).max(1) };
    let mut rest: Vec<(usize, &[usize])> = units.drain(..).map(|unit| (unit.rank, unit.pieces.as_slice())).collect();
    while !rest.is_empty() {
        let lanes = rest.iter_mut().map(|(rank, pieces)| {
            let mut bytes = 0;
            let fitting = pieces.iter().take_while(|&&piece| {
                bytes += length(*rank, piece);
                bytes <= share
            });
            let (taken, left) = pieces.split_at(fitting.count().clamp(1, pieces.len()));
            *pieces = left;
            taken.iter().map(|&piece| (*rank, piece)).collect()
        });
        frames.push(merged(order.block, lanes.collect()));
        rest.retain(|(_, pieces)| !pieces.is_empty());
    }
}

/// Lanes as a frame.
pub(crate) fn merged(block: u64, lanes: Vec<Vec<(usize, usize)>>) -> Merged {
    // Without blocks, or with one lane, lanes say nothing.
    if block == 0 || lanes.len() == 1 {
        Merged { block: 0, lanes: vec![lanes.concat()] }
    } else {
        Merged { block, lanes }
    }
}

/// The array that merged pieces form: what chains work on. `pieces` are lengths and shapes of the pieces of each lane.
pub(crate) fn merged_array(dtype: DType, endian: Endian, block: u64, lanes: &[Vec<(u64, Vec<usize>)>]) -> ArraySpec {
    let bytes: u64 = lanes.iter().flatten().map(|(length, _)| length).sum();
    let size = dtype.size().max(1) as u64;
    let flat = |dtype: DType, elements: u64| {
        let shape = vec![usize::try_from(elements).unwrap_or(usize::MAX)];
        ArraySpec { dtype, endian, shape, fills: Vec::new() }
    };
    // Whatever is no whole elements is bytes.
    if lanes.iter().flatten().any(|(length, _)| !length.is_multiple_of(size)) || !block.is_multiple_of(size) {
        return flat(DType::U8, bytes);
    }
    let shape =
        if block == 0 { stacked(lanes.first().map_or(&[], Vec::as_slice)) } else { stitched(lanes, block / size) };
    match shape.filter(|shape| shape.iter().product::<usize>() as u64 * size == bytes && shape.len() <= 32) {
        Some(shape) => ArraySpec { dtype, endian, shape, fills: Vec::new() },
        None => flat(dtype, bytes / size),
    }
}

/// Shape of pieces that follow each other: along their slowest axis, or along one more if each is a whole array of up
/// to two axes.
fn stacked(pieces: &[(u64, Vec<usize>)]) -> Option<Vec<usize>> {
    let (first, others) = pieces.split_first()?;
    let same = others.iter().all(|(_, shape)| *shape == first.1);
    if same && others.len() > 1 && first.1.len() < 3 {
        return Some([&[pieces.len()], first.1.as_slice()].concat());
    }
    let trailing = first.1.get(1..)?;
    let rows = pieces.iter().map(|(_, shape)| (shape.get(1..) == Some(trailing)).then(|| shape.first().copied())?);
    let rows: usize = rows.sum::<Option<usize>>()?;
    Some([&[rows], trailing].concat())
}

/// Shape of equal lanes that are merged in blocks which are whole positions of an axis: arrays joined along it.
fn stitched(lanes: &[Vec<(u64, Vec<usize>)>], block: u64) -> Option<Vec<usize>> {
    let mut shapes = lanes.iter().map(|lane| match lane.as_slice() {
        [(_, shape)] => Some(shape.clone()),
        pieces => stacked(pieces),
    });
    let shape = shapes.next()??;
    if !shapes.all(|other| other.as_ref() == Some(&shape)) {
        return None;
    }
    let mut inner = 1;
    for axis in (0..=shape.len()).rev() {
        if inner == block {
            let mut joined = shape;
            match joined.get_mut(axis) {
                Some(extent) => *extent *= lanes.len(),
                None => joined.push(lanes.len()),
            }
            return Some(joined);
        }
        inner *= axis.checked_sub(1).and_then(|axis| shape.get(axis)).copied().unwrap_or(1) as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(rank: usize, pieces: usize, each: u64) -> Unit {
        Unit { rank, pieces: (0..pieces).collect(), bytes: pieces as u64 * each }
    }

    fn all(frames: &[Merged]) -> Vec<(usize, usize)> {
        let mut pieces: Vec<_> = frames.iter().flat_map(|frame| frame.lanes.concat()).collect();
        pieces.sort_unstable();
        pieces
    }

    #[test]
    fn every_piece_is_in_one_frame() {
        let units =
            [unit(0, 50, 128 << 10), unit(1, 1, 80), unit(2, 3, 100), unit(3, 47, 128 << 10), unit(4, 2, 1 << 17)];
        let lengths = [128 << 10, 80, 100, 128 << 10, 1 << 17];
        for (together, block) in [(1, 0), (1, 8), (2, 0), (2, 4096), (64, 4096), (usize::MAX, 16)] {
            let frames = arrange(&units, MergeOrder { together, block, span: 0 }, |rank, _| lengths[rank]);
            let mut wanted: Vec<_> =
                units.iter().flat_map(|unit| unit.pieces.iter().map(|&piece| (unit.rank, piece))).collect();
            wanted.sort_unstable();
            assert_eq!(all(&frames), wanted);
            for frame in &frames {
                let bytes: u64 = frame.lanes.iter().flatten().map(|(rank, _)| lengths[*rank]).sum();
                assert!(bytes <= 8 << 20, "{bytes}");
            }
        }
    }

    #[test]
    fn frames_of_a_span_are_as_long_as_it_says() {
        let units: Vec<Unit> = (0..16).map(|rank| unit(rank, 20, 128 << 10)).collect();
        let longest = |span| {
            let order = MergeOrder { together: MOST_TOGETHER, block: 1024, span };
            let frames = arrange(&units, order, |_, _| 128 << 10);
            assert_eq!(all(&frames).len(), 320);
            assert!(frames.iter().all(|frame| frame.lanes.len() == 16), "each has a part of every rank");
            frames.iter().map(|frame| all(std::slice::from_ref(frame)).len() * (128 << 10)).max().unwrap()
        };
        assert_eq!([0, 16 << 20, 32 << 20, 64 << 20].map(longest), [4 << 20, 16 << 20, 32 << 20, 40 << 20]);
    }

    #[test]
    fn large_variables_share_frames_with_no_more_than_asked() {
        let units: Vec<Unit> = (0..8).map(|rank| unit(rank, 10, 128 << 10)).collect();
        for together in [1, 2, 3] {
            for frame in arrange(&units, MergeOrder { together, block: 64, span: 0 }, |_, _| 128 << 10) {
                let mut ranks: Vec<usize> = frame.lanes.iter().flatten().map(|(rank, _)| *rank).collect();
                ranks.dedup();
                assert!(ranks.len() <= together);
            }
        }
    }

    #[test]
    fn separate_variables_share_nothing_and_what_is_no_variable_is_merged_as_suits_it() {
        let units = [unit(0, 3, 800), unit(1, 3, 800), unit(2, 1, 80), unit(3, 40, 128 << 10)];
        let length = |rank, _| [800, 800, 80, 128 << 10][rank];
        let frames = arrange(&units, Scheme::Separate.order(4096, true).unwrap(), length);
        let ranks = frames.into_iter().map(|frame| {
            let mut ranks: Vec<usize> = frame.lanes.into_iter().flatten().map(|(rank, _)| rank).collect();
            ranks.dedup();
            ranks
        });
        assert_eq!(ranks.collect::<Vec<_>>(), [vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(Scheme::Separate.order(4096, false), None);
    }

    #[test]
    fn merged_pieces_keep_their_axes() {
        let array = |block, lanes: &[&[&[usize]]]| {
            let lanes: Vec<Vec<_>> = lanes
                .iter()
                .map(|lane| {
                    lane.iter().map(|shape| (4 * shape.iter().product::<usize>() as u64, shape.to_vec())).collect()
                })
                .collect();
            merged_array(DType::F32, Endian::Little, block, &lanes).shape
        };
        assert_eq!(array(0, &[&[&[2, 3], &[5, 3]]]), [7, 3]);
        assert_eq!(array(0, &[&[&[2, 3], &[2, 3], &[2, 3]]]), [3, 2, 3]);
        assert_eq!(array(0, &[&[&[2, 3], &[2, 4]]]), [14]);
        assert_eq!(array(0, &[&[&[], &[], &[]]]), [3]);
        assert_eq!(array(4, &[&[&[2, 3]], &[&[2, 3]]]), [2, 3, 2]);
        assert_eq!(array(12, &[&[&[2, 3]], &[&[2, 3]]]), [2, 6]);
        assert_eq!(array(24, &[&[&[2, 3]], &[&[2, 3]]]), [4, 3]);
        assert_eq!(array(8, &[&[&[2, 3]], &[&[2, 3]]]), [12]);
        assert_eq!(array(12, &[&[&[2, 3]], &[&[1, 3]]]), [9]);
        assert_eq!(array(6, &[&[&[2, 3]], &[&[2, 3]]]), [48], "blocks of no whole elements are bytes");
    }
}
