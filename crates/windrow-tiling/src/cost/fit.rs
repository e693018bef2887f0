//! Fits the pieces of a cost to samples.
//!
//! Each run of neighbouring sizes gets one piece: a constant, a line or a parabola. It minimizes the squared *relative* residuals,
//! because times span orders of magnitude and noise grows with them. The division into runs and the form of each piece minimize a
//! score: the sum over all pieces of `squares / noise^2 + ln(sizes) * parameters`. So a piece, a bend or a jump must explain more
//! than noise would. A piece has fewer parameters than samples; otherwise no sample could contradict it. Pieces that fall or are
//! negative are not considered.

use std::fmt;

use super::triangle::Triangle;
use super::{Cost, Piece, Size, counted};
use crate::Nanos;

/// A size and the time measured at it.
///
/// ```
/// use windrow_tiling::cost::{Fitting, Sample, fit};
/// use windrow_tiling::{Nanos, Rows};
///
/// let samples = [(100, 3.0), (200, 5.0), (300, 7.0)].map(|(rows, us)| Sample { size: Rows(rows), time: Nanos::micros(us) });
/// let fitted = fit(&samples, &Fitting::default())?;
/// assert!((fitted.cost.at(Rows(400)).as_micros() - 9.0).abs() < 1e-9);
/// # Ok::<(), windrow_tiling::cost::FitError<Rows>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<S> {
    /// The size.
    pub size: S,
    /// The time measured.
    pub time: Nanos,
}

/// Whether pieces have to meet.
///
/// ```
/// use windrow_tiling::cost::{Fitting, Joints, Sample, fit};
/// use windrow_tiling::{Bytes, Nanos};
///
/// // From 500 bytes on, another protocol is faster.
/// let time = |bytes: u64| if bytes < 500 { 1.0 + 0.1 * bytes as f64 } else { 20.0 + 0.02 * bytes as f64 };
/// let samples: Vec<_> = (1..=10).map(|n| 100 * n).map(|n| Sample { size: Bytes(n), time: Nanos::micros(time(n)) }).collect();
/// let free = fit(&samples, &Fitting::default())?;
/// assert_eq!((free.cost.pieces().len(), free.loose()), (2, None));
/// // The second piece begins where the first one ends.
/// let joined = fit(&samples, &Fitting { joints: Joints::Continuous, ..Fitting::default() })?;
/// let from = joined.cost.pieces()[1].from;
/// assert!((joined.cost.at(from).0 - joined.cost.at(Bytes(from.0 - 1)).0).abs() < 200.0);
/// # Ok::<(), windrow_tiling::cost::FitError<Bytes>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joints {
    /// Two pieces meet where they cross between two samples; if they do not cross, the cost jumps between the samples.
    #[default]
    Free,
    /// Pieces meet at the same sizes as with `Free`; all pieces are fitted together.
    Continuous,
}

/// Parameters of a fit. All shares are relative: 0.1 is 10 %.
///
/// ```
/// use windrow_tiling::cost::{FitError, Fitting, Sample, fit};
/// use windrow_tiling::{Nanos, Rows};
///
/// let samples = [(1, 10.0), (2, 18.0), (3, 10.0)].map(|(rows, time)| Sample { size: Rows(rows), time: Nanos(time) });
/// let strict = Fitting { limit: 0.1, ..Fitting::default() };
/// assert!(matches!(fit(&samples, &strict), Err(FitError::Falls { .. } | FitError::Misses { .. })));
/// // The best fit, however loose.
/// assert!(fit(&samples, &Fitting::UNLIMITED)?.loose().is_some());
/// # Ok::<(), FitError<Rows>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fitting {
    /// The largest relative error a fit should have at a sample. A fit with a larger one is [loose](Fit::loose): its predictions are
    /// off by as much.
    pub tolerance: f64,
    /// The largest relative error a fit may have at a sample; beyond it the fit is refused.
    pub limit: f64,
    /// The minimum relative scatter of samples. The scatter of repeated samples is used instead if it is larger.
    pub noise: f64,
    /// Whether pieces have to meet.
    pub joints: Joints,
}

