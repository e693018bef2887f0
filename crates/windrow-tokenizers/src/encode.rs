//! The pipeline from corpora to token files.
//!
//! ```text
//! windrow-read          the calling thread           windrow-write               windrow-sync
//! read, decompress, ──▶ text of records, ids,   ──▶  append to the output,  ──▶  write dirty pages
//! cut into batches      chunk by chunk               account                     back, now and then
//!       ▲                                               │
//!       └────────── memory, used batches ───────────────┘
//! ```
//!
//! The stages are lanes of [`windrow::overlap`], and batches are their tiles. Short queues connect the stages. One memory budget covers
//! all of them ([`Job::memory`]): a slow writer slows the reader. The output, the account of documents and the choice of the first
//! failure follow the order of the documents. So neither the number of threads nor the size of chunks or batches changes a byte.
//!
//! A hash of each document's place decides if the document is selected, its part and its order ([`Selection`](crate::manifest::Selection)). Shuffled documents wait, sorted in
//! runs on the disk, until all are encoded; documents become rows before they are appended.
//!
//! If one stage fails or panics, all earlier documents are completed, and the other stages stop at their next chunk, batch or read.
//! A run does not wait for a reader that is blocked in a read (of a pipe, say). The thread of that reader ends when the input
//! delivers data or ends.
//!
//! ```
//! use windrow_tokenizers::encode::{Job, encode};
//! use windrow_tokenizers::input::{Format, InputFile};
//! use windrow_tokenizers::output::{Output, OutputOptions};
//! use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
//!
//! let directory = tempfile::tempdir()?;
//! let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
//! let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], Format::Lines, None);
//! let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
//! let summary = encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
//! assert_eq!((summary.documents.read, summary.documents.written, summary.tokens), (3, 3, 3));
//! assert!(directory.path().join("corpus.ids.npy").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod budget;
mod chunk;
mod count;
mod observer;
mod parts;
mod readers;
mod seen;
mod special;
mod stages;
mod write;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, UNIX_EPOCH};

use thiserror::Error;
use windrow::overlap::Trace;

pub use budget::MemoryShares;
pub use count::{Counted, Counting, Noticed, count};
pub use observer::{LargeDocument, Observer, Step};

use crate::chat::{Chat, Locate, Loss};
use crate::engine::{Engine, caught};
use crate::input::{Continuation, ErrorClass, FileReport, InputError, InputFile, LastRecord, Object, Position};
use crate::manifest::{self, Documents, EncodeJob, Manifest, SkippedDocument, TokenizerIdentity};
use crate::output::{InputCounts, InputIdentity, Output, OutputError, OutputErrorKind, Published, RunIdentity};
use crate::spec::Texts;
use crate::tokenizer::Tokenizer;
use crate::{counted, grouped, shown};

use account::Account;
use special::SpecialIds;

