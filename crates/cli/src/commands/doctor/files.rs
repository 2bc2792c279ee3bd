//! What a file needs, who would open it, and what to do if they would not.

use knarr_array::error::Result;
use knarr_array::filter::FilterId;
use knarr_array::model::Variable;
use knarr_codec::codec::{CodecList, KNARR_FILTER, Provider, filter_name, registered};
use serde::Serialize;
use std::path::{Path, PathBuf};

use super::python::Python;
use super::readers::{Reader, ReaderKind, State};

/// A filter that a file uses.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Need {
    pub(super) id: FilterId,
    pub(super) name: String,
    /// What brings it.
    pub(super) provider: &'static str,
    /// Variables that use it.
    pub(super) variables: Vec<String>,
}

/// Whether one kind of reader would read all values.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Verdict {
    pub(super) reader: ReaderKind,
    pub(super) installed: bool,
    pub(super) opens: bool,
    /// What the program must do first, if it must.
    pub(super) after: Option<&'static str>,
    /// Filters it lacks.
    pub(super) lacks: Vec<FilterId>,
    /// Commands or steps, each of which is enough.
    pub(super) mends: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, Serialize)]
pub(super) struct FileReport {
    pub(super) path: PathBuf,
    pub(super) format: String,
    pub(super) needs: Vec<Need>,
    /// For Zarr: the chains in use, which name the codecs a library must know.
    pub(super) codecs: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}

impl FileReport {
    /// True if every reader that is installed here opens it; without any, if the file needs no plugin. Knarr itself
    /// does not count: it is no reader for people.
    pub(super) fn opens_everywhere(&self) -> bool {
        let mut others = self.verdicts.iter().filter(|verdict| verdict.reader != ReaderKind::Knarr);
        let any_installed = others.clone().any(|verdict| verdict.installed);
        others.all(|verdict| verdict.opens || (any_installed && !verdict.installed))
    }
}

/// Places that mends name.
pub(super) struct Advice {
    /// Plugin directory of an installed hdf5plugin package.
    plugin_path: Option<PathBuf>,
    /// Directory of Knarr's own plugin.
    own_plugin: Option<PathBuf>,
    /// What stands before a new entry of `HDF5_PLUGIN_PATH`, so that earlier ones stay.
    already: &'static str,
}

impl Advice {
    pub(super) fn new(python: Option<&Python>, own_plugin: Option<PathBuf>) -> Self {
        let set = std::env::var("HDF5_PLUGIN_PATH").is_ok_and(|path| !path.is_empty() && path != "::");
        Self {
            plugin_path: python.and_then(|python| python.plugin_path.clone()),
            own_plugin,
            already: if set { "\"$HDF5_PLUGIN_PATH\":" } else { "" },
        }
    }

    /// What makes C programs find Knarr's own plugin; `None` if they do, or there is none.
    pub(super) fn own_plugin(&self, readers: &[Reader]) -> Option<String> {
        let mut linked = readers.iter().filter(|reader| reader.kind == ReaderKind::C);
        let finds = linked.any(|reader| reader.state(KNARR_FILTER) != State::Missing);
        self.own_plugin.as_deref().filter(|_| !finds).map(|folder| self.export(&[folder]))
    }

    fn export(&self, directories: &[&Path]) -> String {
        let directories: Vec<String> = directories.iter().map(|directory| quoted(directory)).collect();
        format!("export HDF5_PLUGIN_PATH={}{}", self.already, directories.join(":"))
    }
}

