//! Requests that are under way while the caller goes on: a bounded number, with a bounded number of bytes.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use crate::client::Client;

/// Bytes that wait to be sent, at most, and requests that send them.
const BYTES: u32 = 128 << 20;
const REQUESTS: u32 = 32;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Sending {
    client: Client,
    room: Arc<Semaphore>,
    failed: Arc<Mutex<Option<Error>>>,
    under_way: Vec<JoinHandle<()>>,
}

/// Room that bytes have while they are sent.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Sending {
    pub(crate) fn new(client: &Client) -> Self {
        let room = Arc::new(Semaphore::new(BYTES as usize));
        Self { client: client.clone(), room, failed: Arc::default(), under_way: Vec::new() }
    }

    /// Waits until there is room for so many bytes.
    ///
    /// # Errors
    /// Why something failed that is under way.
    pub(crate) fn room(&mut self, bytes: usize) -> Result<Permit> {
        let wanted = u32::try_from(bytes).unwrap_or(BYTES).clamp(BYTES / REQUESTS, BYTES);
        let permit = self.client.runtime.wait(Arc::clone(&self.room).acquire_many_owned(wanted));
        self.check()?;
        permit.map_err(|error| Error::internal(error.to_string()))
    }

    /// Sends beside the caller. `place` is where an error belongs.
    pub(crate) fn send<F>(&mut self, place: String, request: F) -> JoinHandle<()>
    where
        F: Future<Output = object_store::Result<()>> + Send + 'static,
    {
        let (client, failed) = (self.client.clone(), Arc::clone(&self.failed));
        self.client.runtime.spawn(async move {
            if let Err(error) = request.await {
                let error = client.failed(&error, ErrorKind::Write).at(place);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        })
    }

    /// As [`Sending::send`], for what [`Sending::wait`] waits for.
    pub(crate) fn send_and_keep<F>(&mut self, place: String, request: F)
    where
        F: Future<Output = object_store::Result<()>> + Send + 'static,
    {
        let sent = self.send(place, request);
        self.under_way.retain(|sent| !sent.is_finished());
        self.under_way.push(sent);
    }

    /// Waits until everything is acknowledged.
    ///
    /// # Errors
    /// Why the first of what failed did so.
    pub(crate) fn wait(&mut self) -> Result<()> {
        let under_way = std::mem::take(&mut self.under_way);
        self.client.runtime.wait(async {
            for sent in under_way {
                // One that panicked has sent nothing, which the length of what is there tells.
                let _ = sent.await;
            }
        });
        self.check()
    }

    /// Stops what is still under way after this time.
    pub(crate) fn stop(&mut self, patience: Duration) {
        let mut under_way = std::mem::take(&mut self.under_way);
        self.client.runtime.wait(async {
            let ended = futures_util::future::join_all(&mut under_way);
            if tokio::time::timeout(patience, ended).await.is_err() {
                under_way.retain(|sent| !sent.is_finished());
                under_way.iter().for_each(JoinHandle::abort);
                futures_util::future::join_all(under_way).await;
            }
        });
    }

    fn check(&self) -> Result<()> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }
}
