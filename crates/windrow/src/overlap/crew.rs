//! The workers that help in a run, and their wait for tiles.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::estimate::Smoothing;
use windrow_sync::latch::Latch;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::waiters::Waiters;

use super::queue::Ring;

/// Where workers [wait](windrow_sync::waiters) for tiles, and what is known about the tiles.
#[derive(Debug, Default)]
pub(super) struct Crew {
    pub(super) state: Waiters<CrewState>,
    /// The latch at which the calling thread waits.
    pub(super) caller: Arc<Latch>,
    /// What a tile has lasted lately, in nanoseconds; 0 is unknown.
    tile: RelaxedU64,
}

#[derive(Debug, Default)]
pub(super) struct CrewState {
    /// Counts rings.
    pub(super) turn: u64,
    /// Waiting workers, and those that were called and have not gone on yet.
    waiting: usize,
    /// Tiles that came while all members were busy, since the last worker left.
    pub(super) unheard: usize,
    /// Workers are to leave after the tile in their hands.
    pub(super) called_back: bool,
    /// The numbers of the workers that have taken part.
    pub(super) entered: BTreeSet<usize>,
}

impl Crew {
    /// Wakes a worker that waits; returns whether there was one.
    fn wake(&self) -> bool {
        let mut state = self.state.lock();
        state.turn += 1;
        let is_heard = state.waiting > 0;
        state.wake_one();
        is_heard
    }

    /// Rings for one more tile, by the member that has begun one.
    pub(super) fn pass_on(&self) {
        if !self.wake() {
            self.state.lock().unheard += 1;
        }
        self.caller.set();
    }

    /// Rings for members that may have found no room, or a locked source.
    pub(super) fn nudge(&self) {
        self.wake();
        self.caller.set();
    }

    /// Wakes all workers that wait.
    pub(super) fn ring_all(&self) {
        let mut state = self.state.lock();
        state.turn += 1;
        state.wake_all();
    }

    pub(super) fn call_back(&self) {
        self.state.lock().called_back = true;
        self.ring_all();
    }

    /// Waits for a ring after `turn`, or for `at_most`.
    pub(super) fn wait(&self, turn: u64, at_most: Duration) {
        let mut state = self.state.lock();
        if state.turn == turn {
            state.waiting += 1;
            state.wait((), Some(at_most)).0.waiting -= 1;
        }
    }

    /// A tile has lasted for `time`.
    pub(super) fn ran(&self, time: Duration) {
        let (time, before) = (time.as_nanos() as f64, self.tile.get_f64());
        self.tile.set_f64(if before > 0.0 { Smoothing::CALLS.follow(before, time) } else { time }.max(1.0));
    }

    pub(super) fn tile(&self) -> Nanos {
        Nanos(self.tile.get_f64())
    }
}

/// The bell of a lane that takes several tiles at once: wakes a worker that waits, and the calling thread.
impl Ring for Crew {
    fn ring(&self) {
        let (crew, caller) = (self.wake(), self.caller.ring());
        if !crew && !caller {
            self.state.lock().unheard += 1;
        }
    }
}
