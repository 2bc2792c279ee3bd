//! Reading a region of elements that lie at regular strides in a file.

use knarr_array::region::Region;
use knarr_array::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that are read at any place, from many threads.
pub trait ReadAt: Sync {
    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// As for [`FileExt::read_exact_at`].
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, out, offset)
    }
}

/// Where the elements of an array lie. Element `(i, j, …)` starts at `begin + i * strides[0] + j * strides[1] + …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedLayout {
    /// First byte of the first element.
    pub begin: u64,
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along each axis.
    pub strides: Vec<u64>,
}

/// Runs shorter than this are fetched together with what lies between them.
const SMALL_RUN: u64 = 4096;
/// Most bytes fetched at once when runs are fetched together.
const WINDOW: u64 = 1 << 20;

/// Replaces the contents of `out` by the elements of the region, row-major.
///
/// # Errors
/// `Usage` for a region outside of the array; `Corrupt` if the file has less than `place` says; `Read`.
pub fn read_region(
    file: &dyn ReadAt,
    file_len: u64,
    place: &StridedLayout,
    size: usize,
    region: &Region,
    out: &mut Vec<u8>,
) -> Result<()> {
    region.check_inside(&place.shape)?;
    if region.is_empty() {
        out.clear();
        return Ok(());
    }
    let Region { start, count } = region;
    let first = place.begin + dot(&place.strides, start);
    let last = first + count.iter().zip(&place.strides).map(|(n, stride)| (n - 1) * stride).sum::<u64>();
    let end = last + size as u64;
    if end > file_len {
        return Err(Error::corrupt(format!(
            "needs bytes {first} to {end} of the file, which has {file_len}: {} bytes are missing",
            end - file_len
        ))
        .hint("the file is truncated: fetch it again or restore it from a copy"));
    }
    // No element is counted twice, so the region is no longer than the file: safe to allocate.
    let elements: u64 = count.iter().product();
    let bytes = elements
        .checked_mul(size as u64)
        .filter(|&bytes| bytes <= file_len)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| Error::corrupt("the region is larger than the file"))?;
    // Every byte is overwritten: what a reused buffer holds need not be cleared.
    out.resize(bytes, 0);
    let (axes, run) = collapse(place, size as u64, count);
    Reader { file, axes: &axes, run }.fill(first, 0, out).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::corrupt("the file became shorter while it was read"),
        _ => Error::new(knarr_array::ErrorKind::Read, error.to_string()),
    })
}

fn dot(a: &[u64], b: &[u64]) -> u64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Merges axes that are contiguous in the file: what is left are (count, stride) per axis and the bytes of a run.
fn collapse(place: &StridedLayout, size: u64, count: &[u64]) -> (Vec<(u64, u64)>, u64) {
    let mut run = size;
    let mut axes: Vec<(u64, u64)> = Vec::new();
    for (&n, &stride) in count.iter().zip(&place.strides).rev() {
        if n == 1 {
            continue;
        }
        match axes.last_mut() {
            None if stride == run => run *= n,
            Some((inner, inner_stride)) if stride == *inner * *inner_stride => *inner *= n,
            _ => axes.push((n, stride)),
        }
    }
    axes.reverse();
    (axes, run)
}

struct Reader<'a> {
    file: &'a dyn ReadAt,
    axes: &'a [(u64, u64)],
    run: u64,
}

impl StridedLayout {
    /// A row-major array without gaps, of elements of `size` bytes.
    pub fn dense(begin: u64, shape: &[u64], size: usize) -> Self {
        let mut strides = vec![size as u64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
        }
        Self { begin, shape: shape.to_vec(), strides }
    }
}

impl Reader<'_> {
    fn fill(&self, offset: u64, axis: usize, out: &mut [u8]) -> io::Result<()> {
        let Some(&(n, stride)) = self.axes.get(axis) else {
            return self.file.read_exact_at(out, offset);
        };
        if axis + 1 == self.axes.len() && self.run < SMALL_RUN && stride < SMALL_RUN {
            return self.gather(offset, stride, out);
        }
        let part = out.len() / usize::try_from(n).unwrap_or(usize::MAX).max(1);
        for (part, index) in out.chunks_exact_mut(part.max(1)).zip(0..n) {
            self.fill(offset + index * stride, axis + 1, part)?;
        }
        Ok(())
    }

    /// Short runs at a short stride: reads windows and picks the runs out of them.
    #[expect(clippy::cast_possible_truncation, reason = "run, stride and window are at most 1 MiB")]
    fn gather(&self, offset: u64, stride: u64, out: &mut [u8]) -> io::Result<()> {
        let (run, stride) = (self.run as usize, stride as usize);
        let per_window = (WINDOW as usize / stride.max(1)).max(1);
        let mut window = Vec::new();
        let mut offset = offset;
        for part in out.chunks_mut(per_window * run) {
            let runs = part.len() / run;
            window.resize((runs - 1) * stride + run, 0);
            self.file.read_exact_at(&mut window, offset)?;
            for (index, run) in part.chunks_exact_mut(run).enumerate() {
                run.copy_from_slice(&window[index * stride..index * stride + run.len()]);
            }
            offset += (runs * stride) as u64;
        }
        Ok(())
    }
}
