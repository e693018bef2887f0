//! Reads the files of [`output`](crate::output): verifies them, finds documents in them, and counts their contents.
//!
//! ```
//! use windrow_tokenizers::dataset::Dataset;
//! use windrow_tokenizers::manifest::{Documents, Manifest};
//! use windrow_tokenizers::output::{Output, OutputOptions};
//!
//! let directory = tempfile::tempdir()?;
//! let prefix = directory.path().join("corpus");
//! let mut output = Output::create(&OutputOptions::new(&prefix, 50_257))?;
//! output.append(&[15496, 995, 0], &[2, 2, 3])?;
//! let documents = Documents { read: 3, written: 3, ..Documents::default() };
//! output.publish(Manifest { documents, ..Manifest::default() })?;
//!
//! let dataset = Dataset::open(&prefix)?;
//! assert_eq!(dataset.document(0)?, Some(vec![15496, 995]));
//! assert_eq!(dataset.statistics()?.tokens, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod documents;
mod hash;
mod open;
mod segments;
mod statistics;
mod verify;

pub use open::Dataset;
pub use statistics::Statistics;
pub use verify::Verified;

pub use crate::shard::{DatasetError, DatasetErrorKind};
