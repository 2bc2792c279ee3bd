//! What the user asked for, per variable: quality, chain, chunks. From flags or `knarr.toml`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use knarr_array::conventions;
use knarr_array::coordinates::Coordinates;
use knarr_array::error::{Error, Result};
use knarr_array::goal::Goal;
use knarr_array::libver::LibverBounds;
use knarr_array::model::{Model, Variable};
use knarr_array::quality::Quality;
use knarr_choose::plan::Plan;
use knarr_codec::chain::ChainSpec;
use knarr_codec::codec::{FilterSet, ReaderLevel};

mod chunks;
mod other_names;

pub use chunks::{ChunkRule, chunk_shape, small_chunks, within_limits};
pub use other_names::no_variable;

/// What holds for the variables a pattern matches. What is `None` is left as it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// Name, path or pattern with `*` and `?`.
    pub pattern: String,
    /// Quality, by which that of more general rules is [refined](Quality::refined).
    pub quality: Option<Quality>,
    /// Chain to use without choosing.
    pub chain: Option<ChainSpec>,
    /// Chunk shape.
    pub chunks: Option<ChunkRule>,
}

/// Everything that was asked for about one output.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// What to optimise.
    pub goal: Goal,
    /// Most demanding reader that is allowed; `None` leaves it to the format of the output.
    pub portable: Option<ReaderLevel>,
    /// HDF5 filters that the reader has, where that is known: others are not used.
    pub filters: Option<FilterSet>,
    /// Quality of variables that no rule names: applies to floating-point data variables.
    pub quality: Quality,
    /// Chain for every variable it can serve.
    pub chain: Option<ChainSpec>,
    /// Chunks of variables that no rule names.
    pub chunks: ChunkRule,
    /// Rules in order. What is said of a name wins over patterns, and later rules over earlier ones.
    pub rules: Vec<Rule>,
    /// Names that a file lacks are those of another file of the same run: it is no mistake.
    pub names_of_many: bool,
    /// A program has ended, or works on, and its file is to be there in any case: what the file does not allow is left out, and the
    /// plan says so.
    pub lenient: bool,
    /// Releases of HDF5 whose file format HDF5 and netCDF-4 outputs may use.
    pub libver: LibverBounds,
    /// Decode and compare every chunk before it is written.
    pub verify: bool,
    /// What was decided before. Variables that it has are not chosen for again; all else here is for the others.
    pub plan: Option<Arc<Plan>>,
    /// What was chosen for an earlier file of the same settings. Variables whose values look as those did are encoded in the
    /// same way, without trials.
    pub earlier: Option<Arc<Plan>>,
    /// Chains are weighed by what they do for the whole file: one that takes most of the time for a small part is not taken.
    pub as_whole: bool,
    /// Chunks of a Zarr store have objects of their own, however many there are: others will write them one by one.
    pub chunks_apart: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            goal: Goal::balanced(),
            portable: None,
            filters: None,
            quality: Quality::LOSSLESS,
            chain: None,
            chunks: ChunkRule::Auto,
            rules: Vec::new(),
            names_of_many: false,
            lenient: false,
            libver: LibverBounds::default(),
            verify: true,
            plan: None,
            earlier: None,
            as_whole: false,
            chunks_apart: false,
        }
    }
}

/// Settings of one variable.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableSettings {
    /// What may change.
    pub quality: Quality,
    /// Why a general lossy quality was not applied, if it was not.
    pub kept_lossless: Option<&'static str>,
    /// Chain to use without choosing.
    pub chain: Option<ChainSpec>,
    /// Chunk shape.
    pub chunks: ChunkRule,
}

