//! The commands as functions, for packages that carry them: nothing is printed, and no signal is handled.

use clap::Parser;
use windrow_tokenizers::encode::Observer;
use windrow_tokenizers::output::Staging;
use windrow_tokenizers::shown_lines;
use windrow_tokenizers::tokenizer::Tokenizer;

use crate::args::{Arguments, Command, Encode};
use crate::count;
use crate::encode::{Prepared, prepare};
use crate::exit::{Code, Refused};

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// What failed, where, and what helps.
    pub message: String,
    /// What kind of failure it is.
    pub kind: FailureKind,
}

/// The kinds of failures that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// An option, or options that contradict each other.
    Usage,
    /// An input that does not exist.
    Missing,
    /// A document or a file whose content is bad.
    BadInput,
    /// The system could not read, write or create a file.
    Io,
    /// A file of the output exists, and is not to be replaced.
    Exists,
    /// The caller stopped it.
    Stopped,
    /// Anything else.
    Other,
}

impl Failed {
    fn new(message: String, code: Code) -> Self {
        let kind = match code {
            Code::Usage => FailureKind::Usage,
            Code::Missing => FailureKind::Missing,
            Code::BadInput => FailureKind::BadInput,
            Code::CannotCreate if message.lines().next().is_some_and(|line| line.ends_with(" already exists")) => {
                FailureKind::Exists
            }
            Code::CannotCreate | Code::Io => FailureKind::Io,
            Code::Signal(_) => FailureKind::Stopped,
            Code::Done | Code::Failed => FailureKind::Other,
        };
        Self { message: shown_lines(&message).to_string(), kind }
    }
}

impl From<Refused> for Failed {
    fn from(Refused(message, code): Refused) -> Self {
        Self::new(message, code)
    }
}

/// The command in these words, of which the first is its name.
fn parsed<T>(words: &[String], of: impl FnOnce(Command) -> Option<T>) -> Result<T, Failed> {
    let arguments = Arguments::try_parse_from(words).map_err(|error| {
        let message = error.render().to_string();
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        let message = message.strip_suffix("\nFor more information, try '--help'.\n").unwrap_or(message);
        Failed::new(message.trim_end().to_owned(), Code::Usage)
    })?;
    of(arguments.command).ok_or_else(|| Failed::new("this is another command".to_owned(), Code::Usage))
}

/// `windrow encode`, ready to run: everything is open, and nothing has been read.
///
/// ```
/// use windrow_cli::EncodeFiles;
/// use windrow_tokenizers::output::Staging;
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let folder = tempfile::tempdir()?;
/// let [text, out] = ["a.txt", "a"].map(|name| folder.path().join(name).display().to_string());
/// std::fs::write(&text, "Hello world")?;
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let words = ["windrow", "encode", &text, "-o", &out].map(str::to_owned);
/// let run = EncodeFiles::prepare(&words, &tokenizer, &Staging::default()).unwrap();
/// assert_eq!(run.stored(), Some(11));
/// let (summary, notes) = run.run(&()).unwrap();
/// assert!(summary.contains(r#""tokens":2"#) && notes.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EncodeFiles<'t> {
    options: Encode,
    prepared: Prepared<'t>,
    notes: Vec<String>,
}

impl<'t> EncodeFiles<'t> {
    /// Opens the inputs and the output that `words` name, the words of a command line. `tokenizer` replaces the one that they name.
    /// Abandoning `staging` ends the run.
    ///
    /// # Errors
    /// Those of the command before it reads.
    pub fn prepare(words: &[String], tokenizer: &'t Tokenizer, staging: &Staging) -> Result<Self, Failed> {
        let options = parsed(words, |command| match command {
            Command::Encode(options) => Some(*options),
            _ => None,
        })?;
        let mut notes = Vec::new();
        let prepared = prepare(&options, Some(tokenizer), None, staging, |note| notes.push(note.clone()))?;
        Ok(Self { options, prepared, notes })
    }

    /// Bytes of all inputs as stored, if all are known.
    pub fn stored(&self) -> Option<u64> {
        self.prepared.stored()
    }

    /// Encodes everything, and returns what the command prints with `--json`, and its notes.
    ///
    /// # Errors
    /// The first failure in the order of the documents; nothing is published then.
    pub fn run(self, observer: &dyn Observer) -> Result<(String, Vec<String>), Failed> {
        let (json, notes) = self.prepared.call(&self.options, observer)?;
        Ok((json, self.notes.into_iter().chain(notes).collect()))
    }
}

/// `windrow count --json` in these words. Returns the object as JSON, and why files have no count; the others are counted.
///
/// `goes_on` is asked again and again by all threads, and its `false` ends the call.
///
/// ```
/// use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("a.txt"), "Hello world")?;
/// let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default())?;
/// let words = ["windrow", "count", "--json", &folder.path().to_string_lossy()].map(str::to_owned);
/// let (json, failed) = windrow_cli::count_files(&words, &tokenizer, &|| true).unwrap();
/// assert!(json.contains(r#""tokens":2"#) && failed.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Words that are no such command, and [`FailureKind::Stopped`].
pub fn count_files(
    words: &[String],
    tokenizer: &Tokenizer,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<(String, Vec<Failed>), Failed> {
    let options = parsed(words, |command| match command {
        Command::Count(options) if options.json => Some(*options),
        _ => None,
    })?;
    let (json, failed) = count::call(&options, tokenizer, goes_on)?;
    Ok((json, failed.into_iter().map(|(message, code)| Failed::new(message, code)).collect()))
}
