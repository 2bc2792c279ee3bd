//! Client data of Knarr's HDF5 filter (`cd_values`): what a file says to the filter about one dataset.
//!
//! Whoever creates a dataset gives options: goal, quality, a value that means 'missing'. The filter adds what the
//! chunks are, and a checksum, when HDF5 creates the dataset; from then on the words alone say everything, in any
//! process and on any machine. Layout, version 1; a word is 32 bits, an f64 takes two, the low one first:
//!
//! ```text
//! word 0   version
//! word 1   bits 0-3 goal: 0 balanced, 1 speed, 2 ratio, 3 archive, 4 energy, 15 weights and limits follow
//!          bit 4 max_abs_error, 5 max_range_error, 6 max_rel_error, 7 finest_abs_error, 8 missing value,
//!          9 exact_up_to, 10 exact_from follow
//!          bits 16-21 significant_bits, bits 22-25 significant_digits; 0 is none
//!          bit 31 the chunks' part follows
//! [goal 15: word of bits 0-3 weights of ratio, encode, decode, energy, bits 4-7 limits on them; an f32 each]
//! [f64 per number that follows, in the order of the bits]
//! chunks   bits 0-7 type as in frames, 0 for bytes that another filter wrote; bit 8 big-endian
//!          bit 9 extents take two words, the low one first; bits 10-11 count of fill values; bits 16-21 rank
//!          [element size, if opaque]  extents, slowest first  fill values, of one word or, for 8-byte types, two
//! last     CRC-32C of all words before, little-endian
//! ```
//!
//! No words at all, and word 0 alone, mean: lossless, goal 'balanced'.

use std::fmt;

use crate::frame::{dtype_number, numbered_dtype};
use knarr_array::array::{ArraySpec, DType, Endian};
use knarr_array::error::{Error, Result};
use knarr_array::goal::{Goal, Measure, NAMED};
use knarr_array::quality::Quality;

const VERSION: u32 = 1;
/// Axes that HDF5 allows.
const MAX_RANK: usize = 32;
/// Fill values at most: that of the dataset, and missing values beside it.
pub const MAX_FILLS: usize = 3;
/// Goals by number; `NAMED` has another order, which may grow.
const GOALS: [&str; 5] = ["balanced", "speed", "ratio", "archive", "energy"];
const OWN_GOAL: u32 = 15;
const MEASURES: [(Measure, &str); 4] =
    [(Measure::Ratio, "ratio"), (Measure::Encode, "encode"), (Measure::Decode, "decode"), (Measure::Energy, "energy")];
/// Bit in word 1 of the first number that follows.
const NUMBERS: u32 = 4;
/// Words that h5repack passes on, at most.
const MOST_WORDS: usize = 20;
const COMPLETE: u32 = 1 << 31;
/// Every bit of word 1 that has a meaning.
const KNOWN: u32 = 0x83FF_07FF;
const BIG_ENDIAN: u32 = 1 << 8;
const WIDE: u32 = 1 << 9;
/// Every bit of the first word about chunks that has a meaning.
const KNOWN_CHUNKS: u32 = 0x003F_0FFF;

/// What whoever creates the dataset asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct FilterOptions {
    /// What to optimise.
    pub goal: Goal,
    /// What may change in the data.
    pub quality: Quality,
    /// A value that stays exact beside the fill value of the dataset, as in an attribute `missing_value`.
    pub missing: Option<f64>,
}

impl Default for FilterOptions {
    fn default() -> Self {
        Self { goal: Goal::balanced(), quality: Quality::LOSSLESS, missing: None }
    }
}

/// What differs from the default, as `name=value` pairs separated by commas.
impl fmt::Display for FilterOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = (self.goal != Goal::balanced()).then(|| format!("goal={}", self.goal));
        let quality = (self.quality != Quality::LOSSLESS).then(|| self.quality.to_string());
        let missing = self.missing.map(|value| format!("missing_value={value}"));
        let parts: Vec<String> = [goal, quality, missing].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// What reaches the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunks {
    /// The elements of a chunk.
    Array(ArraySpec),
    /// What an earlier filter of the pipeline made of them: bytes, of any number.
    Bytes,
}

