//! Which variables of a group's files are alike: those of one name, stored type and class.
//!
//! After section 3.1 of the paper: variables are similar if their keys `group/variable_type_class` are equal, however
//! many elements they have. Names are equal as they are, or by regular expressions.

use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use crate::files::layout::{FileLayout, StoredVariable};
use crate::files::names::{natural, without_numbers};
use crate::files::pieces::{PIECE, Piece};
use knarr_array::array::{DType, Endian};
use knarr_array::error::{Error, Result};

/// Classes of fewer bytes than this are joined with their numbered siblings, and then with all of their type: a frame
/// of their own would cost more than it gains.
const SMALL_CLASS: u64 = 64 << 10;

/// Variables under this many bytes are bundled unless something else is asked for, as in the paper.
pub const BUNDLE_BELOW: u64 = 100;

/// Classes of what is no variable, of variables that are bundled, and of those that were compressed already.
pub(crate) const SKELETON: &str = "skeleton";
const BUNDLE: &str = "bundle";
const COMPRESSED: &str = "compressed";

/// What counts as similar.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Asked", try_from = "Asked")]
pub struct Similarity {
    /// Expressions as they were given, and compiled.
    patterns: Vec<(String, Regex)>,
    /// Variables of fewer bytes in a rank are bundled.
    bundle_below: u64,
}

/// What was asked for, before expressions are compiled.
#[derive(Serialize, Deserialize)]
struct Asked {
    patterns: Vec<String>,
    bundle_below: u64,
}

impl From<Similarity> for Asked {
    fn from(similarity: Similarity) -> Self {
        let patterns = similarity.patterns.into_iter().map(|(pattern, _)| pattern).collect();
        Self { patterns, bundle_below: similarity.bundle_below }
    }
}

impl TryFrom<Asked> for Similarity {
    type Error = Error;

    fn try_from(asked: Asked) -> Result<Self> {
        Self::new(&asked.patterns, asked.bundle_below)
    }
}

impl Default for Similarity {
    fn default() -> Self {
        Self { patterns: Vec::new(), bundle_below: BUNDLE_BELOW }
    }
}

/// Like pieces of a group, to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Class {
    /// `Grid/Density_f64le_3d`, or what else the pieces have in common.
    pub(crate) key: String,
    /// Type of the elements; bytes where they have none.
    pub(crate) dtype: DType,
    /// Byte order of the elements.
    pub(crate) endian: Endian,
    /// One entry per variable and rank, in the order in which they are merged.
    pub(crate) units: Vec<Unit>,
}

/// Pieces of one variable of one rank, or of its skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Rank in the group.
    pub(crate) rank: usize,
    /// Numbers of the pieces in the rank's file, ascending.
    pub(crate) pieces: Vec<usize>,
    /// Bytes of all pieces.
    pub(crate) bytes: u64,
}

impl Class {
    /// Bytes of all its pieces.
    pub(crate) fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// True for variables that are worth restoring alone.
    pub(crate) fn is_variables(&self) -> bool {
        !matches!(self.key.as_str(), SKELETON | BUNDLE)
    }
}

impl Similarity {
    /// Names that match one of `patterns` as a whole, without the leading slash, are equal if their captures are:
    /// `Grid[0-9]+/(.*)` makes the variables of one name in all grids similar. The first pattern that matches counts.
    ///
    /// # Errors
    /// `Config` for patterns that are no regular expressions.
    pub fn new(patterns: &[String], bundle_below: u64) -> Result<Self> {
        let compile = |pattern: &String| {
            Regex::new(&format!("^(?:{pattern})$")).map(|expression| (pattern.clone(), expression)).map_err(|error| {
                Error::new(
                    knarr_array::ErrorKind::Config,
                    format!("similar = '{pattern}' is no regular expression: {error}"),
                )
                .hint("write it as in 'Grid[0-9]+/(.*)'")
            })
        };
        Ok(Self { patterns: patterns.iter().map(compile).collect::<Result<_>>()?, bundle_below })
    }

