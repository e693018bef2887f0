//! Exit codes. They are those of `sysexits.h` where that file has a fitting one.

use windrow_tokenizers::dataset::{DatasetError, DatasetErrorKind};
use windrow_tokenizers::encode::EncodeError;
use windrow_tokenizers::input::{ErrorClass, InputError};
use windrow_tokenizers::output::{OutputError, OutputErrorKind};
use windrow_tokenizers::tokenizer::LoadError;

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    /// Any failure without a specific code.
    Failed,
    Usage,
    /// A named file does not exist, which counts as a wrong usage.
    Missing,
    BadInput,
    CannotCreate,
    Io,
    /// It was ended by the signal with this number.
    Signal(u8),
}

impl Code {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage | Self::Missing => 2,
            Self::BadInput => 65,
            Self::CannotCreate => 73,
            Self::Io => 74,
            Self::Signal(number) => 128 + number,
        }
    }

    /// Whether the output was abandoned, which only a signal causes.
    pub(crate) fn is_interruption(error: &EncodeError) -> bool {
        matches!(error, EncodeError::Output(error) if error.kind() == OutputErrorKind::Interrupted)
    }
}

impl From<&InputError> for Code {
    fn from(error: &InputError) -> Self {
        match error.class() {
            _ if matches!(error, InputError::Missing { .. }) => Self::Missing,
            ErrorClass::Usage => Self::Usage,
            ErrorClass::Data => Self::BadInput,
            ErrorClass::Io => Self::Io,
            ErrorClass::Stopped => Self::Failed,
        }
    }
}

impl From<&OutputError> for Code {
    fn from(error: &OutputError) -> Self {
        match error.kind() {
            OutputErrorKind::Usage => Self::Usage,
            OutputErrorKind::Document => Self::BadInput,
            OutputErrorKind::CannotCreate => Self::CannotCreate,
            OutputErrorKind::Io => Self::Io,
            // Only `signals::interrupted` knows which signal it was.
            OutputErrorKind::Interrupted => Self::Signal(2),
            _ => Self::Failed,
        }
    }
}

impl From<&DatasetError> for Code {
    fn from(error: &DatasetError) -> Self {
        match error.kind() {
            DatasetErrorKind::Missing => Self::Missing,
            DatasetErrorKind::Io => Self::Io,
            _ => Self::BadInput,
        }
    }
}

impl From<&LoadError> for Code {
    fn from(error: &LoadError) -> Self {
        match error {
            LoadError::Unknown { .. } | LoadError::UnknownModel { .. } | LoadError::Unsupported { .. } => Self::Usage,
            LoadError::Read { .. } | LoadError::NoMemory { .. } => Self::Io,
            LoadError::Invalid { .. } | LoadError::Refused { .. } => Self::BadInput,
            _ => Self::Failed,
        }
    }
}

impl From<&EncodeError> for Code {
    fn from(error: &EncodeError) -> Self {
        match error {
            EncodeError::Input(error) => error.into(),
            EncodeError::Output(error) => error.into(),
            EncodeError::NoMemory(_) | EncodeError::Thread(_) => Self::Io,
            EncodeError::Document(_)
            | EncodeError::TooManySkipped { .. }
            | EncodeError::AllSkipped { .. }
            | EncodeError::NoLoss { .. } => Self::BadInput,
            _ => Self::Failed,
        }
    }
}

/// An error that is not reported yet, and the exit code.
pub(crate) struct Refused(pub(crate) String, pub(crate) Code);

impl Refused {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self(message.into(), Code::Usage)
    }
}

impl<E> From<E> for Refused
where
    E: std::error::Error,
    Code: for<'e> From<&'e E>,
{
    fn from(error: E) -> Self {
        Self(error.to_string(), Code::from(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_is_of_the_system_and_not_of_the_data() {
        let changed = InputError::Changed { name: "log.txt".to_owned() };
        assert_eq!(Code::from(&EncodeError::Input(changed)).number(), 74);
    }
}
