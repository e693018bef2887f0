//! The machine: cost of synchronization. Every threshold of a decision is a named multiple of one of these primitives.
//!
//! | primitive | meaning | source |
//! |---|---|---|
//! | [`claim`](Machine::claim) | a compare-exchange on a line that no other CPU uses, and a read of the clock | measured when a pool starts |
//! | [`line`](Machine::line) | a cache line moves from one CPU to another | guessed from `claim`; then the median of regions with spinning workers |
//! | [`nap`](Machine::nap) | a worker that has just parked takes part | guessed from `claim`; then the median of such regions |
//! | [`wake`](Machine::wake) | a worker whose CPU is halted takes part | guessed from `claim`; then the median of such regions |
//! | [`slice`](Machine::slice) | a thread that loses its CPU waits | read from the system when a pool starts; 4 ms where it does not say |
//!
//! The guesses use the ratios of a 2-core x86-64 virtual machine (2026-11): 9.4 ns, 75 ns, 3 us, 15 us. They matter until the first
//! regions have run. A profile of the machine, measured once and read by later processes, was tried in their place and removed: over the 31
//! loops on 2 and on 16 CPUs, warm and cold, and in the first calls of a process it changed nothing beyond noise (2026-11, measured once, no record; geometric means with
//! it and without it: 0.60 and 0.59 warm, 0.92 and 0.93 cold on 2 CPUs; 0.20 and 0.20 warm, 0.44 and 0.45 cold on 16). One that was wrong by a
//! factor of 8 cost up to 3 %.

use crate::Nanos;
use crate::estimate::median;

/// The primitives. See the [module page](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// A compare-exchange on a line that no other CPU uses, and a read of the clock.
    pub claim: Nanos,
    /// A cache line moves from one CPU to another.
    pub line: Nanos,
    /// From opening a region until a worker that has just parked takes part.
    pub nap: Nanos,
    /// The same for a worker whose CPU is halted.
    pub wake: Nanos,
    /// A time slice of the scheduler, for which a thread that loses its CPU waits.
    pub slice: Nanos,
}

/// The state in which a region finds its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// Enough workers spin.
    Idle,
    /// The workers have just parked.
    AsleepRecently,
    /// The workers parked long ago: their CPUs are halted.
    AsleepLong,
}

impl Machine {
    /// Line transfers of a region with spinning workers: the open, each join, the claims' first misses, and the leave.
    ///
    /// Measure: 8 lines.
    const ENTER: f64 = 8.0;
    /// Delay of each further worker that has to be woken.
    ///
    /// Measure: 1/8 wake.
    const STEP: f64 = 1.0 / 8.0;
    /// Number of claims into which a member cuts its own range, so that one that finishes first has something to steal.
    ///
    /// Measure: count of claims.
    const PARTS: f64 = 16.0;

    /// Ratios of the virtual machine: a line transfer, a nap and a wake in claims.
    ///
    /// Measure: 8 claims.
    const LINE: f64 = 8.0;
    /// See [`LINE`](Self::LINE).
    ///
    /// Measure: 320 claims.
    const NAP: f64 = 320.0;
    /// See [`LINE`](Self::LINE).
    ///
    /// Measure: 1600 claims.
    const WAKE: f64 = 1600.0;

    /// Bytes that come from another CPU in the time of a line transfer: eight lines, of which the CPU prefetches seven.
    ///
    /// Measure: size of eight lines, in bytes.
    const COPIED: f64 = 512.0;

    /// The slice on a system that does not say it.
    ///
    /// Measure: chosen, a tick of most kernels.
    const SLICE: Nanos = Nanos(4e6);

    /// Measure: chosen, the virtual machine of the guesses.
    const EXAMPLE: Nanos = Nanos(9.375);

    /// The primitives as guessed from [`claim`](Machine::claim).
    pub fn guess(claim: Nanos) -> Machine {
        let of = |ratio: f64| Nanos(ratio * claim.0);
        Machine { claim, line: of(Self::LINE), nap: of(Self::NAP), wake: of(Self::WAKE), slice: Self::SLICE }
    }

    /// The virtual machine of the guesses.
    pub fn example() -> Machine {
        Machine::guess(Self::EXAMPLE)
    }

