//! Raw files that datasets keep their values in, found beside the file.

use std::path::{Path, PathBuf};

use crate::sys::{self, Dataset, DatasetLayout};
use crate::text::element::text;
use knarr_array::error::Result;

/// `dataset` of `file`, which is at `path` in it, opened so that its external raw files are found beside the file if they
/// are not where HDF5 looks: in the current directory, or where `HDF5_EXTFILE_PREFIX` says.
pub(crate) fn with_external_files(file: &sys::File, place: &Path, dataset: Dataset, path: &[u8]) -> Result<Dataset> {
    let creation = dataset.0.creation()?;
    let is_told = std::env::var_os("HDF5_EXTFILE_PREFIX").is_some_and(|prefix| !prefix.is_empty());
    if is_told || creation.layout()? != DatasetLayout::External {
        return Ok(dataset);
    }
    let names: Vec<String> = creation.external_names()?.iter().map(|name| text(name)).collect();
    let is_here = names.iter().all(|name| Path::new(name).exists());
    if is_here || !names.iter().all(|name| is_beside(place, name)) {
        return Ok(dataset);
    }
    // The library does not open it in another way while it is open in this one.
    drop(dataset);
    file.dataset_with_files_beside(path)
}

/// True if `name` is found in the directory of `file`, or in that of what it is a link to. Of names with a number in
/// them (`%b`) the first counts.
pub(crate) fn is_beside(file: &Path, name: &str) -> bool {
    let first = name.replace("%b", "0").replace("%%", "%");
    places(file).any(|place| place.join(name).exists() || place.join(&first).exists())
}

/// Directories in which files that `file` names are found.
pub(crate) fn places(file: &Path) -> impl Iterator<Item = PathBuf> {
    let files = [Some(file.to_owned()), file.canonicalize().ok()];
    files.into_iter().flatten().filter_map(|file| file.parent().map(Path::to_owned))
}
