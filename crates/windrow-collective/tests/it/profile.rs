//! Profiles are measured, written and read; all ranks follow rank 0's.

use std::time::Duration;

use windrow_collective::{
    Calibration, Communicator, Error, Group, Link, Measured, Operation, Outcome, Profile, Shape, Stage, Tiles, Trace,
};
use windrow_tiling::cost::{Fitting, Joints};
use windrow_tiling::tile::{self, Contention, Lane, Margin, PlanVerdict};
use windrow_tiling::{Nanos, Rows};

use crate::common::{Case, OPERATIONS, on_all};

/// Linear costs: the fixed time of a tile and the time of a row, in microseconds.
fn profile(case: &Case, element: &str, compute: [f64; 2], communicate: [f64; 2]) -> Profile {
    let sample = |stage, [fixed, each]: [f64; 2], m: u64| Measured { stage, m, microseconds: fixed + each * m as f64 };
    let samples = [10, 20, 40, 80]
        .into_iter()
        .flat_map(|m| [sample(Stage::Compute, compute, m), sample(Stage::Communicate, communicate, m)]);
    let Case { operation, ranks, n, k, .. } = *case;
    let shape = Shape { operation, element: element.to_owned(), ranks, n, k };
    Profile::new(shape, samples.collect(), Contention::NONE).unwrap().align(4)
}

fn case(operation: Operation) -> Case {
    Case { operation, ranks: 3, each: 48, n: 5, k: 6, gap: 1 }
}

#[test]
fn rank_0_decides_whatever_others_think() {
    for operation in OPERATIONS {
        let case = case(operation);
        let results = on_all(Group::new(3).ranks(), |mut fused| {
            match fused.rank() {
                // Tiles are cheap.
                0 => fused.use_profile(profile(&case, "f64", [1.0, 5.0], [1.0, 5.0])),
                // Tiles are expensive.
                1 => fused.use_profile(profile(&case, "f64", [900.0, 5.0], [900.0, 5.0])),
                // No profile.
                _ => {}
            }
            let (result, outcome) = case.run::<f64, _>(&mut fused, &Tiles::Auto, true);
            case.compare(fused.rank(), &result, true);
            let outcome = outcome.unwrap();
            assert_eq!(outcome.plan.is_some(), fused.rank() == 0);
            (outcome.tiles, outcome.predicted)
        });
        assert!(results[0].0.len() > 1, "{}", results[0].0);
        assert_eq!(results, vec![results[0].clone(); 3]);
        // All but the last are aligned, and all can be dealt out to the ranks.
        let unit = operation.unit(3) as u64;
        assert!(results[0].0.iter().all(|tile| tile.0.is_multiple_of(unit)));
        assert!(results[0].0.iter().rev().skip(1).all(|tile| tile.0.is_multiple_of(4)));
        let plan = profile(&case, "f64", [1.0, 5.0], [1.0, 5.0]).plan(case.m() as u64).unwrap();
        assert_eq!(results[0], (plan.tiles, Some(plan.predicted)));
    }
}

#[test]
fn it_may_decide_not_to_tile() {
    let case = case(Operation::MatmulAllReduce);
    on_all(Group::new(3).ranks(), |mut fused| {
        fused.use_profile(profile(&case, "f32", [900.0, 5.0], [900.0, 5.0]));
        let outcome = case.run::<f32, _>(&mut fused, &Tiles::Auto, true).1.unwrap();
        assert_eq!(outcome.tiles, tile::Tiles::one(Rows(48)));
        assert!(outcome.plan.is_none_or(|plan| plan.verdict() == PlanVerdict::DoNotTile));
    });
}

