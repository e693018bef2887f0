//! Fits compared with the functions that their samples come from, and refusals.

use proptest::prelude::*;
use windrow_tiling::cost::{Cost, CostError, FINE, Fit, FitError, Fitting, Joints, Piece, Sample, Size, fit};
use windrow_tiling::{Bytes, Nanos, Rows};

fn samples(given: &[(u64, f64)]) -> Vec<Sample<Rows>> {
    given.iter().map(|&(rows, nanos)| Sample { size: Rows(rows), time: Nanos(nanos) }).collect()
}

fn sampled(sizes: impl IntoIterator<Item = u64>, mut time: impl FnMut(f64) -> f64) -> Vec<Sample<Rows>> {
    sizes.into_iter().map(|rows| Sample { size: Rows(rows), time: Nanos(time(rows as f64)) }).collect()
}

fn fitted(samples: &[Sample<Rows>]) -> Fit<Rows> {
    fit(samples, &Fitting::default()).unwrap_or_else(|fault| panic!("{fault}"))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1.0)
}

#[test]
fn a_line_is_one_piece_and_goes_on_straight() {
    let found = fitted(&sampled([256, 512, 768, 1024, 2048], |x| 900.0 + 7.5 * x));
    let [piece] = found.cost.pieces() else { panic!("{}", found.cost) };
    assert!(close(piece.at.0, 900.0) && close(piece.slope, 7.5) && piece.curve == 0.0, "{piece:?}");
    assert!(close(found.cost.at(Rows(4096)).0, 900.0 + 7.5 * 4096.0) && close(found.cost.at(Rows(0)).0, 900.0));
    assert_eq!(found.measured(), (Rows(256), Rows(2048)));
    assert!(found.worst().relative().abs() < 1e-9 && found.typical() < 1e-9);
    assert_eq!(found.noise, Fitting::default().noise);
}

#[test]
fn times_without_a_fixed_part_go_through_zero_and_constant_ones_stay() {
    let found = fitted(&sampled([128, 512, 1024], |x| 196.08 * x));
    assert_eq!(
        found.cost.pieces(),
        [Piece { slope: found.cost.pieces()[0].slope, ..Piece::polynomial(Rows(0), [0.0; 3]) }]
    );
    assert!(close(found.cost.pieces()[0].slope, 196.08));
    let flat = fitted(&samples(&[(1, 5000.0), (64, 5000.0), (128, 5000.0), (256, 5000.0)]));
    assert!(flat.cost.pieces().len() == 1 && close(flat.cost.at(Rows(1 << 40)).0, 5000.0));
    // Noise with which a free line would be negative at 0, or fall.
    let below = fitted(&samples(&[(100, 99.0), (200, 201.0), (300, 303.0), (400, 405.0)]));
    assert!(below.cost.at(Rows(0)).0 >= 0.0);
}

/// The guide's function: a parabola below 8 MiB, a line beyond.
#[test]
fn a_parabola_and_a_line_are_told_apart_where_they_meet() {
    const MIB: u64 = 1 << 20;
    let function =
        |x: f64| if x < 8.0 { 14.769 + 27.0622573 * x - 0.9698202 * x * x } else { 61.508333 + 13.58491263 * x };
    let sizes = (1..8).chain((8..=64).step_by(8));
    let samples: Vec<_> =
        sizes.map(|mib| Sample { size: Bytes(mib * MIB), time: Nanos::micros(function(mib as f64)) }).collect();
    let found = fit(&samples, &Fitting { noise: 0.001, ..Fitting::default() }).unwrap();
    let [small, large] = found.cost.pieces() else { panic!("{}", found.cost) };
    assert!(
        close(small.at.as_micros(), 14.769) && close(small.curve * (MIB * MIB) as f64 / 1e3, -0.9698202),
        "{small:?}"
    );
    assert!(
        (7 * MIB..=8 * MIB).contains(&large.from.0) && close(large.slope * MIB as f64 / 1e3, 13.58491263),
        "{large:?}"
    );
    assert!(found.worst().relative().abs() < 1e-6);
    let rows = found.cost.in_rows(Bytes(2 * 8192));
    assert!((rows.at(Rows(384)).as_micros() - 142.2).abs() < 0.05);
}

