//! Records of rounding that readers know: "Lossy Compression via Quantization", section 8.4 of the CF conventions,
//! version 1.12 (<https://cfconventions.org/Data/cf-conventions/cf-conventions-1.12/cf-conventions.html>).
//!
//! A quantization variable, a scalar without data, names the algorithm and the program (8.4.1); each rounded variable
//! names that variable and the bits or digits that were kept (8.4.2). What the four algorithms of the convention do
//! not describe (absolute and relative bounds, bounds in combination, ZFP, SZ3) gets no such record. The attributes
//! of netCDF-C that begin with `_Quantize` are not written: they say that netCDF-C did the rounding (8.4.3).
//!
//! Values that are rounded again keep no more than the coarser rounding left, so its record is the one that holds. An
//! older record goes when finer than the new rounding, or when what is done now has no words.

use std::collections::{BTreeMap, HashSet};

use knarr_array::array::DType;
use knarr_array::coordinates::Coordinates;
use knarr_array::model::{Attribute, AttributeValue, Model, Variable};
use knarr_array::quality::Quality;
use knarr_choose::plan::{Action, Choice, Plan};
use knarr_codec::codec::OptionValue;

/// Attribute that names the quantization variable.
pub const CONTAINER_ATTRIBUTE: &str = "quantization";
/// Attribute with the explicit mantissa bits that were kept.
pub const BITS_ATTRIBUTE: &str = "quantization_nsb";
/// Attribute with the decimal digits that were kept.
pub const DIGITS_ATTRIBUTE: &str = "quantization_nsd";

/// How the attributes of netCDF-C begin, which end in the kind of what was kept.
const OF_NETCDF_C: &str = "_Quantize";

/// True for attributes of variables that record how they were rounded.
pub fn is_record(name: &str) -> bool {
    [CONTAINER_ATTRIBUTE, BITS_ATTRIBUTE, DIGITS_ATTRIBUTE].contains(&name) || name.starts_with(OF_NETCDF_C)
}

/// Attributes of a quantization variable (8.4.1).
const ALGORITHM: &str = "algorithm";
const IMPLEMENTATION: &str = "implementation";

/// How the values of a variable were rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantization {
    /// `bitround`: this many explicit mantissa bits, rounded to nearest, ties to even.
    Bits(u32),
    /// `granular_bitround`: this many decimal digits, each value with as few bits as they need.
    Digits(u32),
}

impl Quantization {
    /// What the chain of `choice` does to values of type `dtype`, if the convention has words for exactly that.
    pub fn of(choice: &Choice, dtype: DType) -> Option<Self> {
        // One step changes values, and it is the first.
        let changing = choice.chain.0.len() - choice.fallback.as_ref()?.0.len().min(choice.chain.0.len());
        let step = choice.chain.0.first().filter(|_| changing == 1)?;
        let first = match step.name.as_str() {
            "bitround" => "keepbits",
            "granular" => "digits",
            "round" => "abs",
            _ => return None,
        };
        // Values that stay exact have more right than is said.
        let is_limit = |name: &str| matches!(name, "up_to" | "from");
        let options = step.options.iter().filter(|(name, _)| !is_limit(name));
        let mut stated = step.bare.iter().map(|value| (first, value)).chain(options);
        let (Some((option, OptionValue::Int(count))), None) = (stated.next(), stated.next()) else { return None };
        let count = u32::try_from(*count).ok()?;
        let found = match option {
            "keepbits" | "bits" => Self::Bits(count),
            "digits" => Self::Digits(count),
            _ => return None,
        };
        // Ranges of 8.4.2.
        let allowed = match (found, dtype) {
            (Self::Bits(bits), DType::F32) => (1..=23).contains(&bits),
            (Self::Bits(bits), DType::F64) => (1..=52).contains(&bits),
            (Self::Digits(digits), DType::F32) => (1..=7).contains(&digits),
            (Self::Digits(digits), DType::F64) => (1..=15).contains(&digits),
            _ => false,
        };
        allowed.then_some(found)
    }

