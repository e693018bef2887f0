//! Fused operations equal the product and the sum, for every cut.

use half::{bf16, f16};
use proptest::prelude::*;
use windrow_collective::{Communicator, Error, Fused, Group, MatMut, MatRef, Operation, Rank, Tiles};

use crate::common::{Case, Number, OPERATIONS, on_all};
use windrow_tiling::{Rows, tile};

fn plan(rows: &[u64]) -> Tiles {
    Tiles::Plan(tile::Tiles::new(rows.iter().copied().map(Rows).collect::<Vec<_>>()).unwrap())
}

#[test]
fn whole_numbers_have_the_same_bits_however_they_are_cut() {
    for operation in OPERATIONS {
        for ranks in 1..=4 {
            let case = Case { operation, ranks, each: 12, n: 17, k: 20, gap: 0 };
            let m = case.m() as u64;
            let tail = case.operation.unit(ranks) as u64 * 5;
            for tiles in
                [Tiles::None, Tiles::Uniform(2), Tiles::Uniform(5), Tiles::Uniform(1000), plan(&[tail, m - tail])]
            {
                case.check::<f32>(&tiles, true);
                case.check::<f64>(&tiles, true);
                case.check::<bf16>(&tiles, true);
                case.check::<f16>(&tiles, true);
            }
        }
    }
}

#[test]
fn fractions_stay_within_the_bound() {
    for operation in OPERATIONS {
        for (ranks, k) in [(1, 1), (2, 150), (3, 77)] {
            let case = Case { operation, ranks, each: 33, n: 20, k, gap: 3 };
            for tiles in [Tiles::None, Tiles::Uniform(4), Tiles::Uniform(33)] {
                case.check::<f32>(&tiles, false);
                case.check::<f64>(&tiles, false);
                case.check::<bf16>(&tiles, false);
                case.check::<f16>(&tiles, false);
            }
        }
    }
}

#[test]
fn fractions_have_the_same_bits_however_they_are_cut() {
    fn check<T: Number>(case: &Case, tiles: &[Tiles]) {
        on_all(Group::new(case.ranks).ranks(), |mut fused| {
            let (whole, outcome) = case.run::<T, _>(&mut fused, &Tiles::None, false);
            outcome.unwrap();
            for tiles in tiles {
                let (cut, outcome) = case.run::<T, _>(&mut fused, tiles, false);
                outcome.unwrap();
                let is_same = |(a, b): (&T, &T)| a.to().to_bits() == b.to().to_bits();
                assert!(whole.iter().zip(&cut).all(is_same), "{case:?}, {tiles:?}");
            }
        });
    }
    for operation in OPERATIONS {
        // 600 terms are two blocks of the inner axis, 53 columns a whole panel and a part of one.
        let case = Case { operation, ranks: 2, each: 40, n: 53, k: 600, gap: 1 };
        let (unit, m) = (case.operation.unit(2) as u64, case.m() as u64);
        let tiles =
            [Tiles::Uniform(2), Tiles::Uniform(7), Tiles::Uniform(1000), plan(&[unit, 9 * unit, m - 10 * unit])];
        check::<f32>(&case, &tiles);
        check::<f64>(&case, &tiles);
        check::<bf16>(&case, &tiles);
        check::<f16>(&case, &tiles);
    }
}

