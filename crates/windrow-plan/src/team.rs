//! Team: number of members to ask for, and the choice not to ask.
//!
//! ```text
//! members  = min(wanted, CPUs, free workers + the caller)
//! patience = 4 medians of the cost of entering
//! ask for members; start when all have joined or patience is over, with those that have joined
//! ```
//!
//! Departures from these lines:
//! 1. **Long calls wait longer**: for 1 % of the call's duration, if that is more ([`formation`]).
//! 2. **Short calls may run serially**, because the caller waits for members to join and to leave ([`TeamCalls`]).
//!
//! [`Waits`] has the other thresholds of a team: the times for which its callers and members spin, yield and park.

mod calls;

use std::fmt;

pub use self::calls::{Mode, TeamCalls};
use crate::machine::{Machine, WorkerState};
use crate::{Alternatives, Decision, Nanos};

/// The members a team can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Free {
    /// Members wanted, the caller included.
    pub wanted: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// Free workers that are awake.
    pub idle: usize,
    /// Free workers that are parked.
    pub asleep: usize,
    /// Time until an idle worker joins.
    pub enter_idle: Nanos,
    /// The same for a parked worker.
    pub enter_asleep: Nanos,
    /// Duration of the last call from this call site; 0 is unknown.
    pub lately: Nanos,
}

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Free { wanted, cpus, idle, asleep, .. } = self;
        write!(f, "{wanted} wanted, {idle} workers idle and {asleep} asleep, {cpus} CPUs")
    }
}

/// Members to ask for, and the longest wait for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formation {
    /// Members, the caller included: 1 or more.
    pub members: usize,
    /// The caller starts with the members that have joined after this time.
    pub patience: Nanos,
}

impl fmt::Display for Formation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.members {
            1 => write!(f, "the caller alone"),
            members => write!(f, "{members} members, waiting {} for them", self.patience),
        }
    }
}

/// The caller waits for this many medians of the cost of entering.
///
/// Measure: 4 naps or wakes, the median ones.
const PATIENCE: f64 = 4.0;
/// If that is longer, the caller waits for this share of the call's duration: a team that starts without a slightly late member stays
/// narrower until the end.
///
/// Measure: 0.01 calls.
const OF_A_CALL: f64 = 0.01;

/// The members to ask for: those wanted, but not more than are free, nor more than the CPUs. A team in which members wait for a CPU
/// is slower than a narrow one. (The team is moldable: the caller never waits for longer than `patience`.)
///
/// The costs of entering are medians. The slowest tenth of wakes took 1.4 times the median where measured. So a worker that has not joined
/// after four medians is not on its way. For a call of many milliseconds it is worth waiting for a hundredth of its duration.
pub fn formation(free: Free) -> Decision<Free, Formation> {
    let workers = free.idle.saturating_add(free.asleep);
    let members = free.wanted.min(free.cpus).min(workers.saturating_add(1)).max(1);
    let slowest = if members - 1 <= free.idle { free.enter_idle } else { free.enter_asleep };
    let patience = Nanos(if members > 1 { patience(slowest).0.max(OF_A_CALL * free.lately.0) } else { 0.0 });
    let why = match members {
        _ if members == free.wanted => "as many as wanted",
        _ if members == free.cpus => "there are no more CPUs",
        1 if workers == 0 => "no worker is free",
        _ => "no more are free",
    };
    Decision { inputs: free, choice: Formation { members, patience }, alternatives: Alternatives::default(), why }
}

/// The wait for members that take about `enter` to join.
fn patience(enter: Nanos) -> Nanos {
    Nanos(PATIENCE * enter.0)
}

