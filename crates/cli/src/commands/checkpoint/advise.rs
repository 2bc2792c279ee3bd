//! `knarr checkpoint advise`: how long to compute between two checkpoints, from what they took so far.

use std::path::Path;
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_checkpoint::interval::Costs;
use knarr_checkpoint::measured::{self, By, Measured, Typical};

use super::args::Advise;

/// Where a time comes from.
enum Source {
    Given,
    /// The program was stopped for so long, or restarted in it.
    Measured(Typical),
    /// Packing took so long; what else stopped the program nobody measured.
    Packing(Typical),
}

/// A time, and where it comes from.
struct Known {
    time: Duration,
    source: Source,
}

impl Known {
    fn new(typical: Typical, source: fn(Typical) -> Source) -> Self {
        Self { time: typical.median, source: source(typical) }
    }
}

pub(super) fn run(arguments: &Advise) -> Result<u8> {
    let given = |time: Option<Duration>| time.map(|time| Known { time, source: Source::Given });
    let is_all_given = arguments.cost.is_some() && arguments.restart.is_some();
    let measured = if is_all_given { Vec::new() } else { measured::read(&arguments.sets)? };
    let checkpoint = given(arguments.cost).or_else(|| checkpoint(&measured));
    let checkpoint = checkpoint.ok_or_else(|| nothing_measured(&arguments.sets))?;
    let restart = Typical::of(&measured, |one| one.restart_s).map(|found| Known::new(found, Source::Measured));
    let restart = given(arguments.restart).or(restart);
    let costs = Costs {
        checkpoint: checkpoint.time,
        restart: restart.as_ref().map_or(Duration::ZERO, |known| known.time),
        mtbf: arguments.mtbf,
    };
    costs.check()?;
    let (daly, young) = (costs.daly(), costs.young());
    // What restarts take is a part of the run time, and not of the interval.
    let factor = restart.as_ref().map(|_| costs.run_time(daly));
    let packing = Typical::of(&measured, |one| one.packed_s).filter(|packing| packing.median.as_secs_f64() > daly);
    if arguments.json {
        println!(
            "{}",
            serde_json::json!({
                "interval_s": daly, "young_s": young, "run_time_factor": factor,
                "checkpoint": json(&checkpoint), "restart": restart.as_ref().map(json),
            })
        );
        return Ok(0);
    }
    println!("compute {} between two checkpoints (Daly 2006; Young 1974: {})", words(daly)?, words(young)?);
    match factor {
        Some(factor) => {
            println!("the program then takes {factor:.3} times as long as without checkpoints and failures")
        }
        None => println!(
            "how much longer the program then takes depends on restarts, of which none was measured: --restart says it"
        ),
    }
    print_known("a checkpoint stops the program for", &checkpoint)?;
    if let Some(restart) = &restart {
        print_known("a restart takes", restart)?;
    }
    if let Some(packing) = packing {
        println!(
            "packing a step takes {}, longer than the interval: checkpoints will wait for each other",
            words(packing.median.as_secs_f64())?
        );
    }
    Ok(0)
}

/// What a checkpoint costs the program, or at least what packing does.
fn checkpoint(measured: &[Measured]) -> Option<Known> {
    let stopped = Typical::of(measured, |one| one.stopped_s).map(|found| Known::new(found, Source::Measured));
    let packed = || Typical::of(measured, |one| one.packed_s).map(|found| Known::new(found, Source::Packing));
    stopped.or_else(packed)
}

fn nothing_measured(sets: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "no checkpoint was measured there")
        .hint(
            "name the directory of sets that 'knarr run', 'knarr checkpoint watch' or the checkpoint library wrote \
             while the program ran; or say with --cost for how long a checkpoint stops the program",
        )
        .at(sets.display().to_string())
}

/// Says where a time comes from, if it was not given.
fn print_known(what: &str, known: &Known) -> Result<()> {
    let (typical, what, rest) = match &known.source {
        Source::Given => return Ok(()),
        Source::Measured(typical) => (typical, what, ""),
        Source::Packing(typical) => (
            typical,
            "a checkpoint is taken to cost what packing takes,",
            "; what else stops the program was not measured: --cost says it",
        ),
    };
    println!(
        "{what} {}: median of {} ({} to {}), measured by {}{rest}",
        words(typical.median.as_secs_f64())?,
        typical.count,
        words(typical.least.as_secs_f64())?,
        words(typical.most.as_secs_f64())?,
        typical.by.iter().map(|by| by.words()).collect::<Vec<_>>().join(", "),
    );
    Ok(())
}

fn json(known: &Known) -> serde_json::Value {
    let time = known.time.as_secs_f64();
    let (of, typical) = match &known.source {
        Source::Given => return serde_json::json!({ "seconds": time, "from": "option" }),
        Source::Measured(typical) => ("program", typical),
        Source::Packing(typical) => ("packing", typical),
    };
    serde_json::json!({
        "seconds": time, "from": of, "count": typical.count, "least_s": typical.least.as_secs_f64(),
        "most_s": typical.most.as_secs_f64(), "by": typical.by.iter().map(|by: &By| by.words()).collect::<Vec<_>>(),
    })
}

/// Seconds as people say them, to three digits or so.
fn words(seconds: f64) -> Result<String> {
    let step = match seconds {
        100.0.. => 1_000_000_u32,
        1.0.. => 10_000,
        0.1.. => 1000,
        _ => 10,
    };
    let steps = Duration::try_from_secs_f64((seconds * 1e6 / f64::from(step)).round());
    let steps = steps.ok().and_then(|steps| u32::try_from(steps.as_secs()).ok());
    let steps = steps.ok_or_else(|| Error::usage("that is longer than any program runs").hint("shorten --mtbf"))?;
    Ok(humantime::format_duration(Duration::from_micros(step.into()) * steps).to_string())
}
