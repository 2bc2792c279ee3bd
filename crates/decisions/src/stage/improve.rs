//! Which of the files that wait in tiers is encoded anew, at a level that takes longer and makes it smaller, while there is time until it
//! is moved. The last one in the row has the most time, so it comes first. Decides, and touches no file.

use knarr_choose::place::level::Level;

use crate::level::EncodingLevel;
use crate::plan_cache::Family;
use crate::planner::Planner;

/// A file that waits, encoded, to be moved to the last tier.
#[derive(Debug, Clone)]
pub struct WaitingFile {
    /// Its family, with the level at which it was encoded; `None` if it is to stay as it is.
    pub family: Option<Family>,
    /// Bytes of its values.
    pub raw: u64,
    /// Bytes that it has.
    pub bytes: u64,
}

/// What there is for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    /// Bytes of the file that is being moved, which comes before the others.
    pub moving: u64,
    /// Bytes a second that the last tier takes.
    pub drain: f64,
    /// Cores that encode without taking time of the program.
    pub cores: f64,
}

/// Times were predicted by a part wrong that may be so large.
const MARGIN: f64 = 1.5;
/// The part of a file by which it is expected to become smaller, at least.
const WORTH_IT: f64 = 0.05;
/// The time that a byte takes of smaller files is not known well.
const SMALL: u64 = 1 << 20;

impl Planner {
    /// The number of the file that is encoded anew, in the order in which `files` are moved, and the level; `None` if there is
    /// time for none, or if none would become smaller.
    pub(super) fn to_improve(&self, files: &[WaitingFile], means: Means) -> Option<(usize, EncodingLevel)> {
        if means.cores <= 0.0 || means.drain <= 0.0 {
            return None;
        }
        let mut before = files.iter().fold(means.moving, |sum, file| sum.saturating_add(file.bytes));
        for (index, file) in files.iter().enumerate().rev() {
            before = before.saturating_sub(file.bytes);
            let left = before as f64 / means.drain;
            if let Some(level) = self.better(file, left, means.cores) {
                return Some((index, level));
            }
        }
        None
    }

    /// The level at which a file becomes smallest in so many seconds.
    fn better(&self, file: &WaitingFile, seconds: f64, cores: f64) -> Option<EncodingLevel> {
        let family = file.family.as_ref().filter(|_| file.raw >= SMALL)?;
        let (levels, now) = (self.levels(family), family.level?);
        let decode = levels.get(now.index())?.decode;
        let raw = file.raw as f64;
        let is_better = |(_, level): &(EncodingLevel, Level)| {
            let takes = raw * (level.encode + decode) / cores * MARGIN;
            takes <= seconds && raw / level.ratio <= file.bytes as f64 * (1.0 - WORTH_IT)
        };
        let better = EncodingLevel::ALL.into_iter().zip(levels).filter(|(level, _)| *level > now).filter(is_better);
        better.max_by(|(_, a), (_, b)| a.ratio.total_cmp(&b.ratio)).map(|(level, _)| level)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Files of 80 MB that level `speed` has made 50 MB of: `ratio` is expected to make 42 MB of each, in 2.8 s of a core.
    fn waiting(count: usize) -> Vec<WaitingFile> {
        let family = Family::of(0, Path::new("a.h5")).at(Some(EncodingLevel::Speed));
        vec![WaitingFile { family: Some(family), raw: 80_000_000, bytes: 50_000_000 }; count]
    }

    const MEANS: Means = Means { moving: 50_000_000, drain: 25e6, cores: 1.0 };

    #[test]
    fn the_last_file_is_first_and_others_when_it_is_done() {
        let planner = Planner::default();
        let mut files = waiting(4);
        assert_eq!(planner.to_improve(&files, MEANS), Some((3, EncodingLevel::Ratio)));
        for done in [3, 2] {
            files[done].family = files[done].family.clone().map(|family| family.at(Some(EncodingLevel::Ratio)));
            files[done].bytes = 42_000_000;
        }
        // It is moved after 4 s: too soon for `ratio` with the margin.
        assert_eq!(planner.to_improve(&files, MEANS), Some((1, EncodingLevel::Balanced)));
        assert_eq!(planner.to_improve(&files, Means { cores: 2.0, ..MEANS }), Some((1, EncodingLevel::Ratio)));
        assert_eq!(planner.to_improve(&files, Means { drain: 20e6, ..MEANS }), Some((1, EncodingLevel::Ratio)));
    }

    #[test]
    fn a_level_that_takes_less_time_serves_if_there_is_little() {
        let planner = Planner::default();
        // Of 1.0 s and 2.7 s in a core, without the margin.
        let files = waiting(1);
        assert_eq!(planner.to_improve(&files, MEANS), Some((0, EncodingLevel::Balanced)));
        assert_eq!(planner.to_improve(&files, Means { moving: 40_000_000, ..MEANS }), None);
    }

    #[test]
    fn what_is_to_stay_or_would_not_get_smaller_is_left() {
        let planner = Planner::default();
        let is_left = |change: &dyn Fn(&mut WaitingFile)| {
            let mut files = waiting(3);
            files.iter_mut().for_each(change);
            planner.to_improve(&files, MEANS).is_none()
        };
        assert!(!is_left(&|_| {}));
        assert!(is_left(&|file| file.family = None));
        assert!(is_left(&|file| file.family = file.family.clone().map(|family| family.at(None))));
        assert!(is_left(&|file| file.bytes = 43_000_000));
        assert!(is_left(&|file| (file.raw, file.bytes) = (80_000, 50_000)));
        assert!(planner.to_improve(&waiting(9), Means { cores: 0.0, ..MEANS }).is_none());
        assert!(planner.to_improve(&[], MEANS).is_none());
    }
}
