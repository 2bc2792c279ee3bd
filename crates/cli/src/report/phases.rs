//! Processor time and energy of a run by phase.

use knarr_routes::compress::Repacked;

use super::axis::{Axis, number};
use super::facts::float;
use super::html::put;

const WIDTH: f64 = 480.0;
const ROW: f64 = 44.0;
const FOOT: f64 = 26.0;
const MARGIN: f64 = 10.0;

/// Where energy figures of a run come from, in words.
fn source(source: &str) -> &'static str {
    match source {
        "counter" => "counted by the processors (RAPL), with other programs, and divided by processor time",
        _ => "a model (processor time \u{d7} watts + bytes \u{d7} joules), not a measurement",
    }
}

/// A time in the unit a person would use.
fn time_text(seconds: f64) -> String {
    if seconds < 0.0995 { format!("{} ms", number(1e3 * seconds)) } else { format!("{} s", number(seconds)) }
}

/// The chart, with a legend and what must be said of it; `None` if nothing was measured.
pub(super) fn chart(done: &Repacked) -> Option<String> {
    let energy = &done.energy;
    let phases: Vec<(&str, f64, f64)> = energy
        .seconds
        .each()
        .into_iter()
        .zip(energy.phases.each())
        .map(|((name, seconds), (_, joules))| (name, seconds, joules))
        .collect();
    let seconds = energy.seconds.sum();
    if seconds <= 0.0 || energy.joules <= 0.0 {
        return None;
    }
    let share = |(_, time, joules): &(&str, f64, f64)| (100.0 * time / seconds, 100.0 * joules / energy.joules);
    let most = phases.iter().map(share).map(|(time, energy)| time.max(energy)).fold(0.0, f64::max);
    let axis = Axis::from_zero(most, MARGIN, WIDTH - MARGIN);
    let body = ROW * float(phases.len() as u64);
    let mut svg = String::new();
    put!(
        &mut svg,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Shares of processor time and energy by phase\">\n",
        body + FOOT
    );
    axis.grid(&mut svg, WIDTH, body, |share| format!("{} %", number(share)));
    for (index, phase) in phases.iter().enumerate() {
        let ((name, seconds, joules), (time, energy)) = (phase, share(phase));
        let top = ROW * float(index as u64);
        put!(&mut svg, "<g><title>{}: {time:.1} % of the processor time, {energy:.1} % of the energy</title>", name);
        put!(&mut svg, "<text class=\"name\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>", top + 14.0, name);
        put!(
            &mut svg,
            "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}, {} J</text>",
            WIDTH - MARGIN,
            top + 14.0,
            time_text(*seconds),
            number(*joules)
        );
        for (class, share, offset) in [("time", time, 19.0), ("energy", energy, 27.0)] {
            if share <= 0.0 {
                continue;
            }
            let width = (axis.at(share) - MARGIN).max(1.0);
            put!(
                &mut svg,
                "<rect class=\"{class}\" x=\"{MARGIN}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"7\" rx=\"1.5\"/>",
                top + offset
            );
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    // Choosing and what comes after it have threads and a wall time each.
    let cores = |seconds: f64, wall: f64| number(if wall > 0.0 { seconds / wall } else { 0.0 });
    put!(
        &mut svg,
        "<p class=\"legend\"><span><i class=\"swatch time\"></i>share of processor time</span><span><i class=\"swatch energy\"></i>share of energy</span></p>\n\
         <p class=\"remark\">{} of processor time and {} J in all, {} J/GB of values: {}. Cores busy on average: {} while choosing, {} after it.</p>\n",
        time_text(seconds),
        number(energy.joules),
        number(energy.joules_per_gb),
        source(&energy.source),
        cores(energy.seconds.choose, done.choosing_seconds),
        cores(seconds - energy.seconds.choose, done.execution.seconds)
    );
    Some(svg)
}
