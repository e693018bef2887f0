//! Every acknowledged write survives a kill of the process.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::common::{TABLE, ids_of, insert};
use rusqlite::Connection;
use windrow_sqlite::GroupCommit;
use windrow_testkit::path_of;

const DATABASE: &str = "WINDROW_SQLITE_TEST_DATABASE";
const THREADS: &str = "WINDROW_SQLITE_TEST_THREADS";
const INSERT: &str = "INSERT INTO t (id, name) VALUES (?1, 'name ' || ?1)";

fn open(path: &Path, mode: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", mode).unwrap();
    connection.pragma_update(None, "synchronous", "FULL").unwrap();
    connection
}

/// Inserts until it is killed, and prints what was acknowledged.
fn child(path: &Path, threads: i64) -> ! {
    let db = GroupCommit::new(Connection::open(path).unwrap()).unwrap();
    thread::scope(|scope| {
        for thread in 0..threads {
            let db = &db;
            scope.spawn(move || {
                for id in (thread..).step_by(threads as usize) {
                    // Both kinds of writes.
                    let done = match id / threads % 2 {
                        0 => db.call(move |connection| insert(connection, id)),
                        _ => db.execute(INSERT, (id,)),
                    };
                    assert_eq!(done.unwrap(), 1);
                    // One write a line, so that a line is complete or missing.
                    std::io::stdout().write_all(format!("acknowledged {id}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    unreachable!("killed before")
}

#[test]
fn every_acknowledged_row_is_there() {
    if let Some(path) = std::env::var_os(DATABASE) {
        child(path.as_ref(), std::env::var(THREADS).unwrap().parse().unwrap());
    }
    for (mode, acknowledged, threads) in
        [("WAL", 1, 8), ("DELETE", 300, 24), ("WAL", 2_000, 24), ("TRUNCATE", 40, 8), ("WAL", 200, 1)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        open(&path, mode).execute_batch(TABLE).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &path_of(module_path!(), "every_acknowledged_row_is_there"), "--nocapture"])
            .env(DATABASE, &path)
            .env(THREADS, threads.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Skip what the test harness prints.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = lines.filter_map(|line| line.unwrap().split_once("acknowledged ")?.1.parse::<i64>().ok());
        let mut told: Vec<i64> = said.by_ref().take(acknowledged).collect();
        // SIGKILL, on systems that have it.
        child.kill().unwrap();
        child.wait().unwrap();
        told.extend(said);
        assert!(told.len() >= acknowledged, "the child ended by itself");

        let connection = open(&path, mode);
        let check: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        let found = ids_of(&connection);
        told.sort_unstable();
        let missing: Vec<&i64> = told.iter().filter(|id| found.binary_search(id).is_err()).collect();
        assert!(missing.is_empty(), "{mode}: {missing:?} of {} are not there", told.len());
        assert!(found.len() <= told.len() + threads, "a thread has one write at a time");
    }
}
