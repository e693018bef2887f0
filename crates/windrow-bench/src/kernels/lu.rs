//! lu: compressible flow in a cube by symmetric successive over-relaxation (SSOR). The two sweeps of a step are wavefronts: a row of points needs
//! the row before it and the row of the plane before it, so rows whose two indices have the same sum are independent. Thousands of loops
//! of 1 to 31 rows, microseconds each. (The specification also checks an integral of the pressure, which adds nothing to the check of the states.)

use std::array::from_fn;
use std::ops::Range;

use super::{Class, Form, Loops, Serial, near};

/// Density, three momenta and energy.
type State = [f64; 5];

/// Coefficients of the exact solution: of 1, then of x, y and z, of their squares, cubes and fourth powers.
const EXACT: [[f64; 13]; 5] = [
    [2.0, 0.0, 0.0, 4.0, 5.0, 3.0, 0.5, 0.02, 0.01, 0.03, 0.5, 0.4, 0.3],
    [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 0.01, 0.03, 0.02, 0.4, 0.3, 0.5],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.04, 0.03, 0.05, 0.3, 0.5, 0.4],
    [2.0, 2.0, 0.0, 0.0, 0.0, 2.0, 3.0, 0.03, 0.05, 0.04, 0.2, 0.1, 0.3],
    [5.0, 4.0, 3.0, 2.0, 0.1, 0.4, 0.3, 0.05, 0.04, 0.03, 0.1, 0.3, 0.2],
];
/// The ratio of specific heats, less 1.
const GAMMA1: f64 = 0.4;
const VISCOSITY: f64 = 0.1;
/// Heat conduction relative to viscosity.
const HEAT: f64 = 1.4 * 1.4;
/// Dissipation of second order along each axis, and of fourth order.
const SECOND: [f64; 3] = [0.75, 0.75, 1.0];
const FOURTH: f64 = 0.25;
const RELAXATION: f64 = 1.2;

fn plus(a: &State, factor: f64, b: &State) -> State {
    from_fn(|at| a[at] + factor * b[at])
}

/// A state, and what its fluxes need.
struct Flow {
    state: State,
    velocity: [f64; 3],
    /// Kinetic energy relative to density, and all energy.
    kinetic: f64,
    energy: f64,
    pressure: f64,
}

impl Flow {
    #[inline]
    fn new(state: &State) -> Self {
        let inverse = 1.0 / state[0];
        let velocity: [f64; 3] = from_fn(|axis| state[axis + 1] * inverse);
        let kinetic = 0.5 * velocity.iter().map(|v| v * v).sum::<f64>();
        let pressure = GAMMA1 * (state[4] - state[0] * kinetic);
        Self { state: *state, velocity, kinetic, energy: state[4] * inverse, pressure }
    }

    /// The convective flux along an axis, and the quantities whose second differences are the viscous terms.
    #[inline]
    fn along(&self, axis: usize) -> [State; 2] {
        let ([u, v, w], along) = (self.velocity, self.velocity[axis]);
        let mut flux = self.state.map(|quantity| quantity * along);
        flux[axis + 1] += self.pressure;
        flux[4] += self.pressure * along;
        let mut viscous = [0.0, u, v, w, (1.0 - HEAT) * self.kinetic + along * along / 6.0 + HEAT * self.energy];
        viscous[axis + 1] *= 4.0 / 3.0;
        [flux, viscous]
    }

    /// The change of `convection * flux + viscosity * viscous` of [`along`](Self::along) by a small change of the state.
    #[inline]
    fn derivative(&self, axis: usize, change: &State, convection: f64, viscosity: f64) -> State {
        let inverse = 1.0 / self.state[0];
        let speeds: [f64; 3] = from_fn(|at| (change[at + 1] - self.velocity[at] * change[0]) * inverse);
        let energy = (change[4] - self.energy * change[0]) * inverse;
        let work = (0..3).map(|at| self.velocity[at] * speeds[at]).sum::<f64>();
        let pressure = GAMMA1 * (change[4] - self.kinetic * change[0] - self.state[0] * work);
        let (along, speed) = (self.velocity[axis], speeds[axis]);
        let mut out: State = from_fn(|at| convection * (change[at] * along + self.state[at] * speed));
        (0..3).for_each(|at| out[at + 1] += viscosity * speeds[at]);
        out[axis + 1] += convection * pressure + viscosity * speed / 3.0;
        out[4] += convection * (pressure * along + self.pressure * speed)
            + viscosity * ((1.0 - HEAT) * work + along * speed / 3.0 + HEAT * energy);
        out
    }

