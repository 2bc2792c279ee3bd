//! One object that is sent, whole or not at all.

use std::time::Duration;

use knarr_array::error::{Error, Result};
use knarr_flow::urls::ObjectUpload;

use crate::client::Client;
use crate::parts::Growing;
use crate::sending::Sending;

/// Time that parts of an object have to come to an end after one has failed.
const ENDING: Duration = Duration::from_secs(5);

/// An object in a folder of a bucket.
pub(crate) struct Object {
    client: Client,
    key: String,
    sending: Sending,
    /// `None` once it was finished.
    growing: Option<Growing>,
}

impl Object {
    pub(crate) fn new(client: Client, key: &str) -> Self {
        let sending = Sending::new(&client);
        Self { client, key: key.to_owned(), sending, growing: Some(Growing::new(key)) }
    }

    fn here(&self, error: Error) -> Error {
        error.at_once(&self.key).at_once(&self.client.address.url)
    }

    fn complete(&mut self) -> Result<()> {
        let Some(growing) = self.growing.take() else { return Ok(()) };
        let unfinished = growing.unfinished();
        let sent = growing.finish(&self.client, &mut self.sending).and_then(|()| self.sending.wait());
        if let (Err(_), Some(unfinished)) = (&sent, unfinished) {
            self.abort(unfinished);
        }
        sent
    }

    /// The server keeps parts of what is never completed.
    fn abort(&mut self, unfinished: crate::parts::Unfinished) {
        self.sending.stop(ENDING);
        self.client.runtime.wait(async {
            if let Some(mut upload) = unfinished.lock().await.take() {
                let _ = upload.abort().await;
            }
        });
    }
}

impl ObjectUpload for Object {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(growing) = &mut self.growing else { return Ok(()) };
        growing.push(&self.client, &mut self.sending, bytes).map_err(|error| self.here(error))
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.complete().map_err(|error| self.here(error))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(unfinished) = self.growing.take().and_then(|growing| growing.unfinished()) {
            self.abort(unfinished);
        }
    }
}
