//! The stages with stand-ins for the engine, the input and the output.

use std::fmt;
use std::io::{self, Read};
use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::account::Account;
use super::special::SpecialIds;
use super::stages::{Run, run};
use super::{EncodeError, Job, MaxSkipped, Summary};
use crate::engine::{Encoder, Engine, EngineError};
use crate::input::{Compression, FileReport, Format, InputFile, Position};
use crate::manifest::{Documents, OnError, Selection, SkippedDocument};
use crate::output::{Ending, Finished, FormatWriter, Output, OutputError, OutputErrorKind, OutputOptions, StagedFile};

/// One id per byte. It panics on text that contains `panic`, and refuses text that contains `refuse`.
struct Bytes;

impl Engine for Bytes {
    fn name(&self) -> &str {
        "bytes 1.0"
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Box::new(Self)
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }
}

impl Encoder for Bytes {
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError> {
        assert!(!text.contains("panic"), "the engine met {text:?}");
        ids.extend(text.bytes().map(u32::from));
        if text.contains("refuse") {
            return Err(EngineError::Refused { engine: "bytes 1.0".to_owned(), reason: "as requested".to_owned() });
        }
        Ok(())
    }
}

/// [`Bytes`] with cuts before spaces.
struct Words;

impl Engine for Words {
    fn name(&self) -> &str {
        Bytes.name()
    }

    fn encoder(&self) -> Box<dyn Encoder + '_> {
        Bytes.encoder()
    }

    fn token_to_id(&self, _: &str) -> Option<u32> {
        None
    }

    fn cuts_documents(&self) -> bool {
        true
    }

    fn last_cut(&self, part: &[u8], from: usize) -> Option<usize> {
        part.iter().rposition(|&byte| byte == b' ').filter(|&at| at > 0 && at >= from)
    }
}

/// Keeps documents in the place of their files, and calls `meanwhile` before each document or part of one.
struct Kept<F> {
    written: Arc<Mutex<Written>>,
    open: Open,
    /// Maximum number of ids per document.
    longest: usize,
    meanwhile: F,
}

/// Documents that have arrived.
#[derive(Debug, Default)]
struct Written {
    documents: Vec<String>,
    /// The number of parts of each document that came in parts.
    parts: Vec<usize>,
    /// The first of them.
    skipped: Vec<SkippedDocument>,
}

/// A document that has not ended.
#[derive(Debug, Default)]
struct Open {
    text: String,
    /// The number of its parts, if it comes in parts.
    parts: Option<usize>,
}

impl<F> fmt::Debug for Kept<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl<F> Kept<F> {
    fn new(meanwhile: F) -> Self {
        Self { written: Arc::default(), open: Open::default(), longest: usize::MAX, meanwhile }
    }
}

impl<F: FnMut(usize) -> Result<(), OutputError> + Send + 'static> FormatWriter for Kept<F> {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        None
    }

    fn begin(&mut self) -> Result<(), OutputError> {
        self.open.parts = Some(0);
        Ok(())
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        (self.meanwhile)(ids.len())?;
        self.open.text.extend(ids.iter().map(|&id| char::from(id as u8)));
        self.open.parts.iter_mut().for_each(|parts| *parts += usize::from(!ids.is_empty()));
        Ok(())
    }

    fn end(&mut self, _: Ending<'_>) -> Result<(), OutputError> {
        let Open { text, parts } = mem::take(&mut self.open);
        let mut written = self.written.lock().unwrap();
        written.documents.push(text);
        written.parts.extend(parts);
        Ok(())
    }

    fn discard(&mut self) -> Result<(), OutputError> {
        self.open = Open::default();
        Ok(())
    }

    fn finish(self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        Ok(Vec::new())
    }
}

/// The result of the stages.
struct Ended {
    account: Account,
    summary: Summary,
    ended_at: Option<Position>,
    end: Result<Vec<FileReport>, EncodeError>,
    /// None if the writing stage panicked.
    sink: Option<Written>,
}

fn lines(text: impl Into<Vec<u8>>) -> InputFile {
    InputFile::from_reader("lines", io::Cursor::new(text.into()), Format::Lines, None)
}

