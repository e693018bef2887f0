//! Profiles follow a machine that changes.

use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use windrow_collective::{
    Communicator, Group, Link, MatMut, MatRef, Measured, Operation, Outcome, Profile, Refit, Shape, Stage, Tiles, Trace,
};
use windrow_tiling::cost::Cost;
use windrow_tiling::tile::{self, Contention, Lane, Problem, TileSpan};
use windrow_tiling::{Nanos, Rows};

use crate::common::on_all;

const M: u64 = 96;
const CONTENTION: Contention = Contention { compute: 1.3, communicate: 1.1 };

/// The fixed time of a tile and the time of a row, in microseconds.
type Line = [f64; 2];

const COMPUTE: Line = [4.0, 3.0];
const COMMUNICATE: Line = [9.0, 2.5];

fn shape(operation: Operation) -> Shape {
    Shape { operation, element: "f32".into(), ranks: 2, n: 8, k: 8 }
}

fn profile(operation: Operation, compute: Line, communicate: Line) -> Profile {
    let sample = |stage, [fixed, each]: Line, m: u64| Measured { stage, m, microseconds: fixed + each * m as f64 };
    let samples = [8, 16, 32, 64]
        .into_iter()
        .flat_map(|m| [sample(Stage::Compute, compute, m), sample(Stage::Communicate, communicate, m)]);
    Profile::new(shape(operation), samples.collect(), CONTENTION).unwrap().align(8)
}

/// A machine that behaves as the planner assumes, with different costs.
#[derive(Clone, Copy, Debug)]
struct Machine {
    operation: Operation,
    /// The factor by which each lane is slower than calibrated.
    slower: [f64; 2],
}

impl Machine {
    fn run(&self, profile: &Profile, m: u64) -> Outcome {
        let [compute, communicate] =
            [(COMPUTE, self.slower[0]), (COMMUNICATE, self.slower[1])].map(|(line, slower)| {
                Cost::affine(Nanos::micros(line[0] * slower), Nanos::micros(line[1] * slower)).unwrap()
            });
        let (compute, communicate) = (|rows| compute.at(rows), |rows| communicate.at(rows));
        let problem = Problem {
            order: self.operation.order(),
            contention: CONTENTION,
            ..Problem::new(Rows(m), &compute, &communicate)
        };
        let plan = profile.plan(m).unwrap();
        let timeline = problem.timeline(&plan.tiles).unwrap();
        let trace = Trace {
            compute: timeline.compute.clone(),
            communicate: timeline.communicate.clone(),
            paces: Vec::new(),
            end: timeline.end,
        };
        let (predicted, elapsed) = (Some(plan.predicted), timeline.end);
        Outcome { tiles: plan.tiles.clone(), plan: Some(plan), predicted, predicted_call: None, trace, elapsed }
    }
}

/// Observes `outcomes` operations. Returns the re-fits.
fn observe(profile: &mut Profile, outcomes: usize, mut run: impl FnMut(&Profile, usize) -> Outcome) -> Vec<Refit> {
    let mut refits = Vec::new();
    for place in 0..outcomes {
        let outcome = run(profile, place);
        profile.observe(&outcome);
        refits.extend(profile.refit().cloned());
    }
    refits
}

fn close(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-6
}

#[test]
fn a_lane_that_becomes_slower_is_found_and_scaled() {
    for operation in crate::common::OPERATIONS {
        for slower in [[2.0, 1.0], [1.0, 2.0], [0.4, 1.0], [1.7, 3.1]] {
            let mut profile = profile(operation, COMPUTE, COMMUNICATE);
            let (before, samples) = (profile.plan(M).unwrap(), profile.samples().to_vec());
            let usual = Machine { operation, slower: [1.0, 1.0] };
            assert_eq!(observe(&mut profile, 40, |profile, _| usual.run(profile, M)), []);
            // Nine of sixteen outcomes have to be off.
            let drifted = Machine { operation, slower };
            assert_eq!(observe(&mut profile, 8, |profile, _| drifted.run(profile, M)), []);
            let refits = observe(&mut profile, 1, |profile, _| drifted.run(profile, M));
            let [Refit { after: 49, compute, communicate, refused: None }] = refits[..] else {
                panic!("{operation}, {slower:?}: {refits:?}");
            };
            assert!(close(compute, slower[0]) && close(communicate, slower[1]), "{slower:?}: {refits:?}");
            assert!(profile.refits().eq(&refits) && profile.errors().len() == 0 && !profile.needs_refit());
            for (now, then) in profile.samples().iter().zip(&samples) {
                let lane = usize::from(now.stage == Stage::Communicate);
                assert!(close(now.microseconds, then.microseconds * slower[lane]), "{now:?}, {then:?}");
            }
            // The profile predicts correctly again, and plans for the new machine.
            assert_eq!(observe(&mut profile, 40, |profile, _| drifted.run(profile, M)), []);
            assert!(profile.errors().len() == 16 && profile.errors().all(|error| error.abs() < 1e-6));
            assert_ne!(profile.plan(M).unwrap().tiles, before.tiles, "{operation}, {slower:?}");
        }
    }
}

