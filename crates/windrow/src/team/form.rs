//! How a team forms: its width, the wait for its members, and its end.

use std::cell::Cell;
use std::panic::Location;
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::share::{self, Formation};
use windrow_plan::team::{Mode, Waits};
use windrow_sync::gate::WorkerCounts;
use windrow_sync::machine::tick;
use windrow_sync::rounds::{MemberSlot, Rounds};
use windrow_sync::unwind::Finally;
use windrow_sync::{Mutex, Spin};

use super::driver::{RoundDriver, RoundSite, end_team};
use super::member::{LeaderState, Member};
use super::{Team, TeamError, TeamErrorKind, Width, WidthKind};
use crate::runtime::call::{Entered, region};
use crate::runtime::listen::{self, CallKind, EventKind, Region, Reported};
use crate::runtime::sites::TeamStats;
use crate::runtime::state::PoolState;

/// Runs a team that was called at `place`.
pub(super) fn run<T, F, R>(
    pool: &PoolState,
    place: &'static Location<'static>,
    team: Team<'_, T>,
    member: &F,
) -> Result<Vec<R>, TeamError>
where
    T: ?Sized + Send,
    F: Fn(&mut Member<'_, '_, T>) -> R + Sync,
    R: Send,
{
    let code =
        attend::<T, F, R> as fn(&F, &PoolState, MemberSlot<'_, LeaderState<'_, T>>, Spin) -> R as *const () as usize;
    let (begun, call) = (tick(), Entered::new(CallKind::Team, Some(place)));
    let site = call.site(code, 1);
    let Team { data, width } = team;
    let round_site = RoundSite { sites: &pool.sites, site, timing: &pool.timing };
    let driver = RoundDriver::new(round_site, call.reported.as_ref().map(|_| place));
    let led = &mut LeaderState { driver, data };
    let refuse = |reported: Option<Box<Reported>>, refused: TeamError| {
        reported.into_iter().for_each(|reported| reported.end_because("refused"));
        Err(refused)
    };
    let asked = match ask(pool, width, site, begun) {
        Ok(asked) => asked,
        Err(refused) => return refuse(call.reported, refused),
    };
    let Asked { formation: Formation { members, patience }, least, reason, mode, rests } = asked;
    let (results, ended) = if members == 1 {
        (vec![attend(member, pool, Rounds::single(led).slot(), Spin::NONE)], None)
    } else {
        let rounds = Rounds::new(led, members);
        let results: Vec<_> = (0..members).map(|_| Mutex::new(None)).collect();
        let waits = Waits::of(pool.guess());
        let come = |mut slot: MemberSlot<'_, LeaderState<'_, T>>| {
            let width = slot.width(pool.settle);
            if width >= least {
                let at = slot.index();
                let _part = listen::begun(EventKind::Part(CallKind::Team), Some(place));
                let result = attend(member, pool, slot, spin(pool, width, &waits));
                *results[at].lock() = Some(result);
            }
            width
        };
        let work = |_, _| rounds.join().into_iter().for_each(|slot| _ = come(slot));
        let lacks = Cell::new(None);
        let (found, end) = region(pool, &Region::new(CallKind::Team, Some(place), None), work, |door| {
            let slot = rounds.join();
            // Also if the caller panics: members may wait for the width.
            let forming = Finally(|| _ = rounds.form());
            if door.open(members, members > pool.workers().idle + 1) {
                // A yield costs time slices beside busy processes. Only a team of exact width must let workers run on this CPU.
                let (joins, patience) = (pool.ticks(waits.joins), pool.ticks(patience));
                let until = match least {
                    1 => Spin { busy: joins.max(patience), yielding: 0 },
                    _ => Spin { busy: joins, yielding: patience },
                };
                let all = || rounds.joined() == members;
                // (A worker that is inside without a slot is about to take one.)
                let fails = || {
                    if least > 1 {
                        // The state is read first. A worker that joined before counts as inside, a worker that joins later as outside.
                        let lack = lack(pool.nanos(tick().saturating_sub(begun)), pool.gate.state(), waits.elsewhere);
                        lacks.set(lack.filter(|_| door.inside() < rounds.joined()));
                    }
                    lacks.get().is_some()
                };
                if !until.until(|| all() || fails()) && least > 1 {
                    // Sleep, since further yields may keep the awaited worker from running.
                    while !all() && !fails() {
                        std::thread::sleep(Duration::from_nanos(waits.nap.0 as u64));
                    }
                }
            }
            drop(forming);
            slot.map_or(0, come)
        });
        if found < least {
            let closed = if pool.gate.is_stopped() { TeamErrorKind::Closed } else { TeamErrorKind::Busy };
            let kind = lacks.get().unwrap_or(closed);
            return refuse(call.reported, TeamError { wanted: least, found, threads: pool.members, kind });
        }
        (results.into_iter().filter_map(Mutex::into_inner).collect(), end.at)
    };
    if let Some(mode) = mode {
        let elapsed = pool.nanos(ended.unwrap_or_else(tick).saturating_sub(begun));
        if let Some(mut stats) = pool.sites.team(site) {
            let are_serial = !led.driver.mixed && stats.widths.is_serial(results.len());
            let may_be_serial = mode == Mode::Serial || are_serial || elapsed < pool.guess().long_sleep();
            if rests {
                stats.widths = stats.widths.rested(elapsed);
            } else {
                stats.calls = stats.calls.of(led.driver.rounds, stats.rounds).after(mode, elapsed, may_be_serial);
            }
            (stats.took, stats.rounds) = (elapsed, led.driver.rounds);
        }
    }
    if let Some(reported) = call.reported {
        end_team(*reported, results.len(), reason, &led.driver);
    }
    Ok(results)
}