/// The inputs of a run of [`encode`], and its settings.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::manifest::OnError;
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"{\"body\": \"Hello world\"}\n[]"[..], Format::Jsonl, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// // Texts are in the field `body`, and bad lines are skipped.
/// let mut job = Job { threads: 2, ..Job::new(vec![corpus]) };
/// job.reading.texts.field = vec!["body".to_owned()];
/// job.reading.on_error = OnError::Skip;
/// let summary = encode(job, &tokenizer, output, &())?;
/// assert_eq!((summary.documents.written, summary.documents.skipped), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Job {
    /// The inputs to read, in this order.
    pub inputs: Vec<InputFile>,
    /// The conversion of records to documents. Options of the tokenizer only go into the manifest: the tokenizer was loaded with them. Options of
    /// the output are not used: the output was made with its own.
    pub reading: EncodeJob,
    /// Threads that encode, including the calling one; 0 means one for each CPU the process may use. Writing uses one
    /// additional thread, which mostly waits, and reading one for each of the [`readers`](Self::readers).
    pub threads: usize,
    /// Memory budget in bytes of the documents in flight. It covers the buffers of all batches between reader and output, with 48 bytes per record,
    /// and the ids of their documents, 4 bytes each. Until the ids are known, one id per byte is assumed. A document that exceeds the budget waits
    /// until nothing else is in flight, unless it is a text, a line or a JSON line that the engine can [cut](Engine::cuts_documents): such a
    /// document is read, encoded and written part by part. The memory that the engine needs while it encodes a document counts, too
    /// ([`Engine::working_bytes`]).
    ///
    /// If documents are shuffled, one half is for the documents that wait for their order. A document that waits as a whole, for its order or its
    /// rows, is not read part by part.
    ///
    /// The budget does not cover the tokenizer and its cache, the buffers of the reader and the output (some MiB), or the memory that each worker
    /// needs while it encodes a document. [`MemoryShares`] divides the memory of a whole run.
    pub memory: usize,
    /// Number of inputs that are read and decompressed at the same time; 0 means as many as pay, up to one for each thread that encodes. Data read
    /// before its turn may take a half of the memory. Streams are read when it is their turn.
    pub readers: usize,
    /// Bytes of consecutive documents that a worker claims at a time.
    pub chunk_bytes: usize,
    /// If set, a document is the conversation in a JSON line, rendered by a chat template. [`Texts::field`](crate::run::Texts::field) names its
    /// messages.
    pub chat: Option<Chat>,
    /// Limit on the bad documents that may be skipped; nothing is published beyond it. If all documents are bad, the run always fails.
    pub max_skipped: Option<MaxSkipped>,
    /// True to record in the [summary](Summary::trace) when each batch was in each stage, which takes some hundred bytes a batch.
    pub trace: bool,
}

/// A limit on the bad documents that a run may skip.
///
/// ```
/// use windrow_tokenizers::encode::{EncodeError, Job, MaxSkipped, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::manifest::OnError;
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"{\"text\": \"one\"}\n[]\n[]"[..], Format::Jsonl, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// // Two of three lines are bad.
/// let mut job = Job { max_skipped: Some(MaxSkipped::Documents(1)), ..Job::new(vec![corpus]) };
/// job.reading.on_error = OnError::Skip;
/// let failed = encode(job, &tokenizer, output, &()).unwrap_err();
/// assert!(matches!(failed.error, EncodeError::TooManySkipped { most: MaxSkipped::Documents(1), .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxSkipped {
    /// A number of documents. One more ends the run.
    Documents(u64),
    /// A percentage of the documents read, without deselected ones, checked when everything is read.
    Percent(f64),
}

impl MaxSkipped {
    /// True if the account of a whole run exceeds the limit.
    fn is_exceeded(self, documents: &Documents) -> bool {
        match self {
            Self::Documents(most) => documents.skipped > most,
            Self::Percent(most) => {
                documents.skipped as f64 * 100.0 > most * (documents.read - documents.deselected) as f64
            }
        }
    }
}

impl fmt::Display for MaxSkipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Documents(most) => write!(f, "{most}"),
            Self::Percent(most) => write!(f, "{most}%"),
        }
    }
}

impl Job {
    /// The default of [`memory`](Self::memory): 1 GiB.
    pub const MEMORY: usize = 1 << 30;

    /// The default of [`chunk_bytes`](Self::chunk_bytes): 64 KiB, some milliseconds of work.
    pub const CHUNK_BYTES: usize = 64 << 10;

    /// Maximum number of bytes in a batch, unless a single document has more.
    const BATCH_BYTES: usize = 4 << 20;

    /// Encodes `inputs` on all CPUs, with 1 GiB of memory, from the field `text` of JSON lines; a bad document ends the run.
    ///
    /// ```
    /// use windrow_tokenizers::encode::Job;
    /// use windrow_tokenizers::input::{Format, InputFile};
    /// use windrow_tokenizers::manifest::OnError;
    ///
    /// let job = Job::new(vec![InputFile::stdin(Format::Jsonl)]);
    /// assert_eq!((job.reading.fields().text, job.reading.on_error), (vec!["text".to_owned()], OnError::Fail));
    /// assert_eq!((job.threads, job.memory), (0, 1 << 30));
    /// ```
    pub fn new(inputs: Vec<InputFile>) -> Self {
        let texts = Texts { special_in_text: true, ..Texts::default() };
        let reading = EncodeJob { texts, ..EncodeJob::default() };
        Self {
            inputs,
            reading,
            threads: 0,
            memory: Self::MEMORY,
            readers: 0,
            chunk_bytes: Self::CHUNK_BYTES,
            chat: None,
            max_skipped: None,
            trace: false,
        }
    }

