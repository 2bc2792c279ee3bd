//! Entropy coding of prediction residuals: tokens in context-clustered static tables (range ANS) plus raw bits.
//!
//! A zigzagged residual becomes a *token* (its value when below 16, else its bit length and the two bits below the
//! leading one) and raw low bits, as in JPEG XL's hybrid integers. Tokens are coded with two interleaved range-ANS
//! states (Duda 2013; Giesen's `ryg_rans` layout: 32-bit state, 16-bit words, 10-bit probabilities), one table per
//! cluster of contexts.

use crate::coding::binary::{Bit, Decoder as BitDecoder, Encoder as BitEncoder};
use crate::coding::bits::log2;
use crate::{Error, Result};

/// Number of distinct tokens.
pub(crate) const TOKENS: usize = 256;
/// Number of contexts a residual can be in, ordered by expected magnitude.
pub(crate) const CONTEXTS: usize = 40;
/// Probability precision in bits.
const PROB_BITS: u32 = 10;
const PROB_ONE: u32 = 1 << PROB_BITS;
const LOWEST: u32 = 1 << 16;

/// Splits a zigzagged residual into token, number of raw bits and raw bits.
#[inline(always)]
pub(crate) fn tokenize(z: u64) -> (u8, u32, u64) {
    if z < 16 {
        (z as u8, 0, 0)
    } else {
        let n = 63 - z.leading_zeros();
        let raw = n - 2;
        let t = 16 + ((n - 4) << 2) + ((z >> raw) as u32 & 3);
        (t as u8, raw, z & ((1u64 << raw) - 1))
    }
}

/// Number of raw bits that follow a token.
#[inline(always)]
pub(crate) fn raw_bits(token: u8) -> u32 {
    if token < 16 { 0 } else { ((u32::from(token) - 16) >> 2) + 2 }
}

/// Puts token and raw bits together again.
#[inline(always)]
pub(crate) fn untokenize(token: u8, raw: u64) -> u64 {
    if token < 16 {
        u64::from(token)
    } else {
        let n = raw_bits(token);
        ((4 | u64::from((token - 16) & 3)) << n) | raw
    }
}

/// Token counts of one context.
pub(crate) type Histogram = [u32; TOKENS];

/// Estimated bits of coding a histogram with its own table, the table included.
fn histogram_cost(h: &Histogram) -> f64 {
    let total: u32 = h.iter().sum();
    if total == 0 {
        return 0.0;
    }
    let mut bits = 12.0;
    let log_total = log2(f64::from(total));
    for &c in h.iter().filter(|&&c| c > 0) {
        let p = (log_total - log2(f64::from(c))).min(f64::from(PROB_BITS));
        bits += f64::from(c) * p + 7.0;
    }
    bits
}

/// Merges neighbouring contexts while that makes the whole stream smaller. Returns the cluster of each context.
pub(crate) fn cluster(histograms: &[Histogram; CONTEXTS]) -> ([u8; CONTEXTS], Vec<Histogram>) {
    // Contexts are ordered by expected magnitude, so only neighbours are worth merging.
    let mut groups: Vec<(usize, Histogram, f64)> = histograms
        .iter()
        .enumerate()
        .map(|(i, h)| (i, *h, histogram_cost(h)))
        .filter(|(_, h, _)| h.iter().any(|&c| c > 0))
        .collect();
    if groups.is_empty() {
        let mut h = [0; TOKENS];
        h[0] = 1;
        return ([0; CONTEXTS], vec![h]);
    }
    let join = |a: &Histogram, b: &Histogram| {
        let mut h = *a;
        h.iter_mut().zip(b).for_each(|(x, y)| *x += y);
        h
    };
    let mut gains: Vec<f64> =
        groups.windows(2).map(|w| w[0].2 + w[1].2 - histogram_cost(&join(&w[0].1, &w[1].1))).collect();
    while let Some((at, gain)) = gains.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) {
        if gain <= 0.0 && groups.len() <= 16 {
            break;
        }
        let (_, h, _) = groups.remove(at + 1);
        let g = &mut groups[at];
        g.1 = join(&g.1, &h);
        g.2 = histogram_cost(&g.1);
        gains.remove(at);
        for i in [at.wrapping_sub(1), at] {
            if i < gains.len() {
                let (a, b) = (&groups[i], &groups[i + 1]);
                gains[i] = a.2 + b.2 - histogram_cost(&join(&a.1, &b.1));
            }
        }
    }
    let mut map = [0u8; CONTEXTS];
    let mut g = 0;
    for (i, m) in map.iter_mut().enumerate() {
        while g + 1 < groups.len() && groups[g + 1].0 <= i {
            g += 1;
        }
        *m = g as u8;
    }
    (map, groups.into_iter().map(|g| g.1).collect())
}