#[test]
fn a_jump_is_a_jump_unless_pieces_have_to_meet() {
    // The protocol changes after 16: 40 % more at once.
    let step = |x: f64| if x <= 16.0 { 1000.0 + 10.0 * x } else { 1600.0 + 12.0 * x };
    let samples = sampled((1..=16).chain([24, 32, 48, 64, 96, 128]), step);
    let found = fitted(&samples);
    let [_, large] = found.cost.pieces() else { panic!("{}", found.cost) };
    assert_eq!(large.from, Rows(20), "halfway between two samples");
    assert!(found.worst().relative().abs() < 1e-9);
    let continuous = Fitting { joints: Joints::Continuous, limit: 0.5, ..Fitting::default() };
    let found = fit(&samples, &continuous).unwrap();
    let [small, large] = found.cost.pieces() else { panic!("{}", found.cost) };
    let end = small.at.0 + small.slope * large.from.0 as f64 + small.curve * (large.from.0 as f64).powi(2);
    assert!(close(end, large.at.0), "{}", found.cost);
    assert!(found.typical() > 0.01);
}

#[test]
fn pieces_that_meet_are_found_exactly_when_they_do() {
    let bend = |x: f64| if x < 100.0 { 500.0 + 2.0 * x } else { 700.0 + 9.0 * (x - 100.0) };
    let samples = sampled((0..=20).map(|i| 10 + 14 * i), bend);
    for joints in [Joints::Free, Joints::Continuous] {
        let found = fit(&samples, &Fitting { joints, ..Fitting::default() }).unwrap();
        let [small, large] = found.cost.pieces() else { panic!("{}", found.cost) };
        assert!(large.from == Rows(100) || large.from == Rows(101), "{joints:?}: {}", found.cost);
        assert!(
            close(small.at.0, 500.0) && close(small.slope, 2.0) && close(large.slope, 9.0),
            "{joints:?}: {}",
            found.cost
        );
    }
}

#[test]
fn repeated_samples_count_once_and_say_how_noisy_they_are() {
    let mut all = Vec::new();
    for (place, factor) in [0.95, 1.0, 1.02, 1.4, 0.99].into_iter().enumerate() {
        let sizes: Vec<u64> = if place % 2 == 0 { vec![64, 128, 256, 512] } else { vec![512, 256, 128, 64] };
        all.extend(sampled(sizes, |x| factor * (100.0 + 3.0 * x)));
    }
    let found = fitted(&all);
    assert_eq!(found.residuals.len(), 4);
    // The medians are exact, whatever the one bad run of five measured.
    assert!(found.worst().relative().abs() < 1e-9);
    assert!((0.15..0.25).contains(&found.noise), "{}", found.noise);
}

#[test]
fn noise_is_not_worth_a_piece() {
    // A line with 3 % noise in either direction; the assumed noise is 3 %.
    let mut sign = 1.0;
    let all = sampled((1..=40).map(|i| 64 * i), |x| {
        sign = -sign;
        (2000.0 + 5.0 * x) * (1.0 + 0.03 * sign)
    });
    let found = fit(&all, &Fitting { noise: 0.03, ..Fitting::default() }).unwrap();
    assert_eq!(found.cost.pieces().len(), 1, "{}", found.cost);
    assert!((found.typical() - 0.03).abs() < 0.002);
}

#[test]
fn what_does_not_fit_is_refused_with_the_residual_and_the_place() {
    let outlier = samples(&[(100, 100.0), (200, 300.0), (400, 310.0)]);
    let strict = Fitting { limit: 0.1, ..Fitting::default() };
    let Err(fault @ FitError::Misses { residual, limit }) = fit(&outlier, &strict) else { panic!("an outlier fits") };
    assert!(residual.relative().abs() > limit && limit == 0.1);
    let said = fault.to_string();
    assert!(said.contains(&format!("for {} rows", residual.size)) && said.contains("is off by"), "{said}");
    assert!(fit(&outlier, &Fitting { limit: 0.4, ..Fitting::default() }).is_ok());
}

