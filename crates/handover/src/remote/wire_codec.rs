//! Chooses how values cross the network to a node, by measurement: plain, packed, or packed within an error bound.
//!
//! Plain answers show the speed of the network. A sample of them is packed and unpacked here, which shows the speed and the ratio
//! of the codec. If packing promises to be faster, some values are asked for packed, and the faster way is kept. Other ways are
//! tried again now and then, because networks and values change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use knarr_array::array::DType;

use crate::remote::packed::{frame_of, pack_within, unpack_within, values_of};
use crate::remote::transfer_bound::TransferBound;

/// Fewer bytes say nothing of the network.
const LEAST: usize = 1 << 16;
/// Bytes that are packed here to see what the codec does.
const SAMPLE: usize = 1 << 17;
/// What was measured last counts so much, and what was known before the rest.
const NEWEST: f64 = 0.3;
/// Another way is tried once in so many times: where it takes twice as long, that costs a hundredth of the time.
const AGAIN: u64 = 96;
/// How often a sample is looked at in the beginning: others may be at work at that moment, so the best of them counts.
const LOOKS: u32 = 3;
/// So much slower than the fastest way another one may look on a sample to be tried: it is measured in this process, and works
/// beside others.
const DOUBT: f64 = 1.5;
/// Questions by which a way is tried first. Several are under way at a time, so the first of them wait behind longer answers, and
/// only the last ones are measured among their own kind.
const TRIES: u32 = 8;

/// How values cross the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As they are.
    Plain,
    /// Packed without loss.
    Packed,
    /// Packed with a loss within their bound.
    Bounded,
}

impl Way {
    /// Those by which values are smaller. What loses nothing is tried first.
    const SMALLER: [Self; 2] = [Self::Packed, Self::Bounded];
}

/// What is known of a node.
#[derive(Debug, Default)]
pub struct WireCodecTuner(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Questions so far.
    count: u64,
    /// Samples that were looked at.
    looks: u32,
    /// By the numbers of ways.
    ways: [OfWay; 3],
    /// A thread looks what the codec does: others would be in its way.
    is_looking: bool,
}

/// What is known of a way.
#[derive(Debug, Default)]
struct OfWay {
    /// Seconds for a byte of values.
    seconds: Option<f64>,
    /// What a sample says of that.
    promised: Option<f64>,
    /// Questions by which it was tried, and answers to them.
    asked: u32,
    came: u32,
}

impl Known {
    fn of(&mut self, way: Way) -> &mut OfWay {
        let [plain, packed, within] = &mut self.ways;
        match way {
            Way::Plain => plain,
            Way::Packed => packed,
            Way::Bounded => within,
        }
    }

    /// The ways that were measured, the fastest first.
    fn measured(&mut self) -> Vec<(Way, f64)> {
        let all = [Way::Plain, Way::Packed, Way::Bounded];
        let mut measured: Vec<_> = all.into_iter().filter_map(|way| Some((way, self.of(way).seconds?))).collect();
        measured.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        measured
    }
}

impl WireCodecTuner {
    /// That of the node with this name, for this process.
    pub fn of(node: &str) -> Arc<Self> {
        static ALL: Tuners = Mutex::new(BTreeMap::new());
        find(&ALL, node)
    }