fn jsonl(text: impl Into<Vec<u8>>) -> InputFile {
    InputFile::from_reader("jsonl", io::Cursor::new(text.into()), Format::Jsonl, None)
}

fn job(inputs: Vec<InputFile>, on_error: OnError) -> Job {
    let mut job = Job { memory: 64 << 10, chunk_bytes: 1 << 10, ..Job::new(inputs) };
    job.reading.on_error = on_error;
    job
}

/// Runs a job with a timeout, because a fault would make it hang.
fn ends<F>(job: Job, sink: Kept<F>) -> Ended
where
    F: FnMut(usize) -> Result<(), OutputError> + Send + 'static,
{
    ends_with(&Bytes, job, sink)
}

fn ends_with<F>(engine: &'static dyn Engine, job: Job, sink: Kept<F>) -> Ended
where
    F: FnMut(usize) -> Result<(), OutputError> + Send + 'static,
{
    let (done, outcome) = mpsc::channel();
    let folder = tempfile::tempdir().unwrap();
    let mut output = Output::create(&OutputOptions::new(folder.path().join("out"), 256)).unwrap();
    let (written, longest) = (Arc::clone(&sink.written), sink.longest);
    output.set_writer(Box::new(sink), longest);
    thread::spawn(move || {
        // The receiver has gone if this comes too late.
        let _ = done.send(run(job, engine, &SpecialIds::default(), None, output, &(), None));
    });
    let run = outcome.recv_timeout(Duration::from_secs(60)).expect("the run should end without a panic");
    let Run { account, output, summary, ended_at, end } = run;
    let sink = output.map(|output| {
        let written = mem::take(&mut *written.lock().unwrap());
        let skipped = output.first_skipped().iter().cloned();
        Written {
            skipped: skipped.map(|bad| SkippedDocument { reason: plain(&bad.reason), ..bad }).collect(),
            ..written
        }
    });
    Ended { account, summary, ended_at, end, sink }
}

/// A message without the number of ids that a part of a document, or the whole, has too many.
fn plain(message: &str) -> String {
    match message.split_once("document ").filter(|(_, rest)| rest.contains("ids, but the npy format allows")) {
        Some((before, _)) => format!("{before}too long"),
        None => message.to_owned(),
    }
}

fn account(read: u64, written: u64, skipped: u64, failed: u64) -> Documents {
    Documents { read, written, skipped, failed, deselected: 0 }
}

/// Endless lines, with a count of the bytes that were read.
struct Endless(Arc<AtomicUsize>);

impl Read for Endless {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // As little as a pipe returns.
        let bytes = bytes.split_at_mut(bytes.len().min(4_000)).0;
        bytes.fill(b'x');
        bytes.chunks_mut(100).for_each(|line| line[0] = b'\n');
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(bytes.len())
    }
}

fn endless() -> (InputFile, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    (InputFile::from_reader("endless", Endless(Arc::clone(&read)), Format::Lines, Some(Compression::None)), read)
}

fn disk_full() -> OutputError {
    OutputError::new(OutputErrorKind::Io, "the disk is full")
}

#[test]
fn documents_arrive_in_order_whatever_the_sizes() {
    let texts: Vec<String> = (0..3_000).map(|i| format!("line {i} {}", "y".repeat(i % 97))).collect();
    for (threads, memory, chunk_bytes) in
        [(1, 1, 1), (8, 1, 1), (1, 1 << 12, 100), (2, 1 << 16, 1 << 10), (4, 1 << 30, 100), (8, 1 << 30, 1 << 16)]
    {
        let job = Job { threads, memory, chunk_bytes, ..job(vec![lines(texts.join("\n"))], OnError::Fail) };
        let run = ends(job, Kept::new(|_| Ok(())));
        assert_eq!(run.end.unwrap()[0].documents, 3_000);
        assert_eq!(run.sink.unwrap().documents, texts, "{threads} threads, memory {memory}, chunks of {chunk_bytes}");
        assert_eq!(run.account.documents, account(3_000, 3_000, 0, 0));
        assert_eq!(run.account.text_bytes, texts.iter().map(|text| text.len() as u64).sum::<u64>());
    }
}

