//! Models of trees: members that spin, park or wait find an offer, and a frame that was taken by mistake comes back.

use windrow_sync::Spin;
use windrow_sync::latch::Latch;

use crate::join::{grow, join};
use crate::model;

/// The halves wait for each other, so the other member has to come, in whatever state it is.
#[test]
fn an_offer_wakes_a_sleeper() {
    model(3, || {
        let (here, there) = (Latch::new(), Latch::new());
        let first = || {
            here.set();
            there.wait(Spin::NONE);
        };
        let second = || {
            there.set();
            here.wait(Spin::NONE);
        };
        grow(1, || join(first, second));
    });
}

/// One of two members parks, the other spins: one of them finds the offer.
#[test]
fn an_offer_is_found_by_one_of_two() {
    model(1, || {
        let there = Latch::new();
        grow(2, || join(|| there.wait(Spin::NONE), || there.set()));
    });
}

/// The half that was taken contains a join whose halves wait for each other: the owner has to help.
#[test]
fn the_owner_helps_the_runner() {
    model(2, || {
        let begun = Latch::new();
        let (here, there) = (Latch::new(), Latch::new());
        let first = || {
            here.set();
            there.wait(Spin::NONE);
        };
        let second = || {
            there.set();
            here.wait(Spin::NONE);
        };
        let half = || {
            begun.set();
            join(first, second);
        };
        grow(1, || join(|| begun.wait(Spin::NONE), half));
    });
}
