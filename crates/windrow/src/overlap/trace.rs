//! Traces: when each tile was in each lane, and which lane limits the run.

use std::fmt;
use std::sync::Arc;

use windrow_plan::Nanos;

use crate::runtime::listen::LaneTile;

/// The kind of a lane.
///
/// ```
/// use windrow::overlap::{self, LaneKind, Trace};
///
/// let mut trace = Trace::new();
/// overlap::source(0..2).blocking("read", Ok::<u32, ()>).compute("add", Ok).trace(&mut trace).collect().unwrap();
/// let kinds: Vec<LaneKind> = trace.lanes.iter().map(|lane| lane.kind).collect();
/// assert_eq!(kinds, [LaneKind::Blocking, LaneKind::Compute]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneKind {
    /// Runs on the calling thread.
    Compute,
    /// Runs on the calling thread and on workers of the pool, several tiles at a time.
    ComputeEach,
    /// Runs on a separate helper thread.
    Blocking,
}

/// The times of a run: see [`Overlap::trace`](super::Overlap::trace).
///
/// All times are in nanoseconds since the beginning of the run.
///
/// ```
/// use windrow::overlap::{self, Trace};
///
/// let mut trace = Trace::new();
/// overlap::source(0..3).compute("halve", |i| Ok::<_, ()>(i / 2)).trace(&mut trace).collect().unwrap();
/// let lane = &trace.lanes[0];
/// assert_eq!((lane.name.as_str(), lane.tiles.len()), ("halve", 3));
/// assert!(lane.busy() <= trace.wall);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The lanes in order.
    pub lanes: Vec<LaneTrace>,
    /// The end of the run, helper threads included.
    pub wall: Nanos,
}

/// The trace of one lane.
///
/// ```
/// use windrow::Nanos;
/// use windrow::overlap::LaneTrace;
///
/// let lane = LaneTrace::beside("read", [(Nanos(0.0), Nanos(10.0)), (Nanos(6.0), Nanos(12.0))]);
/// assert_eq!((lane.busy(), lane.work()), (Nanos(12.0), Nanos(16.0)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaneTrace {
    /// The name of the lane.
    pub name: String,
    /// The kind of the lane.
    pub kind: LaneKind,
    /// Threads that may have a tile in the lane at the same time: those of the pool in a [`ComputeEach`](LaneKind::ComputeEach) lane, else 1.
    pub members: usize,
    /// Tiles that passed the lane, in order: tile `i` is at `i`. A tile that failed in a compute or blocking lane is the last. In other
    /// lanes, failed tiles are missing, and so are those that were under way when the run ended.
    pub tiles: Vec<TileTrace>,
}

/// One tile in one lane.
///
/// ```
/// use windrow::Nanos;
/// use windrow::overlap::LaneTrace;
///
/// let lane = LaneTrace::beside("read", [(Nanos(4.0), Nanos(10.0))]);
/// let tile = lane.tiles[0];
/// assert_eq!((tile.start, tile.length()), (Nanos(4.0), Nanos(6.0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TileTrace {
    /// The start of the tile in the lane. The first lane begins by pulling the tile from the source.
    pub start: Nanos,
    /// The end of the tile in the lane.
    pub end: Nanos,
    /// Wait of the lane before this tile because the queue before it was empty.
    pub empty: Nanos,
    /// Wait of the lane before this tile because the queue after it was full, or the maximum of operations was under way.
    pub full: Nanos,
}

impl TileTrace {
    /// From start to end.
    pub fn length(&self) -> Nanos {
        Nanos(self.end.0 - self.start.0)
    }
}

impl LaneTrace {
    /// A lane of one thread next to those of an overlap, such as its feeder, to be added to its trace. `tiles` are the beginnings and
    /// ends, in order.
    ///
    /// ```
    /// use windrow::Nanos;
    /// use windrow::overlap::{self, LaneTrace};
    ///
    /// let mut trace = overlap::Trace::new();
    /// overlap::source(0..2).compute("halve", |i| Ok::<_, ()>(i / 2)).trace(&mut trace).collect().unwrap();
    /// let reads = [(Nanos(0.0), Nanos(1e9)), (Nanos(1e9), Nanos(2e9))];
    /// trace.lanes.insert(0, LaneTrace::beside("read", reads));
    /// assert_eq!(trace.explain().name, "read");
    /// ```
    pub fn beside(name: impl Into<String>, tiles: impl IntoIterator<Item = (Nanos, Nanos)>) -> Self {
        let none = Nanos(0.0);
        let tiles = tiles.into_iter().map(|(start, end)| TileTrace { start, end, empty: none, full: none }).collect();
        Self { name: name.into(), kind: LaneKind::Blocking, members: 1, tiles }
    }

