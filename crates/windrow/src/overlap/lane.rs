//! The stations of lanes that belong to one thread: the work of one lane, in steps that never wait.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use windrow_sync::fork::lock;

use super::queue::{Bell, Giver, Ring, Taker, Took};
use super::run::{OverlapRun, Station, Step, TileFault};
use super::trace::{LaneTrace, Log};
use crate::runtime::cancel::Ambient;

/// The source of a lane's tiles.
pub(super) enum Input<'env, T> {
    Iter(Box<dyn Iterator<Item = T> + Send + 'env>),
    Queue(Taker<T>),
}

impl<T> Input<'_, T> {
    pub(super) fn take(&mut self) -> Took<T> {
        match self {
            Input::Iter(iter) => iter.next().map_or(Took::Ended { whole: true }, Took::Item),
            Input::Queue(taker) => taker.take(),
        }
    }

    /// Whether there may be one more item. If not, the bell rings when there is.
    pub(super) fn has_more(&self) -> bool {
        match self {
            Input::Iter(_) => true,
            Input::Queue(taker) => taker.has_more(),
        }
    }
}

/// The two ends of a lane. They are closed when the lane leaves.
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
            // An item that comes back is not wanted any more.
            drop(output.give(item));
        }
    }

    fn take(&mut self) -> Took<T> {
        self.input.as_mut().map_or(Took::Ended { whole: false }, Input::take)
    }
}

/// A lane whose closure turns a tile into a result.
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
    fn step(&mut self, run: &OverlapRun<E>) -> Step {
        if self.next >= run.cut() {
            return self.ends.leave(false);
        }
        if !self.ends.has_room() {
            self.log.idle(run.zero, true);
            return Step::Idle;
        }
        let begun = self.log.now(run.zero);
        let _token = Ambient::new(run.token(self.lane));
        // The iterator of a source is user code, too.
        let item = match catch_unwind(AssertUnwindSafe(|| self.ends.take())) {
            Ok(Took::Item(item)) => item,
            Ok(Took::Empty) => {
                self.log.idle(run.zero, false);
                return Step::Idle;
            }
            Ok(Took::Ended { whole }) => {
                if !whole && self.next < run.cut() {
                    run.fail(self.next, self.lane, TileFault::Lost);
                }
                return self.ends.leave(whole);
            }
            Err(payload) => {
                run.fail(self.next, self.lane, TileFault::Panic(payload));
                return Step::Worked;
            }
        };
        self.log.begins(begun);
        let result = catch_unwind(AssertUnwindSafe(|| (self.f)(item)));
        self.log.ends(run.zero, begun, None);
        match result {
            Ok(Ok(made)) => self.ends.give(made),
            Ok(Err(error)) => run.fail(self.next, self.lane, TileFault::Error(error)),
            Err(payload) => run.fail(self.next, self.lane, TileFault::Panic(payload)),
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

/// The state of an operation.
enum Completion<U, E> {
    Pending,
    Done(Result<U, E>),
    /// Its token was dropped.
    Lost,
    Taken,
}

struct Slot<U, E> {
    /// The outcome, and when it came.
    outcome: Mutex<(Completion<U, E>, Option<Instant>)>,
    /// The lane's bell; the lane may have left.
    bell: Arc<Bell>,
    /// When the operation was started, if the run is traced.
    begun: Option<Instant>,
}

/// Reports the result of an operation, once: see [`Overlap::completion`](super::Overlap::completion).
///
/// A token that is dropped fails its tile with [`Failure::Lost`](super::Failure::Lost). If the run has ended meanwhile, the result is
/// dropped.
///
/// ```
/// use windrow::overlap::{self, CompletionToken, Failure};
///
/// let tiles = overlap::source(0..4).completion("send", 2, |i: u32, token: CompletionToken<u32, String>| {
///     if i < 3 {
///         token.complete(Ok(10 * i));
///     }
///     // The last token is dropped.
///     Ok(())
/// });
/// assert!(matches!(tiles.collect(), Err(Failure::Lost { tile: 3, .. })));
/// ```
#[must_use = "a token that is dropped fails its tile"]
pub struct CompletionToken<U, E>(Arc<Slot<U, E>>);

impl<U, E> CompletionToken<U, E> {
    /// The operation has ended. May be called on any thread; takes a lock for a few instructions.
    pub fn complete(self, result: Result<U, E>) {
        self.end(Completion::Done(result));
    }

    fn end(&self, end: Completion<U, E>) {
        let mut outcome = lock(&self.0.outcome);
        if matches!(outcome.0, Completion::Pending) {
            *outcome = (end, self.0.begun.map(|_| Instant::now()));
            drop(outcome);
            self.0.bell.ring();
        }
    }
}

impl<U, E> Drop for CompletionToken<U, E> {
    fn drop(&mut self) {
        self.end(Completion::Lost);
    }
}

impl<U, E> fmt::Debug for CompletionToken<U, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionToken").finish_non_exhaustive()
    }
}

/// A lane whose closure starts operations that end elsewhere.
pub(super) struct Start<'env, T, U, E, F> {
    lane: usize,
    /// The oldest tile under way; if none is, the next tile.
    next: usize,
    ends: Ends<'env, T, U>,
    /// Operations under way.
    slots: VecDeque<Arc<Slot<U, E>>>,
    most: usize,
    /// `Some` if the input has ended; true if all tiles have come.
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
    fn failed(&self) -> Option<(usize, TileFault<E>)> {
        self.slots.iter().enumerate().find_map(|(at, slot)| {
            let mut outcome = lock(&slot.outcome);
            let why = match std::mem::replace(&mut outcome.0, Completion::Taken) {
                Completion::Done(Err(error)) => TileFault::Error(error),
                Completion::Lost => TileFault::Lost,
                other => {
                    outcome.0 = other;
                    return None;
                }
            };
            Some((self.next + at, why))
        })
    }

    /// The result of the oldest operation under way, if it has come.
    fn oldest(&mut self) -> Option<U> {
        let slot = self.slots.front()?;
        let mut outcome = lock(&slot.outcome);
        match std::mem::replace(&mut outcome.0, Completion::Taken) {
            Completion::Done(Ok(made)) => Some(made),
            other => {
                outcome.0 = other;
                None
            }
        }
    }
}

impl<T, U, E, F: FnMut(T, CompletionToken<U, E>) -> Result<(), E>> Station<E> for Start<'_, T, U, E, F> {
    fn step(&mut self, run: &OverlapRun<E>) -> Step {
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
        let _token = Ambient::new(run.token(self.lane));
        match catch_unwind(AssertUnwindSafe(|| self.ends.take())) {
            Ok(Took::Item(item)) => {
                let slot =
                    Arc::new(Slot { outcome: Mutex::new((Completion::Pending, None)), bell: self.bell.clone(), begun });
                self.slots.push_back(slot.clone());
                self.log.begins(begun);
                match catch_unwind(AssertUnwindSafe(|| (self.f)(item, CompletionToken(slot)))) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => run.fail(tile, self.lane, TileFault::Error(error)),
                    Err(payload) => run.fail(tile, self.lane, TileFault::Panic(payload)),
                }
                Step::Worked
            }
            Ok(Took::Empty) => {
                self.log.idle(run.zero, false);
                Step::Idle
            }
            Ok(Took::Ended { whole }) => {
                if !whole && tile < run.cut() {
                    run.fail(tile, self.lane, TileFault::Lost);
                }
                self.ended = Some(whole);
                Step::Worked
            }
            Err(payload) => {
                run.fail(tile, self.lane, TileFault::Panic(payload));
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
