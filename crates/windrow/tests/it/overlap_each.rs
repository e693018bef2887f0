//! Lanes that take several tiles at once, and ordered results of serial iterators.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use windrow::overlap::{self, Failure, LaneKind, Trace};
use windrow::prelude::*;
use windrow::{CancelToken, Pool};
use windrow_testkit::overlaps::{Case, Fault, How, Inside, KINDS, Lane};
use windrow_testkit::spin_until;

/// Under Miri everything takes a thousand times as long.
const SMALL: bool = cfg!(miri);

/// Long enough that workers are let in.
fn long() {
    thread::sleep(Duration::from_micros(200));
}

/// Takes longer for some tiles than for others, so that later tiles end first.
fn uneven(tile: usize) {
    thread::sleep(Duration::from_micros(if tile.is_multiple_of(3) { 900 } else { 100 }));
}

#[test]
fn faults_in_pools_of_each_size_end_as_serial_runs() {
    let each = |ahead| Lane { kind: LaneKind::ComputeEach, ahead, inside: Inside::Nothing };
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            for seed in 0..if SMALL { 5 } else { 500 } {
                Case::random(seed, seed as usize % 3).check();
            }
            let kinds = KINDS.map(|kind| Lane { kind, ahead: 2, inside: Inside::Nothing });
            let lanes = [vec![each(1), each(3)], [vec![each(1)], kinds.to_vec()].concat()];
            for lanes in lanes {
                let all = if SMALL { 2 } else { 12 };
                for (tile, lane) in (0..all).flat_map(|tile| (0..lanes.len()).map(move |lane| (tile, lane))) {
                    for how in [How::Error, How::Panic, How::CancelToken] {
                        let faults = vec![Fault { tile, lane, how }];
                        Case { tiles: all, lanes: lanes.clone(), fed: tile % 2 == 0, faults }.check();
                    }
                }
            }
        });
    }
}

/// As many tiles are in the closure at once as the pool has threads, or the machine CPUs: each waits for the others, so with fewer this
/// hangs.
#[test]
fn all_members_of_the_pool_take_tiles() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let threads = threads.min(thread::available_parallelism().map_or(1, usize::from));
            let begun = AtomicUsize::new(0);
            let tiles = overlap::source(0..4 * threads).compute_each("meet", |tile| {
                begun.fetch_add(1, Relaxed);
                spin_until(|| begun.load(Relaxed) >= (tile / threads + 1) * threads);
                long();
                Ok::<_, ()>(tile)
            });
            assert_eq!(tiles.collect().unwrap(), (0..4 * threads).collect::<Vec<_>>());
        });
    }
}

#[test]
fn results_come_in_order_whichever_tile_ends_first() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let ended = Mutex::new(Vec::new());
            let mut seen = Vec::new();
            let tiles = overlap::source(0..60)
                .blocking("read", Ok::<usize, ()>)
                .compute_each("work", |tile| {
                    uneven(tile);
                    ended.lock().unwrap().push(tile);
                    Ok(tile)
                })
                .compute("keep", |tile| {
                    seen.push(tile);
                    Ok(())
                });
            assert_eq!(tiles.run().unwrap(), 60);
            assert_eq!(seen, (0..60).collect::<Vec<_>>());
            // Otherwise the order would prove nothing.
            assert_eq!(ended.into_inner().unwrap().is_sorted(), threads == 1);
        });
    }
}

/// The lane before one that does nothing until all tiles have begun that may: that many, and no more.
#[test]
fn the_bound_on_tiles_is_kept_and_used() {
    for (threads, ahead) in [(1, 1), (1, 4), (2, 1), (2, 3), (4, 2)] {
        Pool::new(threads).install(|| {
            // In the lane and behind it; a pool of one thread runs one tile, then waits for room.
            let bound = ahead + if threads == 1 { 0 } else { 2 * threads - 1 };
            let begun = AtomicUsize::new(0);
            let mut done = 0;
            let tiles = overlap::source(0..40usize)
                .compute_each("work", |tile| {
                    begun.fetch_add(1, Relaxed);
                    long();
                    Ok::<_, ()>(tile)
                })
                .ahead(ahead)
                .blocking("use", |_| {
                    let most = done + 1 + bound;
                    spin_until(|| begun.load(Relaxed) >= most.min(40));
                    assert!(begun.load(Relaxed) <= most, "{} of {most}", begun.load(Relaxed));
                    done += 1;
                    Ok(())
                });
            assert_eq!(tiles.run().unwrap(), 40);
        });
    }
}

