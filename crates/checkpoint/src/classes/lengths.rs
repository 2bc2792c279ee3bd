//! How long the frames of a class are: long ones find repeats that lie far apart, short ones are all that a restore of
//! one small variable reads.

use crate::classes::decide::Decider;
use crate::classes::frame_sizes::{MAX_DECODED_FRAME, TARGET_FRAME};
use crate::classes::scheme::{LARGE, MIXED_FRAME, MOST_TOGETHER, MergeOrder};
use crate::classes::similarity::Class;

/// What part of the memory a frame may be: it is there several times while it is encoded, and so are the tables of the
/// search.
const LONG_SHARE: u64 = 16;
/// Variables of a frame, about, where they are small. More have hardly more in common.
const ENOUGH: u64 = 32;
/// Bytes of a frame, however small its variables are: with fewer, chains of general compressors lose more than a hundredth.
const SHORTEST_FRAME: u64 = 256 << 10;

impl Decider<'_> {
    /// [`MergeOrder::span`] for a class whose pieces are merged in `order`.
    pub(crate) fn span(&self, class: &Class, order: MergeOrder) -> u64 {
        match self.given(class) {
            Some(_) => order.span,
            // Every frame holds a part of each rank, whatever its length.
            None if order.together == MOST_TOGETHER => 0,
            None => short(class),
        }
    }
}

/// Bytes of the longest frames that memory allows, a power of two. They follow from the limit alone, not from the number
/// of workers.
pub(crate) fn longest(max_mem: u64) -> u64 {
    let most = (max_mem / LONG_SHARE).clamp(TARGET_FRAME, MAX_DECODED_FRAME);
    1 << most.ilog2()
}

/// Bytes of frames of small variables; 0 for as many as are usual. Nobody restores alone what is no variable.
fn short(class: &Class) -> u64 {
    let is_small = class.units.iter().all(|unit| unit.bytes < LARGE);
    if !class.is_variables() || !is_small || class.units.is_empty() {
        return 0;
    }
    let length = (ENOUGH * class.bytes() / class.units.len() as u64).max(SHORTEST_FRAME);
    if length < MIXED_FRAME { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::similarity::{SKELETON, Unit};
    use knarr_array::array::{DType, Endian};

    #[test]
    fn frames_of_small_variables_hold_enough_of_them_and_no_more() {
        let class = |key: &str, count: usize, bytes: u64| Class {
            key: key.to_owned(),
            dtype: DType::F32,
            endian: Endian::Little,
            units: vec![Unit { rank: 0, pieces: vec![0], bytes }; count],
        };
        assert_eq!(short(&class("t_f32le_1d", 3000, 1000)), SHORTEST_FRAME);
        assert_eq!(short(&class("t_f32le_1d", 3000, 20_000)), 640_000);
        for (count, bytes) in [(3000, 40_000), (4, LARGE), (0, 0)] {
            assert_eq!(short(&class("t_f32le_1d", count, bytes)), 0);
        }
        assert_eq!(short(&class(SKELETON, 3000, 1000)), 0);
    }

    #[test]
    fn the_longest_frames_follow_from_the_memory() {
        let lengths = [64 << 20, 1 << 30, 3 << 30, 1 << 40].map(longest);
        assert_eq!(lengths, [TARGET_FRAME, MAX_DECODED_FRAME, MAX_DECODED_FRAME, MAX_DECODED_FRAME]);
        assert_eq!(longest(700 << 20), 32 << 20);
    }
}
