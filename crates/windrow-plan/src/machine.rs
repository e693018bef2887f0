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
    pub fn guess(claim: Nanos) -> Machine {
        Machine { claim, line: Nanos(8.0 * claim.0), nap: Nanos(320.0 * claim.0), wake: Nanos(1600.0 * claim.0) }
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

    /// The machine after a region of duration `wall` to which no worker came: entering takes longer than that.
    #[must_use]
    pub fn after_missing(self, found: WorkerState, wall: Nanos) -> Machine {
        if wall > self.enter(found) { self.after(found, wall) } else { self }
    }

    /// What each further member adds to a region: one line transfer, or an eighth of a wake if workers have to be woken.
    pub fn step(&self, wakes: bool) -> Nanos {
        if wakes { Nanos(self.wake.0 / 8.0) } else { self.line }
    }

    /// A read of the clock.
    pub fn clock(&self) -> Nanos {
        Nanos(self.claim.0 / 2.0)
    }

    /// Below this time a sample predicts little: forty claims.
    pub fn sample(&self) -> Nanos {
        Nanos(40.0 * self.claim.0)
    }

    /// What first touches of code and data can cost after a pause: a third of a wake.
    pub fn cold(&self) -> Nanos {
        Nanos(self.wake.0 / 3.0)
    }

    /// The interval at which a serial caller decides again: 2000 claims, so that deciding costs 0.1 %.
    pub fn heartbeat(&self) -> Nanos {
        Nanos(2000.0 * self.claim.0)
    }

    /// The time between two polls inside of a claim: 40 claims, so that polls cost 2 %. It bounds the delay of a cancellation or a panic where items suddenly take
    /// longer: if they take a thousand times as long as those before, the delay is a thousand times this.
    pub fn between_polls(&self) -> Nanos {
        Nanos(40.0 * self.claim.0)
    }

    /// The interval at which a recursion reads the clock: 540 claims, so that the read and the test around it cost 1 %.
    pub fn poll(&self) -> Nanos {
        Nanos(540.0 * self.claim.0)
    }

    /// The interval at which a recursion offers work while a worker spins: 27 line transfers. An offer that is taken back costs a claim,
    /// and one that another member takes costs two line transfers.
    pub fn offer(&self) -> Nanos {
        Nanos(27.0 * self.line.0)
    }

    /// Calls shorter than this are not all timed, because two reads of the clock would be a visible part of them: 100 claims.
    pub fn short_call(&self) -> Nanos {
        Nanos(100.0 * self.claim.0)
    }

    /// A call that stays serial at a known site, without its items: four claims, until some were measured.
    pub fn short_call_itself(&self) -> Nanos {
        Nanos(4.0 * self.claim.0)
    }

    /// Items of an inner iterator that last longer than ten claims are made by nested calls: to pass one through a vector costs less than a claim.
    pub fn gathered_item(&self) -> Nanos {
        Nanos(10.0 * self.claim.0)
    }

    /// The shortest and the longest nested call that makes such items: 4 and 100 heartbeats. Calls double, so that a search makes few items too
    /// many, and the longest bounds the memory.
    pub fn gathered(&self) -> (Nanos, Nanos) {
        (Nanos(4.0 * self.heartbeat().0), Nanos(100.0 * self.heartbeat().0))
    }

    /// The longest claim: 5400 times what claiming costs. It bounds the delay of a cancellation or a panic.
    pub fn longest_claim(&self) -> Nanos {
        Nanos(5400.0 * self.claim.0)
    }

    /// The CPUs of workers that parked longer ago than this count as halted: 64 wakes.
    pub fn long_sleep(&self) -> Nanos {
        Nanos(64.0 * self.wake.0)
    }

    /// CPU time to park a thread and to wake it again: a third of a wake.
    pub fn park(&self) -> Nanos {
        Nanos(self.wake.0 / 3.0)
    }

    /// A time slice of the scheduler, which a thread that loses its CPU waits for: 256 wakes (3 to 4 ms where measured).
    pub fn slice(&self) -> Nanos {
        Nanos(256.0 * self.wake.0)
    }

    /// The duration of the segments in which rounds of a team are measured: 2500 claims, so that clock reads and decisions cost 0.2 %.
    pub fn segment(&self) -> Nanos {
        Nanos(2500.0 * self.claim.0)
    }

    /// The time over which stalls of a team's rounds are averaged: 12 time slices.
    pub fn stalls(&self) -> Nanos {
        Nanos(12.0 * self.slice().0)
    }

    /// Calls of a team up to this duration may run serially, because forming the team may cost more than it saves: 32 wakes.
    pub fn short_team(&self) -> Nanos {
        Nanos(32.0 * self.wake.0)
    }

    /// The time of a claim that costs little and delays no other member. `at_hand` is the time left in the member's own range.
    ///
    /// A sixteenth of `at_hand`, so that a member that finishes first has something to steal. Not less than 40 claims, which makes claiming
    /// cost 2.5 %; if two of that size do not fit into `at_hand`, half of it. Never less than eight claims,
    /// nor more than [`longest_claim`](Machine::longest_claim).
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
