//! Why a pool was not built.

use std::error::Error;
use std::fmt;
use std::io;

use windrow::workers::TaskPoolError;

/// Why a pool was not built.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    GlobalExists,
    CurrentThread,
    System(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) fn global_exists() -> Self {
        ThreadPoolBuildError { cause: Cause::GlobalExists }
    }

    /// Whether this system has no threads.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(&self.cause, Cause::System(error) if error.kind() == io::ErrorKind::Unsupported)
    }
}

impl From<TaskPoolError> for ThreadPoolBuildError {
    fn from(error: TaskPoolError) -> Self {
        let cause = error.into_io_error().map_or(Cause::CurrentThread, Cause::System);
        ThreadPoolBuildError { cause }
    }
}

// Programs compare these texts, so they are rayon's.
impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::GlobalExists => f.write_str("The global thread pool has already been initialized."),
            Cause::CurrentThread => f.write_str("The current thread is already part of another thread pool."),
            Cause::System(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::System(error) => Some(error),
            _ => None,
        }
    }
}
