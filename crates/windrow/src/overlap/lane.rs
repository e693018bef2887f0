//! Stations: the work of one lane, in steps that never wait.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::queue::{Bell, Giver, Taker, Took, lock};
use super::run::{Run, Why};
use super::trace::{LaneTrace, Log};
use crate::stop::Ambient;

/// What a step came to.
pub(super) enum Step {
    /// Something was done: try again.
    Worked,
    /// Nothing can be done until the bell rings.
    Idle,
    /// Nothing will ever be to do again.
    Through,
}

pub(super) trait Station<E> {
    fn step(&mut self, run: &Run<E>) -> Step;

    /// The tile it is at, and its lane.
    fn at(&self) -> (usize, usize);

    fn take_trace(&mut self) -> Option<LaneTrace>;
}

/// Where a lane gets its tiles.
pub(super) enum Input<'env, T> {
    Iter(Box<dyn Iterator<Item = T> + Send + 'env>),
    Queue(Taker<T>),
}

impl<T> Input<'_, T> {
    fn take(&mut self) -> Took<T> {
        match self {
            Input::Iter(iter) => iter.next().map_or(Took::Ended { whole: true }, Took::Item),
            Input::Queue(taker) => taker.take(),
        }
    }
}

/// A lane that has done its work, or is not wanted any more, closes what it has.
struct Ends<'env, T, U> {
    input: Option<Input<'env, T>>,
    output: Option<Giver<U>>,
}

impl<T, U> Ends<'_, T, U> {
    /// Ends both queues; `whole` if all tiles went through.
    fn leave(&mut self, whole: bool) -> Step {
        if let (Some(output), true) = (self.output.take(), whole) {
            output.finish();
        }
        self.input = None;
        Step::Through
    }

    fn has_room(&self) -> bool {
        self.output.as_ref().is_none_or(Giver::has_room)
    }

    fn give(&self, item: U) {
        if let Some(output) = &self.output {
            // Back if nobody wants it any more: dropped.
            drop(output.give(item));
        }
    }

    fn take(&mut self) -> Took<T> {
        self.input.as_mut().map_or(Took::Ended { whole: false }, Input::take)
    }
}

/// A lane whose closure makes one thing of another.
pub(super) struct Apply<'env, T, U, F> {
    lane: usize,
    next: usize,
    ends: Ends<'env, T, U>,
    f: F,
    log: Log,
}

impl<'env, T, U, F> Apply<'env, T, U, F> {
    pub(super) fn new(lane: usize, input: Input<'env, T>, output: Giver<U>, f: F, log: Log) -> Self {
        Self { lane, next: 0, ends: Ends { input: Some(input), output: Some(output) }, f, log }
    }
}

impl<T, U, E, F: FnMut(T) -> Result<U, E>> Station<E> for Apply<'_, T, U, F> {
    fn step(&mut self, run: &Run<E>) -> Step {
        if self.next >= run.cut() {
            return self.ends.leave(false);
        }
        if !self.ends.has_room() {
            self.log.idle(run.zero, true);
            return Step::Idle;
        }
        let begun = self.log.now(run.zero);
        let _stop = Ambient::new(run.token(self.lane));
        // A source is user code, too.
        let item = match catch_unwind(AssertUnwindSafe(|| self.ends.take())) {
            Ok(Took::Item(item)) => item,
            Ok(Took::Empty) => {
                self.log.idle(run.zero, false);
                return Step::Idle;
            }
            Ok(Took::Ended { whole }) => {
                if !whole && self.next < run.cut() {
                    run.fail(self.next, self.lane, Why::Lost);
                }
                return self.ends.leave(whole);
            }
            Err(payload) => {
                run.fail(self.next, self.lane, Why::Panic(payload));
                return Step::Worked;
            }
        };
        self.log.begins(begun);
        let result = catch_unwind(AssertUnwindSafe(|| (self.f)(item)));
        self.log.ends(run.zero, begun, None);
        match result {
            Ok(Ok(made)) => self.ends.give(made),
            Ok(Err(error)) => run.fail(self.next, self.lane, Why::Error(error)),
            Err(payload) => run.fail(self.next, self.lane, Why::Panic(payload)),
        }
        self.next += 1;
        Step::Worked
    }

    fn at(&self) -> (usize, usize) {
        (self.next, self.lane)
    }

    fn take_trace(&mut self) -> Option<LaneTrace> {
        self.log.take()
    }
}

/// What becomes of an operation.
enum Outcome<U, E> {
    Pending,
    Done(Result<U, E>),
    /// Its token was dropped.
    Lost,
    Taken,
}

struct Slot<U, E> {
    /// With the time at which it was there.
    outcome: Mutex<(Outcome<U, E>, Option<Instant>)>,
    /// Of the lane, which may have left long ago.
    bell: Arc<Bell>,
    /// When the operation was started, if times are wanted.
    begun: Option<Instant>,
}

/// The right, and the duty, to say how an operation ended: see [`Overlap::completion`](super::Overlap::completion).
///
/// Dropped, it fails its tile with [`Failure::Lost`](super::Failure::Lost). If the run has ended meanwhile, what it is told is dropped.
#[must_use = "a token that is dropped fails its tile"]
pub struct Token<U, E>(Arc<Slot<U, E>>);

