//! Models of loans: the host sees what its loans did, and does not wait for ever (loom reports a deadlock).
#![cfg(loom)]

use loom::cell::UnsafeCell;
use windrow_sync::lend::lending;

/// A plain cell that loom watches: any two accesses without an order between them fail the model.
struct Watched(UnsafeCell<usize>);

// SAFETY: loom checks that accesses are ordered.
unsafe impl Sync for Watched {}

/// A loan that a second thread runs, and one that it drops.
#[test]
fn the_host_sees_what_its_loans_did() {
    loom::model(|| {
        let cell = Watched(UnsafeCell::new(0));
        lending(
            || (),
            |_| (),
            |lender| {
                let cell = &cell;
                let writes = lender.lend(move || {
                    // SAFETY: loom reports a conflicting access instead of performing it.
                    cell.0.with_mut(|value| unsafe { *value = 1 });
                });
                let unrun = lender.lend(|| ());
                loom::thread::spawn(move || {
                    writes.run();
                    drop(unrun);
                });
            },
        );
        // SAFETY: as above.
        assert_eq!(cell.0.with(|value| unsafe { *value }), 1);
    });
}
