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
//! That costs some ten system calls of less than 1 us each time a worker parks. The caller does not wait for them.
//!
//! Others change masks too: `taskset -ap`, container runtimes and batch systems set those of all threads, the first thread's first. No
//! system call changes a mask only if it is still what was read, so a worker that pins itself at that moment would undo their change
//! for good. Changes here therefore look at the first thread's mask before and after, and keep off for a millisecond once it has changed.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use windrow_sync::Mutex;
use windrow_sync::machine::{self, Thread};
use windrow_sync::relaxed::RelaxedU64;

/// 1 once a worker has found itself on its caller's CPU: this machine packs threads. For all pools.
static PACKED: RelaxedU64 = RelaxedU64::new(0);

/// The mask of the process's first thread, for all pools.
struct Process {
    /// A hash of the mask when it was last read; 0 is before the first read.
    mask: RelaxedU64,
    /// The tick at which it was last seen to have changed.
    changed: RelaxedU64,
}

static PROCESS: Process = Process { mask: RelaxedU64::new(0), changed: RelaxedU64::new(0) };

/// After this time a change of all masks has reached the last thread.
///
/// Measure: chosen, a walk over /proc/PID/task takes microseconds a thread.
const SETTLES: Duration = Duration::from_millis(1);

impl Process {
    /// The tick of the last change, after a look.
    fn look(&self) -> u64 {
        let mask = Thread::first()
            .allowed()
            .iter()
            .fold(1, |hash: u64, &cpu| (hash ^ u64::from(cpu)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = self.mask.get();
        if before != mask {
            if before != 0 {
                self.changed.set(machine::tick());
            }
            self.mask.set(mask);
        }
        self.changed.get()
    }

    /// The tick of the last change, if that was long enough ago.
    fn settled(&self) -> Option<u64> {
        let changed = self.look();
        let ago = machine::tick().saturating_sub(changed) as f64 / machine::ticks_per_micro();
        (changed == 0 || ago > SETTLES.as_micros() as f64).then_some(changed)
    }

    /// Sets the mask of `thread` to what `new` makes of it, unless masks are being changed from outside. Returns whether it did.
    fn change(&self, thread: Thread, new: impl FnOnce(Vec<u32>) -> Option<Vec<u32>>) -> bool {
        self.settled().is_some_and(|changed| self.change_since(changed, thread, new))
    }

    /// Waits until masks have settled, and does what [`change`](Self::change) does.
    fn change_at_last(&self, thread: Thread, new: impl FnOnce(Vec<u32>) -> Option<Vec<u32>>) {
        let changed = loop {
            match self.settled() {
                Some(changed) => break changed,
                None => thread::sleep(SETTLES / 4),
            }
        };
        self.change_since(changed, thread, new);
    }

    fn change_since(&self, changed: u64, thread: Thread, new: impl FnOnce(Vec<u32>) -> Option<Vec<u32>>) -> bool {
        let Some(new) = new(thread.allowed()) else { return false };
        thread.confine(&new);
        let stands = self.look() == changed;
        if !stands {
            // The change from outside may have come before this one.
            thread.confine(&Thread::first().allowed());
        }
        stands
    }
}

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
        let mut allowed = worker.allowed.lock();
        let now = worker.thread.allowed();
        if *allowed != now {
            *allowed = now;
            worker.chosen.get_or_init(|| ());
        }
    }

