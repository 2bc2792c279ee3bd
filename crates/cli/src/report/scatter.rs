//! Ratio against speed, or against energy, for the chains that were considered for one variable.

use knarr_choose::plan::{Candidate, Choice};

use super::axis::{Axis, Scale, number};
use super::facts::{Row, float};
use super::html::{escape, put};

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 350.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Width of a character of a label, generous.
const CHARACTER: f64 = 6.2;

/// What ratios are drawn against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cost {
    /// Encoding speed: more is better.
    Speed,
    /// Energy to encode, store and decode once: less is better.
    Energy,
}

impl Cost {
    fn of(self, candidate: &Candidate) -> f64 {
        match self {
            Self::Speed => candidate.merits.encode,
            Self::Energy => candidate.merits.energy,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Speed => "encoding speed of one core, MB/s (log)",
            Self::Energy => "energy to encode, store and decode, J/GB (log)",
        }
    }
}

/// The chart of one variable; `None` if no chain was considered for it.
pub(super) fn chart(row: &Row<'_>, cost: Cost) -> Option<String> {
    let choice = row.choice()?;
    let points = points(choice, cost);
    if points.is_empty() {
        return None;
    }
    let measured = row.encode_speed().zip(row.ratio()).filter(|_| cost == Cost::Speed);
    let costs: Vec<f64> = points.iter().map(|point| point.cost).chain(measured.map(|(speed, _)| speed)).collect();
    let ratios: Vec<f64> = points.iter().map(|point| point.ratio).chain(measured.map(|(_, ratio)| ratio)).collect();
    let x = Axis::logarithmic(&costs, LEFT, WIDTH - RIGHT);
    let widest = ratios.iter().copied().fold(0.0, f64::max) / ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let y = if widest > 12.0 {
        Axis::logarithmic(&ratios, HEIGHT - BOTTOM, TOP)
    } else {
        Axis::around(&ratios, HEIGHT - BOTTOM, TOP)
    };
    let mut svg = String::new();
    put!(
        &mut svg,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Ratio against {} of the chains considered for {}\">\n",
        cost.title(),
        escape(row.name)
    );
    frame(&mut svg, &x, &y, cost.title());
    front(&mut svg, &points, &x, &y, cost);
    // What was tried lies over what was only predicted, the choice over all.
    for pass in [Standing::Predicted, Standing::Dropped, Standing::Tried, Standing::Chosen] {
        points.iter().filter(|point| point.standing == pass).for_each(|point| mark(&mut svg, point, &x, &y));
    }
    if let Some((speed, ratio)) = measured {
        let (x, y) = (x.at(speed), y.at(ratio));
        put!(
            &mut svg,
            "<g><title>measured on the whole variable: {}, {} MB/s</title><path class=\"measured\" d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\"/></g>\n",
            times(ratio),
            number(speed),
            y - 6.0
        );
    }
    labels(&mut svg, &points, &x, &y, cost);
    svg.push_str("</svg>\n");
    Some(svg)
}

/// How far a candidate came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Predicted,
    Dropped,
    Tried,
    Chosen,
}

struct Point<'a> {
    candidate: &'a Candidate,
    cost: f64,
    ratio: f64,
    standing: Standing,
}

fn points(choice: &Choice, cost: Cost) -> Vec<Point<'_>> {
    let usable = |value: f64| value.is_finite() && value > 0.0;
    choice
        .candidates
        .iter()
        .filter(|candidate| usable(cost.of(candidate)) && usable(candidate.merits.ratio))
        .map(|candidate| {
            let standing = if candidate.chain == choice.chain {
                Standing::Chosen
            } else if candidate.dropped.is_some() {
                Standing::Dropped
            } else if candidate.tried_ratio.is_some() {
                Standing::Tried
            } else {
                Standing::Predicted
            };
            Point { candidate, cost: cost.of(candidate), ratio: candidate.merits.ratio, standing }
        })
        .collect()
}

fn frame(svg: &mut String, x: &Axis, y: &Axis, title: &str) {
    let (left, right, top, bottom) = (LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM);
    for tick in x.ticks() {
        let at = x.at(tick);
        put!(svg, "<line class=\"grid\" x1=\"{at:.1}\" y1=\"{top}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>");
        put!(
            svg,
            "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            bottom + 16.0,
            number(tick)
        );
    }
    for tick in y.ticks() {
        let at = y.at(tick);
        put!(svg, "<line class=\"grid\" x1=\"{left}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\"/>");
        put!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            left - 6.0,
            at + 4.0,
            number(tick)
        );
    }
    put!(svg, "<path class=\"frame\" d=\"M{left} {top}V{bottom}H{right}\"/>\n");
    put!(
        svg,
        "<text class=\"title\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{title}</text>\n",
        (left + right) / 2.0,
        HEIGHT - 8.0
    );
    put!(
        svg,
        "<text class=\"title\" transform=\"translate(12 {:.1}) rotate(-90)\" text-anchor=\"middle\">ratio{}</text>\n",
        (top + bottom) / 2.0,
        if y.scale == Scale::Logarithmic { " (log)" } else { "" }
    );
}

