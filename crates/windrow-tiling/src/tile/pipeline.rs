//! Predicts the time of a cut: two lanes that slow each other down while both are busy.
//!
//! [`PipelineState`] sums up a prefix of tiles in two numbers: the time when the first lane finishes the prefix, and the *backlog*.
//! That is the second lane's remaining work at that time, counted at full speed. No other number is needed, because the second lane
//! never waits while it has a backlog. A [`Timeline`] is computed event by event instead, so that tests can check one against the
//! other.

use std::fmt;
use std::ops::Range;

use super::{Lane, PlanError, Problem, Tiles};
use crate::Nanos;

/// Slowdown of the first and of the second lane while both are busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    pub(super) first: f64,
    pub(super) second: f64,
}

impl Slow {
    /// An upper bound on the delay of the first lane by each nanosecond of additional backlog.
    pub(super) fn drag(self) -> f64 {
        self.second * (1.0 - 1.0 / self.first)
    }
}

/// The state after a prefix of tiles has passed the first lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PipelineState {
    /// Nanoseconds since the start.
    pub(super) time: f64,
    /// Remaining work of the second lane, in nanoseconds at full speed.
    pub(super) backlog: f64,
}

impl PipelineState {
    /// The next tile passes the first lane, then joins the backlog of the second.
    pub(super) fn step(self, first: f64, second: f64, slow: Slow) -> PipelineState {
        let PipelineState { time, backlog } = self.run(first, slow);
        PipelineState { time, backlog: backlog + second }
    }

    /// The first lane does `work` nanoseconds of work while the second one reduces its backlog.
    fn run(self, work: f64, slow: Slow) -> PipelineState {
        let PipelineState { time, backlog } = self;
        let (alone, drained) = (work * slow.first, backlog * slow.second);
        if alone <= drained {
            PipelineState { time: time + alone, backlog: backlog - alone / slow.second }
        } else {
            PipelineState { time: time + drained + (work - drained / slow.first), backlog: 0.0 }
        }
    }

    /// When the second lane has finished as well.
    pub(super) fn end(self) -> f64 {
        self.time + self.backlog
    }
}

/// A lower bound for this much work in two lanes that never wait for each other: the better of full overlap and none.
pub(super) fn fluid(first: f64, second: f64, slow: Slow) -> f64 {
    PipelineState { time: 0.0, backlog: second }.run(first, slow).end().min(first + second)
}

/// When a lane was busy with a tile.
///
/// ```
/// use windrow_tiling::Nanos;
/// use windrow_tiling::tile::TileSpan;
///
/// assert_eq!(TileSpan { start: Nanos(20.0), end: Nanos(50.0) }.length(), Nanos(30.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileSpan {
    /// Since the start of the operation.
    pub start: Nanos,
    /// Since the start of the operation.
    pub end: Nanos,
}

impl TileSpan {
    /// From start to end.
    pub fn length(self) -> Nanos {
        Nanos(self.end.0 - self.start.0)
    }
}

/// When each lane is predicted to be busy with each tile.
///
/// ```
/// use windrow_tiling::tile::{Lane, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let cost = |rows: Rows| Nanos(10.0 * rows.0 as f64);
/// let timeline = Problem::new(Rows(3), &cost, &cost).timeline(&Tiles::new([Rows(1), Rows(2)])?)?;
/// let spans = |lane| timeline.spans(lane).iter().map(|span| (span.start.0, span.end.0)).collect::<Vec<_>>();
/// assert_eq!(spans(Lane::Compute), [(0.0, 10.0), (10.0, 30.0)]);
/// assert_eq!(spans(Lane::Communicate), [(10.0, 20.0), (30.0, 50.0)]);
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The computation of each tile.
    pub compute: Vec<TileSpan>,
    /// The communication of each tile.
    pub communicate: Vec<TileSpan>,
    /// When both lanes have finished.
    pub end: Nanos,
    work: [LaneWork; 2],
}

