//! A run of `windrow encode` as one value.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::Failed;
use crate::encode::{Job, MaxSkipped};
use crate::manifest::{AnyOptions, TokenizerIdentity};
use crate::spec::EncodeJob;
#[cfg(feature = "schema")]
use crate::values::schemas::{CountOrPercent, FilePath, Strings};
use crate::values::{Size, Threads, number_or_text, one_or_several};

/// A run of `windrow encode`: options that decide the bytes of the output, and those that do not.
///
/// ```
/// use windrow_tokenizers::run::EncodeSpec;
///
/// let spec = r#"{"job": {"tokenizer": "gpt2", "split": {"train": 0.9, "val": 0.1}}, "run": {"inputs": ["corpus"], "output": "gpt"}}"#;
/// let spec: EncodeSpec = serde_json::from_str(spec)?;
/// assert_eq!(spec.job.selection.split.len(), 2);
/// assert!(serde_json::from_str::<EncodeSpec>(r#"{"job": {"tokeniser": "gpt2"}, "run": {}}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeSpec {
    /// The options that decide the bytes of the output.
    #[serde(default)]
    pub job: EncodeJob,
    /// The other options.
    pub run: EncodeRun,
}

impl EncodeSpec {
    /// Reads a run from JSON: an object with the objects `job` and `run`.
    ///
    /// # Errors
    /// An error that names the option that is unknown or has a wrong value.
    pub fn from_json(json: &str) -> Result<Self, Failed> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Parts {
            job: Box<RawValue>,
            run: Box<RawValue>,
        }
        let Parts { job, run } = from_json(json)?;
        Ok(Self { job: EncodeJob::from_json(job.get())?, run: from_json(run.get())? })
    }
}

impl EncodeJob {
    /// Reads a job from JSON: the options, or a whole manifest that has them.
    ///
    /// # Errors
    /// An error that names the option that is unknown or has a wrong value.
    pub fn from_json(json: &str) -> Result<Self, Failed> {
        #[derive(Deserialize)]
        struct WholeManifest<'j> {
            #[serde(borrow)]
            options: &'j RawValue,
            tokenizer: TokenizerIdentity,
        }
        let Ok(WholeManifest { options, tokenizer }) = serde_json::from_str(json) else { return from_json(json) };
        let mut job = from_json::<AnyOptions>(options.get())?.0;
        // Manifests of older versions name it once.
        job.vocabulary.tokenizer.get_or_insert(tokenizer.name);
        Ok(job)
    }
}

/// Reads options from JSON. An error names the option.
pub(super) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, Failed> {
    let fault = |error: &serde_json::Error| {
        let message = error.to_string();
        // The caller did not write the JSON to which this place belongs.
        message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
    };
    let error = match serde_json::from_str(json) {
        Ok(options) => return Ok(options),
        Err(error) => error,
    };
    let options: BTreeMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    // The option that cannot be read without the others, either.
    for (name, value) in options {
        let single = format!("{{{}:{value}}}", Value::from(name.as_str()));
        if let Err(error) = serde_json::from_str::<T>(&single) {
            let fault = fault(&error);
            return Err(Failed::usage(if fault.contains(&name) { fault } else { format!("{name}: {fault}") }));
        }
    }
    Err(Failed::usage(fault(&error)))
}

