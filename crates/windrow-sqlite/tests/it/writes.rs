//! The outcome of each write of a batch.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::common::{Call, Gate, TABLE, hand_in, ids, ids_of, insert, memory, together};
use proptest::prelude::*;
use rusqlite::{Connection, ErrorCode};
use windrow::batch::BatchError;
use windrow_sqlite::{Error, GroupCommit};
use windrow_testkit::block_on;

/// A group commit with a separate thread, and one that runs on callers.
fn both() -> [GroupCommit; 2] {
    [GroupCommit::new(memory()).unwrap(), GroupCommit::builder().build_on_callers(memory())]
}

fn row(db: &GroupCommit, id: i64) -> Call<'_, usize> {
    Box::pin(db.call_async(move |connection| insert(connection, id)))
}

fn code(result: &Result<usize, Error>) -> Option<ErrorCode> {
    result.as_ref().unwrap_err().sqlite().and_then(rusqlite::Error::sqlite_error_code)
}

fn insert_twice(connection: &Connection) -> rusqlite::Result<usize> {
    insert(connection, 100)?;
    insert(connection, 1)
}

fn insert_and_panic(connection: &Connection) -> rusqlite::Result<usize> {
    insert(connection, 101)?;
    panic!("after {}", 101)
}

#[test]
fn each_write_of_a_batch_has_its_own_result() {
    let db = Arc::new(GroupCommit::new(memory()).unwrap());
    let own = db.clone();
    let results = together(
        &db,
        vec![
            row(&db, 1),
            Box::pin(db.call_async(insert_twice)),
            row(&db, 2),
            Box::pin(db.call_async(insert_and_panic)),
            Box::pin(db.call_async(move |connection| {
                assert!(matches!(own.execute("DELETE FROM t", ()), Err(Error::Refused(BatchError::Nested))));
                insert(connection, 3)
            })),
            Box::pin(db.execute_async("UPDATE t SET name = name || '!' WHERE id < ?1", (10,))),
        ],
    );
    assert!(matches!(results[..], [Ok(1), Err(_), Ok(1), Err(_), Ok(1), Ok(3)]), "{results:?}");
    assert_eq!(code(&results[1]), Some(ErrorCode::ConstraintViolation));
    assert!(matches!(&results[3], Err(Error::Panicked(message)) if message == "after 101"), "{results:?}");
    assert_eq!(ids(&db), [1, 2, 3]);
    let stats = db.stats().unwrap();
    assert_eq!((stats.sizes().collect::<Vec<_>>(), stats.alone()), (vec![(6, 1)], 1), "one batch, and the gate");
}

#[test]
fn each_write_that_is_alone_too() {
    for db in both() {
        assert_eq!(db.call(|connection| insert(connection, 1)).unwrap(), 1);
        assert!(matches!(db.call(insert_twice), Err(Error::Sqlite(_))));
        assert!(matches!(db.call(insert_and_panic), Err(Error::Panicked(_))));
        assert_eq!(block_on(db.call_async(|connection| insert(connection, 2))).unwrap(), 1);
        assert_eq!(ids(&db), [1, 2]);
    }
}

/// [`memory`], with a table whose constraint is checked at the commit.
fn family() -> Connection {
    let connection = memory();
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TABLE child (of INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)",
        )
        .unwrap();
    connection
}

#[test]
fn a_deferred_constraint_is_an_error_of_the_write_that_violates_it() {
    let db = GroupCommit::new(family()).unwrap();
    let orphan = || -> Call<'_, usize> { Box::pin(db.execute_async("INSERT INTO child VALUES (?1)", (77,))) };
    let closure = |connection: &Connection| connection.execute("INSERT INTO child VALUES (78)", ());
    let mut calls: Vec<_> = (0..20).map(|id| row(&db, id)).collect();
    // The second row 1 fails whether it runs once or again.
    calls.splice(5..5, [orphan(), row(&db, 1), Box::pin(db.call_async(closure))]);
    calls.push(orphan());
    let results = together(&db, calls);
    let failed: Vec<usize> = (0..results.len()).filter(|at| results[*at].is_err()).collect();
    assert_eq!(failed, [5, 6, 7, 23], "{results:?}");
    for at in failed {
        assert!(matches!(&results[at], Err(Error::Sqlite(_))), "{results:?}");
        assert_eq!(code(&results[at]), Some(ErrorCode::ConstraintViolation));
    }
    assert_eq!(ids(&db), (0..20).collect::<Vec<_>>());
    // Alone: a single statement that SQLite commits by itself, and a closure in a transaction.
    for alone in [block_on(orphan()), db.call(closure)] {
        assert!(matches!(alone, Err(Error::Sqlite(_))), "{alone:?}");
        assert_eq!(code(&alone), Some(ErrorCode::ConstraintViolation));
    }
    let children: i64 =
        db.call(|connection| connection.query_row("SELECT count(*) FROM child", (), |row| row.get(0))).unwrap();
    assert_eq!(children, 0);
}

