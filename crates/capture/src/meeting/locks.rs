//! Whether a file system keeps locks (`flock`) between nodes. Lustre and NFS may be mounted so that each node has its own: launchers
//! of other nodes would look as if they were dead.

use std::path::{Path, PathBuf};

/// What is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// True if the file system of a path says that its locks are those of one node.
pub fn has_local_locks(path: &Path) -> bool {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    std::fs::read_to_string(MOUNTS).is_ok_and(|mounts| is_local(&mounts, &path))
}

/// The same, by a table of what is mounted.
fn is_local(mounts: &str, path: &Path) -> bool {
    let mut longest: Option<(PathBuf, bool)> = None;
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        let mut before = before.split(' ').skip(4);
        let (Some(place), Some(options)) = (before.next(), before.next()) else { continue };
        let place = PathBuf::from(place.replace("\\040", " "));
        let mut after = after.split(' ');
        let (Some(kind), Some(more)) = (after.next(), after.nth(1)) else { continue };
        let has = |wanted: &[&str]| options.split(',').chain(more.split(',')).any(|option| wanted.contains(&option));
        let is_local = match kind {
            "lustre" => has(&["localflock"]),
            "nfs" | "nfs4" => has(&["local_lock=flock", "local_lock=all", "nolock"]),
            _ => false,
        };
        // Of those at one place the last one counts.
        let is_longer = |(known, _): &(PathBuf, bool)| place.as_os_str().len() >= known.as_os_str().len();
        if path.starts_with(&place) && longest.as_ref().is_none_or(is_longer) {
            longest = Some((place, is_local));
        }
    }
    longest.is_some_and(|(_, is_local)| is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_whose_locks_are_those_of_one_node_are_known() {
        let mounts = "22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                      30 22 0:30 / /lustre rw,localflock shared:2 - lustre 10.0.0.1@tcp:/scratch rw,lazystatfs\n\
                      31 22 0:31 / /work rw shared:3 - lustre 10.0.0.1@tcp:/work rw,flock,lazystatfs\n\
                      32 22 0:32 / /home\\040of rw - nfs4 server:/home rw,vers=4.2,local_lock=none\n\
                      33 22 0:33 / /old rw - nfs server:/old rw,vers=3,nolock,local_lock=all\n\
                      34 30 0:34 / /lustre/good rw - lustre 10.0.0.2@tcp:/good rw,flock\n";
        for (path, expected) in [
            ("/lustre/a/meet", true),
            ("/lustre/good/meet", false),
            ("/lustrelike", false),
            ("/model/a", false),
            ("/home of/a", false),
            ("/old/a", true),
            ("/tmp", false),
        ] {
            assert_eq!(is_local(mounts, Path::new(path)), expected, "{path}");
        }
        assert!(!is_local("nonsense\n", Path::new("/")) && !has_local_locks(Path::new("/proc")));
    }
}
