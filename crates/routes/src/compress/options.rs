//! What to do besides encoding.

/// What to do besides encoding.
#[derive(Debug, Clone, Default)]
pub struct RepackOptions {
    /// Replace an existing output.
    pub force: bool,
    /// Line for the `history` attribute of lossy outputs: the command.
    pub command: String,
    /// Date for `history`.
    pub when: String,
    /// Save the plan beside the output, in place of an older one. Where nothing is chosen there is none.
    pub save_plan: bool,
}
