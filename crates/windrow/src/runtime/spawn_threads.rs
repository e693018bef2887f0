//! Spawn threads, and the queue of closures they run.
//!
//! # Protocol
//! Each pool has one *queue* of closures and *spawn threads* that take them in order (`windrow-spawn-1`, ...). To the pool a spawn
//! thread is a caller like any other. A pool has at most as many spawn threads as members.
//!
//! A closure is queued, or taken by the one thread that runs it, or dropped unrun by its [`JoinHandle`](crate::JoinHandle). Taking and
//! dropping are one removal from the queue, under its lock. User code (closures, wakers, results) runs and is dropped outside all
//! locks. The queue has two parts, so that spawning and taking rarely meet: closures are added to the *inbox*, and taken from the *front*.
//! Who finds the front empty exchanges it for the inbox. The lock of the front is taken first.
//!
//! A spawn thread is *busy*, or it *looks* for a closure, *naps* or is *parked*:
//! 1. *Call.* A thread that adds a closure calls a parked thread, or starts one, unless a thread looks. The thread that was called looks.
//!    If one takes a closure and leaves others, it calls the next one. So a burst of closures wakes as many threads as it needs.
//! 2. *Look.* The thread spins for a few wakes. It leaves a single closure to the busy threads, unless none of them has taken
//!    any since the last look: a chain of short closures stays on its thread.
//! 3. *Nap.* If closures were taken while the last thread looked, it naps instead of parking, and looks again. Race prevented: the chain
//!    calls a thread for each closure; or it calls none, and a closure that blocks waits for one after it, which no thread begins. A closure
//!    that is added while no thread is busy ends the nap.
//! 4. *Park.* Threads park under the lock of the inbox, and only if they leave no closure that no other thread looks for. A spawn thread
//!    ends after [`IDLE`] without a call.
//!
//! A queue belongs to the process that made its pool. In a forked child closures go to the queue of the child's global pool, so the child
//! waits for no lock of the parent.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use windrow_sync::gate::Inside;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::quietly;
use windrow_sync::waiters::{Locked, Waiters};
use windrow_sync::{Mutex, Pad, Spin};

use super::pool::install;
use super::state::PoolState;

/// Wait of a spawn thread for work before it ends. Starting a thread takes about 5 us (2-core x86-64 virtual machine, 2026-11), which
/// does not matter for closures that come once in ten seconds. A waiting thread costs a stack and no CPU time.
///
/// Measure: chosen, the pause after which starting a thread again is not noticed.
const IDLE: Duration = Duration::from_secs(10);

/// Wait of the last thread that looks, while others run short closures.
///
/// Measure: chosen, some 100 times the cost of a nap (2 to 3 us), which so takes 1 % of a CPU.
const NAP: Duration = Duration::from_micros(250);

/// Checks of a thread that spins for each look at what others have taken: a look may take a line of memory away from them.
///
/// Measure: count of checks.
const CHECKS: u32 = 16;

pub(crate) type Job = Box<dyn FnOnce() + Send>;
type Jobs = VecDeque<(u64, Job)>;

/// The closures spawned on one pool, and its spawn threads. See the [module page](self).
pub(crate) struct SpawnQueue {
    /// The oldest closures by number, in the order in which they were spawned.
    front: Pad<Mutex<Jobs>>,
    /// The other closures, and the [waiting](windrow_sync::waiters) threads: true for a nap.
    inbox: Pad<Waiters<Inbox, bool>>,
    /// Number of the next closure, written under the lock of the inbox.
    spawned: RelaxedU64,
    /// Number after that of the last closure taken, written under the lock of the front.
    taken: RelaxedU64,
    /// Number of threads that run closures, written under the lock of the inbox.
    busy: RelaxedU64,
    idle: Duration,
}

#[derive(Default)]
struct Inbox {
    jobs: Jobs,
    /// Numbers of the live spawn threads.
    threads: BTreeSet<usize>,
    /// Numbers of threads that look, those that were called included, and that nap.
    looking: usize,
    napping: usize,
    /// The pool is gone: threads do not wait for more work.
    closed: bool,
}

thread_local! {
    /// The address of the pool whose queue this spawn thread serves.
    static SERVES: Cell<usize> = const { Cell::new(0) };
}

/// True if this thread is a spawn thread of `pool`.
pub(crate) fn serves(pool: &Arc<PoolState>) -> bool {
    SERVES.get() == Arc::as_ptr(pool).addr()
}