    /// The same for values of variables with a bound, which gain other than the rest.
    pub fn within(node: &str) -> Arc<Self> {
        static ALL: Tuners = Mutex::new(BTreeMap::new());
        find(&ALL, node)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the next values should come.
    pub(crate) fn way(&self) -> Way {
        let mut known = self.known();
        known.count += 1;
        let (measured, count) = (known.measured(), known.count);
        let Some(&(fastest, seconds)) = measured.first().filter(|_| known.of(Way::Plain).seconds.is_some()) else {
            return Way::Plain;
        };
        for way in Way::SMALLER {
            let one = known.of(way);
            let promises = one.promised.is_some_and(|promised| promised < DOUBT * seconds);
            if (1..TRIES).contains(&one.asked) || one.asked == 0 && promises {
                one.asked += 1;
                return way;
            }
        }
        let (turn, others) = (count / AGAIN, measured.get(1..).unwrap_or_default());
        let other = usize::try_from(turn).unwrap_or(0).checked_rem(others.len()).and_then(|turn| others.get(turn));
        other.filter(|_| count.is_multiple_of(AGAIN)).map_or(fastest, |(other, _)| *other)
    }

    /// Values have come in this way and time. They are of this type, if that is known, and may lose what `transfer_bound` says, if
    /// they have a bound.
    pub(crate) fn took(
        &self,
        way: Way,
        values: &[u8],
        (dtype, within): (Option<DType>, Option<&TransferBound>),
        time: Duration,
    ) {
        if values.len() < LEAST {
            // Too few to be a part of the trial.
            let mut known = self.known();
            let one = known.of(way);
            one.asked -= u32::from(one.asked > one.came);
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "bytes are few")]
        let seconds = time.as_secs_f64() / values.len() as f64;
        let mut known = self.known();
        // Of a way that is hardly taken, the rest is old.
        let is_fastest = known.measured().first().is_none_or(|(fastest, _)| *fastest == way);
        let is_tried = known.of(way).came >= TRIES || way == Way::Plain;
        let newest = if is_fastest && is_tried { NEWEST } else { 1.0 };
        let again = known.count.is_multiple_of(AGAIN);
        let one = known.of(way);
        one.seconds = Some(one.seconds.map_or(seconds, |before| before + newest * (seconds - before)));
        one.came = (one.came + 1).min(TRIES);
        let (plain, is_open) = (known.of(Way::Plain).seconds, known.looks < LOOKS || again);
        if let (Some(dtype), Some(plain), true, Way::Plain, false) = (dtype, plain, is_open, way, known.is_looking) {
            known.is_looking = true;
            drop(known);
            let sample = sample(values, dtype);
            let packed = promised(sample, plain, || packed(sample, dtype));
            let within = within.map(|within| promised(sample, plain, || rounded(sample, dtype, within)));
            let mut known = self.known();
            known.is_looking = false;
            known.looks += 1;
            let best = |before: Option<f64>, now: f64| before.filter(|before| !again && *before < now).unwrap_or(now);
            let (one, other) = (known.of(Way::Packed).promised, known.of(Way::Bounded).promised);
            known.of(Way::Packed).promised = Some(best(one, packed));
            known.of(Way::Bounded).promised = within.map(|within| best(other, within)).or(other);
        }
    }
}

type Tuners = Mutex<BTreeMap<String, Arc<WireCodecTuner>>>;

fn find(tuners: &Tuners, node: &str) -> Arc<WireCodecTuner> {
    let mut all = tuners.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(all.entry(node.to_owned()).or_default())
}

/// Some of the values, as whole elements.
fn sample(values: &[u8], dtype: DType) -> &[u8] {
    let size = dtype.size().max(1);
    values.get(..values.len().min(SAMPLE) / size * size).unwrap_or_default()
}

/// Bytes of the sample when it is packed; it is unpacked, too.
fn packed(sample: &[u8], dtype: DType) -> Option<usize> {
    let framed = frame_of(sample, dtype)?;
    values_of(&framed, sample.len()).ok().map(|_| framed.len())
}

/// The same within a bound; `None` if the sample cannot be so.
fn rounded(sample: &[u8], dtype: DType, within: &TransferBound) -> Option<usize> {
    let (sent, seen) = pack_within(sample.to_vec(), Some(dtype), within);
    let bytes = sent.len();
    unpack_within(sent, sample.len()).ok().filter(|_| seen.changed > 0).map(|_| bytes)
}

