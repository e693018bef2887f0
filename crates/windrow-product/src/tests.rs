//! Products of every instruction set of this CPU beside sums in `f64`, and beside each other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use half::{bf16, f16};

use crate::kernel::{DEPTH, InstructionSet};
use crate::{Matrix, MatrixMut, Number, PackedB, Product, Right, Workspace};

trait Tested: Number + PartialEq {
    fn of(number: f64) -> Self;
    fn to(self) -> f64;
    fn bits(self) -> u64;
    fn sum(number: f64) -> Self::Sum;
}

macro_rules! tested {
    ($($number:ident $sum:ident $of:expr, $to:expr;)*) => {$(
        impl Tested for $number {
            fn of(number: f64) -> Self {
                $of(number)
            }

            fn to(self) -> f64 {
                $to(self)
            }

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn sum(number: f64) -> $sum {
                number as $sum
            }
        }
    )*};
}

tested! {
    f32 f32 |x| x as f32, f64::from;
    f64 f64 |x| x, |x| x;
    bf16 f32 bf16::from_f64, bf16::to_f64;
    f16 f32 f16::from_f64, f16::to_f64;
}

/// A matrix in memory with a stride, in either order.
struct Stored<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
    stride: usize,
    transposed: bool,
}

impl<T: Tested> Stored<T> {
    fn new(rows: usize, cols: usize, stride: usize, transposed: bool, element: impl Fn(usize, usize) -> f64) -> Self {
        let (stored_rows, stored_cols) = if transposed { (cols, rows) } else { (rows, cols) };
        let stride = stored_cols + stride;
        // What lies between rows must not be read.
        let mut data = vec![T::of(f64::NAN); stored_rows * stride];
        for row in 0..rows {
            for col in 0..cols {
                let (major, minor) = if transposed { (col, row) } else { (row, col) };
                data[major * stride + minor] = T::of(element(row, col));
            }
        }
        Self { data, rows, cols, stride, transposed }
    }

    fn view(&self) -> Matrix<'_, T> {
        let Self { data, rows, cols, stride, transposed } = self;
        match transposed {
            false => Matrix::with_stride(data, *rows, *cols, *stride),
            true => Matrix::with_stride(data, *cols, *rows, *stride).transposed(),
        }
    }
}

fn packed<T: Number>(set: InstructionSet, b: Matrix<'_, T>) -> PackedB<T> {
    let mut packed = PackedB::default();
    packed.pack_for(set, b);
    packed
}

/// The product by a packed `b`, which must be that by `b` as it lies.
fn product<T: Tested>(set: InstructionSet, a: Matrix<'_, T>, b: Matrix<'_, T>) -> Vec<T> {
    let (rows, cols, packed) = (a.rows(), b.cols(), packed(set, b));
    let [c, plain] = [Right::Packed(&packed), Right::Plain(b)].map(|b| {
        let mut c = vec![T::of(f64::NAN); rows * cols];
        Product::new(a, b).with(set).write(MatrixMut::new(&mut c, rows, cols), &mut Workspace::default());
        c
    });
    same(&c, &plain, &format!("{set:?}, {rows} x {} x {cols}, as it lies", a.cols()));
    c
}

/// Asserts equal bits. A NaN may be any NaN.
fn same<T: Tested>(one: &[T], other: &[T], what: &str) {
    let is_same = |one: T, other: T| one.bits() == other.bits() || one.to().is_nan() && other.to().is_nan();
    let differs = one.iter().zip(other).position(|(&one, &other)| !is_same(one, other));
    assert!(one.len() == other.len() && differs.is_none(), "{what}: differs at {differs:?}");
}

/// Numbers from -2 to 2 in no order.
fn small(row: usize, col: usize) -> f64 {
    ((row * 7 + col * 3 + row * col) % 5) as f64 - 2.0
}

