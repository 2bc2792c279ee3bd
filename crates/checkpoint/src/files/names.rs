//! Names of ranks' files: their order, and what a name may be.

use std::cmp::Ordering;

use knarr_array::error::{Error, Result};

/// Orders names as people count: `rank_9` before `rank_10`. Names that differ only in leading zeros keep the order of
/// their bytes.
pub fn natural(a: &[u8], b: &[u8]) -> Ordering {
    let (mut left, mut right) = (a, b);
    loop {
        match (left.first(), right.first()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (one, rest_left) = digits(left);
                let (other, rest_right) = digits(right);
                // Without leading zeros the longer number is the larger one.
                let order = one.len().cmp(&other.len()).then(one.cmp(other));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (rest_left, rest_right);
            }
            (Some(x), Some(y)) if x != y => return x.cmp(y),
            _ => (left, right) = (left.get(1..).unwrap_or_default(), right.get(1..).unwrap_or_default()),
        }
    }
}

/// The number at the beginning of `text` without leading zeros, and what follows it.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let zeros = text.iter().take_while(|&&byte| byte == b'0').count();
    let (_, text) = text.split_at(zeros);
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// The name with every run of digits replaced by `#`: what numbered siblings have in common.
pub(crate) fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for part in name.chars() {
        if !part.is_ascii_digit() {
            out.push(part);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// Checks that a name stays below the directory it is restored into, whoever wrote the set.
///
/// # Errors
/// `Corrupt` for names that are empty, absolute, hold a NUL or a component `.` or `..`, or are longer than systems take.
pub(crate) fn check(name: &[u8]) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::corrupt(format!("the name '{}' {why}", name.escape_ascii()))
            .hint("the set is damaged or forged: restore it from a copy"))
    };
    if name.contains(&0) {
        return refuse("holds a NUL");
    }
    if name.len() > 4096 {
        return refuse("is longer than 4096 bytes");
    }
    match name.split(|&byte| byte == b'/').find(|part| matches!(*part, b"" | b"." | b"..") || part.len() > 255) {
        Some(_) => refuse("is no relative path below a directory"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_as_numbers() {
        let mut names = ["r10", "r9", "r09", "a", "r9b", "r", "r1.10", "r1.9", "r100000000000000000000000"];
        names.sort_by(|a, b| natural(a.as_bytes(), b.as_bytes()));
        assert_eq!(names, ["a", "r", "r1.9", "r1.10", "r09", "r9", "r9b", "r10", "r100000000000000000000000"]);
    }

    #[test]
    fn numbered_siblings_have_one_name() {
        assert_eq!(without_numbers("/Grid00000012/Density_v2"), "/Grid#/Density_v#");
    }

    #[test]
    fn only_names_below_a_directory_are_taken() {
        for good in ["a", "a/b c", "…/..x", "x..", " "] {
            check(good.as_bytes()).unwrap();
        }
        for bad in ["", "/a", "a/", "..", "a/../b", ".", "a//b", "a\0b", &"x".repeat(256)] {
            assert!(check(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