    /// The name that similar variables share.
    fn name(&self, path: &str) -> String {
        let path = path.trim_start_matches('/');
        for (pattern, expression) in &self.patterns {
            if let Some(captures) = expression.captures(path) {
                let parts: Vec<&str> = captures.iter().skip(1).flatten().map(|part| part.as_str()).collect();
                return format!("{pattern}={}", parts.join(","));
            }
        }
        path.to_owned()
    }

    fn key(&self, variable: &StoredVariable) -> String {
        let endian = match (variable.dtype.size(), variable.endian) {
            (1, _) => "",
            (_, Endian::Little) => "le",
            (_, Endian::Big) => "be",
        };
        let class = match variable.shape.len() {
            0 => "scalar".to_owned(),
            rank => format!("{rank}d"),
        };
        format!("{}_{}{endian}_{class}", self.name(&variable.path), variable.dtype)
    }

    /// The classes of a group's files, in an order that follows from the files alone. `is_kept` says of a rank's piece
    /// whether it is stored; others repeat what is stored already.
    pub(crate) fn classes(
        &self,
        files: &[(&FileLayout, &[Piece])],
        is_kept: impl Fn(usize, usize) -> bool,
    ) -> Vec<Class> {
        let mut made = Classes::default();
        for (rank, (layout, pieces)) in files.iter().enumerate() {
            for (variable, unit) in units(rank, pieces, &is_kept) {
                let Some(variable) = variable.and_then(|index| layout.variables.get(index)) else {
                    made.push(SKELETON, SKELETON.to_owned(), DType::U8, Endian::Little, unit);
                    continue;
                };
                let key = self.key(variable);
                if variable.extents.iter().any(|extent| !extent.filters.is_empty()) {
                    made.push(COMPRESSED, key, DType::U8, Endian::Little, unit);
                } else if unit.bytes < self.bundle_below {
                    made.push(BUNDLE, key, DType::U8, Endian::Little, unit);
                } else if variable.dtype.size() as u64 > PIECE || variable.dtype.size() == 0 {
                    made.push(&key, key.clone(), DType::U8, Endian::Little, unit);
                } else {
                    made.push(&key, key.clone(), variable.dtype, variable.endian, unit);
                }
            }
        }
        made.joined()
    }
}

/// All kept pieces of every file as one class: what schemes that know nothing of variables merge.
pub(crate) fn whole_files(files: &[(&FileLayout, &[Piece])], is_kept: impl Fn(usize, usize) -> bool) -> Vec<Class> {
    let units = files.iter().enumerate().map(|(rank, (_, pieces))| {
        let kept = (0..pieces.len()).filter(|&piece| is_kept(rank, piece)).collect();
        unit(rank, pieces, kept)
    });
    let units: Vec<Unit> = units.filter(|unit| unit.bytes > 0).collect();
    if units.is_empty() {
        return Vec::new();
    }
    vec![Class { key: "files".to_owned(), dtype: DType::U8, endian: Endian::Little, units }]
}

fn unit(rank: usize, pieces: &[Piece], kept: Vec<usize>) -> Unit {
    let bytes = kept.iter().filter_map(|&piece| pieces.get(piece)).map(|piece| piece.length).sum();
    Unit { rank, pieces: kept, bytes }
}

/// Kept pieces of a file by variable, in the order of their first piece.
fn units(
    rank: usize,
    pieces: &[Piece],
    is_kept: &impl Fn(usize, usize) -> bool,
) -> impl Iterator<Item = (Option<usize>, Unit)> {
    let mut order: Vec<Option<usize>> = Vec::new();
    let mut numbers: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for (number, piece) in pieces.iter().enumerate().filter(|&(number, _)| is_kept(rank, number)) {
        let of = numbers.entry(piece.variable).or_default();
        if of.is_empty() {
            order.push(piece.variable);
        }
        of.push(number);
    }
    order.into_iter().map(move |variable| {
        let numbers = numbers.remove(&variable).unwrap_or_default();
        (variable, unit(rank, pieces, numbers))
    })
}

