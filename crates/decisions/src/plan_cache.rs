//! Plans of earlier files, for the next files of the same kind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use knarr_choose::plan::Plan;
use knarr_flow::pipeline::for_later;

use crate::level::EncodingLevel;

/// A file has what was chosen for the one that was begun so many files before it, so that several are made at a time and
/// their bytes do not depend on which is made first.
const WINDOW: u64 = 8;

/// Files that may be made alike: those of a rule whose names end alike, which says who reads them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    /// Number of the rule.
    pub rule: usize,
    extension: Option<OsString>,
    /// How well they are encoded, if that is not what the rule says.
    pub level: Option<EncodingLevel>,
}

impl Family {
    /// That of the file at `path`, for which the rule with this number counts.
    pub fn of(rule: usize, path: &Path) -> Self {
        Self::of_names(rule, path.extension().map(OsString::from))
    }

    /// Those of a rule whose names end alike.
    pub fn of_names(rule: usize, extension: Option<OsString>) -> Self {
        Self { rule, extension, level: None }
    }

    /// What names end in.
    pub fn extension(&self) -> Option<&OsStr> {
        self.extension.as_deref()
    }

    /// Those of the family that are encoded at a level.
    pub fn at(&self, level: Option<EncodingLevel>) -> Self {
        Self { level, ..self.clone() }
    }
}

/// Of all rules.
#[derive(Default)]
pub struct PlanCache {
    /// What was chosen for files of each family that were handed over.
    chosen: BTreeMap<Family, Chosen<AtLevel>>,
}

/// A plan, and the level at which it encodes.
type AtLevel = (Option<EncodingLevel>, Arc<Plan>);

/// What was chosen for the files of a family, by the order in which they were begun.
struct Chosen<P> {
    begun: u64,
    running: BTreeSet<u64>,
    plans: BTreeMap<u64, P>,
}

impl<P> Default for Chosen<P> {
    fn default() -> Self {
        Self { begun: 0, running: BTreeSet::new(), plans: BTreeMap::new() }
    }
}

impl<P: Clone> Chosen<P> {
    /// The last file whose plan the next one may have.
    fn last(&self) -> u64 {
        (self.begun + 1).saturating_sub(WINDOW).max(1)
    }

    fn is_ready(&self) -> bool {
        self.running.first().is_none_or(|first| *first > self.last())
    }

    /// The last plan that the next file may have, of those that serve.
    fn earlier(&self, serves: impl Fn(&P) -> bool) -> Option<P> {
        self.plans.range(..=self.last()).rev().map(|(_, plan)| plan).find(|plan| serves(plan)).cloned()
    }

    /// The last plan that serves, whoever was made first.
    fn newest(&self, serves: impl Fn(&P) -> bool) -> Option<P> {
        self.plans.values().rev().find(|plan| serves(plan)).cloned()
    }

    fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.running.insert(self.begun);
        self.begun
    }

    fn end(&mut self, number: u64, plan: Option<P>, are_alike: impl Fn(&P, &P) -> bool) {
        self.running.remove(&number);
        self.plans.extend(plan.map(|plan| (number, plan)));
        // Earlier ones that serve for the same are not asked for any more.
        let mut kept: Vec<&P> = Vec::new();
        let mut gone = Vec::new();
        for (number, plan) in self.plans.range(..=self.last()).rev() {
            if kept.iter().any(|newer| are_alike(newer, plan)) { gone.push(*number) } else { kept.push(plan) }
        }
        self.plans.retain(|number, _| !gone.contains(number));
    }
}

impl PlanCache {
    /// True if all is known that the next file of a family has of earlier ones.
    pub fn is_ready(&self, family: &Family) -> bool {
        self.chosen.get(&family.at(None)).is_none_or(Chosen::is_ready)
    }

    /// What the next file of a family has of earlier ones.
    pub fn earlier(&self, family: &Family) -> Option<Arc<Plan>> {
        let serves = |(level, _): &AtLevel| *level == family.level;
        let chosen = self.chosen.get(&family.at(None))?;
        // Levels follow the time anyway, so a newer plan is better than none: choosing may take as long as encoding.
        let newest = || chosen.newest(|plan| family.level.is_some() && serves(plan));
        chosen.earlier(serves).or_else(newest).map(|(_, plan)| plan)
    }

    /// A file of a family is begun. Returns its number.
    pub fn begin(&mut self, family: &Family) -> u64 {
        self.chosen.entry(family.at(None)).or_default().begin()
    }

    /// A file is made, with this plan, or is not.
    pub fn end(&mut self, (family, number): (Family, u64), plan: Option<&Plan>) {
        if let Some(chosen) = self.chosen.get_mut(&family.at(None)) {
            let plan = plan.map(|plan| (family.level, Arc::new(for_later(plan.clone()))));
            chosen.end(number, plan, |(a, _), (b, _)| a == b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of files whose plans the files have, where `order` says which of those that run ends next.
    fn had(mut order: impl FnMut(usize) -> usize) -> Vec<Option<u64>> {
        let (mut chosen, mut had) = (Chosen::<u64>::default(), Vec::new());
        while had.len() < 40 {
            while chosen.is_ready() && chosen.running.len() < 5 {
                had.push(chosen.earlier(|_| true));
                chosen.begin();
            }
            let which = order(chosen.running.len()) % chosen.running.len();
            let number = *chosen.running.iter().nth(which).unwrap();
            // Some files cannot be made.
            chosen.end(number, (number % 7 != 3).then_some(number), |_, _| true);
        }
        had.truncate(40);
        had
    }

    #[test]
    fn what_a_file_has_of_earlier_ones_does_not_depend_on_which_is_made_first() {
        let in_order = had(|_| 0);
        assert_eq!(in_order[..3], [None, Some(1), Some(1)]);
        // That of the third one was not made.
        assert_eq!(in_order[9..12], [Some(2), Some(2), Some(4)]);
        assert_eq!(had(|running| running - 1), in_order);
        let mut seed = 1_usize;
        for _ in 0..20 {
            let random = |_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                seed >> 33
            };
            assert_eq!(had(random), in_order);
        }
    }

    #[test]
    fn a_level_that_comes_later_is_chosen_for_once() {
        let mut chosen = Chosen::<(&str, u64)>::default();
        let mut had = |level| {
            let serves = |(other, _): &(&str, u64)| *other == level;
            let earlier = chosen.earlier(serves).or_else(|| chosen.newest(serves));
            let number = chosen.begin();
            chosen.end(number, Some((level, number)), |a, b| a.0 == b.0);
            earlier.map(|(_, number)| number)
        };
        assert_eq!(
            ["ratio", "speed", "speed", "ratio", "speed"].map(&mut had),
            [None, None, Some(2), Some(1), Some(3)]
        );
    }

    #[test]
    fn plans_that_nobody_gets_any_more_are_dropped() {
        let mut chosen = Chosen::<u64>::default();
        for _ in 0..100 {
            let number = chosen.begin();
            // Of two kinds.
            chosen.end(number, Some(number), |a, b| a % 2 == b % 2);
        }
        assert_eq!(chosen.earlier(|number| number % 2 == 0), Some(92));
        assert!(chosen.plans.len() <= 10, "{}", chosen.plans.len());
        assert!(chosen.running.is_empty());
    }
}