#[test]
fn the_first_failure_in_order_is_reported_and_tiles_before_it_go_through() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let mut seen = Vec::new();
            let begun = AtomicUsize::new(0);
            let tiles = overlap::source(0..100usize)
                .compute_each("work", |tile| {
                    begun.fetch_add(1, Relaxed);
                    long();
                    // Tile 7 fails before tile 6 does, if a worker takes it. One that has left may come back after tile 6 only.
                    if tile == 6 && threads > 1 {
                        let since = Instant::now();
                        spin_until(|| begun.load(Relaxed) > 7 || since.elapsed() > Duration::from_millis(100));
                    }
                    if tile == 6 || tile == 7 { Err(tile) } else { Ok(tile) }
                })
                .blocking("write", |tile| {
                    seen.push(tile);
                    Ok(())
                });
            let failure = tiles.run().unwrap_err();
            assert_eq!(failure.to_string(), "tile 6 failed in lane 0 (work): 6");
            assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_with_its_payload() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads);
        pool.install(|| {
            for bad in [0, 1, 5, 19] {
                let tiles = overlap::source(0..20usize).compute_each("work", |tile| {
                    long();
                    if tile == bad {
                        resume_unwind(Box::new(tile));
                    }
                    Ok::<_, ()>(tile)
                });
                let payload = catch_unwind(AssertUnwindSafe(|| tiles.collect())).unwrap_err();
                assert_eq!(payload.downcast_ref(), Some(&bad));
            }
            // The pool stays usable.
            assert_eq!((0..1000u64).into_par_iter().with_claim_size(1).sum::<u64>(), 499_500);
        });
    }
}

/// A tile after the failed one waits for its token: without it this hangs.
#[test]
fn tiles_after_the_failed_one_hear_that_they_work_for_nothing() {
    Pool::new(2).install(|| {
        let waits = AtomicUsize::new(0);
        let tiles = overlap::source(0..2usize).compute_each("work", |tile| {
            if tile == 1 {
                waits.store(1, Relaxed);
                spin_until(|| CancelToken::current().is_cancelled());
                return Ok(());
            }
            spin_until(|| waits.load(Relaxed) == 1);
            assert!(!CancelToken::current().is_cancelled());
            Err("no")
        });
        assert!(matches!(tiles.run(), Err(Failure::Error { tile: 0, error: "no", .. })));
    });
}

#[test]
fn a_cancelled_run_ends_early() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let token = CancelToken::new();
            let begun = AtomicUsize::new(0);
            let tiles = overlap::source(0..).compute_each("work", |tile: usize| {
                begun.fetch_add(1, Relaxed);
                long();
                if tile == 10 {
                    token.cancel();
                }
                Ok::<_, ()>(())
            });
            assert!(matches!(tiles.with_cancel(&token).run(), Err(Failure::Cancelled { .. })));
            assert!(begun.load(Relaxed) < 11 + 3 * threads, "{begun:?}");
        });
    }
}

