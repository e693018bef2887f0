//! Placement: on which CPUs workers run.
//!
//! A parked worker keeps off its caller's CPU, but only on machines where a worker once woke up on that CPU. A woken thread belongs on
//! another CPU than the thread that woke it, and most schedulers place it there. Some do not: virtual machines whose kernel packs threads on
//! few CPUs, or has no scheduling domains. There a woken worker waits for its caller's CPU, for milliseconds, while another CPU is idle.
//!
//! 1. Once a worker has found itself on its caller's CPU, every worker pins itself to one CPU *while it is parked*.
//! 2. A caller that is about to wake a worker that is pinned to the caller's CPU pins that worker to another CPU first.
//! 3. An awake worker may run on all CPUs of its affinity mask. So closures, and the threads that they start, never see the pinning.
//!
//! That costs four system calls of less than 1 us each time a worker parks. The caller does not wait for them.

use std::sync::{Mutex, OnceLock};

use windrow_sync::fork::lock;
use windrow_sync::machine::{self, Thread};
use windrow_sync::relaxed::RelaxedU64;

/// 1 once a worker has found itself on its caller's CPU: this machine packs threads. For all pools.
static PACKED: RelaxedU64 = RelaxedU64::new(0);

/// See the [module page](self).
#[derive(Debug)]
pub(crate) struct Placement {
    /// One a worker: the CPU it is pinned to, plus one.
    pinned: Box<[RelaxedU64]>,
    workers: Box<[OnceLock<Worker>]>,
    /// The CPU of the last caller that opened a region, plus one.
    caller: RelaxedU64,
    /// The CPU, plus one, that the last caller which woke a worker was pinned to; 0 if it could run elsewhere.
    pinned_caller: RelaxedU64,
    /// The fork generation of the workers: a forked child must not move its parent's workers.
    generation: u32,
}

#[derive(Debug)]
struct Worker {
    thread: Thread,
    /// The CPUs that the worker may use when it is not pinned.
    allowed: Mutex<Vec<u32>>,
    /// Set if a start handler has chosen the worker's CPUs. Their number is not the number of CPUs that the process may use.
    chosen: OnceLock<()>,
}

/// The CPU this thread is on, plus one; 0 is unknown.
fn here() -> u64 {
    machine::cpu().map_or(0, |cpu| u64::from(cpu) + 1)
}

impl Placement {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            pinned: (0..workers).map(|_| RelaxedU64::default()).collect(),
            workers: (0..workers).map(|_| OnceLock::new()).collect(),
            caller: RelaxedU64::default(),
            pinned_caller: RelaxedU64::default(),
            generation: machine::fork_generation(),
        }
    }

    /// Registers this thread as worker `member`.
    pub(crate) fn register(&self, member: usize) {
        let thread = Thread::this();
        let allowed = Mutex::new(thread.allowed());
        self.workers[member - 1].get_or_init(|| Worker { thread, allowed, chosen: OnceLock::new() });
    }

    /// Called after worker `member` has run the pool's start handler.
    pub(crate) fn started(&self, member: usize) {
        let Some(worker) = self.workers[member - 1].get() else { return };
        let mut allowed = lock(&worker.allowed);
        let now = worker.thread.allowed();
        if *allowed != now {
            *allowed = now;
            worker.chosen.get_or_init(|| ());
        }
    }

    /// Whether the thread of worker `member` has begun.
    pub(crate) fn is_registered(&self, member: usize) -> bool {
        self.workers[member - 1].get().is_some()
    }

    /// Called before this thread opens a region; `wakes` if it wakes workers.
    #[inline]
    pub(crate) fn before_open(&self, wakes: bool) {
        let here = here();
        if self.caller.get() != here {
            self.caller.set(here);
        }
        if wakes && here != 0 && PACKED.get() != 0 && self.generation == machine::fork_generation() {
            // A caller with a single CPU moves no worker: the program may have pinned both of them to it.
            let pinned = Thread::this().allowed().len() == 1;
            self.pinned_caller.set(if pinned { here } else { 0 });
            if pinned {
                return;
            }
            self.evict(here);
        }
    }

    /// Moves workers that are parked on `cpu` to other CPUs.
    #[cold]
    fn evict(&self, cpu: u64) {
        for (worker, pinned) in self.workers.iter().zip(&self.pinned) {
            if pinned.get() != cpu {
                continue;
            }
            // The lock is held for a moment only. In a forked child a thread of the parent may hold it for ever.
            let Some(Ok(allowed)) = worker.get().map(|worker| worker.allowed.try_lock()) else { continue };
            // The worker may have woken before the lock was taken. An awake worker is not pinned.
            if pinned.get() != cpu {
                continue;
            }
            if let (Some(worker), Some(new)) = (worker.get(), elsewhere(&allowed, cpu)) {
                pinned.set(u64::from(new) + 1);
                worker.thread.confine(&[new]);
            }
        }
    }

    /// Moves worker `member`, which is awake and calls this, to another CPU if it runs on its caller's CPU.
    #[inline]
    pub(crate) fn avoid_caller(&self, member: usize) {
        let here = here();
        if here != 0 && here == self.caller.get() {
            self.move_off(here);
        }
        if self.pinned[member - 1].get() != 0 {
            // A caller took this worker for a parked one.
            self.unpin(member);
        }
    }

    /// Moves this thread, a worker, to another CPU than `here`, if its mask has one.
    #[cold]
    fn move_off(&self, here: u64) {
        let me = Thread::this();
        let allowed = me.allowed();
        let others: Vec<u32> = allowed.iter().copied().filter(|&cpu| u64::from(cpu) + 1 != here).collect();
        if !others.is_empty() {
            PACKED.set(1);
            me.confine(&others);
            // This thread may have waited for a CPU meanwhile. A mask that was set from outside in that time stays, unless it equals `others`.
            if me.allowed() == others {
                me.confine(&allowed);
            }
        }
    }

    /// Moves this thread, a worker, to another CPU, if its mask has one.
    pub(crate) fn yield_cpu(&self) {
        let here = here();
        if here != 0 {
            self.move_off(here);
        }
    }

    /// Pins worker `member`, which is about to park, to one CPU.
    pub(crate) fn pin_while_parked(&self, member: usize) {
        if PACKED.get() == 0 {
            return;
        }
        let (Some(worker), here) = (self.workers[member - 1].get(), here()) else { return };
        if here == 0 {
            return;
        }
        let mut allowed = lock(&worker.allowed);
        *allowed = worker.thread.allowed();
        let place = if here == self.caller.get() { elsewhere(&allowed, here) } else { u32::try_from(here - 1).ok() };
        if let Some(place) = place.filter(|_| allowed.len() > 1) {
            self.pinned[member - 1].set(u64::from(place) + 1);
            worker.thread.confine(&[place]);
        }
    }

    /// Lets worker `member`, which is awake, run on all CPUs of its mask again.
    pub(crate) fn unpin(&self, member: usize) {
        let pinned = &self.pinned[member - 1];
        if let (Some(worker), true) = (self.workers[member - 1].get(), pinned.get() != 0) {
            let allowed = lock(&worker.allowed);
            if self.is_pinned_here(worker, pinned.get()) {
                worker.thread.confine(&allowed);
            }
            pinned.set(0);
        }
    }

    /// Whether the worker's mask is still the CPU that it was pinned to here. If the last caller was pinned to the same CPU, the mask counts as
    /// one that was set from outside.
    fn is_pinned_here(&self, worker: &Worker, pinned: u64) -> bool {
        let allowed = worker.thread.allowed();
        allowed.iter().map(|&cpu| u64::from(cpu) + 1).eq([pinned]) && self.pinned_caller.get() != pinned
    }

    /// The number of CPUs that the process may use, from the mask of worker `member`; `None` if that mask does not say.
    pub(crate) fn cpus(&self, member: usize) -> Option<usize> {
        let worker = self.workers[member - 1].get()?;
        if worker.chosen.get().is_some() {
            return None;
        }
        let pinned = self.pinned[member - 1].get();
        let cpus = if pinned != 0 && self.is_pinned_here(worker, pinned) {
            worker.allowed.try_lock().ok()?.len()
        } else {
            worker.thread.allowed().len()
        };
        (cpus > 0).then_some(cpus)
    }
}