impl Default for Fitting {
    /// A tolerance of 0.1, because 9 of 10 predictions are to stay within it. A limit of 0.3. A noise of 0.01, because a 1 % effect
    /// is not worth a piece.
    fn default() -> Self {
        Self { tolerance: 0.1, limit: 0.3, noise: 0.01, joints: Joints::Free }
    }
}

impl Fitting {
    /// The default without a limit: possible times at three sizes always give the best fit, however loose. [`Joints::Continuous`] may
    /// still fail.
    pub const UNLIMITED: Self = Self { tolerance: 0.1, limit: 1e6, noise: 0.01, joints: Joints::Free };
}

/// A sample and its fitted value.
///
/// ```
/// use windrow_tiling::cost::Residual;
/// use windrow_tiling::{Nanos, Rows};
///
/// let residual = Residual { size: Rows(64), measured: Nanos(100.0), fitted: Nanos(125.0) };
/// assert_eq!(residual.relative(), 0.25);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Residual<S> {
    /// The size.
    pub size: S,
    /// The time measured: the median if the size was measured repeatedly.
    pub measured: Nanos,
    /// The time that the fit gives.
    pub fitted: Nanos,
}

impl<S> Residual<S> {
    /// The relative error of the fit: above 0 if it is above the measured time.
    pub fn relative(&self) -> f64 {
        self.fitted.0 / self.measured.0 - 1.0
    }
}

/// A cost function and its residuals.
///
/// ```
/// use windrow_tiling::cost::{Fitting, Sample, fit};
/// use windrow_tiling::{Nanos, Rows};
///
/// let samples = [(64, 200.0), (128, 302.0), (256, 500.0)].map(|(rows, time)| Sample { size: Rows(rows), time: Nanos(time) });
/// let fitted = fit(&samples, &Fitting::default())?;
/// assert_eq!((fitted.residuals.len(), fitted.measured()), (3, (Rows(64), Rows(256))));
/// assert!(fitted.typical() <= fitted.worst().relative().abs() && fitted.loose().is_none());
/// # Ok::<(), windrow_tiling::cost::FitError<Rows>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Fit<S> {
    /// The fitted function. Beyond the largest sample it continues as a straight line.
    pub cost: Cost<S>,
    /// One residual per measured size, in ascending order; three or more.
    pub residuals: Vec<Residual<S>>,
    /// The relative scatter of samples that the fit assumed.
    pub noise: f64,
    /// The largest relative error it should have: [`Fitting::tolerance`].
    pub tolerance: f64,
}

impl<S: Size> Fit<S> {
    /// The worst residual, if it is beyond the tolerance.
    pub fn loose(&self) -> Option<Residual<S>> {
        Some(self.worst()).filter(|worst| worst.relative().abs() > self.tolerance)
    }

    /// The residual with the largest relative error.
    pub fn worst(&self) -> Residual<S> {
        worst(&self.residuals)
    }

    /// The root of the mean square of the relative residuals.
    pub fn typical(&self) -> f64 {
        let squares: f64 = self.residuals.iter().map(|residual| residual.relative().powi(2)).sum();
        (squares / self.residuals.len() as f64).sqrt()
    }

    /// The smallest and the largest size measured. The cost at other sizes is extrapolated.
    pub fn measured(&self) -> (S, S) {
        (self.residuals[0].size, self.residuals[self.residuals.len() - 1].size)
    }
}

fn worst<S: Size>(residuals: &[Residual<S>]) -> Residual<S> {
    let worst = residuals.iter().max_by(|a, b| a.relative().abs().total_cmp(&b.relative().abs()));
    *worst.expect("a fit has at least three sizes")
}

