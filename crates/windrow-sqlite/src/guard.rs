//! The transaction around a batch, the guard that undoes one write of it, and the lock on transactions while a write runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, ffi};

use crate::Error;

/// No write runs.
const OPEN: u8 = 0;
/// A write runs that may commit by itself. No statement may begin or end a transaction.
const STATEMENT: u8 = 1;
/// A write runs. In addition, each commit is refused.
const GUARDED: u8 = 2;

/// A connection that keeps writes inside their transactions.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    /// `OPEN`, `STATEMENT` or `GUARDED`: shared with the hooks, which SQLite calls on the thread that uses the connection.
    running: Arc<AtomicU8>,
    is_hooked: bool,
    sql: Sql,
}

/// Statements that no write can have: by name, and as text that the connection keeps prepared.
#[derive(Debug)]
struct Sql {
    begin: String,
    commit: String,
    roll_back: String,
    set: String,
    undo: String,
    end: String,
}

impl Sql {
    fn new() -> Self {
        // A name that no write can have by accident, or by knowing this code.
        let name = format!("windrow_{:016x}", RandomState::new().build_hasher().finish());
        Sql {
            begin: format!("BEGIN IMMEDIATE -- {name}"),
            commit: format!("COMMIT -- {name}"),
            roll_back: format!("ROLLBACK -- {name}"),
            set: format!("SAVEPOINT {name}"),
            undo: format!("ROLLBACK TO {name}"),
            end: format!("RELEASE {name}"),
        }
    }
}

impl Session {
    pub(crate) fn new(connection: Connection) -> Self {
        Session { connection, running: Arc::new(AtomicU8::new(OPEN)), is_hooked: false, sql: Sql::new() }
    }

    /// Has SQLite refuse what no write may do: statements that begin or end a transaction, and each commit of a guarded write, which may come
    /// from any statement after a rollback. Writes cannot take the hooks away: that needs the connection exclusively.
    ///
    /// # Errors
    /// SQLite's error. No write may run then.
    pub(crate) fn set_hooks(&mut self) -> rusqlite::Result<()> {
        if !self.is_hooked {
            // Relaxed: one thread at a time uses the connection; what passes the connection on orders the state, too.
            let running = self.running.clone();
            self.connection.commit_hook(Some(move || running.load(Ordering::Relaxed) == GUARDED))?;
            let running = self.running.clone();
            // Statements that are prepared already are prepared again after this, and refused.
            self.connection.authorizer(Some(move |context: AuthContext<'_>| match context.action {
                AuthAction::Transaction { .. } if running.load(Ordering::Relaxed) != OPEN => Authorization::Deny,
                _ => Authorization::Allow,
            }))?;
            self.is_hooked = true;
        }
        Ok(())
    }

    fn set_running(&self, to: u8) {
        // Relaxed: as in `set_hooks`.
        self.running.store(to, Ordering::Relaxed);
    }

    /// Uses the connection outside any transaction.
    pub(crate) fn exclusive<R>(&mut self, f: impl FnOnce(&mut Connection) -> R) -> R {
        self.roll_back();
        // `f` may set other hooks.
        self.is_hooked = false;
        let result = f(&mut self.connection);
        self.roll_back();
        result
    }

    /// Rolls back the open transaction, if there is one. No write runs any more.
    pub(crate) fn roll_back(&self) {
        self.set_running(OPEN);
        if !self.connection.is_autocommit() {
            // If this fails, the next `BEGIN` fails too, and its writes get that error. A statement that is alone is checked after it has run.
            let _ = self.step(&self.sql.roll_back);
        }
    }

    /// Runs a statement that the connection keeps prepared.
    fn step(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute(())?;
        Ok(())
    }
}

/// An open transaction. It is rolled back unless [`Open::commit`] is called.
pub(crate) struct Open<'c>(&'c Session);

impl<'c> Open<'c> {
    pub(crate) fn begin(session: &'c Session) -> Result<Self, Arc<rusqlite::Error>> {
        session.step(&session.sql.begin)?;
        Ok(Open(session))
    }

