//! Runs each batch as one transaction.
//!
//! # Protocol
//! 1. `BEGIN IMMEDIATE` opens the transaction.
//! 2. Each write runs after a `SAVEPOINT`. `RELEASE` ends it, after `ROLLBACK TO` if the write failed.
//! 3. `COMMIT` ends the transaction. Then all writes are answered.
//!
//! A write is *alone* if it is the only one of its batch.
//!
//! * The transaction is immediate, so it waits for other connections at its beginning, when nothing has been done yet. (A transaction that
//!   begins as a reader may later be refused the lock without any waiting.)
//! * A write of a single statement needs no savepoint, because SQLite itself undoes a statement that fails.
//! * A write that is alone needs no savepoint: its failure rolls back the transaction. A single statement that is alone needs no
//!   transaction either: SQLite commits it.
//! * A write of `SAVEPOINT`, `ROLLBACK TO` or the like does run inside a savepoint. Otherwise the write could roll back to a savepoint that
//!   another write has left behind. (`BEGIN IMMEDIATE` counts as a statement that writes. SQLite refuses it in a transaction. Alone it
//!   leaves a transaction open, which is rolled back.)
//! * SQLite rolls back the whole transaction on some errors, and a write can end it by SQL. Then the connection is back in autocommit mode.
//!   The runner checks that after every write, because a later write would be committed by itself.
//! * If a savepoint or the commit fails, the transaction is rolled back. A write gets `Ok` only after a successful `COMMIT`. A single
//!   statement that is alone gets `Ok` when it has run and no transaction is open.

use std::ops::Range;
use std::sync::Arc;

use rusqlite::Connection;
use windrow::batch::{Batch, BatchOps, Entry};

use crate::guard::{Guard, Open, roll_back};
use crate::{Error, Write};

/// The structure behind [`GroupCommit`](crate::GroupCommit): a connection that runs the writes of a batch as one transaction.
#[derive(Debug)]
pub struct Commits {
    connection: Connection,
}

fn op(entry: &mut Entry<Write, Write>) -> &mut Write {
    match entry {
        Entry::Op(write) | Entry::Reply(write) => write,
        Entry::Empty => unreachable!("entries come with their operations"),
    }
}

impl Commits {
    pub(crate) fn new(connection: Connection) -> Self {
        Commits { connection }
    }

    /// Rolls back the transaction that a panic has left open.
    pub(crate) fn recover(&mut self) {
        roll_back(&self.connection);
    }

    /// Uses the connection outside of any transaction.
    pub(crate) fn exclusive<R>(&mut self, f: impl FnOnce(&mut Connection) -> R) -> R {
        roll_back(&self.connection);
        let result = f(&mut self.connection);
        roll_back(&self.connection);
        result
    }

    /// Runs the writes of a batch from `from` on as one transaction: all of them, unless one ends the transaction. Returns the end of the
    /// writes that are settled, run or not.
    fn transaction(&self, batch: &mut Batch<'_, Write, Write>, from: usize) -> usize {
        let end = batch.len();
        roll_back(&self.connection);
        if from + 1 == end {
            let mut guard = Guard::alone(&self.connection);
            let is_ok = op(&mut batch[from]).0.run(&mut guard);
            match guard.end(is_ok) {
                Ok(true) => {}
                Ok(false) => op(&mut batch[from]).0.undo(Error::Undone),
                Err(error) => undo(batch, from..end, error),
            }
            return end;
        }
        let open = match Open::begin(&self.connection) {
            Ok(open) => open,
            Err(error) => {
                undo(batch, from..end, error);
                return end;
            }
        };
        for at in from..end {
            let mut guard = open.guard();
            let is_ok = op(&mut batch[at]).0.run(&mut guard);
            match guard.end(is_ok) {
                Ok(true) => {}
                Ok(false) => {
                    (from..=at).for_each(|at| op(&mut batch[at]).0.undo(Error::Undone));
                    return at + 1;
                }
                Err(error) => {
                    undo(batch, from..at + 1, error);
                    return at + 1;
                }
            }
        }
        if let Err(error) = open.commit() {
            undo(batch, from..end, error);
        }
        end
    }
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
        while from < batch.len() {
            let end = self.transaction(batch, from);
            (from..end).for_each(|at| batch[at].answer(|write| write));
            from = end;
        }
    }
}
