//! Polling in a long run: pieces sized in time, and a poll before each piece.

use windrow_plan::Nanos;
use windrow_sync::divide::{Divide, Span};
use windrow_sync::machine::tick;
use windrow_sync::views::BlockPieces;

use crate::runtime::state::PoolState;

/// A block in pieces. `stopped` is polled before each piece, and ends the block if it returns true. `taken` gets the span of each piece.
pub(crate) struct PolledPieces<'a, 'w, 's, S: Divide, F: Fn() -> bool, G: Fn(Span)> {
    pieces: BlockPieces<'s, S>,
    interval: &'a mut PollInterval<'w>,
    stopped: F,
    taken: G,
    cut: bool,
}

impl<'a, 'w, 's, S: Divide, F: Fn() -> bool, G: Fn(Span)> PolledPieces<'a, 'w, 's, S, F, G> {
    pub(crate) fn new(pieces: BlockPieces<'s, S>, interval: &'a mut PollInterval<'w>, stopped: F, taken: G) -> Self {
        Self { pieces, interval, stopped, taken, cut: false }
    }

    /// Whether `stopped` ended the block.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }
}

impl<'s, S: Divide, F: Fn() -> bool, G: Fn(Span)> Iterator for PolledPieces<'_, '_, 's, S, F, G> {
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
        let piece = self.pieces.take(self.interval.next(rest))?;
        (self.taken)(piece.0);
        Some(piece)
    }
}

/// Items of the first piece of a long claim. The shortest items take half a nanosecond (record `par`): a poll and a read of the clock after
/// 500 ns cost 2 %, and pieces double from there.
///
/// Measure: count of items.
const SHORT: usize = 1024;

/// Sizes pieces so that a poll comes about once an interval. If the last piece took less than half of it, the next one has twice its items. If
/// the last piece took longer than the interval, the next one has as many items as fit.
pub(crate) struct PollInterval<'w> {
    /// The pool whose clock is read, and the interval. `None`: no polls, and all items are one piece.
    pool: Option<(&'w PoolState, Nanos)>,
    size: usize,
    /// Items of the last piece, and when it was handed out.
    last: Option<(usize, u64)>,
}

impl<'w> PollInterval<'w> {
    /// A heartbeat.
    pub(crate) fn new(pool: &'w PoolState) -> Self {
        Self { pool: Some((pool, pool.guess().heartbeat())), size: 1, last: None }
    }

    /// A quarter of a heartbeat, for the pieces of a claim.
    pub(crate) fn short(pool: &'w PoolState) -> Self {
        Self { pool: Some((pool, pool.guess().poll())), size: SHORT, last: None }
    }

    pub(crate) fn whole() -> Self {
        Self { pool: None, size: usize::MAX, last: None }
    }

    /// Items of the next piece, of `rest` that are at hand.
    #[inline]
    pub(crate) fn next(&mut self, rest: usize) -> usize {
        let Some((pool, interval)) = self.pool else { return rest };
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            // Without a clock nothing can be sized in time.
            return 1;
        }
        let now = tick();
        if let Some((last, since)) = self.last {
            let took = pool.nanos(now.saturating_sub(since));
            if took > interval {
                self.size = ((last as f64 * interval.0 / took.0) as usize).max(1);
            } else if took.0 * 2.0 < interval.0 && last == self.size {
                self.size = self.size.saturating_mul(2);
            }
        }
        let size = self.size.min(rest);
        self.last = Some((size, now));
        size
    }

    /// Items of the first piece of a claim of `items`. The clock is not read for a short claim, which is one piece: its size follows from the
    /// cost of the items before it.
    #[inline]
    pub(crate) fn first(&mut self, items: usize) -> usize {
        self.last = None;
        if items <= SHORT { items } else { self.next(items) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::pool::with_current;

    #[test]
    fn pieces_follow_the_time_that_the_last_one_took() {
        with_current(|pool| {
            let mut interval = PollInterval::new(pool);
            assert_eq!(interval.next(100), 1);
            // In the future: no time has passed, whatever interrupts this thread.
            interval.last = Some((1, u64::MAX));
            assert_eq!(interval.next(100), 2);
            interval.last = Some((2, u64::MAX));
            assert_eq!(interval.next(3), 3, "no more than there is");
            interval.last = Some((3, u64::MAX));
            assert_eq!(interval.next(100), 4, "a short piece is no reason to take a longer one");
            // A piece of 400 items took twenty intervals: the next one has a twentieth of them at most.
            let since = tick();
            while pool.nanos(tick() - since).0 <= 20.0 * pool.guess().heartbeat().0 {}
            interval.last = Some((400, since));
            let next = interval.next(1000);
            assert!((1..=20).contains(&next), "{next}");
            assert_eq!(PollInterval::whole().next(100), 100);
            assert_eq!(PollInterval::short(pool).first(2 * SHORT), SHORT);
            assert_eq!(PollInterval::short(pool).first(SHORT - 1), SHORT - 1);
        });
    }
}
