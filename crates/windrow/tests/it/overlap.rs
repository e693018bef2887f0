//! Overlapped lanes against serial runs, with faults in every place.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use windrow::overlap::{self, Failure, LaneKind, Trace};
use windrow::prelude::*;
use windrow::{CancelToken, Pool};
use windrow_testkit::overlaps::{Case, Fault, How, Inside, KINDS, Lane};
use windrow_testkit::spin_until;

/// Under Miri everything takes a thousand times as long.
const SMALL: bool = cfg!(miri);

#[test]
fn random_runs_with_faults_end_as_serial_ones() {
    for seed in 0..if SMALL { 20 } else { 4000 } {
        Case::random(seed, seed as usize % 3).check();
    }
}

#[test]
fn every_fault_in_every_lane_at_every_tile() {
    let lanes: Vec<Lane> = KINDS.map(|kind| Lane { kind, ahead: 1, inside: Inside::Nothing }).into();
    for (tile, lane) in (0..4).flat_map(|tile| (0..KINDS.len()).map(move |lane| (tile, lane))) {
        for how in [How::Error, How::Panic, How::CancelToken] {
            for fed in [false, true] {
                let faults = vec![Fault { tile, lane, how }];
                Case { tiles: 4, lanes: lanes.clone(), fed, faults }.check();
            }
        }
    }
}