/// The work of one lane without contention: as one piece, and in tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LaneWork {
    whole: f64,
    tiled: f64,
}

/// Where the time of a plan goes, for the lane with the most work. The four times add up to the predicted time.
///
/// ```
/// use windrow_tiling::tile::{Lane, Problem, Tiles};
/// use windrow_tiling::{Nanos, Rows};
///
/// let (compute, communicate) = (|rows: Rows| Nanos(10.0 * rows.0 as f64), |rows: Rows| Nanos(5.0 + 20.0 * rows.0 as f64));
/// let losses = Problem::new(Rows(2), &compute, &communicate).timeline(&Tiles::new([Rows(1); 2])?)?.losses();
/// assert_eq!((losses.lane, losses.whole), (Lane::Communicate, Nanos(45.0)));
/// // A second fixed cost, and the wait for the first tile.
/// assert_eq!((losses.expansion, losses.waiting), (Nanos(5.0), Nanos(10.0)));
/// # Ok::<(), windrow_tiling::tile::PlanError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// The lane.
    pub lane: Lane,
    /// Its work in one piece, without contention.
    pub whole: Nanos,
    /// The additional time of its tiles, without contention. (Negative if small tiles are faster.)
    pub expansion: Nanos,
    /// The additional time caused by contention with the other lane.
    pub contention: Nanos,
    /// The time the lane waits: for the first tile, between tiles, and for the other lane at the end.
    pub waiting: Nanos,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Losses { lane, whole, expansion, contention, waiting } = self;
        write!(
            f,
            "{whole} of {lane} in one piece + {expansion} for tiles + {contention} of contention + {waiting} of waiting"
        )
    }
}

impl Timeline {
    /// The spans of a lane.
    pub fn spans(&self, lane: Lane) -> &[TileSpan] {
        match lane {
            Lane::Compute => &self.compute,
            Lane::Communicate => &self.communicate,
        }
    }

    /// Where the time goes.
    pub fn losses(&self) -> Losses {
        let [compute, communicate] = self.work;
        let (lane, work) = match compute.tiled > communicate.tiled {
            true => (Lane::Compute, compute),
            false => (Lane::Communicate, communicate),
        };
        let busy: f64 = self.spans(lane).iter().map(|span| span.length().0).sum();
        Losses {
            lane,
            whole: Nanos(work.whole),
            expansion: Nanos(work.tiled - work.whole),
            contention: Nanos(busy - work.tiled),
            waiting: Nanos(self.end.0 - busy),
        }
    }
}

