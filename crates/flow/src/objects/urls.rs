//! Inputs and outputs at URLs: which schemes there are, and what opens a store at one.

use std::path::Path;
use std::sync::Arc;

use knarr_array::error::Result;

use crate::objects::mutable_store::MutableStore;
use crate::objects::read_store::ReadStore;
use crate::output::Store;

/// The URL that was given in place of a path: `s3://bucket/a.zarr`. Paths carry URLs as they were typed.
pub fn url_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_scheme.then_some(text)
}

/// Schemes of URLs, and whether stores are written to such. How their objects are reached, a [`StoreResolver`] knows.
const SCHEMES: &[(&str, bool)] = &[("s3", true), ("https", false), ("http", false)];

/// True if a store can be written to `url`.
pub fn is_written(url: &str) -> bool {
    written_schemes().any(|scheme| has_scheme(url, scheme))
}

/// True for the URL of a bucket to which is written, or of a prefix in it.
pub fn is_below_bucket(url: &str) -> bool {
    let below = url.split_once("://").map_or("", |(_, below)| below.strip_suffix('/').unwrap_or(below));
    is_written(url) && below.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// True if what lies at `url` can be read.
pub fn is_read(url: &str) -> bool {
    read_schemes().any(|scheme| has_scheme(url, scheme))
}

fn has_scheme(url: &str, scheme: &str) -> bool {
    url.split_once("://").is_some_and(|(own, _)| own == scheme)
}

/// The schemes of URLs that can be read.
pub fn read_schemes() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().map(|(scheme, _)| *scheme)
}

/// The schemes of URLs that stores can be written to.
pub fn written_schemes() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().filter(|(_, is_written)| *is_written).map(|(scheme, _)| *scheme)
}

/// Schemes for people: `s3://, https:// and http://`.
pub fn in_words(schemes: impl Iterator<Item = &'static str>) -> String {
    let all: Vec<String> = schemes.map(|scheme| format!("{scheme}://")).collect();
    match all.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => all.concat(),
    }
}

/// What a store that is written holds, by the names of its objects.
#[derive(Debug, Clone, Copy)]
pub struct Contents {
    /// Name for people: `Zarr store`.
    pub noun: &'static str,
    /// Name of the objects that describe the others. The one that is the store's own makes the store visible: it is
    /// written last and removed first.
    pub descriptions: &'static str,
    /// True for names of objects that only such a store has at its top. What has none of them is not replaced.
    pub is_mark: fn(&str) -> bool,
}

/// An object that is sent. Unless it is finished there is none, or the older one.
pub trait ObjectUpload: Send {
    /// Adds bytes to the end.
    ///
    /// # Errors
    /// `Write`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Returns when the server has all of it.
    ///
    /// # Errors
    /// `Write`.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Opens stores by their URLs. A program that reaches no network has none.
pub trait StoreResolver: Send + Sync {
    /// The objects whose URLs begin with this one.
    ///
    /// # Errors
    /// `Unsupported` for an unknown scheme, `Usage` if it is no URL or there are no credentials.
    fn read(&self, url: &str) -> Result<Arc<dyn ReadStore>>;

    /// The store that the object with this URL lies in, and its key there; `None` for the URL of a whole server.
    ///
    /// # Errors
    /// As for [`StoreResolver::read`].
    fn object(&self, url: &str) -> Result<Option<(Arc<dyn ReadStore>, String)>>;

    /// A new store at this URL.
    ///
    /// # Errors
    /// `Exists` if objects are there and may not be replaced, `Unsupported` for a scheme that is only read, `Usage` as
    /// above, `Write`.
    fn create(&self, url: &str, contents: Contents, force: bool) -> Result<Box<dyn Store>>;

    /// A new object with this URL, which takes the place of an older one when it is whole.
    ///
    /// # Errors
    /// `Unsupported` for a scheme that is only read, `Usage` if it is no URL of an object or there are no credentials.
    fn upload(&self, url: &str) -> Result<Box<dyn ObjectUpload>>;

    /// The store at this URL, to be changed in place.
    ///
    /// # Errors
    /// As for [`StoreResolver::create`], but for `Exists`.
    fn change(&self, url: &str) -> Result<Arc<dyn MutableStore>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_from_paths() {
        for url in ["s3://bucket/a.zarr", "https://x.org/a b.nc", "http://127.0.0.1:9/a"] {
            assert_eq!(url_of(Path::new(url)), Some(url));
        }
        for path in ["a.nc", "/s3:/x", "./s3://x", "://x", "a-b://x", "s3:/bucket"] {
            assert_eq!(url_of(Path::new(path)), None, "{path}");
        }
    }
}
