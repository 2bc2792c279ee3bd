//! Bytes that DEFLATE cannot shrink, found at the front of a chunk.
//!
//! After a shuffle the least significant bytes of all elements come first. In measured data they are often noise:
//! a match finder spends most of its time there and gains nothing. They are told apart by their order-0 entropy and
//! by looking for repeats within DEFLATE's window.

/// Bytes judged at a time: DEFLATE's window.
const SEGMENT: usize = 32 << 10;
/// Bits per byte above which a Huffman code gains less than half a per cent.
const ENTROPY: f64 = 7.965;
/// Repeats of four bytes in a segment that noise does not have: it has one in eight segments.
const REPEATS: usize = 16;

/// Length of the longest front of whole segments that look like noise.
pub(crate) fn noise_prefix(input: &[u8]) -> usize {
    input.chunks_exact(SEGMENT).take_while(|segment| is_noise(segment)).count() * SEGMENT
}

fn is_noise(segment: &[u8]) -> bool {
    entropy(segment) > ENTROPY && !repeats(segment)
}

fn entropy(segment: &[u8]) -> f64 {
    // Four histograms keep equal neighbours from waiting for each other.
    let mut counts = [[0u32; 256]; 4];
    for quad in segment.as_chunks::<4>().0 {
        for (histogram, &byte) in counts.iter_mut().zip(quad) {
            histogram[usize::from(byte)] += 1;
        }
    }
    let [a, b, c, d] = &counts;
    #[expect(clippy::cast_precision_loss, reason = "at most 32 Ki")]
    let total = segment.len() as f64;
    let sum: f64 = (0..256)
        .map(|byte| f64::from(a[byte] + b[byte] + c[byte] + d[byte]))
        .filter(|&count| count > 0.0)
        .map(|count| count * count.log2())
        .sum();
    total.log2() - sum / total
}

fn repeats(segment: &[u8]) -> bool {
    let mut last = [0u16; 1 << 13];
    let mut found = 0;
    for (position, four) in segment.windows(4).enumerate() {
        let word = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let slot = &mut last[(word.wrapping_mul(0x9E37_79B1) >> 19) as usize];
        let before = usize::from(*slot);
        // Position 0 stands for an empty slot as well; the comparison decides.
        if before < position && segment.get(before..before + 4) == Some(four) {
            found += 1;
            if found > REPEATS {
                return true;
            }
        }
        *slot = u16::try_from(position).unwrap_or(0);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_core::testing::data::Random;

    #[test]
    fn noise_is_told_from_data_and_from_repeated_noise() {
        let mut random = Random::new(1);
        let noise: Vec<u8> = (0..3 * SEGMENT).map(|_| random.bits().to_le_bytes()[3]).collect();
        assert_eq!(noise_prefix(&noise), noise.len());
        assert_eq!(noise_prefix(&noise[..SEGMENT + 5]), SEGMENT);
        let smooth: Vec<u8> = (0..3 * SEGMENT).map(|i| (i / 7).to_le_bytes()[0]).collect();
        assert_eq!(noise_prefix(&smooth), 0);
        let repeated: Vec<u8> = noise[..5000].iter().copied().cycle().take(2 * SEGMENT).collect();
        assert_eq!(noise_prefix(&repeated), 0);
        let mixed: Vec<u8> = noise.iter().chain(&smooth).copied().collect();
        assert_eq!(noise_prefix(&mixed), noise.len());
        assert_eq!(noise_prefix(&[]), 0);
    }
}