/// Why samples give no cost function.
///
/// ```
/// use windrow_tiling::cost::{FitError, Fitting, Sample, fit};
/// use windrow_tiling::{Nanos, Rows};
///
/// let two = [(64, 200.0), (128, 300.0)].map(|(rows, time)| Sample { size: Rows(rows), time: Nanos(time) });
/// let error = fit(&two, &Fitting::default()).unwrap_err();
/// assert_eq!(error, FitError::TooFew { sizes: 2 });
/// assert!(error.to_string().ends_with("hint: measure at least three sizes, since any two points lie on a line"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FitError<S> {
    /// Too few sizes: two fit any line.
    TooFew {
        /// Number of different sizes given.
        sizes: usize,
    },
    /// A time that is negative, zero or not a number.
    Impossible {
        /// The size.
        size: S,
        /// The time given.
        time: Nanos,
    },
    /// All samples of a larger size took less time than all samples of a smaller one, and no fit within the limit explains the
    /// difference.
    Falls {
        /// The smaller size.
        smaller: S,
        /// The shortest time of the smaller size.
        took: Nanos,
        /// The larger size.
        larger: S,
        /// The longest time of the larger size.
        takes: Nanos,
    },
    /// The best fit misses a sample by more than the limit.
    Misses {
        /// The worst residual.
        residual: Residual<S>,
        /// The limit.
        limit: f64,
    },
    /// Pieces that have to meet would fall or be negative.
    Joints {
        /// The first size of the piece that would fall or be negative.
        from: S,
    },
    /// The tolerance, the limit or the noise is not above 0.
    Fitting(Fitting),
}

impl<S: Size> fmt::Display for FitError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = S::UNIT;
        match self {
            FitError::TooFew { sizes } => {
                write!(
                    f,
                    "too few different sizes for a fit: {sizes}\n\
                     hint: measure at least three sizes, since any two points lie on a line"
                )
            }
            FitError::Impossible { size, time } => {
                write!(f, "the time for {} is {} ns, which is impossible", counted(*size), time.0)
            }
            FitError::Falls { smaller, took, larger, takes } => {
                write!(
                    f,
                    "{larger} {unit} take less time ({takes}) than {smaller} ({took})\n\
                     hint: measure each size several times"
                )
            }
            FitError::Misses { residual, limit } => {
                let Residual { size, measured, fitted } = residual;
                let (by, most, at) = (100.0 * residual.relative().abs(), 100.0 * limit, counted(*size));
                write!(
                    f,
                    "the fit gives {fitted} for {at}, which took {measured}: it is off by {by:.1} %, more than the allowed {most:.1} %"
                )?;
                write!(f, "\nhint: measure more sizes near {at}, each several times")
            }
            FitError::Joints { from } => {
                write!(
                    f,
                    "a fit without jumps would be negative or decrease from {} on\n\
                     hint: allow jumps, or measure more sizes",
                    counted(*from)
                )
            }
            FitError::Fitting(Fitting { tolerance, limit, noise, .. }) => write!(
                f,
                "the tolerance is {tolerance}, the limit {limit} and the noise {noise}\n\
                 hint: all three must be finite numbers above 0"
            ),
        }
    }
}

impl<S: Size> std::error::Error for FitError<S> {}

/// Fits a cost function to samples, in any order. A size measured repeatedly counts once, with its median.
///
/// With up to [`FINE`] different sizes, all divisions into pieces are compared; the time grows with the square of the number of sizes.
/// With more sizes, the divisions of `FINE` evenly spread ones are compared, then each joint moves to the best place among all sizes
/// around it. The residuals always cover all sizes.
///
/// ```
/// use windrow_tiling::cost::{Fitting, Sample, fit};
/// use windrow_tiling::{Bytes, Nanos};
///
/// // 1024 bytes were measured three times: the median counts.
/// let measured = [(256, 300.0), (512, 550.0), (1024, 1050.0), (1024, 1120.0), (1024, 1040.0)];
/// let samples = measured.map(|(bytes, time)| Sample { size: Bytes(bytes), time: Nanos(time) });
/// let fitted = fit(&samples, &Fitting::default())?;
/// assert_eq!(fitted.residuals[2].measured, Nanos(1050.0));
/// // Such repetitions scatter by more than the usual 1 %.
/// assert!(fitted.noise > 0.01 && fitted.worst().relative().abs() < 0.1);
/// # Ok::<(), windrow_tiling::cost::FitError<Bytes>>(())
/// ```
///
/// # Errors
/// There are fewer than three sizes, or a time is impossible. Times fall by more than repeated samples and the limit explain, or
/// the best fit misses a sample by more than the limit. See [`FitError`].
pub fn fit<S: Size>(samples: &[Sample<S>], fitting: &Fitting) -> Result<Fit<S>, FitError<S>> {
    let share = |share: f64| share.is_finite() && share > 0.0;
    if !(share(fitting.tolerance) && share(fitting.limit) && share(fitting.noise)) {
        return Err(FitError::Fitting(*fitting));
    }
    let (points, scatter) = points(samples, fitting.limit)?;
    let noise = scatter.max(fitting.noise);
    let runs = if points.len() <= FINE { runs(&points, noise) } else { coarse_runs(&points, noise) };
    let pieces = match fitting.joints {
        Joints::Free => joined(&runs, &points),
        Joints::Continuous => continuous(&joined(&runs, &points), &runs, &points)?,
    };
    let cost = straightened(pieces, &points);
    let residuals =
        points.iter().map(|&Sample { size, time }| Residual { size, measured: time, fitted: cost.at(size) });
    let residuals: Vec<_> = residuals.collect();
    let residual = worst(&residuals);
    if residual.relative().abs() > fitting.limit {
        return Err(FitError::Misses { residual, limit: fitting.limit });
    }
    Ok(Fit { cost, residuals, noise, tolerance: fitting.tolerance })
}

