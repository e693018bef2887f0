//! The driver of rounds: which round comes next, and how many members it gets.
//!
//! The rounds of one call of [`Member::rounds`](super::Member::rounds) are run in *segments*. All rounds of a segment have one width. The
//! clock is read now and then. At the end of a segment the [`WidthTuner`] gets its duration, and chooses the next segment. Only the leader of
//! a round uses the driver.

use std::ops::Range;

use windrow_plan::width::WidthTuner;
use windrow_sync::machine::tick;
use windrow_sync::rounds::{Follow, LeaderGuard, Lend, LendCopy, Lent};

use crate::runtime::listen::{self, Account, CallPlace, Decided, Event, EventKind, Reported};
use crate::runtime::sites::SiteTable;
use crate::runtime::state::Timing;

/// The call site of rounds, with the clock and the machine that they run on.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundSite<'c> {
    pub(super) sites: &'c SiteTable,
    pub(super) site: usize,
    pub(super) timing: &'c Timing,
}

/// The state that passes from leader to leader in [`Member::rounds`](super::Member::rounds).
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct RoundDriver<'c> {
    /// The next round, and the range of all rounds; `None` while no rounds are run.
    next: Option<(usize, Range<usize>)>,
    members: usize,
    /// Rounds until the clock is read again.
    unread: usize,
    /// Rounds of this segment that have begun.
    begun: usize,
    since: u64,
    /// Tick at which the clock was last read; 0 is never.
    pub(super) read: u64,
    /// Rounds of this team so far.
    pub(super) rounds: u64,
    /// True if this team ran rounds other than those of [`Member::rounds`](super::Member::rounds).
    pub(super) mixed: bool,
    site: RoundSite<'c>,
    /// `None` while no rounds are run.
    tuner: Option<WidthTuner>,
    /// The last choice of a width and its reason, if the team is reported.
    last_choice: Option<String>,
    /// Place of the team, if it is reported.
    place: CallPlace,
}

impl<'c> RoundDriver<'c> {
    pub(super) fn new(site: RoundSite<'c>, place: CallPlace) -> Self {
        RoundDriver {
            next: None,
            members: 1,
            unread: 0,
            begun: 0,
            since: 0,
            read: 0,
            rounds: 0,
            mixed: false,
            site,
            tuner: None,
            last_choice: None,
            place,
        }
    }

    /// Records a round other than those of [`Member::rounds`](super::Member::rounds).
    #[inline]
    pub(super) fn mix(&mut self) {
        self.rounds += 1;
        self.mixed = true;
    }

    /// The next rounds of `range` in a team of `width`, and their number of members: one round, or several of one member. `None` after
    /// the last. The rounds before have ended.
    #[inline]
    pub(super) fn next(&mut self, range: &Range<usize>, width: usize) -> Option<(Range<usize>, usize)> {
        let (next, all) = self.next.get_or_insert_with(|| (range.start, range.clone()));
        check_range(range, all);
        let from = *next;
        if from >= range.end {
            self.end();
            return None;
        }
        if width == 1 {
            *next = range.end;
            self.rounds += (range.end - from) as u64;
            return Some((from..range.end, 1));
        }
        if self.unread == 0 {
            self.read_clock(width);
        }
        let rounds = if self.members == 1 { self.unread.min(range.end - from) } else { 1 };
        self.next = Some((from + rounds, range.clone()));
        self.unread -= rounds;
        self.begun += rounds;
        self.rounds += rounds as u64;
        Some((from..from + rounds, self.members))
    }

    /// Records a round of a team of one that has no range.
    #[inline]
    pub(super) fn alone(&mut self) {
        self.rounds += 1;
    }

    /// Ends the rounds before their range does; the last `unrun` rounds that were given out were not run.
    pub(super) fn stop(&mut self, unrun: usize) {
        self.begun = self.begun.saturating_sub(unrun);
        self.rounds = self.rounds.saturating_sub(unrun as u64);
        self.end();
    }

