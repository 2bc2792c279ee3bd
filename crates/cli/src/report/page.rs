//! The page: one section a file, each with its numbers, charts and table.

use knarr_formats::repack::Repacked;

use super::bars;
use super::facts::{File, float};
use super::html::{definitions, escape, put};
use super::scatter::{self, times};
use super::variables;
use crate::table;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Circumstances that are the same for all files.
pub(super) struct Context {
    pub(super) verified: bool,
    pub(super) command: String,
    pub(super) when: String,
}

/// The whole page. It refers to nothing outside itself.
pub(super) fn render(files: &[File<'_>], context: &Context) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    let title = match files {
        [one] => format!("{} repacked", name(one.done)),
        many => format!("{} files repacked", many.len()),
    };
    put!(&mut page, "<title>{}</title>\n<style>\n{STYLE}</style>\n", escape(&title));
    page.push_str("<noscript><style>.plot[hidden]{display:block}.choose{display:none}</style></noscript>\n</head>\n<body>\n<main>\n");
    if files.len() > 1 {
        overview(&mut page, files, &title);
    }
    for (index, file) in files.iter().enumerate() {
        if files.len() == 1 {
            section(&mut page, file, index, files.len() == 1, context);
        } else {
            let open = if index == 0 { " open" } else { "" };
            put!(&mut page, "<details class=\"file\" id=\"file-{index}\"{open}><summary>{}</summary>\n", escape(&name(file.done)));
            section(&mut page, file, index, files.len() == 1, context);
            page.push_str("</details>\n");
        }
    }
    let program = files.first().map(|file| file.done.plan.program.as_str()).unwrap_or("knarr");
    put!(
        &mut page,
        "<footer><p>{}, {}</p>\n<pre>{}</pre></footer>\n</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n",
        escape(program),
        escape(&context.when),
        escape(&context.command)
    );
    page
}

