//! A source whose values are made when they are read.

use std::any::Any;
use std::path::Path;

use super::missing::Missing;
use super::random::Stream;
use super::spec::Range;
use super::{Asked, Field, FieldSpec, Noise, Values, linear, pattern, scale};
use crate::store::Source;
use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model, Variable};
use knarr_array::region::Region;

/// Elements computed at a time.
const RUN: usize = 4096;

/// Generated variables as a file that could be read.
pub struct Generated {
    model: Model,
    fields: Vec<Prepared>,
}

/// One variable, ready to be computed.
struct Prepared {
    field: Box<dyn Field>,
    /// `None` if the pattern's values are the variable's own.
    range: Option<Range>,
    noise: Option<(Noise, Stream)>,
    missing: Option<Missing>,
    fill: Vec<u8>,
}

impl Generated {
    /// Prepares the variables that are asked for.
    ///
    /// # Errors
    /// `Usage` for what cannot be served, with the variable.
    pub fn new(specs: &[FieldSpec]) -> Result<Self> {
        let mut model = Model { groups: vec![root()], variables: Vec::new() };
        let mut fields = Vec::new();
        for spec in specs {
            let (variable, prepared) = prepare(spec).map_err(|error| error.at_variable(&spec.name))?;
            add_groups(&mut model, &variable)?;
            name_dimensions(&mut model, spec).map_err(|error| error.at_variable(&spec.name))?;
            model.variables.push(variable);
            fields.push(prepared);
        }
        if let Some(clash) = model.variables.iter().find(|v| model.groups.iter().any(|group| group.path == v.path)) {
            return Err(Error::usage("a group has the same name").at_variable(clash.name()));
        }
        Ok(Self { model, fields })
    }
}

fn root() -> Group {
    let source = Attribute {
        name: "source".to_owned(),
        value: AttributeValue::Text(concat!("knarr generate ", env!("CARGO_PKG_VERSION")).to_owned()),
    };
    Group { path: "/".to_owned(), attributes: vec![source], ..Group::default() }
}

fn prepare(spec: &FieldSpec) -> Result<(Variable, Prepared)> {
    let (pattern, options) = pattern(&spec.pattern)?;
    let dtype = spec.dtype.unwrap_or(pattern.dtype());
    if matches!(dtype, DType::Opaque(_)) {
        let types: Vec<String> = DType::NUMBERS.iter().map(ToString::to_string).collect();
        return Err(Error::usage(format!("patterns make numbers, not {dtype}")).hint(types.join(", ")));
    }
    let shape = spec.shape.as_deref().ok_or_else(|| Error::usage("it has no shape").hint("add --shape 24x180x360"))?;
    let bytes = shape.iter().try_fold(dtype.size() as u64, |product, n| product.checked_mul((*n).max(1)));
    if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
        return Err(Error::usage("the shape is larger than any file").hint("choose a smaller --shape"));
    }
    let field = pattern.prepare(&Asked { shape, dtype, options: &options, seed: spec.seed })?;
    let range = match (pattern.values(), spec.range) {
        (Values::Own(instead), Some(_)) => {
            return Err(Error::usage(format!("pattern '{}' takes no range", pattern.name())).hint(instead));
        }
        (Values::Own(_), None) => None,
        (Values::Scaled(own), asked) => Some(asked.or(own).unwrap_or(scale::usual_range(dtype))),
    };
    if let Some(range) = spec.range {
        // The ends of a range may lie between whole numbers.
        scale::check("range from", range.low.ceil(), dtype)?;
        scale::check("range to", range.high.floor(), dtype)?;
    }
    if let Some(value) = spec.fill_value {
        scale::check("fill value", value, dtype)?;
    }
    let fill = spec.fill.or(pattern.fill());
    let fill_value = scale::bits(spec.fill_value.unwrap_or(scale::usual_fill(dtype)), dtype);
    let has_fill = fill.is_some() || spec.fill_value.is_some();
    let mut variable = Variable::plain(format!("/{}", spec.name), dtype, shape.to_vec());
    if has_fill {
        variable.fills.push(fill_value);
        variable.padding = fill_value;
    }
    let element = variable.padding_bytes();
    if has_fill {
        let value = AttributeValue::Numbers { dtype, bytes: element.clone(), scalar: true };
        variable.attributes.push(Attribute { name: "_FillValue".to_owned(), value });
    }
    let comment = Attribute { name: "comment".to_owned(), value: AttributeValue::Text(words(spec, range)) };
    variable.attributes.push(comment);
    if let Some(names) = &spec.dimensions {
        if names.len() != shape.len() {
            return Err(Error::usage(format!("{} names for {} dimensions", names.len(), shape.len()))
                .hint("name each dimension once with --dims, slowest first"));
        }
        variable.dimensions = names.iter().cloned().map(Some).collect();
    }
    let noise = spec.noise.map(|noise| (noise, Stream::new(spec.seed, "noise")));
    let missing = fill.map(|fill| Missing::new(fill, spec.seed, shape));
    Ok((variable, Prepared { field, range, noise, missing, fill: element }))
}

