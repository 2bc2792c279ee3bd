//! Hints as text, for configuration files and logs: `max_abs_error=0.01 goal=ratio chain='shuffle | zstd:3'`.
//!
//! Items are `key = value`, separated by blanks, line ends or `;`. Values with blanks or `;` stand in quotes. `#` begins
//! a comment. The words are those of `knarr.toml`.

use knarr_array::quality::Quality;
use knarr_array::{Error, Result};
use std::fmt::Write;

use crate::hints::{set_words, stated, words};
use crate::types::{knarr_hints, knarr_speed_unit};

const UNITS: [(i32, &str); 3] = [
    (knarr_speed_unit::KNARR_MB_PER_SECOND as i32, "MB/s"),
    (knarr_speed_unit::KNARR_TIMES_NETWORK as i32, "*network"),
    (knarr_speed_unit::KNARR_TIMES_STORAGE as i32, "*storage"),
];

/// Sets what `text` states; the rest stays. Nothing is set if anything is wrong.
///
/// # Errors
/// `Usage` naming the item.
pub(crate) fn set(hints: &mut knarr_hints, text: &str) -> Result<()> {
    let mut changed = *hints;
    each(text, |key, value| set_one(&mut changed, key, value).map_err(|error| error.at(format!("hint '{key}'"))))?;
    *hints = changed;
    Ok(())
}

/// Hands key and value of every item to `take`.
///
/// # Errors
/// `Usage` for what is no item; the first one of `take`.
pub(crate) fn each(text: &str, mut take: impl FnMut(&str, &str) -> Result<()>) -> Result<()> {
    let mut rest = skip(text);
    while !rest.is_empty() {
        let (key, value, after) = item(rest)?;
        take(key, value)?;
        rest = skip(after);
    }
    Ok(())
}

/// Leaves out blanks, separators and comments.
fn skip(text: &str) -> &str {
    let rest = text.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    match rest.strip_prefix('#') {
        Some(comment) => skip(comment.split_once('\n').map_or("", |(_, next)| next)),
        None => rest,
    }
}

/// Key, value, and what follows.
fn item(text: &str) -> Result<(&str, &str, &str)> {
    let wrong = |what: &str| {
        let line = text.lines().next().unwrap_or_default();
        Error::usage(format!("'{line}': {what}")).hint("write hints like: max_abs_error=0.01 goal=ratio")
    };
    let (key, value) = text.split_once('=').ok_or_else(|| wrong("there is no '='"))?;
    let (key, value) = (key.trim_end(), value.trim_start_matches([' ', '\t']));
    if key.is_empty() || key.contains(|c: char| c.is_whitespace() || c == ';') {
        return Err(wrong("there is no '=' behind the first word"));
    }
    if let Some(quote) = value.chars().next().filter(|&first| first == '"' || first == '\'') {
        let (quoted, after) =
            value.get(1..).and_then(|rest| rest.split_once(quote)).ok_or_else(|| wrong("a quote is not closed"))?;
        return Ok((key, quoted, after));
    }
    let end = value.find(|c: char| c.is_whitespace() || c == ';' || c == '#').unwrap_or(value.len());
    let (value, after) = value.split_at(end);
    if value.is_empty() { Err(wrong("there is no value")) } else { Ok((key, value, after)) }
}

