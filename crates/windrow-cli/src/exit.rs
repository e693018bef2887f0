//! Exit codes, taken from `sysexits.h` if it has a fitting one.

use windrow_tokenizers::run::FailureKind;

/// The end of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Done,
    /// Any failure without a specific code.
    Failed,
    Usage,
    BadInput,
    CannotCreate,
    Io,
    /// The command was ended by the signal with this number.
    Signal(u8),
}

impl Code {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::BadInput => 65,
            Self::CannotCreate => 73,
            Self::Io => 74,
            Self::Signal(number) => 128 + number,
        }
    }
}

impl From<FailureKind> for Code {
    fn from(kind: FailureKind) -> Self {
        match kind {
            // A named file that does not exist counts as wrong usage.
            FailureKind::Usage | FailureKind::Missing => Self::Usage,
            FailureKind::BadInput => Self::BadInput,
            FailureKind::Exists | FailureKind::CannotCreate => Self::CannotCreate,
            FailureKind::Io => Self::Io,
            _ => Self::Failed,
        }
    }
}

/// The code of an error of a run.
impl<'e, E> From<&'e E> for Code
where
    FailureKind: From<&'e E>,
{
    fn from(error: &'e E) -> Self {
        FailureKind::from(error).into()
    }
}
