//! The insert-only table and the assembly, compared with one thread.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use windrow_table::assembly::Assembly;
use windrow_table::table::{InsertOnlyTable, TableKey};

fn key(number: u64) -> TableKey {
    TableKey { tag: number + 1, rest: number.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
}

#[test]
fn a_table_finds_what_it_took_and_refuses_what_does_not_fit() {
    let table = InsertOnlyTable::new(64, 4);
    // Every key has the same home, so only 32 find a slot.
    let taken = (0..64).filter(|&number| table.insert(5, key(number), [number, 1])).count();
    assert_eq!((taken, table.used(), table.entries().count()), (32, 32, 32));
    for number in 0..64 {
        assert_eq!(table.find(5, key(number), |_| true), (number < 32).then_some([number, 1]));
    }
    assert_eq!(table.home_slots().find(5, key(0)), Some([0, 1]));
    assert_eq!(table.home_slots().find(5, key(1)), None);
    assert_eq!(table.find(5, key(1), |value| value[0] == 2), None);
    assert_eq!(table.store([1, 2, 3].into_iter()), Some(0));
    assert_eq!(table.store([4, 5].into_iter()), None);
    assert_eq!(table.words(1, 2).collect::<Vec<_>>(), [2, 3]);
}

#[test]
#[should_panic(expected = "reserved word")]
fn a_value_must_not_look_like_an_empty_slot() {
    InsertOnlyTable::new(2, 0).insert(0, key(0), [1, 0]);
}

#[test]
fn threads_find_what_others_learn() {
    const KEYS: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let table = InsertOnlyTable::new((2 * KEYS as usize).next_power_of_two(), 2 * KEYS as usize * 4);
    let found = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (table, found) = (&table, &found);
            scope.spawn(move || {
                for step in 0..KEYS {
                    let number = (step * 7 + thread * 13) % KEYS;
                    let hash = number as u32 * 3;
                    if let Some([at, many]) = table.find(hash, key(number), |_| true) {
                        let words: Vec<u64> = table.words(at as u32, many as usize).collect();
                        assert_eq!(words, [number, number + 1]);
                        // Relaxed: a count that is read after all threads have ended.
                        found.fetch_add(1, Ordering::Relaxed);
                    } else if let Some(at) = table.store([number, number + 1].into_iter()) {
                        table.insert(hash, key(number), [u64::from(at), 2]);
                    }
                }
            });
        }
    });
    // Relaxed: see above.
    assert!(found.load(Ordering::Relaxed) > 0, "no thread used what another had learned");
    assert!((0..KEYS).all(|number| table.find(number as u32 * 3, key(number), |_| true).is_some()));
}

#[test]
fn parts_of_an_assembly_stand_in_the_order_of_their_reservations() {
    const PARTS: usize = if cfg!(miri) { 20 } else { 2_000 };
    let assembly = Assembly::new(Vec::with_capacity(PARTS * (PARTS + 1) / 2));
    let next = Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let mut next = next.lock().unwrap();
                    let number = *next;
                    if number == PARTS {
                        return;
                    }
                    *next += 1;
                    let part = assembly.reserve(number + 1);
                    drop(next);
                    assert_eq!(part.begin(), number * (number + 1) / 2);
                    part.copy_from(&vec![number; number + 1]);
                }
            });
        }
    });
    let expected: Vec<usize> = (0..PARTS).flat_map(|number| vec![number; number + 1]).collect();
    assert_eq!(assembly.into_vec(), Some(expected));
}

#[test]
fn an_assembly_with_a_hole_is_no_vector() {
    let assembly = Assembly::new(Vec::with_capacity(3));
    assembly.reserve(1).copy_from(&[1]);
    let _unfilled = assembly.reserve(1);
    assert_eq!(assembly.into_vec(), None);
    assert_eq!(Assembly::new(vec![1, 2]).into_vec(), Some(vec![1, 2]));
}

#[test]
#[should_panic(expected = "2 items and 2 more do not fit in 3")]
fn an_assembly_does_not_grow() {
    let assembly = Assembly::new(Vec::<u8>::with_capacity(3));
    let _part = assembly.reserve(2);
    let full = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assembly.reserve(usize::MAX).begin()));
    assert!(full.is_err());
    let _more = assembly.reserve(2);
}

#[test]
fn a_large_table_is_as_a_small_one() {
    // Half a large page, one, four.
    for slots in [1 << 15, 1 << 16, 1 << 18] {
        let table = InsertOnlyTable::new(slots, 0);
        assert_eq!((table.capacity(), table.bytes(), table.entries().count()), (slots, slots * 32, 0));
        let last = slots as u32 - 1;
        assert!(table.insert(last, key(1), [1, 1]) && table.insert(last, key(2), [2, 1]), "goes on at the first slot");
        let found = [table.home_slots().find(last, key(1)), table.home_slots().find(0, key(2))];
        assert_eq!(found, [Some([1, 1]), Some([2, 1])]);
    }
}
