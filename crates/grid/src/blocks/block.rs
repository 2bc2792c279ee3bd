//! Coding of the ordinary elements: predict, split into residual, context and raw bits; and the inverse.
//!
//! The context of a residual is the logarithm (in half octaves) of the weighted prediction errors around it, in units
//! of the local code step, so that one set of tables serves quiet and rough places.

use crate::coding::bits::{BitReader, BitWriter};
use crate::coding::entropy::{
    CONTEXTS, TOKENS, TokenDecoder, TokenState, encode_tokens, raw_bits, tokenize, untokenize,
};
use crate::fields::geometry::{Edges, Geometry};
use crate::fields::mask::{FLIP, MATCH, ORDINARY, is_copy};
use crate::fields::predict::{Predictor, Ready, level};
use crate::fields::repeats;
use crate::numbers::domain::Domain;
use crate::{Error, Result};
use std::ops::Range;

/// A neighbour whose value an element may repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) planes: u8,
    pub(crate) rows: i8,
    pub(crate) cols: i8,
}

impl Candidate {
    /// Distances back in the padded and the plain layout; `None` when it does not lie before every element.
    pub(crate) fn back(&self, g: &Geometry) -> Option<(usize, usize)> {
        let d = |stride: usize, plane: usize| {
            let v = usize::from(self.planes) as isize * plane as isize
                - isize::from(self.rows) * stride as isize
                - isize::from(self.cols);
            usize::try_from(v).ok().filter(|&v| v > 0)
        };
        Some((d(g.stride(), g.plane_stride())?, d(g.cols, g.area())?))
    }

    /// Whether the neighbour of element (p, y, x) exists.
    #[inline(always)]
    pub(crate) fn exists(&self, g: &Geometry, p: usize, y: usize, x: usize) -> bool {
        p >= usize::from(self.planes)
            && y.checked_add_signed(isize::from(self.rows)).is_some_and(|y| y < g.rows)
            && x.checked_add_signed(isize::from(self.cols)).is_some_and(|x| x < g.cols)
    }
}

/// Symbols of numbers that differ in their sign alone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Mirror {
    /// There are no copies with the other sign.
    None,
    /// The symbols differ in this bit.
    Bit(u64),
    /// The symbol of the negative of each symbol, or `u32::MAX` where that is no value of the block.
    Table(Vec<u32>),
}

impl Mirror {
    fn of(&self, symbol: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Bit(sign) => Some(symbol ^ sign),
            Self::Table(t) => t.get(usize::try_from(symbol).ok()?).filter(|&&r| r != u32::MAX).map(|&r| u64::from(r)),
        }
    }
}

/// What both sides must know before the first element.
pub(crate) struct Frame<'a> {
    pub(crate) geometry: Geometry,
    /// Class of each element in plane order; empty when all are ordinary.
    pub(crate) classes: &'a [u8],
    /// Candidates of the two copying classes, per component.
    pub(crate) candidates: &'a [[Candidate; 2]],
    /// Stored distances when copies are at irregular distances (see [`repeats`]), instead of candidates.
    pub(crate) repeats: Option<&'a [u32]>,
    /// How the symbol of a copy with the other sign follows from that of its source.
    pub(crate) mirror: Mirror,
    /// Value before the first element.
    pub(crate) start: f64,
    /// Predictions are limited to this range.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Half octaves below which all error energies share a context.
    pub(crate) floor: i32,
    /// Whether tokens are whole residuals, possible when the range is below 128 steps.
    pub(crate) direct: bool,
    /// Predictor of each plane, as an index.
    pub(crate) choice: &'a [usize],
    pub(crate) predictors: &'a [Predictor],
}

