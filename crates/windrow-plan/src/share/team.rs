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

use super::{Costs, Workers};
use crate::Nanos;
use crate::team::Mode;

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

/// The caller waits for this many medians of the cost of entering.
///
/// Measure: 4 naps or wakes, the median ones.
pub(crate) const PATIENCE: f64 = 4.0;
/// If that is longer, the caller waits for this share of the call's duration: a team that starts without a slightly late member stays
/// narrower until the end.
///
/// Measure: 0.01 calls.
const OF_A_CALL: f64 = 0.01;

/// The members to ask for, and the reason: those wanted, but not more than are free, nor more than the CPUs. A team in which members wait for a CPU
/// is slower than a narrow one. (The team is moldable: the caller never waits for longer than `patience`.)
///
/// The costs of entering are medians. The slowest tenth of wakes took 1.4 times the median where measured. So a worker that has not joined
/// after four medians is not on its way. For a call of many milliseconds it is worth waiting for a hundredth of its duration.
pub fn team(team: Team, costs: &Costs) -> (Formation, &'static str) {
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
    (if is_alone { Formation::ALONE } else { Formation { members, patience } }, why)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Machine;

    fn given(wanted: usize, most: usize, idle: usize, asleep: usize, lately: f64) -> Team {
        let workers = Workers { most, idle, asleep, busy: false };
        Team { wanted, mode: Mode::Team, lately: Nanos(lately), workers }
    }

    fn formed(given: Team) -> (Formation, &'static str) {
        team(given, &Costs::new(Machine::example()))
    }

    proptest! {
        #[test]
        fn a_team_is_formed_from_free_workers(wanted in 0..100usize, cpus in 1..100usize, idle in 0..100usize, asleep in 0..100usize) {
            let (Formation { members, patience }, _) = formed(given(wanted, cpus, idle, asleep, 0.0));
            prop_assert!(members >= 1 && members <= wanted.max(1) && members <= cpus && members <= 1 + idle + asleep);
            prop_assert_eq!(patience.0 > 0.0, members > 1);
            let (more, _) = formed(given(wanted, cpus, idle, asleep + 1, 0.0));
            prop_assert!(more.members >= members && more.members <= members + 1);
        }
    }

    #[test]
    fn a_team_waits_as_long_as_joining_takes() {
        let two = given(2, 4, 1, 2, 100e3);
        let waits = |given: Team| (formed(given).0.members, formed(given).0.patience.0);
        assert_eq!((waits(two), formed(two).1), ((2, 2_400.0), "as many as wanted"));
        assert_eq!(waits(given(3, 4, 1, 2, 100e3)), (3, 60_000.0));
        assert_eq!(waits(given(2, 4, 1, 2, 20e6)), (2, 200_000.0));
        assert_eq!(formed(given(8, 4, 9, 0, 100e3)).1, "there are no more CPUs");
        assert_eq!(formed(given(4, 4, 1, 1, 100e3)).1, "no more are free");
        assert_eq!(formed(given(4, 4, 0, 0, 100e3)), (Formation::ALONE, "no worker is free"));
        assert_eq!(formed(Team { mode: Mode::Serial, ..two }).0, Formation::ALONE);
        let busy = Workers { busy: true, ..two.workers };
        assert_eq!(formed(Team { workers: busy, ..two }), (Formation::ALONE, "no worker is free"));
    }
}
