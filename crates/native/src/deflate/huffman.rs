//! Prefix codes of limited length (RFC 1951, 3.2.2).
#![expect(clippy::cast_possible_truncation, reason = "symbols and lengths are far below 2^8 and 2^16")]

/// Lengths of a prefix code for symbols that occur `counts` times, none longer than `limit`; 0 for those that do not
/// occur. A lone symbol gets one bit. Huffman's code by Moffat and Katajainen's in-place algorithm (1995); where it
/// is longer than `limit`, leaves move up until Kraft's sum holds, which costs next to nothing.
pub(super) fn code_lengths(counts: &[u32], limit: usize, lengths: &mut [u8]) {
    lengths.fill(0);
    let mut used: Vec<(u32, usize)> =
        counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(symbol, &count)| (count, symbol)).collect();
    used.sort_unstable();
    let depths = leaf_depths(&used);
    let mut of_length = [0usize; 33];
    for depth in depths {
        of_length[(depth as usize).min(limit)] += 1;
    }
    shorten(&mut of_length, limit);
    // The rarest symbols take the longest codes.
    let mut symbols = used.iter();
    for length in (1..=limit).rev() {
        for &(_, symbol) in symbols.by_ref().take(of_length[length]) {
            lengths[symbol] = length as u8;
        }
    }
}

/// Depths of the leaves of Huffman's tree, for counts in rising order.
fn leaf_depths(used: &[(u32, usize)]) -> Vec<u32> {
    let n = used.len();
    let mut a: Vec<u32> = used.iter().map(|&(count, _)| count).collect();
    match n {
        0 => return a,
        1 => return vec![1],
        _ => {}
    }
    // Weights of inner nodes, then their parents.
    a[0] += a[1];
    let (mut root, mut leaf) = (0, 2);
    for next in 1..n - 1 {
        let mut weight = 0;
        for pick in 0..2 {
            let inner = root < next && (leaf >= n || a[root] < a[leaf]);
            let taken = if inner { root } else { leaf };
            weight += a[taken];
            if inner {
                a[root] = next as u32;
                root += 1;
            } else {
                leaf += 1;
            }
            if pick == 1 {
                a[next] = weight;
            }
        }
    }
    // Depths of inner nodes.
    a[n - 2] = 0;
    for next in (0..n - 2).rev() {
        a[next] = a[a[next] as usize] + 1;
    }
    // Depths of leaves.
    let (mut available, mut depth, mut node) = (1usize, 0u32, n - 1);
    let mut next = n;
    while available > 0 {
        let mut inner = 0;
        while node > 0 && a[node - 1] == depth {
            inner += 1;
            node -= 1;
        }
        while available > inner {
            next -= 1;
            a[next] = depth;
            available -= 1;
        }
        available = 2 * inner;
        depth += 1;
    }
    a
}

/// Makes codes of at most `limit` bits, so many of each length, a prefix code again.
fn shorten(of_length: &mut [usize; 33], limit: usize) {
    let mut sum: usize = (1..=limit).map(|length| of_length[length] << (limit - length)).sum();
    while sum > 1 << limit {
        of_length[limit] -= 1;
        if let Some(length) = (1..limit).rev().find(|&length| of_length[length] > 0) {
            of_length[length] -= 1;
            of_length[length + 1] += 2;
        }
        sum -= 1;
    }
}

/// Canonical codes of these lengths, first bit lowest, as DEFLATE sends them.
pub(super) fn codes(lengths: &[u8], codes: &mut [u16]) {
    let mut of_length = [0u16; 16];
    for &length in lengths {
        of_length[usize::from(length & 15)] += 1;
    }
    of_length[0] = 0;
    let mut next = [0u16; 16];
    for length in 1..16 {
        next[length] = (next[length - 1] + of_length[length - 1]) << 1;
    }
    for (code, &length) in codes.iter_mut().zip(lengths) {
        let length = usize::from(length & 15);
        if length > 0 {
            *code = next[length].reverse_bits() >> (16 - length);
            next[length] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_complete_and_within_the_limit() {
        let fibonacci: Vec<u32> = (0..40)
            .scan((1, 1), |s, _| {
                *s = (s.1, s.0 + s.1);
                Some(s.0)
            })
            .collect();
        let flat = vec![7; 286];
        let sparse: Vec<u32> = (0..286).map(|symbol| u32::from(symbol % 50 == 3)).collect();
        for (counts, limit) in [(&fibonacci, 14), (&fibonacci, 7), (&flat, 14), (&flat, 9), (&sparse, 14)] {
            let mut lengths = vec![0; counts.len()];
            code_lengths(counts, limit, &mut lengths);
            assert!(lengths.iter().zip(counts).all(|(&length, &count)| (length > 0) == (count > 0)));
            assert!(lengths.iter().all(|&length| usize::from(length) <= limit));
            let sum: usize =
                lengths.iter().filter(|&&length| length > 0).map(|&length| 1 << (limit - usize::from(length))).sum();
            assert_eq!(sum, 1 << limit, "Kraft's sum of a complete code");
        }
    }

    #[test]
    fn lengths_of_even_counts_are_optimal() {
        let mut lengths = [0; 4];
        code_lengths(&[8, 4, 2, 2], 14, &mut lengths);
        assert_eq!(lengths, [1, 2, 3, 3]);
        code_lengths(&[0, 9, 0, 0], 14, &mut lengths);
        assert_eq!(lengths, [0, 1, 0, 0]);
        code_lengths(&[0; 4], 14, &mut lengths);
        assert_eq!(lengths, [0; 4]);
    }

    #[test]
    fn canonical_codes_are_those_of_the_specification() {
        // RFC 1951, 3.2.2: lengths 3, 3, 3, 3, 3, 2, 4, 4 give 010, 011, 100, 101, 110, 00, 1110, 1111.
        let mut found = [0; 8];
        codes(&[3, 3, 3, 3, 3, 2, 4, 4], &mut found);
        assert_eq!(found, [0b010, 0b110, 0b001, 0b101, 0b011, 0b00, 0b0111, 0b1111]);
    }
}
