//! Counts the documents and ids that [`encode`](super::encode) would write, with the same readers and engines, and without an output.

use std::mem;
use std::sync::Arc;

use windrow::{CancelToken, current_num_threads};

use super::budget::Budget;
use super::chunk::{Bad, Chunk, EncodeContext};
use super::parts::OpenDocument;
use super::readers::Item;
use super::stages::{Fed, QUEUE, Read, Reading, error_of, reader_of};
use super::{EncodeError, Job, LargeDocument, Observer, Step, Summary, panics_in};
use crate::document::{FaultKind, text_in};
use crate::input::{Batch, Continuation, Format, IsRecord, Tolerance};
use crate::tokenizer::Tokenizer;

/// The documents of an input.
///
/// ```
/// use windrow_tokenizers::encode::{Counted, Counting, Job, count};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let lines = InputFile::from_reader("memory", &b"{\"text\": \"Hello world\"}\n{\"text\": \"\"}"[..], Format::Jsonl, None);
/// let mut counts = Vec::new();
/// count(Job::new(vec![lines]), &tokenizer, &Counting::default(), &mut |_, counted| {
///     counts.extend(counted);
///     true
/// })?;
/// assert_eq!(counts, [Counted { documents: 2, text_bytes: 11, tokens: 2, is_text: false }]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of documents.
    pub documents: u64,
    /// UTF-8 bytes of their texts.
    pub text_bytes: u64,
    /// Number of ids.
    pub tokens: u64,
    /// True if the input is JSON lines that were taken for text, because the first one has no text: see [`Counting::may_be_text`].
    pub is_text: bool,
}

/// Findings in the texts that a user should know.
///
/// ```
/// use windrow_tokenizers::encode::{Counting, Job, Noticed, count};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let lines = InputFile::from_reader("-", &b"{\"text\": \"Hello\"}\n"[..], Format::Text, None);
/// let noticed = count(Job::new(vec![lines]), &tokenizer, &Counting::default(), &mut |_, _| true)?;
/// assert_eq!(noticed, Noticed { stdin_looks_like_json_lines: true, ..Noticed::default() });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// True if standard input was read as text but begins with a line of JSON.
    pub stdin_looks_like_json_lines: bool,
    /// The number of texts that are Git LFS pointers, which stand for files that were not fetched, and the first of them by name.
    pub pointers: (u64, String),
}

/// Settings of a run of [`count`].
///
/// ```
/// use windrow_tokenizers::encode::{Counting, Job, count};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let log = InputFile::from_reader("memory", &b"{\"level\": 3}"[..], Format::Jsonl, None);
/// let counting = Counting { may_be_text: true, ..Counting::default() };
/// count(Job::new(vec![log]), &tokenizer, &counting, &mut |_, counted| {
///     assert!(counted.is_ok_and(|counted| counted.is_text && counted.text_bytes == 12));
///     true
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Counting<'a> {
    /// True if a file of JSON lines whose first record is no object with the wanted field counts as text.
    pub may_be_text: bool,
    /// Observes the progress.
    pub observer: &'a dyn Observer,
    /// Called by all threads; the run ends soon after a call has returned false.
    pub goes_on: &'a (dyn Fn() -> bool + Sync),
}

impl Default for Counting<'_> {
    fn default() -> Self {
        Self { may_be_text: false, observer: &(), goes_on: &|| true }
    }
}