#[test]
fn nothing_is_an_operation_too() {
    for operation in OPERATIONS {
        for (each, n, k) in [(0, 5, 4), (5, 0, 4), (5, 4, 0), (0, 0, 0), (1, 1, 1)] {
            let case = Case { operation, ranks: 2, each, n, k, gap: 1 };
            for tiles in [Tiles::None, Tiles::Uniform(3)] {
                case.check::<f32>(&tiles, true);
                case.check::<bf16>(&tiles, true);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn any_shape_and_any_cut(
        operation in prop::sample::select(OPERATIONS.to_vec()),
        (ranks, each, n, k) in (1..5_usize, 0..40_usize, 0..40_usize, 0..60_usize),
        gap in 0..3_usize,
        tiles in prop_oneof![Just(Tiles::None), (1..50_usize).prop_map(Tiles::Uniform)],
        cuts in prop::option::of(prop::collection::vec(1..20_u64, 0..6)),
        element in 0..4,
        exact: bool,
    ) {
        let case = Case { operation, ranks, each, n, k, gap };
        let tiles = match cuts {
            // Cuts of any size, until the rows are used up.
            Some(cuts) => {
                let mut left = each as u64;
                let unit = operation.unit(ranks) as u64;
                let mut rows: Vec<u64> = cuts.iter().map(|&cut| { let cut = cut.min(left); left -= cut; cut }).collect();
                rows.push(left);
                rows.retain(|&rows| rows > 0);
                plan(&rows.iter().map(|rows| rows * unit).collect::<Vec<_>>())
            }
            None => tiles,
        };
        match element {
            0 => case.check::<f32>(&tiles, exact),
            1 => case.check::<f64>(&tiles, exact),
            2 => case.check::<f16>(&tiles, exact),
            _ => case.check::<bf16>(&tiles, exact),
        }
    }
}

#[test]
fn rows_of_nothing_take_no_time() {
    on_all(Group::new(1).ranks(), |mut fused| {
        let rows = usize::MAX / 2;
        let a = MatRef::<bf16>::with_stride(&[], rows, 0, 7);
        let c = MatMut::new(&mut [], rows, 0);
        fused.matmul_all_reduce(a, MatRef::new(&[], 0, 0), c, &Tiles::Uniform(3)).unwrap();
    });
}

#[test]
fn ranks_may_hold_different_depths() {
    let results = on_all(Group::new(2).ranks(), |mut fused| {
        let k = 1 + 2 * fused.rank();
        let (a, b, mut c) = (vec![1.0_f64; 6 * k], vec![2.0_f64; k * 2], vec![0.0; 12]);
        let c_view = MatMut::new(&mut c, 6, 2);
        fused.matmul_all_reduce(MatRef::new(&a, 6, k), MatRef::new(&b, k, 2), c_view, &Tiles::Uniform(3)).unwrap();
        c
    });
    assert_eq!(results, vec![vec![8.0; 12]; 2]);
}

/// `a` is 4 x 3, `b` 3 x 2, `c` 4 x 2, except for what a test changes.
fn misfit(change: impl Fn(&mut [usize; 9]) + Sync, operation: Operation, tiles: &Tiles) -> Vec<String> {
    on_all(Group::new(3).ranks(), |mut fused: Fused<_>| {
        let mut shape = [4, 3, 3, 3, 2, 2, 4, 2, 2];
        if fused.rank() == 1 {
            change(&mut shape);
        }
        let (a, b, mut c) = (vec![1.0_f32; 12], vec![1.0_f32; 6], vec![0.0_f32; 8]);
        let [a_shape, b_shape, c_shape] = [&shape[..3], &shape[3..6], &shape[6..]];
        let operands = (
            MatRef::with_stride(&a, a_shape[0], a_shape[1], a_shape[2]),
            MatRef::with_stride(&b, b_shape[0], b_shape[1], b_shape[2]),
            MatMut::with_stride(&mut c, c_shape[0], c_shape[1], c_shape[2]),
        );
        let error = crate::common::call(&mut fused, operation, operands, tiles).unwrap_err().to_string();
        // The group stays usable.
        fused.communicator().barrier().unwrap();
        error
    })
}

#[test]
fn misfits_name_the_operand_and_reach_all_ranks() {
    type Change = fn(&mut [usize; 9]);
    let cases: [(Change, &str); 6] = [
        (|s| s[0] = 5, "operand a: 5 rows of 3, 3 apart, take 15 elements, but there are 12"),
        (|s| s[2] = 2, "operand a: rows of 3 elements begin every 2"),
        (|s| s[3] = 2, "operand b: 2 rows, but a has 3 columns"),
        (|s| s[6] = 3, "operand c: 3 rows of 2, but the result has 4 rows of 2"),
        (|s| s[7] = 1, "operand c: 4 rows of 1, but the result has 4 rows of 2"),
        (|s| (s[6], s[8]) = (4, usize::MAX), "operand c: 4 rows of 2, 18446744073709551615 apart, take more"),
    ];
    for (change, why) in cases {
        let errors = misfit(change, Operation::MatmulAllReduce, &Tiles::None);
        assert!(errors[1].starts_with(why), "{}", errors[1]);
        for other in [&errors[0], &errors[2]] {
            assert!(other.starts_with(&format!("rank 1 gave up: {why}")), "{other}");
        }
    }
    let errors = misfit(|_| {}, Operation::MatmulReduceScatter, &Tiles::None);
    assert!(errors.iter().all(|error| error.contains("4 rows cannot be divided evenly among 3 ranks")), "{errors:?}");
    let errors = misfit(|_| {}, Operation::MatmulAllReduce, &Tiles::Uniform(0));
    assert!(errors.iter().all(|error| error.contains("0 uniform tiles")), "{errors:?}");
    let errors = misfit(|_| {}, Operation::MatmulAllReduce, &plan(&[4, 1]));
    assert!(errors.iter().all(|error| error.contains("the tiles have 5 rows, but the operation has 4")), "{errors:?}");
}

#[test]
fn ranks_that_disagree_are_named() {
    let fits = |s: &mut [usize; 9]| (s[4], s[5], s[7], s[8]) = (1, 2, 1, 2);
    let errors = misfit(fits, Operation::MatmulAllReduce, &Tiles::None);
    assert_eq!(errors, ["matmul-all-reduce: n is 2 on rank 0, but 1 on rank 1"; 3]);

    type Call = fn(&mut Fused<Rank>, MatRef<'_, f32>, MatMut<'_, f32>) -> Result<(), Error>;
    let disagree = |call: Call| {
        on_all(Group::new(2).ranks(), |mut fused| {
            let (one, mut c) = ([1.0_f32; 4], [0.0_f32; 4]);
            let error = call(&mut fused, MatRef::new(&one, 2, 2), MatMut::new(&mut c, 2, 2)).unwrap_err();
            fused.communicator().barrier().unwrap();
            error.to_string()
        })
    };
    let errors = disagree(|fused, one, c| match fused.rank() {
        0 => fused.matmul_all_reduce(one, one, c, &Tiles::None).map(drop),
        _ => fused.matmul_all_reduce(one, one, c, &Tiles::Uniform(2)).map(drop),
    });
    assert_eq!(errors, ["matmul-all-reduce: the tiling is none on rank 0, but uniform on rank 1"; 2]);
    let errors = disagree(|fused, one, c| match fused.rank() {
        0 => fused.matmul_all_reduce(one, one, c, &plan(&[1, 1])).map(drop),
        _ => fused.matmul_all_reduce(one, one, c, &plan(&[2])).map(drop),
    });
    assert!(errors[0].starts_with("matmul-all-reduce: the plan is the one with checksum"), "{}", errors[0]);
    assert_eq!(errors[0], errors[1]);
    let errors = disagree(|fused, one, c| match fused.rank() {
        0 => fused.matmul_all_reduce(one, one, c, &Tiles::None).map(drop),
        _ => fused.communicator().barrier(),
    });
    assert_eq!(errors, ["rank 0 called all_gather of 8 u64 to 16, but rank 1 called barrier"; 2]);
}