/// Opens the file's description and asks for each reader.
pub(super) fn examine(path: &Path, codecs: &CodecList, readers: &[Reader], advice: &Advice) -> Result<FileReport> {
    let source = knarr_formats::open(path, codecs)?;
    let needs = needs(&source.model().variables);
    let format = source.format();
    // Filters belong to HDF5; its readers have no say about other formats, but that netCDF's read netCDF-3.
    let reads = |kind: ReaderKind| match format {
        "HDF5" | "netCDF-4" => true,
        _ => format.starts_with("netCDF-3") && kind != ReaderKind::H5py,
    };
    let asked = readers.iter().filter(|reader| reads(reader.kind));
    let verdicts = asked.map(|reader| verdict(path, &needs, reader, advice)).collect();
    let mut codecs = Vec::new();
    if format.starts_with("Zarr") {
        codecs.extend(source.model().variables.iter().map(|variable| variable.chain.clone()));
        codecs.sort();
        codecs.dedup();
    }
    Ok(FileReport { path: path.to_owned(), format: format.to_owned(), needs, codecs, verdicts })
}

fn needs(variables: &[Variable]) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for variable in variables {
        for filter in &variable.filters {
            let at = needs.iter().position(|need| need.id == filter.id).unwrap_or_else(|| {
                let provider = registered(filter.id).map_or(Provider::Project, |known| known.provider);
                let (id, name, provider) = (filter.id, filter_name(filter.id), provider.package());
                needs.push(Need { id, name, provider, variables: Vec::new() });
                needs.len() - 1
            });
            if let Some(need) = needs.get_mut(at) {
                need.variables.push(variable.name().to_owned());
            }
        }
    }
    needs.sort_by_key(|need| need.id);
    needs
}

fn verdict(path: &Path, needs: &[Need], reader: &Reader, advice: &Advice) -> Verdict {
    let lacks: Vec<FilterId> =
        needs.iter().map(|need| need.id).filter(|id| reader.state(*id) == State::Missing).collect();
    let imports = needs.iter().any(|need| reader.state(need.id) == State::AfterImport);
    Verdict {
        reader: reader.kind,
        installed: reader.installed,
        opens: lacks.is_empty(),
        after: imports.then_some("import hdf5plugin"),
        mends: if lacks.is_empty() { Vec::new() } else { mends(path, &lacks, reader.kind, advice) },
        lacks,
    }
}

/// What to do so that a reader of this kind opens the file: what brings the filters, then what makes it do without.
fn mends(path: &Path, lacks: &[FilterId], kind: ReaderKind, advice: &Advice) -> Vec<String> {
    let provider = |id: &FilterId| registered(*id).map_or(Provider::Project, |known| known.provider);
    let is_common = |id: &FilterId| provider(id) == Provider::Hdf5Plugin;
    let (common, own) = (lacks.iter().any(is_common), lacks.contains(&KNARR_FILTER));
    let (mut mends, mut directories) = (Vec::new(), Vec::new());
    if common && advice.plugin_path.is_none() {
        mends.push(match kind {
            ReaderKind::H5py => "pip install hdf5plugin, and 'import hdf5plugin' before the file is opened".to_owned(),
            ReaderKind::Knarr => "pip install hdf5plugin".to_owned(),
            _ => format!(
                "pip install hdf5plugin; export HDF5_PLUGIN_PATH={}$(python3 -c 'import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)')",
                advice.already
            ),
        });
    }
    directories.extend(advice.plugin_path.as_deref().filter(|_| common));
    match kind {
        ReaderKind::H5py if own => mends.push("'import knarr' before the file is opened".to_owned()),
        _ if own && advice.own_plugin.is_none() => {
            mends.push("put Knarr's HDF5 filter plugin on HDF5_PLUGIN_PATH".to_owned())
        }
        _ => directories.extend(advice.own_plugin.as_deref().filter(|_| own)),
    }
    if !directories.is_empty() {
        mends.push(advice.export(&directories));
    }
    if matches!(kind, ReaderKind::C | ReaderKind::Fortran) && lacks.iter().all(is_common) {
        mends.push(
            "a module or package of your system that brings these plugins, with its directory in HDF5_PLUGIN_PATH"
                .to_owned(),
        );
    }
    for id in lacks.iter().filter(|id| !is_common(id) && **id != KNARR_FILTER) {
        mends.push(match provider(id) {
            Provider::Hdf5WithSzip => "use a build of HDF5 with szip (libaec)".to_owned(),
            Provider::PyTables => "pip install tables, and 'import tables' before the file is opened".to_owned(),
            other => format!("for {} ({id}) install {}", filter_name(*id), other.package()),
        });
    }
    if kind != ReaderKind::Knarr {
        mends.push(format!("knarr repack {} --portable core -o {}", quoted(path), quoted(&renamed(path))));
    }
    mends
}