    /// The time with a tile in the lane. If tiles overlap, the time counts once.
    pub fn busy(&self) -> Nanos {
        let (mut busy, mut until) = (0.0, f64::NEG_INFINITY);
        for TileTrace { start, end, .. } in &self.tiles {
            busy += (end.0 - start.0.max(until)).max(0.0);
            until = until.max(end.0);
        }
        Nanos(busy)
    }

    /// The time of all tiles together. If tiles overlap, each counts.
    pub fn work(&self) -> Nanos {
        Nanos(self.tiles.iter().map(|tile| tile.length().0).sum())
    }
}

impl Trace {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lane that limits the run, and how far the run was from that limit.
    pub fn explain(&self) -> Limits {
        // Members of a lane of several tiles work on each of them. In other lanes, time that overlaps counts once.
        let busy = |lane: &LaneTrace| match lane.kind {
            LaneKind::ComputeEach => lane.work().0,
            _ => lane.busy().0,
        };
        // The least time in which the lane's members can do that.
        let share = |lane: &LaneTrace| busy(lane) / lane.members.max(1) as f64;
        let computes = |lane: &LaneTrace| matches!(lane.kind, LaneKind::Compute | LaneKind::ComputeEach);
        let sum = |is_one: &dyn Fn(&LaneTrace) -> bool| -> f64 {
            self.lanes.iter().filter(|lane| is_one(lane)).map(busy).sum()
        };
        // The calling thread runs all compute lanes, one tile at a time. Members run the tiles of lanes of several tiles meanwhile.
        let alone = sum(&|lane| lane.kind == LaneKind::Compute);
        let members = self.lanes.iter().map(|lane| lane.members).max().unwrap_or(1).max(1);
        let computing = alone.max(sum(&computes) / members as f64);
        let largest = |is_one: &dyn Fn(&LaneTrace) -> bool| {
            let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| is_one(lane));
            lanes.max_by(|one, other| share(one.1).total_cmp(&share(other.1))).map(|(at, _)| at)
        };
        let (bound, at) = match largest(&|lane| !computes(lane)) {
            Some(at) if busy(&self.lanes[at]) > computing => (busy(&self.lanes[at]), Some(at)),
            _ => (computing, largest(&computes)),
        };
        let several = self.lanes.iter().filter(|lane| computes(lane)).count() > 1;
        let shared = several && at.is_some_and(|at| computes(&self.lanes[at]));
        let lane = at.map(|at| &self.lanes[at]);
        let tiles = lane.map_or(&[][..], |lane| &lane.tiles);
        // The wait before the first tile is counted as fill.
        let waited = |which: fn(&TileTrace) -> Nanos| Nanos(tiles.iter().skip(1).map(|tile| which(tile).0).sum());
        Limits {
            tiles: self.lanes.last().map_or(0, |lane| lane.tiles.len()),
            wall: self.wall,
            bound: Nanos(bound),
            serial: Nanos(self.lanes.iter().map(busy).sum()),
            lane: at,
            name: lane.map_or_else(String::new, |lane| lane.name.clone()),
            shared,
            fill: tiles.first().map_or(Nanos(0.0), |tile| tile.start),
            drain: Nanos(tiles.last().map_or(0.0, |tile| (self.wall.0 - tile.end.0).max(0.0))),
            empty: waited(|tile| tile.empty),
            full: waited(|tile| tile.full),
        }
    }

    /// A timeline in JSON for trace viewers (Chrome's `about:tracing`, Perfetto): an object with `traceEvents`. Times are in microseconds.
    /// Each lane is a track, or several if its tiles overlap; between lanes, a counter has the tiles that wait.
    ///
    /// ```
    /// use windrow::overlap;
    ///
    /// let mut trace = overlap::Trace::new();
    /// overlap::source(0..3).compute("halve", |i| Ok::<_, ()>(i / 2)).trace(&mut trace).collect().unwrap();
    /// assert!(trace.json().starts_with(r#"{"displayTimeUnit":"ns","#));
    /// assert!(trace.json().contains(r#""cat":"tile","name":"tile 2","args":{"lane":"halve","#));
    /// ```
    #[cfg(feature = "observe")]
    pub fn json(&self) -> String {
        windrow_observe::timeline(self.tiles())
    }

    /// The tiles of a timeline.
    pub(super) fn tiles(&self) -> Vec<LaneTile> {
        let mut tiles = Vec::new();
        for (lane, LaneTrace { name, tiles: of_lane, .. }) in self.lanes.iter().enumerate() {
            let name: Arc<str> = Arc::from(name.as_str());
            for (tile, &TileTrace { start, end, empty, full }) in of_lane.iter().enumerate() {
                let (begin, end, waits) = (start.0 as u64, end.0 as u64, (empty.0 as u64, full.0 as u64));
                tiles.push(LaneTile { begin, end, waits, lane, name: name.clone(), tile });
            }
        }
        tiles
    }
}

