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

/// Members to ask for, and how long to wait for them.
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

/// The caller waits for so many medians of the entering cost.
const PATIENCE: f64 = 4.0;
/// If longer, it waits for this share of the call's duration: a team that starts without a slightly late member stays narrower until
/// the end.
const OF_A_CALL: f64 = 0.01;

/// How many members to ask for: those wanted, but not more than are free or than there are CPUs. A team in which members wait for a CPU
/// is slower than a narrow one. (The team is moldable: the caller never waits for longer than `patience`.)
///
/// Entering costs are medians. The slowest tenth of wakes took 1.4 times the median where measured, so a worker that has not come after
/// four times the median is not on its way. For a call of many milliseconds, waiting for a hundredth of its duration is still worth it.
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
        1 if workers == 0 => "no worker is free",
        _ => "no more are free",
    };
    Decision { inputs: free, choice: Formation { members, patience }, alternatives: Alternatives::default(), why }
}
