//! The driver of rounds: which round comes next, and how many members it gets.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use windrow_plan::team::{Memory, Mode, Segment, Standing, Whole, WidthTuner};
use windrow_plan::{Decision, Nanos};
use windrow_sync::machine::tick;

use crate::runtime::explain;
use crate::runtime::sites::slot;
use crate::runtime::state::PoolState;

/// Slots for call sites in each pool. Two sites with the same slot overwrite each other.
const PLACES: usize = 64;

/// Statistics of the teams of each call site.
#[derive(Debug)]
pub(crate) struct TeamSites([Mutex<TeamSite>; PLACES]);

#[derive(Debug, Default)]
struct TeamSite {
    site: usize,
    rounds: Memory,
    /// The time of the last team, from its forming to its end.
    took: Nanos,
    calls: Whole,
}

impl Default for TeamSites {
    fn default() -> Self {
        TeamSites(std::array::from_fn(|_| Mutex::default()))
    }
}

impl TeamSites {
    /// The statistics of a site's rounds, and the time of its last team. A slot that is locked, perhaps for ever since a fork, counts
    /// as empty: a call does not wait for statistics.
    pub(super) fn recall(&self, site: usize) -> (Memory, Nanos) {
        match self.place(site).try_lock() {
            Ok(place) if place.site == site => (place.rounds, place.took),
            _ => (Memory::new(), Nanos(0.0)),
        }
    }

    /// How to run the next team of this site.
    pub(super) fn way(&self, site: usize) -> Mode {
        match self.place(site).try_lock() {
            Ok(place) if place.site == site => place.calls.choose(),
            _ => Mode::Together,
        }
    }

    fn keep(&self, site: usize, rounds: Memory) {
        if let Some(mut place) = self.take(site) {
            place.rounds = rounds;
        }
    }

    pub(super) fn took(&self, site: usize, way: Mode, took: Nanos) {
        if let Some(mut place) = self.take(site) {
            place.took = took;
            place.calls = place.calls.after(way, took);
        }
    }

    fn take(&self, site: usize) -> Option<MutexGuard<'_, TeamSite>> {
        let mut place = self.place(site).try_lock().ok()?;
        if place.site != site {
            *place = TeamSite { site, ..TeamSite::default() };
        }
        Some(place)
    }

    fn place(&self, site: usize) -> &Mutex<TeamSite> {
        &self.0[slot(site, PLACES)]
    }
}

/// Whether members other than the caller run rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// None, and the call gives no statistics.
    None,
    /// None, since the last rounds ran on one member: the team [stands alone](Memory::stands_alone).
    Spared,
    Here,
}

/// The state that passes from leader to leader in [`Member::rounds`](super::Member::rounds).
#[repr(C, align(64))]
pub(super) struct RoundDriver<'c> {
    /// The next round, and the range of all rounds; `None` while no rounds are run.
    next: Option<(usize, Range<usize>)>,
    members: usize,
    /// Rounds until the clock is read again.
    look: usize,
    /// Rounds of the segment that have begun.
    begun: usize,
    since: u64,
    /// Rounds other than those of [`Member::rounds`](super::Member::rounds) were run.
    mixed: bool,
    company: Company,
    pool: &'c PoolState,
    site: usize,
    segment: Option<(WidthTuner, Segment)>,
    /// The rounds of the last call of [`Member::rounds`](super::Member::rounds), and the last decision about their width, if the caller
    /// listens.
    pub(super) told: Option<(usize, Decision<Standing, Segment>)>,
    listens: bool,
}

impl<'c> RoundDriver<'c> {
    pub(super) fn new(pool: &'c PoolState, site: usize, company: Company) -> Self {
        RoundDriver {
            next: None,
            members: 1,
            look: 0,
            begun: 0,
            since: 0,
            mixed: false,
            company,
            pool,
            site,
            segment: None,
            told: None,
            listens: explain::listens(),
        }
    }

    /// Records a round other than those of [`Member::rounds`](super::Member::rounds).
    #[inline]
    pub(super) fn mix(&mut self) {
        self.mixed = true;
    }

    /// The next round of `range` in a team of `width`, and its number of members; `None` after the last. The round before has ended.
    #[inline]
    pub(super) fn next(&mut self, range: &Range<usize>, width: usize) -> Option<(usize, usize)> {
        let (next, all) = self.next.get_or_insert_with(|| (range.start, range.clone()));
        super::check_range(range, all);
        let round = *next;
        if round >= range.end {
            self.end();
            return None;
        }
        *next = round + 1;
        if width == 1 {
            if self.company == Company::Spared && self.begun == 0 {
                self.since = tick();
            }
            self.begun += 1;
            return Some((round, 1));
        }
        if self.look == 0 {
            self.look_at_clock(width);
        }
        self.look -= 1;
        self.begun += 1;
        Some((round, self.members))
    }

    #[inline(never)]
    fn look_at_clock(&mut self, width: usize) {
        let now = tick();
        let (rhythm, segment) = match &mut self.segment {
            Some(running) => running,
            none => {
                self.since = now;
                let clock = self.pool.guess().clock();
                let rhythm = WidthTuner::new(width, clock, self.pool.teams.recall(self.site).0, self.pool.nanos(now));
                none.insert((rhythm, rhythm.segment()))
            }
        };
        let elapsed = self.pool.nanos(now.saturating_sub(self.since));
        if self.begun >= segment.rounds || (self.begun > 0 && elapsed.0 >= segment.deadline.0) {
            *segment = rhythm.report(self.begun, elapsed);
            (self.begun, self.since) = (0, now);
        }
        self.members = segment.width;
        self.look = segment.every.min(segment.rounds - self.begun).max(1);
    }

    fn end(&mut self) {
        if let Some((rhythm, _)) = self.segment.take() {
            if self.listens {
                let rounds = self.next.as_ref().map_or(0, |(next, all)| next - all.start);
                self.told = Some((rounds, rhythm.decision()));
            }
            let elapsed = self.pool.nanos(tick().saturating_sub(self.since));
            self.pool.teams.keep(self.site, rhythm.end(self.begun, elapsed));
        } else if self.company == Company::Spared {
            let elapsed = self.pool.nanos(tick().saturating_sub(self.since));
            self.pool.teams.keep(self.site, self.pool.teams.recall(self.site).0.after_alone(self.begun, elapsed));
        }
        (self.next, self.look, self.begun) = (None, 0, 0);
    }
}

impl Drop for RoundDriver<'_> {
    fn drop(&mut self) {
        if self.mixed && self.company != Company::None {
            self.pool.teams.keep(self.site, self.pool.teams.recall(self.site).0.mixed());
        }
    }
}
