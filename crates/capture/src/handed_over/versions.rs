//! Versions of one file. The program may create a file again before the last version of it is made, and versions that could
//! not be made stay. The newest one has to get the name in the end, whatever is made when; what others wrote there since must stay.

use std::path::{Path, PathBuf};

use super::HandedOver;
use super::nodes::DELIVERED;
use knarr_array::error::Result;
use knarr_flow::output::{FileIdentity, Known, Placed, Replaces};

/// Name of the list of what was made of a version.
const PLACED: &str = "placed";
/// Name of the list of what was made of older ones.
const OLDER: &str = "older";
/// How often newer versions are looked for.
const ATTEMPTS: usize = 3;

impl HandedOver {
    /// Writes it into the directory of a file that the program begins now: what has the names at this moment may be replaced, and
    /// what is made has the permissions that the program would give it. Returns it with that.
    ///
    /// # Errors
    /// `Write`.
    pub fn begin_anew(self, directory: &Path, generation: u64) -> Result<Self> {
        let mut begun = Self { generation, umask: umask(), ..self }.with_replaced();
        loop {
            begun.begin(directory)?;
            // An older version that got its name meanwhile may not have found this one yet.
            let again = begun.clone().with_replaced();
            if again == begun {
                return Ok(begun);
            }
            begun = again;
        }
    }

    fn with_replaced(self) -> Self {
        let output = self.rule.made_of(&self.target);
        let output_replaced = if output == self.target { None } else { FileIdentity::at(&output) };
        Self { replaced: FileIdentity::at(&self.target), output_replaced, ..self }
    }

    /// What a file that is made of it at `output` may take the place of: what the program has replaced, or what was made of it
    /// or of older versions. Whatever else has the name is newer.
    pub fn replaces(&self, output: &Path, directory: &Path) -> Replaces {
        let replaced = if output == self.target { self.replaced } else { self.output_replaced };
        let note = directory.join(PLACED);
        let mut older = Placed(&note).list();
        older.extend(Placed(&directory.join(OLDER)).list());
        older.extend(replaced);
        Replaces::Known(Known { older, note: Some(note) })
    }

    /// True if what was made of it is in its place.
    pub fn is_in_place(&self, directory: &Path) -> bool {
        self.placed(directory).is_some()
    }

    /// What was made of it, if that is in its place.
    fn placed(&self, directory: &Path) -> Option<FileIdentity> {
        let placed = Placed(&directory.join(PLACED)).list();
        let output = self.rule.made_of(&self.target);
        // Some become a file where a Zarr store was wanted.
        [&output, &self.target]
            .into_iter()
            .filter_map(|path| FileIdentity::at(path))
            .find(|found| placed.contains(found))
    }

    /// Has newer versions in these spools take the place of what was made of this one.
    pub fn hand_on(&self, directory: &Path, spools: &[PathBuf]) {
        let Some(placed) = self.placed(directory) else { return };
        let is_newer = |other: &Self| other.generation > self.generation;
        for _ in 0..ATTEMPTS {
            let newer =
                spools.iter().flat_map(|spool| Self::versions(spool, &self.target, &Self::LOOKED_FOR, is_newer));
            // One that is moved at this moment is found where it is now.
            let failed = newer.filter(|(newer, _)| Placed(&newer.join(OLDER)).add(&[placed]).is_err()).count();
            // Without a note, the newer version is set aside, and the user decides.
            if failed == 0 {
                return;
            }
        }
    }

    /// Brings what was noted of versions in a directory to a copy of that.
    pub(super) fn bring_versions(directory: &Path, copy: &Path) {
        if Self::was_made(directory) {
            let _ = std::fs::write(copy.join(DELIVERED), b"");
        }
        for name in [PLACED, OLDER] {
            let (note, known) = (copy.join(name), Placed(&copy.join(name)).list());
            let mut missing = Placed(&directory.join(name)).list();
            missing.retain(|placed| !known.contains(placed));
            if !missing.is_empty() {
                let _ = Placed(&note).add(&missing);
            }
        }
    }

    /// Has versions in these spools that may take the place of what was at `target` take the place of what holds the same now.
    pub fn stored_anew(spools: &[PathBuf], target: &Path, was: FileIdentity, now: FileIdentity) {
        let versions = spools.iter().flat_map(|spool| Self::versions(spool, target, &Self::LOOKED_FOR, |_| true));
        for (directory, version) in versions {
            if let Replaces::Known(Known { older, .. }) = version.replaces(target, &directory)
                && older.contains(&was)
                && !older.contains(&now)
            {
                // Without it, the version is set aside, and the user decides.
                let _ = Placed(&directory.join(OLDER)).add(&[now]);
            }
        }
    }

    /// True if a version of the file `target` could not be made, so what has its name, if anything has, is older.
    pub fn is_missing(spool: &Path, target: &Path) -> bool {
        let set_aside = Self::versions(spool, target, &[Self::SET_ASIDE], |handed| handed.session == 0);
        let is_missing = |directory: &Path, handed: &Self| {
            !directory.join(Self::OLDER_THAN_NAME).exists() && handed.placed(directory).is_none()
        };
        set_aside.iter().any(|(directory, handed)| is_missing(directory, handed))
    }

    /// The directories of versions of the file `target`, but for sessions, that could not be made and are older than `generation`.
    pub fn superseded(spool: &Path, target: &Path, generation: u64) -> Vec<PathBuf> {
        let is_older = |handed: &Self| handed.session == 0 && handed.generation < generation;
        let older = Self::versions(spool, target, &[Self::SET_ASIDE], is_older);
        older.into_iter().map(|(directory, _)| directory).collect()
    }

    /// Versions of the file `target`: files, and sessions of which files may be made.
    fn versions(spool: &Path, target: &Path, records: &[&str], is_one: impl Fn(&Self) -> bool) -> Vec<(PathBuf, Self)> {
        let all = Self::all(spool, records).into_iter();
        let all = all.filter_map(|(directory, handed)| Some((directory, handed.ok()?)));
        all.filter(|(_, handed)| handed.target == target && is_one(handed)).collect()
    }
}

/// Permissions that this process denies new files. To ask with `umask` would change it for a moment, for all threads.
fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}
