//! The queue between two lanes: its two ends, and the bells of waiting executors.
//!
//! # Protocol
//! Each end belongs to one executor: the calling thread, a helper thread, or a feeder.
//! 1. An end that finds the queue full or empty sets a mark under the lock.
//! 2. The other end, when it makes room or gives an item, takes the mark, and rings the bell of the first end, a [`Latch`], after unlocking.
//! 3. A bell stays rung until the next wait. So an executor checks all its ends, finds no work, then waits, and misses no ring in
//!    between. An executor with many ends waits for all of them at once.
//!
//! If the giver is dropped, no more items come. If the taker is dropped, no more items are wanted: queued items are dropped outside the
//! lock, since they are user data.

use std::collections::VecDeque;
use std::sync::Arc;

use windrow_sync::Mutex;
use windrow_sync::latch::Latch;

/// The bell of an end of a queue: wakes the executors of a lane.
pub(super) trait Ring: std::fmt::Debug + Send + Sync {
    fn ring(&self);
}

/// Bell of one executor.
impl Ring for Latch {
    fn ring(&self) {
        self.set();
    }
}

/// The bound of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueueBound {
    Tiles(usize),
    /// The results of a run: all are kept, or only counted.
    Results {
        kept: bool,
    },
}

/// The limit of the weight of all items, and the weight of an item.
type Scale<T> = (usize, fn(&T) -> usize);

#[derive(Debug)]
struct Inner<T> {
    items: VecDeque<(T, usize)>,
    /// The number of items given so far.
    given: usize,
    bound: QueueBound,
    /// Results beyond the bound, which a lane of several tiles may give: for each there was room when its tile was begun.
    beside: usize,
    /// `None` if the weight is not bounded.
    scale: Option<Scale<T>>,
    /// The weight of all items.
    weight: usize,
    /// `Some` if no more items come; true if all items have come.
    ended: Option<bool>,
    /// No more items are wanted.
    closed: bool,
    giver: End,
    taker: End,
}

/// One end of a queue.
#[derive(Debug, Default)]
struct End {
    bell: Option<Arc<dyn Ring>>,
    /// It has found the queue full or empty.
    waits: bool,
}

impl End {
    /// The bell, if it is to be rung.
    fn marked(&mut self) -> Option<Arc<dyn Ring>> {
        std::mem::take(&mut self.waits).then(|| self.bell.clone()).flatten()
    }
}

impl<T> Inner<T> {
    /// True if the queue is below its limits now, and `held` more items would not fill it. The next item may exceed the weight limit; so an
    /// item heavier than the limit passes, alone.
    fn has_room(&self, held: usize) -> bool {
        let light = self.scale.is_none_or(|(limit, _)| self.weight < limit);
        match self.bound {
            QueueBound::Tiles(most) => self.items.len() + held < most.saturating_add(self.beside) && light,
            QueueBound::Results { .. } => true,
        }
    }
}

/// The end that gives items. If it is dropped without [`finish`](Giver::finish), not all items have come.
#[derive(Debug)]
pub(super) struct Giver<T>(Arc<Mutex<Inner<T>>>);

/// The end that takes items. Its drop drops queued items.
#[derive(Debug)]
pub(super) struct Taker<T>(Arc<Mutex<Inner<T>>>);

/// The result of [`Taker::take`].
pub(super) enum Took<T> {
    Item(T),
    Empty,
    /// No more items come; `whole` if all items have come.
    Ended {
        whole: bool,
    },
}

pub(super) fn queue<T>(tiles: usize, giver: Arc<dyn Ring>) -> (Giver<T>, Taker<T>) {
    let inner = Arc::new(Mutex::new(Inner {
        items: VecDeque::new(),
        given: 0,
        bound: QueueBound::Tiles(tiles),
        beside: 0,
        scale: None,
        weight: 0,
        ended: None,
        closed: false,
        giver: End { bell: Some(giver), waits: false },
        taker: End::default(),
    }));
    (Giver(inner.clone()), Taker(inner))
}

impl<T> Giver<T> {
    /// True if there is room for one more result of a giver that holds `held` tiles now, and at most `most`. All of them may come at once:
    /// those and the items of the queue are fewer than the queue's bound and `most` together. If not, the giver's bell rings when there is
    /// room, or the giver has to hand on a tile. A closed queue has room.
    pub(super) fn has_room(&self, held: usize, most: usize) -> bool {
        let mut inner = self.0.lock();
        inner.beside = most - 1;
        let room = inner.closed || (held < most && inner.has_room(held));
        inner.giver.waits = !room;
        room
    }

    /// Gives an item, without a check of the limits. Returns the item if no more are wanted.
    pub(super) fn give(&self, item: T) -> Result<(), T> {
        let scale = self.0.lock().scale;
        let weight = scale.map_or(0, |(_, weigh)| weigh(&item));
        let mut inner = self.0.lock();
        if inner.closed {
            return Err(item);
        }
        inner.given += 1;
        if !matches!(inner.bound, QueueBound::Results { kept: false }) {
            inner.items.push_back((item, weight));
            inner.weight = inner.weight.saturating_add(weight);
        }
        let bell = inner.taker.marked();
        drop(inner);
        bell.inspect(|bell| bell.ring());
        Ok(())
    }

    /// Ends the queue: all items have come.
    pub(super) fn finish(self) {
        self.0.lock().ended = Some(true);
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.ended.get_or_insert(false);
        let bell = inner.taker.marked();
        drop(inner);
        bell.inspect(|bell| bell.ring());
    }
}

impl<T> Taker<T> {
    pub(super) fn take(&self) -> Took<T> {
        let mut inner = self.0.lock();
        match inner.items.pop_front() {
            Some((item, weight)) => {
                inner.weight -= weight;
                let bell = if inner.has_room(0) { inner.giver.marked() } else { None };
                drop(inner);
                bell.inspect(|bell| bell.ring());
                Took::Item(item)
            }
            None => match inner.ended {
                Some(whole) => Took::Ended { whole },
                None => {
                    inner.taker.waits = true;
                    Took::Empty
                }
            },
        }
    }

    /// True if an item is there, or the end. If not, the taker's bell rings when there is.
    pub(super) fn has_more(&self) -> bool {
        let mut inner = self.0.lock();
        let more = !inner.items.is_empty() || inner.ended.is_some();
        inner.taker.waits |= !more;
        more
    }

    pub(super) fn set_bell(&self, taker: Arc<dyn Ring>) {
        self.0.lock().taker.bell = Some(taker);
    }

    pub(super) fn set_bound(&self, bound: QueueBound) {
        self.0.lock().bound = bound;
    }

    pub(super) fn set_scale(&self, limit: usize, weigh: fn(&T) -> usize) {
        self.0.lock().scale = Some((limit, weigh));
    }

    /// All queued items, if all items have come; and the number of items given.
    pub(super) fn into_whole(self) -> (Option<Vec<T>>, usize) {
        let mut inner = self.0.lock();
        let (whole, given) = (inner.ended == Some(true), inner.given);
        let items = std::mem::take(&mut inner.items);
        drop(inner);
        (whole.then(|| items.into_iter().map(|(item, _)| item).collect()), given)
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.closed = true;
        let unwanted = std::mem::take(&mut inner.items);
        inner.weight = 0;
        let bell = inner.giver.marked();
        drop(inner);
        bell.inspect(|bell| bell.ring());
        drop(unwanted);
    }
}
