//! Faults of one caller beside many without: only the caller at fault gets an error.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::Connection;
use windrow_sqlite::{Error, GroupCommit};

const CALLERS: i64 = 31;
const EACH: i64 = 20;

const SCHEMA: &str = "PRAGMA journal_mode = WAL;
     PRAGMA synchronous = NORMAL;
     PRAGMA foreign_keys = ON;
     CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
     INSERT INTO t VALUES (-1, '');
     CREATE TABLE child (of INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED);
     CREATE TABLE forbidden (id INTEGER);
     CREATE TRIGGER forbids BEFORE INSERT ON forbidden BEGIN SELECT raise(ROLLBACK, 'no'); END";

type Fault = fn(&GroupCommit) -> Result<usize, Error>;

const FAULTS: [(&str, Fault); 8] = [
    ("a deferred key, statement", |db| db.execute("INSERT INTO child VALUES (-77)", ())),
    ("a deferred key, closure", |db| db.call(|connection| connection.execute("INSERT INTO child VALUES (-77)", ()))),
    ("OR ROLLBACK", |db| db.execute("INSERT OR ROLLBACK INTO t VALUES (-1, '')", ())),
    ("RAISE(ROLLBACK)", |db| db.execute("INSERT INTO forbidden VALUES (1)", ())),
    ("COMMIT", |db| {
        db.call(|connection| {
            connection.execute("INSERT INTO t VALUES (-2, '')", ())?;
            connection.execute_batch("COMMIT").map(|()| 0)
        })
    }),
    ("ROLLBACK", |db| db.call(|connection| connection.execute_batch("ROLLBACK").map(|()| 0))),
    ("COMMIT, statement", |db| db.execute("COMMIT", ())),
    ("END; BEGIN", |db| db.call(|connection| connection.execute_batch("END; BEGIN").map(|()| 0))),
];

/// Writes without fault that fail, of those that callers make beside one that only makes faults.
fn failing_share(fault: Fault) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    let db = GroupCommit::new(connection).unwrap();
    let is_over = AtomicBool::new(false);
    let done: usize = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let result = fault(&db);
                assert!(matches!(&result, Err(error) if !error.may_be_there()), "{result:?}");
            }
        });
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let db = &db;
                let insert = move |n: i64| {
                    let id = caller * EACH + n;
                    match n % 2 {
                        0 => db.execute("INSERT INTO t VALUES (?1, ?2)", (id, "x".to_owned())),
                        _ => db.call(move |connection| connection.execute("INSERT INTO t VALUES (?1, 'x')", (id,))),
                    }
                };
                scope.spawn(move || (0..EACH).filter(|n| insert(*n).is_ok()).count())
            })
            .collect();
        let done = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        is_over.store(true, Ordering::Relaxed);
        done
    });
    drop(db);
    let rows = Connection::open(&path).unwrap().query_row("SELECT count(*) FROM t", (), |row| row.get::<_, i64>(0));
    assert_eq!(rows.unwrap(), done as i64 + 1, "rows and acknowledged writes");
    1.0 - done as f64 / (CALLERS * EACH) as f64
}

#[test]
fn a_fault_concerns_its_own_caller_only() {
    let shares = FAULTS.map(|(name, fault)| (name, failing_share(fault)));
    println!("writes without fault that fail: {shares:.3?}");
    assert!(shares.iter().all(|(_, share)| *share == 0.0), "{shares:.3?}");
}
