//! Teams: members that run rounds in lockstep.
//!
//! Use a team for a parallel loop inside a sequential loop: decompositions, time steps, relaxations. Entering and leaving a pool in
//! every round costs more than many rounds are worth. A *team* enters once, and has one barrier between its rounds. The barrier owns the
//! data. The last member to arrive has exclusive access to it, and deals each member a part and a copy of a shared value.
//!
//! ```
//! use windrow::team::split;
//!
//! // Every element is added to all that come after it.
//! let mut x = vec![1.0_f64; 1000];
//! let n = x.len();
//! windrow::team(&mut x[..]).run(|member| {
//!     member.rounds::<f64, &mut [f64]>(
//!         0..n,
//!         // One member, with all of the data: it deals the parts, and returns the shared value.
//!         |x, i, deal| {
//!             let (head, tail) = x[i..].split_first_mut().unwrap();
//!             deal.parts(split::even(tail, deal.width()));
//!             *head
//!         },
//!         // Each member, with its part.
//!         |_, head, mine| mine.iter_mut().for_each(|element| *element += head),
//!     )
//! });
//! assert_eq!(x[..4], [1.0, 2.0, 4.0, 8.0]);
//! ```
//!
//! # Protocol
//! 1. *Form.* The caller invites free workers, and fixes the width when all of them have joined. It waits at most a few times the usual
//!    joining time (or a hundredth of the time of this site's last team, if that is longer). A nested team, or one of many concurrent teams,
//!    may be the caller alone. Such a team is a plain loop. The split always gets the actual width.
//! 2. *Round.* Each member arrives ([`Member::round`]). The last one runs the closure that splits the data. Then all members have their
//!    parts until they arrive again. Any control flow around rounds works, as long as all members run the same rounds.
//! 3. *End.* When the members have returned, the team's threads are free again. A member that returns or panics while others still run
//!    rounds ends the team: the next round of the others returns [`Ended`]. A panic reaches the caller with its payload.
//!
//! The page of [`windrow_sync::rounds`] has the details, and why callers need no unsafe code.
//!
//! # How many members a round gets
//! [`Member::round`] always gets all members. [`Member::rounds`] asks `windrow_plan::width` for a width about every 25
//! microseconds. Fewer members, down to one, run rounds that are too short for their barrier, or that lose a CPU to a busy process. The
//! other members wait and soon park. Other widths are explored now and then, in at most 1 % of the time. The call site keeps the results.
//! `AsyncMember::rounds` does the same for tasks, with no more members than CPUs.
//!
//! Calls of less than half a millisecond are also compared as a whole: serial against team. So are longer calls if their rounds run best on
//! one member. Forming a team takes some microseconds. If the other members save less than that, the caller runs alone. Such a call took
//! 0.5 to 1.4 us more than the plain loop (`bench/record`, decompose).
//!
//! # Trade-offs, and when not to use a team
//! * If the order of the work does not matter, use a parallel iterator: it balances the load. A round does not: its parts are dealt once, and
//!   all members wait for the slowest.
//! * A round is worth its barrier if half of the round takes longer than a crossing of the barrier. On two free cores of a virtual machine a
//!   crossing took 0.1 us at best, and 0.4 us at other times (`bench/record`, barriers). For shorter rounds, [`rounds`](Member::rounds) is as
//!   fast as a loop; [`round`](Member::round) is not.
//! * Members wait at the barrier, so a member that blocks (on locks, files, channels) blocks all members. For tasks that must not hold a
//!   thread while they wait, use an `AsyncTeam` (feature `async-team`).
//! * If two parts share a cache line, it moves between the members in every round. [`split::lines`] cuts between lines: rounds of 14 us
//!   took 0.55 of serial, and 0.59 with [`split::even`] (two members).
//! * Lent values must not borrow from the closure that splits, and the types in `round::<S, P>` must be written out. That is the price of
//!   an interface without unsafe code and macros.
//!
//! # Source
//! Barriers instead of a pool's tasks, exclusive access for one member, and an async variant are ideas of Sarah El
//! Kazdadi (`syncthreads`). Teams that take the free workers are OpenMP's dynamic teams and spindle's. Gangs whose members are
//! reserved at once go back to Ousterhout.