/// Numbers from -1 to 1 that are not exact in any type.
fn random(seed: u64) -> impl Fn(usize, usize) -> f64 {
    move |row, col| {
        let mut word = seed.wrapping_add((row as u64) << 32 | col as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((word ^ word >> 32) as u32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0
    }
}

fn exact<T: Tested>(rows: usize, depth: usize, cols: usize, set: InstructionSet, workspace: &mut Workspace<T>) {
    let variant = rows + depth + cols;
    let a = Stored::<T>::new(rows, depth, variant % 3, variant.is_multiple_of(2), small);
    let b = Stored::<T>::new(depth, cols, variant % 4, variant % 5 < 2, |row, col| small(col + 1, row));
    let (margin, stride, canary) = (40, cols + variant % 3, T::of(-77.0));
    let mut out = vec![canary; margin + rows * stride + margin];
    for row in 0..rows {
        // Old contents must not matter.
        out[margin + row * stride..][..cols].fill(T::of(f64::NAN));
    }
    let end = margin + (rows - 1) * stride + cols;
    let c = MatrixMut::with_stride(&mut out[margin..end], rows, cols, stride);
    Product::new(a.view(), &packed(set, b.view())).write(c, workspace);
    let mut plain = vec![canary; out.len()];
    let c = MatrixMut::with_stride(&mut plain[margin..end], rows, cols, stride);
    Product::new(a.view(), b.view()).with(set).write(c, workspace);
    assert_eq!(plain, out, "{rows} x {depth} x {cols}, {set:?}: packed, and as it lies");
    for (at, &got) in out.iter().enumerate() {
        let (row, col) = (at.wrapping_sub(margin) / stride, at.wrapping_sub(margin) % stride);
        if at < margin || row >= rows || col >= cols {
            assert_eq!(got, canary, "{rows} x {depth} x {cols}, {set:?}: written outside at {at}");
            continue;
        }
        let sum: f64 = (0..depth).map(|l| small(row, l) * small(col + 1, l)).sum();
        assert_eq!(got.to(), sum, "{rows} x {depth} x {cols}, {set:?}: ({row}, {col})");
    }
}

#[test]
fn small_integers_are_exact_in_every_shape() {
    for set in InstructionSet::available() {
        let (mut single, mut double) = (Workspace::<f32>::default(), Workspace::<f64>::default());
        let (mut brain, mut half) = (Workspace::<bf16>::default(), Workspace::<f16>::default());
        for rows in 1..=33 {
            for depth in 1..=33 {
                for cols in 1..=33 {
                    exact(rows, depth, cols, set, &mut single);
                    if (rows * 5 + depth * 3 + cols).is_multiple_of(8) {
                        exact(rows, depth, cols, set, &mut double);
                        exact(rows, depth, cols, set, &mut brain);
                        exact(rows, depth, cols, set, &mut half);
                    }
                }
            }
        }
    }
}

#[test]
fn shapes_beyond_a_block_are_exact() {
    for set in InstructionSet::available() {
        let mut workspace = Workspace::<f32>::default();
        for [rows, depth, cols] in [
            [1, DEPTH + 1, 49],
            [129, 5, 95],
            [260, 2 * DEPTH + 3, 97],
            [7, 3 * DEPTH, 385],
            [130, 3, 1025],
            [9, 2 * DEPTH + 1, 2100],
            [1, 2 * DEPTH + 9, 2100],
            [1, DEPTH + 8, 2064],
            [16, DEPTH + 8, 1100],
            [1100, DEPTH + 8, 1],
            [1100, DEPTH + 8, 3],
            [300, 9, 8],
        ] {
            exact(rows, depth, cols, set, &mut workspace);
            exact::<f64>(rows, depth, cols, set, &mut Workspace::default());
        }
        exact::<bf16>(130, 30, 1100, set, &mut Workspace::default());
    }
}

/// `(k e s) / (1 - k e)` for sums of `k` products of magnitude `s`.
fn within_the_bound<T: Tested>(epsilon: f64, rounding: f64) {
    for [rows, depth, cols] in [[5, 33, 50], [9, 3 * DEPTH + 100, 40], [33, 700, 65]] {
        let a = Stored::<T>::new(rows, depth, 0, false, random(1));
        let b = Stored::<T>::new(depth, cols, 0, true, random(2));
        for set in InstructionSet::available() {
            for (at, got) in product(set, a.view(), b.view()).into_iter().enumerate() {
                let terms = (0..depth).map(|l| a.view().get(at / cols, l).to() * b.view().get(l, at % cols).to());
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + f64::abs(term)));
                let k = depth as f64;
                let bound = k * epsilon * size / (1.0 - k * epsilon) + rounding * size + 1e-13;
                assert!((got.to() - sum).abs() <= bound, "{set:?} at {at}: {got:?}, not {sum}");
            }
        }
    }
}