/// `a.nc` becomes `a.core.nc`.
fn renamed(path: &Path) -> PathBuf {
    let suffix = path.extension().map_or("nc".to_owned(), |suffix| suffix.to_string_lossy().into_owned());
    path.with_extension(format!("core.{suffix}"))
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn reader(kind: ReaderKind, installed: bool, filters: &[(FilterId, State)]) -> Reader {
        let filters: BTreeMap<_, _> = filters.iter().cloned().collect();
        Reader { kind, installed, components: Vec::new(), directories: Vec::new(), filters }
    }

    fn need(id: FilterId) -> Need {
        Need { id, name: filter_name(id), provider: "", variables: vec!["T".to_owned()] }
    }

    #[test]
    fn each_reader_gets_its_own_mend() {
        let needs = [need(1), need(32015)];
        let none = Advice { plugin_path: None, own_plugin: None, already: "" };
        let some = Advice {
            plugin_path: Some("/opt/hdf5 plugins".into()),
            own_plugin: Some("/opt/knarr".into()),
            already: "",
        };
        let c = reader(ReaderKind::C, true, &[(1, State::BuiltIn)]);
        let found = verdict(Path::new("a b.nc"), &needs, &c, &none);
        assert_eq!((found.opens, found.lacks.as_slice()), (false, &[32015][..]));
        assert!(found.mends[0].contains("pip install hdf5plugin; export HDF5_PLUGIN_PATH=$("));
        assert_eq!(found.mends.last().unwrap(), "knarr repack 'a b.nc' --portable core -o 'a b.core.nc'");
        assert_eq!(
            verdict(Path::new("a.nc"), &needs, &c, &some).mends[0],
            "export HDF5_PLUGIN_PATH='/opt/hdf5 plugins'"
        );
        // Files of Knarr's filter often have others beside it.
        let both = [need(32015), need(KNARR_FILTER)];
        let mends = |reader| verdict(Path::new("a.nc"), &both, reader, &some).mends;
        assert_eq!(mends(&c)[0], "export HDF5_PLUGIN_PATH='/opt/hdf5 plugins':/opt/knarr");
        let imported = reader(ReaderKind::H5py, true, &[(32015, State::AfterImport)]);
        assert_eq!(mends(&imported)[0], "'import knarr' before the file is opened");
        let h5py = reader(ReaderKind::H5py, true, &[(1, State::BuiltIn), (32015, State::AfterImport)]);
        let found = verdict(Path::new("a.nc"), &needs, &h5py, &none);
        assert!(found.opens && found.after == Some("import hdf5plugin") && found.mends.is_empty());
    }

    #[test]
    fn only_installed_readers_count() {
        let report = |verdicts: Vec<Verdict>| FileReport {
            path: PathBuf::new(),
            format: String::new(),
            needs: Vec::new(),
            codecs: Vec::new(),
            verdicts,
        };
        let needs = [need(32015)];
        let none = Advice { plugin_path: None, own_plugin: None, already: "" };
        let of = |installed, filters: &[(FilterId, State)]| {
            verdict(Path::new("a.nc"), &needs, &reader(ReaderKind::C, installed, filters), &none)
        };
        assert!(report(vec![of(true, &[(32015, State::BuiltIn)]), of(false, &[])]).opens_everywhere());
        assert!(!report(vec![of(true, &[(32015, State::BuiltIn)]), of(true, &[])]).opens_everywhere());
        assert!(!report(vec![of(false, &[])]).opens_everywhere());
    }
}