use std::cell::Cell;
use std::ops::Range;
use std::panic::Location;
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::team::{Formation, Free, Mode, Waits, formation};
use windrow_sync::Mutex;
use windrow_sync::Spin;
use windrow_sync::gate::{JoinedWorker, WorkerCounts};
use windrow_sync::machine::tick;
use windrow_sync::rounds::{MemberSlot, Rounds, Turn};

use crate::runtime::listen::{self, CallKind, EventKind, Region, Reported};
use crate::runtime::pool;
use crate::runtime::sites::{TeamStats, site};
use crate::runtime::state::PoolState;

mod driver;
pub mod split;
#[cfg(feature = "async-team")]
mod tasks;

#[cfg(feature = "async-team")]
pub use tasks::{AsyncMember, AsyncTeam};
pub use windrow_sync::rounds::{Contributions, Deal, Ended, Family, Lend, Lent, Mut, Own, Ref};

use driver::{OVER, RoundDriver, RoundSite, end_team, follow};

/// The number of members that a team asks for.
///
/// ```
/// use windrow::{Pool, Width, team};
/// let width = |width| Pool::new(2).install(|| team(&mut ()).width(width).run(|_| ()).len());
/// assert_eq!(width(Width::exactly(2)), 2);
/// assert_eq!(width(Width::at_most(1)), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(WidthKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WidthKind {
    AtMost(usize),
    Exactly(usize),
}

impl Width {
    /// All free workers, but no more members than the process may use CPUs. This is the default.
    ///
    /// ```
    /// use windrow::{Pool, Width, team};
    /// let members = Pool::new(2).install(|| team(&mut ()).width(Width::all()).run(|member| member.width()));
    /// // The other thread of the pool may be late.
    /// assert!(members == [1] || members == [2, 2]);
    /// ```
    pub const fn all() -> Width {
        Width(WidthKind::AtMost(usize::MAX))
    }

    /// All free workers, but at most this many members. (0 means 1: the caller is always a member.)
    ///
    /// ```
    /// use windrow::{Width, team};
    /// let members = team(&mut ()).width(Width::at_most(2)).run(|member| member.width());
    /// assert!((1..=2).contains(&members.len()));
    /// assert_eq!(Width::at_most(2), Width::from(2));
    /// ```
    pub const fn at_most(members: usize) -> Width {
        Width(WidthKind::AtMost(members))
    }

    /// Exactly this many members, even with fewer CPUs. A team that cannot have them is refused ([`TeamError`]), not narrowed.
    ///
    /// A team does not wait for workers that take part in other calls. So of several concurrent calls on one pool, some are
    /// refused at once: give each caller a [`Pool`](crate::Pool) with as many threads as its team, or retry. A team waits
    /// at most 10 s for free workers that have not joined yet (just started, or just woken on a busy machine).
    ///
    /// ```
    /// use windrow::{Pool, Width, team};
    /// let indices = Pool::new(2).install(|| team(&mut ()).width(Width::exactly(2)).run(|member| member.index()));
    /// assert_eq!(indices, [0, 1]);
    /// ```
    pub const fn exactly(members: usize) -> Width {
        Width(WidthKind::Exactly(members))
    }
}

impl From<usize> for Width {
    fn from(members: usize) -> Width {
        Width::at_most(members)
    }
}

/// A team could not have the members that [`Width::exactly`] asks for.
///
/// ```
/// use windrow::{Pool, Width, team};
/// let refused = Pool::new(1).install(|| team(&mut ()).width(Width::exactly(4)).try_run(|_| ())).unwrap_err();
/// assert_eq!((refused.wanted, refused.found, refused.threads), (4, 1, 1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TeamError {
    /// Members asked for.
    pub wanted: usize,
    /// Members found: the caller, and the workers that were free or joined.
    pub found: usize,
    /// Threads of the pool, the caller included.
    pub threads: usize,
    kind: TeamErrorKind,
}

