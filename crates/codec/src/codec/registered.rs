//! HDF5 filters by number: their names, the package a reader installs to decode them, and the readers that
//! have them. Whoever asks which reader has which filter asks here.
//!
//! Numbers, names: the list of registered filters kept by The HDF Group (`RegisteredFilterPlugins`), and the
//! filters of the HDF5 library itself.

use serde::{Deserialize, Serialize};
use std::ffi::CStr;

use super::ReaderLevel;
use knarr_array::filter::FilterId;

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

/// A filter number with its name, its provider and the readers that have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Filter number.
    pub id: FilterId,
    /// Name, lower case, as used in reports.
    pub name: &'static str,
    /// The same as HDF5 stores it with a dataset that has the filter.
    pub label: &'static CStr,
    /// What a reader installs.
    pub provider: Provider,
    /// The least demanding kind of reader that has it.
    pub reader: ReaderLevel,
}

/// Knarr's own filter, from the range that needs no registration.
pub const KNARR_FILTER: FilterId = 45223;

/// Every known filter, by number.
pub const REGISTERED: &[Registered] = {
    use Provider::{Ccr, H5py, Hdf5, Hdf5Plugin, Hdf5WithSzip, Knarr, Project, PyTables};
    // netCDF-C 4.9 and its wheels bring bzip2, Blosc and zstd.
    use ReaderLevel::{Core, NetCdf, Standard};
    &[
        entry(1, c"deflate", Hdf5, Core),
        entry(2, c"shuffle", Hdf5, Core),
        entry(3, c"fletcher32", Hdf5, Core),
        entry(4, c"szip", Hdf5WithSzip, Standard),
        entry(5, c"nbit", Hdf5, Standard),
        entry(6, c"scaleoffset", Hdf5, Standard),
        entry(257, c"hzip", Project, Standard),
        entry(258, c"fpzip (Silo)", Project, Standard),
        entry(305, c"lzo", PyTables, Standard),
        entry(307, c"bzip2", Hdf5Plugin, NetCdf),
        entry(32000, c"lzf", H5py, Standard),
        entry(32001, c"blosc", Hdf5Plugin, NetCdf),
        entry(32002, c"mafisc", Project, Standard),
        entry(32003, c"snappy", Project, Standard),
        entry(32004, c"lz4", Hdf5Plugin, Standard),
        entry(32005, c"apax", Project, Standard),
        entry(32006, c"cbf", Project, Standard),
        entry(32007, c"jpeg-xr", Project, Standard),
        entry(32008, c"bitshuffle", Hdf5Plugin, Standard),
        entry(32009, c"spdp", Project, Standard),
        entry(32010, c"lpc-rice", Project, Standard),
        entry(32011, c"ccsds-123", Project, Standard),
        entry(32012, c"jpeg-ls", Project, Standard),
        entry(32013, c"zfp", Hdf5Plugin, Standard),
        entry(32014, c"fpzip", Project, Standard),
        entry(32015, c"zstd", Hdf5Plugin, NetCdf),
        entry(32016, c"b3d", Project, Standard),
        entry(32017, c"sz", Hdf5Plugin, Standard),
        entry(32018, c"fcidecomp", Hdf5Plugin, Standard),
        entry(32019, c"jpeg", Project, Standard),
        entry(32020, c"vbz", Project, Standard),
        entry(32021, c"fapec", Project, Standard),
        entry(32022, c"bitgroom", Ccr, Standard),
        entry(32023, c"granular-bitround", Ccr, Standard),
        entry(32024, c"sz3", Hdf5Plugin, Standard),
        entry(32025, c"delta-rice", Project, Standard),
        entry(32026, c"blosc2", Hdf5Plugin, Standard),
        entry(32027, c"flac", Project, Standard),
        entry(32028, c"h5z-sperr", Hdf5Plugin, Standard),
        entry(32029, c"terse-prolix", Project, Standard),
        entry(32030, c"ffmpeg", Project, Standard),
        entry(32031, c"pcodec", Project, Standard),
        entry(32033, c"htj2k", Hdf5Plugin, Standard),
        entry(KNARR_FILTER, c"knarr", Knarr, ReaderLevel::Knarr),
    ]
};

