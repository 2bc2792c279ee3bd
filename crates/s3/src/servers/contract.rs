//! What distinguishes the kinds of servers that hold objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use knarr_array::error::{Error, ErrorKind, Result};
use object_store::path::{self, Path};
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

/// Times that a request is sent, unless `AWS_MAX_ATTEMPTS` says otherwise. The pauses between them grow: a quarter of a minute in all.
const ATTEMPTS: usize = 9;
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Time after which a request is sent no more.
const REPEATED_FOR: Duration = Duration::from_secs(180);
/// Time that a request may take, unless `AWS_TIMEOUT` says otherwise: enough for a part of an object on a slow line.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Variables of the environment, and what they are set to. Empty ones are none.
pub(crate) type Variables = BTreeMap<String, String>;

/// A kind of server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Schemes of its URLs, which are those of [`knarr_flow::urls::SCHEMES`].
    pub(crate) schemes: &'static [&'static str],
    /// What a URL names first: `bucket`.
    pub(crate) noun: &'static str,
    /// It can list its objects.
    pub(crate) lists: bool,
    /// Returns `Usage` for a name that no bucket or host can have.
    pub(crate) check_name: fn(&str) -> Result<()>,
    /// Parses the part of a URL behind the name.
    pub(crate) path: fn(&str) -> Result<Path, path::Error>,
    /// Connects to the server with this scheme and name. `Usage` if there are no credentials, or a variable of the environment
    /// makes no sense.
    pub(crate) connect: fn(&str, &str, &Variables) -> Result<Arc<dyn ObjectStore>>,
    /// What an answer means that only such a server gives; `None` for others.
    pub(crate) explain: fn(&Answer<'_>) -> Option<Error>,
    /// What to do if it does not permit a request.
    pub(crate) not_permitted: &'static str,
    /// What to do if it is not reached.
    pub(crate) not_reached: &'static str,
}

/// An answer to a request that failed.
pub(crate) struct Answer<'a> {
    /// All that is known of it.
    pub(crate) text: &'a str,
    /// The name that the server has for the failure.
    pub(crate) code: Option<&'a str>,
    /// Kind of an error nobody can name better.
    pub(crate) kind: ErrorKind,
}

/// # Errors
/// `Usage` for a number of attempts that is none.
pub(crate) fn retry(variables: &Variables) -> Result<RetryConfig> {
    let wrong = |text: &String| {
        Error::usage(format!("AWS_MAX_ATTEMPTS is '{text}', which is no number of attempts"))
            .hint("give a number, such as 3")
    };
    let attempts = variables.get("AWS_MAX_ATTEMPTS").map(|text| text.trim().parse::<usize>().map_err(|_| wrong(text)));
    let attempts = attempts.transpose()?.unwrap_or(ATTEMPTS);
    // Each pause is between the first one and `base` times the one before.
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 4.0 };
    Ok(RetryConfig { max_retries: attempts.max(1) - 1, retry_timeout: REPEATED_FOR, backoff })
}