/// Tiles that come one at a time, after pauses in which workers leave: they come back.
#[test]
fn workers_that_have_left_come_back() {
    for threads in [2, 4] {
        Pool::new(threads).install(|| {
            let (mut feeder, tiles) = overlap::fed();
            let feeding = thread::spawn(move || {
                for round in 0..if SMALL { 2 } else { 5 } {
                    // Longer than workers wait for a tile.
                    thread::sleep(Duration::from_millis(20));
                    for tile in 0..20 {
                        feeder.push(round * 20 + tile).unwrap();
                    }
                }
            });
            let threads_seen = Mutex::new(Vec::new());
            let tiles = tiles.compute_each("work", |tile: usize| {
                let me = thread::current().id();
                threads_seen.lock().unwrap().push((tile / 20, me));
                // A tile lasts for a millisecond, and longer while no other member has come, who may have to wait for a CPU.
                let is_met = || threads_seen.lock().unwrap().iter().any(|&(at, id)| at == tile / 20 && id != me);
                for millis in 0..100 {
                    if millis > 0 && is_met() {
                        break;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                Ok::<_, ()>(tile)
            });
            let all = tiles.collect().unwrap();
            assert!(all.is_sorted());
            feeding.join().unwrap();
            let seen = threads_seen.into_inner().unwrap();
            for round in 0..all.len() / 20 {
                let mut members: Vec<_> = seen.iter().filter(|(at, _)| *at == round).map(|(_, id)| id).collect();
                members.sort_by_key(|id| format!("{id:?}"));
                members.dedup();
                assert!(members.len() > 1, "round {round} in a pool of {threads}");
            }
        });
    }
}

#[test]
fn regions_joins_and_runs_inside_of_tiles_and_runs_inside_of_regions() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let run = |tiles: usize| -> usize {
                let inner = overlap::source(0..tiles).compute_each("inner", |tile| {
                    let sum = (0..50usize).into_par_iter().with_claim_size(1).map(|i| i * tile).sum::<usize>();
                    let (one, other) = windrow::join(|| tile, || 1);
                    Ok::<_, ()>(sum + one + other)
                });
                inner.collect().unwrap().into_iter().sum()
            };
            let expected = |tiles: usize| (0..tiles).map(|tile| 1225 * tile + tile + 1).sum::<usize>();
            let outer = overlap::source(0..12usize).compute_each("outer", |tile| {
                long();
                Ok::<_, ()>(run(tile))
            });
            assert_eq!(outer.collect().unwrap(), (0..12).map(expected).collect::<Vec<_>>());
            let outer: Vec<_> = (0..12usize).into_par_iter().with_claim_size(1).map(run).collect();
            assert_eq!(outer, (0..12).map(expected).collect::<Vec<_>>());
            let (one, other) = windrow::join(|| run(9), || run(10));
            assert_eq!((one, other), (expected(9), expected(10)));
        });
    }
}

#[test]
fn more_runs_at_once_than_the_pool_has_lanes() {
    let pool = Pool::new(2);
    thread::scope(|scope| {
        for caller in 0..12usize {
            let pool = &pool;
            scope.spawn(move || {
                let tiles = pool.install(|| {
                    let tiles = overlap::source(0..20usize).compute_each("work", |tile| {
                        long();
                        Ok::<_, ()>(tile + caller)
                    });
                    tiles.collect().unwrap()
                });
                assert_eq!(tiles, (caller..20 + caller).collect::<Vec<_>>());
            });
        }
    });
}

#[test]
fn the_bound_of_a_trace_counts_the_work_of_all_members() {
    Pool::new(2).install(|| {
        let mut trace = Trace::new();
        let tiles = overlap::source(0..40usize).compute_each("work", |_| {
            thread::sleep(Duration::from_millis(1));
            Ok::<_, ()>(())
        });
        assert_eq!(tiles.trace(&mut trace).run().unwrap(), 40);
        let lane = &trace.lanes[0];
        assert_eq!((lane.kind, lane.members, lane.tiles.len()), (LaneKind::ComputeEach, 2, 40));
        let limits = trace.explain();
        assert_eq!((limits.serial, limits.bound), (lane.work(), windrow::Nanos(lane.work().0 / 2.0)));
        assert!(lane.work().0 >= 40e6 && limits.bound.0 <= limits.wall.0, "{limits}");
        assert!(limits.wall.0 < 0.9 * limits.serial.0, "tiles overlap: {limits}");
        // Two tiles at once are on two tracks.
        let json = trace.json();
        assert!(json.contains(r#""name":"lane work""#) && json.contains(r#""name":"lane work (2)""#), "{json}");
    });
}

#[test]
fn ordered_results_of_an_iterator_equal_the_serial_ones() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            for (items, ahead) in [(0, 1), (1, 1), (7, 1), (100, 1), (100, 3), (100, 64), (2000, 16)] {
                let f = |i: usize| {
                    if items <= 100 {
                        uneven(i);
                    }
                    i.wrapping_mul(i)
                };
                let serial: Vec<_> = (0..items).map(|i: usize| i.wrapping_mul(i)).collect();
                assert_eq!((0..items).par_map_ordered(ahead, f).collect::<Vec<_>>(), serial);
                let mut seen = Vec::new();
                (0..items).par_map_ordered(ahead, f).for_each(|i| seen.push(i));
                assert_eq!(seen, serial);
            }
        });
    }
}