impl Settings {
    /// Settings of `variable`. Its quality, for stored values, is the general one, refined part by part by the rules that match: by patterns
    /// in their order, then by names in theirs. What names do not say spares coordinates and all but floating point.
    ///
    /// # Errors
    /// `Quality` or `Usage` if the quality cannot be served for the type of a variable that a rule names, or what holds
    /// together makes no sense.
    pub fn of(&self, coordinates: &Coordinates, variable: &Variable) -> Result<VariableSettings> {
        let (patterns, names) = self.matching(variable);
        let refined = |quality: Quality, rules: &[&Rule]| {
            rules.iter().filter_map(|rule| rule.quality).fold(quality, Quality::refined)
        };
        let general = refined(self.quality, &patterns);
        let spared = if !variable.dtype.is_float() {
            Some("not floating point: kept lossless")
        } else if coordinates.has(variable) {
            Some("coordinate: kept lossless")
        } else if !general.is_lossless() && !conventions::can_be_converted(general, variable) {
            Some("packed, and the bound cannot be said of packed values: kept lossless")
        } else {
            None
        };
        let quality = refined(if spared.is_some() { Quality::LOSSLESS } else { general }, &names);
        let asked_loss = !quality.is_lossless();
        let served = quality.validate(variable.dtype).and_then(|()| conventions::for_stored_values(quality, variable));
        let quality = served.map_err(|error| error.at_variable(variable.name()))?;
        let asked = !self.quality.is_lossless() || !general.is_lossless();
        let kept_lossless = ((asked || asked_loss) && quality.is_lossless()).then_some(match spared {
            _ if asked_loss => "no value may change: the bound and the valid range leave none",
            Some(why) => why,
            None => "a rule of its own keeps it lossless",
        });
        let last = names.iter().rev().chain(patterns.iter().rev()).find_map(|rule| rule.chain.clone());
        Ok(VariableSettings {
            quality,
            kept_lossless,
            chain: last.or_else(|| self.chain.clone()),
            chunks: match (self.chunks_of(variable), coordinates.least_chunk(variable)) {
                (ChunkRule::Auto, Some(least)) => ChunkRule::AtLeast(least),
                (asked, _) => asked,
            },
        })
    }

    /// Chunks of `variable`, which may be all that is known of its file. A name that is a dimension of the variable and
    /// comes with one number means the dimension; a variable is meant by its path, too.
    fn chunks_of(&self, variable: &Variable) -> ChunkRule {
        let (patterns, names) = self.matching(variable);
        let named = names.iter().rev().filter(|rule| rule.along(variable).is_none());
        if let Some(chunks) = named.filter_map(|rule| rule.chunks.clone()).next() {
            return chunks;
        }
        let mut along: Vec<(String, u64)> = self.rules.iter().filter_map(|rule| rule.along(variable)).collect();
        let general = patterns.iter().rev().find_map(|rule| rule.chunks.as_ref()).unwrap_or(&self.chunks);
        match general {
            general if along.is_empty() => general.clone(),
            ChunkRule::Along(others) => {
                along.splice(0..0, others.iter().cloned());
                ChunkRule::Along(along)
            }
            _ => ChunkRule::Along(along),
        }
    }

    /// The rules for `variable`, each in their order: those with a pattern, and those that name it.
    fn matching(&self, variable: &Variable) -> (Vec<&Rule>, Vec<&Rule>) {
        let matching = self.rules.iter().filter(|rule| matches(&rule.pattern, variable));
        matching.partition(|rule| is_pattern(&rule.pattern))
    }

    /// True if nothing is said of chains, of shapes of chunks, of bounds and of releases of HDF5: whatever holds the values
    /// will do.
    pub fn leave_all_open(&self) -> bool {
        let is_open = |chunks: &ChunkRule| matches!(chunks, ChunkRule::Auto | ChunkRule::Keep);
        self.chain.is_none()
            && self.plan.is_none()
            && self.quality.is_lossless()
            && self.libver == LibverBounds::default()
            && is_open(&self.chunks)
            && self.rules.iter().all(|rule| {
                rule.chain.is_none()
                    && rule.chunks.as_ref().is_none_or(is_open)
                    && rule.quality.is_none_or(|quality| quality.is_lossless())
            })
    }