    /// The solution of the equations of this point, which are triangular: density, momenta, energy.
    #[inline]
    fn solve(&self, right: State, scale: f64) -> State {
        let (diagonal, viscosity) = (1.0 + scale * SECOND.iter().sum::<f64>(), scale * VISCOSITY / self.state[0]);
        let density = right[0] / diagonal;
        // Along three axes, with 4/3 along one of them.
        let factor = viscosity * 10.0 / 3.0;
        let (mut out, mut work) = ([density; 5], 0.0);
        for (axis, velocity) in self.velocity.into_iter().enumerate() {
            out[axis + 1] = (right[axis + 1] + factor * velocity * density) / (diagonal + factor);
            work += velocity * (out[axis + 1] - velocity * density);
        }
        let known = (10.0 / 3.0 - 3.0 * HEAT) * work - 3.0 * HEAT * self.energy * density;
        out[4] = (right[4] - viscosity * known) / (diagonal + 3.0 * HEAT * viscosity);
        out
    }
}

/// The points of a cube as rows along x. The order of the rows is that of the wavefronts: by the sum of their other two indices.
#[derive(Debug)]
struct Cube {
    n: usize,
    /// Reciprocal of the distance of points.
    h: f64,
    /// Row `y`, plane `z` of each row.
    rows: Vec<[usize; 2]>,
    /// The number of row `y` of plane `z` at `z * n + y`.
    numbers: Vec<usize>,
    /// The rows of each wavefront, without those on the surface.
    fronts: Vec<Range<usize>>,
}

impl Cube {
    fn new(n: usize) -> Self {
        let mut rows: Vec<[usize; 2]> = (0..n * n).map(|at| [at % n, at / n]).collect();
        rows.sort_by_key(|[y, z]| (y + z, *y));
        let mut numbers = vec![0; n * n];
        rows.iter().enumerate().for_each(|(number, [y, z])| numbers[z * n + y] = number);
        let start = |sum| rows.partition_point(|[y, z]| y + z < sum);
        // The first and the last row of a sum are on the surface.
        let fronts = (2..=2 * (n - 2)).map(|sum| start(sum) + 1..start(sum + 1) - 1).collect();
        Self { n, h: (n - 1) as f64, rows, numbers, fronts }
    }

    fn points(&self) -> impl Iterator<Item = [usize; 3]> {
        self.rows.iter().flat_map(|&[y, z]| (0..self.n).map(move |x| [x, y, z]))
    }

    fn is_inner(&self, indices: &[usize]) -> bool {
        indices.iter().all(|&index| 0 < index && index < self.n - 1)
    }

