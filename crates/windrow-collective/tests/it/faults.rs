//! Errors, panics and leaving ranks, in any lane at any tile: no rank hangs, and no failed call looks complete.

use std::sync::Arc;

use windrow_collective::{Communicator, Error, Group, Tiles};
use windrow_testkit::Rng;
use windrow_tiling::tile::Lane;

use crate::common::{Case, OPERATIONS, on_all};

/// Number of faults to try; `WINDROW_FAULTS` sets it.
fn rounds() -> usize {
    std::env::var("WINDROW_FAULTS").ok().map_or(10_002, |rounds| rounds.parse().expect("WINDROW_FAULTS is a number"))
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    rank: usize,
    lane: Lane,
    tile: usize,
    panics: bool,
}

impl Fault {
    fn random(rng: &mut Rng, ranks: usize, tiles: usize) -> Fault {
        Fault {
            rank: rng.index(ranks),
            lane: [Lane::Compute, Lane::Communicate][rng.index(2)],
            tile: rng.index(tiles),
            panics: rng.index(2) == 0,
        }
    }
}

#[test]
fn a_fault_stops_all_ranks_and_no_more() {
    // Panics are expected here; their messages would hide others.
    let quiet = |name: Option<&str>| name.is_some_and(|name| name.starts_with("windrow-rank-"));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let injected = info.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("injected"));
        if !(injected && (quiet(thread.name()) || thread.name().is_none())) {
            hook(info);
        }
    }));
    let (operations, token) = (OPERATIONS.len(), Arc::new(()));
    for ranks in 1..=3 {
        let each = 6;
        let case = |operation| Case { operation: OPERATIONS[operation], ranks, each, n: 3, k: 2, gap: 0 };
        let token = &token;
        on_all(Group::new(ranks).ranks(), |mut fused| {
            // The same on all ranks.
            let mut rng = Rng(ranks as u64);
            for round in 0..rounds() / 3 {
                let (case, tiles) = (case(rng.index(operations)), 1 + rng.index(each));
                let mut faults = vec![Fault::random(&mut rng, ranks, tiles)];
                // Now and then two faults at once.
                if rng.index(4) == 0 {
                    faults.push(Fault::random(&mut rng, ranks, tiles));
                }
                let (mine, alive) = (faults.clone(), Arc::clone(token));
                let rank = fused.rank();
                fused.watch(move |lane, tile| {
                    let _alive = &alive;
                    match mine.iter().find(|f| (f.rank, f.lane, f.tile) == (rank, lane, tile)) {
                        Some(fault) if fault.panics => panic!("injected into {lane} of {tile}"),
                        Some(_) => Err(format!("cancelled at {tile}")),
                        None => Ok(()),
                    }
                });
                let (_, outcome) = case.run::<f32, _>(&mut fused, &Tiles::Uniform(tiles), true);
                match outcome.expect_err("a fault was injected") {
                    Error::Stopped { lane, tile, panicked, why } => {
                        let named = |f: &Fault| (f.rank, f.lane, f.tile, f.panics) == (rank, lane, tile, panicked);
                        assert!(faults.iter().any(named), "{faults:?}: {lane} of {tile}: {why}");
                        assert!(why.starts_with(if panicked { "injected" } else { "cancelled" }), "{why}");
                    }
                    Error::Refused { rank: other, why } => {
                        assert!(other != rank && faults.iter().any(|f| f.rank == other), "{faults:?}: {other}: {why}");
                    }
                    error => panic!("{error}"),
                }
                // The next operation works.
                if round % 8 == 0 {
                    fused.unwatch();
                    let (result, outcome) = case.run::<f32, _>(&mut fused, &Tiles::Uniform(tiles), true);
                    outcome.unwrap();
                    case.compare(rank, &result, true);
                }
            }
        });
    }
    assert_eq!(Arc::strong_count(&token), 1, "something that was watched with is still there");
}

#[test]
fn a_rank_that_leaves_stops_the_others() {
    for operation in OPERATIONS {
        let case = Case { operation, ranks: 3, each: 4, n: 3, k: 2, gap: 0 };
        let errors = on_all(Group::new(3).ranks(), |mut fused| {
            if fused.rank() == 1 {
                return None;
            }
            Some(case.run::<f64, _>(&mut fused, &Tiles::Uniform(2), true).1.unwrap_err())
        });
        let left = Error::Left { rank: 1, panicked: false };
        assert_eq!(errors, [Some(left.clone()), None, Some(left)]);
    }
}

#[test]
fn other_calls_in_the_place_of_an_operation_fail_on_all_ranks() {
    for operation in OPERATIONS {
        let case = Case { operation, ranks: 2, each: 4, n: 3, k: 2, gap: 0 };
        let errors = on_all(Group::new(2).ranks(), |mut fused| match fused.rank() {
            0 => case.run::<f64, _>(&mut fused, &Tiles::Uniform(2), true).1.unwrap_err(),
            _ => fused.communicator().all_reduce(&mut [1.0_f32]).unwrap_err(),
        });
        assert!(matches!(errors[0], Error::Mismatch { .. }), "{}", errors[0]);
        assert_eq!(errors[0], errors[1]);
    }
}
