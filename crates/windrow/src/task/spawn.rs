//! Closures that run on a thread of the pool: fire and forget ([`spawn`]), or with a handle to await ([`spawn_joinable`]).
//!
//! *A caller never waits for a closure that no thread can run.* [`JoinHandle::wait`] takes a closure that has not begun out of the queue, and
//! runs it on the calling thread. Polling on a spawn thread does the same. Otherwise all spawn threads could wait for closures after
//! them in the queue ([`spawn_threads`]).

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use crate::runtime::cancel::{CancelToken, ambient, under};
use crate::runtime::listen::SpawnedCall;
use crate::runtime::pool::{Current, Pool, global_state, install};
use crate::runtime::spawn_threads::{self, serves};
use crate::runtime::state::PoolState;
use windrow_sync::unwind::discard;
use windrow_sync::waiters::{Outcome, Waiter};

/// Runs `f` on a spawn thread of the current pool, and returns at once. For a result of `f`, see [`spawn_joinable`].
///
/// The closure runs to its end. Its token, [`CancelToken::current`], is a child of the spawning closure's token, if there is one.
///
/// # Panics
/// A panic in `f` is reported by the panic hook and ends `f` alone, as in a thread that is not joined. (rayon aborts the process.)
/// `spawn` itself panics if the pool has no spawn thread and the system refuses to start one.
///
/// ```
/// let (done, result) = std::sync::mpsc::channel();
/// windrow::spawn(move || done.send(6 * 7).unwrap());
/// assert_eq!(result.recv(), Ok(42));
/// ```
#[track_caller]
pub fn spawn(f: impl FnOnce() + Send + 'static) {
    detach(Current::get().state(), Location::caller(), f);
}

/// Runs `f` on a spawn thread of the current pool. The handle gives its result: await it, or block in [`JoinHandle::wait`].
///
/// The handle is a future for any executor. `f` begins whether or not the future is polled.
///
/// # Dropping the handle
/// A drop of the handle never blocks. A closure that has not begun is dropped. If the closure runs, its token,
/// [`CancelToken::current`], is cancelled: parallel calls in it that have a token ([`with_cancel`](crate::ParallelIterator::with_cancel),
/// any token) then end at their next poll with [`Cancelled`](crate::Cancelled). Calls without a token run to their end, since they cannot
/// return a partial result. So does all other code. The result is dropped on the spawn thread. `f` owns what it uses
/// (`'static`), so no borrow is left behind.
///
/// # Panics
/// A panic in `f` is resumed where the handle is awaited or waited for. If the handle was dropped, the panic is discarded.
/// `spawn_joinable` itself panics if the pool has no spawn thread and the system refuses to start one.
///
/// # Deadlocks
/// At most as many closures run at once as the pool has members. So a closure that blocks until a later closure has done something may
/// block for ever. It may await the handle of the later closure, or [`wait`](JoinHandle::wait) for it: a closure that has not begun then
/// runs on the waiting thread.
///
/// ```
/// use windrow::prelude::*;
///
/// async fn answer(texts: Vec<String>) -> usize {
///     // The executor's thread is free while the pool works.
///     windrow::spawn_joinable(move || texts.par_iter().map(|text| text.len()).sum()).await
/// }
///
/// assert_eq!(windrow::spawn_joinable(|| (0..100u64).into_par_iter().sum::<u64>()).wait(), 4950);
/// # drop(answer(Vec::new()));
/// ```
///
/// Source of the idea: rayon's pull request 679 and the crate tokio-rayon, whose futures leave a dropped closure running.
#[track_caller]
pub fn spawn_joinable<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    spawn_to(Current::get().state(), Location::caller(), f)
}

impl Pool {
    /// [`spawn`] on a thread of this pool; parallel calls in `f` use this pool.
    ///
    /// ```
    /// let pool = windrow::Pool::new(2);
    /// let (done, result) = std::sync::mpsc::channel();
    /// pool.spawn(move || done.send(windrow::current_num_threads()).unwrap());
    /// assert_eq!(result.recv(), Ok(2));
    /// ```
    ///
    /// # Panics
    /// As [`spawn`].
    #[track_caller]
    pub fn spawn(&self, f: impl FnOnce() + Send + 'static) {
        detach(&self.state, Location::caller(), f);
    }

