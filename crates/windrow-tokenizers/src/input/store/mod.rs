//! Objects of stores: S3, Google Cloud Storage, and web servers that serve parts of a file.
//!
//! | word | meaning |
//! |---|---|
//! | store | a bucket, or a web server |
//! | object | a value in a store, named by a key; to a run it is a file |
//! | version | the entity tag of an object, or the time of its last change if the store has no tags |
//! | part | some consecutive MiB of an object: the unit of a request |
//!
//! An object is found once, when arguments are resolved. Every request for a part names the version that was found, and its answer is
//! compared with it. So a run reads the object that it found, or fails with [`InputError::Changed`].
//!
//! Requests that fail at the network or with an error of the server are repeated by the `object_store` crate, with longer and longer pauses.

mod blocks;
mod driver;
mod explain;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};

use super::InputError;
use super::url::{Scheme, Url};
use crate::remedy::{Changed, Hinted};
use driver::{Driver, Pending};
use explain::{explained, status};

pub(super) use blocks::ObjectReader;
#[cfg(feature = "parquet")]
pub(super) use blocks::{BLOCKS_BYTES, ObjectBlocks};

/// Bytes of a part: large enough that the time until its first byte is small compared with the rest.
const PART: u64 = 4 << 20;

/// Parts that all objects together may request before they are needed. In addition, each object requests the part that it needs next.
const AHEAD: usize = 2;

/// Number of repetitions of a request while arguments are resolved: a wrong name should be reported within seconds.
const RETRIES_AT_FIRST: usize = 3;

/// The environment variable with the number of repetitions of a request while objects are read.
const RETRIES: &str = "WINDROW_STORE_RETRIES";

/// Memory for reading one object, in bytes: the part that is read, the one after it, and those ahead.
pub(super) const READ_BYTES: usize = (2 + AHEAD) * PART as usize;

/// The stores of a run.
pub(super) struct Stores {
    driver: Option<Arc<Driver>>,
    ahead: Arc<Ahead>,
    open: HashMap<(String, Option<String>), Arc<Store>>,
}

/// The result of a URL.
pub(super) enum Found {
    Object(Object),
    /// The objects below a prefix, in bytewise order of the names.
    Folder(Vec<Object>),
}

/// A store, with two clients that retry for different times.
struct Store {
    scheme: Scheme,
    root: String,
    at_first: Arc<dyn ObjectStore>,
    reading: Arc<dyn ObjectStore>,
    driver: Arc<Driver>,
    ahead: Arc<Ahead>,
}

/// An object, as found.
#[derive(Clone)]
pub(crate) struct Object {
    store: Arc<Store>,
    meta: ObjectMeta,
}

impl Stores {
    pub(super) fn new() -> Self {
        Self { driver: None, ahead: Arc::new(Ahead(Mutex::new(AHEAD))), open: HashMap::new() }
    }

    /// Finds the objects for which a URL stands.
    pub(super) fn find(&mut self, url: &Url) -> Result<Found, InputError> {
        let name = url.to_string();
        let store = self.open(url).map_err(|source| InputError::Unreadable { name: name.clone(), source })?;
        let path = Path::parse(&url.key).map_err(|_| InputError::Url {
            name: name.clone(),
            reason: "a segment of this key is empty, `.` or `..`, or contains a control character".to_owned(),
            hint: "copy the object to a different key, or download it first",
        })?;
        let is_folder = url.key.is_empty() || url.key.ends_with('/');
        let found = if is_folder { store.folder(path.clone()) } else { store.object(path.clone()).map(Found::Object) };
        match found {
            Ok(Found::Folder(objects)) if objects.is_empty() => Err(InputError::Missing { name }),
            Ok(found) => Ok(found),
            Err(error) if status(&error) == Some(404) => {
                let below = if is_folder || url.scheme == Scheme::Http { None } else { store.any_below(path) };
                Err(match below {
                    Some(object) => InputError::Url {
                        name,
                        reason: format!("this is a folder; it contains {}", crate::shown(&object)),
                        hint: "add a `/` at the end to read everything in it",
                    },
                    None => InputError::Missing { name },
                })
            }
            Err(error) => Err(InputError::Unreadable { name, source: explained(url.scheme, &error) }),
        }
    }

