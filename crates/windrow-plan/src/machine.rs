//! The machine: what synchronization costs on it. Every threshold of a decision is a named multiple of one of these primitives.
//!
//! | primitive | what it is | how it is known |
//! |---|---|---|
//! | [`claim`](Machine::claim) | a compare-exchange on a line that no other CPU uses, and a read of the clock | measured when a pool starts |
//! | [`line`](Machine::line) | a cache line moves from one CPU to another | guessed from `claim`; then the median of regions with spinning workers |
//! | [`nap`](Machine::nap) | a worker that has just parked takes part | guessed from `claim`; then the median of such regions |
//! | [`wake`](Machine::wake) | a worker whose CPU is halted takes part | guessed from `claim`; then the median of such regions |
//!
//! The guesses use the ratios of a 2-core x86-64 virtual machine (2026-11): 9.4 ns, 75 ns, 3 us, 15 us. They matter until the first
//! regions have run. A profile of the machine, measured once and read by later processes, was tried in their place and removed: over the 31
//! loops on 2 and on 16 CPUs, warm and cold, and in the first calls of a process it changed nothing beyond noise (2026-11, measured once, no record; geometric means with
//! it and without it: 0.60 and 0.59 warm, 0.92 and 0.93 cold on 2 CPUs; 0.20 and 0.20 warm, 0.44 and 0.45 cold on 16). One that was wrong by a
//! factor of 8 cost up to 3 %.

use crate::Nanos;
use crate::estimate::median;

/// The primitives. See the [module page](self).
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::machine::{Machine, WorkerState};
///
/// // A cache line moves four times as slowly as guessed, as between two sockets.
/// let near = Machine::guess(Nanos(10.0));
/// let far = Machine { line: Nanos(4.0 * near.line.0), ..near };
/// assert!(far.enter(WorkerState::Idle) > near.enter(WorkerState::Idle));
/// assert_eq!(far.enter(WorkerState::AsleepLong), near.enter(WorkerState::AsleepLong));
/// ```
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
}

/// The state in which a region finds its workers.
///
/// ```
/// use windrow_plan::machine::{Machine, WorkerState};
///
/// let states = [WorkerState::Idle, WorkerState::AsleepRecently, WorkerState::AsleepLong];
/// assert!(states.map(|found| Machine::example().enter(found)).is_sorted_by(|a, b| a < b));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// Enough of them spin.
    Idle,
    /// They have just parked.
    AsleepRecently,
    /// They parked long ago: their CPUs are halted.
    AsleepLong,
}

impl Machine {
    /// Line transfers of a region with spinning workers: the open, each join, the claims' first misses, and the leave.
    ///
    /// Measure: 8 lines.
    const ENTER: f64 = 8.0;

    /// Measure: chosen, the virtual machine of the guesses.
    const EXAMPLE: Nanos = Nanos(9.375);

    /// The primitives as guessed from [`claim`](Machine::claim).
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// let Machine { claim, line, nap, wake } = Machine::guess(Nanos(10.0));
    /// assert!(claim < line && line < nap && nap < wake);
    /// assert_eq!(Machine::guess(Nanos(20.0)).wake, Nanos(2.0 * wake.0));
    /// ```
    pub fn guess(claim: Nanos) -> Machine {
        Machine { claim, line: Nanos(8.0 * claim.0), nap: Nanos(320.0 * claim.0), wake: Nanos(1600.0 * claim.0) }
    }

    /// The virtual machine of the guesses.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert_eq!(machine, Machine::guess(machine.claim));
    /// ```
    pub fn example() -> Machine {
        Machine::guess(Self::EXAMPLE)
    }