    /// The place of a point's state.
    fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        self.numbers[z * self.n + y] * self.n + x
    }

    fn row<'a>(&self, states: &'a [State], y: usize, z: usize) -> &'a [State] {
        &states[self.at([0, y, z])..][..self.n]
    }

    fn exact(&self, point: [usize; 3]) -> State {
        let p = point.map(|index| index as f64 / self.h);
        EXACT.map(|c| {
            let along = |at| p[at] * (c[at + 1] + p[at] * (c[at + 4] + p[at] * (c[at + 7] + p[at] * c[at + 10])));
            c[0] + (0..3).map(along).sum::<f64>()
        })
    }

    /// The exact state on the surface, and inside what it gives by interpolation.
    fn initial(&self, point: [usize; 3]) -> State {
        if !self.is_inner(&point) {
            return self.exact(point);
        }
        let between: [State; 3] = from_fn(|axis| {
            let end = |end| self.exact(from_fn(|at| if at == axis { end } else { point[at] }));
            let (low, high, share) = (end(0), end(self.n - 1), point[axis] as f64 / self.h);
            from_fn(|at| (1.0 - share) * low[at] + share * high[at])
        });
        from_fn(|at| 1.0 - between.iter().map(|state| 1.0 - state[at]).product::<f64>())
    }

    /// Weights of the five points around `index` in the fourth difference, which is one-sided near the surface.
    fn weights(&self, index: usize) -> [f64; 5] {
        let inner = |step: usize| self.is_inner(&[(index + step).wrapping_sub(2)]);
        let mut weights = from_fn(|step| if inner(step) { [1.0, -4.0, 6.0, -4.0, 1.0][step] } else { 0.0 });
        weights[2] -= if inner(1) && inner(3) { 0.0 } else { 1.0 };
        weights
    }

    /// Differences along an axis at the third of five states.
    #[inline]
    fn differences(&self, axis: usize, states: [&State; 5], weights: [f64; 5]) -> State {
        let [[flux, before], [_, at], [next_flux, after]] = [1, 2, 3].map(|at| Flow::new(states[at]).along(axis));
        from_fn(|it| {
            let viscous = VISCOSITY * (before[it] - 2.0 * at[it] + after[it]);
            let second = SECOND[axis] * (states[1][it] - 2.0 * states[2][it] + states[3][it]);
            let fourth = (0..5).map(|step| weights[step] * states[step][it]).sum::<f64>();
            self.h * (self.h * (viscous + second) - 0.5 * (next_flux[it] - flux[it])) - FOURTH * fourth
        })
    }

    /// The differential operator at all inner points, less `forcing`.
    fn operator<F: Form>(&self, states: &[State], forcing: &[State], out: &mut [State]) {
        F::chunks(out, self.n, |number, out| {
            let [y, z] = self.rows[number];
            if !self.is_inner(&[y, z]) {
                return;
            }
            // Points beyond the surface have no weight.
            let around = |index: usize| [0, 1, 2, 3, 4].map(|step| (index + step).saturating_sub(2).min(self.n - 1));
            let (along_y, along_z) =
                (around(y).map(|y| self.row(states, y, z)), around(z).map(|z| self.row(states, y, z)));
            let forcing = self.row(forcing, y, z);
            for (x, out) in out.iter_mut().enumerate().take(self.n - 1).skip(1) {
                let along_x = self.differences(0, around(x).map(|x| &along_y[2][x]), self.weights(x));
                let along_y = self.differences(1, along_y.map(|row| &row[x]), self.weights(y));
                let along_z = self.differences(2, along_z.map(|row| &row[x]), self.weights(z));
                *out = from_fn(|at| along_x[at] + along_y[at] + along_z[at] - forcing[x][at]);
            }
        });
    }
}

#[derive(Debug)]
pub(super) struct Lu {
    class: Class,
    cube: Cube,
    /// Length of a step, and the number of steps.
    time: f64,
    steps: usize,
    states: Vec<State>,
    /// The operator's value of the exact solution.
    forcing: Vec<State>,
    /// The operator's value less the forcing; after the sweeps, the changes of a step.
    changes: Vec<State>,
}

impl Lu {
    pub(super) fn new(class: Class) -> Self {
        let (n, steps, time) = match class {
            Class::S => (12, 50, 0.5),
            Class::W => (33, 300, 1.5e-3),
        };
        let cube = Cube::new(n);
        let exact: Vec<State> = cube.points().map(|point| cube.exact(point)).collect();
        let zeros = vec![[0.0; 5]; exact.len()];
        let mut forcing = zeros.clone();
        cube.operator::<Serial>(&exact, &zeros, &mut forcing);
        Self { class, cube, time, steps, states: exact, forcing, changes: zeros }
    }

