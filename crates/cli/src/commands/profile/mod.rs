//! `knarr profile`: measures this machine's codecs.

mod tiers;

use knarr_array::error::{Error, Result};
use knarr_choose::profile::{Cost, Profile};
use knarr_flow::calibrate;
use knarr_flow::energy;
use knarr_flow::engine::Progress;

use crate::arguments::args;
use crate::arguments::resources::Resources;
use crate::output::write_json;
use crate::place::{self, Own};
use crate::printing::progress::Bar;
use crate::table::{self, Align};

pub(crate) fn run(arguments: &args::Profile) -> Result<u8> {
    if let Some(directories) = &arguments.tiers {
        return tiers::run(directories);
    }
    if !arguments.seconds.is_finite() || arguments.seconds <= 0.0 {
        return Err(
            Error::usage(format!("--seconds is {}", arguments.seconds)).hint("give a number above 0, such as 60")
        );
    }
    let usual = knarr_worker::means::user_profile();
    let path = arguments.output.clone().or_else(|| usual.clone()).ok_or_else(|| {
        Error::usage("neither HOME nor XDG_CONFIG_HOME is set").hint("say where to write the profile with --output")
    })?;
    // What lies where Knarr looks for a profile is Knarr's, even if it cannot be read any more.
    if usual.as_ref() == Some(&path) {
        place::check_new(&path)?;
    } else {
        place::check(&path, Own::Profile, None)?;
    }
    let resources = Resources { jobs: Some(1), max_mem: None, profile: None, model: None };
    // The profile that is to be replaced may be unreadable: it must not stand in the way of a new one.
    let engine = crate::session::engine_without_profile(&resources)?;
    let progress = Bar::new("this machine");
    progress.begin("power", 0);
    let power = energy::measured_power();
    let begin = std::time::Instant::now();
    let measured =
        calibrate::measure(&engine, machine(), power, arguments.seconds, &energy::thread_seconds, &progress)?;
    drop(progress);
    write_json(&path, &measured, arguments.output.is_none())?;
    print(&measured);
    println!("measured in {:.1} s", begin.elapsed().as_secs_f64());
    println!(
        "{}: energy from a {}: {} W per busy core, {} J to move a GB",
        measured.machine, measured.power.source, measured.power.watts_per_core, measured.power.joules_per_gb
    );
    if usual.as_ref() == Some(&path) {
        println!("written to {}; every choice uses it from now on", path.display());
    } else {
        println!(
            "written to {0}; choices use it with --profile {0}, or with 'profile' under [machine] in knarr.toml",
            path.display()
        );
    }
    Ok(0)
}

/// Processor model and cores.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        matches!(key.trim(), "model name" | "Model" | "cpu model").then(|| value.trim().to_owned())
    });
    format!("{}, {cores} cores", model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}

fn print(measured: &Profile) {
    let header = [
        ("step", Align::Left),
        ("ratio", Align::Right),
        ("encode", Align::Right),
        ("decode", Align::Right),
        ("ratio", Align::Right),
        ("encode", Align::Right),
        ("decode", Align::Right),
        ("ratio", Align::Right),
        ("encode", Align::Right),
        ("decode", Align::Right),
    ];
    let cells =
        |cost: &Cost| [format!("{:.2}", cost.ratio), format!("{:.0}", cost.encode), format!("{:.0}", cost.decode)];
    let rows: Vec<Vec<String>> = measured
        .steps
        .iter()
        .map(|(step, costs)| std::iter::once(step.clone()).chain(costs.iter().flat_map(cells)).collect())
        .collect();
    print!("{}", table::render(&header, &rows));
    println!(
        "MB/s of the step's input, one core, on data that is hard, middling and easy to compress; one entry where that makes no difference"
    );
}
