//! The page: one section a file, each with its numbers, charts and table.

use knarr_routes::compress::Repacked;
use std::path::Path;

use super::axis::number;
use super::bars;
use super::facts::{File, float};
use super::html::{definitions, escape, put};
use super::phases;
use super::scatter::{self, Cost, times};
use super::variables;
use crate::batch::Failed;
use crate::place::PAGE_MARK;
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
pub(super) fn render(files: &[File<'_>], failed: &[Failed], context: &Context) -> String {
    let alone = files.len() == 1 && failed.is_empty();
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    put!(&mut page, "{PAGE_MARK}{}\">\n", env!("CARGO_PKG_VERSION"));
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    let title = match files {
        [one] if alone => format!("{} repacked", name(&one.done.input)),
        many if failed.is_empty() => format!("{} files repacked", many.len()),
        many => format!("{} of {} files repacked", many.len(), many.len() + failed.len()),
    };
    put!(&mut page, "<title>{}</title>\n<style>\n{STYLE}</style>\n", escape(&title));
    page.push_str("<noscript><style>.plot[hidden]{display:block}.choose{display:none}</style></noscript>\n</head>\n<body>\n<main>\n");
    if !alone {
        overview(&mut page, files, &title);
        failures(&mut page, failed);
    }
    for (index, file) in files.iter().enumerate() {
        if alone {
            section(&mut page, file, index, alone, context);
        } else {
            let open = if index == 0 { " open" } else { "" };
            put!(
                &mut page,
                "<details class=\"file\" id=\"file-{index}\"{open}><summary>{}</summary>\n",
                escape(&name(&file.done.input))
            );
            section(&mut page, file, index, alone, context);
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

fn name(input: &Path) -> String {
    input.file_name().map_or_else(|| input.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Files that were not repacked, and why.
fn failures(page: &mut String, failed: &[Failed]) {
    if failed.is_empty() {
        return;
    }
    page.push_str("<section><h2>Not repacked</h2>\n<div class=\"scroll\"><table><thead><tr><th>file</th><th>why</th></tr></thead>\n<tbody>\n");
    for one in failed {
        put!(page, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(&name(&one.input)), escape(&one.error));
    }
    page.push_str("</tbody></table></div></section>\n");
}

/// All files in one table.
fn overview(page: &mut String, files: &[File<'_>], title: &str) {
    let sum = |of: fn(&Repacked) -> u64| files.iter().map(|file| of(file.done)).sum::<u64>();
    let (before, after) = (sum(|done| done.input_bytes), sum(|done| done.output_bytes));
    let seconds: f64 = files.iter().map(|file| file.done.seconds).sum();
    put!(page, "<header><h1>{}</h1></header>\n", escape(title));
    if files.is_empty() {
        return;
    }
    tiles(
        page,
        before,
        after,
        seconds,
        files.iter().map(|file| file.done.choosing_seconds).sum(),
        files.iter().map(File::raw_bytes).sum(),
    );
    page.push_str("<div class=\"scroll\"><table><thead><tr><th>file</th><th class=\"n\">before</th><th class=\"n\">after</th><th class=\"n\">ratio</th><th class=\"n\">time</th></tr></thead>\n<tbody>\n");
    for (index, file) in files.iter().enumerate() {
        let done = file.done;
        put!(
            page,
            "<tr><th scope=\"row\"><a href=\"#file-{index}\" data-open=\"file-{index}\">{}</a></th><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\"><b>{}</b></td><td class=\"n\">{:.2} s</td></tr>\n",
            escape(&name(&done.input)),
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
    let heading = if alone { format!("<h1>{}</h1>\n", escape(&name(&done.input))) } else { String::new() };
    put!(
        page,
        "<header>{heading}<p class=\"route\"><code>{}</code> \u{2192} <code>{}</code></p></header>\n",
        escape(&done.input.display().to_string()),
        escape(&done.output.display().to_string())
    );
    tiles(page, done.input_bytes, done.output_bytes, done.seconds, done.choosing_seconds, file.raw_bytes());
    page.push_str(&definitions(&facts(file, context)));
    let plots: Vec<Option<String>> =
        file.rows.iter().enumerate().map(|(number, _)| Some(format!("plot-{index}-{number}"))).collect();
    let drawn: Vec<(usize, String)> = file
        .rows
        .iter()
        .enumerate()
        .filter_map(|(number, row)| {
            Some((number, format!("{}{}", scatter::chart(row, Cost::Speed)?, scatter::chart(row, Cost::Energy)?)))
        })
        .take(bars::SHOWN)
        .collect();
    page.push_str("<div class=\"charts\">\n<section><h2>Size of each variable</h2>\n");
    page.push_str(&bars::chart(&file.rows));
    if let Some(chart) = phases::chart(done) {
        put!(page, "<h2>Time and energy</h2>\n{chart}");
    }
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
        (
            "Energy, expected",
            format!("{} J to encode, store and decode once, from a {}", number(file.joules()), energy_source(file)),
        ),
    ];
    facts.extend(file.gains.clone().map(|gains| ("Other readers", gains)));
    facts.extend(file.notes.iter().map(|note| ("To be noted", note.clone())));
    let kept = chunks.fallback_chunks + chunks.stored_chunks;
    if kept > 0 {
        facts.push((
            "Exceptions",
            format!(
                "{} chunks kept lossless to hold a bound, {} stored because encoding did not help",
                chunks.fallback_chunks, chunks.stored_chunks
            ),
        ));
    }
    if chunks.refuted_chunks > 0 {
        facts.push((
            "Defect",
            format!("{} chunks did not decode to the same bits and were stored: please report", chunks.refuted_chunks),
        ));
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
        put!(
            page,
            "<option value=\"plot-{index}-{number}\">{}</option>",
            file.rows.get(*number).map_or(String::new(), |row| escape(row.name))
        );
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
        put!(
            page,
            "<p class=\"legend\"><span><i class=\"dot chosen\"></i>chosen</span><span><i class=\"dot tried\"></i>tried on samples</span><span><i class=\"dot predicted\"></i>predicted only</span><span><i class=\"dot measured\"></i>measured, whole variable</span></p>\n"
        );
        put!(
            page,
            "<p class=\"remark\">{}. Candidates stand at the speed that the {} profile expects.</p>\n",
            escape(&choice.reason),
            escape(&file.done.plan.profile)
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{ArraySpec, DType};
    use knarr_array::goal::Goal;
    use knarr_array::model::{Model, Variable};
    use knarr_choose::form::FormatLimits;
    use knarr_choose::plan::{Action, Plan, VERSION, VariablePlan};
    use knarr_choose::profile::Power;
    use knarr_codec::codec::ReaderLevel;
    use knarr_flow::energy::{Energy, Moved, Phases};
    use knarr_flow::engine::Engine;
    use knarr_flow::pipeline::{Execution, VariableReport, plan_array};
    use knarr_flow::settings::Settings;
    use knarr_formats::output::Losses;

    fn repacked(name: &str) -> Repacked {
        let engine = Engine::new(knarr_native::codecs_with_plugins(&[]).unwrap());
        let bytes: Vec<u8> = (0..4096u16).flat_map(|i| (f32::from(i) * 0.01).sin().to_le_bytes()).collect();
        let spec = ArraySpec::new(DType::F32, [64, 64]);
        let variable = Variable::plain(format!("/{name}"), DType::F32, vec![64, 64]);
        let model = Model { groups: Vec::new(), variables: vec![variable.clone()] };
        let settings = Settings::default().of(&knarr_array::coordinates::Coordinates::of(&model), &variable).unwrap();
        let target = FormatLimits::hdf5(ReaderLevel::Standard);
        let choice = plan_array(&engine, &spec, &bytes, &settings, &Goal::balanced(), target, None).unwrap();
        let of = |path: &str, action| VariablePlan {
            path: path.to_owned(),
            dtype: DType::F32,
            shape: vec![64, 64],
            raw_bytes: 16384,
            action,
            unmet: Vec::new(),
        };
        let plan = Plan {
            version: VERSION,
            program: "knarr".to_owned(),
            input: name.to_owned(),
            destination: knarr_choose::form::Form::Hdf5,
            goal: Goal::balanced(),
            portable: ReaderLevel::Standard,
            profile: "built-in".to_owned(),
            energy_source: "model".to_owned(),
            input_file: None,
            variables: vec![
                of(&variable.path, Action::Encode(Box::new(choice))),
                of("/c", Action::Copy("scalar".into())),
            ],
            lacking: Vec::new(),
            left_out: None,
        };
        let report = VariableReport {
            raw_bytes: 16384,
            encoded_bytes: 4096,
            chunks: 1,
            encode_seconds: 1e-4,
            ..Default::default()
        };
        Repacked {
            input: name.into(),
            output: "out.nc".into(),
            input_bytes: 20000,
            output_bytes: 8000,
            plan,
            execution: Execution { seconds: 0.1, variables: [(0, report)].into(), ..Default::default() },
            energy: Energy::of(
                &Phases { choose: 0.1, encode: 0.3, ..Phases::default() },
                Moved { raw: 16384, read: 20000, written: 8000 },
                &Power::model(),
                None,
            ),
            seconds: 0.2,
            choosing_seconds: 0.1,
            reader: ReaderLevel::Standard,
            filters: [32015].into(),
            references_lost: 0,
            losses: Losses { not_kept: vec!["<i>names</i>".to_owned()], ..Losses::default() },
            chunks_unheard: Vec::new(),
            idle_steps: Vec::new(),
            copied: None,
            as_made: Default::default(),
        }
    }

    #[test]
    fn the_page_stands_alone_and_names_stay_text() {
        let codecs = knarr_native::codecs_with_plugins(&[]).unwrap();
        let done = [repacked("<script>alert(1)</script>"), repacked("b\" onload=\"x")];
        let failed = [Failed {
            input: "<script>alert(2)</script>".into(),
            output: "out.nc".into(),
            error: "<b>: the file is damaged".into(),
            exit_code: 3,
        }];
        for (files, failed) in [(&done[..1], &failed[..0]), (&done[..], &failed[..0]), (&done[..1], &failed[..])] {
            let files: Vec<_> =
                files.iter().map(|done| File::new(done, &codecs, &mut |_| Default::default())).collect();
            let context = Context { verified: true, command: "knarr repack <a>".into(), when: "now".into() };
            let page = render(&files, failed, &context);
            assert_eq!(page.contains("the file is damaged"), !failed.is_empty());
            assert_eq!(page.contains("1 of 2 files repacked"), !failed.is_empty());
            assert!(!page.contains("<script>alert") && !page.contains("\" onload=\"") && !page.contains("repack <a>"));
            assert!(page.contains("Not kept: &lt;i&gt;names"));
            for outside in ["http:", "https:", "src=", "url(", "@import", "<link"] {
                assert!(!page.contains(outside), "{outside}");
            }
            for element in ["svg", "table", "div", "details", "section", "g", "dl", "select"] {
                let opened =
                    page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
                assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
            }
            // Sizes, phases, and two plots for the variable that was encoded.
            assert_eq!(page.matches("<svg").count(), 4 * files.len());
            assert!(page.contains("share of energy") && page.contains("not a measurement") && page.contains("0.3 s, "));
            assert!(page.contains("16.4 kB \u{2192} 4.1 kB") && !page.contains("NaN") && !page.contains("inf\""));
        }
    }
}
