//! What the bytes of a raw file mean: said by whoever opens it.

use std::fmt;
use std::str::FromStr;

use knarr_array::array::{DType, Endian};
use knarr_array::model::Variable;
use knarr_array::{Error, Result};
use knarr_flow::generate::parse_shape;

/// What the bytes of a raw file mean, written `shape=24x180x360,type=float32,order=little,offset=0,name=T`; shape and
/// type must be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawLayout {
    /// Extent per dimension, slowest first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Element type: a number.
    pub dtype: DType,
    /// Byte order in the file.
    pub order: Endian,
    /// Bytes before the first element.
    pub offset: u64,
    /// Name of the variable; that of the file without its suffix if absent.
    pub name: Option<String>,
}

/// How to write a layout.
pub const EXAMPLE: &str = "write --raw shape=24x180x360,type=float32, with order=big, offset=512, name=T if need be";

impl FromStr for RawLayout {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |why: String| Error::usage(format!("'{text}': {why}")).hint(EXAMPLE);
        let (mut shape, mut dtype, mut order, mut offset, mut name) = (None, None, Endian::Little, 0, None);
        for item in text.split(',') {
            let (key, value) =
                item.split_once('=').ok_or_else(|| refuse(format!("'{item}' is not of the form KEY=VALUE")))?;
            let value = value.trim();
            match key.trim() {
                "shape" => shape = Some(parse_shape(value).map_err(|error| refuse(error.message().to_owned()))?),
                "type" => dtype = Some(value.parse().map_err(|error: Error| refuse(error.message().to_owned()))?),
                "order" => {
                    order = match value {
                        "little" => Endian::Little,
                        "big" => Endian::Big,
                        _ => return Err(refuse(format!("order '{value}' is neither little nor big"))),
                    }
                }
                "offset" => {
                    offset = value.parse().map_err(|_| refuse(format!("offset '{value}' is not a number of bytes")))?;
                }
                "name" if !value.is_empty() && !value.contains('/') => name = Some(value.to_owned()),
                "name" => return Err(refuse(format!("'{value}' cannot be a name"))),
                key => return Err(refuse(format!("there is no key '{key}'"))),
            }
        }
        let shape = shape.ok_or_else(|| refuse("the shape is missing".to_owned()))?;
        let dtype = dtype.ok_or_else(|| refuse("the type is missing".to_owned()))?;
        Ok(Self { shape, dtype, order, offset, name })
    }
}

impl fmt::Display for RawLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        let shape = if extents.is_empty() { "scalar".to_owned() } else { extents.join("x") };
        let order = if self.order == Endian::Big { "big" } else { "little" };
        write!(f, "shape={shape},type={},order={order}", self.dtype)?;
        if self.offset > 0 {
            write!(f, ",offset={}", self.offset)?;
        }
        self.name.iter().try_for_each(|name| write!(f, ",name={name}"))
    }
}

impl RawLayout {
    /// The layout of a file that is made of `variable`.
    pub fn of(variable: &Variable) -> Self {
        Self {
            shape: variable.shape.clone(),
            dtype: variable.dtype,
            order: Endian::Little,
            offset: 0,
            name: Some(variable.name().replace('/', "_")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_they_are_written() {
        let layout: RawLayout = "type=double, shape=3x4,order=big,offset=16,name=T".parse().unwrap();
        assert_eq!((layout.dtype, layout.shape.as_slice(), layout.offset), (DType::F64, &[3, 4][..], 16));
        assert_eq!(layout.to_string().parse::<RawLayout>().unwrap(), layout);
        let scalar: RawLayout = "shape=scalar,type=u8".parse().unwrap();
        assert_eq!(scalar.to_string().parse::<RawLayout>().unwrap(), scalar);
        for bad in [
            "",
            "shape=3",
            "type=f32",
            "shape=3,type=string",
            "shape=3,type=u8,order=middle",
            "shape=3,type=u8,x=1",
            "shape=3,type=u8,offset=-1",
            "shape=3,type=u8,name=a/b",
            "3x4",
        ] {
            let error = bad.parse::<RawLayout>().unwrap_err();
            assert!(error.advice().is_some_and(|advice| advice.contains("--raw shape=")), "{bad}: {error}");
        }
    }
}
