//! How a file is cut: the pieces of its variables, and between them those of its skeleton.
//!
//! The cut is part of the set format: it follows from the layout alone, so an index names pieces by number.

use crate::files::layout::{Extent, FileLayout, StoredVariable};
use knarr_array::error::{Error, Result};

/// No piece is longer than this. Short enough for a frame to hold a piece of each of many ranks.
pub const PIECE: u64 = 128 << 10;

/// A run of bytes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`FileLayout::variables`]; `None` for skeleton.
    pub variable: Option<usize>,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes, at least 1 and at most [`PIECE`].
    pub length: u64,
    /// Shape of the elements it holds; empty if they are no whole elements, or filtered.
    pub shape: Vec<usize>,
}

/// Cuts a file into its pieces, in the order of their offsets: together they are the file, without gap or overlap.
///
/// Variables are cut at whole positions along the slowest axis whose positions are not longer than [`PIECE`]; what has
/// no such axis, was filtered or belongs to no variable is cut every [`PIECE`] bytes.
///
/// # Errors
/// What [`FileLayout::check`] reports; `Unsupported` if there are more pieces than `most`.
pub fn cut(layout: &FileLayout, most: usize) -> Result<Vec<Piece>> {
    layout.check()?;
    let mut extents: Vec<(usize, &StoredVariable, &Extent)> = Vec::new();
    for (index, variable) in layout.variables.iter().enumerate() {
        extents.extend(variable.extents.iter().map(|extent| (index, variable, extent)));
    }
    extents.sort_by_key(|(.., extent)| extent.offset);
    // Each is at most a piece shorter than its part of the file, and comes with one more in front of it.
    if layout.length / PIECE > most as u64 || extents.len() > most {
        return Err(Error::unsupported(format!("a file of {} bytes has more than {most} pieces", layout.length)));
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for (index, variable, extent) in extents {
        cut_bytes(None, at, extent.offset, &mut pieces);
        cut_extent(index, variable, extent, &mut pieces);
        at = extent.offset + extent.length;
    }
    cut_bytes(None, at, layout.length, &mut pieces);
    Ok(pieces)
}

fn cut_bytes(variable: Option<usize>, from: u64, to: u64, pieces: &mut Vec<Piece>) {
    let mut at = from;
    while at < to {
        let length = PIECE.min(to - at);
        pieces.push(Piece { variable, offset: at, length, shape: Vec::new() });
        at += length;
    }
}

fn cut_extent(index: usize, variable: &StoredVariable, extent: &Extent, pieces: &mut Vec<Piece>) {
    let end = extent.offset + extent.length;
    let whole: Option<Vec<usize>> = extent.shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    let element = variable.dtype.size() as u64;
    let Some(shape) = whole.filter(|_| extent.filters.is_empty() && (1..=PIECE).contains(&element)) else {
        return cut_bytes(Some(index), extent.offset, end, pieces);
    };
    if extent.length <= PIECE {
        return pieces.push(Piece { variable: Some(index), offset: extent.offset, length: extent.length, shape });
    }
    // The trailing axes that fit a piece together; what is before them is counted through.
    let (mut inner, mut axis) = (element, shape.len());
    while let Some(&extent) = axis.checked_sub(1).and_then(|axis| shape.get(axis)) {
        match inner.checked_mul(extent as u64).filter(|&bytes| bytes <= PIECE) {
            Some(bytes) => (inner, axis) = (bytes, axis - 1),
            None => break,
        }
    }
    let trailing = shape.get(axis..).unwrap_or_default();
    let (step, mut at) = (PIECE / inner * inner, extent.offset);
    while at < end {
        let length = step.min(end - at);
        let mut shape = vec![usize::try_from(length / inner).unwrap_or(usize::MAX)];
        shape.extend_from_slice(trailing);
        pieces.push(Piece { variable: Some(index), offset: at, length, shape });
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::{DType, Endian};

    fn layout(length: u64, dtype: DType, extents: &[(u64, &[u64])]) -> FileLayout {
        let extents = extents
            .iter()
            .map(|&(offset, shape)| Extent {
                offset,
                length: shape.iter().product::<u64>() * dtype.size() as u64,
                shape: shape.into(),
                filters: std::sync::Arc::default(),
            })
            .collect();
        let variable =
            StoredVariable { path: "/a".to_owned(), dtype, endian: Endian::Little, shape: Vec::new(), extents };
        FileLayout { format: "test".to_owned(), length, variables: vec![variable] }
    }

    /// Pieces follow each other from the first byte to the last.
    fn check(layout: &FileLayout) -> Vec<Piece> {
        let pieces = cut(layout, usize::MAX).unwrap();
        let mut at = 0;
        for piece in &pieces {
            assert_eq!(piece.offset, at);
            assert!((1..=PIECE).contains(&piece.length));
            if !piece.shape.is_empty() {
                let size = layout.variables[0].dtype.size();
                assert_eq!(piece.shape.iter().product::<usize>() * size, usize::try_from(piece.length).unwrap());
            }
            at += piece.length;
        }
        assert_eq!(at, layout.length);
        pieces
    }

    #[test]
    fn pieces_are_the_file() {
        assert!(check(&FileLayout::opaque(0)).is_empty());
        assert_eq!(check(&FileLayout::opaque(3 * PIECE + 1)).len(), 4);
        let pieces = check(&layout(100_000, DType::F64, &[(8, &[]), (16, &[3, 5]), (1000, &[100])]));
        let kinds: Vec<_> = pieces.iter().map(|piece| piece.variable).collect();
        assert_eq!(kinds, [None, Some(0), Some(0), None, Some(0), None]);
    }

    #[test]
    fn large_variables_are_cut_at_whole_rows() {
        // A plane of 300 x 50 doubles is 120 000 bytes: one fits, two do not.
        let pieces = check(&layout(10_000_000, DType::F64, &[(0, &[7, 300, 50])]));
        assert!(pieces.iter().take(7).all(|piece| piece.shape == [1, 300, 50]));
        // A plane of 1000 x 100 does not: it is cut at rows, counted through planes.
        let pieces = check(&layout(10_000_000, DType::F64, &[(0, &[3, 1000, 100])]));
        assert_eq!(pieces[0].shape, [163, 100]);
        let pieces = check(&layout(10_000_000, DType::F32, &[(0, &[1_000_001])]));
        assert_eq!(pieces[0].shape, [32768]);
    }

    #[test]
    fn elements_longer_than_a_piece_are_bytes() {
        let dtype = DType::Opaque(200_000);
        let pieces = check(&layout(600_000, dtype, &[(0, &[3])]));
        assert!(pieces.iter().all(|piece| piece.shape.is_empty()));
    }
}
