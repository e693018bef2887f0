//! Random teams inside each other, next to each other and wider than their pools, against the serial result; whole, and with
//! members that panic or return early.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use windrow_testkit::shapes::{Account, World};
use windrow_testkit::teams::{Fault, Plan, WIDTHS};
use windrow_testkit::{Rng, Seed};

/// Teams of each thread.
fn turns() -> u64 {
    if cfg!(miri) { 3 } else { windrow_testkit::cases(250).into() }
}

/// Random teams of several threads on shared pools. The seed of one that fails is what it says.
fn random_teams(fault: impl Fn(&mut Rng, &Plan) -> Fault + Sync) -> u64 {
    let world = World::new();
    let caller = &|thread: u64| {
        let account = Account::new(world);
        let (mut teams, mut faults) = (0, 0);
        for turn in 0..turns() {
            let seed = thread << 32 | turn;
            let _seed = Seed("team", seed);
            let mut rng = Rng(seed);
            let plan = Plan::random(&mut rng, 3);
            if plan.check(account, fault(&mut rng, &plan)) {
                faults += 1;
                // The pools are alive, and all threads free: the same, whole.
                plan.check(account, Fault::None);
            }
            teams += plan.teams();
        }
        assert!(teams > turns(), "some lie inside others");
        faults
    };
    let faults = thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|thread| scope.spawn(move || caller(thread))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    assert!(cfg!(miri) || WIDTHS[2..].iter().all(|teams| teams.load(Relaxed) > 0), "{WIDTHS:?}");
    faults
}

#[test]
fn random_teams_give_the_serial_result() {
    assert_eq!(random_teams(|_, _| Fault::None), 0);
}

#[test]
fn members_that_panic_release_the_others() {
    assert!(random_teams(|rng, plan| Fault::Panic(rng.below(plan.points() as u64 + 1) as usize)) > turns());
}

#[test]
fn members_that_return_release_the_others() {
    assert!(random_teams(|rng, plan| Fault::Return(rng.below(plan.returns() + 1) as usize)) > turns());
}