    /// [`spawn_joinable`] on a thread of this pool; parallel calls in `f` use this pool.
    ///
    /// Dropping the pool does not wait for its spawned closures. Those that run or are queued run to their end, and their handles give
    /// their results. The workers are gone by then, so parallel calls in them run on their spawn threads alone.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let pool = windrow::Pool::new(2);
    /// let sum = pool.spawn_joinable(|| (0..100u64).into_par_iter().sum::<u64>());
    /// assert_eq!(sum.wait(), 4950);
    /// ```
    ///
    /// # Panics
    /// As [`spawn_joinable`].
    #[track_caller]
    pub fn spawn_joinable<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        spawn_to(&self.state, Location::caller(), f)
    }
}

fn detach(state: &Arc<PoolState>, place: &'static Location<'static>, f: impl FnOnce() + Send + 'static) {
    submit(&home(state), place, ambient().map(|outer| outer.child()), f, discard);
}

fn spawn_to<R: Send + 'static>(
    state: &Arc<PoolState>,
    place: &'static Location<'static>,
    f: impl FnOnce() -> R + Send + 'static,
) -> JoinHandle<R> {
    let token = ambient().map_or_else(CancelToken::new, |outer| outer.child());
    let task = Arc::new(Task { token: token.clone(), outcome: Outcome::default() });
    let (pool, own) = (home(state).into_owned(), task.clone());
    let ticket = submit(&pool, place, Some(token), f, move |result| own.outcome.give(result));
    JoinHandle { task, pool, ticket, given: false }
}

/// The pool that runs closures spawned on this one. In a forked child the queue of an inherited pool belongs to the parent.
fn home(state: &Arc<PoolState>) -> Cow<'_, Arc<PoolState>> {
    if state.is_of_this_process() { Cow::Borrowed(state) } else { Cow::Owned(global_state()) }
}

/// Hands `f` over, to be run under `token`. Returns its number.
fn submit<R>(
    pool: &Arc<PoolState>,
    place: &'static Location<'static>,
    token: Option<CancelToken>,
    f: impl FnOnce() -> R + Send + 'static,
    ended: impl FnOnce(thread::Result<R>) + Send + 'static,
) -> u64 {
    let (call, _spawn) = SpawnedCall::begin(place, false);
    let job = move || {
        let token = under(token);
        let run = call.run();
        let result = catch_unwind(AssertUnwindSafe(f));
        drop((run, token));
        ended(result);
    };
    spawn_threads::submit(pool, Box::new(job))
}

/// The result of a spawned closure, to be awaited or [waited](JoinHandle::wait) for: see [`spawn_joinable`].
///
/// Dropping the handle drops a closure that has not begun, and cancels the token of one that runs.
///
/// In a forked child the closure's thread does not exist: `poll`, `wait` and `is_finished` panic there, and a drop does nothing.
///
/// ```
/// use windrow::JoinHandle;
///
/// let halves: Vec<JoinHandle<u32>> = (0..3).map(|n| windrow::spawn_joinable(move || 10 * n)).collect();
/// assert_eq!(halves.into_iter().map(JoinHandle::wait).collect::<Vec<_>>(), [0, 10, 20]);
/// ```
#[must_use = "dropping the handle cancels the closure: await the handle, call wait, or use spawn"]
pub struct JoinHandle<R> {
    task: Arc<Task<R>>,
    /// The pool whose queue has the closure.
    pool: Arc<PoolState>,
    ticket: u64,
    /// The result was taken, or is not wanted.
    given: bool,
}

impl<R> fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("closure", &self.ticket).finish_non_exhaustive()
    }
}

