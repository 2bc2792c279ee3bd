//! Options of codecs and patterns: documented, typed, checked in one place.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

use knarr_array::error::{Error, Result};

/// Value of an option.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// Whole number.
    Int(i64),
    /// Floating-point number.
    Float(f64),
    /// A word.
    Word(String),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Word(value) => f.write_str(value),
        }
    }
}

/// Type, range and default of an option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionKind {
    /// Whole number within a closed range.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
        /// Value if not given; `None` makes the option required.
        default: Option<i64>,
    },
    /// Positive floating-point number; required.
    Float,
    /// Floating-point number, zero or above, with the value if not given.
    FloatOr(f64),
    /// Finite number of any sign; what is not given stays away, in frames too.
    Optional,
    /// One of a list of words; the first is the default.
    Word(&'static [&'static str]),
    /// Unsigned 32-bit numbers, written `1/2/3`; `none`, the default, for no numbers.
    Numbers,
}

/// Documentation of one option, the source of `docs/chains.md` and of the checks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptionDoc {
    /// Name in chains: `name=value`.
    pub name: &'static str,
    /// Type, range, default.
    pub kind: OptionKind,
    /// What it means, with its unit.
    pub doc: &'static str,
}

/// Complete, checked options of one step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Options(BTreeMap<String, OptionValue>);

impl Options {
    /// Sets one option. The list checks it later.
    #[must_use]
    pub fn with(mut self, name: &str, value: OptionValue) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Sets a whole number.
    #[must_use]
    pub fn with_int(self, name: &str, value: i64) -> Self {
        self.with(name, OptionValue::Int(value))
    }

    /// Sets a word.
    #[must_use]
    pub fn with_word(self, name: &str, value: &str) -> Self {
        self.with(name, OptionValue::Word(value.to_owned()))
    }

    /// Whole number `name`.
    ///
    /// # Errors
    /// `Internal` if the option was not declared: options are complete after [`Options::complete`].
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.0.get(name) {
            Some(OptionValue::Int(value)) => Ok(*value),
            _ => Err(Error::internal(format!("option '{name}' is not a whole number"))),
        }
    }

    /// Floating-point number `name`.
    ///
    /// # Errors
    /// `Internal` if the option was not declared.
    pub fn float(&self, name: &str) -> Result<f64> {
        match self.0.get(name) {
            Some(OptionValue::Float(value)) => Ok(*value),
            _ => Err(Error::internal(format!("option '{name}' is not a number"))),
        }
    }

    /// Number `name` of the kind [`OptionKind::Optional`]; `None` if it was not given.
    pub fn optional(&self, name: &str) -> Option<f64> {
        self.float(name).ok()
    }

    /// Word `name`.
    ///
    /// # Errors
    /// `Internal` if the option was not declared.
    pub fn word(&self, name: &str) -> Result<&str> {
        match self.0.get(name) {
            Some(OptionValue::Word(value)) => Ok(value),
            _ => Err(Error::internal(format!("option '{name}' is not a word"))),
        }
    }

    /// Numbers `name`.
    ///
    /// # Errors
    /// `Internal` if the option was not declared.
    pub fn numbers(&self, name: &str) -> Result<Vec<u32>> {
        self.word(name)
            .ok()
            .and_then(parse_numbers)
            .ok_or_else(|| Error::internal(format!("option '{name}' is not a list of numbers")))
    }

    /// Sets a list of numbers.
    #[must_use]
    pub fn with_numbers(self, name: &str, values: &[u32]) -> Self {
        let texts: Vec<_> = values.iter().map(ToString::to_string).collect();
        let text = if texts.is_empty() { NO_NUMBERS.to_owned() } else { texts.join("/") };
        self.with(name, OptionValue::Word(text))
    }

    /// Name and value, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptionValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Checks names, types and ranges against `docs` and fills in defaults. `owner` says whose options they are:
    /// `codec 'zstd'`.
    ///
    /// # Errors
    /// `Usage` that names the owner, the option and what is allowed.
    pub fn complete(&self, owner: &str, docs: &[OptionDoc]) -> Result<Self> {
        if let Some(unknown) = self.0.keys().find(|name| !docs.iter().any(|doc| doc.name == *name)) {
            let known: Vec<_> = docs.iter().map(|doc| doc.name).collect();
            let advice =
                if known.is_empty() { "it has no options".to_owned() } else { format!("it has: {}", known.join(", ")) };
            return Err(Error::usage(format!("{owner} has no option '{unknown}'")).hint(advice));
        }
        let mut complete = BTreeMap::new();
        for doc in docs {
            if doc.kind == OptionKind::Optional && !self.0.contains_key(doc.name) {
                continue;
            }
            let value = doc.check(owner, self.0.get(doc.name))?;
            complete.insert(doc.name.to_owned(), value);
        }
        Ok(Self(complete))
    }
}

/// How an empty list of numbers is written.
const NO_NUMBERS: &str = "none";

fn parse_numbers(text: &str) -> Option<Vec<u32>> {
    if text == NO_NUMBERS { Some(Vec::new()) } else { text.split('/').map(|number| number.parse().ok()).collect() }
}

