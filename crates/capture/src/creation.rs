//! What a dataset gets that a program is about to create, where `when = "write"` asks for it.

use serde::{Deserialize, Serialize};

use super::Snapshot;
use super::chunks::{both_ways, met, most_met, suited};
use knarr_array::array::DType;
use knarr_array::coordinates::Coordinates;
use knarr_array::filter::{FilterId, Hdf5Filter};
use knarr_array::model::{StorageLayout, Variable};
use knarr_array::region::Region;
use knarr_codec::client_data::{ClientData, Wishes};
use knarr_codec::codec::{KNARR_FILTER, ReaderLevel};
use knarr_flow::settings::{ChunkRule, Settings, chunk_shape, glob_matches};

/// Filters for the variables of a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prescription {
    /// Number of the rule in `knarr.toml`.
    pub rule: usize,
    /// Name, path or pattern of the variables.
    pub variable: String,
    /// Their element type.
    pub dtype: DType,
    /// The chain, in words.
    pub chain: String,
    /// The chain as an HDF5 pipeline. Empty: no filters are wanted.
    pub filters: Vec<Hdf5Filter>,
    /// The user wants this chain and no other.
    pub asked: bool,
}

/// What to change at the creation of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Chunks to set; `None` if the dataset has chunks.
    pub chunk: Option<Vec<u64>>,
    /// Filters to add.
    pub filters: Vec<Hdf5Filter>,
    /// Bytes that the dataset's chunk cache needs at least, for writes in storage order to meet each chunk once.
    pub cache_bytes: u64,
    /// The user wants these filters and no others.
    asked: bool,
}

impl Change {
    /// The same with the chain for data that nothing is known of, for an HDF5 that lacks a filter. `None` if the user
    /// wants no other.
    ///
    /// A bound is kept by that chain, too: it is lossless.
    #[must_use]
    pub fn usual(&self, dtype: DType) -> Option<Self> {
        (!self.asked).then(|| Self { filters: usual(dtype), ..self.clone() })
    }

    /// True if Knarr's own filter is among the filters.
    pub fn has_own_filter(&self) -> bool {
        self.filters.iter().any(|filter| filter.id == KNARR_FILTER)
    }
}

/// Smaller contiguous datasets stay contiguous: chunks cost more than filters save.
const WORTH_CHUNKING: u64 = 4 << 10;
/// The chunk cache is never asked to be larger than this.
const LARGEST_CACHE: u64 = 16 << 20;

const SHUFFLE: FilterId = 2;
const DEFLATE: FilterId = 1;

