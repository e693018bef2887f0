//! The ways in which many callers insert rows over one connection.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{CachedStatement, Connection};
use windrow::batch::Stats;
use windrow_sqlite::GroupCommit;

const TABLE: &str =
    "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL); CREATE UNIQUE INDEX names ON t (name)";
pub(crate) const INSERT: &str = "INSERT INTO t (id, name) VALUES (?1, ?2)";
/// How long a way with a window waits for more rows.
pub(crate) const WINDOW: Duration = Duration::from_millis(5);

pub(crate) fn name(id: i64) -> String {
    format!("row {id:016x}")
}

/// The settings of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Journal {
    /// A write-ahead log, synced by each commit (synchronous = FULL).
    #[value(name = "WAL")]
    Wal,
    /// A write-ahead log that a commit does not sync (synchronous = NORMAL).
    #[value(name = "WAL-NORMAL")]
    WalNormal,
    /// A rollback journal, synced by each commit.
    #[value(name = "DELETE")]
    Delete,
}

impl Journal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Journal::Wal => "WAL",
            Journal::WalNormal => "WAL NORMAL",
            Journal::Delete => "DELETE",
        }
    }

    fn settings(self) -> (&'static str, &'static str) {
        match self {
            Journal::Wal => ("WAL", "FULL"),
            Journal::WalNormal => ("WAL", "NORMAL"),
            Journal::Delete => ("DELETE", "FULL"),
        }
    }
}

/// What the callers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Threads that block.
    Threads,
    /// Tasks of an executor with two workers.
    Tasks,
}

/// A way to insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One transaction for each insert, behind a mutex. Tasks insert by `spawn_blocking`.
    Mutex,
    /// A thread that puts everything in a channel into one transaction, while it inserts too.
    Actor,
    /// The same, after it has waited for [`WINDOW`] from the first row on.
    Window,
    /// batch-aint-one, each batch one transaction, run by `spawn_blocking`.
    BatchAintOne,
    /// [`GroupCommit::new`].
    Windrow,
    /// Callers run the transactions.
    WindrowCallers,
}

impl Way {
    pub(crate) fn all(kind: Kind) -> &'static [Way] {
        match kind {
            Kind::Threads => &[Way::Mutex, Way::Actor, Way::Window, Way::Windrow, Way::WindrowCallers],
            Kind::Tasks => &[Way::Mutex, Way::Actor, Way::BatchAintOne, Way::Windrow, Way::WindrowCallers],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Mutex => "one transaction an insert",
            Way::Actor => "hand-written actor",
            Way::Window => "actor, 5 ms window",
            Way::BatchAintOne => "batch-aint-one",
            Way::Windrow => "windrow",
            Way::WindrowCallers => "windrow, callers run",
        }
    }

    fn has_thread(self) -> bool {
        matches!(self, Way::Actor | Way::Window | Way::Windrow)
    }

    fn start(self, connection: Connection) -> Box<dyn Store> {
        match self {
            Way::Mutex => Box::new(Mutex::new(connection)),
            Way::Actor => Box::new(Actor::start(connection, None)),
            Way::Window => Box::new(Actor::start(connection, Some(WINDOW))),
            Way::Windrow => Box::new(GroupCommit::new(connection).expect("a thread")),
            Way::WindrowCallers => Box::new(GroupCommit::builder().build_on_callers(connection)),
            Way::BatchAintOne => unreachable!("it is for tasks"),
        }
    }
}

/// A running way.
pub(crate) trait Store: Sync {
    /// The function that a caller calls with an id. It returns when the row is committed.
    fn caller(&self) -> Box<dyn FnMut(i64) + '_>;

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Store for Mutex<Connection> {
    fn caller(&self) -> Box<dyn FnMut(i64) + '_> {
        Box::new(|id| {
            let connection = self.lock().expect("not poisoned");
            let mut insert = connection.prepare_cached(INSERT).expect("SQL");
            insert.execute((id, name(id))).expect("inserted");
        })
    }
}

impl Store for GroupCommit {
    fn caller(&self) -> Box<dyn FnMut(i64) + '_> {
        Box::new(|id| assert_eq!(self.execute(INSERT, (id, name(id))).expect("inserted"), 1))
    }

    fn stats(&self) -> Option<Stats> {
        self.stats().ok()
    }
}

/// A row, and the sender of its reply.
type Message = (i64, String, Sender<rusqlite::Result<usize>>);