/// Counts the ids of all inputs of `job`, on the threads of the current pool. `each` receives the result of each input, by its index and in order,
/// and may end the run by returning false. For a bad input it receives the first fault; the other inputs are counted.
///
/// Settings of `job` for an output, its threads, [limits](Job::max_skipped) and [selection](crate::manifest::Selection) are ignored.
///
/// ```
/// use windrow_tokenizers::encode::{Counting, Job, count};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let texts = [&b"Hello world"[..], b"\xff", b"Hello"];
/// let inputs = texts.map(|text| InputFile::from_reader("memory", text, Format::Text, None)).into();
/// let mut tokens = Vec::new();
/// count(Job::new(inputs), &tokenizer, &Counting::default(), &mut |_, counted| {
///     tokens.push(counted.ok().map(|counted| counted.tokens));
///     true
/// })?;
/// assert_eq!(tokens, [Some(2), None, Some(1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`EncodeError::Stopped`], if `each` or [`Counting::goes_on`] has ended the run. A thread cannot be started, or panics.
pub fn count(
    mut job: Job,
    tokenizer: &Tokenizer,
    counting: &Counting<'_>,
    each: &mut dyn FnMut(usize, Result<Counted, EncodeError>) -> bool,
) -> Result<Noticed, EncodeError> {
    let engine = tokenizer.engine();
    let budget = Arc::new(Budget::new(job.memory, engine.working_bytes()));
    let names: Vec<String> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let fields = job.reading.fields();
    let is_record: IsRecord = Box::new({
        let fields = fields.clone();
        move |line| {
            let text = text_in(Format::Jsonl, line, &fields, &mut String::new()).map(drop);
            !text.is_err_and(|fault| matches!(fault.kind, FaultKind::MissingField | FaultKind::NotObject))
        }
    });
    let tolerance = Arc::new(Tolerance::new(counting.may_be_text.then_some(is_record)));
    let make = Arc::new({
        let (make, tolerance) = (reader_of(&job, engine, true), Arc::clone(&tolerance));
        move |files| make(files).tolerant(Arc::clone(&tolerance))
    });
    let continuation = Continuation::default();
    let (reading, batches, used) =
        Reading::begin(&mut job, engine, make, continuation, &budget, current_num_threads())?;
    let token = CancelToken::new();
    let observer = Asking { counting, token: &token };
    let context = EncodeContext::new(&job, engine, &observer, &names, &fields);
    let mut document = OpenDocument::default();
    let mut tally =
        Tally { file: 0, counted: Counted::default(), part: Counted::default(), bad: None, tolerance, each };
    let lane = |item: Fed| match item? {
        Item::Batch(Read { batch, mut held }) => {
            let begins_with_part = batch.records.first().is_some_and(|first| document.is_part(first));
            context.announce(&batch, begins_with_part, &budget);
            budget.begins(&mut held);
            let chunks = panics_in("encoding", || context.encode_with_parts(&batch, &mut document, &token))?;
            if token.is_cancelled() {
                return Err(EncodeError::Stopped);
            }
            budget.encoded(&mut held, chunks.iter().map(Chunk::memory).sum::<usize>() + document.memory());
            chunks.into_iter().try_for_each(|chunk| tally.add(chunk, &batch))?;
            budget.release(held);
            // The reader may have read everything already.
            let _ = used.send(batch);
            Ok(())
        }
        Item::End(_) => tally.finish(names.len()),
    };
    let end = batches.ahead(QUEUE).compute("count", lane).run();
    // The reader may wait for memory.
    budget.close();
    reading.finish(end.is_ok());
    match end {
        Ok(_) => {
            let Summary { stdin_looks_like_json_lines, pointers, .. } = context.seen.findings(&[]);
            Ok(Noticed { stdin_looks_like_json_lines, pointers })
        }
        Err(failure) => Err(error_of(failure)),
    }
}

/// Passes steps on, and cancels the run once [`Counting::goes_on`] returns false.
struct Asking<'a> {
    counting: &'a Counting<'a>,
    token: &'a CancelToken,
}

impl Observer for Asking<'_> {
    fn advanced(&self, step: &Step) {
        self.counting.observer.advanced(step);
        if !(self.counting.goes_on)() {
            self.token.cancel();
        }
    }

    fn exceeds(&self, document: &LargeDocument<'_>) {
        self.counting.observer.exceeds(document);
    }
}

/// Sums chunks up, input by input.
struct Tally<'e> {
    /// The input that is counted.
    file: usize,
    counted: Counted,
    /// The document in parts that has not ended.
    part: Counted,
    /// The first bad document of the input.
    bad: Option<Bad>,
    tolerance: Arc<Tolerance>,
    each: &'e mut dyn FnMut(usize, Result<Counted, EncodeError>) -> bool,
}

impl Tally<'_> {
    fn add(&mut self, mut chunk: Chunk, batch: &Batch) -> Result<(), EncodeError> {
        let Some(record) = batch.records.get(chunk.records.start) else { return Ok(()) };
        self.finish(record.file as usize)?;
        if self.bad.is_some() {
            return Ok(());
        }
        if !chunk.bad.is_empty() {
            self.bad = Some(chunk.bad.swap_remove(0));
            self.tolerance.give_up(record.file);
            return Ok(());
        }
        if chunk.is_void_before {
            self.part = Counted::default();
        }
        self.part.documents += chunk.ends.len() as u64;
        self.part.text_bytes += chunk.text_bytes;
        self.part.tokens += chunk.ids.len() as u64;
        if !record.is_open {
            let part = mem::take(&mut self.part);
            self.counted.documents += part.documents;
            self.counted.text_bytes += part.text_bytes;
            self.counted.tokens += part.tokens;
        }
        Ok(())
    }

    /// Reports all inputs before this one.
    fn finish(&mut self, file: usize) -> Result<(), EncodeError> {
        while self.file < file {
            let number = self.file as u32;
            let counted = Counted { is_text: self.tolerance.is_text(number), ..mem::take(&mut self.counted) };
            self.part = Counted::default();
            let failure = self.tolerance.take_failure(number);
            let outcome = match (self.bad.take(), failure) {
                (Some(bad), _) if bad.is_out_of_memory => Err(EncodeError::NoMemory(Box::new(bad.document))),
                (Some(bad), _) => Err(EncodeError::Document(Box::new(bad.document))),
                (None, Some(failure)) => Err(failure.into()),
                (None, None) => Ok(counted),
            };
            self.file += 1;
            if !(self.each)(number as usize, outcome) {
                return Err(EncodeError::Stopped);
            }
        }
        Ok(())
    }
}
