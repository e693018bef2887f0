//! Runs each batch as one transaction.
//!
//! # Protocol
//! 1. `BEGIN IMMEDIATE` opens the transaction.
//! 2. Each write runs after a `SAVEPOINT`. `RELEASE` ends it, after `ROLLBACK TO` if the write failed.
//! 3. `COMMIT` ends the transaction. Then all writes are answered.
//!
//! A write is *alone* if it is the only one of its batch. Its transaction is around the savepoint alone.
//!
//! * The transaction is immediate, so it waits for other connections at its beginning, when nothing has been done yet. (A transaction that
//!   begins as a reader may later be refused the lock without any waiting.)
//! * A write of a single statement needs no savepoint, because SQLite itself undoes a statement that fails.
//! * A single statement that is alone needs no transaction either: SQLite commits it. (Unless a write has leaked a statement that still runs:
//!   beside that one SQLite commits nothing by itself.)
//! * A write of `SAVEPOINT`, `ROLLBACK TO` or the like does run inside a savepoint. Otherwise the write could roll back to a savepoint that
//!   another write has left behind. (`BEGIN IMMEDIATE` counts as a statement that writes. SQLite refuses it in a transaction. Alone it
//!   leaves a transaction open, which is rolled back.)
//! * No write can commit. While one runs, the connection's commit hook refuses, and SQLite rolls back instead. Otherwise a `COMMIT` would keep
//!   the rows of a write that fails later; and after a rollback, each further statement of the write would commit by itself.
//! * SQLite rolls back the whole transaction on some errors, and a write can end it by SQL. Then the connection is back in autocommit mode, or
//!   the savepoint is gone, whose name no write knows. The runner checks both after every write.
//! * If a savepoint or the commit fails, the transaction is rolled back. A write gets `Ok` only after a successful `COMMIT`. A single
//!   statement that is alone gets `Ok` when it has run and no transaction is open.

use std::ops::Range;
use std::sync::Arc;

use rusqlite::Connection;
use windrow::batch::{Batch, BatchOps, Entry};

use crate::guard::{Guard, Lost, Open, Session};
use crate::{Error, Write};

/// The structure behind [`GroupCommit`](crate::GroupCommit): a connection that runs the writes of a batch as one transaction.
#[derive(Debug)]
pub struct Commits {
    session: Session,
}

fn op(entry: &mut Entry<Write, Write>) -> &mut Write {
    match entry {
        Entry::Op(write) | Entry::Reply(write) => write,
        Entry::Empty => unreachable!("entries come with their operations"),
    }
}

impl Commits {
    pub(crate) fn new(connection: Connection) -> Self {
        Commits { session: Session::new(connection) }
    }

    /// Rolls back the transaction that a panic has left open.
    pub(crate) fn recover(&mut self) {
        self.session.roll_back();
    }

    /// Uses the connection outside of any transaction.
    pub(crate) fn exclusive<R>(&mut self, f: impl FnOnce(&mut Connection) -> R) -> R {
        self.session.exclusive(f)
    }

    /// Runs the writes of a batch from `from` on as one transaction: all of them, unless one ends the transaction. Returns the end of the
    /// writes that are settled, run or not.
    fn transaction(&self, batch: &mut Batch<'_, Write, Write>, from: usize) -> usize {
        let end = batch.len();
        self.session.roll_back();
        if from + 1 == end {
            let guard = Guard::alone(&self.session);
            write(batch, from..end, guard);
            return end;
        }
        let open = match Open::begin(&self.session) {
            Ok(open) => open,
            Err(error) => {
                undo(batch, from..end, error);
                return end;
            }
        };
        for at in from..end {
            if !write(batch, from..at + 1, open.guard()) {
                return at + 1;
            }
        }
        if let Err(error) = open.commit() {
            undo(batch, from..end, error);
        }
        end
    }
}

/// Runs the last of these writes. If the transaction is lost by that, gives all of them the error, and returns false.
fn write(batch: &mut Batch<'_, Write, Write>, writes: Range<usize>, mut guard: Guard<'_>) -> bool {
    let last = op(&mut batch[writes.end - 1]);
    let is_ok = last.0.run(&mut guard);
    match guard.end(is_ok) {
        Ok(()) => return true,
        Err(Lost::Transaction(error)) => undo(batch, writes, error),
        Err(Lost::Ended(refused)) => {
            let cause = refused.or_else(|| last.0.failure()).map(Arc::new);
            writes.for_each(|at| op(&mut batch[at]).0.undo(Error::Undone(cause.clone())));
        }
    }
    false
}

/// Gives writes the error of their transaction.
fn undo(batch: &mut Batch<'_, Write, Write>, writes: Range<usize>, error: rusqlite::Error) {
    let error = Arc::new(error);
    writes.for_each(|at| op(&mut batch[at]).0.undo(Error::Transaction(error.clone())));
}

impl BatchOps for Commits {
    type Op = Write;
    type Reply = Write;

    fn run(&mut self, batch: &mut Batch<'_, Write, Write>) {
        let mut from = 0;
        if let Err(error) = self.session.refuse_commits() {
            undo(batch, 0..batch.len(), error);
            batch.iter_mut().for_each(|entry| entry.answer(|write| write));
            return;
        }
        while from < batch.len() {
            let end = self.transaction(batch, from);
            (from..end).for_each(|at| batch[at].answer(|write| write));
            from = end;
        }
    }
}
