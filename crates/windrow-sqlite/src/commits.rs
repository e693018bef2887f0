//! One transaction a batch.
//!
//! # Protocol
//! `BEGIN IMMEDIATE`; each write between `SAVEPOINT` and `RELEASE`, or `ROLLBACK TO` if it failed; `COMMIT`; then all are answered.
//! A write that is one statement does without the savepoint, for SQLite undoes a statement that fails by itself.
//!
//! * Immediate, so that it is the beginning that waits for other connections, when nothing has been done yet. (A transaction that
//!   begins as a reader may later be refused the lock without any waiting.)
//! * A write that is alone needs no savepoint: its failure rolls back the transaction. One statement alone needs no transaction either:
//!   SQLite commits it.
//! * `SAVEPOINT`, `ROLLBACK TO` and their like are statements too. They run in a savepoint, which confines them: a write
//!   could roll back to the savepoint that another has left behind. (`BEGIN IMMEDIATE` counts as a statement that writes. SQLite refuses
//!   it in a transaction; alone it leaves one open, which is rolled back.)
//! * SQLite rolls back the whole transaction on some errors, and a write can end it by SQL. Then the connection is back in autocommit
//!   mode. It is looked at after every write: a write that ran in that mode would be committed by itself.
//! * Whatever goes wrong with a savepoint or the commit, the transaction is rolled back, and a write is only told `Ok` after a
//!   `COMMIT` that said so, or, if it is a statement alone, when it has run and no transaction is open.

use std::sync::Arc;

use rusqlite::Connection;
use windrow::batch::{Batch, BatchOps, Entry};

use crate::guard::{Guard, Open, roll_back};
use crate::{Error, Write};

/// The structure behind [`GroupCommit`](crate::GroupCommit): a connection whose writes are run as one transaction a batch.
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

    /// After a panic: an open transaction belongs to nobody.
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

    /// Runs writes as one transaction: all of them, unless one ends it. So many were run, or will not be.
    fn transaction(&self, entries: &mut [Entry<Write, Write>]) -> usize {
        let undo = |entries: &mut [Entry<Write, Write>], error: rusqlite::Error| {
            let error = Arc::new(error);
            entries.iter_mut().for_each(|entry| op(entry).0.undo(Error::Transaction(error.clone())));
        };
        roll_back(&self.connection);
        if let [one] = entries {
            let mut guard = Guard::alone(&self.connection);
            let is_ok = op(one).0.run(&mut guard);
            match guard.end(is_ok) {
                Ok(true) => {}
                Ok(false) => op(one).0.undo(Error::Undone),
                Err(error) => undo(entries, error),
            }
            return 1;
        }
        let open = match Open::begin(&self.connection) {
            Ok(open) => open,
            Err(error) => {
                undo(entries, error);
                return entries.len();
            }
        };
        for ran in 1..=entries.len() {
            let write = op(&mut entries[ran - 1]);
            let mut guard = open.guard();
            let is_ok = write.0.run(&mut guard);
            match guard.end(is_ok) {
                Ok(true) => {}
                Ok(false) => {
                    entries[..ran].iter_mut().for_each(|entry| op(entry).0.undo(Error::Undone));
                    return ran;
                }
                Err(error) => {
                    undo(&mut entries[..ran], error);
                    return ran;
                }
            }
        }
        if let Err(error) = open.commit() {
            undo(entries, error);
        }
        entries.len()
    }
}

impl BatchOps for Commits {
    type Op = Write;
    type Reply = Write;

    fn run(&mut self, batch: &mut Batch<'_, Write, Write>) {
        let mut rest = &mut batch[..];
        while !rest.is_empty() {
            let (done, left) = {
                let ran = self.transaction(rest);
                rest.split_at_mut(ran)
            };
            done.iter_mut().for_each(|entry| entry.answer(|write| write));
            rest = left;
        }
    }
}
