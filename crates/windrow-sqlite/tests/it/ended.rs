//! Writes that end their transaction, take savepoints of any name, or leak statements: a row is in the database if and only if its write was
//! acknowledged.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::hooks::{AuthContext, Authorization};
use rusqlite::{Connection, ffi};
use windrow_sqlite::{Error, GroupCommit};

use crate::common::{Call, TABLE, ids, insert, together};

/// Statements of a write between its two inserts. Errors of its statements are ignored, so it goes on.
const TRICKS: &[&[&str]] = &[
    &["COMMIT"],
    &["END TRANSACTION"],
    &["ROLLBACK"],
    &["COMMIT", "BEGIN"],
    &["COMMIT", "BEGIN IMMEDIATE", "SAVEPOINT windrow"],
    &["ROLLBACK", "BEGIN"],
    &["ROLLBACK", "BEGIN", "INSERT INTO t (id) VALUES (52)", "COMMIT"],
    &["ROLLBACK", "SAVEPOINT windrow", "INSERT INTO t (id) VALUES (52)", "RELEASE windrow"],
    &["SAVEPOINT windrow"],
    &["SAVEPOINT WINDROW", "RELEASE windrow"],
    &["SAVEPOINT own", "ROLLBACK"],
    &["SAVEPOINT own", "COMMIT", "SAVEPOINT own"],
    &["RELEASE windrow"],
    &["ROLLBACK TO windrow"],
    &["BEGIN"],
    &["INSERT OR ROLLBACK INTO t (id) VALUES (1)"],
    &["INSERT OR ROLLBACK INTO t (id) VALUES (1)", "BEGIN"],
    &["INSERT INTO forbidden VALUES (1)"],
    &["PRAGMA journal_mode = DELETE", "ROLLBACK", "PRAGMA journal_mode = DELETE"],
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Ok,
    Fails,
    Panics,
}

fn tricky(connection: &Connection, trick: &[&str], end: End) -> rusqlite::Result<usize> {
    insert(connection, 50)?;
    for sql in trick {
        // Kept prepared: the connection may have prepared the same text in other circumstances.
        let _ = connection.prepare_cached(sql).and_then(|mut statement| statement.raw_execute());
    }
    let second = insert(connection, 51);
    match end {
        End::Ok => second,
        End::Fails => Err(rusqlite::Error::InvalidQuery),
        End::Panics => resume_unwind(Box::new("injected")),
    }
}

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(TABLE).unwrap();
    connection
        .execute_batch(
            "INSERT INTO t (id) VALUES (1);
             CREATE TABLE forbidden (id INTEGER);
             CREATE TRIGGER forbids BEFORE INSERT ON forbidden BEGIN SELECT raise(ROLLBACK, 'no'); END",
        )
        .unwrap();
    connection
}

#[test]
fn a_row_is_there_if_and_only_if_its_write_was_acknowledged() {
    for trick in TRICKS {
        for (end, with_thread) in
            [End::Ok, End::Fails, End::Panics].into_iter().flat_map(|end| [(end, true), (end, false)])
        {
            let builder = GroupCommit::builder();
            let db =
                if with_thread { builder.build(database()).unwrap() } else { builder.build_on_callers(database()) };
            // Statements that were prepared while commits were allowed.
            let prepares = |connection: &mut Connection| {
                ["COMMIT", "BEGIN"].iter().for_each(|sql| drop(connection.prepare_cached(sql).unwrap()));
            };
            db.exclusive(prepares).unwrap();
            let write = move |connection: &Connection| tricky(connection, trick, end);
            let check = |how: &str, written: &[i64], results: &[Result<usize, Error>]| {
                let case = format!("{trick:?}, {end:?}, {how}: {results:?}");
                let mut rows = vec![1];
                for (id, result) in written.iter().zip(results) {
                    match result {
                        Ok(_) if *id == 50 => {
                            rows.extend([50, 51]);
                            rows.extend(trick.iter().any(|sql| sql.contains("(52)")).then_some(52));
                        }
                        Ok(_) => rows.push(*id),
                        Err(error) => assert!(!error.may_be_there(), "{case}"),
                    }
                }
                rows.sort_unstable();
                assert_eq!(ids(&db), rows, "{case}");
                db.exclusive(|connection| connection.execute_batch("DELETE FROM t WHERE id > 1")).unwrap().unwrap();
            };
            check("alone", &[50], &[db.call(write)]);
            if with_thread {
                let row = |id| -> Call<'_, usize> { Box::pin(db.call_async(move |connection| insert(connection, id))) };
                let statement = Box::pin(db.execute_async("INSERT INTO t (id) VALUES (11)", ()));
                let results = together(&db, vec![row(10), statement, Box::pin(db.call_async(write)), row(12)]);
                check("in a batch", &[10, 11, 50, 12], &results);
                let [Ok(1), Ok(1), _, Ok(1)] = &results[..] else { panic!("{trick:?}, {end:?}: {results:?}") };
            }
        }
    }
}

fn extended<R>(result: &Result<R, Error>) -> Option<i32> {
    match result {
        Err(Error::Sqlite(error)) => error.sqlite_error().map(|error| error.extended_code),
        _ => None,
    }
}