/// The times for which the threads of a team wait for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Spinning time of a forming caller: that in which idle workers join. For members that join later it yields its CPU, until its
    /// patience is over.
    pub joins: Nanos,
    /// Yielding time of a forming caller whose team must have an exact width; then it sleeps. As long as stalls are remembered.
    pub yields: Nanos,
    /// Duration of such a sleep: that after which CPUs halt.
    pub nap: Nanos,
    /// A worker that is neither idle nor parked for this time counts as a member of another call: that after which CPUs halt.
    pub elsewhere: Nanos,
    /// Spinning time of a member at a barrier: that of an [offer](Machine::offer). In that time members on separate CPUs cross a barrier several
    /// times. A member that yields sooner may lose a time slice to another process. (Beside a busy process, two members took 0.5 to 2 ms for a
    /// crossing if they spun for 0.1 us. They took 0.1 to 0.2 us if they spun for 1 us.)
    pub spins: Nanos,
    /// Yielding time of the member afterwards: a [turn](Machine::turn). Then a park is cheaper.
    pub then_yields: Nanos,
    /// The minimum time between two moves of a member to another CPU: 3 time slices. That is long relative to the four system calls of a
    /// move, and short relative to the time that two members lose on one CPU.
    pub stays: Nanos,
    /// Spinning time of a waiting task while the other members are running: a [turn](Machine::turn), in which another thread of an executor can
    /// wake up and take a task.
    pub task_spins: Nanos,
    /// Spinning time of a waiting task whose last spin was useless: a claim.
    pub task_spins_briefly: Nanos,
    /// Pause after a useless spin: a time slice, so that useless spins take no more than 3 % of the time.
    pub task_rests: Nanos,
}

impl Waits {
    /// The multiples of this machine's primitives.
    pub fn of(machine: &Machine) -> Waits {
        Waits {
            joins: patience(machine.enter(WorkerState::Idle)),
            yields: machine.stalls(),
            nap: machine.long_sleep(),
            elsewhere: machine.long_sleep(),
            spins: machine.offer(),
            then_yields: machine.turn(),
            stays: Nanos(3.0 * machine.slice().0),
            task_spins: machine.turn(),
            task_spins_briefly: machine.claim,
            task_rests: machine.slice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_team_is_formed_from_free_workers(wanted in 0..100usize, cpus in 1..100usize, idle in 0..100usize, asleep in 0..100usize) {
            let (enter_idle, enter_asleep, lately) = (Nanos(600.0), Nanos(15_000.0), Nanos(0.0));
            let free = Free { wanted, cpus, idle, asleep, enter_idle, enter_asleep, lately };
            let Formation { members, patience } = formation(free).choice;
            prop_assert!(members >= 1 && members <= wanted.max(1) && members <= cpus && members <= 1 + idle + asleep);
            prop_assert_eq!(patience.0 > 0.0, members > 1);
            let more = formation(Free { asleep: asleep + 1, ..free }).choice;
            prop_assert!(more.members >= members && more.members <= members + 1);
        }
    }

    /// A member whose CPU another process takes now and then moves away, and soon enough if that process stays.
    #[test]
    fn members_move_seldom_and_leave_a_shared_cpu_soon() {
        let machine = Machine::example();
        let Waits { stays, task_spins, task_rests, .. } = Waits::of(&machine);
        // The four system calls and the cold caches of a move: ten wakes. Two members on one CPU lose a slice each time that they change over.
        let moving = 10.0 * machine.wake.0 / stays.0;
        assert!(moving < 0.02, "{moving} of the time of a member that moves as often as it may");
        assert!(stays.0 / machine.slice().0 < 5.0, "two members change over a few times before one of them moves");
        let useless = task_spins.0 / (task_spins.0 + task_rests.0);
        assert!(useless < 0.04, "{useless} of the time of an executor's thread");
    }

    #[test]
    fn a_team_waits_as_long_as_joining_takes() {
        let free = |wanted, idle, asleep| Free {
            wanted,
            cpus: 4,
            idle,
            asleep,
            enter_idle: Nanos(600.0),
            enter_asleep: Nanos(15_000.0),
            lately: Nanos(100_000.0),
        };
        let formed = |free| formation(free).to_string();
        assert_eq!(
            formed(free(2, 1, 2)),
            "2 members, waiting 2.4 us for them: as many as wanted (2 wanted, 1 workers idle and 2 asleep, 4 CPUs)"
        );
        assert_eq!(formation(free(3, 1, 2)).choice, Formation { members: 3, patience: Nanos(60_000.0) });
        let long = Free { lately: Nanos(20e6), ..free(2, 1, 2) };
        assert_eq!(formation(long).choice, Formation { members: 2, patience: Nanos(200_000.0) });
        assert_eq!(formation(free(8, 9, 0)).why, "there are no more CPUs");
        assert_eq!(formation(free(4, 1, 1)).why, "no more are free");
        assert_eq!(formation(free(4, 0, 0)).why, "no worker is free");
        assert_eq!(formation(free(4, 0, 0)).choice.to_string(), "the caller alone");
    }
}