/// Beyond the tolerance a fit is loose and says so; beyond the limit it is refused; without a limit a fit always exists.
#[test]
fn a_loose_fit_is_a_fit() {
    let bent = |by: f64| samples(&[(100, 100.0), (200, 200.0 * by), (400, 400.0)]);
    assert_eq!(fitted(&bent(1.02)).loose(), None);
    let loose = fitted(&bent(1.3));
    let worst = loose.loose().expect("it misses a sample by more than a tenth");
    assert!(worst == loose.worst() && (0.1..0.3).contains(&worst.relative().abs()), "{worst:?}");
    assert!(matches!(fit(&bent(5.0), &Fitting::default()), Err(FitError::Falls { .. } | FitError::Misses { .. })));
    for wild in [bent(5.0), bent(1000.0), samples(&[(1, 900.0), (2, 30.0), (3, 1.0), (4, 500.0)])] {
        let found = fit(&wild, &Fitting::UNLIMITED).expect("without a limit");
        assert!(found.loose().is_some());
        assert_eq!(Cost::new(found.cost.pieces().to_vec()), Ok(found.cost));
    }
}

/// Comparing all divisions of twenty thousand sizes would take a minute, so not all are compared. The pieces are still the true ones.
#[test]
fn many_sizes_are_fitted_as_few() {
    let truth = |x: f64| match x {
        x if x < 3_217.0 => 1000.0 + 2.0 * x,
        x if x < 11_003.0 => 20_000.0 + 3.0 * x,
        _ => 53_009.0 + 9.0 * (x - 11_003.0),
    };
    for sizes in [FINE as u64 + 1, 2 * FINE as u64 - 1, 20_000] {
        let step = 20_000 / sizes;
        let all = sampled((1..=sizes).map(|i| i * step), truth);
        for joints in [Joints::Free, Joints::Continuous] {
            // Continuous pieces cannot jump, and meet at a whole number of rows.
            let within = if joints == Joints::Free { 1e-6 } else { 0.01 };
            let truth =
                |x: f64| if joints == Joints::Free { truth(x) } else { 1000.0 + 2.0 * x + (x - 3_217.0).max(0.0) };
            let all = if joints == Joints::Free { all.clone() } else { sampled((1..=sizes).map(|i| i * step), truth) };
            let found = fit(&all, &Fitting { joints, ..Fitting::default() }).unwrap_or_else(|fault| panic!("{fault}"));
            assert_eq!(found.residuals.len() as u64, sizes);
            assert!(found.worst().relative().abs() < within, "{sizes} {joints:?}: {} {:?}", found.cost, found.worst());
            assert_eq!(found.cost.pieces().len(), if joints == Joints::Free { 3 } else { 2 }, "{}", found.cost);
        }
    }
}

#[test]
fn impossible_samples_are_refused() {
    let refused = |given: &[(u64, f64)]| fit(&samples(given), &Fitting::default()).expect_err("impossible").to_string();
    for few in [&[][..], &[(1, 1.0)], &[(1, 1.0), (2, 2.0)], &[(1, 1.0), (1, 1.0), (1, 1.1), (2, 2.0)]] {
        assert!(refused(few).contains("too few different sizes"), "{few:?}");
    }
    assert!(refused(&[(1, 1.0), (2, -3.0), (3, 4.0)]).contains("the time for 2 rows is -3 ns, which is impossible"));
    assert!(refused(&[(1, 1.0), (2, 0.0), (3, 4.0)]).contains("the time for 2 rows is 0 ns"));
    assert!(refused(&[(1, 1.0), (2, f64::NAN), (3, 4.0)]).contains("the time for 2 rows is NaN ns"));
    assert!(refused(&[(1, 1.0), (2, f64::INFINITY), (3, 4.0)]).contains("inf ns"));
    // The time of 512 is far below that of 256, but above that of 128; the samples are unsorted.
    let falling = [(512, 150.0), (128, 100.0), (256, 300.0), (1024, 600.0)];
    assert!(refused(&falling).contains("512 rows take less time (150 ns) than 256 (300 ns)"), "{}", refused(&falling));
    // Not next to each other.
    let later = refused(&[(1, 100.0), (2, 300.0), (3, 300.0), (4, 153.0)]);
    assert!(later.contains("4 rows take less time (153 ns) than 2 (300 ns)"), "{later}");
    // A small decrease is noise.
    assert!(fitted(&samples(&[(1, 300.0), (2, 300.0), (3, 300.0), (4, 293.0)])).loose().is_none());
    // Repeated samples that overlap are noise; equal times do not fall.
    let noisy = samples(&[(1, 100.0), (1, 104.0), (2, 99.0), (2, 101.0), (3, 103.0), (4, 103.0), (5, 103.0)]);
    assert!(fit(&noisy, &Fitting::default()).is_ok());
    for wrong in [Fitting { tolerance: 0.0, ..Fitting::default() }, Fitting { noise: f64::NAN, ..Fitting::default() }] {
        let fault = fit(&noisy, &wrong).map(drop).expect_err("no share");
        assert!(fault.to_string().contains("finite numbers above 0"), "{fault}");
    }
}

