//! At which level a file of route `stage` is encoded, and whether that has to take time of the program. What files of a family
//! have become says what the next one will be. Decides, and touches no file; times are arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;

use knarr_array::goal::Goal;
use knarr_choose::place::forecast::{Correction, Prequential};
use knarr_choose::place::level::Level;
use knarr_choose::place::objective::Objective;
use knarr_choose::place::outlook::{Cadence, Outlook, ToCome};
use knarr_choose::plan::{Action, Candidate, Choice, Plan};
use knarr_flow::pipeline::Execution;

use crate::learned::{Learned, LearnedFamily, LearnedVariable};
use crate::level::EncodingLevel;
use crate::plan_cache::Family;

/// Variables with fewer bytes say little of what others take.
const SMALL: u64 = 1 << 16;
/// Variables of a family that are remembered, at all levels.
const VARIABLES: usize = 500;
/// What is expected before the first file: in no direction far from what floating-point values of models become.
const USUAL: [Level; 3] = [
    Level { ratio: 1.6, encode: 1.0 / 200e6, decode: 1.0 / 800e6 },
    Level { ratio: 1.8, encode: 1.0 / 80e6, decode: 1.0 / 600e6 },
    Level { ratio: 1.9, encode: 1.0 / 30e6, decode: 1.0 / 400e6 },
];

/// The planner of a run.
#[derive(Default)]
pub struct Planner {
    cadence: Cadence,
    families: BTreeMap<Family, Known>,
    ratio: Prequential,
    time: Prequential,
    /// Files that were encoded anew, by level, and by how many bytes those became smaller that were kept.
    improved: [u32; 3],
    saved: (u32, u64),
}

/// What levels took that were chosen, in seconds of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ChoosingCosts {
    /// To choose.
    pub decisions: f64,
    /// To look at tiers, queue and load before that.
    pub monitor: f64,
    /// To learn from files that were made.
    pub feedback: f64,
}

/// How well files were predicted, before they were made.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecasts {
    /// What choosing their levels took.
    pub costs: ChoosingCosts,
    /// Files that were made at each level.
    pub levels: Vec<(&'static str, u32)>,
    /// Files that were encoded anew while they waited, and bytes by which they became smaller.
    pub improved: (u32, u64),
    /// Variables that were predicted.
    pub variables: u64,
    /// Ratios: by what part predictions were wrong, and R².
    pub ratio: [Option<f64>; 2],
    /// The same, of the time that a byte takes.
    pub time: [Option<f64>; 2],
}

/// What is known of a family.
#[derive(Clone)]
struct Known {
    levels: [Level; 3],
    /// Files that were made at each.
    made: [u32; 3],
    /// Earlier runs say what is expected at it.
    learned: [bool; 3],
    /// How the ratio and the time of each variable differ from what its plan says.
    variables: BTreeMap<(EncodingLevel, String), [Correction; 2]>,
}

impl Default for Known {
    fn default() -> Self {
        Self { levels: USUAL, made: [0; 3], learned: [false; 3], variables: BTreeMap::new() }
    }
}

impl Planner {
    /// A file with so many bytes of values was closed, so many seconds after the beginning.
    pub fn closed(&mut self, bytes: u64, at: f64) {
        self.cadence.came(bytes as f64, at);
    }

    /// What is to come after `now`, where the last tier takes `drain` bytes a second.
    pub fn to_come(&self, now: f64, drain: f64) -> ToCome {
        self.cadence.to_come(now, drain)
    }

    /// The level for the next file of a family. `waiting` are other files with their bytes.
    pub fn level(
        &self,
        (family, bytes): (&Family, u64),
        waiting: &[(Family, u64)],
        outlook: &Outlook,
        objective: Objective,
    ) -> EncodingLevel {
        // Files of one family are one thing to be done: what many files take to be looked at, the program would wait for.
        let mut families: BTreeMap<&Family, f64> = BTreeMap::new();
        waiting.iter().for_each(|(family, bytes)| *families.entry(family).or_default() += *bytes as f64);
        let families: Vec<_> = families.into_iter().map(|(family, bytes)| (self.levels(family), bytes)).collect();
        let others: Vec<(&[Level], f64)> = families.iter().map(|(levels, bytes)| (levels.as_slice(), *bytes)).collect();
        let best = outlook.best(&self.levels(family), bytes as f64, &others, objective);
        best.and_then(|best| EncodingLevel::ALL.get(best).copied()).unwrap_or(EncodingLevel::Speed)
    }