/// How the variable was made, for those who find the file.
fn words(spec: &FieldSpec, range: Option<Range>) -> String {
    let mut words = format!("pattern {}, seed {}", spec.pattern, spec.seed);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push_str(&format!(", {name} {value}"));
        }
    };
    add("range", range.map(|range| range.to_string()));
    add("noise", spec.noise.map(|noise| noise.to_string()));
    add("missing values", spec.fill.map(|fill| fill.to_string()));
    words
}

/// Adds the groups that the path of a variable goes through.
fn add_groups(model: &mut Model, variable: &Variable) -> Result<()> {
    if model.variables.iter().any(|known| known.path == variable.path) {
        return Err(Error::usage("two variables have this name").hint("name them apart").at_variable(variable.name()));
    }
    for (at, _) in variable.path.match_indices('/').skip(1) {
        let path = variable.path.get(..at).unwrap_or_default();
        if model.groups.iter().all(|group| group.path != path) {
            model.groups.push(Group { path: path.to_owned(), ..Group::default() });
        }
    }
    Ok(())
}

/// Adds the dimensions that a variable names to the root group.
fn name_dimensions(model: &mut Model, spec: &FieldSpec) -> Result<()> {
    let Some(root) = model.groups.first_mut() else { return Ok(()) };
    for (name, len) in spec.dimensions.iter().flatten().zip(spec.shape.iter().flatten()) {
        match root.dimensions.iter().find(|known| known.name == *name) {
            None => root.dimensions.push(Dimension { name: name.clone(), len: *len, unlimited: false }),
            Some(known) if known.len == *len => {}
            Some(known) => {
                return Err(Error::usage(format!(
                    "dimension '{name}' has length {len} here and {} elsewhere",
                    known.len
                ))
                .hint("a dimension has one length: use another name"));
            }
        }
    }
    Ok(())
}

impl Prepared {
    /// Appends a run of elements along the last axis.
    fn run(&self, variable: &Variable, start: &[u64], values: &mut [f64], out: &mut Vec<u8>) {
        self.field.row(start, values);
        if let Some(range) = self.range {
            values.iter_mut().for_each(|value| *value = range.at(*value));
        }
        let first = linear(&variable.shape, start);
        if let Some((noise, stream)) = self.noise {
            for (i, value) in values.iter_mut().enumerate() {
                *value = noise.add(*value, stream, first.wrapping_add(i as u64));
            }
        }
        let begin = out.len();
        scale::append(values, variable.dtype, out);
        if let Some(missing) = &self.missing {
            missing.row(start, first, values.len(), |i| {
                let at = begin + i * self.fill.len();
                if let Some(element) = out.get_mut(at..at + self.fill.len()) {
                    element.copy_from_slice(&self.fill);
                }
            });
        }
    }
}

impl Source for Generated {
    fn model(&self) -> &Model {
        &self.model
    }

    fn path(&self) -> &Path {
        Path::new("generated")
    }

    fn format(&self) -> &str {
        "generated"
    }

    fn read_region(&self, variable: usize, region: &Region, out: &mut Vec<u8>) -> Result<()> {
        let (variable, prepared) = self.model.variable_with(variable, &self.fields)?;
        out.clear();
        region.check_inside(&variable.shape).map_err(|error| error.at_variable(variable.name()))?;
        if region.is_empty() {
            return Ok(());
        }
        let Region { start, count } = region;
        let bytes = region.volume().and_then(|elements| elements.checked_mul(variable.dtype.size() as u64));
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        bytes
            .and_then(|bytes| out.try_reserve_exact(bytes).ok())
            .ok_or_else(|| Error::unsupported("the region is too large for memory").at_variable(variable.name()))?;
        let row = count.last().copied().unwrap_or(1);
        let outer = count.split_last().map_or(&[][..], |(_, outer)| outer);
        let mut values = [0.0; RUN];
        let mut index = start.clone();
        for number in 0..outer.iter().product::<u64>() {
            let mut rest = number;
            for axis in (0..outer.len()).rev() {
                index[axis] = start[axis] + rest % outer[axis];
                rest /= outer[axis];
            }
            for first in (0..row).step_by(RUN) {
                if let (Some(last), Some(from)) = (index.last_mut(), start.last()) {
                    *last = from + first;
                }
                let len = usize::try_from(row - first).unwrap_or(RUN).min(RUN);
                prepared.run(variable, &index, &mut values[..len], out);
            }
        }
        Ok(())
    }

    fn is_written(&self, _variable: usize, _region: &Region) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
