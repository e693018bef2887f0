//! Offloading: a closure with parallel calls in it, awaited on any executor.
//!
//! # Protocol
//! Every pool has a *queue* of closures and *lead threads* that take them in order, named `windrow-lead-1` and so on. A lead is
//! a thread like any other to the pool: it enters regions at the price of any caller. Leads are started when a closure finds
//! fewer of them waiting than there are closures, at most as many as the pool has members, and leave after [`IDLE`] without
//! work. Queues belong to a process: a forked child begins with none, so it inherits no lock.
//!
//! A closure is in the queue, or taken by one thread that runs it, or dropped unrun by its [`Offload`]; taking and dropping
//! are one removal from the queue, under its lock. User code (closures, wakers, results) runs and is dropped outside of
//! all locks.
//!
//! *Nobody waits for a closure that nobody can run.* [`Offload::wait`] takes a closure that has not begun and runs it, on
//! whatever thread; so does polling on a lead. Otherwise a pool's leads could all wait for closures behind them in the queue.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use windrow_sync::fork::PerProcess;
use windrow_sync::machine;

use crate::crew::Crew;
use crate::pool::{Installed, Pool, current_crew};
use crate::stop::{Ambient, Stop, ambient};

/// How long a lead waits for work before it ends. Starting one takes about 5 us (2-core x86-64 virtual machine, 2026-11), which
/// closures that come once in ten seconds do not notice; waiting costs a stack and no CPU time.
const IDLE: Duration = Duration::from_secs(10);

/// Runs `f` on a lead thread of the pool that parallel calls made here would use; the future gives its result.
///
/// The future works on any executor, and needs none: [`Offload::wait`] blocks instead. `f` begins whether or not the future is
/// polled.
///
/// # Dropping the future
/// never blocks. It drains: `f` that has not begun is dropped, unrun. `f` that runs is told to stop: its token,
/// [`Stop::current`], is stopped, so that calls in it that have one ([`stop_when`](crate::ParallelIterator::stop_when), with
/// whatever token) end at their next claim with [`Stopped`](crate::Stopped). Calls without run to their end, as they
/// have no way of saying that their result is not whole; so does other code. What `f` gives is dropped on its lead. `f`
/// owns what it uses (`'static`), so nothing borrowed is left behind in any case.
///
/// # Panics
/// A panic in `f` is resumed where the future is polled or waited for; if the future was dropped, nobody hears of it.
/// `offload` itself panics if the pool has no lead and the system refuses to start one.
///
/// # Deadlocks
/// At most as many closures run at once as the pool has members. One that blocks until a later one has done something may
/// wait for ever, unless it does so by awaiting or waiting for its `Offload`: a closure that has not begun then runs on the
/// thread that waits.
///
/// ```
/// use windrow::prelude::*;
///
/// async fn answer(texts: Vec<String>) -> usize {
///     // The executor's thread is free while the pool works.
///     windrow::offload(move || texts.par_iter().map(|text| text.len()).sum()).await
/// }
///
/// assert_eq!(windrow::offload(|| (0..100u64).into_par_iter().sum::<u64>()).wait(), 4950);
/// # drop(answer(Vec::new()));
/// ```
///
/// Source of the idea: rayon's pull request 679 and the crate tokio-rayon, whose futures leave a dropped closure running.
pub fn offload<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> Offload<R> {
    offload_to(&current_crew(), f)
}

impl Pool {
    /// [`offload`](crate::offload()) to a lead thread of this pool; parallel calls in `f` use this pool.
    ///
    /// Dropping the pool does not wait for closures offloaded to it. Those that run or are queued are run to their end, and
    /// their futures give their results; as the workers are gone, their parallel calls run on their leads alone.
    ///
    /// # Panics
    /// As [`offload`](crate::offload()).
    pub fn offload<R: Send + 'static>(&self, f: impl FnOnce() -> R + Send + 'static) -> Offload<R> {
        offload_to(&self.crew, f)
    }
}

