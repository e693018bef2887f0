//! Every public method, called from safe code: as it should be, and as it should not be. `cargo xtask sanitize` runs these tests under
//! AddressSanitizer.
#![forbid(unsafe_code)]
#![expect(
    clippy::drop_non_drop,
    clippy::forget_non_drop,
    reason = "to drop and to forget is the point, whatever the type does then"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use windrow_table::assembly::{Assembly, AssemblyPart};
use windrow_table::table::{HomeSlots, InsertOnlyTable, TableKey};

/// Panics without a report.
fn boom() -> ! {
    resume_unwind(Box::new("boom"))
}

/// Runs hostile code; returns whether it panicked.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn an_assembly_is_whole_or_nothing() {
    let assembly = Assembly::new(Vec::from([1, 2]));
    assert!(panics(|| drop(assembly.reserve(usize::MAX))), "no space");
    let room = Assembly::new(Vec::<u8>::with_capacity(64));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| room.reserve(8).copy_from(&[7; 8]));
        }
    });
    assert!(panics(|| drop(room.reserve(1))));
    assert_eq!(room.into_vec(), Some(vec![7; 64]));
    drop(assembly);
    for hostile in 0..4 {
        let assembly = Assembly::new(Vec::with_capacity(4));
        let part: AssemblyPart<'_, u64> = assembly.reserve(2);
        assert_eq!(part.begin(), 0);
        match hostile {
            0 => assert!(panics(|| part.fill(&[1, 2], |at| if *at == 2 { boom() } else { *at }))),
            1 => std::mem::forget(part),
            2 => assert!(panics(|| part.copy_from(&[1]))),
            // The map takes a part meanwhile.
            _ => part.fill(&[1, 2], |at| {
                assembly.reserve(1).copy_from(&[9]);
                *at
            }),
        }
        assert_eq!(assembly.into_vec(), (hostile == 3).then(|| vec![1, 2, 9, 9]));
    }
    let nothing = Assembly::new(vec![(); 3]);
    let all = nothing.reserve(usize::MAX - 3);
    assert!(all.begin() == 3 && panics(|| drop(nothing.reserve(1))));
    std::mem::forget(all);
    assert_eq!(nothing.into_vec(), None);
}

#[test]
fn a_table_with_hostile_words() {
    struct Lies(usize);
    impl Iterator for Lies {
        type Item = u64;
        fn next(&mut self) -> Option<u64> {
            Some(6)
        }
    }
    impl ExactSizeIterator for Lies {
        fn len(&self) -> usize {
            self.0
        }
    }
    let table = InsertOnlyTable::new(16, 8);
    assert!(panics(|| drop(InsertOnlyTable::new(3, 0))) && panics(|| drop(InsertOnlyTable::new(0, 0))));
    let key = |tag| TableKey { tag, rest: 0 };
    assert_eq!(table.store([7, 7].into_iter()), Some(0));
    assert!(panics(|| _ = table.store([0].into_iter().map(|_| boom()))));
    // Three words are given out: one less than none is left to count.
    for lie in [usize::MAX - 2, 1, 9, usize::MAX] {
        assert_eq!(table.store(Lies(lie)), None, "{lie}");
    }
    assert!(table.words(0, 2).eq([7, 7]), "words in use are not given out again");
    assert!(table.used_words() >= 8 && panics(|| _ = table.words(8, 1).count()) && panics(|| drop(table.words(0, 9))));
    assert!(panics(|| _ = table.insert(0, key(0), [0, 1])) && panics(|| _ = table.insert(0, key(1), [0, 1 << 63])));
    assert!(table.insert(u32::MAX, key(1), [4, 1]));
    assert!(panics(|| _ = table.find(u32::MAX, key(1), |_| boom())));
    assert_eq!(table.find(u32::MAX, key(1), |_| true), Some([4, 1]));
    let homes: HomeSlots<'_> = table.home_slots();
    homes.prefetch(7);
    assert_eq!(homes.find(u32::MAX, key(1)), Some([4, 1]));
    assert_eq!((table.entries().count(), table.used(), table.capacity(), table.bytes()), (1, 1, 16, 16 * 32 + 8 * 8));
    // A short one: what it does not give stays as it was.
    let short = InsertOnlyTable::new(2, 4);
    assert_eq!(short.store([1, 2].into_iter().chain([]).collect::<Vec<_>>().into_iter()), Some(0));
    assert_eq!(short.store(Lies(2)), Some(2));
    assert!(short.words(2, 2).eq([6, 6]));
}
