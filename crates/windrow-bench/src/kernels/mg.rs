//! mg: Poisson's equation with periodic borders by V-cycles of a multigrid method. Loops over the planes of grids of 2^3 to 128^3 points: from
//! nanoseconds to milliseconds within one cycle.

use super::{Class, Form, Loops, Random, near};

const CYCLES: usize = 4;
/// Charges of each sign.
const CHARGES: usize = 10;

/// Weights of a point, of the 6 points that share a face with it, of the 12 that share an edge and the 8 that share a corner.
type Weights = [f64; 4];

/// The negative Laplace operator.
const RESIDUAL: Weights = [8.0 / 3.0, 0.0, -1.0 / 6.0, -1.0 / 12.0];
/// An approximate inverse of the Laplace operator.
const SMOOTHER: Weights = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];
const RESTRICTION: Weights = [0.5, 0.25, 0.125, 0.0625];

/// The values at `n`^3 points. A row has a copy of its last value before its first, and of its first after its last.
#[derive(Debug)]
struct Grid {
    n: usize,
    values: Vec<f64>,
}

/// Sums over the neighbours in the plane across a row: faces and edges.
struct Sums {
    faces: Vec<f64>,
    edges: Vec<f64>,
}

impl Grid {
    fn new(n: usize) -> Self {
        Self { n, values: vec![0.0; n * n * (n + 2)] }
    }

    /// A row; indices are modulo `n`, which is a power of two.
    fn row(&self, plane: usize, row: usize) -> &[f64] {
        let (mask, length) = (self.n - 1, self.n + 2);
        &self.values[((plane & mask) * self.n + (row & mask)) * length..][..length]
    }

    /// `body` for each plane.
    #[track_caller]
    fn planes<F: Form>(&mut self, body: impl Fn(usize, std::slice::ChunksExactMut<'_, f64>) + Sync + Send) {
        let length = self.n + 2;
        F::chunks(&mut self.values, self.n * length, |plane, rows| body(plane, rows.chunks_exact_mut(length)));
    }

    fn sums(&self, plane: usize, row: usize, sums: &mut Sums) {
        let (above, below, before, after) = (plane.wrapping_sub(1), plane + 1, row.wrapping_sub(1), row + 1);
        let add = |sums: &mut [f64], [a, b, c, d]: [&[f64]; 4]| {
            let pairs = a.iter().zip(b).zip(c.iter().zip(d));
            sums.iter_mut().zip(pairs).for_each(|(sum, ((a, b), (c, d)))| *sum = a + b + (c + d));
        };
        let at = |plane, row| self.row(plane, row);
        add(&mut sums.faces, [at(plane, before), at(plane, after), at(above, row), at(below, row)]);
        add(&mut sums.edges, [at(above, before), at(above, after), at(below, before), at(below, after)]);
    }
}

impl Sums {
    fn new(n: usize) -> Self {
        Self { faces: vec![0.0; n + 2], edges: vec![0.0; n + 2] }
    }