#[test]
fn without_a_profile_no_rank_goes_on() {
    let case = case(Operation::AllGatherMatmul);
    let errors = on_all(Group::new(3).ranks(), |mut fused| {
        // A profile of another element, and one on a rank that does not decide.
        fused.use_profile(profile(&case, if fused.rank() == 0 { "f32" } else { "f64" }, [1.0, 5.0], [1.0, 5.0]));
        let error = case.run::<f64, _>(&mut fused, &Tiles::Auto, true).1.unwrap_err();
        fused.communicator().barrier().unwrap();
        error
    });
    let missing = Error::NoProfile { operation: Operation::AllGatherMatmul, element: "f64", n: 5, k: 6 };
    let refused = Error::Refused { rank: 0, why: missing.to_string() };
    assert_eq!(errors, [missing, refused.clone(), refused]);
}

/// Checks that a profile written and read is the same, bit by bit.
#[track_caller]
fn check_json(profile: &Profile) {
    let read: Profile = serde_json::from_str(&serde_json::to_string(profile).unwrap()).unwrap();
    assert_eq!(&read, profile);
}

/// Fits any times of a busy machine, with one piece, also where pieces have to meet.
const LENIENT: Fitting = Fitting { noise: 1e3, ..Fitting::UNLIMITED };

#[test]
fn calibration_gives_all_ranks_one_profile() {
    for operation in OPERATIONS {
        let how = Calibration { rows: vec![4, 8, 12, 16], tiles: 3, repeats: 2, fitting: LENIENT, align: 4 };
        let link = Link::new(2e9, Duration::from_micros(20));
        let profiles = on_all(Group::new(2).link(link).ranks(), |mut fused| {
            let profile = fused.calibrate::<f32>(operation, 5, 6, &how).unwrap();
            // The profile is usable.
            fused.use_profile(profile.clone());
            let case = Case { operation, ranks: 2, each: 30, n: 5, k: 6, gap: 0 };
            let (result, outcome) = case.run::<f32, _>(&mut fused, &Tiles::Auto, true);
            case.compare(fused.rank(), &result, true);
            let outcome = outcome.unwrap();
            let [tiles, call] = [outcome.predicted, outcome.predicted_call].map(Option::unwrap);
            assert!(tiles > Nanos(0.0) && (call.0 - tiles.0 - profile.fixed().0).abs() < 1.0);
            // The ranks compare their arguments, over the link, and meet at the end.
            assert!(profile.fixed() >= Nanos::micros(20.0));
            assert_eq!(fused.profiles().next().unwrap().errors().len(), 1);
            profile
        });
        assert_eq!(profiles[0], profiles[1]);
        let profile = &profiles[0];
        assert_eq!(profile.samples().len(), 2 * 2 * how.rows.len());
        let Contention { compute, communicate } = profile.contention();
        assert!(compute >= 1.0 && communicate >= 1.0);
        // A tile takes at least the latencies of its collective.
        let steps = if operation == Operation::MatmulAllReduce { 2.0 } else { 1.0 };
        let sent = profile.samples().iter().filter(|sample| sample.stage == Stage::Communicate);
        assert!(sent.into_iter().all(|sample| sample.microseconds >= steps * 20.0));
        check_json(profile);
    }
}

#[test]
fn the_sizes_of_the_default_are_those_that_are_measured() {
    let default = Calibration::default();
    assert_eq!(default.rows, [256, 512, 768, 1024, 2048]);
    assert_eq!((default.tiles, default.repeats, default.align), (4, 3, 128));
    assert_eq!(default.fitting, Fitting::UNLIMITED);
    let how = default;
    let profiles = on_all(Group::new(2).ranks(), |mut fused| {
        fused.calibrate::<f32>(Operation::MatmulReduceScatter, 3, 4, &how).unwrap()
    });
    for stage in [Stage::Compute, Stage::Communicate] {
        let sizes = profiles[0].samples().iter().filter(|sample| sample.stage == stage).map(|sample| sample.m);
        let thrice: Vec<u64> = (0..3).flat_map(|_| [256, 512, 768, 1024, 2048]).collect();
        assert_eq!(sizes.collect::<Vec<_>>(), thrice);
    }
}