impl<R> JoinHandle<R> {
    /// Blocks until the closure has run, and returns its result. A closure that has not begun runs on the calling thread.
    ///
    /// ```
    /// let handle = windrow::spawn_joinable(|| "4x".parse::<u8>());
    /// assert!(handle.wait().is_err());
    /// ```
    ///
    /// # Panics
    /// With the closure's panic. Also if the handle has returned the result before, or if this process was forked since `spawn_joinable`.
    pub fn wait(mut self) -> R {
        self.help();
        let result = self.task.outcome.wait();
        self.given = true;
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Cancels the closure's token, [`CancelToken::current`], and leaves its result to be awaited. A closure that has not begun will
    /// begin, with a cancelled token.
    ///
    /// ```
    /// use windrow::prelude::*;
    ///
    /// let handle = windrow::spawn_joinable(|| {
    ///     let token = windrow::CancelToken::current();
    ///     // Ends when the token of this closure is cancelled.
    ///     std::iter::repeat(1).par_bridge().with_cancel(&token).for_each(drop)
    /// });
    /// handle.cancel();
    /// assert!(handle.wait().is_err());
    /// ```
    pub fn cancel(&self) {
        self.task.token.cancel();
    }

    /// True if the closure has run. Then an await of the handle is ready at once.
    ///
    /// ```
    /// let (go, wait) = std::sync::mpsc::channel::<()>();
    /// let handle = windrow::spawn_joinable(move || wait.recv());
    /// assert!(!handle.is_finished());
    /// go.send(()).unwrap();
    /// assert_eq!(handle.wait(), Ok(()));
    /// ```
    ///
    /// # Panics
    /// If this process was forked since `spawn_joinable`.
    pub fn is_finished(&self) -> bool {
        self.assert_of_this_process();
        self.task.outcome.is_given()
    }

    fn assert_of_this_process(&self) {
        assert!(self.pool.is_of_this_process(), "this closure was spawned in the parent process, before the fork");
    }

    /// Runs the closure on this thread if it has not begun.
    fn help(&self) {
        self.assert_of_this_process();
        if let Some(job) = self.pool.spawns.remove(self.ticket) {
            let _here = install(self.pool.clone());
            job();
        }
    }
}

impl<R> Future for JoinHandle<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        self.assert_of_this_process();
        if serves(&self.pool) {
            // A waiting spawn thread: see the module page.
            self.help();
        }
        let waiter = Waiter::Task(context.waker().clone());
        let Some(result) = self.task.outcome.ask(waiter) else { return Poll::Pending };
        self.given = true;
        Poll::Ready(result.unwrap_or_else(|payload| resume_unwind(payload)))
    }
}

impl<R> Drop for JoinHandle<R> {
    fn drop(&mut self) {
        if self.given || !self.pool.is_of_this_process() {
            return;
        }
        self.task.token.cancel();
        let unrun = self.pool.spawns.remove(self.ticket);
        self.task.outcome.close();
        drop(unrun);
    }
}

/// Common state of the closure and its handle.
struct Task<R> {
    token: CancelToken,
    outcome: Outcome<thread::Result<R>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes of an overlapped run may outlive their pool, and spawn.
    #[test]
    fn nothing_is_left_of_a_pool_that_is_gone() {
        let pool = Pool::new(2);
        let state = pool.state.clone();
        assert_eq!(spawn_to(&state, Location::caller(), || 1).wait(), 1);
        drop(pool);
        for round in 0..3 {
            let (tell, told) = std::sync::mpsc::channel();
            let all: Vec<_> = (0..5)
                .map(|i| {
                    let tell = tell.clone();
                    spawn_to(&state, Location::caller(), move || tell.send(i).unwrap())
                })
                .collect();
            assert_eq!(told.iter().take(5).sum::<i32>(), 10, "round {round}");
            drop(all);
            while Arc::strong_count(&state) > 1 {
                thread::yield_now();
            }
        }
        // Also of a closure that no spawn thread began.
        spawn_to(&state, Location::caller(), || ()).wait();
        while Arc::strong_count(&state) > 1 {
            thread::yield_now();
        }
    }
}
