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
//! 0.5 to 1.4 us more than the plain loop (LU by columns), once the site was learned. The first calls of a site cost more: the
//! very first of a process starts the threads, and about ten further ones try a team before the caller runs alone.
//!
//! # Next to busy processes
//! A member that loses its CPU stalls the others for a time slice or more. A stall that no savings cover ends the wide rounds. They are tried
//! again after the time that the stall took, after the next stall after twice that, and so on; until then calls form no team. A call that has
//! lost as much as the rest of it takes on one member runs the rest on one member. [`Member::round`] has no such choice.
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

use std::panic::Location;

use crate::runtime::pool;

mod driver;
mod form;
mod member;
pub mod split;
#[cfg(feature = "async-team")]
mod tasks;

pub use member::Member;
#[cfg(feature = "async-team")]
pub use tasks::{AsyncMember, AsyncTeam};
pub use windrow_sync::rounds::{Contributions, Deal, Ended, Family, Lend, Lent, Mut, Own, Ref};

use form::EXACTLY;

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
                write!(f, "the pool has too few threads ({threads}); install a larger one, or ask for `Width::at_most`")
            }
            TeamErrorKind::Busy => write!(
                f,
                "only {found} of the pool's {threads} threads could join; install a separate pool for this team, try \
                 again, or ask for `Width::at_most`"
            ),
            TeamErrorKind::Late => write!(
                f,
                "only {found} of the pool's {threads} threads joined; at least one more was free, but did not join \
                 within {} s; try again, or ask for `Width::at_most`",
                EXACTLY.0 / 1e9
            ),
            TeamErrorKind::Forked => f.write_str(
                "the pool's threads stayed in the parent of this forked process; create a pool in this process",
            ),
            TeamErrorKind::Closed => f.write_str("the pool's threads have ended; create another pool"),
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
    Team { data, width: Width::all() }
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
        pool::with_current(|pool| form::run(pool, place, self, &member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_matter_is() {
        let text = |kind| TeamError { wanted: 3, found: 2, threads: 4, kind }.to_string();
        assert!(text(TeamErrorKind::Late).contains("only 2 of the pool's 4 threads joined"));
        assert!(text(TeamErrorKind::Late).contains("did not join within 10 s"));
        assert!(text(TeamErrorKind::Busy).contains("only 2 of the pool's 4 threads could join"));
        assert!(text(TeamErrorKind::TooWide).contains("the pool has too few threads (4)"));
        assert!(text(TeamErrorKind::Forked).contains("forked"));
    }
}
