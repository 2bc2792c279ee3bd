//! The layout of a grid block.
//!
//! ```text
//! body        = flags:u8 domain specials classes predictors frame sections
//! flags       = domain kind (bits 0..3), narrow doubles (bit 3), corrections (bit 4), classes (bit 5),
//!               irregular repeats (bit 6), patches (bit 7)
//! specials    = count:varint, raw bits each                     when classes
//! present     = varint, bit per class that occurs               when classes
//! candidates  = 3 bytes × 2 per component                       when a copying class is present and not bit 6
//! predictors  = band:varint (planes), then per (band, level) in order of appearance: choice
//! frame       = start:f64 low:f64 high:f64 floor:i16
//! sections    = classes, literals, distances, patches, corrections, tables, words, raw bits
//! ```

use crate::blocks::block::{self, Candidate, Coded, Frame, Mirror};
use crate::blocks::corrections;
use crate::blocks::keys::{read_keys, write_keys};
use crate::blocks::views::{Kind, View};
use crate::coding::bits::{Cursor, put_f64, put_section, put_varint};
use crate::fields::geometry::Geometry;
use crate::fields::mask::{self, CLASSES, FLIP, LITERAL, MATCH, ORDINARY, SPECIALS, is_copy};
use crate::fields::predict::Predictor;
use crate::fields::repeats;
use crate::numbers::domain::{Float32, Float64, Steps, Whole};
use crate::numbers::elements::{ordered, store, unordered};
use crate::numbers::lattice::Lattice;
use crate::numbers::range::{DIRECT_RANGE, magnitude};
use crate::{DType, Error, Result};

/// Everything that is written for a block.
pub(crate) struct Body<'a> {
    pub(crate) frame: &'a Frame<'a>,
    pub(crate) view: &'a View,
    pub(crate) coded: &'a Coded,
    pub(crate) predictors: &'a [Predictor],
    /// Planes that share predictors.
    pub(crate) band: usize,
    /// A bit for each class that occurs besides ordinary.
    pub(crate) present: u16,
    /// Bits of the special values.
    pub(crate) specials: &'a [u64],
    pub(crate) candidates: &'a [[Candidate; 2]],
    /// Type of the elements after narrowing.
    pub(crate) dtype: DType,
    /// Whether doubles are coded as singles.
    pub(crate) narrow: bool,
    /// The elements before narrowing, in plane order.
    pub(crate) raw_values: &'a [u64],
}

impl Body<'_> {
    /// Serialises the block.
    pub(crate) fn write(&self) -> Result<Vec<u8>> {
        let kind = match &self.view.kind {
            Kind::Bits => 0,
            Kind::Integers { .. } => 1,
            Kind::Lattice(_) => 2,
            Kind::PlaneLattices(_) => 3,
            Kind::Ranks(_) => 4u8,
        };
        let mut out = vec![
            kind | u8::from(self.narrow) << 3
                | u8::from(!self.view.corrections.is_empty()) << 4
                | u8::from(self.present != 0) << 5
                | u8::from(self.view.repeats.is_some()) << 6
                | u8::from(!self.view.patches.is_empty()) << 7,
        ];
        match &self.view.kind {
            Kind::Bits => {}
            Kind::Integers { base, gcd } => {
                put_varint(&mut out, *base);
                put_varint(&mut out, *gcd);
            }
            Kind::Lattice(l) => l.write(&mut out),
            Kind::PlaneLattices(all) => all.iter().for_each(|l| l.write(&mut out)),
            Kind::Ranks(keys) => write_keys(self.dtype, keys, &mut out),
        }
        if self.present != 0 {
            put_varint(&mut out, self.specials.len() as u64);
            self.specials.iter().for_each(|&s| put_varint(&mut out, s));
            put_varint(&mut out, u64::from(self.present));
            if self.view.repeats.is_none() && self.present & (1 << MATCH[0] | 1 << MATCH[1]) != 0 {
                for k in self.candidates.iter().flatten() {
                    out.extend_from_slice(&[k.planes, k.rows as u8, k.cols as u8]);
                }
            }
        }
        put_varint(&mut out, self.band as u64);
        self.predictors.iter().for_each(|p| p.write(&mut out));
        put_f64(&mut out, self.frame.start);
        put_f64(&mut out, self.frame.low);
        put_f64(&mut out, self.frame.high);
        out.extend_from_slice(&(self.coded.floor as i16).to_le_bytes());
        if self.present != 0 {
            let m = mask::encode(&self.frame.geometry, &self.view.classes, self.present)?;
            put_section(&mut out, &m);
            let mut literals = Vec::new();
            for (&c, &x) in self.view.classes.iter().zip(self.raw_values) {
                if c == LITERAL {
                    literals.extend_from_slice(&x.to_le_bytes()[..literal_size(self.dtype, self.narrow)]);
                }
            }
            put_section(&mut out, &literals);
            if let Some(d) = &self.view.repeats {
                put_section(&mut out, &repeats::encode(d));
            }
        }
        if !self.view.patches.is_empty() {
            let mut p = Vec::new();
            let mut previous = 0;
            for &(i, x) in &self.view.patches {
                put_varint(&mut p, (i - previous) as u64);
                p.extend_from_slice(&x.to_le_bytes()[..literal_size(self.dtype, self.narrow)]);
                previous = i;
            }
            put_section(&mut out, &p);
        }
        if !self.view.corrections.is_empty() {
            put_section(&mut out, &corrections::encode(&self.view.corrections));
        }
        put_section(&mut out, &self.coded.tables);
        put_section(&mut out, &self.coded.words);
        out.extend_from_slice(&self.coded.raw);
        Ok(out)
    }
}

