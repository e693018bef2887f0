//! Models of loans: the host sees what its loans did, and does not wait for ever (loom reports a deadlock).

use windrow_sync::lend::lending;

use crate::Watched;

/// A loan that a second thread runs, and one that it drops.
#[test]
fn the_host_sees_what_its_loans_did() {
    loom::model(|| {
        let cell = Watched::new(0);
        lending(
            || (),
            |_| (),
            |lender| {
                let cell = &cell;
                let writes = lender.lend(|| cell.set(1));
                let unrun = lender.lend(|| ());
                loom::thread::spawn(move || {
                    writes.run();
                    drop(unrun);
                });
            },
        );
        assert_eq!(cell.get(), 1);
    });
}
