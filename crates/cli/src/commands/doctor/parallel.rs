//! What MPI programs under `knarr run` meet on this machine.

use serde::Serialize;
use std::path::{Path, PathBuf};

use super::command::quick;
use super::libraries::{Component, shared};

/// MPIs with an ABI of their own, as the adapters for them are called.
const ADAPTERS: [&str; 2] = ["openmpi", "mpich"];
/// A part of Open MPI 4 and 5 that writes wrong bytes into parallel HDF5 files (open-mpi/ompi issue 12718).
const VULCAN: [&str; 2] =
    ["/usr/lib/*/openmpi/lib/openmpi*/mca_fcoll_vulcan.so", "/usr/lib64/openmpi/lib/openmpi*/mca_fcoll_vulcan.so"];
/// By this variable a user does without it.
const WITHOUT: (&str, &str) = ("OMPI_MCA_fcoll", "^vulcan");

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Parallel {
    /// PnetCDF, if it is installed: `knarr run` sees what programs write with it.
    pub(super) pnetcdf: Option<Component>,
    /// The MPIs for which this program has an adapter.
    pub(super) adapters: Vec<&'static str>,
    /// A part of Open MPI that damages parallel HDF5 files, if it is used.
    pub(super) damaging: Option<PathBuf>,
}

pub(super) fn ask(loader: &str) -> Parallel {
    let version = quick("pnetcdf-config", &["--version"]);
    let version = version.as_deref().and_then(|text| text.split_whitespace().last()).map(str::to_owned);
    let pnetcdf = version
        .map(|version| Component::new("PnetCDF", version, "pnetcdf-config"))
        .or_else(|| shared("PnetCDF", loader, &["libpnetcdf.so"]));
    let is_avoided = std::env::var(WITHOUT.0).is_ok_and(|value| value.contains(WITHOUT.1));
    let found = VULCAN.iter().filter_map(|pattern| glob::glob(pattern).ok()).flatten().flatten().next();
    Parallel { pnetcdf, adapters: adapters(), damaging: found.filter(|_| !is_avoided) }
}

/// Adapters lie where the library lies that programs get: beside the program, or in `lib/knarr` next to its directory.
fn adapters() -> Vec<&'static str> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    let beside = program.parent().unwrap_or(Path::new("")).to_owned();
    let places = [beside.clone(), beside.join("../lib/knarr")];
    let is_there = |mpi: &&str| places.iter().any(|place| place.join(format!("libknarr_mpi-{mpi}.so")).is_file());
    ADAPTERS.into_iter().filter(is_there).collect()
}

/// For people.
pub(super) fn print(parallel: &Parallel) {
    let adapters = match parallel.adapters.as_slice() {
        [] => "no adapter for an MPI: build one with tools/build-mpi.sh".to_owned(),
        adapters => format!("adapters for {}", adapters.join(", ")),
    };
    let pnetcdf = match &parallel.pnetcdf {
        Some(Component { version, source, .. }) => format!("PnetCDF {version} ({source})"),
        None => "PnetCDF not found".to_owned(),
    };
    println!("{:17} {pnetcdf}, {adapters}", "MPI programs");
    if let Some(path) = &parallel.damaging {
        let (name, value) = WITHOUT;
        println!("{:17} Open MPI's fcoll/vulcan is known to damage parallel HDF5 files: export {name}={value}", "");
        println!("{:17} ({})", "", path.display());
    }
}
