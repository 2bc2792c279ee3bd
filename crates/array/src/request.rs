//! A request: values of one variable that a program hands over or asks for.

use crate::array::{ArraySpec, DType, Endian};
use crate::error::{Error, Result};
use crate::region::{Region, volume};

/// Longest name of an array in bytes, which leaves room for its slash in a path.
const LONGEST_NAME: usize = 1023;
/// Axes of an array, at most.
pub const AXES: usize = 32;

/// One put of values. The values themselves lie where the owner of the request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name of the variable.
    pub variable: String,
    /// Element type.
    pub dtype: DType,
    /// Byte order.
    pub endian: Endian,
    /// Which elements of the variable these are.
    pub share: Share,
}

impl Request {
    /// The request to put an array, which is `share` of the variable.
    ///
    /// # Errors
    /// `Usage` for a name or a share that cannot be, or if the array has another shape than its share; `Unsupported` for
    /// elements that are no numbers.
    pub fn put(variable: &str, spec: &ArraySpec, share: Share) -> Result<Self> {
        check_name(variable)?;
        let of = |error: Error| error.at(format!("array '{variable}'"));
        share.check().map_err(of)?;
        if !share.count().iter().copied().eq(spec.shape.iter().map(|&n| n as u64)) {
            let (region, array) = (share.count(), &spec.shape);
            return Err(of(Error::usage(format!("the region has the shape {region:?}, the array {array:?}"))));
        }
        if spec.dtype.size() == 0 || matches!(spec.dtype, DType::Opaque(_)) {
            return Err(of(Error::unsupported(format!("elements of type {}", spec.dtype))
                .hint("arrays hold integers or floats: hand over others as those they are made of")));
        }
        Ok(Self { variable: variable.to_owned(), dtype: spec.dtype, endian: spec.endian, share })
    }

    /// Bytes of its values; saturates for shares that [`Share::check`] refuses.
    pub fn byte_len(&self) -> u64 {
        volume(self.share.count()).unwrap_or(u64::MAX).saturating_mul(self.dtype.size() as u64)
    }

    /// Where in the whole array they are; a rank's own array is all of it.
    pub fn region(&self) -> Region {
        match &self.share {
            Share::Own(shape) => Region::whole(shape),
            Share::Global { region, .. } => region.clone(),
        }
    }

    /// What all requests for one variable have in common, for people.
    pub fn kind(&self) -> String {
        let order = if self.endian == Endian::Big { "big-endian" } else { "little-endian" };
        let part = match &self.share {
            Share::Own(_) => "its own".to_owned(),
            Share::Global { shape, .. } => format!("part of a global array of shape {shape:?}"),
        };
        format!("{} ({order}), {part},", self.dtype)
    }
}

/// What one array of a rank is a share of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// The rank's own array, of this shape.
    Own(Vec<u64>),
    /// A region of an array that ranks share. Whoever reads it may ask for any other region.
    Global {
        /// Shape of the whole array, the same on all ranks.
        shape: Vec<u64>,
        /// What of it this is.
        region: Region,
    },
}

impl Share {
    /// Shape of the array that the rank holds.
    pub fn count(&self) -> &[u64] {
        match self {
            Self::Own(shape) => shape,
            Self::Global { region, .. } => &region.count,
        }
    }

    /// Shape of the whole array; for a rank's own one that of its array.
    pub fn shape(&self) -> &[u64] {
        match self {
            Self::Own(shape) | Self::Global { shape, .. } => shape,
        }
    }

    /// Checks that such a share can be.
    ///
    /// # Errors
    /// `Usage` for more axes than arrays have, a region outside of its array, or more elements than can be counted.
    pub fn check(&self) -> Result<()> {
        if self.shape().len() > AXES {
            return Err(
                Error::usage(format!("{} axes", self.shape().len())).hint(format!("arrays have at most {AXES}"))
            );
        }
        if let Self::Global { shape, region } = self {
            region.check_inside(shape).map_err(|error| {
                error.hint("give the shape of the whole array, and where in it this rank's share begins")
            })?;
        }
        // An extent of 0 must not hide the others.
        let room = self.shape().iter().try_fold(1u64, |product, &n| product.checked_mul(n.max(1)));
        room.map(|_| ()).ok_or_else(|| Error::unsupported(format!("shape {:?} has too many elements", self.shape())))
    }
}

/// Checks the name of an array.
///
/// # Errors
/// `Usage` for names that no array can have.
pub fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_NAME {
        "it is longer than 1023 bytes"
    } else if name.contains('\0') {
        "it holds a NUL"
    } else if name.starts_with('/') {
        "it begins with a slash"
    } else {
        return Ok(());
    };
    Err(Error::usage(format!("an array cannot be called '{}': {why}", name.escape_debug())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parts_are_checked() {
        for bad in ["", "/a", "a\0", &"x".repeat(1024)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        check_name("ocean/T 1").unwrap();
        assert!(Share::Own(vec![1; 33]).check().is_err());
        let outside = Share::Global { shape: vec![4], region: Region::new([3], [2]) };
        assert!(outside.check().unwrap_err().advice().is_some());
    }
}
