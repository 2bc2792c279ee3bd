//! What the system has left: memory for processes like this one, and space on a file system.
//!
//! Files in shared memory count as memory of who wrote them. A batch system limits that of a job by control groups, and
//! ends a job that takes more, whatever the machine has left.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst; proc(5) on meminfo.

use std::fs;
use std::path::{Path, PathBuf};

use crate::counters::Space;

/// `TMPFS_MAGIC` of Linux.
const IN_MEMORY: u64 = 0x0102_1994;

/// Where systems have control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// What one kind of control group calls its files.
struct Names {
    limit: &'static str,
    used: &'static str,
    /// In the statistics: what is cached of files and can be had back.
    cached: &'static str,
}

const FIRST: Names =
    Names { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cached: "total_inactive_file" };
const SECOND: Names = Names { limit: "memory.max", used: "memory.current", cached: "inactive_file" };

/// Bytes of memory that are available: of the machine, and of all control groups that this process is in. `None` where the
/// system says of neither.
pub fn available_memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.and_then(|kibibytes| kibibytes.checked_mul(1024));
    let groups = fs::read_to_string("/proc/self/cgroup").ok();
    let limited = groups.and_then(|groups| left_in_groups(&groups, Path::new(GROUPS)));
    machine.into_iter().chain(limited).min()
}

/// What the file system of `path` has left for this user; everything if it does not say.
pub fn left_in(path: &Path) -> Space {
    let Ok(found) = rustix::fs::statvfs(path) else { return Space::UNLIMITED };
    // Some file systems make inodes as they need them.
    let inodes = if found.f_files == 0 { u64::MAX } else { found.f_favail };
    Space { bytes: found.f_bavail.saturating_mul(found.f_frsize), inodes }
}

/// True if files in a directory lie in memory.
pub fn is_in_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| u64::try_from(found.f_type) == Ok(IN_MEMORY))
}

/// The least that is left in the groups of this list, in the form of `/proc/self/cgroup`, and in those around them.
fn left_in_groups(list: &str, mounted: &Path) -> Option<u64> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (names, roots) = if controllers.is_empty() {
            (SECOND, vec![mounted.to_owned(), mounted.join("unified")])
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (FIRST, vec![mounted.join("memory")])
        } else {
            return None;
        };
        // In a container the path may be that of the host, where only the last of these places is there.
        let inside = Path::new(path.trim_start_matches('/'));
        let places = roots.iter().flat_map(|root| inside.ancestors().map(|part| root.join(part)));
        places.filter_map(|place| left(&place, &names)).min()
    };
    list.lines().filter_map(of_line).min()
}

/// Bytes below the limit of a group; `None` if it has none.
fn left(group: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(PathBuf::from(group).join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, used) = (number(names.limit)?, number(names.used)?);
    let cached = read("memory.stat").and_then(|text| field(&text, names.cached)).unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

/// The number behind a name.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut words =
        text.lines().map(str::split_whitespace).find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(mounted: &Path, path: &str, names: &Names, (limit, used, cached): (&str, u64, u64)) {
        let place = mounted.join(path);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(names.limit), format!("{limit}\n")).unwrap();
        fs::write(place.join(names.used), format!("{used}\n")).unwrap();
        fs::write(place.join("memory.stat"), format!("anon 5\n{} {cached}\nfile 7\n", names.cached)).unwrap();
    }

    fn mounted(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("knarr-groups-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        place
    }

    #[test]
    fn the_tightest_group_counts() {
        let place = mounted("v2");
        group(&place, "slurm/job_7", &SECOND, ("1000", 700, 100));
        group(&place, "slurm/job_7/step_0", &SECOND, ("max", 600, 0));
        group(&place, "slurm", &SECOND, ("5000", 4900, 150));
        assert_eq!(left_in_groups("0::/slurm/job_7/step_0\n", &place), Some(250));
        assert_eq!(left_in_groups("0::/slurm/job_7\n1:name=systemd:/\n", &place), Some(250));
        assert_eq!(left_in_groups("0::/elsewhere\n", &place), None);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn old_groups_and_those_of_containers_count() {
        let place = mounted("v1");
        group(&place, "memory/job", &FIRST, ("1000", 300, 0));
        let list = "9:cpu,cpuacct:/job\n4:memory:/job\n0::/\n";
        assert_eq!(left_in_groups(list, &place), Some(700));
        // The path of the host; what is mounted is the group itself.
        group(&place, "memory", &FIRST, ("500", 600, 0));
        assert_eq!(left_in_groups("4:memory:/docker/abc\n", &place), Some(0));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes > 0));
        assert!(left_in(Path::new("/dev/shm")).bytes > 0 && !is_in_memory(Path::new("/proc")));
    }
}