#[test]
fn what_comes_back_is_followed_back() {
    let operation = Operation::MatmulReduceScatter;
    let mut profile = profile(operation, COMPUTE, COMMUNICATE);
    let samples = profile.samples().to_vec();
    let [usual, slow] = [[1.0, 1.0], [1.0, 2.0]].map(|slower| Machine { operation, slower });
    let mut factors = Vec::new();
    for machine in [usual, slow, usual, slow, usual] {
        let refits = observe(&mut profile, 20, |profile, _| machine.run(profile, M));
        factors.extend(refits.iter().map(|refit| (refit.communicate, refit.refused.is_some())));
    }
    let rounded: Vec<_> = factors.iter().map(|(factor, refused)| ((factor * 1e6).round() / 1e6, *refused)).collect();
    assert_eq!(rounded, [(2.0, false), (0.5, false), (2.0, false), (0.5, false)]);
    for (now, then) in profile.samples().iter().zip(&samples) {
        assert!(close(now.microseconds, then.microseconds));
    }
}

/// In `-1.0..1.0`.
fn dice(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 11) as f64 / f64::powi(2.0, 52) - 1.0
}

#[test]
fn noise_and_bad_moments_change_nothing() {
    let operation = Operation::MatmulAllReduce;
    let (fresh, mut seed) = (profile(operation, COMPUTE, COMMUNICATE), 1);
    // Errors within the tolerance, at times; errors far beyond it, to both sides; and a bad moment for every third operation.
    type Moment = fn(usize, [f64; 2]) -> [f64; 2];
    let moments: [Moment; 3] = [
        |_, dice| dice.map(|dice| 1.0 + 0.15 * dice),
        |_, dice| dice.map(|dice| 1.0 + 0.3 * dice),
        |place, dice| dice.map(|dice| if place % 3 == 0 { 2.5 } else { 1.0 + 0.1 * dice }),
    ];
    for moment in moments {
        let mut profile = fresh.clone();
        let refits = observe(&mut profile, 500, |profile, place| {
            let slower = moment(place, [dice(&mut seed), dice(&mut seed)]);
            Machine { operation, slower }.run(profile, M)
        });
        assert!(refits.iter().all(|refit| refit.refused.is_some()), "{refits:?}");
        assert_eq!(profile.samples(), fresh.samples());
    }
    // Seven bad outcomes are too few, among sixteen or at the start.
    let (usual, bad) = ([1.0, 1.0], [1.0, 5.0]);
    for (place, outcomes) in [(0..7, 7), (30..37, 60)] {
        let mut profile = fresh.clone();
        let refits = observe(&mut profile, outcomes, |profile, at| {
            Machine { operation, slower: if place.contains(&at) { bad } else { usual } }.run(profile, M)
        });
        assert_eq!(refits, []);
    }
}

#[test]
fn drift_is_found_behind_noise() {
    let operation = Operation::MatmulAllReduce;
    let (mut profile, mut seed) = (profile(operation, COMPUTE, COMMUNICATE), 2);
    let refits = observe(&mut profile, 200, |profile, place| {
        let slower = if place < 100 { [1.0, 1.0] } else { [2.0, 1.0] };
        let sizes = [M, 64, 33, 80];
        Machine { operation, slower: slower.map(|slower| slower * (1.0 + 0.08 * dice(&mut seed))) }
            .run(profile, sizes[place % 4])
    });
    let [Refit { after: 100..=120, compute, communicate, refused: None }] = refits[..] else { panic!("{refits:?}") };
    assert!((1.85..2.15).contains(&compute) && (0.9..1.1).contains(&communicate), "{refits:?}");
}

#[test]
fn refined_cuts_are_forgotten_where_one_lane_has_changed() {
    let operation = Operation::MatmulAllReduce;
    for (slower, kept) in [([2.0, 1.0], false), ([1.0, 0.5], false), ([2.0, 2.0], true)] {
        let mut json = serde_json::to_value(profile(operation, COMPUTE, COMMUNICATE)).unwrap();
        json["refined"] = serde_json::json!([{"m": M, "tiles": [32, 64]}]);
        let mut profile: Profile = serde_json::from_value(json).unwrap();
        assert!(profile.refined(M).is_some());
        let refits = observe(&mut profile, 16, |profile, _| Machine { operation, slower }.run(profile, M));
        assert!(refits.len() == 1 && refits[0].refused.is_none(), "{refits:?}");
        assert_eq!(profile.refined(M).is_some(), kept, "{slower:?}");
    }
}

