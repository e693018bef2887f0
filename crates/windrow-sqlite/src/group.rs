//! The face: calls, and how it is made.

use std::time::Duration;

use rusqlite::{Connection, Params};
use windrow::batch::{Batched, CallError, Full, Stats, Why};

use crate::write::{statement, write};
use crate::{Commits, Error, Write};

/// A database connection for many callers: writes that come at the same time are committed together. See the [crate](crate).
#[derive(Debug)]
pub struct GroupCommit {
    batched: Batched<Commits>,
}

impl GroupCommit {
    /// On a thread of its own, with batches of any size and no bound for what is queued. [`builder`](GroupCommit::builder) has the rest.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn new(connection: Connection) -> std::io::Result<Self> {
        Self::builder().build(connection)
    }

    /// Limits, a bounded queue, callers as runners.
    pub fn builder() -> Builder {
        Builder { inner: Batched::builder().recover(Commits::recover) }
    }

    /// Runs `f` on the connection, inside a transaction with the writes of other callers, and blocks until that is committed: what is
    /// returned as `Ok` is as durable as the connection's `PRAGMA synchronous` makes it.
    ///
    /// If `f` returns an error or panics, what it did is undone, and the writes of others are not. It must not end the transaction, and
    /// whatever it does beside writing to the database may turn out to be for nothing.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call<R, F>(&self, f: F) -> Result<R, Error>
    where
        F: FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.hand_in(write(f))
    }

    fn hand_in<R>(&self, (write, read): (Write, impl FnOnce(Write) -> Result<R, Error>)) -> Result<R, Error> {
        finish(self.batched.call(write), read)
    }

    fn hand_in_async<R>(
        &self,
        (write, read): (Write, impl FnOnce(Write) -> Result<R, Error> + Send),
    ) -> impl Future<Output = Result<R, Error>> + Send {
        let call = self.batched.call_async(write);
        async { finish(call.await, read) }
    }

    /// [`call`](GroupCommit::call) as a future of any executor. Nothing happens before it is polled. If it is dropped before its batch
    /// is cut, `f` is never run; later, it is run and committed, and nobody is told.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call_async<R, F>(&self, f: F) -> impl Future<Output = Result<R, Error>> + Send
    where
        F: FnOnce(&Connection) -> rusqlite::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.hand_in_async(write(f))
    }

    /// One statement, which the connection keeps prepared; how many rows it changed.
    ///
    /// Cheaper than a closure that does the same: SQLite undoes a statement that fails by itself. (Unless it is told not to, by `OR FAIL`,
    /// `RAISE(FAIL)` or a table's `ON CONFLICT FAIL`: then what the statement did before it failed is kept, here as on any connection.)
    /// What cannot run in a transaction, `VACUUM` and some pragmas, belongs into [`exclusive`](GroupCommit::exclusive).
    ///
    /// # Errors
    /// See [`Error`].
    pub fn execute(&self, sql: &'static str, params: impl Params + Send + 'static) -> Result<usize, Error> {
        self.hand_in(statement(sql, params))
    }

    /// [`execute`](GroupCommit::execute) as a future of any executor.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn execute_async(
        &self,
        sql: &'static str,
        params: impl Params + Send + 'static,
    ) -> impl Future<Output = Result<usize, Error>> + Send {
        self.hand_in_async(statement(sql, params))
    }

    /// Uses the connection outside of any transaction, when what was handed in before is committed: for pragmas, `VACUUM`, checkpoints. A
    /// transaction that `f` leaves open is rolled back.
    ///
    /// # Errors
    /// [`Error::Refused`].
    ///
    /// # Panics
    /// If `f` does.
    pub fn exclusive<R: Send>(&self, f: impl FnOnce(&mut Connection) -> R + Send) -> Result<R, Error> {
        self.batched.exclusive(|commits| commits.exclusive(f)).map_err(Error::Refused)
    }

    /// How batches have come out, what a commit costs (F), what a write costs (m), and whether batching pays.
    ///
    /// # Errors
    /// [`Why::Nested`], from a write.
    pub fn stats(&self) -> Result<Stats, Why> {
        self.batched.stats()
    }

    /// Takes nothing in from now on, and returns when all that was handed in before is committed. Dropping does the same, and then
    /// closes the connection.
    ///
    /// # Errors
    /// [`Why::Closed`] if it was closed before, [`Why::Nested`] from a write.
    pub fn close(&self) -> Result<(), Why> {
        self.batched.close()
    }
}

fn finish<R>(
    outcome: Result<Write, CallError<Write>>,
    read: impl FnOnce(Write) -> Result<R, Error>,
) -> Result<R, Error> {
    match outcome {
        Ok(write) => read(write),
        Err(error) => Err(Error::Refused(error.why())),
    }
}

/// Makes a [`GroupCommit`].
#[derive(Debug)]
pub struct Builder {
    inner: windrow::batch::Builder<Commits>,
}

impl Builder {
    /// At most so many writes a transaction (at least 1).
    pub fn limit(self, writes: usize) -> Self {
        Builder { inner: self.inner.limit(writes) }
    }

    /// At most so many writes (at least 1) handed in and not answered; and what becomes of more.
    pub fn queue(self, writes: usize, full: Full) -> Self {
        Builder { inner: self.inner.queue(writes, full) }
    }

    /// Lets the runner wait for more: see [`windrow::batch::Builder::linger`]. Off by default; a commit is long enough for a batch to come
    /// together while it lasts.
    pub fn linger(self, writes: usize, longest: Duration) -> Self {
        Builder { inner: self.inner.linger(writes, longest) }
    }

    /// Transactions are run by a thread of their own. A thread that calls when nobody else does runs its transaction itself.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn build(self, connection: Connection) -> std::io::Result<GroupCommit> {
        let batched = self.inner.build_beside_thread(Commits::new(connection))?;
        Ok(GroupCommit { batched })
    }

    /// Transactions are run by callers, whoever is there first: a caller that is alone does not wake a thread, and does not wait to be
    /// woken. Not for tasks of an executor, which would block its threads while the disk works.
    pub fn build_on_callers(self, connection: Connection) -> GroupCommit {
        GroupCommit { batched: self.inner.build(Commits::new(connection)) }
    }
}
