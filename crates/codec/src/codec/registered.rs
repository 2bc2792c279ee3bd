//! HDF5 filters by number: their names for people, the package a reader installs to decode them, and the readers that
//! have them. Whoever asks which reader has which filter asks here.
//!
//! Numbers, names: the list of registered filters kept by The HDF Group (`RegisteredFilterPlugins`), and the
//! filters of the HDF5 library itself.

use serde::{Deserialize, Serialize};

use super::{FilterId, ReaderLevel};

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
        entry(1, "deflate", Hdf5, Core),
        entry(2, "shuffle", Hdf5, Core),
        entry(3, "fletcher32", Hdf5, Core),
        entry(4, "szip", Hdf5WithSzip, Standard),
        entry(5, "nbit", Hdf5, Standard),
        entry(6, "scaleoffset", Hdf5, Standard),
        entry(257, "hzip", Project, Standard),
        entry(258, "fpzip (Silo)", Project, Standard),
        entry(305, "lzo", PyTables, Standard),
        entry(307, "bzip2", Hdf5Plugin, NetCdf),
        entry(32000, "lzf", H5py, Standard),
        entry(32001, "blosc", Hdf5Plugin, NetCdf),
        entry(32002, "mafisc", Project, Standard),
        entry(32003, "snappy", Project, Standard),
        entry(32004, "lz4", Hdf5Plugin, Standard),
        entry(32005, "apax", Project, Standard),
        entry(32006, "cbf", Project, Standard),
        entry(32007, "jpeg-xr", Project, Standard),
        entry(32008, "bitshuffle", Hdf5Plugin, Standard),
        entry(32009, "spdp", Project, Standard),
        entry(32010, "lpc-rice", Project, Standard),
        entry(32011, "ccsds-123", Project, Standard),
        entry(32012, "jpeg-ls", Project, Standard),
        entry(32013, "zfp", Hdf5Plugin, Standard),
        entry(32014, "fpzip", Project, Standard),
        entry(32015, "zstd", Hdf5Plugin, NetCdf),
        entry(32016, "b3d", Project, Standard),
        entry(32017, "sz", Hdf5Plugin, Standard),
        entry(32018, "fcidecomp", Hdf5Plugin, Standard),
        entry(32019, "jpeg", Project, Standard),
        entry(32020, "vbz", Project, Standard),
        entry(32021, "fapec", Project, Standard),
        entry(32022, "bitgroom", Ccr, Standard),
        entry(32023, "granular-bitround", Ccr, Standard),
        entry(32024, "sz3", Hdf5Plugin, Standard),
        entry(32025, "delta-rice", Project, Standard),
        entry(32026, "blosc2", Hdf5Plugin, Standard),
        entry(32027, "flac", Project, Standard),
        entry(32028, "sperr", Hdf5Plugin, Standard),
        entry(32029, "terse-prolix", Project, Standard),
        entry(32030, "ffmpeg", Project, Standard),
        entry(32033, "htj2k", Hdf5Plugin, Standard),
        entry(KNARR_FILTER, "knarr", Knarr, ReaderLevel::Knarr),
    ]
};

const fn entry(id: FilterId, name: &'static str, provider: Provider, reader: ReaderLevel) -> Registered {
    Registered { id, name, provider, reader }
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
            assert!(REGISTERED[..index].iter().all(|other| other.name != filter.name), "{}", filter.name);
        }
        assert_eq!(filter_name(32015), "zstd");
        assert_eq!(filter_name(40000), "filter 40000");
    }
}
