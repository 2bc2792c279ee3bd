//! `knarr profile`: placeholder
use knarr_core::error::Result;
pub(crate) fn run(_arguments: &crate::args::Profile) -> Result<u8> { Ok(0) }
