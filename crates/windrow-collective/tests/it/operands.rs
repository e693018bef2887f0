//! Transposed and packed operands, factors, threads: every way to give the same product.

use half::{bf16, f16};
use windrow_collective::{Error, Group, MatMut, MatRef, Operands, Operation, Tiles};

use crate::common::{Number, OPERATIONS, on_all};

/// Small whole numbers, of which all sums are exact in every element.
fn element(of: usize, i: usize, j: usize) -> f64 {
    ((of * 5 + i * 3 + j * 7) % 4) as f64 - 1.0
}

/// A matrix, stored row by row or column by column, with some space between.
fn stored<T: Number>(
    rows: usize,
    cols: usize,
    transposed: bool,
    element: impl Fn(usize, usize) -> f64,
) -> (Vec<T>, usize) {
    let (outer, inner) = if transposed { (cols, rows) } else { (rows, cols) };
    let stride = inner + 3;
    let mut data = vec![T::round(f64::NAN); outer * stride];
    for i in 0..rows {
        for j in 0..cols {
            data[if transposed { j * stride + i } else { i * stride + j }] = T::round(element(i, j));
        }
    }
    (data, stride)
}

fn view<T>(data: &[T], rows: usize, cols: usize, stride: usize, transposed: bool) -> MatRef<'_, T> {
    match transposed {
        false => MatRef::with_stride(data, rows, cols, stride),
        true => MatRef::with_stride(data, cols, rows, stride).transposed(),
    }
}

#[derive(Clone, Copy, Debug)]
struct Way {
    transposed: [bool; 2],
    packed: bool,
    /// `alpha` and `beta`.
    factors: Option<[f32; 2]>,
    threads: usize,
}

/// Runs the operation on two ranks, and compares the result with the sums of the definition.
fn check<T: Number>(operation: Operation, way: Way, factor: fn(f32) -> T::Sum) {
    let ([each, n, k], ranks) = ([70, 33, 40], 2);
    let m = each * operation.unit(ranks);
    let [a_rows, c_rows] = match operation {
        Operation::MatmulAllReduce => [each, each],
        Operation::MatmulReduceScatter => [m, each],
        Operation::AllGatherMatmul => [each, m],
    };
    let a_of = |rank: usize, i: usize, l: usize| element(rank, i, l);
    let b_of = |rank: usize, l: usize, j: usize| element(3 + rank, l, j);
    let [alpha, beta] = way.factors.unwrap_or([1.0, 0.0]).map(f64::from);
    on_all(Group::new(ranks).ranks(), |mut fused| {
        fused.use_threads(way.threads);
        let rank = fused.rank();
        let (a, a_stride) = stored::<T>(a_rows, k, way.transposed[0], |i, l| a_of(rank, i, l));
        let (b, b_stride) = stored::<T>(k, n, way.transposed[1], |l, j| b_of(rank, l, j));
        let (a, b) = (view(&a, a_rows, k, a_stride, way.transposed[0]), view(&b, k, n, b_stride, way.transposed[1]));
        // Where they are not to be read, old contents are no numbers.
        let old = |at: usize| if beta == 0.0 { f64::NAN } else { (at % 3) as f64 };
        let packed = b.pack().unwrap();
        for tiles in [Tiles::None, Tiles::Uniform(3), Tiles::Uniform(1000)] {
            let mut c: Vec<T> = (0..c_rows * n).map(|at| T::round(old(at))).collect();
            let operands = if way.packed { Operands::packed(a, &packed) } else { Operands::new(a, b) };
            let operands = match way.factors {
                Some([alpha, beta]) => operands.alpha(factor(alpha)).beta(factor(beta)),
                None => operands,
            };
            fused.run(operation, operands, MatMut::new(&mut c, c_rows, n), &tiles).unwrap();
            for (at, &got) in c.iter().enumerate() {
                let (i, j) = (at / n, at % n);
                let dot = |from: usize, of: usize, i: usize| -> f64 {
                    (0..k).map(|l| a_of(from, i, l) * b_of(of, l, j)).sum()
                };
                let product = match operation {
                    Operation::AllGatherMatmul => dot(i / each, rank, i % each),
                    Operation::MatmulReduceScatter => (0..ranks).map(|from| dot(from, from, rank * each + i)).sum(),
                    Operation::MatmulAllReduce => (0..ranks).map(|from| dot(from, from, i)).sum(),
                };
                let added = if beta == 0.0 { 0.0 } else { beta * old(at) };
                assert_eq!(got.to(), alpha * product + added, "{operation} {way:?} {tiles:?} at {i}, {j}");
            }
        }
    });
}

#[test]
fn every_way_gives_the_same_product() {
    let (is_every, mut number) = (windrow_testkit::cases(1) > 1, 0);
    for operation in OPERATIONS {
        for transposed in [[false, false], [true, false], [false, true], [true, true]] {
            for packed in [false, true] {
                for (factors, threads) in [(None, 1), (Some([2.0, 0.0]), 2), (Some([0.5, -2.0]), 3)] {
                    let way = Way { transposed, packed, factors, threads };
                    // One type for each way, and over the ways all types, or all of them.
                    number += 1;
                    if is_every || number % 4 == 0 {
                        check::<f32>(operation, way, |factor| factor);
                    }
                    if is_every || number % 4 == 1 {
                        check::<f64>(operation, way, f64::from);
                    }
                    if is_every || number % 4 == 2 {
                        check::<f16>(operation, way, |factor| factor);
                    }
                }
            }
        }
        let way = Way { transposed: [false, true], packed: true, factors: Some([2.0, 1.0]), threads: 2 };
        check::<bf16>(operation, way, |factor| factor);
    }
}

#[test]
fn misfits_of_transposed_operands_are_named() {
    let data = [0.0_f32; 12];
    let mut fused = windrow_collective::Fused::new(Group::new(1).ranks().remove(0)).unwrap();
    let mut c = [0.0; 4];
    let mut run = |a: MatRef<'_, f32>, b: MatRef<'_, f32>| {
        fused.matmul_all_reduce(a, b, MatMut::new(&mut c, 2, 2), &Tiles::None).unwrap_err().to_string()
    };
    let fits = MatRef::new(&data, 2, 2);
    assert_eq!(
        run(MatRef::new(&data, 4, 4).transposed(), fits),
        "operand a: 4 columns of 4, 4 apart, take 16 elements, but there are 12"
    );
    assert_eq!(run(fits, MatRef::new(&data, 2, 3).transposed()), "operand b: 3 rows, but a has 2 columns");
    let error = MatRef::new(&data, 4, 4).pack().unwrap_err();
    assert_eq!(
        error,
        Error::Shape { operand: "b", why: "4 rows of 4, 4 apart, take 16 elements, but there are 12".to_owned() }
    );
}
