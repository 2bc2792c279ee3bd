//! Measures what every step of the candidate chains costs on this machine, in memory, on one core.

use std::collections::BTreeMap;

use super::fields::CLASSES;
use crate::threads::engine::{Engine, Progress};
use knarr_array::array::ArraySpec;
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::quality::Bound;
use knarr_choose::choose::all_chains;
use knarr_choose::profile::{Clock, Cost, Power, Profile, VERSION};
use knarr_codec::chain::{Chain, ChainSpec, Scratch, StepSpec};
use knarr_codec::codec::{CodecList, Loss, Options};

/// Chains whose steps are measured besides those of the candidates, because they can be asked for.
const ASKED_FOR: &[&str] = &[
    "delta | shuffle | zstd:1",
    "xor | shuffle | zstd:1",
    "signs | zstd:3",
    "runs",
    "fletcher32",
    "shuffle | snappy",
    "shuffle | brotli:5",
    "bitround:keepbits=10",
    "granular:digits=4",
    "quantize:abs=0.01",
    "quantize-rel:rel=0.001",
];

/// Error bound of the steps that need one; the speed hardly depends on it.
const BOUND: Bound = Bound { abs: 0.01, ..Bound::NONE };
/// A median of fewer runs says little, unless a run is long.
const LEAST_RUNS: usize = 3;
/// Seconds that the least runs may take where there is no time: a run that takes longer says enough alone.
const SHORT: f64 = 0.02;
/// Seconds below which half fields are measured.
const HURRY: f64 = 8.0;
/// More runs than this add nothing.
const MOST_RUNS: usize = 101;
/// Classes whose ratios lie closer than this are one point of a cost curve.
const SAME_RATIO: f64 = 1.02;

/// Measures all steps within about `seconds`, but each once per class of data, and short ones three times. What slow steps
/// take is taken from the others, which need less.
///
/// # Errors
/// `Interrupted`; `Internal` if a codec does not return what it encoded.
pub fn measure(
    engine: &Engine,
    machine: String,
    power: Power,
    seconds: f64,
    clock: Clock<'_>,
    progress: &dyn Progress,
) -> Result<Profile> {
    let fields = CLASSES.map(|class| class.field(seconds < HURRY));
    let tasks = tasks(&engine.codecs, &fields[0].0);
    let raw = fields[0].1.len() as u64;
    progress.begin("measuring", raw * (tasks.len() * fields.len()) as u64);
    let mut left = tasks.len() * fields.len();
    let begin = clock();
    let mut steps = BTreeMap::new();
    for task in tasks {
        let mut costs = Vec::new();
        for (spec, bytes) in &fields {
            engine.check_cancelled()?;
            #[expect(clippy::cast_precision_loss, reason = "a few hundred at most")]
            let share = (seconds - (clock() - begin)).max(0.0) / left.max(1) as f64;
            left = left.saturating_sub(1);
            match task.run(&engine.codecs, spec, bytes, share, clock) {
                Ok(cost) => costs.push(cost),
                Err(error) if error.kind() == ErrorKind::Internal => {
                    return Err(error.at(format!("measuring '{}'", task.step)));
                }
                // What a codec refuses to encode has no cost.
                Err(_) => {}
            }
            progress.advance(raw);
        }
        let size_is_kept = engine.codecs.named(&task.step.name)?.keeps_size(&task.options);
        if !costs.is_empty() {
            steps.insert(task.key, curve(costs, size_is_kept));
        }
    }
    Ok(Profile { version: VERSION, machine, steps, power })
}

/// A step to measure, with the steps whose output it works on.
struct Task {
    key: String,
    before: ChainSpec,
    step: StepSpec,
    options: Options,
}

/// Each step once, behind what stands before it in the first chain that has it.
fn tasks(codecs: &CodecList, spec: &ArraySpec) -> Vec<Task> {
    let asked_for = ASKED_FOR.iter().filter_map(|text| text.parse().ok());
    let chains = all_chains(None).into_iter().chain(all_chains(Some(&BOUND))).chain(asked_for);
    let mut tasks: Vec<Task> = Vec::new();
    for chain in chains {
        // What this machine or build does not have is left out.
        let (Ok(_), Ok(completed)) = (Chain::prepare(codecs, &chain, spec), chain.complete(codecs)) else { continue };
        for (position, (step, (name, options))) in chain.0.iter().zip(completed).enumerate() {
            let Ok(codec) = codecs.named(&name) else { continue };
            let key = key(step, codec.loss(&options));
            let before = ChainSpec(chain.0[..position].to_vec());
            if tasks.iter().all(|task| task.key != key) && keeps_size(codecs, &before) {
                tasks.push(Task { key, before, step: step.clone(), options });
            }
        }
    }
    tasks
}

fn keeps_size(codecs: &CodecList, chain: &ChainSpec) -> bool {
    chain.complete(codecs).is_ok_and(|steps| {
        steps.iter().all(|(name, options)| codecs.named(name).is_ok_and(|codec| codec.keeps_size(options)))
    })
}

/// Text under which the profile keeps a step. The bound of a lossy step does not belong to it.
fn key(step: &StepSpec, loss: Loss) -> String {
    match loss {
        Loss::Lossless => step.to_string(),
        Loss::Lossy => StepSpec { options: Options::default(), ..step.clone() }.to_string(),
    }
}

