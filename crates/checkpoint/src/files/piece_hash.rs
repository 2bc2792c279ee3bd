//! Hashes of pieces.

/// Hash of a piece: the first 16 bytes of its BLAKE3.
pub(crate) type PieceHash = [u8; 16];

/// Hash of the bytes of a piece.
pub(crate) fn piece_hash(bytes: &[u8]) -> PieceHash {
    let hash = blake3::hash(bytes);
    let mut short = PieceHash::default();
    short.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    short
}
