//! What a file is to hold: dimensions, variables and attributes, in the order in which the program defines them.

use knarr_array::array::DType;
use knarr_array::error::{Error, Result};
use knarr_array::model::{Attribute, AttributeValue, Dimension, Group, Model};
use knarr_array::region::Region;
use knarr_array::request::AXES;
use knarr_formats::handed_over::described_variable;
use serde::{Deserialize, Serialize};

/// Bytes of a name, at most: `NC_MAX_NAME`.
const LONGEST_NAME: usize = 256;

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// Text.
    Text(String),
    /// Numbers, little-endian: one, or an array of one dimension.
    Numbers {
        /// Type of each.
        dtype: DType,
        /// Whole elements.
        bytes: Vec<u8>,
    },
}

/// One call that defines something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Definition {
    /// Its length; none for one that can grow.
    Dimension { name: String, length: Option<u64> },
    /// Names of its dimensions, slowest first, and what is wished for it, in words.
    Variable { name: String, dtype: DType, dimensions: Vec<String>, wishes: Vec<(String, String)> },
    /// Of a variable, or of the file.
    Attribute { variable: Option<String>, name: String, value: Value },
}

impl Definition {
    /// For people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Dimension { name, length: Some(length) } => format!("dimension '{name}' of length {length}"),
            Self::Dimension { name, length: None } => format!("dimension '{name}', which can grow"),
            Self::Variable { name, dtype, dimensions, .. } => {
                format!("variable '{name}' of {dtype} along ({})", dimensions.join(", "))
            }
            Self::Attribute { variable: Some(variable), name, .. } => format!("attribute '{name}' of '{variable}'"),
            Self::Attribute { variable: None, name, .. } => format!("attribute '{name}' of the file"),
        }
    }
}

/// What one rank has defined.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    all: Vec<Definition>,
    /// So many of them are those of all ranks.
    agreed: usize,
}

/// A variable that was defined.
pub(super) struct Defined<'a> {
    /// Its number among the variables.
    pub(super) number: u32,
    pub(super) dtype: DType,
    /// Length along each axis; none where it can grow.
    pub(super) lengths: Vec<Option<u64>>,
    name: &'a str,
    dimensions: &'a [String],
}

impl Definitions {
    /// What was defined since the ranks agreed.
    pub(super) fn news(&self) -> &[Definition] {
        self.all.get(self.agreed..).unwrap_or_default()
    }

