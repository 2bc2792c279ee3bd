//! What a file holds, whatever its format: groups, dimensions, attributes, variables.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::array::{ArraySpec, DType, Endian};
use crate::error::{Error, Result};
use crate::filter::Hdf5Filter;

/// Type of elements that are more than plain numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementType {
    /// An enumeration of FALSE = 0 and TRUE = 1 in one byte, as h5py keeps booleans.
    Bool,
    /// Named values of an integer type.
    Enum {
        /// The integers that stand for the names.
        base: DType,
        /// Names and values.
        members: Vec<(String, i128)>,
    },
    /// Anything else in words, such as `string[5]`; equal words mean equal types but for byte order.
    Other(String),
}

impl ElementType {
    /// In a word or two: what fits into a table.
    pub fn short(&self) -> String {
        match self {
            Self::Bool => "bool".to_owned(),
            Self::Enum { base, .. } => format!("enum {base}"),
            Self::Other(words) => words.split(" {").next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Enum { base, members } => {
                let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "enum {base} {{{}}}", members.join(", "))
            }
            Self::Other(words) => f.write_str(words),
        }
    }
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum AttributeValue {
    /// Text; netCDF character attributes and HDF5 scalar strings.
    Text(String),
    /// An array of strings.
    Strings(Vec<String>),
    /// Numbers, little-endian, one-dimensional.
    Numbers {
        /// Element type.
        dtype: DType,
        /// `len * dtype.size()` bytes.
        bytes: Vec<u8>,
        /// True for a single value that is not an array of one.
        scalar: bool,
    },
    /// Something only its own format can carry (references, compounds).
    Other {
        /// Its type in words.
        what: String,
        /// Its value in words, which are as different as values are.
        content: String,
    },
}

impl AttributeValue {
    /// Text, also where it is the only one of an array of strings.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Strings(list) => match list.as_slice() {
                [only] => Some(only),
                _ => None,
            },
            _ => None,
        }
    }

    /// Numbers as they are in `f64`, to its precision; none for anything else.
    #[expect(clippy::cast_precision_loss, reason = "attributes that are read so are limits and factors")]
    pub fn floats(&self) -> Vec<f64> {
        let Self::Numbers { dtype, bytes, .. } = self else { return Vec::new() };
        let wide = |element: &[u8]| element.iter().rev().fold(0u64, |bits, &byte| bits << 8 | u64::from(byte));
        let unused = 64 - 8 * u32::try_from(dtype.size().clamp(1, 8)).unwrap_or(8);
        let float = |bits: u64| match dtype {
            DType::F32 => Some(f64::from(f32::from_bits(u32::try_from(bits).ok()?))),
            DType::F64 => Some(f64::from_bits(bits)),
            DType::F16 | DType::Opaque(_) => None,
            _ if dtype.is_signed() => Some(((bits << unused).cast_signed() >> unused) as f64),
            _ => Some(bits as f64),
        };
        bytes.chunks_exact(dtype.size().max(1)).filter_map(|element| float(wide(element))).collect()
    }
}

/// A named attribute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Value.
    pub value: AttributeValue,
}

/// A named dimension of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dimension {
    /// Name within its group.
    pub name: String,
    /// Current length.
    pub len: u64,
    /// True if it can grow.
    pub unlimited: bool,
}

/// Where a link leads that is not the path by which the model has an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkTarget {
    /// An object of the file, which has this path, too.
    Hard(String),
    /// A path in the file, which need not lead anywhere.
    Soft(String),
    /// A path in another file.
    External {
        /// Name of the file.
        file: String,
        /// Path in it.
        path: String,
    },
    /// Of a class that a program defined, which alone knows where it leads.
    User {
        /// Number of the class.
        class: i32,
        /// What the link holds.
        value: Vec<u8>,
    },
}

impl fmt::Display for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hard(path) => write!(f, "another name of {path}"),
            Self::Soft(path) => write!(f, "soft link to {path}"),
            Self::External { file, path } => write!(f, "link to {path} in {file}"),
            Self::User { class, value } => write!(f, "link of class {class}, {} bytes", value.len()),
        }
    }
}

/// A link beside those that lead to the objects of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Absolute path.
    pub path: String,
    /// Where it leads.
    pub target: LinkTarget,
}

/// A group. The root is the first one, with path `/`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Group {
    /// Absolute path.
    pub path: String,
    /// Dimensions defined here.
    pub dimensions: Vec<Dimension>,
    /// Attributes of the group.
    pub attributes: Vec<Attribute>,
    /// Links in the group that are none to the objects of the model: only HDF5 has them.
    pub links: Vec<Link>,
}

/// How the values of a variable are laid out where they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum StorageLayout {
    /// One run of bytes, or records of a classic netCDF file.
    Contiguous,
    /// Chunks of a fixed shape.
    Chunked(Vec<u64>),
    /// Inside the header of the file.
    Compact,
    /// No values exist (null dataspace).
    Null,
    /// In other files or datasets (HDF5 external or virtual storage).
    Elsewhere,
}

