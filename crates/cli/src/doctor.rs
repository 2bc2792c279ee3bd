//! `knarr doctor`: placeholder
use knarr_core::error::Result;
pub(crate) fn run(_arguments: &crate::args::Doctor) -> Result<u8> { Ok(0) }
pub(crate) fn chains() -> Result<u8> { Ok(0) }
