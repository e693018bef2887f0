//! Inputs given by a URL.

use std::fmt;
use std::path::PathBuf;

use super::InputError;

/// The scheme before `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scheme {
    S3,
    Gs,
    Http,
}

/// An input in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) scheme: Scheme,
    /// The scheme as given, the host with its port, or the bucket.
    pub(super) root: String,
    /// The key: the text after the root slash. Keys of buckets are taken literally, keys of web servers are decoded.
    pub(super) key: String,
    /// The query of a web server's URL, after the `?`. It may be a signature, so neither messages nor manifests have it.
    pub(super) query: Option<String>,
}

/// The result of parsing an argument that looks like a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A path, from `file://`.
    Local(PathBuf),
    Remote(Url),
}

impl Named {
    /// Parses an argument; `None` unless the argument begins with letters and `://`.
    pub(super) fn parse(arg: &str) -> Result<Option<Self>, InputError> {
        let Some((scheme, rest)) = arg.split_once("://").filter(|(scheme, _)| is_scheme(scheme)) else {
            return Ok(None);
        };
        let refused = |reason: &str, hint| {
            // A query may be a signature.
            let name = arg.split(['?', '#']).next().unwrap_or(arg).to_owned();
            Err(InputError::Url { name, reason: reason.to_owned(), hint })
        };
        let scheme = scheme.to_ascii_lowercase();
        let kind = match scheme.as_str() {
            "file" => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                return match decoded(path).filter(|path| path.starts_with('/')) {
                    Some(path) => Ok(Some(Self::Local(path.into()))),
                    None => refused("not a valid URL of a local file", "write file:///PATH, or just the path"),
                };
            }
            "s3" => Scheme::S3,
            "gs" => Scheme::Gs,
            "http" | "https" => Scheme::Http,
            _ => {
                return refused(
                    "URLs with this scheme cannot be read",
                    "use s3, gs, http, https or file; if this is a path, put `./` before it",
                );
            }
        };
        let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if kind != Scheme::Http {
            if host.is_empty() {
                return refused("the bucket is missing", "write s3://BUCKET/KEY or gs://BUCKET/KEY");
            }
            let root = format!("{scheme}://{host}");
            return Ok(Some(Self::Remote(Url { scheme: kind, root, key: rest.to_owned(), query: None })));
        }
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query.to_owned())));
        if host.contains('@') {
            let name = format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default());
            let reason = "a URL that contains a user name or password cannot be read".to_owned();
            return Err(InputError::Url { name, reason, hint: PIPED });
        }
        if host.is_empty() || host.contains(['?', '#']) || path.is_empty() || path.ends_with('/') {
            return refused(
                "this URL does not name a file; folders on a web server cannot be listed",
                "pass the URL of each file",
            );
        }
        let Some(key) = decoded(path) else { return refused("not a URL", "write %25 for a percent sign") };
        Ok(Some(Self::Remote(Url { scheme: kind, root: format!("{scheme}://{host}"), key, query })))
    }
}

/// The name in messages and manifests.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.key)
    }
}

/// Advice for a web server without a needed capability.
pub(super) const PIPED: &str = "download it first, or pipe it: curl -L URL | windrow encode - --input-format FORMAT, where FORMAT is text, lines or jsonl";

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The text with escapes such as `%41` decoded, if the result is text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => (16 * digit(rest.next())? + digit(rest.next())?) as u8,
            other => other,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_paths_or_urls() {
        let url = |scheme, root: &str, key: &str, query: Option<&str>| {
            Some(Named::Remote(Url { scheme, root: root.into(), key: key.into(), query: query.map(str::to_owned) }))
        };
        for (arg, expected) in [
            ("corpus/a.txt", None),
            ("-", None),
            ("./s3://b/k", None),
            ("1a://x", None),
            ("s3://b/a b%20?#.txt", url(Scheme::S3, "s3://b", "a b%20?#.txt", None)),
            ("S3://b", url(Scheme::S3, "s3://b", "", None)),
            ("gs://b/k/", url(Scheme::Gs, "gs://b", "k/", None)),
            ("https://h:8/a%20b.txt?x=%20#y", url(Scheme::Http, "https://h:8", "a b.txt", Some("x=%20"))),
            ("file:///a%2fb.txt", Some(Named::Local("/a/b.txt".into()))),
            ("file://localhost/a", Some(Named::Local("/a".into()))),
        ] {
            assert_eq!(Named::parse(arg).unwrap(), expected, "{arg}");
        }
    }

    #[test]
    fn what_no_store_can_read_is_refused_without_secrets() {
        for (arg, says) in [
            ("ftp://h/a.txt", "ftp://h/a.txt: URLs with this scheme cannot be read\nhint: use s3, gs"),
            ("s3:///k", "the bucket is missing"),
            ("file://server/a", "not a valid URL of a local file"),
            ("https://h/folder/?s=secret", "https://h/folder/: this URL does not name a file; folders on"),
            ("https://h", "cannot be listed"),
            ("https://user:secret@h/a.txt", "https://h: a URL that contains a user name or password"),
            ("https://h/%zz", "not a URL"),
        ] {
            let said = Named::parse(arg).unwrap_err().to_string();
            assert!(said.contains(says) && !said.contains("secret"), "{arg}: {said}");
        }
    }
}
