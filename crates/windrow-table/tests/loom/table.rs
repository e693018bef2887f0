//! Models of the insert-only table: a key that is found has its value, complete.
//!
//! The thread that finds is the spawned one, which loom runs after the thread that inserts at first. Loom then tries every value that a load may
//! have. In the other order it misses the race: it keeps the last access to a word only, and an insert loads the tag before it stores it.

use std::sync::Arc;

use windrow_table::table::{InsertOnlyTable, TableKey};

const KEY: TableKey = TableKey { tag: 1, rest: 2 };

#[test]
fn a_value_that_is_found_is_complete() {
    loom::model(|| {
        let table = Arc::new(InsertOnlyTable::new(2, 1));
        let finding = Arc::clone(&table);
        let finder = loom::thread::spawn(move || {
            if let Some([at, second]) = finding.find(0, KEY, |_| true) {
                assert_eq!((second, finding.words(at as u32, 1).next()), (9, Some(7)));
            }
        });
        let at = table.store([7].into_iter()).unwrap();
        assert!(table.insert(0, KEY, [u64::from(at), 9]));
        finder.join().unwrap();
        assert_eq!(table.find(0, KEY, |_| true), Some([0, 9]));
    });
}

#[test]
fn entries_are_complete() {
    loom::model(|| {
        let table = Arc::new(InsertOnlyTable::new(1, 0));
        let copying = Arc::clone(&table);
        let copier = loom::thread::spawn(move || {
            for entry in copying.entries() {
                assert_eq!(entry, (KEY, [8, 9]));
            }
        });
        assert!(table.insert(0, KEY, [8, 9]));
        copier.join().unwrap();
        assert_eq!(table.entries().count(), 1);
    });
}

#[test]
fn racing_inserters_never_mix_their_entries() {
    loom::model(|| {
        let table = Arc::new(InsertOnlyTable::new(2, 0));
        let other = TableKey { tag: 3, rest: 4 };
        let inserting = Arc::clone(&table);
        let inserter = loom::thread::spawn(move || inserting.insert(0, other, [30, 40]));
        let mine = table.insert(0, KEY, [10, 20]);
        let theirs = inserter.join().unwrap();
        assert!(mine || theirs, "both gave up");
        assert_eq!(table.find(0, KEY, |_| true), mine.then_some([10, 20]));
        assert_eq!(table.find(0, other, |_| true), theirs.then_some([30, 40]));
    });
}