#[test]
fn ranks_that_calibrate_differently_are_told_how() {
    let base = Calibration { rows: vec![4, 8, 12], tiles: 2, repeats: 1, fitting: LENIENT, align: 4 };
    let fitting = |change: fn(&mut Fitting)| {
        let mut other = base.clone();
        change(&mut other.fitting);
        other
    };
    for (other, said) in [
        (Calibration { tiles: 3, ..base.clone() }, "the number of consecutive tiles is 2 on rank 0, but 3 on rank 1"),
        (Calibration { repeats: 2, ..base.clone() }, "the number of repeats is 1 on rank 0, but 2 on rank 1"),
        (Calibration { align: 8, ..base.clone() }, "the alignment is 4 on rank 0, but 8 on rank 1"),
        (fitting(|fitting| fitting.tolerance = 0.25), "the tolerance of the fit is 0.1 on rank 0, but 0.25 on rank 1"),
        (fitting(|fitting| fitting.limit = 0.5), "the limit of the fit is 1000000 on rank 0, but 0.5 on rank 1"),
        (fitting(|fitting| fitting.noise = 0.5), "the noise of the fit is 1000 on rank 0, but 0.5 on rank 1"),
        (
            fitting(|fitting| fitting.joints = Joints::Continuous),
            "the kind of joints in the fit is free on rank 0, but continuous on rank 1",
        ),
        (Calibration { rows: vec![4, 8, 16], ..base.clone() }, "m is 24 on rank 0, but 28 on rank 1"),
    ] {
        let errors = on_all(Group::new(3).ranks(), |mut fused| {
            let how = if fused.rank() == 1 { &other } else { &base };
            let error = fused.calibrate::<f32>(Operation::MatmulAllReduce, 2, 2, how).unwrap_err();
            // The ranks go on together.
            fused.communicator().barrier().unwrap();
            error.to_string()
        });
        assert_eq!(errors, vec![format!("matmul-all-reduce: {said}"); 3]);
    }
}

#[test]
fn pieces_that_were_to_meet_do_so_when_they_are_read_again() {
    let fitting = Fitting { joints: Joints::Continuous, ..LENIENT };
    let how = Calibration { rows: vec![4, 8, 12], tiles: 2, repeats: 1, fitting, align: 4 };
    on_all(Group::new(1).ranks(), |mut fused| {
        let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, 2, 2, &how).unwrap();
        let json = serde_json::to_value(&profile).unwrap();
        assert_eq!(json["continuous"], true);
        check_json(&profile);
    });
}

#[test]
fn ranks_that_refine_differently_are_told_how() {
    let case = case(Operation::MatmulAllReduce);
    let [m, n, k] = [case.m(), case.n, case.k];
    for (others, said) in [
        (([m, n, k], 3), "the number of repeats is 2 on rank 0, but 3 on rank 1"),
        (([m + 4, n, k], 2), "m is 48 on rank 0, but 52 on rank 1"),
        (([m, n + 1, k], 2), "n is 5 on rank 0, but 6 on rank 1"),
    ] {
        let errors = on_all(Group::new(3).ranks(), |mut fused| {
            fused.use_profile(profile(&case, "f32", [1.0, 5.0], [2.0, 7.0]));
            let (of, repeats) = if fused.rank() == 0 { ([m, n, k], 2) } else { others };
            let error = fused.refine::<f32>(case.operation, of, repeats).unwrap_err();
            fused.communicator().barrier().unwrap();
            error.to_string()
        });
        assert_eq!(errors, vec![format!("matmul-all-reduce: {said}"); 3]);
    }
}