/// The number of sizes up to which all divisions into pieces are compared. That takes 0.05 s.
pub const FINE: usize = 512;

/// One sample per size, in ascending order, and the relative scatter of repeated samples.
fn points<S: Size>(samples: &[Sample<S>], limit: f64) -> Result<(Vec<Sample<S>>, f64), FitError<S>> {
    if let Some(&Sample { size, time }) =
        samples.iter().find(|sample| !(sample.time.0.is_finite() && sample.time.0 > 0.0))
    {
        return Err(FitError::Impossible { size, time });
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(|a, b| a.size.cmp(&b.size).then(a.time.0.total_cmp(&b.time.0)));
    let (mut points, mut squares, mut freedom) = (Vec::new(), 0.0, 0);
    // The shortest sample of each size so far; of these, the longest.
    let mut highest: Option<Sample<S>> = None;
    for same in sorted.chunk_by(|a, b| a.size == b.size) {
        let (least, most) = (same[0], same[same.len() - 1]);
        // True if all pairs of fitted times within the limit fall.
        let below = |highest: &Sample<S>| most.time.0 * (1.0 + limit) < highest.time.0 * (1.0 - limit);
        if let Some(Sample { size: smaller, time: took }) = highest.filter(below) {
            return Err(FitError::Falls { smaller, took, larger: most.size, takes: most.time });
        }
        highest = highest.filter(|highest| highest.time >= least.time).or(Some(least));
        let median = (same[(same.len() - 1) / 2].time.0 + same[same.len() / 2].time.0) / 2.0;
        squares += same.iter().map(|sample| (sample.time.0 / median - 1.0).powi(2)).sum::<f64>();
        freedom += same.len() - 1;
        points.push(Sample { size: least.size, time: Nanos(median) });
    }
    if points.len() < 3 {
        return Err(FitError::TooFew { sizes: points.len() });
    }
    Ok((points, if freedom > 0 { (squares / freedom as f64).sqrt() } else { 0.0 }))
}

/// The form of a piece: its degree, and whether it has a constant. A piece without a constant is 0 at size 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    constant: bool,
    degree: usize,
}

impl Form {
    fn parameters(self) -> usize {
        usize::from(self.constant) + self.degree
    }
}

/// A piece fitted to the samples `begin..end`, not yet extended towards its neighbours.
#[derive(Clone, Copy, Debug)]
struct FitPiece<S> {
    begin: usize,
    end: usize,
    form: Form,
    /// Starts at the first sample of the run, or at 0.
    piece: Piece<S>,
}

