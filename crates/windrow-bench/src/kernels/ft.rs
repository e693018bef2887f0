//! ft: a partial differential equation solved by Fourier transforms in three dimensions, six times. Loops over planes; each moves all data once.

use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

use super::{Class, Form, Loops, Random, near};

/// Times at which the solution is checked.
const TIMES: usize = 6;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Complex {
    re: f64,
    im: f64,
}

impl Add for Complex {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    #[inline]
    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

impl Sum for Complex {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::default(), Add::add)
    }
}

/// The transform of a row, whose length is a power of two, in natural order (Stockham). `roots` are the powers of a root of 1, half of them.
fn transform(row: &mut [Complex], room: &mut [Complex], roots: &[Complex]) {
    let n = row.len();
    let (mut from, mut to) = (row, room);
    let mut run = 1;
    while run < n {
        let (low, high) = from.split_at(n / 2);
        let pairs = low.chunks_exact(run).zip(high.chunks_exact(run));
        for ((out, (low, high)), root) in to.chunks_exact_mut(2 * run).zip(pairs).zip(roots.iter().step_by(run)) {
            let (sums, differences) = out.split_at_mut(run);
            for ((sum, difference), (&low, &high)) in sums.iter_mut().zip(differences).zip(low.iter().zip(high)) {
                *sum = low + high;
                *difference = (low - high) * *root;
            }
        }
        std::mem::swap(&mut from, &mut to);
        run *= 2;
    }
    if !n.ilog2().is_multiple_of(2) {
        // The result is in the room.
        to.copy_from_slice(from);
    }
}

/// The first `n / 2` powers of the `n`-th root of 1.
fn roots(n: usize, sign: f64) -> Vec<Complex> {
    let angle = |power| sign * std::f64::consts::TAU * power as f64 / n as f64;
    (0..n / 2).map(|power| Complex { re: angle(power).cos(), im: angle(power).sin() }).collect()
}

/// Rotates the dimensions, so that the first becomes the last, and transforms the rows.
fn pass<F: Form>(from: &[Complex], to: &mut [Complex], [first, second, third]: [usize; 3], roots: &[Complex]) {
    F::chunks(to, third * first, |plane, out| {
        // Four rows at once: they fill cache lines of the output.
        for at in (0..first).step_by(4) {
            let rows = [0, 1, 2, 3].map(|row| &from[((at + row) * second + plane) * third..][..third]);
            for (column, out) in out.chunks_exact_mut(first).enumerate() {
                out[at..at + 4].copy_from_slice(&rows.map(|row| row[column]));
            }
        }
        let mut room = vec![Complex::default(); first];
        out.chunks_exact_mut(first).for_each(|row| transform(row, &mut room, roots));
    });
}

#[derive(Debug)]
pub(super) struct Ft {
    class: Class,
    /// Planes, rows and columns.
    sizes: [usize; 3],
    /// Roots of the dimensions for the transform and for its inverse.
    roots: [[Vec<Complex>; 3]; 2],
    /// Factors of one step of time, for each dimension.
    decays: [Vec<f64>; 3],
    /// The transform of the solution.
    spectrum: Vec<Complex>,
    solution: Vec<Complex>,
    room: Vec<Complex>,
    sums: Vec<Complex>,
}

impl Ft {
    pub(super) fn new(class: Class) -> Self {
        let sizes = match class {
            Class::S => [64, 64, 64],
            Class::W => [32, 128, 128],
        };
        let decays = sizes.map(|n| {
            let frequency = |at| if at < n / 2 { at as f64 } else { at as f64 - n as f64 };
            let rate = -4e-6 * std::f64::consts::PI.powi(2);
            (0..n).map(|at| (rate * frequency(at).powi(2)).exp()).collect()
        });
        let zeros = || vec![Complex::default(); sizes.iter().product()];
        Self {
            class,
            sizes,
            roots: [1.0, -1.0].map(|sign| sizes.map(|n| roots(n, sign))),
            decays,
            spectrum: zeros(),
            solution: zeros(),
            room: zeros(),
            sums: Vec::new(),
        }
    }
}

/// The transform of `data` into `to`. After it, `data` holds intermediate values, as `room` does.
fn transform_all<F: Form>(
    [from, room, to]: [&mut [Complex]; 3],
    [planes, rows, columns]: [usize; 3],
    roots: &[Vec<Complex>; 3],
) {
    pass::<F>(from, room, [planes, rows, columns], &roots[0]);
    pass::<F>(room, from, [rows, columns, planes], &roots[1]);
    pass::<F>(from, to, [columns, planes, rows], &roots[2]);
}

impl Loops for Ft {
    fn run<F: Form>(&mut self) {
        let Self { sizes, roots, decays, spectrum, solution, room, sums, .. } = self;
        let [planes, rows, columns] = *sizes;
        let plane = rows * columns;
        F::chunks(solution, plane, |at, values| {
            let mut random = Random::after(Random::SEED, 2 * plane * at);
            values.fill_with(|| Complex { re: random.next(), im: random.next() });
        });
        transform_all::<F>([solution, room, spectrum], *sizes, &roots[0]);
        sums.clear();
        for _ in 0..TIMES {
            F::chunks(spectrum, plane, |at, values| {
                for (row, decay) in values.chunks_exact_mut(columns).zip(&decays[1]) {
                    let decay = decay * decays[0][at];
                    for (value, own) in row.iter_mut().zip(&decays[2]) {
                        *value = Complex { re: value.re * decay * own, im: value.im * decay * own };
                    }
                }
            });
            pass::<F>(spectrum, room, [planes, rows, columns], &roots[1][0]);
            pass::<F>(room, solution, [rows, columns, planes], &roots[1][1]);
            pass::<F>(solution, room, [columns, planes, rows], &roots[1][2]);
            let values = &*room;
            sums.push(F::sum(1024, |at| {
                let at = at + 1;
                values[(5 * at % planes * rows + 3 * at % rows) * columns + at % columns]
            }));
        }
    }

    fn check(&self) -> Result<(), String> {
        let specified: [(f64, f64); TIMES] = match self.class {
            Class::S => [
                (5.546087004964e2, 4.845363331978e2),
                (5.546385409189e2, 4.865304269511e2),
                (5.546148406171e2, 4.883910722336e2),
                (5.545423607415e2, 4.901273169046e2),
                (5.544255039624e2, 4.917475857993e2),
                (5.542683411902e2, 4.932597244941e2),
            ],
            Class::W => [
                (5.673612178944e2, 5.293246849175e2),
                (5.631436885271e2, 5.282149986629e2),
                (5.594024089970e2, 5.270996558037e2),
                (5.560698047020e2, 5.260027904925e2),
                (5.530898991250e2, 5.249400845633e2),
                (5.504159734538e2, 5.239212247086e2),
            ],
        };
        if self.sums.len() != TIMES {
            return Err(format!("{} sums of {TIMES}", self.sums.len()));
        }
        let points = self.sizes.iter().product::<usize>() as f64;
        for (sum, (re, im)) in self.sums.iter().zip(specified) {
            near("real part of a sum", sum.re / points, re, 1e-12)?;
            near("imaginary part of a sum", sum.im / points, im, 1e-12)?;
        }
        Ok(())
    }
}