struct Actor {
    to: Option<Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Actor {
    fn start(connection: Connection, window: Option<Duration>) -> Self {
        let (to, from) = channel();
        Actor { to: Some(to), thread: Some(std::thread::spawn(move || act(&connection, &from, window))) }
    }
}

/// The statements of a transaction of inserts.
pub(crate) fn statements(connection: &Connection) -> [CachedStatement<'_>; 3] {
    ["BEGIN IMMEDIATE", INSERT, "COMMIT"].map(|sql| connection.prepare_cached(sql).expect("SQL"))
}

fn act(connection: &Connection, from: &Receiver<Message>, window: Option<Duration>) {
    let [mut begin, mut insert, mut commit] = statements(connection);
    let (mut waiting, mut told) = (Vec::new(), Vec::new());
    while let Ok(first) = from.recv() {
        let add = |(id, name, to): Message, insert: &mut CachedStatement<'_>, told: &mut Vec<_>| {
            told.push((to, insert.execute((id, name))));
        };
        waiting.push(first);
        if let Some(window) = window {
            let end = Instant::now() + window;
            while let Ok(next) = from.recv_timeout(end.saturating_duration_since(Instant::now())) {
                waiting.push(next);
            }
        }
        begin.execute(()).expect("begun");
        waiting.drain(..).for_each(|message| add(message, &mut insert, &mut told));
        while let Ok(next) = from.try_recv() {
            add(next, &mut insert, &mut told);
        }
        commit.execute(()).expect("committed");
        for (to, result) in told.drain(..) {
            // The receiver exists: its caller waits.
            let _ = to.send(result);
        }
    }
}

impl Store for Actor {
    fn caller(&self) -> Box<dyn FnMut(i64) + '_> {
        let to = self.to.clone().expect("the statement runs");
        let (answer, answered) = channel();
        Box::new(move |id| {
            to.send((id, name(id), answer.clone())).expect("the statement runs");
            assert_eq!(answered.recv().expect("the statement runs").expect("inserted"), 1);
        })
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.to = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

/// A section's outcome.
pub(crate) struct Outcome {
    pub(crate) rows_per_second: f64,
    /// Seconds of each insert, as seen by its caller.
    pub(crate) waits: Vec<f64>,
    pub(crate) stats: Option<Stats>,
}

impl Outcome {
    pub(crate) fn batch(&self) -> f64 {
        self.stats.as_ref().map_or(1.0, |stats| {
            let batches = stats.batches() + stats.alone();
            stats.ops() as f64 / batches.max(1) as f64
        })
    }
}

/// A fresh database.
pub(crate) fn create(path: &Path, journal: Journal) -> Connection {
    let connection = Connection::open(path).expect("a database");
    let (mode, synchronous) = journal.settings();
    connection.pragma_update(None, "journal_mode", mode).expect("a journal mode");
    connection.pragma_update(None, "synchronous", synchronous).expect("synchronous");
    connection.execute_batch(TABLE).expect("SQL");
    connection
}

/// A thread that sleeps.
struct Idle(Option<JoinHandle<()>>, Sender<()>);

impl Idle {
    fn start() -> Self {
        let (end, ended) = channel();
        Idle(Some(std::thread::spawn(move || ended.recv().unwrap_or_default())), end)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // The receiver exists: the thread waits for this.
        let _ = self.1.send(());
        self.0.take().map(JoinHandle::join);
    }
}

/// `callers` callers insert rows one by one for `time`; afterwards all rows are checked.
///
/// Ways without a separate thread start one that sleeps, at the point where the other ways start theirs. On a virtual machine, a caller
/// that is alone learns later that the disk is done (92 us instead of 73) if a thread was started just before.
pub(crate) fn section(way: Way, folder: &Path, journal: Journal, callers: usize, time: Duration) -> Outcome {
    let folder = tempfile::tempdir_in(folder).expect("a folder");
    let path = folder.path().join("db");
    let connection = create(&path, journal);
    let _idle = (!way.has_thread()).then(Idle::start);
    let store = way.start(connection);
    let (seconds, waits) = together(&*store, callers, time);
    let stats = store.stats();
    drop(store);
    let rows: usize = waits.iter().map(Vec::len).sum();
    verify(&path, rows as i64);
    Outcome { rows_per_second: rows as f64 / seconds, waits: waits.into_iter().flatten().collect(), stats }
}

/// Seconds until the last caller has ended, and of each call of each caller.
pub(crate) fn together(store: &dyn Store, callers: usize, time: Duration) -> (f64, Vec<Vec<f64>>) {
    let (barrier, next) = (Barrier::new(callers + 1), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..callers)
            .map(|_| {
                let (barrier, next) = (&barrier, &next);
                scope.spawn(move || {
                    let mut call = store.caller();
                    let mut waits = Vec::with_capacity(1 << 12);
                    barrier.wait();
                    let end = Instant::now() + time;
                    loop {
                        let start = Instant::now();
                        if start >= end {
                            return waits;
                        }
                        // Relaxed: the number only has to be unique; it orders nothing.
                        call(next.fetch_add(1, Ordering::Relaxed));
                        waits.push(start.elapsed().as_secs_f64());
                    }
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let waits = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        (start.elapsed().as_secs_f64(), waits)
    })
}

/// Checks that exactly the acknowledged rows are in the database: ids were given one after the other.
pub(crate) fn verify(path: &Path, rows: i64) {
    let connection = Connection::open(path).expect("a database");
    let mut statement = connection.prepare("SELECT id FROM t ORDER BY id").expect("SQL");
    let found = statement.query_map((), |row| row.get::<_, i64>(0)).expect("rows").map(|id| id.expect("an id"));
    assert!(found.eq(0..rows), "the rows of the database are not those that were acknowledged");
}
