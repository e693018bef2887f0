//! The shared state of the executors of one run, the stations they step, and the loop of each executor.
//!
//! # Protocol
//! A run has a *cut*: the first tile that is not wanted, at first none. A failure at a tile lowers the cut to that tile; cancellation
//! lowers it to 0. The cut never rises. A station checks the cut before each tile, and leaves if its next tile is not before the cut. That
//! ends its queues at both sides. So tiles before the cut go through, and tiles after it are dropped where they are. In the end the recorded
//! failure is the first in tile order, whichever lane failed first in time: the failure of a serial run.
//!
//! A lock guards the cut, and a flag says that the cut was moved. An executor that observes the flag late does some useless work, and the
//! lane that failed drops the result.

use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::crew::Crew;
use super::trace::{LaneKind, LaneTrace};
use crate::runtime::cancel::CancelToken;
use crate::runtime::flag::Flag;
use crate::runtime::listen;
use windrow_plan::Nanos;
use windrow_sync::Mutex;
use windrow_sync::fork::{Process, Stranded};
use windrow_sync::latch::Latch;
use windrow_sync::unwind::{Payload, discard};

/// Interval at which the calling thread polls the tokens while it has no work: a token is only a flag, and wakes no thread. A poll with its
/// wakeup takes some microseconds, so less than 1 in 1000 of one CPU.
///
/// Measure: chosen, because a token wakes no thread and a poll takes less than 1 in 1000 of a CPU.
const POLL: Duration = Duration::from_millis(5);

/// The result of a step.
pub(super) enum Step {
    /// The step did some work: step again.
    Worked,
    /// No work until the bell rings.
    Idle,
    /// No more work will come.
    Through,
}

/// The work of one lane. A lane that takes several tiles at once has several executors.
pub(super) trait Station<E> {
    /// Takes a tile and runs it, if there is one.
    fn step(&self, run: &OverlapRun<E>) -> Step;

    /// The oldest tile in the lane or the next one, and the lane.
    fn at(&self) -> (usize, usize);

    fn take_trace(&self) -> Option<LaneTrace>;
}

/// The reason that a tile did not pass a lane.
pub(super) enum TileFault<E> {
    Error(E),
    Panic(Payload),
    /// Its [`Feeder`](super::Feeder) was dropped.
    Lost,
    /// A helper thread could not be started.
    Thread(io::Error),
}

/// The first failure so far, in tile order.
pub(super) struct Met<E> {
    pub(super) tile: usize,
    pub(super) lane: usize,
    pub(super) why: TileFault<E>,
}

struct RunState<E> {
    cut: usize,
    met: Option<Met<E>>,
    stopped: bool,
    /// Helper threads that have not left.
    helpers: usize,
    traces: Vec<(usize, LaneTrace)>,
}

pub(super) struct OverlapRun<E> {
    /// The cut was moved.
    trouble: Flag,
    state: Mutex<RunState<E>>,
    /// Tokens that cancel the run.
    tokens: Vec<CancelToken>,
    /// For each lane, its [`CancelToken::current`].
    lanes: Vec<CancelToken>,
    /// The bells of all executors; the calling thread's first.
    bells: Vec<Arc<Latch>>,
    /// The workers that help.
    pub(super) crew: Arc<Crew>,
    /// Threads of the pool, the calling one included; those of them that have a CPU.
    pub(super) members: usize,
    width: usize,
    /// The start of the run, if it is traced.
    zero: Option<Instant>,
    /// The process with the threads of the run.
    pub(super) process: Process,
}

impl<E> OverlapRun<E> {
    pub(super) fn new(
        tokens: Vec<CancelToken>,
        lanes: usize,
        bells: Vec<Arc<Latch>>,
        crew: Arc<Crew>,
        (members, width): (usize, usize),
        zero: Option<Instant>,
    ) -> Self {
        let token = || tokens.first().map_or_else(CancelToken::new, CancelToken::child);
        Self {
            trouble: Flag::new(),
            lanes: (0..lanes).map(|_| token()).collect(),
            tokens,
            state: Mutex::new(RunState {
                cut: usize::MAX,
                met: None,
                stopped: false,
                helpers: bells.len() - 1,
                traces: Vec::new(),
            }),
            bells,
            crew,
            members,
            width,
            zero,
            process: Process::this(),
        }
    }

    /// The first tile that is not wanted.
    #[inline]
    pub(super) fn cut(&self) -> usize {
        if self.trouble.is_up() { self.state.lock().cut } else { usize::MAX }
    }

    /// The time since the start of the run, if it is traced.
    #[inline]
    pub(super) fn now(&self) -> Option<Nanos> {
        self.zero.map(|zero| Nanos(zero.elapsed().as_nanos() as f64))
    }

    pub(super) fn token(&self, lane: usize) -> CancelToken {
        self.lanes[lane].clone()
    }

