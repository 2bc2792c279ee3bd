//! The diagnosis for people.

use knarr_array::filter::FilterId;
use knarr_codec::codec::filter_name;

use super::Diagnosis;
use super::files::{FileReport, Verdict};
use super::readers::{self, Reader, State};
use crate::table::{self, Align};

pub(super) fn diagnosis(diagnosis: &Diagnosis) {
    println!("HDF5_PLUGIN_PATH  {}", diagnosis.hdf5_plugin_path.as_deref().unwrap_or("not set"));
    diagnosis.readers.iter().for_each(reader);
    match (&diagnosis.own_plugin, &diagnosis.own_plugin_mend) {
        (None, _) => println!("{:17} not installed beside this program", "Knarr's filter"),
        (Some(_), None) => println!("{:17} found by C programs", "Knarr's filter"),
        (Some(_), Some(hint)) => println!("{:17} not found by C programs: {hint}", "Knarr's filter"),
    }
    super::parallel::print(&diagnosis.parallel);
    super::nodes::print(&diagnosis.nodes);
    println!();
    filters(diagnosis);
    for plugin in &diagnosis.unusable {
        println!("not usable: {}: {}", plugin.path.display(), plugin.reason);
    }
    diagnosis.files.iter().for_each(file);
    diagnosis.programs.iter().for_each(super::programs::print);
}

fn reader(reader: &Reader) {
    let parts: Vec<String> =
        reader.components.iter().map(|part| format!("{} {} ({})", part.name, part.version, part.source)).collect();
    let parts = if parts.is_empty() { "not found".to_owned() } else { parts.join(", ") };
    println!("{:17} {parts}", reader.kind.name());
    let directories: Vec<String> = reader.directories.iter().map(|directory| directory.display().to_string()).collect();
    if reader.installed {
        println!(
            "{:17} plugins from: {}",
            "",
            if directories.is_empty() { "nowhere".to_owned() } else { directories.join(", ") }
        );
    }
}

fn filters(diagnosis: &Diagnosis) {
    let needed: Vec<FilterId> = diagnosis.files.iter().flat_map(|file| file.needs.iter().map(|need| need.id)).collect();
    let installed: Vec<&Reader> = diagnosis.readers.iter().filter(|reader| reader.installed).collect();
    let mut header = vec![("filter", Align::Left), ("id", Align::Right)];
    header.extend(installed.iter().map(|reader| (reader.kind.name(), Align::Left)));
    let rows: Vec<Vec<String>> = readers::shown(&diagnosis.readers, &needed)
        .into_iter()
        .map(|(id, name)| {
            [name, id.to_string()]
                .into_iter()
                .chain(installed.iter().map(|reader| state(&reader.state(id)).to_owned()))
                .collect()
        })
        .collect();
    print!("{}", table::render(&header, &rows));
}

fn state(state: &State) -> &'static str {
    match state {
        State::BuiltIn => "built in",
        State::Plugin(_) => "plugin",
        State::AfterImport => "import hdf5plugin",
        State::Missing => "missing",
    }
}

fn file(file: &FileReport) {
    println!();
    let needs: Vec<String> = file.needs.iter().map(|need| format!("{} ({})", need.name, need.id)).collect();
    let needs = if needs.is_empty() { "no filter".to_owned() } else { needs.join(", ") };
    println!("{} ({}) needs {needs}", file.path.display(), file.format);
    for chain in &file.codecs {
        println!("  a Zarr library needs the codecs {chain}");
    }
    file.verdicts.iter().for_each(verdict);
}

fn verdict(verdict: &Verdict) {
    let name = verdict.reader.name();
    let absent = if verdict.installed { "" } else { " (not installed here)" };
    match (verdict.opens, verdict.after) {
        (true, None) => println!("  {name:15} opens it{absent}"),
        (true, Some(first)) => println!("  {name:15} opens it after '{first}'{absent}"),
        (false, _) => {
            let lacks: Vec<String> = verdict.lacks.iter().map(|id| filter_name(*id)).collect();
            println!("  {name:15} lacks {}{absent}", lacks.join(", "));
            for (position, hint) in verdict.mends.iter().enumerate() {
                println!("  {:15} {} {hint}", "", if position == 0 { "hint:" } else { "or:  " });
            }
        }
    }
}
