//! Samples of sources on which all candidate chains are run: what a model is trained on.

use crate::settings::{ChunkRule, chunk_shape};
use crate::store::Source;
use crate::threads::engine::{Engine, Progress};
use knarr_array::array::{ArraySpec, is_constant};
use knarr_array::error::Result;
use knarr_array::model::Variable;
use knarr_array::quality::Quality;
use knarr_array::region::Region;
use knarr_choose::choose::{all_chains, cut, sample_regions};
use knarr_choose::features::Features;
use knarr_choose::predictor::{Measured, Record};
use knarr_choose::profile::Clock;
use knarr_codec::chain::{Chain, Scratch};

/// Bytes of a sample that features are computed from: as choices do.
const FEATURES: usize = 768 << 10;
/// Variables smaller than this say little about large ones.
const SMALLEST: u64 = 128 << 10;
/// Fractions of the range of a sample to which floating-point samples are rounded, in turn: lossless chains behind a
/// rounding step see such values.
const ROUNDINGS: [f64; 4] = [1e-3, 1e-4, 1e-2, 1e-5];

/// A source to take samples of, and the family of each of its variables.
pub struct Origin<'a> {
    /// Where the values are.
    pub source: &'a dyn Source,
    /// Family of the variable: see [`Record::family`].
    pub family: &'a dyn Fn(&Variable) -> String,
}

/// Runs all candidate chains on up to `samples` chunks of every variable of `origins`, each as it is and, if it is
/// floating point, rounded. The first chunk of every variable comes before the second of any. Ends after `seconds` by
/// `clock`. What is sampled follows from the sources alone.
///
/// # Errors
/// What reading reports; `Internal` if a chain does not return what it encoded; `Interrupted`.
pub fn record(
    engine: &Engine,
    origins: &[Origin<'_>],
    samples: usize,
    seconds: f64,
    clock: Clock<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Record>> {
    let places = places(origins, samples)?;
    progress.begin("measuring", places.iter().map(Sample::bytes).sum());
    let begin = clock();
    let mut records = Vec::new();
    for (number, place) in places.iter().enumerate() {
        if clock() - begin >= seconds {
            break;
        }
        let origin = &origins[place.origin];
        let variable = &origin.source.model().variables[place.variable];
        let mut bytes = Vec::new();
        origin.source.read_region(place.variable, &place.region, &mut bytes)?;
        let spec = variable.chunk_spec(&place.region.count);
        if !is_constant(spec.dtype.size(), &bytes) {
            let family = (origin.family)(variable);
            let rounded = rounded(engine, &spec, &bytes, ROUNDINGS[number % ROUNDINGS.len()]);
            for values in std::iter::once(bytes).chain(rounded) {
                records.push(Record {
                    family: family.clone(),
                    variable: variable.name().to_owned(),
                    ..of(engine, &spec, &values, clock)?
                });
            }
        }
        progress.advance(place.bytes());
    }
    Ok(records)
}

/// A region of a variable of an origin.
struct Sample {
    origin: usize,
    variable: usize,
    region: Region,
    element: u64,
}

impl Sample {
    fn bytes(&self) -> u64 {
        self.region.count.iter().product::<u64>() * self.element
    }
}

fn places(origins: &[Origin<'_>], samples: usize) -> Result<Vec<Sample>> {
    let mut ranked = Vec::new();
    for (origin, from) in origins.iter().enumerate() {
        for (variable, described) in from.source.model().variables.iter().enumerate() {
            let is_read = described.copied_because.is_none() && described.dtype.is_number();
            if !is_read || described.raw_bytes() < SMALLEST {
                continue;
            }
            let chunk = chunk_shape(&ChunkRule::Auto, described)?;
            let element = described.dtype.size() as u64;
            let regions = sample_regions(&described.shape, &chunk, element, samples).into_iter();
            let place = |region| Sample { origin, variable, region, element };
            ranked.extend(regions.map(place).enumerate());
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().map(|(_, place)| place).collect())
}

/// A sample rounded to a fraction of its range; `None` where that changes nothing or cannot be done.
fn rounded(engine: &Engine, spec: &ArraySpec, bytes: &[u8], fraction: f64) -> Option<Vec<u8>> {
    let (low, high) = Quality::LOSSLESS.valid_range(spec, bytes).filter(|_| spec.dtype.is_float())?;
    let chain = format!("round:abs={:?}", (high - low) * fraction).parse().ok()?;
    let mut values = Vec::new();
    Chain::prepare(&engine.codecs, &chain, spec).ok()?.encode(bytes, &mut Scratch::default(), &mut values).ok()?;
    (values != bytes && values.len() == bytes.len()).then_some(values)
}

/// All that is recorded of one sample but its origin.
fn of(engine: &Engine, spec: &ArraySpec, bytes: &[u8], clock: Clock<'_>) -> Result<Record> {
    let part = cut(spec, bytes, FEATURES);
    let mut chains = Vec::new();
    for chain in all_chains(None) {
        engine.check_cancelled()?;
        chains.extend(Measured::of(&engine.codecs, &chain, spec, bytes, clock)?);
    }
    Ok(Record {
        family: String::new(),
        variable: String::new(),
        features: Features::of(&part.0, &part.1),
        bytes: bytes.len() as u64,
        chains,
    })
}