#[test]
fn a_slow_writer_slows_the_reader() {
    const MEMORY: usize = 1 << 20;
    let (file, read) = endless();
    let mut written = 0;
    let ahead = Arc::clone(&read);
    let sink = Kept::new(move |bytes| {
        if written == 0 {
            // The first append lasts until the reader is some batches ahead ...
            while ahead.load(Ordering::Relaxed) < MEMORY / 10 {
                thread::yield_now();
            }
        }
        // ... and no append finds it further ahead than the budget allows, with four bytes of ids per byte of text.
        let ahead = ahead.load(Ordering::Relaxed) - written;
        assert!(ahead <= MEMORY / 5 + (64 << 10), "{ahead} bytes ahead");
        // Including their newlines.
        written += bytes / 99 * 100;
        if written > 16 * MEMORY { Err(disk_full()) } else { Ok(()) }
    });
    let run = ends(Job { memory: MEMORY, ..job(vec![file], OnError::Fail) }, sink);
    assert!(matches!(run.end, Err(EncodeError::Output(_))), "{:?}", run.end);
    assert!(
        (MEMORY / 10..=MEMORY).contains(&run.summary.peak_in_flight),
        "{} bytes in flight",
        run.summary.peak_in_flight
    );
}

#[test]
fn a_failing_writer_stops_the_others() {
    let (file, read) = endless();
    let mut appends = 0;
    let sink = Kept::new(move |_| {
        appends += 1;
        if appends == 3 { Err(disk_full()) } else { Ok(()) }
    });
    let run = ends(job(vec![file], OnError::Skip), sink);
    assert_eq!(run.end.unwrap_err().to_string(), "the disk is full");
    let documents = run.account.documents;
    assert!(documents.is_balanced() && documents.failed == 0 && documents.read > 0, "{documents:?}");
    assert_eq!(documents.written, run.sink.unwrap().documents.len() as u64);
    // The reader's thread has ended: no reference to its input is left.
    assert_eq!(Arc::strong_count(&read), 1);
}

#[test]
fn a_reader_that_waits_for_its_input_is_not_waited_for() {
    /// Delivers some bytes, then none until the test ends it.
    struct Silent {
        spoken: bool,
        reached: mpsc::Sender<()>,
        end: mpsc::Receiver<()>,
    }
    impl Read for Silent {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if !std::mem::replace(&mut self.spoken, true) {
                // One batch, and a part of the next.
                bytes[..6_000].fill(b'x');
                bytes[..6_000].chunks_mut(100).for_each(|line| line[0] = b'\n');
                return Ok(6_000);
            }
            self.reached.send(()).map_err(io::Error::other)?;
            self.end.recv().map(|()| 0).map_err(io::Error::other)
        }
    }
    let ((reached, is_silent), (speak, end)) = (mpsc::channel(), mpsc::channel());
    let silent = Silent { spoken: false, reached, end };
    let file = InputFile::from_reader("pipe", silent, Format::Lines, Some(Compression::None));
    let sink = Kept::new(move |_| {
        is_silent.recv().expect("the reader should read on until the input pauses");
        Err(disk_full())
    });
    let run = ends(job(vec![file], OnError::Fail), sink);
    assert_eq!(run.end.unwrap_err().to_string(), "the disk is full");
    speak.send(()).expect("the reader should still be waiting for input");
}

#[test]
fn a_panic_in_any_stage_is_an_error_with_its_message() {
    let run = ends(job(vec![lines("a\nplease panic\nb")], OnError::Skip), Kept::new(|_| Ok(())));
    assert_eq!(
        run.end.unwrap_err().to_string().lines().next(),
        Some("encoding panicked: the engine met \"please panic\"")
    );

    let (file, _) = endless();
    let run = ends(job(vec![file], OnError::Skip), Kept::new(|_| panic!("no sink")));
    assert_eq!(run.end.unwrap_err().to_string().lines().next(), Some("writing panicked: no sink"));

    struct Faulty;
    impl Read for Faulty {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("no input")
        }
    }
    let file = InputFile::from_reader("faulty", Faulty, Format::Lines, Some(Compression::None));
    let run = ends(job(vec![lines("good"), file], OnError::Skip), Kept::new(|_| Ok(())));
    assert_eq!(run.end.unwrap_err().to_string().lines().next(), Some("reading panicked: no input"));
}