/// One member's part in a team. A separate function, because its address is part of the site.
#[inline(never)]
fn attend<T, F, R>(member: &F, pool: &PoolState, slot: MemberSlot<'_, LeaderState<'_, T>>, spin: Spin) -> R
where
    T: ?Sized + Send,
    F: Fn(&mut Member<'_, '_, T>) -> R,
{
    member(&mut Member { slot, spin, pool, moved: 0 })
}

/// The team to form.
struct Asked {
    formation: Formation,
    /// Members without which it is refused.
    least: usize,
    reason: &'static str,
    /// How the call counts in the comparison of serial calls and teams; `None` if it is not compared.
    mode: Option<Mode>,
    /// The call runs without a team, because of a stall in an earlier one.
    rests: bool,
}

impl Asked {
    /// A team whose width was given.
    fn of(formation: Formation, least: usize) -> Self {
        Asked { formation, least, reason: AS_ASKED, mode: None, rests: false }
    }
}

/// The team to ask for, in a call that begins `now`.
fn ask(pool: &PoolState, width: Width, site: usize, now: u64) -> Result<Asked, TeamError> {
    match width.0 {
        WidthKind::Exactly(0 | 1) => Ok(Asked::of(Formation::ALONE, 1)),
        // A team of exact width also waits for threads that have just been started.
        WidthKind::Exactly(wanted) => {
            let WorkerCounts { busy, idle, asleep, absent } = pool.gate.state();
            let (free, absent) = if busy { (1, 0) } else { (1 + idle + asleep, absent) };
            let kind = match () {
                () if wanted > pool.members => TeamErrorKind::TooWide,
                () if !pool.is_of_this_process() => TeamErrorKind::Forked,
                () if pool.gate.is_stopped() => TeamErrorKind::Closed,
                () if wanted > free + absent => TeamErrorKind::Busy,
                () => {
                    let formation = Formation { members: wanted, patience: Waits::of(pool.guess()).yields };
                    return Ok(Asked::of(formation, wanted));
                }
            };
            let found = if pool.is_of_this_process() { free.min(pool.members) } else { 1 };
            Err(TeamError { wanted, found, threads: pool.members, kind })
        }
        WidthKind::AtMost(wanted) => {
            let stats = if wanted > 1 { pool.sites.recall_team(site) } else { TeamStats::default() };
            let rests = stats.widths.rests(stats.rounds, pool.timing.nanos(now));
            let mode = if rests { Mode::Serial } else { stats.calls.choose() };
            let (lately, workers) = (stats.took, pool.workers());
            let (formation, reason) = share::team(share::Team { wanted, mode, lately, workers }, &pool.costs(now));
            let mode = (mode == Mode::Serial || formation.members > 1).then_some(mode);
            let reason = if rests { "serial: members of earlier teams at this site were stalled" } else { reason };
            Ok(Asked { formation, least: 1, reason, mode, rests })
        }
    }
}

pub(super) const AS_ASKED: &str = "the width was given";

/// Why a team that has `waited` for members gives up, from the states of the workers outside the team.
fn lack(waited: Nanos, workers: WorkerCounts, elsewhere: Nanos) -> Option<TeamErrorKind> {
    match workers.idle + workers.asleep + workers.absent {
        0 if waited > elsewhere => Some(TeamErrorKind::Busy),
        1.. if waited > EXACTLY => Some(TeamErrorKind::Late),
        _ => None,
    }
}

/// How long a team of exact width waits for free workers. On a machine with a busy neighbour a worker needed more
/// than 1 s. A longer wait for a CPU is not worth it.
///
/// Measure: chosen, because a program that asks for an exact team would rather wait than be refused.
pub(super) const EXACTLY: Nanos = Nanos(10e9);

/// Times for which a waiting member of a team of `width` spins, and then yields its CPU, before it parks.
fn spin(pool: &PoolState, width: usize, waits: &Waits) -> Spin {
    // With more members than CPUs, the awaited member may need this CPU. For a crossing, four members on two CPUs took 1.0 us
    // without spinning, 1.5 us with 0.1 us of spinning, 2 us with more.
    let busy = if width > pool.workers().most { Nanos(0.0) } else { waits.spins };
    Spin { busy: pool.ticks(busy), yielding: pool.ticks(waits.then_yields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A team waits for free workers even if a busy machine delays them for seconds.
    #[test]
    fn a_team_of_exact_width_waits_for_workers_that_can_come() {
        let state = |idle, asleep, absent| WorkerCounts { busy: false, idle, asleep, absent };
        let seconds = |seconds: f64| Nanos(seconds * 1e9);
        for some in [state(1, 0, 0), state(0, 1, 0), state(0, 0, 1)] {
            assert_eq!(lack(seconds(2.0), some, seconds(1e-3)), None, "{some:?}");
            assert_eq!(lack(seconds(11.0), some, seconds(1e-3)), Some(TeamErrorKind::Late), "{some:?}");
        }
        assert_eq!(lack(seconds(0.0), state(0, 0, 0), seconds(1e-3)), None);
        assert_eq!(lack(seconds(0.1), state(0, 0, 0), seconds(1e-3)), Some(TeamErrorKind::Busy));
    }
}
