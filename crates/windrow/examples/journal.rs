//! A batch: 32 threads write lines to a journal. A writer goes on when its line is on the disk, and one sync serves all that wait.
//!
//! `cargo run --release -p windrow --example journal`

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use windrow::batch::{Batch, BatchOps, Batched};

/// A file of lines, synced to the disk once a batch.
struct Journal(File);

impl BatchOps for Journal {
    type Op = String;
    type Reply = Result<(), Arc<io::Error>>;

    fn run(&mut self, batch: &mut Batch<'_, String, Self::Reply>) {
        let lines: String = batch.iter_mut().map(|entry| entry.take()).collect();
        let synced = self.0.write_all(lines.as_bytes()).and_then(|()| self.0.sync_data()).map_err(Arc::new);
        batch.iter_mut().for_each(|entry| entry.reply(synced.clone()));
    }
}

// The tests run it too.
pub(crate) fn main() -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("windrow-{}.journal", std::process::id()));
    let journal = Batched::new(Journal(File::create(&path)?));
    thread::scope(|scope| {
        for writer in 0..32 {
            let journal = &journal;
            let write = move |n| journal.call(format!("line {n} of {writer}\n")).expect("no panic").expect("a disk");
            scope.spawn(move || (0..20).for_each(write));
        }
    });
    let stats = journal.stats().expect("the journal is open");
    println!("{} lines, {} syncs", stats.ops(), stats.batches() + stats.alone());
    if let Some(verdict) = stats.verdict() {
        println!("{verdict}");
    }
    assert_eq!(std::fs::read_to_string(&path)?.lines().count(), 640);
    std::fs::remove_file(path)
}