impl<U, E> Token<U, E> {
    /// The operation has ended. May be called on any thread; takes a lock for a few instructions.
    pub fn complete(self, result: Result<U, E>) {
        self.end(Outcome::Done(result));
    }

    fn end(&self, end: Outcome<U, E>) {
        let mut outcome = lock(&self.0.outcome);
        if matches!(outcome.0, Outcome::Pending) {
            *outcome = (end, self.0.begun.map(|_| Instant::now()));
            drop(outcome);
            self.0.bell.ring();
        }
    }
}

impl<U, E> Drop for Token<U, E> {
    fn drop(&mut self) {
        self.end(Outcome::Lost);
    }
}

impl<U, E> fmt::Debug for Token<U, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

/// A lane whose closure starts operations that end elsewhere.
pub(super) struct Start<'env, T, U, E, F> {
    lane: usize,
    /// The oldest tile that is under way, or else the next one.
    next: usize,
    ends: Ends<'env, T, U>,
    /// Operations under way.
    slots: VecDeque<Arc<Slot<U, E>>>,
    most: usize,
    /// The input has ended; whether with all that there was.
    ended: Option<bool>,
    f: F,
    bell: Arc<Bell>,
    log: Log,
}

impl<'env, T, U, E, F> Start<'env, T, U, E, F> {
    pub(super) fn new(
        lane: usize,
        most: usize,
        (input, output): (Input<'env, T>, Giver<U>),
        f: F,
        bell: Arc<Bell>,
        log: Log,
    ) -> Self {
        let ends = Ends { input: Some(input), output: Some(output) };
        Self { lane, next: 0, ends, slots: VecDeque::new(), most, ended: None, f, bell, log }
    }

    /// The first operation under way that is known to have failed.
    fn failed(&self) -> Option<(usize, Why<E>)> {
        self.slots.iter().enumerate().find_map(|(at, slot)| {
            let mut outcome = lock(&slot.outcome);
            let why = match std::mem::replace(&mut outcome.0, Outcome::Taken) {
                Outcome::Done(Err(error)) => Why::Error(error),
                Outcome::Lost => Why::Lost,
                other => {
                    outcome.0 = other;
                    return None;
                }
            };
            Some((self.next + at, why))
        })
    }

    /// The result of the oldest operation under way, if it is there.
    fn oldest(&mut self) -> Option<U> {
        let slot = self.slots.front()?;
        let mut outcome = lock(&slot.outcome);
        match std::mem::replace(&mut outcome.0, Outcome::Taken) {
            Outcome::Done(Ok(made)) => Some(made),
            other => {
                outcome.0 = other;
                None
            }
        }
    }
}

impl<T, U, E, F: FnMut(T, Token<U, E>) -> Result<(), E>> Station<E> for Start<'_, T, U, E, F> {
    fn step(&mut self, run: &Run<E>) -> Step {
        let cut = run.cut();
        if self.next >= cut {
            self.slots.clear();
            return self.ends.leave(false);
        }
        self.slots.truncate(cut - self.next);
        if let Some((tile, why)) = self.failed() {
            run.fail(tile, self.lane, why);
            return Step::Worked;
        }
        let room = self.ends.has_room();
        if room && let Some(made) = self.oldest() {
            if let Some(slot) = self.slots.pop_front() {
                let ended = lock(&slot.outcome).1;
                self.log.ends(run.zero, slot.begun, ended);
            }
            self.next += 1;
            self.ends.give(made);
            return Step::Worked;
        }
        let tile = self.next + self.slots.len();
        if self.slots.len() >= self.most || tile >= cut || self.ended.is_some() {
            if let (Some(whole), true) = (self.ended, self.slots.is_empty()) {
                return self.ends.leave(whole);
            }
            if self.slots.len() >= self.most {
                self.log.idle(run.zero, true);
            }
            return Step::Idle;
        }
        let begun = self.log.now(run.zero);
        let _stop = Ambient::new(run.token(self.lane));
        match catch_unwind(AssertUnwindSafe(|| self.ends.take())) {
            Ok(Took::Item(item)) => {
                let slot =
                    Arc::new(Slot { outcome: Mutex::new((Outcome::Pending, None)), bell: self.bell.clone(), begun });
                self.slots.push_back(slot.clone());
                self.log.begins(begun);
                match catch_unwind(AssertUnwindSafe(|| (self.f)(item, Token(slot)))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => run.fail(tile, self.lane, Why::Error(error)),
                    Err(payload) => run.fail(tile, self.lane, Why::Panic(payload)),
                }
                Step::Worked
            }
            Ok(Took::Empty) => {
                self.log.idle(run.zero, false);
                Step::Idle
            }
            Ok(Took::Ended { whole }) => {
                if !whole && tile < run.cut() {
                    run.fail(tile, self.lane, Why::Lost);
                }
                self.ended = Some(whole);
                Step::Worked
            }
            Err(payload) => {
                run.fail(tile, self.lane, Why::Panic(payload));
                Step::Worked
            }
        }
    }

    fn at(&self) -> (usize, usize) {
        (self.next, self.lane)
    }

    fn take_trace(&mut self) -> Option<LaneTrace> {
        self.log.take()
    }
}
