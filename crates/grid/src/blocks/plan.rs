//! Choosing how to represent and predict a block.
//!
//! Choices rest on samples: the rough cost of a representation under fixed predictors, the worth of fitted weights on
//! the elements they were fitted on. Nothing is coded twice except blocks of fewer than 128 steps.

use crate::blocks::block::{self, Candidate, Frame, Mirror};
use crate::blocks::body::Body;
use crate::blocks::views::{Kind, Source, View, find_candidates, find_specials};
use crate::fields::geometry::Geometry;
use crate::fields::mask::{LITERAL, MATCH, ORDINARY};
use crate::fields::predict::{self, Predictor, Samples, Unit};
use crate::fields::repeats;
use crate::numbers::domain::{Domain, Float32, Float64, Steps, Whole};
use crate::numbers::elements::{load, number, spread};
use crate::numbers::lattice::Lattice;
use crate::numbers::range::{DIRECT_RANGE, magnitude};
use crate::{DType, Result};
use std::borrow::Cow;

/// Smallest and largest predicted number of the plain elements.
fn range_of(w: &[f64], plain: &[bool]) -> (f64, f64) {
    let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
    for (&x, &p) in w.iter().zip(plain) {
        // Without branches; a NaN is neither below nor above.
        lo = if p & (x < lo) { x } else { lo };
        hi = if p & (x > hi) { x } else { hi };
    }
    if lo <= hi { (lo, hi) } else { (0.0, 0.0) }
}

/// Padded map of which elements are ordinary.
fn ordinary_map(g: &Geometry, classes: &[u8]) -> Result<Vec<bool>> {
    let mut m = vec![false; g.padded_len()?];
    for (k, row) in classes.chunks_exact(g.cols).enumerate() {
        let at = g.padded(k / g.rows, k % g.rows, 0);
        for (o, &c) in m[at..at + g.cols].iter_mut().zip(row) {
            *o = c == ORDINARY;
        }
    }
    Ok(m)
}

fn start_of(symbols: &[u64], classes: &[u8], value: impl Fn(u64) -> f64) -> f64 {
    // The mean of a few values is a fair guess for what lies before the first.
    let plain: Vec<f64> =
        spread(symbols.len(), 512).filter(|&i| Source::is_plain(classes[i])).map(|i| value(symbols[i])).collect();
    if plain.is_empty() {
        return 0.0;
    }
    let mean = plain.iter().sum::<f64>() / plain.len() as f64;
    if mean.is_finite() { f64::from(mean as f32) } else { 0.0 }
}

/// Planes that share predictors, unless the planes are of different kinds.
fn band(g: &Geometry, pitches: &[(f64, f64)]) -> usize {
    let (low, high) = pitches.iter().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), p| (l.min(p.1), h.max(p.1)));
    if high > 50.0 * low && g.area() >= 2048 {
        return 1;
    }
    if g.components > 1 { (g.planes / g.components).max(1) } else { (1usize << 16).div_ceil(g.area()).max(1) }
}

/// Rough bits per block of a view, by the best fixed predictor on a sample.
fn rough_cost<D: Domain>(g: &Geometry, v: &View, d: D) -> Result<(f64, Vec<f64>, Vec<bool>)> {
    let plain = ordinary_map(g, &v.classes)?;
    let w = frame_for(g, v, d).fill(d, &v.symbols)?;
    let s = Samples::new(g, 0..g.planes, 2048);
    let cost = predict::fixed(g, 0)
        .iter()
        .take(5)
        .map(|p| predict::trial(g, &s, &plain, &w, p, &d))
        .fold(f64::INFINITY, f64::min);
    let n = v.classes.iter().filter(|&&c| c == ORDINARY).count() as f64;
    Ok((cost.max(-1.0) * n + v.overhead, w, plain))
}

fn frame_for<'a, D: Domain>(g: &Geometry, v: &'a View, d: D) -> Frame<'a> {
    let mut d = d;
    d.plane(0);
    Frame {
        geometry: *g,
        classes: if v.classes.iter().all(|&c| c == ORDINARY) { &[] } else { &v.classes },
        candidates: &[],
        repeats: None,
        mirror: Mirror::None,
        start: start_of(&v.symbols, &v.classes, |s| d.value(s)),
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        floor: 0,
        direct: false,
        choice: &[],
        predictors: &[],
    }
}