/// Classes while they are put together. Each unit keeps the key of its variable, by which it is sorted if it is joined
/// with others.
#[derive(Default)]
struct Classes {
    places: HashMap<String, usize>,
    list: Vec<(Class, Vec<String>)>,
}

impl Classes {
    fn push(&mut self, name: &str, key: String, dtype: DType, endian: Endian, unit: Unit) {
        let place = *self.places.entry(name.to_owned()).or_insert_with(|| {
            self.list.push((Class { key: name.to_owned(), dtype, endian, units: Vec::new() }, Vec::new()));
            self.list.len() - 1
        });
        if let Some((class, keys)) = self.list.get_mut(place) {
            class.units.push(unit);
            keys.push(key);
        }
    }

    /// Small classes joined with their numbered siblings, then with all of their type.
    fn joined(self) -> Vec<Class> {
        let joined =
            self.join(|class| format!("{}_{}_{:?}", without_numbers(stem(&class.key)), class.dtype, class.endian));
        let joined = joined.join(|class| format!("small_{}_{:?}", class.dtype, class.endian));
        joined.list.into_iter().map(|(class, keys)| sorted(class, keys)).collect()
    }

    fn join(self, name: impl Fn(&Class) -> String) -> Self {
        let mut made = Self::default();
        for (class, keys) in self.list {
            let bytes: u64 = class.units.iter().map(|unit| unit.bytes).sum();
            let is_variables = !matches!(class.key.as_str(), SKELETON | COMPRESSED | BUNDLE);
            let name = if bytes < SMALL_CLASS && is_variables { name(&class) } else { class.key.clone() };
            for (unit, key) in class.units.into_iter().zip(keys) {
                made.push(&name, key, class.dtype, class.endian, unit);
            }
        }
        made
    }
}

/// The key of a variable without its type and class.
fn stem(key: &str) -> &str {
    key.rsplitn(3, '_').nth(2).unwrap_or(key)
}

