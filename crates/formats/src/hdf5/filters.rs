//! Names of registered HDF5 filters.
//!
//! From the registry of the HDF Group (`github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md`).

use std::ffi::CStr;

use knarr_array::filter::Hdf5Filter;
use knarr_codec::client_data::ClientData;
use knarr_codec::codec::KNARR_FILTER;

/// Number and name.
const REGISTERED: [(u32, &CStr); 41] = [
    (1, c"deflate"),
    (2, c"shuffle"),
    (3, c"fletcher32"),
    (4, c"szip"),
    (5, c"nbit"),
    (6, c"scaleoffset"),
    (257, c"hzip"),
    (258, c"fpzip"),
    (305, c"lzo"),
    (307, c"bzip2"),
    (32000, c"lzf"),
    (32001, c"blosc"),
    (32002, c"mafisc"),
    (32003, c"snappy"),
    (32004, c"lz4"),
    (32005, c"apax"),
    (32006, c"cbf"),
    (32007, c"jpeg-xr"),
    (32008, c"bitshuffle"),
    (32009, c"spdp"),
    (32010, c"lpc-rice"),
    (32011, c"ccsds-123"),
    (32012, c"jpeg-ls"),
    (32013, c"zfp"),
    (32014, c"fpzip"),
    (32015, c"zstd"),
    (32016, c"b3d"),
    (32017, c"sz"),
    (32018, c"fcidecomp"),
    (32019, c"jpeg"),
    (32020, c"vbz"),
    (32021, c"fapec"),
    (32022, c"bitgroom"),
    (32023, c"granular-bitround"),
    (32024, c"sz3"),
    (32025, c"delta-rice"),
    (32026, c"blosc2"),
    (32027, c"flac"),
    (32028, c"h5z-sperr"),
    (32031, c"pcodec"),
    (45223, c"knarr"),
];

/// A part of HDF5 that builds may leave out.
pub(super) const SZIP: u32 = 4;

/// Filters that every build of HDF5 carries.
pub(super) fn is_built_in(id: u32) -> bool {
    matches!(id, 1 | 2 | 3 | 5 | 6)
}

fn registered_name(id: u32) -> Option<&'static CStr> {
    REGISTERED.iter().find(|(number, _)| *number == id).map(|(_, name)| *name)
}

/// Name that is stored with the filter `id`.
pub(super) fn filter_label(id: u32) -> &'static CStr {
    registered_name(id).unwrap_or(c"unregistered")
}

/// Name of the filter `id`: `zstd`, or `filter 40000` for one that is not registered.
pub fn filter_name(id: u32) -> String {
    match registered_name(id) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("filter {id}"),
    }
}

/// Number and name for messages: `filter 32001 (blosc)`.
pub fn filter_title(id: u32) -> String {
    match registered_name(id) {
        Some(name) => format!("filter {id} ({})", name.to_string_lossy()),
        None => format!("filter {id} (not registered)"),
    }
}

/// A pipeline in words: `shuffle | deflate:5`, `raw` if it is empty.
pub fn pipeline_words(filters: &[Hdf5Filter]) -> String {
    if filters.is_empty() {
        return "raw".to_owned();
    }
    let words: Vec<String> = filters
        .iter()
        .map(|filter| {
            let name = filter_name(filter.id);
            let value = |n: usize| filter.cd_values.get(n).copied();
            match (filter.id, value(0)) {
                (1 | 32015 | 307, Some(level)) => format!("{name}:{level}"),
                (2..=5, _) | (_, None) => name,
                (6, _) => match (value(0), value(1)) {
                    (Some(kind), Some(factor)) => format!("{name}:{kind},{factor}"),
                    _ => name,
                },
                (32008, _) => bitshuffle_words(&filter.cd_values),
                (32001, _) => blosc_words(&filter.cd_values),
                (KNARR_FILTER, _) => match ClientData::parse(&filter.cd_values).map(|data| data.wishes.to_string()) {
                    Ok(wishes) if wishes.is_empty() => name,
                    Ok(wishes) => format!("{name}:{wishes}"),
                    Err(_) => format!("{name} (its client data make no sense)"),
                },
                _ => {
                    let shown: Vec<String> = filter.cd_values.iter().take(8).map(ToString::to_string).collect();
                    format!("{name}:{}", shown.join(","))
                }
            }
        })
        .collect();
    words.join(" | ")
}

fn bitshuffle_words(values: &[u32]) -> String {
    let inner = match values.get(4) {
        Some(2) => "lz4",
        Some(3) => "zstd",
        _ => return "bitshuffle".to_owned(),
    };
    match values.get(5) {
        Some(level) if *level != 0 => format!("bitshuffle:{inner},level={level}"),
        _ => format!("bitshuffle:{inner}"),
    }
}

fn blosc_words(values: &[u32]) -> String {
    let (Some(level), shuffle, codec) = (values.get(4), values.get(5), values.get(6)) else {
        return "blosc".to_owned();
    };
    let codec = match codec {
        Some(0) | None => "blosclz",
        Some(1) => "lz4",
        Some(2) => "lz4hc",
        Some(3) => "snappy",
        Some(4) => "zlib",
        Some(5) => "zstd",
        Some(_) => "unknown",
    };
    let shuffle = match shuffle {
        Some(0) => "none",
        Some(2) => "bit",
        _ => "byte",
    };
    format!("blosc:{codec},level={level},shuffle={shuffle}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(id: u32, cd_values: &[u32]) -> Hdf5Filter {
        Hdf5Filter { id, optional: false, cd_values: cd_values.to_vec() }
    }

    #[test]
    fn pipelines_read_as_words() {
        assert_eq!(pipeline_words(&[]), "raw");
        assert_eq!(pipeline_words(&[filter(2, &[4]), filter(1, &[5])]), "shuffle | deflate:5");
        assert_eq!(pipeline_words(&[filter(32008, &[0, 4, 4, 0, 3, 7])]), "bitshuffle:zstd,level=7");
        assert_eq!(pipeline_words(&[filter(32001, &[2, 2, 4, 400, 5, 1, 5])]), "blosc:zstd,level=5,shuffle=byte");
        assert_eq!(pipeline_words(&[filter(40000, &[])]), "filter 40000");
    }

    #[test]
    fn numbers_are_unique() {
        for (position, (id, _)) in REGISTERED.iter().enumerate() {
            assert!(REGISTERED[position + 1..].iter().all(|(other, _)| other != id), "{id}");
        }
    }
}