/// The limit of a run: see [`Trace::explain`].
///
/// ```
/// use windrow::Nanos;
/// use windrow::overlap::{LaneTrace, Trace};
///
/// let read = LaneTrace::beside("read", [(Nanos(0.0), Nanos(10.0))]);
/// let write = LaneTrace::beside("write", [(Nanos(10.0), Nanos(14.0))]);
/// let limits = Trace { lanes: vec![read, write], wall: Nanos(20.0) }.explain();
/// assert_eq!((limits.name.as_str(), limits.bound, limits.serial), ("read", Nanos(10.0), Nanos(14.0)));
/// assert_eq!((limits.drain, limits.efficiency()), (Nanos(10.0), 0.5));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Tiles that passed the last lane.
    pub tiles: usize,
    /// The time of the run.
    pub wall: Nanos,
    /// The lower bound for any overlap of these tiles: the time of the slowest lane, or of all compute lanes together, since they share
    /// the calling thread. Of lanes that take several tiles at once, the work of all members counts, divided by the threads of the pool.
    pub bound: Nanos,
    /// The time of all lanes together: the time without overlap.
    pub serial: Nanos,
    /// The limiting lane; of several compute lanes, the slowest. `None` without lanes.
    pub lane: Option<usize>,
    /// The name of the limiting lane.
    pub name: String,
    /// Several compute lanes together limit the run.
    pub shared: bool,
    /// The time until the limiting lane had its first tile.
    pub fill: Nanos,
    /// The time after the last tile of the limiting lane.
    pub drain: Nanos,
    /// Between its first and its last tile: how long the limiting lane waited for tiles.
    pub empty: Nanos,
    /// Between its first and its last tile: how long the limiting lane waited for room in the queue after it.
    pub full: Nanos,
}

impl Limits {
    /// The bound as a share of the time taken: 1 is perfect. 1 for a run that took no time.
    pub fn efficiency(&self) -> f64 {
        if self.wall.0 > 0.0 { self.bound.0 / self.wall.0 } else { 1.0 }
    }

    /// The lane that limits the run, in a few words.
    pub(super) fn reason(&self) -> String {
        if self.lane.is_none() {
            return "there are no lanes, so there is nothing to overlap".to_owned();
        }
        let others = if self.shared { " and the other compute lanes" } else { "" };
        format!("limited by {:?}{others}, at {:.2} of the possible speed", self.name, self.efficiency())
    }
}

impl fmt::Display for Limits {
    /// One line: `64 tiles in 12.5 ms, 0.93 of the speed possible with "write" (11.6 ms; without overlap 21.0 ms): 0.5 ms until its first tile, ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lane.is_none() {
            return write!(f, "there are no lanes, so there is nothing to overlap");
        }
        let Limits { tiles, wall, bound, serial, name, fill, drain, empty, full, .. } = self;
        let others = if self.shared { " and the other compute lanes" } else { "" };
        write!(f, "{tiles} tiles in {wall}, {:.2} of the speed possible with {name:?}{others}", self.efficiency())?;
        write!(f, " ({bound}; without overlap {serial}): {fill} until its first tile, {drain} after its last, ")?;
        write!(f, "{empty} waiting for tiles, {full} waiting for room")
    }
}

/// The log of one lane, if the run is traced.
#[derive(Default)]
pub(super) struct Log {
    trace: Option<LaneTrace>,
    /// The wait of the lane (true: for room), and its start.
    waits: Option<(bool, Nanos)>,
    empty: Nanos,
    full: Nanos,
}

impl Log {
    pub(super) fn new(name: String, kind: LaneKind) -> Self {
        Self { trace: Some(LaneTrace { name, kind, members: 1, tiles: Vec::new() }), ..Self::default() }
    }