    /// Compares what all ranks have defined since they agreed, in the order of ranks.
    ///
    /// # Errors
    /// `Usage` for the first difference.
    pub(super) fn agree(&mut self, all: &[Vec<Definition>]) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        for (rank, other) in all.iter().enumerate() {
            let longest = first.len().max(other.len());
            let Some(place) = (0..longest).find(|&place| first.get(place) != other.get(place)) else { continue };
            let say = |list: &[Definition]| list.get(place).map_or("nothing".to_owned(), Definition::describe);
            let (a, b) = (say(other), say(first));
            let what = match a == b {
                true => format!("ranks {rank} and 0 define {a} in different ways"),
                false => format!("rank {rank} defines {a} where rank 0 defines {b}"),
            };
            return Err(Error::usage(what).hint("define the same things in the same order on all ranks"));
        }
        self.agreed = self.all.len();
        Ok(())
    }

    /// Adds a dimension.
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, and for a length of 0.
    pub(super) fn dimension(&mut self, name: &str, length: Option<u64>) -> Result<()> {
        check_name(name)?;
        if self.length_of(name).is_some() {
            return Err(Error::usage("it is defined already"));
        }
        if length == Some(0) {
            return Err(Error::usage("its length is 0").hint("give at least 1, or let it grow (unlimited)"));
        }
        self.all.push(Definition::Dimension { name: name.to_owned(), length });
        Ok(())
    }

    /// Length of a dimension that was defined: `Some(None)` if it can grow.
    fn length_of(&self, wanted: &str) -> Option<Option<u64>> {
        self.all.iter().find_map(|definition| match definition {
            Definition::Dimension { name, length } if name == wanted => Some(*length),
            _ => None,
        })
    }

    /// Adds a variable.
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, and for dimensions that are not defined; `Unsupported` for elements
    /// that are no numbers.
    pub(super) fn variable(
        &mut self,
        name: &str,
        dtype: DType,
        dimensions: &[&str],
        wishes: Vec<(String, String)>,
    ) -> Result<()> {
        check_name(name)?;
        if self.find(name).is_some() {
            return Err(Error::usage("it is defined already"));
        }
        if matches!(dtype, DType::Opaque(_)) {
            return Err(
                Error::unsupported(format!("elements of type {dtype}")).hint("variables hold integers or floats")
            );
        }
        if dimensions.len() > AXES {
            return Err(Error::unsupported(format!("{} dimensions, of at most {AXES}", dimensions.len())));
        }
        if let Some(missing) = dimensions.iter().find(|dimension| self.length_of(dimension).is_none()) {
            return Err(Error::usage(format!("dimension '{missing}' is not defined")).hint("define dimensions first"));
        }
        let dimensions = dimensions.iter().map(|&dimension| dimension.to_owned()).collect();
        self.all.push(Definition::Variable { name: name.to_owned(), dtype, dimensions, wishes });
        Ok(())
    }

    /// Sets an attribute of a variable, or of the file.
    ///
    /// # Errors
    /// `Usage` for a name that cannot be or is taken, a variable that is not defined, and for a fill value that is not one
    /// number of the variable's type.
    pub(super) fn attribute(&mut self, variable: Option<&str>, name: &str, value: Value) -> Result<()> {
        check_name(name)?;
        let of = match variable {
            Some(variable) => Some(self.find(variable).ok_or_else(|| self.unknown(variable))?.dtype),
            None => None,
        };
        if let Value::Numbers { dtype, bytes } = &value
            && (bytes.is_empty() || dtype.size() == 0 || bytes.len() % dtype.size() != 0)
        {
            return Err(Error::usage("an attribute without numbers").hint("give at least one, or text"));
        }
        let is_fill = |dtype| matches!(&value, Value::Numbers { dtype: given, bytes } if *given == dtype && bytes.len() == given.size());
        if let Some(dtype) = of.filter(|&dtype| name == "_FillValue" && !is_fill(dtype)) {
            return Err(Error::usage(format!("the fill value is not one number of the variable's type, {dtype}")));
        }
        let is_taken = |definition: &Definition| matches!(definition, Definition::Attribute { variable: of, name: taken, .. } if taken == name && of.as_deref() == variable);
        if self.all.iter().any(is_taken) {
            return Err(Error::usage("it is set already"));
        }
        self.all.push(Definition::Attribute { variable: variable.map(str::to_owned), name: name.to_owned(), value });
        Ok(())
    }

    /// The variable of this name.
    pub(super) fn find(&self, wanted: &str) -> Option<Defined<'_>> {
        let variables = self.all.iter().filter_map(|definition| match definition {
            Definition::Variable { name, dtype, dimensions, .. } => Some((name, *dtype, dimensions)),
            _ => None,
        });
        let (number, (name, dtype, dimensions)) =
            variables.enumerate().find(|(_, (name, _, _))| name.as_str() == wanted)?;
        let lengths = dimensions.iter().map(|dimension| self.length_of(dimension).flatten()).collect();
        Some(Defined { number: u32::try_from(number).ok()?, dtype, lengths, name, dimensions })
    }

    /// What to say of a name that no variable has.
    pub(super) fn unknown(&self, name: &str) -> Error {
        let names = self.all.iter().filter_map(|definition| match definition {
            Definition::Variable { name, .. } => Some(name.as_str()),
            _ => None,
        });
        let names: Vec<&str> = names.collect();
        let hint = match names.is_empty() {
            true => "define it first; no variable is defined".to_owned(),
            false => format!("define it first; there are {}", names.join(", ")),
        };
        Error::usage(format!("there is no variable '{name}'")).hint(hint)
    }

    /// Wishes for each variable that has some.
    pub(super) fn wishes(&self) -> impl Iterator<Item = (&str, &[(String, String)])> {
        self.all.iter().filter_map(|definition| match definition {
            Definition::Variable { name, wishes, .. } if !wishes.is_empty() => Some((name.as_str(), wishes.as_slice())),
            _ => None,
        })
    }

    /// The file, as long as nothing was put. Dimensions that can grow have the length 0.
    pub(super) fn model(&self) -> Model {
        let mut root = Group { path: "/".to_owned(), ..Group::default() };
        for definition in &self.all {
            match definition {
                Definition::Dimension { name, length } => root.dimensions.push(Dimension {
                    name: name.clone(),
                    len: length.unwrap_or(0),
                    unlimited: length.is_none(),
                }),
                Definition::Attribute { variable: None, name, value } => root.attributes.push(attribute(name, value)),
                _ => {}
            }
        }
        let attributes = |of: &str| {
            let all = self.all.iter().filter_map(|definition| match definition {
                Definition::Attribute { variable: Some(variable), name, value } if variable == of => {
                    Some(attribute(name, value))
                }
                _ => None,
            });
            all.collect()
        };
        let variables = self.all.iter().filter_map(|definition| {
            let Definition::Variable { name, dtype, dimensions, .. } = definition else { return None };
            let along = |wanted: &String| root.dimensions.iter().find(|dimension| dimension.name == *wanted);
            let dimensions: Vec<&Dimension> = dimensions.iter().filter_map(along).collect();
            Some(described_variable(name, *dtype, &dimensions, attributes(name)))
        });
        let variables = variables.collect();
        Model { groups: vec![root], variables }
    }
}

