//! Polling in a long run: pieces sized in time, and a poll before each piece.

use windrow_plan::Nanos;
use windrow_sync::divide::{Divide, Held, Span};
use windrow_sync::machine::tick;

use crate::runtime::state::PoolState;

/// A block in pieces. `stopped` is polled before each piece, and ends the block if it returns true.
pub(crate) struct PolledPieces<'a, 'w, 's, S: Divide, F: Fn() -> bool> {
    pieces: Held<'s, S>,
    interval: &'a mut PollInterval<'w>,
    stopped: F,
    cut: bool,
}

impl<'a, 'w, 's, S: Divide, F: Fn() -> bool> PolledPieces<'a, 'w, 's, S, F> {
    pub(crate) fn new(pieces: Held<'s, S>, interval: &'a mut PollInterval<'w>, stopped: F) -> Self {
        Self { pieces, interval, stopped, cut: false }
    }

    /// Whether `stopped` ended the block.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }
}

impl<'s, S: Divide, F: Fn() -> bool> Iterator for PolledPieces<'_, '_, 's, S, F> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.pieces.rest();
        if rest == 0 || self.cut {
            return None;
        }
        if (self.stopped)() {
            self.cut = true;
            return None;
        }
        self.pieces.take(self.interval.next(rest))
    }
}

/// Sizes pieces in time, so that polls are frequent and the clock is read seldom: once in [`Machine::heartbeat`], whereas a piece lasts for
/// [`Machine::between_polls`], as far as the items before it tell.
///
/// [`Machine::heartbeat`]: windrow_plan::machine::Machine::heartbeat
/// [`Machine::between_polls`]: windrow_plan::machine::Machine::between_polls
pub(crate) struct PollInterval<'w> {
    /// The pool whose clock is read. `None`: no polls, and all items are one piece.
    pool: Option<&'w PoolState>,
    /// Items of a piece.
    size: usize,
    /// Items until the next look at the clock, and those between the last look and the next one.
    left: usize,
    between: usize,
    /// The last look.
    since: Option<u64>,
    /// Nanoseconds of an item as the last look showed.
    each: f64,
}

impl<'w> PollInterval<'w> {
    pub(crate) fn new(pool: Option<&'w PoolState>) -> Self {
        Self { pool, size: 1, left: 0, between: 1, since: None, each: f64::INFINITY }
    }

    /// The same from the time `now` on, for items that are expected to take `each` nanoseconds; 0 is unknown.
    #[inline]
    pub(crate) fn expecting(self, each: f64, now: u64) -> Self {
        let Some(machine) = self.pool.map(PoolState::guess) else { return self };
        let fits = |time| if each > 0.0 { fits(1, time, Nanos(each)) } else { FEW };
        let (size, between) = (fits(machine.between_polls()), fits(machine.heartbeat()));
        Self { size, left: between, between, since: Some(now), each, ..self }
    }

    /// Items of the next piece, of `rest` that are at hand.
    #[inline]
    pub(crate) fn next(&mut self, rest: usize) -> usize {
        let Some(pool) = self.pool else { return rest };
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            // Without a clock nothing can be sized in time.
            return rest.min(1);
        }
        if self.left == 0 {
            self.look(pool);
        }
        let size = self.size.min(self.left).min(rest);
        self.left -= size;
        size
    }

    /// Looks at the clock. If the items since the last look took less than half of a heartbeat, twice as many follow; if more than a heartbeat,
    /// as many as fit.
    #[inline(never)]
    fn look(&mut self, pool: &PoolState) {
        let (now, machine) = (tick(), pool.guess());
        if let Some(since) = self.since {
            let took = pool.nanos(now.saturating_sub(since));
            let each = took.0 / self.between as f64;
            let fits = fits(self.between, machine.between_polls(), took);
            self.size = resized(self.size, fits, each / self.each);
            self.each = each;
            let heartbeat = machine.heartbeat();
            if took > heartbeat {
                self.between = self::fits(self.between, heartbeat, took);
            } else if took.0 * 2.0 < heartbeat.0 {
                self.between = self.between.saturating_mul(2);
            }
        }
        (self.left, self.since) = (self.between, Some(now));
    }
}

/// The first piece of a claim of unknown cost, because one or two items may be too short for a poll.
///
/// Measure: count of items.
const FEW: usize = 8;

/// The factor by which the costs of an item in two pieces may differ: more is an effect of the size of pieces.
///
/// Measure: share of the smaller cost.
const STEADY: f64 = 1.25;

/// The next size of pieces that had `size` items, if `fits` items last for a poll's interval, and an item took `ratio` times as long as before.
fn resized(size: usize, fits: usize, ratio: f64) -> usize {
    match ratio {
        // Items have become longer, or something has interrupted this thread.
        _ if ratio > 2.0 => fits,
        // A piece costs more than its items, as in a build without optimization: the larger the better.
        _ if !(1.0 / STEADY..STEADY).contains(&ratio) => fits.max(size.saturating_mul(2)),
        _ => fits.max(size / 2),
    }
}

/// Items that take `time`, if `items` take `took`. At least one.
fn fits(items: usize, time: Nanos, took: Nanos) -> usize {
    ((items as f64 * time.0 / took.0) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::pool::with_current;

    #[test]
    fn pieces_follow_the_time_that_the_last_one_took() {
        with_current(|pool| {
            let mut interval = PollInterval::new(Some(pool));
            assert_eq!(interval.next(100), 1);
            // In the future: no time has passed, whatever interrupts this thread.
            for between in [2, 4, 8] {
                interval.since = Some(u64::MAX);
                assert_eq!((interval.next(100), interval.between), (between, between));
            }
            assert_eq!(interval.next(3), 3, "no more than there is");
            // 40,000 items took twenty heartbeats, and more than those before.
            let look = |interval: &mut PollInterval<'_>| {
                let since = tick();
                while pool.nanos(tick() - since).0 <= 20.0 * pool.guess().heartbeat().0 {}
                (interval.since, interval.left, interval.between, interval.each) = (Some(since), 0, 40_000, 0.0);
                interval.next(1000)
            };
            let polls = (pool.guess().heartbeat().0 / pool.guess().between_polls().0) as usize;
            let piece = look(&mut interval);
            assert!((1..=2000 / polls).contains(&piece), "{piece}");
            assert!((1..=2000).contains(&interval.between), "{}", interval.between);
            assert_eq!(PollInterval::new(None).next(100), 100);
            let each = pool.guess().between_polls().0 / 4.0;
            let first = |each| PollInterval::new(Some(pool)).expecting(each, tick()).next(100);
            assert_eq!([each, 0.0].map(first), [4, FEW]);
        });
    }

    #[test]
    fn pieces_grow_while_that_makes_items_cheaper() {
        assert_eq!(resized(300, 7, 3.0), 7, "items have become longer");
        assert_eq!([0.5, 1.5].map(|ratio| resized(300, 7, ratio)), [600, 600]);
        assert_eq!([resized(300, 7, 1.0), resized(300, 1000, 1.0)], [150, 1000]);
    }
}