/// Seconds that a byte of values would take in another way, where it takes `plain` as it is.
#[expect(clippy::cast_precision_loss, reason = "bytes are few")]
fn promised(sample: &[u8], plain: f64, run: impl FnOnce() -> Option<usize>) -> f64 {
    let begin = Instant::now();
    let Some(sent) = run() else { return f64::INFINITY };
    let bytes = sample.len().max(1) as f64;
    begin.elapsed().as_secs_f64() / bytes + plain * sent as f64 / bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::array::Endian;

    fn smooth() -> Vec<u8> {
        (0..1u32 << 16).flat_map(|n| (f64::from(n) / 7000.0).sin().to_le_bytes()).collect()
    }

    /// How many of the next 240 are packed if a byte takes so many seconds either way.
    fn packed(tuner: &WireCodecTuner, values: &[u8], [plain, packed]: [f64; 2]) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "few")]
        let took = |seconds: f64| Duration::from_secs_f64(seconds * values.len() as f64);
        let one = |_| {
            let packs = tuner.way() == Way::Packed;
            let way = if packs { Way::Packed } else { Way::Plain };
            tuner.took(way, values, (Some(DType::F64), None), took(if packs { packed } else { plain }));
            packs
        };
        (0..240).map(one).filter(|&packs| packs).count()
    }

    /// How often each way is taken of the next 400 if a byte takes so many seconds in each.
    fn taken(tuner: &WireCodecTuner, quality: &str, seconds: [f64; 3]) -> [usize; 3] {
        let (values, mut counts) = (smooth(), [0; 3]);
        let (variable, dtype, endian, fills) = ("T".to_owned(), DType::F64, Endian::Little, Vec::new());
        let within = TransferBound { variable, dtype, endian, fills, quality: quality.to_owned() };
        for _ in 0..400 {
            let way = tuner.way();
            counts[way as usize] += 1;
            #[expect(clippy::cast_precision_loss, reason = "few")]
            let time = Duration::from_secs_f64(seconds[way as usize] * values.len() as f64);
            tuner.took(way, &values, (Some(DType::F64), Some(&within)), time);
        }
        counts
    }

    #[test]
    fn what_loses_something_is_taken_only_where_it_is_the_fastest() {
        let bound = "max_abs_error=0.01";
        let [plain, packed, within] = taken(&WireCodecTuner::default(), bound, [1e-6, 4e-7, 1e-7]);
        assert!(within > 380 && plain >= 2 && packed >= 8, "{plain} {packed} {within}");
        let [_, packed, within] = taken(&WireCodecTuner::default(), bound, [1e-6, 4e-7, 5e-7]);
        assert!(packed > 370 && within <= 12, "{packed} {within}");
        let [plain, ..] = taken(&WireCodecTuner::default(), bound, [1e-6, 4e-6, 5e-6]);
        assert!(plain > 370, "{plain}");
        // A bound that allows nothing is not worth a try, and without one nothing is lost.
        assert_eq!(taken(&WireCodecTuner::default(), "max_abs_error=1e-300", [1e-6, 4e-7, 1e-9])[2], 0);
        // It was the fastest until the network has become faster.
        let tuner = WireCodecTuner::default();
        taken(&tuner, bound, [1e-6, 4e-7, 1e-7]);
        taken(&tuner, bound, [1e-9, 4e-7, 1e-7]);
        let [plain, ..] = taken(&tuner, bound, [1e-9, 4e-7, 1e-7]);
        assert!(plain > 380, "{plain}");
    }

    #[test]
    fn the_faster_way_counts_and_the_other_one_is_tried_again() {
        let values = smooth();
        // 1 MB/s: the codec is faster for certain.
        let tuner = WireCodecTuner::default();
        assert!(packed(&tuner, &values, [1e-6, 4e-7]) > 200);
        // The network has become faster: one trial shows that.
        packed(&tuner, &values, [1e-9, 4e-7]);
        assert!(packed(&tuner, &values, [1e-9, 4e-7]) < 20);
        // A network that no codec reaches: nothing is packed.
        assert_eq!(packed(&WireCodecTuner::default(), &values, [1e-13, 1e-13]), 0);
        // The codec promises more than it keeps.
        assert!(packed(&WireCodecTuner::default(), &values, [1e-6, 2e-6]) < 20);
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
        assert_eq!(packed(&WireCodecTuner::default(), &noise, [1e-6, 1e-9]), 0);
        assert_eq!(packed(&WireCodecTuner::default(), &noise[..LEAST / 2], [1e-6, 1e-9]), 0);
    }
}
