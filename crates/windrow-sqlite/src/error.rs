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
    /// The write is at fault: it violates a constraint, perhaps one that is checked at the commit, or a statement of it failed or is refused
    /// (`COMMIT`: "not authorized"). A write that goes on after SQLite has rolled the transaction back, by `OR ROLLBACK` for instance, gets
    /// `SQLITE_ABORT_ROLLBACK`.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The write panicked with this message.
    #[error("the write panicked: {0}")]
    Panicked(String),
    /// The transaction could not begin or commit, and no write is at fault: another connection held the lock for longer than the busy
    /// timeout, or the disk is full. All writes of the transaction get this error.
    #[error("the transaction failed: {0}")]
    Transaction(#[source] Arc<rusqlite::Error>),
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