/// With linear costs, more tiles always gain a little, in the end less than the samples can tell.
#[test]
fn a_plan_of_fewer_tiles_says_what_it_gave_up() {
    let case = Case { operation: Operation::MatmulAllReduce, ranks: 2, each: 512, n: 5, k: 6, gap: 0 };
    for (compute, communicate, limit) in [
        ([0.1, 5.0], [0.1, 6.0], "communication is the bottleneck"),
        ([0.1, 6.0], [0.1, 5.0], "computation is the bottleneck"),
    ] {
        let profile = profile(&case, "f32", compute, communicate).min_tile(1);
        let plan = profile.plan(512).unwrap();
        let best = plan.alternatives.iter().find(|cut| cut.name == "best").expect("a better one is known");
        assert!(best.tiles.len() >= 2 * plan.tiles.len(), "{plan}");
        assert_eq!(profile.predict(512, &best.tiles).unwrap(), best.predicted);
        assert_eq!(profile.predict(512, &plan.tiles).unwrap(), plan.predicted);
        let noise = Fitting::default().noise;
        assert!(best.predicted < plan.predicted && plan.predicted.0 <= best.predicted.0 * (1.0 + noise), "{plan}");
        // No cut is better by more than the gap, and the gap is no larger than necessary.
        let above = plan.predicted.0 / best.predicted.0 - 1.0;
        assert!(plan.gap >= above * (1.0 - 1e-9) && plan.gap <= above + 0.0011, "{} {above}", plan.gap);
        let said = plan.to_string();
        assert!(
            said.contains(limit) && said.contains("the samples do not show that more tiles would be faster"),
            "{said}"
        );
        assert!(!said.contains("is better than this one") && said.contains("rows are at most "), "{said}");
        // No smaller limit was set.
        assert_eq!(plan.inputs.most_tiles, usize::MAX);
        assert_eq!(profile.clone().most_tiles(100).plan(512).unwrap().inputs.most_tiles, 100);
    }
    // Where the best cut is taken, the gap is 0.
    let plan = profile(&case, "f32", [200.0, 5.0], [900.0, 5.0]).plan(512).unwrap();
    assert!(plan.tiles.len() > 1 && plan.alternatives.iter().all(|cut| cut.name != "best"), "{plan}");
    assert!(plan.gap == 0.0 && plan.to_string().contains("no cut at multiples of 4 rows is better"), "{plan}");
}

#[test]
fn what_cannot_be_calibrated_is_refused_everywhere() {
    let calibrate = |rows: &[usize]| {
        let how = Calibration { rows: rows.to_vec(), tiles: 2, repeats: 1, fitting: LENIENT, align: 1 };
        let errors = on_all(Group::new(2).ranks(), |mut fused| {
            let error = fused.calibrate::<f64>(Operation::MatmulReduceScatter, 2, 2, &how).unwrap_err();
            fused.communicator().barrier().unwrap();
            error.to_string()
        });
        assert!(errors[1].contains(&errors[0]) || errors[0].contains(&errors[1]), "{errors:?}");
        errors[0].clone()
    };
    assert!(calibrate(&[2, 4]).contains("too few different sizes for a fit: 2"), "{}", calibrate(&[2, 4]));
    assert!(calibrate(&[]).contains("too few different sizes for a fit: 0"));
    assert!(calibrate(&[2, 3, 4]).contains("a tile of 3 rows cannot be divided evenly among 2 ranks"));
    assert!(calibrate(&[2, 0, 4]).contains("tile 1 has no rows"));
}

#[test]
fn the_best_of_three_is_kept() {
    let case = case(Operation::MatmulReduceScatter);
    let (m, of) = (case.m(), [case.m(), case.n, case.k]);
    let results = on_all(Group::new(3).ranks(), |mut fused| {
        if fused.rank() == 0 {
            fused.use_profile(profile(&case, "f32", [1.0, 5.0], [2.0, 7.0]));
        }
        let tried = fused.refine::<f32>(case.operation, of, 3).unwrap();
        let (result, outcome) = case.run::<f32, _>(&mut fused, &Tiles::Auto, true);
        case.compare(fused.rank(), &result, true);
        assert_eq!(outcome.unwrap().tiles, tried[0].tiles);
        if fused.rank() == 0 {
            let profile = fused.profiles().next().unwrap();
            assert_eq!(profile.refined(m as u64), Some(Tiles::Plan(tried[0].tiles.clone())));
            check_json(profile);
        }
        tried
    });
    let tried = &results[0];
    assert_eq!(tried.len(), 3);
    assert!(tried.windows(2).all(|pair| pair[0].took <= pair[1].took && pair[0].tiles != pair[1].tiles));
    let best = profile(&case, "f32", [1.0, 5.0], [2.0, 7.0]).plan(m as u64).unwrap();
    assert!(tried.iter().any(|tried| tried.tiles == best.tiles));
    assert_eq!(results, vec![tried.clone(); 3]);
}