    /// Records that `tile` does not pass `lane`.
    pub(super) fn fail(&self, tile: usize, lane: usize, why: TileFault<E>) {
        let is_panic = matches!(why, TileFault::Panic(_));
        if !is_panic {
            // An error that a cancellation caused is not recorded.
            self.look();
        }
        let mut state = self.state.lock();
        let is_news = is_panic || !state.stopped;
        let rest = if is_news && state.met.as_ref().is_none_or(|met| tile < met.tile) {
            state.met.replace(Met { tile, lane, why })
        } else {
            Some(Met { tile, lane, why })
        };
        state.cut = state.cut.min(tile);
        drop(state);
        self.spread(lane);
        // User data: dropped outside the lock. A panic of this drop must not end the executor.
        discard(rest);
    }

    /// Ends the run if a token is cancelled.
    #[inline]
    pub(super) fn look(&self) {
        if self.tokens.iter().any(CancelToken::is_cancelled) {
            self.halt();
        }
    }

    #[cold]
    fn halt(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.stopped, true) {
            return;
        }
        state.cut = 0;
        drop(state);
        self.spread(self.lanes.len());
    }

    /// Wakes all lanes, because the cut was moved, and cancels the lanes before `lane`: they are at later tiles.
    fn spread(&self, lane: usize) {
        self.trouble.raise();
        self.lanes[..lane].iter().for_each(CancelToken::cancel);
        self.bells.iter().for_each(|bell| bell.set());
        self.crew.ring_all();
    }

    /// Called when a helper thread leaves.
    pub(super) fn helper_left(&self) {
        self.state.lock().helpers -= 1;
        self.bells[0].set();
    }

    /// The failure, if there is one, and the traces of the lanes in order.
    pub(super) fn into_parts(self) -> (Option<Met<E>>, Vec<LaneTrace>) {
        let state = self.state.into_inner();
        let mut traces = state.traces;
        traces.sort_by_key(|(lane, _)| *lane);
        (state.met, traces.into_iter().map(|(_, trace)| trace).collect())
    }

    /// On a helper thread: runs its station until the station has ended.
    pub(super) fn help(&self, station: Box<dyn Station<E> + Send + '_>, bell: &Latch) {
        loop {
            self.look();
            match self.step(&*station) {
                Step::Worked => {}
                // In a forked child the calling thread and the other lanes are missing.
                Step::Idle if self.process.is_this() => _ = bell.wait_for(None),
                Step::Idle | Step::Through => break,
            }
        }
        self.close(station);
    }

    /// On the calling thread: runs stations until all have ended and all helpers have left (true), or until `pause` returns true (false).
    /// `pause` is asked before each step.
    ///
    /// # Panics
    /// With [`Stranded`], in a forked child, when only threads of the parent could go on.
    pub(super) fn lead(&self, stations: &mut Vec<Arc<dyn Station<E> + '_>>, mut pause: impl FnMut() -> bool) -> bool {
        let looks = (!self.tokens.is_empty()).then_some(POLL);
        let long = listen::long_wait();
        let mut idle = None;
        'busy: loop {
            self.look();
            if pause() {
                return false;
            }
            // The last lane first: its tiles are nearly done, and make room.
            for at in (0..stations.len()).rev() {
                match self.step(&*stations[at]) {
                    Step::Worked => {
                        idle = None;
                        continue 'busy;
                    }
                    Step::Idle => {}
                    Step::Through => {
                        self.close(stations.remove(at));
                        continue 'busy;
                    }
                }
            }
            if stations.is_empty() && self.state.lock().helpers == 0 {
                return true;
            }
            if !self.process.is_this() {
                resume_unwind(Box::new(Stranded));
            }
            let Some(long) = long else {
                self.bells[0].wait_for(looks);
                continue;
            };
            let since = *idle.get_or_insert_with(Instant::now);
            self.bells[0].wait_for(Some(looks.unwrap_or(long)));
            let waited = since.elapsed();
            if waited >= long {
                listen::stalled(waited);
            }
        }
    }

    /// One step. The station catches panics of closures, so a panic here comes from an item's drop: the next step finds the run cut.
    pub(super) fn step(&self, station: &(dyn Station<E> + '_)) -> Step {
        catch_unwind(AssertUnwindSafe(|| station.step(self))).unwrap_or_else(|payload| {
            let (tile, lane) = station.at();
            self.fail(tile, lane, TileFault::Panic(payload));
            Step::Worked
        })
    }

    /// Gives a station up. The last hold on it ends its queues, and drops its closure with its captures.
    pub(super) fn close<'s>(&self, station: impl Deref<Target: Station<E> + 's>) {
        let (tile, lane) = station.at();
        if let Some(trace) = station.take_trace() {
            let members = if trace.kind == LaneKind::ComputeEach { self.width } else { 1 };
            self.state.lock().traces.push((lane, LaneTrace { members, ..trace }));
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(station))) {
            self.fail(tile, lane, TileFault::Panic(payload));
        }
    }
}