/// A write may put every constraint of its transaction off until the commit, also those of other writes.
#[test]
fn a_constraint_that_another_write_defers_is_an_error_of_the_write_that_violates_it() {
    let connection = memory();
    let schema = "PRAGMA foreign_keys = ON; CREATE TABLE child (of INTEGER REFERENCES t (id))";
    connection.execute_batch(schema).unwrap();
    let db = GroupCommit::new(connection).unwrap();
    let defers = |connection: &Connection| {
        connection.execute_batch("PRAGMA defer_foreign_keys = ON")?;
        connection.execute("INSERT INTO child VALUES (7)", ())?;
        insert(connection, 7)
    };
    let orphan = db.execute_async("INSERT INTO child VALUES (?1)", (77,));
    let results =
        together(&db, vec![row(&db, 1), Box::pin(db.call_async(defers)), Box::pin(orphan), row(&db, 2), row(&db, 3)]);
    assert!(matches!(results[..], [Ok(1), Ok(1), Err(Error::Sqlite(_)), Ok(1), Ok(1)]), "{results:?}");
    assert_eq!(ids(&db), [1, 2, 3, 7]);
}

#[test]
fn writes_run_again_without_the_one_that_rolled_them_back() {
    for also in ["", "; BEGIN", "; SAVEPOINT own; INSERT INTO t (id) VALUES (60)"] {
        let db = GroupCommit::new(memory()).unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let row = |id| -> Call<'_, usize> {
            let runs = runs.clone();
            Box::pin(db.call_async(move |connection| {
                runs.fetch_add(1, Ordering::Relaxed);
                insert(connection, id)
            }))
        };
        let rolls_back = move |connection: &Connection| {
            let result = insert(connection, 50)
                .and_then(|_| connection.execute_batch("INSERT OR ROLLBACK INTO t (id) VALUES (1)"));
            let _ = connection.execute_batch(also.trim_start_matches("; "));
            result.map(|()| 0)
        };
        let calls =
            vec![row(1), row(2), Box::pin(db.call_async(rolls_back)), row(3), Box::pin(db.call_async(rolls_back))];
        let results = together(&db, calls);
        let [Ok(1), Ok(1), Err(Error::Sqlite(one)), Ok(1), Err(Error::Sqlite(other))] = &results[..] else {
            panic!("{also}: {results:?}")
        };
        for own in [one, other] {
            assert_eq!(own.sqlite_error_code(), Some(ErrorCode::ConstraintViolation), "{also}: {results:?}");
        }
        assert_eq!(ids(&db), [1, 2, 3], "{also}");
        assert_eq!(runs.load(Ordering::Relaxed), 6, "each write before one of the two runs twice");
    }
}

/// The result of an earlier run is dropped before the next run, with the care that is due to user code.
#[test]
fn a_result_that_panics_in_its_drop_fails_its_own_write() {
    struct Panics(bool);
    impl Drop for Panics {
        fn drop(&mut self) {
            assert!(!self.0, "dropped");
        }
    }
    let db = GroupCommit::new(memory()).unwrap();
    let panics = |does| {
        let mut runs = 0;
        db.call_async(move |connection| {
            runs += 1;
            insert(connection, runs + if does { 10 } else { 20 })?;
            Ok(Panics(does && runs == 1))
        })
    };
    let rolls_back = |connection: &Connection| {
        connection.execute_batch("INSERT OR ROLLBACK INTO t (id) VALUES (1), (1)").map(|()| Panics(false))
    };
    let calls: Vec<Call<'_, Panics>> =
        vec![Box::pin(panics(false)), Box::pin(panics(true)), Box::pin(db.call_async(rolls_back))];
    let results = together(&db, calls);
    assert!(matches!(&results[1], Err(Error::Panicked(message)) if message == "dropped"));
    assert!(results[0].is_ok() && matches!(results[2], Err(Error::Sqlite(_))));
    assert_eq!(ids(&db), [22], "of the second run");
}