    /// What is expected of files of a family at each level.
    pub(crate) fn levels(&self, family: &Family) -> [Level; 3] {
        self.families.get(&family.at(None)).map_or(USUAL, |known| known.levels)
    }

    /// A file of a family was made by this plan. Those whose rule says how are of no use.
    pub fn made(&mut self, family: &Family, plan: &Plan, execution: &Execution) {
        let Some(level) = family.level else { return };
        let known = self.families.entry(family.at(None)).or_default();
        let (mut raw, mut seconds, mut expected, mut next) = (0.0, 0.0, 0.0, Sum::default());
        for (index, variable) in plan.variables.iter().enumerate() {
            let (Action::Encode(choice), Some(report)) = (&variable.action, execution.variables.get(&index)) else {
                continue;
            };
            // Others have done some of it before.
            if report.raw_bytes < SMALL || report.ahead_chunks + report.elsewhere_chunks > 0 {
                continue;
            }
            let bytes = report.raw_bytes as f64;
            let took = report.encode_seconds + report.decode_seconds;
            let says = [choice.expected.ratio, seconds_of(choice)];
            let became = [bytes / report.encoded_bytes.max(1) as f64, took / bytes];
            let corrections = known.variables.entry((level, variable.path.clone())).or_default();
            let measures = [&mut self.ratio, &mut self.time];
            for (((correction, measure), says), became) in corrections.iter_mut().zip(measures).zip(says).zip(became) {
                measure.add(correction.predict(says), became);
                correction.learn(says, became);
            }
            let [ratio, time] = [corrections[0].predict(says[0]), corrections[1].predict(says[1])];
            next.add(bytes, ratio, [time * bytes, report.decode_seconds]);
            (raw, seconds, expected) = (raw + bytes, seconds + took, expected + says[1] * bytes);
        }
        if raw > 0.0 {
            known.learn(level, next.level());
            known.expect(plan, seconds / expected);
        }
    }

    /// A file that waited was encoded anew. It has become smaller by so many bytes; `None` if it was not worth it.
    pub fn improved(&mut self, (family, plan, execution): (&Family, &Plan, &Execution), saved: Option<u64>) {
        let made = |planner: &Self, index| planner.families.get(&family.at(None))?.made.get::<usize>(index).copied();
        if let Some(index) = family.level.map(EncodingLevel::index) {
            let before = made(self, index);
            self.made(family, plan, execution);
            // Of variables that were copied as they were nothing is learned.
            let is_counted = made(self, index) > before;
            self.improved.get_mut(index).into_iter().for_each(|count| *count += u32::from(is_counted));
        }
        let (files, bytes) = &mut self.saved;
        (*files, *bytes) = (*files + u32::from(saved.is_some()), *bytes + saved.unwrap_or(0));
    }

    /// Begins with what earlier runs have learned. `rule` is the number of the rule with a pattern.
    pub fn with_learned(learned: Learned, rule: impl Fn(&str) -> Option<usize>) -> Self {
        let mut planner = Self::default();
        for LearnedFamily { pattern, extension, levels, variables } in learned.families {
            let Some(rule) = rule(&pattern) else { continue };
            let family = Family::of_names(rule, extension.map(OsString::from));
            let known = planner.families.entry(family).or_default();
            for (index, level) in levels.into_iter().enumerate() {
                if let (Some(level), Some(place), Some(flag)) =
                    (level, known.levels.get_mut(index), known.learned.get_mut(index))
                {
                    (*place, *flag) = (level, true);
                }
            }
            let variables = variables.into_iter();
            known.variables.extend(variables.map(|of| ((of.level, of.path), of.corrections)));
        }
        planner
    }

