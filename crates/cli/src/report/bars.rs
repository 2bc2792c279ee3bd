//! Sizes before and after, one pair of bars a variable.

use super::axis::{Axis, Scale};
use super::facts::{Row, float};
use super::html::{escape, put, shortened};
use crate::table;

/// Variables drawn; the table below has all.
pub(super) const SHOWN: usize = 40;

const WIDTH: f64 = 480.0;
const ROW: f64 = 44.0;
const FOOT: f64 = 26.0;
const MARGIN: f64 = 10.0;

/// The chart of the largest variables. Rows come sorted by size.
pub(super) fn chart(rows: &[Row<'_>]) -> String {
    let shown: Vec<&Row<'_>> = rows.iter().filter(|row| row.before > 0).take(SHOWN).collect();
    if shown.is_empty() {
        return "<p class=\"remark\">No variable has values.</p>\n".to_owned();
    }
    let axis = axis(&shown);
    let body = ROW * float(shown.len() as u64);
    let height = body + FOOT;
    let mut svg = String::new();
    put!(
        &mut svg,
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Sizes of the variables before and after\">\n"
    );
    axis.grid(&mut svg, WIDTH, body, size);
    for (index, row) in shown.iter().enumerate() {
        pair(&mut svg, row, &axis, ROW * float(index as u64));
    }
    svg.push_str("</svg>\n");
    let scale =
        if axis.scale == Scale::Logarithmic { " Logarithmic scale: compare the numbers, not the lengths." } else { "" };
    let rest: u64 =
        rows.iter().filter(|row| !shown.iter().any(|other| std::ptr::eq(*other, *row))).map(|row| row.before).sum();
    let remark = if rest > 0 {
        format!(
            " The {} largest of {} variables; the others are {} together.",
            shown.len(),
            rows.len(),
            table::bytes(rest)
        )
    } else {
        String::new()
    };
    put!(
        &mut svg,
        "<p class=\"legend\"><span><i class=\"swatch before\"></i>in the input</span><span><i class=\"swatch after\"></i>in the output</span></p>\n<p class=\"remark\">{scale}{remark}</p>\n"
    );
    svg
}

/// Linear unless one variable would flatten most of the others.
fn axis(shown: &[&Row<'_>]) -> Axis {
    let mut sizes: Vec<f64> = shown.iter().map(|row| float(row.before.max(row.after))).collect();
    sizes.sort_by(f64::total_cmp);
    let most = sizes.last().copied().unwrap_or(1.0);
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
    if most / median.max(1.0) > 200.0 {
        let all: Vec<f64> = shown.iter().flat_map(|row| [float(row.before.max(1)), float(row.after.max(1))]).collect();
        return Axis::logarithmic(&all, MARGIN, WIDTH - MARGIN);
    }
    Axis::from_zero(most, MARGIN, WIDTH - MARGIN)
}

fn pair(svg: &mut String, row: &Row<'_>, axis: &Axis, top: f64) {
    let change = format!("{} \u{2192} {}", table::bytes(row.before), table::bytes(row.after));
    let factor =
        if row.after > 0 { format!("{:.2}\u{d7}", float(row.before) / float(row.after)) } else { String::new() };
    put!(svg, "<g><title>{}: {change}</title>", escape(row.name));
    put!(
        svg,
        "<text class=\"name\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>",
        top + 14.0,
        escape(&shortened(row.name, 30))
    );
    put!(
        svg,
        "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\"><tspan class=\"change\">{change} </tspan><tspan class=\"factor\">{factor}</tspan></text>",
        WIDTH - MARGIN,
        top + 14.0
    );
    for (class, bytes, offset) in [("before", row.before, 19.0), ("after", row.after, 27.0)] {
        let width = (axis.at(float(bytes)) - MARGIN).max(1.0);
        put!(
            svg,
            "<rect class=\"{class}\" x=\"{MARGIN}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"7\" rx=\"1.5\"/>",
            top + offset
        );
    }
    svg.push_str("</g>\n");
}

/// Bytes without needless decimals: `20 MB`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ticks of sizes are not negative and below 2^53"
)]
fn size(tick: f64) -> String {
    table::bytes(tick.round() as u64).replace(".0 ", " ")
}