    /// The cost of entering a region: the time that it takes beyond its share of the work, for workers in this state.
    ///
    /// ```
    /// use windrow_plan::machine::{Machine, WorkerState};
    ///
    /// let machine = Machine::example();
    /// assert_eq!(machine.enter(WorkerState::AsleepRecently), machine.nap);
    /// assert_eq!(machine.enter(WorkerState::AsleepLong), machine.wake);
    /// assert!(machine.enter(WorkerState::Idle) > machine.line, "several lines move");
    /// ```
    pub fn enter(&self, found: WorkerState) -> Nanos {
        match found {
            WorkerState::Idle => Nanos(Self::ENTER * self.line.0),
            WorkerState::AsleepRecently => self.nap,
            WorkerState::AsleepLong => self.wake,
        }
    }

    /// The machine after a region that took `entering` beyond its share of the work.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::{Machine, WorkerState};
    ///
    /// // On this machine a halted CPU takes 40 us to wake up, far longer than guessed.
    /// let (guess, wake) = (Machine::example(), Nanos::micros(40.0));
    /// let machine = (0..100).fold(guess, |machine, _| machine.after(WorkerState::AsleepLong, wake));
    /// assert!((machine.wake.0 / wake.0 - 1.0).abs() < 0.11);
    /// assert_eq!(machine.nap, guess.nap, "only the primitive that was measured changes");
    /// ```
    #[must_use]
    pub fn after(mut self, found: WorkerState, entering: Nanos) -> Machine {
        match found {
            WorkerState::Idle => self.line = median(self.line, Nanos(entering.0 / Self::ENTER)),
            WorkerState::AsleepRecently => self.nap = median(self.nap, entering),
            WorkerState::AsleepLong => self.wake = median(self.wake, entering),
        }
        self
    }

    /// The machine after a region of duration `wall` to which no worker came: entering takes longer than that.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::{Machine, WorkerState};
    ///
    /// let machine = Machine::example();
    /// let after = |wall| machine.after_missing(WorkerState::AsleepLong, Nanos(wall));
    /// assert_eq!(after(0.5 * machine.wake.0), machine, "the worker may still have been on its way");
    /// assert!(after(2.0 * machine.wake.0).wake > machine.wake);
    /// ```
    #[must_use]
    pub fn after_missing(self, found: WorkerState, wall: Nanos) -> Machine {
        if wall > self.enter(found) { self.after(found, wall) } else { self }
    }

    /// What each further member adds to a region: one line transfer, or an eighth of a wake if workers have to be woken.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert_eq!(machine.step(false), machine.line);
    /// assert!(machine.step(true) > machine.step(false));
    /// ```
    pub fn step(&self, wakes: bool) -> Nanos {
        if wakes { Nanos(self.wake.0 / 8.0) } else { self.line }
    }

    /// A read of the clock.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.clock() < machine.claim, "a claim reads the clock, too");
    /// ```
    pub fn clock(&self) -> Nanos {
        Nanos(self.claim.0 / 2.0)
    }

    /// Below this time a sample predicts little: forty claims.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::guess(Nanos(10.0));
    /// let is_ripe = |spent: Nanos| spent >= machine.sample();
    /// assert!(!is_ripe(Nanos(100.0)) && is_ripe(Nanos::micros(1.0)));
    /// ```
    pub fn sample(&self) -> Nanos {
        Nanos(40.0 * self.claim.0)
    }

    /// What first touches of code and data can cost after a pause: a third of a wake.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    /// use windrow_plan::share::contradicts;
    ///
    /// // A first item of 100 ns may take longer than this by one cold start.
    /// let (machine, item) = (Machine::guess(Nanos(10.0)), Nanos(100.0));
    /// assert!(!contradicts(machine.cold(), item, &machine));
    /// assert!(contradicts(Nanos(2.0 * machine.cold().0), item, &machine));
    /// ```
    pub fn cold(&self) -> Nanos {
        Nanos(self.wake.0 / 3.0)
    }

    /// The interval at which a serial caller decides again: 2000 claims, so that deciding costs 0.1 %.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.claim.0 < 0.001 * machine.heartbeat().0);
    /// ```
    pub fn heartbeat(&self) -> Nanos {
        Nanos(2000.0 * self.claim.0)
    }