    /// Bytes of a batch, small enough that several batches with their ids are in flight within the budget.
    fn batch_bytes(&self, working_bytes: usize) -> usize {
        // The engine's memory for one batch is a half of the budget at most.
        let share = (2 * working_bytes).max(32);
        (self.memory / share).clamp(4 << 10, Self::BATCH_BYTES)
    }
}

/// The result of a run.
///
/// `documents` always balances: `read = written + skipped + failed + deselected`. If a bad document ended the run, `failed` is 1, and `read` includes
/// the document. If the run ended otherwise, `read` counts the documents written or skipped until then. "Written" means passed to the output; a
/// failed run publishes nothing.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"Hello world\n\nHello"[..], Format::Lines, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// // Three lines, the second is empty.
/// let summary = encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
/// assert_eq!((summary.documents.written, summary.text_bytes, summary.tokens), (3, 16, 3));
/// assert_eq!(summary.inputs[0].name, "memory");
/// assert!(summary.encoding <= summary.elapsed);
/// assert!(summary.published.is_some_and(|published| published.manifest.exists()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The account of documents.
    pub documents: Documents,
    /// UTF-8 bytes of text in the written documents.
    pub text_bytes: u64,
    /// Ids written, end-of-text ids included.
    pub tokens: u64,
    /// Special tokens in the texts of the written documents, as in the [manifest](manifest::Manifest::special_tokens).
    pub special_tokens: u64,
    /// The inputs, as the manifest lists them; none if the run failed.
    pub inputs: Vec<manifest::InputFile>,
    /// Ids whose mask is 1; `None` without masks.
    pub loss_tokens: Option<u64>,
    /// Written documents without an id whose mask is 1; `None` without masks.
    pub documents_without_loss: Option<u64>,
    /// Time from the first read to the end of the publication.
    pub elapsed: Duration,
    /// The part of `elapsed` until the last document was encoded and passed to the output. The rest is for syncing and renaming.
    pub encoding: Duration,
    /// True if standard input was read as text but begins with a line of JSON.
    pub stdin_looks_like_json_lines: bool,
    /// Kept fields that no document of this run has: their values are all null.
    pub keep_missing: Vec<String>,
    /// The names of the fields of the first document that lacks a kept field; `a.b` is the field `b` in the object `a`.
    pub keep_names: Vec<String>,
    /// The number of texts that are Git LFS pointers, which stand for files that were not fetched, and the first of them by name.
    pub pointers: (u64, String),
    /// The maximum number of bytes in flight, counted as for [`Job::memory`], but with the actual ids instead of the assumed ones.
    pub peak_in_flight: usize,
    /// Number of documents that were [announced](Observer::exceeds) because they take more than [`Job::memory`].
    pub exceeding: u64,
    /// Number of inputs that were read at the same time, as decided in the end; 0 if reading ended early.
    pub readers: usize,
    /// The progress of an interrupted run, if this run [resumed](crate::output::OutputOptions::resume) it.
    pub resumed: Option<Resumed>,
    /// Number of finished shards that were kept although the run failed: the next run can resume after them.
    pub kept_shards: usize,
    /// True if the run ended with the document that reached its [limit](crate::manifest::Selection::limit): later documents were not read.
    pub is_limited: bool,
    /// The published files; `None` if the run failed.
    pub published: Option<Published>,
    /// The times at which each batch was read, encoded, written and synced, with [`Job::trace`]. A batch is read in the time in which the next one
    /// is awaited: with several readers, the first of them may have read it before.
    pub trace: Option<Trace>,
}