/// A write that goes on after a rollback, statement by statement: each would commit by itself.
#[test]
fn nothing_is_committed_after_a_rollback() {
    let db = GroupCommit::new(database()).unwrap();
    let goes_on = |connection: &Connection| {
        connection.execute("INSERT OR ROLLBACK INTO t (id) VALUES (1)", ()).unwrap_err();
        assert!(connection.is_autocommit());
        for sql in ["INSERT INTO t (id) VALUES (2)", "CREATE TABLE u (id INTEGER)", "PRAGMA user_version = 7"] {
            assert!(connection.execute_batch(sql).is_err(), "{sql}");
        }
        Ok(0)
    };
    let row = Box::pin(db.call_async(|connection| insert(connection, 3)));
    let results = together(&db, vec![row, Box::pin(db.call_async(goes_on)), Box::pin(db.call_async(|_| Ok(1)))]);
    let [Ok(1), Err(ended @ Error::Sqlite(_)), Ok(1)] = &results[..] else { panic!("{results:?}") };
    assert_eq!(ended.to_string(), "the write has rolled the transaction back");
    // It returns the error of a commit that was refused.
    let fails = move |connection: &Connection| goes_on(connection).and_then(|_| insert(connection, 2));
    for alone in [db.call(goes_on), db.call(fails)] {
        assert_eq!(extended(&alone), Some(ffi::SQLITE_ABORT_ROLLBACK), "{alone:?}");
    }
    let version =
        |connection: &mut Connection| connection.query_row("PRAGMA user_version", (), |row| row.get::<_, i64>(0));
    assert_eq!(db.exclusive(version).unwrap().unwrap(), 0);
    assert_eq!(db.execute("CREATE TABLE u (id INTEGER)", ()).unwrap(), 0, "it was not there");
    assert_eq!(ids(&db), [1, 3]);
}

#[test]
fn statements_on_transactions_are_refused_before_they_run() {
    let db = GroupCommit::new(database()).unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    for sql in ["BEGIN", "BEGIN IMMEDIATE", "COMMIT", "END", "ROLLBACK"] {
        let row = |id| -> Call<'_, usize> {
            let runs = runs.clone();
            Box::pin(db.call_async(move |connection| {
                runs.fetch_add(1, Ordering::Relaxed);
                insert(connection, id)
            }))
        };
        // The write may handle the error.
        let goes_on = move |connection: &Connection| {
            connection.execute_batch(sql).unwrap_err();
            insert(connection, 11)
        };
        let statement = db.execute_async(sql, ());
        let closure = db.call_async(move |connection| connection.execute(sql, ()));
        let calls = vec![row(10), Box::pin(statement), Box::pin(closure), Box::pin(db.call_async(goes_on)), row(12)];
        let results = together(&db, calls);
        assert!(matches!(results[..], [Ok(1), Err(_), Err(_), Ok(1), Ok(1)]), "{sql}: {results:?}");
        assert_eq!([&results[1], &results[2]].map(extended), [Some(ffi::SQLITE_AUTH); 2], "{sql}: {results:?}");
        assert_eq!(extended(&db.execute(sql, ())), Some(ffi::SQLITE_AUTH), "{sql} alone");
        assert_eq!(ids(&db), [1, 10, 11, 12], "{sql}");
        assert_eq!(db.execute("DELETE FROM t WHERE id > 1", ()).unwrap(), 3);
        assert_eq!(runs.swap(0, Ordering::Relaxed), 2, "{sql}: no write runs again");
    }
}

/// Hooks of the program's own do not let writes commit.
#[test]
fn hooks_that_the_program_sets_are_replaced() {
    let allow = |_: AuthContext<'_>| Authorization::Allow;
    let mut connection = database();
    connection.commit_hook(Some(|| false)).unwrap();
    connection.authorizer(Some(allow)).unwrap();
    let db = GroupCommit::builder().build_on_callers(connection);
    for _ in 0..2 {
        let commits = |connection: &Connection| {
            insert(connection, 50)?;
            connection.execute_batch("COMMIT")
        };
        assert_eq!(extended(&db.call(commits)), Some(ffi::SQLITE_AUTH));
        let goes_on = |connection: &Connection| {
            connection.execute("INSERT OR ROLLBACK INTO t (id) VALUES (1)", ()).unwrap_err();
            insert(connection, 51)
        };
        assert_eq!(extended(&db.call(goes_on)), Some(ffi::SQLITE_ABORT_ROLLBACK));
        assert_eq!(ids(&db), [1]);
        let resets = |connection: &mut Connection| {
            connection.authorizer(Some(allow))?;
            connection.commit_hook(None::<fn() -> bool>)
        };
        db.exclusive(resets).unwrap().unwrap();
    }
    assert_eq!(
        db.exclusive(|connection| connection.execute_batch("BEGIN; INSERT INTO t (id) VALUES (2); COMMIT")).unwrap(),
        Ok(())
    );
    assert_eq!(ids(&db), [1, 2], "exclusive use may commit");
}

/// Beside a statement that still runs, SQLite commits nothing by itself, and reports no error.
#[test]
fn a_leaked_statement_does_not_make_lost_writes_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || Connection::open(&path).unwrap();
    open().execute_batch(TABLE).unwrap();
    let db = GroupCommit::builder().build_on_callers(open());
    let leaks = |connection: &Connection| {
        let mut statement = connection.prepare("INSERT INTO t (id) VALUES (1), (2) RETURNING id")?;
        let mut rows = statement.query(())?;
        rows.next()?;
        std::mem::forget(rows);
        std::mem::forget(statement);
        Ok(())
    };
    let leaked = db.call(leaks);
    let later = db.execute("INSERT INTO t (id) VALUES (3)", ());
    let acknowledged = [(1, leaked.is_ok()), (2, leaked.is_ok()), (3, later.is_ok())];
    let wanted: Vec<i64> = acknowledged.into_iter().filter(|(_, is_ok)| *is_ok).map(|(id, _)| id).collect();
    assert_eq!(crate::common::ids_of(&open()), wanted, "{leaked:?}, {later:?}");
    // It cannot be closed.
    std::mem::forget(db);
}
