//! Which elements are selected in a dataspace.

use knarr_array::region::Region;

use super::shape::{Piece, merged, regular, rows};
use crate::host::{CallerHdf5, Hid};
use crate::property_lists::extents;

/// Codes of HDF5's C headers.
mod code {
    pub(in crate::parallel) const SCALAR: i32 = 0;
    pub(in crate::parallel) const NULL: i32 = 2;
    pub(in crate::parallel) const NONE: i32 = 0;
    pub(in crate::parallel) const POINTS: i32 = 1;
    pub(in crate::parallel) const HYPERSLABS: i32 = 2;
    pub(in crate::parallel) const ALL: i32 = 3;
}

/// Shape of a dataspace: without axes for a single value, one axis of no length if it has no values. `None` if HDF5 does not
/// tell.
pub(in crate::parallel) fn shape(host: &CallerHdf5, space: Hid) -> Option<Vec<u64>> {
    // SAFETY: the dataspace is open.
    match unsafe { host.space_kind?(space) } {
        code::SCALAR => Some(Vec::new()),
        code::NULL => Some(vec![0]),
        _ => extents(host, space),
    }
}

/// The elements that are selected in a dataspace, in the order in which HDF5 takes them. `None` if HDF5 does not tell.
pub(in crate::parallel) fn pieces(host: &CallerHdf5, space: Hid) -> Option<Vec<Piece>> {
    let shape = shape(host, space)?;
    // SAFETY: the dataspace is open, here and below.
    let found = match unsafe { host.selection_kind?(space) } {
        code::NONE => Some(Vec::new()),
        code::ALL => return Some(vec![Piece::plain(Region::whole(&shape))]),
        code::HYPERSLABS => hyperslabs(host, space, shape.len()),
        code::POINTS => points(host, space, shape.len()),
        _ => None,
    };
    found.and_then(|pieces| moved(host, space, pieces))
}

/// Pieces where `H5Soffset_simple` has moved the selection to. Only its bounds tell of that.
fn moved(host: &CallerHdf5, space: Hid, mut pieces: Vec<Piece>) -> Option<Vec<Piece>> {
    let Some(axes) = pieces.first().map(|piece| piece.region.start.len()) else { return Some(pieces) };
    let [mut first, mut last] = [(); 2].map(|()| vec![0u64; axes]);
    // SAFETY: the dataspace is open, and there is a place for each axis. HDF5 refuses a selection that was moved out of it.
    if unsafe { host.selection_bounds?(space, first.as_mut_ptr(), last.as_mut_ptr()) } < 0 {
        return None;
    }
    for (axis, first) in first.iter().enumerate() {
        let least = pieces.iter().map(|piece| piece.region.start[axis]).min()?;
        for piece in &mut pieces {
            piece.region.start[axis] = piece.region.start[axis] - least + first;
        }
    }
    Some(pieces)
}

fn hyperslabs(host: &CallerHdf5, space: Hid, axes: usize) -> Option<Vec<Piece>> {
    // SAFETY: the dataspace is open, here and below.
    if unsafe { host.is_regular?(space) } > 0 {
        let [mut start, mut stride, mut count, mut block] = [(); 4].map(|()| vec![0u64; axes]);
        // SAFETY: there is a place for each axis.
        let done = unsafe {
            host.regular?(space, start.as_mut_ptr(), stride.as_mut_ptr(), count.as_mut_ptr(), block.as_mut_ptr())
        };
        if done >= 0
            && let Some(piece) = regular(&start, &stride, &count, &block)
        {
            return Some(vec![piece]);
        }
    }
    // SAFETY: as above.
    let count = usize::try_from(unsafe { host.block_count?(space) }).ok()?;
    let mut blocks = vec![0u64; count.checked_mul(2 * axes)?];
    // SAFETY: there are two places for each axis of each block.
    let done = unsafe { host.blocks?(space, 0, count as u64, blocks.as_mut_ptr()) };
    (done >= 0 && axes > 0).then(|| merged(rows(&blocks, axes)))
}

fn points(host: &CallerHdf5, space: Hid, axes: usize) -> Option<Vec<Piece>> {
    // SAFETY: the dataspace is open, here and below.
    let count = usize::try_from(unsafe { host.selection_count?(space) }).ok()?;
    let mut points = vec![0u64; count.checked_mul(axes)?];
    // SAFETY: there is a place for each axis of each point.
    let done = unsafe { host.points?(space, 0, count as u64, points.as_mut_ptr()) };
    let boxes = points.chunks_exact(axes.max(1)).map(|point| Region::new(point, vec![1; axes])).collect();
    (done >= 0 && axes > 0).then(|| merged(boxes))
}

/// Where the elements of a selection begin in an array of the dataspace's shape, if all lie together there.
pub(in crate::parallel) fn one_run(host: &CallerHdf5, space: Hid) -> Option<u64> {
    let shape = shape(host, space)?;
    let found = pieces(host, space)?;
    let [Piece { region: Region { start, count }, stride }] = found.as_slice() else { return None };
    // Behind the first axis with more than one element all are whole.
    let mut behind = count.iter().zip(&shape).skip_while(|(count, _)| **count == 1).skip(1);
    if !stride.is_empty() || !behind.all(|(count, extent)| count == extent) {
        return None;
    }
    start.iter().zip(&shape).try_fold(0u64, |at, (start, extent)| at.checked_mul(*extent)?.checked_add(*start))
}
