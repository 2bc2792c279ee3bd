//! What the Python interpreter has, by its own account.

use knarr_array::filter::FilterId;
use knarr_codec::codec::REGISTERED;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::command::answer;

/// Importing four packages from a busy parallel file system can take a while; longer than this is not worth a wait.
const LIMIT: Duration = Duration::from_secs(20);

/// Asks each package for itself: one that is broken does not hide the others. `filter_avail` makes HDF5 look for the
/// plugin, so the answer is what a reader would get.
const SCRIPT: &str = r#"
import json, os, sys
out = {"executable": sys.executable, "version": sys.version.split()[0], "packages": {}, "plain": [], "imported": []}
ids = json.loads(sys.argv[1])
from importlib import metadata, util
for name in ("h5py", "hdf5plugin", "netCDF4", "xarray", "zarr", "numcodecs"):
    try:
        out["packages"][name] = metadata.version(name)
    except Exception:
        pass
try:
    import h5py
    out["h5py_hdf5"] = h5py.version.hdf5_version
    out["plain"] = [i for i in ids if h5py.h5z.filter_avail(i)]
except Exception:
    pass
try:
    import hdf5plugin
    out["plugin_path"] = getattr(hdf5plugin, "PLUGIN_PATH", None) or getattr(hdf5plugin, "PLUGINS_PATH", None)
    out["imported"] = [i for i in ids if h5py.h5z.filter_avail(i)]
except Exception:
    pass
try:
    asked = os.environ.get("HDF5_PLUGIN_PATH")
    import netCDF4
    out["netcdf4_hdf5"] = netCDF4.__hdf5libversion__
    out["netcdf4_szip"] = bool(getattr(netCDF4, "__has_szip_support__", False))
    # Some builds of the package set the variable for themselves when they are imported.
    out["netcdf4_plugins"] = os.environ.get("HDF5_PLUGIN_PATH") if asked is None else asked
except Exception:
    pass
print(json.dumps(out))
"#;

/// An interpreter and its packages.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Python {
    pub(super) executable: String,
    pub(super) version: String,
    /// Version of each package that is installed.
    pub(super) packages: BTreeMap<String, String>,
    /// HDF5 inside h5py.
    pub(super) h5py_hdf5: Option<String>,
    /// Filters that h5py has by itself.
    pub(super) plain: Vec<FilterId>,
    /// Filters that h5py has once hdf5plugin is imported.
    pub(super) imported: Vec<FilterId>,
    /// Directory of the plugins of the hdf5plugin package.
    pub(super) plugin_path: Option<PathBuf>,
    /// HDF5 inside netCDF4-python.
    pub(super) netcdf4_hdf5: Option<String>,
    pub(super) netcdf4_szip: bool,
    /// Where netCDF4-python's HDF5 looks for plugins.
    pub(super) netcdf4_plugins: Option<String>,
}

/// The interpreter of the active environment, or else the first `python3`; `None` if there is none or it does not
/// answer.
pub(super) fn ask() -> Option<Python> {
    let ids: Vec<FilterId> = REGISTERED.iter().map(|filter| filter.id).collect();
    let ids = serde_json::to_string(&ids).ok()?;
    let environment = std::env::var_os("VIRTUAL_ENV").map(|prefix| PathBuf::from(prefix).join("bin/python3"));
    let interpreter = environment.filter(|path| path.exists()).unwrap_or_else(|| PathBuf::from("python3"));
    // Packages may print on import: the answer is the last line.
    let text = answer(interpreter, &["-c", SCRIPT, &ids], LIMIT)?;
    serde_json::from_str(text.lines().last()?).ok()
}
