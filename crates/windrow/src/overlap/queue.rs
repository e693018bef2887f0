//! What two lanes share: a queue with two ends, and the bells of who waits.
//!
//! # Protocol
//! Each end belongs to one executor (the calling thread, a helper thread, whoever feeds). An end that finds the queue full or empty
//! leaves a mark under the lock; whoever changes that takes the mark and rings the other's [`Bell`] after unlocking. The bell
//! remembers: an executor that looks at all it has, finds nothing to do, and then waits, misses nothing that came meanwhile. So
//! an executor with many ends waits for all of them at once.
//!
//! Dropping an end says that nothing comes any more, or that nothing is wanted any more. What was queued then is dropped outside
//! the lock, as it is user data.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes one executor.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<Rung>,
    rings: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    rung: bool,
    /// A system call is only made for somebody who waits.
    waiting: bool,
}

impl Bell {
    pub(super) fn ring(&self) {
        let mut state = lock(&self.state);
        state.rung = true;
        let waiting = state.waiting;
        drop(state);
        if waiting {
            self.rings.notify_one();
        }
    }

    /// Waits for a ring since the last wait, or for so long.
    pub(super) fn wait(&self, at_most: Option<Duration>) {
        let mut state = lock(&self.state);
        state.waiting = true;
        let silent = |state: &mut Rung| !state.rung;
        state = match at_most {
            None => self.rings.wait_while(state, silent).unwrap_or_else(PoisonError::into_inner),
            Some(time) => self.rings.wait_timeout_while(state, time, silent).unwrap_or_else(PoisonError::into_inner).0,
        };
        *state = Rung::default();
    }
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Tiles(usize),
    /// The results of a run: all are kept, or only counted.
    Results {
        kept: bool,
    },
}

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<(T, usize)>,
    /// How many came in.
    given: usize,
    bound: Bound,
    /// What one weighs, if that is limited.
    weigh: Option<fn(&T) -> usize>,
    limit: usize,
    /// Of all items.
    weight: usize,
    /// Nothing comes any more; whether all came that there was.
    ended: Option<bool>,
    /// Nothing is wanted any more.
    closed: bool,
    giver: Option<Arc<Bell>>,
    giver_waits: bool,
    taker: Option<Arc<Bell>>,
    taker_waits: bool,
}

impl<T> Inner<T> {
    /// Before the limits, not beyond them after: so an item heavier than all that is allowed passes, alone.
    fn has_room(&self) -> bool {
        let light = self.weigh.is_none() || self.weight < self.limit;
        match self.bound {
            Bound::Tiles(most) => self.items.len() < most && light,
            Bound::Results { .. } => true,
        }
    }

    fn marked_giver(&mut self) -> Option<Arc<Bell>> {
        std::mem::take(&mut self.giver_waits).then(|| self.giver.clone()).flatten()
    }

    fn marked_taker(&mut self) -> Option<Arc<Bell>> {
        std::mem::take(&mut self.taker_waits).then(|| self.taker.clone()).flatten()
    }
}

/// The end at which items come in. Dropped, it says that not all came.
#[derive(Debug)]
pub(super) struct Giver<T>(Arc<Mutex<Inner<T>>>);

/// The end at which items are taken. Dropped, it drops what is queued.
#[derive(Debug)]
pub(super) struct Taker<T>(Arc<Mutex<Inner<T>>>);

/// What taking found.
pub(super) enum Took<T> {
    Item(T),
    Empty,
    /// Nothing comes any more; whether all came that there was.
    Ended {
        whole: bool,
    },
}

pub(super) fn queue<T>(tiles: usize, giver: Arc<Bell>) -> (Giver<T>, Taker<T>) {
    let inner = Arc::new(Mutex::new(Inner {
        items: VecDeque::new(),
        given: 0,
        bound: Bound::Tiles(tiles),
        weigh: None,
        limit: 0,
        weight: 0,
        ended: None,
        closed: false,
        giver: Some(giver),
        giver_waits: false,
        taker: None,
        taker_waits: false,
    }));
    (Giver(inner.clone()), Taker(inner))
}

impl<T> Giver<T> {
    /// Whether an item can be given without going beyond the limits; if not, the giver's bell rings when it can. A queue that nobody
    /// takes from any more has room.
    pub(super) fn has_room(&self) -> bool {
        let mut inner = lock(&self.0);
        let room = inner.closed || inner.has_room();
        inner.giver_waits = !room;
        room
    }

    /// Gives an item, without a look at the limits. Back if nothing is wanted any more.
    pub(super) fn give(&self, item: T) -> Result<(), T> {
        let weigh = lock(&self.0).weigh;
        let weight = weigh.map_or(0, |weigh| weigh(&item));
        let mut inner = lock(&self.0);
        if inner.closed {
            return Err(item);
        }
        inner.given += 1;
        if !matches!(inner.bound, Bound::Results { kept: false }) {
            inner.items.push_back((item, weight));
            inner.weight = inner.weight.saturating_add(weight);
        }
        let bell = inner.marked_taker();
        drop(inner);
        bell.inspect(|bell| bell.ring());
        Ok(())
    }

    /// Says that all came that there was.
    pub(super) fn finish(self) {
        lock(&self.0).ended = Some(true);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.ended.get_or_insert(false);
        let bell = inner.marked_taker();
        drop(inner);
        bell.inspect(|bell| bell.ring());
    }
}

impl<T> Taker<T> {
    pub(super) fn take(&self) -> Took<T> {
        let mut inner = lock(&self.0);
        match inner.items.pop_front() {
            Some((item, weight)) => {
                inner.weight -= weight;
                let bell = if inner.has_room() { inner.marked_giver() } else { None };
                drop(inner);
                bell.inspect(|bell| bell.ring());
                Took::Item(item)
            }
            None => match inner.ended {
                Some(whole) => Took::Ended { whole },
                None => {
                    inner.taker_waits = true;
                    Took::Empty
                }
            },
        }
    }

    pub(super) fn set_bell(&self, taker: Arc<Bell>) {
        lock(&self.0).taker = Some(taker);
    }

    pub(super) fn set_bound(&self, bound: Bound) {
        lock(&self.0).bound = bound;
    }

    pub(super) fn set_scale(&self, limit: usize, weigh: fn(&T) -> usize) {
        let mut inner = lock(&self.0);
        (inner.limit, inner.weigh) = (limit, Some(weigh));
    }

    /// All that is there, if it is all that there was; and how many items came.
    pub(super) fn into_whole(self) -> (Option<Vec<T>>, usize) {
        let mut inner = lock(&self.0);
        let (whole, given) = (inner.ended == Some(true), inner.given);
        let items = std::mem::take(&mut inner.items);
        drop(inner);
        (whole.then(|| items.into_iter().map(|(item, _)| item).collect()), given)
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let unwanted = std::mem::take(&mut inner.items);
        inner.weight = 0;
        let bell = inner.marked_giver();
        drop(inner);
        bell.inspect(|bell| bell.ring());
        drop(unwanted);
    }
}
