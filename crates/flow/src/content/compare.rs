//! Comparison of two files: equal bits, or the largest error against a promised bound.

use std::collections::HashMap;

use serde::Serialize;

use super::{MetadataDifference, blocks, compare_metadata, read_block};
use crate::bands::Bands;
use crate::rounding::provenance::{doubt, promised};
use crate::rounding::quantization::is_container;
use crate::store::{Source, Strings};
use crate::threads::engine::{Engine, Progress};
use knarr_array::array::{ArraySpec, Endian};
use knarr_array::error::{ErrorKind, Result};
use knarr_array::model::{Model, Variable};
use knarr_array::quality::{Bound, Observed, Quality};
use knarr_array::region::{chunk_position, chunk_region};

/// How a variable of one file stands to its namesake in another.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// All bits are equal.
    Equal,
    /// Bits differ and the promised bound holds for every element.
    WithinBound,
    /// Bits differ and no bound was promised, or it does not hold; says where first.
    Differs(String),
    /// Only one file has it, or type or shape differ; says which.
    Unlike(String),
    /// The values cannot be compared; says why.
    NotCompared(String),
}

/// Comparison of one variable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariableComparison {
    /// Absolute path.
    pub path: String,
    /// The verdict.
    pub difference: Difference,
    /// What was promised, if anything.
    pub promised: Quality,
    /// The largest errors seen; absent if the values were not compared or are not floating point.
    pub observed: Option<Observed>,
}

impl VariableComparison {
    /// True for equal bits, for a bound that holds, and for what cannot be compared.
    pub fn passes(&self) -> bool {
        matches!(self.difference, Difference::Equal | Difference::WithinBound | Difference::NotCompared(_))
    }
}

/// What a comparison of two files found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// True if every variable passes and nothing else differs.
    pub equal: bool,
    /// One entry a variable.
    pub variables: Vec<VariableComparison>,
    /// Differences of groups, dimensions, types and attributes.
    pub metadata: Vec<MetadataDifference>,
}

/// Compares the values and, unless `values_only`, everything else ([`compare_metadata`]).
///
/// # Errors
/// What reading reports.
pub fn verify(
    engine: &Engine,
    original: &dyn Source,
    copy: &dyn Source,
    values_only: bool,
    progress: &dyn Progress,
) -> Result<Verified> {
    let variables = compare(engine, original, copy, progress)?;
    let metadata = if values_only { Vec::new() } else { compare_metadata(original, copy) };
    let equal = variables.iter().all(VariableComparison::passes) && metadata.is_empty();
    Ok(Verified { equal, variables, metadata })
}

/// Compares every variable of `original` and `copy`. The promise is the one recorded in `copy`. Quantization variables
/// hold no data: one that `copy` has more is passed over, one that it lacks is a difference.
///
/// # Errors
/// What reading reports.
pub fn compare(
    engine: &Engine,
    original: &dyn Source,
    copy: &dyn Source,
    progress: &dyn Progress,
) -> Result<Vec<VariableComparison>> {
    for source in [original, copy] {
        engine.bound(source);
        source.will_read_all();
    }
    let (a, b) = (original.model(), copy.model());
    progress.begin("comparing", a.variables.iter().map(Variable::raw_bytes).sum());
    let (in_a, in_b) = (by_path(a), by_path(b));
    let mut found = Vec::new();
    for (index, variable) in a.variables.iter().enumerate() {
        found.push(match in_b.get(variable.path.as_str()) {
            Some(_) if is_container(a, variable) => continue,
            Some(&other) => compare_variable(engine, (original, index), (copy, other), progress)?,
            None => unlike(&variable.path, "only in the first file"),
        });
    }
    let is_missing = |variable: &&Variable| !in_a.contains_key(variable.path.as_str()) && !is_container(b, variable);
    let missing = b.variables.iter().filter(is_missing);
    found.extend(missing.map(|variable| unlike(&variable.path, "only in the second file")));
    Ok(found)
}

/// Numbers of the variables of a model.
pub(super) fn by_path(model: &Model) -> HashMap<&str, usize> {
    model.variables.iter().enumerate().map(|(index, variable)| (variable.path.as_str(), index)).collect()
}

fn unlike(path: &str, why: &str) -> VariableComparison {
    VariableComparison {
        path: path.to_owned(),
        difference: Difference::Unlike(why.to_owned()),
        promised: Quality::LOSSLESS,
        observed: None,
    }
}

/// As [`compare_values`]; values that no region can be read of (variable length, references) are not compared.
fn compare_variable(
    engine: &Engine,
    original: (&dyn Source, usize),
    copy: (&dyn Source, usize),
    progress: &dyn Progress,
) -> Result<VariableComparison> {
    let is_opaque = |(source, index): (&dyn Source, usize)| source.model().variables[index].copied_because.is_some();
    match compare_values(engine, original, copy, progress) {
        // Anything else that is not served, such as a region that memory has no place for, is no result.
        Err(error) if error.kind() == ErrorKind::Unsupported && (is_opaque(original) || is_opaque(copy)) => {
            Ok(VariableComparison {
                path: original.0.model().variables[original.1].path.clone(),
                difference: Difference::NotCompared(error.message().to_owned()),
                promised: Quality::LOSSLESS,
                observed: None,
            })
        }
        result => result,
    }
}

