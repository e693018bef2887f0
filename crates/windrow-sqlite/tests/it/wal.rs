//! Growth of the WAL file beside a long reader, as the front page describes it.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use windrow_sqlite::GroupCommit;

const LIMIT: u64 = 100_000;

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF").unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    connection
}

fn fill(db: &GroupCommit) {
    for _ in 0..2000 {
        db.execute("INSERT INTO t VALUES (zeroblob(3000))", ()).unwrap();
    }
}

/// Truncates the write-ahead log. True if a reader was in the way.
fn truncate(db: &GroupCommit) -> bool {
    let checkpoint =
        |connection: &mut Connection| connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0));
    db.exclusive(checkpoint).unwrap().unwrap()
}

#[test]
fn the_wal_grows_beside_a_long_reader_and_shrinks_by_a_limit_or_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let size = || std::fs::metadata(folder.path().join("db-wal")).unwrap().len();
    let reader = open(&path);
    reader.execute_batch("CREATE TABLE t (v BLOB)").unwrap();
    let db = GroupCommit::new(open(&path)).unwrap();
    fill(&db);
    let usual = size();
    assert!(usual < 5_000_000, "automatic checkpoints: {usual}");

    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    fill(&db);
    let grown = size();
    assert!(grown > 2 * usual && grown > 7_000_000, "{usual} {grown}");
    assert!(truncate(&db), "busy");
    assert_eq!(size(), grown);
    reader.execute_batch("ROLLBACK").unwrap();
    fill(&db);
    let kept = size();
    assert!((grown..grown + 1_000_000).contains(&kept), "it keeps its size: {grown} {kept}");
    let in_a_write = db.call(|connection| connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
    assert_eq!(in_a_write.unwrap_err().to_string(), "database table is locked");
    assert!(!truncate(&db), "done");
    assert_eq!(size(), 0);

    let limit = format!("PRAGMA journal_size_limit = {LIMIT}; PRAGMA wal_autocheckpoint = 10");
    db.exclusive(|connection| connection.execute_batch(&limit)).unwrap().unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
    fill(&db);
    assert!(size() > 7_000_000, "it grows all the same");
    reader.execute_batch("ROLLBACK").unwrap();
    fill(&db);
    assert!(size() <= 2 * LIMIT, "{}", size());
}