    /// What is learned by now of families of which files were made. `pattern` is that of the rule with a number.
    pub fn learned(&self, pattern: impl Fn(usize) -> Option<String>) -> Learned {
        let of = |(family, known): (&Family, &Known)| {
            let is_known = |index: usize| known.made.get(index) > Some(&0) || known.learned.get(index) == Some(&true);
            let level = |index: usize| known.levels.get(index).copied().filter(|_| is_known(index));
            let variables = known.variables.iter().map(|((level, path), corrections)| LearnedVariable {
                path: path.clone(),
                level: *level,
                corrections: *corrections,
            });
            Some(LearnedFamily {
                pattern: pattern(family.rule)?,
                extension: family.extension().map(|extension| extension.to_string_lossy().into_owned()),
                levels: [level(0), level(1), level(2)],
                variables: variables.take(VARIABLES).collect(),
            })
        };
        // Others are as they were.
        let is_new = |(_, known): &(&Family, &Known)| known.made.iter().any(|made| *made > 0);
        Learned { families: self.families.iter().filter(is_new).filter_map(of).collect() }
    }

    /// How good predictions were; `None` if nothing was predicted.
    pub fn forecasts(&self) -> Option<Forecasts> {
        let variables = self.ratio.count();
        let made = |index: usize| {
            let all: u32 = self.families.values().filter_map(|known| known.made.get(index)).sum();
            all.saturating_sub(self.improved.get(index).copied().unwrap_or(0))
        };
        let levels = EncodingLevel::ALL.iter().enumerate().map(|(index, level)| (level.name(), made(index)));
        let levels = levels.filter(|(_, made)| *made > 0).collect();
        let of = |measure: &Prequential| [measure.error(), measure.r_squared()];
        let of = Forecasts {
            costs: ChoosingCosts::default(),
            levels,
            improved: self.saved,
            variables,
            ratio: of(&self.ratio),
            time: of(&self.time),
        };
        (variables > 0).then_some(of)
    }
}

impl Known {
    /// The next file is expected to become this at a level, as one was made at it.
    fn learn(&mut self, level: EncodingLevel, next: Level) {
        let index = level.index();
        self.levels.get_mut(index).into_iter().for_each(|known| *known = next);
        self.made.get_mut(index).into_iter().for_each(|made| *made += 1);
    }

    /// What levels at which nothing was made are expected to do: what the chains would that the plan has looked at. Times are so
    /// many times what the profile says.
    fn expect(&mut self, plan: &Plan, slower: f64) {
        for (index, level) in EncodingLevel::ALL.iter().enumerate() {
            let (Some(0), goal) = (self.made.get(index), level.goal()) else { continue };
            let mut sum = Sum::default();
            for variable in &plan.variables {
                let Action::Encode(choice) = &variable.action else { continue };
                let Some(best) = best_of(choice, &goal) else { continue };
                let bytes = variable.raw_bytes as f64;
                let decode = slower * bytes / (best.merits.decode * 1e6);
                sum.add(bytes, best.merits.ratio, [slower * bytes / (best.merits.encode * 1e6) + decode, decode]);
            }
            if let (true, Some(known), Some(learned)) =
                (sum.raw > 0.0, self.levels.get_mut(index), self.learned.get_mut(index))
            {
                // What an earlier run has seen may be of other data, or of a busy machine.
                (*known, *learned) = (sum.level(), false);
            }
        }
    }
}

/// What variables become together: bytes, and seconds.
#[derive(Default)]
struct Sum {
    raw: f64,
    encoded: f64,
    encode: f64,
    decode: f64,
}

impl Sum {
    fn add(&mut self, bytes: f64, ratio: f64, [encode, decode]: [f64; 2]) {
        self.raw += bytes;
        self.encoded += bytes / ratio.max(f64::MIN_POSITIVE);
        self.encode += encode;
        self.decode += decode;
    }

    fn level(&self) -> Level {
        let Self { raw, encoded, encode, decode } = self;
        Level { ratio: raw / encoded.max(f64::MIN_POSITIVE), encode: encode / raw, decode: decode / raw }
    }
}

/// Core-seconds for a raw byte, the proof that it can be decoded among them.
fn seconds_of(choice: &Choice) -> f64 {
    1e-6 / choice.expected.encode + 1e-6 / choice.expected.decode
}