#[test]
fn errors_are_within_the_bound() {
    within_the_bound::<f32>(f64::powi(2.0, -24), 0.0);
    within_the_bound::<f64>(f64::powi(2.0, -53), 0.0);
    within_the_bound::<bf16>(f64::powi(2.0, -24), f64::powi(2.0, -8) * 1.01);
    within_the_bound::<f16>(f64::powi(2.0, -24), f64::powi(2.0, -11) * 1.01);
}

fn bits_of_parts<T: Tested>() {
    let (rows, depth, cols) = (150, DEPTH + 77, 130);
    let a = Stored::<T>::new(rows, depth, 1, false, random(3));
    let b = Stored::<T>::new(depth, cols, 0, false, random(4));
    let bits = |c: &[T]| c.iter().map(|&c| c.bits()).collect::<Vec<_>>();
    for set in InstructionSet::available() {
        let whole = bits(&product(set, a.view(), b.view()));
        let packed = packed(set, b.view());
        let products = [Product::new(a.view(), &packed), Product::new(a.view(), b.view()).with(set)];
        for (product, each) in
            products.into_iter().flat_map(|of| [1, 2, 3, 7, 8, 13, 64, 127, 149].map(|each| (of, each)))
        {
            let mut c = vec![T::default(); rows * cols];
            let mut rest = MatrixMut::new(&mut c, rows, cols);
            for start in (0..rows).step_by(each) {
                let range = start..rows.min(start + each);
                let (part, others) = rest.split_at_row(range.len());
                rest = others;
                product.write_rows(range, part, &mut Workspace::default());
            }
            assert_eq!(bits(&c), whole, "{set:?}, {each} rows");
        }
        // Nor do other columns matter.
        for (start, len) in [(0, 1), (5, 20), (64, 66)] {
            let b = Matrix::with_stride(&b.data[start..], depth, len, cols);
            let part = self::product(set, a.view(), b);
            for row in [0, 70, 149] {
                assert_eq!(bits(&part[row * len..][..len]), whole[row * cols + start..][..len], "{set:?}, {start}");
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_how_a_product_is_cut() {
    bits_of_parts::<f32>();
    bits_of_parts::<f64>();
    bits_of_parts::<bf16>();
}

/// Every element beside its own chain of sums: in every small shape, each operand in both orders.
#[test]
fn small_products_are_chains_of_sums() {
    for set in InstructionSet::available() {
        let fused = set != InstructionSet::Portable;
        let step = |sum: f64, a: f64, b: f64| if fused { a.mul_add(b, sum) } else { sum + a * b };
        let mut workspace = Workspace::default();
        for (rows, depth) in (0..=20).flat_map(|rows| (0..=20).map(move |depth| (rows, depth))) {
            for cols in 0..=20 {
                let order = rows + depth + cols;
                let element = |row: usize, col: usize| random(9)(row, col) * if row == col { -0.0 } else { 1.0 };
                let chains: Vec<f64> = (0..rows * cols)
                    .map(|at| (0..depth).fold(0.0, |sum, l| step(sum, element(at / cols, l), random(10)(l, at % cols))))
                    .collect();
                for (a_order, b_order) in [(false, false), (false, true), (true, false), (true, true)] {
                    let a = Stored::<f64>::new(rows, depth, order % 3, a_order, element);
                    let b = Stored::<f64>::new(depth, cols, order % 2, b_order, random(10));
                    let mut c = vec![f64::NAN; rows * cols];
                    let of = Product::new(a.view(), b.view()).with(set);
                    of.write(MatrixMut::new(&mut c, rows, cols), &mut workspace);
                    same(&c, &chains, &format!("{set:?}, {rows} x {depth} x {cols}, {a_order}, {b_order}"));
                }
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_order_in_memory() {
    for set in InstructionSet::available() {
        for (rows, cols) in [(35, 61), (1, 61), (2, 64), (16, 70), (61, 1), (61, 4)] {
            let of = |transposed, stride| {
                let a = Stored::<f32>::new(rows, 600, stride, transposed, random(5));
                let b = Stored::<f32>::new(600, cols, stride, transposed, random(6));
                product(set, a.view(), b.view()).into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            assert_eq!(of(false, 0), of(true, 3), "{set:?}");
        }
    }
}

#[test]
fn narrow_numbers_are_rounded_once() {
    let (rows, depth, cols) = (20, DEPTH + 100, 50);
    for set in InstructionSet::available() {
        let a = Stored::<bf16>::new(rows, depth, 0, false, random(7));
        let b = Stored::<bf16>::new(depth, cols, 0, false, random(8));
        let wide = |stored: &Stored<bf16>| stored.data.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
        let (wide_a, wide_b) = (wide(&a), wide(&b));
        let sums = product(set, Matrix::new(&wide_a, rows, depth), Matrix::new(&wide_b, depth, cols));
        let rounded: Vec<bf16> = sums.into_iter().map(bf16::from_f32).collect();
        assert_eq!(product(set, a.view(), b.view()), rounded, "{set:?}");
    }
}

/// `alpha * a * b + beta * c` in integers.
fn scaled<T: Tested>() {
    for set in InstructionSet::available() {
        for (rows, depth, cols) in [(3, 0, 5), (5, 4, 3), (9, 7, 50), (1, 30, 40), (40, 0, 2), (40, 30, 1), (40, 7, 50)]
        {
            let a = Stored::<T>::new(rows, depth, 0, false, small);
            let b = Stored::<T>::new(depth, cols, 0, false, small);
            let packed = packed(set, b.view());
            let both = [Right::Packed(&packed), Right::Plain(b.view())];
            for (alpha, beta) in [(1.0, 0.0), (2.0, 0.0), (1.0, 1.0), (-1.0, 0.5), (0.0, 2.0), (0.5, -1.0)] {
                let old = if beta == 0.0 { f64::NAN } else { 4.0 };
                for right in both {
                    let mut c = vec![T::of(old); rows * cols];
                    let product = Product::new(a.view(), right).with(set).alpha(T::sum(alpha)).beta(T::sum(beta));
                    product.write(MatrixMut::new(&mut c, rows, cols), &mut Workspace::default());
                    for (at, got) in c.into_iter().enumerate() {
                        let sum: f64 = (0..depth).map(|l| small(at / cols, l) * small(l, at % cols)).sum();
                        let scaled = alpha * sum + if beta == 0.0 { 0.0 } else { beta * old };
                        assert_eq!(got.to(), scaled, "{set:?}: {rows} x {depth} x {cols}, {alpha}, {beta}");
                    }
                }
            }
        }
    }
}

#[test]
fn factors_scale() {
    scaled::<f32>();
    scaled::<f64>();
    scaled::<bf16>();
    scaled::<f16>();
}

fn faults_spread<T: Tested>() {
    let (rows, depth, cols) = (11, 9, 53);
    for set in InstructionSet::available() {
        for fault in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let with = |at: (usize, usize)| move |row, col| if (row, col) == at { fault } else { 1.0 };
            let whole = |a: &Stored<T>, b: &Stored<T>| product(set, a.view(), b.view());
            let ones = |rows, cols| Stored::<T>::new(rows, cols, 0, false, |_, _| 1.0);
            let same = |got: T| got.to() == fault || got.to().is_nan() && fault.is_nan();
            let c = whole(&Stored::new(rows, depth, 0, false, with((10, 8))), &ones(depth, cols));
            for (at, &got) in c.iter().enumerate() {
                assert!(if at / cols == 10 { same(got) } else { got.to() == 9.0 }, "{set:?}, {fault} at {at}: {got:?}");
            }
            let c = whole(&ones(rows, depth), &Stored::new(depth, cols, 0, false, with((8, 52))));
            for (at, &got) in c.iter().enumerate() {
                assert!(if at % cols == 52 { same(got) } else { got.to() == 9.0 }, "{set:?}, {fault} at {at}: {got:?}");
            }
            // Infinity times 0 is NaN.
            let zeros = Stored::<T>::new(depth, cols, 0, false, |_, _| 0.0);
            let c = whole(&Stored::new(rows, depth, 0, false, with((0, 0))), &zeros);
            assert!(c[..cols].iter().all(|got| got.to().is_nan()) && c[cols..].iter().all(|got| got.to() == 0.0));
        }
    }
}

#[test]
fn nan_and_infinity_stay_in_their_row_and_column() {
    faults_spread::<f32>();
    faults_spread::<f64>();
    faults_spread::<bf16>();
    faults_spread::<f16>();
}

#[test]
fn empty_products() {
    for set in InstructionSet::available() {
        for (rows, depth, cols) in [(0, 3, 4), (3, 4, 0), (0, 0, 0), (0, 5, 0)] {
            let (a, b) = (vec![1.0_f32; rows * depth], vec![1.0; depth * cols]);
            assert!(product(set, Matrix::new(&a, rows, depth), Matrix::new(&b, depth, cols)).is_empty());
        }
        // A sum of nothing is 0, whatever was there.
        assert_eq!(product::<f64>(set, Matrix::new(&[], 3, 0), Matrix::new(&[], 0, 2)), [0.0; 6]);
        assert_eq!(product::<f16>(set, Matrix::new(&[], 1, 0), Matrix::new(&[], 0, 50)), [f16::ZERO; 50]);
        let wide = Matrix::<f32>::with_stride(&[], 0, usize::MAX, 0);
        assert_eq!(packed(set, wide).cols(), usize::MAX);
    }
}

#[test]
fn operands_that_do_not_fit_panic() {
    let data = [0.0_f32; 100];
    let matrix = |rows, cols| Matrix::new(&data, rows, cols);
    let packed = PackedB::new(matrix(4, 5));
    let message = |f: &mut dyn FnMut()| {
        let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
        payload.downcast_ref::<String>().cloned().unwrap_or_default()
    };
    assert!(
        message(&mut || _ = Product::new(matrix(3, 5), &packed)).contains("the columns of a must match the rows of b")
    );
    let product = Product::new(matrix(6, 4), &packed);
    let write = |rows: std::ops::Range<usize>, c_rows, c_cols| {
        message(&mut || {
            let mut c = [0.0; 100];
            product.write_rows(rows.clone(), MatrixMut::new(&mut c, c_rows, c_cols), &mut Workspace::default());
        })
    };
    assert!(write(0..6, 5, 5).contains("the shape of c"));
    assert!(write(0..6, 6, 4).contains("the shape of c"));
    assert!(write(3..7, 4, 5).contains("rows 3..7 are outside the 6 rows of a"));
    assert!(
        message(&mut || product.write(MatrixMut::new(&mut [0.0; 25], 5, 5), &mut Workspace::default()))
            .contains("of c")
    );
}

#[test]
fn one_packed_operand_serves_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&PackedB::<f32>::default());
    shared(&PackedB::<bf16>::default());
    shared(&Workspace::<f64>::default());
    let names: Vec<_> = InstructionSet::available().map(InstructionSet::name).collect();
    assert_eq!((PackedB::<f32>::default().instruction_set(), names.last()), (names[0], Some(&"portable")));
}
