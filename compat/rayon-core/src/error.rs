//! Errors of a pool that was not built.

use std::error::Error;
use std::fmt;
use std::io;

/// A pool was not built.
#[derive(Debug)]
pub struct ThreadPoolBuildError(pub(crate) Cause);

#[derive(Debug)]
pub(crate) enum Cause {
    GlobalExists,
    CurrentThread,
    System(io::Error),
}

impl ThreadPoolBuildError {
    /// True if this system has no threads.
    pub(crate) fn is_unsupported(&self) -> bool {
        matches!(&self.0, Cause::System(error) if error.kind() == io::ErrorKind::Unsupported)
    }
}

// Programs compare these texts, so they are rayon's.
impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::GlobalExists => f.write_str("The global thread pool has already been initialized."),
            Cause::CurrentThread => f.write_str("The current thread is already part of another thread pool."),
            Cause::System(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Cause::System(error) => Some(error),
            _ => None,
        }
    }
}