fn set_one(hints: &mut knarr_hints, key: &str, value: &str) -> Result<()> {
    match key {
        "fill_value" => hints.fill_value = number(value)?,
        "encode_speed" => (hints.encode_speed, hints.encode_unit) = speed(value)?,
        "decode_speed" => (hints.decode_speed, hints.decode_unit) = speed(value)?,
        "network_speed" => hints.network_speed = megabytes(value)?,
        "storage_speed" => hints.storage_speed = megabytes(value)?,
        "goal" => set_words(key, &mut hints.goal, value)?,
        "chain" => set_words(key, &mut hints.chain, value)?,
        "profile" => set_words(key, &mut hints.profile, value)?,
        "quality" => hints.set_quality(&value.parse()?),
        _ => {
            let mut quality = hints.quality()?;
            quality.set(key, value)?;
            hints.set_quality(&quality);
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<f64> {
    text.parse().map_err(|_| Error::usage(format!("'{text}' is not a number")))
}

/// Number and unit: `300`, `300MB/s`, `2*network`, `0.5*storage`.
fn speed(text: &str) -> Result<(f64, i32)> {
    let found = UNITS.iter().find_map(|(unit, suffix)| Some((text.strip_suffix(suffix)?, *unit)));
    let (value, unit) = found.unwrap_or((text, knarr_speed_unit::KNARR_MB_PER_SECOND as i32));
    let value = number(value.trim_end()).map_err(|error| error.hint("write 300MB/s, 2*network or 0.5*storage"))?;
    Ok((value, unit))
}

fn megabytes(text: &str) -> Result<f64> {
    number(text.strip_suffix("MB/s").unwrap_or(text).trim_end()).map_err(|error| error.hint("write it like 1200MB/s"))
}

/// What is stated, as [`set`] takes it.
///
/// # Errors
/// `Usage` for fields without a meaning.
pub(crate) fn print(hints: &knarr_hints) -> Result<String> {
    let mut items = String::new();
    let mut put = |key: &str, value: String| {
        let separator = if items.is_empty() { "" } else { " " };
        // Writing to a string does not fail.
        let _ = write!(items, "{separator}{key}={value}");
    };
    let quality = hints.quality()?;
    if quality != Quality::LOSSLESS {
        for part in quality.to_string().split(", ") {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            put(key, value.to_owned());
        }
    }
    if let Some(fill) = stated(hints.fill_value) {
        put("fill_value", format!("{fill:?}"));
    }
    let speeds = [
        ("encode_speed", hints.encode_speed, hints.encode_unit),
        ("decode_speed", hints.decode_speed, hints.decode_unit),
        ("network_speed", hints.network_speed, knarr_speed_unit::KNARR_MB_PER_SECOND as i32),
        ("storage_speed", hints.storage_speed, knarr_speed_unit::KNARR_MB_PER_SECOND as i32),
    ];
    for (key, speed, unit) in speeds {
        let Some(speed) = stated(speed) else { continue };
        let suffix = UNITS.iter().find(|(known, _)| *known == unit).map(|(_, suffix)| suffix);
        let suffix = suffix.ok_or_else(|| Error::usage(format!("{key} has the unknown unit {unit}")))?;
        put(key, format!("{speed}{suffix}"));
    }
    for (key, field) in [("goal", &hints.goal[..]), ("chain", &hints.chain), ("profile", &hints.profile)] {
        if let Some(text) = words(key, field)? {
            let quote = if text.contains('"') { '\'' } else { '"' };
            put(key, format!("{quote}{text}{quote}"));
        }
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(text: &str) -> Result<knarr_hints> {
        let mut hints = knarr_hints::UNSTATED;
        set(&mut hints, text).map(|()| hints)
    }

    #[test]
    fn text_comes_back() {
        let text = "max_abs_error=0.01 significant_digits=4 exact_up_to=-0.5 exact_from=1e3 fill_value=1e20 \
                    encode_speed=2*network decode_speed=300 network_speed=1200MB/s # a comment; goal=none\n \
                    goal = archive;chain='shuffle | zstd:3' profile=\"/a b.json\"";
        let found = hints(text).unwrap();
        assert_eq!((found.max_abs_error, found.significant_digits, found.exact_up_to), (0.01, 4, -0.5));
        assert_eq!((found.encode_speed, found.encode_unit, found.network_speed), (2.0, 1, 1200.0));
        assert_eq!(words("chain", &found.chain).unwrap().unwrap(), "shuffle | zstd:3");
        let printed = print(&found).unwrap();
        assert_eq!(print(&hints(&printed).unwrap()).unwrap(), printed);
        assert_eq!(found.options().unwrap().goal.to_string(), "archive,encode>=2400MB/s,decode>=300MB/s");
        assert_eq!(print(&knarr_hints::UNSTATED).unwrap(), "");
        assert_eq!(print(&hints("quality='max_rel_error=0.5'").unwrap()).unwrap(), "max_rel_error=0.5");
        assert_eq!(print(&hints("max_abs_error=1 quality=lossless").unwrap()).unwrap(), "");
    }

    #[test]
    fn mistakes_are_named_and_change_nothing() {
        for text in [
            "max_abs_error",
            "=1",
            "goal=",
            "goal = ;",
            "goal='ratio",
            "tolerance=0.1",
            "max_abs_error=x",
            "significant_bits=-3",
            "two words=1",
            "encode_speed=2*tape",
            "network_speed=2*network",
            &format!("goal={}", "x".repeat(128)),
        ] {
            let mut hints = knarr_hints::UNSTATED;
            assert!(set(&mut hints, &format!("max_rel_error=0.1 {text}")).is_err(), "{text}");
            assert!(hints.max_rel_error.is_nan(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for text in [
            "encode_speed=2*storage",
            "encode_speed=-1",
            "encode_speed=2*network network_speed=0",
            "goal=fastest",
            "max_abs_error=0",
            "exact_from=5",
            "significant_bits=0",
        ] {
            let error = hints(text).unwrap().options().unwrap_err();
            assert!(error.advice().is_some(), "{text}: {error}");
        }
        let mut wrong = knarr_hints::UNSTATED;
        wrong.significant_bits = -2;
        assert!(wrong.options().is_err());
        wrong = hints("encode_speed=1").unwrap();
        wrong.encode_unit = 7;
        assert!(wrong.options().is_err() && print(&wrong).is_err());
        wrong = knarr_hints::UNSTATED;
        wrong.goal = [65; 128];
        assert!(wrong.options().is_err());
    }
}