#[test]
fn refining_needs_a_profile_and_rows_for_all() {
    let refine = |m| {
        on_all(Group::new(2).ranks(), |mut fused| {
            let error = fused.refine::<f32>(Operation::AllGatherMatmul, [m, 3, 3], 1).unwrap_err();
            fused.communicator().barrier().unwrap();
            error.to_string()
        })
    };
    assert!(refine(8).iter().all(|error| error.contains("no profile of all-gather-matmul for f32, n = 3, k = 3")));
    assert!(refine(9).iter().all(|error| error.contains("9 rows cannot be divided evenly among 2 ranks")));
}

#[test]
fn drift_is_noticed() {
    let case = case(Operation::MatmulAllReduce);
    let mut profile = profile(&case, "f32", [1.0, 5.0], [1.0, 5.0]);
    let outcome = |predicted: f64, took: f64| Outcome {
        predicted_call: None,
        tiles: tile::Tiles::one(Rows(1)),
        plan: None,
        predicted: Some(Nanos(predicted)),
        trace: Trace { end: Nanos(took), ..Trace::default() },
        elapsed: Nanos(took),
    };
    for _ in 0..7 {
        profile.observe(&outcome(2e6, 1e6));
    }
    assert!(!profile.needs_refit(), "seven say little");
    profile.observe(&Outcome { predicted: None, ..outcome(2e6, 1e6) });
    assert!(!profile.needs_refit(), "no prediction says nothing");
    profile.observe(&outcome(2e6, 1e6));
    assert!(profile.needs_refit());
    for _ in 0..8 {
        profile.observe(&outcome(1.05e6, 1e6));
    }
    assert!(!profile.needs_refit(), "half of them are right");
    profile.observe(&outcome(0.8e6, 1e6));
    profile.observe(&outcome(0.8e6, 1e6));
    assert_eq!(profile.errors().len(), 16);
    check_json(&profile);
}

/// A profile whose fit misses by more than the tolerance says so, and does not take its own error for a drift.
#[test]
fn a_loose_profile_knows_its_error() {
    let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".to_owned(), ranks: 2, n: 8, k: 8 };
    let bent = |by: f64| {
        let times = [(1, 100.0), (2, 200.0 * by), (4, 400.0)];
        let sample = |stage| times.map(|(m, microseconds)| Measured { stage, m: 100 * m, microseconds });
        let samples = [Stage::Compute, Stage::Communicate].into_iter().flat_map(sample).collect();
        Profile::new(shape.clone(), samples, Contention::NONE)
    };
    let mut loose = bent(1.3).unwrap();
    let error = loose.fit_error();
    assert!((0.1..0.3).contains(&error), "{error}");
    assert!(loose.plan(4096).is_ok());
    check_json(&loose);
    let outcome = |off: f64| Outcome {
        predicted_call: None,
        tiles: tile::Tiles::one(Rows(1)),
        plan: None,
        predicted: Some(Nanos(1e6 * (1.0 + off))),
        trace: Trace { end: Nanos(1e6), ..Trace::default() },
        elapsed: Nanos(1e6),
    };
    for _ in 0..16 {
        loose.observe(&outcome(error - 0.01));
    }
    assert!(!loose.needs_refit(), "the fit is off by as much");
    for _ in 0..16 {
        loose.observe(&outcome(error + 0.01));
    }
    assert!(loose.needs_refit());
    assert!(matches!(bent(5.0), Err(Error::FitError { lane: Lane::Compute, .. })));
    let slowed = bent(1.0).unwrap().with_contention(Contention { compute: 1.5, communicate: 2.0 }).unwrap();
    assert_eq!((slowed.contention().compute, slowed.contention().communicate), (1.5, 2.0));
    assert!(slowed.with_contention(Contention { compute: 0.5, communicate: 1.0 }).is_err());
}

