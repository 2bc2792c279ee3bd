//! Verifying: every frame read, decoded and compared with the hashes of its pieces, and the manifest with its copy. Nothing
//! is written.

use crate::disk::manifest::StoredPiece;
use crate::disk::set::{FrameBuffers, Set, Which};
use crate::files::piece_hash::piece_hash;
use crate::restoring::restore::{Damage, Proof, fetch, reading};
use knarr_array::error::{Error, ErrorKind, Result};
use knarr_flow::engine::{Engine, Progress};

/// What verifying found.
#[derive(Debug, Clone)]
pub struct Verified {
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Ranks that cannot be restored.
    pub damage: Vec<Damage>,
    /// What is wrong with the copy of a manifest that is whole itself.
    pub copy_damage: Option<Error>,
    /// What is wrong with one of two copies where the other one is whole.
    pub spared: Vec<Error>,
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
    let copied = verify_copies(engine, set)?;
    let copy_damage = set.copy_damage(&engine.codecs);
    let damage = damage.into_values().collect();
    Ok(Verified { read_bytes: read_bytes + copied, damage, copy_damage, spared: set.spared() })
}

/// Reads the second copies of frames, and notes what is wrong with them. Returns the bytes that were read.
fn verify_copies(engine: &Engine, set: &Set) -> Result<u64> {
    let frames = &set.manifest().frames;
    let copied: Vec<_> = frames.iter().filter(|frame| set.has_copy(frame) && frame.is_used()).collect();
    let read = reading(engine, copied.iter().copied()).parallel(copied.len(), |index| {
        let Some(frame) = copied.get(index) else { return Err(Error::internal("no such frame")) };
        let hold = |piece: &StoredPiece, bytes: &[u8]| match piece.hash {
            Some(hash) if hash != piece_hash(bytes) => {
                Err(Error::corrupt("a piece does not have the hash it was stored with").hint_damage("set"))
            }
            _ => Ok(()),
        };
        match set.read_pieces(&engine.codecs, frame, Which::Second, &mut FrameBuffers::default(), hold) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => set.spare(error),
            Ok(()) => {}
        }
        Ok(frame.length)
    })?;
    Ok(read.into_iter().sum())
}
