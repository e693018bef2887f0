//! The transaction around a batch, the guard that undoes one write of it, and the lock on commits while a write runs.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use rusqlite::{Connection, ffi};

/// Commits are allowed.
const OPEN: u8 = 0;
/// A write runs. Commits are refused.
const WRITES: u8 = 1;
/// A write runs, and has tried to commit.
const REFUSED: u8 = 2;

/// A connection that keeps writes inside their transactions.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Connection,
    /// `OPEN`, `WRITES` or `REFUSED`: shared with the commit hook, which SQLite calls on the thread that uses the connection.
    commits: Arc<AtomicU8>,
    is_hooked: bool,
    /// The statements that set, undo and end the savepoint of a write.
    set: String,
    undo: String,
    end: String,
}

impl Session {
    pub(crate) fn new(connection: Connection) -> Self {
        // A name that no write can have by accident, or by knowing this code.
        let name = format!("windrow_{:016x}", RandomState::new().build_hasher().finish());
        Session {
            connection,
            commits: Arc::new(AtomicU8::new(OPEN)),
            is_hooked: false,
            set: format!("SAVEPOINT {name}"),
            undo: format!("ROLLBACK TO {name}"),
            end: format!("RELEASE {name}"),
        }
    }

    /// Has SQLite refuse each commit while a write runs, whether it is a `COMMIT` or a statement that commits by itself after the write or
    /// SQLite has rolled the transaction back. Writes cannot take the hook away: that needs the connection exclusively.
    ///
    /// # Errors
    /// SQLite's error. No write may run then.
    pub(crate) fn refuse_commits(&mut self) -> rusqlite::Result<()> {
        if !self.is_hooked {
            let commits = self.commits.clone();
            // Relaxed: one thread at a time uses the connection; what passes the connection on orders the state, too.
            self.connection.commit_hook(Some(move || {
                commits.compare_exchange(WRITES, REFUSED, Ordering::Relaxed, Ordering::Relaxed) != Err(OPEN)
            }))?;
            self.is_hooked = true;
        }
        Ok(())
    }

    fn set_commits(&self, to: u8) -> u8 {
        // Relaxed: as in `refuse_commits`.
        self.commits.swap(to, Ordering::Relaxed)
    }

    /// Uses the connection outside any transaction.
    pub(crate) fn exclusive<R>(&mut self, f: impl FnOnce(&mut Connection) -> R) -> R {
        self.roll_back();
        // `f` may set another hook.
        self.is_hooked = false;
        let result = f(&mut self.connection);
        self.roll_back();
        result
    }

    /// Rolls back the open transaction, if there is one.
    pub(crate) fn roll_back(&self) {
        if !self.connection.is_autocommit() {
            // If this fails, the next `BEGIN` fails too, and its writes get that error. A statement that is alone is checked after it has run.
            let _ = self.step("ROLLBACK");
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
    pub(crate) fn begin(session: &'c Session) -> rusqlite::Result<Self> {
        session.step("BEGIN IMMEDIATE")?;
        Ok(Open(session))
    }

    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        // If it fails, the transaction may still be open; the drop rolls it back.
        self.0.step("COMMIT")
    }

    /// The guard for the next write.
    pub(crate) fn guard(&self) -> Guard<'c> {
        Guard { session: self.0, is_alone: false, state: State::Unset }
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
    Failed(rusqlite::Error),
}

/// Cause for which a write does not count.
pub(crate) enum Lost {
    /// The write or SQLite has ended the transaction. The error says that the write tried to commit; if it did not, only the write knows more.
    Ended(Option<rusqlite::Error>),
    /// The transaction failed, or never began.
    Transaction(rusqlite::Error),
}

impl From<rusqlite::Error> for Lost {
    fn from(error: rusqlite::Error) -> Self {
        Lost::Transaction(error)
    }
}

impl<'c> Guard<'c> {
    /// The guard for a write that is alone. Once set, it opens a transaction.
    pub(crate) fn alone(session: &'c Session) -> Self {
        Guard { session, is_alone: true, state: State::Unset }
    }

    /// The connection, for a statement that needs no guard.
    pub(crate) fn connection(&self) -> &'c Connection {
        &self.session.connection
    }

    /// True if SQLite may leave a statement that is alone uncommitted, because another write has leaked a statement that still runs.
    pub(crate) fn is_held_open(&self) -> bool {
        self.is_alone && self.session.connection.is_busy()
    }

    /// From here on, everything is undone if the write fails, and the write cannot commit.
    ///
    /// # Errors
    /// The guard keeps the error for all writes of the transaction; the returned one only stands for it.
    pub(crate) fn set(&mut self) -> rusqlite::Result<&'c Connection> {
        let session = self.session;
        let open = self.is_alone.then(|| Open::begin(session)).transpose();
        let set = open.and_then(|open| session.step(&session.set).map(|()| open));
        self.state = set.map_or_else(State::Failed, State::Set);
        if self.has_failed() {
            return Err(rusqlite::Error::InvalidQuery);
        }
        session.set_commits(WRITES);
        Ok(&session.connection)
    }

    /// Whether the guard could not be set. Then the write was not run.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    /// Ends the guard after the write, which returned `Ok` or not.
    ///
    /// # Errors
    /// The write does not count.
    pub(crate) fn end(self, is_ok: bool) -> Result<(), Lost> {
        let Guard { session, is_alone, state } = self;
        let is_refused = session.set_commits(OPEN) == REFUSED;
        let was_ended = session.connection.is_autocommit();
        let ended = || Err(Lost::Ended(is_refused.then(refused)));
        match state {
            State::Failed(error) => return Err(Lost::Transaction(error)),
            // A transaction is open beside a statement that is alone if that was `BEGIN IMMEDIATE`, or if an earlier `ROLLBACK` failed.
            State::Unset if is_alone == was_ended => {}
            State::Unset => {
                if is_alone {
                    session.roll_back();
                }
                return ended();
            }
            State::Set(_) if was_ended => return ended(),
            State::Set(open) => {
                let undone = if is_ok { Ok(()) } else { session.step(&session.undo) };
                match undone.and_then(|()| session.step(&session.end)) {
                    // The savepoint is gone: the write has ended the transaction and begun another one.
                    Err(error) if error.sqlite_error_code() == Some(ffi::ErrorCode::Unknown) => return ended(),
                    other => other?,
                }
                open.map_or(Ok(()), Open::commit)?;
            }
        }
        Ok(())
    }
}

fn refused() -> rusqlite::Error {
    let code = ffi::Error::new(ffi::SQLITE_CONSTRAINT_COMMITHOOK);
    rusqlite::Error::SqliteFailure(code, Some("it tried to commit, which no write may do".to_owned()))
}
