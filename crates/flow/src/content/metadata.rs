//! Comparison of everything but values: groups, dimensions, types, attributes and links.
//!
//! What Knarr adds is expected: its own attributes, those of [`crate::rounding::quantization`], a line of `history`. What the
//! format of the copy has no words for is no difference: number types of attributes and lengths of unused dimensions
//! in Zarr, HDF5's types outside of HDF5.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Serialize;

use super::compare::by_path;
use crate::rounding::provenance::QUALITY_ATTRIBUTE;
use crate::rounding::quantization::is_record;
use crate::store::Source;
use knarr_array::array::{DType, Endian};
use knarr_array::model::{Attribute, AttributeValue, ElementType, Group, Link, LinkTarget, Model, Variable, latin1};

/// A difference that is not one of values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetadataDifference {
    /// Path of the group or variable.
    pub place: String,
    /// What differs, in words.
    pub what: String,
}

/// Attributes that a variable of Zarr has in place of the names of an enumeration (CF conventions 3.5).
const FLAGS: [&str; 2] = ["flag_values", "flag_meanings"];

/// Compares groups, dimensions, types, attributes and links of two files. Variables that only one of them has are left to
/// [`super::compare`].
pub fn compare_metadata(original: &dyn Source, copy: &dyn Source) -> Vec<MetadataDifference> {
    let mut found = Findings { pair: Pair::of(original, copy), list: Vec::new() };
    if found.pair.hdf5 {
        found.links((original.model(), original.path()), (copy.model(), copy.path()));
    }
    let (a, b) = (original.model(), copy.model());
    let groups: BTreeMap<&str, &Group> = b.groups.iter().map(|group| (group.path.as_str(), group)).collect();
    for group in &a.groups {
        match groups.get(group.path.as_str()) {
            Some(other) => found.groups(group, other),
            None => found.add(&group.path, "group only in the first file"),
        }
    }
    let known: HashSet<&str> = a.groups.iter().map(|group| group.path.as_str()).collect();
    for group in &b.groups {
        if !known.contains(group.path.as_str()) {
            found.add(&group.path, "group only in the second file");
        }
    }
    let others = by_path(b);
    for (i, variable) in a.variables.iter().enumerate() {
        if let Some(&j) = others.get(variable.path.as_str())
            && let Some(other) = b.variables.get(j)
        {
            let named = |source: &dyn Source, index, variable: &Variable| Variable {
                dimensions: source.axis_names(index),
                ..variable.clone()
            };
            let (variable, other) = (named(original, i, variable), named(copy, j, other));
            found.variables((&variable, original.element_type(i)), (&other, copy.element_type(j)));
        }
    }
    found.list
}

/// What the two formats have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair {
    /// One is Zarr: attributes are JSON.
    json: bool,
    /// Both are HDF5: everything has its own type.
    hdf5: bool,
    /// Both have the same words for what is not a plain number.
    typed: bool,
    /// One is HDF5, where text ends at a NUL. In netCDF-3 it may have one, as C programs write it.
    ends_text: bool,
}

impl Pair {
    fn of(a: &dyn Source, b: &dyn Source) -> Self {
        let both = |f: fn(&str) -> bool| (f(a.format()), f(b.format()));
        let (zarr_a, zarr_b) = both(|format| format.starts_with("Zarr"));
        let (hdf5_a, hdf5_b) = both(|format| matches!(format, "HDF5" | "netCDF-4"));
        let hdf5 = hdf5_a && hdf5_b;
        Self { json: zarr_a || zarr_b, hdf5, typed: hdf5 || zarr_a && zarr_b, ends_text: hdf5_a != hdf5_b }
    }
}

struct Findings {
    pair: Pair,
    list: Vec<MetadataDifference>,
}

impl Findings {
    fn add(&mut self, place: &str, what: impl Into<String>) {
        self.list.push(MetadataDifference { place: place.to_owned(), what: what.into() });
    }

    /// Links of two files, which are at these paths.
    fn links(&mut self, (a, a_path): (&Model, &Path), (b, b_path): (&Model, &Path)) {
        let mut others: BTreeMap<&str, &LinkTarget> =
            b.links().map(|link| (link.path.as_str(), &link.target)).collect();
        for Link { path, target } in a.links() {
            match others.remove(path.as_str()) {
                None => self.add(path, format!("link ({target}) only in the first file")),
                Some(other) if other != target && found(other, b_path) != found(target, a_path) => {
                    self.add(path, format!("link: {target} became {other}"));
                }
                Some(_) => {}
            }
        }
        for (path, target) in others {
            self.add(path, format!("link ({target}) only in the second file"));
        }
    }

