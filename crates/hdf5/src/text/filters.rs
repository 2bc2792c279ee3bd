//! HDF5 filters and pipelines of them in words.

use std::ffi::CStr;

use knarr_array::filter::Hdf5Filter;
use knarr_codec::client_data::ClientData;
use knarr_codec::codec::{KNARR_FILTER, filter_name, registered};

/// A part of HDF5 that builds may leave out.
pub(crate) const SZIP: u32 = 4;

/// Filters that every build of HDF5 carries.
pub(crate) fn is_built_in(id: u32) -> bool {
    matches!(id, 1 | 2 | 3 | 5 | 6)
}

/// Name that is stored with the filter `id`.
pub(crate) fn filter_label(id: u32) -> &'static CStr {
    registered(id).map_or(c"unregistered", |filter| filter.label)
}

/// Number and name for messages: `filter 32001 (blosc)`.
pub fn filter_title(id: u32) -> String {
    match registered(id) {
        Some(filter) => format!("filter {id} ({})", filter.name),
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
                (KNARR_FILTER, _) => match ClientData::parse(&filter.cd_values).map(|data| data.options.to_string()) {
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
    fn names_in_files_stay_what_they_are() {
        for (id, label) in [(32015, c"zstd"), (32028, c"h5z-sperr"), (KNARR_FILTER, c"knarr"), (40000, c"unregistered")]
        {
            assert_eq!(filter_label(id), label);
        }
    }
}