#[test]
fn at_most_ahead_items_are_pulled_and_not_consumed() {
    for (threads, ahead) in [(1, 5), (2, 1), (2, 5), (4, 3)] {
        Pool::new(threads).install(|| {
            let (pulled, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let mut consumed = 0;
            let items = (0..60usize).inspect(|_| _ = pulled.fetch_add(1, Relaxed));
            let results = items.par_map_ordered(ahead, |i| {
                long();
                ended.fetch_add(1, Relaxed);
                i
            });
            let mut most = 0;
            results.for_each(|i| {
                assert_eq!(i, consumed);
                consumed += 1;
                if threads > 1 && i % 10 == 9 {
                    // Workers use all of it while the consumer is busy; but they may have left, if this thread was interrupted before.
                    let since = Instant::now();
                    let is_used = || ended.load(Relaxed) >= (consumed + ahead).min(60);
                    spin_until(|| is_used() || since.elapsed() > Duration::from_millis(100));
                }
                let pulled = pulled.load(Relaxed);
                assert!(pulled <= consumed + ahead, "{pulled} pulled, {consumed} consumed");
                most = most.max(pulled - consumed);
            });
            assert_eq!((consumed, threads == 1 || most == ahead), (60, true), "{most}");
        });
    }
}

#[test]
fn the_first_error_in_order_ends_an_endless_iterator() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            let mut sum = 0;
            let results = (0..).par_map_ordered(8, |i: u64| {
                uneven(i as usize);
                if i >= 20 { Err(i) } else { Ok(i) }
            });
            let failed = results.try_for_each(|result| {
                sum += result?;
                Ok::<_, u64>(())
            });
            assert_eq!((failed, sum), (Err(20), 190));
        });
    }
}

#[test]
fn panics_of_item_closure_and_consumer_reach_the_caller_in_order() {
    for threads in [1, 2, 4] {
        Pool::new(threads).install(|| {
            for place in 0..3 {
                let throw = |at: usize, i: usize| {
                    if at == place && i >= 11 {
                        resume_unwind(Box::new((at, i)));
                    }
                };
                let mut consumed = 0;
                let items = (0..40usize).inspect(|i| throw(0, *i));
                let results = items.par_map_ordered(4, |i| {
                    uneven(i);
                    throw(1, i);
                    i
                });
                let run = AssertUnwindSafe(|| {
                    results.for_each(|i| {
                        throw(2, i);
                        consumed += 1;
                    });
                });
                let payload = catch_unwind(run).unwrap_err();
                assert_eq!(payload.downcast_ref(), Some(&(place, 11_usize)));
                assert_eq!(consumed, 11);
            }
        });
    }
}

/// The iterator of a member blocks; meanwhile the calling thread consumes what is there.
#[test]
fn an_iterator_that_blocks_does_not_hold_up_results() {
    Pool::new(2).install(|| {
        let (send, items) = mpsc::channel();
        (0..4).for_each(|i| send.send(i).unwrap());
        let mut consumed = 0;
        let mut send = Some(send);
        items
            .into_iter()
            .par_map_ordered(2, |i: usize| {
                long();
                i
            })
            .for_each(|_| {
                consumed += 1;
                if consumed < 8 {
                    send.iter().for_each(|send| send.send(0).unwrap());
                } else {
                    send = None;
                }
            });
        assert_eq!(consumed, 11);
    });
}

#[test]
fn results_may_borrow_from_the_items() {
    let words = ["one".to_owned(), "two".to_owned()];
    let lengths: Vec<&str> = words.iter().par_map_ordered(2, |word| &word[..1]).collect();
    assert_eq!(lengths, ["o", "t"]);
}

#[test]
#[should_panic(expected = "at least one item must be allowed in flight")]
fn no_items_ahead_are_refused() {
    let _ = (0..3).par_map_ordered(0, |i| i);
}
