//! What distinguishes a route: all that programs and the launcher ask of it beforehand is one row. What is done with the files
//! themselves lies with those who do it.

use std::fmt::Display;

use serde::de::value::MapDeserializer;
use serde::de::{self, DeserializeOwned};

/// What distinguishes a route.
#[derive(Debug)]
pub struct Traits {
    /// Its name in `knarr.toml`.
    pub word: &'static str,
    /// What it does with files, behind its name.
    pub(crate) does: &'static str,
    /// The keys of `[file.compress]` that it takes.
    pub(crate) compress: fn() -> &'static [&'static str],
    /// The keys that are its own, in the table that is called as the route is.
    pub(crate) own: fn() -> &'static [&'static str],
    /// Programs tell the launcher when they open such a file for writing and when they close it.
    pub is_told: bool,
    /// The launcher does something with the file once it is closed, by itself.
    pub is_done_when_closed: bool,
    /// Another file may take its place, so programs that open it wait at the gate.
    pub may_be_replaced: bool,
    /// Values of MPI programs are handed over in place of a file.
    pub is_handed_over: bool,
    /// Why `knarr repack` leaves such a file alone, behind the name of the route; `None` if it does not.
    pub not_repacked: Option<&'static str>,
    /// What to tell of a file that PnetCDF writes; `None` if there is nothing to tell.
    pub classic_is_left: Option<&'static str>,
}

/// Route `file`: nobody hears of the file, and it stays. Rows of others say in what they differ.
pub(super) const UNTOUCHED: Traits = Traits {
    word: "file",
    does: "leaves files as they are",
    compress: || &[],
    own: || &[],
    is_told: false,
    is_done_when_closed: false,
    may_be_replaced: false,
    is_handed_over: false,
    not_repacked: Some("it is to stay untouched"),
    classic_is_left: None,
};

/// The keys that a type has. Serde lists them in its error for an unknown key.
pub(super) fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
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
