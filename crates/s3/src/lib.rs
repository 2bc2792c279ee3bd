//! Stores of objects that lie elsewhere: S3, read and written, and web servers, which are only read.
//!
//! The one place with an asynchronous runtime: callers block, each in its own thread. Reading order: [`address`] (what a
//! URL names), [`client`] (what reaches it), [`told`] (what users hear of failures), [`read`], [`sending`],
//! [`parts`], [`upload`], [`change`].
#![forbid(unsafe_code)]

mod address;
mod change;
mod client;
mod parts;
mod read;
mod runtime;
mod sending;
mod told;
mod upload;

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use knarr_array::error::{Error, Result};
use knarr_flow::change_store::ChangeStore;
use knarr_flow::network::{Contents, Network};
use knarr_flow::output::Store;
use knarr_flow::read_store::ReadStore;

use address::Address;
use change::Changing;
use client::{Client, Variables};
use read::Remote;
use runtime::Blocking;
use upload::Upload;

/// What reaches S3 and web servers. Nothing is connected to before a URL is opened.
#[derive(Debug)]
pub struct Internet {
    variables: Variables,
    runtime: Mutex<Option<Blocking>>,
}

/// The network of this machine, for [`knarr_flow::engine::Engine::network`].
pub fn network() -> Arc<dyn Network> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    Arc::new(Internet::with(std::env::vars_os().filter_map(text)))
}

impl Internet {
    /// One that is set up by these variables in place of those of the environment: `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL` and the like.
    pub fn with(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let is_said = |(name, value): &(String, String)| name.starts_with("AWS_") && !value.is_empty();
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

impl Network for Internet {
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

    fn change(&self, url: &str) -> Result<Arc<dyn ChangeStore>> {
        Ok(Arc::new(Changing::new(self.client(written(url)?)?)))
    }
}

/// The address of what is to be written.
fn written(url: &str) -> Result<Address> {
    let address = Address::of(url)?;
    if address.is_s3() {
        return Ok(address);
    }
    Err(Error::unsupported("web servers are only read")
        .hint("write here or to s3://bucket/name, and bring it to the server by its own means"))
}