/// The words as a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClientData {
    /// What was asked for.
    pub options: FilterOptions,
    /// What the chunks are; absent until the dataset is created.
    pub chunks: Option<Chunks>,
}

impl ClientData {
    /// What the words of a file or program say.
    ///
    /// # Errors
    /// `Unsupported` if a later version wrote them; `Corrupt` if they make no sense or fail their checksum; `Usage`
    /// if a wish is out of range.
    pub fn parse(words: &[u32]) -> Result<Self> {
        let mut reader = Words { rest: words };
        let Some(version) = reader.optional() else { return Ok(Self::default()) };
        let later = |what: String| {
            Error::unsupported(format!("client data {what}, this is version {VERSION}")).hint("use a newer Knarr")
        };
        if version != VERSION {
            return Err(later(format!("of version {version}")));
        }
        let Some(first) = reader.optional() else { return Ok(Self::default()) };
        let complete = first & COMPLETE != 0;
        if complete {
            let (sum, before) = words.split_last().ok_or_else(short)?;
            if checksum(before) != *sum {
                return Err(Error::corrupt("the checksum of the client data is wrong")
                    .hint("the file is damaged: restore it from a copy"));
            }
        }
        if first & !KNOWN != 0 {
            return Err(later(format!("with bits {:#x}", first & !KNOWN)));
        }
        let options = reader.options(first)?;
        if words.len() - reader.rest.len() > MOST_WORDS {
            return Err(too_many(words.len()));
        }
        let chunks = if complete { Some(reader.chunks()?) } else { None };
        if reader.rest.len() != usize::from(complete) {
            return Err(too_many(words.len()));
        }
        Ok(Self { options, chunks })
    }

    /// The words for a file or program.
    ///
    /// # Errors
    /// `Usage` for options out of range; `Unsupported` for more options than programs pass on, and for chunks of more than
    /// 32 axes or 3 fill values.
    pub fn words(&self) -> Result<Vec<u32>> {
        let FilterOptions { goal, quality, .. } = &self.options;
        quality.validate(DType::F64)?;
        let numbers = self.options.numbers();
        let mut first = 0;
        for (bit, number) in (NUMBERS..).zip(numbers) {
            first |= u32::from(number.is_some()) << bit;
        }
        first |= quality.significant_bits.unwrap_or(0) << 16 | quality.significant_digits.unwrap_or(0) << 22;
        first |= if self.chunks.is_some() { COMPLETE } else { 0 };
        let (number, own) = goal_words(goal)?;
        let mut words = vec![VERSION, first | number];
        words.extend(own);
        numbers.into_iter().flatten().for_each(|value| push_wide(&mut words, value.to_bits()));
        if words.len() > MOST_WORDS {
            return Err(Error::unsupported(format!("{} words of wishes, programs pass on {MOST_WORDS}", words.len()))
                .hint("use a named goal, or leave out a bound that another one implies"));
        }
        if let Some(chunks) = &self.chunks {
            push_chunks(&mut words, chunks)?;
            words.push(checksum(&words));
        }
        Ok(words)
    }
}

impl FilterOptions {
    /// The numbers in the order of their bits.
    fn numbers(&self) -> [Option<f64>; 7] {
        let Quality { max_abs_error, max_range_error, max_rel_error, finest_abs_error, .. } = self.quality;
        let Quality { exact_up_to, exact_from, .. } = self.quality;
        [max_abs_error, max_range_error, max_rel_error, finest_abs_error, self.missing, exact_up_to, exact_from]
    }
}

