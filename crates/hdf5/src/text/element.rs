//! One stored element, and text, as people and readers take them.

use knarr_array::array::{DType, Endian};
use knarr_array::model::latin1;

/// Text as people read it; bytes that are not UTF-8 are taken for Latin-1.
pub(crate) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}

/// An element of an integer type; `None` for other types.
pub(crate) fn integer(dtype: DType, element: &[u8]) -> Option<i64> {
    let mut wide = [0u8; 8];
    wide.get_mut(..element.len())?.copy_from_slice(element);
    let bits = u64::from_le_bytes(wide);
    if !dtype.is_integer() {
        return None;
    }
    let unused = 64 - 8 * u32::try_from(dtype.size()).ok()?;
    if dtype.is_signed() {
        #[expect(clippy::cast_possible_wrap, reason = "the bits of a signed number")]
        let signed = (bits << unused) as i64;
        Some(signed >> unused)
    } else {
        i64::try_from(bits).ok()
    }
}

/// The bits of one stored element, zero-extended; `None` for elements of more than 8 bytes.
pub(crate) fn bits(element: &[u8], endian: Endian) -> Option<u64> {
    let mut wide = [0u8; 8];
    let place = wide.get_mut(..element.len())?;
    place.copy_from_slice(element);
    if endian == Endian::Big {
        place.reverse();
    }
    Some(u64::from_le_bytes(wide))
}
