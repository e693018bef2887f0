//! How long an idle worker looks for work before it sleeps.
//!
//! Looking makes the next region start 40 times sooner and burns a CPU while nothing comes. It is out of place when somebody
//! else needs that CPU: more threads than CPUs, or a quota that counts CPU time (dotnet/runtime issue 112869).

use std::fmt;

use crate::{Alternatives, Decision, Nanos};

/// What is known of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Threads of the pool, a caller included.
    pub threads: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// CPU seconds a second that a quota allows.
    pub quota: Option<f64>,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} threads on {} CPUs", self.threads, self.cpus)?;
        match self.quota {
            Some(quota) => write!(f, ", quota {quota:.2}"),
            None => Ok(()),
        }
    }
}

/// The budget for looking; zero means to sleep at once.
pub fn budget(room: Room) -> Decision<Room, Nanos> {
    // A sleep and wake cost about 30 us (2-core x86-64 virtual machine, 2026-11): looking for more than about twice that can
    // lose more than it saves.
    const LOOK: Nanos = Nanos(50_000.0);
    let decided = |choice, why| Decision { inputs: room, choice, alternatives: Alternatives::default(), why };
    if room.threads > room.cpus {
        return decided(Nanos(0.0), "there are more threads than CPUs");
    }
    if room.quota.is_some_and(|quota| quota < room.cpus as f64) {
        return decided(Nanos(0.0), "a quota counts the time spent looking");
    }
    decided(LOOK, "every thread has a CPU")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_at_the_expense_of_others() {
        let choice = |threads, cpus, quota| budget(Room { threads, cpus, quota }).choice.0;
        assert!(choice(2, 2, None) > 0.0);
        assert!(choice(2, 2, Some(4.0)) > 0.0);
        assert_eq!(choice(4, 2, None), 0.0);
        assert_eq!(choice(2, 2, Some(1.5)), 0.0);
        let shown = budget(Room { threads: 2, cpus: 2, quota: Some(1.5) }).to_string();
        assert_eq!(shown, "0 ns: a quota counts the time spent looking (2 threads on 2 CPUs, quota 1.50)");
    }
}