#[test]
fn a_statement_that_fails_is_undone_without_a_savepoint() {
    let db = GroupCommit::new(memory()).unwrap();
    // Its first row is new, its second one exists.
    let twice = "INSERT INTO t (id) VALUES (?1), (1)";
    let results = together(&db, vec![row(&db, 1), Box::pin(db.execute_async(twice, (50,))), row(&db, 2)]);
    assert!(matches!(results[..], [Ok(1), Err(Error::Sqlite(_)), Ok(1)]), "{results:?}");
    assert_eq!(ids(&db), [1, 2]);
    assert_eq!(code(&db.execute(twice, (50,))), Some(ErrorCode::ConstraintViolation), "alone");
    assert_eq!(ids(&db), [1, 2]);
    // It does its work with its first row, which the call does not read.
    let returning = "INSERT INTO t (id) VALUES (?1) RETURNING id";
    let results = together(&db, vec![row(&db, 3), Box::pin(db.execute_async(returning, (51,))), row(&db, 4)]);
    assert!(matches!(results[..], [Ok(1), Err(Error::Sqlite(_)), Ok(1)]), "{results:?}");
    assert!(matches!(db.execute(returning, (51,)), Err(Error::Sqlite(_))), "alone");
    assert_eq!(ids(&db), [1, 2, 3, 4]);
    // As on any connection.
    let or_fail = "INSERT OR FAIL INTO t (id) VALUES (?1), (1)";
    let results = together(&db, vec![row(&db, 5), Box::pin(db.execute_async(or_fail, (52,))), row(&db, 6)]);
    assert!(matches!(results[..], [Ok(1), Err(Error::Sqlite(_)), Ok(1)]), "{results:?}");
    assert!(db.execute(or_fail, (53,)).is_err(), "alone");
    assert_eq!(ids(&db), [1, 2, 3, 4, 5, 6, 52, 53]);
}

#[test]
fn a_savepoint_that_a_statement_leaves_behind_is_out_of_reach() {
    let db = GroupCommit::new(memory()).unwrap();
    let sql = |sql| -> Call<'_, usize> { Box::pin(db.execute_async(sql, ())) };
    let results = together(&db, vec![sql("SAVEPOINT mine"), row(&db, 1), sql("ROLLBACK TO mine"), row(&db, 2)]);
    assert!(matches!(results[..], [Ok(_), Ok(1), Err(Error::Sqlite(_)), Ok(1)]), "{results:?}");
    assert_eq!(ids(&db), [1, 2]);
    for sql in ["COMMIT", "ROLLBACK", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE", "BEGIN"] {
        let denied = Some(ErrorCode::AuthorizationForStatementDenied);
        assert_eq!(code(&db.execute(sql, ())), denied, "{sql} alone");
        let open = db.exclusive(|connection| !connection.is_autocommit()).unwrap();
        assert!(!open, "{sql} leaves no transaction behind");
        let results = together(&db, vec![row(&db, 7), Box::pin(db.execute_async(sql, ())), row(&db, 7)]);
        assert!(matches!(results[..], [Ok(1), Err(Error::Sqlite(_)), Err(Error::Sqlite(_))]), "{sql}: {results:?}");
        assert_eq!(code(&results[1]), denied, "{sql}");
        assert_eq!(db.execute("DELETE FROM t WHERE id = 7", ()).unwrap(), 1);
    }
    assert_eq!(ids(&db), [1, 2]);
}

/// A connection that waits for no lock.
fn impatient(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

#[test]
fn a_busy_connection_is_waited_for_and_then_nothing_is_applied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || impatient(&path);
    let (writer, other) = (open(), open());
    writer.execute_batch(TABLE).unwrap();
    let db = GroupCommit::new(writer).unwrap();
    let fails = || {
        let results = together(&db, vec![row(&db, 1), row(&db, 2)]);
        assert!(
            results.iter().all(|result| matches!(result, Err(error @ Error::Transaction(_)) if error.is_busy())),
            "{results:?}"
        );
        assert!(db.call(|connection| insert(connection, 3)).unwrap_err().is_busy(), "alone");
        assert!(db.execute("INSERT INTO t (id) VALUES (3)", ()).unwrap_err().is_busy(), "a statement alone");
    };
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Not with `together`: the transaction of its gate would fail to begin, and no write would hold the runner.
    assert!(db.call(|connection| insert(connection, 3)).unwrap_err().is_busy());
    other.execute_batch("ROLLBACK").unwrap();
    // Without WAL, a reader lets a transaction begin but not commit.
    other.execute_batch("BEGIN; SELECT * FROM t").unwrap();
    fails();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(together(&db, vec![row(&db, 1), row(&db, 2)]).iter().flatten().count(), 2);
    // With a busy timeout, the call waits.
    db.exclusive(|connection| connection.busy_timeout(Duration::from_secs(60))).unwrap().unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| db.call(|connection| insert(connection, 3)));
        thread::yield_now();
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 1);
    });
    assert_eq!(ids_of(&other), [1, 2, 3]);
}

