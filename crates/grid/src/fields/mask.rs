//! The class of every element: ordinary, one of a few special values (fill, NaN, dry, land), a copy of an earlier
//! element, the same with the other sign, or stored literally.
//!
//! The plane of classes is coded like a bilevel image (JBIG, ITU-T T.82): a binary decision "ordinary or not" in the
//! context of nine neighbours of which three are in the previous plane, then which class in the context of two. Where
//! everything above and before is of one class, a single decision says whether the next eight elements are too.

use crate::coding::binary::{Bit, Decoder, Encoder};
use crate::fields::geometry::{Edges, Geometry};
use crate::{Error, Result};

/// Predicted and coded as a residual.
pub(crate) const ORDINARY: u8 = 0;
/// Classes `1..=SPECIALS` stand for the special values.
pub(crate) const SPECIALS: usize = 6;
/// Classes of a copy: of the first and second candidate neighbour, or at the expected and at a stored distance.
pub(crate) const MATCH: [u8; 2] = [7, 8];
/// Stored literally.
pub(crate) const LITERAL: u8 = 9;
/// Classes of a copy with the other sign, at the expected and at a stored distance.
pub(crate) const FLIP: [u8; 2] = [10, 11];
/// Number of classes.
pub(crate) const CLASSES: usize = 12;

/// Whether a class stands for a copy of an earlier element.
#[inline(always)]
pub(crate) fn is_copy(class: u8) -> bool {
    MATCH.contains(&class) || FLIP.contains(&class)
}

struct Model {
    any: Vec<Bit>,
    which: Vec<Bit>,
    /// Whether eight elements are of the class around them, see [`Window::uniform`].
    uniform: [Bit; 6],
    same: Bit,
    present: Vec<u8>,
}

impl Model {
    fn new(present: u16) -> Self {
        let present = (1..CLASSES as u8).filter(|&c| present >> c & 1 == 1).collect();
        Self {
            any: vec![Bit::default(); 1024],
            which: vec![Bit::default(); CLASSES * 256],
            uniform: [Bit::default(); 6],
            same: Bit::default(),
            present,
        }
    }
}

/// Elements of a uniform run.
const RUN: usize = 8;

/// The neighbourhood of an element as bits, moved along a row.
struct Window<'a> {
    /// Two rows above and the previous plane's row, each from one column right of the element on.
    north: &'a [u8],
    second: &'a [u8],
    previous: Option<(&'a [u8], &'a [u8])>,
    /// The row above from one column left on, and the previous plane's row.
    above: &'a [u8],
    behind: Option<&'a [u8]>,
    west: usize,
    north_bits: usize,
    previous_bits: usize,
}

impl<'a> Window<'a> {
    /// Splits the buffer at the row that starts at `at`; the row itself is returned for writing.
    fn new(b: &'a mut [u8], g: &Geometry, p: usize, at: usize) -> (Self, &'a mut [u8]) {
        let stride = g.stride();
        let bit = |v: u8| usize::from(v != ORDINARY);
        let (before, row) = b.split_at_mut(at);
        let before = &*before;
        let north = &before[at - stride + 1..at - stride + 1 + g.cols];
        let second = &before[at - 2 * stride..at - 2 * stride + g.cols];
        let north_bits = bit(before[at - stride - 1]) << 1 | bit(before[at - stride]);
        let west = bit(before[at - 1]) | bit(before[at - 2]) << 1;
        let above = &before[at - stride - 1..at - stride + g.cols + 1];
        let (mut previous, mut behind, mut previous_bits) = (None, None, 0);
        if p > 0 {
            let q = at - g.plane_stride();
            previous = Some((&before[q + 1..q + 1 + g.cols], &before[q + stride..q + stride + g.cols]));
            behind = Some(&before[q..q + g.cols]);
            previous_bits = bit(before[q]);
        }
        (Self { north, second, previous, above, behind, west, north_bits, previous_bits }, row)
    }

    /// Context of column `x`, to be asked for in order.
    #[inline(always)]
    fn context(&mut self, x: usize) -> usize {
        let bit = |v: u8| usize::from(v != ORDINARY);
        self.north_bits = (self.north_bits << 1 | bit(self.north[x])) & 7;
        let c = self.west & 3 | self.north_bits << 2 | bit(self.second[x]) << 5;
        match self.previous {
            None => c,
            Some((east, south)) => {
                self.previous_bits = (self.previous_bits << 1 | bit(east[x])) & 3;
                512 | c | self.previous_bits << 6 | bit(south[x]) << 8
            }
        }
    }

    /// Context of the decision whether columns `x..x + RUN` are of class `west`; `None` where it is not asked.
    #[inline(always)]
    fn uniform(&self, x: usize, west: u8) -> Option<usize> {
        let same =
            |b: &[u8], at: usize| b.get(at..).and_then(|b| b.first_chunk::<RUN>()).is_some_and(|b| *b == [west; RUN]);
        if !x.is_multiple_of(RUN) || !same(self.above, x) || !same(self.above, x + 2) {
            return None;
        }
        let behind = self.behind.map_or(0, |b| 1 + usize::from(same(b, x)));
        Some(behind << 1 | usize::from(west != ORDINARY))
    }

    /// Moves past a uniform run from column `x` on.
    #[inline(always)]
    fn pass(&mut self, x: usize, class: u8) {
        self.west = if class == ORDINARY { 0 } else { 3 };
        self.north_bits = self.west;
        if let Some((east, _)) = self.previous {
            self.previous_bits = usize::from(east[x + RUN - 1] != ORDINARY);
        }
    }