impl Task {
    fn run(&self, codecs: &CodecList, spec: &ArraySpec, bytes: &[u8], seconds: f64, clock: Clock<'_>) -> Result<Cost> {
        let mut scratch = Scratch::default();
        let mut input = Vec::new();
        Chain::prepare(codecs, &self.before, spec)?.encode(bytes, &mut scratch, &mut input)?;
        let chain = Chain::prepare(codecs, &ChainSpec(vec![self.step.clone()]), spec)?;
        let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
        let encode = median(seconds / 2.0, clock, || chain.encode(&input, &mut scratch, &mut encoded))?;
        let decode = median(seconds / 2.0, clock, || chain.decode(&encoded, &mut scratch, &mut decoded))?;
        if chain.loss() == Loss::Lossless && decoded != input {
            return Err(Error::internal("decoding did not return what was encoded"));
        }
        #[expect(clippy::cast_precision_loss, reason = "a chunk is far below 2^52 bytes")]
        let (raw, packed) = (input.len() as f64, encoded.len().max(1) as f64);
        Ok(Cost { ratio: raw / packed, encode: raw / 1e6 / encode, decode: raw / 1e6 / decode })
    }
}

/// Median time of one run, after one that is not counted if there are others.
fn median(seconds: f64, clock: Clock<'_>, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut timed = || {
        let start = clock();
        work()?;
        Ok(clock() - start)
    };
    let first = timed()?;
    let (mut times, mut sum) = (Vec::new(), first);
    while times.len() < MOST_RUNS && (sum < seconds || (times.len() < LEAST_RUNS && sum < SHORT)) {
        let time = timed()?;
        times.push(time);
        sum += time;
    }
    if times.is_empty() {
        times.push(first);
    }
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied().unwrap_or(0.0).max(1e-9))
}

/// The points of a step's cost curve, by rising ratio. Steps that keep the size have one.
fn curve(mut costs: Vec<Cost>, size_is_kept: bool) -> Vec<Cost> {
    costs.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let mut points: Vec<Vec<Cost>> = Vec::new();
    for cost in costs {
        match points.last_mut().filter(|group| size_is_kept || cost.ratio < group[0].ratio * SAME_RATIO) {
            Some(group) => group.push(cost),
            None => points.push(vec![cost]),
        }
    }
    points
        .iter()
        .map(|group| {
            let mean = |of: fn(&Cost) -> f64| {
                #[expect(clippy::cast_precision_loss, reason = "three at most")]
                let count = group.len() as f64;
                (group.iter().map(|cost| of(cost).ln()).sum::<f64>() / count).exp()
            };
            let ratio = if size_is_kept { 1.0 } else { mean(|cost| cost.ratio) };
            Cost { ratio: rounded(ratio), encode: rounded(mean(|c| c.encode)), decode: rounded(mean(|c| c.decode)) }
        })
        .collect()
}

/// Three significant digits: what a measurement is worth, and what a person reads.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::engine::Silent;

    /// A clock that goes on by a millisecond with every look.
    fn ticking() -> impl Fn() -> f64 {
        let ticks = std::cell::Cell::new(0.0);
        move || {
            ticks.set(ticks.get() + 1e-3);
            ticks.get()
        }
    }

    #[test]
    fn every_step_of_the_pool_gets_a_rising_curve() {
        let engine = Engine::new(CodecList::pure());
        let clock = ticking();
        let profile = measure(&engine, "test".into(), Power::model(), 0.0, &clock, &Silent).unwrap();
        for step in ["shuffle", "pcodec:8", "round", "bitround", "brotli:5"] {
            assert!(profile.steps.contains_key(step), "{step} of {:?}", profile.steps.keys());
        }
        assert_eq!(profile.steps["shuffle"].len(), 1);
        for (step, points) in &profile.steps {
            assert!(points.windows(2).all(|pair| pair[0].ratio < pair[1].ratio), "{step} {points:?}");
            // One look at the clock apart: every run takes a millisecond, for half a field.
            assert!(points.iter().all(|cost| (cost.encode - 524.0).abs() < 5.0), "{step} {points:?}");
        }
        assert!(profile.steps["pcodec:8"].len() == 3);
    }

    #[test]
    fn long_runs_are_few_and_short_ones_many() {
        let runs = |seconds: f64, each: f64| {
            let (now, count) = (std::cell::Cell::new(0.0), std::cell::Cell::new(0));
            let work = || {
                now.set(now.get() + each);
                count.set(count.get() + 1);
                Ok(())
            };
            let found = median(seconds, &|| now.get(), work).unwrap();
            assert!((found - each).abs() < 1e-9, "{found}");
            count.get()
        };
        assert_eq!(runs(0.0, 0.5), 1);
        assert_eq!(runs(0.0, 0.001), 1 + LEAST_RUNS);
        assert_eq!(runs(1.0, 0.5), 2);
        assert_eq!(runs(1.0, 0.25), 4);
        assert_eq!(runs(1.0, 1e-6), 1 + MOST_RUNS);
    }

    #[test]
    fn an_interrupt_ends_it() {
        let engine = Engine::new(CodecList::pure());
        engine.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(measure(&engine, "test".into(), Power::model(), 0.0, &ticking(), &Silent).is_err());
    }
}
