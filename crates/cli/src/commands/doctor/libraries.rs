//! Libraries that C and Fortran programs use: what is installed, in which version, and where plugins are looked for.

use serde::Serialize;
use std::path::{Path, PathBuf};

use super::command::quick;

/// A library or package of a reader.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Component {
    pub(super) name: String,
    /// As its own tool says it, or the version of its shared object.
    pub(super) version: String,
    /// What said so.
    pub(super) source: String,
}

impl Component {
    pub(super) fn new(name: &str, version: impl Into<String>, source: &str) -> Self {
        Self { name: name.to_owned(), version: version.into(), source: source.to_owned() }
    }
}

/// libhdf5 and libnetcdf.
pub(super) fn of_c(loader: &str) -> Vec<Component> {
    let hdf5 = compiler_wrapper("h5cc").or_else(|| packaged("HDF5", &["hdf5", "hdf5-serial"])).or_else(|| {
        shared("HDF5", loader, &["libhdf5.so", "libhdf5_serial.so", "libhdf5_openmpi.so", "libhdf5_mpich.so"])
    });
    let netcdf = configured("netCDF-C", "nc-config")
        .or_else(|| packaged("netCDF-C", &["netcdf"]))
        .or_else(|| shared("netCDF-C", loader, &["libnetcdf.so"]));
    hdf5.into_iter().chain(netcdf).collect()
}

/// The Fortran libraries; they call the C ones.
pub(super) fn of_fortran(loader: &str) -> Vec<Component> {
    let hdf5 = compiler_wrapper("h5fc").or_else(|| {
        shared(
            "HDF5 Fortran",
            loader,
            &["libhdf5_fortran.so", "libhdf5_serial_fortran.so", "libhdf5_openmpi_fortran.so"],
        )
    });
    let netcdf = configured("netCDF-Fortran", "nf-config")
        .or_else(|| packaged("netCDF-Fortran", &["netcdf-fortran"]))
        .or_else(|| shared("netCDF-Fortran", loader, &["libnetcdff.so"]));
    hdf5.into_iter().chain(netcdf).collect()
}

/// What the loader knows: `ldconfig -p`.
pub(super) fn loader() -> String {
    quick("ldconfig", &["-p"]).or_else(|| quick("/sbin/ldconfig", &["-p"])).unwrap_or_default()
}

/// Whether a szip library is installed for C programs.
pub(super) fn has_szip(loader: &str) -> bool {
    loader.lines().any(|line| ["libsz.so", "libaec.so"].iter().any(|name| line.trim_start().starts_with(name)))
}

/// `h5cc -showconfig` has a line `HDF5 Version: 1.14.5`.
fn compiler_wrapper(tool: &str) -> Option<Component> {
    let text = quick(tool, &["-showconfig"])?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("HDF5 Version:"))?;
    let name = if tool == "h5fc" { "HDF5 Fortran" } else { "HDF5" };
    Some(Component::new(name, version.trim(), tool))
}

/// `nc-config --version` says `netCDF 4.9.2`.
fn configured(name: &str, tool: &str) -> Option<Component> {
    let text = quick(tool, &["--version"])?;
    Some(Component::new(name, text.split_whitespace().last()?, tool))
}

fn packaged(name: &str, packages: &[&str]) -> Option<Component> {
    packages
        .iter()
        .find_map(|package| quick("pkg-config", &["--modversion", package]))
        .map(|version| Component::new(name, version, "pkg-config"))
}

/// The first of these shared objects that the loader lists; its file name carries the version of its interface.
pub(super) fn shared(name: &str, loader: &str, objects: &[&str]) -> Option<Component> {
    let line = |object: &&str| loader.lines().find(|line| line.trim_start().starts_with(*object));
    let path = objects.iter().find_map(line)?.split("=>").nth(1)?.trim().to_owned();
    let real = std::fs::canonicalize(&path).unwrap_or_else(|_| PathBuf::from(&path));
    let file = real.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    let version = file.split_once(".so.").map_or("unknown version", |(_, version)| version);
    Some(Component::new(name, format!("interface {version}"), &path))
}

/// Directories from which a C program's libhdf5 loads plugins: those of `HDF5_PLUGIN_PATH`, which take the place of
/// the library's default, or else the standard ones that exist.
pub(super) fn plugin_directories() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("HDF5_PLUGIN_PATH") {
        return asked_for(&path);
    }
    // What belongs to a Python package is not on any library's default path.
    let foreign = |directory: &PathBuf| {
        directory.components().any(|part| part.as_os_str() == "site-packages" || part.as_os_str() == "dist-packages")
    };
    knarr_native::plugin::directories().into_iter().filter(|directory| !foreign(directory)).collect()
}

/// The directories in a value of `HDF5_PLUGIN_PATH`; `::` stands for none.
pub(super) fn asked_for(path: &std::ffi::OsStr) -> Vec<PathBuf> {
    std::env::split_paths(path).filter(|directory| directory != Path::new("") && directory.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_objects_are_found_in_what_the_loader_lists() {
        let loader = "\tlibhdf5_serial.so.103 (libc6,x86-64) => /none/libhdf5_serial.so.103.3.0\n\tlibsz.so.2 (libc6) => /none/libsz.so.2";
        let found = shared("HDF5", loader, &["libhdf5.so", "libhdf5_serial.so"]).unwrap();
        assert_eq!(found.version, "interface 103.3.0");
        assert!(has_szip(loader) && !has_szip(""));
        assert_eq!(shared("HDF5", loader, &["libnetcdf.so"]), None);
        assert!(asked_for(std::ffi::OsStr::new("::")).is_empty());
    }
}
