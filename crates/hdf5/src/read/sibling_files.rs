//! Other files that a file refers to.

use std::collections::BTreeSet;
use std::path::Path;

use crate::read::external_files::is_beside;
use crate::read::source::Hdf5Source;
use crate::sys::DatasetLayout;
use crate::text::element::text;
use knarr_array::error::Result;
use knarr_array::model::{LinkTarget, StorageLayout};
use knarr_flow::store::Source;

/// Names of other files in links and virtual datasets of `source`. HDF5 looks for them in the directory of the file that
/// names them.
///
/// # Errors
/// `Corrupt` if the properties of a dataset cannot be read.
pub fn other_files(source: &Hdf5Source) -> Result<BTreeSet<String>> {
    let mut names = virtual_sources(source)?;
    names.extend(source.model().links().filter_map(|link| match &link.target {
        LinkTarget::External { file, .. } => Some(file.clone()),
        LinkTarget::Hard(_) | LinkTarget::Soft(_) | LinkTarget::User { .. } => None,
    }));
    // A virtual dataset calls its own file `.`.
    names.retain(|name| name != "." && !Path::new(name).is_absolute());
    Ok(names)
}

fn virtual_sources(source: &Hdf5Source) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let variables = source.model().variables.iter().enumerate();
    for (index, _) in variables.filter(|(_, variable)| variable.layout == StorageLayout::Elsewhere) {
        let creation = source.dataset(source.stored(index)?)?.0.creation()?;
        if creation.layout()? == DatasetLayout::Virtual {
            names.extend(creation.virtual_sources()?.iter().map(|name| text(name)));
        }
    }
    Ok(names)
}

/// Those of `names` that are found from the file `input`, but not from the file `output`.
pub fn lost(names: &BTreeSet<String>, input: &Path, output: &Path) -> Vec<String> {
    names.iter().filter(|name| is_beside(input, name) && !is_beside(output, name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beside_the_input_alone_is_lost() {
        let root = std::env::temp_dir().join(format!("knarr-beside-{}", std::process::id()));
        for folder in ["a/sub", "b/sub"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for name in ["a/sub/part.h5", "a/p-0.h5", "a/both.h5", "b/both.h5"] {
            std::fs::write(root.join(name), b"").unwrap();
        }
        let names = ["sub/part.h5", "p-%b.h5", "both.h5", "none.h5"].map(str::to_owned).into();
        assert_eq!(lost(&names, &root.join("a/in.h5"), &root.join("b/out.h5")), ["p-%b.h5", "sub/part.h5"]);
        assert!(lost(&names, &root.join("a/in.h5"), &root.join("a/out.h5")).is_empty());
        std::fs::remove_dir_all(root).unwrap();
    }
}