/// Scales counts to sum to `PROB_ONE` with no present token at zero.
fn normalise(h: &Histogram) -> [u16; TOKENS] {
    let total: u64 = h.iter().map(|&c| u64::from(c)).sum::<u64>().max(1);
    let mut f = [0u16; TOKENS];
    let mut sum = 0i64;
    let mut best = 0;
    for (i, &c) in h.iter().enumerate() {
        if c > 0 {
            let v = ((u64::from(c) * u64::from(PROB_ONE) + total / 2) / total).max(1);
            f[i] = v as u16;
            sum += v as i64;
            if c > h[best] {
                best = i;
            }
        }
    }
    let mut excess = sum - i64::from(PROB_ONE);
    // Rounding errors are small; take them from the largest entries, which lose least.
    while excess != 0 {
        if excess < 0 {
            f[best] = (i64::from(f[best]) - excess) as u16;
            break;
        }
        let Some(largest) = (0..TOKENS).max_by_key(|&i| f[i]) else { break };
        let give = excess.min(i64::from(f[largest]) / 2).max(1);
        f[largest] -= give as u16;
        excess -= give;
    }
    f
}

/// Adaptive contexts for writing frequency tables.
struct TableModel {
    zero: [Bit; 3],
    magnitude: [[Bit; 64]; 16],
}

impl TableModel {
    fn new() -> Self {
        Self { zero: [Bit::default(); 3], magnitude: [[Bit::default(); 64]; 16] }
    }

    fn put(&mut self, e: &mut BitEncoder, f: &[u16; TOKENS]) {
        let last = f.iter().rposition(|&v| v > 0).unwrap_or(0);
        for i in 0..8 {
            e.put(&mut Bit::default(), (last >> i) & 1 == 1);
        }
        let (mut zeros, mut prev) = (0usize, 0u32);
        for &v in &f[..=last] {
            e.put(&mut self.zero[zeros.min(2)], v > 0);
            if v > 0 {
                e.put_number(&mut self.magnitude[prev as usize], u64::from(v) - 1);
                prev = 16 - v.leading_zeros();
                zeros = 0;
            } else {
                zeros += 1;
            }
        }
    }

    fn get(&mut self, d: &mut BitDecoder<'_>) -> Result<[u16; TOKENS]> {
        let mut last = 0usize;
        for i in 0..8 {
            last |= usize::from(d.get(&mut Bit::default())) << i;
        }
        let mut f = [0u16; TOKENS];
        let (mut zeros, mut prev, mut sum) = (0usize, 0u32, 0u64);
        for v in f.iter_mut().take(last + 1) {
            if d.get(&mut self.zero[zeros.min(2)]) {
                let n = d
                    .get_number(&mut self.magnitude[(prev as usize).min(15)])
                    .filter(|&n| n < u64::from(PROB_ONE))
                    .ok_or(Error::Corrupt("frequency out of range"))?;
                *v = n as u16 + 1;
                sum += u64::from(*v);
                prev = 16 - v.leading_zeros();
                zeros = 0;
            } else {
                zeros += 1;
            }
        }
        if sum != u64::from(PROB_ONE) {
            return Err(Error::Corrupt("frequencies do not sum to one"));
        }
        Ok(f)
    }
}

/// Encodes tokens with their contexts. Returns (tables, words).
pub(crate) fn encode_tokens(tokens: &[u8], contexts: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut histograms = Box::new([[0u32; TOKENS]; CONTEXTS]);
    for (&t, &c) in tokens.iter().zip(contexts) {
        histograms[usize::from(c)][usize::from(t)] += 1;
    }
    let (map, clusters) = cluster(&histograms);
    let mut e = BitEncoder::new();
    let mut model = TableModel::new();
    let mut step = [Bit::default(); 2];
    for w in 0..CONTEXTS - 1 {
        e.put(&mut step[0], map[w + 1] != map[w]);
    }
    // Per cluster and token: frequency and cumulative frequency.
    let mut tables = Vec::with_capacity(clusters.len());
    for h in &clusters {
        let f = normalise(h);
        model.put(&mut e, &f);
        let mut t = [(0u32, 0u32); TOKENS];
        let mut cum = 0;
        for (slot, &v) in t.iter_mut().zip(&f) {
            *slot = (u32::from(v), cum);
            cum += u32::from(v);
        }
        tables.push(t);
    }
    let mut words: Vec<u16> = Vec::with_capacity(tokens.len() / 2);
    let mut state = [LOWEST; 2];
    for i in (0..tokens.len()).rev() {
        let (freq, cum) = tables[usize::from(map[usize::from(contexts[i])])][usize::from(tokens[i])];
        let x = &mut state[i & 1];
        if u64::from(*x) >= u64::from(freq) << (32 - PROB_BITS) {
            words.push(*x as u16);
            *x >>= 16;
        }
        *x = ((*x / freq) << PROB_BITS) + *x % freq + cum;
    }
    let mut out = Vec::with_capacity(words.len() * 2 + 8);
    for s in state {
        out.extend_from_slice(&s.to_le_bytes());
    }
    for w in words.iter().rev() {
        out.extend_from_slice(&w.to_le_bytes());
    }
    (e.finish(), out)
}

