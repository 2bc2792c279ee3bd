//! `knarr doctor`: which filters readers on this machine have, whether they would open the given files, and what `knarr run` sees of the
//! given programs.
//!
//! Ends with 0 if every file opens in every kind of reader that is installed here, with 3 if a file needs
//! something that one of them lacks, or cannot be read, or if nothing is seen of a program. Without files it reports and ends with 0.

mod command;
mod files;
mod libraries;
mod nodes;
mod parallel;
mod print;
mod programs;
mod python;
mod readers;

use knarr_array::error::Result;
use knarr_native::plugin;
use serde::Serialize;
use std::path::PathBuf;

use crate::arguments::args::Doctor;
use crate::batch::{Failed, code_of, each_alone, there};
use files::FileReport;
use programs::ProgramReport;
use readers::Reader;

/// Everything that was found out.
#[derive(Debug, Serialize)]
struct Diagnosis {
    /// Value of `HDF5_PLUGIN_PATH`, if it is set.
    hdf5_plugin_path: Option<String>,
    /// Directories in which Knarr looks for filter plugins, in order.
    directories: Vec<PathBuf>,
    /// Plugins that cannot be loaded, with the reason.
    unusable: Vec<Unusable>,
    /// Where the plugin of Knarr's own filter lies that came with this program.
    own_plugin: Option<PathBuf>,
    /// What a shell runs so that C programs find it; absent if they do.
    own_plugin_mend: Option<String>,
    /// The kinds of readers, installed or not.
    readers: Vec<Reader>,
    /// What MPI programs meet.
    parallel: parallel::Parallel,
    /// How this node reaches others.
    nodes: nodes::Nodes,
    /// One entry a file that was asked about.
    files: Vec<FileReport>,
    /// One entry a program that was asked about.
    programs: Vec<ProgramReport>,
    /// Files that cannot be read.
    failed: Vec<Failed>,
}

/// What was asked about.
enum Found {
    File(FileReport),
    Program(ProgramReport),
}

/// A plugin that cannot be loaded.
#[derive(Debug, Serialize)]
struct Unusable {
    path: PathBuf,
    reason: String,
}

const LACKING: u8 = 3;

pub(crate) fn run(arguments: &Doctor) -> Result<u8> {
    let codecs = knarr_native::codecs()?;
    let python = python::ask();
    let readers = readers::all(&codecs, python.as_ref());
    let (paths, mut missing) = there(crate::arguments::inputs::find(&arguments.files)?)?;
    let own_plugin = crate::commands::hdf5_filter::plugin_folder();
    let advice = files::Advice::new(python.as_ref(), own_plugin.clone());
    let (found, failed) = each_alone(&paths, |path| {
        missing.remove(path).map_or(Ok(()), Err)?;
        Ok(match programs::is_program(path) {
            true => Found::Program(programs::examine(path)?),
            false => Found::File(files::examine(path, &codecs, &readers, &advice)?),
        })
    });
    let (mut files, mut programs) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            Found::File(file) => files.push(file),
            Found::Program(program) => programs.push(program),
        }
    }
    let diagnosis = Diagnosis {
        own_plugin_mend: advice.own_plugin(&readers),
        own_plugin,
        hdf5_plugin_path: std::env::var("HDF5_PLUGIN_PATH").ok(),
        directories: plugin::directories(),
        unusable: plugin::search()
            .into_iter()
            .filter_map(|found| Some(Unusable { reason: found.usable.err()?, path: found.path }))
            .collect(),
        readers,
        parallel: parallel::ask(&libraries::loader()),
        nodes: nodes::ask(),
        files,
        programs,
        failed,
    };
    if arguments.json {
        println!("{}", serde_json::json!(diagnosis));
    } else {
        print::diagnosis(&diagnosis);
    }
    let lacking = diagnosis.files.iter().any(|file| !file.opens_everywhere())
        || diagnosis.programs.iter().any(ProgramReport::is_unseen);
    Ok(match code_of(&diagnosis.failed, paths.len()) {
        0 if lacking => LACKING,
        code => code,
    })
}