fn offload_to<R: Send + 'static>(crew: &Arc<Crew>, f: impl FnOnce() -> R + Send + 'static) -> Offload<R> {
    let stop = ambient().map_or_else(Stop::new, |outer| outer.child());
    let task = Arc::new(Task { stop, outcome: Mutex::new(Outcome::Pending(None)), done: Condvar::new() });
    let job = {
        let (task, crew) = (task.clone(), crew.clone());
        move || {
            let result = {
                let _here = Installed::new(crew);
                let _stop = Ambient::new(task.stop.clone());
                catch_unwind(AssertUnwindSafe(f))
            };
            task.finish(result);
        }
    };
    let queue = Queue::of(crew);
    let ticket = queue.submit(Box::new(job));
    Offload { task, queue, ticket, given: false }
}

/// The result of an offloaded closure, to be awaited or [waited](Offload::wait) for: see [`offload`](crate::offload()).
///
/// Dropping it drops a closure that has not begun, and tells one that runs to stop.
///
/// In a forked child the closure's thread does not exist: polling or waiting there panics, dropping does nothing.
#[must_use = "dropping it ends the closure: await it, or call wait"]
pub struct Offload<R> {
    task: Arc<Task<R>>,
    queue: Arc<Queue>,
    ticket: u64,
    /// The result has been given: nothing is left to end.
    given: bool,
}

impl<R> fmt::Debug for Offload<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offload").field("closure", &self.ticket).finish_non_exhaustive()
    }
}

impl<R> Offload<R> {
    /// Blocks until the closure has run; its result. A closure that has not begun is run here, on the calling thread.
    ///
    /// # Panics
    /// With the closure's panic; or if the result was given already, or this process was forked since `offload`.
    pub fn wait(mut self) -> R {
        self.queue.assert_of_this_process();
        self.queue.help(self.ticket);
        let mut outcome = self.task.lock();
        while matches!(*outcome, Outcome::Pending(_)) {
            outcome = self.task.done.wait(outcome).unwrap_or_else(PoisonError::into_inner);
        }
        let result = take(outcome);
        self.given = true;
        result.unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Tells the closure to stop, and leaves its result to be awaited: its token, [`Stop::current`], is stopped. A closure that
    /// has not begun will begin, with a stopped token.
    pub fn stop(&self) {
        self.task.stop.stop();
    }

    /// Whether the closure has run: awaiting it now would not wait.
    ///
    /// # Panics
    /// If this process was forked since `offload`.
    pub fn is_finished(&self) -> bool {
        self.queue.assert_of_this_process();
        !matches!(*self.task.lock(), Outcome::Pending(_))
    }
}

impl<R> Future for Offload<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        self.queue.assert_of_this_process();
        if own_queue().is_some_and(|own| Arc::ptr_eq(&own, &self.queue)) {
            // Module page: a lead that waits.
            self.queue.help(self.ticket);
        }
        let waker = context.waker().clone();
        let mut outcome = self.task.lock();
        if let Outcome::Pending(before) = &mut *outcome {
            let before = before.replace(waker);
            drop(outcome);
            drop(before);
            return Poll::Pending;
        }
        let result = take(outcome);
        self.given = true;
        Poll::Ready(result.unwrap_or_else(|payload| resume_unwind(payload)))
    }
}

impl<R> Drop for Offload<R> {
    fn drop(&mut self) {
        if self.given || !self.queue.is_of_this_process() {
            return;
        }
        self.task.stop.stop();
        let unrun = self.queue.remove(self.ticket);
        let before = std::mem::replace(&mut *self.task.lock(), Outcome::Unwanted);
        drop(unrun);
        drop(before);
    }
}

/// What the closure and its `Offload` share.
struct Task<R> {
    stop: Stop,
    outcome: Mutex<Outcome<R>>,
    done: Condvar,
}

enum Outcome<R> {
    /// Not there yet, and who wants to know when it is.
    Pending(Option<Waker>),
    Ready(thread::Result<R>),
    Given,
    /// The `Offload` was dropped.
    Unwanted,
}