/// Number of the goal, and the words that follow where it has no name.
fn goal_words(goal: &Goal) -> Result<(u32, Vec<u32>)> {
    let named = NAMED.contains(&goal.text.as_str());
    if let Some((number, _)) = (0..).zip(GOALS).find(|(_, name)| named && *name == goal.text) {
        return Ok((number, Vec::new()));
    }
    let weight = |wanted| {
        let all = goal.weights.iter().filter(|(measure, _)| *measure == wanted);
        all.map(|(_, weight)| *weight).reduce(|a, b| a + b)
    };
    let limit = |wanted| {
        let all = goal.limits.iter().filter(|limit| limit.measure == wanted).map(|limit| limit.value);
        // Where a measure is limited twice, both limits hold: for energy the lower is the closer one.
        if wanted == Measure::Energy { all.reduce(f64::min) } else { all.reduce(f64::max) }
    };
    let values = MEASURES.map(|(measure, _)| weight(measure)).into_iter().chain(MEASURES.map(|(m, _)| limit(m)));
    let mut words = vec![0];
    let mut present = 0u32;
    for (bit, value) in values.enumerate() {
        let Some(value) = value else { continue };
        #[expect(clippy::cast_possible_truncation, reason = "weights and limits need no more digits")]
        let single = value as f32;
        check_goal_value(single)?;
        present |= 1 << bit;
        words.push(single.to_bits());
    }
    if let Some(first) = words.first_mut() {
        *first = present;
    }
    Ok((OWN_GOAL, words))
}

/// Weights and limits are ordinary numbers above 0.
fn check_goal_value(value: f32) -> Result<()> {
    if value.is_normal() && value > 0.0 {
        return Ok(());
    }
    Err(Error::usage(format!("a weight or limit of the goal is {value:e}")).hint("give 1e-30 to 1e30"))
}

fn push_chunks(words: &mut Vec<u32>, chunks: &Chunks) -> Result<()> {
    let Chunks::Array(spec) = chunks else {
        words.push(0);
        return Ok(());
    };
    if spec.shape.len() > MAX_RANK || spec.fills.len() > MAX_FILLS {
        return Err(Error::unsupported(format!("client data for {} axes", spec.shape.len()))
            .hint("HDF5 filters take chunks of at most 32 axes"));
    }
    let wide = spec.shape.iter().any(|&extent| u32::try_from(extent).is_err());
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    words.push(
        u32::from(dtype_number(spec.dtype))
            | if spec.endian == Endian::Big { BIG_ENDIAN } else { 0 }
            | if wide { WIDE } else { 0 }
            | count(spec.fills.len()) << 10
            | count(spec.shape.len()) << 16,
    );
    if let DType::Opaque(size) = spec.dtype {
        words.push(size);
    }
    let mut push = |value: u64, wide: bool| {
        push_wide(words, value);
        if !wide {
            words.pop();
        }
    };
    spec.shape.iter().for_each(|&extent| push(extent as u64, wide));
    spec.fills.iter().for_each(|&fill| push(fill, spec.dtype.size() > 4));
    Ok(())
}

fn push_wide(words: &mut Vec<u32>, value: u64) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    words.extend([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]);
}

fn checksum(words: &[u32]) -> u32 {
    words.iter().fold(0, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()))
}

fn too_many(words: usize) -> Error {
    Error::corrupt(format!("client data of {words} words, which is too many"))
        .hint("take the words from 'knarr hdf5-filter'")
}

fn short() -> Error {
    Error::corrupt("client data ends early").hint("take the words from 'knarr hdf5-filter'")
}

/// What is left of the words.
struct Words<'a> {
    rest: &'a [u32],
}

