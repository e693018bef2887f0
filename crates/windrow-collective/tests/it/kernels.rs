//! A program's own kernels: what each function is given, and what a fault of one leaves behind.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use windrow_collective::{Calibration, Error, Kernels, Operation, Profile, Shape, Stage};
use windrow_tiling::cost::Fitting;
use windrow_tiling::tile::{Lane, Order, Tiles};
use windrow_tiling::{Nanos, Rows};

#[path = "../../examples/own_kernels.rs"]
mod own_kernels;

const ORDERS: [Order; 2] = [Order::ComputeFirst, Order::CommunicateFirst];

fn tiles(rows: &[u64]) -> Tiles {
    Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap()
}

#[test]
fn the_example_runs() {
    own_kernels::main().unwrap();
}

/// Every parcel passes both functions, in the order of the lanes, with the rows of its tile.
#[test]
fn parcels_go_from_lane_to_lane() {
    let mut kernels = Kernels::new().unwrap();
    for order in ORDERS {
        for rows in [&[][..], &[7], &[1, 2, 3], &[5; 20]] {
            let seen = Mutex::new(Vec::new());
            let step = |lane: Lane, rows: Range<usize>, parcel: &mut Vec<(Lane, Range<usize>)>| {
                parcel.push((lane, rows));
                if parcel.len() == 3 {
                    seen.lock().unwrap().push(parcel.clone());
                }
                Ok::<(), String>(())
            };
            let ran = kernels.run(
                order,
                &tiles(rows),
                |rows| vec![(Lane::Compute, rows)],
                |rows, parcel| step(Lane::Compute, rows, parcel),
                |rows, parcel| step(Lane::Communicate, rows, parcel),
            );
            let trace = ran.unwrap();
            assert_eq!([trace.compute.len(), trace.communicate.len()], [rows.len(); 2]);
            let seen = seen.into_inner().unwrap();
            assert_eq!(seen.len(), rows.len());
            let mut start = 0;
            for (parcel, &rows) in seen.iter().zip(rows) {
                let range = start..start + rows as usize;
                start = range.end;
                let lanes = match order {
                    Order::ComputeFirst => [Lane::Compute, Lane::Communicate],
                    Order::CommunicateFirst => [Lane::Communicate, Lane::Compute],
                };
                assert_eq!(parcel[1..], lanes.map(|lane| (lane, range.clone())));
                assert_eq!(parcel[0].1, range);
            }
        }
    }
}

/// An error or a panic at any tile of either lane is the error of the call; no further tile begins, every parcel is dropped once, and the next
/// call works.
#[test]
fn a_fault_stops_both_lanes() {
    struct Parcel<'a>(&'a AtomicUsize);
    impl Drop for Parcel<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    const COUNT: usize = 5;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref::<String>().is_none_or(|text| !text.starts_with("own kernel")) {
            hook(info);
        }
    }));
    let mut kernels = Kernels::new().unwrap();
    for order in ORDERS {
        for lane in [Lane::Compute, Lane::Communicate] {
            for (tile, panics) in (0..COUNT).flat_map(|tile| [(tile, false), (tile, true)]) {
                let (dropped, begun) = (AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 2]);
                let step = |of: Lane, rows: Range<usize>| {
                    begun[usize::from(of == Lane::Communicate)].fetch_add(1, Ordering::Relaxed);
                    match of == lane && rows.start == 3 * tile {
                        true if panics => panic!("own kernel of {rows:?}"),
                        true => Err(format!("own kernel of {rows:?}")),
                        false => Ok(()),
                    }
                };
                let ran = kernels.run(
                    order,
                    &tiles(&[3; COUNT]),
                    |_| Parcel(&dropped),
                    |rows, _| step(Lane::Compute, rows),
                    |rows, _| step(Lane::Communicate, rows),
                );
                let why = format!("own kernel of {}..{}", 3 * tile, 3 * tile + 3);
                assert_eq!(ran.unwrap_err(), Error::Stopped { lane, tile, panicked: panics, why });
                assert_eq!(dropped.load(Ordering::Relaxed), COUNT);
                assert_eq!(begun[usize::from(lane == Lane::Communicate)].load(Ordering::Relaxed), tile + 1);
            }
        }
    }
    let ran = kernels.run(
        Order::ComputeFirst,
        &tiles(&[1, 2]),
        |_| (),
        |_, ()| Ok::<(), Error>(()),
        |_, ()| Ok::<(), Error>(()),
    );
    assert_eq!(ran.unwrap().compute.len(), 2);
}

fn shape(operation: Operation) -> Shape {
    Shape { operation, element: "f32".to_owned(), ranks: 1, n: 1, k: 1 }
}