#[test]
fn the_first_bad_document_ends_the_run() {
    let text = "one\nrefuse\ntwo\nrefuse again\n";
    for chunk_bytes in [1, 20, 1_000] {
        let job = Job { chunk_bytes, ..job(vec![lines(text)], OnError::Fail) };
        let run = ends(job, Kept::new(|_| Ok(())));
        let EncodeError::Document(bad) = run.end.unwrap_err() else { panic!("another error") };
        assert_eq!((bad.file.as_str(), bad.line, bad.byte, bad.offset), ("lines", 2, 1, 4));
        assert_eq!(bad.reason, "bytes 1.0 cannot encode this text: as requested");
        assert_eq!(run.account.documents, account(2, 1, 0, 1));
        assert_eq!(run.sink.unwrap().documents, ["one"]);
        assert_eq!(run.account.text_bytes, 3);
    }
}

#[test]
fn bad_documents_are_skipped_and_listed_in_order() {
    let good = r#"{"text": "good"}"#;
    let inputs = vec![lines("one\nrefuse\ntwo"), jsonl(format!("{good}\n[]\n\n{good}\n{{}}")), lines("refuse")];
    let run = ends(Job { chunk_bytes: 1, ..job(inputs, OnError::Skip) }, Kept::new(|_| Ok(())));
    assert_eq!(run.end.unwrap().iter().map(|report| report.documents).sum::<u64>(), 8);
    let sink = run.sink.unwrap();
    assert_eq!(sink.documents, ["one", "two", "good", "good"]);
    assert_eq!(run.account.documents, account(8, 4, 4, 0));
    assert_eq!(run.account.first_bad.as_ref(), sink.skipped.first());
    let places: Vec<_> = sink.skipped.iter().map(|bad| (bad.file.as_str(), bad.line, bad.offset)).collect();
    assert_eq!(places, [("lines", 2, 4), ("jsonl", 2, 17), ("jsonl", 5, 38), ("lines", 1, 0)]);
}

#[test]
fn one_bad_document_too_many_ends_the_run_whatever_the_chunks() {
    let text = "one\nrefuse\ntwo\nrefuse\nthree\nrefuse\nfour\n";
    for chunk_bytes in [1, 40, 1_000] {
        for (most, read, written) in [(0, 2, 1), (1, 4, 2), (2, 6, 3)] {
            let job = job(vec![lines(text)], OnError::Skip);
            let job = Job { chunk_bytes, max_skipped: Some(MaxSkipped::Documents(most)), ..job };
            let run = ends(job, Kept::new(|_| Ok(())));
            let case = format!("at most {most} bad documents, chunks of {chunk_bytes} bytes");
            let EncodeError::TooManySkipped { documents, bad, .. } = run.end.unwrap_err() else { panic!("{case}") };
            assert_eq!(documents, account(read, written, most, 1), "{case}");
            assert_eq!(run.account.documents, documents, "{case}");
            assert_eq!(bad.line, read, "{case}");
            let sink = run.sink.unwrap();
            assert_eq!(sink.documents, ["one", "two", "three"][..written as usize], "{case}");
            assert_eq!(run.account.text_bytes, sink.documents.concat().len() as u64, "{case}");
            assert_eq!(sink.skipped.len() as u64, most, "{case}");
        }
        let job = job(vec![lines(text)], OnError::Skip);
        let job = Job { chunk_bytes, max_skipped: Some(MaxSkipped::Documents(3)), ..job };
        assert!(ends(job, Kept::new(|_| Ok(()))).end.is_ok());
    }
}

#[test]
fn bad_documents_take_memory_while_they_are_in_flight() {
    let text = "refuse\n".repeat(2_000);
    let run = ends(job(vec![lines(text)], OnError::Skip), Kept::new(|_| Ok(())));
    assert_eq!(run.account.documents.skipped, 2_000);
    // A batch of the smallest size has 85 of them; the text of the reason has 42 bytes.
    assert!(run.summary.peak_in_flight > 85 * (48 + 42), "{} bytes in flight", run.summary.peak_in_flight);
}

