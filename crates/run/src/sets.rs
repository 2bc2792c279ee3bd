//! Sets as users open them: that one of two copies is damaged is no error, but they should know.

use std::path::Path;

use knarr_array::error::Result;
use knarr_checkpoint::Set;
use knarr_codec::codec::CodecList;

use crate::notices::Notices;

/// Opens a set, and tells if its manifest is damaged.
///
/// # Errors
/// As for [`Set::open`].
pub fn open(path: &Path, codecs: &CodecList, notices: &dyn Notices) -> Result<Set> {
    let set = Set::open(path, codecs)?;
    if let Some(damage) = set.manifest_damage() {
        notices.warn(&format!("{damage}; its copy serves, but make a new set soon"));
    }
    Ok(set)
}