/// The best division of the points into runs.
fn runs<S: Size>(points: &[Sample<S>], noise: f64) -> Vec<FitPiece<S>> {
    let n = points.len();
    let price = (n as f64).ln();
    let mut best: Vec<(f64, Option<FitPiece<S>>)> = vec![(f64::INFINITY, None); n + 1];
    best[0].0 = 0.0;
    for begin in 0..n {
        // The start of a piece is a parameter too.
        let before = best[begin].0 + if begin > 0 { price } else { 0.0 };
        if before.is_infinite() {
            continue;
        }
        // A form without a constant only makes sense for the first piece, from size 0.
        for constant in [true, false].into_iter().take(if begin == 0 { 2 } else { 1 }) {
            extend(points, begin, constant, |run, squares| {
                let score = before + squares / (noise * noise) + price * run.form.parameters() as f64;
                if score < best[run.end].0 {
                    best[run.end] = (score, Some(run));
                }
            });
        }
    }
    let mut runs = Vec::new();
    let mut end = n;
    // A constant fits any run, however badly, so a division always exists.
    while let Some(run) = best[end].1 {
        runs.push(run);
        end = run.begin;
    }
    runs.reverse();
    runs
}

/// The best division of `FINE` of the points; then each joint moves to the best place among all points around it.
fn coarse_runs<S: Size>(points: &[Sample<S>], noise: f64) -> Vec<FitPiece<S>> {
    let last = points.len() - 1;
    let taken: Vec<usize> = (0..FINE).map(|place| place * last / (FINE - 1)).collect();
    let some: Vec<Sample<S>> = taken.iter().map(|&place| points[place]).collect();
    let mut runs = runs(&some, noise);
    let missed = |run: &FitPiece<S>, point: &Sample<S>| (run.piece.at(point.size) / point.time.0 - 1.0).powi(2);
    let mut begin = 0;
    for place in 0..runs.len() {
        let end = runs[place].end;
        let run = &mut runs[place];
        (run.begin, run.end) = (begin, points.len());
        let Some(right) = runs.get(place + 1).copied() else { break };
        let left = runs[place];
        // Both pieces rise up to the points that were taken.
        let (low, high) = (taken[end - 1] + 1, taken[end]);
        let mut squares: f64 = points[low..high].iter().map(|point| missed(&left, point)).sum();
        let mut best = (squares, high);
        for joint in (low..high).rev() {
            squares += missed(&right, &points[joint]) - missed(&left, &points[joint]);
            if !right.piece.moved(points[joint].size).rises(Some(points[high].size)) {
                break;
            }
            if squares < best.0 {
                best = (squares, joint);
            }
        }
        begin = best.1;
        runs[place].end = begin;
    }
    runs
}

/// Calls `found` with each admissible piece whose run starts at `begin`, and the squares that the piece leaves.
fn extend<S: Size>(points: &[Sample<S>], begin: usize, constant: bool, mut found: impl FnMut(FitPiece<S>, f64)) {
    let count = |place: usize| points[place].size.count() as f64;
    let scale = count(points.len() - 1);
    let zero = S::from_count(0);
    let from = if constant { points[begin].size } else { zero };
    let origin = from.count() as f64;
    let skipped = usize::from(!constant);
    let mut triangle = Triangle::new(3 - skipped);
    for end in begin + 1..=points.len() {
        let (x, time) = ((count(end - 1) - origin) / scale, points[end - 1].time.0);
        let mut equation = [1.0 / time, x / time, x * x / time, 1.0];
        triangle.push(&mut equation[skipped..]);
        for degree in 0..3 {
            let form = Form { constant, degree };
            let parameters = form.parameters();
            if parameters == 0 || end - begin <= parameters {
                continue;
            }
            let Some(solution) = triangle.solve(parameters) else { continue };
            let mut coefficients = [0.0; 3];
            coefficients[skipped..][..parameters].copy_from_slice(&solution);
            let [at, slope, curve] = coefficients;
            let piece = Piece { from, at: Nanos(at), slope: slope / scale, curve: curve / scale / scale };
            // The piece may later be extended up to the next sample, and the first piece down to 0.
            let reach = if begin == 0 { piece.moved(zero) } else { piece };
            if reach.rises(Some(points[end.min(points.len() - 1)].size)) {
                found(FitPiece { begin, end, form, piece }, triangle.left(parameters));
            }
        }
    }
}