/// Decodes tokens one at a time; the caller supplies the context of each.
pub(crate) struct TokenDecoder<'a> {
    /// `CONTEXTS` entries: cluster's first slot in `slots`.
    map: [u32; CONTEXTS],
    /// token | frequency-1 << 8 | offset in the token's range << 20 | bits of the size of the token << 32
    slots: Vec<u64>,
    state: [u32; 2],
    words: &'a [u8],
    at: usize,
}

/// States of the two interleaved coders and the position in the words.
pub(crate) struct TokenState {
    next: u32,
    after: u32,
    at: usize,
}

impl TokenState {
    /// Decodes the next token; the two coders alternate.
    #[inline(always)]
    pub(crate) fn get(&mut self, d: &TokenDecoder<'_>, context: usize) -> (u8, f32) {
        let x = self.next;
        let base = d.map.get(context).copied().unwrap_or(0);
        let slot = d.slots.get((base | (x & (PROB_ONE - 1))) as usize).copied().unwrap_or(0);
        let size = f32::from_bits((slot >> 32) as u32);
        let slot = slot as u32;
        let freq = ((slot >> 8) & 0xfff) + 1;
        let x = freq.wrapping_mul(x >> PROB_BITS).wrapping_add(slot >> 20);
        // Without a branch: whether a word is needed is as random as the data.
        let word = d.words.get(self.at..).and_then(|t| t.first_chunk::<2>()).map_or(0, |b| u16::from_le_bytes(*b));
        let needed = x < LOWEST;
        self.at += usize::from(needed) << 1;
        let refilled = (x << 16) | u32::from(word);
        let x = if needed { refilled } else { x };
        self.next = self.after;
        self.after = x;
        (slot as u8, size)
    }
}

impl<'a> TokenDecoder<'a> {
    /// `sizes` gives the error a token stands for; it is handed out with the token to save a look-up on the critical
    /// path from one token to the context of the next.
    pub(crate) fn new(tables: &[u8], words: &'a [u8], sizes: impl Fn(u8) -> f32) -> Result<Self> {
        let mut d = BitDecoder::new(tables);
        let mut model = TableModel::new();
        let mut step = [Bit::default(); 2];
        let mut map = [0u32; CONTEXTS];
        let mut clusters = 0u32;
        for m in map.iter_mut().skip(1) {
            clusters += u32::from(d.get(&mut step[0]));
            *m = clusters << PROB_BITS;
        }
        let mut slots = Vec::with_capacity((clusters as usize + 1) << PROB_BITS);
        for _ in 0..=clusters {
            let f = model.get(&mut d)?;
            for (t, &v) in f.iter().enumerate() {
                let size = u64::from(sizes(t as u8).to_bits()) << 32;
                for offset in 0..u32::from(v) {
                    slots.push(u64::from(t as u32 | (u32::from(v) - 1) << 8 | offset << 20) | size);
                }
            }
        }
        let (head, words) = words.split_at_checked(8).ok_or(Error::Truncated)?;
        let word =
            |i: usize| head.get(i..).and_then(|t| t.first_chunk::<4>()).map_or(LOWEST, |b| u32::from_le_bytes(*b));
        Ok(Self { map, slots, state: [word(0), word(4)], words, at: 0 })
    }

    /// The moving part, to be kept in registers over a row and put back with [`TokenDecoder::restore`].
    #[inline(always)]
    pub(crate) fn clone_state(&self) -> TokenState {
        TokenState { next: self.state[0], after: self.state[1], at: self.at }
    }

    /// Puts a state back.
    #[inline(always)]
    pub(crate) fn restore(&mut self, s: TokenState) {
        self.state = [s.next, s.after];
        self.at = s.at;
    }

    /// Fails unless the stream was used up exactly, which damage rarely leaves true.
    pub(crate) fn check(&self) -> Result<()> {
        if self.at != self.words.len() || self.state != [LOWEST; 2] {
            return Err(Error::Corrupt("token stream does not end where it should"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_cover_all_integers() {
        for z in (0..5000).chain((0..64).flat_map(|s| [1u64 << s, (1u64 << s) - 1, (1u64 << s) | 1])).chain([u64::MAX])
        {
            let (t, n, raw) = tokenize(z);
            assert_eq!(raw_bits(t), n);
            assert_eq!(untokenize(t, raw), z);
        }
    }

    #[test]
    fn streams_round_trip() {
        for n in [0usize, 1, 2, 3, 1000, 20000] {
            let mut x = n as u64 + 7;
            let mut next = || {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 33) as u32
            };
            let contexts: Vec<u8> = (0..n).map(|_| (next() % CONTEXTS as u32) as u8).collect();
            let tokens: Vec<u8> = contexts.iter().map(|&c| (next() % (2 + u32::from(c) * 6)) as u8).collect();
            let (tables, words) = encode_tokens(&tokens, &contexts);
            let mut d = TokenDecoder::new(&tables, &words, f32::from).unwrap();
            let mut state = d.clone_state();
            for (t, c) in tokens.iter().zip(&contexts) {
                assert_eq!(state.get(&d, usize::from(*c)), (*t, f32::from(*t)));
            }
            d.restore(state);
            d.check().unwrap();
        }
    }
}
