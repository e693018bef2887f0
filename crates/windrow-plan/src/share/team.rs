//! Team: number of members to ask for, and the choice not to ask.
//!
//! ```text
//! members  = min(wanted, CPUs, free workers + the caller)
//! patience = 4 medians of the cost of entering
//! ask for members; start when all have joined or patience is over, with those that have joined
//! ```
//!
//! Departures from these lines:
//! 1. **Long calls wait longer**: for 1 % of the call's duration, if that is more.
//! 2. **Short calls may run serially**, because the caller waits for members to join and to leave ([`TeamCalls`](crate::team::TeamCalls)).

use std::fmt;

use super::{Costs, Workers};
use crate::team::Mode;
use crate::{Alternatives, Decision, Nanos};

/// A team that is to be formed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Team {
    /// Members wanted, the caller included.
    pub wanted: usize,
    /// The faster mode of such calls, or the one to be tried now.
    pub mode: Mode,
    /// Duration of the last call from this call site; 0 is unknown.
    pub lately: Nanos,
    /// The members that it can have.
    pub workers: Workers,
}

impl fmt::Display for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Team { wanted, workers: Workers { most, idle, asleep, .. }, .. } = self;
        write!(f, "{wanted} wanted, {idle} workers idle and {asleep} asleep, {most} CPUs")
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

impl Formation {
    /// The caller without workers.
    pub const ALONE: Formation = Formation { members: 1, patience: Nanos(0.0) };
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
pub(crate) const PATIENCE: f64 = 4.0;
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
pub fn team(team: Team, costs: &Costs) -> Decision<Team, Formation> {
    let Team { wanted, mode, lately, workers } = team;
    let free = if workers.busy { 0 } else { workers.idle.saturating_add(workers.asleep) };
    let members = wanted.min(workers.most).min(free.saturating_add(1)).max(1);
    let enter = costs.enter(members - 1 > workers.idle);
    let patience = Nanos((PATIENCE * enter.0).max(OF_A_CALL * lately.0));
    let why = match members {
        _ if mode == Mode::Serial => "serial: such calls were faster without other members",
        _ if members == wanted => "as many as wanted",
        _ if members == workers.most => "there are no more CPUs",
        1 if free == 0 => "no worker is free",
        _ => "no more are free",
    };
    let is_alone = members == 1 || mode == Mode::Serial;
    let choice = if is_alone { Formation::ALONE } else { Formation { members, patience } };
    Decision { inputs: team, choice, alternatives: Alternatives::default(), why }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Machine;

    fn formed(wanted: usize, most: usize, idle: usize, asleep: usize, lately: f64) -> Decision<Team, Formation> {
        let workers = Workers { most, idle, asleep, busy: false };
        let given = Team { wanted, mode: Mode::Team, lately: Nanos(lately), workers };
        team(given, &Costs::new(Machine::example()))
    }

    proptest! {
        #[test]
        fn a_team_is_formed_from_free_workers(wanted in 0..100usize, cpus in 1..100usize, idle in 0..100usize, asleep in 0..100usize) {
            let Formation { members, patience } = formed(wanted, cpus, idle, asleep, 0.0).choice;
            prop_assert!(members >= 1 && members <= wanted.max(1) && members <= cpus && members <= 1 + idle + asleep);
            prop_assert_eq!(patience.0 > 0.0, members > 1);
            let more = formed(wanted, cpus, idle, asleep + 1, 0.0).choice;
            prop_assert!(more.members >= members && more.members <= members + 1);
        }
    }

    #[test]
    fn a_team_waits_as_long_as_joining_takes() {
        let decision = formed(2, 4, 1, 2, 100e3);
        assert_eq!(
            decision.to_string(),
            "2 members, waiting 2.4 us for them: as many as wanted (2 wanted, 1 workers idle and 2 asleep, 4 CPUs)"
        );
        assert_eq!(formed(3, 4, 1, 2, 100e3).choice, Formation { members: 3, patience: Nanos(60_000.0) });
        assert_eq!(formed(2, 4, 1, 2, 20e6).choice, Formation { members: 2, patience: Nanos(200_000.0) });
        assert_eq!(formed(8, 4, 9, 0, 100e3).why, "there are no more CPUs");
        assert_eq!(formed(4, 4, 1, 1, 100e3).why, "no more are free");
        let none = formed(4, 4, 0, 0, 100e3);
        assert_eq!((none.why, none.choice.to_string()), ("no worker is free", "the caller alone".to_owned()));
        let costs = Costs::new(Machine::example());
        assert_eq!(team(Team { mode: Mode::Serial, ..decision.inputs }, &costs).choice, Formation::ALONE);
        let busy = Workers { busy: true, ..decision.inputs.workers };
        assert_eq!(team(Team { workers: busy, ..decision.inputs }, &costs).why, "no worker is free");
    }
}
