//! Filters of HDF5 pipelines.

use serde::{Deserialize, Serialize};

/// The filter that puts what it learns of a dataset into its client data.
pub const BITSHUFFLE: FilterId = 32008;

/// Registered number of an HDF5 filter.
pub type FilterId = u32;

/// One entry of an HDF5 filter pipeline, exactly as `H5Pset_filter` takes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hdf5Filter {
    /// Registered filter number.
    pub id: FilterId,
    /// `H5Z_FLAG_OPTIONAL` set: a failing chunk may be stored without it.
    pub optional: bool,
    /// Client data values.
    pub cd_values: Vec<u32>,
}

impl Hdf5Filter {
    /// The client data to create a dataset with, for it to have `cd_values` afterwards: bitshuffle puts what it learns
    /// of the dataset before what it is given. Others expect nothing, or their own places.
    pub fn given_values(&self) -> &[u32] {
        const LEARNT: usize = 3;
        if self.id == BITSHUFFLE { self.cd_values.get(LEARNT..).unwrap_or_default() } else { &self.cd_values }
    }
}