fn compare_values(
    engine: &Engine,
    (original, i): (&dyn Source, usize),
    (copy, j): (&dyn Source, usize),
    progress: &dyn Progress,
) -> Result<VariableComparison> {
    let (a, b) = (&original.model().variables[i], &copy.model().variables[j]);
    if original.strings(i) == Some(Strings::Variable) && copy.strings(j) == Some(Strings::Variable) {
        return compare_strings((original, i), (copy, j));
    }
    if a.dtype != b.dtype {
        return Ok(unlike(&a.path, &format!("type {} against {}", a.dtype, b.dtype)));
    }
    if a.shape != b.shape {
        return Ok(unlike(&a.path, &format!("shape {:?} against {:?}", a.shape, b.shape)));
    }
    let promised = promised(b);
    let result = |difference, observed| VariableComparison { path: a.path.clone(), difference, promised, observed };
    let (block, count) = blocks(a)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let spec = |extents: &[u64]| ArraySpec { endian: Endian::Little, ..a.chunk_spec(extents) };
    let range = if promised.needs_range() {
        let values = Bands::new(engine, original, i, &block, engine.max_mem / 5)?;
        let ranges = engine.parallel(count, |number| {
            let mut bytes = Vec::new();
            let extents = read_block(&values, number as u64, &mut bytes)?;
            Ok(promised.valid_range(&spec(&extents), &bytes))
        })?;
        ranges.into_iter().flatten().reduce(|x, y| (x.0.min(y.0), x.1.max(y.1)))
    } else {
        None
    };
    let bound = promised.bound(range);
    let elements: u64 = block.iter().product();
    let bands = |source, index| Bands::new(engine, source, index, &block, room_for_bands(engine.max_mem));
    let (values, others) = (bands(original, i)?, bands(copy, j)?);
    let parts = engine.parallel(count, |number| {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let extents = read_block(&values, number as u64, &mut x)?;
        read_block(&others, number as u64, &mut y)?;
        progress.advance(x.len() as u64);
        Ok(Part::of(&spec(&extents), &x, &y, bound.as_ref(), number as u64 * elements))
    })?;
    let observed = parts.iter().filter_map(|part| part.observed).reduce(Observed::merge);
    let failed = parts.iter().find_map(|part| part.failed.clone());
    let difference = match failed {
        Some(why) => Difference::Differs(match doubt(b) {
            Some(doubt) => format!("{why}; {doubt}"),
            None => why,
        }),
        None if parts.iter().all(|part| part.equal) => Difference::Equal,
        None => Difference::WithinBound,
    };
    Ok(result(difference, observed.filter(|_| a.dtype.is_float())))
}

/// The memory that the bands of one of two sources may take. Both sources keep chunks, too.
fn room_for_bands(max_mem: u64) -> u64 {
    /// What the program and its libraries take, with filters that HDF5 finds.
    const TAKEN: u64 = 12 << 20;
    (max_mem - TAKEN.min(max_mem / 2)) / 5
}

/// Strings of variable length, whose stored form says nothing about their content.
fn compare_strings((original, i): (&dyn Source, usize), (copy, j): (&dyn Source, usize)) -> Result<VariableComparison> {
    let (a, b) = (&original.model().variables[i], &copy.model().variables[j]);
    if a.shape != b.shape {
        return Ok(unlike(&a.path, &format!("shape {:?} against {:?}", a.shape, b.shape)));
    }
    let (block, count) = blocks(a)?;
    let elements: u64 = block.iter().product();
    let mut difference = Difference::Equal;
    for number in 0..count {
        let region = chunk_region(&a.shape, &block, &chunk_position(&a.shape, &block, number));
        let (x, y) = (original.read_strings(i, &region)?, copy.read_strings(j, &region)?);
        if x != y {
            let at = x.iter().zip(&y).position(|(x, y)| x != y).unwrap_or(0) as u64;
            difference = Difference::Differs(format!("strings differ first at element {}", number * elements + at));
            break;
        }
    }
    Ok(VariableComparison { path: a.path.clone(), difference, promised: Quality::LOSSLESS, observed: None })
}

struct Part {
    equal: bool,
    observed: Option<Observed>,
    failed: Option<String>,
}

impl Part {
    /// `first` is the row-major index of the first element of the block in its variable.
    fn of(spec: &ArraySpec, x: &[u8], y: &[u8], bound: Option<&Bound>, first: u64) -> Self {
        if x == y {
            return Self { equal: true, observed: Some(Observed::default()), failed: None };
        }
        // What is only measured has no missing values to protect: every difference is a finding anyway.
        let measured = Bound::NONE
            .check(&ArraySpec { fills: Vec::new(), ..spec.clone() }, x, y)
            .ok()
            .map(|seen| Observed { worst: seen.worst + usize::try_from(first).unwrap_or(usize::MAX), ..seen });
        let failed = match bound {
            Some(bound) => bound.check(spec, x, y).err().map(|error| error.message().to_owned()),
            None => {
                let size = spec.dtype.size().max(1);
                let at = x.iter().zip(y).position(|(a, b)| a != b).unwrap_or(0) / size;
                Some(format!("bits differ first at element {}", first + at as u64))
            }
        };
        Self { equal: false, observed: measured, failed }
    }
}
