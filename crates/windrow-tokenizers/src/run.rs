//! Runs of `windrow encode` and `windrow count` as typed values, which the command, Python and Node fill.
//!
//! An [`EncodeSpec`] has two parts: [`EncodeJob`] decides the bytes of the output, and [`EncodeRun`] does not. Their documentation is the help
//! of the command, and their names in JSON are those of the options.
//!
//! ```
//! use windrow_tokenizers::output::Staging;
//! use windrow_tokenizers::run::EncodeSpec;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("a.txt"), "Hello world")?;
//! let spec = serde_json::json!({
//!     "job": {"tokenizer": "gpt2", "format": "nanogpt"},
//!     "run": {"inputs": folder.path(), "output": folder.path().join("ids")},
//! });
//! let spec: EncodeSpec = serde_json::from_value(spec)?;
//! let found = spec.find(|note| eprintln!("{note}"))?;
//! let tokenizer = found.load()?;
//! let ended = found.open(&tokenizer, &Staging::default(), |note| eprintln!("{note}"))?.encode(&());
//! assert_eq!((ended.failed, ended.summary.tokens), (None, 3)); // with the end of the text
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chat;
mod count;
mod failure;
mod ids;
mod lines;
mod open;
mod spec;
mod summary;
mod timeline;

#[cfg(feature = "command")]
pub use crate::spec::command::names;
pub use crate::spec::{EncodeJob, Texts, Vocabulary};
pub use crate::values::{Size, Threads, TokenName};
pub use count::{CountEnded, CountSpec, FoundTexts};
pub use failure::{Failed, FailureKind};
pub use open::{Ended, FoundInputs, OpenRun};
pub use spec::{EncodeRun, EncodeSpec};
pub use summary::{encoded_bytes, failed_json, megabytes_per_second, note_pointers, outputs, publishing};
