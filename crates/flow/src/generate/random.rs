//! Random numbers at positions: number `i` of a stream depends on the seed, the stream and `i` alone, so that any
//! region of a variable can be made by any thread, in any order, on any machine.
//!
//! The numbers are those of SplitMix64 (Steele, Lea, Flood: 'Fast splittable pseudorandom number generators', 2014),
//! whose state is a counter. Transcendental functions come from `libm`: those of the C library differ between machines.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
/// Means up to here are sampled by inversion, larger ones by rejection.
const MOST_INVERTED: f64 = 30.0;

/// A stream of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// The stream of `seed` for one purpose. Streams of different purposes are independent.
    pub fn new(seed: u64, purpose: &str) -> Self {
        Self(purpose.bytes().fold(mix(seed.wrapping_add(GAMMA)), |state, byte| mix(state ^ u64::from(byte))))
    }

    /// The stream of item `i` of this one: for items that need several numbers.
    pub fn of(self, i: u64) -> Self {
        Self(self.bits(i))
    }

    /// 64 random bits.
    pub fn bits(self, i: u64) -> u64 {
        mix(self.0.wrapping_add(i.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// Uniform in [0, 1).
    pub fn unit(self, i: u64) -> f64 {
        (self.bits(i) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn between(self, i: u64, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit(i)
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller, 1958).
    pub fn normal(self, i: u64) -> f64 {
        let own = self.of(i);
        let radius = (-2.0 * libm::log(1.0 - own.unit(0))).sqrt();
        radius * libm::cos(std::f64::consts::TAU * own.unit(1))
    }

    /// Poisson with the given mean; 0 for means that are not above 0.
    pub fn poisson(self, i: u64, mean: f64) -> f64 {
        if mean.is_nan() || mean <= 0.0 {
            0.0
        } else if mean <= MOST_INVERTED {
            inverted(self.unit(i), mean)
        } else {
            rejected(self.of(i), mean)
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Poisson by walking along the distribution until it exceeds `unit`.
fn inverted(unit: f64, mean: f64) -> f64 {
    let mut count = 0.0;
    let mut probability = libm::exp(-mean);
    let mut below = probability;
    // Beyond this the probability is lost in rounding.
    while unit >= below && count < 200.0 {
        count += 1.0;
        probability *= mean / count;
        below += probability;
    }
    count
}

/// Poisson by transformed rejection (Hörmann: 'The transformed rejection method for generating Poisson random
/// variables', 1993, algorithm PTRS).
fn rejected(own: Stream, mean: f64) -> f64 {
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let most_probable = 0.9277 - 3.6224 / (b - 2.0);
    // Nine in ten are accepted at once: the end is never reached in practice, and the mean is a fair answer there.
    for attempt in 0..1000 {
        let u = own.unit(2 * attempt) - 0.5;
        let v = own.unit(2 * attempt + 1);
        let us = 0.5 - u.abs();
        let count = ((2.0 * a / us + b) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= most_probable {
            return count;
        }
        if count < 0.0 || (us < 0.013 && v > us) {
            continue;
        }
        let left = libm::log(v) + libm::log(inverse_alpha) - libm::log(a / (us * us) + b);
        if left <= count * libm::log(mean) - mean - libm::lgamma(count + 1.0) {
            return count;
        }
    }
    mean.round()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(value: impl Fn(u64) -> f64) -> (f64, f64) {
        const N: u64 = 200_000;
        let mean = (0..N).map(&value).sum::<f64>() / N as f64;
        let variance = (0..N).map(|i| (value(i) - mean) * (value(i) - mean)).sum::<f64>() / N as f64;
        (mean, variance)
    }

    #[test]
    fn distributions_have_their_moments() {
        let stream = Stream::new(7, "test");
        let (mean, variance) = moments(|i| stream.unit(i));
        assert!((mean - 0.5).abs() < 0.003 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(|i| stream.normal(i));
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        for wanted in [0.3, 4.0, 29.9, 30.1, 250.0, 40_000.0] {
            let (mean, variance) = moments(|i| stream.poisson(i, wanted));
            assert!((mean / wanted - 1.0).abs() < 0.012, "Poisson of {wanted}: mean {mean}");
            assert!((variance / wanted - 1.0).abs() < 0.03, "Poisson of {wanted}: variance {variance}");
        }
        assert_eq!((stream.poisson(1, 0.0), stream.poisson(1, -1.0), stream.poisson(1, f64::NAN)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn streams_differ_and_repeat() {
        let a = Stream::new(1, "a");
        assert_eq!(a.bits(5), Stream::new(1, "a").bits(5));
        for other in [Stream::new(2, "a"), Stream::new(1, "b"), Stream::new(1, ""), a.of(0)] {
            assert!((0..100).all(|i| other.bits(i) != a.bits(i)));
        }
    }
}