fn name(done: &Repacked) -> String {
    done.input.file_name().map_or_else(|| done.input.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// All files in one table.
fn overview(page: &mut String, files: &[File<'_>], title: &str) {
    let sum = |of: fn(&Repacked) -> u64| files.iter().map(|file| of(file.done)).sum::<u64>();
    let (before, after) = (sum(|done| done.input_bytes), sum(|done| done.output_bytes));
    let seconds: f64 = files.iter().map(|file| file.done.seconds).sum();
    put!(page, "<header><h1>{}</h1></header>\n", escape(title));
    tiles(page, before, after, seconds, files.iter().map(|file| file.done.choosing_seconds).sum(), files.iter().map(File::raw_bytes).sum());
    page.push_str("<div class=\"scroll\"><table><thead><tr><th>file</th><th class=\"n\">before</th><th class=\"n\">after</th><th class=\"n\">ratio</th><th class=\"n\">time</th></tr></thead>\n<tbody>\n");
    for (index, file) in files.iter().enumerate() {
        let done = file.done;
        put!(
            page,
            "<tr><th scope=\"row\"><a href=\"#file-{index}\" data-open=\"file-{index}\">{}</a></th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\"><b>{}</b></td><td class=\"n\">{:.2} s</td></tr>\n",
            escape(&name(done)),
            table::bytes(done.input_bytes),
            table::bytes(done.output_bytes),
            quotient(done.input_bytes, done.output_bytes),
            done.seconds
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn section(page: &mut String, file: &File<'_>, index: usize, alone: bool, context: &Context) {
    let done = file.done;
    // With many files the line that opens the section has the name.
    let heading = if alone { format!("<h1>{}</h1>\n", escape(&name(done))) } else { String::new() };
    put!(
        page,
        "<header>{heading}<p class=\"route\"><code>{}</code> \u{2192} <code>{}</code></p></header>\n",
        escape(&done.input.display().to_string()),
        escape(&done.output.display().to_string())
    );
    tiles(page, done.input_bytes, done.output_bytes, done.seconds, done.choosing_seconds, file.raw_bytes());
    page.push_str(&definitions(&facts(file, context)));
    let plots: Vec<Option<String>> = file.rows.iter().enumerate().map(|(number, _)| Some(format!("plot-{index}-{number}"))).collect();
    let drawn: Vec<(usize, String)> = file
        .rows
        .iter()
        .enumerate()
        .filter_map(|(number, row)| Some((number, scatter::chart(row)?)))
        .take(bars::SHOWN)
        .collect();
    page.push_str("<div class=\"charts\">\n<section><h2>Size of each variable</h2>\n");
    page.push_str(&bars::chart(&file.rows));
    page.push_str("</section>\n");
    if !drawn.is_empty() {
        page.push_str("<section class=\"follow\"><h2>Chains considered</h2>\n");
        choices(page, file, index, &drawn);
        page.push_str("</section>\n");
    }
    page.push_str("</div>\n<section><h2>Variables</h2>\n");
    let linked: Vec<Option<String>> = plots
        .into_iter()
        .enumerate()
        .map(|(number, plot)| plot.filter(|_| drawn.iter().any(|(known, _)| *known == number)))
        .collect();
    page.push_str(&variables::table(&file.rows, &linked));
    put!(
        page,
        "<p class=\"remark\">Before and after: bytes in the two files. Speeds: measured, one core, raw bytes{}. J/GB: expected energy to encode, store and decode once per GB of values, from a {}.</p></section>\n",
        if context.verified { "; decoding is the proof that each chunk returns" } else { "" },
        energy_source(file)
    );
}

/// The numbers a person looks at first.
fn tiles(page: &mut String, before: u64, after: u64, seconds: f64, choosing: f64, raw: u64) {
    let speed = if seconds > 0.0 { table::bytes(rate(raw, seconds)) + "/s" } else { String::new() };
    put!(
        page,
        "<div class=\"tiles\">\n<div class=\"tile main\"><b>{}</b><span>{}</span></div>\n<div class=\"tile\"><b>{} \u{2192} {}</b><span>files, before and after</span></div>\n<div class=\"tile\"><b>{seconds:.2} s</b><span>{speed} of values</span></div>\n<div class=\"tile\"><b>{choosing:.2} s</b><span>of it choosing, {:.0} %</span></div>\n</div>\n",
        quotient(before.max(after), before.min(after)),
        if after > before { "larger" } else { "smaller" },
        table::bytes(before),
        table::bytes(after),
        if seconds > 0.0 { 100.0 * choosing / seconds } else { 0.0 }
    );
}

fn facts(file: &File<'_>, context: &Context) -> Vec<(&'static str, String)> {
    let plan = &file.done.plan;
    let chunks = file.chunks();
    let proof = if context.verified {
        format!("yes: each of {} chunks was decoded and compared before it was written", chunks.chunks)
    } else {
        "no (--no-verify): chunks of lossless variables were not decoded".to_owned()
    };
    let quality = match file.lossy() {
        0 => "lossless: every bit is kept".to_owned(),
        some => format!("{some} of {} variables within their error bounds, the others lossless", file.rows.len()),
    };
    let mut facts = vec![
        ("Goal", plan.goal.to_string()),
        ("Quality", quality),
        ("Verified", proof),
        ("A reader needs", file.reader.clone()),
        ("Profile", format!("{} (speeds and energy expected of each chain)", plan.profile)),
        ("Energy", format!("{:.1} J expected, from a {}", file.joules(), energy_source(file))),
    ];
    let kept = chunks.fallback_chunks + chunks.stored_chunks;
    if kept > 0 {
        facts.push((
            "Exceptions",
            format!("{} chunks kept lossless to hold a bound, {} stored because encoding did not help", chunks.fallback_chunks, chunks.stored_chunks),
        ));
    }
    if chunks.refuted_chunks > 0 {
        facts.push(("Defect", format!("{} chunks did not decode to the same bits and were stored: please report", chunks.refuted_chunks)));
    }
    facts
}

fn energy_source(file: &File<'_>) -> &'static str {
    match file.done.plan.energy_source.as_str() {
        "counter" => "power measured with this machine's counter (RAPL)",
        _ => "model (core time \u{d7} watts + bytes \u{d7} joules), not a measurement",
    }
}

/// A selector and one plot a variable, of which one is shown at a time.
fn choices(page: &mut String, file: &File<'_>, index: usize, drawn: &[(usize, String)]) {
    put!(page, "<label class=\"choose\">Variable <select data-plots=\"{index}\">");
    for (number, _) in drawn {
        put!(page, "<option value=\"plot-{index}-{number}\">{}</option>", file.rows.get(*number).map_or(String::new(), |row| escape(row.name)));
    }
    page.push_str("</select></label>\n");
    for (position, (number, chart)) in drawn.iter().enumerate() {
        let Some(row) = file.rows.get(*number) else { continue };
        let Some(choice) = row.choice() else { continue };
        let hidden = if position == 0 { "" } else { " hidden" };
        put!(
            page,
            "<div class=\"plot\" id=\"plot-{index}-{number}\" data-group=\"{index}\"{hidden}>\n<h3>{}: <code>{}</code></h3>\n{chart}",
            escape(row.name),
            escape(&choice.chain.to_string())
        );
        put!(page, "<p class=\"legend\"><span><i class=\"dot chosen\"></i>chosen</span><span><i class=\"dot tried\"></i>tried on samples</span><span><i class=\"dot predicted\"></i>predicted only</span><span><i class=\"dot measured\"></i>measured, whole variable</span></p>\n");
        put!(page, "<p class=\"remark\">{}. Candidates stand at the speed that the {} profile expects.</p>\n", escape(&choice.reason), escape(&file.done.plan.profile));
        page.push_str(&variables::candidates(choice));
        page.push_str("</div>\n");
    }
}

fn quotient(before: u64, after: u64) -> String {
    if after == 0 { "\u{2013}".to_owned() } else { times(float(before) / float(after)) }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is not negative and saturates")]
fn rate(bytes: u64, seconds: f64) -> u64 {
    (float(bytes) / seconds) as u64
}
