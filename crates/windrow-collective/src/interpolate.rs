//! Profiles of shapes that were not measured, from measured shapes of the same operation, element and ranks.
//!
//! Rates are interpolated, because they change slowly; times follow from them.
//!
//! 1. *Computation*: the time per multiply-add of each number of rows. Its logarithm is a plane over log n and log k, fitted to the
//!    measured shapes with weights of 1/distance^2.
//! 2. *Communication*: the time depends on how much is sent, m n elements (m k of an all-gather), whatever n and k are. One cost is fitted
//!    to the samples of all shapes.
//! 3. *Contention*: the factors, as in 1.
//!
//! The measured range is the convex hull of the measured shapes in log n and log k. Outside of it, a shape has the rates of the nearest
//! point of the range; only [`Profiles::extrapolated`] goes there.
//!
//! The error is measured: each shape that the others surround is left out and predicted from them. Such a shape is farther from the others
//! than one between all of them, so the error is rather too large than too small.

use std::collections::{BTreeSet, VecDeque};

use windrow_tiling::cost::{Fitting, Sample, fit};
use windrow_tiling::tile::{Lane, Tiles};
use windrow_tiling::{Items, Nanos, Rows};

use crate::profiles::{ProfilesError, ProfilesErrorKind};
use crate::stored::{Factors, Interpolation, Measured, Shape, Stage, Stored, kept};
use crate::{Error, Operation, Profile, Profiles};

/// The error that is assumed if too few shapes can be left out to measure it.
const ASSUMED_ERROR: f64 = 0.1;

/// Maximum number of shapes that are left out: the nearest ones.
const LEFT_OUT: usize = 16;

/// The number of shapes that can be left out from which on their errors are evidence.
const ENOUGH: usize = 3;

impl Profiles {
    /// The profile of a shape: the measured one, or one that is interpolated from measured shapes of the same operation, element and ranks,
    /// on the same machine and link. Rates are interpolated over log n and log k: the time per multiply-add, and the time of so many communicated
    /// elements. [`Profile::interpolation`] has the shapes it comes from, and its [margin](Profile::margin) the error.
    ///
    /// ```
    /// use windrow_collective::{Measured, Operation, Profile, Profiles, Shape, Stage};
    /// use windrow_tiling::tile::Contention;
    ///
    /// let shape = |n, k| Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n, k };
    /// let mut profiles = Profiles::default();
    /// for n in [512, 2048] {
    ///     let sample = |stage, m: u64, microseconds| Measured { stage, m, microseconds };
    ///     let samples = [256, 512, 1024].into_iter().flat_map(|m| {
    ///         let elements = (m * n as u64) as f64;
    ///         [sample(Stage::Compute, m, 1e-2 * elements), sample(Stage::Communicate, m, 20.0 + 4e-3 * elements)]
    ///     });
    ///     profiles.insert("a", "ib0", Profile::new(shape(n, 512), samples.collect(), Contention::NONE)?);
    /// }
    /// let between = profiles.interpolated("a", "ib0", &shape(1024, 512))?;
    /// let compute = between.samples().iter().find(|sample| sample.stage == Stage::Compute && sample.m == 512).unwrap();
    /// assert!((compute.microseconds / (1e-2 * 512.0 * 1024.0) - 1.0).abs() < 0.01);
    /// assert_eq!(between.interpolation().unwrap().from, [(512, 512), (2048, 512)]);
    /// assert!(profiles.interpolated("a", "ib0", &shape(4096, 512)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No such shape was measured, this one is outside of the range of those that were, or they have no three sizes in common.
    pub fn interpolated(&self, machine: &str, link: &str, shape: &Shape) -> Result<Profile, ProfilesError> {
        self.between(machine, link, shape, false)
    }

    /// As [`interpolated`](Self::interpolated), also outside of the measured range: with the rates of the nearest point of the range. How
    /// far they are off there is not known.
    ///
    /// # Errors
    /// No such shape was measured, or those that were have no three sizes in common.
    pub fn extrapolated(&self, machine: &str, link: &str, shape: &Shape) -> Result<Profile, ProfilesError> {
        self.between(machine, link, shape, true)
    }