impl Frame<'_> {
    /// Number written for a masked element: the mean of its west and north neighbours.
    #[inline(always)]
    fn hole(v: &[f64], i: usize, stride: usize) -> f64 {
        0.5 * (v[i - 1] + v[i - stride])
    }

    fn candidate(&self, p: usize, class: u8) -> Option<&Candidate> {
        let each = (self.geometry.planes / self.geometry.components).max(1);
        self.candidates.get(p / each)?.get(usize::from(class.wrapping_sub(MATCH[0])))
    }

    /// Fills the padded buffer of predicted numbers from known symbols.
    pub(crate) fn fill<D: Domain>(&self, mut domain: D, symbols: &[u64]) -> Result<Vec<f64>> {
        let g = self.geometry;
        let mut w = vec![0.0; g.padded_len()?];
        let edges = Edges::new(g);
        let stride = g.stride();
        for p in 0..g.planes {
            domain.plane(p);
            edges.begin_plane(&mut w, p, self.start);
            for y in 0..g.rows {
                let (at, from) = (g.padded(p, y, 0), (p * g.rows + y) * g.cols);
                edges.begin_row(&mut w, at);
                let row = &symbols[from..from + g.cols];
                if self.classes.is_empty() {
                    for (o, &s) in w[at..at + g.cols].iter_mut().zip(row) {
                        *o = domain.value(s);
                    }
                } else {
                    for (x, (&s, &c)) in row.iter().zip(&self.classes[from..from + g.cols]).enumerate() {
                        let i = at + x;
                        w[i] = if c == ORDINARY || is_copy(c) { domain.value(s) } else { Self::hole(&w, i, stride) };
                    }
                }
                edges.end_row(&mut w, at);
            }
            edges.end_plane(&mut w, p);
        }
        Ok(w)
    }
}

/// Weighted sum of the errors above and before, without those in the current row.
fn energy_row(errors: &[f32], at: usize, g: &Geometry, p: usize, out: &mut [f32]) {
    let n = out.len();
    let s = g.stride();
    let row = |d: usize| &errors[at - d..at - d + n];
    if p == 0 {
        for (o, ((nw, nn), ne)) in out.iter_mut().zip(row(s + 1).iter().zip(row(s)).zip(row(s - 1))) {
            *o = (nn + nn) + (nw + ne);
        }
    } else {
        let q = g.plane_stride();
        let above = row(s + 1).iter().zip(row(s)).zip(row(s - 1));
        let before = row(q).iter().zip(row(q - 1)).zip(row(q - s));
        for (o, (((nw, nn), ne), ((c, e), d))) in out.iter_mut().zip(above.zip(before)) {
            *o = ((nn + nn) + (nw + ne)) + ((c + c) + (e + d));
        }
    }
}

/// Context level of an energy: half octaves relative to the code step there.
#[inline(always)]
fn energy_level(energy: f32, exponent: i32) -> i32 {
    (energy.to_bits() >> 22) as i32 - (exponent << 1)
}

/// What a token means.
#[derive(Clone, Copy, Default)]
struct Meaning {
    /// Zigzagged residual with all raw bits zero.
    base: u64,
    raw_bits: u32,
    /// Twice the error, with the raw bits at their middle: exact enough for contexts, and known before the raw bits.
    size: f32,
}

/// Meanings of all tokens, looked up instead of computed because the branch on small tokens is unpredictable.
struct Meanings([Meaning; TOKENS]);

impl Meanings {
    fn new(direct: bool) -> Self {
        let mut t = [Meaning::default(); TOKENS];
        for (i, v) in t.iter_mut().enumerate() {
            let token = i as u8;
            if direct {
                *v = Meaning { base: i as u64, raw_bits: 0, size: (i - i / 2) as f32 * 2.0 };
                continue;
            }
            let raw_bits = raw_bits(token);
            let z = untokenize(token, if raw_bits > 0 { 1u64 << (raw_bits - 1) } else { 0 });
            *v = Meaning { base: untokenize(token, 0), raw_bits, size: (z - z / 2) as f32 * 2.0 };
        }
        Self(t)
    }

    #[inline(always)]
    fn of(&self, token: u8) -> Meaning {
        self.0[usize::from(token)]
    }
}

/// Size of a code step with this exponent, relative to the largest.
#[inline(always)]
fn step_size(exponent: i32) -> f32 {
    f32::from_bits(((127 + exponent).clamp(1, 127) as u32) << 23)
}