    /// Tells the class of the element just coded.
    #[inline(always)]
    fn push(&mut self, class: u8) {
        self.west = self.west << 1 | usize::from(class != ORDINARY);
    }

    /// Context for telling classes apart: the classes to the west and north.
    #[inline(always)]
    fn which(&self, west: u8, x: usize, first_north: u8) -> usize {
        let north = if x == 0 { first_north } else { self.north[x - 1] };
        usize::from(west) << 4 | usize::from(north)
    }
}

/// Codes the classes, given in plane order. `present` has a bit for each class that occurs besides ordinary.
pub(crate) fn encode(g: &Geometry, classes: &[u8], present: u16) -> Result<Vec<u8>> {
    let mut b = vec![ORDINARY; g.padded_len()?];
    let mut m = Model::new(present);
    let mut e = Encoder::new();
    let edges = Edges::new(*g);
    let stride = g.stride();
    for p in 0..g.planes {
        edges.begin_plane(&mut b, p, ORDINARY);
        let plane = &classes[p * g.area()..(p + 1) * g.area()];
        let same = p > 0 && *plane == classes[(p - 1) * g.area()..p * g.area()];
        if p > 0 {
            e.put(&mut m.same, same);
        }
        for (y, row) in plane.chunks_exact(g.cols).enumerate() {
            let at = g.padded(p, y, 0);
            edges.begin_row(&mut b, at);
            if same {
                b[at..at + g.cols].copy_from_slice(row);
            } else {
                let (mut west, first_north) = (b[at - 1], b[at - stride]);
                let (mut window, target) = Window::new(&mut b, g, p, at);
                let mut x = 0;
                while let Some(&class) = row.get(x) {
                    if let Some(c) = window.uniform(x, west) {
                        let run = row[x..x + RUN] == [west; RUN];
                        e.put(&mut m.uniform[c], run);
                        if run {
                            target[x..x + RUN].fill(west);
                            window.pass(x, west);
                            x += RUN;
                            continue;
                        }
                    }
                    let c = window.context(x);
                    e.put(&mut m.any[c], class != ORDINARY);
                    if class != ORDINARY {
                        let c = window.which(west, x, first_north);
                        for &candidate in &m.present[..m.present.len() - 1] {
                            e.put(&mut m.which[usize::from(candidate) << 8 | c], class == candidate);
                            if class == candidate {
                                break;
                            }
                        }
                    }
                    window.push(class);
                    west = class;
                    target[x] = class;
                    x += 1;
                }
            }
            edges.end_row(&mut b, at);
        }
        edges.end_plane(&mut b, p);
    }
    Ok(e.finish())
}

/// Inverse of [`encode`].
pub(crate) fn decode(g: &Geometry, bytes: &[u8], present: u16) -> Result<Vec<u8>> {
    let mut b = vec![ORDINARY; g.padded_len()?];
    let mut m = Model::new(present);
    let Some((&last, others)) = m.present.split_last() else {
        return Err(Error::Corrupt("class plane without classes"));
    };
    let mut d = Decoder::new(bytes);
    let edges = Edges::new(*g);
    let stride = g.stride();
    let mut out: Vec<u8> = Vec::with_capacity(g.len());
    for p in 0..g.planes {
        edges.begin_plane(&mut b, p, ORDINARY);
        let same = p > 0 && d.get(&mut m.same);
        for y in 0..g.rows {
            let at = g.padded(p, y, 0);
            edges.begin_row(&mut b, at);
            if same {
                b.copy_within(at - g.plane_stride()..at - g.plane_stride() + g.cols, at);
            } else {
                let (mut west, first_north) = (b[at - 1], b[at - stride]);
                let (mut window, target) = Window::new(&mut b, g, p, at);
                let mut x = 0;
                while x < g.cols {
                    if let Some(c) = window.uniform(x, west)
                        && d.get(&mut m.uniform[c])
                    {
                        target[x..x + RUN].fill(west);
                        window.pass(x, west);
                        x += RUN;
                        continue;
                    }
                    let mut class = ORDINARY;
                    if d.get(&mut m.any[window.context(x)]) {
                        let c = window.which(west, x, first_north);
                        class = last;
                        for &candidate in others {
                            if d.get(&mut m.which[usize::from(candidate) << 8 | c]) {
                                class = candidate;
                                break;
                            }
                        }
                    }
                    window.push(class);
                    west = class;
                    target[x] = class;
                    x += 1;
                }
            }
            edges.end_row(&mut b, at);
            out.extend_from_slice(&b[at..at + g.cols]);
        }
        edges.end_plane(&mut b, p);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_round_trip() {
        for shape in [vec![1], vec![7], vec![5, 9], vec![3, 6, 11], vec![2, 3, 4, 9], vec![40, 40, 4], vec![3, 50, 64]]
        {
            let g = Geometry::new(&shape);
            let mut x = 1u64;
            let classes: Vec<u8> = (0..g.len())
                .map(|i| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    if i % 7 < 3 || i % 1000 < 600 { 0 } else { [1, 3, 9, 11][(x >> 62) as usize] }
                })
                .collect();
            let present = 1 << 1 | 1 << 3 | 1 << 9 | 1 << 11;
            let bytes = encode(&g, &classes, present).unwrap();
            assert_eq!(decode(&g, &bytes, present).unwrap(), classes);
        }
    }
}
