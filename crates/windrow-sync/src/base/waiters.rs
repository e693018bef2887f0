#![doc = include_str!("waiters.md")]

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::Duration;

use crate::base::latch::Latch;
use crate::base::mutex::Mutex;
use crate::base::primitives::{Arc, MutexGuard};

/// A thread or a task that waits.
#[derive(Debug)]
pub enum Waiter {
    /// A thread, by the latch on which it waits.
    Thread(Arc<Latch>),
    /// A task, by its waker.
    Task(Waker),
}

impl Waiter {
    /// Wakes the thread or task. Foreign code: called without a lock.
    pub fn wake(self) {
        match self {
            Waiter::Thread(latch) => latch.set(),
            Waiter::Task(waker) => waker.wake(),
        }
    }
}

/// State under a lock, and the line of those that wait until it changes. `W` is the demand of a waiter. See the [module page](self).
///
/// ```
/// use windrow_sync::waiters::Waiters;
///
/// let queue: Waiters<Vec<u32>> = Waiters::default();
/// std::thread::scope(|scope| {
///     let taker = scope.spawn(|| {
///         let mut items = queue.lock();
///         while items.is_empty() {
///             (items, _) = items.wait((), None);
///         }
///         items.pop()
///     });
///     let mut items = queue.lock();
///     items.push(7);
///     items.wake_one();
///     assert_eq!(taker.join().unwrap(), Some(7));
/// });
/// ```
#[derive(Debug, Default)]
pub struct Waiters<T, W = ()>(Mutex<Shared<T, W>>);

#[derive(Debug, Default)]
struct Shared<T, W> {
    state: T,
    /// Places in the order of their numbers.
    line: VecDeque<(u64, Waiter, W)>,
    next: u64,
}

impl<T, W> Waiters<T, W> {
    /// A state without waiters.
    pub fn new(state: T) -> Self {
        Self(Mutex::new(Shared { state, line: VecDeque::new(), next: 0 }))
    }

    /// Locks the state. As [`Mutex::lock`](crate::Mutex::lock).
    pub fn lock(&self) -> Locked<'_, T, W> {
        Locked { waiters: self, shared: self.0.lock() }
    }
}

/// A locked state, and its line.
#[derive(Debug)]
pub struct Locked<'w, T, W = ()> {
    waiters: &'w Waiters<T, W>,
    shared: MutexGuard<'w, Shared<T, W>>,
}

impl<T, W> Deref for Locked<'_, T, W> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared.state
    }
}

impl<T, W> DerefMut for Locked<'_, T, W> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.shared.state
    }
}

impl<T, W> Locked<'_, T, W> {
    /// Joins the end of the line. Returns the place.
    pub fn line_up(&mut self, waiter: Waiter, demand: W) -> u64 {
        let shared = &mut *self.shared;
        shared.next += 1;
        shared.line.push_back((shared.next, waiter, demand));
        shared.next
    }

    /// Demand of the first in line.
    pub fn first(&self) -> Option<&W> {
        self.shared.line.front().map(|(.., demand)| demand)
    }

    /// Takes the first off the line, to be woken after unlocking.
    pub fn call(&mut self) -> Option<Waiter> {
        self.shared.line.pop_front().map(|(_, waiter, _)| waiter)
    }

    fn find(&self, place: u64) -> Option<usize> {
        self.shared.line.binary_search_by_key(&place, |(number, ..)| *number).ok()
    }

    /// Replaces the waiter at a place. Returns the one before, or `waiter` as an error if the place was called.
    pub fn renew(&mut self, place: u64, waiter: Waiter) -> Result<Waiter, Waiter> {
        match self.find(place) {
            Some(at) => Ok(std::mem::replace(&mut self.shared.line[at].1, waiter)),
            None => Err(waiter),
        }
    }

    /// Takes a place off the line. Returns its waiter, to be dropped after unlocking; `None` if the place was called.
    pub fn leave(&mut self, place: u64) -> Option<Waiter> {
        let at = self.find(place)?;
        self.shared.line.remove(at).map(|(_, waiter, _)| waiter)
    }

    /// Unlocks, waits in line on this thread until it is called, or for `at_most`, and locks. Returns whether it was called.
    pub fn wait(mut self, demand: W, at_most: Option<Duration>) -> (Self, bool) {
        let (latch, waiters) = (Arc::new(Latch::new()), self.waiters);
        let place = self.line_up(Waiter::Thread(latch.clone()), demand);
        drop(self);
        latch.wait_for(at_most);
        let mut locked = waiters.lock();
        let is_called = locked.leave(place).is_none();
        (locked, is_called)
    }

    /// Unlocks, and wakes the first in line.
    pub fn wake_one(mut self) {
        let first = self.call();
        drop(self);
        first.into_iter().for_each(Waiter::wake);
    }

    /// Unlocks, and wakes all that are in line.
    pub fn wake_all(mut self) {
        let line = std::mem::take(&mut self.shared.line);
        drop(self);
        line.into_iter().for_each(|(_, waiter, _)| waiter.wake());
    }
}

/// A value that one thread gives, and its owner waits for. See the [module page](self).
///
/// ```
/// use windrow_sync::waiters::Outcome;
///
/// let outcome = Outcome::default();
/// std::thread::scope(|scope| {
///     scope.spawn(|| outcome.give("done"));
///     assert_eq!(outcome.wait(), "done");
/// });
/// ```
#[derive(Debug)]
pub struct Outcome<R>(Mutex<OutcomeState<R>>);

#[derive(Debug)]
enum OutcomeState<R> {
    Pending(Option<Waiter>),
    Ready(R),
    Over,
}

impl<R> Default for Outcome<R> {
    fn default() -> Self {
        Self(Mutex::new(OutcomeState::Pending(None)))
    }
}

impl<R> Outcome<R> {
    fn replace(&self, state: OutcomeState<R>) -> OutcomeState<R> {
        std::mem::replace(&mut *self.0.lock(), state)
    }

    /// Gives the value, and wakes the owner. A value that is not wanted is dropped.
    pub fn give(&self, value: R) {
        match self.replace(OutcomeState::Ready(value)) {
            OutcomeState::Pending(Some(waiter)) => waiter.wake(),
            OutcomeState::Over => self.close(),
            _ => {}
        }
    }

    /// The value if it was given; otherwise `waiter` is woken when it is, and no earlier one.
    ///
    /// # Panics
    /// If the value was taken.
    pub fn ask(&self, waiter: Waiter) -> Option<R> {
        let mut state = self.0.lock();
        let is_pending = matches!(*state, OutcomeState::Pending(_));
        let next = if is_pending { OutcomeState::Pending(Some(waiter)) } else { OutcomeState::Over };
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        match before {
            OutcomeState::Ready(value) => Some(value),
            OutcomeState::Pending(_) => None,
            OutcomeState::Over => panic!("an outcome can be taken only once"),
        }
    }

    /// Blocks until the value is given.
    ///
    /// # Panics
    /// If the value was taken.
    pub fn wait(&self) -> R {
        let latch = Arc::new(Latch::new());
        loop {
            if let Some(value) = self.ask(Waiter::Thread(latch.clone())) {
                return value;
            }
            latch.wait_for(None);
        }
    }

    /// Whether the value was given.
    pub fn is_given(&self) -> bool {
        !matches!(*self.0.lock(), OutcomeState::Pending(_))
    }

    /// Drops the value, now or when it is given.
    pub fn close(&self) {
        drop(self.replace(OutcomeState::Over));
    }
}