/// Picks a predictor per band and level.
fn choose_predictors(
    g: &Geometry,
    band: usize,
    plain: &[bool],
    w: &[f64],
    unit: &impl Unit,
) -> (Vec<Predictor>, Vec<usize>) {
    let levels = block::levels(g);
    let mut predictors = Vec::new();
    let mut choice = Vec::with_capacity(g.planes);
    let mut p = 0;
    while p < g.planes {
        let mut end = p + 1;
        while end < g.planes && end / band == p / band && levels[end] == levels[p] {
            end += 1;
        }
        let level = levels[p];
        let elements = (end - p) * g.area();
        let first = if end - p > 2 && p < 2 { 2 } else { p };
        let s = Samples::new(g, first..end, 3072.min(elements));
        let judges = s.half();
        let mut best: Option<(f64, Predictor)> = None;
        let mut consider = |q: Predictor, bytes: f64| {
            let bits = predict::trial(g, &judges, plain, w, &q, unit) + bytes * 8.0 / elements as f64;
            if best.as_ref().is_none_or(|b| bits < b.0) {
                best = Some((bits, q));
            }
            bits
        };
        for q in predict::fixed(g, level) {
            consider(q, 8.0);
        }
        let mean = consider(predict::mean(&s, plain, w), 12.0);
        if let Some(q) = predict::fit(g, level, &s, plain, w, unit, false) {
            let fitted = consider(q, 100.0);
            // Where neighbours say little, weights should not sum to one.
            if fitted > mean - 1.0
                && let Some(q) = predict::fit(g, level, &s, plain, w, unit, true)
            {
                consider(q, 110.0);
            }
        }
        if let Some((_, q)) = best {
            predictors.push(q);
        }
        choice.extend(std::iter::repeat_n(predictors.len() - 1, end - p));
        p = end;
    }
    (predictors, choice)
}

/// Class of each element by its value alone.
fn classify(dtype: DType, values: &[u64], specials: &[u64]) -> Vec<u8> {
    let mut classes = vec![ORDINARY; values.len()];
    if !specials.is_empty() || dtype.is_float() {
        for (c, &v) in classes.iter_mut().zip(values) {
            if let Some(k) = specials.iter().position(|&s| s == v) {
                *c = k as u8 + 1;
            } else if dtype.is_float() && !number(dtype == DType::F64, v).is_finite() {
                *c = LITERAL;
            }
        }
    }
    classes
}

/// Marks copies of fixed neighbours between the components of an element (vertices of cells, say). Returns the
/// neighbours, or nothing when they explain too little.
fn mark_copies(g: &Geometry, values: &[u64], classes: &mut Vec<u8>) -> Vec<[Candidate; 2]> {
    if g.components == 1 {
        return Vec::new();
    }
    let before = classes.clone();
    let candidates = find_candidates(g, values);
    let each = (g.planes / g.components).max(1);
    for i in 0..values.len() {
        if classes[i] != ORDINARY {
            continue;
        }
        let p = i / g.area();
        let Some(pair) = candidates.get(p / each) else { continue };
        for (k, class) in pair.iter().zip(MATCH) {
            if *k != Candidate::default()
                && k.exists(g, p, i / g.cols % g.rows, i % g.cols)
                && let Some((_, plain)) = k.back(g)
                && values[i] == values[i - plain]
                && Source::is_plain(classes[i - plain])
            {
                classes[i] = class;
                break;
            }
        }
    }
    let copied = classes.iter().filter(|c| MATCH.contains(c)).count();
    if copied * 2 * g.components < classes.len() * (g.components - 1) {
        // Irregular repeats may do better.
        *classes = before;
        return Vec::new();
    }
    candidates
}

/// The cheapest representation found.
struct Best {
    /// Rough bits.
    cost: f64,
    view: View,
    /// Predicted numbers in the padded layout, and which of them are ordinary.
    w: Vec<f64>,
    plain: Vec<bool>,
}