/// Why a team of exact width was refused.
///
/// ```
/// use windrow::{Pool, Width, team, team::TeamErrorKind};
/// let refused = Pool::new(1).install(|| team(&mut ()).width(Width::exactly(2)).try_run(|_| ())).unwrap_err();
/// assert!(matches!(refused.kind(), TeamErrorKind::TooWide), "{refused}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TeamErrorKind {
    /// The pool has fewer threads than the team wants members.
    TooWide,
    /// Other calls have the workers.
    Busy,
    /// Workers were free but did not join in time: the machine is busy, or they run a start handler.
    Late,
    /// The pool belongs to a parent process: its threads do not exist in this forked child.
    Forked,
    /// The pool's threads have ended, by its drop or by a shutdown.
    Closed,
}

impl TeamError {
    /// Why the team was refused.
    ///
    /// ```
    /// use windrow::team::TeamErrorKind;
    /// use windrow::{Pool, Width, team};
    /// let refused = Pool::new(1).install(|| team(&mut ()).width(Width::exactly(2)).try_run(|_| ()));
    /// assert_eq!(refused.unwrap_err().kind(), TeamErrorKind::TooWide);
    /// ```
    pub fn kind(&self) -> TeamErrorKind {
        self.kind
    }
}

impl std::fmt::Display for TeamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let TeamError { wanted, found, threads, kind } = self;
        write!(f, "a team of exactly {wanted} members was refused: ")?;
        match kind {
            TeamErrorKind::TooWide => {
                write!(f, "the pool has {threads} threads; install a larger one, or ask for `Width::at_most`")
            }
            TeamErrorKind::Busy => write!(
                f,
                "{found} of the pool's {threads} threads were free; install a pool for this team, try again, or ask for \
                 `Width::at_most`"
            ),
            TeamErrorKind::Late => write!(
                f,
                "{found} of the pool's {threads} threads were there, the others were free but did not come within {} s; try \
                 again, or ask for `Width::at_most`",
                EXACTLY.0 / 1e9
            ),
            TeamErrorKind::Forked => {
                f.write_str("the pool's threads stayed in the parent of this forked process; make a pool here")
            }
            TeamErrorKind::Closed => f.write_str("the pool's threads have been ended; make another pool"),
        }
    }
}

impl std::error::Error for TeamError {}

/// A team around `data`, to be [run](Team::run). See the [module page](self).
///
/// ```
/// let mut text = "data".to_owned();
/// let lengths = windrow::team(&mut text).run(|member| {
///     let shared = member.round::<usize, ()>(|text, deal| {
///         deal.none(); // no member gets a part
///         text.len()
///     });
///     shared.map(|(length, ())| length)
/// });
/// assert!(lengths.iter().all(|length| *length == Ok(4)));
/// ```
pub fn team<T: ?Sized + Send>(data: &mut T) -> Team<'_, T> {
    Team { data, width: Width::all(), spin_budget: None }
}

/// A team that has not begun. See the [module page](self).
///
/// ```
/// let mut data = [1, 2, 3];
/// let team: windrow::team::Team<'_, [i32]> = windrow::team(&mut data[..]).width(1);
/// assert_eq!(team.run(|member| member.index()), [0]);
/// ```
#[derive(Debug)]
#[must_use = "a team does nothing until it is run"]
pub struct Team<'d, T: ?Sized> {
    data: &'d mut T,
    width: Width,
    spin_budget: Option<(Duration, Duration)>,
}