/// A named N-d array in a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variable {
    /// Absolute path: `/T`, `/group/T`.
    pub path: String,
    /// Element type. `Opaque` for everything that is not a number.
    pub dtype: DType,
    /// Byte order as stored.
    pub endian: Endian,
    /// Extent per dimension, slowest first.
    pub shape: Vec<u64>,
    /// Largest extent per dimension; `None` for unlimited.
    pub max_shape: Vec<Option<u64>>,
    /// Name of the dimension per axis, where the format has one.
    pub dimensions: Vec<Option<String>>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Bit patterns (zero-extended) of `_FillValue`, `missing_value` and the format's own fill value.
    pub fills: Vec<u64>,
    /// Bit pattern (zero-extended) that unwritten elements have.
    pub padding: u64,
    /// Layout in the file.
    pub layout: StorageLayout,
    /// HDF5 filters, in pipeline order; for Zarr and classic files empty.
    pub filters: Vec<Hdf5Filter>,
    /// The chain in words: filter names and settings, or Zarr codec names. `raw` if there is none.
    pub chain: String,
    /// Bytes the values take in the file, if known.
    pub stored_bytes: Option<u64>,
    /// The extents in which a program's ranks have put most of its values, if that is known.
    #[serde(skip)]
    pub block: Option<Vec<u64>>,
    /// Why this variable is copied as it is rather than encoded anew: `None` if it can be encoded.
    pub copied_because: Option<String>,
}

impl Variable {
    /// Little-endian values that lie in one run, with nothing said about them.
    pub fn plain(path: impl Into<String>, dtype: DType, shape: Vec<u64>) -> Self {
        Self {
            path: path.into(),
            dtype,
            endian: Endian::Little,
            max_shape: shape.iter().map(|&n| Some(n)).collect(),
            dimensions: vec![None; shape.len()],
            shape,
            attributes: Vec::new(),
            fills: Vec::new(),
            padding: 0,
            layout: StorageLayout::Contiguous,
            filters: Vec::new(),
            chain: "raw".to_owned(),
            stored_bytes: None,
            block: None,
            copied_because: None,
        }
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        if self.layout == StorageLayout::Null { 0 } else { self.shape.iter().product() }
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Size of the values in bytes when not compressed.
    pub fn raw_bytes(&self) -> u64 {
        self.len() * self.dtype.size() as u64
    }

    /// Path without the leading slash for variables of the root group: what users type.
    pub fn name(&self) -> &str {
        self.path.strip_prefix('/').unwrap_or(&self.path)
    }

    /// What codecs are told about a chunk of shape `chunk`.
    pub fn chunk_spec(&self, chunk: &[u64]) -> ArraySpec {
        ArraySpec {
            dtype: self.dtype,
            endian: self.endian,
            shape: chunk.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect(),
            fills: self.fills.clone(),
        }
    }

    /// One unwritten element, in stored byte order.
    pub fn padding_bytes(&self) -> Vec<u8> {
        let size = self.dtype.size();
        let mut bytes = self.padding.to_le_bytes().to_vec();
        bytes.resize(size.max(8), 0);
        bytes.truncate(size);
        if self.endian == Endian::Big {
            bytes.reverse();
        }
        bytes
    }

    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
    }
}

/// Everything a file holds but the values.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Model {
    /// Groups, root first, parents before children.
    pub groups: Vec<Group>,
    /// Variables in creation order where the format keeps one.
    pub variables: Vec<Variable>,
}

impl Model {
    /// Variable number `index`.
    ///
    /// # Errors
    /// `Internal` if there are not so many.
    pub fn variable(&self, index: usize) -> Result<&Variable> {
        self.variables.get(index).ok_or_else(|| no_variable(index))
    }

    /// Variable number `index` and what a format keeps beside it, in a list in the same order.
    ///
    /// # Errors
    /// `Internal` if there are not so many.
    pub fn variable_with<'a, T>(&'a self, index: usize, beside: &'a [T]) -> Result<(&'a Variable, &'a T)> {
        self.variables.get(index).zip(beside.get(index)).ok_or_else(|| no_variable(index))
    }

    /// Links that are none to the objects of the model.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.groups.iter().flat_map(|group| &group.links)
    }
}

/// Characters that are not UTF-8 as text: each byte is one, as in Latin-1, which is what they mostly are.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn no_variable(index: usize) -> Error {
    Error::internal(format!("there is no variable number {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_attributes_are_values() {
        let floats =
            |dtype, bytes: &[u8]| AttributeValue::Numbers { dtype, bytes: bytes.to_vec(), scalar: false }.floats();
        assert_eq!(floats(DType::I16, &[0xFF, 0xFF, 1, 0]), [-1.0, 1.0]);
        assert_eq!(floats(DType::U8, &[200]), [200.0]);
        assert_eq!(floats(DType::F32, &2.5f32.to_le_bytes()), [2.5]);
        assert_eq!(floats(DType::F64, &(-2.5f64).to_le_bytes()), [-2.5]);
        assert_eq!(floats(DType::Opaque(1), b"x"), [] as [f64; 0]);
    }
}
