//! The stations of lanes that belong to one thread: the work of one lane, in steps that never wait.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::queue::{Giver, Taker, Took};
use super::run::{OverlapRun, Station, Step, TileFault};
use super::trace::{LaneTrace, Log};
use crate::runtime::cancel::under;

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

    /// True if there may be one more item. If not, the bell rings when there is.
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
        self.output.as_ref().is_none_or(|output| output.has_room(0, 1))
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
    pub(super) fn new(lane: usize, input: Input<'env, T>, output: Giver<U>, f: F, log: Log) -> RefCell<Self> {
        RefCell::new(Self { lane, next: 0, ends: Ends { input: Some(input), output: Some(output) }, f, log })
    }

    fn step<E>(&mut self, run: &OverlapRun<E>) -> Step
    where
        F: FnMut(T) -> Result<U, E>,
    {
        if self.next >= run.cut() {
            return self.ends.leave(false);
        }
        if !self.ends.has_room() {
            self.log.idle(run.now(), true);
            return Step::Idle;
        }
        let start = run.now();
        let _token = under(run.token(self.lane));
        // The iterator of a source is user code, too.
        let item = match catch_unwind(AssertUnwindSafe(|| self.ends.take())) {
            Ok(Took::Item(item)) => item,
            Ok(Took::Empty) => {
                self.log.idle(run.now(), false);
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
        let begun = self.log.begins(start);
        let result = catch_unwind(AssertUnwindSafe(|| (self.f)(item)));
        self.log.ends(begun, run.now());
        match result {
            Ok(Ok(made)) => self.ends.give(made),
            Ok(Err(error)) => run.fail(self.next, self.lane, TileFault::Error(error)),
            Err(payload) => run.fail(self.next, self.lane, TileFault::Panic(payload)),
        }
        self.next += 1;
        Step::Worked
    }
}

impl<T, U, E, F: FnMut(T) -> Result<U, E>> Station<E> for RefCell<Apply<'_, T, U, F>> {
    fn step(&self, run: &OverlapRun<E>) -> Step {
        self.borrow_mut().step(run)
    }

    fn at(&self) -> (usize, usize) {
        let lane = self.borrow();
        (lane.next, lane.lane)
    }

    fn take_trace(&self) -> Option<LaneTrace> {
        self.borrow_mut().log.take()
    }
}
