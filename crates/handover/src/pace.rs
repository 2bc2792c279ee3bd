//! Whether values cross the network to a node faster as they are or packed: as both were measured.
//!
//! What crosses as it is says how fast the network is. A part of it is packed and unpacked here, which says how fast the codec
//! is and what it gains. Only if that promises to be faster some values are asked for packed, and then what takes less time
//! counts. Now and then the other way is tried, because networks and values change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::array::DType;

use crate::packed::{frame_of, values_of};

/// Fewer bytes say nothing of the network.
const LEAST: usize = 1 << 16;
/// Bytes that are packed here to see what the codec does.
const SAMPLE: usize = 1 << 17;
/// What was measured last counts so much, and what was known before the rest.
const NEWEST: f64 = 0.3;
/// The other way is tried once in so many times: where it takes twice as long, that costs a hundredth of the time.
const AGAIN: u64 = 96;
/// So much slower than the network the codec may look on a sample to be tried: it is measured in this process, and works beside
/// others.
const DOUBT: f64 = 1.5;

/// What is known of a node.
#[derive(Debug, Default)]
pub struct Pace(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Seconds for a byte of values that crosses as it is, and packed.
    plain: Option<f64>,
    packed: Option<f64>,
    /// What the sample says of packed ones.
    promised: Option<f64>,
    /// Questions so far.
    count: u64,
    /// The first packed values are under way.
    is_trying: bool,
}

impl Pace {
    /// That of the node with this name, for this process.
    pub fn of(node: &str) -> Arc<Self> {
        static ALL: Mutex<BTreeMap<String, Arc<Pace>>> = Mutex::new(BTreeMap::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(node.to_owned()).or_default())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the next values should come packed.
    pub(crate) fn packs(&self) -> bool {
        let mut known = self.known();
        known.count += 1;
        let again = known.count.is_multiple_of(AGAIN);
        match (known.plain, known.packed, known.promised) {
            (Some(plain), Some(packed), _) => (packed < plain) != again,
            (Some(plain), None, Some(promised)) if !known.is_trying && promised < DOUBT * plain => {
                known.is_trying = true;
                true
            }
            _ => false,
        }
    }

    /// Values of a type have come, in this time.
    pub(crate) fn took(&self, packed: bool, values: &[u8], dtype: Option<DType>, time: Duration) {
        if values.len() < LEAST {
            // Too few to be the trial.
            self.known().is_trying &= !packed;
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "bytes are few")]
        let seconds = time.as_secs_f64() / values.len() as f64;
        let mut known = self.known();
        let is_other = matches!((known.plain, known.packed), (Some(plain), Some(other)) if packed == (plain < other));
        // Of the way that is hardly taken, the rest is old.
        let newest = if is_other { 1.0 } else { NEWEST };
        let place = if packed { &mut known.packed } else { &mut known.plain };
        *place = Some(place.map_or(seconds, |before| before + newest * (seconds - before)));
        known.is_trying &= !packed;
        let (plain, is_open) = (known.plain, known.promised.is_none() || known.count.is_multiple_of(AGAIN));
        drop(known);
        if let (Some(dtype), Some(plain), true, false) = (dtype, plain, is_open, packed) {
            let promised = promised(values, dtype, plain);
            self.known().promised = Some(promised);
        }
    }
}

/// Seconds that a byte of values would take packed, where it takes `plain` as it is.
#[expect(clippy::cast_precision_loss, reason = "bytes are few")]
fn promised(values: &[u8], dtype: DType, plain: f64) -> f64 {
    let size = dtype.size().max(1);
    let sample = values.get(..values.len().min(SAMPLE) / size * size).unwrap_or_default();
    let begin = Instant::now();
    let Some(framed) = frame_of(sample, dtype) else { return f64::INFINITY };
    if values_of(&framed, sample.len()).is_err() {
        return f64::INFINITY;
    }
    let bytes = sample.len().max(1) as f64;
    begin.elapsed().as_secs_f64() / bytes + plain * framed.len() as f64 / bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smooth() -> Vec<u8> {
        (0..1u32 << 16).flat_map(|n| (f64::from(n) / 7000.0).sin().to_le_bytes()).collect()
    }

    /// How many of the next 240 are packed if a byte takes so many seconds either way.
    fn packed(pace: &Pace, values: &[u8], [plain, packed]: [f64; 2]) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let took = |seconds: f64| Duration::from_secs_f64(seconds * values.len() as f64);
        let one = |_| {
            let packs = pace.packs();
            pace.took(packs, values, Some(DType::F64), took(if packs { packed } else { plain }));
            packs
        };
        (0..240).map(one).filter(|&packs| packs).count()
    }

    #[test]
    fn the_faster_way_counts_and_the_other_one_is_tried_again() {
        let values = smooth();
        // 1 MB/s: the codec is faster for certain.
        let pace = Pace::default();
        assert!(packed(&pace, &values, [1e-6, 4e-7]) > 200);
        // The network has become faster: one trial shows that.
        packed(&pace, &values, [1e-9, 4e-7]);
        assert!(packed(&pace, &values, [1e-9, 4e-7]) < 20);
        // A network that no codec reaches: nothing is packed.
        assert_eq!(packed(&Pace::default(), &values, [1e-13, 1e-13]), 0);
        // The codec promises more than it keeps.
        assert!(packed(&Pace::default(), &values, [1e-6, 2e-6]) < 20);
    }

    #[test]
    fn values_that_nothing_is_gained_of_are_not_packed() {
        let mut random = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            random.to_be_bytes()[0]
        })
        .take(1 << 19)
        .collect();
        assert_eq!(packed(&Pace::default(), &noise, [1e-6, 1e-9]), 0);
        assert_eq!(packed(&Pace::default(), &noise[..LEAST / 2], [1e-6, 1e-9]), 0);
    }
}