#[test]
fn a_full_disk_fails_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let connection = Connection::open(folder.path().join("db")).unwrap();
    connection.execute_batch(TABLE).unwrap();
    connection.execute_batch("PRAGMA max_page_count = 20").unwrap();
    let db = GroupCommit::new(connection).unwrap();
    let large = || {
        let name = "x".repeat(1 << 20);
        db.execute_async("INSERT INTO t (id, name) VALUES (1000, ?1)", (name,))
    };
    let results = together(&db, vec![row(&db, 1), Box::pin(large()), row(&db, 2)]);
    assert_eq!(code(&results[1]), Some(ErrorCode::DiskFull));
    let kept: Vec<i64> = [1, 0, 2].into_iter().zip(&results).filter(|(_, it)| it.is_ok()).map(|(id, _)| id).collect();
    assert_eq!(ids(&db), kept, "{results:?}");
    assert_eq!(code(&block_on(large())), Some(ErrorCode::DiskFull));
    assert_eq!(ids(&db), kept);
}

#[test]
fn close_commits_what_is_queued_and_then_rejects() {
    let db = GroupCommit::new(memory()).unwrap();
    let (mut calls, found) = (vec![row(&db, 1), row(&db, 2)], channel());
    thread::scope(|scope| {
        let gate = Gate::close(&db, scope);
        hand_in(&mut calls);
        // Queued behind the writes, as close will be.
        let mut last: Vec<Call<'_, ()>> = vec![Box::pin(db.call_async(move |connection| {
            found.0.send(ids_of(connection)).unwrap();
            Ok(())
        }))];
        hand_in(&mut last);
        drop(gate);
        db.close().unwrap();
        assert_eq!(found.1.try_recv().unwrap(), [1, 2]);
        assert_eq!(db.close(), Err(BatchError::Closed));
        assert!(matches!(db.execute("DELETE FROM t", ()), Err(Error::Refused(BatchError::Closed))));
        assert!(calls.into_iter().map(block_on).all(|result| result.is_ok()));
        assert!(last.into_iter().map(block_on).all(|result| result.is_ok()));
    });
}

#[test]
fn a_future_that_is_dropped_in_the_queue_is_never_run() {
    let db = GroupCommit::new(memory()).unwrap();
    thread::scope(|scope| {
        let gate = Gate::close(&db, scope);
        let mut calls = vec![row(&db, 1), row(&db, 2), row(&db, 3)];
        hand_in(&mut calls);
        drop(calls.remove(1));
        drop(gate);
        assert!(calls.into_iter().map(block_on).all(|result| result.is_ok()));
    });
    assert_eq!(ids(&db), [1, 3]);
}

#[test]
fn exclusive_is_outside_of_transactions_and_leaves_none() {
    for db in both() {
        let mode: String = db
            .exclusive(|connection| connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)))
            .unwrap()
            .unwrap();
        assert_eq!(mode, "memory");
        db.exclusive(|connection| connection.execute_batch("BEGIN; INSERT INTO t (id) VALUES (9)")).unwrap().unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.exclusive(|connection| {
                connection.execute_batch("BEGIN; INSERT INTO t (id) VALUES (10)").unwrap();
                panic!("within a transaction")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(db.call(|connection| insert(connection, 1)).unwrap(), 1, "it is not poisoned");
        assert_eq!(ids(&db), [1]);
    }
}

