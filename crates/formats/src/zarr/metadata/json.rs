//! JSON as Zarr stores have it: with bare `NaN` and `Infinity`, which Python writes and JSON forbids, and whole numbers
//! of any length.

use knarr_array::{Error, ErrorKind, Result};
use knarr_flow::read_store::{Part, ReadStore};
use serde_json::{Map, Value};

/// Longest metadata document that is read.
const LONGEST: u64 = 256 << 20;

/// What a bare `NaN`, `Infinity` or `-Infinity`, or a whole number of more than 64 bits, becomes: a string that starts
/// with this.
const BARE: char = '\0';

/// Reads and parses a document; `None` if there is no such object.
pub(in crate::zarr) fn read(store: &dyn ReadStore, key: &str) -> Result<Option<Value>> {
    let mut text = Vec::new();
    let Some(held) = store.get(key, Part::Whole { most: LONGEST }, &mut text)? else { return Ok(None) };
    if held > LONGEST {
        return Err(Error::new(ErrorKind::Corrupt, "metadata of more than 256 MiB").at(key));
    }
    parse(&text).map(Some).map_err(|error| {
        Error::corrupt(format!("no valid JSON: {error}")).hint("restore the store from a copy").at(key)
    })
}

/// Parses JSON in which numbers may be `NaN`, `Infinity` or `-Infinity`, and whole numbers of any length.
pub(in crate::zarr) fn parse(text: &[u8]) -> Result<Value, serde_json::Error> {
    // Only documents that are not JSON, or hold what a parser would round, need the detour.
    let is_long = |run: &[u8]| run.len() >= LONG;
    if text.split(|byte| !byte.is_ascii_digit()).any(is_long) {
        return serde_json::from_slice(quote_bare(text).as_deref().unwrap_or(text));
    }
    serde_json::from_slice(text).or_else(|error| match quote_bare(text) {
        Some(quoted) => serde_json::from_slice(&quoted),
        None => Err(error),
    })
}

/// Digits from which on a whole number may take more than 64 bits.
const LONG: usize = 19;

/// The text of a document, the reverse of [`parse`].
pub(in crate::zarr) fn text(document: &Value) -> String {
    unquote_bare(&document.to_string())
}

/// As [`text`], with a line for each item.
pub(in crate::zarr) fn pretty(document: &Map<String, Value>) -> Result<String> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Error::internal(error.to_string()))?;
    Ok(unquote_bare(&text))
}

/// A number as attributes hold it: what JSON has no words for is bare, as zarr-python and xarray write it.
pub(in crate::zarr) fn number(value: f64) -> Value {
    let word = match value {
        value if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        value => return Value::from(value),
    };
    Value::from(format!("{BARE}{word}"))
}

/// True for a string that stands for something bare.
pub(in crate::zarr) fn is_bare(text: &str) -> bool {
    text.strip_prefix(BARE).is_some_and(|word| non_finite(word).is_some() || is_wide(word))
}

/// True for a whole number of more than 64 bits.
fn is_wide(word: &str) -> bool {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_whole = digits.len() >= LONG && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole && word.parse::<i64>().is_err() && word.parse::<u64>().is_err()
}

/// Turns whole numbers of more than 64 bits into the nearest doubles: in what describes an array they are fill values
/// of floating-point numbers.
pub(in crate::zarr) fn round_wide(value: &mut Value) {
    match value {
        Value::String(text) => {
            let wide = text.strip_prefix(BARE).filter(|word| is_wide(word));
            if let Some(number) = wide.and_then(|word| word.parse::<f64>().ok()) {
                *value = Value::from(number);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(round_wide),
        Value::Object(map) => map.values_mut().for_each(round_wide),
        _ => {}
    }
}

/// The value that a string made from a bare word stands for.
pub(in crate::zarr) fn bare_number(text: &str) -> Option<f64> {
    text.strip_prefix(BARE).and_then(non_finite)
}

/// The number that Zarr spells as a string.
pub(in crate::zarr) fn non_finite(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Turns strings made from bare words into the strings that Zarr uses for such numbers.
pub(in crate::zarr) fn spell(value: &mut Value) {
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
        let begins = |word: &&&[u8]| text[at..].starts_with(word);
        let word = WORDS.iter().filter(|_| !in_string).find(begins).copied().or_else(|| wide_at(text, at, in_string));
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

/// The whole number of more than 64 bits that begins at `at`.
fn wide_at(text: &[u8], at: usize, in_string: bool) -> Option<&[u8]> {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    if in_string || before.is_some_and(is_part) {
        return None;
    }
    let rest = text.get(at..)?;
    let word = rest.get(..rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len()))?;
    std::str::from_utf8(word).is_ok_and(is_wide).then_some(word)
}

/// The reverse of [`quote_bare`] for JSON that was made here.
fn unquote_bare(text: &str) -> String {
    const QUOTED: &str = "\"\\u0000";
    let mut bare = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('"') {
        let (before, string) = rest.split_at(start);
        let mut escaped = false;
        let end = string.char_indices().skip(1).find(|(_, character)| {
            let ends = *character == '"' && !escaped;
            escaped = *character == '\\' && !escaped;
            ends
        });
        let (string, after) = string.split_at(end.map_or(string.len(), |(end, _)| end + 1));
        let word = string.strip_prefix(QUOTED).and_then(|word| word.strip_suffix('"'));
        bare.push_str(before);
        bare.push_str(word.filter(|word| non_finite(word).is_some() || is_wide(word)).unwrap_or(string));
        rest = after;
    }
    bare.push_str(rest);
    bare
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

    #[test]
    fn documents_come_back_with_what_json_has_no_words_for() {
        let written = concat!(
            r#"{"a":NaN,"b":[-Infinity,1.5,-9223372036854775809],"c":"\"NaN 99999999999999999999","#,
            r#""d":1180591620717411303424,"e":18446744073709551615,"f":"\\"}"#
        );
        let value = parse(written.as_bytes()).unwrap();
        assert!(is_bare(value["d"].as_str().unwrap()) && is_bare(value["b"][2].as_str().unwrap()));
        assert_eq!(value["e"], u64::MAX);
        assert_eq!(text(&value), written);
        assert_eq!(parse(pretty(value.as_object().unwrap()).unwrap().as_bytes()).unwrap(), value);
        let mut rounded = value;
        round_wide(&mut rounded);
        assert_eq!(rounded["d"], 1_180_591_620_717_411_303_424.0);
        assert_eq!(parse(b"[12345678901234567890.5, 1e30]").unwrap()[1], 1e30);
        assert_eq!(number(f64::NAN), parse(b"NaN").unwrap());
    }
}
