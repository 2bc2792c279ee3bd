//! Names of registered HDF5 filters.
//!
//! From the registry of the HDF Group (`github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md`).

use knarr_core::codec::Hdf5Filter;

/// Number, name, and whether the first client data value is the level people know.
const REGISTERED: [(u32, &str); 41] = [
    (1, "deflate"),
    (2, "shuffle"),
    (3, "fletcher32"),
    (4, "szip"),
    (5, "nbit"),
    (6, "scaleoffset"),
    (257, "hzip"),
    (258, "fpzip"),
    (305, "lzo"),
    (307, "bzip2"),
    (32000, "lzf"),
    (32001, "blosc"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32004, "lz4"),
    (32005, "apax"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32008, "bitshuffle"),
    (32009, "spdp"),
    (32010, "lpc-rice"),
    (32011, "ccsds-123"),
    (32012, "jpeg-ls"),
    (32013, "zfp"),
    (32014, "fpzip"),
    (32015, "zstd"),
    (32016, "b3d"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32020, "vbz"),
    (32021, "fapec"),
    (32022, "bitgroom"),
    (32023, "granular-bitround"),
    (32024, "sz3"),
    (32025, "delta-rice"),
    (32026, "blosc2"),
    (32027, "flac"),
    (32028, "h5z-sperr"),
    (32031, "pcodec"),
    (45223, "knarr"),
];

/// Filters that every build of HDF5 carries.
pub(super) fn is_built_in(id: u32) -> bool {
    matches!(id, 1 | 2 | 3 | 5 | 6)
}

/// Name of the filter `id`: `zstd`, or `filter 40000` for one that is not registered.
pub fn filter_name(id: u32) -> String {
    match REGISTERED.iter().find(|(number, _)| *number == id) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("filter {id}"),
    }
}

/// Number and name for messages: `filter 32001 (blosc)`.
pub fn filter_title(id: u32) -> String {
    match REGISTERED.iter().find(|(number, _)| *number == id) {
        Some((_, name)) => format!("filter {id} ({name})"),
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
                (2 | 3 | 4 | 5, _) | (_, None) => name,
                (6, _) => match (value(0), value(1)) {
                    (Some(kind), Some(factor)) => format!("{name}:{kind},{factor}"),
                    _ => name,
                },
                (32008, _) => bitshuffle_words(&filter.cd_values),
                (32001, _) => blosc_words(&filter.cd_values),
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
