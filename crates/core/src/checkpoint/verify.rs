//! Verifying: every frame read, decoded and compared with the hashes of its pieces, and the manifest with its copy. Nothing
//! is written.

use super::restore::{Damage, Proof, fetch};
use super::set::Set;
use crate::engine::{Engine, Progress};
use crate::error::{Error, Result};

/// What verifying found.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Ranks that cannot be restored.
    pub damage: Vec<Damage>,
    /// What is wrong with the copy of a manifest that is whole itself.
    pub copy_damage: Option<Error>,
}

/// Reads every frame that belongs to a rank.
///
/// # Errors
/// `Interrupted`. Damage is no error here but the result.
pub fn verify(engine: &Engine, set: &Set, progress: &dyn Progress) -> Result<Verified> {
    progress.begin("verifying", set.manifest().unfiltered_bytes());
    let (read_bytes, damage) = fetch(
        engine,
        set,
        Proof::Hashes,
        |_, _| true,
        |_, _, bytes| {
            progress.advance(bytes.len() as u64);
            Ok(())
        },
    )?;
    let copy_damage = set.copy_damage(&engine.codecs);
    Ok(Verified { read_bytes, damage: damage.into_values().collect(), copy_damage })
}
