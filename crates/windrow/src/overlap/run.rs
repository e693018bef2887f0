//! What all executors of one run share, and the loop that each of them is in.
//!
//! # Protocol
//! A run has a *cut*: the first tile that is not wanted, at first none. A failure at a tile moves the cut down to it and never up; being
//! stopped moves it to 0. Stations look at the cut before each tile and leave when their next tile is beyond it, which ends
//! their queues at both sides. So tiles before the cut go through, those after it are dropped where they are, and whichever
//! lane fails first in time, the failure that is left in the end is the first in tile order: the one that a serial run would
//! have met.
//!
//! The cut is behind a lock, and a flag says that it was moved. An executor may see the flag late: it then does some work for nothing,
//! and what it gives on is dropped by the lane that failed.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use windrow_sync::flag::Flag;

use super::lane::{Station, Step};
use super::queue::{Bell, lock};
use super::trace::LaneTrace;
use crate::stop::Stop;

pub(super) type Payload = Box<dyn Any + Send>;

/// How often the calling thread looks at a token while there is nothing else to do: a token only is a flag, and wakes nobody. A look
/// takes some microseconds with its wake-up, so less than 1 in 1000 of one CPU.
const LOOK: Duration = Duration::from_millis(5);

/// Why a tile did not get through a lane.
pub(super) enum Why<E> {
    Error(E),
    Panic(Payload),
    /// Nobody is left who would have given it.
    Lost,
    /// A helper thread could not be started.
    Thread(io::Error),
}

/// The first failure so far, in tile order.
pub(super) struct Met<E> {
    pub(super) tile: usize,
    pub(super) lane: usize,
    pub(super) why: Why<E>,
}

struct State<E> {
    cut: usize,
    met: Option<Met<E>>,
    stopped: bool,
    /// Helper threads that have not left.
    helpers: usize,
    traces: Vec<(usize, LaneTrace)>,
}

pub(super) struct Run<E> {
    /// The cut was moved.
    trouble: Flag,
    state: Mutex<State<E>>,
    /// Tokens that stop the run.
    tokens: Vec<Stop>,
    /// For each lane, what [`Stop::current`] is in it.
    lanes: Vec<Stop>,
    /// Of all executors, the calling thread's first.
    bells: Vec<Arc<Bell>>,
    /// When it began, if it is to be traced.
    pub(super) zero: Option<Instant>,
}

impl<E> Run<E> {
    pub(super) fn new(tokens: Vec<Stop>, lanes: usize, bells: Vec<Arc<Bell>>, zero: Option<Instant>) -> Self {
        let token = || tokens.first().map_or_else(Stop::new, Stop::child);
        Self {
            trouble: Flag::new(),
            lanes: (0..lanes).map(|_| token()).collect(),
            tokens,
            state: Mutex::new(State {
                cut: usize::MAX,
                met: None,
                stopped: false,
                helpers: bells.len() - 1,
                traces: Vec::new(),
            }),
            bells,
            zero,
        }
    }

    /// The first tile that is not wanted.
    #[inline]
    pub(super) fn cut(&self) -> usize {
        if self.trouble.is_up() { lock(&self.state).cut } else { usize::MAX }
    }

    pub(super) fn token(&self, lane: usize) -> Stop {
        self.lanes[lane].clone()
    }

    /// Records that `tile` does not get through `lane`.
    pub(super) fn fail(&self, tile: usize, lane: usize, why: Why<E>) {
        let is_panic = matches!(why, Why::Panic(_));
        if !is_panic {
            // An error that comes of being stopped is no news.
            self.look();
        }
        let mut state = lock(&self.state);
        let is_news = is_panic || !state.stopped;
        let rest = if is_news && state.met.as_ref().is_none_or(|met| tile < met.tile) {
            state.met.replace(Met { tile, lane, why })
        } else {
            Some(Met { tile, lane, why })
        };
        state.cut = state.cut.min(tile);
        drop(state);
        self.spread(lane);
        // User data, outside of the lock. A panic in a drop here must not end the executor.
        discard(rest);
    }

    /// Ends everything if a token is stopped.
    #[inline]
    pub(super) fn look(&self) {
        if self.tokens.iter().any(Stop::is_stopped) {
            self.halt();
        }
    }

    #[cold]
    fn halt(&self) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.stopped, true) {
            return;
        }
        state.cut = 0;
        drop(state);
        self.spread(self.lanes.len());
    }

    /// Tells everybody that the cut was moved. Lanes before `lane` are at tiles after it.
    fn spread(&self, lane: usize) {
        self.trouble.raise();
        self.lanes[..lane].iter().for_each(Stop::stop);
        self.bells.iter().for_each(|bell| bell.ring());
    }

    pub(super) fn hand_in(&self, lane: usize, trace: LaneTrace) {
        lock(&self.state).traces.push((lane, trace));
    }

    /// A helper thread leaves.
    pub(super) fn helper_left(&self) {
        lock(&self.state).helpers -= 1;
        self.bells[0].ring();
    }

    /// What came of it: the failure, and the traces of the lanes in order.
    pub(super) fn into_parts(self) -> (Option<Met<E>>, Vec<LaneTrace>) {
        let state = self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut traces = state.traces;
        traces.sort_by_key(|(lane, _)| *lane);
        (state.met, traces.into_iter().map(|(_, trace)| trace).collect())
    }

    /// Runs stations until all of them are through, as a helper thread.
    pub(super) fn help(&self, mut station: Box<dyn Station<E> + '_>, bell: &Bell) {
        loop {
            self.look();
            match self.step(&mut *station) {
                Step::Worked => {}
                Step::Idle => bell.wait(None),
                Step::Through => break,
            }
        }
        self.close(station);
    }

    /// Runs stations until all of them are through and all helpers have left, on the calling thread.
    pub(super) fn lead(&self, mut stations: Vec<Box<dyn Station<E> + '_>>) {
        let looks = (!self.tokens.is_empty()).then_some(LOOK);
        'busy: loop {
            self.look();
            // The last lane first: what is nearly done makes room.
            for at in (0..stations.len()).rev() {
                match self.step(&mut *stations[at]) {
                    Step::Worked => continue 'busy,
                    Step::Idle => {}
                    Step::Through => {
                        self.close(stations.remove(at));
                        continue 'busy;
                    }
                }
            }
            if stations.is_empty() && lock(&self.state).helpers == 0 {
                return;
            }
            self.bells[0].wait(looks);
        }
    }

    /// One step. Closures are caught by the station, so a panic here is that of an item's drop.
    fn step(&self, station: &mut (dyn Station<E> + '_)) -> Step {
        catch_unwind(AssertUnwindSafe(|| station.step(self))).unwrap_or_else(|payload| {
            let (tile, lane) = station.at();
            self.fail(tile, lane, Why::Panic(payload));
            Step::Through
        })
    }

    /// Drops a station: ends its queues, drops its closure and what it holds.
    pub(super) fn close(&self, mut station: Box<dyn Station<E> + '_>) {
        let (tile, lane) = station.at();
        if let Some(trace) = station.take_trace() {
            self.hand_in(lane, trace);
        }
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(station))) {
            self.fail(tile, lane, Why::Panic(payload));
        }
    }
}

/// Drops what nobody will see. If that panics, there is another panic or failure on its way out.
pub(super) fn discard<T>(unseen: T) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(unseen))) {
        std::mem::forget(second);
    }
}