    /// Names that something is said of chunks about, to no effect: all variables that are meant are copied as they are, or
    /// small and in one chunk.
    pub fn chunks_unheard(&self, model: &Model, is_copied: impl Fn(&Variable) -> bool) -> Vec<&str> {
        let is_small = |variable: &Variable| variable.raw_bytes() <= chunks::SMALLEST;
        let has = |variable: &Variable, name: &str| variable.dimensions.iter().flatten().any(|known| known == name);
        let mut unheard = Vec::new();
        for rule in self.rules.iter().filter(|rule| !is_pattern(&rule.pattern)) {
            let Some(ChunkRule::Shape(_)) = rule.chunks else { continue };
            let along = |variable: &Variable| rule.along(variable).is_some();
            let mut meant = model.variables.iter().filter(|v| along(v) || matches(&rule.pattern, v)).peekable();
            if meant.peek().is_some() && meant.all(|v| is_copied(v) || (along(v) && is_small(v))) {
                unheard.push(&*rule.pattern);
            }
        }
        if let ChunkRule::Along(along) = &self.chunks {
            for (name, _) in along {
                let mut meant = model.variables.iter().filter(|variable| has(variable, name)).peekable();
                if meant.peek().is_some() && meant.all(|variable| is_copied(variable) || is_small(variable)) {
                    unheard.push(name);
                }
            }
        }
        unheard
    }

    /// The same without anything that may change values.
    #[must_use]
    pub fn without_bounds(&self) -> Self {
        let rules = self.rules.iter().map(|rule| Rule { quality: None, ..rule.clone() }).collect();
        Self { quality: Quality::LOSSLESS, rules, ..self.clone() }
    }

    /// The same without what is asked of single variables, and without a chain and chunks for all of them.
    #[must_use]
    pub fn of_no_variable(&self) -> Self {
        let (quality, chunks) = (Quality::LOSSLESS, ChunkRule::Auto);
        Self { quality, chain: None, chunks, rules: Vec::new(), ..self.clone() }
    }

    /// Checks the qualities as far as no file need be known: numbers, and that for each part that qualifies a bound
    /// there is one for some variable.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check_qualities(&self) -> Result<()> {
        self.quality.validate_numbers()?;
        let mut all = self.quality;
        for rule in &self.rules {
            if let Some(quality) = rule.quality {
                quality.validate_numbers().map_err(|error| error.at_variable(&rule.pattern))?;
                all = all.joined(quality);
            }
        }
        all.validate_parts()
    }

    /// Checks that every rule that names a variable or a dimension finds it, unless the names are those of many files or what a
    /// file lacks is left out.
    ///
    /// # Errors
    /// `Usage` with the nearest names.
    pub fn check_names(&self, model: &Model) -> Result<()> {
        if self.names_of_many || self.lenient {
            return Ok(());
        }
        self.lacking(model).into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The names and patterns that nothing in the file is called, with what to say of each.
    pub fn lacking(&self, model: &Model) -> Vec<(Name, Error)> {
        let names = self.names().into_iter().filter(|name| !name.is_in(model));
        names.map(|name| (name.clone(), name.missing_in(model))).collect()
    }

    /// The names and patterns that nothing in the file is called, as they were written.
    pub fn lacking_names(&self, model: &Model) -> Vec<String> {
        self.names().into_iter().filter(|name| !name.is_in(model)).map(|name| name.text).collect()
    }

    /// The names and patterns in these settings, each once.
    pub fn names(&self) -> BTreeSet<Name> {
        let chunks = self.rules.iter().filter_map(|rule| rule.chunks.as_ref()).chain([&self.chunks]);
        let dimensions = chunks.flat_map(|chunks| match chunks {
            ChunkRule::Along(along) => along.as_slice(),
            _ => &[],
        });
        let dimensions = dimensions.map(|(name, _)| Name { text: name.clone(), variable: false, dimension: true });
        let variables = self.rules.iter().map(|rule| Name {
            text: rule.pattern.clone(),
            variable: true,
            dimension: rule.length().is_some(),
        });
        variables.chain(dimensions).collect()
    }
}

impl Rule {
    /// The one number that is said of chunks, which can be the length along a dimension called so.
    fn length(&self) -> Option<u64> {
        match &self.chunks {
            Some(ChunkRule::Shape(shape)) if shape.len() == 1 && !is_pattern(&self.pattern) => shape.first().copied(),
            _ => None,
        }
    }

