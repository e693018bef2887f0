//! A lane that takes several tiles at once: its station, which the calling thread and workers of the pool step together.
//!
//! # Glossary
//! * *Member*: the calling thread, or a worker of the pool that has joined the run's region (see `help`).
//! * *Begun* tile: a member has pulled it. *Ended* tile: its closure has returned. *In the lane*: begun and not handed on.
//! * *Head*: the oldest tile in the lane.
//!
//! # Protocol
//! 1. *Begin.* A member pulls the next tile under the lock of the source, so that tiles are numbered as the source gives them. It enters
//!    the tile under the lock of the order, at the back. It begins no tile if the lane or the queue after it has no room: so the
//!    number of tiles is bounded, and a result never waits for room.
//! 2. *Pass on.* A member that has begun a tile rings for the next one if there is one; else it leaves its mark in the queue that has
//!    to change first. Race prevented: two tiles come, the queue rings once, and the second tile waits while members sleep.
//! 3. *End.* A member stores the result. The member that stores the result of the head hands on that result and all that follow without a
//!    gap. Results are given under the lock of the order. Race prevented: two members hand on at the same time, in the wrong order.
//! 4. *Fail.* A failed tile has no result, so no later tile is handed on. Tiles before it go on. The tokens of later tiles are cancelled.
//! 5. *Leave.* If no more tiles come, or none before the cut is in the lane, the first member that sees it ends the queue after the lane.
//!
//! A member that finds the source locked does not wait for it, since the source may be an iterator that blocks. It sets `missed` and tries
//! once more. The holder checks `missed` after the unlock, and rings. Race prevented: a ring wakes a member that finds the source
//! locked and sleeps again, while the holder goes on to run its tile.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use windrow_plan::Nanos;

use super::crew::Crew;
use super::lane::Input;
use super::queue::{Giver, Took};
use super::run::{OverlapRun, Station, Step, TileFault};
use super::trace::{LaneTrace, Log, TileTrace};
use crate::runtime::cancel::{CancelToken, under};
use windrow_sync::Mutex;
use windrow_sync::unwind::Payload;

/// Tiles in a lane for each member of a pool: one that the member runs, and one that waits for its turn to be handed on. A pool of one
/// thread has one tile in the lane.
///
/// Measure: count of tiles.
const TILES_OF_MEMBER: usize = 2;

/// The source of tiles.
struct Origin<'env, T> {
    /// `None` if no more tiles come.
    input: Option<Input<'env, T>>,
    next: usize,
}

/// A tile in the lane.
struct Begun<U> {
    result: Option<U>,
    token: CancelToken,
    /// Its trace and its end, if the run is traced.
    trace: Option<TileTrace>,
    ended: Option<Nanos>,
}

/// The tiles in the lane, in order.
struct InOrder<U> {
    head: usize,
    tiles: VecDeque<Begun<U>>,
    /// `None` once the lane has left.
    output: Option<Giver<U>>,
    /// `Some` if the source has ended; true if all tiles have come.
    whole: Option<bool>,
    /// A member found the source locked.
    missed: bool,
    log: Log,
}

/// A lane whose closure turns tiles into results, on several members at once.
pub(super) struct ApplyEach<'env, T, U, F> {
    lane: usize,
    /// The maximum of tiles in the lane; `None` depends on the pool.
    under_way: Option<usize>,
    origin: Mutex<Origin<'env, T>>,
    order: Mutex<InOrder<U>>,
    crew: Arc<Crew>,
    f: F,
}

/// A begun tile: its number, its item and its token.
type Tile<T> = (usize, T, CancelToken);

/// A tile, if one came, and true if one more can be begun. `Err` if no more tiles come, perhaps with a reason to fail the next one.
type Pulled<T, E> = Result<Option<(Tile<T>, bool)>, Option<TileFault<E>>>;