/// The options of [`EncodeSpec`] that do not change the output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EncodeRun {
    /// Files, directories, quoted patterns, or `-` for stdin: .txt .text .md .jsonl .ndjson .warc .wet, plain or followed by .gz .zst .zstd .xz .bz2, and
    /// .parquet. With the object-store feature, also s3://, gs:// and https:// URLs; a URL that ends with / is a directory.
    #[serde(deserialize_with = "one_or_several")]
    #[cfg_attr(feature = "schema", schemars(with = "Strings"))]
    #[cfg_attr(feature = "command", arg(value_name = "INPUT", required = true))]
    pub inputs: Vec<String>,

    /// Prefix of the files to write: out/corpus becomes out/corpus.ids.npy and so on.
    #[cfg_attr(feature = "command", arg(short, long, help_heading = "Output", value_name = "OUT"))]
    pub output: PathBuf,

    /// Number of threads that encode; auto: as many as CPU affinity and quota allow [default: auto, or 1 if TOKENIZERS_PARALLELISM is false].
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "auto|N"))]
    pub threads: Option<Threads>,

    /// Memory budget of the run, such as 512M; the tokenizer is not included.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "SIZE", default_value = "1G"))]
    pub memory: Size,

    /// Replace existing files, once the new ones are complete.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Output"))]
    pub overwrite: bool,

    /// Continue an interrupted run with the same inputs and options after its last finished shard, if it finished one. Needs
    /// --shard-size, except with mds.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run"))]
    pub resume: bool,

    /// Maximum number of documents to skip, or a percentage of those read. If all documents are bad, the run always fails.
    #[cfg_attr(feature = "schema", schemars(with = "CountOrPercent"))]
    #[cfg_attr(feature = "command", arg(long, help_heading = "Input", value_name = "N|P%"))]
    pub max_skipped: Option<MaxSkipped>,

    /// Write a timeline for Perfetto or Chrome that shows when each batch was in each stage.
    #[cfg_attr(feature = "command", arg(long, help_heading = "Run", value_name = "FILE"))]
    #[cfg_attr(feature = "schema", schemars(with = "FilePath"))]
    pub trace: Option<PathBuf>,

    /// Number of inputs that are read at the same time; auto: as many as speed up the run.
    #[cfg_attr(feature = "command", arg(long, hide = true, value_name = "auto|N", default_value = "auto"))]
    pub readers: Threads,

    /// Bytes of documents that a thread claims at a time.
    #[cfg_attr(feature = "command", arg(long, hide = true, value_name = "SIZE", default_value_t = DEFAULT_CHUNK))]
    pub chunk_bytes: Size,
}

pub(super) const DEFAULT_CHUNK: Size = Size::new(Job::CHUNK_BYTES).unwrap();
pub(super) const DEFAULT_MEMORY: Size = Size::new(Job::MEMORY).unwrap();

impl Default for EncodeRun {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            output: PathBuf::new(),
            threads: None,
            memory: DEFAULT_MEMORY,
            overwrite: false,
            resume: false,
            max_skipped: None,
            trace: None,
            readers: Threads::default(),
            chunk_bytes: DEFAULT_CHUNK,
        }
    }
}

impl FromStr for MaxSkipped {
    type Err = String;

    /// Reads a number of documents, or a share of them in percent.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a whole number such as 100, or a percentage such as 0.5%".to_owned();
        match text.strip_suffix('%') {
            // `parse` by itself would accept `inf`, `1e9` and signs.
            Some(share) if share.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                let share: f64 = share.parse().map_err(|_| wrong())?;
                if share <= 100.0 {
                    Ok(Self::Percent(share))
                } else {
                    Err("a percentage must be at most 100%".to_owned())
                }
            }
            Some(_) => Err(wrong()),
            None if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map(Self::Documents).map_err(|_| wrong())
            }
            None => Err(wrong()),
        }
    }
}

impl Serialize for MaxSkipped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Documents(most) => most.serialize(serializer),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for MaxSkipped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        number_or_text(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_of_bad_documents() {
        let most_skipped = str::parse::<MaxSkipped>;
        assert_eq!(most_skipped("0"), Ok(MaxSkipped::Documents(0)));
        assert_eq!(most_skipped("100"), Ok(MaxSkipped::Documents(100)));
        assert_eq!(most_skipped("0.5%"), Ok(MaxSkipped::Percent(0.5)));
        assert_eq!(most_skipped("100%"), Ok(MaxSkipped::Percent(100.0)));
        for text in ["", "%", ".%", "-1", "+1", "1.5", "101%", "inf%", "1e2%", "many", "99999999999999999999"] {
            assert!(most_skipped(text).is_err(), "{text}");
        }
    }
}