/// Tries the representations that samples suggest.
fn represent(e: &Source<'_>, matches: bool) -> Result<Option<Best>> {
    let g = &e.g;
    let mut best: Option<Best> = None;
    let mut consider = |view: View| -> Result<()> {
        let (cost, w, plain) = match &view.kind {
            Kind::Bits if e.wide => rough_cost(g, &view, Float64::new(1.0))?,
            Kind::Bits => rough_cost(g, &view, Float32::new(1.0))?,
            Kind::PlaneLattices(_) => rough_cost(g, &view, Steps::new(&view.planes))?,
            _ => rough_cost(g, &view, Whole { limited: true })?,
        };
        if best.as_ref().is_none_or(|b| cost < b.cost) {
            best = Some(Best { cost, view, w, plain });
        }
        Ok(())
    };
    let mut exact = false;
    if e.dtype.is_float() {
        let whole = e.find(0..g.planes, 4096, None).filter(|f| f.gain > 0.2);
        if let Some(f) = whole {
            exact = f.missed == 0.0;
            consider(e.lattice_view(f.lattice))?;
        }
        if whole.is_none_or(|f| f.missed > 0.0 || f.gain < 1.0) {
            consider(e.bits_view())?;
        }
        if g.planes > 1 && !matches && g.components == 1 && whole.is_none_or(|f| f.missed > 0.0 || f.gain < 6.0) {
            let probes = [g.planes / 3, g.planes - 1 - g.planes / 4];
            let gain = probes.iter().map(|&p| e.find(p..p + 1, 1024, None).map_or(0.0, |f| f.gain)).sum::<f64>() / 2.0;
            if gain > whole.map_or(0.0, |f| f.gain) + 0.5 {
                let mut found: Vec<Lattice> = Vec::with_capacity(g.planes);
                let mut hint = None;
                for p in 0..g.planes {
                    let f = e.find(p..p + 1, 1024, hint);
                    found.push(f.map_or(Lattice::plain(0.0, 1.0), |f| f.lattice));
                    hint = f;
                }
                exact = true;
                consider(e.plane_lattice_view(found))?;
            }
        }
    } else if let Some(v) = e.integer_view() {
        exact = true;
        consider(v)?;
    }
    // A dense lattice leaves nothing for ranks to remove.
    if let Some(v) = e.rank_view(if exact { 0.6 } else { 0.9 }) {
        consider(v)?;
    }
    Ok(best)
}

/// Turns literals that are too rare for a mask into patches: something nearby is coded and mended afterwards.
fn patch_literals(view: &mut View, raw_values: &[u64]) -> bool {
    let literals = view.classes.iter().filter(|&&c| c == LITERAL).count();
    if literals == 0 || literals * 300 >= raw_values.len() {
        return false;
    }
    let mut nearby = view.symbols.iter().zip(&view.classes).find(|s| *s.1 == ORDINARY).map_or(0, |s| *s.0);
    for (i, &raw) in raw_values.iter().enumerate() {
        if Source::is_plain(view.classes[i]) {
            nearby = view.symbols[i];
        } else if view.classes[i] == LITERAL {
            view.classes[i] = ORDINARY;
            view.symbols[i] = nearby;
            view.patches.push((i, raw));
            if let Some(c) = view.corrections.get_mut(i) {
                *c = 0;
            }
        }
    }
    true
}

/// Predicted numbers of a view, and which elements are ordinary.
fn numbers(g: &Geometry, view: &View, wide: bool) -> Result<(Vec<f64>, Vec<bool>)> {
    fn fill<D: Domain>(g: &Geometry, view: &View, d: D) -> Result<Vec<f64>> {
        frame_for(g, view, d).fill(d, &view.symbols)
    }
    let w = match &view.kind {
        Kind::Bits if wide => fill(g, view, Float64::new(1.0))?,
        Kind::Bits => fill(g, view, Float32::new(1.0))?,
        Kind::PlaneLattices(_) => fill(g, view, Steps::new(&view.planes))?,
        _ => fill(g, view, Whole { limited: true })?,
    };
    Ok((w, ordinary_map(g, &view.classes)?))
}