impl Words<'_> {
    fn optional(&mut self) -> Option<u32> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn word(&mut self) -> Result<u32> {
        self.optional().ok_or_else(short)
    }

    fn wide(&mut self, wide: bool) -> Result<u64> {
        let low = u64::from(self.word()?);
        Ok(if wide { low | u64::from(self.word()?) << 32 } else { low })
    }

    fn options(&mut self, first: u32) -> Result<FilterOptions> {
        let goal = self.goal(first & 0xF)?;
        let mut following = |present: bool| -> Result<Option<f64>> {
            if present { self.wide(true).map(f64::from_bits).map(Some) } else { Ok(None) }
        };
        let mut number = |number: u32| following(first >> (NUMBERS + number) & 1 == 1);
        let [max_abs_error, max_range_error, max_rel_error, finest_abs_error, missing, exact_up_to, exact_from] =
            [number(0)?, number(1)?, number(2)?, number(3)?, number(4)?, number(5)?, number(6)?];
        let quality = Quality {
            max_abs_error,
            max_range_error,
            max_rel_error,
            finest_abs_error,
            exact_up_to,
            exact_from,
            significant_bits: Some(first >> 16 & 0x3F).filter(|bits| *bits > 0),
            significant_digits: Some(first >> 22 & 0xF).filter(|digits| *digits > 0),
        };
        quality.validate(DType::F64)?;
        Ok(FilterOptions { goal, quality, missing })
    }

    fn goal(&mut self, number: u32) -> Result<Goal> {
        let unknown = || Error::corrupt(format!("client data with goal {number}"));
        if number != OWN_GOAL {
            let name = usize::try_from(number).ok().and_then(|number| GOALS.get(number)).ok_or_else(unknown)?;
            return name.parse();
        }
        let present = self.word()?;
        let mut items = Vec::new();
        for bit in (0..u32::BITS).filter(|bit| present >> bit & 1 == 1) {
            let (measure, name) = usize::try_from(bit % 4).ok().and_then(|at| MEASURES.get(at)).ok_or_else(unknown)?;
            let sign = match (bit / 4, measure) {
                (0, _) => "=",
                (1, Measure::Energy) => "<=",
                (1, _) => ">=",
                _ => return Err(unknown()),
            };
            let value = f32::from_bits(self.word()?);
            check_goal_value(value)?;
            items.push(format!("{name}{sign}{value}"));
        }
        items.join(",").parse()
    }

    fn chunks(&mut self) -> Result<Chunks> {
        let first = self.word()?;
        let damaged = |what: &str| Error::corrupt(format!("client data with an impossible {what}"));
        if first & !KNOWN_CHUNKS != 0 {
            return Err(damaged("chunk"));
        }
        let number = first.to_le_bytes()[0];
        if number == 0 {
            return if first == 0 { Ok(Chunks::Bytes) } else { Err(damaged("chunk")) };
        }
        let dtype = numbered_dtype(number, || self.word())?.ok_or_else(|| damaged("type"))?;
        let (rank, fills) = ((first >> 16 & 0x3F) as usize, first >> 10 & 3);
        if rank > MAX_RANK || fills as usize > MAX_FILLS || dtype.size() == 0 {
            return Err(damaged("chunk"));
        }
        let endian = if first & BIG_ENDIAN == 0 { Endian::Little } else { Endian::Big };
        let extent = |words: &mut Self| {
            usize::try_from(words.wide(first & WIDE != 0)?).ok().filter(|n| *n > 0).ok_or_else(|| damaged("extent"))
        };
        let shape = (0..rank).map(|_| extent(self)).collect::<Result<_>>()?;
        let fills = (0..fills).map(|_| self.wide(dtype.size() > 4)).collect::<Result<_>>()?;
        let spec = ArraySpec { dtype, endian, shape, fills };
        spec.checked_len().map_err(|_| damaged("shape"))?;
        Ok(Chunks::Array(spec))
    }
}