fn lanes() -> impl Strategy<Value = Vec<Lane>> {
    let kind = prop::sample::select(&KINDS[..]);
    let inside = prop_oneof![10 => Just(Inside::Nothing), 1 => Just(Inside::Region), 1 => Just(Inside::Overlap)];
    let lane = (kind, 1..4usize, inside).prop_map(|(kind, ahead, inside)| Lane { kind, ahead, inside });
    prop::collection::vec(lane, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if SMALL { 3 } else { windrow_testkit::cases(50) }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn results_are_those_of_a_serial_run(tiles in 0..60usize, lanes in lanes(), fed: bool) {
        Case { tiles, lanes, fed, faults: Vec::new() }.check();
    }
}

#[test]
fn zero_tiles_one_tile_and_no_lanes() {
    let none = overlap::source(0..0).blocking("a", Ok::<i32, ()>).compute("b", Ok);
    assert_eq!(none.collect().unwrap(), [0; 0]);
    let one = overlap::source([7]).compute("a", Ok::<i32, ()>).blocking("b", |i| Ok(i + 1));
    assert_eq!(one.collect().unwrap(), [8]);
    assert_eq!(overlap::source::<_, ()>(0..3).collect().unwrap(), [0, 1, 2]);
    let (feeder, tiles) = overlap::fed::<u8, ()>();
    drop(feeder);
    assert_eq!(tiles.collect().unwrap(), [0; 0]);
}

#[test]
fn lanes_that_are_never_run_tell_their_feeder() {
    let (mut feeder, tiles) = overlap::fed::<u8, ()>();
    assert_eq!(feeder.push(1), Ok(()));
    drop(tiles.compute("never", Ok));
    assert_eq!(feeder.push(2), Err(2));
}

/// A lane before one that does nothing until N tiles are ahead: N come, and no more.
#[test]
fn memory_is_bounded_by_count_and_by_weight_and_the_room_is_used() {
    for (ahead, limit, most_ahead) in [(1, 100, 1), (5, 100, 5), (100, 30, 3), (100, 25, 3), (100, 1, 1)] {
        let begun = AtomicUsize::new(0);
        let mut done = 0;
        let tiles = overlap::source(0..50u64)
            .blocking("read", |i| {
                begun.fetch_add(1, Relaxed);
                Ok::<_, ()>(vec![i as u8; 10])
            })
            .ahead(ahead)
            .weigh(limit, Vec::len)
            .compute("use", |block: Vec<u8>| {
                // Those in the queue, this one, and all before it.
                let bound = done + 1 + most_ahead;
                spin_until(|| begun.load(Relaxed) >= bound.min(50));
                assert!(begun.load(Relaxed) <= bound, "{} of {bound}", begun.load(Relaxed));
                done += 1;
                drop(block);
                Ok(())
            });
        assert_eq!(tiles.run().unwrap(), 50);
    }
}

#[test]
fn a_tile_that_is_heavier_than_all_that_is_allowed_passes_alone() {
    let heavy = overlap::source([5usize, 1000, 1, 1000, 1000])
        .blocking("read", Ok::<usize, ()>)
        .ahead(8)
        .weigh(10, |weight| *weight)
        .compute("use", Ok);
    assert_eq!(heavy.collect().unwrap(), [5, 1000, 1, 1000, 1000]);
}

/// Both lanes are in a tile at the same time, and each waits for that: without overlap this hangs.
#[test]
fn lanes_run_at_the_same_time() {
    let (one, other) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tiles = overlap::source(0..20usize)
        .blocking("one", |i| {
            one.store(i, Relaxed);
            // Tile i begins here while tile i - 1 is still there.
            if i > 1 {
                spin_until(|| other.load(Relaxed) + 1 >= i);
            }
            Ok::<_, ()>(i)
        })
        .compute("other", |i| {
            other.store(i, Relaxed);
            if i < 19 {
                spin_until(|| one.load(Relaxed) > i);
            }
            Ok(())
        });
    assert_eq!(tiles.run().unwrap(), 20);
}

#[test]
fn a_run_that_is_fed_does_not_wait_for_its_feeder() {
    let (resume, waiting) = mpsc::channel::<()>();
    let (mut feeder, tiles) = overlap::fed();
    let feeding = thread::spawn(move || {
        feeder.push(1).unwrap();
        waiting.recv().unwrap();
        feeder.push(2)
    });
    let failure = tiles.compute("refuse", |_| Err::<(), _>("no")).run().unwrap_err();
    assert!(matches!(failure, Failure::Error { tile: 0, .. }));
    resume.send(()).unwrap();
    assert_eq!(feeding.join().unwrap(), Err(2));
}

#[test]
fn a_feeder_that_panics_is_lost_after_the_tiles_it_gave() {
    let (mut feeder, tiles) = overlap::fed();
    let feeding = thread::spawn(move || {
        feeder.push(1).unwrap();
        resume_unwind(Box::new("gone"));
    });
    let mut seen = Vec::new();
    let failure = tiles
        .blocking("see", |i| {
            seen.push(i);
            Ok::<_, &str>(())
        })
        .run()
        .unwrap_err();
    assert!(matches!(failure, Failure::Lost { tile: 1, lane: 0, .. }), "{failure:?}");
    assert!(failure.to_string().starts_with("tile 1 was abandoned in lane 0 (see): "), "{failure}");
    assert_eq!(seen, [1]);
    assert!(feeding.join().is_err());
}

#[test]
fn a_source_that_panics_fails_the_tile_that_it_would_have_given() {
    let source = (0..9).inspect(|&i| {
        if i == 3 {
            resume_unwind(Box::new("the source"));
        }
    });
    let mut seen = Vec::new();
    let lanes = overlap::source(source).blocking("read", Ok::<_, ()>).compute("see", |i| {
        seen.push(i);
        Ok(())
    });
    let payload = catch_unwind(AssertUnwindSafe(|| lanes.run())).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"the source"));
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn an_item_that_panics_when_it_is_dropped_ends_the_run_with_that() {
    struct Sharp;
    impl Drop for Sharp {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new("sharp"));
            }
        }
    }
    let begun = AtomicUsize::new(0);
    let lanes = overlap::source(0..9)
        .blocking("make", |_| {
            begun.fetch_add(1, Relaxed);
            Ok(Sharp)
        })
        .compute("refuse", |tile: Sharp| {
            std::mem::forget(tile);
            // One is queued, and will be dropped there.
            spin_until(|| begun.load(Relaxed) > 2);
            Err::<(), _>("no")
        });
    // The error is that of an earlier tile.
    assert!(matches!(lanes.run(), Err(Failure::Error { tile: 0, lane: 1, error: "no", .. })));
}

