//! Team: the times for which its callers and members spin, yield and park, and the memory of its calls. Its members: [`share::team`](crate::share::team).

mod calls;

pub use self::calls::{Mode, TeamCalls};
use crate::Nanos;
use crate::machine::{Machine, WorkerState};
use crate::share::PATIENCE;

/// The times for which the threads of a team wait for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Spinning time of a forming caller: that in which idle workers join. For members that join later it spins until its patience is over.
    /// A yield next to busy processes would cost a time slice of each; a caller whose team must have an exact width yields.
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
            joins: Nanos(PATIENCE * machine.enter(WorkerState::Idle).0),
            yields: machine.stalls(),
            nap: machine.long_sleep(),
            elsewhere: machine.long_sleep(),
            spins: machine.offer(),
            then_yields: machine.turn(),
            stays: Nanos(3.0 * machine.slice.0),
            task_spins: machine.turn(),
            task_spins_briefly: machine.claim,
            task_rests: machine.slice,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member whose CPU another process takes now and then moves away, and soon enough if that process stays.
    #[test]
    fn members_move_seldom_and_leave_a_shared_cpu_soon() {
        let machine = Machine::example();
        let Waits { stays, task_spins, task_rests, .. } = Waits::of(&machine);
        // The four system calls and the cold caches of a move: ten wakes. Two members on one CPU lose a slice each time that they change over.
        let moving = 10.0 * machine.wake.0 / stays.0;
        assert!(moving < 0.02, "{moving} of the time of a member that moves as often as it may");
        assert!(stays.0 / machine.slice.0 < 5.0, "two members change over a few times before one of them moves");
        let useless = task_spins.0 / (task_spins.0 + task_rests.0);
        assert!(useless < 0.04, "{useless} of the time of an executor's thread");
    }
}
