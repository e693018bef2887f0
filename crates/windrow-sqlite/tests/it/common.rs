//! What the tests share.

use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Waker};
use std::thread;

use rusqlite::Connection;
use windrow_sqlite::{Error, GroupCommit};
use windrow_testkit::block_on;

pub(crate) type Call<'c, R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send + 'c>>;

/// Hands the calls in; when this returns, they are in the queue.
pub(crate) fn hand_in<R>(calls: &mut [Call<'_, R>]) {
    for call in calls {
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

/// Holds the runner's thread in a write until it is dropped. Calls handed in meanwhile become one batch.
pub(crate) struct Gate {
    _open: Sender<()>,
}

impl Gate {
    /// A thread that may live until `scope` ends hands the write in.
    pub(crate) fn close<'scope>(db: &'scope GroupCommit, scope: &'scope thread::Scope<'scope, '_>) -> Gate {
        let (entered, has_entered) = channel();
        let (open, is_open) = channel::<()>();
        scope.spawn(move || {
            db.call(move |_| {
                entered.send(()).unwrap();
                // Returns when the sender is dropped.
                let _ = is_open.recv();
                Ok(())
            })
        });
        has_entered.recv().unwrap();
        Gate { _open: open }
    }
}

/// Runs calls as one batch. Returns their results, in the order in which they were handed in.
pub(crate) fn together<R>(db: &GroupCommit, mut calls: Vec<Call<'_, R>>) -> Vec<Result<R, Error>> {
    thread::scope(|scope| {
        let gate = Gate::close(db, scope);
        hand_in(&mut calls);
        drop(gate);
        calls.into_iter().map(block_on).collect()
    })
}

pub(crate) const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE)";

pub(crate) fn memory() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(TABLE).unwrap();
    connection
}

pub(crate) fn insert(connection: &Connection, id: i64) -> rusqlite::Result<usize> {
    connection.prepare_cached("INSERT INTO t (id, name) VALUES (?1, 'name ' || ?1)")?.execute((id,))
}

pub(crate) fn ids_of(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT id FROM t ORDER BY id").unwrap();
    let ids = statement.query_map((), |row| row.get(0)).unwrap();
    ids.collect::<rusqlite::Result<_>>().unwrap()
}

pub(crate) fn ids(db: &GroupCommit) -> Vec<i64> {
    db.exclusive(|connection| ids_of(connection)).unwrap()
}