    /// The time between two polls inside of a claim: 40 claims, so that polls cost 2 %. It bounds the delay of a cancellation or a panic where items suddenly take
    /// longer: if they take a thousand times as long as those before, the delay is a thousand times this.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.clock().0 < 0.02 * machine.between_polls().0);
    /// assert!(machine.between_polls() < machine.longest_claim());
    /// ```
    pub fn between_polls(&self) -> Nanos {
        Nanos(40.0 * self.claim.0)
    }

    /// The interval at which a recursion reads the clock: 540 claims, so that the read and the test around it cost 1 %.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.clock().0 < 0.01 * machine.poll().0);
    /// assert!(machine.poll() < machine.heartbeat());
    /// ```
    pub fn poll(&self) -> Nanos {
        Nanos(540.0 * self.claim.0)
    }

    /// The interval at which a recursion offers work while a worker spins: 27 line transfers. An offer that is taken back costs a claim,
    /// and one that another member takes costs two line transfers.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// // An offer that another member takes costs less than a tenth of the interval, however slowly lines move.
    /// for line in [75.0, 300.0] {
    ///     let machine = Machine { line: Nanos(line), ..Machine::example() };
    ///     assert!(2.0 * line < 0.1 * machine.offer().0);
    /// }
    /// ```
    pub fn offer(&self) -> Nanos {
        Nanos(27.0 * self.line.0)
    }

    /// Calls shorter than this are not all timed, because two reads of the clock would be a visible part of them: 100 claims.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(2.0 * machine.clock().0 < 0.02 * machine.short_call().0);
    /// ```
    pub fn short_call(&self) -> Nanos {
        Nanos(100.0 * self.claim.0)
    }

    /// A call that stays serial at a known site, without its items: four claims, until some were measured.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.claim < machine.short_call_itself());
    /// assert!(machine.short_call_itself() < machine.short_call());
    /// ```
    pub fn short_call_itself(&self) -> Nanos {
        Nanos(4.0 * self.claim.0)
    }

    /// Items of an inner iterator that last longer than ten claims are made by nested calls: to pass one through a vector costs less than a claim.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::guess(Nanos(10.0));
    /// let is_gathered = |item: Nanos| item > machine.gathered_item();
    /// assert!(is_gathered(Nanos::micros(1.0)) && !is_gathered(Nanos(20.0)));
    /// ```
    pub fn gathered_item(&self) -> Nanos {
        Nanos(10.0 * self.claim.0)
    }

    /// The shortest and the longest nested call that makes such items: 4 and 100 heartbeats. Calls double, so that a search makes few items too
    /// many, and the longest bounds the memory.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// let (shortest, longest) = machine.gathered();
    /// assert!(shortest > machine.heartbeat());
    /// assert!(8.0 * shortest.0 < longest.0, "calls double more than three times");
    /// ```
    pub fn gathered(&self) -> (Nanos, Nanos) {
        (Nanos(4.0 * self.heartbeat().0), Nanos(100.0 * self.heartbeat().0))
    }

    /// The longest claim: 5400 times what claiming costs. It bounds the delay of a cancellation or a panic.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert_eq!(machine.claim_of(Nanos(1e12)), machine.longest_claim());
    /// assert!(machine.claim.0 < 0.001 * machine.longest_claim().0);
    /// ```
    pub fn longest_claim(&self) -> Nanos {
        Nanos(5400.0 * self.claim.0)
    }

    /// The CPUs of workers that parked longer ago than this count as halted: 64 wakes.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::{Machine, WorkerState};
    ///
    /// let machine = Machine::example();
    /// let found = |parked: Nanos| match parked > machine.long_sleep() {
    ///     true => WorkerState::AsleepLong,
    ///     false => WorkerState::AsleepRecently,
    /// };
    /// assert_eq!(found(machine.park()), WorkerState::AsleepRecently);
    /// assert_eq!(found(machine.slice()), WorkerState::AsleepLong);
    /// ```
    pub fn long_sleep(&self) -> Nanos {
        Nanos(64.0 * self.wake.0)
    }

