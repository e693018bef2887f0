//! What turns the text of a document into ids.
//!
//! An [`Engine`] is a tokenizer ready to encode, shared by all workers. An [`Encoder`] is what one worker encodes with:
//! it owns the scratch that is reused from document to document, so that a warm encoder allocates nothing but the room
//! for the ids. Two engines exist: `tokenizers` 1.0, and the released `tokenizers` 0.23 for the few `tokenizer.json`
//! files that the former refuses or reads differently. Neither uses threads of its own.
//!
//! Both give the ids of `tokenizers` 0.23 with Oniguruma, `encode_fast`, without truncation and padding. Which one runs
//! follows from the `tokenizer.json` alone, never from a document.
//!
//! Memory that an engine can have only by ending the process is asked for before: a large text gets
//! [`EngineError::NoMemory`] then.

use std::any::Any;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thiserror::Error;

mod early;
mod pipeline;
mod ranks;
mod regex;
mod released;
mod unicode;

pub(crate) use early::Early;
pub(crate) use pipeline::Pipeline;
pub(crate) use ranks::Ranks;
pub(crate) use released::Released;

/// A tokenizer ready to encode, shared by all workers.
pub trait Engine: Send + Sync {
    /// Name and version of the library behind it, such as `tokenizers 1.0.0-rc.3`.
    fn name(&self) -> &str;

    /// A new encoder, with scratch of its own.
    fn encoder(&self) -> Box<dyn Encoder + '_>;

    /// The id of a token of the model, as the `tokenizer.json` spells it. It may look at the whole vocabulary: not for
    /// hot paths.
    fn token_to_id(&self, token: &str) -> Option<u32>;
}

/// What one worker encodes with. A document's ids do not depend on what the encoder saw before.
pub trait Encoder: Send {
    /// Appends the ids of `text` to `ids`.
    ///
    /// # Errors
    /// When the engine refuses the text, gives up on it or panics. `ids` is then as it was, and the encoder can go on
    /// with the next document.
    fn encode(&mut self, text: &str, ids: &mut Vec<u32>) -> Result<(), EngineError>;
}

/// Why a document has no ids.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine returned an error.
    #[error("{engine} cannot encode this text: {reason}")]
    Refused {
        /// Name and version of the library.
        engine: String,
        /// What it said.
        reason: String,
    },
    /// The engine panicked. Its scratch was thrown away.
    #[error("{engine} panicked on this text: {reason} (hint: check the tokenizer.json for damage)")]
    Panicked {
        /// Name and version of the library.
        engine: String,
        /// The message of the panic.
        reason: String,
    },
    /// The system gives no memory for the text.
    #[error(
        "no memory for a text of {text} bytes: {engine} needs about {bytes} bytes more \
         (hint: split the document, or raise the memory limit of the process)"
    )]
    NoMemory {
        /// Name and version of the library.
        engine: String,
        /// Bytes of the text, after its normalization.
        text: usize,
        /// Bytes that were asked for.
        bytes: usize,
    },
}

impl EngineError {
    fn refused(engine: &str, reason: impl ToString) -> Self {
        Self::Refused { engine: engine.to_owned(), reason: reason.to_string() }
    }

    fn no_memory(engine: &str, text: usize, bytes: usize) -> Self {
        Self::NoMemory { engine: engine.to_owned(), text, bytes }
    }
}

/// Texts below this size are encoded without asking for memory first.
const LARGE: usize = 1 << 20;

/// Whether the system gives this much memory now. An allocation of a library cannot fail without ending the process, so
/// this is asked before the library allocates. Another thread may take the memory in between.
fn has_memory(bytes: usize) -> bool {
    let mut trial = Vec::<u8>::new();
    let reserved = trial.try_reserve_exact(bytes);
    // Otherwise the compiler may leave the allocation out.
    black_box(&trial);
    reserved.is_ok()
}

/// Runs code of an engine and turns a panic into its message. Whatever `run` was changing must be thrown away then.
///
/// The panic hook still prints: a library must not replace it, and the hostile files known to us are turned away before.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| message(payload.as_ref()))
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_their_message() {
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| std::panic::resume_unwind(Box::new("static"))), Err::<(), _>("static".to_owned()));
        assert_eq!(
            caught(|| std::panic::resume_unwind(Box::new("owned".to_owned()))),
            Err::<(), _>("owned".to_owned())
        );
        assert_eq!(
            caught(|| std::panic::resume_unwind(Box::new(7))),
            Err::<(), _>("a panic without a message".to_owned())
        );
    }
}