impl Defined<'_> {
    /// Checks that values of a type can be put into a region.
    ///
    /// # Errors
    /// `Usage`.
    pub(super) fn check(&self, dtype: DType, region: &Region) -> Result<()> {
        let refuse = |why: String| Error::usage(why).at_variable(self.name);
        if dtype != self.dtype {
            return Err(refuse(format!("its elements are {}, not {dtype}", self.dtype))
                .hint("convert the array, or define the variable with its type"));
        }
        let axes = (self.lengths.len(), region.start.len(), region.count.len());
        if axes.0 != axes.1 || axes.0 != axes.2 {
            let (start, count) = (&region.start, &region.count);
            return Err(refuse(format!("a region from {start:?} of {count:?} elements, of {} dimensions", axes.0)));
        }
        for (axis, length) in self.lengths.iter().enumerate() {
            let end = region.start[axis].checked_add(region.count[axis]);
            let is_inside = end.is_some_and(|end| length.is_none_or(|length| end <= length));
            if !is_inside {
                let (start, count, name) = (region.start[axis], region.count[axis], &self.dimensions[axis]);
                let length = length.map_or("can grow, but not so far".to_owned(), |n| format!("has the length {n}"));
                return Err(refuse(format!(
                    "{count} elements from {start} on along dimension '{name}', which {length}"
                )));
            }
        }
        if region.volume().is_none() {
            return Err(refuse(format!("a region of {:?} elements", region.count)));
        }
        Ok(())
    }
}

fn attribute(name: &str, value: &Value) -> Attribute {
    let value = match value {
        Value::Text(text) => AttributeValue::Text(text.clone()),
        Value::Numbers { dtype, bytes } => {
            AttributeValue::Numbers { dtype: *dtype, bytes: bytes.clone(), scalar: bytes.len() == dtype.size() }
        }
    };
    Attribute { name: name.to_owned(), value }
}