    /// True once the thread of worker `member` has begun.
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
            let Some(allowed) = worker.get().and_then(|worker| worker.allowed.try_lock()) else { continue };
            // The worker may have woken before the lock was taken. An awake worker is not pinned.
            if pinned.get() != cpu {
                continue;
            }
            let Some((worker, new)) = worker.get().zip(elsewhere(&allowed, cpu)) else { continue };
            if PROCESS.change(worker.thread, |now| is_only(&now, cpu).then(|| vec![new])) {
                pinned.set(u64::from(new) + 1);
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
        let (mut allowed, mut others) = (Vec::new(), Vec::new());
        let moved = PROCESS.change(me, |now| {
            others.extend(now.iter().copied().filter(|&cpu| u64::from(cpu) + 1 != here));
            allowed = now;
            (!others.is_empty()).then(|| others.clone())
        });
        if !others.is_empty() {
            PACKED.set(1);
        }
        if moved {
            // This thread may have waited for a CPU meanwhile. A mask that was set from outside in that time stays, unless it equals `others`.
            PROCESS.change_at_last(me, |now| (now == others).then_some(allowed));
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
        let mut allowed = worker.allowed.lock();
        let pinned = &self.pinned[member - 1];
        let stands = PROCESS.change(worker.thread, |now| {
            *allowed = now;
            let place =
                if here == self.caller.get() { elsewhere(&allowed, here) } else { u32::try_from(here - 1).ok() };
            let place = place.filter(|_| allowed.len() > 1)?;
            pinned.set(u64::from(place) + 1);
            Some(vec![place])
        });
        if !stands {
            pinned.set(0);
        }
    }

    /// Lets worker `member`, which is awake, run on all CPUs of its mask again.
    pub(crate) fn unpin(&self, member: usize) {
        let pinned = &self.pinned[member - 1];
        if let (Some(worker), true) = (self.workers[member - 1].get(), pinned.get() != 0) {
            let allowed = worker.allowed.lock();
            PROCESS
                .change_at_last(worker.thread, |now| self.is_pinned_here(&now, pinned.get()).then(|| allowed.clone()));
            pinned.set(0);
        }
    }

    /// True if `allowed`, a worker's mask, is still the CPU that the worker was pinned to here. If the last caller was pinned to the same CPU, the mask counts as
    /// one that was set from outside.
    fn is_pinned_here(&self, allowed: &[u32], pinned: u64) -> bool {
        is_only(allowed, pinned) && self.pinned_caller.get() != pinned
    }

    /// The number of CPUs that the process may use, from the mask of worker `member`; `None` if that mask does not say.
    pub(crate) fn cpus(&self, member: usize) -> Option<usize> {
        let worker = self.workers[member - 1].get()?;
        if worker.chosen.get().is_some() {
            return None;
        }
        let (pinned, now) = (self.pinned[member - 1].get(), worker.thread.allowed());
        let is_pinned = pinned != 0 && self.is_pinned_here(&now, pinned);
        let cpus = if is_pinned { worker.allowed.try_lock()?.len() } else { now.len() };
        (cpus > 0).then_some(cpus)
    }
}

/// True if `cpu` (which is plus one) is the only one of these CPUs.
fn is_only(allowed: &[u32], cpu: u64) -> bool {
    matches!(allowed, &[only] if u64::from(only) + 1 == cpu)
}

/// One of these CPUs, other than `cpu` (which is plus one).
fn elsewhere(allowed: &[u32], cpu: u64) -> Option<u32> {
    allowed.iter().copied().find(|&other| u64::from(other) + 1 != cpu)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use windrow_testkit::alone;

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

    /// A worker that pins itself while all masks are narrowed does not undo that.
    #[test]
    fn masks_set_from_outside_meanwhile_stand() {
        alone(
            module_path!(),
            "masks_set_from_outside_meanwhile_stand",
            |_| (),
            || {
                let me = Thread::this();
                let all = me.allowed();
                if all.len() < 2 {
                    return println!("skipped: one CPU");
                }
                let narrow = |to: &[u32]| [Thread::first(), me].iter().for_each(|thread| thread.confine(to));
                let elsewhere = || Some(vec![all[1]]);
                let changed = PROCESS.change(me, |_| {
                    narrow(&all[..1]);
                    elsewhere()
                });
                assert_eq!((changed, me.allowed()), (false, all[..1].to_vec()));
                narrow(&all);
                assert!(!PROCESS.change(me, |_| elsewhere()), "more threads may follow");
                PROCESS.change_at_last(me, |_| elsewhere());
                assert_eq!(me.allowed(), all[1..2]);
            },
        );
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
            assert_eq!(me.allowed(), allowed, "an awake thread may run on every allowed CPU");
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
