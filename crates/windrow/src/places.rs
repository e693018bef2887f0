//! Where workers run.
//!
//! A woken thread belongs on another CPU than the one that woke it. Most schedulers see to that. Some do not (virtual machines
//! whose kernel packs threads on few CPUs, or has no scheduling domains): there a worker waits for the caller to give up its
//! CPU, for milliseconds, beside an idle one. Once a worker has found itself on its caller's CPU, workers confine themselves to
//! one CPU *while they sleep*, and a caller that is about to wake one on its own CPU moves it first. Awake, a worker may run
//! where its process may: closures, and the threads they start, never see the confinement. It costs four system calls of less than
//! 1 us each time a worker sleeps, off the caller's way.

use std::sync::{Mutex, OnceLock, PoisonError};

use windrow_sync::hint::Hint;
use windrow_sync::machine::{self, Thread};

/// Some worker has found itself on its caller's CPU: so the machine is one of those, for all pools.
static PACKED: Hint = Hint::new(0);

/// See the [module page](self).
#[derive(Debug)]
pub(crate) struct Places {
    /// One a worker: the CPU it is confined to, plus one.
    confined: Box<[Hint]>,
    workers: Box<[OnceLock<Worker>]>,
    /// The CPU of the last caller that opened a region, plus one.
    caller: Hint,
    /// The CPU, plus one, that the last caller which woke somebody was confined to; 0 if it could run elsewhere.
    only: Hint,
    /// Where the workers live: a forked child must leave its parent's alone.
    generation: u32,
}

#[derive(Debug)]
struct Worker {
    thread: Thread,
    /// Where it may run but for what is done here.
    home: Mutex<Vec<u32>>,
    /// A start handler has chosen its CPUs: they say nothing about how many the process may use.
    chosen: OnceLock<()>,
}

/// The CPU this thread is on, plus one; 0 is unknown.
fn here() -> u64 {
    machine::cpu().map_or(0, |cpu| u64::from(cpu) + 1)
}

impl Places {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            confined: (0..workers).map(|_| Hint::default()).collect(),
            workers: (0..workers).map(|_| OnceLock::new()).collect(),
            caller: Hint::default(),
            only: Hint::default(),
            generation: machine::fork_generation(),
        }
    }

    /// This thread is worker `member`.
    pub(crate) fn settle(&self, member: usize) {
        let thread = Thread::this();
        let home = Mutex::new(thread.allowed());
        self.workers[member - 1].get_or_init(|| Worker { thread, home, chosen: OnceLock::new() });
    }

    /// Worker `member` has run the pool's start handler.
    pub(crate) fn handled(&self, member: usize) {
        let Some(worker) = self.workers[member - 1].get() else { return };
        let mut home = worker.home.lock().unwrap_or_else(PoisonError::into_inner);
        let now = worker.thread.allowed();
        if *home != now {
            *home = now;
            worker.chosen.get_or_init(|| ());
        }
    }

    /// Whether the thread of worker `member` has begun.
    pub(crate) fn has_settled(&self, member: usize) -> bool {
        self.workers[member - 1].get().is_some()
    }

    /// This thread is about to open a region, and to wake workers for it or not.
    #[inline]
    pub(crate) fn call(&self, wakes: bool) {
        let here = here();
        if self.caller.get() != here {
            self.caller.set(here);
        }
        if wakes && here != 0 && PACKED.get() != 0 && self.generation == machine::fork_generation() {
            // A caller that may run nowhere else has nothing to gain, and moving a worker could undo what confined them both.
            let confined = Thread::this().allowed().len() == 1;
            self.only.set(if confined { here } else { 0 });
            if confined {
                return;
            }
            self.clear(here);
        }
    }

    /// Moves workers that sleep on `cpu` elsewhere.
    #[cold]
    fn clear(&self, cpu: u64) {
        for (worker, confined) in self.workers.iter().zip(&self.confined) {
            if confined.get() != cpu {
                continue;
            }
            // Held by nobody for long; but by a thread that a fork left behind, for ever.
            let Some(Ok(home)) = worker.get().map(|worker| worker.home.try_lock()) else { continue };
            // It may have woken before the lock was taken: awake, nobody is confined.
            if confined.get() != cpu {
                continue;
            }
            if let (Some(worker), Some(new)) = (worker.get(), elsewhere(&home, cpu)) {
                confined.set(u64::from(new) + 1);
                worker.thread.confine(&[new]);
            }
        }
    }

    /// Worker `member`, awake, looks where it is: not on the caller's CPU, it hopes. (If so, it leaves.)
    #[inline]
    pub(crate) fn check(&self, member: usize) {
        let here = here();
        if here != 0 && here == self.caller.get() {
            self.leave(here);
        }
        if self.confined[member - 1].get() != 0 {
            // A caller took it for one that sleeps.
            self.rise(member);
        }
    }

    /// This thread, a worker, goes elsewhere than `here`, if it may.
    #[cold]
    fn leave(&self, here: u64) {
        let me = Thread::this();
        let home = me.allowed();
        let others: Vec<u32> = home.iter().copied().filter(|&cpu| u64::from(cpu) + 1 != here).collect();
        if !others.is_empty() {
            PACKED.set(1);
            me.confine(&others);
            // It may have waited for a CPU meanwhile. A mask that came from outside in that time stays, unless it is the same.
            if me.allowed() == others {
                me.confine(&home);
            }
        }
    }

    /// This thread, a worker, goes to another CPU than the one it is on, if it may.
    pub(crate) fn give_way(&self) {
        let here = here();
        if here != 0 {
            self.leave(here);
        }
    }

    /// Worker `member` is about to sleep.
    pub(crate) fn rest(&self, member: usize) {
        if PACKED.get() == 0 {
            return;
        }
        let (Some(worker), here) = (self.workers[member - 1].get(), here()) else { return };
        if here == 0 {
            return;
        }
        let mut home = worker.home.lock().unwrap_or_else(PoisonError::into_inner);
        *home = worker.thread.allowed();
        let place = if here == self.caller.get() { elsewhere(&home, here) } else { u32::try_from(here - 1).ok() };
        if let Some(place) = place.filter(|_| home.len() > 1) {
            self.confined[member - 1].set(u64::from(place) + 1);
            worker.thread.confine(&[place]);
        }
    }

    /// Worker `member` is awake, and may run where it may when nobody confines it.
    pub(crate) fn rise(&self, member: usize) {
        let confined = &self.confined[member - 1];
        if let (Some(worker), true) = (self.workers[member - 1].get(), confined.get() != 0) {
            let home = worker.home.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_ours(worker, confined.get()) {
                worker.thread.confine(&home);
            }
            confined.set(0);
        }
    }

    /// The worker is where it was put, and not where somebody else has put it meanwhile. That may be the same CPU: then the last
    /// caller was confined to it too.
    fn is_ours(&self, worker: &Worker, confined: u64) -> bool {
        let allowed = worker.thread.allowed();
        allowed.iter().map(|&cpu| u64::from(cpu) + 1).eq([confined]) && self.only.get() != confined
    }

    /// CPUs that worker `member` may use, if that is what its process may.
    pub(crate) fn cpus(&self, member: usize) -> Option<usize> {
        let worker = self.workers[member - 1].get()?;
        if worker.chosen.get().is_some() {
            return None;
        }
        let confined = self.confined[member - 1].get();
        let cpus = if confined != 0 && self.is_ours(worker, confined) {
            worker.home.try_lock().ok()?.len()
        } else {
            worker.thread.allowed().len()
        };
        (cpus > 0).then_some(cpus)
    }
}

