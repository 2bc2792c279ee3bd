//! What a URL names: a folder of a bucket, or of a web server.

use knarr_array::error::{Error, Result};
use knarr_flow::urls::{in_words, read_schemes};
use object_store::path::Path;

use crate::servers::{SERVERS, Server};

/// A folder of objects.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// As the user typed it, without slashes at its end.
    pub(crate) url: String,
    /// Who holds the objects, the scheme, and the name of the bucket or the host.
    pub(crate) server: &'static Server,
    pub(crate) scheme: String,
    pub(crate) name: String,
    /// What the keys of its objects begin with.
    pub(crate) prefix: Path,
}

impl Address {
    /// # Errors
    /// `Unsupported` for an unknown scheme, `Usage` if a bucket or a server is missing, or the path is none.
    pub(crate) fn of(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let rest = rest.trim_end_matches('/');
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let server = SERVERS.iter().copied().find(|server| server.schemes.contains(&scheme)).ok_or_else(|| {
            let hint = format!("{} are; copy other things here, or mount them", in_words(read_schemes()));
            Error::unsupported(format!("'{scheme}://' is not known")).hint(hint)
        })?;
        if name.is_empty() {
            return Err(Error::usage(format!("the URL names no {}", server.noun))
                .hint(format!("write {scheme}://{}/NAME", server.noun.to_uppercase())));
        }
        (server.check_name)(name)?;
        let prefix = (server.path)(path).map_err(|error| {
            Error::usage(format!("no path of objects: {error}")).hint("write the URL without empty parts, '.' and '..'")
        })?;
        let url = format!("{scheme}://{rest}");
        Ok(Self { url, server, scheme: scheme.to_owned(), name: name.to_owned(), prefix })
    }

    /// The folder of what is here, and its key there; `None` for a whole bucket or server.
    pub(crate) fn split(self) -> Option<(Self, String)> {
        let key = self.prefix.filename()?.to_owned();
        let parts: Vec<_> = self.prefix.parts().collect();
        let prefix = Path::from_iter(parts.into_iter().rev().skip(1).collect::<Vec<_>>().into_iter().rev());
        let url = self.url.rsplit_once('/')?.0.to_owned();
        Some((Self { url, prefix, ..self }, key))
    }

    /// The path of the object `key` below this one.
    ///
    /// # Errors
    /// `Usage` if no object can have it.
    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        let joined = match self.prefix.as_ref() {
            "" => Path::parse(key),
            prefix => Path::parse(format!("{prefix}/{key}")),
        };
        joined.map_err(|error| Error::usage(format!("no name of an object: {error}")).at(key))
    }

    /// The key of an object below this one.
    pub(crate) fn key_of(&self, path: &Path) -> Option<String> {
        let path: &str = path.as_ref();
        match self.prefix.as_ref() {
            "" => Some(path.to_owned()),
            prefix => path.strip_prefix(prefix)?.strip_prefix('/').map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knarr_array::error::ErrorKind;

    #[test]
    fn urls_have_a_server_and_a_path() {
        let address = Address::of("s3://bucket/a%20b/c d.zarr/").unwrap();
        assert_eq!(address.url, "s3://bucket/a%20b/c d.zarr");
        assert_eq!((address.server.noun, address.name.as_str()), ("bucket", "bucket"));
        assert_eq!(address.path("T/c/0").unwrap().as_ref(), "a%20b/c d.zarr/T/c/0");
        assert_eq!(address.key_of(&Path::parse("a%20b/c d.zarr/T/c/0").unwrap()).as_deref(), Some("T/c/0"));
        assert_eq!(address.key_of(&Path::parse("a%20b/c d.zarrs/T").unwrap()), None);
        let address = Address::of("https://host:80/a%20b/c.nc").unwrap();
        assert_eq!(address.prefix.as_ref(), "a b/c.nc");
        let (folder, key) = address.split().unwrap();
        assert_eq!(
            (folder.url.as_str(), folder.prefix.as_ref(), key.as_str()),
            ("https://host:80/a%20b", "a b", "c.nc")
        );
        let (folder, key) = Address::of("s3://bucket/c.nc").unwrap().split().unwrap();
        assert_eq!((folder.url.as_str(), folder.prefix.as_ref(), key.as_str()), ("s3://bucket", "", "c.nc"));
        assert!(Address::of("s3://bucket").unwrap().split().is_none());
    }

    #[test]
    fn every_scheme_has_a_server_that_reaches_it() {
        let reached: Vec<&str> = SERVERS.iter().flat_map(|server| server.schemes).copied().collect();
        assert_eq!(reached, read_schemes().collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for (url, kind) in [
            ("gs://bucket/a", ErrorKind::Unsupported),
            ("s3:///a", ErrorKind::Usage),
            ("s3:// b/a", ErrorKind::Usage),
            ("s3://b\u{fc}cket/a", ErrorKind::Usage),
            ("https://", ErrorKind::Usage),
            ("s3://bucket/a//b", ErrorKind::Usage),
            ("s3://bucket/../b", ErrorKind::Usage),
        ] {
            assert_eq!(Address::of(url).unwrap_err().kind(), kind, "{url}");
        }
    }
}
