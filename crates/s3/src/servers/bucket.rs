//! Buckets of S3.

use std::sync::Arc;

use knarr_array::error::{Error, ErrorKind, Result};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore};

use super::contract::{Answer, Server, TIMEOUT, Variables, retry};

pub(super) const BUCKET: Server = Server {
    schemes: &["s3"],
    noun: "bucket",
    lists: true,
    check_name,
    path: |path| Path::parse(path),
    connect,
    explain,
    not_permitted: "check the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), or ask who owns it for access",
    not_reached: "check the address (AWS_ENDPOINT_URL), the network and its proxies, and repeat this",
};

fn check_name(name: &str) -> Result<()> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.bytes().all(is_part) {
        return Ok(());
    }
    Err(Error::usage(format!("'{name}' is no name of a bucket"))
        .hint("a bucket is called by letters, digits, '.', '-' and '_'"))
}

fn connect(_: &str, bucket: &str, variables: &Variables) -> Result<Arc<dyn ObjectStore>> {
    require_credentials(variables)?;
    let options = ClientOptions::new().with_timeout(TIMEOUT);
    let mut builder = AmazonS3Builder::new().with_client_options(options).with_retry(retry(variables)?);
    for (name, value) in variables.iter().filter(|(name, _)| name.starts_with("AWS_")) {
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
    let built = builder.with_bucket_name(bucket).build().map_err(|error| {
        Error::usage(format!("S3 cannot be reached: {error}"))
            .hint("check the variables of the environment that begin with AWS_")
    });
    Ok(Arc::new(built?))
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

fn explain(answer: &Answer<'_>) -> Option<Error> {
    match answer.code {
        Some("NoSuchBucket") => Some(
            Error::new(ErrorKind::NotFound, "there is no such bucket")
                .hint("check its name, and AWS_ENDPOINT_URL and AWS_REGION"),
        ),
        Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken")) => Some(
            Error::new(answer.kind, format!("the server refuses the credentials ({code})"))
                .hint("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"),
        ),
        _ if answer.text.contains("incorrectly configured region") => {
            Some(Error::new(answer.kind, "the bucket is in another region").hint("name it: AWS_REGION"))
        }
        _ => None,
    }
}