#[test]
fn json_lines_on_stdin_are_noticed() {
    let text = |name: &str, text: &'static str, format| {
        ends(
            job(vec![InputFile::from_reader(name, text.as_bytes(), format, None)], OnError::Fail),
            Kept::new(|_| Ok(())),
        )
    };
    assert!(text("-", "\n {\"text\": \"a\"}\n{\"text\"", Format::Text).summary.stdin_looks_like_json_lines);
    assert!(!text("-", "{\n\"text\": \"a\"}", Format::Text).summary.stdin_looks_like_json_lines);
    assert!(!text("-", "{\"text\": \"a\"}", Format::Jsonl).summary.stdin_looks_like_json_lines);
    assert!(!text("a.txt", "{\"text\": \"a\"}", Format::Text).summary.stdin_looks_like_json_lines);
}

#[test]
fn documents_before_a_broken_input_decide_first() {
    let broken = || InputFile::from_reader("broken", &b"\x1f\x8b"[..], Format::Lines, Some(Compression::Gzip));
    // The same if they are in the batch that was being read when the input broke.
    let run = ends(job(vec![lines("one\nrefuse"), broken()], OnError::Skip), Kept::new(|_| Ok(())));
    assert!(matches!(run.end, Err(EncodeError::Input(_))), "{:?}", run.end);
    assert_eq!(run.account.documents, account(2, 1, 1, 0));
    let run = ends(job(vec![lines("one\nrefuse"), broken()], OnError::Fail), Kept::new(|_| Ok(())));
    assert!(matches!(run.end, Err(EncodeError::Document(_))), "{:?}", run.end);
    assert_eq!(run.account.documents, account(2, 1, 0, 1));

    let long = format!("refuse\n{}", "x\n".repeat(10_000));
    let run = ends(job(vec![lines(long), broken()], OnError::Fail), Kept::new(|_| Ok(())));
    assert!(matches!(run.end, Err(EncodeError::Document(_))), "{:?}", run.end);
    assert_eq!(run.account.documents, account(1, 0, 0, 1));
}

#[test]
fn a_document_that_the_format_cannot_hold_is_a_bad_one() {
    let text = "one\nthirteen\nrefuse\ntwo\nfourteen\nfifteen\n!";
    let mut sink = Kept::new(|_| Ok(()));
    sink.longest = 5;
    let run = ends(job(vec![lines(text)], OnError::Skip), sink);
    let sink = run.sink.unwrap();
    assert_eq!(sink.documents, ["one", "two", "!"]);
    assert_eq!(run.account.documents, account(7, 3, 4, 0));
    assert_eq!(run.account.text_bytes, 7);
    let places: Vec<_> = sink.skipped.iter().map(|bad| (bad.line, bad.reason.as_str())).collect();
    let refused = "bytes 1.0 cannot encode this text: as requested";
    assert_eq!(places, [(2, "too long"), (3, refused), (5, "too long"), (6, "too long")]);

    let mut sink = Kept::new(|_| Ok(()));
    sink.longest = 5;
    let run = ends(job(vec![lines(text)], OnError::Fail), sink);
    let EncodeError::Document(bad) = run.end.unwrap_err() else { panic!("another error") };
    assert_eq!((bad.line, plain(&bad.reason).as_str()), (2, "too long"));
    assert_eq!(run.account.documents, account(2, 1, 0, 1));
    assert_eq!(run.account.text_bytes, 3);
    assert_eq!(run.sink.unwrap().documents, ["one"]);
}

#[test]
fn a_document_larger_than_the_budget_runs_by_itself() {
    let large = "z".repeat(300_000);
    let text = format!("small\n{large}\nsmall\n");
    let run = ends(job(vec![lines(text)], OnError::Fail), Kept::new(|_| Ok(())));
    assert_eq!(run.end.unwrap()[0].documents, 3);
    assert_eq!(run.sink.unwrap().documents, ["small", large.as_str(), "small"]);
    // Its bytes, up to a quarter more because buffers grow, and four bytes for each of its ids, of which there are as many as bytes.
    assert!(
        (1_500_000..1_600_000).contains(&run.summary.peak_in_flight),
        "{} bytes in flight",
        run.summary.peak_in_flight
    );
}

