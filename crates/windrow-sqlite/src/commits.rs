//! Runs each batch as one transaction.
//!
//! # Protocol
//! 1. `BEGIN IMMEDIATE` opens the transaction.
//! 2. Each write runs after a `SAVEPOINT`. `RELEASE` ends it, after `ROLLBACK TO` if the write failed.
//! 3. `COMMIT` ends the transaction. Then all writes are answered.
//!
//! A write is *alone* if it is the only one of its transaction, which is around the savepoint alone.
//!
//! * The transaction is immediate, so it waits for other connections at its beginning, when nothing has been done yet. (A transaction that
//!   begins as a reader may later be refused the lock without any waiting.)
//! * A write of a single statement needs no savepoint, because SQLite itself undoes a statement that fails.
//! * A single statement that is alone needs no transaction either: SQLite commits it. (Unless a write has leaked a statement that still runs:
//!   beside that one SQLite commits nothing by itself.)
//! * A write of `SAVEPOINT`, `ROLLBACK TO` or the like does run inside a savepoint. Otherwise the write could roll back to a savepoint that
//!   another write has left behind.
//! * No write can begin, commit or roll back a transaction: while one runs, an authorizer refuses these statements. That costs no other write
//!   anything.
//! * SQLite rolls the whole transaction back after `OR ROLLBACK`, `RAISE(ROLLBACK)` and some errors (out of memory, disk full, I/O error). Then
//!   the connection is back in autocommit mode, or the savepoint is gone, whose name no write knows. The runner checks both after every write.
//!   That write gets the error. The writes before it run again, in a transaction of their own, and so do those after it.
//! * After such a rollback, each further statement of the write would commit by itself. The connection's commit hook refuses that.
//! * A violated deferred constraint shows at `COMMIT`, and does not show which write is at fault. (SQLite counts the violations, but rusqlite
//!   has no safe call for the count.) The halves of the batch run again, each in a transaction of its own, and so on down to the writes at
//!   fault: with one of them, log2 of the batch's size further commits, and two further runs a write on average.
//! * Any other error of `BEGIN` or `COMMIT` is one of all writes. A write gets `Ok` only after a successful `COMMIT`. A single statement that is
//!   alone gets `Ok` when it has run and no transaction is open.

use std::ops::Range;
use std::sync::Arc;

use rusqlite::Connection;
use windrow::batch::{Batch, BatchOps, Entry};

use crate::guard::{Guard, Open, Session};
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

    /// Runs writes as one transaction. Returns those of them that are settled. The writes on either side have left nothing, and need
    /// transactions without the others.
    fn transaction(&self, batch: &mut Batch<'_, Write, Write>, writes: Range<usize>) -> Range<usize> {
        self.session.roll_back();
        if writes.len() == 1 {
            write(op(&mut batch[writes.start]), Guard::alone(&self.session));
            return writes;
        }
        let open = match Open::begin(&self.session) {
            Ok(open) => open,
            Err(error) => {
                undo(batch, writes.clone(), error);
                return writes;
            }
        };
        for at in writes.clone() {
            if !write(op(&mut batch[at]), open.guard()) {
                return at..at + 1;
            }
        }
        match open.commit() {
            Ok(()) => {}
            Err(Error::Transaction(error)) => undo(batch, writes.clone(), error),
            Err(_) => {
                let middle = writes.start.midpoint(writes.end);
                return middle..middle;
            }
        }
        writes
    }
}

/// Runs a write. If the transaction is lost by that, gives the write the error, and returns false.
fn write(write: &mut Write, mut guard: Guard<'_>) -> bool {
    let is_ok = write.0.run(&mut guard);
    guard.end(is_ok).map_err(|error| write.0.undo(error)).is_ok()
}

/// Gives writes the error of their transaction.
fn undo(batch: &mut Batch<'_, Write, Write>, writes: Range<usize>, error: Arc<rusqlite::Error>) {
    writes.for_each(|at| op(&mut batch[at]).0.undo(Error::Transaction(error.clone())));
}

impl BatchOps for Commits {
    type Op = Write;
    type Reply = Write;

    fn run(&mut self, batch: &mut Batch<'_, Write, Write>) {
        let all = 0..batch.len();
        if let Err(error) = self.session.set_hooks() {
            undo(batch, all.clone(), Arc::new(error));
            all.for_each(|at| batch[at].answer(|write| write));
            return;
        }
        // A stack, in the order in which the writes came.
        let (mut writes, mut rest) = (all, Vec::new());
        loop {
            let settled = self.transaction(batch, writes.clone());
            settled.clone().for_each(|at| batch[at].answer(|write| write));
            let others = [settled.end..writes.end, writes.start..settled.start];
            rest.extend(others.into_iter().filter(|others| !others.is_empty()));
            let Some(next) = rest.pop() else { break };
            writes = next;
        }
    }
}