    /// The dimension of `variable` that is meant, with the length of chunks along it.
    fn along(&self, variable: &Variable) -> Option<(String, u64)> {
        let has = variable.dimensions.iter().flatten().any(|dimension| *dimension == self.pattern);
        self.length().filter(|_| has).map(|length| (self.pattern.clone(), length))
    }
}

/// A name or pattern that settings hold, and what it can stand for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    text: String,
    variable: bool,
    dimension: bool,
}

impl Name {
    /// True if the file has something called so.
    fn is_in(&self, model: &Model) -> bool {
        let mut variables = model.variables.iter();
        variables.any(|variable| {
            (self.variable && matches(&self.text, variable))
                || (self.dimension && variable.dimensions.iter().flatten().any(|dimension| *dimension == self.text))
        })
    }

    /// What to say of a file that has nothing called so.
    fn missing_in(&self, model: &Model) -> Error {
        let text = self.text.as_str();
        let error = || no_variable(model, text);
        if !self.dimension {
            return error();
        }
        let dimensions: BTreeSet<&str> =
            model.variables.iter().flat_map(|variable| variable.dimensions.iter().flatten()).map(|n| &**n).collect();
        let names = nearest(text, dimensions.into_iter(), 8);
        let dimensions = if names.is_empty() {
            "the file has no dimensions with a name".to_owned()
        } else {
            format!("the file has the dimensions {names}")
        };
        if !self.variable {
            return Error::usage(format!("there is no dimension '{text}'")).hint(dimensions);
        }
        // Another name of a variable is one, too.
        let error = error();
        if !error.message().starts_with("there is no variable") {
            return error;
        }
        let variables = nearest(text, model.variables.iter().map(Variable::name), 8);
        Error::usage(format!("there is no dimension '{text}', and no variable of that name"))
            .hint(format!("{dimensions}, and the variables {variables}"))
    }
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn matches(pattern: &str, variable: &Variable) -> bool {
    glob(pattern.as_bytes(), variable.name().as_bytes()) || glob(pattern.as_bytes(), variable.path.as_bytes())
}

/// Whether `name` matches `pattern`: `*` is any run of characters, `?` one.
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    glob(pattern.as_bytes(), name.as_bytes())
}

fn glob(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| glob(rest, &name[skip..])),
        Some((b'?', rest)) => name.split_first().is_some_and(|(_, tail)| glob(rest, tail)),
        Some((byte, rest)) => name.split_first().is_some_and(|(first, tail)| first == byte && glob(rest, tail)),
    }
}

