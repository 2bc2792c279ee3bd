//! The keys of a `[[file]]` as users write them. A key of a route stands in the table of the route, or in `[[file]]` itself,
//! which means the same. The keys that a route has are those of its type; no other list names them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use serde::de::{self, DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::checkpoint::CheckpointRule;
use super::compress::{CompressRule, EstimateKeys, KeptKeys, StagedKeys};
use super::misread::{located, misread};
use super::restart::NamePattern;
use super::route::{Route, Traits};
use super::rule::{FileRule, RouteRule};
use super::stage::StageRule;
use super::transfer::TransferRule;

/// What every rule has.
#[derive(Deserialize)]
#[serde(expecting = "a table of keys")]
struct Head {
    pattern: NamePattern,
    #[serde(default)]
    route: Route,
}

/// The rule that one `[[file]]` of the configuration `text` stands for.
///
/// # Errors
/// `Config` for keys that the route does not have or that are given twice, and for values that cannot be.
pub(super) fn rule(text: &str, file: Spanned<DeValue<'_>>) -> Result<FileRule> {
    let span = file.span();
    let head = Head::deserialize(file.clone().into_deserializer()).map_err(|error| misread(text, error))?;
    let Head { pattern, route } = head;
    let mut flat = match file.into_inner() {
        DeValue::Table(keys) => keys,
        _ => DeTable::new(),
    };
    flat.remove("pattern");
    flat.remove("route");
    let keys = Keys { text, route, span, flat };
    let place = format!("[[file]] pattern '{pattern}'");
    let keys = keys.read().map_err(|error| error.at(place))?;
    Ok(FileRule { keys, pattern, directory: PathBuf::new(), place: None })
}

/// The keys of a rule that have not been read yet.
struct Keys<'t> {
    text: &'t str,
    route: Route,
    span: Range<usize>,
    flat: DeTable<'t>,
}

/// The type of what has no keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

impl Keys<'_> {
    fn read(mut self) -> Result<RouteRule> {
        let rule = match self.route {
            Route::Compress => RouteRule::Compress(self.take("compress")?),
            // So that a trial ends by changing one word.
            Route::Estimate => RouteRule::Estimate(self.take::<EstimateKeys>("compress")?.into()),
            Route::File => RouteRule::File,
            Route::Checkpoint => RouteRule::Checkpoint(self.take("checkpoint")?),
            Route::Transfer => {
                // A file that is kept of a transfer is compressed.
                let kept = self.take::<KeptKeys>("compress")?.into();
                RouteRule::Transfer(self.take("transfer")?, kept)
            }
            Route::Stage => {
                let keys = self.take::<StagedKeys>("compress")?.into();
                RouteRule::Stage(self.take("stage")?, keys)
            }
        };
        let rest = std::mem::take(&mut self.flat);
        self.parse::<NoKeys>(rest).map(|NoKeys {}| rule)
    }

    /// The keys that `T` has: those in the table of this name, and those in `[[file]]` itself.
    fn take<T: DeserializeOwned>(&mut self, table: &str) -> Result<T> {
        let mut keys = match self.flat.remove(table).map(|value| (value.span(), value.into_inner())) {
            Some((_, DeValue::Table(keys))) => keys,
            Some((span, other)) => {
                let value = Spanned::new(span, other).into_deserializer();
                return T::deserialize(value).map_err(|error| misread(self.text, error));
            }
            None => DeTable::new(),
        };
        for key in keys_of::<T>() {
            let Some((name, value)) = self.flat.remove_entry(*key) else { continue };
            if keys.insert(name, value).is_some() {
                let what = format!("'{key}' is there twice: in [[file]], and in [file.{table}]");
                return Err(Error::new(ErrorKind::Config, what).hint("keep one of them"));
            }
        }
        self.parse(keys)
    }

    fn parse<T: DeserializeOwned>(&self, keys: DeTable<'_>) -> Result<T> {
        let names: Vec<(Range<usize>, String)> = keys.keys().map(|key| (key.span(), key.to_string())).collect();
        let table = Spanned::new(self.span.clone(), DeValue::Table(keys));
        T::deserialize(table.into_deserializer()).map_err(|error| {
            let is_it = |(span, _): &&(Range<usize>, String)| Some(span) == error.span().as_ref();
            let unknown = names.iter().find(is_it).filter(|_| error.message().starts_with("unknown field"));
            match unknown {
                Some((_, key)) => {
                    let (what, hint) = refused(self.route, key);
                    located(self.text, error, &what).hint(hint)
                }
                None => misread(self.text, error),
            }
        })
    }
}

/// The message and the hint for a key that a route does not have.
fn refused(route: Route, key: &str) -> (String, String) {
    let Traits { word, does, .. } = *route.traits();
    let has = |other: &&Route| keys_of_route(**other).contains(&key) || other.traits().word == key;
    let others: Vec<&str> = Route::ALL.iter().filter(has).map(|other| other.traits().word).collect();
    let own = keys_of_route(route);
    let listed = |keys: &[&str]| keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let expected = if own.is_empty() { String::new() } else { format!("; expected one of {}", listed(&own)) };
    if others.is_empty() {
        let rest = Route::ALL.into_iter().flat_map(keys_of_route).filter(|key| !own.contains(key));
        let rest: Vec<&str> = rest.collect::<BTreeSet<_>>().into_iter().collect();
        let what = format!("unknown key '{key}' of route \"{word}\"{expected}; other routes have {}", listed(&rest));
        return (what, "the keys are described in docs/cli.md".to_owned());
    }
    let routes = others.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
    let (what, it) = match others.as_slice() {
        [table] if *table == key => (format!("the keys of [file.{key}] are"), "the table".to_owned()),
        _ => (format!("'{key}' is"), format!("'{key}'")),
    };
    let what = format!("route = \"{word}\" {does}: {what} for route {routes}{expected}");
    (what, format!("set route = {routes}, or remove {it}"))
}

/// The keys that rules of a route may have.
fn keys_of_route(route: Route) -> Vec<&'static str> {
    match route {
        Route::Compress => keys_of::<CompressRule>().to_vec(),
        Route::Estimate => keys_of::<EstimateKeys>().to_vec(),
        Route::File => Vec::new(),
        Route::Checkpoint => keys_of::<CheckpointRule>().to_vec(),
        Route::Transfer => [keys_of::<TransferRule>(), keys_of::<KeptKeys>()].concat(),
        Route::Stage => [keys_of::<StageRule>(), keys_of::<StagedKeys>()].concat(),
    }
}

/// The keys that a type has. Serde lists them in its error for an unknown key.
fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let nothing = MapDeserializer::<_, Expected>::new(std::iter::once(("", ())));
    T::deserialize(nothing).err().map_or(&[], |Expected(keys)| keys)
}

/// The keys that a type would have taken.
#[derive(Debug)]
struct Expected(&'static [&'static str]);

impl Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Expected {}

impl de::Error for Expected {
    fn custom<T: Display>(_: T) -> Self {
        Self(&[])
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}