/// Tiling is not the answer unless its gain exceeds what predictions are off by, whether samples or outcomes tell.
#[test]
fn a_cut_has_to_gain_more_than_predictions_are_off_by() {
    let case = Case { operation: Operation::MatmulAllReduce, ranks: 2, each: 512, n: 5, k: 6, gap: 0 };
    let fresh = profile(&case, "f32", [400.0, 5.0], [400.0, 5.0]);
    assert_eq!(fresh.margin(), Margin { error: 0.01, per_call: Nanos(0.0) });
    let plan = fresh.plan(512).unwrap();
    assert_eq!(plan.verdict(), PlanVerdict::Tile);
    let gain = plan.serial.0 / plan.predicted.0 - 1.0;
    assert!((0.1..1.0).contains(&gain), "{plan}");
    let not_to_tile = |profile: &Profile| {
        let plan = profile.plan(512).unwrap();
        assert!(plan.verdict() == PlanVerdict::Tile || plan.why.contains("within the error"), "{plan}");
        assert_eq!(plan.inputs.margin, profile.margin());
        plan.verdict() == PlanVerdict::DoNotTile
    };

    // Additional time of a call that is cut.
    let saved = plan.serial.0 - plan.predicted.0;
    for (share, expected) in [(0.5, false), (1.1, true), (-5.0, false)] {
        assert_eq!(not_to_tile(&fresh.clone().with_per_call(Nanos(share * saved))), expected, "{share}");
    }

    // Cuts that took longer than predicted, seven and then eight of them. One tile says nothing, nor do cuts that took less.
    let outcome = |tiles: &[u64], late: f64| Outcome {
        predicted_call: None,
        tiles: tile::Tiles::new(tiles.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap(),
        plan: None,
        predicted: Some(Nanos(1e6)),
        trace: Trace { end: Nanos(1e6 * (1.0 + late)), ..Trace::default() },
        elapsed: Nanos(1e6),
    };
    for (tiles, late, times, expected) in [
        (&[256, 256][..], gain + 0.01, 7, false),
        (&[256, 256], gain + 0.01, 8, true),
        (&[256, 256], gain - 0.02, 8, false),
        (&[256, 256], -0.5, 16, false),
        (&[512], gain + 0.01, 16, false),
    ] {
        let mut profile = fresh.clone();
        (0..times).for_each(|_| profile.observe(&outcome(tiles, late)));
        assert_eq!(not_to_tile(&profile), expected, "{tiles:?} {late} {times}");
        let error = if times >= 8 && tiles.len() > 1 { late.max(0.01) } else { 0.01 };
        assert!((profile.margin().error - error).abs() < 1e-6, "{:?}", profile.margin());
        check_json(&profile);
    }

    // Fits that usually miss by so much.
    let scattered = |off: f64| {
        let sample = |stage, place: usize, m: u64| {
            let off = if place.is_multiple_of(2) { 1.0 + off } else { 1.0 - off };
            Measured { stage, m, microseconds: off * (900.0 + 5.0 * m as f64) }
        };
        let samples = [32, 64, 128, 256, 512].into_iter().enumerate();
        let samples =
            samples.flat_map(|(place, m)| [Stage::Compute, Stage::Communicate].map(|lane| sample(lane, place, m)));
        Profile::new(fresh.shape().clone(), samples.collect(), Contention::NONE).unwrap().align(4)
    };
    let loose = scattered(0.08);
    let typical = [Lane::Compute, Lane::Communicate].map(|lane| loose.fit(lane).typical());
    assert_eq!(loose.margin().error, typical[0].max(typical[1]));
    assert!(loose.margin().error > 0.03 && loose.margin().error < loose.fit_error());
    assert!(not_to_tile(&loose) && !not_to_tile(&scattered(0.0)));
}

/// No time below the smallest sample is used unless the profile is told to.
/// Times that no fit comes near, for every possible tile: they are looked up, and their fit is no error of the plan.
#[test]
fn what_was_measured_for_all_tiles_is_looked_up() {
    let jagged = |m: u64| if m / 128 % 3 == 1 { 0.23 * m as f64 } else { 0.2 * m as f64 };
    let sample = |stage, m, microseconds| Measured { stage, m, microseconds };
    let samples = (1..=8).flat_map(|place| {
        let m = 128 * place;
        [sample(Stage::Compute, m, jagged(m)), sample(Stage::Communicate, m, 20.0 + 0.2 * m as f64)]
    });
    let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n: 64, k: 64 };
    let profile = Profile::new(shape, samples.collect(), Contention::NONE).unwrap();
    assert!(profile.fit(Lane::Compute).worst().relative().abs() > 0.03);
    let one = tile::Tiles::one(Rows(1024));
    let computed = profile.plan(1024).unwrap().inputs.compute;
    assert!((computed.as_micros() - jagged(1024)).abs() < 1e-6, "{computed}");
    assert!(profile.predict(1024, &one).unwrap() > computed);
    assert_eq!(
        (profile.margin_at(1024).error, profile.margin_at(1024)),
        (0.01, profile.plan(1024).unwrap().inputs.margin)
    );
    // A larger operation has tiles that were not measured.
    assert!(profile.margin_at(1152).error > 0.01 && profile.margin_at(1152) == profile.margin());
}