/// Indices of tried candidates that no other tried one beats in both cost and ratio, the best of cost first.
fn best_of_both(points: &[Point<'_>], cost: Cost) -> Vec<usize> {
    let tried = |point: &Point<'_>| matches!(point.standing, Standing::Tried | Standing::Chosen);
    let mut order: Vec<usize> = (0..points.len()).filter(|&index| tried(&points[index])).collect();
    order.sort_by(|&a, &b| {
        let by_cost = match cost {
            Cost::Speed => points[b].cost.total_cmp(&points[a].cost),
            Cost::Energy => points[a].cost.total_cmp(&points[b].cost),
        };
        by_cost.then(points[b].ratio.total_cmp(&points[a].ratio))
    });
    let mut best = f64::NEG_INFINITY;
    order.retain(|&index| {
        let better = points[index].ratio > best;
        best = best.max(points[index].ratio);
        better
    });
    order
}

fn front(svg: &mut String, points: &[Point<'_>], x: &Axis, y: &Axis, cost: Cost) {
    let line: Vec<String> = best_of_both(points, cost)
        .into_iter()
        .map(|index| format!("{:.1},{:.1}", x.at(points[index].cost), y.at(points[index].ratio)))
        .collect();
    if line.len() > 1 {
        put!(svg, "<polyline class=\"front\" points=\"{}\"/>\n", line.join(" "));
    }
}

fn mark(svg: &mut String, point: &Point<'_>, x: &Axis, y: &Axis) {
    let (x, y) = (x.at(point.cost), y.at(point.ratio));
    let candidate = point.candidate;
    let (class, what) = match point.standing {
        Standing::Predicted => ("predicted", "predicted, not tried".to_owned()),
        Standing::Dropped => ("dropped", format!("dropped: {}", candidate.dropped.as_deref().unwrap_or(""))),
        Standing::Tried => ("tried", "tried on samples".to_owned()),
        Standing::Chosen => ("chosen", "chosen".to_owned()),
    };
    put!(
        svg,
        "<g><title>{} ({})\n{}, encodes {} MB/s, decodes {} MB/s, {} J/GB, score {:.3}</title>",
        escape(&candidate.chain.to_string()),
        escape(&what),
        times(point.ratio),
        number(candidate.merits.encode),
        number(candidate.merits.decode),
        number(candidate.merits.energy),
        candidate.score
    );
    match point.standing {
        Standing::Dropped => put!(svg, "<path class=\"{class}\" d=\"M{:.1} {:.1}l7 7m0 -7l-7 7\"/>", x - 3.5, y - 3.5),
        Standing::Predicted => put!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"),
        Standing::Tried => put!(svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.2\"/>"),
        Standing::Chosen => put!(
            svg,
            "<circle class=\"halo\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/><circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"
        ),
    }
    svg.push_str("</g>\n");
}

/// Names at the choice and along the front, where they do not cover each other or a mark that matters.
fn labels(svg: &mut String, points: &[Point<'_>], x: &Axis, y: &Axis, cost: Cost) {
    let mut taken: Vec<(f64, f64, f64, f64)> = Vec::new();
    let covers = |boxes: &[(f64, f64, f64, f64)], (a, b, c, d): (f64, f64, f64, f64)| {
        boxes.iter().any(|&(e, f, g, h)| a < g && e < c && b < h && f < d)
    };
    for point in points.iter().filter(|point| matches!(point.standing, Standing::Tried | Standing::Chosen)) {
        let (x, y) = (x.at(point.cost), y.at(point.ratio));
        taken.push((x - 5.0, y - 5.0, x + 5.0, y + 5.0));
    }
    let chosen = (0..points.len()).filter(|&index| points[index].standing == Standing::Chosen);
    let others = best_of_both(points, cost).into_iter().filter(|&index| points[index].standing != Standing::Chosen);
    for index in chosen.chain(others) {
        let point = &points[index];
        let text = point.candidate.chain.to_string();
        let width = CHARACTER * float(text.chars().count() as u64);
        let (x, y) = (x.at(point.cost), y.at(point.ratio));
        let class = if point.standing == Standing::Chosen { "label pick" } else { "label" };
        // Near an edge a name that is centred on its mark would stick out.
        let near = (x - width / 2.0).clamp(LEFT + 2.0, (WIDTH - 2.0 - width).max(LEFT + 2.0));
        let spots = [
            (near, y - 14.0),
            (x + 12.0, y + 4.0),
            (x - 12.0 - width, y + 4.0),
            (near, y + 22.0),
            (x + 8.0, y - 12.0),
            (x - 8.0 - width, y - 12.0),
            (x + 8.0, y + 20.0),
            (x - 8.0 - width, y + 20.0),
            (near, y - 26.0),
            (near, y + 34.0),
        ];
        let free = spots.into_iter().find(|&(start, baseline)| {
            let area = (start, baseline - 10.0, start + width, baseline + 3.0);
            let inside = area.0 >= LEFT + 2.0 && area.2 <= WIDTH - 2.0 && area.1 >= 2.0 && area.3 <= HEIGHT - BOTTOM;
            inside && !covers(&taken, area)
        });
        if let Some((start, baseline)) = free {
            taken.push((start, baseline - 10.0, start + width, baseline + 3.0));
            put!(
                svg,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"middle\">{}</text>\n",
                start + width / 2.0,
                escape(&text)
            );
        }
    }
}

/// A ratio as people say it.
pub(super) fn times(ratio: f64) -> String {
    format!("{ratio:.2}\u{d7}")
}
