//! Web servers. They are only read, and do not list folders.

use std::sync::Arc;

use knarr_array::error::{Error, Result};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore};

use super::contract::{Server, TIMEOUT, Variables, retry};

pub(super) const WEB: Server = Server {
    schemes: &["https", "http"],
    noun: "server",
    lists: false,
    check_name: |_| Ok(()),
    path: |path| Path::from_url_path(path),
    connect,
    explain: |_| None,
    not_permitted: "ask who runs the server for access",
    not_reached: "check the address, the network and its proxies, and repeat this",
};

fn connect(scheme: &str, name: &str, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    let options = ClientOptions::new().with_allow_http(true).with_timeout(TIMEOUT);
    let builder = HttpBuilder::new().with_url(format!("{scheme}://{name}")).with_client_options(options);
    let built = builder.with_retry(retry(variables)?).build();
    Ok(Arc::new(built.map_err(|error| Error::usage(format!("no URL: {error}")).hint("check it"))?))
}
