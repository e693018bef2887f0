//! Profiles: measured, written, read, obeyed by all ranks.

use std::time::Duration;

use serde_json::Value;
use windrow::plan::cost::Fitting;
use windrow::plan::tile::{self, Contention, Lane, Verdict};
use windrow::plan::{Nanos, Rows};
use windrow_collective::{
    Calibration, Communicator, Error, Group, Link, Measured, Operation, Outcome, Profile, Shape, Stage, Tiles, Trace,
};

mod common;

use common::{Case, OPERATIONS, on_all};

/// Costs of straight lines: what a tile takes at least, and what each row takes, in microseconds.
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
                // They are not.
                1 => fused.use_profile(profile(&case, "f64", [900.0, 5.0], [900.0, 5.0])),
                // No idea.
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
        // All but the last are aligned, and all can be dealt out.
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
        assert!(outcome.plan.is_none_or(|plan| plan.verdict() == Verdict::DoNotTile));
    });
}

#[test]
fn without_a_profile_nobody_goes_on() {
    let case = case(Operation::AllGatherMatmul);
    let errors = on_all(Group::new(3).ranks(), |mut fused| {
        // Of another element, and on a rank that is not asked.
        fused.use_profile(profile(&case, if fused.rank() == 0 { "f32" } else { "f64" }, [1.0, 5.0], [1.0, 5.0]));
        let error = case.run::<f64, _>(&mut fused, &Tiles::Auto, true).1.unwrap_err();
        fused.communicator().barrier().unwrap();
        error
    });
    let missing = Error::NoProfile { operation: Operation::AllGatherMatmul, element: "f64", n: 5, k: 6 };
    let refused = Error::Refused { rank: 0, why: missing.to_string() };
    assert_eq!(errors, [missing, refused.clone(), refused]);
}

/// Whatever was measured on a busy machine can be fitted by that.
/// Written and read it is the same, but for the last bit of numbers: serde_json reads them exactly only with a feature.
fn check_json(profile: &Profile) {
    let read: Profile = serde_json::from_str(&serde_json::to_string(profile).unwrap()).unwrap();
    same(&serde_json::to_value(read).unwrap(), &serde_json::to_value(profile).unwrap());
}

#[track_caller]
fn same(read: &Value, written: &Value) {
    match (read, written) {
        (Value::Number(read), Value::Number(written)) => {
            let (read, written) = (read.as_f64().unwrap(), written.as_f64().unwrap());
            assert!((read - written).abs() <= 1e-14 * written.abs(), "{read} instead of {written}");
        }
        (Value::Array(read), Value::Array(written)) => {
            assert_eq!(read.len(), written.len());
            read.iter().zip(written).for_each(|(read, written)| same(read, written));
        }
        (Value::Object(read), Value::Object(written)) => {
            assert!(read.keys().eq(written.keys()));
            read.values().zip(written.values()).for_each(|(read, written)| same(read, written));
        }
        _ => assert_eq!(read, written),
    }
}

const LENIENT: Fitting = Fitting { tolerance: 1e6, noise: 1e3, joints: windrow::plan::cost::Joints::Free };

#[test]
fn calibration_gives_all_ranks_one_profile() {
    for operation in OPERATIONS {
        let how = Calibration { rows: vec![4, 8, 12, 16], tiles: 3, repeats: 2, fitting: LENIENT, align: 4 };
        let link = Link::new(2e9, Duration::from_micros(20));
        let profiles = on_all(Group::new(2).link(link).ranks(), |mut fused| {
            let profile = fused.calibrate::<f32>(operation, 5, 6, &how).unwrap();
            // It is good for something.
            fused.use_profile(profile.clone());
            let case = Case { operation, ranks: 2, each: 30, n: 5, k: 6, gap: 0 };
            let (result, outcome) = case.run::<f32, _>(&mut fused, &Tiles::Auto, true);
            case.compare(fused.rank(), &result, true);
            assert!(outcome.unwrap().predicted.unwrap() > Nanos(0.0));
            assert_eq!(fused.profiles().next().unwrap().errors().len(), 1);
            profile
        });
        assert_eq!(profiles[0], profiles[1]);
        let profile = &profiles[0];
        assert_eq!(profile.samples().len(), 2 * 2 * how.rows.len());
        let Contention { compute, communicate } = profile.contention();
        assert!(compute >= 1.0 && communicate >= 1.0);
        // A tile takes the latencies of its collective at least.
        let steps = if operation == Operation::MatmulAllReduce { 2.0 } else { 1.0 };
        let sent = profile.samples().iter().filter(|sample| sample.stage == Stage::Communicate);
        assert!(sent.into_iter().all(|sample| sample.microseconds >= steps * 20.0));
        check_json(profile);
    }
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
    assert!(calibrate(&[2, 4]).contains("2 different sizes are too few"), "{}", calibrate(&[2, 4]));
    assert!(calibrate(&[]).contains("0 different sizes are too few"));
    assert!(calibrate(&[2, 3, 4]).contains("a tile of 3 rows cannot be dealt out to 2 ranks"));
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
    assert!(refine(9).iter().all(|error| error.contains("9 rows cannot be dealt out to 2 ranks")));
}

#[test]
fn drift_is_noticed() {
    let case = case(Operation::MatmulAllReduce);
    let mut profile = profile(&case, "f32", [1.0, 5.0], [1.0, 5.0]);
    let outcome = |predicted: f64, took: f64| Outcome {
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
        ("/noise", 0.into(), "a noise of 0"),
        ("/samples/2/microseconds", serde_json::json!(-1.0), "the computation cannot be predicted"),
        ("/samples/5/m", 2.into(), "2 different sizes are too few"),
        ("/operation", "matmul".into(), "unknown variant `matmul`"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        let error = serde_json::from_value::<Profile>(bad).unwrap_err().to_string();
        assert!(error.contains(why), "{path}: {error}");
    }
}
