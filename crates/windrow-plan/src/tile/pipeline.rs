//! What a plan would take: two lanes that slow each other down while both are busy.
//!
//! [`State`] is all that matters of a prefix of tiles: when the first lane is through with it, and how much of the second lane's work
//! is left then, counted at full speed. (The second lane never waits while there is such a backlog.) A timeline is walked event by
//! event instead, so that each can be held against the other.

use std::fmt;
use std::ops::Range;

use super::{Lane, Problem, Tiles, Unplannable};
use crate::Nanos;

/// Slowdown of the first and of the second lane while both are busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    pub(super) first: f64,
    pub(super) second: f64,
}

impl Slow {
    /// What a nanosecond of backlog that was not there before costs the first lane, at most.
    pub(super) fn drag(self) -> f64 {
        self.second * (1.0 - 1.0 / self.first)
    }
}

/// After a prefix of tiles has passed the first lane.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct State {
    /// Nanoseconds since the start.
    pub(super) time: f64,
    /// Work of the second lane that is left, in nanoseconds at full speed.
    pub(super) backlog: f64,
}

impl State {
    /// The next tile passes the first lane, and then waits for the second.
    pub(super) fn step(self, first: f64, second: f64, slow: Slow) -> State {
        let State { time, backlog } = self.run(first, slow);
        State { time, backlog: backlog + second }
    }

    /// The first lane does this much while the second one works off its backlog.
    fn run(self, work: f64, slow: Slow) -> State {
        let State { time, backlog } = self;
        let (alone, drained) = (work * slow.first, backlog * slow.second);
        if alone <= drained {
            State { time: time + alone, backlog: backlog - alone / slow.second }
        } else {
            State { time: time + drained + (work - drained / slow.first), backlog: 0.0 }
        }
    }

    /// When the second lane is through as well.
    pub(super) fn end(self) -> f64 {
        self.time + self.backlog
    }
}

/// The least time for this much work in two lanes that never wait for each other: all of it overlapped, or nothing.
pub(super) fn fluid(first: f64, second: f64, slow: Slow) -> f64 {
    State { time: 0.0, backlog: second }.run(first, slow).end().min(first + second)
}

/// When a tile was in a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Since the start of the operation.
    pub start: Nanos,
    /// Since the start of the operation.
    pub end: Nanos,
}

impl Span {
    /// From start to end.
    pub fn length(self) -> Nanos {
        Nanos(self.end.0 - self.start.0)
    }
}

/// When each tile is predicted to be in each lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// The computation of each tile.
    pub compute: Vec<Span>,
    /// The communication of each tile.
    pub communicate: Vec<Span>,
    /// When both lanes are through.
    pub end: Nanos,
    work: [Work; 2],
}

/// Of one lane: its work in one piece and in tiles, without contention.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Work {
    whole: f64,
    tiled: f64,
}

/// Where the time of a plan goes, seen from the lane with the most work. The four add up to the predicted time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// The lane.
    pub lane: Lane,
    /// What its work would take in one piece, alone.
    pub whole: Nanos,
    /// What its tiles take beyond that, alone. (Less than nothing where small tiles are faster.)
    pub expansion: Nanos,
    /// What they take beyond that because the other lane is busy.
    pub contention: Nanos,
    /// How long the lane waits: for the first tile, between tiles, and for the other lane at the end.
    pub waiting: Nanos,
}

impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Losses { lane, whole, expansion, contention, waiting } = self;
        write!(
            f,
            "{whole} of {lane} in one piece + {expansion} for tiles + {contention} contention + {waiting} waiting"
        )
    }
}

impl Timeline {
    /// The spans of a lane.
    pub fn spans(&self, lane: Lane) -> &[Span] {
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
    /// What these tiles would take. Any tiles: they need not be aligned, nor few.
    ///
    /// # Errors
    /// The tiles do not add up to the rows, or a cost or a slowdown is impossible.
    pub fn predict(&self, tiles: &Tiles) -> Result<Nanos, Unplannable> {
        self.check()?;
        self.holds(tiles)?;
        let ([first, second], slow) = (self.order.lanes(), self.slow());
        let state = tiles.iter().try_fold(State::default(), |state, tile| {
            Ok(state.step(self.cost(first, tile)?.0, self.cost(second, tile)?.0, slow))
        })?;
        Ok(Nanos(state.end()))
    }

    /// When these tiles would be where.
    ///
    /// ```
    /// use windrow_plan::tile::{Problem, Tiles};
    /// use windrow_plan::{Nanos, Rows};
    ///
    /// // A product of 200 us and a collective of 300 us; halves of the product take 150 us each.
    /// let compute = |rows: Rows| Nanos::micros(if rows == Rows(2) { 200.0 } else { 150.0 });
    /// let communicate = |rows: Rows| Nanos::micros(150.0 * rows.0 as f64);
    /// let timeline = Problem::new(Rows(2), &compute, &communicate).timeline(&Tiles::new([Rows(1); 2])?)?;
    /// assert_eq!(timeline.end, Nanos::micros(450.0));
    /// assert_eq!(timeline.communicate[0].start, timeline.compute[0].end);
    /// assert_eq!(timeline.losses().waiting, Nanos::micros(150.0));
    /// # Ok::<(), windrow_plan::tile::Unplannable>(())
    /// ```
    ///
    /// # Errors
    /// As for [`predict`](Self::predict).
    pub fn timeline(&self, tiles: &Tiles) -> Result<Timeline, Unplannable> {
        self.check()?;
        self.holds(tiles)?;
        let lanes = self.order.lanes();
        let costs =
            |lane| tiles.iter().map(|tile| self.cost(lane, tile).map(|time| time.0)).collect::<Result<Vec<_>, _>>();
        let costs = [costs(lanes[0])?, costs(lanes[1])?];
        let spans = walk(&costs, self.slow());
        let work = |lane, costs: &[f64]| {
            let whole = if tiles.is_empty() { Nanos(0.0) } else { self.cost(lane, self.rows)? };
            Ok(Work { whole: whole.0, tiled: costs.iter().sum() })
        };
        let work = [work(lanes[0], &costs[0])?, work(lanes[1], &costs[1])?];
        let end = spans[1].last().map_or(0.0, |span| span.end);
        let [first, second] =
            spans.map(|spans| spans.into_iter().map(|s| Span { start: Nanos(s.start), end: Nanos(s.end) }).collect());
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

    /// All rows in one tile: nothing overlaps, nothing is slowed down.
    pub(super) fn serial(&self) -> Result<Nanos, Unplannable> {
        self.predict(&Tiles::one(self.rows))
    }
}

/// From event to event: whichever lane ends its tile first.
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
