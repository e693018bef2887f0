//! The machine: clock, prefetch, CPUs, quota, fork generation. Each function has a portable fallback.

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
        nanos()
    }
}

/// Nanoseconds since the first call in this process.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(feature = "portable"))))]
fn nanos() -> u64 {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// How many [ticks](tick) a microsecond has. Measured once per process against the monotonic clock, which takes 200 us.
pub fn ticks_per_micro() -> f64 {
    // No lock: a process forked during the measurement could not get it. Two threads may measure; either result will do.
    static RATE: AtomicU64 = AtomicU64::new(0);
    // Relaxed: one number; it publishes no other data.
    let known = f64::from_bits(RATE.load(Ordering::Relaxed));
    if known > 0.0 {
        return known;
    }
    let (tick0, time0) = tick_and_time();
    while time0.elapsed().as_micros() < 200 {
        std::hint::spin_loop();
    }
    // Two reads some 25 ns apart over 200 us: an error of about 1 in 10^4.
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

/// How many forks lie between this process and the one that asked first: it differs between a parent and its child.
///
/// Where there is no `fork` it is always 0.
#[inline]
pub fn fork_generation() -> u32 {
    generation::now()
}

#[cfg(all(unix, target_os = "linux", not(miri)))]
mod generation {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    static GENERATION: AtomicU32 = AtomicU32::new(0);
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    /// Runs in the child, on its only thread, before `fork` returns there.
    extern "C" fn in_child() {
        // Relaxed: the child has one thread.
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn now() -> u32 {
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
        // Relaxed: as in `now`.
        REGISTERED.store(true, Ordering::Relaxed);
    }
}

#[cfg(not(all(unix, target_os = "linux", not(miri))))]
mod generation {
    pub(super) fn now() -> u32 {
        0
    }
}

/// The CPU this thread runs on now, or `None` where the system cannot tell cheaply.
#[inline]
pub fn cpu() -> Option<u32> {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        // SAFETY: no arguments; it answers from memory that the kernel shares with the process.
        u32::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    None
}

/// A thread of this process, by its id in the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// The calling thread.
    pub fn this() -> Thread {
        #[cfg(all(target_os = "linux", not(miri)))]
        {
            // SAFETY: no arguments.
            Thread(unsafe { libc::gettid() })
        }
        #[cfg(not(all(target_os = "linux", not(miri))))]
        Thread(0)
    }

    /// The CPUs in the thread's affinity mask, in order; none where the system does not say, or if the thread has ended.
    pub fn allowed(self) -> Vec<u32> {
        affinity::get(self.0)
    }

    /// Sets the thread's affinity to these CPUs. Without effect if none of them exists, or if the thread has ended.
    pub fn confine(self, cpus: &[u32]) {
        affinity::put(self.0, cpus);
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod affinity {
    use libc::cpu_set_t;

    const SIZE: usize = size_of::<cpu_set_t>();

    fn nothing() -> cpu_set_t {
        // SAFETY: a bit set; all zeros is the empty one.
        unsafe { std::mem::zeroed() }
    }

    pub(super) fn get(thread: i32) -> Vec<u32> {
        let mut set = nothing();
        // SAFETY: the set is as long as said. An id without a thread is an error.
        if unsafe { libc::sched_getaffinity(thread, SIZE, &mut set) } != 0 {
            return Vec::new();
        }
        // SAFETY: inside the set.
        (0..SIZE * 8).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| cpu as u32).collect()
    }

    pub(super) fn put(thread: i32, cpus: &[u32]) {
        let mut set = nothing();
        for &cpu in cpus.iter().filter(|&&cpu| (cpu as usize) < SIZE * 8) {
            // SAFETY: inside the set.
            unsafe { libc::CPU_SET(cpu as usize, &mut set) };
        }
        // SAFETY: the set is as long as said. An empty one, or an id without a thread, is an error without effect.
        unsafe { libc::sched_setaffinity(thread, SIZE, &set) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod affinity {
    pub(super) fn get(_: i32) -> Vec<u32> {
        Vec::new()
    }

    pub(super) fn put(_: i32, _: &[u32]) {}
}

/// Makes this thread, which is mostly parked, run soon after it wakes, and makes its timers precise. Its share of the CPU does
/// not grow.
///
/// Asks for time slices of 0.1 ms, the shortest there are (Linux 6.12 and later; a thread with longer slices is preempted for it,
/// if it has not had its share), and for timers that are 1 us late at most, not 50. Returns whether it has such timers now; the
/// slice is not promised.
pub fn be_prompt() -> bool {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
        // SAFETY: plain numbers; all zeros is a value.
        let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
        // SAFETY: room for as much as said; 0 is this thread.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
        if got == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
            attributes.sched_runtime = 100_000;
            // SAFETY: the attributes just read, with another slice. If refused, it has no effect.
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        }
        // SAFETY: a number, nanoseconds.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) == 0 }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    false
}

/// CPUs this process may use: the affinity mask and a cgroup's CPU quota are respected (rounded up, at least 1).
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The CPU time per second that the process's cgroup (version 2 or 1) may use, in CPUs; `None` without a limit.
///
/// Under a quota, spinning spends CPU time that the work needs (dotnet/runtime issue 112869), so the runtime asks.
pub fn cpu_quota() -> Option<f64> {
    #[cfg(target_os = "linux")]
    {
        quota::read(std::path::Path::new("/"))
    }
    #[cfg(not(target_os = "linux"))]
    {
        None
    }
}

#[cfg(target_os = "linux")]
mod quota {
    use std::path::Path;

    /// The tightest limit between the process's group and the root. `root` is `/`, except in tests.
    pub(super) fn read(root: &Path) -> Option<f64> {
        let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        let mut limits = Vec::new();
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
            let group = Path::new(group.trim_start_matches('/'));
            let version1 = controllers.split(',').any(|name| name == "cpu");
            if !controllers.is_empty() && !version1 {
                continue;
            }
            for level in group.ancestors() {
                limits.extend(if version1 {
                    limit_v1(&root.join("sys/fs/cgroup/cpu").join(level))
                } else {
                    limit_v2(&root.join("sys/fs/cgroup").join(level))
                });
            }
        }
        limits.into_iter().min_by(f64::total_cmp)
    }

    /// `cpu.max`: "quota period" or "max period", in microseconds.
    fn limit_v2(dir: &Path) -> Option<f64> {
        let text = std::fs::read_to_string(dir.join("cpu.max")).ok()?;
        let mut numbers = text.split_whitespace().map(str::parse::<f64>);
        ratio(numbers.next()?.ok()?, numbers.next()?.ok()?)
    }

    fn limit_v1(dir: &Path) -> Option<f64> {
        let number = |name| std::fs::read_to_string(dir.join(name)).ok()?.trim().parse::<f64>().ok();
        ratio(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    }

    fn ratio(quota: f64, period: f64) -> Option<f64> {
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri's clock does not run with the machine's")]
    fn ticks_advance_at_the_measured_rate() {
        let rate = ticks_per_micro();
        assert!(rate > 0.0);
        let (tick0, time0) = tick_and_time();
        while time0.elapsed().as_millis() < 20 {
            std::hint::spin_loop();
        }
        let (tick1, time1) = tick_and_time();
        let micros = tick1.saturating_sub(tick0) as f64 / rate;
        let wall = time1.duration_since(time0).as_nanos() as f64 / 1000.0;
        assert!((micros / wall - 1.0).abs() < 0.05, "{micros} us by ticks, {wall} us by the clock");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no CPUs to move between")]
    fn a_thread_stays_where_it_is_confined() {
        std::thread::spawn(|| {
            let me = Thread::this();
            let before = me.allowed();
            let &last = before.last().expect("it runs somewhere");
            me.confine(&[last]);
            assert_eq!((me.allowed(), cpu()), (vec![last], Some(last)));
            me.confine(&[]);
            me.confine(&[u32::MAX]);
            assert_eq!(me.allowed(), [last], "no CPU is no place to be");
            me.confine(&before);
            assert_eq!(me.allowed(), before);
        })
        .join()
        .unwrap();
        assert_eq!(Thread(i32::MAX).allowed(), [0; 0]);
    }

    #[test]
    fn prefetch_takes_anything() {
        prefetch(&[0u8; 3]);
        prefetch(&());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn quota_is_the_tightest_on_the_way_to_the_root() {
        let root = std::env::temp_dir().join(format!("windrow-quota-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(quota::read(&root), None);
        write("proc/self/cgroup", "0::/outer/inner\n");
        assert_eq!(quota::read(&root), None);
        write("sys/fs/cgroup/outer/inner/cpu.max", "max 100000\n");
        assert_eq!(quota::read(&root), None);
        write("sys/fs/cgroup/outer/cpu.max", "150000 100000\n");
        assert_eq!(quota::read(&root), Some(1.5));
        write("sys/fs/cgroup/outer/inner/cpu.max", "50000 100000\n");
        assert_eq!(quota::read(&root), Some(0.5));
        write("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/one\n");
        write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "-1\n");
        write("sys/fs/cgroup/cpu/one/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota::read(&root), None);
        write("sys/fs/cgroup/cpu/one/cpu.cfs_quota_us", "200000\n");
        assert_eq!(quota::read(&root), Some(2.0));
        std::fs::remove_dir_all(root).unwrap();
    }
}
