//! An existing store whose objects are replaced one by one.

use std::sync::Arc;
use std::time::Duration;

use knarr_array::error::{Error, Result};
use knarr_flow::mutable_store::{MutableStore, StoreLock};
use knarr_flow::read_store::ReadStore;

use crate::client::Client;
use crate::parts::Growing;
use crate::read::Remote;
use crate::sending::Sending;

/// Time that parts of an object have to come to an end after one has failed.
const ENDING: Duration = Duration::from_secs(5);

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
        let place = |error: Error| error.at_once(key).at_once(&self.client.address.url);
        let mut sending = Sending::new(&self.client);
        let mut object = Growing::new(key);
        let pushed = object.push(&self.client, &mut sending, bytes);
        let unfinished = object.unfinished();
        let sent = pushed.and_then(|()| object.finish(&self.client, &mut sending)).and_then(|()| sending.wait());
        if let (Err(_), Some(unfinished)) = (&sent, unfinished) {
            // The server keeps parts of what is never completed.
            sending.stop(ENDING);
            self.client.runtime.wait(async {
                if let Some(mut upload) = unfinished.lock().await.take() {
                    let _ = upload.abort().await;
                }
            });
        }
        sent.map_err(place)
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
