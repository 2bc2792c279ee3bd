//! What sends requests to a server, set up from the environment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use knarr_array::error::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::address::{Address, Server};
use crate::runtime::Blocking;
use crate::told::told;

/// Times that a request is sent, unless `AWS_MAX_ATTEMPTS` says otherwise. The pauses between them grow: a quarter of a minute in all.
const ATTEMPTS: usize = 9;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Time after which a request is sent no more.
const PATIENCE: Duration = Duration::from_secs(180);
/// Time that a request may take, unless `AWS_TIMEOUT` says otherwise: enough for a part of an object on a slow line.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Variables of the environment that begin with `AWS_`, and what they are set to. Empty ones are none.
pub(crate) type Variables = BTreeMap<String, String>;

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
        let objects: Arc<dyn ObjectStore> = match &address.server {
            Server::Bucket(bucket) => Arc::new(bucket_client(bucket, variables)?),
            Server::Web(url) => {
                let options = ClientOptions::new().with_allow_http(true).with_timeout(TIMEOUT);
                let builder =
                    HttpBuilder::new().with_url(url).with_client_options(options).with_retry(retry(variables)?);
                Arc::new(builder.build().map_err(|error| Error::usage(format!("no URL: {error}")).hint("check it"))?)
            }
        };
        Ok(Self { runtime, address, objects })
    }

    /// Key and length of each object.
    ///
    /// # Errors
    /// `kind`, or `NotFound` for a bucket that is not there.
    pub(crate) fn list(&self, kind: ErrorKind) -> Result<BTreeMap<String, u64>, Refused> {
        self.runtime.wait(self.listed()).map_err(|error| Refused {
            is_denied: matches!(error, object_store::Error::PermissionDenied { .. }),
            error: told(&error, kind),
        })
    }

    /// As [`Client::list`], for who does not block.
    pub(crate) async fn listed(&self) -> object_store::Result<BTreeMap<String, u64>> {
        let prefix = Some(&self.address.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listed: Vec<_> = self.objects.list(prefix).try_collect().await?;
        Ok(listed.iter().filter_map(|found| Some((self.address.key_of(&found.location)?, found.size))).collect())
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

/// # Errors
/// `Usage` for a number of attempts that is none.
fn retry(variables: &Variables) -> Result<RetryConfig> {
    let wrong = |text: &String| {
        Error::usage(format!("AWS_MAX_ATTEMPTS is '{text}', which is no number of attempts"))
            .hint("give a number, such as 3")
    };
    let attempts = variables.get("AWS_MAX_ATTEMPTS").map(|text| text.trim().parse::<usize>().map_err(|_| wrong(text)));
    let attempts = attempts.transpose()?.unwrap_or(ATTEMPTS);
    // Each pause is between the first one and `base` times the one before.
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 4.0 };
    Ok(RetryConfig { max_retries: attempts.max(1) - 1, retry_timeout: PATIENCE, backoff })
}

fn bucket_client(bucket: &str, variables: &Variables) -> Result<AmazonS3> {
    require_credentials(variables)?;
    let options = ClientOptions::new().with_timeout(TIMEOUT);
    let mut builder = AmazonS3Builder::new().with_client_options(options).with_retry(retry(variables)?);
    for (name, value) in variables {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let endpoint = variables.get("AWS_ENDPOINT_URL_S3").or_else(|| variables.get("AWS_ENDPOINT_URL"));
    let is_url = |endpoint: &&String| endpoint.starts_with("http://") || endpoint.starts_with("https://");
    if let Some(endpoint) = endpoint.filter(|endpoint| !is_url(endpoint)) {
        return Err(Error::usage(format!("AWS_ENDPOINT_URL is '{endpoint}', which is no URL"))
            .hint("write http:// or https:// before the name of the server"));
    }
    if endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    builder.with_bucket_name(bucket).build().map_err(|error| {
        Error::usage(format!("S3 cannot be reached: {error}"))
            .hint("check the variables of the environment that begin with AWS_")
    })
}

/// Refuses to ask for credentials where nobody has any: it would take minutes.
fn require_credentials(variables: &Variables) -> Result<()> {
    let ways: [&[&str]; 6] = [
        &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
        &["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"],
        &["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"],
        &["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        &["AWS_METADATA_ENDPOINT"],
        &["AWS_SKIP_SIGNATURE"],
    ];
    if ways.iter().any(|names| names.iter().all(|name| variables.contains_key(*name))) {
        return Ok(());
    }
    Err(Error::usage("there are no credentials for S3").hint(
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, for example by 'aws configure export-credentials --format env'; \
         AWS_SKIP_SIGNATURE=true reads what is public",
    ))
}
