//! `knarr profile --tiers`: measures directories in which files could wait, and writes what `knarr.toml` says of them.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use knarr_array::error::{Error, Result};
use knarr_config::MEMORY;
use knarr_flow::engine::Progress;
use knarr_tier::{Measured, Reach, measure};

use crate::printing::progress::Bar;
use crate::table::{self, Align};

/// Where centres have fast directories: by name, or in a variable of the batch system.
const USUAL: [&str; 5] = ["/local", "/localscratch", "/nvme", "/scratch/local", "/tmp"];
const VARIABLES: [&str; 7] = ["SLURM_TMPDIR", "LOCAL_SCRATCH", "LOCALDIR", "TMPDIR", "BB", "BBPATH", "DW_JOB_STRIPED"];
/// The part of what is free that files may take: others use it, too.
const PART: u64 = 2;

/// A directory that was measured.
struct Found {
    path: PathBuf,
    measured: Measured,
    /// The file system.
    device: Option<u64>,
}

/// Measures `directories`, the last of which is where files stay; where nothing is said, what this machine usually has, and the
/// current directory.
pub(crate) fn run(directories: &[PathBuf]) -> Result<u8> {
    let (candidates, last) = match directories.split_last() {
        Some((last, others)) => (others.to_vec(), last.clone()),
        None => (usual(), PathBuf::from(".")),
    };
    let is_asked = !directories.is_empty();
    let progress = Bar::new("tiers");
    progress.begin("measuring", 0);
    let place = of(&last)?;
    let mut tiers = Vec::new();
    for path in candidates {
        match of(&path) {
            Ok(found) => tiers.push(found),
            Err(error) if is_asked => return Err(error),
            // What the machine usually has may belong to others.
            Err(_) => {}
        }
    }
    drop(progress);
    // Memory is the first tier, whatever its speed: values are there already.
    tiers.sort_by(|a, b| {
        (!a.measured.is_memory, -b.measured.write)
            .partial_cmp(&(!b.measured.is_memory, -a.measured.write))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let is_faster = |found: &Found| found.measured.write > place.measured.write && found.device != place.device;
    let (useful, slow): (Vec<Found>, Vec<Found>) =
        tiers.into_iter().partition(|found| found.measured.is_memory || is_faster(found));
    errln!("{}", printed(&useful, &slow, &place).trim_end());
    if useful.iter().all(|found| found.measured.is_memory) {
        errln!(
            "Files need a directory in which they wait, and none but memory is on a file system of its own and faster than\n\
             {}: nothing is printed for knarr.toml.",
            place.path.display()
        );
        errln!("Name directories with: knarr profile --tiers /dev/shm DIR... PLACE_OF_FILES");
        return Ok(0);
    }
    print!("{}", rules(&useful, &place));
    Ok(0)
}

/// Directories that this machine has, on different file systems.
fn usual() -> Vec<PathBuf> {
    let named = VARIABLES.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let all = std::iter::once(PathBuf::from(MEMORY)).chain(named).chain(USUAL.iter().map(PathBuf::from));
    let device = |path: &Path| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir).map(|found| found.dev());
    let mut seen: BTreeSet<u64> = device(Path::new(".")).into_iter().collect();
    all.filter(|path| device(path).is_some_and(|device| seen.insert(device))).collect()
}

fn of(path: &Path) -> Result<Found> {
    let measured = measure(path).map_err(|error| {
        Error::write(path, &error).hint("name directories in which this user may write, the place of the files last")
    })?;
    let device = std::fs::metadata(path).ok().map(|found| found.dev());
    Ok(Found { path: path.to_owned(), measured, device })
}

/// What was measured, for people.
fn printed(useful: &[Found], slow: &[Found], place: &Found) -> String {
    let header = [
        ("directory", Align::Left),
        ("kind", Align::Left),
        ("reach", Align::Left),
        ("free", Align::Right),
        ("write MB/s", Align::Right),
        ("read MB/s", Align::Right),
        ("sync ms", Align::Right),
        ("", Align::Left),
    ];
    let row = |found: &Found, note: &str| {
        let Measured { write, read, sync, left, kind, reach, .. } = &found.measured;
        vec![
            found.path.display().to_string(),
            (*kind).to_owned(),
            if *reach == Reach::Node { "node" } else { "all nodes" }.to_owned(),
            table::bytes(left.bytes),
            format!("{:.0}", write / 1e6),
            format!("{:.0}", read / 1e6),
            format!("{:.2}", sync * 1e3),
            note.to_owned(),
        ]
    };
    let memory = |found: &Found| if found.measured.is_memory { "lost at a restart" } else { "" };
    let mut rows: Vec<Vec<String>> = useful.iter().map(|found| row(found, memory(found))).collect();
    rows.push(row(place, "place of files"));
    let why = |found: &Found| if found.device == place.device { "same file system" } else { "no faster" };
    rows.extend(slow.iter().map(|found| row(found, why(found))));
    table::render(&header, &rows)
}

/// What `knarr.toml` says of them.
fn rules(useful: &[Found], place: &Found) -> String {
    let mut names = BTreeSet::new();
    let mut name = |path: &Path, otherwise: &str| {
        let own = path.file_name().map(|name| name.to_string_lossy().replace(char::is_control, "")).unwrap_or_default();
        let own = if own.is_empty() || path == Path::new(MEMORY) { otherwise.to_owned() } else { own };
        let numbered = (2..).map(|number| format!("{own}{number}"));
        std::iter::once(own.clone()).chain(numbered).find(|name| names.insert(name.clone())).unwrap_or(own)
    };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = String::from("# Measured by 'knarr profile --tiers': synced writes, and reads.\n");
    for found in useful {
        let Measured { write, read, left, .. } = &found.measured;
        // Relative paths count from the configuration file, which may lie elsewhere.
        let path = std::fs::canonicalize(&found.path).unwrap_or_else(|_| found.path.clone());
        text.push_str(&format!(
            "[[tier]]\nname = {}\npath = {}\ncapacity = \"{}M\"   # half of what is free; {:.0} and {:.0} MB/s\n",
            quoted(&name(&found.path, "ram")),
            quoted(&path.to_string_lossy()),
            (left.bytes / PART) >> 20,
            write / 1e6,
            read / 1e6
        ));
    }
    let last = &place.measured;
    text.push_str(&format!(
        "[[tier]]\nname = {}\npath = {}   # where files stay; {:.0} and {:.0} MB/s\n",
        quoted(&name(&place.path, "files")),
        quoted(&std::fs::canonicalize(&place.path).unwrap_or_else(|_| place.path.clone()).to_string_lossy()),
        last.write / 1e6,
        last.read / 1e6
    ));
    text
}

#[cfg(test)]
mod tests {
    use knarr_config::Config;
    use knarr_tier::Space;

    use super::*;

    fn found(path: &str, write: f64) -> Found {
        let is_memory = path == MEMORY;
        let left = Space { bytes: 10 << 30, inodes: 100 };
        let kind = if is_memory { "tmpfs" } else { "ext4" };
        let measured = Measured { write, read: 2.0 * write, sync: 1e-4, left, kind, reach: Reach::Node, is_memory };
        Found { path: PathBuf::from(path), measured, device: None }
    }

    #[test]
    fn what_is_printed_is_what_the_configuration_reads() {
        let useful = [found(MEMORY, 2e9), found("/local/a \"b\"", 1e9), found("/other/tmp", 5e8), found("/tmp", 4e8)];
        let text = rules(&useful, &found("/", 1e8)) + "[[file]]\npattern = \"*\"\nroute = \"stage\"\n";
        let config = Config::parse(&text).unwrap();
        let names: Vec<&str> = config.tier.iter().map(|tier| tier.name.as_str()).collect();
        assert_eq!(names, ["ram", "a \"b\"", "tmp", "tmp2", "files"]);
        assert_eq!(config.tier[1].capacity.map(|size| size.0), Some(5 << 30));
        assert!(config.tier[4].capacity.is_none() && config.tier[0].is_memory());
    }
}
