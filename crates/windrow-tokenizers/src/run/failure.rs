//! Failures of runs, and their kinds.

#[cfg(feature = "chat")]
use std::io;

#[cfg(feature = "chat")]
use crate::chat::ChatError;
use crate::dataset::{DatasetError, DatasetErrorKind};
use crate::encode::EncodeError;
use crate::input::{ErrorClass, InputError};
use crate::output::{OutputError, OutputErrorKind};
use crate::tokenizer::LoadError;

/// A run that cannot begin, or that failed.
///
/// ```
/// use windrow_tokenizers::run::{EncodeSpec, FailureKind};
///
/// let spec = r#"{"job": {"seed": 1}, "run": {"inputs": "corpus", "output": "ids"}}"#;
/// let spec: EncodeSpec = serde_json::from_str(spec)?;
/// let failed = spec.find(|_| ()).err().expect("there is nothing to choose");
/// assert_eq!(failed.kind, FailureKind::Usage);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    /// The fault, its place and the remedy; the remedy is a line that begins with `hint: `.
    pub message: String,
    /// The kind of the failure.
    pub kind: FailureKind,
}

/// The kinds of failures that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// An option, or options that contradict each other.
    Usage,
    /// An input that does not exist.
    Missing,
    /// A document or a file whose content is bad.
    BadInput,
    /// A file of the output exists and must not be replaced.
    Exists,
    /// A file of the output cannot be created for another reason.
    CannotCreate,
    /// The system could not read or write a file, or has no memory.
    Io,
    /// The caller stopped the run.
    Stopped,
    /// Anything else.
    Other,
}

impl Failed {
    /// A failure of an option, or of options that contradict each other.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Usage }
    }
}

impl From<&InputError> for FailureKind {
    fn from(error: &InputError) -> Self {
        match error.class() {
            _ if matches!(error, InputError::Missing { .. }) => Self::Missing,
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Data => Self::BadInput,
            ErrorClass::Io => Self::Io,
            ErrorClass::Stopped => Self::Stopped,
        }
    }
}

impl From<&OutputError> for FailureKind {
    fn from(error: &OutputError) -> Self {
        match error.kind() {
            OutputErrorKind::Usage => Self::Usage,
            OutputErrorKind::Document => Self::BadInput,
            OutputErrorKind::Exists => Self::Exists,
            OutputErrorKind::CannotCreate => Self::CannotCreate,
            OutputErrorKind::Io => Self::Io,
            OutputErrorKind::Interrupted => Self::Stopped,
            _ => Self::Other,
        }
    }
}

impl From<&DatasetError> for FailureKind {
    fn from(error: &DatasetError) -> Self {
        match error.kind() {
            DatasetErrorKind::Missing => Self::Missing,
            DatasetErrorKind::Io => Self::Io,
            _ => Self::BadInput,
        }
    }
}

impl From<&LoadError> for FailureKind {
    fn from(error: &LoadError) -> Self {
        match error {
            LoadError::Unknown { .. } | LoadError::UnknownModel { .. } | LoadError::Unsupported { .. } => Self::Usage,
            LoadError::Read { .. } | LoadError::NoMemory { .. } => Self::Io,
            LoadError::Invalid { .. } | LoadError::Refused { .. } => Self::BadInput,
        }
    }
}

impl From<&EncodeError> for FailureKind {
    fn from(error: &EncodeError) -> Self {
        match error {
            EncodeError::Input(error) => error.into(),
            EncodeError::Output(error) => error.into(),
            EncodeError::NoMemory(_) | EncodeError::Thread(_) => Self::Io,
            EncodeError::Document(_)
            | EncodeError::TooManySkipped { .. }
            | EncodeError::AllSkipped { .. }
            | EncodeError::NoLoss { .. } => Self::BadInput,
            EncodeError::Stopped => Self::Stopped,
            EncodeError::Panicked { .. } => Self::Other,
        }
    }
}

#[cfg(feature = "chat")]
impl From<&ChatError> for FailureKind {
    fn from(error: &ChatError) -> Self {
        match error {
            ChatError::Missing { .. } => Self::Usage,
            ChatError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Self::Missing,
            ChatError::Read { .. } => Self::Io,
            _ => Self::BadInput,
        }
    }
}

macro_rules! failed_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failed {
            fn from(error: $error) -> Self {
                Self { message: error.to_string(), kind: FailureKind::from(&error) }
            }
        }
    )*};
}

failed_from!(InputError, OutputError, DatasetError, LoadError, EncodeError);
#[cfg(feature = "chat")]
failed_from!(ChatError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_of_the_system_and_not_of_the_data() {
        let changed = InputError::Changed { name: "log.txt".to_owned() };
        assert_eq!(FailureKind::from(&EncodeError::Input(changed)), FailureKind::Io);
    }
}