    /// The cost of entering a region: the time that it takes beyond its share of the work, for workers in this state.
    pub fn enter(&self, found: WorkerState) -> Nanos {
        match found {
            WorkerState::Idle => Nanos(Self::ENTER * self.line.0),
            WorkerState::AsleepRecently => self.nap,
            WorkerState::AsleepLong => self.wake,
        }
    }

    /// The machine after a region that took `entering` beyond its share of the work.
    #[must_use]
    pub fn after(mut self, found: WorkerState, entering: Nanos) -> Machine {
        match found {
            WorkerState::Idle => self.line = median(self.line, Nanos(entering.0 / Self::ENTER)),
            WorkerState::AsleepRecently => self.nap = median(self.nap, entering),
            WorkerState::AsleepLong => self.wake = median(self.wake, entering),
        }
        self
    }

    /// The machine after a region of duration `wall` that no worker joined: entering takes longer than that.
    #[must_use]
    pub fn after_missing(self, found: WorkerState, wall: Nanos) -> Machine {
        if wall > self.enter(found) { self.after(found, wall) } else { self }
    }

    /// Cost of each further member of a region: one line transfer, or an eighth of a wake if workers have to be woken.
    pub fn step(&self, wakes: bool) -> Nanos {
        if wakes { Nanos(Self::STEP * self.wake.0) } else { self.line }
    }

    /// A claim of items next to members that look for some: its line comes from another CPU. Where this is long, as on a busy machine, it must
    /// not count as time of the items: claims would stay short, because they are.
    pub fn contended_claim(&self) -> Nanos {
        Nanos(self.claim.0 + self.line.0)
    }

    /// The time that a measured call takes around its items, before and after what [`enter`](Self::enter) counts: 30 claims, for reads of the
    /// clock, two looks at the workers and the update of the site.
    pub fn drive(&self) -> Nanos {
        Nanos(30.0 * self.claim.0)
    }

    /// The time that a piece of a serial caller takes around its items, before it decides again: 5 claims at least, so that more is left of a sample
    /// than its items took.
    pub fn piece(&self) -> Nanos {
        Nanos(5.0 * self.claim.0)
    }

    /// Minimum duration of a sample that predicts something, and of a claim: forty claims.
    pub fn sample(&self) -> Nanos {
        Nanos(40.0 * self.claim.0)
    }

    /// Cost of first touches of code and data after a pause: as much as parking.
    pub fn cold(&self) -> Nanos {
        self.park()
    }

    /// Time to read and write `bytes` that another CPU has written.
    pub fn copy(&self, bytes: usize) -> Nanos {
        Nanos(self.line.0 * bytes as f64 / Self::COPIED)
    }

    /// The interval at which a serial caller decides again: 2000 claims, so that ten reads of the clock cost 0.5 % at most.
    pub fn heartbeat(&self) -> Nanos {
        Nanos(2000.0 * self.claim.0)
    }

    /// The time between two polls inside a claim: 80 claims, because a piece of a `collect` of small items costs three or four. It bounds the delay of a
    /// cancellation or a panic where items suddenly take longer: if they take a thousand times as long as those before, the delay is a thousand
    /// times this.
    pub fn between_polls(&self) -> Nanos {
        Nanos(80.0 * self.claim.0)
    }

    /// The interval at which a recursion reads the clock: 540 claims, so that the read and the test around it cost 1 %.
    pub fn poll(&self) -> Nanos {
        Nanos(540.0 * self.claim.0)
    }

    /// The time for which one thread leaves another one waiting at a line that both read: 20 line transfers. A recursion offers work at this
    /// interval while a worker spins, and a member that waits at a barrier spins for it. An offer that is taken back costs a claim, and one that
    /// another member takes costs two line transfers.
    pub fn offer(&self) -> Nanos {
        Nanos(20.0 * self.line.0)
    }

    /// The shortest and the longest nested call that makes items of an inner iterator. Calls double, so that a search makes few items too many, and
    /// the longest bounds the memory.
    pub fn gathered(&self) -> (Nanos, Nanos) {
        (self.longest_claim(), self.long_sleep())
    }

    /// The longest claim: 5400 times the cost of claiming. It bounds the delay of a cancellation or a panic.
    pub fn longest_claim(&self) -> Nanos {
        Nanos(5400.0 * self.claim.0)
    }