    fn open(&mut self, url: &Url) -> io::Result<Arc<Store>> {
        let key = (url.root.clone(), url.query.clone());
        if let Some(store) = self.open.get(&key) {
            return Ok(Arc::clone(store));
        }
        let driver = match &self.driver {
            Some(driver) => Arc::clone(driver),
            None => Arc::clone(self.driver.insert(Arc::new(Driver::start()?))),
        };
        let client = |retries| client(url, retries).map_err(|error| explained(url.scheme, &error));
        let store = Arc::new(Store {
            scheme: url.scheme,
            root: url.root.clone(),
            at_first: client(RETRIES_AT_FIRST.min(retries()?))?,
            reading: client(retries()?)?,
            driver,
            ahead: Arc::clone(&self.ahead),
        });
        self.open.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

/// Number of repetitions of a request while objects are read.
fn retries() -> io::Result<usize> {
    let Some(value) = std::env::var_os(RETRIES) else { return Ok(RetryConfig::default().max_retries) };
    let number = value.to_str().and_then(|text| text.parse().ok());
    let hint = "set it to the maximum number of retries, or unset it";
    number
        .ok_or_else(|| io::Error::other(Hinted { reason: format!("{RETRIES} is not a valid number of retries"), hint }))
}

/// A client of a store. Credentials and endpoints come from the environment.
fn client(url: &Url, max_retries: usize) -> object_store::Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { max_retries, ..RetryConfig::default() };
    let bucket = url.root.split_once("://").map_or("", |(_, bucket)| bucket);
    // A part may take longer than a whole request may by default; a connection that is silent for this time is broken.
    let silent = "30s";
    match url.scheme {
        Scheme::S3 => {
            use object_store::aws::AmazonS3ConfigKey::Client;
            let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
            let builder = builder.with_config(Client(object_store::ClientConfigKey::ReadTimeout), silent);
            let builder = builder.with_config(Client(object_store::ClientConfigKey::Timeout), LONG);
            Ok(Arc::new(builder.build()?))
        }
        Scheme::Gs => {
            use object_store::gcp::GoogleConfigKey::Client;
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
            let builder = builder.with_config(Client(object_store::ClientConfigKey::ReadTimeout), silent);
            let builder = builder.with_config(Client(object_store::ClientConfigKey::Timeout), LONG);
            Ok(Arc::new(builder.build()?))
        }
        Scheme::Http => {
            let query = url.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
            let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
            let options = options.with_read_timeout(Duration::from_secs(30));
            let builder = HttpBuilder::new().with_url(format!("{}/{query}", url.root)).with_client_options(options);
            Ok(Arc::new(builder.with_retry(retry).build()?))
        }
    }
}

/// Time limit of a whole request.
const LONG: &str = "10min";

impl Store {
    fn wait<T>(pending: Pending<object_store::Result<T>>) -> object_store::Result<T> {
        pending
            .wait()
            .unwrap_or_else(|| Err(Error::Generic { store: "windrow", source: "the request panicked".into() }))
    }

    fn object(self: &Arc<Self>, path: Path) -> object_store::Result<Object> {
        let (client, scheme) = (Arc::clone(&self.at_first), self.scheme);
        let found = self.driver.begin(async move {
            if scheme == Scheme::Http {
                // Signed URLs are for GET only, and this request shows that the server serves parts.
                let options = GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() };
                match client.get_opts(&path, options).await {
                    Ok(first) => return Ok(first.meta),
                    // An empty file has no first byte.
                    Err(error) if status(&error) != Some(416) => return Err(error),
                    Err(_) => {}
                }
            }
            client.head(&path).await
        });
        Ok(Object { store: Arc::clone(self), meta: Self::wait(found)? })
    }

    fn folder(self: &Arc<Self>, prefix: Path) -> object_store::Result<Found> {
        let client = Arc::clone(&self.at_first);
        let listed = self.driver.begin(async move {
            let prefix = Some(prefix).filter(|prefix| !prefix.as_ref().is_empty());
            client.list(prefix.as_ref()).try_collect::<Vec<ObjectMeta>>().await
        });
        let mut listed = Self::wait(listed)?;
        listed.sort_by(|a, b| a.location.as_ref().cmp(b.location.as_ref()));
        // Consoles create folders as empty objects whose keys end with a slash, which is lost here.
        let is_folder = |index: usize| {
            let name = listed[index].location.as_ref();
            let is_above = |other: &ObjectMeta| {
                other.location.as_ref().strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
            };
            listed[index].size == 0
                && listed[index + 1..]
                    .iter()
                    .take_while(|other| other.location.as_ref().starts_with(name))
                    .any(is_above)
        };
        let folders: Vec<bool> = (0..listed.len()).map(is_folder).collect();
        let files = listed.into_iter().zip(folders).filter(|(_, is_folder)| !is_folder);
        Ok(Found::Folder(files.map(|(meta, _)| Object { store: Arc::clone(self), meta }).collect()))
    }

