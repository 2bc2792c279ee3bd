//! The keys of a `[[file]]` as users write them. A key of a route stands in the table of the route, or in `[[file]]` itself,
//! which means the same.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use knarr_array::error::{Error, ErrorKind, Result};
use knarr_array::libver::Release;
use knarr_checkpoint::Scheme;
use serde::Deserialize;

use super::checkpoint::CheckpointRule;
use super::compress::{CompressRule, Output, VariableRule, Wait, When};
use super::restart::{NamePattern, Ranks, Time};
use super::route::Route;
use super::rule::FileRule;
use super::transfer::{InFlight, Publish, TransferRule, WhenLate};

/// All of them, under the names that users give them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileKeys {
    pub(super) pattern: NamePattern,
    #[serde(default)]
    route: Route,
    compress: Option<CompressRule>,
    checkpoint: Option<CheckpointRule>,
    transfer: Option<TransferRule>,
    // Of the route that the rule has.
    goal: Option<String>,
    keep: Option<KeepKey>,
    // Of the route `compress`.
    when: Option<When>,
    portable: Option<String>,
    low: Option<Release>,
    high: Option<Release>,
    output: Option<Output>,
    wait: Option<Wait>,
    variables: Option<BTreeMap<String, VariableRule>>,
    // Of the route `checkpoint`.
    group_size: Option<usize>,
    scheme: Option<Scheme>,
    block_size: Option<u64>,
    similar: Option<Vec<String>>,
    bundle_below: Option<u64>,
    copies: Option<u8>,
    ranks: Option<Ranks>,
    sets: Option<PathBuf>,
    remove_originals: Option<bool>,
    settle: Option<Time>,
    // Of the route `transfer`.
    from: Option<String>,
    to: Option<Vec<String>>,
    publish: Option<Publish>,
    every: Option<NonZeroU64>,
    exclude: Option<Vec<NamePattern>>,
    replay: Option<bool>,
    write_only: Option<bool>,
    in_flight: Option<InFlight>,
    when_late: Option<WhenLate>,
    timeout: Option<Time>,
    rendezvous: Option<PathBuf>,
}

/// `keep`, which two routes have.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a nonzero number, of the newest sets that stay; for route \"transfer\": true or false")]
enum KeepKey {
    Sets(NonZeroU32),
    File(bool),
}

/// Moves keys that stand in `[[file]]` itself into the table of a route.
macro_rules! move_into {
    ($table:ident: $($keys:ident.$key:ident),*) => {
        $(put(&mut $table.$key, $keys.$key, stringify!($key), stringify!($table))?;)*
    };
}

impl FileKeys {
    /// The rule that they stand for.
    ///
    /// # Errors
    /// `Config` for keys that are given twice, and for the table of another route.
    pub(super) fn into_rule(self) -> Result<FileRule> {
        let keys = self;
        for (there, table) in [
            (keys.compress.is_some(), "compress"),
            (keys.checkpoint.is_some(), "checkpoint"),
            (keys.transfer.is_some(), "transfer"),
        ] {
            if there && !keys.route.traits().tables.contains(&table) {
                let what = format!("the keys of [file.{table}] are for route \"{table}\"");
                return Err(
                    Error::new(ErrorKind::Config, what).hint(format!("set route = \"{table}\", or remove the table"))
                );
            }
        }
        let mut compress = keys.compress.unwrap_or_default();
        let mut checkpoint = keys.checkpoint.unwrap_or_default();
        let mut transfer = keys.transfer.unwrap_or_default();
        if keys.route == Route::Checkpoint {
            move_into!(checkpoint: keys.goal);
        } else {
            move_into!(compress: keys.goal);
        }
        move_into!(compress: keys.when, keys.portable, keys.low, keys.high, keys.output, keys.wait, keys.variables);
        move_into!(checkpoint: keys.group_size, keys.scheme, keys.block_size, keys.similar, keys.bundle_below);
        move_into!(checkpoint: keys.copies, keys.ranks, keys.sets, keys.remove_originals, keys.settle);
        move_into!(transfer: keys.from, keys.to, keys.publish, keys.every, keys.exclude, keys.replay, keys.write_only, keys.in_flight, keys.when_late, keys.timeout, keys.rendezvous);
        match keys.keep {
            Some(KeepKey::Sets(sets)) => put(&mut checkpoint.keep, Some(sets), "keep", "checkpoint")?,
            Some(KeepKey::File(keep)) => put(&mut transfer.keep, Some(keep), "keep", "transfer")?,
            None => {}
        }
        Ok(FileRule {
            pattern: keys.pattern,
            route: keys.route,
            compress,
            checkpoint,
            transfer,
            directory: PathBuf::new(),
        })
    }
}

/// Puts a value that is given into its place, which has to be free.
fn put<T>(place: &mut Option<T>, given: Option<T>, key: &str, table: &str) -> Result<()> {
    if given.is_none() {
        return Ok(());
    }
    if place.is_some() {
        let what = format!("'{key}' is there twice: in [[file]], and in [file.{table}]");
        return Err(Error::new(ErrorKind::Config, what).hint("keep one of them"));
    }
    *place = given;
    Ok(())
}
