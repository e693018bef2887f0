//! How many members to ask for.

use std::fmt;

use crate::{Alternatives, Decision, Nanos};

/// The members a team can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Free {
    /// Members wanted, the caller included.
    pub wanted: usize,
    /// CPUs the process may use.
    pub cpus: usize,
    /// Workers free and awake.
    pub idle: usize,
    /// Workers free and asleep.
    pub asleep: usize,
    /// What it takes an idle worker to come.
    pub enter_idle: Nanos,
    /// The same for one asleep.
    pub enter_asleep: Nanos,
    /// What the last call of this place in the program took; 0 if it is not known.
    pub lately: Nanos,
}

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Free { wanted, cpus, idle, asleep, .. } = self;
        write!(f, "{wanted} wanted, {idle} workers idle and {asleep} asleep, {cpus} CPUs")
    }
}

/// Members to ask for, and how long to wait for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Formation {
    /// Members, the caller included: at least 1.
    pub members: usize,
    /// The caller begins with those who are there after this time at the latest.
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

/// Medians of entering costs that a caller waits for.
const PATIENCE: f64 = 4.0;
/// And of what a call takes, if that is longer: a team that is narrower by one who comes a little later is narrower to its end.
const OF_A_CALL: f64 = 0.01;

/// How many members to ask for: those wanted, but no more than are free and no more than there are CPUs, as a team in which some wait for a
/// CPU is slower than a narrow one. (Moldable: what is chosen here is never waited for longer than `patience`.)
///
/// Entering costs are medians, and of wakes the slowest tenth took 1.4 times the median where measured; who has not come after four times
/// the median is not on its way. But for a call of many milliseconds it is worth a hundredth of that to see.
///
/// ```
/// use windrow_plan::Nanos;
/// use windrow_plan::team::{Free, formation};
///
/// let (enter_idle, enter_asleep, lately) = (Nanos(600.0), Nanos(15_000.0), Nanos(0.0));
/// let decision = formation(Free { wanted: 4, cpus: 2, idle: 1, asleep: 2, enter_idle, enter_asleep, lately });
/// assert_eq!((decision.choice.members, decision.choice.patience), (2, Nanos(2400.0)));
/// ```
pub fn formation(free: Free) -> Decision<Free, Formation> {
    let workers = free.idle.saturating_add(free.asleep);
    let members = free.wanted.min(free.cpus).min(workers.saturating_add(1)).max(1);
    let slowest = if members - 1 <= free.idle { free.enter_idle } else { free.enter_asleep };
    let patience = Nanos(if members > 1 { (PATIENCE * slowest.0).max(OF_A_CALL * free.lately.0) } else { 0.0 });
    let why = match members {
        _ if members == free.wanted => "as many as wanted",
        _ if members == free.cpus => "there are no more CPUs",
        1 if workers == 0 => "nobody is free",
        _ => "no more are free",
    };
    Decision { inputs: free, choice: Formation { members, patience }, alternatives: Alternatives::default(), why }
}
