//! Why a write was not done.

use std::sync::Arc;

use windrow::batch::Why;

/// Why a write was not done. Nothing of it is in the database then, but for what a statement keeps by SQLite's own rules: see
/// [`execute`](crate::GroupCommit::execute).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The write itself said so: a constraint, or whatever it returned. Its changes are undone, those of others are not. A statement that is
    /// alone commits by itself: what is in the way of that is its own error too.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The write panicked, with this message. Its changes are undone, those of others are not.
    #[error("the write panicked: {0}")]
    Panicked(String),
    /// The transaction could not begin or commit: another connection holds the lock for longer than the busy timeout, the disk is full, a
    /// deferred constraint is violated. All writes of the batch get it.
    #[error("the transaction failed: {0}")]
    Transaction(#[source] Arc<rusqlite::Error>),
    /// A write of the batch, another one as a rule, ended the transaction, by `ROLLBACK`, `COMMIT`, `OR ROLLBACK`, `RAISE(ROLLBACK)`, or an error after which
    /// SQLite rolls back everything (no memory, disk full, input or output failed). To be tried again. (If it was `COMMIT`, which no write
    /// may do, what came before it is in the database all the same.)
    #[error("a write of the batch ended the transaction")]
    Undone,
    /// It was not taken: see [`Why`].
    #[error(transparent)]
    Refused(Why),
}

impl Error {
    /// SQLite's own error, if there is one.
    pub fn sqlite(&self) -> Option<&rusqlite::Error> {
        match self {
            Error::Sqlite(error) => Some(error),
            Error::Transaction(error) => Some(error),
            _ => None,
        }
    }

    /// Whether another connection was in the way for longer than the busy timeout.
    pub fn is_busy(&self) -> bool {
        let code = self.sqlite().and_then(rusqlite::Error::sqlite_error_code);
        matches!(code, Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
    }
}
