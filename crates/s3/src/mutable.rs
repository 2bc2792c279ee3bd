//! An existing store whose objects are replaced one by one.

use std::sync::Arc;

use knarr_array::error::Result;
use knarr_flow::mutable_store::{MutableStore, StoreLock};
use knarr_flow::read_store::ReadStore;
use knarr_flow::urls::ObjectUpload as _;

use crate::client::Client;
use crate::object::Object;
use crate::read::Remote;

/// A folder of a bucket that is changed.
#[derive(Debug)]
pub(crate) struct MutableBucket {
    client: Client,
}

impl MutableBucket {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }
}

impl MutableStore for MutableBucket {
    fn place(&self) -> String {
        self.client.address.url.clone()
    }

    fn objects(&self) -> Arc<dyn ReadStore> {
        Arc::new(Remote::new(self.client.clone()))
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let mut object = Box::new(Object::new(self.client.clone(), key));
        object.write(bytes)?;
        object.finish()
    }

    fn put_all(&self, objects: &[(String, Vec<u8>)]) -> Result<()> {
        objects.iter().try_for_each(|(key, bytes)| self.put(key, bytes))
    }

    fn at_once(&self) -> usize {
        1
    }

    fn hold(&self, _may_wait: &dyn Fn() -> Result<()>) -> Result<Option<StoreLock>> {
        Ok(None)
    }
}