impl Problem<'_> {
    /// Predicts the time of these tiles. They need not be aligned, and their number is not limited.
    ///
    /// ```
    /// use windrow_tiling::tile::{Problem, Tiles};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// let cost = |rows: Rows| Nanos(10.0 * rows.0 as f64);
    /// let problem = Problem::new(Rows(2), &cost, &cost);
    /// // In halves, one step of the two lanes overlaps.
    /// assert_eq!(problem.predict(&Tiles::one(Rows(2)))?, Nanos(40.0));
    /// assert_eq!(problem.predict(&Tiles::new([Rows(1); 2])?)?, Nanos(30.0));
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// The tiles do not add up to the rows of the operation, or a cost or a slowdown is invalid.
    pub fn predict(&self, tiles: &Tiles) -> Result<Nanos, PlanError> {
        self.check()?;
        self.holds(tiles)?;
        let ([first, second], slow) = (self.order.lanes(), self.slow());
        let state = tiles.iter().try_fold(PipelineState::default(), |state, tile| {
            Ok(state.step(self.cost(first, tile)?.0, self.cost(second, tile)?.0, slow))
        })?;
        Ok(Nanos(state.end()))
    }

    /// Predicts when each lane is busy with each of these tiles.
    ///
    /// ```
    /// use windrow_tiling::tile::{Problem, Tiles};
    /// use windrow_tiling::{Nanos, Rows};
    ///
    /// // A product of 200 us and a collective of 300 us; halves of the product take 150 us each.
    /// let compute = |rows: Rows| Nanos::micros(if rows == Rows(2) { 200.0 } else { 150.0 });
    /// let communicate = |rows: Rows| Nanos::micros(150.0 * rows.0 as f64);
    /// let timeline = Problem::new(Rows(2), &compute, &communicate).timeline(&Tiles::new([Rows(1); 2])?)?;
    /// assert_eq!(timeline.end, Nanos::micros(450.0));
    /// assert_eq!(timeline.communicate[0].start, timeline.compute[0].end);
    /// assert_eq!(timeline.losses().waiting, Nanos::micros(150.0));
    /// # Ok::<(), windrow_tiling::tile::PlanError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`predict`](Self::predict).
    pub fn timeline(&self, tiles: &Tiles) -> Result<Timeline, PlanError> {
        self.check()?;
        self.holds(tiles)?;
        let lanes = self.order.lanes();
        let costs =
            |lane| tiles.iter().map(|tile| self.cost(lane, tile).map(|time| time.0)).collect::<Result<Vec<_>, _>>();
        let costs = [costs(lanes[0])?, costs(lanes[1])?];
        let spans = walk(&costs, self.slow());
        let work = |lane, costs: &[f64]| {
            let whole = if tiles.is_empty() { Nanos(0.0) } else { self.cost(lane, self.rows)? };
            Ok(LaneWork { whole: whole.0, tiled: costs.iter().sum() })
        };
        let work = [work(lanes[0], &costs[0])?, work(lanes[1], &costs[1])?];
        let end = spans[1].last().map_or(0.0, |span| span.end);
        let [first, second] = spans
            .map(|spans| spans.into_iter().map(|s| TileSpan { start: Nanos(s.start), end: Nanos(s.end) }).collect());
        let (compute, communicate, work) = match lanes[0] {
            Lane::Compute => (first, second, work),
            Lane::Communicate => (second, first, [work[1], work[0]]),
        };
        Ok(Timeline { compute, communicate, end: Nanos(end), work })
    }

    pub(super) fn slow(&self) -> Slow {
        let of = |lane| match lane {
            Lane::Compute => self.contention.compute,
            Lane::Communicate => self.contention.communicate,
        };
        let [first, second] = self.order.lanes();
        Slow { first: of(first), second: of(second) }
    }

    /// The time of all rows in one tile: no overlap and no contention.
    pub(super) fn serial(&self) -> Result<Nanos, PlanError> {
        self.predict(&Tiles::one(self.rows))
    }
}

/// Simulates both lanes from event to event: the next event is the end of the tile that ends first.
fn walk(costs: &[Vec<f64>; 2], slow: Slow) -> [Vec<Range<f64>>; 2] {
    let tiles = costs[0].len();
    let mut spans = [Vec::with_capacity(tiles), Vec::with_capacity(tiles)];
    let (mut now, mut begun, mut left) = (0.0, [0.0; 2], [f64::NAN; 2]);
    while spans[1].len() < tiles {
        let next = [spans[0].len(), spans[1].len()];
        let busy = [next[0] < tiles, next[1] < next[0]];
        for lane in 0..2 {
            if busy[lane] && left[lane].is_nan() {
                (begun[lane], left[lane]) = (now, costs[lane][next[lane]]);
            }
        }
        let factor = if busy == [true; 2] { [slow.first, slow.second] } else { [1.0; 2] };
        let until = |lane: usize| if busy[lane] { left[lane] * factor[lane] } else { f64::INFINITY };
        let passed = until(0).min(until(1));
        now += passed;
        let done = [until(0) <= passed, until(1) <= passed];
        for lane in 0..2 {
            if done[lane] {
                spans[lane].push(begun[lane]..now);
                left[lane] = f64::NAN;
            } else if busy[lane] {
                left[lane] -= passed / factor[lane];
            }
        }
    }
    spans
}
