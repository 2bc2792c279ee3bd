//! What to do besides encoding.

use knarr_flow::output::Replaces;
use knarr_formats::classic::Version;

/// What to do besides encoding.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// What the output may take the place of.
    pub replaces: Replaces,
    /// Line for the `history` attribute of lossy outputs: the command.
    pub command: String,
    /// Date for `history`.
    pub when: String,
    /// Save the plan beside the output, in place of an older one. Where nothing is chosen there is none.
    pub save_plan: bool,
    /// If a netCDF-4 file would be larger than so many bytes, classic netCDF of this version is written instead.
    pub classic_above: Option<(u64, Version)>,
    /// Other nodes do not reach the output: they write nothing into it.
    pub is_private: bool,
}