#[test]
fn large_documents_are_in_flight_as_the_budget_allows() {
    let text = format!("{}\n", "z".repeat(100_000)).repeat(30);
    for memory in [700_000, 2_000_000] {
        let run = ends(Job { memory, ..job(vec![lines(text.as_str())], OnError::Fail) }, Kept::new(|_| Ok(())));
        assert_eq!(run.end.unwrap()[0].documents, 30);
        assert!(
            (500_000..=memory).contains(&run.summary.peak_in_flight),
            "{} bytes in flight with a budget of {memory}",
            run.summary.peak_in_flight
        );
    }
}

/// Texts of up to 40 KB, most with spaces and newlines, some with faults at any place.
fn texts(seed: u64) -> Vec<Vec<u8>> {
    let mut state = seed;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut texts = Vec::new();
    for _ in 0..1 + random(5) {
        let len = [0, 1, 100, 4096, 8192, 12_289, 40_000][random(7)];
        let gap = [3, 7, 60, 5_000, 100_000][random(5)];
        let mut text: Vec<u8> =
            (0..len).map(|_| [b'a' + random(13) as u8, b' '][usize::from(random(gap) == 0)]).collect();
        for _ in 0..len / 500 {
            text[random(len)] = b'\n';
        }
        if random(4) == 0 {
            text.splice(..0, *b"\xef\xbb\xbf");
        }
        // One kind of fault in a text: with two kinds, the whole text reports the wrong bytes first, parts the first in order.
        let faults = [&b"refuse"[..], b"\xff", b"\xc3", b"plain"];
        for (odds, fault) in [(8, "\u{e9}\u{4e2d}".as_bytes()), (2, faults[(seed % 4) as usize])] {
            if random(odds) == 0 && len > fault.len() {
                let at = random(len - fault.len());
                text[at..at + fault.len()].copy_from_slice(fault);
            }
        }
        texts.push(text);
    }
    texts
}

/// Encodes the files whole and in parts, and compares. Returns the largest number of parts of a document, and the number of bad documents.
fn compare_parts(seed: u64, files: &dyn Fn() -> Vec<InputFile>) -> (usize, usize) {
    let (mut most, mut bad) = (0, 0);
    for on_error in [OnError::Skip, OnError::Fail] {
        let kept = || Kept { longest: if seed % 4 == 3 { 10_000 } else { usize::MAX }, ..Kept::new(|_| Ok(())) };
        let whole = ends(job(files(), on_error), kept());
        let parts = ends_with(&Words, job(files(), on_error), kept());
        assert_eq!(
            parts.end.as_ref().err().map(|error| plain(&error.to_string())),
            whole.end.as_ref().err().map(|error| plain(&error.to_string())),
            "seed {seed}"
        );
        assert_eq!(parts.account.documents, whole.account.documents, "seed {seed}");
        assert_eq!(parts.account.text_bytes, whole.account.text_bytes, "seed {seed}");
        let reports = |run: &Ended| run.end.as_ref().ok().map(|all| all.iter().map(|file| file.documents).sum::<u64>());
        assert_eq!(reports(&parts), reports(&whole));
        let (parts, whole) = (parts.sink.expect("no panic"), whole.sink.expect("no panic"));
        assert!(parts.documents == whole.documents, "seed {seed}");
        assert_eq!(parts.skipped, whole.skipped, "seed {seed}");
        most = most.max(parts.parts.iter().copied().max().unwrap_or(0));
        bad += parts.skipped.len();
    }
    (most, bad)
}

#[test]
fn documents_in_parts_are_those_that_are_encoded_whole() {
    let (mut most, mut all_bad) = (0, 0);
    for seed in 0..80 {
        let file = |text| InputFile::from_reader("text", io::Cursor::new(text), Format::Text, Some(Compression::None));
        let (parts, bad) = compare_parts(seed, &|| texts(seed).into_iter().map(file).collect());
        (most, all_bad) = (most.max(parts), all_bad + bad);
    }
    assert!(most > 5 && all_bad > 50, "at most {most} parts per document, {all_bad} bad documents");
}