/// Queues a closure, and lets a thread look for it. Returns its number.
pub(crate) fn submit(pool: &Arc<PoolState>, job: Job) -> u64 {
    let queue = &pool.spawns;
    let mut inbox = queue.inbox.0.lock();
    let ticket = queue.spawned.get();
    queue.spawned.set(ticket + 1);
    inbox.jobs.push_back((ticket, job));
    // If another thread has the closure by now, that thread runs it.
    if let Err(error) = call(pool, inbox)
        && let Some(unrun) = queue.remove(ticket)
    {
        drop(unrun);
        panic!("the system refused to start a thread for a spawned closure: {error}");
    }
    ticket
}

/// Lets one more thread look, if none does. An error if there is no spawn thread.
fn call(pool: &Arc<PoolState>, mut inbox: Locked<'_, Inbox, bool>) -> io::Result<()> {
    if inbox.looking > 0 || (inbox.napping > 0 && pool.spawns.busy.get() > 0) {
        return Ok(());
    }
    if let Some(&naps) = inbox.first() {
        inbox.napping -= usize::from(naps);
        inbox.looking += 1;
        inbox.wake_one();
    } else if inbox.threads.len() < pool.members {
        let number = (1..).find(|number| !inbox.threads.contains(number)).expect("few numbers are taken");
        inbox.threads.insert(number);
        inbox.looking += 1;
        drop(inbox);
        let own = pool.clone();
        let started = pool.start_spawn_thread(number, move || serve(&own, number));
        if started.is_err() {
            let mut inbox = pool.spawns.inbox.0.lock();
            inbox.looking -= 1;
            inbox.threads.remove(&number);
            // Other spawn threads run the closure later, if there are some.
            return if inbox.threads.is_empty() { started } else { Ok(()) };
        }
    }
    Ok(())
}

/// The life of a spawn thread.
fn serve(pool: &Arc<PoolState>, number: usize) {
    let _inside = Inside::new();
    let _here = install(pool.clone());
    SERVES.set(Arc::as_ptr(pool).addr());
    let mut next = pool.spawns.look(pool, number);
    while let Some(job) = next {
        // A panic of the closure is in its result. A panic of its waker, or of the drop of an unwanted result, is discarded.
        quietly(job);
        if !pool.is_of_this_process() {
            // The closure has forked. Other threads may hold the locks of the queue, and its closures belong to the parent.
            return;
        }
        next = pool.spawns.take().or_else(|| {
            let mut inbox = pool.spawns.inbox.0.lock();
            inbox.looking += 1;
            pool.spawns.busy.set(pool.spawns.busy.get() - 1);
            drop(inbox);
            pool.spawns.look(pool, number)
        });
    }
}

/// Ends the spawn threads of a pool that is being dropped, once they have run what is queued.
pub(crate) fn close(pool: &PoolState) {
    if pool.is_of_this_process() {
        let mut inbox = pool.spawns.inbox.0.lock();
        inbox.closed = true;
        (inbox.looking, inbox.napping) = (inbox.threads.len() - pool.spawns.busy.get() as usize, 0);
        inbox.wake_all();
    }
}

impl SpawnQueue {
    pub(crate) fn new() -> Self {
        let (front, inbox) = (Pad::default(), Pad::default());
        let [spawned, taken, busy] = [const { RelaxedU64::new(0) }; 3];
        SpawnQueue { front, inbox, spawned, taken, busy, idle: IDLE }
    }

    /// The oldest closure.
    fn take(&self) -> Option<Job> {
        let mut front = self.front.0.lock();
        if front.is_empty() {
            std::mem::swap(&mut *front, &mut self.inbox.0.lock().jobs);
        }
        self.pop(&mut front)
    }

    fn pop(&self, front: &mut Jobs) -> Option<Job> {
        let (ticket, job) = front.pop_front()?;
        self.taken.set(ticket + 1);
        Some(job)
    }

