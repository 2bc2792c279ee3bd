//! What users should know while the library works. It does not print: whoever calls it decides what becomes of a notice.

/// Hears notices, one line each.
pub trait Notices: Send + Sync {
    /// How the work goes. Those who want to hear of failures alone do without.
    fn notify(&self, line: &str);
    /// What is wrong, or not as the user may expect.
    fn warn(&self, line: &str);
}