    /// Commits. [`Error::Sqlite`] says that a write is at fault, [`Error::Transaction`] that none is.
    pub(crate) fn commit(self) -> Result<(), Error> {
        // If it fails, the transaction may still be open; the drop rolls it back.
        self.0.step(&self.0.sql.commit).map_err(|error| match error.sqlite_error_code() {
            Some(ffi::ErrorCode::ConstraintViolation) => Error::Sqlite(error),
            _ => Error::Transaction(Arc::new(error)),
        })
    }

    /// The guard for the next write.
    pub(crate) fn guard(&self) -> Guard<'c> {
        Guard::new(self.0, false)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.roll_back();
    }
}

/// Undoes the changes of a failed write, if the write has set the guard.
pub(crate) struct Guard<'c> {
    session: &'c Session,
    is_alone: bool,
    state: State<'c>,
}

enum State<'c> {
    /// Changes are committed with the transaction, or at once if there is none.
    Unset,
    /// A savepoint; of a write that is alone also its transaction.
    Set(Option<Open<'c>>),
    Failed(Arc<rusqlite::Error>),
}

impl<'c> Guard<'c> {
    fn new(session: &'c Session, is_alone: bool) -> Self {
        session.set_running(STATEMENT);
        Guard { session, is_alone, state: State::Unset }
    }

    /// The guard for a write that is alone. Once set, it opens a transaction.
    pub(crate) fn alone(session: &'c Session) -> Self {
        Guard::new(session, true)
    }

    /// The connection, for a statement that needs no guard.
    pub(crate) fn connection(&self) -> &'c Connection {
        &self.session.connection
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// True if SQLite may leave a statement that is alone uncommitted, because another write has leaked a statement that still runs.
    pub(crate) fn is_held_open(&self) -> bool {
        self.is_alone && self.session.connection.is_busy()
    }

    /// From here on, everything is undone if the write fails, and the write cannot commit.
    ///
    /// # Errors
    /// The guard keeps the error; the returned one only stands for it.
    pub(crate) fn set(&mut self) -> rusqlite::Result<&'c Connection> {
        let session = self.session;
        session.set_running(OPEN);
        let open = self.is_alone.then(|| Open::begin(session)).transpose();
        let set = open.and_then(|open| Ok(session.step(&session.sql.set).map(|()| open)?));
        self.state = set.map_or_else(State::Failed, State::Set);
        if self.has_failed() {
            return Err(rusqlite::Error::InvalidQuery);
        }
        session.set_running(GUARDED);
        Ok(&session.connection)
    }

    /// Whether the guard could not be set. Then the write was not run.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Ends the guard after the write, which returned `Ok` or not.
    ///
    /// # Errors
    /// The write is undone, and the transaction around it, if there is one, is lost.
    pub(crate) fn end(self, is_ok: bool) -> Result<(), Error> {
        let Guard { session, is_alone, state } = self;
        session.set_running(OPEN);
        let was_ended = session.connection.is_autocommit();
        match state {
            State::Failed(error) => Err(Error::Transaction(error)),
            // A transaction is open beside a statement that is alone if an earlier `ROLLBACK` failed.
            State::Unset if is_alone == was_ended => Ok(()),
            State::Unset => Err(ended()),
            State::Set(_) if was_ended => Err(ended()),
            State::Set(open) => {
                let undone = if is_ok { Ok(()) } else { session.step(&session.sql.undo) };
                match undone.and_then(|()| session.step(&session.sql.end)) {
                    Ok(()) => open.map_or(Ok(()), Open::commit),
                    // The savepoint is gone: SQLite has rolled back, and the write has begun another transaction.
                    Err(error) if error.sqlite_error_code() == Some(ffi::ErrorCode::Unknown) => Err(ended()),
                    Err(error) => Err(Error::Sqlite(error)),
                }
            }
        }
    }
}

fn ended() -> Error {
    let code = ffi::Error::new(ffi::SQLITE_ABORT_ROLLBACK);
    Error::Sqlite(rusqlite::Error::SqliteFailure(code, Some("the write has rolled the transaction back".to_owned())))
}
