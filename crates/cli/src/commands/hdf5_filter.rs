//! `knarr hdf5-filter`: the client data of Knarr's HDF5 filter, as other programs take them.

use knarr_array::error::Result;
use knarr_array::quality::Quality;
use knarr_codec::client_data::{ClientData, FilterOptions};
use knarr_codec::codec::KNARR_FILTER;
use std::path::PathBuf;

use crate::arguments::args::Hdf5Filter;

pub(crate) fn run(arguments: &Hdf5Filter) -> Result<u8> {
    let quality = Quality {
        max_abs_error: arguments.max_abs_error,
        max_range_error: arguments.max_range_error,
        max_rel_error: arguments.max_rel_error,
        finest_abs_error: arguments.finest_abs_error,
        significant_bits: arguments.significant_bits,
        significant_digits: arguments.significant_digits,
        exact_up_to: arguments.exact_up_to,
        exact_from: arguments.exact_from,
    };
    let options = FilterOptions { goal: arguments.goal.parse()?, quality, missing: arguments.missing_value };
    let words = ClientData { options, chunks: None }.words()?;
    if arguments.json {
        let folder = plugin_folder();
        println!("{}", serde_json::json!({"id": KNARR_FILTER, "cd_values": words, "plugin_path": folder}));
        return Ok(0);
    }
    let list = words.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    println!("h5repack  -f UD={KNARR_FILTER},0,{},{list}", words.len());
    println!("nccopy    -F '*,{KNARR_FILTER},{list}'");
    println!("ncgen     VAR:_Filter = \"{KNARR_FILTER},{list}\" ;");
    println!("h5py      compression={KNARR_FILTER}, compression_opts=({})", list.replace(',', ", "));
    if let Some(folder) = plugin_folder() {
        println!("\nexport HDF5_PLUGIN_PATH={}", folder.display());
    }
    Ok(0)
}

/// Where the plugin lies that came with this program: beside it, or below the `lib` of its prefix.
pub(crate) fn plugin_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.canonicalize().ok()?;
    let beside = program.parent()?;
    let folders = [beside.join("hdf5-plugins"), beside.parent()?.join("lib/knarr/hdf5-plugins")];
    folders.into_iter().find(|folder| folder.join(PLUGIN).is_file())
}

/// The plugin itself.
pub(crate) fn plugin() -> Option<PathBuf> {
    plugin_folder().map(|folder| folder.join(PLUGIN))
}

const PLUGIN: &str = "libknarr_h5.so";