/// The progress of an interrupted run.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Compression, Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let (corpus, manifest) = (directory.path().join("corpus.txt"), directory.path().join("out.manifest.json"));
/// # std::fs::write(&corpus, "Hello world\n\nHello")?;
/// # let job = || Job::new(vec![InputFile::from_path(&corpus, Format::Lines, Compression::None)]);
///
/// let mut options = OutputOptions::new(directory.path().join("out"), tokenizer.vocab_size());
/// (options.shard_bytes, options.resume) = (Some(4), true);
/// let output = Output::create(&options)?;
/// // Another program takes the name of the manifest, so nothing is published.
/// std::fs::write(&manifest, "")?;
/// let failed = encode(job(), &tokenizer, output, &()).unwrap_err();
/// # std::fs::remove_file(manifest)?;
/// let summary = encode(job(), &tokenizer, Output::create(&options)?, &())?;
/// let resumed = summary.resumed.expect("the first run has finished shards");
/// assert_eq!((resumed.shards, resumed.documents), (failed.summary.kept_shards, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resumed {
    /// Number of finished shards.
    pub shards: usize,
    /// Documents read for them.
    pub documents: u64,
    /// Bytes of text in these documents.
    pub text_bytes: u64,
    /// Bytes as stored of the inputs that were finished.
    pub stored: u64,
}

/// The reason why a run ended early.
///
/// ```
/// use windrow_tokenizers::encode::{EncodeError, Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"{\"text\": \"one\"}\n{\"title\": \"two\"}"[..], Format::Jsonl, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// // The second line has no field `text`.
/// match encode(Job::new(vec![corpus]), &tokenizer, output, &()).unwrap_err().error {
///     EncodeError::Document(bad) => assert_eq!((bad.file.as_str(), bad.line), ("memory", 2)),
///     other => panic!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// An input could not be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The first bad document, with [`OnError::Fail`](crate::manifest::OnError::Fail).
    #[error("{}", .0.message("fix it, or skip bad documents with --on-error skip (OUT.skipped.jsonl lists them)"))]
    Document(Box<SkippedDocument>),
    /// More documents were bad than [`Job::max_skipped`] allows.
    #[error(
        "{} of {} documents are bad, more than --max-skipped {most} allows; {}: {}\n\
         hint: repair them, check --field and --input-format, or allow more; nothing was published",
        grouped(documents.skipped + documents.failed),
        grouped(documents.read),
        if documents.failed > 0 { "the last" } else { "the first" },
        Place(bad)
    )]
    TooManySkipped {
        /// The account until then.
        documents: Documents,
        /// The limit.
        most: MaxSkipped,
        /// For a limit in documents, the document that exceeded it; otherwise the first skipped document.
        bad: Box<SkippedDocument>,
    },
    /// All documents were bad and were skipped.
    #[error(
        "{}; the first: {}\nhint: check --field and --input-format; nothing was published",
        if *read == 1 { "the only document is bad".to_owned() } else { format!("all {} are bad", counted(*read, "document")) },
        Place(first)
    )]
    AllSkipped {
        /// Number of documents read, without deselected ones.
        read: u64,
        /// The first bad document.
        first: Box<SkippedDocument>,
    },
    /// Masks were requested, and no document has an id whose mask is 1.
    #[error(
        "no id in {} counts towards the loss\n\
         hint: --loss assistant counts only messages whose role is assistant, so check the roles; nothing was published",
        counted(*documents, "good document")
    )]
    NoLoss {
        /// Number of good documents.
        documents: u64,
    },
    /// The engine could not allocate memory for a document. This ends the run even with
    /// [`OnError::Skip`](crate::manifest::OnError::Skip): the machine has failed, not the document.
    #[error("{}", Place(.0))]
    NoMemory(Box<SkippedDocument>),
    /// The output could not be written or published.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}\nhint: raise the limits on processes and memory (ulimit -u, ulimit -v)")]
    Thread(io::Error),
    /// A stage panicked.
    #[error(
        "{stage} panicked: {}\nhint: this is a bug in windrow or one of its components: please report it",
        shown(message)
    )]
    Panicked {
        /// The work of the stage.
        stage: &'static str,
        /// The message of the panic.
        message: String,
    },
    /// Cancelled: the call ran in a [spawned](windrow::spawn_joinable()) closure whose handle was dropped.
    #[error("stopped before all documents were encoded")]
    Stopped,
}