impl OptionDoc {
    fn check(&self, owner: &str, given: Option<&OptionValue>) -> Result<OptionValue> {
        let name = self.name;
        let refuse = |allowed: String| {
            let given = given.map_or_else(|| "is missing".to_owned(), |value| format!("is {value}"));
            Error::usage(format!("{owner}: option '{name}' {given}")).hint(format!("give {allowed}"))
        };
        match (self.kind, given) {
            (OptionKind::Int { min, max, .. }, Some(OptionValue::Int(value))) if (min..=max).contains(value) => {
                Ok(OptionValue::Int(*value))
            }
            (OptionKind::Int { default: Some(default), .. }, None) => Ok(OptionValue::Int(default)),
            (OptionKind::Int { min, max, .. }, _) => Err(refuse(format!("a whole number from {min} to {max}"))),
            (OptionKind::Float, Some(OptionValue::Float(value))) if value.is_finite() && *value > 0.0 => {
                Ok(OptionValue::Float(*value))
            }
            #[expect(clippy::cast_precision_loss, reason = "a bound given as a whole number is small")]
            (OptionKind::Float, Some(OptionValue::Int(value))) if *value > 0 => Ok(OptionValue::Float(*value as f64)),
            (OptionKind::Float, _) => Err(refuse("a finite number above 0".to_owned())),
            (OptionKind::FloatOr(_), Some(OptionValue::Float(value))) if value.is_finite() && *value >= 0.0 => {
                Ok(OptionValue::Float(*value))
            }
            #[expect(clippy::cast_precision_loss, reason = "a bound given as a whole number is small")]
            (OptionKind::FloatOr(_), Some(OptionValue::Int(value))) if *value >= 0 => {
                Ok(OptionValue::Float(*value as f64))
            }
            (OptionKind::FloatOr(default), None) => Ok(OptionValue::Float(default)),
            (OptionKind::FloatOr(_), _) => Err(refuse("a finite number, 0 or above".to_owned())),
            (OptionKind::Optional, Some(OptionValue::Float(value))) if value.is_finite() => {
                Ok(OptionValue::Float(*value))
            }
            #[expect(clippy::cast_precision_loss, reason = "rounded as the same number with a point would be")]
            (OptionKind::Optional, Some(OptionValue::Int(value))) => Ok(OptionValue::Float(*value as f64)),
            (OptionKind::Optional, _) => Err(refuse("a finite number".to_owned())),
            (OptionKind::Word(words), Some(OptionValue::Word(word))) if words.contains(&word.as_str()) => {
                Ok(OptionValue::Word(word.clone()))
            }
            (OptionKind::Word(words), None) => Ok(OptionValue::Word(words.first().copied().unwrap_or("").to_owned())),
            (OptionKind::Word(words), _) => Err(refuse(format!("one of: {}", words.join(", ")))),
            (OptionKind::Numbers, None) => Ok(OptionValue::Word(NO_NUMBERS.to_owned())),
            (OptionKind::Numbers, Some(value)) => {
                let text = value.to_string();
                match parse_numbers(&text) {
                    Some(_) => Ok(OptionValue::Word(text)),
                    None => Err(refuse(format!("numbers from 0 to {} like 1/2/3, or '{NO_NUMBERS}'", u32::MAX))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_numbers_stay_away_unless_given() {
        let docs = [OptionDoc { name: "from", kind: OptionKind::Optional, doc: "limit" }];
        let check = |value| Options::default().with("from", value).complete("test", &docs);
        assert_eq!(Options::default().complete("test", &docs).unwrap().iter().count(), 0);
        assert_eq!(check(OptionValue::Int(-7)).unwrap().optional("from"), Some(-7.0));
        assert_eq!(check(OptionValue::Float(-0.5)).unwrap().optional("from"), Some(-0.5));
        for bad in [OptionValue::Float(f64::INFINITY), OptionValue::Float(f64::NAN), OptionValue::Word("x".to_owned())]
        {
            assert!(check(bad).unwrap_err().advice().is_some());
        }
    }

    #[test]
    fn lists_of_numbers_are_checked() {
        let docs = [OptionDoc { name: "cd", kind: OptionKind::Numbers, doc: "values" }];
        let check = |value| Options::default().with("cd", value).complete("test", &docs);
        assert_eq!(Options::default().complete("test", &docs).unwrap().numbers("cd").unwrap(), [0u32; 0]);
        assert_eq!(check(OptionValue::Int(7)).unwrap().numbers("cd").unwrap(), [7]);
        assert_eq!(check(OptionValue::Word("1/4294967295".to_owned())).unwrap().numbers("cd").unwrap(), [1, u32::MAX]);
        for bad in [OptionValue::Int(-1), OptionValue::Word("1//2".to_owned()), OptionValue::Float(1.5)] {
            assert!(check(bad).unwrap_err().advice().is_some());
        }
        assert_eq!(Options::default().with_numbers("cd", &[3, 4]).numbers("cd").unwrap(), [3, 4]);
    }
}
