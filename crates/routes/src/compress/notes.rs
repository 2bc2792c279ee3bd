//! What users must hear of an output: what it lost, what readers do not find from it, and wishes that were not met.

use std::collections::BTreeMap;
use std::path::Path;

use knarr_array::table;
use knarr_choose::plan::{Action, Plan};
use knarr_codec::codec::{CodecList, ReaderLevel};
use serde::Serialize;

use knarr_formats::hdf5;
use knarr_formats::output::{self, OutputKind};

use super::repacked::Repacked;

/// All that is to be told of one output.
pub fn all(done: &Repacked) -> Vec<String> {
    let mut notes = limits_missed([&done.plan]);
    notes.extend(settings_unmet([(done.output.as_path(), &done.plan)]));
    notes.extend(names_lacking([&done.plan]));
    notes.extend(done.losses.names_lost.iter().cloned());
    notes.extend(options_without_effect(done));
    notes.extend(files_lost(done));
    notes.extend(hidden_from_netcdf(done));
    notes.extend(references_lost(done));
    notes.extend(links_left_out(done));
    notes.extend(not_kept(done));
    notes
}

/// The chains that were used, most bytes first.
pub fn chains(plan: &Plan) -> String {
    const SHOWN: usize = 3;
    let mut chains: Vec<(String, u64)> = Vec::new();
    for variable in &plan.variables {
        if let Action::Encode(choice) = &variable.action {
            let name = choice.chain.to_string();
            match chains.iter_mut().find(|(other, _)| *other == name) {
                Some((_, bytes)) => *bytes += variable.raw_bytes,
                None => chains.push((name, variable.raw_bytes)),
            }
        }
    }
    // Of a file whose variables are all as they were, why they are.
    let copied = plan.variables.iter().find_map(|variable| match &variable.action {
        Action::Copy(why) => Some(why.clone()),
        Action::Encode(_) => None,
    });
    if let (true, Some(why)) = (chains.is_empty(), copied) {
        return why;
    }
    chains.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let more = chains.len().saturating_sub(SHOWN);
    let mut text = chains.into_iter().take(SHOWN).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Which limits of the goal no chain meets, and for which variables.
pub fn limits_missed<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> Vec<String> {
    let mut missed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for variable in plans.into_iter().flat_map(|plan| &plan.variables) {
        if let Action::Encode(choice) = &variable.action
            && let Some(limits) = &choice.missed
        {
            let (names, name) = (missed.entry(limits).or_default(), variable.path.trim_start_matches('/'));
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let note = |(limits, names): (&str, Vec<&str>)| {
        let named = some(&names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>(), ", ");
        format!("goal: no chain meets {limits} for {named}: the nearest was taken")
    };
    missed.into_iter().map(note).collect()
}

/// Settings that files cannot have, and are written without: which, of which variable, and why. What is said of several files is
/// said once.
pub fn settings_unmet<'p>(files: impl IntoIterator<Item = (&'p Path, &'p Plan)>) -> Vec<String> {
    let mut all: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
    for (path, plan) in files {
        let left_out = plan.left_out.iter();
        let left_out = left_out.map(|why| format!("written without what is asked of single variables: {why}"));
        let unmet = plan.variables.iter().flat_map(|variable| {
            let name = variable.path.trim_start_matches('/');
            variable.unmet.iter().map(move |why| format!("variable '{name}' is written without a setting: {why}"))
        });
        left_out.chain(unmet).for_each(|words| all.entry(words).or_default().push(path));
    }
    let told = all.into_iter().filter_map(|(words, files)| {
        let first = files.first()?.display();
        let more = files.len() - 1;
        Some(if more == 0 { format!("{first}: {words}") } else { format!("{first} and {more} more: {words}") })
    });
    told.collect()
}

/// Names in settings that files lack, each with the number of files.
pub fn names_lacking<'p>(plans: impl IntoIterator<Item = &'p Plan>) -> Vec<String> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for name in plans.into_iter().flat_map(|plan| &plan.lacking) {
        *files.entry(name).or_default() += 1;
    }
    let told = files.into_iter().map(|(name, count)| {
        let plural = if count == 1 { "file that has nothing" } else { "files that have nothing" };
        format!("settings for '{name}' were ignored in {count} {plural} called so")
    });
    told.collect()
}

/// The first few, and how many more there are.
fn some(all: &[String], between: &str) -> String {
    const NAMED: usize = 3;
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(between);
    if all.len() > NAMED { format!("{named} and {} more", all.len() - NAMED) } else { named }
}

/// What readers that need more than a plan allows would gain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain {
    /// The value of `--portable`.
    pub portable: ReaderLevel,
    /// Expected share of the bytes that would be saved.
    pub saves: f64,
}

/// Less is not worth a reader that needs more.
const WORTH_TELLING: f64 = 0.05;

/// What other values of `--portable` are expected to save of an output of this kind, where that is worth telling.
pub fn gains(plan: &Plan, kind: &dyn OutputKind) -> Vec<Gain> {
    let mut gains: Vec<Gain> = Vec::new();
    for portable in [ReaderLevel::Standard, ReaderLevel::Knarr] {
        let Ok(target) = kind.limits(Some(portable)) else { continue };
        let saves = plan.saved_for(target.allowed);
        if saves >= WORTH_TELLING + gains.last().map_or(0.0, |gain| gain.saves) {
            gains.push(Gain { portable, saves });
        }
    }
    gains
}