/// Bytes of a literal.
fn literal_size(inner: DType, narrow: bool) -> usize {
    if narrow { 8 } else { inner.size() }
}

/// Decodes one block, appending its bytes.
pub(crate) fn decode(dtype: DType, shape: &[usize], body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let g = Geometry::new(shape);
    let n = g.len();
    let mut c = Cursor::new(body);
    let flags = c.u8()?;
    let narrow = flags & 8 != 0;
    if narrow && dtype != DType::F64 {
        return Err(Error::Corrupt("flags"));
    }
    let inner = if narrow { DType::F32 } else { dtype };
    let wide = inner == DType::F64;
    let kind = match flags & 7 {
        0 if inner.is_float() => Kind::Bits,
        1 => Kind::Integers { base: c.varint()?, gcd: c.varint()? },
        2 if inner.is_float() => Kind::Lattice(Lattice::read(&mut c)?),
        3 if inner.is_float() => {
            Kind::PlaneLattices((0..g.planes).map(|_| Lattice::read(&mut c)).collect::<Result<_>>()?)
        }
        4 => Kind::Ranks(read_keys(inner, &mut c, n)?),
        _ => return Err(Error::Corrupt("representation")),
    };
    let (mut specials, mut present, mut candidates) = (Vec::new(), 0u16, Vec::new());
    if flags & 32 != 0 {
        let k = c.bounded(SPECIALS, "special values")?;
        for _ in 0..k {
            specials.push(c.varint()?);
        }
        present = c.bounded((1 << CLASSES) - 1, "classes")? as u16;
        if flags & 64 == 0 && present & (1 << MATCH[0] | 1 << MATCH[1]) != 0 {
            for _ in 0..g.components {
                let mut pair = [Candidate::default(); 2];
                for k in &mut pair {
                    *k = Candidate { planes: c.u8()?, rows: c.u8()? as i8, cols: c.u8()? as i8 };
                }
                candidates.push(pair);
            }
        }
    }
    let levels = block::levels(&g);
    let band = c.bounded(usize::MAX, "band")?.max(1);
    let (mut predictors, mut choice) = (Vec::new(), Vec::with_capacity(g.planes));
    for p in 0..g.planes {
        if p == 0 || p / band != (p - 1) / band || levels[p] != levels[p - 1] {
            predictors.push(Predictor::read(&mut c, levels[p])?);
        }
        choice.push(predictors.len() - 1);
    }
    let (start, low, high) = (c.f64()?, c.f64()?, c.f64()?);
    let direct = !matches!(kind, Kind::Bits | Kind::PlaneLattices(_)) && high - low <= DIRECT_RANGE;
    let floor = i32::from(i16::from_le_bytes([c.u8()?, c.u8()?]));
    let (mut classes, mut literals, mut repeats) = (Vec::new(), &[][..], None);
    if present != 0 {
        classes = mask::decode(&g, c.section()?, present)?;
        literals = c.section()?;
        if flags & 64 != 0 {
            let stored = classes.iter().filter(|&&c| c == MATCH[1] || c == FLIP[1]).count();
            repeats = Some(repeats::decode(c.section()?, stored)?);
        }
    }
    let mut patches = Cursor::new(if flags & 128 != 0 { c.section()? } else { &[] });
    let fixes = if flags & 16 != 0 { corrections::decode(c.section()?, n)? } else { Vec::new() };
    let (tables, words) = (c.section()?, c.section()?);
    let raw = c.take(c.remaining())?;
    let frame = Frame {
        geometry: g,
        classes: &classes,
        candidates: &candidates,
        repeats: repeats.as_deref(),
        mirror: if present & (1 << FLIP[0] | 1 << FLIP[1]) != 0 { mirror(inner, &kind) } else { Mirror::None },
        start,
        low,
        high,
        floor,
        direct,
        choice: &choice,
        predictors: &predictors,
    };
    let planes: Vec<(f64, f64)> = match &kind {
        Kind::PlaneLattices(l) => l.iter().map(|l| (l.offset / l.divisor, l.pitch())).collect(),
        _ => Vec::new(),
    };
    let mut v = match &kind {
        Kind::Bits if wide => block::decode(&frame, Float64::new(magnitude(low, high)), tables, words, raw)?,
        Kind::Bits => block::decode(&frame, Float32::new(magnitude(low, high)), tables, words, raw)?,
        Kind::PlaneLattices(_) => block::decode(&frame, Steps::new(&planes), tables, words, raw)?,
        _ => block::decode(&frame, Whole { limited: direct }, tables, words, raw)?,
    };
    match &kind {
        Kind::Bits => {}
        Kind::Integers { base, gcd } => {
            for s in &mut v {
                *s = unordered(inner, base.wrapping_add(s.wrapping_mul(*gcd)));
            }
        }
        Kind::Lattice(l) => points(l, wide, &mut v),
        Kind::PlaneLattices(all) => {
            for (l, part) in all.iter().zip(v.chunks_mut(g.area())) {
                points(l, wide, part);
            }
        }
        Kind::Ranks(keys) => {
            for s in &mut v {
                let key =
                    usize::try_from(*s).ok().and_then(|i| keys.get(i)).ok_or(Error::Corrupt("rank out of range"))?;
                *s = unordered(inner, *key);
            }
        }
    }
    for (s, &fix) in v.iter_mut().zip(&fixes) {
        if fix != 0 {
            *s = unordered(inner, ordered(inner, *s).wrapping_add(i64::from(fix) as u64));
        }
    }
    if narrow {
        for s in &mut v {
            *s = f64::from(f32::from_bits(*s as u32)).to_bits();
        }
    }
    let size = literal_size(inner, narrow);
    let mut literals = literals.chunks_exact(size);
    for (s, &class) in v.iter_mut().zip(&classes) {
        match class {
            ORDINARY => {}
            LITERAL => {
                let mut b = [0u8; 8];
                let literal = literals.next().ok_or(Error::Corrupt("too few literals"))?;
                b.iter_mut().zip(literal).for_each(|(d, s)| *d = *s);
                *s = u64::from_le_bytes(b);
            }
            c if is_copy(c) => {}
            c => *s = specials.get(usize::from(c) - 1).copied().ok_or(Error::Corrupt("special value out of range"))?,
        }
    }
    let mut at = 0usize;
    while patches.remaining() > 0 {
        at = at
            .checked_add(patches.bounded(n, "patch outside the block")?)
            .ok_or(Error::Corrupt("patch outside the block"))?;
        let mut b = [0u8; 8];
        b.iter_mut().zip(patches.take(size)?).for_each(|(d, s)| *d = *s);
        *v.get_mut(at).ok_or(Error::Corrupt("patch outside the block"))? = u64::from_le_bytes(b);
    }
    store(dtype, &g.scatter(v), out);
    Ok(())
}

/// How the symbols of numbers and their negatives relate.
fn mirror(dtype: DType, kind: &Kind) -> Mirror {
    if !dtype.is_float() {
        return Mirror::None;
    }
    let sign = 1u64 << (dtype.size() * 8 - 1);
    match kind {
        Kind::Bits => Mirror::Bit(sign),
        Kind::Ranks(keys) => Mirror::Table(
            keys.iter()
                .map(|&k| {
                    keys.binary_search(&ordered(dtype, unordered(dtype, k) ^ sign)).map_or(u32::MAX, |r| r as u32)
                })
                .collect(),
        ),
        _ => Mirror::None,
    }
}

/// Replaces each `k` by the bits of its lattice point.
fn points(l: &Lattice, wide: bool, v: &mut [u64]) {
    for s in v {
        *s = if wide { l.bits::<true>(*s as i64) } else { l.bits::<false>(*s as i64) };
    }
}