    /// What the attributes of a variable say about earlier rounding; `None` if that is nothing, or not one thing.
    pub fn recorded(variable: &Variable) -> Option<Self> {
        let mut found = variable.attributes.iter().filter_map(|attribute| {
            let kind = match attribute.name.as_str() {
                BITS_ATTRIBUTE => Self::Bits,
                DIGITS_ATTRIBUTE => Self::Digits,
                name if name.starts_with(OF_NETCDF_C) && name.ends_with("Bits") => Self::Bits,
                name if name.starts_with(OF_NETCDF_C) && name.ends_with("Digits") => Self::Digits,
                _ => return None,
            };
            let AttributeValue::Numbers { dtype, bytes, .. } = &attribute.value else { return None };
            let mut wide = [0; 8];
            let element = bytes.get(..dtype.size()).filter(|_| dtype.is_integer())?;
            wide.get_mut(..element.len())?.copy_from_slice(element);
            u32::try_from(u64::from_le_bytes(wide)).ok().map(kind)
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// True if this keeps less of each value than `other`.
    fn is_coarser(self, other: Self) -> bool {
        let bits = |quantization| match quantization {
            Self::Bits(bits) => f64::from(bits),
            Self::Digits(digits) => f64::from(digits) * std::f64::consts::LOG2_10,
        };
        bits(self) < bits(other)
    }

    /// The same as a quality.
    pub fn quality(self) -> Quality {
        match self {
            Self::Bits(bits) => Quality { significant_bits: Some(bits), ..Quality::LOSSLESS },
            Self::Digits(digits) => Quality { significant_digits: Some(digits), ..Quality::LOSSLESS },
        }
    }

    /// Term of the controlled vocabulary of 8.4.1.
    pub fn algorithm(self) -> &'static str {
        match self {
            Self::Bits(_) => "bitround",
            Self::Digits(_) => "granular_bitround",
        }
    }

    /// Attributes of a variable that was rounded so, described by the quantization variable `container`.
    pub fn attributes(self, container: &str) -> [Attribute; 2] {
        let (name, count) = match self {
            Self::Bits(bits) => (BITS_ATTRIBUTE, bits),
            Self::Digits(digits) => (DIGITS_ATTRIBUTE, digits),
        };
        let count = AttributeValue::Numbers { dtype: DType::I32, bytes: count.to_le_bytes().to_vec(), scalar: true };
        [text(CONTAINER_ATTRIBUTE, container), Attribute { name: name.to_owned(), value: count }]
    }
}

fn text(name: &str, value: &str) -> Attribute {
    Attribute { name: name.to_owned(), value: AttributeValue::Text(value.to_owned()) }
}

/// The quantization variables an output needs, and what refers to them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Records {
    /// Quantization variables that the input does not have, for the root group.
    pub new: Vec<Variable>,
    /// Attributes to add, by index of the variable.
    pub attributes: BTreeMap<usize, [Attribute; 2]>,
    /// Names of attributes about earlier rounding that are true no more, by index of the variable.
    pub stale: BTreeMap<usize, Vec<String>>,
}

impl Records {
    /// What `plan` asks for. Quantization variables take names that neither `model` nor `taken` has.
    pub fn of(model: &Model, plan: &Plan, taken: &[String]) -> Self {
        let mut used: HashSet<&str> = taken.iter().map(String::as_str).collect();
        used.extend(model.variables.iter().map(|variable| base(&variable.path)));
        used.extend(model.groups.iter().map(|group| base(&group.path)));
        used.extend(model.groups.iter().flat_map(|group| &group.dimensions).map(|dimension| dimension.name.as_str()));
        let mut names: BTreeMap<&str, String> = BTreeMap::new();
        let mut records = Self::default();
        let coordinates = Coordinates::of(model);
        let plans = plan.by_path();
        for (index, variable) in model.variables.iter().enumerate() {
            let Some(Action::Encode(choice)) = plans.get(variable.path.as_str()).map(|planned| &planned.action) else {
                continue;
            };
            if choice.bound.is_none() || choice.fallback.is_none() {
                continue;
            }
            // 8.4: not for what locates or measures other variables.
            let done = Quantization::of(choice, variable.dtype).filter(|_| !coordinates.has(variable));
            if let (Some(done), Some(earlier)) = (done, Quantization::recorded(variable))
                && earlier.is_coarser(done)
            {
                continue;
            }
            let present = variable.attributes.iter().map(|attribute| &attribute.name);
            let stale: Vec<String> = present.filter(|name| is_record(name)).cloned().collect();
            if !stale.is_empty() {
                records.stale.insert(index, stale);
            }
            let Some(done) = done else { continue };
            let name = names.entry(done.algorithm()).or_insert_with(|| {
                let made = container("", done.algorithm());
                let known = model.variables.iter().find(|old| {
                    base(&old.path) == old.name()
                        && old.shape.is_empty()
                        && made
                            .attributes
                            .iter()
                            .all(|attribute| old.attribute(&attribute.name) == Some(&attribute.value))
                });
                if let Some(known) = known {
                    return known.name().to_owned();
                }
                let earlier: Vec<&str> = records.new.iter().map(Variable::name).collect();
                let name = free_name(|name| used.contains(name) || earlier.contains(&name));
                records.new.push(container(&name, done.algorithm()));
                name
            });
            records.attributes.insert(index, done.attributes(name));
        }
        records
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The name of the convention's examples, with a number where it is taken.
fn free_name(is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = "quantization_info".to_owned();
    let mut number = 2;
    while is_taken(&name) {
        name = format!("quantization_info_{number}");
        number += 1;
    }
    name
}

/// A quantization variable of the root group: a character as in the convention's examples, without data.
fn container(name: &str, algorithm: &str) -> Variable {
    let implementation = concat!("Knarr version ", env!("CARGO_PKG_VERSION"));
    Variable {
        attributes: vec![text(ALGORITHM, algorithm), text(IMPLEMENTATION, implementation)],
        copied_because: Some("it is a single value".to_owned()),
        ..Variable::plain(format!("/{name}"), DType::Opaque(1), Vec::new())
    }
}

/// True for a quantization variable, whoever wrote it: a scalar with the two attributes of 8.4.1 that a variable
/// names. It holds no data, so neither comparison nor hash count it.
pub fn is_container(model: &Model, variable: &Variable) -> bool {
    variable.shape.is_empty()
        && [ALGORITHM, IMPLEMENTATION].iter().all(|name| variable.attribute(name).is_some())
        && model.variables.iter().any(|other| match other.attribute(CONTAINER_ATTRIBUTE) {
            Some(AttributeValue::Text(name)) => name == base(&variable.path),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::goal::{Goal, Merits};
    use knarr_choose::features::Features;
    use knarr_choose::plan::VariablePlan;
    use knarr_codec::codec::ReaderLevel;

    fn choice(chain: &str, fallback: &str) -> Choice {
        let quality = Quality { significant_bits: Some(7), ..Quality::LOSSLESS };
        Choice {
            chunk: vec![4],
            chain: chain.parse().unwrap(),
            fallback: Some(fallback.parse().unwrap()),
            quality,
            bound: quality.bound(None),
            reader: ReaderLevel::Core,
            expected: Merits { ratio: 1.0, encode: 1.0, decode: 1.0, energy: 1.0 },
            reason: String::new(),
            missed: None,
            wider: Vec::new(),
            features: Features::default(),
            candidates: Vec::new(),
            sample_bytes: 0,
            seconds: 0.0,
        }
    }

    fn float(path: &str, chain: &str) -> (Variable, VariablePlan) {
        let variable =
            Variable { dtype: DType::F32, shape: vec![4], attributes: Vec::new(), ..container(&path[1..], "") };
        let plan = VariablePlan {
            path: path.to_owned(),
            dtype: DType::F32,
            shape: vec![4],
            raw_bytes: 16,
            action: Action::Encode(Box::new(choice(chain, "zstd:3"))),
            unmet: Vec::new(),
        };
        (variable, plan)
    }

    fn records(variables: &[(Variable, VariablePlan)], taken: &[&str]) -> Records {
        let model =
            Model { groups: vec![], variables: variables.iter().map(|(variable, _)| variable.clone()).collect() };
        let plan = Plan {
            version: 1,
            program: String::new(),
            input: String::new(),
            destination: knarr_choose::form::Form::Hdf5,
            goal: Goal::balanced(),
            portable: ReaderLevel::Core,
            profile: String::new(),
            energy_source: String::new(),
            input_file: None,
            variables: variables.iter().map(|(_, plan)| plan.clone()).collect(),
            lacking: Vec::new(),
            left_out: None,
        };
        let taken: Vec<String> = taken.iter().map(|&name| name.to_owned()).collect();
        Records::of(&model, &plan, &taken)
    }

    #[test]
    fn only_what_the_convention_describes_is_recorded() {
        let of = |chain: &str, fallback: &str| Quantization::of(&choice(chain, fallback), DType::F32);
        assert_eq!(of("round:bits=7 | zstd:3", "zstd:3"), Some(Quantization::Bits(7)));
        assert_eq!(of("bitround:7 | zstd:3", "zstd:3"), Some(Quantization::Bits(7)));
        assert_eq!(of("round:digits=3 | zstd:3", "zstd:3"), Some(Quantization::Digits(3)));
        assert_eq!(of("granular:digits=3 | zstd:3", "zstd:3"), Some(Quantization::Digits(3)));
        for chain in ["round:abs=0.1", "round:bits=7,finest=0.1", "round:bits=7,abs=0.1", "bitround:0", "granular:9"] {
            assert_eq!(of(&format!("{chain} | zstd:3"), "zstd:3"), None, "{chain}");
        }
        assert_eq!(of("round:bits=7 | zfp:accuracy,value=0.1", "raw"), None, "two steps change values");
    }

    #[test]
    fn the_coarser_of_two_roundings_is_the_one_on_record() {
        let count = |name: &str, count: u32| {
            let bytes = count.to_le_bytes().to_vec();
            let value = AttributeValue::Numbers { dtype: DType::I32, bytes, scalar: true };
            Attribute { name: name.to_owned(), value }
        };
        let again = |earlier: &[Attribute], chain: &str| {
            let (mut variable, plan) = float("/T", chain);
            variable.attributes = earlier.to_vec();
            let found = records(&[(variable, plan)], &[]);
            let name = found.attributes.get(&0).map(|attributes| attributes[1].name.clone());
            (name, found.stale.get(&0).cloned().unwrap_or_default())
        };
        let digits = Quantization::Digits(3).attributes("q").to_vec();
        let (nsb, nsd) = (BITS_ATTRIBUTE.to_owned(), DIGITS_ATTRIBUTE.to_owned());
        let all = vec![CONTAINER_ATTRIBUTE.to_owned(), nsd.clone()];
        assert_eq!(again(&digits, "round:bits=7 | zstd:3"), (Some(nsb.clone()), all.clone()), "7 bits are 2.1 digits");
        assert_eq!(again(&digits, "round:bits=12 | zstd:3"), (None, vec![]), "3 digits need 10 bits");
        assert_eq!(again(&digits, "round:digits=3 | zstd:3"), (Some(nsd.clone()), all.clone()));
        assert_eq!(again(&digits, "round:abs=0.1 | zstd:3"), (None, all), "no words for what it is now");
        assert_eq!(again(&[count("_QuantizeBitRoundNumberOfSignificantBits", 5)], "round:bits=7 | zstd:3").0, None);
        let of_netcdf = "_QuantizeGranularBitRoundNumberOfSignificantDigits";
        let found = again(&[count(of_netcdf, 4)], "round:bits=7 | zstd:3");
        assert_eq!(found, (Some(nsb.clone()), vec![of_netcdf.to_owned()]));
        let both = [digits, vec![count(BITS_ATTRIBUTE, 3)]].concat();
        let stale = vec![CONTAINER_ATTRIBUTE.to_owned(), nsd, nsb.clone()];
        assert_eq!(again(&both, "round:bits=7 | zstd:3"), (Some(nsb), stale), "two records say nothing");
    }

    #[test]
    fn names_do_not_collide_and_known_records_are_used_again() {
        let first = records(&[float("/T", "round:bits=7 | zstd:3"), float("/q", "round:digits=3 | zstd:3")], &[]);
        let names: Vec<_> = first.new.iter().map(Variable::name).collect();
        assert_eq!(names, ["quantization_info", "quantization_info_2"]);
        let taken = records(&[float("/T", "round:bits=7 | zstd:3")], &["quantization_info"]);
        assert_eq!(taken.new[0].name(), "quantization_info_2");
        let known = (container("quantization_info", "bitround"), float("/x", "zstd:3").1);
        let again = records(&[known, float("/T", "round:bits=7 | zstd:3")], &[]);
        assert!(again.new.is_empty());
        assert_eq!(again.attributes[&1][0].value, AttributeValue::Text("quantization_info".to_owned()));
    }
}
