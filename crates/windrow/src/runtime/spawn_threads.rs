//! Spawn threads, and the queue of closures they run.
//!
//! # Protocol
//! Each pool has one *queue* of closures and *spawn threads* that take them in order (`windrow-spawn-1`, ...). To the pool a spawn
//! thread is a caller like any other. A thread is started when a new closure makes the queue longer than the number of waiting threads.
//! A pool has at most as many spawn threads as members. A spawn thread ends after [`IDLE`] without work.
//! Queues belong to a process: a forked child starts without queues, so it inherits no lock.
//!
//! A closure is queued, or taken by the one thread that runs it, or dropped unrun by its [`JoinHandle`](crate::JoinHandle). Taking and
//! dropping are one removal from the queue, under its lock. User code (closures, wakers, results) runs and is dropped outside all
//! locks.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use windrow_sync::Mutex;
use windrow_sync::fork::{PerProcess, Process};
use windrow_sync::gate::Inside;
use windrow_sync::waiters::Waiters;

use super::state::PoolState;
use windrow_sync::unwind::quietly;

/// Wait of a spawn thread for work before it ends. Starting a thread takes about 5 us (2-core x86-64 virtual machine, 2026-11), which
/// does not matter for closures that come once in ten seconds. A waiting thread costs a stack and no CPU time.
///
/// Measure: chosen, the pause after which starting a thread again is not noticed.
const IDLE: Duration = Duration::from_secs(10);

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The closures spawned on one pool, and its spawn threads. See the [module page](self).
pub(crate) struct SpawnQueue {
    pub(crate) pool: Arc<PoolState>,
    process: Process,
    idle: Duration,
    /// Closures, and the [waiting](windrow_sync::waiters) threads.
    state: Waiters<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// Closures by number, in the order in which they were spawned.
    jobs: BTreeMap<u64, Job>,
    next: u64,
    /// Numbers of the live spawn threads.
    threads: BTreeSet<usize>,
    /// Threads that wait for work, and those that were called and have not taken it yet.
    waiting: usize,
    /// The pool is gone: threads do not wait for more work.
    closed: bool,
}

thread_local! {
    /// The queue that this spawn thread serves.
    static OWN_QUEUE: RefCell<Option<Arc<SpawnQueue>>> = const { RefCell::new(None) };
}

pub(crate) fn own_queue() -> Option<Arc<SpawnQueue>> {
    OWN_QUEUE.try_with(|own| own.borrow().clone()).ok().flatten()
}

/// The queues of this process's pools, by the address of the pool that each keeps alive. The queue of a dropped pool stays
/// as long as it has threads.
pub(crate) fn queues() -> MutexGuard<'static, BTreeMap<usize, Arc<SpawnQueue>>> {
    static QUEUES: PerProcess<Mutex<BTreeMap<usize, Arc<SpawnQueue>>>> = PerProcess::new();
    QUEUES.get(Mutex::default).lock()
}

/// Closes the queue of a pool that is being dropped.
pub(crate) fn close(pool: &Arc<PoolState>) {
    let queue = {
        let mut queues = queues();
        // Under the lock: a queue that is made after this knows that the pool is gone.
        pool.closed.raise();
        queues.remove(&Arc::as_ptr(pool).addr())
    };
    if let Some(queue) = queue {
        queue.close();
    }
}

impl SpawnQueue {
    pub(crate) fn of(pool: &Arc<PoolState>) -> Arc<SpawnQueue> {
        // A spawn thread outlives its pool, and its queue takes closures as long as it has a thread.
        own_queue().filter(|own| own.is_of_this_process() && Arc::ptr_eq(&own.pool, pool)).unwrap_or_else(|| {
            let new = || Arc::new(SpawnQueue::new(pool.clone(), IDLE));
            // A lane of an overlapped run may outlive its pool, and spawn. Then threads end when the queue is empty, and the last thread
            // removes the queue.
            queues().entry(Arc::as_ptr(pool).addr()).or_insert_with(new).clone()
        })
    }

    pub(crate) fn new(pool: Arc<PoolState>, idle: Duration) -> Self {
        let state = QueueState { closed: pool.closed.is_up(), ..QueueState::default() };
        SpawnQueue { pool, process: Process::this(), idle, state: Waiters::new(state) }
    }