    /// The lane begins to wait, for room or for a tile.
    #[inline]
    pub(super) fn idle(&mut self, now: Option<Nanos>, full: bool) {
        if let Some(now) = now
            && self.waits.is_none_or(|(reason, _)| reason != full)
        {
            self.settle(now);
            self.waits = Some((full, now));
        }
    }

    fn settle(&mut self, now: Nanos) {
        if let Some((full, since)) = self.waits.take() {
            let reason = if full { &mut self.full } else { &mut self.empty };
            reason.0 += (now.0 - since.0).max(0.0);
        }
    }

    /// A tile begins, after the waits so far. Its end is not known yet.
    #[inline]
    pub(super) fn begins(&mut self, now: Option<Nanos>) -> Option<TileTrace> {
        let start = now?;
        self.settle(start);
        let (empty, full) = (std::mem::take(&mut self.empty), std::mem::take(&mut self.full));
        Some(TileTrace { start, end: start, empty, full })
    }

    /// The oldest tile that has begun leaves the lane; it ended at `end`.
    #[inline]
    pub(super) fn ends(&mut self, begun: Option<TileTrace>, end: Option<Nanos>) {
        if let (Some(trace), Some(begun), Some(end)) = (&mut self.trace, begun, end) {
            trace.tiles.push(TileTrace { end, ..begun });
        }
    }

    pub(super) fn take(&mut self) -> Option<LaneTrace> {
        self.trace.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str, kind: LaneKind, spans: &[(f64, f64)]) -> LaneTrace {
        let tile = |&(start, end): &(f64, f64)| TileTrace {
            start: Nanos(start),
            end: Nanos(end),
            empty: Nanos(1.0),
            full: Nanos(0.0),
        };
        LaneTrace { name: name.into(), kind, members: 1, tiles: spans.iter().map(tile).collect() }
    }

    #[test]
    fn time_that_overlaps_in_a_lane_counts_once() {
        let spans = [(0.0, 10.0), (5.0, 8.0), (7.0, 12.0), (20.0, 21.0)];
        assert_eq!(lane("a", LaneKind::Blocking, &spans).busy(), Nanos(13.0));
    }

    #[test]
    fn the_slowest_executor_limits() {
        let lanes = |write| {
            vec![
                lane("a", LaneKind::Compute, &[(0.0, 10.0), (20.0, 30.0)]),
                lane("b", LaneKind::Compute, &[(10.0, 18.0), (30.0, 38.0)]),
                lane("write", LaneKind::Blocking, &[(19.0, 19.0 + write), (40.0, 40.0 + write)]),
            ]
        };
        let limits = Trace { lanes: lanes(15.0), wall: Nanos(60.0) }.explain();
        assert_eq!((limits.bound, limits.lane, limits.shared), (Nanos(36.0), Some(0), true), "they share a thread");
        assert_eq!((limits.fill, limits.drain, limits.empty), (Nanos(0.0), Nanos(30.0), Nanos(1.0)));
        assert_eq!(limits.efficiency(), 0.6);
        let limits = Trace { lanes: lanes(19.0), wall: Nanos(60.0) }.explain();
        assert_eq!((limits.bound, limits.lane, limits.shared), (Nanos(38.0), Some(2), false));
        assert_eq!((limits.serial, limits.fill, limits.drain), (Nanos(74.0), Nanos(19.0), Nanos(1.0)));
        let said = limits.to_string();
        assert!(
            said.starts_with(
                "2 tiles in 60 ns, 0.63 of the speed possible with \"write\" (38 ns; without overlap 74 ns)"
            ),
            "{said}"
        );
        assert_eq!(Trace::new().explain().to_string(), "there are no lanes, so there is nothing to overlap");
    }

    #[cfg(feature = "observe")]
    #[test]
    fn names_are_escaped_and_overlapping_tiles_are_on_separate_tracks() {
        let spans = [(0.0, 2000.0), (1000.0, 3000.0), (2500.0, 4000.0)];
        let trace = Trace {
            lanes: vec![lane("a \"b\"\\\n\u{9b}\u{202e}\u{e0041}", LaneKind::Blocking, &spans)],
            wall: Nanos(1.0),
        };
        let json = trace.json();
        assert!(json.contains(r#""lane":"a \"b\"\\\u000a\u009b\u202e\udb40\udc41""#), "{json}");
        for (tid, at, tile) in [(2, "0.000", 0), (3, "1.000", 1), (2, "2.500", 2)] {
            let event = format!(r#""tid":{tid},"ts":{at},"dur":"#);
            assert!(json.lines().any(|line| line.contains(&event) && line.contains(&format!("tile {tile}"))), "{json}");
        }
    }
}
