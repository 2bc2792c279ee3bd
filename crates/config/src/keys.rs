//! The keys of a `[[file]]` as users write them. A key of a route stands in the table of the route, or in `[[file]]` itself,
//! which means the same. Which keys a route has is said by its row; no list besides names them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::misread::{located, misread};
use super::restart::NamePattern;
use super::routes::{CompressRule, OwnKeys, Route, Traits};
use super::rule::FileRule;

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
    let place = format!("[[file]] pattern '{pattern}'");
    let keys = Keys { text, route, span, flat, misplaced: DeTable::new() };
    let (compress, own) = keys.read().map_err(|error| error.at(place))?;
    Ok(FileRule { pattern, route, compress, own, directory: PathBuf::new(), place: None })
}

/// The keys of a rule that have not been read yet.
struct Keys<'t> {
    text: &'t str,
    route: Route,
    span: Range<usize>,
    flat: DeTable<'t>,
    /// Those of tables that do not have them.
    misplaced: DeTable<'t>,
}

/// The type of what has no keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoKeys {}

impl<'t> Keys<'t> {
    fn read(mut self) -> Result<(CompressRule, OwnKeys)> {
        let Traits { word, compress, own, .. } = *self.route.traits();
        let compress = match compress() {
            [] => CompressRule::default(),
            keys => {
                let table = self.take("compress", keys)?;
                self.parse(table)?
            }
        };
        let own = match own() {
            [] => OwnKeys::None,
            keys => {
                let table = self.take(word, keys)?;
                let named = DeTable::from_iter([(Spanned::new(self.span.clone(), word.into()), table)]);
                self.parse(self.table(named))?
            }
        };
        let mut rest = std::mem::take(&mut self.flat);
        rest.extend(std::mem::take(&mut self.misplaced));
        self.parse::<NoKeys>(self.table(rest)).map(|NoKeys {}| (compress, own))
    }

    fn table(&self, keys: DeTable<'t>) -> Spanned<DeValue<'t>> {
        Spanned::new(self.span.clone(), DeValue::Table(keys))
    }

    /// These keys: those in the table of this name, and those in `[[file]]` itself.
    fn take(&mut self, table: &str, keys: &[&str]) -> Result<Spanned<DeValue<'t>>> {
        let found = match self.flat.remove(table).map(|value| (value.span(), value.into_inner())) {
            Some((_, DeValue::Table(found))) => found,
            // Parsing refuses it.
            Some((span, other)) => return Ok(Spanned::new(span, other)),
            None => DeTable::new(),
        };
        let (mut taken, others): (DeTable<'t>, DeTable<'t>) =
            found.into_iter().partition(|(name, _)| keys.contains(&&**name.get_ref()));
        self.misplaced.extend(others);
        for key in keys {
            let Some((name, value)) = self.flat.remove_entry(*key) else { continue };
            if taken.insert(name, value).is_some() {
                let what = format!("'{key}' is there twice: in [[file]], and in [file.{table}]");
                return Err(Error::new(ErrorKind::Config, what).hint("keep one of them"));
            }
        }
        Ok(self.table(taken))
    }

    fn parse<T: DeserializeOwned>(&self, value: Spanned<DeValue<'_>>) -> Result<T> {
        let keys = value.get_ref().as_table().into_iter().flat_map(|table| table.keys());
        let names: Vec<(Range<usize>, String)> = keys.map(|key| (key.span(), key.to_string())).collect();
        T::deserialize(value.into_deserializer()).map_err(|error| {
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
    let Traits { compress, own, .. } = route.traits();
    [own(), compress()].concat()
}