impl Snapshot {
    /// What `variable` gets, which a program creates in a file of the rule with this number. A path that ends in a slash
    /// is that of a group: the dataset has no name yet. Its chunk cache may take `cache` bytes for writes that do not
    /// follow the storage order, and `across` is the shape of such writes to an earlier dataset of its kind.
    ///
    /// # Errors
    /// In words, why it is left as the program wants it.
    pub fn change(
        &self,
        rule: usize,
        variable: &Variable,
        cache: u64,
        across: Option<&[u64]>,
    ) -> Result<Change, String> {
        let settings = self
            .config
            .file
            .get(rule)
            .and_then(|rule| rule.settings().ok())
            .ok_or_else(|| "the rule is not there any more".to_owned())?;
        if variable.path.ends_with('/') && settings.rules.iter().any(|rule| !rule.pattern.contains(['*', '?'])) {
            return Err("it gets its name only later, and the rule is for names".to_owned());
        }
        let prescription = self.prescription(rule, variable);
        let size = variable.dtype.size() as u64;
        let cache = cache.min(LARGEST_CACHE);
        let chunk = match &variable.layout {
            StorageLayout::Chunked(_) if across.is_some() => {
                return Err("one like it was written in thin slices across its chunks".to_owned());
            }
            StorageLayout::Chunked(_) => None,
            StorageLayout::Contiguous if variable.raw_bytes() < WORTH_CHUNKING => {
                return Err(format!("under {} KiB", WORTH_CHUNKING >> 10));
            }
            StorageLayout::Contiguous => {
                let asked = settings.chunks_of(variable);
                let better = match (&asked, across) {
                    (ChunkRule::Auto, Some(count)) => Some(suited(count, &variable.shape, size)),
                    (ChunkRule::Auto, None) => both_ways(&variable.shape, size, cache),
                    _ => None,
                };
                let usual = || chunk_shape(&asked, variable).map_err(|error| error.to_string());
                Some(better.map_or_else(usual, Ok)?)
            }
            StorageLayout::Compact => return Err("compact".to_owned()),
            StorageLayout::Null => return Err("without values".to_owned()),
            StorageLayout::Elsewhere => return Err("in external or virtual storage".to_owned()),
        };
        let filters = match prescription {
            Some(known) if known.asked || settings.portable != Some(ReaderLevel::Knarr) => known.filters.clone(),
            _ if settings.portable == Some(ReaderLevel::Knarr) => {
                vec![own_filter(&settings, variable).map_err(|error| error.to_string())?]
            }
            _ => usual(variable.dtype),
        };
        if filters.is_empty() {
            return Err("its chain is raw".to_owned());
        }
        let chunks = match (&chunk, &variable.layout) {
            (Some(chunk), _) | (None, StorageLayout::Chunked(chunk)) => chunk.as_slice(),
            _ => &[],
        };
        let asked = prescription.is_some_and(|known| known.asked);
        let widest = most_met(chunks, &variable.shape, size);
        let band = band(chunks, &variable.shape, size);
        let cache_bytes = if chunk.is_some() && widest <= cache { band.max(widest) } else { band };
        let cache_bytes = across
            .map_or(cache_bytes, |count| cache_bytes.max(met(&Region::whole(count), chunks, size).min(LARGEST_CACHE)));
        Ok(Change { cache_bytes, chunk, filters, asked })
    }

    /// The prescription for a variable: of those that match, one that names it, else the last.
    fn prescription(&self, rule: usize, variable: &Variable) -> Option<&Prescription> {
        let matching = |known: &&Prescription| {
            known.rule == rule
                && known.dtype == variable.dtype
                && [variable.name(), variable.path.as_str()].iter().any(|name| glob_matches(&known.variable, name))
        };
        let named = |known: &&Prescription| !known.variable.contains(['*', '?']);
        let mut found = self.prescriptions.iter().rev().filter(matching);
        found.clone().find(named).or_else(|| found.next())
    }
}

/// Knarr's filter with what the rule wants for `variable`. It is optional: where it fails HDF5 stores the chunk.
///
/// Attributes come after the dataset, so nothing says yet whether it holds coordinates; in one dimension it may, and
/// only a rule that names it applies.
fn own_filter(settings: &Settings, variable: &Variable) -> knarr_array::Result<Hdf5Filter> {
    let mut candidate = variable.clone();
    if candidate.shape.len() == 1 {
        candidate.dimensions = vec![candidate.path.rsplit('/').next().map(str::to_owned)];
    }
    let quality = settings.of(&Coordinates::default(), &candidate)?.quality;
    let wishes = Wishes { goal: settings.goal.clone(), quality, missing: None };
    let cd_values = ClientData { wishes, chunks: None }.words()?;
    Ok(Hdf5Filter { id: KNARR_FILTER, optional: true, cd_values })
}

/// The chain for data that nothing is known of: quick, readable everywhere.
fn usual(dtype: DType) -> Vec<Hdf5Filter> {
    let shuffle = Hdf5Filter { id: SHUFFLE, optional: true, cd_values: Vec::new() };
    let deflate = Hdf5Filter { id: DEFLATE, optional: true, cd_values: vec![1] };
    if dtype.size() > 1 { vec![shuffle, deflate] } else { vec![deflate] }
}

