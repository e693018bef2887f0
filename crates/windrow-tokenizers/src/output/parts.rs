//! The parts of a divided output. The output works on the selected one; the state of the others is put aside.

use super::error::{OutputError, OutputErrorKind};
use super::mask::MaskWriter;
use super::packed::Packing;
use super::shards::Shards;
use super::sidecar::Sidecar;
use super::writer::Writer;
use crate::manifest::{OutputFile, Packed, Part};

/// The state of a part that is not selected.
#[derive(Debug, Default)]
pub(crate) struct PartState {
    pub(crate) writer: Option<Writer>,
    pub(crate) mask: Option<MaskWriter>,
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) shards: Option<Shards>,
    pub(crate) packing: Option<Packing>,
    pub(crate) documents: u64,
    pub(crate) tokens: u64,
    pub(crate) loss_tokens: u64,
    pub(crate) kept: u64,
}

/// The complete files of all parts, and what is in them.
#[derive(Debug, Default)]
pub(crate) struct CompleteParts {
    pub(crate) files: Vec<OutputFile>,
    pub(crate) parts: Vec<Part>,
    /// The rows of all parts together.
    pub(crate) packed: Option<Packed>,
}

impl CompleteParts {
    pub(crate) fn add_rows(&mut self, Packed { rows, padding, dropped }: Packed) {
        let sum = self.packed.get_or_insert_default();
        sum.rows += rows;
        sum.padding += padding;
        sum.dropped += dropped;
    }
}

/// Names of parts that would be those of other files.
const TAKEN: [&str; 6] = ["ids", "offsets", "mask", "kept", "skipped", "manifest"];

/// Refuses names of parts that no file can have, and what a divided output cannot do.
pub(crate) fn check(names: &[String], resume: bool) -> Result<(), OutputError> {
    let refused = |message: String, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
    for (number, name) in names.iter().enumerate() {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_plain) || TAKEN.contains(&&*name.to_ascii_lowercase()) {
            let message = format!("a part cannot have the name {name:?}");
            return refused(
                message,
                "use letters, digits and _, such as train; ids, offsets, mask, kept, skipped and manifest are taken",
            );
        }
        if names[..number].iter().any(|other| other.eq_ignore_ascii_case(name)) {
            return refused(format!("two parts have the name {name:?}"), "rename one of them; case does not matter");
        }
    }
    if resume && !names.is_empty() {
        let message =
            "an output that is divided into parts cannot resume: its parts end their shards at different documents";
        return refused(message.to_owned(), "leave out --resume, or --split");
    }
    Ok(())
}
