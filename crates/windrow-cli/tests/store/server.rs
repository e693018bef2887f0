//! A small server of objects, which can fail on purpose. It speaks what S3, Google Cloud Storage and web servers have in common: GET and HEAD
//! with ranges and conditions, and lists of S3.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A request, as far as tests look at it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With the query.
    pub(crate) target: String,
    pub(crate) range: Option<(u64, u64)>,
    if_match: Option<String>,
}

/// What the server does instead of answering.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Answers with this number of bytes of the body, and closes the connection.
    Cut(usize),
    /// Ignores the range.
    Whole,
}

/// Bytes by path.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

type Faults = Box<dyn FnMut(&Request, &mut Objects) -> Option<Fault> + Send>;

struct State {
    objects: Objects,
    requests: Vec<Request>,
    faults: Faults,
    has_tags: bool,
}

pub(crate) struct Server {
    pub(crate) url: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    /// A server of these objects, each with its path.
    pub(crate) fn start(objects: &[(&str, &[u8])]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let objects = objects.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        let state = State { objects, requests: Vec::new(), faults: Box::new(|_, _| None), has_tags: true };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(stream.ok()?, &state));
            }
        });
        Self { url, state }
    }

    /// The address of another server.
    pub(crate) fn at(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::start(&[]) }
    }

    /// From now on this decides what fails. It may change objects, too.
    pub(crate) fn faults(&self, faults: impl FnMut(&Request, &mut Objects) -> Option<Fault> + Send + 'static) {
        self.state().faults = Box::new(faults);
    }

    /// From now on objects have neither tag nor time.
    pub(crate) fn without_tags(&self) {
        self.state().has_tags = false;
    }

    /// The requests so far; the next call returns those after it.
    pub(crate) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.state().requests)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the requests of a connection.
fn serve(stream: TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut writer = stream;
    loop {
        let request = read(&mut reader)?;
        let (answer, closes) = {
            let state = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
            state.requests.push(request.clone());
            let fault = (state.faults)(&request, &mut state.objects);
            answer(state, &request, fault)
        };
        writer.write_all(&answer).ok()?;
        if closes {
            return None;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next()?, words.next()?);
    let (mut range, mut if_match) = (None, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((from.parse().ok()?, to.parse().ok()?));
            }
            "if-match" => if_match = Some(value.to_owned()),
            _ => {}
        }
    }
    Some(Request { method, target, range, if_match })
}

/// The bytes of an answer, and whether the connection is closed after it.
fn answer(state: &State, request: &Request, fault: Option<Fault>) -> (Vec<u8>, bool) {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let simple = |status: &str, body: &str| {
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n", body.len());
        let body = if request.method == "HEAD" { "" } else { body };
        (format!("{head}{body}").into_bytes(), false)
    };
    if let Some(Fault::Status(status)) = fault {
        return simple(
            &format!("{status} Fault"),
            &format!("<Error><Code>Code{status}</Code><Message>On purpose.</Message></Error>"),
        );
    }
    if query.contains("list-type=2") {
        return simple("200 OK", &listed(state, path, query));
    }
    let Some(bytes) = state.objects.get(&decoded(path)) else {
        return simple("404 Not Found", "<Error><Code>NoSuchKey</Code><Message>No such key.</Message></Error>");
    };
    let tag = tag(bytes);
    if request.if_match.as_ref().is_some_and(|wanted| *wanted != tag) {
        return simple("412 Precondition Failed", "");
    }
    let range = request.range.filter(|_| fault != Some(Fault::Whole));
    let size = bytes.len() as u64;
    let (status, headers, body) = match range {
        Some((from, _)) if from >= size => return simple("416 Range Not Satisfiable", ""),
        Some((from, to)) => {
            let to = to.min(size - 1);
            let place = format!("Content-Range: bytes {from}-{to}/{size}\r\n");
            ("206 Partial Content", place, &bytes[from as usize..=to as usize])
        }
        None => ("200 OK", String::new(), &bytes[..]),
    };
    let tags = format!("ETag: {tag}\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n");
    let tags = if state.has_tags { tags } else { String::new() };
    let head = format!("HTTP/1.1 {status}\r\n{tags}{headers}Content-Length: {}\r\n\r\n", body.len());
    let body = if request.method == "HEAD" { &[] } else { body };
    let (body, closes) = match fault {
        Some(Fault::Cut(cut)) if cut < body.len() => (&body[..cut], true),
        _ => (body, false),
    };
    ([head.as_bytes(), body].concat(), closes)
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{}\"", &blake3::hash(bytes).to_hex()[..16])
}

/// A list of S3, three keys a page.
fn listed(state: &State, bucket: &str, query: &str) -> String {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| decoded(value)).unwrap_or_default()
    };
    let root = format!("{}/", bucket.trim_end_matches('/'));
    let (prefix, after) = (value("prefix"), value("continuation-token"));
    let keys = state.objects.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(&root)?, bytes)));
    let mut keys = keys.filter(|(key, _)| key.starts_with(&prefix) && (after.is_empty() || *key > after.as_str()));
    let mut page = String::new();
    let mut last = String::new();
    for (key, bytes) in keys.by_ref().take(3) {
        let (tag, size) = (tag(bytes), bytes.len());
        page += &format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
        );
        last = key.to_owned();
    }
    let more = match keys.next() {
        Some(_) => format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"),
        None => "<IsTruncated>false</IsTruncated>".to_owned(),
    };
    format!("<?xml version=\"1.0\"?><ListBucketResult>{more}{page}</ListBucketResult>")
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next().unwrap()).to_digit(16).unwrap();
        bytes.push(if byte == b'%' { (16 * digit() + digit()) as u8 } else { byte });
    }
    String::from_utf8(bytes).unwrap()
}
