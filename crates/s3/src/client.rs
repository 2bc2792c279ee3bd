//! A folder of objects, and what reaches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::TryStreamExt;
use knarr_array::error::{Error, ErrorKind, Result};
use object_store::ObjectStore;
use object_store::path::Path;

use crate::address::Address;
use crate::http_error::http_error;
use crate::runtime::Blocking;
use crate::servers::Variables;

/// A folder of objects, and what reaches it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) runtime: Blocking,
    pub(crate) address: Address,
    pub(crate) objects: Arc<dyn ObjectStore>,
}

impl Client {
    /// # Errors
    /// `Usage` if there are no credentials, or a variable of the environment makes no sense.
    pub(crate) fn connect(runtime: Blocking, address: Address, variables: &Variables) -> Result<Self> {
        let objects = (address.server.connect)(&address.scheme, &address.name, variables)?;
        Ok(Self { runtime, address, objects })
    }

    /// Key and length of each object.
    ///
    /// # Errors
    /// `kind`, or `NotFound` for a bucket that is not there.
    pub(crate) fn list(&self, kind: ErrorKind) -> Result<BTreeMap<String, u64>, Refused> {
        self.runtime.wait(self.listed()).map_err(|error| Refused {
            is_denied: matches!(error, object_store::Error::PermissionDenied { .. }),
            error: self.failed(&error, kind),
        })
    }

    /// As [`Client::list`], for who does not block.
    pub(crate) async fn listed(&self) -> object_store::Result<BTreeMap<String, u64>> {
        let prefix = Some(&self.address.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed: Vec<_> = self.objects.list(prefix).try_collect().await?;
        Ok(listed.iter().filter_map(|found| Some((self.address.key_of(&found.location)?, found.size))).collect())
    }

    /// A failed request in words; `kind` is that of an error nobody can name better.
    pub(crate) fn failed(&self, error: &object_store::Error, kind: ErrorKind) -> Error {
        http_error(error, self.address.server, kind)
    }

    /// # Errors
    /// As for [`Address::path`].
    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        self.address.path(key)
    }
}

/// A request that failed.
pub(crate) struct Refused {
    /// The server does not let the caller do that.
    pub(crate) is_denied: bool,
    pub(crate) error: Error,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}
