//! Many threads insert rows one by one, alone and with group commit: `cargo run --release -p windrow-sqlite --example inserts`

use std::time::Instant;

use rusqlite::Connection;
use windrow_sqlite::GroupCommit;

const THREADS: i64 = 32;
const ROWS: i64 = 50;
const INSERT: &str = "INSERT INTO log (thread, line) VALUES (?1, ?2)";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("windrow-inserts-{}.db", std::process::id()));
    let connection = Connection::open(&path)?;
    connection.execute_batch("PRAGMA synchronous = FULL; CREATE TABLE log (thread INTEGER, line TEXT)")?;

    let start = Instant::now();
    for line in 0..ROWS {
        connection.execute(INSERT, (0, format!("line {line}")))?;
    }
    println!("one transaction per row: {:>8.0} rows per second", ROWS as f64 / start.elapsed().as_secs_f64());

    let db = GroupCommit::new(connection)?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for line in 0..ROWS {
                    db.execute(INSERT, (thread, format!("line {line}"))).expect("nothing forbids it");
                }
            });
        }
    });
    let rows = THREADS * ROWS;
    println!("{THREADS} threads and GroupCommit: {:>8.0} rows per second", rows as f64 / start.elapsed().as_secs_f64());
    let stats = db.stats()?;
    if let Some(verdict) = stats.verdict() {
        println!("{verdict}");
    }
    println!("transactions by size: {:?}", stats.sizes().collect::<Vec<_>>());
    drop(db);
    Ok(std::fs::remove_file(path)?)
}
