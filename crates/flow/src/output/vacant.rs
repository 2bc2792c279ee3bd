//! Directories that are made for outputs which then do not come.

use std::fs::{read_dir, remove_dir};
use std::path::{Path, PathBuf};

/// A directory that is not there yet, and those on the way to it. When this is dropped, those that were made meanwhile
/// and hold no file go again. Programs that write there must have ended by then.
#[derive(Debug, Default)]
pub struct Vacant {
    /// Innermost first.
    missing: Vec<PathBuf>,
}

impl Vacant {
    /// What is missing of `path` now.
    pub fn of(path: &Path) -> Self {
        let parts = path.ancestors().take_while(|part| !part.as_os_str().is_empty() && !part.exists());
        Self { missing: parts.map(Path::to_owned).collect() }
    }

    /// There are files now: nothing goes.
    pub fn keep(&mut self) {
        self.missing.clear();
    }
}

impl Drop for Vacant {
    fn drop(&mut self) {
        let Some((path, above)) = self.missing.split_first() else { return };
        if remove_empty(path) {
            // What holds something else is not removed.
            let _ = above.iter().try_for_each(remove_dir);
        }
    }
}

/// Removes the empty directories at and below `path`; true if all were.
fn remove_empty(path: &Path) -> bool {
    for entry in read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    remove_dir(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, create_dir_all, remove_dir_all, write};

    #[test]
    fn only_what_was_made_and_holds_nothing_goes() {
        let root = std::env::temp_dir().join(format!("knarr-vacant-{}", std::process::id()));
        create_dir_all(root.join("there")).unwrap();
        drop(Vacant::of(&root.join("there")));
        assert!(root.join("there").exists());
        drop(Vacant::of(&root.join("there/a/b")));

        let target = root.join("there/a/b");
        let vacant = Vacant::of(&target);
        create_dir_all(target.join("c/d")).unwrap();
        drop(vacant);
        assert!(root.join("there").exists() && !root.join("there/a").exists());

        let vacant = Vacant::of(&target);
        create_dir_all(target.join("c/d")).unwrap();
        write(target.join("file"), "kept").unwrap();
        drop(vacant);
        assert!(target.join("file").exists() && !target.join("c").exists());

        let mut vacant = Vacant::of(&root.join("kept"));
        create_dir(root.join("kept")).unwrap();
        vacant.keep();
        drop(vacant);
        assert!(root.join("kept").exists());
        remove_dir_all(root).unwrap();
    }
}
