//! The transaction around a batch, and the guard that undoes one write of it.

use rusqlite::Connection;

/// Runs a statement that the connection keeps prepared.
fn step(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(())?;
    Ok(())
}

/// Rolls back the open transaction, if there is one.
pub(crate) fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        // If this fails, the next `BEGIN` fails too, and its writes get that error. A statement that is alone is checked after it has run.
        let _ = step(connection, "ROLLBACK");
    }
}

/// An open transaction. It is rolled back unless [`Open::commit`] is called.
pub(crate) struct Open<'c>(&'c Connection);

impl<'c> Open<'c> {
    pub(crate) fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        step(connection, "BEGIN IMMEDIATE")?;
        Ok(Open(connection))
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        // If it fails, the transaction may still be open; the drop rolls it back.
        step(self.0, "COMMIT")
    }

    /// The guard for the next write: a savepoint.
    pub(crate) fn guard(&self) -> Guard<'c> {
        Guard { connection: self.0, kind: Kind::Savepoint, state: State::Unset }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        roll_back(self.0);
    }
}

/// Undoes the changes of a failed write, if the write has set the guard.
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
    /// Changes are committed with the transaction, or at once if there is none.
    Unset,
    Savepoint,
    Transaction(Open<'c>),
    Failed(rusqlite::Error),
}

impl<'c> Guard<'c> {
    /// The guard for a write that is alone: a transaction.
    pub(crate) fn alone(connection: &'c Connection) -> Self {
        Guard { connection, kind: Kind::Transaction, state: State::Unset }
    }

    /// The connection, for a statement that needs no guard.
    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// From here on, everything is undone if the write fails.
    ///
    /// # Errors
    /// The guard keeps the error for all writes of the transaction; the returned one only stands for it.
    pub(crate) fn set(&mut self) -> rusqlite::Result<&'c Connection> {
        let set = match self.kind {
            Kind::Savepoint => step(self.connection, "SAVEPOINT windrow").map(|()| State::Savepoint),
            Kind::Transaction => Open::begin(self.connection).map(State::Transaction),
        };
        self.state = set.unwrap_or_else(State::Failed);
        if let State::Failed(_) = self.state { Err(rusqlite::Error::InvalidQuery) } else { Ok(self.connection) }
    }

    /// Whether the guard could not be set. Then the write was not run.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Ends the guard after the write, which returned `Ok` or not. Returns false if the write does not count. That is so if the write or
    /// SQLite has ended the transaction, or if the write was to be committed at once and a transaction is open.
    ///
    /// # Errors
    /// The transaction is lost, or never began.
    pub(crate) fn end(self, is_ok: bool) -> rusqlite::Result<bool> {
        let was_ended = self.connection.is_autocommit();
        match self.state {
            State::Failed(error) => return Err(error),
            State::Unset => {
                // A transaction is open if the statement was `BEGIN IMMEDIATE`, or if an earlier `ROLLBACK` failed.
                let was_alone = matches!(self.kind, Kind::Transaction);
                if was_alone {
                    roll_back(self.connection);
                }
                return Ok(was_alone == was_ended);
            }
            _ if was_ended => return Ok(false),
            State::Transaction(open) if is_ok => open.commit()?,
            // Dropping the transaction rolls it back.
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
