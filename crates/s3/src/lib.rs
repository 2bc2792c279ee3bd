//! Stores of objects that lie elsewhere: S3, read and written, and web servers, which are only read.
//!
//! The one place with an asynchronous runtime: callers block, each in its own thread. Reading order: [`servers`] (the kinds of
//! servers), [`address`] (what a URL names), [`client`] (what reaches it), [`http_error`] (what users hear of failures), [`read`], [`sending`],
//! [`parts`], [`object`], [`upload`], [`mutable`].
#![forbid(unsafe_code)]

mod address;
mod client;
mod http_error;
mod mutable;
mod object;
mod parts;
mod read;
mod runtime;
mod sending;
mod servers;
mod upload;

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_flow::mutable_store::MutableStore;
use knarr_flow::output::Store;
use knarr_flow::read_store::ReadStore;
use knarr_flow::urls::{Contents, ObjectUpload, StoreResolver, is_written};

use address::Address;
use client::Client;
use mutable::MutableBucket;
use object::Object;
use read::Remote;
use runtime::Blocking;
use servers::Variables;
use upload::Upload;

/// What reaches S3 and web servers. Nothing is connected to before a URL is opened.
#[derive(Debug)]
pub struct ObjectStores {
    variables: Variables,
    runtime: Mutex<Option<Blocking>>,
}

/// What opens URLs on this machine, for [`knarr_flow::engine::Engine::stores`].
pub fn stores() -> Arc<dyn StoreResolver> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Arc::new(ObjectStores::with(std::env::vars_os().filter_map(text)))
}

impl ObjectStores {
    /// One that is set up by these variables in place of those of the environment: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the like.
    pub fn with(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_said = |(_, value): &(String, String)| !value.is_empty();
        Self { variables: variables.into_iter().filter(is_said).collect(), runtime: Mutex::default() }
    }

    fn runtime(&self) -> Result<Blocking> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        match runtime.as_ref() {
            Some(runtime) => Ok(runtime.clone()),
            None => Ok(runtime.insert(Blocking::new()?).clone()),
        }
    }

    fn client(&self, address: Address) -> Result<Client> {
        Client::connect(self.runtime()?, address, &self.variables)
    }
}

impl StoreResolver for ObjectStores {
    fn read(&self, url: &str) -> Result<Arc<dyn ReadStore>> {
        Ok(Arc::new(Remote::new(self.client(Address::of(url)?)?)))
    }

    fn object(&self, url: &str) -> Result<Option<(Arc<dyn ReadStore>, String)>> {
        let Some((folder, key)) = Address::of(url)?.split() else { return Ok(None) };
        Ok(Some((Arc::new(Remote::new(self.client(folder)?)), key)))
    }

    fn create(&self, url: &str, contents: Contents, force: bool) -> Result<Box<dyn Store>> {
        Ok(Box::new(Upload::create(self.client(written(url)?)?, contents, force)?))
    }

    fn upload(&self, url: &str) -> Result<Box<dyn ObjectUpload>> {
        let none = || Error::usage("this is the URL of a bucket, and of no object in it").at(url);
        let (folder, key) = written(url)?.split().ok_or_else(none)?;
        Ok(Box::new(Object::new(self.client(folder)?, &key)))
    }

    fn change(&self, url: &str) -> Result<Arc<dyn MutableStore>> {
        Ok(Arc::new(MutableBucket::new(self.client(written(url)?)?)))
    }
}

/// The address of what is to be written.
fn written(url: &str) -> Result<Address> {
    let address = Address::of(url)?;
    if is_written(url) {
        return Ok(address);
    }
    Err(Error::unsupported("web servers are only read")
        .hint("write here or to s3://bucket/name, and bring it to the server by its own means"))
}
