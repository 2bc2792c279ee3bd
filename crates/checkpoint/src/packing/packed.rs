//! What packing did.

use crate::disk::manifest::Manifest;

/// What packing did.
#[derive(Debug, Clone)]
pub struct Packed {
    /// What the set holds.
    pub manifest: Manifest,
    /// Bytes of the ranks' files.
    pub raw_bytes: u64,
    /// Bytes that were written: frames and manifest.
    pub packed_bytes: u64,
    /// Bytes of pieces that repeat others of the same group.
    pub repeated_bytes: u64,
    /// Bytes of pieces that the earlier set holds.
    pub reused_bytes: u64,
    /// Bytes of pieces that the earlier set holds and that are stored again, because its files would have to stay for them.
    pub apart_bytes: u64,
    /// Bytes of second copies of what is shared.
    pub copied_bytes: u64,
    /// Files that are carried as bytes, with the reason.
    pub carried_whole: Vec<(Vec<u8>, String)>,
    /// Wall time in seconds.
    pub seconds: f64,
}
