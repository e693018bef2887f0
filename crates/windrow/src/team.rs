//! Shape 2: teams, whose members run rounds in lockstep.
//!
//! For an outer loop that must be sequential around an inner one that can be parallel: decompositions, time steps, relaxations. To
//! enter and leave a pool in every round costs more than many rounds are worth. A *team* enters once; between its rounds
//! lies one barrier, and the barrier owns the data: the last member to arrive has it to itself for a moment, and deals out what is
//! shared and a part for each.
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
//!         // One member, with all of the data: what is shared is returned, the parts are dealt.
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
//! 1. *Form.* The caller lets workers in that are free, and fixes the width when all of those it asked for have come, or after a few times
//!    what coming usually takes (a hundredth of what the last team of this place took, if that is longer). It never waits for more: a team that is nested, or one of many, may be the caller alone, and then
//!    is a plain loop. The split always sees the width that is there.
//! 2. *Round.* Each member arrives ([`Member::round`]). The last runs the closure that splits the data; then all have their parts, until
//!    they arrive again. Any control flow around rounds is fine as long as all members take the same turns.
//! 3. *End.* When the members have returned, the team's threads are free again. Who returns or panics while others still want rounds
//!    ends the team: their next round is [`Ended`]. A panic reaches the caller as itself.
//!
//! The details, and why it is sound without any unsafe code in the caller's hands, are on the page of [`windrow_sync::rounds`].
//!
//! # How many members a round gets
//! [`Member::round`] always gets all. [`Member::rounds`] asks [`plan::team`](crate::plan::team) every 25 microseconds or so: rounds too short
//! for their barrier, or beside a busy process that takes a member's CPU away, are run by fewer members, down to one, while the
//! others wait and soon sleep. What other widths would cost is tried now and then; that takes at most 3 % of the time. What was learned
//! is kept by call site. Calls of less than half a millisecond are compared as a whole too: coming together takes some microseconds, and
//! where the others do not save as much the caller runs alone, which took 0.5 to 1.4 us more than the plain loop (`bench/record`, decompose).
//!
//! # Trade-offs, and when not to use a team
//! * Rounds without an order between them are a parallel iterator's work: that balances the load, a round does not. Its parts are
//!   dealt once; the slowest member is waited for.
//! * A round is worth its barrier if half of it takes longer than a crossing: 0.1 us on two free cores in good hours of the virtual machine
//!   where that was measured, 0.4 us in others (`bench/record`, barriers). Below, [`rounds`](Member::rounds) runs as fast as a
//!   loop, [`round`](Member::round) does not.
//! * Members wait at the barrier: what blocks (locks, files, channels) blocks all of them. Tasks that must not hold a thread while
//!   they wait are an [`AsyncTeam`]'s members.
//! * What is lent must not borrow from the closure that splits, and types in `round::<S, P>` are written out: that is the price of having
//!   no unsafe code and no macro.
//!
//! # Source
//! The idea of barriers instead of a pool's tasks, of exclusive access for one member and of an async variant is Sarah El
//! Kazdadi's (`syncthreads`). Teams that take who is free are OpenMP's dynamic teams and spindle's; gangs whose members are
//! reserved at once go back to Ousterhout.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use windrow_plan::Nanos;
use windrow_plan::team::{Formation, Free, Way, formation};
use windrow_sync::Spin;
use windrow_sync::gate::State;
use windrow_sync::machine::tick;
use windrow_sync::rounds::{Rounds, Seat, Turn};

use crate::crew::Crew;
use crate::pool;

mod beat;
pub mod split;
mod tasks;

pub use tasks::{AsyncMember, AsyncTeam};
pub use windrow_sync::grid::{Grid, GridError, GridRef};
pub use windrow_sync::rounds::{Deal, Ended, Family, Given, Lend, Lent, Mut, Own, Ref};

pub(crate) use beat::Sites;
use beat::{Beat, Company};

/// How many members a team shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AtMost(usize),
    Exactly(usize),
}

impl Width {
    /// As many as are free, and no more than the CPUs that the process may use. This is the default.
    pub const fn all() -> Width {
        Width(Kind::AtMost(usize::MAX))
    }

