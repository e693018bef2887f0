//! Decompositions, time steps and paths: the same bits for every division, the result of faer, and small residuals.

use windrow::Pool;
use windrow::team::Width;
use windrow_bench::decompose::blocked::{Blocked, Panel};
use windrow_bench::decompose::cholesky::Cholesky;
use windrow_bench::decompose::inputs::{cholesky_residual, edges, lu_residual, matrix, order, positive_definite};
use windrow_bench::decompose::library::Faer;
use windrow_bench::decompose::lu::Lu;
use windrow_bench::decompose::sweeps::{Additions, Heat, Paths};

/// Sizes near tiles, micropanels and panels, and one with many panels.
const SIZES: [usize; 12] = [1, 2, 4, 7, 8, 31, 32, 33, 64, 97, 129, 250];
/// The rounding error of an elimination step, for the sizes here.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

/// Teams of the current pool, and of a pool with more threads than this machine may have.
fn teams(mut team: impl FnMut(Width) + Send) {
    [1, 2, 3, 8].into_iter().for_each(|members| team(Width::at_most(members)));
    let pool = Pool::new(4);
    pool.install(|| [1, 2, 3, 4].into_iter().for_each(|members| team(Width::exactly(members))));
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Checks that every version and every width gives the same bits.
fn versions_agree<P: Panel>(n: usize, panel: usize, input: &[f64]) -> Blocked<P> {
    let mut blocked = Blocked::<P>::with_panels(n, panel);
    let mut run = |version: &mut (dyn FnMut(&mut Blocked<P>) + Send)| {
        blocked.load(input);
        version(&mut blocked);
        (bits(blocked.matrix()), blocked.pivots().to_vec())
    };
    let expected = run(&mut Blocked::sequential);
    for threads in [1, 2, 3, 8] {
        assert!(run(&mut |it| it.rayon_parts(threads)) == expected, "n {n}, panels of {panel}, {threads} parts");
    }
    assert!(run(&mut Blocked::rayon) == expected, "n {n}, panels of {panel}, on rayon");
    teams(|width| assert!(run(&mut |it| it.team(width)) == expected, "n {n}, panels of {panel}, {width:?}"));
    run(&mut Blocked::sequential);
    blocked
}

#[test]
fn lu_has_the_same_bits_in_all_versions_and_is_what_faer_finds() {
    for n in SIZES {
        let a = matrix(n, n as u64);
        for panel in [8, 12, 32, 64] {
            let ours = versions_agree::<Lu>(n, panel, &a);
            assert_eq!(ours.pivots().len(), n);
            let order = order(ours.pivots());
            let residual = lu_residual(&a, ours.matrix(), &order);
            assert!(residual <= ROUNDING, "n {n}, panels of {panel}: residual {residual:e}");
            let mut faer = Faer::new(n, 1);
            faer.load(&a);
            faer.lu();
            assert_eq!(order, faer.order(), "n {n}: random matrices have no ties");
            assert_near(ours.matrix(), faer.matrix(), n);
        }
    }
}

#[test]
fn cholesky_has_the_same_bits_in_all_versions_and_is_what_faer_finds() {
    for n in SIZES {
        let a = positive_definite(n, n as u64);
        for panel in [8, 12, 32, 64] {
            let ours = versions_agree::<Cholesky>(n, panel, &a);
            let residual = cholesky_residual(&a, ours.matrix(), n);
            assert!(residual <= ROUNDING, "n {n}, panels of {panel}: residual {residual:e}");
            let above = |at: &usize| at % n < at / n;
            assert!((0..n * n).filter(above).all(|at| ours.matrix()[at] == a[at]), "n {n}: above the diagonal");
            let mut faer = Faer::new(n, 1);
            faer.load(&a);
            faer.cholesky();
            let lower = |of: &[f64]| (0..n * n).filter(|at| !above(at)).map(|at| of[at]).collect::<Vec<_>>();
            assert_near(&lower(ours.matrix()), &lower(faer.matrix()), n);
        }
    }
}

/// Factors differ by rounding, multiplied by the condition of a random matrix (about `n`, seldom much more).
fn assert_near(ours: &[f64], theirs: &[f64], n: usize) {
    let most = theirs.iter().fold(1.0f64, |most, value| most.max(value.abs()));
    let distance = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(distance <= 1e-12 * most * n as f64, "n {n}: {distance:e} apart");
}

#[test]
fn lu_exchanges_rows_and_goes_on_behind_a_column_of_zeros() {
    // Column by column: a zero on the diagonal, an empty column, rank 2.
    let a = [0.0, 2.0, 4.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let mut lu = Blocked::<Lu>::with_panels(3, 4);
    lu.load(&a);
    lu.sequential();
    assert_eq!(lu.pivots()[0], 2);
    assert_eq!(lu_residual(&a, lu.matrix(), &order(lu.pivots())), 0.0);
}

#[test]
fn a_wrong_factor_has_a_large_residual() {
    let (n, a, b) = (20, matrix(20, 1), positive_definite(20, 1));
    let (mut lu, mut cholesky) = (Blocked::<Lu>::new(n), Blocked::<Cholesky>::new(n));
    lu.load(&a);
    cholesky.load(&b);
    lu.sequential();
    cholesky.sequential();
    let (mut wrong, rows) = (lu.matrix().to_vec(), order(lu.pivots()));
    wrong[25] += 1e-9;
    assert!(lu_residual(&a, &wrong, &rows) > ROUNDING);
    let mut wrong = cholesky.matrix().to_vec();
    wrong[25] += 1e-9;
    assert!(cholesky_residual(&b, &wrong, n) > ROUNDING);
}

#[test]
fn heat_is_what_a_plain_loop_computes() {
    for (side, steps) in [(3, 1), (5, 0), (16, 7), (33, 10)] {
        let start = matrix(side, 5);
        let mut expected = start.clone();
        for _ in 0..steps {
            let now = expected.clone();
            for (row, column) in (1..side - 1).flat_map(|row| (1..side - 1).map(move |column| (row, column))) {
                let at = row * side + column;
                expected[at] = 0.25 * ((now[at - side] + now[at + side]) + (now[at - 1] + now[at + 1]));
            }
        }
        let mut heat = Heat::new(side, steps);
        let mut run = |version: &mut (dyn FnMut(&mut Heat) + Send)| {
            heat.load(&start);
            version(&mut heat);
            assert_eq!(bits(heat.plate()), bits(&expected), "{side} x {side}, {steps} steps");
        };
        run(&mut Heat::sequential);
        run(&mut Heat::rayon);
        [1, 2, 3, 40].into_iter().for_each(|threads| run(&mut |heat| heat.rayon_parts(threads)));
        teams(|width| run(&mut |heat| heat.team(width)));
    }
}

#[test]
fn paths_are_what_a_plain_loop_finds() {
    for n in [1, 2, 9, 40] {
        let edges = edges(n, 3);
        let mut expected = edges.clone();
        for (via, from, to) in (0..n * n * n).map(|at| (at / n / n, at / n % n, at % n)) {
            expected[from * n + to] = expected[from * n + to].min(expected[from * n + via] + expected[via * n + to]);
        }
        let mut paths = Paths::new(n);
        let mut run = |version: &mut (dyn FnMut(&mut Paths) + Send)| {
            paths.load(&edges);
            version(&mut paths);
            assert_eq!(bits(paths.lengths()), bits(&expected), "{n} vertices");
        };
        run(&mut Paths::sequential);
        run(&mut Paths::rayon);
        [1, 2, 3, 40].into_iter().for_each(|threads| run(&mut |paths| paths.rayon_parts(threads)));
        teams(|width| run(&mut |paths| paths.team(width)));
    }
}

#[test]
fn additions_are_what_a_plain_loop_adds() {
    for n in [0, 1, 2, 100] {
        let start: Vec<f64> = matrix(n.min(10), 3).into_iter().cycle().take(n).collect();
        let mut expected = start.clone();
        for at in 0..n {
            let head = expected[at];
            expected[at + 1..].iter_mut().for_each(|value| *value += head);
        }
        let mut additions = Additions::new(n);
        let mut run = |version: &mut (dyn FnMut(&mut Additions) + Send)| {
            additions.load(&start);
            version(&mut additions);
            assert_eq!(bits(additions.values()), bits(&expected), "{n} values");
        };
        run(&mut Additions::sequential);
        run(&mut Additions::rayon);
        [1, 2, 3, 40].into_iter().for_each(|threads| run(&mut |additions| additions.rayon_parts(threads)));
        teams(|width| run(&mut |additions| additions.team(width)));
    }
}