#[test]
fn lanes_hear_that_they_work_for_nothing() {
    let waits = AtomicBool::new(false);
    let lanes = overlap::source(0..9)
        .blocking("first", |i| {
            if i == 1 {
                waits.store(true, Relaxed);
                spin_until(|| CancelToken::current().is_cancelled());
            }
            Ok(i)
        })
        .compute("second", |i| {
            spin_until(|| waits.load(Relaxed));
            assert!(!CancelToken::current().is_cancelled());
            if i == 0 { Err("no") } else { Ok(()) }
        });
    assert!(matches!(lanes.run(), Err(Failure::Error { tile: 0, lane: 1, error: "no", .. })));
}

#[test]
fn a_deadline_is_noticed_while_all_lanes_wait() {
    let (feeder, tiles) = overlap::fed::<u8, ()>();
    let token = CancelToken::after(Duration::from_millis(1));
    let failure = tiles.blocking("wait", Ok).compute("wait too", Ok).with_cancel(&token).collect().unwrap_err();
    assert!(matches!(failure, Failure::Cancelled { tiles: 0 }), "{failure:?}");
    drop(feeder);
}

#[test]
fn a_spawned_run_ends_when_its_handle_is_dropped() {
    let (sender, ended) = mpsc::channel();
    let (started, start) = mpsc::channel();
    let run = windrow::spawn_joinable(move || {
        let tiles = overlap::source(0..).blocking("count", |i: u64| {
            if i == 3 {
                started.send(()).unwrap();
            }
            Ok::<_, ()>(())
        });
        sender.send(tiles.run().is_err()).unwrap();
    });
    start.recv().unwrap();
    drop(run);
    assert!(ended.recv().unwrap());
}

#[test]
fn all_lanes_use_the_pool_of_the_caller() {
    let threads = Pool::new(3).install(|| {
        overlap::source([()])
            .blocking("helper", |()| Ok::<_, ()>(windrow::current_num_threads()))
            .compute("here", |there| Ok((there, windrow::current_num_threads())))
            .collect()
    });
    assert_eq!(threads.unwrap(), [(3, 3)]);
}

#[test]
fn runs_inside_of_regions_and_regions_inside_of_runs() {
    let outer = (0..8usize).into_par_iter().with_claim_size(1).map(|i| {
        let tiles = overlap::source(0..5usize)
            .blocking("a", |j| {
                Ok::<_, ()>((0..50usize).into_par_iter().with_claim_size(1).map(|k| k * j).sum::<usize>())
            })
            .compute("b", |sum| Ok((0..50usize).into_par_iter().with_claim_size(1).map(|k| k + sum).sum::<usize>()));
        tiles.collect().unwrap().into_iter().sum::<usize>() + i
    });
    let expected = |i| (0..5).map(|j| 1225 + 50 * 1225 * j).sum::<usize>() + i;
    assert_eq!(outer.collect::<Vec<_>>(), (0..8).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_trace_has_every_tile_of_every_lane_in_order() {
    let mut trace = Trace::new();
    let lanes = overlap::source(0..6)
        .blocking("read", Ok::<_, &str>)
        .compute_each("send", Ok)
        .compute("add", |i| if i == 4 { Err("no") } else { Ok(()) })
        .trace(&mut trace);
    assert!(lanes.run().is_err());
    let lanes: Vec<_> = trace.lanes.iter().map(|lane| (lane.name.as_str(), lane.kind)).collect();
    assert_eq!(lanes, [("read", LaneKind::Blocking), ("send", LaneKind::ComputeEach), ("add", LaneKind::Compute)]);
    assert_eq!(trace.lanes[2].tiles.len(), 5, "the failed one is the last");
    for (before, after) in trace.lanes.iter().zip(&trace.lanes[1..]) {
        for (before, after) in before.tiles.iter().zip(&after.tiles) {
            assert!(before.start.0 <= before.end.0 && before.end.0 <= after.start.0);
        }
    }
    for lane in &trace.lanes {
        assert!(lane.tiles.iter().all(|tile| tile.end.0 <= trace.wall.0));
        assert!(lane.tiles.is_sorted_by(|one, other| one.start.0 <= other.start.0));
    }
    let limits = trace.explain();
    assert!(limits.bound.0 <= limits.wall.0 && limits.efficiency() <= 1.0, "{limits}");
}

#[test]
#[should_panic(expected = "add a lane before this call")]
fn nothing_waits_before_the_first_lane() {
    let _ = overlap::source::<_, ()>(0..3).ahead(1);
}