    /// As many as are free, and at most this many. (0 is taken as 1: the caller is always there.)
    pub const fn at_most(members: usize) -> Width {
        Width(Kind::AtMost(members))
    }

    /// This many, also if there are fewer CPUs. A team that cannot have them is refused ([`Refused`]), not narrowed.
    ///
    /// Workers that other calls have are not waited for. So of several calls on one pool at the same time, some are
    /// refused at once: give each caller a [`Pool`](crate::Pool) with as many threads as its team, or try again. Workers
    /// that are free and on their way (just started, just woken on a busy machine) are waited for, 10 s at most.
    pub const fn exactly(members: usize) -> Width {
        Width(Kind::Exactly(members))
    }
}

impl From<usize> for Width {
    fn from(members: usize) -> Width {
        Width::at_most(members)
    }
}

/// There are not as many members as [`Width::exactly`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Members asked for.
    pub wanted: usize,
    /// Those that there were: the caller, and the workers that were free or came.
    pub found: usize,
    /// Threads of the pool, the caller included.
    pub threads: usize,
    kind: RefusedKind,
}

/// Why a team of exact width was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedKind {
    /// The pool has fewer threads than the team wants members.
    TooWide,
    /// Other calls have the workers.
    Busy,
    /// Workers were free and did not come in time: the machine is busy, or they run a start handler.
    Late,
    /// The pool is that of a parent process: its threads are not in this forked child.
    Forked,
    /// The pool's threads have been ended, by its drop or by a shutdown.
    Closed,
}

impl Refused {
    /// Why it was refused.
    ///
    /// ```
    /// use windrow::team::RefusedKind;
    /// use windrow::{Pool, Width, team};
    ///
    /// let refused = Pool::new(1).install(|| team(&mut ()).width(Width::exactly(2)).try_run(|_| ()));
    /// assert_eq!(refused.unwrap_err().kind(), RefusedKind::TooWide);
    /// ```
    pub fn kind(&self) -> RefusedKind {
        self.kind
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Refused { wanted, found, threads, kind } = self;
        write!(f, "a team of exactly {wanted} members was refused: ")?;
        match kind {
            RefusedKind::TooWide => {
                write!(f, "the pool has {threads} threads; install a larger one, or ask for `Width::at_most`")
            }
            RefusedKind::Busy => write!(
                f,
                "{found} of the pool's {threads} threads were free; install a pool for this team, try again, or ask for \
                 `Width::at_most`"
            ),
            RefusedKind::Late => write!(
                f,
                "{found} of the pool's {threads} threads were there, the others were free but did not come within {} s; try \
                 again, or ask for `Width::at_most`",
                EXACTLY.0 / 1e9
            ),
            RefusedKind::Forked => {
                f.write_str("the pool's threads stayed in the parent of this forked process; make a pool here")
            }
            RefusedKind::Closed => f.write_str("the pool's threads have been ended; make another pool"),
        }
    }
}

impl std::error::Error for Refused {}

/// A team around `data`, to be [run](Team::run). See the [module page](self).
pub fn team<T: ?Sized + Send>(data: &mut T) -> Team<'_, T> {
    Team { data, width: Width::all(), looking: None }
}

/// A team that has not begun. See the [module page](self).
#[derive(Debug)]
#[must_use = "a team does nothing until it is run"]
pub struct Team<'d, T: ?Sized> {
    data: &'d mut T,
    width: Width,
    looking: Option<(Duration, Duration)>,
}

impl<T: ?Sized + Send> Team<'_, T> {
    /// How many members it shall have.
    pub fn width(mut self, width: impl Into<Width>) -> Self {
        self.width = width.into();
        self
    }

    /// How long a member that waits for the others looks at full speed, and then giving its CPU to who wants it, before it sleeps.
    pub fn looking(mut self, busy: Duration, yielding: Duration) -> Self {
        self.looking = Some((busy, yielding));
        self
    }

    /// Runs `member` on the caller and on every other member; their results, in the order of [`Member::index`].
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
    /// With the payload of a member that panicked (the caller's own before others'), when all members have left. If it is refused
    /// ([`try_run`](Team::try_run) returns that instead).
    pub fn run<R: Send>(self, member: impl Fn(&mut Member<'_, '_, T>) -> R + Sync) -> Vec<R> {
        match self.try_run(member) {
            Ok(results) => results,
            Err(refused) => panic!("{refused}"),
        }
    }

    /// As [`run`](Team::run).
    ///
    /// # Errors
    /// If the members that [`Width::exactly`] asks for are not there. Nothing has run then.
    ///
    /// # Panics
    /// With the payload of a member that panicked.
    pub fn try_run<R: Send>(self, member: impl Fn(&mut Member<'_, '_, T>) -> R + Sync) -> Result<Vec<R>, Refused> {
        pool::with_current(|crew| run(crew, self, &member))
    }
}