/// Units of one variable side by side, each in the order of ranks.
fn sorted(class: Class, keys: Vec<String>) -> Class {
    let mut units: Vec<(Unit, String)> = class.units.into_iter().zip(keys).collect();
    units.sort_by(|(a, key_a), (b, key_b)| {
        natural(key_a.as_bytes(), key_b.as_bytes()).then(a.rank.cmp(&b.rank)).then(a.pieces.cmp(&b.pieces))
    });
    Class { units: units.into_iter().map(|(unit, _)| unit).collect(), ..class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::layout::Extent;
    use crate::files::pieces::cut;

    fn layout(variables: &[(&str, DType, Endian, &[u64])]) -> FileLayout {
        let mut at = 10;
        let variables = variables
            .iter()
            .map(|&(path, dtype, endian, shape)| {
                let length = shape.iter().product::<u64>() * dtype.size() as u64;
                let extents =
                    vec![Extent { offset: at, length, shape: shape.into(), filters: std::sync::Arc::default() }];
                at += length + 10;
                StoredVariable { path: path.to_owned(), dtype, endian, shape: shape.to_vec(), extents }
            })
            .collect();
        FileLayout { format: "test".to_owned(), length: at, variables }
    }

    fn keys(similarity: &Similarity, layouts: &[FileLayout]) -> Vec<(String, usize)> {
        let pieces: Vec<_> = layouts.iter().map(|layout| cut(layout, usize::MAX).unwrap()).collect();
        let files: Vec<_> = layouts.iter().zip(&pieces).map(|(layout, pieces)| (layout, pieces.as_slice())).collect();
        let classes = similarity.classes(&files, |_, _| true);
        let stored: u64 = classes.iter().flat_map(|class| &class.units).map(|unit| unit.bytes).sum();
        assert_eq!(stored, layouts.iter().map(|layout| layout.length).sum::<u64>(), "every piece is in one class");
        classes.into_iter().map(|class| (class.key, class.units.len())).collect()
    }

    const LARGE: &[u64] = &[20_000];

    #[test]
    fn name_type_order_and_class_make_the_key() {
        use DType::{F32, F64};
        use Endian::{Big, Little};
        let one = layout(&[("/g/a", F64, Little, LARGE), ("/g/b", F64, Little, LARGE), ("/x", F32, Big, LARGE)]);
        let longer = layout(&[("/g/a", F64, Little, &[30_000]), ("/g/b", F32, Little, LARGE)]);
        let cube = layout(&[("/g/a", F64, Little, &[30, 30, 30])]);
        let found = keys(&Similarity::default(), &[one, longer, cube]);
        let wanted = [
            ("skeleton", 3),
            ("g/a_f64le_1d", 2),
            ("g/b_f64le_1d", 1),
            ("x_f32be_1d", 1),
            ("g/b_f32le_1d", 1),
            ("g/a_f64le_3d", 1),
        ];
        assert_eq!(found, wanted.map(|(key, count)| (key.to_owned(), count)));
    }

    #[test]
    fn patterns_make_names_equal() {
        let files = [layout(&[
            ("/Grid1/rho", DType::F64, Endian::Little, LARGE),
            ("/Grid2/p", DType::F64, Endian::Little, LARGE),
        ])];
        let similarity = Similarity::new(&["Grid[0-9]+/(.*)".to_owned()], 100).unwrap();
        let files = [files, [layout(&[("/Grid7/rho", DType::F64, Endian::Little, LARGE)])]].concat();
        assert_eq!(keys(&similarity, &files).into_iter().map(|(_, count)| count).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(keys(&Similarity::default(), &files).len(), 4);
        assert!(Similarity::new(&["Grid[".to_owned()], 100).is_err());
    }

    #[test]
    fn small_classes_join_their_siblings_and_tiny_variables_are_bundled() {
        let grid = |n: u32| format!("/Grid{n}/rho");
        let names: Vec<String> = (0..200).map(grid).collect();
        let mut variables: Vec<(&str, DType, Endian, &[u64])> =
            names.iter().map(|name| (name.as_str(), DType::F64, Endian::Little, &[10, 20][..])).collect();
        variables.push(("/time", DType::F64, Endian::Little, &[]));
        variables.push(("/lonely", DType::F64, Endian::Little, &[100]));
        let found = keys(&Similarity::default(), &[layout(&variables)]);
        let wanted = [("skeleton", 1), ("Grid#/rho_f64_Little", 200), ("bundle", 1), ("small_f64_Little", 1)];
        assert_eq!(found, wanted.map(|(key, count)| (key.to_owned(), count)));
    }

    #[test]
    fn siblings_of_other_types_stay_apart() {
        let of = |n: u32, dtype, endian| (format!("/v{n}"), dtype, endian);
        let variables = (0..60).map(|n| match n % 3 {
            0 => of(n, DType::F32, Endian::Little),
            1 => of(n, DType::F64, Endian::Little),
            _ => of(n, DType::F64, Endian::Big),
        });
        let variables: Vec<_> = variables.collect();
        let variables: Vec<(&str, DType, Endian, &[u64])> =
            variables.iter().map(|(name, dtype, endian)| (name.as_str(), *dtype, *endian, &[2000][..])).collect();
        let found = keys(&Similarity::default(), &[layout(&variables)]);
        let wanted = [("skeleton", 1), ("v#_f32_Little", 20), ("v#_f64_Little", 20), ("v#_f64_Big", 20)];
        assert_eq!(found, wanted.map(|(key, count)| (key.to_owned(), count)));
    }
}
