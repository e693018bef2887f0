//! Models of invitations: guests come when called, see the work, and are waited for.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::join::guests::Invitation;
use windrow_sync::latch::Latch;

use crate::join::{grow, join};
use crate::{Watched, model};

/// A guest sees the work that was put down before the call, and is waited for.
#[test]
fn a_guest_comes_and_is_waited_for() {
    model(3, || {
        let (input, output) = (Watched::new(0), Watched::new(0));
        let came = Latch::new();
        let invitation = Invitation::new();
        let help = || {
            output.set(input.get());
            came.set();
            loom::thread::yield_now();
            output.set(2);
        };
        grow(1, || {
            // Opens the tree.
            join(|| (), || ());
            invitation.host(&help, || {
                input.set(1);
                invitation.call();
                came.wait(Spin::NONE);
            });
            assert_eq!(output.get(), 2);
        });
    });
}

/// A guest that has come once comes again for the next call.
#[test]
fn every_call_is_heard() {
    model(3, || {
        let left = loom::sync::Mutex::new(0);
        let done = Latch::new();
        let invitation = Invitation::new();
        let help = || {
            let mut left = left.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                done.set();
            }
        };
        grow(1, || {
            invitation.host(&help, || {
                for _ in 0..2 {
                    *left.lock().unwrap() += 1;
                    invitation.call();
                    done.wait(Spin::NONE);
                }
            });
        });
    });
}

/// The host parks until a guest has finished the work, and takes part in what the guest offers.
#[test]
fn the_host_helps_its_guests() {
    model(2, || {
        let (begun, done) = (Latch::new(), AtomicUsize::new(0));
        let output = Watched::new(0);
        let invitation = Invitation::new();
        let help = || {
            if done.load(Relaxed) == 1 {
                return;
            }
            begun.set();
            let there = Latch::new();
            join(|| there.wait(Spin::NONE), || there.set());
            output.set(1);
            done.store(1, Relaxed);
            invitation.ring(0);
            invitation.ring(1);
        };
        grow(1, || {
            invitation.host(&help, || {
                invitation.call();
                begun.wait(Spin::NONE);
                invitation.wait(|_| true, || done.load(Relaxed) == 1);
            });
            assert_eq!(output.get(), 1);
        });
    });
}

/// The last guest to leave wakes a host that has found it inside, while others may still come.
#[test]
fn the_last_guest_is_awaited() {
    model(2, || {
        let output = Watched::new(0);
        let came = Latch::new();
        let invitation = Invitation::new();
        let help = || {
            came.set();
            output.set(1);
        };
        grow(1, || {
            // Opens the tree.
            join(|| (), || ());
            invitation.host(&help, || {
                invitation.call_at_times(0);
                came.wait(Spin::NONE);
                invitation.wait(|_| true, || invitation.is_left());
                assert_eq!(output.get(), 1);
            });
        });
    });
}

/// A call of a member or of another thread reaches a guest that is about to park.
#[test]
fn a_stranger_may_call() {
    model(2, || {
        let invitation = Arc::new(Invitation::new());
        let came = Latch::new();
        let help = || came.set();
        grow(1, || {
            let stranger = invitation.clone();
            // Opens the tree.
            join(|| (), || ());
            invitation.host(&help, || {
                let stranger = loom::thread::spawn(move || stranger.call());
                came.wait(Spin::NONE);
                stranger.join().unwrap();
            });
        });
    });
}

/// The host takes what a guest offers, too late: what it waits for is done. The host gives the offer back.
#[test]
fn what_is_taken_too_late_is_given_back() {
    model(3, || {
        let (begun, done) = (Latch::new(), AtomicUsize::new(0));
        let output = Watched::new(0);
        let invitation = Invitation::new();
        let help = || {
            if begun.is_set() {
                return;
            }
            begun.set();
            let end = || {
                done.store(1, Relaxed);
                invitation.ring(0);
            };
            join(end, || output.set(1));
        };
        grow(1, || {
            invitation.host(&help, || {
                invitation.call();
                while !begun.is_set() {
                    loom::thread::yield_now();
                }
                invitation.wait(|_| true, || done.load(Relaxed) == 1);
            });
            assert_eq!(output.get(), 1);
        });
    });
}