    #[inline(never)]
    fn read_clock(&mut self, width: usize) {
        let (now, site, begins) = (tick(), self.site, self.tuner.is_none());
        let left = self.next.as_ref().map_or(usize::MAX, |(next, all)| all.end - next);
        self.read = now;
        let tuner = self.tuner.get_or_insert_with(|| {
            self.since = now;
            let widths = site.sites.recall_team(site.site).widths;
            WidthTuner::new(width, &site.timing.machine, widths, site.timing.nanos(now)).with_left(left)
        });
        let (mut segment, elapsed) = (tuner.segment(), site.timing.nanos(now.saturating_sub(self.since)));
        if self.begun >= segment.rounds || (self.begun > 0 && elapsed.0 >= segment.deadline.0) {
            segment = tuner.report(self.begun, elapsed);
            (self.begun, self.since) = (0, now);
        }
        if begins || self.members != segment.width {
            note(self.place, site.site, segment.width, now);
        }
        self.members = segment.width;
        self.unread = segment.every.min(segment.rounds - self.begun).max(1);
    }

    fn end(&mut self) {
        if let Some(tuner) = self.tuner.take() {
            self.last_choice = self.place.map(|_| tuner.account());
            let now = tick();
            note(self.place, self.site.site, 0, now);
            let elapsed = self.site.timing.nanos(now.saturating_sub(self.since));
            let widths = tuner.end(self.begun, elapsed);
            if let Some(mut stats) = self.site.sites.team(self.site.site) {
                stats.widths = widths;
            }
        }
        (self.next, self.unread, self.begun) = (None, 0, 0);
    }
}

/// From the tick `now` on, the rounds of a team from this place have `members` members, if the team is reported.
fn note(place: CallPlace, team: usize, members: usize, now: u64) {
    if place.is_some() {
        listen::ran(EventKind::Width { team }, place, members as u64, (now, now), false);
    }
}

/// The range of rounds that end by themselves.
///
/// Measure: chosen, all numbers of rounds.
pub(super) const ENDLESS: Range<usize> = 0..usize::MAX;

/// Leads the round that says to all members that no round of `range` is left.
pub(super) fn over<T: Send>(lead: LeaderGuard<'_, T>, range: &Range<usize>) {
    let width = lead.width();
    lead.round_of::<(usize, usize), ()>(width, OVER, |_, deal| {
        deal.none();
        (range.start, range.end)
    });
}

/// Runs the round that another member has led. Returns its number and what `work` returned, or `None` if no round of `range` is left.
#[inline]
pub(super) fn follow<S: LendCopy, P: Lend, R>(
    follow: Follow<'_>,
    range: &Range<usize>,
    work: impl for<'x> FnOnce(usize, Lent<'x, S>, Lent<'x, P>) -> R,
) -> Option<(usize, R)> {
    let round = follow.note();
    if round == OVER {
        let ((start, end), ()) = follow.open::<(usize, usize), ()>();
        check_range(range, &(start..end));
        return None;
    }
    let (shared, part) = follow.open::<S, P>();
    let round = round as usize;
    assert!(range.contains(&round), "{OTHER_RANGES}: round {round} is not in {range:?}");
    Some((round, work(round, shared, part)))
}

/// Panics if two members pass different ranges to `rounds`.
#[inline]
fn check_range(mine: &Range<usize>, other: &Range<usize>) {
    assert!(mine == other, "{OTHER_RANGES}: {mine:?} and {other:?}");
}

const OTHER_RANGES: &str = "the members of a team passed different ranges to `rounds`";

/// The note that no round follows. (No range contains it.)
///
/// Measure: bits of the note.
const OVER: u64 = u64::MAX;

/// Reports a team of `members`, and its rounds if it had some.
#[cold]
pub(super) fn end_team(reported: Reported, members: usize, reason: &'static str, driver: &RoundDriver<'_>) {
    let account = Account::because(reason);
    let team = Event { threads: members, ..reported.event(&account) };
    if driver.rounds == 0 {
        return reported.end(&team);
    }
    // The rounds of a range do not end if a member leaves early.
    let running = driver.tuner.as_ref().map(WidthTuner::account);
    let reason = match running.or_else(|| driver.last_choice.clone()) {
        Some(choice) => format!("the last rounds at {choice}").into(),
        None if members == 1 => "one member".into(),
        None => "each with all members".into(),
    };
    let account = Account { reason, ..Account::default() };
    reported.end_team(&team, &Event { items: driver.rounds, decision: Decided::Now(&account), ..team });
}
