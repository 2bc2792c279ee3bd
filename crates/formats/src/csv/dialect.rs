//! What separates the values of a table: found from its first lines.

use std::path::Path;

use knarr_array::{Error, Result};

/// Lines that begin so are comments.
const COMMENT: char = '#';

/// A line without its end; `None` if it is empty or a comment. Tabs count: they may separate missing values.
pub(super) fn content(line: &str) -> Option<&str> {
    let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']).trim_matches(' ');
    (!line.is_empty() && !line.starts_with(COMMENT)).then_some(line)
}

/// What stands between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One character; values may be quoted.
    Byte(u8),
    /// Any number of spaces and tabs.
    Spaces,
}

/// Suffixes of files that may be tables.
const SUFFIXES: [&str; 5] = ["csv", "tsv", "txt", "dat", "asc"];
/// Lines that are looked at.
const LINES: usize = 50;

/// True if `path` is called like a table and `head`, its first bytes, are text.
pub(super) fn is_table(path: &Path, head: &[u8]) -> bool {
    let suffix = path.extension().map(|suffix| suffix.to_string_lossy().to_lowercase()).unwrap_or_default();
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut at the end.
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or(""),
        Err(_) => return false,
    };
    SUFFIXES.contains(&suffix.as_str()) && !text.chars().any(|c| c.is_control() && !c.is_ascii_whitespace())
}

/// True for names that say what the file is: a table.
pub(super) fn is_named_as_table(path: &Path) -> bool {
    path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("csv") || suffix.eq_ignore_ascii_case("tsv"))
}

/// The separator that outputs of this name have.
pub(super) fn separator_of(path: &Path) -> u8 {
    if path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("tsv")) { b'\t' } else { b',' }
}

/// The separator that most of the first lines agree on.
///
/// # Errors
/// `Corrupt` if `head`, which is not all of the file, holds no end of line.
pub(super) fn separator(head: &[u8], is_whole: bool) -> Result<Separator> {
    let text = String::from_utf8_lossy(head);
    let text = match text.rfind('\n') {
        Some(end) if !is_whole => text.get(..end).unwrap_or_default(),
        None if !is_whole => {
            return Err(Error::corrupt(format!(
                "no line ends within the first {} bytes: this is no table",
                head.len()
            )));
        }
        _ => &text,
    };
    let lines: Vec<&str> = text.lines().filter_map(content).take(LINES).collect();
    let agreeing = |separator: u8| {
        let count = |line: &str| outside_quotes(line).filter(|byte| *byte == separator).count();
        let first = lines.first().map_or(0, |line| count(line));
        if first == 0 { 0 } else { lines.iter().filter(|line| count(line) == first).count() }
    };
    let found = [b',', b';', b'\t'].into_iter().rev().max_by_key(|separator| agreeing(*separator));
    Ok(match found {
        Some(separator) if agreeing(separator) > 0 => Separator::Byte(separator),
        _ if lines.iter().any(|line| line.contains([' ', '\t'])) && !lines.iter().any(|line| line.contains('"')) => {
            Separator::Spaces
        }
        _ => Separator::Byte(b','),
    })
}

fn outside_quotes(line: &str) -> impl Iterator<Item = u8> {
    line.bytes().scan(false, |is_quoted, byte| {
        *is_quoted ^= byte == b'"';
        Some(if *is_quoted { b'"' } else { byte })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_is_what_lines_agree_on() {
        for (text, wanted) in [
            ("a,b\n1,2\n", Separator::Byte(b',')),
            ("1;2;3\n4;5;6", Separator::Byte(b';')),
            ("a, x;b, y\n1;2\n3;4\n", Separator::Byte(b';')),
            ("\"a;b\",c\n1,2\n", Separator::Byte(b',')),
            ("1\t2\n3\t4\n", Separator::Byte(b'\t')),
            ("# 1,2,3\n 1  2\n3 4\n", Separator::Spaces),
            ("1\n2\n", Separator::Byte(b',')),
            ("1,2,3\n4,5\n", Separator::Byte(b',')),
            ("", Separator::Byte(b',')),
        ] {
            assert_eq!(separator(text.as_bytes(), true).unwrap(), wanted, "{text:?}");
        }
        assert!(separator(b"1,2,3", false).is_err());
    }

    #[test]
    fn tables_are_text_with_a_name_that_says_so() {
        assert!(is_table(Path::new("a.CSV"), "é,1\n".as_bytes()) && is_table(Path::new("a.txt"), b""));
        assert!(is_table(Path::new("a.csv"), &"é".as_bytes()[..1]));
        for (path, head) in
            [("a.bin", &b"1,2"[..]), ("a.csv", b"\x89HDF\r\n"), ("a.csv", b"1,\x002"), ("a.txt", b"\xFF")]
        {
            assert!(!is_table(Path::new(path), head), "{path} {head:?}");
        }
    }
}