impl EncodeError {
    /// True if the same run can succeed at another time. A bad document stays bad, until the input or the options change.
    fn may_be_gone_next_time(&self) -> bool {
        match self {
            Self::Document(_) | Self::TooManySkipped { .. } | Self::AllSkipped { .. } | Self::NoLoss { .. } => false,
            Self::Input(error) => error.class() != ErrorClass::Data,
            Self::Output(error) => !matches!(error.kind(), OutputErrorKind::Id | OutputErrorKind::Accounting),
            Self::NoMemory(_) | Self::Thread(_) | Self::Panicked { .. } | Self::Stopped => true,
        }
    }
}

/// `file:line:byte: reason`, for a terminal.
struct Place<'a>(&'a SkippedDocument);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SkippedDocument { file, line, byte, reason, .. } = self.0;
        write!(f, "{}:{line}:{byte}: {}", shown(file), shown(reason))
    }
}

/// A run that ended early, and its progress. Nothing of it is published.
///
/// ```
/// use windrow_tokenizers::encode::{Job, encode};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let corpus = InputFile::from_reader("memory", &b"{\"text\": \"one\"}\n{\"text\": null}"[..], Format::Jsonl, None);
/// # let output = Output::create(&OutputOptions::new(directory.path().join("corpus"), tokenizer.vocab_size()))?;
///
/// let failed = encode(Job::new(vec![corpus]), &tokenizer, output, &()).unwrap_err();
/// assert!(failed.to_string().starts_with("memory:2:1: field \"text\" is null, not a string\nhint: "));
/// assert_eq!((failed.summary.documents.read, failed.summary.documents.failed), (2, 1));
/// assert_eq!(std::fs::read_dir(directory.path())?.count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RunError {
    /// The reason.
    pub error: EncodeError,
    /// The progress.
    pub summary: Summary,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Encodes all documents of `job` and publishes `output`.
