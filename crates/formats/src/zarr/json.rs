//! JSON as Zarr stores have it: with bare `NaN` and `Infinity`, which Python writes and JSON forbids.

use knarr_core::{Error, ErrorKind, Result};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Longest metadata document that is read.
const LONGEST: u64 = 256 << 20;

/// What a bare `NaN`, `Infinity` or `-Infinity` becomes: a string that starts with this.
const BARE: char = '\0';

/// Reads and parses a document; `None` if there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<Value>> {
    let read_error = |error: std::io::Error| Error::read(path, &error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(read_error(error)),
    };
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text).map_err(read_error)?;
    if text.len() as u64 > LONGEST {
        return Err(Error::new(ErrorKind::Corrupt, "metadata of more than 256 MiB").at(path.display().to_string()));
    }
    parse(&text).map(Some).map_err(|error| {
        Error::corrupt(format!("no valid JSON: {error}"))
            .mend("restore the store from a copy")
            .at(path.display().to_string())
    })
}

/// Parses JSON in which numbers may be `NaN`, `Infinity` or `-Infinity`.
pub(super) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    // Strict first: only documents that are not JSON need the detour.
    serde_json::from_slice(text).or_else(|error| match quote_bare(text) {
        Some(quoted) => serde_json::from_slice(&quoted),
        None => Err(error),
    })
}

/// The value that a string made from a bare word stands for.
pub(super) fn bare_number(text: &str) -> Option<f64> {
    text.strip_prefix(BARE).and_then(non_finite)
}

/// The number that Zarr spells as a string.
pub(super) fn non_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Turns strings made from bare words into the strings that Zarr uses for such numbers.
pub(super) fn spell(value: &mut Value) {
    match value {
        Value::String(text) if bare_number(text).is_some() => {
            text.remove(0);
        }
        Value::Array(items) => items.iter_mut().for_each(spell),
        Value::Object(map) => map.values_mut().for_each(spell),
        _ => {}
    }
}

fn quote_bare(text: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let mut quoted = Vec::with_capacity(text.len() + 64);
    let (mut at, mut in_string, mut found) = (0, false, false);
    while let Some(&byte) = text.get(at) {
        let word = WORDS.iter().find(|word| !in_string && text[at..].starts_with(word));
        if let Some(word) = word {
            quoted.extend_from_slice(b"\"\\u0000");
            quoted.extend_from_slice(word);
            quoted.push(b'"');
            at += word.len();
            found = true;
            continue;
        }
        quoted.push(byte);
        at += 1;
        if in_string && byte == b'\\' {
            quoted.extend(text.get(at));
            at += 1;
        } else if byte == b'"' {
            in_string = !in_string;
        }
    }
    found.then_some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_words_are_numbers_and_strings_stay_strings() {
        let value = parse(br#"{"a": NaN, "b": [-Infinity, Infinity, 1], "c": "NaN \" NaN", "NaN": "NaN"}"#).unwrap();
        assert!(bare_number(value["a"].as_str().unwrap()).unwrap().is_nan());
        assert_eq!(bare_number(value["b"][0].as_str().unwrap()), Some(f64::NEG_INFINITY));
        assert_eq!(value["c"], "NaN \" NaN");
        assert_eq!(value["NaN"], "NaN");
        let mut spelled = value;
        spell(&mut spelled);
        assert_eq!(spelled["b"][1], "Infinity");
        assert!(parse(b"{\"a\": NaNo}").is_err() && parse(b"{").is_err());
    }
}
