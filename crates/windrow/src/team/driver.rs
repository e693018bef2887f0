//! The driver of rounds: which round comes next, and how many members it gets.
//!
//! The rounds of one call of [`Member::rounds`](super::Member::rounds) are run in *segments*. All rounds of a segment have one width. The
//! clock is read now and then. At the end of a segment the [`WidthTuner`] gets its duration, and chooses the next segment. Only the leader of
//! a round uses the driver.

use std::ops::Range;

use windrow_plan::Decision;
use windrow_plan::width::{RoundCosts, Segment, WidthTuner};
use windrow_sync::machine::tick;

use crate::runtime::explain;
use crate::runtime::state::PoolState;

/// The state that passes from leader to leader in [`Member::rounds`](super::Member::rounds).
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
    /// Whether this team ran rounds other than those of [`Member::rounds`](super::Member::rounds).
    pub(super) mixed: bool,
    pool: &'c PoolState,
    site: usize,
    segment: Option<(WidthTuner, Segment)>,
    /// The rounds of the last call of [`Member::rounds`](super::Member::rounds), and the last decision about their width, if the caller
    /// listens.
    pub(super) last_choice: Option<(usize, Decision<RoundCosts, Segment>)>,
    listens: bool,
}

impl<'c> RoundDriver<'c> {
    pub(super) fn new(pool: &'c PoolState, site: usize) -> Self {
        RoundDriver {
            next: None,
            members: 1,
            unread: 0,
            begun: 0,
            since: 0,
            mixed: false,
            pool,
            site,
            segment: None,
            last_choice: None,
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
            return Some((round, 1));
        }
        if self.unread == 0 {
            self.read_clock(width);
        }
        self.unread -= 1;
        self.begun += 1;
        Some((round, self.members))
    }

    #[inline(never)]
    fn read_clock(&mut self, width: usize) {
        let now = tick();
        let (tuner, segment) = match &mut self.segment {
            Some(running) => running,
            none => {
                self.since = now;
                let widths = self.pool.sites.recall_team(self.site).widths;
                let tuner = WidthTuner::new(width, self.pool.guess(), widths, self.pool.nanos(now));
                none.insert((tuner, tuner.segment()))
            }
        };
        let elapsed = self.pool.nanos(now.saturating_sub(self.since));
        if self.begun >= segment.rounds || (self.begun > 0 && elapsed.0 >= segment.deadline.0) {
            *segment = tuner.report(self.begun, elapsed);
            (self.begun, self.since) = (0, now);
        }
        self.members = segment.width;
        self.unread = segment.every.min(segment.rounds - self.begun).max(1);
    }

    fn end(&mut self) {
        if let Some((tuner, _)) = self.segment.take() {
            if self.listens {
                let rounds = self.next.as_ref().map_or(0, |(next, all)| next - all.start);
                self.last_choice = Some((rounds, tuner.decision()));
            }
            let elapsed = self.pool.nanos(tick().saturating_sub(self.since));
            let widths = tuner.end(self.begun, elapsed);
            if let Some(mut stats) = self.pool.sites.team(self.site) {
                stats.widths = widths;
            }
        }
        (self.next, self.unread, self.begun) = (None, 0, 0);
    }
}
