//! Ranks in one process: one thread for each rank, with shared memory between them.
//!
//! # Protocol
//!
//! A collective has up to three steps. At the end of a step all ranks come to a *meeting*, where each posts its call and waits for the
//! others.
//!
//! 1. *Give*: a rank copies its contribution into its slot and comes to the meeting with its [`Call`]. The last rank to come compares the
//!    calls; all ranks leave with one verdict.
//! 2. *Sum* (all-reduce only): a rank adds up its part of all slots, in rank order, into its result slot.
//! 3. *Take*: a rank copies from the slots, or sums its part of them, into the caller's memory. Only over a link does a meeting follow, so
//!    that a damaged piece is an error on every rank.
//!
//! Calls use two sets of slots alternately. So a rank may write the slot of call `k` as soon as it has left the first meeting of call
//! `k - 1`. Every rank that came to that meeting had finished reading call `k - 2`, which used the same slots.
//!
//! No rank waits for a rank that is gone: dropping a rank marks the meeting for good and wakes the ranks that wait there. A verdict given
//! earlier stays valid. So a rank may leave while others have yet to read the verdict of the last meeting.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use self::link::Pacer;
use self::meeting::Meeting;
use self::slot::Slot;
use crate::call::{Call, part};
use crate::{Communicator, Element, Error, Pace};

mod link;
mod meeting;
mod slot;
#[cfg(test)]
mod tests;

pub use link::Link;

/// Makes the ranks of one process.
///
/// ```
/// use std::thread;
/// use windrow_collective::{Communicator, Group};
///
/// let sums = thread::scope(|scope| {
///     let ranks = Group::new(3).ranks();
///     let running: Vec<_> = ranks
///         .into_iter()
///         .map(|mut rank| {
///             scope.spawn(move || {
///                 let mut data = [rank.rank() as f64, 1.0];
///                 rank.all_reduce(&mut data).map(|()| data)
///             })
///         })
///         .collect();
///     running.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>, _>>()
/// })?;
/// assert_eq!(sums, [[3.0, 3.0]; 3]);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    size: usize,
    link: Option<Link>,
}

impl Group {
    /// A group of `size` ranks that communicate at the speed of memory.
    ///
    /// # Panics
    /// `size` is 0.
    pub fn new(size: usize) -> Self {
        assert!(size > 0, "a group needs at least one rank");
        Self { size, link: None }
    }

    /// Makes the ranks communicate over a link of this speed.
    ///
    /// ```
    /// use std::thread;
    /// use std::time::{Duration, Instant};
    /// use windrow_collective::{Communicator, Group, Link};
    ///
    /// // An all-reduce of two ranks takes two latencies.
    /// let began = Instant::now();
    /// thread::scope(|scope| {
    ///     for mut rank in Group::new(2).link(Link::new(1e9, Duration::from_millis(1))).ranks() {
    ///         scope.spawn(move || rank.all_reduce(&mut [1.0_f32]).unwrap());
    ///     }
    /// });
    /// assert!(began.elapsed() >= Duration::from_millis(2));
    /// ```
    pub fn link(mut self, link: Link) -> Self {
        self.link = Some(link);
        self
    }

    /// The ranks, in order. Give each to a separate thread: a collective returns only when all ranks have called it.
    pub fn ranks(self) -> Vec<Rank> {
        let slots = || (0..self.size).map(|_| RwLock::default()).collect();
        let shared = Arc::new(Shared {
            size: self.size,
            link: self.link,
            meeting: Meeting::new(self.size),
            given: [slots(), slots()],
            summed: [slots(), slots()],
            #[cfg(test)]
            spoil: std::sync::Mutex::default(),
        });
        let rank = |rank| Rank { shared: Arc::clone(&shared), rank, last: None, paced: Paced::default() };
        (0..self.size).map(rank).collect()
    }
}

/// One rank of a [`Group`]. When it is dropped, calls of the other ranks fail.
///
/// ```
/// use windrow_collective::{Communicator, Error, Group};
///
/// let mut ranks = Group::new(2).ranks();
/// let (second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
/// drop(second);
/// assert_eq!(first.barrier(), Err(Error::Left { rank: 1, panicked: false }));
/// ```
#[derive(Debug)]
pub struct Rank {
    shared: Arc<Shared>,
    rank: usize,
    last: Option<Pace>,
    paced: Paced,
}

