//! Models of waiters, one for each use of them: no call is lost, and what was done before a call is seen after it. A waiting time of zero stands
//! for one that ends in the same moment as a call.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread::{self, JoinHandle};
use windrow_sync::waiters::{Locked, Outcome, Waiter, Waiters};

use crate::submit::block_on;
use crate::{Watched, model};

/// Queue of spawned closures, with the steps of windrow's.
#[derive(Default)]
struct Jobs {
    queued: usize,
    threads: usize,
    waiting: usize,
    closed: bool,
}

struct SpawnQueue {
    jobs: Waiters<Jobs>,
    members: usize,
    idle: Option<Duration>,
    ran: AtomicUsize,
}

impl SpawnQueue {
    /// Queues a job; starts or wakes a thread.
    fn submit(queue: &Arc<Self>) -> Option<JoinHandle<()>> {
        let mut jobs = queue.jobs.lock();
        jobs.queued += 1;
        if jobs.queued > jobs.waiting && jobs.threads < queue.members {
            jobs.threads += 1;
            drop(jobs);
            let queue = queue.clone();
            return Some(thread::spawn(move || queue.serve()));
        }
        jobs.wake_one();
        None
    }

    fn serve(&self) {
        while self.next_job() {
            self.ran.fetch_add(1, Relaxed);
        }
    }

    fn next_job(&self) -> bool {
        let (mut jobs, mut is_called) = (self.jobs.lock(), true);
        loop {
            if jobs.queued > 0 {
                jobs.queued -= 1;
                return true;
            }
            if !is_called || jobs.closed {
                jobs.threads -= 1;
                return false;
            }
            jobs.waiting += 1;
            (jobs, is_called) = jobs.wait((), self.idle);
            jobs.waiting -= 1;
        }
    }

    fn close(&self) {
        let mut jobs = self.jobs.lock();
        jobs.closed = true;
        jobs.wake_all();
    }
}

#[test]
fn each_spawned_job_runs() {
    for (members, idle) in [(1, None), (2, None), (1, Some(Duration::ZERO))] {
        model(3, move || {
            let (jobs, ran) = (Waiters::default(), AtomicUsize::new(0));
            let queue = Arc::new(SpawnQueue { jobs, members, idle, ran });
            let started = [SpawnQueue::submit(&queue), SpawnQueue::submit(&queue)];
            if idle.is_none() {
                queue.close();
            }
            started.into_iter().flatten().for_each(|thread| thread.join().unwrap());
            let jobs = queue.jobs.lock();
            assert_eq!((queue.ran.load(Relaxed), jobs.queued, jobs.threads, jobs.waiting), (2, 0, 0, 0));
        });
    }
}

/// Crew of an overlapped run: its tiles, and the count of rings.
#[derive(Default)]
struct Crew {
    tiles: Waiters<(usize, bool)>,
    turn: Waiters<usize>,
}

impl Crew {
    fn change(&self, change: impl FnOnce(&mut (usize, bool)), wake: impl FnOnce(Locked<'_, usize>)) {
        change(&mut self.tiles.lock());
        let mut turn = self.turn.lock();
        *turn += 1;
        wake(turn);
    }

    /// Takes tiles until the run is over, or until a wait is too long. Returns how many.
    fn work(&self, at_most: Option<Duration>) -> usize {
        let mut taken = 0;
        loop {
            let turn = *self.turn.lock();
            let mut tiles = self.tiles.lock();
            match *tiles {
                (0, true) => return taken,
                (0, false) => {
                    drop(tiles);
                    let locked = self.turn.lock();
                    if *locked == turn && !locked.wait((), at_most).1 && at_most.is_some() {
                        return taken;
                    }
                }
                _ => (tiles.0, taken) = (tiles.0 - 1, taken + 1),
            }
        }
    }
}

#[test]
fn a_crew_misses_no_ring() {
    for (workers, at_most) in [(1, None), (2, None), (1, Some(Duration::ZERO))] {
        model(2, move || {
            let crew = Arc::new(Crew::default());
            let work = |crew: Arc<Crew>| move || crew.work(at_most);
            let workers: Vec<_> = (0..workers).map(|_| thread::spawn(work(crew.clone()))).collect();
            crew.change(|tiles| tiles.0 += 1, |turn| turn.wake_one());
            crew.change(|tiles| tiles.1 = true, |turn| turn.wake_all());
            let taken: usize = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
            assert_eq!(taken + crew.work(None), 1);
        });
    }
}

/// Index that one thread leases from another: asked for, lent, over.
#[test]
fn both_sides_of_a_lease_see_each_change() {
    model(3, || {
        let lease = Arc::new((Waiters::new(0), Watched::new(0)));
        let set = |lease: &(Waiters<usize>, Watched), to| {
            let mut stage = lease.0.lock();
            *stage = to;
            stage.wake_all();
        };
        let wait_while = |lease: &(Waiters<usize>, Watched), is| {
            let mut stage = lease.0.lock();
            while *stage == is {
                (stage, _) = stage.wait((), None);
            }
        };
        let lender = {
            let lease = lease.clone();
            thread::spawn(move || {
                lease.1.set(1);
                set(&lease, 1);
                wait_while(&lease, 1);
                assert_eq!(lease.1.get(), 2);
            })
        };
        wait_while(&lease, 0);
        lease.1.set(lease.1.get() + 1);
        set(&lease, 2);
        lender.join().unwrap();
    });
}

type Shared = (Outcome<usize>, Watched);

/// A thread that gives 7, after a write.
fn giver(outcome: &Arc<Shared>) -> JoinHandle<()> {
    let outcome = outcome.clone();
    thread::spawn(move || {
        outcome.1.set(1);
        outcome.0.give(7);
    })
}

#[test]
fn an_outcome_reaches_its_owner() {
    for is_task in [false, true] {
        model(None, move || {
            let outcome = Arc::new((Outcome::default(), Watched::new(0)));
            let giver = giver(&outcome);
            let asked = |context: &mut Context<'_>| {
                outcome.0.ask(Waiter::Task(context.waker().clone())).map_or(Poll::Pending, Poll::Ready)
            };
            let value = if is_task { block_on(poll_fn(asked)) } else { outcome.0.wait() };
            assert_eq!((value, outcome.1.get()), (7, 1));
            giver.join().unwrap();
        });
    }
}

/// A handle that was polled is then waited for: the latest waiter is woken.
#[test]
fn the_latest_waiter_gets_an_outcome() {
    model(None, || {
        let outcome = Arc::new((Outcome::default(), Watched::new(0)));
        let giver = giver(&outcome);
        let first = outcome.0.ask(Waiter::Task(Waker::noop().clone()));
        assert_eq!(first.unwrap_or_else(|| outcome.0.wait()), 7);
        assert_eq!(outcome.1.get(), 1);
        giver.join().unwrap();
    });
}

/// A dropped handle drops the value, or leaves that to the giver.
#[test]
fn an_unwanted_outcome_is_dropped_once() {
    model(None, || {
        let (outcome, value) = (Arc::new(Outcome::default()), Arc::new(()));
        let giver = {
            let (outcome, value) = (outcome.clone(), value.clone());
            thread::spawn(move || outcome.give(value))
        };
        outcome.close();
        giver.join().unwrap();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}