    /// The name of some object below a path.
    fn any_below(self: &Arc<Self>, path: Path) -> Option<String> {
        let client = Arc::clone(&self.at_first);
        let first = self.driver.begin(async move { client.list(Some(&path)).try_next().await });
        Some(format!("{}/{}", self.root, Self::wait(first).ok()??.location))
    }
}

impl Object {
    /// The URL without a possible signature.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.store.root, self.meta.location)
    }

    /// The object's key.
    pub(super) fn key(&self) -> &str {
        self.meta.location.as_ref()
    }

    pub(crate) fn size(&self) -> u64 {
        self.meta.size
    }

    /// The object's version, if the store has any.
    pub(crate) fn version(&self) -> Option<String> {
        let tag = self.meta.e_tag.as_deref().map(|tag| unquoted(tag).to_owned());
        tag.or_else(|| (self.meta.last_modified.timestamp() != 0).then(|| self.meta.last_modified.to_rfc3339()))
    }

    /// The object's first bytes.
    pub(super) fn first(&self, bytes: u64) -> io::Result<Bytes> {
        let end = bytes.min(self.size());
        if end == 0 { Ok(Bytes::new()) } else { self.answer(self.begin(0..end)) }
    }

    /// Starts to read these bytes.
    fn begin(&self, range: Range<u64>) -> Pending<io::Result<Bytes>> {
        let (meta, client, scheme) = (self.meta.clone(), Arc::clone(&self.store.reading), self.store.scheme);
        self.store.driver.begin(async move {
            let retries = if meta.e_tag.is_none() { retries()? } else { 0 };
            let mut tried = 0;
            loop {
                match read(&client, &meta, range.clone(), scheme).await {
                    // With tags, the client itself has continued after the received bytes.
                    Err(ReadError::Broken(_)) if tried < retries => {
                        tokio::time::sleep(Duration::from_millis(100 << tried.min(7))).await;
                        tried += 1;
                    }
                    Err(ReadError::Broken(error) | ReadError::Refused(error)) => return Err(error),
                    Ok(bytes) => return Ok(bytes),
                }
            }
        })
    }

    fn answer(&self, pending: Pending<io::Result<Bytes>>) -> io::Result<Bytes> {
        pending.wait().unwrap_or_else(|| Err(io::Error::other("the request panicked")))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("name", &self.name()).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// The cause of missing bytes.
enum ReadError {
    /// Failed before the first byte.
    Refused(io::Error),
    /// Failed after some of the bytes.
    Broken(io::Error),
}

async fn read(
    client: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    range: Range<u64>,
    scheme: Scheme,
) -> Result<Bytes, ReadError> {
    // A weak tag never matches.
    let if_match = meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
    let wanted = range.end - range.start;
    let options = GetOptions { if_match, range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    let got = client.get_opts(&meta.location, options).await;
    let got = got.map_err(|error| ReadError::Refused(explained(scheme, &error)))?;
    if is_other(meta, &got.meta) {
        return Err(ReadError::Refused(io::Error::other(Changed)));
    }
    let bytes = got.bytes().await.map_err(|error| ReadError::Broken(explained(scheme, &error)))?;
    if bytes.len() as u64 != wanted {
        return Err(ReadError::Broken(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

/// True if an answer is about another version. Some stores ignore the condition of a request.
fn is_other(found: &ObjectMeta, now: &ObjectMeta) -> bool {
    let is_other_version = match (&found.e_tag, &now.e_tag) {
        (Some(found), Some(now)) => unquoted(found) != unquoted(now),
        // Lists have fractions of seconds, and headers have none.
        _ => found.last_modified.timestamp() != now.last_modified.timestamp(),
    };
    found.size != now.size || is_other_version
}

fn unquoted(tag: &str) -> &str {
    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag)
}

/// Number of parts that may still be requested ahead.
#[derive(Debug)]
struct Ahead(Mutex<usize>);

/// The right to request a part ahead.
#[derive(Debug)]
struct Permit(Arc<Ahead>);

impl Ahead {
    fn permit(self: &Arc<Self>) -> Option<Permit> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(1)?;
        Some(Permit(Arc::clone(self)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_back() {
        let ahead = Arc::new(Ahead(Mutex::new(2)));
        let (first, second) = (ahead.permit(), ahead.permit());
        assert!(first.is_some() && second.is_some() && ahead.permit().is_none());
        drop(first);
        assert!(ahead.permit().is_some());
    }
}