/// Encodes one block; `None` when nothing here suits it.
pub(crate) fn encode(dtype: DType, shape: &[usize], fills: &[u64], bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let g = Geometry::new(shape);
    let raw_values = g.gather(&load(dtype, bytes));
    let specials = find_specials(dtype, &raw_values, fills);
    let mut classes = classify(dtype, &raw_values, &specials);
    // Doubles that are all singles are coded as singles; specials keep their bits.
    let narrow = dtype == DType::F64
        && raw_values.iter().all(|&v| specials.contains(&v) || f64::from(f64::from_bits(v) as f32).to_bits() == v);
    let inner = if narrow { DType::F32 } else { dtype };
    let values: Cow<'_, [u64]> = if narrow {
        raw_values.iter().map(|&v| u64::from((f64::from_bits(v) as f32).to_bits())).collect()
    } else {
        Cow::Borrowed(&raw_values)
    };
    let candidates = mark_copies(&g, &values, &mut classes);
    let matches = !candidates.is_empty();
    let e = Source { dtype: inner, wide: inner == DType::F64, g, values: &values, classes };
    let Some(Best { cost, mut view, mut w, mut plain }) = represent(&e, matches)? else { return Ok(None) };
    let mut changed = false;
    // Copies of irregular distance are worth their search where an element costs much.
    let literal_bits = cost / values.len() as f64 + 2.0;
    let sign = match view.kind {
        Kind::Bits | Kind::Ranks(_) if inner.is_float() => 1u64 << (inner.size() * 8 - 1),
        _ => 0,
    };
    if !matches
        && literal_bits > 8.0
        && values.len() < u32::MAX as usize / 2
        && repeats::pays(&values, &view.classes, sign, g.area(), literal_bits)
    {
        let mut classes = view.classes.clone();
        let (stored, saved) = repeats::parse(&values, &mut classes, sign, g.area(), literal_bits);
        if saved > 0.03 * cost {
            view.classes = classes;
            view.repeats = Some(stored);
            changed = true;
        }
    }
    changed |= patch_literals(&mut view, &raw_values);
    if matches && (!view.patches.is_empty() || view.classes.contains(&LITERAL) || !view.corrections.is_empty()) {
        // A copy must be of an element whose bits follow from its symbol.
        view = e.bits_view();
        changed = true;
    }
    if changed {
        (w, plain) = numbers(&g, &view, e.wide)?;
    }
    let (low, high) = range_of(&w, &plain);
    let top = magnitude(low, high);
    let made = Made {
        e: &e,
        view: &view,
        specials: &specials,
        raw_values: &raw_values,
        narrow,
        candidates: &candidates,
        w: &w,
        plain: &plain,
    };
    match &view.kind {
        Kind::Bits if e.wide => made.finish(Float64::new(top)),
        Kind::Bits => made.finish(Float32::new(top)),
        Kind::PlaneLattices(_) => made.finish(Steps::new(&view.planes)),
        _ => made.finish(Whole { limited: high - low <= DIRECT_RANGE }),
    }
    .map(Some)
}

/// A block whose representation is settled.
struct Made<'a> {
    e: &'a Source<'a>,
    view: &'a View,
    specials: &'a [u64],
    raw_values: &'a [u64],
    narrow: bool,
    candidates: &'a [[Candidate; 2]],
    w: &'a [f64],
    plain: &'a [bool],
}

impl Made<'_> {
    /// Chooses predictors, codes and writes.
    fn finish<D: Domain>(&self, d: D) -> Result<Vec<u8>> {
        let Self { e, view: v, specials, raw_values, narrow, candidates, w, plain } = *self;
        let g = e.g;
        let band = band(&g, &v.planes);
        let (predictors, choice) = choose_predictors(&g, band, plain, w, &d);
        let (low, high) = range_of(w, plain);
        let mut frame = frame_for(&g, v, d);
        (frame.low, frame.high) = (low, high);
        frame.choice = &choice;
        frame.predictors = &predictors;
        frame.direct = !matches!(v.kind, Kind::Bits | Kind::PlaneLattices(_)) && high - low <= DIRECT_RANGE;
        let mut coded = block::encode(&frame, d, &v.symbols, w);
        let size = |c: &block::Coded| c.tables.len() + c.words.len() + c.raw.len();
        // Symbols that only look like numbers are better coded as they are.
        let constant = vec![predict::mean(&Samples::new(&g, 0..g.planes, 1024), plain, w); predictors.len()];
        let mut chosen = &predictors;
        if frame.direct {
            frame.predictors = &constant;
            let other = block::encode(&frame, d, &v.symbols, w);
            if size(&other) + 8 * predictors.len() < size(&coded) {
                coded = other;
                chosen = &constant;
            }
        }
        let mut present = 0u16;
        for &c in &v.classes {
            present |= 1 << c;
        }
        present &= !1;
        Body {
            frame: &frame,
            view: v,
            coded: &coded,
            predictors: chosen,
            band,
            present,
            specials,
            candidates,
            dtype: e.dtype,
            narrow,
            raw_values,
        }
        .write()
    }
}