/// Totals of all paced operations of a rank so far.
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use windrow_collective::{Communicator, Group, Link};
///
/// let mut ranks = Group::new(2).link(Link::new(1e9, Duration::from_micros(100))).ranks();
/// let (mut second, mut first) = (ranks.pop().unwrap(), ranks.pop().unwrap());
/// thread::scope(|scope| {
///     scope.spawn(|| (0..3).try_for_each(|_| second.barrier()).unwrap());
///     (0..3).try_for_each(|_| first.barrier())
/// })?;
/// let paced = first.paced();
/// assert!(paced.operations == 3 && paced.taken >= paced.asked);
/// # Ok::<(), windrow_collective::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paced {
    /// The number of operations.
    pub operations: u64,
    /// The sum of the requested times.
    pub asked: Duration,
    /// The sum of the taken times.
    pub taken: Duration,
}

#[derive(Debug)]
struct Shared {
    size: usize,
    link: Option<Link>,
    meeting: Meeting,
    /// Each rank's contribution, by turn and rank.
    given: [Vec<RwLock<Slot>>; 2],
    /// Each rank's sums, by turn and rank.
    summed: [Vec<RwLock<Slot>>; 2],
    /// The rank of which a test damages the next piece.
    #[cfg(test)]
    spoil: std::sync::Mutex<Option<usize>>,
}

impl Rank {
    /// Totals of all paced operations so far. A failed operation does not count.
    pub fn paced(&self) -> Paced {
        self.paced
    }

    /// The first step.
    fn give<T: Element>(&mut self, call: Call, data: &[T], parts: usize) -> Result<Turn, Error> {
        let shared = &self.shared;
        let (turn, checked, called) = (shared.meeting.turn(), shared.link.is_some(), Instant::now());
        // With several parts, each rank reads one; a rank's own part does not travel.
        let own = (parts > 1).then_some(self.rank);
        {
            let mut slot = shared.given[turn][self.rank].write().unwrap_or_else(PoisonError::into_inner);
            slot.fill(data, (parts, own), checked);
            #[cfg(test)]
            if shared.spoil.lock().unwrap().take_if(|rank| *rank == self.rank).is_some() {
                slot.spoil::<T>();
            }
        }
        let began = shared.meeting.come(self.rank, 0, Ok(call), called)?;
        let asked = shared.link.map(|link| link.time(&call, size_of::<T>(), shared.size));
        Ok(Turn { turn, call, pacer: asked.map(|asked| Pacer { began, asked }) })
    }