impl<'env, T, U, F> ApplyEach<'env, T, U, F> {
    pub(super) fn new(
        lane: usize,
        under_way: Option<usize>,
        (input, output): (Input<'env, T>, Giver<U>),
        f: F,
        crew: Arc<Crew>,
        log: Log,
    ) -> Self {
        let order = InOrder { head: 0, tiles: VecDeque::new(), output: Some(output), whole: None, missed: false, log };
        let origin = Origin { input: Some(input), next: 0 };
        Self { lane, under_way, origin: Mutex::new(origin), order: Mutex::new(order), crew, f }
    }

    /// True if one more tile may be in the lane. If not, a result that is taken or handed on rings.
    fn has_room<E>(&self, order: &InOrder<U>, run: &OverlapRun<E>) -> bool {
        let usual = if run.members == 1 { 1 } else { TILES_OF_MEMBER * run.members };
        let (held, most) = (order.tiles.len(), self.under_way.unwrap_or(usual));
        order.output.as_ref().is_some_and(|output| output.has_room(held, most))
    }

    /// The lock of the source, unless another member has it, which rings then.
    fn lock_origin(&self) -> Option<MutexGuard<'_, Origin<'env, T>>> {
        self.origin.try_lock().or_else(|| {
            self.order.lock().missed = true;
            self.origin.try_lock()
        })
    }

    /// True if a member has found the source locked. To be asked after each unlock.
    fn was_missed(&self) -> bool {
        std::mem::take(&mut self.order.lock().missed)
    }

    /// Begins the next tile. Without one, the result of the step.
    fn begin<E>(&self, run: &OverlapRun<E>) -> Result<Tile<T>, Step> {
        let Some(mut origin) = self.lock_origin() else { return Err(Step::Idle) };
        if origin.next >= run.cut() || origin.input.is_none() {
            // Queued tiles are user data: dropped outside the lock.
            let unwanted = origin.input.take();
            drop(origin);
            if self.was_missed() {
                self.crew.nudge();
            }
            drop(unwanted);
            return Err(if self.leave(run) { Step::Through } else { Step::Idle });
        }
        let pulled = self.pull(&mut origin, run);
        let next = origin.next;
        drop(origin);
        let missed = self.was_missed();
        match pulled {
            Ok(Some((tile, true))) => {
                self.crew.pass_on();
                Ok(tile)
            }
            Ok(begun) => {
                if missed {
                    self.crew.nudge();
                }
                begun.map(|(tile, _)| tile).ok_or(Step::Idle)
            }
            Err(why) => {
                if let Some(why) = why {
                    run.fail(next, self.lane, why);
                }
                self.crew.ring_all();
                self.crew.caller.set();
                Err(Step::Worked)
            }
        }
    }

    fn pull<E>(&self, origin: &mut Origin<'env, T>, run: &OverlapRun<E>) -> Pulled<T, E> {
        let idle = |full| {
            self.order.lock().log.idle(run.now(), full);
            Ok(None)
        };
        if !self.has_room(&self.order.lock(), run) {
            return idle(true);
        }
        let Some(input) = &mut origin.input else { return Ok(None) };
        let token = run.token(self.lane).child();
        let taken = {
            let _token = under(token.clone());
            // The iterator of a source is user code, too.
            catch_unwind(AssertUnwindSafe(|| input.take()))
        };
        match taken {
            Ok(Took::Item(item)) => {
                let tile = origin.next;
                origin.next += 1;
                let mut order = self.order.lock();
                let trace = order.log.begins(run.now());
                order.tiles.push_back(Begun { result: None, token: token.clone(), trace, ended: None });
                let more = self.has_room(&order, run) && input.has_more();
                Ok(Some(((tile, item, token), more)))
            }
            Ok(Took::Empty) => idle(false),
            Ok(Took::Ended { whole }) => {
                origin.input = None;
                self.order.lock().whole = Some(whole);
                let lost = !whole && origin.next < run.cut();
                Err(lost.then_some(TileFault::Lost))
            }
            Err(payload) => Err(Some(TileFault::Panic(payload))),
        }
    }

    fn end<E>(&self, run: &OverlapRun<E>, tile: usize, result: Result<Result<U, E>, Payload>) {
        let why = match result {
            Ok(Ok(made)) => {
                let mut order = self.order.lock();
                let at = tile - order.head;
                let begun = &mut order.tiles[at];
                (begun.result, begun.ended) = (Some(made), run.now());
                return if at == 0 {
                    self.hand_on(order, run)
                };
            }
            Ok(Err(error)) => TileFault::Error(error),
            Err(payload) => TileFault::Panic(payload),
        };
        run.fail(tile, self.lane, why);
        let order = self.order.lock();
        let later = (tile + 1).saturating_sub(order.head);
        order.tiles.iter().skip(later).for_each(|begun| begun.token.cancel());
    }

    /// Hands on the results of the head, and of those after it that have ended.
    fn hand_on<E>(&self, mut order: MutexGuard<'_, InOrder<U>>, run: &OverlapRun<E>) {
        let (mut unwanted, mut thrown) = (Vec::new(), None);
        while order.head < run.cut() && order.tiles.front().is_some_and(|head| head.result.is_some()) {
            let Some(Begun { result: Some(made), trace, ended, .. }) = order.tiles.pop_front() else { break };
            let tile = order.head;
            order.head += 1;
            order.log.ends(trace, ended);
            // The weight of a tile is user code.
            match catch_unwind(AssertUnwindSafe(|| order.output.as_ref().map_or(Ok(()), |output| output.give(made)))) {
                Ok(given) => unwanted.extend(given.err()),
                Err(payload) => {
                    thrown = Some((tile, payload));
                    break;
                }
            }
        }
        drop(order);
        if let Some((tile, payload)) = thrown {
            run.fail(tile, self.lane, TileFault::Panic(payload));
        }
        // Members may wait for room in the lane, and the calling thread for its end.
        self.crew.nudge();
        drop(unwanted);
    }

    /// Ends the queue after the lane, if no tile of the lane will be handed on any more. Returns whether it is ended.
    fn leave<E>(&self, run: &OverlapRun<E>) -> bool {
        let mut order = self.order.lock();
        let is_cut = order.head >= run.cut();
        if !is_cut && (order.whole.is_none() || !order.tiles.is_empty()) {
            return order.output.is_none();
        }
        let whole = !is_cut && order.whole == Some(true);
        let output = order.output.take();
        drop(order);
        if let (Some(output), true) = (output, whole) {
            output.finish();
        }
        true
    }
}

impl<T, U, E, F: Fn(T) -> Result<U, E>> Station<E> for ApplyEach<'_, T, U, F> {
    fn step(&self, run: &OverlapRun<E>) -> Step {
        let (tile, item, token) = match self.begin(run) {
            Ok(begun) => begun,
            Err(step) => return step,
        };
        let since = Instant::now();
        let result = {
            let _token = under(token);
            catch_unwind(AssertUnwindSafe(|| (self.f)(item)))
        };
        self.crew.ran(since.elapsed());
        self.end(run, tile, result);
        Step::Worked
    }