fn run<T, F, R>(crew: &Crew, team: Team<'_, T>, member: &F) -> Result<Vec<R>, Refused>
where
    T: ?Sized + Send,
    F: Fn(&mut Member<'_, '_, T>) -> R + Sync,
    R: Send,
{
    let Team { data, width, looking } = team;
    let least = if let Width(Kind::Exactly(wanted)) = width { wanted } else { 1 };
    let site = attend::<T, F, R> as fn(&F, &Crew, Seat<'_, Led<'_, T>>, Spin) -> R as *const () as usize;
    let may_be_alone = matches!(width.0, Kind::AtMost(2..));
    let begun = tick();
    let took = |way, ended: u64| crew.teams.took(site, way, crew.nanos(ended.saturating_sub(begun)));
    let mut by_caller = |beat| {
        let led = &mut Led { beat, data };
        attend(member, crew, Rounds::sole(led).only(), Spin::NONE)
    };
    if may_be_alone && crew.teams.way(site) == Way::Alone {
        let result = by_caller(Beat::new(crew, site, Company::None));
        took(Way::Alone, tick());
        return Ok(vec![result]);
    }
    let (memory, lately) = if may_be_alone { crew.teams.recall(site) } else { Default::default() };
    let Formation { members, patience } = ask(crew, width, lately)?;
    if members == 1 {
        return Ok(vec![by_caller(Beat::new(crew, site, Company::None))]);
    }
    if may_be_alone && memory.stands_alone(members, crew.nanos(begun)) {
        let result = by_caller(Beat::new(crew, site, Company::Spared));
        took(Way::Alone, tick());
        return Ok(vec![result]);
    }
    let led = &mut Led { beat: Beat::new(crew, site, Company::Here), data };
    let rounds = Rounds::new(led, members);
    let results: Vec<_> = (0..members).map(|_| Mutex::new(None)).collect();
    let come = |mut seat: Seat<'_, Led<'_, T>>| {
        let width = seat.width(crew.settle);
        if width >= least {
            let at = seat.index();
            let result =
                attend(member, crew, seat, looking.map_or_else(|| usual(crew, width), |limits| spin(crew, limits)));
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
        width
    };
    let join = |number| {
        crew.joined(number, tick());
        if let Some(seat) = rounds.sit() {
            come(seat);
        }
    };
    let lacks = Cell::new(None);
    let found = crew.gate.region(&join, crew.settle, |door| {
        let seat = rounds.sit();
        let forming = FormOnDrop(&rounds);
        crew.opens(begun, members > crew.state().idle + 1);
        if door.open(members) {
            let until = Spin { busy: crew.ticks(AT_ONCE), yielding: crew.ticks(patience) };
            let all = || rounds.seated() == members;
            // (A worker that is inside and has no seat yet is about to take one.)
            let fails = || {
                if least > 1 {
                    // The state first: a worker that joins before it is read counts as inside afterwards, one that joins later as outside.
                    let lack = lack(crew.nanos(tick().saturating_sub(begun)), crew.gate.state());
                    lacks.set(lack.filter(|_| door.inside() < rounds.seated()));
                }
                lacks.get().is_some()
            };
            if !until.until(|| all() || fails()) && least > 1 {
                // A thread that yields on may keep the awaited worker from running.
                while !all() && !fails() {
                    std::thread::sleep(NAP);
                }
            }
        }
        drop(forming);
        seat.map_or(0, come)
    });
    let ended = tick();
    crew.ended(ended);
    if least == 1 {
        took(Way::Together, ended);
    }
    if found < least {
        let closed = if crew.gate.is_stopped() { RefusedKind::Closed } else { RefusedKind::Busy };
        let kind = lacks.get().unwrap_or(closed);
        return Err(Refused { wanted: least, found, threads: crew.members, kind });
    }
    let result = |one: Mutex<Option<R>>| one.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(results.into_iter().filter_map(result).collect())
}

/// One member's part in a team. A function of its own because its address is what tells call sites apart.
#[inline(never)]
fn attend<T, F, R>(member: &F, crew: &Crew, seat: Seat<'_, Led<'_, T>>, spin: Spin) -> R
where
    T: ?Sized + Send,
    F: Fn(&mut Member<'_, '_, T>) -> R,
{
    member(&mut Member { seat, spin, crew, moved: 0 })
}

/// Fixes the width also if the caller panics: others may wait for it.
struct FormOnDrop<'a, 'd, T: ?Sized + Send>(&'a Rounds<'a, Led<'d, T>>);

impl<T: ?Sized + Send> Drop for FormOnDrop<'_, '_, T> {
    fn drop(&mut self) {
        self.0.form();
    }
}

/// How many members to ask for.
fn ask(crew: &Crew, width: Width, lately: Nanos) -> Result<Formation, Refused> {
    let most = crew.state().most;
    let State { busy, idle, asleep, absent } = crew.gate.state();
    let (idle, asleep, absent) = if busy { (0, 0, 0) } else { (idle, asleep, absent) };
    let free = 1 + idle + asleep;
    match width.0 {
        Kind::Exactly(0 | 1) => Ok(Formation { members: 1, patience: Nanos(0.0) }),
        // Threads that have just been started are on their way: a team of exact width waits for them.
        Kind::Exactly(wanted) => {
            let kind = match () {
                () if wanted > crew.members => RefusedKind::TooWide,
                () if !crew.is_of_this_process() => RefusedKind::Forked,
                () if crew.gate.is_stopped() => RefusedKind::Closed,
                () if wanted > free + absent => RefusedKind::Busy,
                () => return Ok(Formation { members: wanted, patience: YIELDS }),
            };
            let found = if crew.is_of_this_process() { free.min(crew.members) } else { 1 };
            Err(Refused { wanted, found, threads: crew.members, kind })
        }
        Kind::AtMost(_) if free == 1 => Ok(Formation { members: 1, patience: Nanos(0.0) }),
        Kind::AtMost(wanted) => {
            let costs = crew.costs(tick());
            let (enter_idle, enter_asleep) = (costs.enter_idle, costs.enter_asleep);
            Ok(formation(Free { wanted, cpus: most, idle, asleep, enter_idle, enter_asleep, lately }).choice)
        }
    }
}

/// Why a team that has `waited` so long for members need not wait longer, given what the workers outside are doing.
fn lack(waited: Nanos, State { idle, asleep, absent, .. }: State) -> Option<RefusedKind> {
    match idle + asleep + absent {
        0 if waited.0 > SOON.0 => Some(RefusedKind::Busy),
        1.. if waited.0 > EXACTLY.0 => Some(RefusedKind::Late),
        _ => None,
    }
}

/// A team of exact width waits this long for workers that are free. On a machine with a busy neighbour one was seen to need more
/// than 1 s; no queue for a CPU that is worth waiting in is this long.
const EXACTLY: Nanos = Nanos(10e9);
/// For so long it yields while it waits, and then it sleeps [`NAP`]s: workers come within microseconds, or need its CPU.
const YIELDS: Nanos = Nanos(50e6);
const NAP: Duration = Duration::from_millis(1);
/// A worker that is neither idle nor asleep for so long takes part in another call.
const SOON: Nanos = Nanos(1e6);
/// Who is awake comes within this time; for who is not, the CPU is better given to others.
const AT_ONCE: Nanos = Nanos(5e3);

/// How long a waiting member looks before it gives its CPU to others, and then before it sleeps.
fn usual(crew: &Crew, width: usize) -> Spin {
    // With more members than CPUs, who is waited for may need this one: four members on two CPUs took 1.0 us for a crossing, 1.5 us if
    // they looked for 0.1 us first, and 2 us if for longer.
    let busy = if width > crew.state().most { Nanos(0.0) } else { LOOKING };
    Spin { busy: crew.ticks(busy), yielding: crew.ticks(YIELDING) }
}

/// Several crossings of members with a CPU each. To yield sooner is to lose a time slice where somebody else wants this CPU: beside a
/// busy process, two members that looked for 0.1 us took 0.5 to 2 ms for a crossing, those that looked for 1 us 0.1 to 0.2 us.
const LOOKING: Nanos = Nanos(1000.0);
/// Some time slices: long beside the four system calls that a move takes, and short beside the time two members lose on one CPU.
const STAYING: Nanos = Nanos(10e6);
/// After so long it is cheaper for everybody to sleep: to be woken costs 2 to 30 us.
const YIELDING: Nanos = Nanos(100_000.0);

fn spin(crew: &Crew, (busy, yielding): (Duration, Duration)) -> Spin {
    let ticks = |time: Duration| crew.ticks(Nanos(time.as_nanos() as f64));
    Spin { busy: ticks(busy), yielding: ticks(yielding) }
}

/// The data, and what goes from leader to leader.
struct Led<'d, T: ?Sized> {
    beat: Beat<'d>,
    data: &'d mut T,
}

/// One member of a team, as its closure sees it.
pub struct Member<'r, 'd, T: ?Sized + Send> {
    seat: Seat<'r, Led<'d, T>>,
    spin: Spin,
    crew: &'r Crew,
    /// When it last went to another CPU.
    moved: u64,
}

impl<T: ?Sized + Send> std::fmt::Debug for Member<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("seat", &self.seat).finish()
    }
}

