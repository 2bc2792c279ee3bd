//! Strings of variable length, read through the library: they live in heaps of the file.

use crate::read::source::Hdf5Source;
use crate::sys;
use crate::text::explain::explain_read;
use knarr_array::error::{Error, Result};
use knarr_array::region::Region;
use knarr_flow::store::{Source, Strings};

impl Hdf5Source {
    /// The strings of a region, row-major.
    pub(crate) fn variable_strings(&self, index: usize, region: &Region) -> Result<Vec<String>> {
        let (stored, variables) = (self.stored(index)?, &self.model().variables);
        let variable = variables.get(index).ok_or_else(|| Error::internal("there is no such variable"))?;
        if stored.strings != Some(Strings::Variable) {
            return Err(Error::unsupported("it holds no strings of variable length"));
        }
        region.check_inside(&variable.shape)?;
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = sys::locked(|| {
            crate::create::stop_pretending(&variable.filters);
            self.dataset(stored)?.read_memory(region)?.variable_strings()
        })
        .map_err(|error| explain_read(error, &variable.filters))?;
        bytes
            .into_iter()
            .enumerate()
            .map(|(number, bytes)| {
                String::from_utf8(bytes).map_err(|_| {
                    let Region { start, count } = region;
                    Error::unsupported(format!("string {number} of region {start:?} + {count:?} is not UTF-8"))
                        .hint("write netCDF-4 or HDF5 instead, which copy its bytes")
                })
            })
            .collect()
    }
}
