//! Names of restart files: which time step and which rank they are of.

use knarr_array::error::{Error, Result};
use regex::bytes::Regex;
use std::fmt;
use std::str::FromStr;

/// How a program names its restart files: `restart_{step}_{rank}.h5`, `{step}/plt*.{rank}`.
///
/// `{step}` and `{rank}` stand for decimal digits, leading zeros or not, `*` for any bytes and `?` for one byte but
/// `/`. All else stands for itself.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    expression: Regex,
    has_step: bool,
    has_rank: bool,
}

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Time step, if the pattern has one.
    pub step: Option<u64>,
    /// Rank, if the pattern has one.
    pub rank: Option<u64>,
}

const EXAMPLE: &str = "write it like restart_{step}_{rank}.h5";

impl Pattern {
    /// What `name` says; `None` if it is not of this pattern.
    pub fn parse(&self, name: &[u8]) -> Option<Named> {
        let found = self.expression.captures(name)?;
        let number =
            |group: &str| -> Option<u64> { std::str::from_utf8(found.name(group)?.as_bytes()).ok()?.parse().ok() };
        // A number that no program counts to is part of another name.
        Some(Named {
            step: if self.has_step { Some(number("step")?) } else { None },
            rank: if self.has_rank { Some(number("rank")?) } else { None },
        })
    }

    /// True if names say the time step.
    pub fn has_step(&self) -> bool {
        self.has_step
    }

    /// True if names say the rank.
    pub fn has_rank(&self) -> bool {
        self.has_rank
    }

    /// How many directories deep the files lie below the one that is looked at; 0 if in itself.
    pub fn depth(&self) -> usize {
        self.text.matches('/').count()
    }
}

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: &str| Error::usage(format!("pattern '{text}': {why}")).hint(EXAMPLE);
        if text.starts_with('/') || text.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(refuse("it is not a path below the directory"));
        }
        let mut expression = "(?s-u)^".to_owned();
        let (mut has_step, mut has_rank) = (false, false);
        let mut rest = text;
        let mut after_number = false;
        while !rest.is_empty() {
            let (group, seen) = if rest.starts_with("{step}") {
                ("step", &mut has_step)
            } else if rest.starts_with("{rank}") {
                ("rank", &mut has_rank)
            } else {
                let character = rest.chars().next().unwrap_or_default();
                match character {
                    '{' | '}' => return Err(refuse("braces hold {step} and {rank}, each at most once")),
                    '0'..='9' if after_number => return Err(refuse("a digit follows a number")),
                    // As few bytes as will do: digits belong to the number that follows.
                    '*' => expression.push_str("[^/]*?"),
                    '?' => expression.push_str("[^/]"),
                    other => expression.push_str(&regex::escape(&other.to_string())),
                }
                after_number = false;
                rest = rest.get(character.len_utf8()..).unwrap_or_default();
                continue;
            };
            if *seen {
                return Err(refuse("braces hold {step} and {rank}, each at most once"));
            }
            if after_number {
                return Err(refuse("nothing keeps {step} and {rank} apart"));
            }
            *seen = true;
            after_number = true;
            expression.push_str(&format!("(?P<{group}>[0-9]+)"));
            rest = rest.get(group.len() + 2..).unwrap_or_default();
        }
        expression.push('$');
        let expression = Regex::new(&expression).map_err(|error| refuse(&error.to_string()))?;
        Ok(Self { text: text.to_owned(), expression, has_step, has_rank })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pattern: &str, name: &str) -> Option<(Option<u64>, Option<u64>)> {
        let pattern: Pattern = pattern.parse().unwrap();
        pattern.parse(name.as_bytes()).map(|named| (named.step, named.rank))
    }

    #[test]
    fn names_say_step_and_rank() {
        assert_eq!(parse("restart_{step}_{rank}.h5", "restart_0040_3.h5"), Some((Some(40), Some(3))));
        assert_eq!(parse("{rank}.step{step}", "12.step7"), Some((Some(7), Some(12))));
        assert_eq!(parse("chk{step}/rank-{rank}.nc", "chk5/rank-10.nc"), Some((Some(5), Some(10))));
        assert_eq!(parse("*{rank}.h5", "grid2_120.h5"), Some((None, Some(120))));
        assert_eq!(parse("x?{step}*", "xa17 what ever"), Some((Some(17), None)));
        assert_eq!(parse("a.b+{step}", "a.b+1"), Some((Some(1), None)));
        assert_eq!(parse("é{step}", "é1"), Some((Some(1), None)));
        for (pattern, name) in [
            ("restart_{step}_{rank}.h5", "restart_1_2.h5.tmp"),
            ("restart_{step}_{rank}.h5", "xrestart_1_2.h5"),
            ("restart_{step}_{rank}.h5", "restart__2.h5"),
            ("restart_{step}_{rank}.h5", "restart_-1_2.h5"),
            ("restart_{step}_{rank}.h5", "restart_99999999999999999999_2.h5"),
            ("{step}*", "1/2"),
            ("a.b{step}", "axb1"),
        ] {
            assert_eq!(parse(pattern, name), None, "{pattern} {name}");
        }
    }

    #[test]
    fn names_need_not_be_text() {
        let pattern: Pattern = "*_{rank}".parse().unwrap();
        assert_eq!(pattern.parse(b"\xFF\xFE\n_7"), Some(Named { step: None, rank: Some(7) }));
    }

    #[test]
    fn patterns_that_cannot_be_told_apart_are_refused() {
        for bad in [
            "",
            "{step}{rank}",
            "{step}{step}",
            "{step}_{step}",
            "{time}_{rank}",
            "{rank}0",
            "/a/{step}",
            "a//{step}",
            "../{step}",
            "a/./{step}",
            "{step",
            "}",
        ] {
            let error = bad.parse::<Pattern>().unwrap_err();
            assert!(error.advice().is_some_and(|advice| advice.contains("restart_{step}_{rank}.h5")), "{bad}: {error}");
        }
    }
}