    /// The CPUs of workers that parked longer ago than this count as halted: 64 wakes. Calls of a team up to this duration may run serially,
    /// because forming the team may cost more than it saves.
    pub fn long_sleep(&self) -> Nanos {
        Nanos(64.0 * self.wake.0)
    }

    /// CPU time to park a thread and to wake it again: a third of a wake.
    pub fn park(&self) -> Nanos {
        Nanos(self.wake.0 / 3.0)
    }

    /// The time for which a thread goes on before another one is woken in its place: 8 wakes. A blocking caller runs batches of other callers for it,
    /// a waiting member or task yields or spins for it before it parks, and a runner that waits for a larger batch checks its queue at this interval.
    ///
    /// To pass a lock on takes a wake, in which no batch runs, and on a busy machine the woken thread waits for a CPU as well. With 8 and 64
    /// threads and F = 20 us, turns of 4 to 20 wakes give 1.7 and 1.4 times the operations per second of a turn of one batch, and a tenth to a
    /// quarter of its 99th percentile.
    pub fn turn(&self) -> Nanos {
        Nanos(8.0 * self.wake.0)
    }

    /// The duration of the segments in which rounds of a team are measured: 2500 claims, so that clock reads and decisions cost 0.2 %.
    pub fn segment(&self) -> Nanos {
        Nanos(2500.0 * self.claim.0)
    }

    /// The time over which stalls of a team's rounds are averaged: 12 time slices.
    pub fn stalls(&self) -> Nanos {
        Nanos(12.0 * self.slice.0)
    }