/// Functions that sleep: the profile has their times, whichever lane comes first, and says that they do not disturb each other.
#[test]
fn calibration_measures_both_functions() {
    let how =
        Calibration { rows: vec![2, 4, 8], tiles: 2, fitting: Fitting::UNLIMITED, align: 1, ..Calibration::default() };
    for operation in [Operation::MatmulAllReduce, Operation::AllGatherMatmul] {
        let mut kernels = Kernels::new().unwrap();
        let (made, largest) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let sleep = |rows: Range<usize>, each: u64| {
            largest.fetch_max(rows.end, Ordering::Relaxed);
            thread::sleep(Duration::from_micros(each * rows.len() as u64));
            Ok::<(), String>(())
        };
        let profile = kernels
            .calibrate(
                shape(operation),
                &how,
                |rows| {
                    made.fetch_add(rows.len(), Ordering::Relaxed);
                },
                |rows, ()| sleep(rows, 500),
                |rows, ()| sleep(rows, 1000),
            )
            .unwrap();
        assert_eq!(largest.into_inner(), 8, "no rows beyond the largest tile");
        assert!(made.into_inner() > 0);
        // A sleep is never too short.
        let least = |stage: Stage, each: f64| {
            let mut of = profile.samples().iter().filter(|sample| sample.stage == stage);
            assert!(of.all(|sample| sample.microseconds >= each * sample.m as f64), "{:?}", profile.samples());
        };
        least(Stage::Compute, 500.0);
        least(Stage::Communicate, 1000.0);
        // Whether cutting pays depends on how evenly this machine slept; `profile.rs` tests that on given times.
        let plan = profile.plan(64).unwrap();
        assert!(plan.tiles.total() == Rows(64) && plan.predicted <= plan.serial, "{plan}");
        assert_eq!(profile.fixed(), Nanos(0.0));
    }
}

#[test]
fn calibration_tells_what_is_wrong() {
    let mut kernels = Kernels::new().unwrap();
    let mut calibrate = |rows: &[usize], fails: Option<Lane>| -> Result<Profile, Error> {
        let how = Calibration { rows: rows.to_vec(), repeats: 1, ..Calibration::default() };
        let step = |lane| if fails == Some(lane) { Err("no network") } else { Ok(()) };
        kernels.calibrate(
            shape(Operation::MatmulAllReduce),
            &how,
            |_| (),
            |_, ()| step(Lane::Compute),
            |_, ()| step(Lane::Communicate),
        )
    };
    let zero = calibrate(&[4, 0, 8], None).unwrap_err();
    assert_eq!(zero.to_string(), "a tile without rows cannot be measured");
    assert!(matches!(calibrate(&[4, 8], None).unwrap_err(), Error::FitError { .. }));
    assert!(matches!(calibrate(&[], None).unwrap_err(), Error::FitError { .. }));
    for lane in [Lane::Compute, Lane::Communicate] {
        let why = "no network".to_owned();
        let expected = Error::Stopped { lane, tile: 0, panicked: false, why };
        assert_eq!(calibrate(&[2, 4, 8], Some(lane)).unwrap_err(), expected);
    }
}

/// Processes that communicate with each other do so equally often, and get one profile.
#[test]
fn processes_measure_together() {
    let (calls, exchange) = ([const { AtomicUsize::new(0) }; 2], Mutex::new([Vec::new(), Vec::new()]));
    let barrier = std::sync::Barrier::new(2);
    // What the two processes do here as threads.
    let shared: &'static _ = Box::leak(Box::new((calls, exchange, barrier)));
    let profiles = thread::scope(|scope| {
        let process = |rank: usize| {
            let (calls, exchange, barrier) = shared;
            let mut kernels = Kernels::new().unwrap();
            kernels.meet(move |values: &mut [f64]| {
                exchange.lock().unwrap()[rank] = values.to_vec();
                barrier.wait();
                let other = exchange.lock().unwrap()[1 - rank].clone();
                values.iter_mut().zip(other).for_each(|(value, other)| *value = value.max(other));
                barrier.wait();
                Ok(())
            });
            let how =
                Calibration { rows: vec![2, 4, 8], repeats: 1, fitting: Fitting::UNLIMITED, ..Calibration::default() };
            let compute = |rows: Range<usize>, (): &mut ()| {
                thread::sleep(Duration::from_micros((1 + rank as u64) * 100 * rows.len() as u64));
                Ok::<(), String>(())
            };
            // Every call waits for that of the other one: unequal numbers would hang.
            let communicate = |_: Range<usize>, (): &mut ()| {
                calls[rank].fetch_add(1, Ordering::Relaxed);
                barrier_of_two(calls, rank);
                Ok::<(), String>(())
            };
            kernels.calibrate(shape(Operation::MatmulAllReduce), &how, |_| (), compute, communicate).unwrap()
        };
        let other = scope.spawn(move || process(1));
        [process(0), other.join().unwrap()]
    });
    assert_eq!(profiles[0], profiles[1]);
    assert_eq!(shared.0[0].load(Ordering::Relaxed), shared.0[1].load(Ordering::Relaxed));
    let compute = profiles[0].samples().iter().find(|sample| (sample.stage, sample.m) == (Stage::Compute, 8)).unwrap();
    assert!(compute.microseconds >= 1600.0, "the times of the slower one: {compute:?}");
}

/// Waits until both have called equally often.
fn barrier_of_two(calls: &[AtomicUsize; 2], rank: usize) {
    let mine = calls[rank].load(Ordering::Relaxed);
    while calls[1 - rank].load(Ordering::Relaxed) < mine {
        thread::yield_now();
    }
}
