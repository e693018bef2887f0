//! Polling in a long run: pieces of about a heartbeat, and a poll before each piece.

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

/// Sizes pieces so that a poll comes about once a heartbeat. If the last piece took less than half a heartbeat, the next one has twice its
/// items. If the last piece took more than a heartbeat, the next one has half of its items.
pub(crate) struct PollInterval<'w> {
    /// `None`: no polls, and all items are one piece.
    pool: Option<&'w PoolState>,
    size: usize,
    /// Items of the last piece, and when it was handed out.
    last: Option<(usize, u64)>,
}

impl<'w> PollInterval<'w> {
    pub(crate) fn new(pool: &'w PoolState) -> Self {
        Self { pool: Some(pool), size: 1, last: None }
    }

    pub(crate) fn whole() -> Self {
        Self { pool: None, size: usize::MAX, last: None }
    }

    /// Items of the next piece, of `rest` that are at hand.
    #[inline]
    pub(crate) fn next(&mut self, rest: usize) -> usize {
        let Some(pool) = self.pool else { return rest };
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            // Without a clock nothing can be sized in time.
            return 1;
        }
        let now = tick();
        if let Some((last, since)) = self.last {
            let took = pool.nanos(now.saturating_sub(since));
            if took > pool.guess().heartbeat() {
                self.size = (last / 2).max(1);
            } else if took.0 * 2.0 < pool.guess().heartbeat().0 && last == self.size {
                self.size = self.size.saturating_mul(2);
            }
        }
        let size = self.size.min(rest);
        self.last = Some((size, now));
        size
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
            while pool.nanos(tick()) <= pool.guess().heartbeat() {}
            interval.last = Some((4, 0));
            assert_eq!(interval.next(100), 2);
            assert_eq!(PollInterval::whole().next(100), 100);
        });
    }
}
