//! Which round comes next, and how many members it gets.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use windrow_plan::Nanos;
use windrow_plan::team::{Memory, Rhythm, Segment, Way, Whole};
use windrow_sync::machine::tick;

use crate::crew::Crew;

/// Call sites whose rounds a pool remembers; two that share a place forget each other.
const PLACES: usize = 64;

/// What is remembered of the teams of each call site.
#[derive(Debug)]
pub(crate) struct Sites([Mutex<Place>; PLACES]);

#[derive(Debug, Default)]
struct Place {
    site: usize,
    rounds: Memory,
    /// What the last team took from its forming to its end.
    took: Nanos,
    calls: Whole,
}

impl Default for Sites {
    fn default() -> Self {
        Sites(std::array::from_fn(|_| Mutex::default()))
    }
}

impl Sites {
    /// (A place that is in use, or was when the process was forked, knows nothing: nobody waits for a memory.)
    pub(super) fn recall(&self, site: usize) -> (Memory, Nanos) {
        match self.place(site).try_lock() {
            Ok(place) if place.site == site => (place.rounds, place.took),
            _ => (Memory::new(), Nanos(0.0)),
        }
    }

    /// How to run the next team of this site.
    pub(super) fn way(&self, site: usize) -> Way {
        match self.place(site).try_lock() {
            Ok(place) if place.site == site => place.calls.choose(),
            _ => Way::Together,
        }
    }

    fn keep(&self, site: usize, rounds: Memory) {
        if let Some(mut place) = self.take(site) {
            place.rounds = rounds;
        }
    }

    pub(super) fn took(&self, site: usize, way: Way, took: Nanos) {
        if let Some(mut place) = self.take(site) {
            place.took = took;
            place.calls = place.calls.after(way, took);
        }
    }

    fn take(&self, site: usize) -> Option<MutexGuard<'_, Place>> {
        let mut place = self.place(site).try_lock().ok()?;
        if place.site != site {
            *place = Place { site, ..Place::default() };
        }
        Some(place)
    }

    fn place(&self, site: usize) -> &Mutex<Place> {
        // Functions lie 16 bytes apart.
        &self.0[(site >> 4) % PLACES]
    }
}

/// Who runs rounds beside the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// Nobody, and nothing is to be learned from that.
    None,
    /// Nobody, as rounds were one member's lately: the team [stands alone](Memory::stands_alone).
    Spared,
    Here,
}

/// What goes from leader to leader in [`Member::rounds`](super::Member::rounds).
#[repr(C, align(64))]
pub(super) struct Beat<'c> {
    /// The next round, and the range of all; none while no rounds are run.
    next: Option<(usize, Range<usize>)>,
    members: usize,
    /// Rounds until the clock is looked at again.
    look: usize,
    /// Rounds of the segment that have been begun.
    begun: usize,
    since: u64,
    /// Something else than [`Member::rounds`](super::Member::rounds) was run.
    mixed: bool,
    company: Company,
    crew: &'c Crew,
    site: usize,
    segment: Option<(Rhythm, Segment)>,
}

impl<'c> Beat<'c> {
    pub(super) fn new(crew: &'c Crew, site: usize, company: Company) -> Self {
        Beat { next: None, members: 1, look: 0, begun: 0, since: 0, mixed: false, company, crew, site, segment: None }
    }

    /// Says that something else than [`Member::rounds`](super::Member::rounds) is run.
    #[inline]
    pub(super) fn mix(&mut self) {
        self.mixed = true;
    }

    /// The next round of `range` in a team of `width`, and how many members it gets; none if it is over. The round before has ended.
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
                // A claim is an exchange and a look at the clock, which take about the same.
                let clock = Nanos(self.crew.fixed_costs().claim.0 / 2.0);
                let rhythm = Rhythm::new(width, clock, self.crew.teams.recall(self.site).0, self.crew.nanos(now));
                none.insert((rhythm, rhythm.segment()))
            }
        };
        let elapsed = self.crew.nanos(now.saturating_sub(self.since));
        if self.begun >= segment.rounds || (self.begun > 0 && elapsed.0 >= segment.deadline.0) {
            *segment = rhythm.report(self.begun, elapsed);
            (self.begun, self.since) = (0, now);
        }
        self.members = segment.width;
        self.look = segment.every.min(segment.rounds - self.begun).max(1);
    }

    fn end(&mut self) {
        if let Some((rhythm, _)) = self.segment.take() {
            let elapsed = self.crew.nanos(tick().saturating_sub(self.since));
            self.crew.teams.keep(self.site, rhythm.end(self.begun, elapsed));
        } else if self.company == Company::Spared {
            let elapsed = self.crew.nanos(tick().saturating_sub(self.since));
            self.crew.teams.keep(self.site, self.crew.teams.recall(self.site).0.after_alone(self.begun, elapsed));
        }
        (self.next, self.look, self.begun) = (None, 0, 0);
    }
}

impl Drop for Beat<'_> {
    fn drop(&mut self) {
        if self.mixed && self.company != Company::None {
            self.crew.teams.keep(self.site, self.crew.teams.recall(self.site).0.mixed());
        }
    }
}