    fn at(&self) -> (usize, usize) {
        (self.order.lock().head, self.lane)
    }

    fn take_trace(&self) -> Option<LaneTrace> {
        self.order.lock().log.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::super::queue::queue;
    use super::*;

    /// Two members see the end of a source at the same time. One may find it locked, and wait.
    #[test]
    fn a_member_that_finds_the_ended_source_locked_is_rung() {
        const LONG: Duration = Duration::from_secs(10);
        let ended = |_| {
            let crew = Arc::new(Crew::default());
            let caller = crew.caller.clone();
            let run = OverlapRun::<()>::new(Vec::new(), 1, vec![caller.clone()], crew.clone(), (4, 4), None);
            let (output, _results) = queue(1, crew.clone());
            let source = Input::Iter(Box::new(std::iter::empty()));
            let lane = ApplyEach::new(0, None, (source, output), Ok::<u32, ()>, crew, Log::default());
            assert!(matches!(lane.step(&run), Step::Worked), "it sees the end");
            caller.wait_for(Some(Duration::ZERO));
            (run, lane, caller)
        };
        let lanes: Vec<_> = (0..if cfg!(miri) { 10 } else { 20_000 }).map(ended).collect();
        let (arrived, mut unheard) = (AtomicUsize::new(0), None);
        let meet = |round: usize| {
            // Relaxed: no data is published.
            arrived.fetch_add(1, Ordering::Relaxed);
            // Relaxed: as above.
            while arrived.load(Ordering::Relaxed) < 2 * (round + 1) {
                thread::yield_now();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                for (round, (run, lane, _)) in lanes.iter().enumerate() {
                    meet(round);
                    lane.step(run);
                }
            });
            for (round, (run, lane, caller)) in lanes.iter().enumerate() {
                meet(round);
                if matches!(lane.step(run), Step::Idle) && unheard.is_none() {
                    let since = Instant::now();
                    caller.wait_for(Some(LONG));
                    unheard = (since.elapsed() >= LONG).then_some(round);
                }
            }
        });
        assert_eq!(unheard, None, "the round in which nothing rang");
    }
}
