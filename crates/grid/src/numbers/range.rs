//! Ranges of predicted numbers.

/// Range of steps up to which residuals are tokens as they are, without raw bits.
pub(crate) const DIRECT_RANGE: f64 = 127.0;

/// The larger magnitude of two limits.
pub(crate) fn magnitude(low: f64, high: f64) -> f64 {
    if low.abs() > high.abs() { low.abs() } else { high.abs() }
}