impl<R> Task<R> {
    fn lock(&self) -> MutexGuard<'_, Outcome<R>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, result: thread::Result<R>) {
        let mut outcome = self.lock();
        if matches!(*outcome, Outcome::Unwanted) {
            drop(outcome);
            return drop(result);
        }
        let before = std::mem::replace(&mut *outcome, Outcome::Ready(result));
        drop(outcome);
        self.done.notify_all();
        if let Outcome::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The result, which is not pending.
fn take<R>(mut outcome: MutexGuard<'_, Outcome<R>>) -> thread::Result<R> {
    match std::mem::replace(&mut *outcome, Outcome::Given) {
        Outcome::Ready(result) => result,
        _ => panic!("the result of an offloaded closure is given once"),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The closures offloaded to one pool, and its leads. See the [module page](self).
struct Queue {
    crew: Arc<Crew>,
    generation: u32,
    idle: Duration,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    /// By number, in the order in which they came.
    jobs: BTreeMap<u64, Job>,
    next: u64,
    /// Numbers of the leads there are.
    leads: BTreeSet<usize>,
    /// Leads that wait for work.
    waiting: usize,
    /// The pool is gone: leads do not wait for more.
    closed: bool,
}

thread_local! {
    /// The queue that this thread is a lead of.
    static OWN_QUEUE: RefCell<Option<Arc<Queue>>> = const { RefCell::new(None) };
}

fn own_queue() -> Option<Arc<Queue>> {
    OWN_QUEUE.try_with(|own| own.borrow().clone()).ok().flatten()
}

/// The queues of this process's pools, by the address of the crew that each keeps alive. That of a pool that is gone is there
/// as long as it has leads.
fn queues() -> MutexGuard<'static, BTreeMap<usize, Arc<Queue>>> {
    static QUEUES: PerProcess<Mutex<BTreeMap<usize, Arc<Queue>>>> = PerProcess::new();
    QUEUES.get(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pool of this crew is being dropped.
pub(crate) fn close(crew: &Arc<Crew>) {
    let queue = {
        let mut queues = queues();
        // Under the lock: a queue that is made after this knows that the pool is gone.
        crew.closed.raise();
        queues.remove(&Arc::as_ptr(crew).addr())
    };
    if let Some(queue) = queue {
        queue.close();
    }
}

impl Queue {
    fn of(crew: &Arc<Crew>) -> Arc<Queue> {
        // A lead outlives its pool, and its queue takes closures as long as it has a lead.
        own_queue().filter(|own| own.is_of_this_process() && Arc::ptr_eq(&own.crew, crew)).unwrap_or_else(|| {
            let new = || Arc::new(Queue::new(crew.clone(), IDLE));
            // A lane that outlives its pool may offload, too: then leads leave when the queue is empty, and the last one removes it.
            queues().entry(Arc::as_ptr(crew).addr()).or_insert_with(new).clone()
        })
    }

    fn new(crew: Arc<Crew>, idle: Duration) -> Self {
        let generation = machine::fork_generation();
        let state = State { closed: crew.closed.is_up(), ..State::default() };
        Queue { crew, generation, idle, state: Mutex::new(state), work: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If not, locks may be held by threads that do not exist.
    fn is_of_this_process(&self) -> bool {
        self.generation == machine::fork_generation()
    }

    fn assert_of_this_process(&self) {
        assert!(self.is_of_this_process(), "this closure was offloaded before the fork, to a thread of the parent");
    }

    /// Queues a closure and sees to it that somebody will take it; its number.
    fn submit(self: &Arc<Self>, job: Job) -> u64 {
        let mut state = self.lock();
        let ticket = state.next;
        state.next += 1;
        state.jobs.insert(ticket, job);
        let more = state.jobs.len() > state.waiting && state.leads.len() < self.crew.members;
        let lead = more.then(|| (1..).find(|number| !state.leads.contains(number)).expect("few numbers are taken"));
        state.leads.extend(lead);
        drop(state);
        match lead {
            Some(number) => self.start(number, ticket),
            None => self.work.notify_one(),
        }
        ticket
    }

    /// Starts a lead for the closure `ticket`.
    fn start(self: &Arc<Self>, number: usize, ticket: u64) {
        let queue = self.clone();
        let spawned = self.crew.spawn_lead(number, move || queue.lead(number));
        if let Err(error) = spawned {
            let mut state = self.lock();
            state.leads.remove(&number);
            // With other leads it will be run, if later.
            let unrun = if state.leads.is_empty() { state.jobs.remove(&ticket) } else { None };
            drop(state);
            self.remove_if_closed();
            if unrun.is_some() {
                drop(unrun);
                panic!("the system refuses to start a thread for an offloaded closure: {error}");
            }
        }
    }

    /// The last lead of a pool that is gone has left: forgets the queue.
    fn remove_if_closed(self: &Arc<Self>) {
        let is_over = {
            let state = self.lock();
            state.closed && state.leads.is_empty() && state.jobs.is_empty()
        };
        if is_over {
            let at = Arc::as_ptr(&self.crew).addr();
            let mut queues = queues();
            let is_own = queues.get(&at).is_some_and(|queue| Arc::ptr_eq(queue, self));
            let queue = if is_own { queues.remove(&at) } else { None };
            drop(queues);
            drop(queue);
        }
    }

    /// The life of a lead.
    fn lead(self: Arc<Self>, number: usize) {
        OWN_QUEUE.set(Some(self.clone()));
        while let Some(job) = self.next_job(number) {
            // The closure's panic is in its result. Its waker or its unwanted result may panic too: nobody is to hear of it.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
                discard(payload);
            }
        }
        self.remove_if_closed();
    }

    fn next_job(&self, number: usize) -> Option<Job> {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            if let Some((_, job)) = state.jobs.pop_first() {
                return Some(job);
            }
            // A queue that is made while its pool is ended is not closed, but finds the gate stopped.
            if waited || state.closed || self.crew.gate.is_stopped() {
                state.leads.remove(&number);
                return None;
            }
            state.waiting += 1;
            let woken = self.work.wait_timeout(state, self.idle).unwrap_or_else(PoisonError::into_inner);
            (state, waited) = (woken.0, woken.1.timed_out());
            state.waiting -= 1;
        }
    }

    /// Takes a closure that has not begun out of the queue.
    fn remove(&self, ticket: u64) -> Option<Job> {
        self.lock().jobs.remove(&ticket)
    }

    /// Runs a closure that has not begun.
    fn help(&self, ticket: u64) {
        if let Some(job) = self.remove(ticket) {
            job();
        }
    }

    fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
    }
}

/// Drops a payload nobody will see. Its own drop may panic; that must not end a lead.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(queue: &Queue) -> usize {
        queue.lock().leads.len()
    }

    #[test]
    fn leads_leave_when_there_is_nothing_to_do_and_come_back() {
        let pool = Pool::new(2);
        let queue = Arc::new(Queue::new(pool.crew.clone(), Duration::from_millis(1)));
        for _ in 0..3 {
            let (done, seen) = std::sync::mpsc::channel();
            queue.submit(Box::new(move || done.send(thread::current().name().map(str::to_owned)).unwrap()));
            assert_eq!(seen.recv().unwrap().as_deref(), Some("windrow-lead-1"));
            while leads(&queue) > 0 {
                thread::yield_now();
            }
        }
    }

    /// A lane that goes on after its pool has gone, say.
    #[test]
    fn the_queue_of_a_pool_that_is_gone_goes_too() {
        let pool = Pool::new(2);
        let crew = pool.crew.clone();
        assert_eq!(offload_to(&crew, || 1).wait(), 1);
        drop(pool);
        let is_kept = || queues().contains_key(&Arc::as_ptr(&crew).addr());
        for round in 0..3 {
            let (tell, told) = std::sync::mpsc::channel();
            let all: Vec<_> = (0..5)
                .map(|i| {
                    let tell = tell.clone();
                    offload_to(&crew, move || tell.send(i).unwrap())
                })
                .collect();
            assert_eq!(told.iter().take(5).sum::<i32>(), 10, "round {round}");
            drop(all);
            while is_kept() {
                thread::yield_now();
            }
        }
        // Nothing is left of one that was never begun by a lead.
        offload_to(&crew, || ()).wait();
        while is_kept() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_closed_queue_is_emptied_and_left() {
        let queue = Arc::new(Queue::new(Pool::new(1).crew.clone(), IDLE));
        let (done, seen) = std::sync::mpsc::channel();
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        for i in 0..3 {
            let done = done.clone();
            queue.submit(Box::new(move || done.send(i).unwrap()));
        }
        queue.submit(Box::new(move || begun.recv().unwrap()));
        queue.close();
        queue.submit(Box::new(move || done.send(3).unwrap()));
        begin.send(()).unwrap();
        assert_eq!(seen.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        while leads(&queue) > 0 {
            thread::yield_now();
        }
    }
}