/// The [`gains`] of an output, in words.
pub fn gains_told(done: &Repacked) -> Option<String> {
    output::of(&done.output).ok().and_then(|kind| in_words(&gains(&done.plan, kind)))
}

/// `--portable standard is expected to save 12 %, --portable knarr 31 %`, if there is something to tell.
pub fn in_words(gains: &[Gain]) -> Option<String> {
    let (first, others) = gains.split_first()?;
    let percent = |gain: &Gain| format!("{:.0} %", 100.0 * gain.saves);
    let mut text = format!("--portable {} is expected to save {}", first.portable.word(), percent(first));
    others.iter().for_each(|gain| text.push_str(&format!(", --portable {} {}", gain.portable.word(), percent(gain))));
    Some(text)
}

/// What was asked for and changes nothing, or not what it could.
pub fn options_without_effect(done: &Repacked) -> Vec<String> {
    let input = done.input.display();
    let chunks = done.chunks_unheard.iter().map(|name| {
        format!(
            "{input}: the chunks asked for '{name}' have no effect: small variables are one chunk (name one by its path, \
             /{name}, to have it otherwise), and what is copied as it is keeps its chunks"
        )
    });
    let idle = done.idle_steps.iter().map(|words| format!("{input}: {words}"));
    chunks.chain(idle).collect()
}

/// Steps of a plan that have no use where they stand, each with the first of its variables.
pub(super) fn idle_steps(codecs: &CodecList, plan: &Plan) -> Vec<String> {
    let mut idle: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for variable in &plan.variables {
        if let Action::Encode(choice) = &variable.action
            && let Some(step) = choice.chain.idle_step(codecs)
        {
            idle.entry(step).or_insert(variable.path.trim_start_matches('/'));
        }
    }
    let words = idle.into_iter().map(|((step, before), name)| {
        format!("variable '{name}': '{step}' behind '{before}' has no use: write it in front of it")
    });
    words.collect()
}

/// An output that is larger than its input.
pub fn larger(done: &Repacked) -> Option<String> {
    (done.output_bytes > done.input_bytes && !done.is_plain()).then(|| {
        format!(
            "{}: larger than the input: {} were {}; headers, chunks and what was asked for take more than compression saves",
            done.output.display(),
            table::bytes(done.output_bytes),
            table::bytes(done.input_bytes)
        )
    })
}

/// Other files that the output names and that only the input's directory has, as far as they are there now.
pub fn files_lost(done: &Repacked) -> Option<String> {
    let lost = hdf5::lost(&done.losses.other_files, &done.input, &done.output);
    (!lost.is_empty()).then(|| {
        format!(
            "{}: links or virtual datasets name {}, which HDF5 does not find from there: readers see fill values or \
             nothing; repack or copy it to that directory, too, or write the output beside the input",
            done.output.display(),
            lost.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
        )
    })
}

/// What programs of netCDF-C do not open or show of a netCDF-4 output: HDF5 has more than netCDF.
pub fn hidden_from_netcdf(done: &Repacked) -> Vec<String> {
    let (output, limits) = (done.output.display(), &done.losses.netcdf);
    let (refused, mut notes) = (limits.refused_at(&done.output), Vec::new());
    if !refused.is_empty() {
        notes.push(format!(
            "{output}: programs of netCDF-C (ncdump, netCDF4 in Python, …) will not open it: {}; HDF5 programs will: \
             end its name in .h5, or take that out of the input",
            some(&refused, "; ")
        ));
        return notes;
    }
    if !limits.hidden.is_empty() {
        let hidden = some(&limits.hidden, ", ");
        notes.push(format!("{output}: programs of netCDF-C do not show {hidden}: netCDF has no such type"));
    }
    if !limits.hidden_before.is_empty() {
        let hidden = some(&limits.hidden_before, ", ");
        notes.push(format!(
            "{output}: programs of netCDF-C do not show {hidden} before its release 4.9.3: the type has no name in the \
             file"
        ));
    }
    if !limits.halves.is_empty() {
        let halves = some(&limits.halves, ", ");
        notes.push(format!(
            "{output}: netCDF has no numbers of half precision. Its programs read {halves} as single precision, or crash \
             (netCDF-C 4.10, netCDF4 in Python): end the name in .h5, or convert them before"
        ));
    }
    if !limits.tables.is_empty() {
        let tables = some(&limits.tables, ", ");
        notes.push(format!(
            "{output}: programs of netCDF-C fail where they list attributes of several dimensions: attribute {tables}"
        ));
    }
    notes
}

/// References that lead nowhere.
pub fn references_lost(done: &Repacked) -> Option<String> {
    (done.references_lost > 0).then(|| {
        format!(
            "{}: references to objects that are no longer in the file became null: {}",
            done.input.display(),
            done.references_lost,
        )
    })
}

/// What else of the input the output's format has no place for.
pub fn not_kept(done: &Repacked) -> Option<String> {
    let lost = &done.losses.not_kept;
    (!lost.is_empty()).then(|| format!("Not kept: {}", lost.join("; ")))
}

/// Links of the input that the output does not have.
pub fn links_left_out(done: &Repacked) -> Option<String> {
    let links = &done.losses.left_out;
    (!links.is_empty()).then(|| {
        let links: Vec<String> = links.iter().map(|link| format!("{} ({})", link.path, link.target)).collect();
        format!("Left out, because Zarr has no links: {}", links.join(", "))
    })
}
