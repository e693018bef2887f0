//! Reports of a run while it proceeds.

/// Observes the progress of a run. All workers call it, for each batch and for each chunk of some milliseconds.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use windrow_tokenizers::encode::{Job, Observer, Step, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], Format::Lines, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// struct Progress(AtomicU64);
/// impl Observer for Progress {
///     fn advanced(&self, step: &Step) {
///         self.0.fetch_add(step.documents, Ordering::Relaxed); // Relaxed: a count
///     }
/// }
/// let progress = Progress(AtomicU64::new(0));
/// encode(Job::new(vec![corpus]), &tokenizer, output, &progress)?;
/// assert_eq!(progress.0.into_inner(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Sync {
    /// Called after each step.
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use windrow_tokenizers::encode::{Observer, Step};
    ///
    /// struct Stored(Mutex<u64>);
    /// impl Observer for Stored {
    ///     fn advanced(&self, step: &Step) {
    ///         *self.0.lock().unwrap() += step.stored;
    ///     }
    /// }
    /// let stored = Stored(Mutex::new(0));
    /// let mut step = Step::default();
    /// step.stored = 5;
    /// stored.advanced(&step); // as `encode` does
    /// assert_eq!(*stored.0.lock().unwrap(), 5);
    /// ```
    fn advanced(&self, step: &Step);

    /// Called before encoding a document that takes more than the [memory of the job](super::Job::memory).
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use windrow_tokenizers::encode::{Job, LargeDocument, Observer, Step, encode};
    /// # use windrow_tokenizers::input::{Format, InputFile};
    /// # use windrow_tokenizers::output::{Output, OutputOptions};
    /// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
    /// # let directory = tempfile::tempdir()?;
    ///
    /// struct Lines(Mutex<Vec<u64>>);
    /// impl Observer for Lines {
    ///     fn advanced(&self, _: &Step) {}
    ///     fn exceeds(&self, document: &LargeDocument<'_>) {
    ///         self.0.lock().unwrap().push(document.line);
    ///     }
    /// }
    /// let json = br#"{"model": {"type": "WordLevel", "vocab": {"one": 0, "?": 1}, "unk_token": "?"}}"#;
    /// let tokenizer = Tokenizer::from_json(json, "example", &LoadOptions::default())?;
    /// let corpus = InputFile::from_reader("memory", std::io::Cursor::new("one\n".to_owned() + &"one".repeat(999)), Format::Lines, None);
    /// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
    /// let lines = Lines(Mutex::default());
    /// let summary = encode(Job { memory: 10_000, ..Job::new(vec![corpus]) }, &tokenizer, output, &lines)?;
    /// assert_eq!((lines.0.into_inner()?, summary.exceeding), (vec![2], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn exceeds(&self, document: &LargeDocument<'_>) {
        let _ = document;
    }
}

/// A document that takes more than the [memory of a job](super::Job::memory), and is therefore encoded while no other is in flight.
///
/// ```
/// use windrow_tokenizers::encode::{LargeDocument, Observer, Step};
///
/// struct Note;
/// impl Observer for Note {
///     fn advanced(&self, _: &Step) {}
///     fn exceeds(&self, document: &LargeDocument<'_>) {
///         eprintln!("{}:{}: {} bytes of memory", document.file, document.line, document.expected);
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LargeDocument<'a> {
    /// The name of the document's input.
    pub file: &'a str,
    /// Its first line, or its row, from 1.
    pub line: u64,
    /// Bytes of the record.
    pub bytes: usize,
    /// Name and version of the library that encodes it.
    pub engine: &'a str,
    /// Approximate number of bytes that it takes while it is encoded.
    pub expected: usize,
}

/// Ignores all steps.
impl Observer for () {
    fn advanced(&self, _: &Step) {}
}

/// Progress since the previous step.
///
/// ```
/// use std::sync::Mutex;
/// use windrow_tokenizers::encode::{Job, Observer, Step, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], Format::Lines, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// struct Steps(Mutex<Vec<Step>>);
/// impl Observer for Steps {
///     fn advanced(&self, step: &Step) {
///         self.0.lock().unwrap().push(*step);
///     }
/// }
/// let steps = Steps(Mutex::default());
/// encode(Job::new(vec![corpus]), &tokenizer, output, &steps)?;
/// let steps = steps.0.into_inner()?;
/// assert_eq!(steps.iter().map(|step| step.text_bytes).sum::<u64>(), 16);
/// assert_eq!(steps.iter().map(|step| step.ids).sum::<u64>(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Stored bytes whose documents are now encoded.
    pub stored: u64,
    /// Documents, good and bad.
    pub documents: u64,
    /// Bytes of text in the good documents.
    pub text_bytes: u64,
    /// Their ids, without end-of-text ids.
    pub ids: u64,
}
