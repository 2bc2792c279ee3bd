//! What the readers of files and stores share.

use std::path::Path;

use knarr_array::region::Region;
use knarr_codec::codec::CodecList;
use knarr_formats::open;

/// Largest variable that is read whole; of others the first elements are.
const LARGEST: u64 = 1 << 20;

/// Opens `path` and reads its variables. Errors are what hostile bytes should give.
pub fn read(path: &Path, codecs: &CodecList) {
    let Ok(source) = open(path, codecs) else { return };
    let mut out = Vec::new();
    for (index, variable) in source.model().variables.iter().enumerate() {
        let elements = variable.shape.iter().try_fold(1u64, |product, &extent| product.checked_mul(extent));
        let whole = elements.is_some_and(|elements| elements.saturating_mul(16) <= LARGEST);
        let count = if whole { variable.shape.clone() } else { variable.shape.iter().map(|&n| n.min(2)).collect() };
        let region = Region::whole(&count);
        if source.read_region(index, &region, &mut out).is_ok() {
            let elements: u64 = count.iter().product();
            assert_eq!(out.len() as u64, elements * variable.dtype.size() as u64, "{}", variable.path);
        }
        if source.strings(index).is_some() {
            let _ = source.read_strings(index, &region);
        }
    }
}