/// A transaction that stays open would lock others out until the next call.
#[test]
fn no_call_leaves_the_database_locked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || impatient(&path);
    let other = open();
    other.execute_batch(TABLE).unwrap();
    let db = GroupCommit::new(open()).unwrap();
    let sql = |sql| -> Call<'_, usize> { Box::pin(db.execute_async(sql, ())) };
    let fails = |connection: &Connection| {
        insert(connection, 1)?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    };
    let calls: [&dyn Fn(); 4] = [
        &|| assert!(db.execute("BEGIN IMMEDIATE", ()).is_err()),
        &|| db.exclusive(|connection| connection.execute_batch("BEGIN IMMEDIATE")).unwrap().unwrap(),
        &|| assert!(db.call(fails).is_err()),
        &|| {
            assert_eq!(
                together(&db, vec![row(&db, 1), sql("ROLLBACK"), sql("BEGIN IMMEDIATE")]).iter().flatten().count(),
                1
            )
        },
    ];
    for (number, call) in calls.into_iter().enumerate() {
        call();
        other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap_or_else(|error| panic!("call {number}: {error}"));
    }
}

#[test]
fn many_threads_get_their_own_results() {
    const THREADS: i64 = 8;
    const EACH: i64 = 200;
    for db in both() {
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let db = &db;
                scope.spawn(move || {
                    for n in 0..EACH {
                        let id = thread * EACH + n;
                        let result = db.call(move |connection| {
                            insert(connection, id)?;
                            Ok(connection.last_insert_rowid())
                        });
                        assert_eq!(result.unwrap(), id);
                        assert!(db.call(move |connection| insert(connection, id)).is_err(), "it is there");
                    }
                });
            }
        });
        assert_eq!(ids(&db), (0..THREADS * EACH).collect::<Vec<_>>());
        assert_eq!(db.stats().unwrap().ops(), 2 * (THREADS * EACH) as u64);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(i64),
    Delete(i64),
    InsertBoth(i64, i64),
    InsertAndPanic(i64),
    /// Rolls the transaction back.
    InsertAndRollBack(i64),
    /// Violates a constraint at the commit.
    InsertAndOrphan(i64),
}

impl Step {
    fn run(&self, connection: &Connection) -> rusqlite::Result<usize> {
        match *self {
            Step::Insert(id) => insert(connection, id),
            Step::Delete(id) => connection.execute("DELETE FROM t WHERE id = ?1", (id,)),
            Step::InsertBoth(one, other) => Ok(insert(connection, one)? + insert(connection, other)?),
            Step::InsertAndPanic(id) => {
                insert(connection, id)?;
                panic!("injected")
            }
            Step::InsertAndRollBack(id) => {
                insert(connection, id)?;
                connection.execute("INSERT OR ROLLBACK INTO t (id) VALUES (?1)", (id,))
            }
            Step::InsertAndOrphan(id) => {
                insert(connection, id)?;
                connection.execute("INSERT INTO child VALUES (-1)", ())
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..12_i64;
    prop_oneof![
        3 => id().prop_map(Step::Insert),
        2 => id().prop_map(Step::Delete),
        3 => (id(), id()).prop_map(|(one, other)| Step::InsertBoth(one, other)),
        1 => id().prop_map(Step::InsertAndPanic),
        1 => id().prop_map(Step::InsertAndRollBack),
        1 => id().prop_map(Step::InsertAndOrphan),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(20)))]

    #[test]
    fn batches_are_as_transactions_one_after_the_other(steps in proptest::collection::vec(step(), 1..40), limit in 1..20_usize) {
        let oracle = family();
        let expected: Vec<Option<usize>> = steps
            .iter()
            .map(|step| {
                let transaction = oracle.unchecked_transaction().unwrap();
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step.run(&transaction)));
                let changed = result.ok()?.ok()?;
                transaction.commit().ok()?;
                Some(changed)
            })
            .collect();
        let db = GroupCommit::builder().limit(limit).build(family()).unwrap();
        let calls = steps.into_iter().map(|step| -> Call<'_, usize> { Box::pin(db.call_async(move |connection| step.run(connection))) });
        let results = together(&db, calls.collect());
        prop_assert_eq!(results.into_iter().map(Result::ok).collect::<Vec<_>>(), expected);
        prop_assert_eq!(ids(&db), ids_of(&oracle));
    }
}

#[test]
fn a_write_is_told_with_the_line_of_its_caller() {
    let db = GroupCommit::new(memory()).unwrap();
    let line = line!() + 1;
    let (told, heard) = windrow::explain(|| db.call(|connection| insert(connection, 1)));
    assert_eq!(told.unwrap(), 1);
    let place = heard[0].place().unwrap();
    assert_eq!((place.file(), place.line()), (file!(), line));
}