/// Another one of these CPUs than `cpu` (plus one).
fn elsewhere(home: &[u32], cpu: u64) -> Option<u32> {
    home.iter().copied().find(|&other| u64::from(other) + 1 != cpu)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Workers that a start handler pins to a CPU each do not make the machine one of one CPU.
    #[test]
    fn cpus_that_a_start_handler_chose_are_not_counted() {
        std::thread::spawn(|| {
            let places = Places::new(1);
            places.settle(1);
            places.handled(1);
            let home = Thread::this().allowed();
            assert_eq!(places.cpus(1), Some(home.len()), "it has chosen nothing");
            if home.len() < 2 {
                return println!("skipped: one CPU");
            }
            Thread::this().confine(&home[1..2]);
            places.handled(1);
            assert_eq!(places.cpus(1), None);
            places.rest(1);
            places.rise(1);
            assert_eq!(Thread::this().allowed(), home[1..2]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_worker_keeps_off_the_callers_cpu_while_it_sleeps() {
        std::thread::spawn(|| {
            let places = Places::new(1);
            places.settle(1);
            let me = Thread::this();
            let home = me.allowed();
            if home.len() < 2 {
                return println!("skipped: one CPU");
            }
            let before = here();
            places.call(false);
            places.check(1);
            assert_ne!(here(), before);
            assert_eq!(me.allowed(), home, "awake, it may run anywhere");
            places.rest(1);
            assert_eq!((me.allowed().len(), places.cpus(1)), (1, Some(home.len())));
            // A caller that is on that CPU now.
            let at = here();
            places.clear(at);
            assert_ne!(here(), at);
            places.rise(1);
            assert_eq!(me.allowed(), home);
            // Somebody else narrows it while it sleeps.
            places.rest(1);
            me.confine(&home[..2]);
            places.rise(1);
            assert_eq!((me.allowed(), places.cpus(1)), (home[..2].to_vec(), Some(2)));
            me.confine(&home[..1]);
            places.rest(1);
            places.clear(u64::from(home[0]) + 1);
            assert_eq!((me.allowed(), places.cpus(1)), (home[..1].to_vec(), Some(1)));
        })
        .join()
        .unwrap();
    }
}
