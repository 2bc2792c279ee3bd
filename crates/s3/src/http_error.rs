//! Failed requests in words: what the server said, and what to do about it.

use std::error::Error as StdError;

use knarr_array::error::{Error, ErrorKind};
use object_store::client::{HttpError, HttpErrorKind};

use crate::servers::{Answer, Server};

/// What a request to a server of this kind has come to, in words. `kind` is that of an error nobody can name better.
pub(crate) fn http_error(error: &object_store::Error, server: &Server, kind: ErrorKind) -> Error {
    let text = error.to_string();
    let code = between(&text, "<Code>", "</Code>");
    let status = between(&text, "status code: ", ":").or_else(|| between(&text, "status code: ", "\n"));
    let retries = between(&text, ", after ", " retries").filter(|count| *count != "0");
    let after = retries.map(|count| format!(", also after {count} more attempts")).unwrap_or_default();
    if let Some(explained) = (server.explain)(&Answer { text: &text, code, kind }) {
        return explained;
    }
    let said = |fallback: &str| match (status, code) {
        (Some(status), Some(code)) => format!("{status}, {code}"),
        (Some(status), None) => status.to_owned(),
        _ => fallback.to_owned(),
    };
    match error {
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            Error::new(kind, format!("the server does not permit it ({})", said("403 Forbidden")))
                .hint(server.not_permitted)
        }
        object_store::Error::NotFound { .. } => {
            Error::new(ErrorKind::NotFound, "there is no such object").hint("check the name")
        }
        _ if text.contains("Received non-partial response")
            || matches!(error, object_store::Error::NotSupported { .. }) =>
        {
            Error::new(kind, "the server does not serve parts of files").hint("copy it here first")
        }
        _ if status.is_some() => Error::new(kind, format!("the server answered {}{after}", said("an error")))
            .hint("repeat this later, or ask who runs the server"),
        _ => {
            let (what, why) = transport(error).unwrap_or(("the request failed", innermost(error)));
            let hint = match why.contains("certificate") {
                true => "let SSL_CERT_FILE name a file (PEM) of the authority that the server's certificate comes from",
                false => server.not_reached,
            };
            Error::new(kind, format!("{what}: {why}{after}")).hint(hint)
        }
    }
}

/// What became of the connection, and why.
fn transport(error: &object_store::Error) -> Option<(&'static str, String)> {
    let mut source: Option<&dyn StdError> = Some(error);
    while let Some(inner) = source {
        if let Some(http) = inner.downcast_ref::<HttpError>() {
            let what = match http.kind() {
                HttpErrorKind::Connect => "the server cannot be reached",
                HttpErrorKind::Timeout => "the server did not answer in time",
                _ => "the connection was lost",
            };
            return Some((what, innermost(http)));
        }
        source = inner.source();
    }
    None
}

/// The error at the bottom, which says most.
fn innermost(error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    innermost.to_string()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inner, _)| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::SERVERS;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn servers_answers_are_told_with_what_to_do() {
        let slow = "Error performing PUT http://x/a in 3.2s, after 5 retries, max_retries: 5, retry_timeout: 180s  - \
                    Server returned non-2xx status code: 503 Service Unavailable: <Error><Code>SlowDown</Code></Error>";
        let told_of = |text: &str| http_error(&generic(text), SERVERS[0], ErrorKind::Write).to_string();
        assert!(told_of(slow).starts_with(
            "the server answered 503 Service Unavailable, SlowDown, also after 5 more attempts; hint: repeat"
        ));
        let bucket =
            http_error(&generic("status code: 404 Not Found: <Code>NoSuchBucket</Code>"), SERVERS[0], ErrorKind::Write);
        assert_eq!(bucket.kind(), ErrorKind::NotFound);
        assert!(
            told_of("status code: 403 Forbidden: <Code>SignatureDoesNotMatch</Code>")
                .contains("refuses the credentials")
        );
        let source = "<Code>AccessDenied</Code>".into();
        let denied = object_store::Error::PermissionDenied { path: "a".to_owned(), source };
        assert!(
            http_error(&denied, SERVERS[0], ErrorKind::Read)
                .to_string()
                .starts_with("the server does not permit it (403 Forbidden)")
        );
        assert!(
            told_of("no route to host").starts_with("the request failed: no route to host; hint: check the address")
        );
        for server in SERVERS {
            let hints = [server.not_permitted, server.not_reached];
            assert_eq!(hints.iter().any(|hint| hint.contains("AWS_")), server.schemes == ["s3"]);
        }
    }
}
