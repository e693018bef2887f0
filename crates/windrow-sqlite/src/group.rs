//! The public face: calls, and the builder.

use rusqlite::{Connection, Params};
use windrow::batch::{BatchError, Batched, CallError, Overflow, Runner, Stats};

use crate::write::{statement, write};
use crate::{Commits, Error, Write};

/// A database connection for many callers: writes that come at the same time are committed together. See the [crate](crate).
///
/// ```
/// use rusqlite::Connection;
/// use windrow_sqlite::GroupCommit;
///
/// let connection = Connection::open_in_memory()?;
/// connection.execute_batch("CREATE TABLE visits (page INTEGER)")?;
/// let db = GroupCommit::new(connection)?;
/// std::thread::scope(|scope| {
///     for page in 0..8 {
///         let db = &db;
///         scope.spawn(move || db.execute("INSERT INTO visits VALUES (?1)", (page,)).unwrap());
///     }
/// });
/// let sum: i64 = db.call(|connection| connection.query_row("SELECT sum(page) FROM visits", (), |row| row.get(0)))?;
/// assert_eq!(sum, 28);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GroupCommit {
    batched: Batched<Commits>,
}

impl GroupCommit {
    /// Uses a separate thread, batches of any size, and an unbounded queue. [`builder`](GroupCommit::builder) sets the rest.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn new(connection: Connection) -> std::io::Result<Self> {
        Self::builder().build(connection)
    }

    /// Sets limits, a bounded queue, and which thread runs transactions.
    ///
    /// ```
    /// use rusqlite::Connection;
    /// use windrow::batch::Overflow;
    /// use windrow_sqlite::GroupCommit;
    ///
    /// // Transactions of up to 1000 writes; a caller that finds 10,000 queued gets an error.
    /// let db = GroupCommit::builder().limit(1000).queue(10_000, Overflow::Reject).build(Connection::open_in_memory()?)?;
    /// assert_eq!(db.execute("CREATE TABLE users (name TEXT)", ())?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> Builder {
        Builder { inner: Batched::builder().recover(Commits::recover) }
    }

    /// Runs `f` on the connection, inside a transaction with the writes of other callers, and blocks until the transaction is committed. An
    /// `Ok` is as durable as the connection's `PRAGMA synchronous` makes it.
    ///
    /// If `f` returns an error or panics, its changes are undone, and those of others are not. SQLite refuses `BEGIN`, `COMMIT` and `ROLLBACK` in
    /// `f` ("not authorized"); savepoints are free for use. `f` runs again, after its changes are undone, if another write loses the
    /// transaction. So `f` should do nothing besides writing to the database.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// // Two statements, both or none of them.
    /// let both = db.call(|connection| {
    ///     connection.execute("INSERT INTO users VALUES ('ada')", ())?;
    ///     connection.execute("INSERT INTO users VALUES (NULL)", ())
    /// });
    /// assert!(both.is_err());
    /// let users: i64 = db.call(|connection| connection.query_row("SELECT count(*) FROM users", (), |row| row.get(0)))?;
    /// assert_eq!(users, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    #[track_caller]
    pub fn call<R, F>(&self, f: F) -> Result<R, Error>
    where
        F: FnMut(&Connection) -> rusqlite::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.hand_in(write(f))
    }

    #[track_caller]
    fn hand_in<R>(&self, (write, read): (Write, impl FnOnce(Write) -> Result<R, Error>)) -> Result<R, Error> {
        finish(self.batched.call(write), read)
    }

    #[track_caller]
    fn hand_in_async<R>(
        &self,
        (write, read): (Write, impl FnOnce(Write) -> Result<R, Error> + Send),
    ) -> impl Future<Output = Result<R, Error>> + Send {
        let call = self.batched.call_async(write);
        async { finish(call.await, read) }
    }

    /// [`call`](GroupCommit::call) as a future of any executor. Nothing happens before the first poll. If the future is dropped before its
    /// batch begins, `f` is never run. If it is dropped later, `f` is run and committed, and its result is lost.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::{Error, GroupCommit};
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// async fn sign_up(db: &GroupCommit, name: String) -> Result<i64, Error> {
    ///     db.call_async(move |connection| {
    ///         connection.execute("INSERT INTO users (name) VALUES (?1)", (&name,))?;
    ///         Ok(connection.last_insert_rowid())
    ///     })
    ///     .await
    /// }
    /// # assert_eq!(windrow_testkit::block_on(sign_up(&db, "ada".to_owned()))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    #[track_caller]
    pub fn call_async<R, F>(&self, f: F) -> impl Future<Output = Result<R, Error>> + Send
    where
        F: FnMut(&Connection) -> rusqlite::Result<R> + Send + 'static,
        R: Send + 'static,
    {
        self.hand_in_async(write(f))
    }

    /// Runs one statement, which the connection keeps prepared. Returns how many rows it changed. A run in a batch clones the parameters;
    /// an `Arc` makes that cheap for large ones.
    ///
    /// It is cheaper than a closure with the same statement, because SQLite itself undoes a statement that fails. Exceptions are `OR FAIL`,
    /// `RAISE(FAIL)` and a table's `ON CONFLICT FAIL`: then the changes before the failure are kept, as on any connection. A statement that
    /// cannot run in a transaction, `VACUUM` or some pragmas, belongs in [`exclusive`](GroupCommit::exclusive).
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// assert_eq!(db.execute("INSERT INTO users VALUES (?1), (?2)", ("ada", "grace"))?, 2);
    /// assert_eq!(db.execute("DELETE FROM users WHERE name = ?1", ("ada",))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    #[track_caller]
    pub fn execute(&self, sql: &'static str, params: impl Params + Clone + Send + 'static) -> Result<usize, Error> {
        self.hand_in(statement(sql, params))
    }

    /// [`execute`](GroupCommit::execute) as a future of any executor.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::{Error, GroupCommit};
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT NOT NULL UNIQUE)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// async fn sign_up(db: &GroupCommit, name: String) -> Result<usize, Error> {
    ///     db.execute_async("INSERT INTO users VALUES (?1)", (name,)).await
    /// }
    /// # assert_eq!(windrow_testkit::block_on(sign_up(&db, "ada".to_owned()))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    #[track_caller]
    pub fn execute_async(
        &self,
        sql: &'static str,
        params: impl Params + Clone + Send + 'static,
    ) -> impl Future<Output = Result<usize, Error>> + Send {
        self.hand_in_async(statement(sql, params))
    }

    /// Uses the connection outside of any transaction, after all earlier writes are committed: for pragmas, `VACUUM`, checkpoints. If `f`
    /// leaves a transaction open, it is rolled back. A commit hook or an authorizer that `f` sets is replaced before the next write.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let db = GroupCommit::new(Connection::open_in_memory()?)?;
    /// db.exclusive(|connection| connection.execute_batch("PRAGMA synchronous = EXTRA; VACUUM"))??;
    /// let level: i64 = db.call(|connection| connection.query_row("PRAGMA synchronous", (), |row| row.get(0)))?;
    /// assert_eq!(level, 3);
    /// // Empties the WAL file, unless a reader is in the way.
    /// let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    /// let is_busy: bool = db.exclusive(|connection| connection.query_row(checkpoint, (), |row| row.get(0)))??;
    /// assert!(!is_busy);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`].
    ///
    /// # Panics
    /// If `f` panics.
    #[track_caller]
    pub fn exclusive<R: Send>(&self, f: impl FnOnce(&mut Connection) -> R + Send) -> Result<R, Error> {
        self.batched.exclusive(|commits| commits.exclusive(f)).map_err(Error::Refused)
    }

    /// The sizes of batches so far, what a commit costs (F), what a write costs (m), and whether batching pays.
    ///
    /// ```
    /// # use rusqlite::Connection;
    /// # use windrow_sqlite::GroupCommit;
    /// # let connection = Connection::open_in_memory()?;
    /// # connection.execute_batch("CREATE TABLE users (name TEXT)")?;
    /// # let db = GroupCommit::new(connection)?;
    /// for name in ["ada", "grace", "edsger"] {
    ///     db.execute("INSERT INTO users VALUES (?1)", (name,))?;
    /// }
    /// assert_eq!(db.stats()?.ops(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Nested`], from a write.
    pub fn stats(&self) -> Result<Stats, BatchError> {
        self.batched.stats()
    }

    /// Accepts no further calls, and returns when all earlier ones are committed. Dropping does the same, and then closes the connection.
    ///
    /// ```
    /// use rusqlite::Connection;
    /// use windrow::batch::BatchError;
    /// use windrow_sqlite::{Error, GroupCommit};
    ///
    /// let db = GroupCommit::new(Connection::open_in_memory()?)?;
    /// db.close()?;
    /// let refused = db.execute("CREATE TABLE users (name TEXT)", ());
    /// assert!(matches!(refused, Err(Error::Refused(BatchError::Closed))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BatchError::Closed`] if it was already closed, [`BatchError::Nested`] from a write.
    pub fn close(&self) -> Result<(), BatchError> {
        self.batched.close()
    }
}