/// The coded form of the ordinary elements.
pub(crate) struct Coded {
    pub(crate) floor: i32,
    pub(crate) tables: Vec<u8>,
    pub(crate) words: Vec<u8>,
    pub(crate) raw: Vec<u8>,
}

/// Encodes the ordinary elements. `w` comes from [`Frame::fill`].
pub(crate) fn encode<D: Domain>(f: &Frame<'_>, mut domain: D, symbols: &[u64], w: &[f64]) -> Coded {
    let g = f.geometry;
    let edges = Edges::new(g);
    let stride = g.stride();
    let mut errors = vec![0f32; w.len()];
    let (mut base, mut ebase) = (vec![0f64; g.cols], vec![0f32; g.cols]);
    let mut tokens = Vec::with_capacity(symbols.len());
    let mut levels: Vec<i16> = Vec::with_capacity(symbols.len());
    let mut raw = BitWriter::default();
    let meanings = Meanings::new(f.direct);
    for p in 0..g.planes {
        domain.plane(p);
        edges.begin_plane(&mut errors, p, 0f32);
        let Some(r) = f.choice.get(p).and_then(|&k| f.predictors.get(k)).map(|k| k.ready(&g, p)) else { continue };
        for y in 0..g.rows {
            let (at, from) = (g.padded(p, y, 0), (p * g.rows + y) * g.cols);
            edges.begin_row(&mut errors, at);
            r.row(w, at, &mut base);
            energy_row(&errors, at, &g, p, &mut ebase);
            let row = &symbols[from..from + g.cols];
            let w12 = r.w1 + r.w2;
            let classes = if f.classes.is_empty() { &[][..] } else { &f.classes[from..from + g.cols] };
            for (x, &s) in row.iter().enumerate() {
                let i = at + x;
                if classes.get(x).is_some_and(|&c| c != ORDINARY) {
                    errors[i] = 0.5 * (errors[i - 1] + errors[i - stride]);
                    continue;
                }
                let prediction = domain.limit((base[x] + r.w2 * w[i - 2]) + r.w1 * w[i - 1], f.low, f.high);
                // The west neighbour is left out here so that a decoder can work on two elements at once.
                let exponent = domain.exponent(base[x] + w12 * w[i - 2]);
                let level = energy_level((ebase[x] + 0.5 * errors[i - 2]) + errors[i - 1], exponent);
                let z = domain.split(prediction, s);
                let (t, n, bits) = if f.direct { (z as u8, 0, 0) } else { tokenize(z) };
                errors[i] = meanings.of(t).size * step_size(exponent);
                tokens.push(t);
                levels.push(level.clamp(-30000, 30000) as i16);
                raw.put(bits, n);
            }
            edges.end_row(&mut errors, at);
        }
        edges.end_plane(&mut errors, p);
    }
    let floor = choose_floor(&levels);
    let contexts: Vec<u8> =
        levels.iter().map(|&l| (i32::from(l) - floor).clamp(0, CONTEXTS as i32 - 1) as u8).collect();
    let (tables, words) = encode_tokens(&tokens, &contexts);
    Coded { floor, tables, words, raw: raw.finish() }
}

/// Places the range of contexts so that only one element in a thousand lies above it.
fn choose_floor(levels: &[i16]) -> i32 {
    let mut counts = vec![0u32; 60001];
    for &l in levels {
        counts[(i32::from(l) + 30000) as usize] += 1;
    }
    let mut above = 0u32;
    for (i, &c) in counts.iter().enumerate().rev() {
        above += c;
        if above as usize > levels.len() / 128 {
            return i as i32 - 30000 - (CONTEXTS as i32 - 2);
        }
    }
    0
}