    /// Sums up one rank's part of all slots. Reading is paced over a stretch of the operation.
    fn sum<T: Element>(&self, turn: &Turn, of: usize, sums: &mut [T], stretch: Range<f64>) -> Result<(), Error> {
        let given: Vec<_> = self.shared.given[turn.turn]
            .iter()
            .map(|slot| slot.read().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let whole = part(turn.call.gives, self.shared.size, of);
        for piece in slot::pieces::<T>(whole.clone()) {
            turn.pace(&stretch, &whole, &piece);
            let parts = given.iter().enumerate();
            let parts: Vec<&[T]> = parts
                .map(|(from, slot)| {
                    slot.piece(piece.clone(), from != self.rank).ok_or(Error::Damaged { from, to: self.rank })
                })
                .collect::<Result<_, _>>()?;
            T::sum(&parts, &mut sums[piece.start - whole.start..piece.end - whole.start]);
        }
        Ok(())
    }

    /// Copies one rank's slot into memory. `whole` is the range of everything that is copied, for pacing.
    fn copy<T: Element>(
        &self,
        turn: &Turn,
        from: usize,
        slot: &RwLock<Slot>,
        data: &mut [T],
        (stretch, whole): (&Range<f64>, &Range<usize>),
    ) -> Result<(), Error> {
        let slot = slot.read().unwrap_or_else(PoisonError::into_inner);
        for piece in slot::pieces::<T>(0..data.len()) {
            turn.pace(stretch, whole, &piece);
            let sent = slot.piece(piece.clone(), from != self.rank).ok_or(Error::Damaged { from, to: self.rank })?;
            data[piece].copy_from_slice(sent);
        }
        Ok(())
    }

    /// The last step: reports whether everything is in place.
    fn close(&mut self, turn: Turn, step: u8, taken: Result<(), Error>) -> Result<(), Error> {
        let Some(pacer) = turn.pacer else { return taken };
        self.shared.meeting.come(self.rank, step, taken.map(|()| turn.call), pacer.began)?;
        let pace = pacer.finish();
        self.last = Some(pace);
        self.paced.operations += 1;
        self.paced.asked += pace.asked;
        self.paced.taken += pace.taken;
        Ok(())
    }
}

/// A call that is under way.
struct Turn {
    turn: usize,
    call: Call,
    pacer: Option<Pacer>,
}

impl Turn {
    /// Sleeps until the link would have delivered this piece.
    fn pace(&self, stretch: &Range<f64>, whole: &Range<usize>, piece: &Range<usize>) {
        if let Some(pacer) = &self.pacer {
            let share = (piece.start - whole.start) as f64 / whole.len().max(1) as f64;
            pacer.reach(stretch.start + share * (stretch.end - stretch.start));
        }
    }
}

impl Communicator for Rank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        let (size, len) = (self.size(), data.len());
        let call = Call { name: "all_reduce", element: T::NAME, gives: len, gets: len, root: None };
        let turn = self.give(call, data, size)?;
        let summed = {
            let slots = &self.shared.summed[turn.turn];
            let mut slot = slots[self.rank].write().unwrap_or_else(PoisonError::into_inner);
            let sums = slot.resize::<T>(part(len, size, self.rank).len());
            let summed = self.sum(&turn, self.rank, sums, 0.0..0.5);
            slot.check::<T>((1, None), self.shared.link.is_some());
            summed
        };
        self.shared.meeting.come(self.rank, 1, summed.map(|()| call), Instant::now())?;
        let taken = (0..size).try_for_each(|from| {
            let part = part(len, size, from);
            let share = |place: usize| 0.5 + 0.5 * place as f64 / len.max(1) as f64;
            let stretch = share(part.start)..share(part.end);
            let slot = &self.shared.summed[turn.turn][from];
            self.copy(&turn, from, slot, &mut data[part.clone()], (&stretch, &(0..part.len())))
        });
        self.close(turn, 2, taken)
    }

    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (gives, gets) = (input.len(), output.len());
        let call = Call { name: "reduce_scatter", element: T::NAME, gives, gets, root: None };
        let turn = self.give(call, input, self.size())?;
        let taken = self.sum(&turn, self.rank, output, 0.0..1.0);
        self.close(turn, 1, taken)
    }

    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (gives, gets, size) = (input.len(), output.len(), self.size());
        let call = Call { name: "all_gather", element: T::NAME, gives, gets, root: None };
        let turn = self.give(call, input, 1)?;
        let taken = (0..size).try_for_each(|from| {
            let stretch = from as f64 / size as f64..(from + 1) as f64 / size as f64;
            let slot = &self.shared.given[turn.turn][from];
            let output = &mut output[part(gets, size, from)];
            self.copy(&turn, from, slot, output, (&stretch, &(0..gives)))
        });
        self.close(turn, 1, taken)
    }

    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error> {
        let len = data.len();
        let call = Call { name: "broadcast", element: T::NAME, gives: len, gets: len, root: Some(root) };
        let given = if self.rank == root { &*data } else { &[] };
        let turn = self.give(call, given, 1)?;
        let taken = match root == self.rank {
            true => Ok(()),
            false => {
                let slot = &self.shared.given[turn.turn][root];
                self.copy(&turn, root, slot, data, (&(0.0..1.0), &(0..len)))
            }
        };
        self.close(turn, 1, taken)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        let turn = self.give::<u64>(Call { name: "barrier", element: "", gives: 0, gets: 0, root: None }, &[], 1)?;
        self.close(turn, 1, Ok(()))
    }

    fn refuse(&mut self, why: &str) -> Error {
        let refused = Error::Refused { rank: self.rank, why: why.to_owned() };
        match self.shared.meeting.come(self.rank, 0, Err(refused.clone()), Instant::now()) {
            Ok(_) => refused,
            Err(error) => error,
        }
    }

    fn sharers(&self) -> usize {
        self.size()
    }

    fn pace(&self) -> Option<Pace> {
        self.last
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.shared.meeting.leave(self.rank, thread::panicking());
    }
}
