//! Where workers run.
//!
//! A woken thread belongs on another CPU than the one that woke it. Most schedulers see to that. Some do not (virtual machines
//! whose kernel packs threads on few CPUs, or has no scheduling domains): there a worker waits for the caller to give up its
//! CPU, for milliseconds, beside an idle one. Once a worker has found itself on its caller's CPU, workers are confined to one
//! CPU each, and a caller that is about to wake one on its own CPU moves it first: a system call of about 1 us, once for as long as
//! nobody moves.

use std::sync::{Mutex, OnceLock};

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
    /// The last caller that woke somebody.
    waker: Hint,
    /// Where the workers live: a forked child must leave its parent's alone.
    generation: u32,
}

#[derive(Debug)]
struct Worker {
    thread: Thread,
    /// Where it may run but for what is done here.
    home: Mutex<Vec<u32>>,
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
            waker: Hint::default(),
            generation: machine::fork_generation(),
        }
    }

    /// This thread is worker `member`.
    pub(crate) fn settle(&self, member: usize) {
        let thread = Thread::this();
        let home = Mutex::new(thread.allowed());
        self.workers[member - 1].get_or_init(|| Worker { thread, home });
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
            self.waker.set(Thread::this().number());
            self.clear(here);
        }
    }

    /// Moves workers away from `cpu`.
    fn clear(&self, cpu: u64) {
        for (at, confined) in self.confined.iter().enumerate() {
            if confined.get() == cpu || confined.get() == 0 {
                self.move_away(at, cpu);
            }
        }
    }

    /// Worker `member`, awake, looks where it is: not on the caller's CPU, it hopes.
    #[inline]
    pub(crate) fn check(&self, member: usize) {
        let here = here();
        if here != 0 && here == self.caller.get() {
            PACKED.set(1);
            self.move_away(member - 1, here);
        }
    }

    /// Confines a worker to a CPU of its own that is not `cpu`, if it may run elsewhere.
    #[cold]
    fn move_away(&self, at: usize, cpu: u64) {
        let Some(worker) = self.workers[at].get() else { return };
        // Held by nobody for long; but by a thread that a fork left behind, for ever.
        let Ok(mut home) = worker.home.try_lock() else { return };
        self.look_home(worker, &mut home, at);
        let others: Vec<u32> = home.iter().copied().filter(|&other| u64::from(other) + 1 != cpu).collect();
        if let Some(&new) = others.get(at % others.len().max(1)) {
            worker.thread.confine(&[new]);
            self.confined[at].set(u64::from(new) + 1);
        }
    }

    /// Where somebody else confined the worker is its home from now on. That may be where it is confined already: then the
    /// caller, which was elsewhere before, is now confined to it too.
    fn look_home(&self, worker: &Worker, home: &mut Vec<u32>, at: usize) {
        let allowed = worker.thread.allowed();
        let ours = self.confined[at].get().checked_sub(1);
        let is_ours = ours.is_some_and(|ours| allowed == [ours as u32]);
        let waker = self.waker.get();
        let everybodys = || waker != 0 && Thread::numbered(waker).allowed() == allowed;
        if !allowed.is_empty() && (!is_ours || everybodys()) {
            *home = allowed;
            self.confined[at].set(0);
        }
    }

    /// CPUs that worker `member`, which asks, may use.
    pub(crate) fn cpus(&self, member: usize) -> Option<usize> {
        let worker = self.workers[member - 1].get()?;
        let mut home = worker.home.try_lock().ok()?;
        self.look_home(worker, &mut home, member - 1);
        (!home.is_empty()).then(|| home.len())
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_on_the_callers_cpu_moves_and_keeps_its_home() {
        std::thread::spawn(|| {
            let places = Places::new(1);
            places.settle(1);
            let home = Thread::this().allowed();
            if home.len() < 2 {
                return println!("skipped: one CPU");
            }
            assert_eq!(places.cpus(1), Some(home.len()));
            let before = here();
            places.call(false);
            places.check(1);
            assert_ne!(here(), before);
            assert_eq!(places.cpus(1), Some(home.len()), "where it is put is not where it may be");
            // A caller that is on that CPU now.
            places.clear(here());
            assert_eq!(Thread::this().allowed().len(), 1);
            // Somebody else narrows it.
            Thread::this().confine(&home[..2]);
            assert_eq!(places.cpus(1), Some(2));
            Thread::this().confine(&home[..1]);
            places.clear(u64::from(home[0]) + 1);
            assert_eq!(places.cpus(1), Some(1));
            assert_eq!(Thread::this().allowed(), home[..1], "there is nowhere else to go");
        })
        .join()
        .unwrap();
    }
}