/// The names most like `wanted`, at most `most` of them, for 'did you mean'.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>, most: usize) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_by_key(|name| distance(name, wanted));
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    let named = names.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::DType;
    use knarr_array::model::StorageLayout;

    fn variable(path: &str, dtype: DType, shape: &[u64], layout: StorageLayout) -> Variable {
        Variable { layout, ..Variable::plain(path, dtype, shape.to_vec()) }
    }

    #[test]
    fn names_beat_nothing_and_later_rules_win() {
        let model =
            Model { groups: vec![], variables: vec![variable("/g/T", DType::F32, &[4], StorageLayout::Contiguous)] };
        let abs = |x| Quality { max_abs_error: Some(x), ..Quality::LOSSLESS };
        let rule = |pattern: &str, x| Rule { pattern: pattern.to_owned(), quality: Some(abs(x)), ..Rule::default() };
        let settings = Settings { rules: vec![rule("*", 1.0), rule("g/T", 0.5)], ..Settings::default() };
        assert_eq!(settings.of(&Coordinates::of(&model), &model.variables[0]).unwrap().quality, abs(0.5));
        let wrong = Settings { rules: vec![rule("g/t", 1.0)], ..Settings::default() };
        assert!(wrong.check_names(&model).unwrap_err().to_string().contains("g/T"));
    }

    #[test]
    fn rules_that_meet_hold_together_and_names_win_over_patterns() {
        let t = variable("/T", DType::F32, &[4], StorageLayout::Contiguous);
        let mut lat = variable("/lat", DType::F32, &[4], StorageLayout::Contiguous);
        lat.dimensions = vec![Some("lat".to_owned())];
        let model = Model { groups: vec![], variables: vec![t, lat] };
        let rule = |(pattern, quality): &(&str, &str)| Rule {
            pattern: (*pattern).to_owned(),
            quality: Some(quality.parse().unwrap()),
            ..Rule::default()
        };
        let of = |general: &str, rules: &[(&str, &str)], at: usize| {
            let rules = rules.iter().map(rule).collect();
            let settings = Settings { quality: general.parse().unwrap(), rules, ..Settings::default() };
            settings.of(&Coordinates::of(&model), &model.variables[at]).map(|found| found.quality.to_string())
        };
        for (general, rules, expected) in [
            (
                "lossless",
                &[("T", "max_abs_error=0.01"), ("T*", "significant_digits=4")][..],
                "max_abs_error=0.01, significant_digits=4",
            ),
            ("max_abs_error=0.01", &[("T", "significant_digits=4")], "max_abs_error=0.01, significant_digits=4"),
            ("lossless", &[("T", "max_abs_error=0.001"), ("T*", "max_abs_error=0.5")], "max_abs_error=0.001"),
            ("lossless", &[("T*", "max_abs_error=1"), ("*", "max_abs_error=2")], "max_abs_error=2"),
            ("max_rel_error=0.1", &[("T", "finest_abs_error=1e-6")], "max_rel_error=0.1, finest_abs_error=0.000001"),
            ("max_rel_error=0.1", &[("T", "exact_from=300")], "max_rel_error=0.1, exact_from=300"),
            ("max_abs_error=1", &[("T", "lossless"), ("*", "max_rel_error=0.1")], "lossless"),
            ("max_abs_error=1", &[("*", "lossless"), ("T", "max_rel_error=0.1")], "max_rel_error=0.1"),
            ("max_abs_error=1", &[("*", "lossless")], "lossless"),
        ] {
            assert_eq!(of(general, rules, 0).unwrap(), expected, "{general} {rules:?}");
        }
        assert!(of("max_abs_error=1", &[("T", "finest_abs_error=0.1")], 0).is_err(), "no relative bound");
        assert_eq!(of("max_abs_error=1", &[("*", "exact_from=9")], 1).unwrap(), "lossless");
        assert_eq!(of("max_abs_error=1", &[("lat", "max_rel_error=0.1")], 1).unwrap(), "max_rel_error=0.1");
        let lossless = Settings {
            quality: "max_abs_error=1".parse().unwrap(),
            rules: vec![rule(&("T", "lossless"))],
            ..Settings::default()
        };
        assert!(lossless.of(&Coordinates::of(&model), &model.variables[0]).unwrap().kept_lossless.is_some());
    }

    #[test]
    fn chains_and_chunks_of_names_win_over_later_patterns() {
        let model =
            Model { groups: vec![], variables: vec![variable("/T", DType::F32, &[4], StorageLayout::Contiguous)] };
        let rule = |pattern: &str, chain: &str, chunks: u64| Rule {
            pattern: pattern.to_owned(),
            chain: Some(chain.parse().unwrap()),
            chunks: Some(ChunkRule::Shape(vec![chunks])),
            ..Rule::default()
        };
        let settings =
            Settings { rules: vec![rule("T", "zstd:3", 1), rule("*", "deflate:5", 2)], ..Settings::default() };
        let found = settings.of(&Coordinates::of(&model), &model.variables[0]).unwrap();
        assert_eq!((found.chain.unwrap().to_string(), found.chunks), ("zstd:3".to_owned(), ChunkRule::Shape(vec![1])));
    }

    #[test]
    fn what_no_file_can_make_right_is_refused() {
        let check = |general: &str, rule: &str| {
            let rules = vec![Rule { pattern: "T".to_owned(), quality: Some(rule.parse().unwrap()), ..Rule::default() }];
            Settings { quality: general.parse().unwrap(), rules, ..Settings::default() }.check_qualities()
        };
        assert!(check("max_rel_error=0.1", "finest_abs_error=1e-6").is_ok());
        assert!(check("max_abs_error=0.1", "finest_abs_error=1e-6").is_err());
        assert!(check("lossless", "exact_from=5").is_err());
        assert!(check("lossless", "max_abs_error=-5").unwrap_err().to_string().contains("variable 'T'"));
    }

    #[test]
    fn general_bounds_spare_integers_and_coordinates_but_named_ones_are_errors() {
        let mut lat = variable("/lat", DType::F32, &[4], StorageLayout::Contiguous);
        lat.dimensions = vec![Some("lat".to_owned())];
        let model =
            Model { groups: vec![], variables: vec![lat, variable("/n", DType::I32, &[4], StorageLayout::Contiguous)] };
        let quality = Quality { max_abs_error: Some(1.0), ..Quality::LOSSLESS };
        let general = Settings { quality, ..Settings::default() };
        for variable in &model.variables {
            let found = general.of(&Coordinates::of(&model), variable).unwrap();
            assert!(found.quality.is_lossless() && found.kept_lossless.is_some());
        }
        let rule = |name: &str| Rule { pattern: name.to_owned(), quality: Some(quality), ..Rule::default() };
        let named = Settings { rules: vec![rule("n"), rule("lat")], ..Settings::default() };
        assert!(named.of(&Coordinates::of(&model), &model.variables[1]).is_err());
        assert_eq!(named.of(&Coordinates::of(&model), &model.variables[0]).unwrap().quality, quality);
    }

    #[test]
    fn chunks_are_said_of_dimensions() {
        let named = |path: &str, dimensions: &[&str], shape: &[u64]| Variable {
            dimensions: dimensions.iter().map(|name| Some((*name).to_owned())).collect(),
            ..variable(path, DType::F32, shape, StorageLayout::Chunked(vec![1; shape.len()]))
        };
        let model = Model {
            groups: vec![],
            variables: vec![
                named("/tas", &["time", "lat", "lon"], &[1980, 90, 180]),
                named("/time", &["time"], &[1980]),
                named("/orog", &["lat", "lon"], &[90, 180]),
            ],
        };
        let of = |general: &str, rules: &[(&str, &str)]| {
            let rules = rules.iter().map(|(pattern, chunks)| Rule {
                pattern: (*pattern).to_owned(),
                chunks: Some(chunks.parse().unwrap()),
                ..Rule::default()
            });
            let chunks = general.parse().unwrap();
            let settings = Settings { chunks, rules: rules.collect(), ..Settings::default() };
            settings.check_names(&model)?;
            let shapes = model.variables.iter().map(|variable| chunk_shape(&settings.chunks_of(variable), variable));
            shapes.collect::<Result<Vec<_>>>()
        };
        let expected = |tas: [u64; 3], time: u64, orog: [u64; 2]| vec![tas.to_vec(), vec![time], orog.to_vec()];
        for (general, rules, tas, time, orog) in [
            ("auto", &[("time", "12")][..], [12, 90, 180], 1980, [90, 180]),
            ("time/12", &[], [12, 90, 180], 1980, [90, 180]),
            ("time/12,lat/45,lon/", &[], [12, 45, 180], 1980, [45, 180]),
            ("time/12", &[("lat", "9")], [12, 9, 180], 1980, [9, 180]),
            ("time/12", &[("time", "6")], [6, 90, 180], 1980, [90, 180]),
            ("auto", &[("/time", "12")], [16, 90, 180], 12, [90, 180]),
            ("auto", &[("time", "12"), ("tas", "1x90x180")], [1, 90, 180], 1980, [90, 180]),
            ("auto", &[("time", "1980")], [1980, 1, 90], 1980, [90, 180]),
            ("auto", &[("*", "keep"), ("time", "12")], [12, 90, 180], 1980, [1, 1]),
            ("auto", &[("t*", "time/12")], [12, 90, 180], 1980, [90, 180]),
        ] {
            let found = of(general, rules).unwrap();
            assert_eq!(found, expected(tas, time, orog), "{general} {rules:?}");
        }
        assert!(of("tme/12", &[]).unwrap_err().to_string().contains("lat, lon"));
        let told = of("auto", &[("tme", "12")]).unwrap_err().to_string();
        assert!(told.contains("no dimension 'tme'") && told.contains("dimensions time, lat, lon"), "{told}");
        for text in ["time/0", "/12", "time/12,", "time/x"] {
            assert!(text.parse::<ChunkRule>().is_err(), "{text}");
        }
    }
}
