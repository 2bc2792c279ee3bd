//! The datasets of a header that is an HDF5 file.

use std::path::Path;

use knarr_array::error::Result;
use serde::{Deserialize, Serialize};

use crate::document::{get, put};

/// The datasets of a header that is an HDF5 file. A put says which one it is for by a number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Datasets {
    /// Address in the header of each; `None` for one that was removed.
    pub addresses: Vec<Option<u64>>,
}

impl Datasets {
    const NAME: &'static str = "datasets.json";

    /// Writes them into the directory of a file.
    ///
    /// # Errors
    /// `Write`.
    pub fn save(&self, directory: &Path) -> Result<()> {
        put(directory, Self::NAME, self)
    }

    /// Reads those of a directory; `None` if its header is no HDF5 file.
    ///
    /// # Errors
    /// `Read`, `Corrupt`.
    pub fn read(directory: &Path) -> Result<Option<Self>> {
        get(directory, Self::NAME)
    }
}
