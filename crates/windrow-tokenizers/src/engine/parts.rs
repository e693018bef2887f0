//! Encodes the parts of texts that windrow's own engine has not seen before.

use std::sync::Arc;

use windrow_bpe::{PieceEncoder, PieceFault};

use super::{EngineError, Released, Steps};

/// The released library with a file, which is built when it is first needed.
pub(crate) trait LateLibrary: Send + Sync {
    /// An error is the reason why the library cannot read the file.
    fn get(&self) -> Result<&Released, String>;
}

/// Encodes each part as if it were alone.
pub(crate) struct Parts {
    /// Encodes in place of the library, if all steps are known.
    steps: Option<Arc<Steps>>,
    library: Arc<dyn LateLibrary>,
    marks_beginning: bool,
}

impl Parts {
    pub(crate) fn new(steps: Option<Arc<Steps>>, library: Arc<dyn LateLibrary>, marks_beginning: bool) -> Self {
        Self { steps, library, marks_beginning }
    }
}

impl PieceEncoder for Parts {
    fn encode(&self, piece: &str, begins: bool, ids: &mut Vec<u32>) -> Result<(), PieceFault> {
        let begins = begins || !self.marks_beginning;
        if let Some(steps) = &self.steps {
            return steps.encode(piece, begins, ids);
        }
        let released = self.library.get().map_err(PieceFault::Refused)?;
        released.encode_part(piece, begins, ids).map_err(|error| match error {
            EngineError::NoMemory { bytes, .. } => PieceFault::NoMemory(bytes),
            EngineError::Panicked { reason, .. } => PieceFault::Panicked(reason),
            EngineError::Refused { reason, .. } => PieceFault::Refused(reason),
        })
    }

    fn marks_beginning(&self) -> bool {
        self.marks_beginning
    }
}

/// The error of a text that could not be encoded.
pub(super) fn error_of(name: &str, fault: PieceFault, text: usize) -> EngineError {
    match fault {
        PieceFault::NoMemory(bytes) => EngineError::no_memory(name, text, bytes),
        PieceFault::Refused(reason) => EngineError::refused(Released::NAME, reason),
        PieceFault::Panicked(reason) => EngineError::Panicked { engine: Released::NAME.to_owned(), reason },
        other => EngineError::refused(name, other),
    }
}
