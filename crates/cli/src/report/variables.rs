//! The table of variables, and the list of candidates behind each choice.

use knarr_choose::plan::{Action, Choice};

use super::axis::number;
use super::facts::Row;
use super::html::{escape, put};
use super::scatter::times;
use crate::table;

/// Candidates listed under a plot, best first.
const LISTED: usize = 12;

const DASH: &str = "\u{2013}";

/// One row a variable, largest first. Names lead to the plot with that number, if there is one.
pub(super) fn table(rows: &[Row<'_>], plots: &[Option<String>]) -> String {
    let mut html = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th>variable</th><th>chain</th><th class=\"n\">before</th><th class=\"n\">after</th>\
         <th class=\"n\">ratio</th><th class=\"n\">encode<br>MB/s</th><th class=\"n\">decode<br>MB/s</th><th class=\"n\">max error</th>\
         <th class=\"n\">J/GB</th><th>why</th></tr></thead>\n<tbody>\n",
    );
    for (index, row) in rows.iter().enumerate() {
        let plot = plots.get(index).and_then(Option::as_deref);
        html.push_str(&line(row, plot));
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn line(row: &Row<'_>, plot: Option<&str>) -> String {
    let mut html = String::from("<tr>");
    let variable = row.variable;
    let name = escape(row.name);
    let name = plot.map_or_else(|| name.clone(), |plot| format!("<a href=\"#{plot}\" data-plot=\"{plot}\">{name}</a>"));
    put!(
        &mut html,
        "<th scope=\"row\">{name}<small>{} {}, {}</small></th>",
        variable.dtype,
        escape(&table::shape(&variable.shape)),
        table::bytes(variable.raw_bytes)
    );
    let was =
        row.chain_before.as_ref().map(|chain| format!("<small>was {}</small>", escape(chain))).unwrap_or_default();
    let (before, after) = (table::bytes(row.before), table::bytes(row.after));
    match &variable.action {
        Action::Copy(why) => {
            put!(
                &mut html,
                "<td class=\"chain\">as it is{was}</td><td class=\"n\">{before}</td><td class=\"n\">{after}</td><td class=\"n\">{DASH}</td>\
                 <td class=\"n\">{DASH}</td><td class=\"n\">{DASH}</td><td class=\"n\">0</td><td class=\"n\">{DASH}</td><td class=\"why\">{}</td>",
                escape(why)
            );
        }
        Action::Encode(choice) => {
            let speed = |speed: Option<f64>| speed.map_or(DASH.to_owned(), number);
            put!(
                &mut html,
                "<td class=\"chain\"><code>{}</code>{was}</td><td class=\"n\">{before}</td><td class=\"n\">{after}</td><td class=\"n\"><b>{}</b></td>\
                 <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"why\">{}{}</td>",
                escape(&choice.chain.to_string()),
                row.ratio().map_or(DASH.to_owned(), times),
                speed(row.encode_speed()),
                speed(row.decode_speed()),
                error(row, choice),
                number(choice.expected.energy),
                escape(&choice.reason),
                chunks(row)
            );
        }
    }
    html + "</tr>\n"
}

/// The largest errors measured, with what was promised.
fn error(row: &Row<'_>, choice: &Choice) -> String {
    let Some(bound) = &choice.bound else { return "0<small>lossless</small>".to_owned() };
    let promised = escape(&choice.quality.to_string());
    let seen = match row.report.and_then(|report| report.observed) {
        None => DASH.to_owned(),
        Some(seen) if seen.max_abs == 0.0 => "0".to_owned(),
        Some(seen) if bound.is_uniform() => format!("{:.2e}", seen.max_abs),
        Some(seen) => format!("{:.2e}<small>relative {:.2e}</small>", seen.max_abs, seen.max_rel),
    };
    format!("{seen}<small>{promised}</small>")
}

/// What happened to chunks that the chain did not serve.
fn chunks(row: &Row<'_>) -> String {
    let Some(report) = row.report else { return String::new() };
    let mut notes = Vec::new();
    if report.fallback_chunks > 0 {
        notes.push(format!("{} of {} chunks kept lossless to hold the bound", report.fallback_chunks, report.chunks));
    }
    if report.stored_chunks > 0 && !row.is_raw() {
        notes.push(format!(
            "{} of {} chunks stored: encoding did not make them smaller",
            report.stored_chunks, report.chunks
        ));
    }
    if report.refuted_chunks > 0 {
        notes.push(format!(
            "DEFECT: {} chunks did not decode to the same bits and were stored: please report",
            report.refuted_chunks
        ));
    }
    if notes.is_empty() {
        String::new()
    } else {
        format!("<small class=\"note\">{}</small>", escape(&notes.join("; ")))
    }
}

/// The best candidates of a choice with their scores.
pub(super) fn candidates(choice: &Choice) -> String {
    if choice.candidates.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<details><summary>Candidates and scores</summary><div class=\"scroll\"><table>\n<thead><tr><th>chain</th><th class=\"n\">score</th>\
         <th class=\"n\">tried</th><th class=\"n\">predicted</th><th class=\"n\">encode<br>MB/s</th><th class=\"n\">decode<br>MB/s</th>\
         <th class=\"n\">J/GB</th><th></th></tr></thead>\n<tbody>\n",
    );
    for candidate in choice.candidates.iter().take(LISTED) {
        let mark = if candidate.chain == choice.chain { "chosen" } else { candidate.dropped.as_deref().unwrap_or("") };
        put!(
            &mut html,
            "<tr><td class=\"chain\"><code>{}</code></td><td class=\"n\">{:.3}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"why\">{}</td></tr>\n",
            escape(&candidate.chain.to_string()),
            candidate.score,
            candidate.tried_ratio.map_or(DASH.to_owned(), times),
            times(candidate.predicted_ratio),
            number(candidate.merits.encode),
            number(candidate.merits.decode),
            number(candidate.merits.energy),
            escape(mark)
        );
    }
    html.push_str("</tbody></table></div>");
    if let Some(more) = choice.candidates.len().checked_sub(LISTED).filter(|more| *more > 0) {
        put!(&mut html, "<p class=\"remark\">and {more} more; 'knarr explain' lists all.</p>");
    }
    html + "</details>\n"
}