#[test]
fn lines_in_parts_are_those_that_are_encoded_whole() {
    let (mut most, mut all_bad) = (0, 0);
    for seed in 0..80 {
        let mut file = Vec::new();
        for (number, mut text) in texts(seed).into_iter().enumerate() {
            text.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b'\r');
            file.extend_from_slice(&text);
            file.extend_from_slice([&b"\n"[..], b"\r\n", b"\r\r\n"][(seed as usize + number) % 3]);
        }
        if seed % 5 == 0 {
            file.pop();
        }
        let (parts, bad) = compare_parts(seed, &|| vec![lines(file.clone())]);
        (most, all_bad) = (most.max(parts), all_bad + bad);
    }
    assert!(most > 5 && all_bad > 30, "at most {most} parts per document, {all_bad} bad documents");
}

#[test]
fn json_lines_in_parts_are_those_that_are_encoded_whole() {
    let (mut most, mut all_bad) = (0, 0);
    for seed in 0..160 {
        let mut file = Vec::new();
        for (number, text) in texts(seed).into_iter().enumerate() {
            let json = serde_json::to_string(&String::from_utf8_lossy(&text)).unwrap();
            let lone = json.replacen("a ", r"a\ud83d ", 1);
            let line = match (seed as usize + number) % 12 {
                0 => format!(r#"{{"text": {json}, "text": {json}}}"#),
                1 => format!(r#"{{"text": {json}, "more": {json}, "text": "short"}}"#),
                2 => format!(r#"{{"more": {json}, "text": "short"}}"#),
                3 => format!(r#"{{"text": {lone}}}"#),
                4 => format!(r#"{{"text": {json}, "more": {lone}}}"#),
                5 => format!(r#"{{"text": {json}, "#),
                6 => format!(r#"{{"text": {json}, "text": null}}"#),
                7 => format!(r#"{{"other": {json}}}"#),
                8 => format!(r#"{{"text": {json}}}{}"#, " ".repeat(9_000)),
                9 => format!(r#"{}{{"text": {json}}}"#, " ".repeat(9_000)),
                10 => " ".repeat(9_000),
                _ => format!(r#"{{"te\u0078t": {json}, "id": {number}}}"#),
            };
            file.extend_from_slice(line.as_bytes());
            if seed % 7 == 0 {
                file.extend_from_slice(&text);
                file.retain(|byte| *byte != b'\n');
            }
            file.extend_from_slice([&b"\n"[..], b"\r\n", b"\n\n"][(seed as usize + number) % 3]);
        }
        if seed % 5 == 0 {
            file.pop();
        }
        let (parts, bad) = compare_parts(seed, &|| vec![jsonl(file.clone())]);
        (most, all_bad) = (most.max(parts), all_bad + bad);
    }
    assert!(most > 5 && all_bad > 100, "at most {most} parts per document, {all_bad} bad documents");
}

#[test]
fn a_choice_does_not_depend_on_parts() {
    let text = |number: usize| format!("{number} {}", "word ".repeat(number * 67 % 4_000));
    let plain: String = (0..60).map(|number| text(number) + "\n").collect();
    let json: String = (0..60).map(|number| serde_json::json!({"text": text(number)}).to_string() + "\n").collect();
    let outcome = |memory, limit: u64| {
        let whole = InputFile::from_reader("text", io::Cursor::new(plain.clone()), Format::Text, None);
        let mut job = job(vec![lines(plain.clone()), whole, jsonl(json.clone())], OnError::Skip);
        job.memory = memory;
        let (limit, sample) = (NonZeroU64::new(limit), "50%".parse().ok());
        job.reading.selection = Selection { limit, sample, seed: Some(2), ..Selection::default() };
        let run = ends_with(&Words, job, Kept::new(|_| Ok(())));
        run.end.expect("all documents are good");
        let place = run.ended_at.map(|end| (end.file, end.last.map(|last| (last.line, last.number))));
        let sink = run.sink.expect("nothing panics");
        (run.account.documents, sink.documents, place, sink.parts.len())
    };
    for limit in [0, 1, 17, 31, 40, 1_000] {
        let (counts, documents, place, parts) = outcome(64 << 10, limit);
        let (other_counts, other_documents, other_place, _) = outcome(1 << 30, limit);
        assert!(counts.is_balanced() && (counts.deselected > 0 || limit == 1), "{counts:?}");
        assert_eq!(counts, other_counts);
        assert!(documents == other_documents, "{limit}");
        assert_eq!(place, other_place);
        assert!(limit == 1 || parts > 3, "{parts}");
    }
}