    fn between(&self, machine: &str, link: &str, shape: &Shape, beyond: bool) -> Result<Profile, ProfilesError> {
        if let Some(measured) = self.get(machine, link, shape) {
            return Ok(measured.clone());
        }
        let Shape { operation, element, ranks, n, k } = shape;
        let alike = |other: &Shape| (other.operation, &other.element, other.ranks) == (*operation, element, *ranks);
        let entries = self.iter().filter(|entry| entry.machine == machine && entry.link == link);
        let measured = entries.map(|entry| &entry.profile);
        let measured = measured.filter(|profile| alike(profile.shape()) && profile.interpolation().is_none());
        let mut shapes: Vec<_> = measured.map(Point::of).collect();
        let at = place(*n, *k);
        shapes.sort_by(|a, b| distance(a.at, at).total_cmp(&distance(b.at, at)));
        let shapes = Shapes(shapes);
        if shapes.0.is_empty() {
            let why = format!("no profile of {operation} of {element}, {ranks} ranks, over {link} on {machine}");
            return Err(ProfilesError::of(ProfilesErrorKind::Missing, why));
        }
        if !beyond && !shapes.surround(at) {
            let measured: Vec<String> = shapes.0.iter().take(LISTED).map(Point::to_string).collect();
            let more = if shapes.0.len() > LISTED { ", ..." } else { "" };
            let why =
                format!("n = {n}, k = {k} is outside the range of the measured shapes: {}{more}", measured.join(", "));
            return Err(ProfilesError::of(ProfilesErrorKind::Outside, why));
        }
        shapes.profile(shape)
    }
}

/// Maximum number of shapes that a message lists.
const LISTED: usize = 4;

impl Profile {
    /// What the profile was interpolated from; `None` if it was measured. See [`Profiles::interpolated`].
    pub fn interpolation(&self) -> Option<&Interpolation> {
        self.stored.interpolated.as_ref()
    }
}

/// A place in the plane of log n and log k.
type Place = [f64; 2];

fn place(n: usize, k: usize) -> Place {
    [n, k].map(|axis| (axis.max(1) as f64).ln())
}

/// A measured shape.
#[derive(Clone, Copy)]
struct Point<'a> {
    profile: &'a Profile,
    at: Place,
}

impl<'a> Point<'a> {
    fn of(profile: &'a Profile) -> Self {
        let Shape { n, k, .. } = *profile.shape();
        Self { profile, at: place(n, k) }
    }

    /// The time of a tile that is computed: measured, or fitted between measured sizes.
    fn computes(&self, m: u64) -> f64 {
        let measured = self.profile.table(Lane::Compute).get(Rows(m));
        measured.unwrap_or_else(|| self.profile.fit(Lane::Compute).cost.at(Rows(m))).as_micros()
    }

    /// Time per multiply-add.
    fn rate(&self, m: u64) -> f64 {
        let Shape { n, k, .. } = *self.profile.shape();
        self.computes(m) / (m as f64 * n.max(1) as f64 * k.max(1) as f64)
    }

    /// The sizes that were measured in both lanes, from the smallest to the largest that both have.
    fn sizes(&self) -> (Rows, Rows) {
        let [(a, b), (c, d)] = [Lane::Compute, Lane::Communicate].map(|lane| self.profile.fit(lane).measured());
        (a.max(c), b.min(d))
    }
}

impl std::fmt::Display for Point<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { n, k, .. } = self.profile.shape();
        write!(f, "n = {n}, k = {k}")
    }
}

/// Elements of a row that are communicated.
fn width(Shape { operation, n, k, .. }: &Shape) -> usize {
    match operation {
        Operation::MatmulAllReduce | Operation::MatmulReduceScatter => (*n).max(1),
        Operation::AllGatherMatmul => (*k).max(1),
    }
}

/// The measured shapes of one operation, element and number of ranks, the nearest first.
struct Shapes<'a>(Vec<Point<'a>>);

