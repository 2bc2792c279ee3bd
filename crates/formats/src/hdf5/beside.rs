//! Names of other files in a file that is copied to another directory.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// How files beside one file are found from another one: HDF5 looks for those that external links and virtual datasets
/// name in the directory of the file that names them.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Directory of the first file, and the way there from that of the second, if they are not the same.
    way: Option<(PathBuf, PathBuf)>,
}

impl Beside {
    /// For names in `from` that are to be used in `to`, whose directory exists.
    pub(super) fn of(from: &Path, to: &Path) -> Self {
        let (Some(from), Some(to)) = (directory(from), directory(to)) else { return Self::default() };
        let way = way(&to, &from);
        Self { way: (from != to).then_some((from, way)) }
    }

    /// What the file `name` is to be called; none if the name may stay: it is absolute, the directory is the same, or
    /// nothing is found there under this name.
    pub(super) fn renamed(&self, name: &[u8]) -> Option<Vec<u8>> {
        let (from, way) = self.way.as_ref()?;
        let name = Path::new(OsStr::from_bytes(name));
        // A virtual dataset calls its own file `.`, and `%b` stands for numbers.
        if name.is_absolute() || name == Path::new(".") {
            return None;
        }
        let place = from.join(name);
        let exists = if name.as_os_str().as_bytes().contains(&b'%') {
            place.parent().is_some_and(Path::exists)
        } else {
            place.exists()
        };
        exists.then(|| way.join(name).into_os_string().into_vec())
    }
}

/// The directory of a file, without links.
fn directory(file: &Path) -> Option<PathBuf> {
    let parent = file.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    parent.canonicalize().ok()
}

/// `to` as seen from the directory `from`; both are absolute.
fn way(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_from_another_directory() {
        let root = std::env::temp_dir().join(format!("knarr-beside-{}", std::process::id()));
        for folder in ["a/sub", "a/in", "b/deep"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("a/sub/part.h5"), b"").unwrap();
        let renamed = |to: &str, name: &str| {
            let found = Beside::of(&root.join("a/view.h5"), &root.join(to)).renamed(name.as_bytes());
            found.map(|name| String::from_utf8(name).unwrap())
        };
        assert_eq!(renamed("b/deep/view.h5", "sub/part.h5").unwrap(), "../../a/sub/part.h5");
        assert_eq!(renamed("a/in/view.h5", "sub/part.h5").unwrap(), "../sub/part.h5");
        assert_eq!(renamed("b/view.h5", "sub/part%b.h5").unwrap(), "../a/sub/part%b.h5");
        for name in [".", "/x/part.h5", "none.h5", "none/part%b.h5"] {
            assert_eq!(renamed("b/view.h5", name), None, "{name}");
        }
        assert_eq!(renamed("a/other.h5", "sub/part.h5"), None);
        assert_eq!(Beside::default().renamed(b"sub/part.h5"), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
