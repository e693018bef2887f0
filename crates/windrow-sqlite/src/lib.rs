//! Group commit for SQLite: what many callers write is committed together, and each gets its own result.
//!
//! A commit costs SQLite a sync to disk, hundreds of microseconds and more, while an insert costs one or two. [`GroupCommit`] is a
//! connection for many threads and tasks: writes that are handed in while a transaction commits become the next transaction.
//!
//! ```
//! use rusqlite::Connection;
//! use windrow_sqlite::GroupCommit;
//!
//! let connection = Connection::open_in_memory()?;
//! connection.execute_batch("CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")?;
//! let db = GroupCommit::new(connection)?;
//!
//! std::thread::scope(|scope| {
//!     for name in ["ada", "grace", "edsger"] {
//!         let db = &db;
//!         scope.spawn(move || db.execute("INSERT INTO users (name) VALUES (?1)", (name,)).unwrap());
//!     }
//! });
//! // Any number of statements, all or none of them; and what they return.
//! let id = db.call(|connection| {
//!     connection.execute("INSERT INTO users (name) VALUES ('barbara')", ())?;
//!     Ok(connection.last_insert_rowid())
//! })?;
//! assert_eq!(id, 4);
//! // A constraint concerns its own write only.
//! assert!(db.execute("INSERT INTO users (name) VALUES ('ada')", ()).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds
//! * A reply comes after the `COMMIT`. What was acknowledged survives whatever the connection's journal mode and `PRAGMA synchronous`
//!   promise: with `FULL` a power cut, with `NORMAL` in WAL mode the end of the process.
//! * A write is atomic, and its own: if it fails or panics it is undone, and the others of its transaction go on ([`Error::Sqlite`],
//!   [`Error::Panicked`]). If the commit fails, all of them get the error and none is applied ([`Error::Transaction`]; a single statement that
//!   is alone commits by itself, so that it is [`Error::Sqlite`] there).
//! * Writes of one caller keep their order. A write sees what was committed before and what came before it in its transaction.
//! * There is no timer. A write that is alone is a transaction of its own at once, without a savepoint.
//! * A single statement ([`execute`](GroupCommit::execute)) needs no savepoint, for SQLite undoes a statement that fails by itself.
//! * Other connections are waited for when the transaction begins and when it commits, for the connection's
//!   [busy timeout](rusqlite::Connection::busy_timeout) (rusqlite's is 5 s).
//! * A write that calls its own database gets [`Why::Nested`](windrow::batch::Why::Nested) at once.
//!
//! # What to know
//! * The writes of a batch share a transaction. One that ends it takes down those before it ([`Error::Undone`]); a violated *deferred*
//!   constraint is seen at the commit, by all. Prefer constraints that are checked at once.
//! * A transaction begins with the lock for writing. Readers should have connections of their own, as many as they like in WAL mode.
//! * A write holds up those behind it: nothing slow belongs in it.
//! * The connection keeps what it prepares ([`prepare_cached`](rusqlite::Connection::prepare_cached), 16 statements by default), six of them for
//!   itself. [`set_prepared_statement_cache_capacity`](rusqlite::Connection::set_prepared_statement_cache_capacity) makes room.
//! * With one caller, or with `synchronous` off, there is nothing to share, and a plain connection behind a mutex is as good.
//!
//! Sources: group commit (Gawlick and Kinkade, 1985); savepoints in one transaction as in SQLite's own documentation; implicit batching
//! as in [`windrow::batch`].
#![forbid(unsafe_code)]

mod commits;
mod error;
mod group;
mod guard;
mod write;

pub use commits::Commits;
pub use error::Error;
pub use group::{Builder, GroupCommit};
pub use write::Write;