    fn groups(&mut self, a: &Group, b: &Group) {
        // Zarr has dimensions only where variables have them, and none that grow.
        if !self.pair.json {
            for dimension in &a.dimensions {
                let text = |len: u64, unlimited| if unlimited { format!("{len}, unlimited") } else { len.to_string() };
                let was = text(dimension.len, dimension.unlimited);
                match b.dimensions.iter().find(|other| other.name == dimension.name) {
                    None => self.add(&a.path, format!("dimension '{}' ({was}) only in the first file", dimension.name)),
                    Some(other) if other != dimension => {
                        let is = text(other.len, other.unlimited);
                        self.add(&a.path, format!("dimension '{}': {was} became {is}", dimension.name));
                    }
                    Some(_) => {}
                }
            }
            for dimension in b.dimensions.iter().filter(|d| !a.dimensions.iter().any(|other| other.name == d.name)) {
                self.add(&a.path, format!("dimension '{}' only in the second file", dimension.name));
            }
        }
        let may_change = |name: &str| a.path == "/" && name == "history";
        self.attributes(&a.path, &a.attributes, &b.attributes, may_change);
    }

    fn variables(
        &mut self,
        (a, a_type): (&Variable, Option<&ElementType>),
        (b, b_type): (&Variable, Option<&ElementType>),
    ) {
        let same_name = |(a, b): (&Option<String>, &Option<String>)| {
            // What netCDF-C calls axes without a name.
            a == b || a.is_none() && b.as_deref().is_some_and(|name| name.starts_with("phony_dim_"))
        };
        if a.dimensions.len() != b.dimensions.len() || !a.dimensions.iter().zip(&b.dimensions).all(same_name) {
            let names = |variable: &Variable| -> String {
                let names: Vec<&str> = variable.dimensions.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
                format!("({})", names.join(", "))
            };
            self.add(&a.path, format!("dimensions {} became {}", names(a), names(b)));
        }
        if !self.pair.json && a.shape == b.shape && a.max_shape != b.max_shape {
            let limits = |variable: &Variable| -> String {
                let limits = variable.max_shape.iter();
                let limits: Vec<_> =
                    limits.map(|limit| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string())).collect();
                format!("({})", limits.join(", "))
            };
            self.add(&a.path, format!("largest shape {} became {}", limits(a), limits(b)));
        }
        if self.pair.typed && a_type != b_type {
            let text = |kind: Option<&ElementType>, dtype: DType| kind.map_or(dtype.to_string(), ToString::to_string);
            self.add(&a.path, format!("type {} became {}", text(a_type, a.dtype), text(b_type, b.dtype)));
        }
        // Other formats store all numbers in one order, and so say nothing about it.
        let has_order = a.dtype.size() > 1 && !matches!(a.dtype, DType::Opaque(_));
        if self.pair.hdf5 && has_order && a.dtype == b.dtype && a.endian != b.endian {
            let text = |variable: &Variable| if variable.endian == Endian::Big { "big" } else { "little" };
            self.add(&a.path, format!("byte order {}-endian became {}-endian", text(a), text(b)));
        }
        let named = !self.pair.hdf5 && matches!(a_type, Some(ElementType::Bool | ElementType::Enum { .. }));
        self.attributes(&a.path, &a.attributes, &b.attributes, |name| named && FLAGS.contains(&name));
    }

    /// `may_change` names attributes that may be added or replaced, besides Knarr's own.
    fn attributes(&mut self, place: &str, a: &[Attribute], b: &[Attribute], may_change: impl Fn(&str) -> bool) {
        let expected = |name: &str| may_change(name) || name.starts_with("knarr_") || is_record(name);
        let is_rounded = b.iter().any(|attribute| attribute.name == QUALITY_ATTRIBUTE);
        for attribute in a {
            let name = &attribute.name;
            match b.iter().find(|other| other.name == *name) {
                // Rounded again, values are no longer what an older record says.
                None if is_rounded && is_record(name) => {}
                None => self.add(place, format!("attribute '{name}' only in the first file")),
                Some(other) if !expected(name) && !self.same(&attribute.value, &other.value) => {
                    let what = format!("attribute '{name}': {} became {}", show(&attribute.value), show(&other.value));
                    self.add(place, what);
                }
                Some(_) => {}
            }
        }
        for attribute in b {
            let name = &attribute.name;
            if !expected(name) && !a.iter().any(|other| other.name == *name) {
                self.add(place, format!("attribute '{name}' only in the second file"));
            }
        }
    }

    fn same(&self, a: &AttributeValue, b: &AttributeValue) -> bool {
        use AttributeValue::{Numbers, Strings, Text};
        match (a, b) {
            // netCDF-3 has bytes where others have text.
            (Numbers { dtype: DType::Opaque(1), bytes, .. }, Text(_)) if !self.pair.hdf5 => {
                self.same(&Text(latin1(bytes)), b)
            }
            (Text(_), Numbers { dtype: DType::Opaque(1), bytes, .. }) if !self.pair.hdf5 => {
                self.same(a, &Text(latin1(bytes)))
            }
            (Numbers { dtype, bytes, scalar }, Numbers { dtype: dtype_b, bytes: bytes_b, scalar: scalar_b }) => {
                if self.pair.json {
                    return numbers(*dtype, bytes).eq_close(&numbers(*dtype_b, bytes_b));
                }
                // netCDF has no single numbers, only arrays of one.
                dtype == dtype_b && bytes == bytes_b && (scalar == scalar_b || !self.pair.hdf5)
            }
            (Text(a), Text(b)) if self.pair.ends_text => a.split('\0').next() == b.split('\0').next(),
            (Text(text), Strings(list)) | (Strings(list), Text(text)) => {
                !self.pair.hdf5 && matches!(list.as_slice(), [only] if only == text)
            }
            (Numbers { dtype, bytes, .. }, Text(text)) | (Text(text), Numbers { dtype, bytes, .. }) => {
                self.pair.json && json_numbers(text).is_some_and(|other| numbers(*dtype, bytes).eq_close(&other))
            }
            // An empty list has no type in JSON.
            (Numbers { bytes, .. }, Strings(list)) | (Strings(list), Numbers { bytes, .. }) => {
                self.pair.json && bytes.is_empty() && list.is_empty()
            }
            _ => a == b,
        }
    }
}