/// Decodes the ordinary elements; other elements get the symbol 0, copies that of their candidate.
pub(crate) fn decode<D: Domain>(
    f: &Frame<'_>,
    mut domain: D,
    tables: &[u8],
    words: &[u8],
    raw: &[u8],
) -> Result<Vec<u64>> {
    let g = f.geometry;
    let edges = Edges::new(g);
    let n = g.padded_len()?;
    let (mut w, mut errors) = (vec![0f64; n], vec![0f32; n]);
    let (mut base, mut ebase) = (vec![0f64; g.cols], vec![0f32; g.cols]);
    let mut symbols = vec![0u64; g.len()];
    let meanings = Meanings::new(f.direct);
    let mut tokens = TokenDecoder::new(tables, words, |t| meanings.of(t).size)?;
    let mut raw = BitReader::new(raw);
    let mut copies = f.repeats.map(|stored| Copies { stored: stored.iter(), distances: vec![0; g.len()], latest: 1 });
    for p in 0..g.planes {
        domain.plane(p);
        edges.begin_plane(&mut w, p, f.start);
        edges.begin_plane(&mut errors, p, 0f32);
        let r: Ready = f
            .choice
            .get(p)
            .and_then(|&k| f.predictors.get(k))
            .map(|k| k.ready(&g, p))
            .ok_or(Error::Corrupt("plane without a predictor"))?;
        for y in 0..g.rows {
            let (at, from) = (g.padded(p, y, 0), (p * g.rows + y) * g.cols);
            edges.begin_row(&mut w, at);
            edges.begin_row(&mut errors, at);
            r.row(&w, at, &mut base);
            energy_row(&errors, at, &g, p, &mut ebase);
            let row =
                Row { w: &mut w, errors: &mut errors, symbols: &mut symbols, base: &base, ebase: &ebase, at, from };
            if f.classes.is_empty() {
                plain_row(f, domain, &r, &meanings, row, &mut tokens, &mut raw);
            } else {
                masked_row(f, domain, &r, &meanings, row, &mut tokens, &mut raw, (p, y), copies.as_mut())?;
            }
            edges.end_row(&mut w, at);
            edges.end_row(&mut errors, at);
        }
        edges.end_plane(&mut w, p);
        edges.end_plane(&mut errors, p);
    }
    tokens.check()?;
    raw.check()?;
    Ok(symbols)
}

/// Copies at irregular distances, under decoding.
struct Copies<'a> {
    stored: std::slice::Iter<'a, u32>,
    /// Distance of each element so far, 0 for no copy.
    distances: Vec<u32>,
    latest: u32,
}

impl Copies<'_> {
    /// Index of the element that element `i` copies.
    fn source(&mut self, i: usize, class: u8, area: usize) -> Result<usize> {
        let d = if class == MATCH[0] || class == FLIP[0] {
            repeats::expected(&self.distances, i, area, self.latest)
        } else {
            self.stored.next().copied().ok_or(Error::Corrupt("too few distances"))?
        };
        self.latest = d;
        if let Some(slot) = self.distances.get_mut(i) {
            *slot = d;
        }
        i.checked_sub(d as usize).filter(|_| d > 0).ok_or(Error::Corrupt("copy of an element that does not exist"))
    }
}

/// One row under decoding.
struct Row<'a> {
    w: &'a mut [f64],
    errors: &'a mut [f32],
    symbols: &'a mut [u64],
    base: &'a [f64],
    ebase: &'a [f32],
    /// First element in the padded and in the plain layout.
    at: usize,
    from: usize,
}

