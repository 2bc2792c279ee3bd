//! An object that grows: sent in parts once it is large.

use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::client::Client;
use crate::sending::Sending;

/// Bytes of a part. All but the last have the same length, as some servers want.
pub(crate) const PART: usize = 8 << 20;

/// An upload in parts; `None` once it is complete.
pub(crate) type Unfinished = Arc<Mutex<Option<Box<dyn MultipartUpload>>>>;

/// An object to which bytes are still to come.
#[derive(Debug)]
pub(crate) struct Growing {
    key: String,
    /// What is not sent yet.
    rest: Vec<u8>,
    /// Length so far.
    pub(crate) length: u64,
    parts: Option<(Unfinished, Vec<JoinHandle<()>>)>,
}

impl Growing {
    pub(crate) fn new(key: &str) -> Self {
        Self { key: key.to_owned(), rest: Vec::new(), length: 0, parts: None }
    }

    /// The upload, if there is one already.
    pub(crate) fn unfinished(&self) -> Option<Unfinished> {
        self.parts.as_ref().map(|(upload, _)| Arc::clone(upload))
    }

    /// Adds bytes to the end.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn push(&mut self, client: &Client, sending: &mut Sending, bytes: &[u8]) -> Result<()> {
        self.length += bytes.len() as u64;
        let mut bytes = bytes;
        while self.rest.len() + bytes.len() > PART {
            let (now, later) = bytes.split_at(PART - self.rest.len());
            self.rest.extend_from_slice(now);
            bytes = later;
            let part = std::mem::take(&mut self.rest);
            self.send(client, sending, part)?;
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }

    fn send(&mut self, client: &Client, sending: &mut Sending, part: Vec<u8>) -> Result<()> {
        let permit = sending.room(part.len())?;
        let begun = match self.parts.take() {
            Some(parts) => parts,
            None => {
                let upload = client.runtime.wait(client.objects.put_multipart(&client.path(&self.key)?));
                let upload = upload.map_err(|error| client.failed(&error, ErrorKind::Write).at(self.key.clone()))?;
                (Arc::new(Mutex::new(Some(upload))), Vec::new())
            }
        };
        let (upload, sent) = self.parts.insert(begun);
        let mut held = client.runtime.wait(upload.lock());
        let Some(upload) = held.as_mut() else { return Err(Error::internal("an object grew after its end")) };
        let request = upload.put_part(PutPayload::from(part));
        drop(held);
        sent.push(sending.send(self.key.clone(), async move {
            let _permit = permit;
            request.await
        }));
        Ok(())
    }

    /// Sends what is left. The object is there when nothing is under way any more.
    ///
    /// # Errors
    /// `Write`.
    pub(crate) fn finish(mut self, client: &Client, sending: &mut Sending) -> Result<()> {
        let rest = std::mem::take(&mut self.rest);
        if self.parts.is_none() {
            return put(client, sending, &self.key, rest);
        }
        if !rest.is_empty() {
            self.send(client, sending, rest)?;
        }
        let Some((upload, sent)) = self.parts else { return Ok(()) };
        sending.send_and_keep(self.key, async move {
            let mut held = upload.lock().await;
            for part in sent {
                // A part that failed has said so; completing fails without it.
                part.await?;
            }
            if let Some(upload) = held.as_mut() {
                upload.complete().await?;
            }
            *held = None;
            Ok(())
        });
        Ok(())
    }
}

/// Sends a whole object.
///
/// # Errors
/// `Write`.
pub(crate) fn put(client: &Client, sending: &mut Sending, key: &str, bytes: Vec<u8>) -> Result<()> {
    let (path, objects) = (client.path(key)?, Arc::clone(&client.objects));
    let permit = sending.room(bytes.len())?;
    sending.send_and_keep(key.to_owned(), async move {
        let _permit = permit;
        objects.put(&path, PutPayload::from(bytes)).await.map(drop)
    });
    Ok(())
}