    /// True if this process made the queue. In a forked child, threads that do not exist may hold its locks.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.process.is_this()
    }

    pub(crate) fn assert_of_this_process(&self) {
        assert!(self.is_of_this_process(), "this closure was spawned before the fork, on a thread of the parent");
    }

    /// Queues a closure, and starts or wakes a thread for it. Returns its number.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> u64 {
        let mut state = self.state.lock();
        let ticket = state.next;
        state.next += 1;
        state.jobs.insert(ticket, job);
        let more = state.jobs.len() > state.waiting && state.threads.len() < self.pool.members;
        let new = more.then(|| (1..).find(|number| !state.threads.contains(number)).expect("few numbers are taken"));
        state.threads.extend(new);
        match new {
            Some(number) => {
                drop(state);
                self.start(number, ticket);
            }
            None => state.wake_one(),
        }
        ticket
    }

    /// Starts a thread for the closure `ticket`.
    fn start(self: &Arc<Self>, number: usize, ticket: u64) {
        let queue = self.clone();
        let spawned = self.pool.start_spawn_thread(number, move || queue.serve(number));
        if let Err(error) = spawned {
            let mut state = self.state.lock();
            state.threads.remove(&number);
            // Other spawn threads run the closure later, if the queue has one.
            let unrun = if state.threads.is_empty() { state.jobs.remove(&ticket) } else { None };
            drop(state);
            self.remove_if_closed();
            if unrun.is_some() {
                drop(unrun);
                panic!("the system refuses to start a thread for a spawned closure: {error}");
            }
        }
    }

    /// Forgets the queue, if the pool and its last spawn thread are gone.
    fn remove_if_closed(self: &Arc<Self>) {
        let is_over = |state: &QueueState| state.closed && state.threads.is_empty() && state.jobs.is_empty();
        if is_over(&self.state.lock()) {
            let at = Arc::as_ptr(&self.pool).addr();
            let mut queues = queues();
            let is_own = queues.get(&at).is_some_and(|queue| Arc::ptr_eq(queue, self));
            let queue = if is_own { queues.remove(&at) } else { None };
            drop(queues);
            drop(queue);
        }
    }

    /// The life of a spawn thread.
    fn serve(self: Arc<Self>, number: usize) {
        let _inside = Inside::new();
        OWN_QUEUE.set(Some(self.clone()));
        while let Some(job) = self.next_job(number) {
            // A panic of the closure is in its result. A panic of its waker, or of the drop of an unwanted result, is discarded.
            quietly(job);
            if !self.is_of_this_process() {
                // The closure has forked. Other threads may hold the lock of the queue, and its closures belong to the parent.
                return;
            }
        }
        self.remove_if_closed();
    }

    fn next_job(&self, number: usize) -> Option<Job> {
        let (mut state, mut is_called) = (self.state.lock(), true);
        loop {
            if let Some((_, job)) = state.jobs.pop_first() {
                return Some(job);
            }
            // A queue that is made while its pool ends is not closed. Its threads find the gate stopped.
            if !is_called || state.closed || self.pool.gate.is_stopped() {
                state.threads.remove(&number);
                return None;
            }
            state.waiting += 1;
            (state, is_called) = state.wait((), Some(self.idle));
            state.waiting -= 1;
        }
    }

    /// Takes a closure that has not begun out of the queue.
    pub(crate) fn remove(&self, ticket: u64) -> Option<Job> {
        self.state.lock().jobs.remove(&ticket)
    }

    /// Runs a closure on this thread if it has not begun.
    pub(crate) fn help(&self, ticket: u64) {
        if let Some(job) = self.remove(ticket) {
            job();
        }
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use crate::Pool;

    fn threads(queue: &SpawnQueue) -> usize {
        queue.state.lock().threads.len()
    }

    #[test]
    fn threads_end_without_work_and_are_started_again() {
        let pool = Pool::new(2);
        let queue = Arc::new(SpawnQueue::new(pool.state.clone(), Duration::from_millis(1)));
        for _ in 0..3 {
            let (done, seen) = std::sync::mpsc::channel();
            queue.submit(Box::new(move || done.send(thread::current().name().map(str::to_owned)).unwrap()));
            assert_eq!(seen.recv().unwrap().as_deref(), Some("windrow-spawn-1"));
            while threads(&queue) > 0 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_closed_queue_is_emptied_and_left() {
        let queue = Arc::new(SpawnQueue::new(Pool::new(1).state.clone(), IDLE));
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
        while threads(&queue) > 0 {
            thread::yield_now();
        }
    }
}
