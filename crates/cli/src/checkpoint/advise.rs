//! `knarr checkpoint advise`: how long to compute between two checkpoints.

use std::time::Duration;

use knarr_core::checkpoint::interval::Costs;
use knarr_core::error::{Error, Result};

use super::args::Advise;

pub(super) fn run(arguments: &Advise) -> Result<u8> {
    let costs = Costs { checkpoint: arguments.cost, restart: arguments.restart, mtbf: arguments.mtbf };
    costs.check()?;
    let (daly, young) = (costs.daly(), costs.young());
    let factor = costs.run_time(daly);
    if arguments.json {
        println!("{}", serde_json::json!({"interval_s": daly, "young_s": young, "run_time_factor": factor}));
        return Ok(0);
    }
    println!("compute {} between two checkpoints (Daly 2006; Young 1974: {})", words(daly)?, words(young)?);
    println!("the program then takes {factor:.3} times as long as without checkpoints and failures");
    Ok(0)
}

/// Seconds as people say them, to three digits or so.
fn words(seconds: f64) -> Result<String> {
    let step = if seconds >= 100.0 { 1.0 } else { 0.01 };
    let rounded = Duration::try_from_secs_f64((seconds / step).round() * step);
    let rounded =
        rounded.map_err(|_| Error::usage("the interval is longer than any program runs").mend("shorten --mtbf"))?;
    let whole = Duration::from_millis(u64::try_from((rounded.as_micros() + 500) / 1000).unwrap_or(u64::MAX));
    Ok(humantime::format_duration(whole).to_string())
}