#[test]
fn tiles_are_no_smaller_than_what_was_measured() {
    let case = Case { operation: Operation::MatmulAllReduce, ranks: 2, each: 512, n: 5, k: 6, gap: 0 };
    let profile = profile(&case, "f32", [0.1, 5.0], [0.1, 6.0]);
    let shortest = |profile: &Profile| profile.plan(512).unwrap().tiles.iter().min().unwrap();
    assert_eq!(profile.plan(512).unwrap().inputs.min_tile, Rows(10));
    assert_eq!(shortest(&profile), Rows(12));
    assert!(shortest(&profile.clone().min_tile(0)) < Rows(12));
    assert!(shortest(&profile.clone().min_tile(50)) >= Rows(52));
    check_json(&profile.min_tile(50));
}

#[test]
fn profiles_that_cannot_be_are_not_read() {
    let good = serde_json::json!({
        "operation": "matmul-all-reduce", "element": "f32", "ranks": 2, "n": 8, "k": 8,
        "align": 16, "tolerance": 0.1, "noise": 0.01,
        "contention": {"compute": 1.2, "communicate": 1.0},
        "samples": [
            {"stage": "compute", "m": 1, "microseconds": 1.0},
            {"stage": "compute", "m": 2, "microseconds": 2.0},
            {"stage": "compute", "m": 3, "microseconds": 3.0},
            {"stage": "communicate", "m": 1, "microseconds": 2.0},
            {"stage": "communicate", "m": 2, "microseconds": 3.0},
            {"stage": "communicate", "m": 3, "microseconds": 4.0},
        ],
    });
    let read: Profile = serde_json::from_value(good.clone()).unwrap();
    assert_eq!(read.shape().operation, Operation::MatmulAllReduce);
    assert!((read.fit(Lane::Communicate).cost.at(Rows(10)).as_micros() - 11.0).abs() < 1e-6);
    for (path, value, why) in [
        ("/contention/compute", serde_json::json!(0.9), "the slowdown of the computation is 0.9"),
        ("/align", 0.into(), "aligned to 0 rows"),
        ("/noise", 0.into(), "the noise 0"),
        ("/samples/2/microseconds", serde_json::json!(-1.0), "the computation cannot be predicted"),
        ("/samples/5/m", 2.into(), "too few different sizes for a fit: 2"),
        ("/operation", "matmul".into(), "unknown variant `matmul`"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let error = serde_json::from_value::<Profile>(bad).unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
}