impl<T: ?Sized + Send> Team<'_, T> {
    /// Sets the number of members.
    ///
    /// ```
    /// let indices = windrow::team(&mut ()).width(1).run(|member| member.index());
    /// assert_eq!(indices, [0]);
    /// ```
    pub fn width(mut self, width: impl Into<Width>) -> Self {
        self.width = width.into();
        self
    }

    /// Sets how long a waiting member spins, and how long it then yields its CPU, before it parks.
    ///
    /// ```
    /// use std::time::Duration;
    /// // Waiting members park at once.
    /// let met = windrow::team(&mut ()).spin_budget(Duration::ZERO, Duration::ZERO).run(|member| member.barrier());
    /// assert!(met.iter().all(Result::is_ok));
    /// ```
    pub fn spin_budget(mut self, busy: Duration, yielding: Duration) -> Self {
        self.spin_budget = Some((busy, yielding));
        self
    }

    /// Runs `member` on the caller and on every other member. Returns their results, in the order of [`Member::index`].
    ///
    /// ```
    /// let mut data = [0u32; 64];
    /// let sums = windrow::team(&mut data[..]).run(|member| {
    ///     let at = member.index() as u32;
    ///     member.reduce(at + 1, |a, b| a + b)
    /// });
    /// let width = sums.len() as u32;
    /// assert!(sums.iter().all(|sum| *sum == Ok(width * (width + 1) / 2)));
    /// ```
    ///
    /// # Panics
    /// With the payload of a member that panicked (the caller's panic before those of others), when all members have left. Also if the team
    /// is refused ([`try_run`](Team::try_run) returns an error instead).
    #[track_caller]
    pub fn run<R: Send>(self, member: impl Fn(&mut Member<'_, '_, T>) -> R + Sync) -> Vec<R> {
        match self.try_run(member) {
            Ok(results) => results,
            Err(refused) => panic!("{refused}"),
        }
    }

    /// As [`run`](Team::run).
    ///
    /// ```
    /// use windrow::{Pool, Width, team};
    /// let try_run = || team(&mut ()).width(Width::exactly(2)).try_run(|member| member.index());
    /// assert_eq!(Pool::new(2).install(try_run), Ok(vec![0, 1]));
    /// assert!(Pool::new(1).install(try_run).is_err());
    /// ```
    ///
    /// # Errors
    /// If the team cannot have the members that [`Width::exactly`] asks for. Then no member has run.
    ///
    /// # Panics
    /// With the payload of a member that panicked.
    #[track_caller]
    pub fn try_run<R: Send>(self, member: impl Fn(&mut Member<'_, '_, T>) -> R + Sync) -> Result<Vec<R>, TeamError> {
        let place = Location::caller();
        pool::with_current(|pool| run(pool, place, self, &member))
    }
}

