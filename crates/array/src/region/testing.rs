//! What tests of regions need.

use super::Region;

/// The positions of all elements, in row-major order.
pub(super) fn elements(region: &Region) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for (start, end) in region.axes() {
        all = all.iter().flat_map(|index| (start..end).map(move |at| [&index[..], &[at]].concat())).collect();
    }
    all
}
