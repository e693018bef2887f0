//! Counters of the CPU, checked against loops with a known number of atomics before use.

/// Counts since the start, of all threads of this process that began later than the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) locked: u64,
    pub(crate) contended: Option<u64>,
    pub(crate) switches: u64,
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use linux::Counters;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};

    use perf_event::events::{Raw, Software};
    use perf_event::{Builder, Counter};

    use super::Counts;

    /// Events and masks, by the vendor of the CPU: locked instructions that retire, and those among them that had to wait.
    fn events() -> Result<(u64, Option<u64>), String> {
        let info = std::fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
        let vendor =
            info.lines().find_map(|line| line.strip_prefix("vendor_id")?.split_once(':').map(|it| it.1.trim()));
        match vendor {
            // LsLocks; its mask 0x02 is "non-speculative".
            Some("AuthenticAMD") => Ok((0x0f25, Some(0x0225))),
            // MEM_INST_RETIRED.LOCK_LOADS.
            Some("GenuineIntel") => Ok((0x21d0, None)),
            other => Err(format!("no event is known for {}", other.unwrap_or("this CPU"))),
        }
    }

    /// A loop: its name, its number of atomics, and one turn.
    type Loop<'a> = (&'a str, u64, &'a dyn Fn(u64) -> u64);

    pub(crate) struct Counters {
        locked: Counter,
        contended: Option<Counter>,
        switches: Counter,
    }

    impl Counters {
        /// Must be called before the counted threads start.
        pub(crate) fn new() -> Result<Self, String> {
            let (locked, contended) = events()?;
            let user = |event| start(Builder::new(Raw::new(event)).exclude_kernel(true), "a counter of the CPU");
            let mut counters = Counters {
                locked: user(locked)?,
                contended: contended.map(user).transpose()?,
                // Context switches happen in the kernel.
                switches: start(
                    Builder::new(Software::CONTEXT_SWITCHES).exclude_kernel(false),
                    "the count of switches",
                )?,
            };
            counters.check()?;
            Ok(counters)
        }

        pub(crate) fn read(&mut self) -> Result<Counts, String> {
            Ok(Counts {
                locked: read(&mut self.locked)?,
                contended: self.contended.as_mut().map(read).transpose()?,
                switches: read(&mut self.switches)?,
            })
        }

        /// Loops of 100 000 atomics: predictable or not, successful or not, and one without atomics.
        fn check(&mut self) -> Result<(), String> {
            const N: u64 = 100_000;
            let word = &AtomicU64::new(0);
            // Relaxed, here and below: there is only one thread.
            let relaxed = Ordering::Relaxed;
            let loops: [Loop<'_>; 6] = [
                ("additions", N, &|_| word.fetch_add(1, relaxed)),
                ("swaps", N, &|i| word.swap(i, relaxed)),
                ("failing exchanges", N, &|_| word.compare_exchange(u64::MAX, 0, relaxed, relaxed).unwrap_or(1)),
                ("exchanges", N, &|i| word.compare_exchange(i, i + 1, relaxed, relaxed).unwrap_or(1)),
                ("loads and stores", 0, &|i| {
                    word.store(i, relaxed);
                    word.load(relaxed)
                }),
                ("additions behind branches", hard_to_predict(N), &|i| {
                    if is_taken(i) { word.fetch_add(1, relaxed) } else { 0 }
                }),
            ];
            for (name, expected, body) in loops {
                let before = self.read()?.locked;
                word.store(0, relaxed);
                for i in 0..N {
                    black_box(body(i));
                }
                let counted = self.read()?.locked - before;
                // An interruption may count an instruction twice.
                if counted.abs_diff(expected) > 100 {
                    return Err(format!("the counter says {counted} for {expected} atomics ({name})"));
                }
            }
            Ok(())
        }
    }

    /// Whether the branch is taken, which no CPU can predict.
    fn is_taken(i: u64) -> bool {
        crate::arms::item(black_box(i), 3) & 1 << 40 != 0
    }

    fn hard_to_predict(n: u64) -> u64 {
        (0..n).filter(|&i| is_taken(i)).count() as u64
    }

    /// Begins to count in this thread and in those it starts.
    fn start(builder: &mut Builder<'_>, what: &str) -> Result<Counter, String> {
        let counter = builder.inherit(true).exclude_hv(true).build();
        let mut counter = counter.map_err(|error| format!("{what} is not to be had: {error}"))?;
        counter.enable().map_err(|error| error.to_string())?;
        Ok(counter)
    }

    fn read(counter: &mut Counter) -> Result<u64, String> {
        let read = counter.read_count_and_time().map_err(|error| error.to_string())?;
        if read.time_running < read.time_enabled {
            return Err("the CPU has too few counters for all its users".to_owned());
        }
        Ok(read.count)
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) struct Counters;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
impl Counters {
    pub(crate) fn new() -> Result<Self, String> {
        Err("locked instructions are those of x86-64, and are counted on Linux".to_owned())
    }

    pub(crate) fn read(&mut self) -> Result<Counts, String> {
        Err("there is no counter".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_threads_that_began_later() {
        let mut counters = match Counters::new() {
            Ok(counters) => counters,
            Err(why) => return println!("skipped: {why}"),
        };
        let before = counters.read().unwrap();
        let word = std::sync::atomic::AtomicU64::new(0);
        let add = || {
            for _ in 0..100_000 {
                // Relaxed: the number publishes nothing.
                word.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(add);
            scope.spawn(add);
        });
        let locked = counters.read().unwrap().locked - before.locked;
        // Starting and joining threads takes some atomics, too.
        assert!((200_000..202_000).contains(&locked), "{locked}");
    }
}