impl<'d, T: ?Sized + Send> Member<'_, 'd, T> {
    #[inline]
    fn arrive(&mut self) -> Result<Turn<'_, Led<'d, T>>, Ended> {
        if self.seat.gives_way() {
            self.give_way();
        }
        self.seat.arrive(self.spin)
    }

    /// A worker that finds itself on another member's CPU goes elsewhere. The scheduler may think better of it, so not too often.
    #[cold]
    fn give_way(&mut self) {
        let now = tick();
        if self.crew.nanos(now.saturating_sub(self.moved)).0 > STAYING.0 {
            self.moved = now;
            self.crew.places.give_way();
        }
    }

    /// This member's number, `0..width`. The caller of [`Team::run`] is member 0.
    pub fn index(&self) -> usize {
        self.seat.index()
    }

    /// How many members the team has.
    pub fn width(&mut self) -> usize {
        self.seat.width(self.spin)
    }

    /// A round: waits for all members; the last to arrive runs `split` with exclusive access to the data. It deals each member a part
    /// and returns what all of them share, which is copied. Both can be used until this member's next round.
    ///
    /// `S` and `P` are written out, without lifetimes; see [`Lend`] for types of one's own.
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
    /// If `split` does, or deals fewer or more parts than there are members, on the member that leads; if the round that took place was
    /// of other types, on those that do not. The team ends with it.
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
                led.beat.mix();
                split(led.data, deal)
            }),
            Turn::Follow(follow) => follow.open::<S, P>(),
        })
    }

    /// A round to which each member brings a value; who leads it sees all of them, in the members' order.
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// As [`round`](Member::round); or if a member is at a round to which it brings nothing, or something of another type.
    #[inline]
    pub fn round_with<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        bring: C,
        split: impl for<'x> FnOnce(&'x mut T, Given<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.seat.bring(bring);
        Ok(match self.arrive()? {
            Turn::Lead(lead) => lead.round_with::<S, P, C>(|led, given, deal| {
                led.beat.mix();
                split(led.data, given, deal)
            }),
            Turn::Follow(follow) => follow.open_with::<S, P, C>(),
        })
    }

    /// Runs rounds, each by as many members as are worth it: see the [module page](self). In round `i`, one member runs `split(data, i, deal)` and
    /// those that take part `work(i, shared, part)`.
    ///
    /// The number of parts is [`Deal::width`] *of this round*. All members pass the same range.
    ///
    /// # Errors
    /// If a member has returned or panicked, so that not all rounds have taken place.
    ///
    /// # Panics
    /// As [`round`](Member::round), and if `work` does. If members pass different ranges, on one that notices it: at the latest
    /// when the rounds of one of these ranges are over.
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
        loop {
            let mut lead = match self.arrive()? {
                Turn::Follow(follow) => {
                    let round = follow.note();
                    if round == OVER {
                        let ((start, end), ()) = follow.open::<(usize, usize), ()>();
                        check_range(&range, &(start..end));
                        return Ok(());
                    }
                    let (shared, part) = follow.open::<S, P>();
                    let round = round as usize;
                    assert!(range.contains(&round), "{OTHER_RANGES}: round {round} is none of {range:?}");
                    work(round, shared, part);
                    continue;
                }
                Turn::Lead(lead) => lead,
            };
            loop {
                let width = lead.width();
                let Some((round, members)) = lead.data().beat.next(&range, width) else {
                    lead.round_of::<(usize, usize), ()>(width, OVER, |_, deal| {
                        deal.none();
                        (range.start, range.end)
                    });
                    return Ok(());
                };
                if members > 1 {
                    let (shared, part) =
                        lead.round_of::<S, P>(members, round as u64, |led, deal| split(led.data, round, deal));
                    work(round, shared, part);
                    break;
                }
                let (shared, part) = lead.alone::<S, P>(|led, deal| split(led.data, round, deal));
                work(round, shared, part);
            }
        }
    }

    /// Waits until all members have arrived. What each did before is visible to all after it.
    ///
    /// # Errors
    /// As [`round`](Member::round).
    #[inline]
    pub fn barrier(&mut self) -> Result<(), Ended> {
        self.round::<(), ()>(|_, deal| deal.none()).map(|_| ())
    }

    /// Gives every member what member `from` passes as `value`; what others pass is dropped.
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// If there is no member `from`.
    pub fn broadcast<V: Clone + Send + 'static>(&mut self, from: usize, value: V) -> Result<V, Ended> {
        let width = self.width();
        assert!(from < width, "there is no member {from} in a team of {width}");
        let bring = (self.index() == from).then_some(value);
        let (_, value) = self.round_with::<(), Own<V>, _>(bring, |_, given, deal| {
            if let Some(value) = given.flatten().next() {
                deal.parts(std::iter::repeat_n(value, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// All members' values, combined in their order: `op(op(a0, a1), a2)` and so on.
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn reduce<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, given, deal| {
            if let Some(all) = given.reduce(&op) {
                deal.parts(std::iter::repeat_n(all, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// The values of the members up to and including this one, combined in their order.
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn scan<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, given, deal| {
            let mut so_far: Option<V> = None;
            for value in given {
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

/// All members pass the same range to `rounds`.
#[inline]
fn check_range(mine: &Range<usize>, other: &Range<usize>) {
    assert!(mine == other, "{OTHER_RANGES}: {mine:?} and {other:?}");
}

const OTHER_RANGES: &str = "the members of a team pass different ranges to `rounds`";

/// The note that no round follows. (It is no round: a range does not reach it.)
const OVER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers that are on their way are waited for, also where a busy machine keeps them for seconds.
    #[test]
    fn a_team_of_exact_width_waits_for_workers_that_can_come() {
        let state = |idle, asleep, absent| State { busy: false, idle, asleep, absent };
        let seconds = |seconds: f64| Nanos(seconds * 1e9);
        for some in [state(1, 0, 0), state(0, 1, 0), state(0, 0, 1)] {
            assert_eq!(lack(seconds(2.0), some), None, "{some:?}");
            assert_eq!(lack(seconds(11.0), some), Some(RefusedKind::Late), "{some:?}");
        }
        assert_eq!(lack(seconds(0.0), state(0, 0, 0)), None);
        assert_eq!(lack(seconds(0.1), state(0, 0, 0)), Some(RefusedKind::Busy));
    }

    #[test]
    fn a_refusal_says_what_the_matter_is() {
        let text = |kind| Refused { wanted: 3, found: 2, threads: 4, kind }.to_string();
        assert!(text(RefusedKind::Late).contains("2 of the pool's 4 threads were there"));
        assert!(text(RefusedKind::Late).contains("did not come within 10 s"));
        assert!(text(RefusedKind::Busy).contains("2 of the pool's 4 threads were free"));
        assert!(text(RefusedKind::TooWide).contains("the pool has 4 threads"));
        assert!(text(RefusedKind::Forked).contains("forked"));
    }
}