impl Shapes<'_> {
    /// Whether a place is in the convex hull of the shapes, or on its border: no half-plane that ends at the place has all of them.
    fn surround(&self, at: Place) -> bool {
        let away = self.0.iter().map(|point| [point.at[0] - at[0], point.at[1] - at[1]]);
        let mut angles: Vec<f64> = Vec::new();
        for [x, y] in away {
            if x == 0.0 && y == 0.0 {
                return true;
            }
            angles.push(y.atan2(x));
        }
        angles.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (angles.first(), angles.last()) else { return false };
        let around = first + std::f64::consts::TAU - last;
        let widest = angles.windows(2).map(|pair| pair[1] - pair[0]).fold(around, f64::max);
        // Logarithms of a straight row of shapes are straight but for rounding.
        widest <= std::f64::consts::PI + 1e-9
    }

    /// The nearest place of the convex hull.
    fn nearest(&self, at: Place) -> Place {
        if self.surround(at) {
            return at;
        }
        let mut nearest = self.0[0].at;
        for one in &self.0 {
            for other in &self.0 {
                let along = [other.at[0] - one.at[0], other.at[1] - one.at[1]];
                let length = along[0].powi(2) + along[1].powi(2);
                let share = (at[0] - one.at[0]) * along[0] + (at[1] - one.at[1]) * along[1];
                let share = if length > 0.0 { (share / length).clamp(0.0, 1.0) } else { 0.0 };
                let candidate = [one.at[0] + share * along[0], one.at[1] + share * along[1]];
                if distance(candidate, at) < distance(nearest, at) {
                    nearest = candidate;
                }
            }
        }
        nearest
    }

    /// A value of the shapes, at a place between them: the exponential of a plane through its logarithms.
    fn interpolate(&self, at: Place, value: impl Fn(&Point<'_>) -> f64) -> f64 {
        // Weighted least squares for a + b x + c y with x and y from the place: the sums of the normal equations.
        let mut sums = [[0.0; 4]; 3];
        for point in &self.0 {
            let [x, y] = [point.at[0] - at[0], point.at[1] - at[1]];
            let squared = x * x + y * y;
            if squared < 1e-18 {
                return value(point);
            }
            let row = [1.0, x, y, value(point).max(f64::MIN_POSITIVE).ln()];
            for (line, factor) in sums.iter_mut().zip(row) {
                for (sum, number) in line.iter_mut().zip(row) {
                    *sum += factor * number / squared;
                }
            }
        }
        // Each shape adds 1 to the trace of the slopes. A direction in which the shapes do not differ gets no slope.
        let flat = 1e-4 * self.0.len() as f64;
        sums[1][1] += flat;
        sums[2][2] += flat;
        solved(sums).exp()
    }

    /// The times of the lanes for a shape, and the contention.
    fn times(&self, shape: &Shape) -> Result<(Vec<Measured>, Factors), ProfilesError> {
        let Shape { n, k, .. } = *shape;
        let at = self.nearest(place(n, k));
        let sizes = self.common_sizes();
        if sizes.len() < 3 {
            let few = sizes.len();
            let why = format!("the measured shapes have too few sizes in common: {few}\nhint: measure at least three");
            return Err(ProfilesError::of(ProfilesErrorKind::Missing, why));
        }
        let samples: Vec<_> = self.0.iter().flat_map(|point| sent(point.profile)).collect();
        let fitting = Fitting { noise: self.0[0].profile.stored.noise, ..Fitting::UNLIMITED };
        let sent = fit(&samples, &fitting).map_err(|unfit| {
            ProfilesError::of(ProfilesErrorKind::Missing, format!("the communication cannot be interpolated: {unfit}"))
        })?;
        // Outside of the range, the time per element is that of its border.
        let axis = usize::from(shape.operation == Operation::AllGatherMatmul);
        let (width, near) = (width(shape) as f64, at[axis].exp());
        let near = if (near / width - 1.0).abs() < 1e-9 { width } else { near };
        let mut times = Vec::with_capacity(2 * sizes.len());
        for m in sizes {
            let work = m as f64 * n.max(1) as f64 * k.max(1) as f64;
            let compute = work * self.interpolate(at, |point| point.rate(m));
            let communicate = sent.cost.at(Items((m as f64 * near).round() as u64)).as_micros() * width / near;
            for (stage, time) in [(Stage::Compute, compute), (Stage::Communicate, communicate)] {
                times.push(Measured { stage, m, microseconds: time });
            }
        }
        let factor = |lane: fn(&Factors) -> f64| {
            kept(self.interpolate(at, |point| lane(&point.profile.stored.contention)).max(1.0))
        };
        let contention = Factors { compute: factor(|both| both.compute), communicate: factor(|both| both.communicate) };
        Ok((times, contention))
    }

    /// The sizes that any shape was measured at, within the sizes that all shapes were measured at.
    fn common_sizes(&self) -> Vec<u64> {
        let (least, most) = self
            .0
            .iter()
            .map(Point::sizes)
            .fold((Rows(0), Rows(u64::MAX)), |(least, most), (from, to)| (least.max(from), most.min(to)));
        let all = self.0.iter().flat_map(|point| point.profile.samples()).map(|sample| sample.m);
        let sizes: BTreeSet<u64> = all.filter(|&m| (least..=most).contains(&Rows(m))).collect();
        sizes.into_iter().collect()
    }

    /// The error with which each shape is predicted that the others surround, and the number of these shapes. Of the times of tiles in each
    /// lane and of the times of cuts, the one that is predicted worst counts: the root of the mean square.
    fn left_out(&self) -> (f64, usize) {
        let (mut errors, mut shapes) = (LeftOut::default(), 0);
        for (number, point) in self.0.iter().enumerate().take(LEFT_OUT) {
            let mut others = Shapes(self.0.clone());
            others.0.remove(number);
            if others.surround(point.at) && others.misses(point.profile, &mut errors).is_some() {
                shapes += 1;
            }
        }
        let typical = |(sum, count): (f64, usize)| (sum / count.max(1) as f64).sqrt();
        ([errors.compute, errors.communicate, errors.cut].map(typical).into_iter().fold(0.0, f64::max), shapes)
    }

    /// By what shares a measured profile is missed.
    fn misses(&self, measured: &Profile, errors: &mut LeftOut) -> Option<()> {
        let (samples, contention) = self.times(measured.shape()).ok()?;
        for Measured { stage, m, microseconds } in &samples {
            let (lane, errors) = match stage {
                Stage::Compute => (Lane::Compute, &mut errors.compute),
                Stage::Communicate => (Lane::Communicate, &mut errors.communicate),
            };
            if let Some(took) = measured.table(lane).get(Rows(*m)) {
                count(errors, *microseconds, took.as_micros());
            }
        }
        let tiles = Tiles::new(vec![Rows(samples.last()?.m); CUT]).ok()?;
        let rows = tiles.total().0;
        let predicted = self.made(measured.shape(), samples, contention, None).ok()?.predict(rows, &tiles).ok()?;
        count(&mut errors.cut, predicted.0, measured.predict(rows, &tiles).ok()?.0);
        Some(())
    }

    /// The profile of a shape.
    fn profile(&self, shape: &Shape) -> Result<Profile, ProfilesError> {
        let (samples, contention) = self.times(shape)?;
        let (error, left_out) = match self.left_out() {
            (error, shapes) if shapes >= ENOUGH => (error, shapes),
            _ => (ASSUMED_ERROR, 0),
        };
        let from = self.0.iter().map(|point| (point.profile.shape().n, point.profile.shape().k)).collect();
        let outside = !self.surround(place(shape.n, shape.k));
        self.made(shape, samples, contention, Some(Interpolation { from, error: kept(error), left_out, outside }))
    }

    /// A profile of these times. Alignment, limits and the time of a call are those of the nearest shape; what it observed is not.
    fn made(
        &self,
        shape: &Shape,
        samples: Vec<Measured>,
        contention: Factors,
        interpolated: Option<Interpolation>,
    ) -> Result<Profile, ProfilesError> {
        let stored = Stored {
            shape: shape.clone(),
            limit: Fitting::UNLIMITED.limit,
            contention,
            samples,
            refined: Vec::new(),
            predictions: 0,
            errors: VecDeque::new(),
            errors_of_cuts: VecDeque::new(),
            observed: VecDeque::new(),
            refits: VecDeque::new(),
            interpolated,
            ..self.0[0].profile.stored.clone()
        };
        let impossible = |error: Error| format!("the interpolated times do not form a profile: {error}");
        Profile::try_from(stored).map_err(|error| ProfilesError::of(ProfilesErrorKind::Missing, impossible(error)))
    }
}