    /// The next closure for thread `number`, which looks. `None` if the thread ends.
    fn look(&self, pool: &Arc<PoolState>, number: usize) -> Option<Job> {
        let (mut taken, mut spin) = (u64::MAX, pool.spawn_spin());
        loop {
            let (before, mut last, mut checks) = (taken, taken, 0);
            spin.until(|| {
                checks += 1;
                let is_busy = self.busy.get() > 0;
                if is_busy && checks % CHECKS != 1 {
                    return false;
                }
                last = std::mem::replace(&mut taken, self.taken.get());
                self.spawned.get() > taken + u64::from(is_busy && last != taken)
            });
            let (mut front, mut inbox) = (self.front.0.lock(), self.inbox.0.lock());
            let (now, left) = (self.taken.get(), front.len() + inbox.jobs.len());
            let is_busy = self.busy.get() > 0;
            if left > usize::from(is_busy && last != now) {
                if front.is_empty() {
                    std::mem::swap(&mut *front, &mut inbox.jobs);
                }
                let job = self.pop(&mut front);
                drop(front);
                inbox.looking -= 1;
                self.busy.add(1);
                if left > 1 {
                    // Not without a thread: this one is left.
                    let _ = call(pool, inbox);
                }
                return job;
            }
            if left == 0 {
                // Without those that were dropped unrun.
                self.taken.set(self.spawned.get());
            }
            let naps = is_busy && before != now && inbox.looking == 1 && inbox.napping == 0;
            inbox.looking -= 1;
            if inbox.closed && !naps {
                inbox.threads.remove(&number);
                return None;
            }
            inbox.napping += usize::from(naps);
            drop(front);
            let (mut inbox, is_called) = inbox.wait(naps, Some(if naps { NAP } else { self.idle }));
            spin = if is_called { pool.spawn_spin() } else { Spin::NONE };
            if !is_called {
                if !naps {
                    inbox.threads.remove(&number);
                    return None;
                }
                inbox.napping -= 1;
                inbox.looking += 1;
            }
        }
    }

    /// Takes a closure that has not begun out of the queue.
    pub(crate) fn remove(&self, ticket: u64) -> Option<Job> {
        let find = |jobs: &mut Jobs| {
            let at = jobs.binary_search_by_key(&ticket, |(number, _)| *number).ok()?;
            jobs.remove(at)
        };
        let mut front = self.front.0.lock();
        find(&mut front).or_else(|| find(&mut self.inbox.0.lock().jobs)).map(|(_, job)| job)
    }
}

impl fmt::Debug for SpawnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnQueue").field("spawned", &self.spawned.get()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use crate::Pool;
    use crate::runtime::ablation::Mechanisms;

    fn threads(pool: &Arc<PoolState>) -> usize {
        pool.spawns.inbox.0.lock().threads.len()
    }

    #[test]
    fn threads_end_without_work_and_are_started_again() {
        let mut state = PoolState::new(2, None, Mechanisms::default());
        state.spawns.idle = Duration::from_millis(1);
        let pool = Arc::new(state);
        for _ in 0..3 {
            let (done, seen) = std::sync::mpsc::channel();
            submit(&pool, Box::new(move || done.send(thread::current().name().map(str::to_owned)).unwrap()));
            assert_eq!(seen.recv().unwrap().as_deref(), Some("windrow-spawn-1"));
            while threads(&pool) > 0 {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn a_closed_queue_is_emptied_and_left() {
        let pool = Arc::new(PoolState::new(1, None, Mechanisms::default()));
        let (done, seen) = std::sync::mpsc::channel();
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        for i in 0..3 {
            let done = done.clone();
            submit(&pool, Box::new(move || done.send(i).unwrap()));
        }
        submit(&pool, Box::new(move || begun.recv().unwrap()));
        close(&pool);
        submit(&pool, Box::new(move || done.send(3).unwrap()));
        begin.send(()).unwrap();
        assert_eq!(seen.iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
        while threads(&pool) > 0 {
            thread::yield_now();
        }
    }

    /// Closures that are short leave other threads parked, and one that blocks does not block the next one.
    #[test]
    fn a_closure_after_a_chain_finds_a_free_thread() {
        fn next(pool: Arc<PoolState>, left: u32, end: std::sync::mpsc::Sender<bool>) {
            let own = pool.clone();
            if left > 0 {
                submit(&pool, Box::new(move || next(own, left - 1, end)));
                return;
            }
            let (send, receive) = std::sync::mpsc::channel();
            submit(&pool, Box::new(move || send.send(()).unwrap()));
            end.send(receive.recv_timeout(Duration::from_secs(60)).is_ok()).unwrap();
        }
        let pool = Pool::new(2);
        for links in [0, 1, 10, 1000, if cfg!(miri) { 10 } else { 100_000 }] {
            let (end, ended) = std::sync::mpsc::channel();
            next(pool.state.clone(), links, end);
            assert_eq!(ended.recv(), Ok(true), "after {links} links");
        }
    }
}
