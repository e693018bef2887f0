//! Errors of a write.

use std::sync::Arc;

use windrow::batch::BatchError;

/// Cause of a write that was not done. It has left nothing in the database, with two exceptions: what a statement keeps by SQLite's rules (see
/// [`execute`](crate::GroupCommit::execute)), and an error of which [`may_be_there`](Error::may_be_there) says so.
///
/// ```
/// use rusqlite::Connection;
/// use windrow_sqlite::{Error, GroupCommit};
///
/// let connection = Connection::open_in_memory()?;
/// connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
/// let db = GroupCommit::new(connection)?;
/// assert!(matches!(db.execute("INSERT INTO users VALUES (NULL)", ()), Err(Error::Sqlite(_))));
/// let panicked = db.call(|_| -> rusqlite::Result<()> { panic!("no name") }).unwrap_err();
/// assert_eq!(panicked.to_string(), "the write panicked: no name");
/// assert_eq!(db.execute("INSERT INTO users VALUES ('ada')", ())?, 1, "the other writes go on");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The write itself returned it, for instance because of a constraint. Its changes are undone, those of others are not. A single
    /// statement that is alone in its batch commits by itself, so an error of that commit is this error too.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The write panicked with this message. Its changes are undone, those of others are not.
    #[error("the write panicked: {0}")]
    Panicked(String),
    /// The transaction could not begin or commit. Another connection held the lock for longer than the busy timeout, the disk is full, or a
    /// deferred constraint is violated. All writes of the batch get this error.
    #[error("the transaction failed: {0}")]
    Transaction(#[source] Arc<rusqlite::Error>),
    /// A write of the batch, usually another one, ended the transaction, which is rolled back. It did so by `ROLLBACK`, `OR ROLLBACK` or
    /// `RAISE(ROLLBACK)`, it tried to commit, or SQLite rolled back everything after an error (out of memory, disk full, I/O error). With the
    /// error that SQLite gave that write, if it returned one. Try again.
    #[error("a write of the batch ended the transaction{}", .0.as_ref().map_or_else(String::new, |cause| format!(": {cause}")))]
    Undone(#[source] Option<Arc<rusqlite::Error>>),
    /// The call was refused: see [`BatchError`].
    #[error(transparent)]
    Refused(BatchError),
}

impl Error {
    /// SQLite's own error, if there is one.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// let error = db.execute("INSERT INTO users VALUES (NULL)", ()).unwrap_err();
    /// let code = error.sqlite().and_then(rusqlite::Error::sqlite_error_code);
    /// assert_eq!(code, Some(rusqlite::ErrorCode::ConstraintViolation));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sqlite(&self) -> Option<&rusqlite::Error> {
        match self {
            Error::Sqlite(error) => Some(error),
            Error::Transaction(error) => Some(error),
            Error::Undone(error) => error.as_deref(),
            Error::Panicked(_) | Error::Refused(_) => None,
        }
    }

    /// True if the write may be in the database all the same, so that trying again may write it twice. All other errors say that it is not.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// let ended = db.call(|connection| {
    ///     connection.execute("INSERT INTO users VALUES ('ada')", ())?;
    ///     connection.execute_batch("COMMIT")
    /// });
    /// assert!(!ended.unwrap_err().may_be_there());
    /// assert_eq!(db.execute("INSERT INTO users VALUES ('ada')", ())?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn may_be_there(&self) -> bool {
        // An internal error, or a fork: the parent runs what was handed in before.
        matches!(self, Error::Refused(BatchError::Panicked | BatchError::Unanswered | BatchError::Forked))
    }

    /// Whether another connection held the lock for longer than the busy timeout.
    ///
    /// ```
    /// use rusqlite::Connection;
    /// use windrow_sqlite::GroupCommit;
    ///
    /// // Two connections to one database. The other one keeps its transaction open.
    /// let open = || Connection::open("file:busy?mode=memory&cache=shared");
    /// let (other, db) = (open()?, GroupCommit::new(open()?)?);
    /// other.execute_batch("CREATE TABLE users (name TEXT); BEGIN IMMEDIATE; INSERT INTO users VALUES ('ada')")?;
    /// assert!(db.execute("INSERT INTO users VALUES ('grace')", ()).unwrap_err().is_busy());
    /// other.execute_batch("COMMIT")?;
    /// assert_eq!(db.execute("INSERT INTO users VALUES ('grace')", ())?, 1, "try again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_busy(&self) -> bool {
        let code = self.sqlite().and_then(rusqlite::Error::sqlite_error_code);
        matches!(code, Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked))
    }
}
