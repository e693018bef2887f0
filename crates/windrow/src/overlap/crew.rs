//! The workers that help in a run, and their wait for tiles.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::estimate::Smoothing;
use windrow_sync::fork::lock;
use windrow_sync::relaxed::RelaxedU64;

use super::queue::{Bell, Ring};

/// Where workers wait for tiles, and what is known about the tiles.
#[derive(Debug, Default)]
pub(super) struct Crew {
    pub(super) state: Mutex<CrewState>,
    rings: Condvar,
    /// What a tile has lasted lately, in nanoseconds; 0 is unknown.
    tile: RelaxedU64,
}

#[derive(Debug, Default)]
pub(super) struct CrewState {
    /// Counts rings.
    pub(super) turn: u64,
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
        let mut state = lock(&self.state);
        state.turn += 1;
        let is_heard = state.waiting > 0;
        drop(state);
        if is_heard {
            self.rings.notify_one();
        }
        is_heard
    }

    fn count_unheard(&self) {
        lock(&self.state).unheard += 1;
    }

    pub(super) fn ring_all(&self) {
        lock(&self.state).turn += 1;
        self.rings.notify_all();
    }

    pub(super) fn call_back(&self) {
        lock(&self.state).called_back = true;
        self.ring_all();
    }

    /// Waits for a ring after `turn`, or for `at_most`.
    pub(super) fn wait(&self, turn: u64, at_most: Duration) {
        let mut state = lock(&self.state);
        state.waiting += 1;
        let silent = |state: &mut CrewState| state.turn == turn;
        state = self.rings.wait_timeout_while(state, at_most, silent).unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
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
#[derive(Debug)]
pub(super) struct CrewBell {
    pub(super) crew: Arc<Crew>,
    pub(super) caller: Arc<Bell>,
}

impl Ring for CrewBell {
    fn ring(&self) {
        let (crew, caller) = (self.crew.wake(), self.caller.wake());
        if !crew && !caller {
            self.crew.count_unheard();
        }
    }
}

impl CrewBell {
    /// Rings for one more tile, by the member that has begun one.
    pub(super) fn pass_on(&self) {
        let crew = self.crew.wake();
        self.caller.ring();
        if !crew {
            self.crew.count_unheard();
        }
    }

    /// Rings for members that may have found no room, or a locked source.
    pub(super) fn nudge(&self) {
        self.crew.wake();
        self.caller.ring();
    }

    pub(super) fn ring_all(&self) {
        self.crew.ring_all();
        self.caller.ring();
    }
}
