//! The length of the records in a file whose format is not known, found from its bytes.

/// Bytes that are looked at.
const SAMPLE: usize = 64 << 10;
/// Longest record that is looked for.
const LONGEST: usize = 512;
/// How much more often than usual bytes have to be equal at the distance of a record.
const DISTINCT: f64 = 1.3;
/// Shares that differ by less are alike: multiples of the length repeat as well as the length itself.
const ALIKE: f64 = 0.99;

/// The smallest distance at which bytes are equal distinctly more often than at others; `None` if there is none.
pub(crate) fn record_length(bytes: &[u8]) -> Option<usize> {
    // The beginning of a file is often not like the rest of it.
    let begin = (bytes.len() / 2).saturating_sub(SAMPLE / 2);
    let sample = bytes.get(begin..)?.get(..SAMPLE.min(bytes.len() - begin))?;
    if sample.len() < 4 * LONGEST {
        return None;
    }
    let shares: Vec<f64> = (2..=LONGEST)
        .map(|distance| {
            let later = sample.get(distance..).unwrap_or_default();
            let equal = sample.iter().zip(later).filter(|(a, b)| a == b).count();
            #[expect(clippy::cast_precision_loss, reason = "counts of a small sample")]
            let share = equal as f64 / later.len() as f64;
            share
        })
        .collect();
    let best = shares.iter().copied().fold(0.0, f64::max);
    let mut sorted = shares.clone();
    sorted.sort_by(f64::total_cmp);
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    if best < DISTINCT * usual {
        return None;
    }
    shares.iter().position(|share| *share >= best * ALIKE).map(|index| index + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_and_imagined_ones_are_not() {
        let noise = |i: usize| blake3::hash(&i.to_le_bytes()).as_bytes()[0];
        let record =
            |length: usize| -> Vec<u8> { (0..100_000).map(|i| if i % length < 3 { 7 } else { noise(i) }).collect() };
        assert_eq!(record_length(&record(88)), Some(88));
        assert_eq!(record_length(&record(8)), Some(8));
        assert_eq!(record_length(&(0..100_000).map(noise).collect::<Vec<_>>()), None);
        assert_eq!(record_length(&[0; 100_000]), None);
        assert_eq!(record_length(&[1; 10]), None);
    }
}