/// Makes the words complete ones of this version with the right checksum, if there are enough of them. For fuzzing what
/// lies behind the checksum.
pub fn set_checksum(words: &mut [u32]) {
    if let [version, first, ..] = words {
        *version = VERSION;
        *first |= COMPLETE;
    }
    if let Some((last, before)) = words.split_last_mut() {
        *last = checksum(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::error::ErrorKind;
    use proptest::prelude::*;

    fn array() -> ArraySpec {
        let fills = vec![u64::from(1e20f32.to_bits()), u64::from(f32::NAN.to_bits())];
        ArraySpec { dtype: DType::F32, endian: Endian::Big, shape: vec![3, 70_000, 5], fills }
    }

    #[test]
    fn nothing_and_the_version_alone_mean_lossless_and_balanced() {
        for words in [&[][..], &[1], &[1, 0]] {
            assert_eq!(ClientData::parse(words).unwrap(), ClientData::default());
        }
        assert_eq!(ClientData::default().words().unwrap(), [1, 0]);
    }

    #[test]
    fn the_layout_is_pinned() {
        let quality = Quality { max_abs_error: Some(0.01), significant_digits: Some(4), ..Quality::LOSSLESS };
        let options = FilterOptions { goal: "ratio".parse().unwrap(), quality, missing: Some(-1.0) };
        let data = ClientData { options, chunks: Some(Chunks::Array(array())) };
        let words = data.words().unwrap();
        let expected = [
            1,
            0x8000_0000 | 4 << 22 | 1 << 8 | 1 << 4 | 2,
            0x47AE_147B,
            0x3F84_7AE1,
            0,
            0xBFF0_0000,
            3 << 16 | 2 << 10 | 1 << 8 | 10,
            3,
            70_000,
            5,
            1e20f32.to_bits(),
            f32::NAN.to_bits(),
        ];
        assert_eq!(words[..words.len() - 1], expected);
        assert_eq!(ClientData::parse(&words).unwrap(), data);
    }

    #[test]
    fn goals_of_ones_own_and_wide_shapes_come_back() {
        let goal: Goal = "ratio=0.4,encode=0.25,energy<=30,decode>=100MB/s".parse().unwrap();
        let spec = ArraySpec::new(DType::Opaque(12), [1 << 33, 2]);
        let data = ClientData {
            options: FilterOptions { goal: goal.clone(), ..FilterOptions::default() },
            chunks: Some(Chunks::Array(spec.clone())),
        };
        let back = ClientData::parse(&data.words().unwrap()).unwrap();
        assert_eq!(back.chunks, Some(Chunks::Array(spec)));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * b.abs();
        let merits = knarr_array::goal::Merits { ratio: 3.0, encode: 200.0, decode: 50.0, energy: 40.0 };
        assert!(close(back.options.goal.score(&merits), goal.score(&merits)));
        let bytes = ClientData { chunks: Some(Chunks::Bytes), ..ClientData::default() };
        assert_eq!(ClientData::parse(&bytes.words().unwrap()).unwrap(), bytes);
    }

    #[test]
    fn options_never_take_more_words_than_h5repack_passes_on() {
        let quality = Quality {
            max_abs_error: Some(1.0),
            max_range_error: Some(0.1),
            max_rel_error: Some(0.1),
            finest_abs_error: Some(0.1),
            significant_bits: Some(52),
            significant_digits: Some(15),
            ..Quality::LOSSLESS
        };
        let exact = Quality { exact_up_to: Some(-1.0), exact_from: Some(1.0), ..quality };
        let words = |goal: &str, quality| {
            let options = FilterOptions { goal: goal.parse().unwrap(), quality, missing: Some(1e20) };
            ClientData { options, chunks: None }.words()
        };
        for goal in ["ratio=1,encode=1,decode=1,energy=1", "ratio>=2,encode>=1,decode>=1,energy<=9", "archive"] {
            assert!(words(goal, quality).unwrap().len() <= 20, "{goal}");
        }
        assert!(words("archive", exact).unwrap().len() <= 20);
        let error = words("ratio=1,encode=1,decode=1,energy=1", exact).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let kind = |words: &[u32]| ClientData::parse(words).unwrap_err().kind();
        assert_eq!(kind(&[2]), ErrorKind::Unsupported);
        assert_eq!(kind(&[1, 1 << 30]), ErrorKind::Unsupported);
        assert_eq!(kind(&[1, 9]), ErrorKind::Corrupt);
        assert_eq!(kind(&[1, 1 << 4, 0]), ErrorKind::Corrupt);
        assert_eq!(kind(&[1, 0, 0]), ErrorKind::Corrupt);
        assert_eq!(kind(&[1, 60 << 16]), ErrorKind::Usage);
        // A weight that could be read but not written again, as a copy of the dataset does.
        assert_eq!(kind(&[1, 15, 1, 0xAF00]), ErrorKind::Usage);
        // Seven numbers behind a goal with four weights: one word more than programs pass on.
        let weight = 1.0f32.to_bits();
        let mut many = vec![1, OWN_GOAL | 0x7F << NUMBERS, 0xF, weight, weight, weight, weight];
        [1.0, 0.1, 0.1, 0.1, 9.0, -1.0, 1.0].iter().for_each(|number: &f64| push_wide(&mut many, number.to_bits()));
        assert_eq!((many.len(), kind(&many)), (21, ErrorKind::Corrupt));
        let [low, high] = [0, (-1.0f64).to_bits() >> 32].map(|word| u32::try_from(word).unwrap());
        assert_eq!(kind(&[1, 1 << 4, low, high]), ErrorKind::Usage);
    }

    #[test]
    fn every_flipped_bit_of_complete_words_is_noticed() {
        let data = ClientData { chunks: Some(Chunks::Array(array())), ..ClientData::default() };
        let words = data.words().unwrap();
        for (at, bit) in (0..words.len()).flat_map(|at| (0..32).map(move |bit| (at, bit))) {
            let mut damaged = words.clone();
            damaged[at] ^= 1 << bit;
            assert!(ClientData::parse(&damaged).is_err(), "bit {bit} of word {at}");
        }
    }

    proptest! {
        #[test]
        fn any_options_and_chunk_come_back(
            widths in proptest::array::uniform2(proptest::option::of(1e-300f64..1e300)),
            fractions in proptest::array::uniform2(proptest::option::of(1e-300f64..1.0)),
            bits in proptest::option::of(1u32..=52),
            digits in proptest::option::of(1u32..=15),
            missing in proptest::option::of(any::<f64>()),
            up_to in proptest::option::of(-1e30f64..0.0),
            from in proptest::option::of(0.0f64..1e30),
            goal in proptest::sample::select(NAMED.to_vec()),
            number in 1u8..=12,
            big in any::<bool>(),
            shape in proptest::collection::vec(1usize..70_000, 0..4),
            fills in proptest::collection::vec(any::<u64>(), 0..=2),
        ) {
            let dtype = numbered_dtype(number, || Ok(77)).unwrap().unwrap();
            let [max_abs_error, finest] = widths;
            let [max_range_error, max_rel_error] = fractions;
            let relative = max_rel_error.is_some() || bits.is_some() || digits.is_some();
            let bounded = relative || max_abs_error.is_some() || max_range_error.is_some();
            let quality = Quality {
                max_abs_error,
                max_range_error,
                max_rel_error,
                finest_abs_error: finest.filter(|_| relative),
                significant_bits: bits,
                significant_digits: digits,
                exact_up_to: up_to.filter(|_| bounded),
                exact_from: from.filter(|_| bounded),
            };
            let size = dtype.size().min(8);
            let fills = if matches!(dtype, DType::Opaque(_)) { Vec::new() } else { fills };
            let fills: Vec<u64> = fills.into_iter().map(|fill| fill >> (64 - 8 * size)).collect();
            let endian = if big { Endian::Big } else { Endian::Little };
            let data = ClientData {
                options: FilterOptions { goal: goal.parse().unwrap(), quality, missing: missing.filter(|x| !x.is_nan()) },
                chunks: Some(Chunks::Array(ArraySpec { dtype, endian, shape, fills })),
            };
            prop_assert_eq!(ClientData::parse(&data.words().unwrap()).unwrap(), data);
        }

        #[test]
        fn any_words_are_read_or_refused(mut words in proptest::collection::vec(any::<u32>(), 0..40), hint in any::<bool>()) {
            let _ = ClientData::parse(&words);
            if hint && words.len() > 3 {
                // What lies behind version and checksum is reached as well.
                words[0] = 1;
                words[1] = words[1] & KNOWN & !0xF | COMPLETE;
                words.pop();
                words.push(checksum(&words));
                if let Ok(data) = ClientData::parse(&words) {
                    prop_assert!(ClientData::parse(&data.words().unwrap()).is_ok());
                }
            }
        }
    }
}