const fn entry(id: FilterId, label: &'static CStr, provider: Provider, reader: ReaderLevel) -> Registered {
    // All are ASCII.
    let name = match label.to_str() {
        Ok(name) => name,
        Err(_) => "",
    };
    Registered { id, name, label, provider, reader }
}

/// The entry of filter `id`, if the number is known.
pub fn registered(id: FilterId) -> Option<&'static Registered> {
    REGISTERED.iter().find(|filter| filter.id == id)
}

/// Name of filter `id` for people: `zstd`, or `filter 40000` for an unknown number.
pub fn filter_name(id: FilterId) -> String {
    registered(id).map_or_else(|| format!("filter {id}"), |filter| filter.name.to_owned())
}

/// Some of the registered filters: those that one program has, for example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<FilterId>", into = "Vec<FilterId>")]
pub struct FilterSet(u64);

// A filter's bit is that of its place in the table.
const _: () = assert!(REGISTERED.len() <= u64::BITS as usize);

impl FilterSet {
    /// Whether filter `id` is one of them; never for numbers that nobody registered.
    pub fn has(self, id: FilterId) -> bool {
        REGISTERED.iter().position(|filter| filter.id == id).is_some_and(|place| self.0 >> place & 1 == 1)
    }

    /// Those of a kind of readers.
    pub fn of(reader: ReaderLevel) -> Self {
        REGISTERED.iter().filter(|filter| filter.reader <= reader).map(|filter| filter.id).collect()
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Their numbers in rising order.
    pub fn ids(self) -> impl Iterator<Item = FilterId> {
        REGISTERED.iter().map(|filter| filter.id).filter(move |&id| self.has(id))
    }
}

impl FromIterator<FilterId> for FilterSet {
    fn from_iter<I: IntoIterator<Item = FilterId>>(ids: I) -> Self {
        let places = ids.into_iter().filter_map(|id| REGISTERED.iter().position(|filter| filter.id == id));
        Self(places.fold(0, |set, place| set | 1 << place))
    }
}

impl From<Vec<FilterId>> for FilterSet {
    fn from(ids: Vec<FilterId>) -> Self {
        ids.into_iter().collect()
    }
}

impl From<FilterSet> for Vec<FilterId> {
    fn from(set: FilterSet) -> Self {
        set.ids().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_registered_filters_and_no_others() {
        let (some, others) = (FilterSet::from_iter([32015, 1, 40000, KNARR_FILTER]), FilterSet::from_iter([1, 2]));
        assert_eq!(some.ids().collect::<Vec<_>>(), [1, 32015, KNARR_FILTER]);
        assert!(some.has(32015) && !some.has(2) && !some.has(40000));
        assert_eq!(some.and(others), FilterSet::from_iter([1]));
        assert_eq!(FilterSet::of(ReaderLevel::NetCdf), FilterSet::from_iter([1, 2, 3, 307, 32001, 32015]));
        assert_eq!(serde_json::to_string(&some).unwrap(), "[1,32015,45223]");
        assert_eq!(serde_json::from_str::<FilterSet>("[45223,1,32015,7]").unwrap(), some);
    }

    #[test]
    fn numbers_are_sorted_and_names_unique() {
        assert!(REGISTERED.windows(2).all(|pair| pair[0].id < pair[1].id));
        for (index, filter) in REGISTERED.iter().enumerate() {
            assert!(!filter.name.is_empty(), "{:?} is no text", filter.label);
            assert!(REGISTERED[..index].iter().all(|other| other.name != filter.name), "{}", filter.name);
        }
        assert_eq!(filter_name(32015), "zstd");
        assert_eq!(filter_name(40000), "filter 40000");
    }
}