fn finish<R>(
    outcome: Result<Write, CallError<Write>>,
    read: impl FnOnce(Write) -> Result<R, Error>,
) -> Result<R, Error> {
    match outcome {
        Ok(write) => read(write),
        Err(error) => Err(Error::Refused(error.kind())),
    }
}

/// Makes a [`GroupCommit`].
///
/// ```
/// use rusqlite::Connection;
/// use windrow_sqlite::GroupCommit;
///
/// // A transaction of up to 64 writes.
/// let builder = GroupCommit::builder().limit(64);
/// let db = builder.build(Connection::open_in_memory()?)?;
/// db.execute("CREATE TABLE users (name TEXT)", ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Builder {
    inner: windrow::batch::Builder<Commits>,
}

impl Builder {
    /// Limits the writes of a transaction (at least 1).
    pub fn limit(self, writes: usize) -> Self {
        Builder { inner: self.inner.limit(writes) }
    }

    /// Limits the writes that are handed in and not answered (at least 1), and says what happens to more.
    pub fn queue(self, writes: usize, full: Overflow) -> Self {
        Builder { inner: self.inner.queue(writes, full) }
    }

    /// Runs transactions on a separate thread. A caller that is alone runs its transaction itself.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub fn build(self, connection: Connection) -> std::io::Result<GroupCommit> {
        let batched = self.inner.build_on(Runner::beside_callers(Commits::new(connection)))?;
        Ok(GroupCommit { batched })
    }

    /// Runs transactions on the callers: the first caller runs the batch. A caller that is alone wakes no thread and does not wait to be
    /// woken. Not for tasks of an executor: its threads would block while the disk works.
    ///
    /// ```
    /// use rusqlite::Connection;
    /// use windrow_sqlite::GroupCommit;
    ///
    /// let db = GroupCommit::builder().build_on_callers(Connection::open_in_memory()?);
    /// let caller = std::thread::current().id();
    /// assert_eq!(db.call(|_| Ok(std::thread::current().id()))?, caller, "no other thread is needed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_on_callers(self, connection: Connection) -> GroupCommit {
        GroupCommit { batched: self.inner.build(Commits::new(connection)) }
    }
}
