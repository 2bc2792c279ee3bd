//! Kinds of readers, and which filters each has.

use knarr_array::filter::FilterId;
use knarr_codec::codec::{CodecList, Provider, REGISTERED, filter_name};
use knarr_native::plugin;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::libraries::{self, Component};
use super::python::Python;

/// A kind of program that opens files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReaderKind {
    C,
    Fortran,
    H5py,
    #[serde(rename = "netcdf4-python")]
    NetCdf4Python,
    Knarr,
}

impl ReaderKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Fortran => "Fortran",
            Self::H5py => "h5py",
            Self::NetCdf4Python => "netCDF4-python",
            Self::Knarr => "knarr",
        }
    }
}

/// Whether a reader has a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Part of the library.
    BuiltIn,
    /// A plugin that the library finds, with its file if known.
    Plugin(Option<PathBuf>),
    /// There once the program has imported `hdf5plugin`.
    AfterImport,
    Missing,
}

/// One kind of reader.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reader {
    pub(super) kind: ReaderKind,
    /// False if none of its libraries was found: its filters say what a new installation would have.
    pub(super) installed: bool,
    pub(super) components: Vec<Component>,
    /// Where it looks for plugins.
    pub(super) directories: Vec<PathBuf>,
    /// State of each filter that somebody here may need.
    pub(super) filters: BTreeMap<FilterId, State>,
}

impl Reader {
    /// Whether the reader has filter `id`. Numbers that nobody registered are looked for as well.
    pub(super) fn state(&self, id: FilterId) -> State {
        self.filters.get(&id).cloned().unwrap_or(State::Missing)
    }
}

/// The readers in the order in which they are shown.
pub(super) fn all(codecs: &CodecList, python: Option<&Python>) -> Vec<Reader> {
    let loader = libraries::loader();
    let szip = libraries::has_szip(&loader);
    let directories = libraries::plugin_directories();
    let plugins = plugins(&directories);
    let linked = |kind, components: Vec<Component>| Reader {
        kind,
        installed: !components.is_empty(),
        components,
        directories: directories.clone(),
        filters: linked_filters(&plugins, szip),
    };
    let mut readers = vec![
        linked(ReaderKind::C, libraries::of_c(&loader)),
        linked(ReaderKind::Fortran, libraries::of_fortran(&loader)),
    ];
    let nobody = Python::default();
    let python = python.unwrap_or(&nobody);
    readers.push(h5py(python));
    readers.push(netcdf4_python(python));
    readers.push(knarr(codecs));
    readers
}

/// Filters that HDF5 has itself; szip only in some builds.
fn built_in(provider: Provider, szip: bool) -> bool {
    provider == Provider::Hdf5 || (provider == Provider::Hdf5WithSzip && szip)
}

/// The usable plugins of these directories, the first for each number as HDF5 takes them.
fn plugins(directories: &[PathBuf]) -> BTreeMap<FilterId, PathBuf> {
    let mut found = BTreeMap::new();
    for plugin in plugin::search_in(directories) {
        if plugin.usable.is_ok() && plugin.has_decoder {
            found.entry(plugin.id).or_insert(plugin.path);
        }
    }
    found
}

fn linked_filters(plugins: &BTreeMap<FilterId, PathBuf>, szip: bool) -> BTreeMap<FilterId, State> {
    let own =
        REGISTERED.iter().filter(|filter| built_in(filter.provider, szip)).map(|filter| (filter.id, State::BuiltIn));
    plugins.iter().map(|(id, path)| (*id, State::Plugin(Some(path.clone())))).chain(own).collect()
}

fn h5py(python: &Python) -> Reader {
    let state = |id: FilterId, provider: Provider| {
        if !python.plain.contains(&id) {
            return python.imported.contains(&id).then_some(State::AfterImport);
        }
        let own = built_in(provider, true) || provider == Provider::H5py;
        Some(if own { State::BuiltIn } else { State::Plugin(None) })
    };
    let of_package = REGISTERED.iter().filter_map(|filter| Some((filter.id, state(filter.id, filter.provider)?)));
    let filters = match &python.h5py_hdf5 {
        Some(_) => of_package.collect(),
        // What a new installation would have.
        None => linked_filters(&BTreeMap::new(), true),
    };
    let mut components = components(python, &["h5py", "hdf5plugin"]);
    components.extend(python.h5py_hdf5.as_ref().map(|version| Component::new("HDF5", version, "inside h5py")));
    Reader {
        kind: ReaderKind::H5py,
        installed: python.h5py_hdf5.is_some(),
        components,
        directories: std::env::var_os("HDF5_PLUGIN_PATH").map(|path| libraries::asked_for(&path)).unwrap_or_default(),
        filters,
    }
}

fn netcdf4_python(python: &Python) -> Reader {
    let directories =
        python.netcdf4_plugins.as_ref().map(|path| libraries::asked_for(OsStr::new(path))).unwrap_or_default();
    let mut components = components(python, &["netCDF4"]);
    components.extend(python.netcdf4_hdf5.as_ref().map(|version| Component::new("HDF5", version, "inside netCDF4")));
    Reader {
        kind: ReaderKind::NetCdf4Python,
        installed: python.netcdf4_hdf5.is_some(),
        components,
        filters: linked_filters(&plugins(&directories), python.netcdf4_szip),
        directories,
    }
}

fn components(python: &Python, names: &[&str]) -> Vec<Component> {
    names
        .iter()
        .filter_map(|name| Some(Component::new(name, python.packages.get(*name)?, &python.executable)))
        .collect()
}

/// Knarr itself: whether it can repack the file for the others.
fn knarr(codecs: &CodecList) -> Reader {
    let known = REGISTERED.iter().map(|filter| filter.id).chain(plugin::search().into_iter().map(|found| found.id));
    let filters = known
        .filter(|id| *id > 0)
        .filter_map(|id| {
            let codec = codecs.for_hdf5(id).next()?;
            let is_plugin = codec.name().starts_with("plugin-");
            Some((id, if is_plugin { State::Plugin(None) } else { State::BuiltIn }))
        })
        // What the HDF5 library inside Knarr reads although no codec here does.
        .chain(
            REGISTERED
                .iter()
                .filter(|filter| built_in(filter.provider, false))
                .map(|filter| (filter.id, State::BuiltIn)),
        )
        .collect();
    Reader {
        kind: ReaderKind::Knarr,
        installed: true,
        components: vec![Component::new("knarr", env!("CARGO_PKG_VERSION"), "itself")],
        directories: plugin::directories(),
        filters,
    }
}

/// Filters worth a line: those of HDF5 and its common packages, and whatever some reader has.
pub(super) fn shown(readers: &[Reader], needed: &[FilterId]) -> Vec<(FilterId, String)> {
    let common = REGISTERED
        .iter()
        .filter(|filter| {
            matches!(filter.provider, Provider::Hdf5 | Provider::Hdf5WithSzip | Provider::Hdf5Plugin | Provider::H5py)
        })
        .map(|filter| filter.id);
    let had = readers.iter().flat_map(|reader| reader.filters.keys().copied());
    let mut ids: Vec<FilterId> = common.chain(had).chain(needed.iter().copied()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| (id, filter_name(id))).collect()
}