    /// The weighted sum over the neighbours of point `at` of the row `own`.
    #[inline]
    fn weighted(&self, own: &[f64], at: usize, [point, faces, edges, corners]: Weights) -> f64 {
        point * own[at]
            + faces * (own[at - 1] + own[at + 1] + self.faces[at])
            + edges * (self.edges[at] + self.faces[at - 1] + self.faces[at + 1])
            + corners * (self.edges[at - 1] + self.edges[at + 1])
    }
}

/// Copies the ends of a row to the opposite sides.
fn close(row: &mut [f64]) {
    let n = row.len() - 2;
    row[0] = row[n];
    row[n + 1] = row[1];
}

/// `out = base + weighted sums of grid`; without a base, `out` itself is it.
fn add_weighted<F: Form>(out: &mut Grid, base: Option<&Grid>, grid: &Grid, weights: Weights) {
    out.planes::<F>(|plane, rows| {
        let mut sums = Sums::new(grid.n);
        for (at, row) in rows.enumerate() {
            grid.sums(plane, at, &mut sums);
            if let Some(base) = base {
                row.copy_from_slice(base.row(plane, at));
            }
            let own = grid.row(plane, at);
            for (at, value) in row[1..=grid.n].iter_mut().enumerate() {
                *value += sums.weighted(own, at + 1, weights);
            }
            close(row);
        }
    });
}

/// Weighted means of `fine` at every second point.
fn restrict<F: Form>(coarse: &mut Grid, fine: &Grid) {
    coarse.planes::<F>(|plane, rows| {
        let mut sums = Sums::new(fine.n);
        for (at, row) in rows.enumerate() {
            fine.sums(2 * plane + 1, 2 * at + 1, &mut sums);
            let own = fine.row(2 * plane + 1, 2 * at + 1);
            for (at, value) in row[1..=fine.n / 2].iter_mut().enumerate() {
                *value = sums.weighted(own, 2 * at + 2, RESTRICTION);
            }
            close(row);
        }
    });
}

/// Adds `coarse`, interpolated, to `fine`, or to zeros.
fn interpolate<F: Form>(fine: &mut Grid, coarse: &Grid, from_zero: bool) {
    // The two coarse neighbours, which are equal at every second point.
    let neighbours = |at: usize| [(at.wrapping_sub(1) >> 1), at / 2];
    fine.planes::<F>(|plane, rows| {
        let mut means = vec![0.0; coarse.n + 2];
        let [above, below] = neighbours(plane);
        for (at, row) in rows.enumerate() {
            let [before, after] = neighbours(at);
            let pairs = |at| coarse.row(above, at).iter().zip(coarse.row(below, at));
            for (mean, ((a, b), (c, d))) in means.iter_mut().zip(pairs(before).zip(pairs(after))) {
                *mean = 0.25 * (a + b + (c + d));
            }
            if from_zero {
                row.fill(0.0);
            }
            for (pair, means) in row[1..=2 * coarse.n].chunks_exact_mut(2).zip(means.windows(2)) {
                pair[0] += 0.5 * (means[0] + means[1]);
                pair[1] += means[1];
            }
            close(row);
        }
    });
}

#[derive(Debug)]
pub(super) struct Mg {
    class: Class,
    charges: Grid,
    /// Solutions and residuals, from the coarsest grid to the finest.
    solutions: Vec<Grid>,
    residuals: Vec<Grid>,
    norm: f64,
}

impl Mg {
    pub(super) fn new(class: Class) -> Self {
        let n: usize = match class {
            Class::S => 32,
            Class::W => 128,
        };
        let grids = || (1..=n.ilog2()).map(|level| Grid::new(1 << level)).collect();
        Self { class, charges: charges(n), solutions: grids(), residuals: grids(), norm: 0.0 }
    }

    fn cycle<F: Form>(&mut self) {
        let (solutions, residuals) = (&mut self.solutions, &mut self.residuals);
        let finest = solutions.len() - 1;
        for level in (0..finest).rev() {
            let (coarse, fine) = residuals.split_at_mut(level + 1);
            restrict::<F>(&mut coarse[level], &fine[0]);
        }
        solutions[0].values.fill(0.0);
        add_weighted::<F>(&mut solutions[0], None, &residuals[0], SMOOTHER);
        for level in 1..=finest {
            let (coarse, fine) = solutions.split_at_mut(level);
            interpolate::<F>(&mut fine[0], &coarse[level - 1], level < finest);
            let base = (level == finest).then_some(&self.charges);
            add_weighted::<F>(&mut residuals[level], base, &fine[0], RESIDUAL);
            add_weighted::<F>(&mut fine[0], None, &residuals[level], SMOOTHER);
        }
    }
}

/// 1 where the largest of `n`^3 random numbers are, -1 where the smallest are.
fn charges(n: usize) -> Grid {
    let mut random = Random(Random::SEED);
    let numbers: Vec<f64> = (0..n * n * n).map(|_| random.next()).collect();
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let mut grid = Grid::new(n);
    for (charge, at) in [(-1.0, &order[..CHARGES]), (1.0, &order[order.len() - CHARGES..])] {
        at.iter().for_each(|at| grid.values[at / n * (n + 2) + at % n + 1] = charge);
    }
    grid.values.chunks_exact_mut(n + 2).for_each(close);
    grid
}

impl Loops for Mg {
    fn run<F: Form>(&mut self) {
        let finest = self.solutions.len() - 1;
        self.solutions[finest].values.fill(0.0);
        let residual = |it: &mut Self| {
            add_weighted::<F>(&mut it.residuals[finest], Some(&it.charges), &it.solutions[finest], RESIDUAL);
        };
        residual(self);
        for _ in 0..CYCLES {
            self.cycle::<F>();
            residual(self);
        }
        let grid = &self.residuals[finest];
        let n = grid.n;
        let square = |row| grid.row(row / n, row)[1..=n].iter().map(|value| value * value).sum::<f64>();
        self.norm = (F::sum(n * n, square) / (n * n * n) as f64).sqrt();
    }

    fn check(&self) -> Result<(), String> {
        let norm = match self.class {
            Class::S => 0.5307707005734e-4,
            Class::W => 0.6467329375339e-5,
        };
        near("norm of the residual", self.norm, norm, 1e-8)
    }
}
