//! Where the values of a file's variables lie in its bytes. All else is skeleton.

use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::filter::Hdf5Filter;
use std::collections::HashSet;
use std::sync::Arc;

/// The anatomy of one file, found by the room that knows its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLayout {
    /// Name of the format for people: `HDF5`, `netCDF-4`, `netCDF-3 (CDF-5)`, `unknown`.
    pub format: String,
    /// Length of the file in bytes.
    pub length: u64,
    /// Its variables, in the order of their first byte. A file of unknown format has none.
    pub variables: Vec<StoredVariable>,
}

/// A variable as it lies in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVariable {
    /// Full path, with a leading slash and the groups: `/Grid0003/Density`.
    pub path: String,
    /// Type of the elements as stored; bytes that are no numbers to codecs are opaque.
    pub dtype: DType,
    /// Byte order of the elements as stored.
    pub endian: Endian,
    /// Whole shape; empty for a scalar. Elements that are several numbers of one type, as complex numbers are, have one
    /// more axis.
    pub shape: Vec<u64>,
    /// Pieces in row-major order of the elements; pieces that were never written are left out.
    pub extents: Vec<Extent>,
}

/// One piece of a variable that is contiguous in the file. There may be millions: they share what is alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub length: u64,
    /// Shape of the elements it holds, row-major: of a chunk, a record or the whole variable.
    pub shape: Arc<[u64]>,
    /// HDF5 filters that were applied, in their order; empty where the bytes are the elements themselves.
    pub filters: Arc<[Hdf5Filter]>,
}

impl FileLayout {
    /// The layout of a file that is carried whole.
    pub fn opaque(length: u64) -> Self {
        Self { format: "unknown".to_owned(), length, variables: Vec::new() }
    }

    /// Checks what everything that uses a layout relies on.
    ///
    /// # Errors
    /// `Corrupt` if two variables have one path, or an extent is empty, leaves the file, shares bytes with another one,
    /// or is unfiltered and does not have the length of its elements.
    pub fn check(&self) -> Result<()> {
        let mut taken = Vec::new();
        let mut paths = HashSet::new();
        for variable in &self.variables {
            if !paths.insert(variable.path.as_str()) {
                return Err(Error::corrupt(format!("there are two variables {}", variable.path)));
            }
            for extent in &variable.extents {
                let end = extent.offset.checked_add(extent.length).filter(|&end| end <= self.length);
                let Some(end) = end.filter(|_| extent.length > 0) else {
                    return Err(outside(variable, extent, "leaves the file"));
                };
                if extent.filters.is_empty() {
                    let elements = extent.shape.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
                    let bytes = elements.and_then(|n| n.checked_mul(variable.dtype.size() as u64));
                    if bytes != Some(extent.length) {
                        return Err(outside(variable, extent, "does not have the length of its elements"));
                    }
                }
                taken.push((extent.offset, end, variable, extent));
            }
        }
        taken.sort_by_key(|&(start, end, ..)| (start, end));
        for pair in taken.windows(2) {
            if let [(_, end, ..), (start, _, variable, extent)] = pair
                && start < end
            {
                return Err(outside(variable, extent, "shares bytes with another piece"));
            }
        }
        Ok(())
    }
}

fn outside(variable: &StoredVariable, extent: &Extent, what: &str) -> Error {
    Error::corrupt(format!("{}: the piece of {} bytes at byte {} {what}", variable.path, extent.length, extent.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(extents: &[(u64, u64)]) -> FileLayout {
        let extents = extents
            .iter()
            .map(|&(offset, length)| Extent { offset, length, shape: [length / 4].into(), filters: Arc::default() })
            .collect();
        let variable = StoredVariable {
            path: "/a".to_owned(),
            dtype: DType::F32,
            endian: Endian::Little,
            shape: vec![8],
            extents,
        };
        FileLayout { format: "HDF5".to_owned(), length: 100, variables: vec![variable] }
    }

    #[test]
    fn pieces_lie_in_the_file_and_apart() {
        layout(&[(8, 16), (24, 16)]).check().unwrap();
        for bad in [&[(8, 16), (20, 16)][..], &[(90, 16)], &[(u64::MAX, 16)], &[(8, 0)], &[(8, 18)]] {
            assert!(layout(bad).check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn variables_have_paths_of_their_own() {
        let (mut one, two) = (layout(&[(8, 16)]), layout(&[(24, 16)]));
        one.variables.extend(two.variables);
        assert!(one.check().is_err());
        one.variables[1].path = "/b".to_owned();
        one.check().unwrap();
    }
}