    /// CPU time to park a thread and to wake it again: a third of a wake.
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::batch::reply_spin;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.park() < machine.wake, "the rest of a wake is no CPU time");
    /// assert!(reply_spin(Nanos(0.0), &machine) < machine.park(), "to spin for longer would cost more than a park");
    /// ```
    pub fn park(&self) -> Nanos {
        Nanos(self.wake.0 / 3.0)
    }

    /// A time slice of the scheduler, which a thread that loses its CPU waits for: 256 wakes (3 to 4 ms where measured).
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let milliseconds = Machine::example().slice().as_micros() / 1000.0;
    /// assert!((1.0..10.0).contains(&milliseconds));
    /// ```
    pub fn slice(&self) -> Nanos {
        Nanos(256.0 * self.wake.0)
    }

    /// The duration of the segments in which rounds of a team are measured: 2500 claims, so that clock reads and decisions cost 0.2 %.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// // Ten reads of the clock are less than 0.3 % of a segment.
    /// let machine = Machine::example();
    /// assert!(10.0 * machine.clock().0 < 0.003 * machine.segment().0);
    /// ```
    pub fn segment(&self) -> Nanos {
        Nanos(2500.0 * self.claim.0)
    }

    /// The time over which stalls of a team's rounds are averaged: 12 time slices.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.slice().0 < 0.1 * machine.stalls().0, "one lost time slice is a small part of the average");
    /// ```
    pub fn stalls(&self) -> Nanos {
        Nanos(12.0 * self.slice().0)
    }

    /// Calls of a team up to this duration may run serially, because forming the team may cost more than it saves: 32 wakes.
    ///
    /// ```
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::example();
    /// assert!(machine.wake < machine.short_team());
    /// assert!(machine.short_team() < machine.slice());
    /// ```
    pub fn short_team(&self) -> Nanos {
        Nanos(32.0 * self.wake.0)
    }

    /// The time of a claim that costs little and delays no other member. `at_hand` is the time left in the member's own range.
    ///
    /// A sixteenth of `at_hand`, so that a member that finishes first has something to steal. Not less than 40 claims, which makes claiming
    /// cost 2.5 %; if two of that size do not fit into `at_hand`, half of it. Never less than eight claims,
    /// nor more than [`longest_claim`](Machine::longest_claim).
    ///
    /// ```
    /// use windrow_plan::Nanos;
    /// use windrow_plan::machine::Machine;
    ///
    /// let machine = Machine::guess(Nanos(10.0));
    /// let claim = |left| machine.claim_of(Nanos::micros(left));
    /// assert_eq!(claim(1e6), machine.longest_claim());
    /// assert_eq!(claim(160.0), Nanos::micros(10.0), "a sixteenth");
    /// assert_eq!(claim(0.5), Nanos::micros(0.25), "half, so that one claim is left to be stolen");
    /// ```
    pub fn claim_of(&self, at_hand: Nanos) -> Nanos {
        let unit = (40.0 * self.claim.0).min(at_hand.0 / 2.0);
        Nanos((at_hand.0 / 16.0).clamp(unit.max(8.0 * self.claim.0), self.longest_claim().0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_last_a_while_and_shrink_at_the_end() {
        let machine = Machine { claim: Nanos(10.0), ..Machine::example() };
        let claim = |at_hand| machine.claim_of(Nanos(at_hand)).0;
        assert_eq!(claim(1e9), 54_000.0);
        assert_eq!(claim(160_000.0), 10_000.0);
        assert_eq!(claim(5_000.0), 400.0);
        assert_eq!(claim(500.0), 250.0);
        assert_eq!(claim(50.0), 80.0);
    }

    #[test]
    fn what_regions_show_replaces_the_guess() {
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
        assert_eq!(machine.after_missing(WorkerState::AsleepLong, Nanos(2_000.0)), machine, "it would have come later");
        let missing = machine.after_missing(WorkerState::AsleepLong, Nanos(9_000.0));
        assert!(missing.wake > machine.wake);
    }
}
