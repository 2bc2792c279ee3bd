//! HDF5 filter plugins that are installed on this machine, used outside the HDF5 library and its lock.
//!
//! A plugin is a shared object that exports `H5PLget_plugin_type` and `H5PLget_plugin_info`. Its filter function
//! works on memory alone, so it can run in any thread; what it needs of HDF5 (error messages) plugins of the
//! `hdf5plugin` package look up at run time and do without. A plugin that is linked against symbols nobody
//! provides is refused when it is opened.

pub mod abi;
mod codec;
mod directories;
mod load;

pub use directories::directories;

use knarr_array::filter::FilterId;
use knarr_codec::codec::filter_name;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use codec::{PluginCodec, PluginStep};
pub(crate) use load::Plugin;

/// A shared object in one of the searched directories.
#[derive(Debug, Clone)]
pub struct Found {
    /// File.
    pub path: PathBuf,
    /// Filter number; 0 if it could not be read.
    pub id: FilterId,
    /// Name for people: the registered one.
    pub name: String,
    /// What the plugin says about itself.
    pub description: String,
    /// Whether it can write.
    pub has_encoder: bool,
    /// Whether it can read.
    pub has_decoder: bool,
    /// Why it cannot be used, if so.
    pub usable: Result<(), String>,
}

/// Every plugin in [`directories`], usable or not, in the order in which HDF5 would take them.
pub fn search() -> Vec<Found> {
    search_in(&directories())
}

/// Every plugin in the given directories, usable or not.
pub fn search_in(directories: &[PathBuf]) -> Vec<Found> {
    open_all(directories).into_iter().map(|(path, opened)| describe(path, opened.as_deref())).collect()
}

/// The usable plugins in `directories`, the first one for each filter number.
pub(crate) fn load(directories: &[PathBuf]) -> Vec<Arc<Plugin>> {
    let mut plugins: Vec<Arc<Plugin>> = Vec::new();
    for (_, opened) in open_all(directories) {
        if let Ok(plugin) = opened
            && plugins.iter().all(|known| known.id != plugin.id)
        {
            plugins.push(plugin);
        }
    }
    plugins
}

type Opened = knarr_array::Result<Arc<Plugin>>;

fn open_all(directories: &[PathBuf]) -> Vec<(PathBuf, Opened)> {
    let paths = directories.iter().flat_map(|directory| shared_objects(directory));
    paths.map(|path| (path.clone(), open_once(&path))).collect()
}

/// Opens a plugin once per process: its own global state, and so the lock that guards it, exists once.
fn open_once(path: &Path) -> Opened {
    static OPEN: Mutex<Vec<(PathBuf, Arc<Plugin>)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, plugin)) = open.iter().find(|(known, _)| known == path) {
        return Ok(Arc::clone(plugin));
    }
    let plugin = Arc::new(Plugin::open(path)?);
    open.push((path.to_path_buf(), Arc::clone(&plugin)));
    Ok(plugin)
}

/// The files that HDF5 would try: `lib*.so*`, sorted so that the order does not depend on the file system.
fn shared_objects(directory: &Path) -> Vec<PathBuf> {
    let is_library = |path: &Path| {
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("lib") && name.contains(".so"))
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| is_library(path) && path.is_file()).collect();
    paths.sort();
    paths
}

fn describe(path: PathBuf, opened: Result<&Plugin, &knarr_array::Error>) -> Found {
    match opened {
        Ok(plugin) => Found {
            path,
            id: plugin.id,
            name: filter_name(plugin.id),
            description: plugin.name.clone(),
            has_encoder: plugin.has_encoder,
            has_decoder: plugin.has_decoder,
            usable: Ok(()),
        },
        Err(error) => Found {
            path,
            id: 0,
            name: String::new(),
            description: String::new(),
            has_encoder: false,
            has_decoder: false,
            usable: Err(error.to_string()),
        },
    }
}