impl Row<'_> {
    /// Decodes a run of ordinary elements.
    #[inline(always)]
    fn run<D: Domain>(
        &mut self,
        f: &Frame<'_>,
        domain: D,
        r: &Ready,
        meanings: &Meanings,
        range: Range<usize>,
        decoders: (&TokenDecoder<'_>, &mut TokenState, &mut BitReader<'_>),
    ) {
        let (tokens, state, bits) = decoders;
        let (low, high, floor, w1, w2) = (f.low, f.high, f.floor, r.w1, r.w2);
        let w12 = w1 + w2;
        let (at, from, n) = (self.at + range.start, self.from + range.start, range.len());
        let (mut v1, mut v2) = (self.w[at - 1], self.w[at - 2]);
        let (mut e1, mut e2) = (self.errors[at - 1], self.errors[at - 2]);
        let out =
            self.symbols[from..from + n].iter_mut().zip(&mut self.w[at..at + n]).zip(&mut self.errors[at..at + n]);
        for (((s, w), e), (&b, &eb)) in out.zip(self.base[range.clone()].iter().zip(&self.ebase[range])) {
            let prediction = domain.limit((b + w2 * v2) + w1 * v1, low, high);
            let exponent = domain.exponent(b + w12 * v2);
            let level = energy_level((eb + 0.5 * e2) + e1, exponent);
            let (token, size) = state.get(tokens, (level - floor).clamp(0, CONTEXTS as i32 - 1) as usize);
            let m = meanings.of(token);
            *s = domain.join(prediction, m.base | bits.get(m.raw_bits));
            (v2, v1) = (v1, domain.value(*s));
            (e2, e1) = (e1, size * step_size(exponent));
            *w = v1;
            *e = e1;
        }
    }
}

/// Decodes a row of ordinary elements.
#[inline(never)]
fn plain_row<D: Domain>(
    f: &Frame<'_>,
    domain: D,
    r: &Ready,
    meanings: &Meanings,
    mut row: Row<'_>,
    tokens: &mut TokenDecoder<'_>,
    raw: &mut BitReader<'_>,
) {
    // Copies keep the state of the decoders in registers.
    let (mut state, mut bits) = (tokens.clone_state(), *raw);
    let all = 0..row.base.len();
    row.run(f, domain, r, meanings, all, (tokens, &mut state, &mut bits));
    tokens.restore(state);
    *raw = bits;
}

/// Decodes a row with masked elements.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "the state of the decoder is many things")]
fn masked_row<D: Domain>(
    f: &Frame<'_>,
    domain: D,
    r: &Ready,
    meanings: &Meanings,
    mut row: Row<'_>,
    tokens: &mut TokenDecoder<'_>,
    raw: &mut BitReader<'_>,
    (p, y): (usize, usize),
    mut copies: Option<&mut Copies<'_>>,
) -> Result<()> {
    let g = &f.geometry;
    let stride = g.stride();
    let (mut state, mut bits) = (tokens.clone_state(), *raw);
    let (at, from) = (row.at, row.from);
    let classes = f.classes.get(from..from + g.cols).ok_or(Error::Corrupt("classes"))?;
    let mut x = 0;
    while let Some(&class) = classes.get(x) {
        if class == ORDINARY {
            let end = classes[x..].iter().position(|&c| c != ORDINARY).map_or(g.cols, |n| x + n);
            row.run(f, domain, r, meanings, x..end, (tokens, &mut state, &mut bits));
            x = end;
            continue;
        }
        let i = at + x;
        row.errors[i] = 0.5 * (row.errors[i - 1] + row.errors[i - stride]);
        if is_copy(class)
            && let Some(copies) = copies.as_deref_mut()
        {
            let j = copies.source(from + x, class, g.area())?;
            if FLIP.contains(&class) {
                let s = f.mirror.of(row.symbols[j]).ok_or(Error::Corrupt("copy of a number that has no negative"))?;
                row.w[i] = domain.value(s);
                row.symbols[from + x] = s;
            } else {
                row.w[i] = row.w[g.padded(j / g.area(), j / g.cols % g.rows, j % g.cols)];
                row.symbols[from + x] = row.symbols[j];
            }
        } else if is_copy(class) {
            let c = f.candidate(p, class).filter(|c| c.exists(g, p, y, x)).and_then(|c| c.back(g));
            let (padded, plain) = c.ok_or(Error::Corrupt("copy of an element that does not exist"))?;
            row.w[i] = row.w[i - padded];
            row.symbols[from + x] = row.symbols[from + x - plain];
        } else {
            row.w[i] = Frame::hole(row.w, i, stride);
        }
        x += 1;
    }
    tokens.restore(state);
    *raw = bits;
    Ok(())
}

/// Level of each plane, for pairing planes with predictors.
pub(crate) fn levels(g: &Geometry) -> Vec<usize> {
    (0..g.planes).map(|p| level(g, p)).collect()
}