#[test]
fn what_no_factor_explains_is_refused_and_said() {
    let operation = Operation::MatmulAllReduce;
    let fresh = profile(operation, COMPUTE, COMMUNICATE);
    let machine = Machine { operation, slower: [1.0, 1.0] };
    type Change = fn(usize, &mut Outcome);
    let both_sides: Change = |place, outcome| {
        let predicted = outcome.predicted.as_mut().unwrap();
        predicted.0 *= if place.is_multiple_of(2) { 1.3 } else { 0.7 };
    };
    // The lanes took their predicted time, the operation more.
    let late: Change = |_, outcome| outcome.trace.end.0 *= 1.5;
    let nothing: Change = |_, outcome| {
        let span = |from: f64| vec![TileSpan { start: Nanos(from), end: Nanos(from + 1e-9) }];
        outcome.trace = Trace { compute: span(0.0), communicate: span(1e-9), paces: Vec::new(), end: Nanos(2e-9) };
    };
    for (change, why) in [
        (both_sides, "off in both directions"),
        (late, "predictions would still be off by 33.3 %, compared with 33.3 % before"),
        (nothing, "cannot be predicted: the time for 8 rows is 0 ns"),
    ] {
        let mut profile = fresh.clone();
        let refits = observe(&mut profile, 16, |profile, place| {
            let mut outcome = machine.run(profile, M);
            change(place, &mut outcome);
            outcome
        });
        // One re-fit for every eight outcomes.
        let places: Vec<u64> = refits.iter().map(|refit| refit.after).collect();
        assert_eq!(places, [8, 16]);
        let refused = refits.iter().map(|refit| refit.refused.as_deref().unwrap_or("not refused"));
        assert!(refused.clone().all(|refused| refused.contains(why)), "{:?}", refused.collect::<Vec<_>>());
        // Nothing else has changed, and the profile still reports the drift.
        assert_eq!(profile.samples(), fresh.samples());
        for lane in [Lane::Compute, Lane::Communicate] {
            assert_eq!(profile.fit(lane), fresh.fit(lane));
        }
        assert!(profile.needs_refit() && profile.errors().len() == 16);
        assert_eq!(profile.refits().cloned().collect::<Vec<_>>(), refits);
    }
}

#[test]
fn operations_without_rows_say_nothing() {
    let mut profile = profile(Operation::MatmulAllReduce, COMPUTE, COMMUNICATE);
    let empty = Outcome {
        tiles: tile::Tiles::default(),
        plan: None,
        predicted: Some(Nanos(0.0)),
        predicted_call: None,
        trace: Trace { end: Nanos(300.0), ..Trace::default() },
        elapsed: Nanos(300.0),
    };
    assert_eq!(observe(&mut profile, 40, |_, _| empty.clone()), []);
    assert!(profile.errors().len() == 0 && !profile.needs_refit());
}

/// Tiles one after the other, with costs above the fits by these factors.
fn one_by_one(profile: &Profile, slower: [f64; 2]) -> Outcome {
    let plan = profile.plan(M).unwrap();
    let (mut at, mut spans) = (0.0, [Vec::new(), Vec::new()]);
    for tile in plan.tiles.iter() {
        for (lane, of) in [Lane::Compute, Lane::Communicate].into_iter().enumerate() {
            let end = at + profile.fit(of).cost.at(tile).0 * slower[lane];
            spans[lane].push(TileSpan { start: Nanos(at), end: Nanos(end) });
            at = end;
        }
    }
    let [compute, communicate] = spans;
    let trace = Trace { compute, communicate, paces: Vec::new(), end: Nanos(at) };
    let (predicted, elapsed) = (Some(plan.predicted), Nanos(at));
    Outcome { tiles: plan.tiles.clone(), plan: Some(plan), predicted, predicted_call: None, trace, elapsed }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(32)))]

    /// Also without the feature float_roundtrip of serde_json, which this workspace does not turn on.
    #[test]
    fn what_is_written_is_read_bit_by_bit(
        each in (1e-4..1e6_f64, 1e-4..1e6_f64),
        scatter in prop::collection::vec((-0.01..0.01_f64, -0.01..0.01_f64), 4..12),
        contention in (1.0..4.0_f64, 1.0..4.0_f64),
        (tolerance, noise) in (0.03..0.4_f64, 1e-6..0.1_f64),
        slower in (0.3..3.0_f64, 0.3..3.0_f64),
        outcomes in 0..40_usize,
    ) {
        let samples = scatter.iter().enumerate().flat_map(|(place, scatter)| {
            let m = 8 * (place as u64 + 1);
            let sample = |stage, each: f64, off: f64| Measured { stage, m, microseconds: each * m as f64 * (1.0 + off) };
            [sample(Stage::Compute, each.0, scatter.0), sample(Stage::Communicate, each.1, scatter.1)]
        });
        let contention = Contention { compute: contention.0, communicate: contention.1 };
        let profile = Profile::new(shape(Operation::MatmulAllReduce), samples.collect(), contention).unwrap().align(8);
        let mut json = serde_json::to_value(profile).unwrap();
        (json["noise"], json["tolerance"]) = (noise.into(), tolerance.into());
        let mut profile: Profile = serde_json::from_value(json).unwrap();
        observe(&mut profile, outcomes, |profile, _| one_by_one(profile, slower.into()));
        let written = serde_json::to_string(&profile).unwrap();
        let read: Profile = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &profile);
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), written);
    }
}

