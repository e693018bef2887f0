//! Explanations of store errors for users.

use std::io;

use object_store::Error;

use crate::input::url::{PIPED, Scheme};
use crate::remedy::{Changed, Hinted};

/// The error of a request, with its remedy.
pub(super) fn explained(scheme: Scheme, error: &Error) -> io::Error {
    if matches!(error, Error::Precondition { .. }) {
        return io::Error::other(Changed);
    }
    let said = said(error);
    let hint = match error {
        Error::NotFound { .. } => "the object existed earlier in the run; pass only objects that still exist",
        Error::NotSupported { .. } => PIPED,
        _ if matches!(status(error), Some(401 | 403)) => credentials(scheme),
        _ if said.contains("non-partial response") || said.contains("Range request not supported") => PIPED,
        _ if said.contains("scheme is not allowed") => "set AWS_ALLOW_HTTP=true for an endpoint without TLS",
        _ if said.contains("region") => "set AWS_REGION to the region of the bucket",
        _ if is_about_credentials(error) => credentials(scheme),
        _ => network(scheme),
    };
    io::Error::other(Hinted { reason: said, hint })
}

/// The status of the answer, if there was one. Only some requests have it in the kind of their error.
pub(super) fn status(error: &Error) -> Option<u16> {
    innermost(error).strip_prefix(STATUS)?.split(' ').next()?.parse().ok()
}

const STATUS: &str = "Server returned non-2xx status code: ";

/// The innermost reason. The outer ones have the URL with its signature.
fn innermost(error: &Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(inner) = reason.source() {
        reason = inner;
    }
    reason.to_string()
}

fn said(error: &Error) -> String {
    let text = innermost(error);
    let Some(status) = text.strip_prefix(STATUS) else { return cut(&text) };
    let (status, body) = status.split_once(": ").unwrap_or((status, ""));
    let element = |name: &str| {
        let (_, from) = body.split_once(&format!("<{name}>"))?;
        Some(from.split_once('<')?.0.to_owned())
    };
    let detail = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!(" ({code}: {message})"),
        (Some(code), None) => format!(" ({code})"),
        _ => String::new(),
    };
    cut(&format!("the store returned {status}{detail}"))
}

/// The first line, not longer than a terminal shows in a few lines.
fn cut(text: &str) -> String {
    let line = crate::shown(text.trim().lines().next().unwrap_or_default()).to_string();
    let mut short: String = line.chars().take(300).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    short
}

/// True if the request failed before it was sent, because credentials are missing.
fn is_about_credentials(error: &Error) -> bool {
    let mut reason: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = reason {
        let text = inner.to_string().to_lowercase();
        if ["credential", "169.254.169.254", "metadata.google", "access key", "accesskey", "token"]
            .iter()
            .any(|word| text.contains(word))
        {
            return true;
        }
        reason = inner.source();
    }
    false
}

fn credentials(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (eval \"$(aws configure export-credentials --format env)\") and AWS_REGION, \
             or AWS_SKIP_SIGNATURE=true for a public bucket"
        }
        Scheme::Gs => {
            "set GOOGLE_APPLICATION_CREDENTIALS to the path of a key file, or run `gcloud auth application-default login`, or set \
             GOOGLE_SKIP_SIGNATURE=true for a public bucket"
        }
        Scheme::Http => "check the URL and any signature in it; if a password is needed, download the file first",
    }
}

fn network(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "check the network, AWS_REGION, and AWS_ENDPOINT_URL if the store is not Amazon's, then try again"
        }
        Scheme::Gs | Scheme::Http => "check the network and the host name, then try again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remedy::is_change;

    fn generic(text: &str) -> Error {
        Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn status_and_code_remain_and_addresses_go() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code><Message>No.</Message></Error>";
        let error = generic(&format!("Server returned non-2xx status code: 403 Forbidden: {body}"));
        assert_eq!(said(&error), "the store returned 403 Forbidden (AccessDenied: No.)");
        let error = generic("Server returned non-2xx status code: 500 Internal Server Error: ");
        assert_eq!(said(&error), "the store returned 500 Internal Server Error");
        assert_eq!(said(&generic(&"é".repeat(400))).chars().count(), 303);
    }

    #[test]
    fn each_kind_has_its_remedy() {
        let hint = |error: Error| {
            let error = explained(Scheme::S3, &error);
            crate::remedy::remedy(&error).unwrap_or("none")
        };
        let denied = generic("Server returned non-2xx status code: 403 Forbidden: ");
        assert!(hint(denied).contains("AWS_ACCESS_KEY_ID"));
        assert!(hint(generic("error sending request to http://169.254.169.254/")).contains("AWS_ACCESS_KEY_ID"));
        assert!(hint(generic("connection refused")).contains("AWS_ENDPOINT_URL"));
        assert!(hint(generic("Received non-partial response when range requested")).contains("curl"));
        let changed = Error::Precondition { path: "k".into(), source: "412".into() };
        assert!(is_change(&explained(Scheme::S3, &changed)));
    }
}