    /// One sweep over all wavefronts, forwards or backwards.
    fn sweep<F: Form>(&mut self, forwards: bool) {
        let Self { cube, time, states, changes, .. } = self;
        let (n, h, sign) = (cube.n, cube.h, if forwards { 1.0 } else { -1.0 });
        let next = |index: usize| if forwards { index - 1 } else { index + 1 };
        for at in 0..cube.fronts.len() {
            let front = cube.fronts[if forwards { at } else { cube.fronts.len() - 1 - at }].clone();
            let (before, rest) = changes.split_at_mut(front.start * n);
            let (rows, after) = rest.split_at_mut(front.len() * n);
            let (done, skipped) = if forwards { (before, 0) } else { (after, front.end * n) };
            F::chunks(rows, n, |number, row| {
                let [y, z] = cube.rows[front.start + number];
                let own = cube.row(states, y, z);
                let others = [[next(y), z], [y, next(z)]]
                    .map(|[y, z]| (cube.row(states, y, z), &done[cube.at([0, y, z]) - skipped..][..n]));
                for x in 1..n - 1 {
                    let x = if forwards { x } else { n - 1 - x };
                    let neighbours =
                        [(own, &*row, next(x)), (others[0].0, others[0].1, x), (others[1].0, others[1].1, x)];
                    let mut sum = [0.0; 5];
                    for (axis, (states, changes, x)) in neighbours.into_iter().enumerate() {
                        let flow =
                            Flow::new(&states[x]).derivative(axis, &changes[x], sign * 0.5 * h, h * h * VISCOSITY);
                        sum = plus(&plus(&sum, 1.0, &flow), h * h * SECOND[axis], &changes[x]);
                    }
                    let kept = if forwards { [0.0; 5] } else { row[x] };
                    let right = plus(&if forwards { row[x] } else { [0.0; 5] }, RELAXATION, &sum);
                    let change = Flow::new(&own[x]).solve(right.map(|value| *time * value), 2.0 * *time * h * h);
                    row[x] = plus(&kept, 1.0, &change);
                }
            });
        }
    }
}

impl Loops for Lu {
    fn run<F: Form>(&mut self) {
        self.states = self.cube.points().map(|point| self.cube.initial(point)).collect();
        self.cube.operator::<F>(&self.states, &self.forcing, &mut self.changes);
        for _ in 0..self.steps {
            self.sweep::<F>(true);
            self.sweep::<F>(false);
            let factor = 1.0 / (RELAXATION * (2.0 - RELAXATION));
            F::zip(&mut self.states, &self.changes, |state, change| *state = plus(state, factor, change));
            self.cube.operator::<F>(&self.states, &self.forcing, &mut self.changes);
        }
    }

    fn check(&self) -> Result<(), String> {
        let (residuals, errors) = match self.class {
            Class::S => (
                [1.6196343211e-2, 2.19767451648e-3, 1.51799276534e-3, 1.50295844360e-3, 3.42640731559e-2],
                [6.42233199580e-4, 8.41443420473e-5, 5.85882696165e-5, 5.84742225952e-5, 1.31033479141e-3],
            ),
            Class::W => (
                [1.236511638192e1, 1.317228477799, 2.550120713095, 2.326187750252, 2.826799444189e1],
                [4.867877144216e-1, 5.064652880982e-2, 9.281818101960e-2, 8.570126542733e-2, 1.084277417792],
            ),
        };
        let cube = &self.cube;
        let mean = |value: &dyn Fn([usize; 3]) -> f64| {
            let inner = cube.points().filter(|point| cube.is_inner(point));
            (inner.map(|point| value(point).powi(2)).sum::<f64>() / (cube.h - 1.0).powi(3)).sqrt()
        };
        for at in 0..5 {
            near("residual", mean(&|point| self.changes[cube.at(point)][at]), residuals[at], 1e-8)?;
            near("error", mean(&|point| cube.exact(point)[at] - self.states[cube.at(point)][at]), errors[at], 1e-8)?;
        }
        Ok(())
    }
}