/// Two ranks on a link. Each row computes for 0.2 ms on rank 0, and is communicated for about as long. The computation is a
/// sleep, so it takes no processor. The profile is wrong by far more than the delays of a busy machine.
#[test]
fn a_wrong_profile_is_put_right_by_operations() {
    const ROWS: usize = 64;
    let row = Duration::from_micros(200);
    // Of a row of 16 numbers, 64 bytes go through the link.
    let link = Link::new(64.0 / row.as_secs_f64(), Duration::from_micros(100));
    let each = row.as_secs_f64() * 1e6;
    let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n: 16, k: 1 };
    let sample = |stage, m: u64, microseconds: f64| Measured { stage, m, microseconds };
    // The computation is right; the link looks ten times as fast as it is.
    let samples = [8, 16, 32, 64].into_iter().flat_map(|m| {
        let times = [each * m as f64 + 60.0, (each * m as f64 + 200.0) / 10.0];
        [sample(Stage::Compute, m, times[0]), sample(Stage::Communicate, m, times[1])]
    });
    let wrong = Profile::new(shape, samples.collect(), Contention::NONE).unwrap().align(8);
    // Predictions count as right within two fifths.
    let mut json = serde_json::to_value(wrong).unwrap();
    json["tolerance"] = 0.4.into();
    let wrong: Profile = serde_json::from_value(json).unwrap();
    let first = wrong.plan(ROWS as u64).unwrap();
    let done = on_all(Group::new(2).link(link).ranks(), |mut fused| {
        let rank = fused.rank();
        if rank == 0 {
            fused.use_profile(wrong.clone());
        }
        let (a, b) = ([1.0_f32; ROWS], [2.0_f32; 16]);
        let mut used = Vec::new();
        // It takes 8 calls to detect the error, and 8 to see that the new fit is right. On a busy machine it takes more.
        for _ in 0..200 {
            if rank == 0 {
                let tiles = fused.profiles().next().unwrap().plan(ROWS as u64).unwrap().tiles;
                let tiles: Vec<u32> = tiles.iter().map(|tile| tile.0 as u32).collect();
                fused.watch(move |lane, tile| {
                    if lane == Lane::Compute {
                        thread::sleep(row * tiles[tile]);
                    }
                    Ok(())
                });
            }
            let mut c = [0.0; ROWS * 16];
            let (a, b) = (MatRef::new(&a, ROWS, 1), MatRef::new(&b, 1, 16));
            let outcome = fused.matmul_all_reduce(a, b, MatMut::new(&mut c, ROWS, 16), &Tiles::Auto).unwrap();
            assert!(c.iter().all(|&sum| sum == 4.0));
            used.push(outcome.tiles);
            let mut right = [0_u64];
            if let Some(profile) = fused.profiles().next() {
                let again = profile.refits().any(|refit| refit.refused.is_none());
                right[0] = u64::from(again && profile.errors().len() >= 8 && !profile.needs_refit());
            }
            fused.communicator().broadcast(0, &mut right).unwrap();
            if right[0] == 1 {
                let profile = fused.profiles().next().cloned();
                return (used, profile);
            }
        }
        panic!(
            "after 200 calls: {:?}",
            fused.profiles().next().map(|profile| profile.refits().cloned().collect::<Vec<_>>())
        );
    });
    // All ranks ran the same tiles, and not those they began with.
    assert_eq!(done[0].0, done[1].0);
    let (used, profile) = &done[0];
    let profile = profile.as_ref().expect("rank 0 has one");
    assert_eq!(used[0], first.tiles);
    assert_ne!(used.last(), Some(&first.tiles));
    // Errors seen since have changed what a plan has to gain, so a new plan may differ; but by the new fit, these tiles pay or are one.
    let predicted = profile.predict(ROWS as u64, used.last().expect("calls were made")).unwrap();
    assert!(predicted <= profile.plan(ROWS as u64).unwrap().serial);
    let factor: f64 = profile.refits().filter(|refit| refit.refused.is_none()).map(|refit| refit.communicate).product();
    assert!((4.0..25.0).contains(&factor), "{:?}", profile.refits().collect::<Vec<_>>());
}
