//! The tiers that `[[tier]]` names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use knarr_array::error::{Error, Result};
use knarr_capture::{SpoolInTier, SpoolPlace, TierPlace, note_written_in};
use knarr_config::{Config, TierRule};
use rustix::fs::Access;

use crate::launch::aggregators::nodes::Nodes;
use crate::launch::spools::on_disk::SpoolOnDisk;
use crate::notices::Notices;

/// The tiers below memory, with paths that count from `directory`. Those in which files wait are there from now on.
///
/// # Errors
/// `Write` if one of them cannot be made.
pub(in crate::launch) fn places(config: &Config, directory: &Path) -> Result<Vec<TierPlace>> {
    let below = config.tier.iter().filter(|tier| !tier.is_memory());
    let last = config.tier.last();
    let of = |rule: &TierRule| {
        let place = |path: PathBuf| TierPlace {
            name: rule.name.clone(),
            path,
            capacity: rule.capacity.map(|size| size.0),
            rate: rule.emulate.map(|emulation| emulation.rate.0),
            is_shared: rule.emulate.is_some_and(|emulation| emulation.shared),
        };
        if rule.url().is_some() {
            return Ok(place(rule.path.clone()));
        }
        let path = directory.join(&rule.path);
        let made = std::fs::create_dir_all(&path).and_then(|()| std::fs::canonicalize(&path));
        let at = |error: Error| error.at(format!("[[tier]] '{}'", rule.name));
        let path = made.map_err(|error| at(Error::write(&path, &error)))?;
        // Where files stay is the program's business.
        let may_write = || rustix::fs::access(&path, Access::WRITE_OK | Access::EXEC_OK);
        if last != Some(rule)
            && let Err(error) = may_write()
        {
            let hint = "name a directory in which this user may write";
            return Err(at(Error::write(&path, &error.into()).hint(hint)));
        }
        Ok(place(path))
    };
    below.map(of).collect()
}

/// Bytes of memory that values may take: what the user says when the run begins, and what the tier has.
pub(in crate::launch) fn memory(config: &Config, limit: Option<u64>) -> Option<u64> {
    let tier = config.tier.iter().find(|tier| tier.is_memory()).and_then(|tier| Some(tier.capacity?.0));
    limit.into_iter().chain(tier).min()
}

/// The spools of a run in the tiers in which files may wait, by the numbers of these, fastest first.
pub(in crate::launch) type StagedSpools = Vec<(usize, Arc<SpoolOnDisk>)>;

/// Makes them, if a rule has files wait in tiers. `memory` is the spool of the run; programs hear of the others there.
pub(in crate::launch) fn spools(
    (config, place, memory): (&Config, &SpoolPlace, &Path),
    nodes: &Nodes,
    notices: &dyn Notices,
) -> StagedSpools {
    let waiting = place.places.split_last().map_or(&[][..], |(_, waiting)| waiting);
    let is_needed = config.file.iter().any(|rule| rule.stage().is_some());
    let mut spools = StagedSpools::new();
    for (number, tier) in waiting.iter().enumerate().filter(|_| is_needed) {
        // Without accounts nothing waits.
        let Some(place) = place.tier(number) else { continue };
        match SpoolOnDisk::in_tier(place, memory) {
            Ok(spool) => {
                nodes.add(spool.path());
                spools.push((number, Arc::new(spool)));
            }
            Err(error) => notices.warn(&format!("no file waits in tier '{}': {error}", tier.name)),
        }
    }
    let of = |(tier, spool): &(usize, Arc<SpoolOnDisk>)| SpoolInTier { tier: *tier, path: spool.path().to_owned() };
    if let Err(error) = note_written_in(memory, &spools.iter().map(of).collect::<Vec<_>>()) {
        notices.warn(&format!("only files of HDF5 and PnetCDF wait in tiers: {error}"));
    }
    spools
}