/// The candidate that a goal would choose.
fn best_of<'a>(choice: &'a Choice, goal: &Goal) -> Option<&'a Candidate> {
    let usable = choice.candidates.iter().filter(|candidate| candidate.dropped.is_none());
    usable.max_by(|a, b| goal.score(&a.merits).total_cmp(&goal.score(&b.merits)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn outlook(planner: &Planner, idle_cores: f64) -> Outlook {
        let to_come = planner.to_come(10.0, 30e6);
        Outlook { queued: 0.0, to_come, memory: 100e6, room: 200e6, drain: 30e6, idle_cores, cores: 2.0 }
    }

    fn planner(bursts: u32) -> Planner {
        let mut planner = Planner::default();
        (0..bursts).for_each(|burst| planner.closed(60_000_000, f64::from(burst) * 2.0));
        planner
    }

    fn chosen(planner: &Planner, outlook: &Outlook, objective: Objective) -> EncodingLevel {
        planner.level((&Family::of(0, Path::new("a.h5")), 60_000_000), &[], outlook, objective)
    }

    #[test]
    fn idle_cores_encode_better() {
        let planner = planner(5);
        assert_eq!(chosen(&planner, &outlook(&planner, 0.0), Objective::Blocked), EncodingLevel::Speed);
        assert_eq!(chosen(&planner, &outlook(&planner, 1.0), Objective::Blocked), EncodingLevel::Balanced);
        assert_eq!(chosen(&planner, &outlook(&planner, 0.0), Objective::Size), EncodingLevel::Ratio);
    }

    #[test]
    fn encoding_waits_for_a_core_as_long_as_all_fits() {
        let (planner, large) = (planner(5), 10e9);
        let short = outlook(&planner, 0.0);
        let ample = Outlook { room: large, ..short };
        assert!(short.is_urgent(60e6, Objective::Blocked) && !ample.is_urgent(60e6, Objective::Blocked));
        assert!(ample.is_urgent(60e6, Objective::Durable));
        // The link has enough to do, and the next burst finds memory.
        let busy = Outlook { queued: 50e6, ..short };
        assert!(!busy.is_urgent(10e6, Objective::Durable) && busy.is_urgent(60e6, Objective::Durable));
    }

    #[test]
    fn what_variables_became_is_expected_of_the_next_file() {
        let (mut known, mut sum) = (Known::default(), Sum::default());
        // Half of the bytes shrink to a half, the others to a quarter.
        sum.add(100.0, 2.0, [1.0, 0.5]);
        sum.add(100.0, 4.0, [3.0, 0.5]);
        known.learn(EncodingLevel::Speed, sum.level());
        assert_eq!(known.levels[0], Level { ratio: 200.0 / 75.0, encode: 0.02, decode: 0.005 });
        assert_eq!((known.made, &known.levels[1..]), ([1, 0, 0], &USUAL[1..]));
    }

    #[test]
    fn what_a_run_has_learned_is_known_to_the_next() {
        let mut planner = Planner::default();
        let (family, level) = (Family::of(1, Path::new("a.h5")), Level { ratio: 7.0, encode: 1e-8, decode: 1e-9 });
        let known = planner.families.entry(family.clone()).or_default();
        known.learn(EncodingLevel::Balanced, level);
        let mut correction = Correction::default();
        correction.learn(1.0, 2.0);
        known.variables.insert((EncodingLevel::Balanced, "/T".to_owned()), [correction; 2]);
        let learned = planner.learned(|rule| (rule == 1).then(|| "a*.h5".to_owned()));
        let next = Planner::with_learned(learned.clone(), |pattern| (pattern == "a*.h5").then_some(4));
        let known = &next.families[&Family::of(4, Path::new("b.h5"))];
        assert_eq!((known.levels[1], known.levels[0], known.made), (level, USUAL[0], [0; 3]));
        assert_eq!(known.variables.len(), 1);
        assert_eq!(next.learned(|_| Some("a*.h5".to_owned())), Learned::default(), "nothing was made");
        assert!(Planner::with_learned(learned, |_| None).families.is_empty());
    }
}