#[test]
fn a_piece_is_the_polynomial_it_was_made_of() {
    for from in [0, 1, 512, 100_000] {
        let (piece, c) = (Piece::polynomial(Rows(from), [1500.0, 200.0, 0.25]), [1500.0, 200.0, 0.25]);
        let same = piece.coefficients().into_iter().zip(c).all(|(a, b)| (a / b - 1.0).abs() < 1e-5);
        assert!(same, "{from}: {:?}", piece.coefficients());
    }
}

#[test]
fn pieces_by_hand_are_checked() {
    let piece = |from, at, slope, curve| Piece { from: Rows(from), at: Nanos(at), slope, curve };
    let cost = Cost::new(vec![piece(0, 10.0, 2.0, 0.0), piece(100, 50.0, 0.0, 0.5)]).unwrap();
    // A jump down is allowed: a larger size may use a better protocol.
    let at = [0, 99, 100, 110].map(|rows| cost.at(Rows(rows)).0);
    assert_eq!(at, [10.0, 208.0, 50.0, 100.0]);
    assert_eq!(Cost::new(cost.pieces().to_vec()).as_ref(), Ok(&cost));
    assert_eq!(
        cost.to_string(),
        "from 0 rows: 10 ns + 2.0000 ns each; from 100 rows: 50 ns + 0.0000 ns each + 5.000e-1 ns each squared"
    );
    for (pieces, said) in [
        (vec![], "no pieces"),
        (vec![piece(1, 0.0, 1.0, 0.0)], "begins at 1 row"),
        (vec![piece(0, 0.0, 1.0, 0.0); 2], "piece 1 of a cost does not begin later than"),
        (vec![piece(0, f64::NAN, 1.0, 0.0)], "piece 0 of a cost has a coefficient that is not a finite number"),
        (vec![piece(0, -1.0, 1.0, 0.0)], "is negative or decreasing"),
        (vec![piece(0, 1.0, -1.0, 0.0)], "is negative or decreasing"),
        (vec![piece(0, 1.0, 5.0, -0.1)], "a straight line that is not negative and does not fall"),
        (vec![piece(0, 1.0, 5.0, -0.1), piece(26, 0.0, 0.0, 0.0)], "is negative or decreasing between 0 and 26 rows"),
    ] {
        let fault: CostError<Rows> = Cost::new(pieces).expect_err(said);
        assert!(fault.to_string().contains(said), "{fault}");
    }
    assert!(Cost::<Bytes>::affine(Nanos(1.0), Nanos(-1.0)).is_err());
}

#[test]
fn pieces_between_two_rows_are_left_out() {
    let piece = |from, at| Piece { from: Bytes(from), at: Nanos(at), slope: 1.0, curve: 0.0 };
    let cost = Cost::new(vec![piece(0, 0.0), piece(110, 500.0), piece(190, 700.0)]).unwrap();
    let rows = cost.in_rows(Bytes(100));
    assert_eq!(rows.pieces().iter().map(|piece| piece.from).collect::<Vec<_>>(), [Rows(0), Rows(2)]);
    for row in 0..10 {
        assert!(close(rows.at(Rows(row)).0, cost.at(Bytes(100 * row)).0));
    }
}