/// Extends the pieces of the runs until they meet. Two pieces that do not cross are extended to halfway between the runs. A right
/// piece that would fall or be negative there is not extended.
fn joined<S: Size>(runs: &[FitPiece<S>], points: &[Sample<S>]) -> Vec<Piece<S>> {
    let first = runs[0].piece.moved(S::from_count(0));
    let later = runs.windows(2).map(|pair| {
        let [left, right] = [pair[0].piece, pair[1].piece];
        let (low, high) = (points[pair[0].end - 1].size, points[pair[1].begin].size);
        let halfway = S::from_count(low.count() + (high.count() - low.count()).div_ceil(2));
        let mut begins =
            [crossing(&left, &right, low, high), Some(halfway)].into_iter().flatten().map(|from| right.moved(from));
        begins.find(|piece| piece.rises(Some(high))).unwrap_or(right)
    });
    std::iter::once(first).chain(later).collect()
}

/// The first size above `low` and up to `high` at which the order of the two pieces has reversed.
fn crossing<S: Size>(left: &Piece<S>, right: &Piece<S>, low: S, high: S) -> Option<S> {
    let above = |count: u64| left.at(S::from_count(count)) > right.at(S::from_count(count));
    let (mut low, mut high) = (low.count(), high.count());
    let side = above(low);
    if side == above(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if above(middle) == side { low = middle } else { high = middle }
    }
    Some(S::from_count(high))
}

/// Pieces of the same forms, fitted together so that each starts where the one before it ends.
fn continuous<S: Size>(
    pieces: &[Piece<S>],
    runs: &[FitPiece<S>],
    points: &[Sample<S>],
) -> Result<Vec<Piece<S>>, FitError<S>> {
    let scale = points[points.len() - 1].size.count() as f64;
    let constant = runs[0].form.constant;
    let unknowns = usize::from(constant) + runs.iter().map(|run| run.form.degree).sum::<usize>();
    let mut triangle = Triangle::new(unknowns);
    let end_of = |place: usize| pieces.get(place + 1).map(|next| next.from.count() as f64);
    for point in points {
        let (x, time) = (point.size.count() as f64, point.time.0);
        let mut equation = Vec::with_capacity(unknowns + 1);
        equation.extend(constant.then_some(1.0 / time));
        for (place, (piece, run)) in pieces.iter().zip(runs).enumerate() {
            // How much of the size falls into this piece: the whole piece if the size is beyond it.
            let into = (x.min(end_of(place).unwrap_or(x)) - piece.from.count() as f64).max(0.0) / scale;
            equation.extend((1..=run.form.degree).map(|power| into.powi(power as i32) / time));
        }
        equation.push(1.0);
        triangle.push(&mut equation);
    }
    let from = pieces[0].from;
    let mut solution = triangle.solve(unknowns).ok_or(FitError::Joints { from })?.into_iter();
    let mut at = if constant { solution.next().unwrap_or(0.0) } else { 0.0 };
    let mut joined = Vec::with_capacity(pieces.len());
    for (place, (piece, run)) in pieces.iter().zip(runs).enumerate() {
        let mut next = |power: usize| if run.form.degree >= power { solution.next().unwrap_or(0.0) } else { 0.0 };
        let (slope, curve) = (next(1) / scale, next(2) / scale / scale);
        let piece = Piece { from: piece.from, at: Nanos(at), slope, curve };
        let until = pieces.get(place + 1).map_or(points[points.len() - 1].size, |next| next.from);
        if !piece.rises(Some(until)) {
            return Err(FitError::Joints { from: piece.from });
        }
        at = piece.at(until);
        joined.push(piece);
    }
    Ok(joined)
}

/// Beyond the last sample, a parabola continues as its tangent: its behaviour there is not known.
fn straightened<S: Size>(mut pieces: Vec<Piece<S>>, points: &[Sample<S>]) -> Cost<S> {
    for piece in &mut pieces {
        // This removes only rounding errors: every piece rises within its sizes.
        (piece.at, piece.slope) = (Nanos(piece.at.0.max(0.0)), piece.slope.max(0.0));
    }
    let last = pieces[pieces.len() - 1];
    if last.curve != 0.0 {
        let mut end = Piece { curve: 0.0, ..last.moved(points[points.len() - 1].size) };
        end.slope = end.slope.max(0.0);
        if end.from == last.from {
            pieces.pop();
        }
        pieces.push(end);
    }
    Cost { pieces }
}