/// One of these CPUs, other than `cpu` (which is plus one).
fn elsewhere(allowed: &[u32], cpu: u64) -> Option<u32> {
    allowed.iter().copied().find(|&other| u64::from(other) + 1 != cpu)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    /// Workers that a start handler pins to a CPU each do not make the machine one of one CPU.
    #[test]
    fn cpus_that_a_start_handler_chose_are_not_counted() {
        std::thread::spawn(|| {
            let placement = Placement::new(1);
            placement.register(1);
            placement.started(1);
            let allowed = Thread::this().allowed();
            assert_eq!(placement.cpus(1), Some(allowed.len()), "it has chosen nothing");
            if allowed.len() < 2 {
                return println!("skipped: one CPU");
            }
            Thread::this().confine(&allowed[1..2]);
            placement.started(1);
            assert_eq!(placement.cpus(1), None);
            placement.pin_while_parked(1);
            placement.unpin(1);
            assert_eq!(Thread::this().allowed(), allowed[1..2]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_worker_keeps_off_the_callers_cpu_while_it_sleeps() {
        std::thread::spawn(|| {
            let placement = Placement::new(1);
            placement.register(1);
            let me = Thread::this();
            let allowed = me.allowed();
            if allowed.len() < 2 {
                return println!("skipped: one CPU");
            }
            let before = here();
            placement.before_open(false);
            placement.avoid_caller(1);
            assert_ne!(here(), before);
            assert_eq!(me.allowed(), allowed, "awake, it may run anywhere");
            placement.pin_while_parked(1);
            assert_eq!((me.allowed().len(), placement.cpus(1)), (1, Some(allowed.len())));
            // A caller that is on that CPU now.
            let at = here();
            placement.evict(at);
            assert_ne!(here(), at);
            placement.unpin(1);
            assert_eq!(me.allowed(), allowed);
            // The mask is narrowed from outside while the worker is parked.
            placement.pin_while_parked(1);
            me.confine(&allowed[..2]);
            placement.unpin(1);
            assert_eq!((me.allowed(), placement.cpus(1)), (allowed[..2].to_vec(), Some(2)));
            me.confine(&allowed[..1]);
            placement.pin_while_parked(1);
            placement.evict(u64::from(allowed[0]) + 1);
            assert_eq!((me.allowed(), placement.cpus(1)), (allowed[..1].to_vec(), Some(1)));
        })
        .join()
        .unwrap();
    }
}