prop_compose! {
    /// Up to three rising lines and parabolas, by hundreds of rows.
    fn truth()(
        cuts in prop::collection::btree_set(5_u64..40, 0..=2),
        shapes in prop::collection::vec((0.0..200.0_f64, 0.01..20.0_f64, 0.0..0.05_f64, any::<bool>()), 3),
    ) -> Cost<Rows> {
        let mut from = vec![0];
        from.extend(cuts);
        let mut at = 50.0;
        let mut pieces = Vec::new();
        for (place, (&begin, (jump, slope, curve, bent))) in from.iter().zip(shapes).enumerate() {
            let piece = Piece { from: Rows(100 * begin), at: Nanos(at + jump), slope, curve: if bent { curve } else { 0.0 } };
            let d = from.get(place + 1).map_or(0.0, |next| 100.0 * (next - begin) as f64);
            at = piece.at.0 + d * (piece.slope + d * piece.curve);
            pieces.push(piece);
        }
        Cost::new(pieces).expect("all rise")
    }
}

proptest! {
    /// A fit passes near its samples, rises, and is a valid cost function, whatever the true function is.
    #[test]
    fn a_fit_is_near_its_samples_or_refused(truth in truth(), noise in prop::collection::vec(-0.01..0.01_f64, 60)) {
        let all: Vec<_> = (1..=60_u64)
            .map(|i| Sample { size: Rows(100 * i), time: Nanos(truth.at(Rows(100 * i)).0 * (1.0 + noise[i as usize - 1])) })
            .collect();
        match fit(&all, &Fitting { limit: 0.1, ..Fitting::default() }) {
            Ok(found) => {
                prop_assert!(found.worst().relative().abs() <= 0.1);
                prop_assert_eq!(Cost::new(found.cost.pieces().to_vec()), Ok(found.cost.clone()));
                for (residual, sample) in found.residuals.iter().zip(&all) {
                    prop_assert_eq!((residual.size, residual.measured), (sample.size, sample.time));
                    prop_assert_eq!(residual.fitted, found.cost.at(sample.size));
                }
            }
            Err(fault) => prop_assert!(false, "{}", fault),
        }
    }

    #[test]
    fn without_noise_the_truth_is_found(truth in truth()) {
        let all = sampled((1..=60).map(|i| 100 * i), |x| truth.at(Rows(x as u64)).0);
        let found = fit(&all, &Fitting { noise: 1e-4, ..Fitting::default() });
        prop_assert!(found.is_ok(), "{}", found.unwrap_err());
        // Except for pieces with too few samples to tell them apart.
        prop_assert!(found.unwrap().typical() < 0.02);
    }

    #[test]
    fn any_samples_give_a_fit_or_a_reason(given in prop::collection::vec((0_u64..50, -1.0..1e9_f64), 0..30), continuous in any::<bool>()) {
        let joints = if continuous { Joints::Continuous } else { Joints::Free };
        match fit(&samples(&given), &Fitting { joints, limit: 5.0, ..Fitting::default() }) {
            Ok(found) => {
                prop_assert_eq!(Cost::new(found.cost.pieces().to_vec()), Ok(found.cost.clone()));
                prop_assert!((0..100).all(|rows| found.cost.at(Rows(rows)).0 >= 0.0));
            }
            Err(fault) => prop_assert!(!fault.to_string().is_empty()),
        }
    }

    /// Changing the unit changes no time.
    #[test]
    fn a_cost_by_rows_is_that_by_bytes(truth in truth(), row in 1_u64..5000, rows in 0_u64..1000) {
        let bytes = Cost::new(truth.pieces().iter().map(|piece| Piece {
            from: Bytes::from_count(piece.from.count()), at: piece.at, slope: piece.slope, curve: piece.curve,
        }).collect()).expect("the same pieces");
        let (by_rows, by_bytes) = (bytes.in_rows(Bytes(row)).at(Rows(rows)).0, bytes.at(Bytes(rows * row)).0);
        prop_assert!((by_rows - by_bytes).abs() <= 1e-9 * by_bytes.max(1.0));
    }
}