/// Bytes of all chunks that one step along the slowest axis meets, as long as the cache may be that large; otherwise
/// of a few chunks.
fn band(chunk: &[u64], shape: &[u64], size: u64) -> u64 {
    let chunk_bytes = chunk.iter().fold(size, |bytes, &extent| bytes.saturating_mul(extent));
    let across = chunk
        .iter()
        .zip(shape)
        .skip(1)
        .fold(1u64, |count, (&chunk, &extent)| count.saturating_mul(extent.div_ceil(chunk.max(1)).max(1)));
    let band = chunk_bytes.saturating_mul(across);
    if band <= LARGEST_CACHE { band } else { chunk_bytes.saturating_mul(4).min(LARGEST_CACHE.max(chunk_bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_config::Config;

    fn variable(path: &str, dtype: DType, shape: &[u64], layout: StorageLayout) -> Variable {
        Variable { layout, ..Variable::plain(path, dtype, shape.to_vec()) }
    }

    fn snapshot(prescriptions: Vec<Prescription>) -> Snapshot {
        let text = "[[file]]\npattern = \"*\"\nwhen = \"write\"\nvariables.C.chunks = \"2x50\"\n";
        Snapshot { prescriptions, ..Snapshot::new(Config::parse(text).unwrap()) }
    }

    impl Snapshot {
        /// For a program of which nothing is known.
        fn change_of(&self, rule: usize, variable: &Variable) -> Result<Change, String> {
            self.change(rule, variable, 0, None)
        }
    }

    fn prescription(variable: &str, dtype: DType, filters: &[FilterId], asked: bool) -> Prescription {
        let filters = filters.iter().map(|&id| Hdf5Filter { id, optional: false, cd_values: Vec::new() }).collect();
        Prescription { rule: 0, variable: variable.to_owned(), dtype, chain: String::new(), filters, asked }
    }

    #[test]
    fn unknown_data_get_the_usual_chain_and_chunks_of_whole_steps() {
        let found =
            snapshot(vec![]).change_of(0, &variable("/T", DType::F32, &[1000, 180, 360], StorageLayout::Contiguous));
        let found = found.unwrap();
        assert_eq!(found.chunk, Some(vec![4, 180, 360]));
        assert_eq!(found.filters.iter().map(|filter| filter.id).collect::<Vec<_>>(), [SHUFFLE, DEFLATE]);
        assert_eq!(found.cache_bytes, 4 * 180 * 360 * 4);
        let bytes =
            snapshot(vec![]).change_of(0, &variable("/b", DType::U8, &[100_000], StorageLayout::Chunked(vec![100])));
        assert_eq!(bytes.unwrap(), Change { chunk: None, filters: usual(DType::U8), cache_bytes: 100, asked: false });
        let asked =
            snapshot(vec![]).change_of(0, &variable("/C", DType::F64, &[100, 100], StorageLayout::Contiguous)).unwrap();
        assert_eq!((asked.chunk, asked.cache_bytes), (Some(vec![2, 50]), 2 * 100 * 8));
    }

    #[test]
    fn what_cannot_or_need_not_be_filtered_is_left() {
        let of = |shape: &[u64], layout| snapshot(vec![]).change_of(0, &variable("/T", DType::F32, shape, layout));
        assert!(of(&[1000], StorageLayout::Contiguous).is_err());
        for layout in [StorageLayout::Compact, StorageLayout::Null, StorageLayout::Elsewhere] {
            assert!(of(&[100_000], layout).is_err());
        }
        let unnamed = variable("/", DType::F32, &[100_000], StorageLayout::Contiguous);
        assert!(snapshot(vec![]).change_of(0, &unnamed).is_err(), "the rule names C");
        let raw = snapshot(vec![prescription("T", DType::F32, &[], true)]);
        assert!(raw.change_of(0, &variable("/T", DType::F32, &[100_000], StorageLayout::Contiguous)).is_err());
        assert!(raw.change_of(1, &variable("/U", DType::F32, &[100_000], StorageLayout::Contiguous)).is_err());
    }

    #[test]
    fn knarrs_own_filter_gets_goal_and_quality() {
        let text = "[[file]]\npattern = \"*\"\nwhen = \"write\"\nportable = \"knarr\"\ngoal = \"ratio\"\n\
                    variables.\"*\".max_abs_error = 0.5\nvariables.x.max_rel_error = 0.25\n\
                    variables.n.max_abs_error = 2.0\n";
        let snapshot = Snapshot {
            prescriptions: vec![
                prescription("A", DType::F32, &[307], true),
                prescription("*", DType::F32, &[1], false),
            ],
            ..Snapshot::new(Config::parse(text).unwrap())
        };
        let of = |name: &str, dtype, shape: &[u64]| {
            snapshot.change_of(0, &variable(name, dtype, shape, StorageLayout::Contiguous))
        };
        let wishes = |name, dtype, shape: &[u64]| {
            let change = of(name, dtype, shape).unwrap();
            assert!(change.has_own_filter());
            assert_eq!(change.usual(dtype).unwrap().filters, usual(dtype));
            ClientData::parse(&change.filters[0].cd_values).unwrap().wishes
        };
        let found = wishes("/T", DType::F32, &[100, 100]);
        assert_eq!((found.goal.text.as_str(), found.quality.max_abs_error), ("ratio", Some(0.5)));
        assert!(wishes("/time", DType::F64, &[10_000]).quality.is_lossless(), "it may be a coordinate");
        assert_eq!(wishes("/x", DType::F64, &[10_000]).quality.max_rel_error, Some(0.25));
        assert!(wishes("/count", DType::I32, &[100, 100]).quality.is_lossless());
        assert!(of("/n", DType::I32, &[100, 100]).unwrap_err().contains("'n'"), "a bound for whole numbers");
        assert_eq!(of("/A", DType::F32, &[100, 100]).unwrap().filters[0].id, 307);
    }

    #[test]
    fn what_was_learnt_or_asked_is_used_where_it_fits() {
        let known = snapshot(vec![
            prescription("*", DType::F32, &[32015], false),
            prescription("/T", DType::F32, &[307], true),
        ]);
        let of = |name, dtype, shape: &[u64]| {
            known.change_of(0, &variable(name, dtype, shape, StorageLayout::Contiguous)).unwrap()
        };
        let found = of("/T", DType::F32, &[500, 500]);
        assert_eq!(found.filters[0].id, 307);
        assert!(found.usual(DType::F32).is_none(), "the user wants no other");
        let found = of("/U", DType::F32, &[500, 500]);
        assert_eq!(found.filters[0].id, 32015);
        assert_eq!(found.usual(DType::F32).unwrap().filters, usual(DType::F32));
        assert_eq!(of("/U", DType::F64, &[500, 500]).filters[0].id, SHUFFLE);
    }

    #[test]
    fn a_matrix_gets_chunks_for_rows_and_columns_and_one_that_was_written_across_those_that_suit() {
        let matrix = |layout| variable("/M", DType::F64, &[3000, 3000], layout);
        let of = |layout, cache, across: Option<&[u64]>| snapshot(vec![]).change(0, &matrix(layout), cache, across);
        let plain = of(StorageLayout::Contiguous, 0, None).unwrap();
        assert_eq!((plain.chunk, plain.cache_bytes), (Some(vec![43, 3000]), 43 * 3000 * 8));
        let both = of(StorageLayout::Contiguous, 1 << 30, None).unwrap();
        assert_eq!((both.chunk, both.cache_bytes), (Some(vec![334, 334]), 9 * 334 * 334 * 8));
        let seen = of(StorageLayout::Contiguous, 0, Some(&[3000, 1])).unwrap();
        assert_eq!(seen.chunk, Some(vec![3000, 43]));
        let own = of(StorageLayout::Chunked(vec![43, 3000]), 0, Some(&[3000, 1]));
        assert!(own.unwrap_err().contains("across its chunks"), "the program's own chunks stay");
    }
}