    /// The time of a claim that costs little and delays no other member. `at_hand` is the time left in the member's own range.
    ///
    /// A sixteenth of `at_hand`, so that a member that finishes first has something to steal. Not less than a sample, which makes claiming
    /// cost 2.5 %; if two of that size do not fit into `at_hand`, half of it. Never less than a line transfer,
    /// nor more than [`longest_claim`](Machine::longest_claim).
    pub fn claim_of(&self, at_hand: Nanos) -> Nanos {
        let unit = self.sample().0.min(at_hand.0 / 2.0);
        Nanos((at_hand.0 / Self::PARTS).max(unit).max(self.line.0).min(self.longest_claim().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Items;
    use crate::share::{Costs, Sharing, Workers, predict};
    use crate::spin;

    /// The virtual machine of the guesses as it was measured. Its waking worker wakes the next ones: each comes 1.9 us after the one before.
    const MEASURED: Machine =
        Machine { claim: Nanos(9.4), line: Nanos(75.0), nap: Nanos(3_000.0), wake: Nanos(15_000.0), slice: Nanos(4e6) };

    #[test]
    fn claims_last_a_while_and_shrink_at_the_end() {
        let machine = Machine { claim: Nanos(10.0), ..Machine::example() };
        let claim = |at_hand| machine.claim_of(Nanos(at_hand)).0;
        assert_eq!(claim(1e9), 54_000.0);
        assert_eq!(claim(160_000.0), 10_000.0);
        assert_eq!(claim(5_000.0), 400.0);
        assert_eq!(claim(500.0), 250.0);
        assert_eq!(claim(50.0), 75.0);
    }

    #[test]
    fn regions_replace_the_guess() {
        let mut machine = Machine::example();
        assert_eq!(machine.enter(WorkerState::Idle), Nanos(600.0));
        for found in [WorkerState::Idle, WorkerState::AsleepRecently, WorkerState::AsleepLong] {
            for _ in 0..100 {
                machine = machine.after(found, Nanos(4_000.0));
            }
            let enter = machine.enter(found).0;
            assert!((3_600.0..4_500.0).contains(&enter), "{found:?} {enter}");
        }
        assert_eq!(machine.claim, Machine::example().claim);
        assert_eq!(machine.after_missing(WorkerState::AsleepLong, Nanos(2_000.0)), machine, "a worker was on its way");
        let missing = machine.after_missing(WorkerState::AsleepLong, Nanos(9_000.0));
        assert!(missing.wake > machine.wake);
    }

    /// On the machine of the guesses, a first call that decides by them takes as long as one that decides by measurements.
    #[test]
    fn the_guess_serves_the_machine_of_its_ratios() {
        let guess = Machine::guess(MEASURED.claim);
        for found in [WorkerState::Idle, WorkerState::AsleepRecently, WorkerState::AsleepLong] {
            let time = |rest: f64, shares: bool| if shares { rest / 2.0 + MEASURED.enter(found).0 } else { rest };
            for tenths in 5..80 {
                let rest = MEASURED.enter(found).0 * f64::from(tenths) / 10.0;
                let took = time(rest, rest / 2.0 + guess.enter(found).0 < rest);
                let best = time(rest, true).min(time(rest, false));
                assert!(took < 1.1 * best, "{found:?}: {rest} ns in {took} instead of {best}");
            }
        }
    }

    /// Workers that come one after the other: a width that is too large waits for the last ones, one that is too small has too few.
    #[test]
    fn wide_regions_wait_for_no_worker_that_comes_too_late() {
        let workers = Workers { most: 64, idle: 0, asleep: 63, busy: false };
        let time = |rest: f64, width: f64| rest / width + 1_900.0 * (width - 2.0);
        for rest in [100e3, 300e3, 1e6, 3e6] {
            let chosen = predict(Nanos(rest), Items(1 << 20), &workers, &Costs::new(Machine::example()));
            let Some(Sharing { width, .. }) = chosen else { panic!("workers are parked") };
            let best = (2..=64).map(|width| time(rest, f64::from(width))).fold(f64::INFINITY, f64::min);
            assert!(time(rest, width as f64) < 1.04 * best, "{rest} ns on {width}: {best}");
        }
    }

    /// A recursion that becomes worth sharing is found late by half an interval, in which another member would have taken half of the work.
    #[test]
    fn a_recursion_reads_the_clock_seldom_and_is_shared_in_time() {
        let machine = Machine::example();
        let (interval, read_and_test) = (machine.poll().0, 5.0 * machine.claim.0);
        assert!(read_and_test < 0.011 * interval, "{interval}");
        let (pays, age) = (2.0 * machine.enter(WorkerState::Idle).0, 50e3);
        let late = (1..=100).map(|phase| (pays + interval * f64::from(phase) / 100.0) / 2.0).sum::<f64>() / 100.0;
        assert!(late < 0.04 * age, "shared {late} ns late: {interval}");
    }

    /// Two members, one of which has nothing to do: the other one offers at intervals, and its part moves in two line transfers.
    #[test]
    fn an_idle_member_gets_work_soon_and_offers_cost_little() {
        for line in [75.0, 300.0] {
            let machine = Machine { line: Nanos(line), ..Machine::example() };
            let interval = machine.offer().0;
            assert!(
                2.0 * line / interval < 0.15,
                "a member that is asked all the time loses a part of its work: {interval}"
            );
            let waits = interval / 2.0 + 2.0 * line;
            assert!(waits < 2.0 * machine.enter(WorkerState::Idle).0, "less than to enter two regions: {waits}");
        }
    }

    #[test]
    fn a_turn_is_long_relative_to_a_wake_and_short_relative_to_a_thread_that_waits_awake() {
        let machine = Machine::example();
        let (turn, wake) = (machine.turn().0, machine.wake.0);
        assert!(wake / (turn + wake) < 0.15, "the share of time in which no thread leads");
        // The workers that a region has woken still spin when it is over.
        assert!(turn < spin::most(&machine).0 && turn + wake < machine.long_sleep().0);
    }

    #[test]
    fn a_time_slice_is_some_milliseconds() {
        // Linux gives a thread 3 ms with few threads a CPU; CPUs halt deeply after about a millisecond.
        let machine = MEASURED;
        assert!((3e6..5e6).contains(&Machine::guess(machine.claim).slice.0));
        assert!((0.7e6..1.3e6).contains(&Machine::guess(machine.claim).long_sleep().0));
    }

    #[test]
    fn a_heartbeat_costs_little_and_notices_a_free_worker_soon() {
        let machine = Machine::example();
        let beat = machine.heartbeat().0;
        assert!(10.0 * machine.claim.0 / beat < 0.006, "a decision reads the clock ten times: {beat}");
        // A worker becomes free in the middle of a call of 100 us, and is let in at the next beat.
        assert!(beat / 2.0 < 0.1 * 100e3, "{beat}");
    }
}