/// Sums of squared relative errors, and their numbers.
#[derive(Default)]
struct LeftOut {
    compute: (f64, usize),
    communicate: (f64, usize),
    cut: (f64, usize),
}

/// Tiles of the cut that is predicted for a shape that is left out; each has the largest measured size.
const CUT: usize = 4;

fn count((sum, number): &mut (f64, usize), predicted: f64, measured: f64) {
    *sum += (predicted / measured - 1.0).powi(2);
    *number += 1;
}

/// The samples of the communication, by the number of elements sent.
fn sent(profile: &Profile) -> impl Iterator<Item = Sample<Items>> + '_ {
    let width = width(profile.shape()) as u64;
    let samples = profile.samples().iter().filter(|sample| sample.stage == Stage::Communicate);
    samples.map(move |sample| Sample { size: Items(sample.m * width), time: Nanos::micros(sample.microseconds) })
}

fn distance(one: Place, other: Place) -> f64 {
    (one[0] - other[0]).hypot(one[1] - other[1])
}

/// The first unknown of three linear equations: Gaussian elimination from the last unknown up. The matrix is symmetric and positive definite.
fn solved(mut lines: [[f64; 4]; 3]) -> f64 {
    for pivot in [2, 1] {
        let by = lines[pivot];
        for line in &mut lines[..pivot] {
            let factor = line[pivot] / by[pivot];
            for (number, other) in line.iter_mut().zip(by) {
                *number -= factor * other;
            }
        }
    }
    lines[0][3] / lines[0][0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_equations() {
        // 2 x + y = 4, x + 3 y + z = 10, y + 4 z = 14.
        let x = solved([[2.0, 1.0, 0.0, 4.0], [1.0, 3.0, 1.0, 10.0], [0.0, 1.0, 4.0, 14.0]]);
        let z = |x: f64| (14.0 - (4.0 - 2.0 * x)) / 4.0;
        assert!((x + 3.0 * (4.0 - 2.0 * x) + z(x) - 10.0).abs() < 1e-9, "{x}");
    }
}
