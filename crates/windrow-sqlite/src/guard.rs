//! What a write stands in: the transaction, and what undoes one write of it.

use rusqlite::Connection;

/// Prepared once, kept by the connection.
fn step(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(())?;
    Ok(())
}

/// Ends a transaction if there is one.
pub(crate) fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // Should it fail the next `BEGIN` will, and its writes get that error; a statement that is alone is looked at when it has run.
        let _ = step(connection, "ROLLBACK");
    }
}

/// A transaction: without [`Open::commit`] it is rolled back.
pub(crate) struct Open<'c>(&'c Connection);

impl<'c> Open<'c> {
    pub(crate) fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        step(connection, "BEGIN IMMEDIATE")?;
        Ok(Open(connection))
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        // If it fails the transaction may still be open.
        step(self.0, "COMMIT")
    }

    /// For the next write: a savepoint.
    pub(crate) fn guard(&self) -> Guard<'c> {
        Guard { connection: self.0, kind: Kind::Savepoint, state: State::Unset }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        roll_back(self.0);
    }
}

/// Undoes what a write that fails has done, if the write has set it.
pub(crate) struct Guard<'c> {
    connection: &'c Connection,
    kind: Kind,
    state: State<'c>,
}

enum Kind {
    Savepoint,
    Transaction,
}

enum State<'c> {
    /// What is written is committed with the transaction; or at once, if there is none.
    Unset,
    Savepoint,
    Transaction(Open<'c>),
    Failed(rusqlite::Error),
}

impl<'c> Guard<'c> {
    /// For a write that is alone: a transaction.
    pub(crate) fn alone(connection: &'c Connection) -> Self {
        Guard { connection, kind: Kind::Transaction, state: State::Unset }
    }

    /// The connection, for a statement that needs no guard.
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// From here on all is undone if the write fails.
    ///
    /// # Errors
    /// It is kept here for all writes of the transaction: what is returned stands in for it.
    pub(crate) fn set(&mut self) -> rusqlite::Result<&'c Connection> {
        let set = match self.kind {
            Kind::Savepoint => step(self.connection, "SAVEPOINT windrow").map(|()| State::Savepoint),
            Kind::Transaction => Open::begin(self.connection).map(State::Transaction),
        };
        self.state = set.unwrap_or_else(State::Failed);
        if let State::Failed(_) = self.state { Err(rusqlite::Error::InvalidQuery) } else { Ok(self.connection) }
    }

    /// Whether it could not be set: then the write was not run.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// After the write, which said `Ok` or not. False: what it did does not count, since it has ended the transaction, or SQLite has; or it
    /// was to be committed at once, and a transaction is open.
    ///
    /// # Errors
    /// The transaction is lost, or never began.
    pub(crate) fn end(self, is_ok: bool) -> rusqlite::Result<bool> {
        let was_ended = self.connection.is_autocommit();
        match self.state {
            State::Failed(error) => return Err(error),
            State::Unset => {
                // With `BEGIN IMMEDIATE` as its text, or behind a `ROLLBACK` that failed.
                let was_alone = matches!(self.kind, Kind::Transaction);
                if was_alone {
                    roll_back(self.connection);
                }
                return Ok(was_alone == was_ended);
            }
            _ if was_ended => return Ok(false),
            State::Transaction(open) if is_ok => open.commit()?,
            // Its drop rolls back.
            State::Transaction(_) => {}
            State::Savepoint => {
                if !is_ok {
                    step(self.connection, "ROLLBACK TO windrow")?;
                }
                step(self.connection, "RELEASE windrow")?;
            }
        }
        Ok(true)
    }
}