/// Where a link of `file` leads: HDF5 looks for other files beside it.
fn found(target: &LinkTarget, file: &Path) -> LinkTarget {
    let LinkTarget::External { file: other, path } = target else { return target.clone() };
    let place = file.parent().unwrap_or(Path::new("")).join(other).canonicalize();
    let other = place.map_or(other.clone(), |place| place.display().to_string());
    LinkTarget::External { file: other, path: path.clone() }
}

/// Numbers of an attribute as values.
struct Values {
    /// Whole numbers, where the type has only these.
    whole: Option<Vec<i128>>,
    float: Vec<f64>,
    /// Some are known to no more than 24 bits.
    single: bool,
}

impl Values {
    /// Equal as numbers of the less precise type; NaN equals NaN.
    fn eq_close(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (&self.whole, &other.whole) {
            return a == b;
        }
        #[expect(clippy::cast_possible_truncation, reason = "compared in the type that one of them has")]
        let same = |a: f64, b: f64| {
            a == b
                || a.is_nan() && b.is_nan()
                || (self.single || other.single) && (a as f32).to_bits() == (b as f32).to_bits()
        };
        self.float.len() == other.float.len() && self.float.iter().zip(&other.float).all(|(&a, &b)| same(a, b))
    }
}

/// Numbers where some are what JSON has no numbers for, in the strings that Zarr has for them.
fn json_numbers(text: &str) -> Option<Values> {
    let special = |text: &str| match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    };
    let float = match special(text) {
        Some(only) => vec![only],
        None => serde_json::from_str::<Vec<serde_json::Value>>(text)
            .ok()?
            .iter()
            .map(|item| item.as_f64().or_else(|| special(item.as_str()?)))
            .collect::<Option<_>>()?,
    };
    Some(Values { whole: None, float, single: false })
}

#[expect(clippy::cast_precision_loss, reason = "whole numbers are compared as such where both are")]
fn numbers(dtype: DType, bytes: &[u8]) -> Values {
    let elements = bytes.chunks_exact(dtype.size().max(1)).map(|element| {
        let mut wide = [0u8; 8];
        wide.iter_mut().zip(element).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(wide)
    });
    let unused = 64 - 8 * u32::try_from(dtype.size().clamp(1, 8)).unwrap_or(8);
    let float = |bits: u64| match dtype {
        DType::F32 => f64::from(f32::from_bits(u32::try_from(bits).unwrap_or(0))),
        _ => f64::from_bits(bits),
    };
    if !dtype.is_integer() {
        return Values { whole: None, float: elements.map(float).collect(), single: dtype == DType::F32 };
    }
    let whole: Vec<i128> =
        elements
            .map(|bits| {
                if dtype.is_signed() { i128::from((bits << unused).cast_signed() >> unused) } else { i128::from(bits) }
            })
            .collect();
    Values { float: whole.iter().map(|&value| value as f64).collect(), whole: Some(whole), single: false }
}

/// A value for people, cut where it is long.
fn show(value: &AttributeValue) -> String {
    let text = match value {
        AttributeValue::Text(text) => format!("{text:?}"),
        AttributeValue::Strings(strings) => format!("{strings:?}"),
        AttributeValue::Numbers { dtype: DType::Opaque(1), bytes, .. } => format!("{:?}", latin1(bytes)),
        AttributeValue::Numbers { dtype, bytes, scalar } => {
            let values = numbers(*dtype, bytes);
            let list: Vec<String> = match values.whole {
                Some(whole) => whole.iter().map(ToString::to_string).collect(),
                None => values.float.iter().map(|value| format!("{value:?}")).collect(),
            };
            if *scalar { format!("{} ({dtype})", list.join("")) } else { format!("[{}] ({dtype})", list.join(", ")) }
        }
        AttributeValue::Other { what, content } if content.is_empty() => what.clone(),
        AttributeValue::Other { what, content } => format!("{content} ({what})"),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

const LONGEST: usize = 80;