/// Names that every format takes, and that are no patterns.
fn check_name(name: &str) -> Result<()> {
    let is_odd = |c: char| c.is_control() || matches!(c, '/' | '*' | '?');
    let is_trimmed = name.trim() == name;
    if name.is_empty()
        || name.len() > LONGEST_NAME
        || name.contains(is_odd)
        || !is_trimmed
        || matches!(name, "." | "..")
    {
        return Err(Error::usage(format!("'{}' is no name", name.escape_debug()))
            .hint("a name has up to 256 bytes, no '/', '*', '?' or control characters, and no blanks around it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defined() -> Definitions {
        let mut definitions = Definitions::default();
        definitions.dimension("time", None).unwrap();
        definitions.dimension("x", Some(4)).unwrap();
        definitions.variable("T", DType::F32, &["time", "x"], Vec::new()).unwrap();
        definitions
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let number = |dtype: DType, n: usize| Value::Numbers { dtype, bytes: vec![0; n * dtype.size()] };
        let mut definitions = defined();
        for name in ["", "a/b", "a*", " a", "..", "a\n", &"x".repeat(257)] {
            assert!(definitions.dimension(name, None).is_err(), "{name}");
            assert!(definitions.variable(name, DType::F32, &[], Vec::new()).is_err(), "{name}");
        }
        assert!(definitions.dimension("x", Some(4)).is_err());
        assert!(definitions.dimension("y", Some(0)).is_err());
        assert!(definitions.variable("T", DType::F32, &["x"], Vec::new()).is_err());
        assert!(definitions.variable("U", DType::F32, &["y"], Vec::new()).is_err());
        assert!(definitions.variable("U", DType::Opaque(3), &["x"], Vec::new()).is_err());
        assert!(definitions.attribute(Some("U"), "units", Value::Text("K".to_owned())).is_err());
        for (dtype, n) in [(DType::F64, 1), (DType::F32, 2), (DType::F32, 0)] {
            assert!(definitions.attribute(Some("T"), "_FillValue", number(dtype, n)).is_err());
        }
        definitions.attribute(Some("T"), "_FillValue", number(DType::F32, 1)).unwrap();
        assert!(definitions.attribute(Some("T"), "_FillValue", number(DType::F32, 1)).is_err());
        definitions.attribute(None, "_FillValue", number(DType::F64, 3)).unwrap();
    }

    #[test]
    fn puts_must_fit() {
        let definitions = defined();
        let variable = definitions.find("T").unwrap();
        variable.check(DType::F32, &Region::new([7, 1], [2, 3])).unwrap();
        for (dtype, start, count) in [
            (DType::F64, vec![0, 0], vec![1, 1]),
            (DType::F32, vec![0, 2], vec![1, 3]),
            (DType::F32, vec![0], vec![1]),
            (DType::F32, vec![u64::MAX, 0], vec![1, 1]),
            (DType::F32, vec![0, u64::MAX], vec![1, 1]),
            (DType::F32, vec![0, 0], vec![1, 1, 1]),
        ] {
            let error = variable.check(dtype, &Region::new(start, count)).unwrap_err();
            assert!(error.to_string().contains("'T'"), "{error}");
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let (mut a, mut b) = (defined(), defined());
        let both = [a.news().to_vec(), b.news().to_vec()];
        a.agree(&both).unwrap();
        b.agree(&both).unwrap();
        assert!(a.news().is_empty());
        a.dimension("z", Some(3)).unwrap();
        let error = a.agree(&[a.news().to_vec(), b.news().to_vec()]).unwrap_err().to_string();
        assert!(error.contains("rank 1 defines nothing where rank 0 defines dimension 'z' of length 3"), "{error}");
        b.dimension("z", Some(4)).unwrap();
        let error = b.agree(&[a.news().to_vec(), b.news().to_vec()]).unwrap_err().to_string();
        assert!(error.contains("rank 1 defines dimension 'z' of length 4 where"), "{error}");
    }
}
