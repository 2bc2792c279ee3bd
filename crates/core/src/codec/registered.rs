//! HDF5 filters by number: their names for people, and the package a reader installs to decode them.
//!
//! Numbers, names: the list of registered filters kept by The HDF Group (`RegisteredFilterPlugins`), and the
//! filters of the HDF5 library itself.

use super::FilterId;

/// What a reader installs to decode a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// Part of every HDF5 build.
    Hdf5,
    /// Part of HDF5 if it was built with libaec (szip).
    Hdf5WithSzip,
    /// The Python package `hdf5plugin`; its plugin directory serves C and Fortran readers as well.
    Hdf5Plugin,
    /// The Python package `h5py`.
    H5py,
    /// The Python package `tables` (PyTables).
    PyTables,
    /// The Community Codec Repository for netCDF.
    Ccr,
    /// Knarr's own filter plugin.
    Knarr,
    /// The project that registered the number.
    Project,
}

impl Provider {
    /// What to install, for messages.
    pub fn package(self) -> &'static str {
        match self {
            Self::Hdf5 => "HDF5 itself",
            Self::Hdf5WithSzip => "HDF5 built with szip (libaec)",
            Self::Hdf5Plugin => "the Python package 'hdf5plugin'",
            Self::H5py => "the Python package 'h5py'",
            Self::PyTables => "the Python package 'tables'",
            Self::Ccr => "the Community Codec Repository (CCR)",
            Self::Knarr => "Knarr's HDF5 filter plugin",
            Self::Project => "the plugin of the project that registered this filter",
        }
    }
}

/// A filter number with its name and provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Filter number.
    pub id: FilterId,
    /// Name, lower case, as used in reports.
    pub name: &'static str,
    /// What a reader installs.
    pub provider: Provider,
}

/// Knarr's own filter, from the range that needs no registration.
pub const KNARR_FILTER: FilterId = 45223;

/// Every known filter, by number.
pub const REGISTERED: &[Registered] = {
    use Provider::{Ccr, H5py, Hdf5, Hdf5Plugin, Hdf5WithSzip, Knarr, Project, PyTables};
    &[
        entry(1, "deflate", Hdf5),
        entry(2, "shuffle", Hdf5),
        entry(3, "fletcher32", Hdf5),
        entry(4, "szip", Hdf5WithSzip),
        entry(5, "nbit", Hdf5),
        entry(6, "scaleoffset", Hdf5),
        entry(257, "hzip", Project),
        entry(258, "fpzip (Silo)", Project),
        entry(305, "lzo", PyTables),
        entry(307, "bzip2", Hdf5Plugin),
        entry(32000, "lzf", H5py),
        entry(32001, "blosc", Hdf5Plugin),
        entry(32002, "mafisc", Project),
        entry(32003, "snappy", Project),
        entry(32004, "lz4", Hdf5Plugin),
        entry(32005, "apax", Project),
        entry(32006, "cbf", Project),
        entry(32007, "jpeg-xr", Project),
        entry(32008, "bitshuffle", Hdf5Plugin),
        entry(32009, "spdp", Project),
        entry(32010, "lpc-rice", Project),
        entry(32011, "ccsds-123", Project),
        entry(32012, "jpeg-ls", Project),
        entry(32013, "zfp", Hdf5Plugin),
        entry(32014, "fpzip", Project),
        entry(32015, "zstd", Hdf5Plugin),
        entry(32016, "b3d", Project),
        entry(32017, "sz", Hdf5Plugin),
        entry(32018, "fcidecomp", Hdf5Plugin),
        entry(32019, "jpeg", Project),
        entry(32020, "vbz", Project),
        entry(32021, "fapec", Project),
        entry(32022, "bitgroom", Ccr),
        entry(32023, "granular-bitround", Ccr),
        entry(32024, "sz3", Hdf5Plugin),
        entry(32025, "delta-rice", Project),
        entry(32026, "blosc2", Hdf5Plugin),
        entry(32027, "flac", Project),
        entry(32028, "sperr", Hdf5Plugin),
        entry(32029, "terse-prolix", Project),
        entry(32030, "ffmpeg", Project),
        entry(32033, "htj2k", Hdf5Plugin),
        entry(KNARR_FILTER, "knarr", Knarr),
    ]
};

const fn entry(id: FilterId, name: &'static str, provider: Provider) -> Registered {
    Registered { id, name, provider }
}

/// The entry of filter `id`, if the number is known.
pub fn registered(id: FilterId) -> Option<&'static Registered> {
    REGISTERED.iter().find(|filter| filter.id == id)
}

/// Name of filter `id` for people: `zstd`, or `filter 40000` for an unknown number.
pub fn filter_name(id: FilterId) -> String {
    registered(id).map_or_else(|| format!("filter {id}"), |filter| filter.name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_names_unique() {
        assert!(REGISTERED.windows(2).all(|pair| pair[0].id < pair[1].id));
        for (index, filter) in REGISTERED.iter().enumerate() {
            assert!(REGISTERED[..index].iter().all(|other| other.name != filter.name), "{}", filter.name);
        }
        assert_eq!(filter_name(32015), "zstd");
        assert_eq!(filter_name(40000), "filter 40000");
    }
}
