//! The machine: clock, prefetch, CPUs, fork generation. Each function has a portable fallback.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A counter that runs at a constant, unknown rate, read as cheaply as the machine can: the time-stamp counter on x86-64
/// (about 10 ns where [`Instant::now`] takes 23), elsewhere nanoseconds of the monotonic clock. [`ticks_per_micro`] gives
/// the rate.
///
/// Values of two threads may be compared only loosely: subtract with `saturating_sub`.
#[inline]
pub fn tick() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri), not(feature = "portable")))]
    {
        // SAFETY: every x86-64 CPU has the instruction; it reads a counter and touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "portable"))))]
    {
        static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Number of [ticks](tick) in a microsecond. Measured once per process against the monotonic clock, which takes 50 us.
pub fn ticks_per_micro() -> f64 {
    // No lock: a process forked during the measurement could not get it. Two threads may measure; either result will do.
    static RATE: AtomicU64 = AtomicU64::new(0);
    // Relaxed: one number; it publishes no other data.
    let known = f64::from_bits(RATE.load(Ordering::Relaxed));
    if known > 0.0 {
        return known;
    }
    let (tick0, time0) = tick_and_time();
    while time0.elapsed().as_micros() < 50 {
        std::hint::spin_loop();
    }
    // Two reads some 25 ns apart over 50 us: an error of about 5 in 10^4.
    let (tick1, time1) = tick_and_time();
    let nanos = time1.duration_since(time0).as_nanos() as f64;
    let rate = (tick1.saturating_sub(tick0) as f64 * 1000.0 / nanos).max(f64::MIN_POSITIVE);
    // Relaxed: as above.
    RATE.store(rate.to_bits(), Ordering::Relaxed);
    rate
}

/// A tick and an instant of the same moment: the closest of a few pairs, as the thread may be interrupted in between.
fn tick_and_time() -> (u64, Instant) {
    let pair = || {
        let (before, time, after) = (tick(), Instant::now(), tick());
        (after.saturating_sub(before), before, time)
    };
    let closest = (0..8).map(|_| pair()).min_by_key(|&(apart, ..)| apart).unwrap_or_else(pair);
    (closest.1, closest.2)
}

/// Prefetches the cache line of `value`. A hint: it has no effect that a program could observe.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: part of SSE, which x86-64 always has; a prefetch never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}

/// A thread of this process, by its id in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(i32);

pub use system::{be_prompt, cpu, fork_generation, time_slice};

/// CPUs this process may use: the affinity mask and a cgroup's CPU quota are respected (rounded down, at least 1).
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(all(target_os = "linux", not(miri)))]
mod system {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use libc::{cpu_set_t, sched_attr};

    use super::Thread;

    static GENERATION: AtomicU32 = AtomicU32::new(0);
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    /// Runs in the child, on its only thread, before `fork` returns there.
    extern "C" fn in_child() {
        // Relaxed: the child has one thread.
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of forks between this process and the one that asked first. The number differs between a parent and its child.
    ///
    /// Always 0 on systems without `fork`.
    #[inline]
    pub fn fork_generation() -> u32 {
        // Relaxed: registering twice is harmless (a child then counts by two), waiting for another thread would not be.
        if !REGISTERED.load(Ordering::Relaxed) {
            register();
        }
        // Relaxed: it changes only while the process has one thread.
        GENERATION.load(Ordering::Relaxed)
    }

    #[cold]
    fn register() {
        // SAFETY: the handler is async-signal-safe: one atomic addition. If registering fails (no memory), a forked child takes
        // itself for its parent; a system without the call can do no better.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // Relaxed: as in `fork_generation`.
        REGISTERED.store(true, Ordering::Relaxed);
    }

    /// The CPU on which this thread runs now; `None` where the system does not say so cheaply.
    #[inline]
    pub fn cpu() -> Option<u32> {
        // SAFETY: no arguments; it answers from memory that the kernel shares with the process.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }

    const SIZE: usize = size_of::<cpu_set_t>();

    fn no_cpus() -> cpu_set_t {
        // SAFETY: a bit set; all zeros is the empty one.
        unsafe { std::mem::zeroed() }
    }

    impl Thread {
        /// The calling thread.
        pub fn this() -> Thread {
            // SAFETY: no arguments.
            Thread(unsafe { libc::gettid() })
        }

        /// The thread that the process began with.
        pub fn first() -> Thread {
            // SAFETY: no arguments.
            Thread(unsafe { libc::getpid() })
        }

        /// The CPUs in the thread's affinity mask, in order; none where the system does not say, or if the thread has ended.
        pub fn allowed(self) -> Vec<u32> {
            let mut set = no_cpus();
            // SAFETY: the set is as long as said. An id without a thread is an error.
            if unsafe { libc::sched_getaffinity(self.0, SIZE, &mut set) } != 0 {
                return Vec::new();
            }
            // SAFETY: inside the set.
            (0..SIZE * 8).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| cpu as u32).collect()
        }

        /// Sets the thread's affinity to these CPUs. Without effect if none of them exists, or if the thread has ended.
        pub fn confine(self, cpus: &[u32]) {
            let mut set = no_cpus();
            for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < SIZE * 8) {
                // SAFETY: inside the set.
                unsafe { libc::CPU_SET(cpu as usize, &mut set) };
            }
            // SAFETY: the set is as long as said. An empty one, or an id without a thread, is an error without effect.
            unsafe { libc::sched_setaffinity(self.0, SIZE, &set) };
        }
    }

    /// How this thread is scheduled, if that is the usual policy. The runtime is its slice (6.12 and later, else 0).
    fn attributes() -> Option<sched_attr> {
        const LONG: u32 = size_of::<sched_attr>() as u32;
        // SAFETY: plain numbers; all zeros is a value.
        let mut attributes: sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: room for as much as said; 0 is this thread.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, LONG, 0) };
        (got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32).then_some(attributes)
    }

    /// The time for which a thread that loses its CPU waits for it: a time slice of the scheduler, or a tick, at which slices end, if that is
    /// longer. `None` where the system does not say.
    pub fn time_slice() -> Option<Duration> {
        let slice = attributes().map_or(0, |attributes| attributes.sched_runtime);
        let mut tick = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes to this value. The clock advances at ticks.
        unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut tick) };
        let longer = Duration::from_nanos(slice).max(Duration::from_nanos(tick.tv_nsec as u64));
        (!longer.is_zero()).then_some(longer)
    }

    /// Makes this thread, which is mostly parked, run soon after it wakes, and makes its timers precise. Its share of the CPU does
    /// not grow.
    ///
    /// Asks for time slices of 0.1 ms, the shortest that Linux grants (6.12 and later). A thread with longer slices is then preempted for
    /// this one, if this one has not had its share. Also asks for timers that are 1 us late at most, not 50. Returns whether this thread has
    /// such timers now; the slice is not promised.
    pub fn be_prompt() -> bool {
        if let Some(mut attributes) = attributes() {
            attributes.sched_runtime = 100_000;
            // SAFETY: the attributes just read, with another slice. If refused, it has no effect.
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        }
        // SAFETY: a number, nanoseconds.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) == 0 }
    }
}

/// A system without these calls.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod system {
    /// Number of forks: there is no `fork`.
    pub fn fork_generation() -> u32 {
        0
    }
    /// The CPU is not known.
    pub fn cpu() -> Option<u32> {
        None
    }
    impl super::Thread {
        /// Any thread: they have no ids.
        pub fn this() -> Self {
            Self(0)
        }
        /// Any thread.
        pub fn first() -> Self {
            Self(0)
        }
        /// No CPUs are known.
        pub fn allowed(self) -> Vec<u32> {
            Vec::new()
        }
        /// No effect.
        pub fn confine(self, _: &[u32]) {}
    }
    /// The time slice is not known.
    pub fn time_slice() -> Option<std::time::Duration> {
        None
    }
    /// No effect.
    pub fn be_prompt() -> bool {
        false
    }
}
