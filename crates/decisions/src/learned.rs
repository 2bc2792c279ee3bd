//! What a run has learned of its families of files, for runs that come later.

use knarr_choose::place::forecast::Correction;
use knarr_choose::place::level::Level;
use serde::{Deserialize, Serialize};

use crate::level::EncodingLevel;

/// So many families are remembered, the newest ones.
const MOST: usize = 200;

/// What was learned of families of files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Learned {
    /// The newest first.
    pub families: Vec<LearnedFamily>,
}

/// What was learned of a family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedFamily {
    /// The pattern of the rule.
    pub pattern: String,
    /// What names end in, behind the last dot; `None` if they have none.
    pub extension: Option<String>,
    /// What files became at each level; `None` if none was made there.
    pub levels: [Option<Level>; 3],
    /// How variables differ from what plans say of them.
    pub variables: Vec<LearnedVariable>,
}

/// How the ratio and the time of a variable differ from what its plan says at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedVariable {
    /// Its path in the file.
    pub path: String,
    /// The level.
    pub level: EncodingLevel,
    /// Of its ratio, and of the time that a byte takes.
    pub corrections: [Correction; 2],
}

impl Learned {
    /// With what was learned before, of other families.
    pub fn with_older(mut self, older: Self) -> Self {
        let is_other = |family: &LearnedFamily| {
            !self.families.iter().any(|own| (&own.pattern, &own.extension) == (&family.pattern, &family.extension))
        };
        let others: Vec<_> = older.families.into_iter().filter(is_other).collect();
        self.families.extend(others);
        self.families.truncate(MOST);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(pattern: String, ratio: f64) -> LearnedFamily {
        let level = Level { ratio, encode: 1e-8, decode: 1e-9 };
        let levels = [Some(level), None, None];
        LearnedFamily { pattern, extension: Some("nc".to_owned()), levels, variables: Vec::new() }
    }

    #[test]
    fn the_newest_of_a_family_is_remembered_and_no_more_than_so_many() {
        let older = Learned { families: (0..MOST).map(|number| family(format!("{number}*.nc"), 2.0)).collect() };
        let newer = Learned { families: vec![family("7*.nc".to_owned(), 3.0), family("new*.nc".to_owned(), 4.0)] };
        let all = newer.clone().with_older(older.clone()).families;
        assert_eq!((all.len(), &all[..2]), (MOST, &newer.families[..]));
        assert!(all[2..].iter().all(|family| family.pattern != "7*.nc") && all[2] == older.families[0]);
        let text = serde_json::to_string(&newer).unwrap();
        assert_eq!(serde_json::from_str::<Learned>(&text).unwrap(), newer);
    }
}