///
/// `output` must have been created for this tokenizer's [`vocab_size`](Tokenizer::vocab_size). Abandoning its
/// [`Staging`](crate::output::Staging) ends the run with [`OutputErrorKind::Interrupted`].
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::encode::{Job, encode};
/// use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::output::{Output, OutputOptions};
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
///
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let corpus = InputFile::from_reader("memory", &br#"{"text": "Hello world"}"#[..], Format::Jsonl, None);
/// let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
/// encode(Job::new(vec![corpus]), &tokenizer, output, &())?;
/// assert_eq!(Dataset::open(&prefix)?.document(0)?, Some(vec![15496, 995]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The first failure in the order of the documents. Nothing is published then, and staged files are removed.
pub fn encode(
    job: Job,
    tokenizer: &Tokenizer,
    output: Output,
    observer: &dyn Observer,
) -> Result<Summary, Box<RunError>> {
    let identity = TokenizerIdentity {
        name: tokenizer.name().to_owned(),
        blake3: tokenizer.hash().to_owned(),
        vocab_size: tokenizer.vocab_size(),
    };
    let probe = || {
        let hash = probe(tokenizer.engine(), &tokenizer.added_texts());
        // That text names all special tokens.
        tokenizer.take_named_text();
        hash
    };
    encode_by(job, tokenizer.engine(), Some(tokenizer), (tokenizer.special_ids(), &probe), identity, output, observer)
}

/// [`encode`] with any engine, whose special tokens are not counted. `identity` goes into the manifest.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// use windrow_tokenizers::encode::{Job, encode_with};
/// # use windrow_tokenizers::input::{Format, InputFile};
/// use windrow_tokenizers::manifest::TokenizerIdentity;
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// # let engine = tokenizer.engine();
/// # let corpus = InputFile::from_reader("memory", &b"Hello world"[..], Format::Lines, None);
/// # let output = Output::create(&OutputOptions::new(&prefix, tokenizer.vocab_size()))?;
///
/// let identity = TokenizerIdentity { name: "mine".into(), vocab_size: 50_257, ..TokenizerIdentity::default() };
/// encode_with(Job::new(vec![corpus]), engine, identity, output, &())?;
/// assert_eq!(Dataset::open(&prefix)?.manifest().tokenizer.name, "mine");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The errors of [`encode`]. An engine without its tokenizer finds no masks, so a job with masks is refused.
pub fn encode_with(
    job: Job,
    engine: &dyn Engine,
    identity: TokenizerIdentity,
    output: Output,
    observer: &dyn Observer,
) -> Result<Summary, Box<RunError>> {
    encode_by(job, engine, None, (Vec::new(), &|| probe(engine, "")), identity, output, observer)
}

fn encode_by(
    mut job: Job,
    engine: &dyn Engine,
    locate: Option<&dyn Locate>,
    (special_ids, probe): (Vec<u32>, &dyn Fn() -> String),
    identity: TokenizerIdentity,
    mut output: Output,
    observer: &dyn Observer,
) -> Result<Summary, Box<RunError>> {
    let vocabulary = &mut job.reading.vocabulary;
    (vocabulary.model, vocabulary.tokenizer) = (None, Some(identity.name.clone()));
    let chat = job.chat.as_ref().map(Chat::identity);
    job.reading.loss = job.chat.as_ref().map(|chat| if chat.has_mask() { Loss::Assistant } else { Loss::All });
    let template = chat.as_ref().map(|chat| PathBuf::from(&chat.template));
    job.reading.chat = template.map(|template| job.reading.chat.take().unwrap_or(template));
    let has_mask = job.chat.as_ref().is_some_and(Chat::has_mask);
    let failed = |error: OutputError, summary| Box::new(RunError { error: error.into(), summary });
    check_output(&job, locate.is_some(), &output).map_err(|error| failed(error, Summary::default()))?;
    let begin = Instant::now();
    let framed = [output.options().prepend_bos, output.options().append_eos].iter().flatten().count() as u64;
    // A template writes special tokens into each text.
    let special_ids = if job.chat.is_some() { Vec::new() } else { special_ids };
    let special = SpecialIds::new(special_ids, job.reading.add_special_tokens, framed, engine);
    let (reading, max_skipped, files) = (job.reading.clone(), job.max_skipped, job.inputs.len());
    let run_identity = |options| {
        let inputs = job.inputs.iter().map(input_identity).collect();
        RunIdentity {
            chat: chat.clone(),
            ..RunIdentity::new(engine_identity(engine), identity.clone(), probe(), options, inputs)
        }
    };
    let names: Vec<String> = job.inputs.iter().map(|file| file.name().to_owned()).collect();
    let has_shards = output.has_shards();
    output.name_tokenizer(&identity.name);
    let start = begin_output(&mut output, &job, &run_identity)
        .map_err(|error| failed(error, Summary { kept_shards: output.kept_shards(), ..Summary::default() }))?;
    let resumed = start.as_ref().map(|(continuation, account)| Resumed {
        shards: output.kept_shards(),
        documents: account.documents.read,
        text_bytes: account.text_bytes,
        stored: continuation.reports.iter().map(|report| report.bytes).sum(),
    });
    let start = has_shards.then(|| start.unwrap_or_default());
    let job = match job.reading.selection.shuffle {
        Some(_) => {
            // A half of the memory is for the documents that wait for their order; while runs are merged, all of it.
            output.shuffle(job.memory / 4);
            Job { memory: job.memory / 2, ..job }
        }
        None => job,
    };
    let mut run = stages::run(job, engine, &special, locate, output, observer, start);
    if let (Ok(_), Some(output)) = (&run.end, &mut run.output)
        && let Err(error) = output.write_waiting()
    {
        run.end = Err(error.into());
    }
    let encoding = begin.elapsed();
    let mut summary = Summary {
        documents: run.account.documents,
        text_bytes: run.account.text_bytes,
        tokens: run.output.as_ref().map_or(0, Output::tokens),
        special_tokens: run.account.special_tokens,
        loss_tokens: run.output.as_ref().and_then(Output::loss_tokens),
        documents_without_loss: has_mask.then_some(run.account.without_loss),
        elapsed: encoding,
        encoding,
        resumed,
        is_limited: run.ended_at.is_some(),
        ..run.summary
    };
    let staging = run.output.as_ref().map(Output::handle);
    let published = match (run.end, run.output) {
        (Ok(reports), Some(mut output)) => {
            // Counted by the reader, so that the output compares two independent accounts.
            let partial = run.ended_at.as_ref().and_then(|end| Some((end.file as usize, end.last.as_ref()?)));
            summary.documents.read =
                reports.iter().map(|report| report.documents).sum::<u64>() + partial.map_or(0, |(_, last)| last.number);
            let counts_of = |file: usize| run.account.of_input(file as u32);
            let partial = partial.map(|(file, last)| partly_read(names[file].as_str(), last, counts_of(file)));
            match unfit(&summary, max_skipped, run.account.first_bad.clone()) {
                Some(error) => {
                    output.forget_shards();
                    Err(error)
                }
                None => {
                    let end = run.ended_at.unwrap_or(Position { file: files as u32, last: None });
                    let ended = output.end_shards(run.account.checkpoint(end), &reports);
                    let counts = (0..).map(|input| run.account.of_input(input));
                    let inputs: Vec<_> = reports.into_iter().zip(counts).map(listed).chain(partial).collect();
                    summary.inputs.clone_from(&inputs);
                    let body = Manifest {
                        engine: engine_identity(engine),
                        tokenizer: identity,
                        chat,
                        options: reading,
                        inputs,
                        documents: summary.documents,
                        text_bytes: summary.text_bytes,
                        special_tokens: summary.special_tokens,
                        documents_without_loss: summary.documents_without_loss,
                        ..Manifest::default()
                    };
                    ended.and_then(|()| output.publish(body)).map_err(EncodeError::Output)
                }
            }
        }
        (Ok(_), None) => unreachable!("a stage that ends well returns the output"),
        (Err(error), output) => {
            if let Some(output) = output.filter(|_| !error.may_be_gone_next_time()) {
                output.forget_shards();
            }
            Err(error)
        }
    };
    summary.elapsed = begin.elapsed();
    match published {
        // The rows at the end of a packed output are complete only now.
        Ok(published) => {
            let (tokens, loss_tokens) = (published.tokens, published.loss_tokens);
            Ok(Summary { tokens, loss_tokens, published: Some(published), ..summary })
        }
        Err(error) => {
            summary.kept_shards = staging.map_or(0, |staging| staging.kept_shards());
            summary.inputs = Vec::new();
            Err(Box::new(RunError { error, summary }))
        }
    }
}

fn panics_in<T>(stage: &'static str, body: impl FnOnce() -> T) -> Result<T, EncodeError> {
    caught(body).map_err(|message| EncodeError::Panicked { stage, message })
}

/// Refuses an output that does not match the job: its masks, or its selection of documents.
fn check_output(job: &Job, has_tokenizer: bool, output: &Output) -> Result<(), OutputError> {
    let has_mask = job.chat.as_ref().is_some_and(Chat::has_mask);
    if has_mask != output.loss_tokens().is_some() || (has_mask && !has_tokenizer) {
        let message = "masks need a job with a chat template and a loss, an output with masks, and a tokenizer";
        return Err(OutputError::new(OutputErrorKind::Usage, message));
    }
    let (selection, output) = (&job.reading.selection, output.options());
    let usage = |message: &str, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
    if !selection.split.iter().map(|part| &part.name).eq(&output.parts) {
        return usage("the parts of the output differ from those of the selection", "use the same part names in both");
    }
    if selection.shuffle.is_some() && output.resume {
        let message =
            "a shuffled output cannot be resumed: its first shard is complete only when everything is encoded";
        return usage(message, "omit --resume or --shuffle");
    }
    Ok(())
}

/// Begins the output, or finds where it continues.
fn begin_output(
    output: &mut Output,
    job: &Job,
    identity: &dyn Fn(EncodeJob) -> RunIdentity,
) -> Result<Option<(Continuation, Account)>, OutputError> {
    let begun = output.begin(identity, job.reading.clone())?;
    let Some((continuation, checkpoint)) = begun else {
        return Ok(None);
    };
    if let Some(stream) = job.inputs.iter().find(|file| input_identity(file).bytes.is_none()) {
        return Err(OutputError::cannot_resume_stream(stream.name()));
    }
    Ok(Some((continuation, Account::continued(checkpoint))))
}

/// An input, as far as another run can recognize it without reading it.
fn input_identity(file: &InputFile) -> InputIdentity {
    let metadata = file.path().and_then(|path| fs::metadata(path).ok()).filter(fs::Metadata::is_file);
    let modified = metadata.as_ref().and_then(|found| found.modified().ok()?.duration_since(UNIX_EPOCH).ok());
    let version = file.object().and_then(Object::version);
    // Without a version, an object cannot be compared.
    let object = file.object().filter(|_| version.is_some());
    InputIdentity {
        name: file.name().to_owned(),
        kind: format!("{:?}, {:?}", file.format(), file.compression()).to_lowercase(),
        bytes: metadata.map(|found| found.len()).or(object.map(Object::size)),
        modified: modified.and_then(|time| u64::try_from(time.as_nanos()).ok()),
        version,
    }
}

/// The error of a run that skipped more documents than allowed, or whose documents are of no use for training.
fn unfit(summary: &Summary, most: Option<MaxSkipped>, first: Option<SkippedDocument>) -> Option<EncodeError> {
    let documents = &summary.documents;
    if documents.written > 0 && summary.documents_without_loss == Some(documents.written) {
        return Some(EncodeError::NoLoss { documents: documents.written });
    }
    let first = first?;
    if documents.written == 0 {
        return Some(EncodeError::AllSkipped { read: documents.skipped, first: Box::new(first) });
    }
    let most = most.filter(|most| most.is_exceeded(documents))?;
    Some(EncodeError::TooManySkipped { documents: *documents, most, bad: Box::new(first) })
}

/// A hash of the ids of a text of many kinds, and of the added tokens. A run continues after the shards of another run only if the ids are equal.
fn probe(engine: &dyn Engine, added: &str) -> String {
    const TEXT: &str = "The year's 1st 2,048 TESTS -- don't\u{a0}stop:\tx += f(y)[i];\r\n\n  caf\u{e9} cafe\u{301} \u{130}\u{df}\u{fb01} \
        \u{4e2d}\u{6587}\u{3002} \u{43c}\u{438}\u{440} \u{5e9}\u{5dc} \u{928}\u{92e} \u{1f468}\u{200d}\u{1f469} unusuallylongwordwithoutspaces   ";
    let mut ids = Vec::new();
    let refused = engine.encoder().encode(&[TEXT, added].concat(), &mut ids).err();
    let mut hasher = blake3::Hasher::new();
    for id in ids {
        hasher.update(&id.to_le_bytes());
    }
    hasher.update(refused.map_or_else(String::new, |error| error.to_string()).as_bytes());
    hasher.finalize().to_hex().to_string()
}

fn engine_identity(engine: &dyn Engine) -> manifest::Engine {
    let (name, version) = engine.name().split_once(' ').unwrap_or((engine.name(), ""));
    let versions = [(name, version), (env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))];
    let versions: BTreeMap<_, _> = versions.map(|(name, version)| (name.to_owned(), version.to_owned())).into();
    manifest::Engine { name: name.to_owned(), versions }
}

fn listed((report, counts): (FileReport, InputCounts)) -> manifest::InputFile {
    let FileReport { name, bytes, decompressed_bytes, blake3, documents, .. } = report;
    let InputCounts { text_bytes, tokens, .. } = counts;
    manifest::InputFile { name, bytes, decompressed_bytes, blake3, documents, text_bytes, tokens, ended_at: None }
}

/// An input that was read up to this record.
fn partly_read(
    name: &str,
    last: &LastRecord,
    InputCounts { text_bytes, tokens, .. }: InputCounts,
) -> manifest::InputFile {
    let LastRecord { line, number, .. } = last;
    let (name, ended_at) = (name.to_owned(), Some(*line));
    manifest::InputFile { name, documents: *number, text_bytes, tokens, ended_at, ..manifest::InputFile::default() }
}