fn run<T, F, R>(
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
    let Team { data, width, spin_budget } = team;
    let least = if let Width(WidthKind::Exactly(wanted)) = width { wanted } else { 1 };
    let code =
        attend::<T, F, R> as fn(&F, &PoolState, MemberSlot<'_, LeaderState<'_, T>>, Spin) -> R as *const () as usize;
    let site = site(Some(place), code);
    let may_be_alone = matches!(width.0, WidthKind::AtMost(2..));
    let (begun, reported) = (tick(), listen::call(CallKind::Team, Some(place)));
    let told = reported.as_ref().map(|_| place);
    // Records a call. `serial_rounds`: its rounds are known to run best on one member.
    let took = |mode, ended: u64, serial_rounds: bool| {
        let elapsed = pool.nanos(ended.saturating_sub(begun));
        if let Some(mut stats) = pool.sites.team(site) {
            stats.took = elapsed;
            stats.calls = stats.calls.after(mode, elapsed, serial_rounds || elapsed < pool.guess().long_sleep());
        }
    };
    let tell = |reported: Option<Reported>, members: usize, reason: &'static str, driver: &RoundDriver<'_>| {
        if let Some(reported) = reported {
            end_team(reported, members, reason, driver);
        }
    };
    let refuse = |reported: Option<Reported>| {
        if let Some(reported) = reported {
            reported.end_because("refused");
        }
    };
    let stats = if may_be_alone { pool.sites.recall_team(site) } else { TeamStats::default() };
    let serial = may_be_alone && stats.calls.choose() == Mode::Serial;
    let (Formation { members, patience }, reason) = match serial {
        true => {
            (Formation { members: 1, patience: Nanos(0.0) }, "serial: such calls were faster without other members")
        }
        false => match ask(pool, width, stats.took) {
            Ok(asked) => asked,
            Err(refused) => {
                refuse(reported);
                return Err(refused);
            }
        },
    };
    if members == 1 {
        let led = &mut LeaderState { driver: RoundDriver::new(RoundSite::of(pool, site), told), data };
        let result = attend(member, pool, Rounds::single(led).slot(), Spin::NONE);
        tell(reported, 1, reason, &led.driver);
        if serial {
            took(Mode::Serial, tick(), true);
        }
        return Ok(vec![result]);
    }
    let led = &mut LeaderState { driver: RoundDriver::new(RoundSite::of(pool, site), told), data };
    let rounds = Rounds::new(led, members);
    let results: Vec<_> = (0..members).map(|_| Mutex::new(None)).collect();
    let waits = Waits::of(pool.guess());
    let region = Region::new(CallKind::Team, "team", Some(place));
    let come = |mut slot: MemberSlot<'_, LeaderState<'_, T>>| {
        let width = slot.width(pool.settle);
        if width >= least {
            let at = slot.index();
            let _part = listen::begun(EventKind::Part(CallKind::Team), Some(place));
            let result = attend(
                member,
                pool,
                slot,
                spin_budget.map_or_else(|| usual(pool, width, &waits), |limits| spin(pool, limits)),
            );
            *results[at].lock() = Some(result);
        }
        width
    };
    let join = |joined: JoinedWorker| {
        pool.joined(joined.worker, tick());
        if let Some(slot) = rounds.join() {
            let _member = region.member();
            come(slot);
        }
    };
    let lacks = Cell::new(None);
    let found = pool.gate.region(&join, pool.settle, |door| {
        let slot = rounds.join();
        let forming = FormOnDrop(&rounds);
        pool.opens(members > pool.workers().idle + 1);
        if door.open(members) {
            let until = Spin { busy: pool.ticks(waits.joins), yielding: pool.ticks(patience) };
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
    let ended = tick();
    pool.ended(ended);
    if found < least {
        let closed = if pool.gate.is_stopped() { TeamErrorKind::Closed } else { TeamErrorKind::Busy };
        let kind = lacks.get().unwrap_or(closed);
        refuse(reported);
        return Err(TeamError { wanted: least, found, threads: pool.members, kind });
    }
    drop(rounds);
    if least == 1 {
        let serial_rounds = !led.driver.mixed && pool.sites.recall_team(site).widths.is_serial(found);
        took(Mode::Team, ended, serial_rounds);
    }
    tell(reported, found, reason, &led.driver);
    let result = |one: Mutex<Option<R>>| one.into_inner();
    Ok(results.into_iter().filter_map(result).collect())
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

/// Forms the team on drop, also if the caller panics: members may wait for the width.
struct FormOnDrop<'a, 'd, T: ?Sized + Send>(&'a Rounds<'a, LeaderState<'d, T>>);

impl<T: ?Sized + Send> Drop for FormOnDrop<'_, '_, T> {
    fn drop(&mut self) {
        self.0.form();
    }
}

/// The number of members to ask for, and the reason.
fn ask(pool: &PoolState, width: Width, lately: Nanos) -> Result<(Formation, &'static str), TeamError> {
    let most = pool.workers().most;
    let WorkerCounts { busy, idle, asleep, absent } = pool.gate.state();
    let (idle, asleep, absent) = if busy { (0, 0, 0) } else { (idle, asleep, absent) };
    let free = 1 + idle + asleep;
    match width.0 {
        WidthKind::Exactly(0 | 1) => Ok((Formation { members: 1, patience: Nanos(0.0) }, AS_ASKED)),
        // A team of exact width also waits for threads that have just been started.
        WidthKind::Exactly(wanted) => {
            let kind = match () {
                () if wanted > pool.members => TeamErrorKind::TooWide,
                () if !pool.is_of_this_process() => TeamErrorKind::Forked,
                () if pool.gate.is_stopped() => TeamErrorKind::Closed,
                () if wanted > free + absent => TeamErrorKind::Busy,
                () => return Ok((Formation { members: wanted, patience: Waits::of(pool.guess()).yields }, AS_ASKED)),
            };
            let found = if pool.is_of_this_process() { free.min(pool.members) } else { 1 };
            Err(TeamError { wanted, found, threads: pool.members, kind })
        }
        WidthKind::AtMost(_) if free == 1 => Ok((Formation { members: 1, patience: Nanos(0.0) }, "no worker is free")),
        WidthKind::AtMost(wanted) => {
            let costs = pool.costs(tick());
            let (enter_idle, enter_asleep) = (costs.enter(false), costs.enter(true));
            let decision = formation(Free { wanted, cpus: most, idle, asleep, enter_idle, enter_asleep, lately });
            Ok((decision.choice, decision.why))
        }
    }
}

const AS_ASKED: &str = "the width was given";

/// Why a team that has `waited` for members gives up, from the states of the workers outside of the team.
fn lack(
    waited: Nanos,
    WorkerCounts { idle, asleep, absent, .. }: WorkerCounts,
    elsewhere: Nanos,
) -> Option<TeamErrorKind> {
    match idle + asleep + absent {
        0 if waited > elsewhere => Some(TeamErrorKind::Busy),
        1.. if waited > EXACTLY => Some(TeamErrorKind::Late),
        _ => None,
    }
}

/// How long a team of exact width waits for free workers. On a machine with a busy neighbour a worker needed more
/// than 1 s. A longer wait for a CPU is not worth it.
///
/// Measure: chosen, because a program that asks for an exact team would rather wait than be refused.
const EXACTLY: Nanos = Nanos(10e9);

/// How long a waiting member spins before it yields its CPU, and how long it yields before it parks: the default.
fn usual(pool: &PoolState, width: usize, waits: &Waits) -> Spin {
    // With more members than CPUs, the awaited member may need this CPU. For a crossing, four members on two CPUs took 1.0 us
    // without spinning, 1.5 us with 0.1 us of spinning, 2 us with more.
    let busy = if width > pool.workers().most { Nanos(0.0) } else { waits.spins };
    Spin { busy: pool.ticks(busy), yielding: pool.ticks(waits.then_yields) }
}

fn spin(pool: &PoolState, (busy, yielding): (Duration, Duration)) -> Spin {
    let ticks = |time: Duration| pool.ticks(Nanos(time.as_nanos() as f64));
    Spin { busy: ticks(busy), yielding: ticks(yielding) }
}

/// The data, and the state that passes from leader to leader.
struct LeaderState<'d, T: ?Sized> {
    driver: RoundDriver<'d>,
    data: &'d mut T,
}

/// One member of a team, as its closure sees it.
///
/// ```
/// use windrow::team::{Ended, Member};
///
/// /// The largest value of all members.
/// fn largest<T: ?Sized + Send>(member: &mut Member<'_, '_, T>, value: usize) -> Result<usize, Ended> {
///     member.reduce(value, usize::max)
/// }
///
/// let found = windrow::team(&mut ()).run(|member| largest(member, 10 * member.index()));
/// assert!(found.iter().all(|value| *value == Ok(10 * (found.len() - 1))));
/// ```
pub struct Member<'r, 'd, T: ?Sized + Send> {
    slot: MemberSlot<'r, LeaderState<'d, T>>,
    spin: Spin,
    pool: &'r PoolState,
    /// When this member last moved to another CPU.
    moved: u64,
}

impl<T: ?Sized + Send> std::fmt::Debug for Member<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("slot", &self.slot).finish()
    }
}

impl<'d, T: ?Sized + Send> Member<'_, 'd, T> {
    #[inline]
    fn arrive(&mut self) -> Result<Turn<'_, LeaderState<'d, T>>, Ended> {
        if self.slot.should_move() {
            self.move_away();
        }
        self.slot.arrive(self.spin)
    }

    /// Moves a worker that shares a CPU with another member. Not too often, since the scheduler may move it back.
    #[cold]
    fn move_away(&mut self) {
        let now = tick();
        if self.pool.nanos(now.saturating_sub(self.moved)).0 > Waits::of(self.pool.guess()).stays.0 {
            self.moved = now;
            self.pool.placement.yield_cpu();
        }
    }

    /// This member's number, `0..width`. The caller of [`Team::run`] is member 0.
    ///
    /// ```
    /// let indices = windrow::team(&mut ()).run(|member| member.index());
    /// assert!(indices.iter().copied().eq(0..indices.len()));
    /// ```
    pub fn index(&self) -> usize {
        self.slot.index()
    }

    /// The number of members of the team.
    ///
    /// ```
    /// let widths = windrow::team(&mut ()).run(|member| member.width());
    /// assert!(widths.iter().all(|width| *width == widths.len()));
    /// ```
    pub fn width(&mut self) -> usize {
        self.slot.width(self.spin)
    }

    /// A round: waits for all members. The last member to arrive, the leader, runs `split` with exclusive access to the data. `split` deals
    /// each member a part, and returns a shared value, of which each member gets a copy. A member can use both until its next round.
    ///
    /// `S` and `P` are the types of the shared value and of a part. They must be written out, without lifetimes; see [`Lend`] for your own
    /// types.
    ///
    /// ```
    /// use windrow::team::split;
    ///
    /// let mut x: Vec<u32> = (0..100).collect();
    /// windrow::team(&mut x[..]).run(|member| {
    ///     let (first, mine) = member.round::<u32, &mut [u32]>(|x, deal| {
    ///         let (first, rest) = x.split_first_mut().unwrap();
    ///         deal.parts(split::even(rest, deal.width()));
    ///         *first
    ///     })?;
    ///     mine.iter_mut().for_each(|element| *element += 10 + first);
    ///     Ok::<_, windrow::team::Ended>(())
    /// });
    /// assert_eq!(x[99], 109);
    /// ```
    ///
    /// # Errors
    /// If a member has returned or panicked, so that this round cannot take place.
    ///
    /// # Panics
    /// On the leader, if `split` panics, or does not deal one part to each member. On other members, if the leader ran a round of other
    /// types. The team ends with such a panic.
    #[inline]
    pub fn round<S: Lend, P: Lend>(
        &mut self,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        Ok(match self.arrive()? {
            Turn::Lead(lead) => lead.round::<S, P>(|led, deal| {
                led.driver.mix();
                split(led.data, deal)
            }),
            Turn::Follow(follow) => follow.open::<S, P>(),
        })
    }

    /// A round to which each member contributes a value, `contribution`. The leader gets all contributions, in the order of the members.
    ///
    /// ```
    /// let mut total = 100;
    /// let sums = windrow::team(&mut total).run(|member| {
    ///     let shared = member.round_with::<usize, (), usize>(3, |total, contributions, deal| {
    ///         *total += contributions.sum::<usize>();
    ///         deal.none();
    ///         *total
    ///     });
    ///     shared.map(|(sum, ())| sum)
    /// });
    /// assert!(sums.iter().all(|sum| *sum == Ok(100 + 3 * sums.len())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// As [`round`](Member::round); or if a member is at a round without contributions, or with contributions of another type.
    #[inline]
    pub fn round_with<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        contribution: C,
        split: impl for<'x> FnOnce(&'x mut T, Contributions<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.slot.contribute(contribution);
        Ok(match self.arrive()? {
            Turn::Lead(lead) => lead.round_with::<S, P, C>(|led, contributions, deal| {
                led.driver.mix();
                split(led.data, contributions, deal)
            }),
            Turn::Follow(follow) => follow.open_with::<S, P, C>(),
        })
    }

    /// Runs rounds, each with as many members as pay: see the [module page](self). In round `i`, one member runs
    /// `split(data, i, deal)`, and each member of the round runs `work(i, shared, part)`.
    ///
    /// The number of parts is [`Deal::width`] *of this round*. All members must pass the same range.
    ///
    /// ```
    /// use windrow::team::split;
    ///
    /// let mut x = vec![1; 100];
    /// windrow::team(&mut x[..]).run(|member| {
    ///     member.rounds::<(), &mut [usize]>(
    ///         0..10,
    ///         |x, _, deal| deal.parts(split::even(x, deal.width())),
    ///         |i, (), mine| mine.iter_mut().for_each(|element| *element += i),
    ///     )
    /// });
    /// assert_eq!(x, [1 + 45; 100]);
    /// ```
    ///
    /// # Errors
    /// If a member has returned or panicked, so that not all rounds have taken place.
    ///
    /// # Panics
    /// As [`round`](Member::round), and if `work` panics. If members pass different ranges, one of them panics, at the latest
    /// when the rounds of one range are over.
    #[inline]
    pub fn rounds<S: Lend, P: Lend>(
        &mut self,
        range: Range<usize>,
        mut split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
        mut work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>),
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let _rounds = listen::begun(EventKind::Rounds { member: self.index() }, None).map(|part| part.of(range.len()));
        loop {
            let mut lead = match self.arrive()? {
                Turn::Follow(message) => match follow::<S, P>(message, &range, &mut work) {
                    Some(_) => continue,
                    None => return Ok(()),
                },
                Turn::Lead(lead) => lead,
            };
            loop {
                let width = lead.width();
                let Some((rounds, members)) = lead.data().driver.next(&range, width) else {
                    lead.round_of::<(usize, usize), ()>(width, OVER, |_, deal| {
                        deal.none();
                        (range.start, range.end)
                    });
                    return Ok(());
                };
                if members > 1 {
                    let round = rounds.start;
                    let (shared, part) =
                        lead.round_of::<S, P>(members, round as u64, |led, deal| split(led.data, round, deal));
                    work(round, shared, part);
                    break;
                }
                for round in rounds {
                    let (shared, part) = lead.alone::<S, P>(|led, deal| split(led.data, round, deal));
                    work(round, shared, part);
                }
            }
        }
    }

    /// Waits until all members have arrived. Afterwards every member sees what all members did before.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let arrived = AtomicUsize::new(0);
    /// let seen = windrow::team(&mut ()).run(|member| {
    ///     arrived.fetch_add(1, Ordering::Relaxed);
    ///     member.barrier().map(|()| arrived.load(Ordering::Relaxed))
    /// });
    /// assert!(seen.iter().all(|members| *members == Ok(seen.len())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    #[inline]
    pub fn barrier(&mut self) -> Result<(), Ended> {
        self.round::<(), ()>(|_, deal| deal.none()).map(|_| ())
    }

    /// Gives every member a clone of the `value` of member `from`. The values of other members are dropped.
    ///
    /// ```
    /// let values = windrow::team(&mut ()).run(|member| member.broadcast(0, 7 + member.index()));
    /// assert!(values.iter().all(|value| *value == Ok(7)));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// If the team has no member `from`.
    pub fn broadcast<V: Clone + Send + 'static>(&mut self, from: usize, value: V) -> Result<V, Ended> {
        let width = self.width();
        assert!(from < width, "there is no member {from} in a team of {width}");
        let contribution = (self.index() == from).then_some(value);
        let (_, value) = self.round_with::<(), Own<V>, _>(contribution, |_, contributions, deal| {
            if let Some(value) = contributions.flatten().next() {
                deal.parts(std::iter::repeat_n(value, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// All members' values, combined in their order: `op(op(a0, a1), a2)` and so on.
    ///
    /// ```
    /// let lists = windrow::team(&mut ()).run(|member| member.reduce(vec![member.index()], |a, b| [a, b].concat()));
    /// assert!(lists.iter().all(|list| *list == Ok((0..lists.len()).collect())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn reduce<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, contributions, deal| {
            if let Some(all) = contributions.reduce(&op) {
                deal.parts(std::iter::repeat_n(all, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// The values of the members up to and including this one, combined in their order.
    ///
    /// ```
    /// let lists = windrow::team(&mut ()).run(|member| member.scan(vec![member.index()], |a, b| [a, b].concat()));
    /// assert!(lists.iter().enumerate().all(|(index, list)| *list == Ok((0..=index).collect())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn scan<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, contributions, deal| {
            let mut so_far: Option<V> = None;
            for value in contributions {
                let sum = match so_far.take() {
                    None => value,
                    Some(before) => op(before, value),
                };
                deal.part(sum.clone());
                so_far = Some(sum);
            }
        })?;
        Ok(value)
    }
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

    #[test]
    fn a_refusal_says_what_the_matter_is() {
        let text = |kind| TeamError { wanted: 3, found: 2, threads: 4, kind }.to_string();
        assert!(text(TeamErrorKind::Late).contains("2 of the pool's 4 threads were there"));
        assert!(text(TeamErrorKind::Late).contains("did not come within 10 s"));
        assert!(text(TeamErrorKind::Busy).contains("2 of the pool's 4 threads were free"));
        assert!(text(TeamErrorKind::TooWide).contains("the pool has 4 threads"));
        assert!(text(TeamErrorKind::Forked).contains("forked"));
    }
}
