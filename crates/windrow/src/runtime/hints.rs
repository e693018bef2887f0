//! Knowledge of a call in advance: its place in the program, fixed claims, weights, and the tokens that can cancel it.

use std::num::NonZeroUsize;
use std::panic::Location;
use std::sync::Arc;

use windrow_plan::share::Extra;
use windrow_sync::divide::{Divide, Division};

use super::cancellation::Cancellation;

/// Knowledge of a call in advance. Iterators move it, so it is small: rare hints are in a box.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// The place of the consumer.
    pub(crate) place: Option<&'static Location<'static>>,
    rare: Option<Box<RareHints>>,
    /// If indices stand for blocks of items.
    blocks: Option<BlocksOf>,
    /// A claim is one chunk, because the number of items depends on the bounds of chunks. Otherwise members poll inside a claim.
    pub(crate) whole: bool,
    /// Longer runs of items end at multiples of this, where they can; 0 is none.
    pub(crate) unit: usize,
    /// Bytes of an item that only a shared call reads and writes.
    pub(crate) extra: Extra<usize>,
    /// The loop's role in the reported call.
    pub(crate) part: CallPart,
}

/// Hints of few calls.
#[derive(Clone, Debug, Default)]
struct RareHints {
    /// Items of every claim, fixed.
    chunk: Option<usize>,
    /// Items of every claim, at most.
    most: Option<usize>,
    /// Weights of items.
    weights: Option<Weights>,
    /// The tokens that can cancel the call.
    cancellation: Option<Arc<Cancellation>>,
}

/// Blocks of `block` items, of `n` items in all.
#[derive(Clone, Copy, Debug)]
struct BlocksOf {
    block: NonZeroUsize,
    n: usize,
}

/// A loop's role in the reported call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallPart {
    /// The call.
    #[default]
    Whole,
    /// A further pass of the call whose first pass was reported: its time counts, and it is no call.
    Further,
    /// A part of a call that is reported with its time.
    Silent,
}

impl Hints {
    /// Items of every claim, if that is fixed.
    #[inline]
    pub(crate) fn chunk(&self) -> Option<usize> {
        self.rare.as_ref()?.chunk
    }

    /// Items of every claim, at most.
    #[inline]
    pub(crate) fn most(&self) -> usize {
        self.rare.as_ref().and_then(|rare| rare.most).unwrap_or(usize::MAX)
    }

    /// Weights of items.
    #[inline]
    fn weights(&self) -> Option<&Weights> {
        self.rare.as_ref()?.weights.as_ref()
    }

    /// The tokens that can cancel the call.
    #[inline]
    pub(crate) fn cancellation(&self) -> Option<&Arc<Cancellation>> {
        self.rare.as_ref()?.cancellation.as_ref()
    }

    /// True if nothing is known but the place.
    #[inline]
    pub(crate) fn are_plain(&self) -> bool {
        self.rare.is_none()
    }

    /// Claims of `chunk` items.
    pub(crate) fn set_chunk(&mut self, chunk: usize) {
        self.rare().chunk = Some(chunk);
    }

    /// Claims of at most `most` items.
    pub(crate) fn limit(&mut self, most: usize) {
        let rare = self.rare();
        rare.chunk = rare.chunk.map(|chunk| chunk.min(most)).or((most == 1).then_some(1));
        rare.most = rare.most.into_iter().chain([most]).min();
    }

    pub(crate) fn weigh(&mut self, weights: Weights) {
        self.rare().weights = Some(weights);
    }

    /// For items with other numbers.
    #[inline]
    pub(crate) fn drop_weights(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.weights = None;
        }
    }

    pub(crate) fn set_cancellation(&mut self, cancellation: Arc<Cancellation>) {
        self.rare().cancellation = Some(cancellation);
    }

    fn rare(&mut self) -> &mut RareHints {
        self.rare.get_or_insert_default()
    }

    /// These hints. What is missing is taken from `other`.
    #[inline(always)]
    pub(crate) fn or(self, other: Hints) -> Hints {
        let rare = match (self.rare, other.rare) {
            (Some(rare), Some(other)) => Some(Box::new((*rare).or(*other))),
            (rare, other) => rare.or(other),
        };
        Hints { place: self.place.or(other.place), rare, part: self.part, ..Hints::default() }
    }

    /// The hints for blocks of `block` items, of `n` items in all.
    ///
    /// # Panics
    /// If `block` is 0.
    pub(crate) fn of_blocks(&self, block: usize, n: usize) -> Hints {
        let in_each = NonZeroUsize::new(block).expect("a block has items");
        Hints {
            place: self.place,
            rare: self.rare.as_ref().map(|rare| Box::new(rare.of_blocks(block, n))),
            blocks: Some(BlocksOf { block: in_each, n }),
            part: self.part,
            ..Hints::default()
        }
    }

    /// True if a member has to leave: another one has panicked, or the call is cancelled.
    #[inline]
    pub(crate) fn is_cut<S: Divide>(&self, division: &Division<S>) -> bool {
        division.is_stopped() || self.cuts()
    }

    /// True if a member has to leave the items at hand, because the call is cancelled.
    #[inline]
    pub(crate) fn cuts(&self) -> bool {
        self.cancellation().is_some_and(|it| it.cuts())
    }

    /// True if a member has left items, because the call is cancelled.
    pub(crate) fn has_cut(&self) -> bool {
        self.cancellation().is_some_and(|it| it.has_cut())
    }

    /// The number of items before index `at`, where an index may stand for a block.
    #[inline]
    pub(crate) fn items_before(&self, at: usize) -> u64 {
        self.blocks.map_or(at, |BlocksOf { block, n }| at.saturating_mul(block.get()).min(n)) as u64
    }

    /// The results of a call. If results are missing because the call was cancelled, none, which the caller drops.
    ///
    /// # Panics
    /// If results are missing for another reason.
    pub(crate) fn complete<R: Default>(&self, results: Option<R>) -> R {
        match results {
            Some(results) => results,
            None if self.cancellation().is_some() => R::default(),
            None => panic!("a recipe produced fewer results than it has indices"),
        }
    }

    /// Weight of the items `lo..hi`.
    #[inline]
    pub(crate) fn weight(&self, lo: usize, hi: usize) -> u64 {
        match self.weights() {
            Some(weights) => weights.between(lo, hi),
            None => (hi - lo) as u64,
        }
    }

    /// Number of items to claim from `lo` on that weigh about `weight`; at least 1, at most up to `hi`.
    #[inline]
    pub(crate) fn items(&self, lo: usize, hi: usize, weight: u64) -> usize {
        let items = self.chunk().map_or_else(|| self.weighing(lo, hi, weight), |chunk| chunk.min(hi - lo));
        let items = items.min(self.most());
        if lo + items < hi { self.rounded(lo, lo + items) - lo } else { items }
    }

    /// The last multiple of the unit in `lo..=end`, or `end` if there is none, or if it is `lo`.
    #[inline]
    fn rounded(&self, lo: usize, end: usize) -> usize {
        if self.unit == 0 || end - lo < self.unit { end } else { end - end % self.unit }
    }

    /// Number of items from `lo` on that weigh about `weight`, up to `hi`.
    #[inline]
    pub(crate) fn weighing(&self, lo: usize, hi: usize, weight: u64) -> usize {
        match self.weights() {
            Some(weights) => weights.reach(lo, hi, weight) - lo,
            None => usize::try_from(weight).unwrap_or(usize::MAX).min(hi - lo),
        }
    }

    /// Begin of part `part` of `parts` equal ones of `lo..hi`.
    pub(crate) fn part(&self, lo: usize, hi: usize, part: usize, parts: usize) -> usize {
        let share = |whole: u64| (u128::from(whole) * part as u128 / parts as u128) as u64;
        match self.weights() {
            Some(weights) if part > 0 && lo < hi => weights.reach(lo, hi, share(weights.between(lo, hi))),
            _ => self.rounded(lo, lo + share((hi - lo) as u64) as usize),
        }
    }

    /// The index that halves `lo..hi` by weight.
    #[inline]
    pub(crate) fn middle(&self, lo: usize, hi: usize) -> usize {
        match self.weights() {
            Some(weights) => weights.reach(lo, hi, weights.between(lo, hi) / 2),
            None => self.rounded(lo, lo.midpoint(hi)),
        }
    }
}

impl RareHints {
    fn or(self, other: Self) -> Self {
        RareHints {
            chunk: self.chunk.or(other.chunk),
            most: self.most.into_iter().chain(other.most).min(),
            weights: self.weights.or(other.weights),
            cancellation: self.cancellation.or(other.cancellation),
        }
    }

    fn of_blocks(&self, block: usize, n: usize) -> Self {
        RareHints {
            chunk: self.chunk.map(|chunk| chunk.div_ceil(block)),
            most: self.most.map(|most| (most / block).max(1)),
            weights: self.weights.as_ref().map(|weights| weights.of_blocks(block, n)),
            cancellation: self.cancellation.clone(),
        }
    }
}

/// Weights of all items, as running sums. An item weighs at least 1.
#[derive(Clone, Debug)]
pub(crate) struct Weights {
    sums: Box<[u64]>,
}

impl Weights {
    pub(crate) fn new(weights: impl Iterator<Item = usize>) -> Self {
        let mut sum = 0u64;
        let mut sums = vec![0];
        sums.extend(weights.map(|weight| {
            sum = sum.saturating_add(weight.max(1) as u64);
            sum
        }));
        Self { sums: sums.into() }
    }

    fn of_blocks(&self, block: usize, n: usize) -> Self {
        let bounds = (0..=n.div_ceil(block)).map(|at| self.sum(at.saturating_mul(block).min(n)));
        Self { sums: bounds.collect() }
    }

    /// Weight of the first `at` items. (Zip may walk fewer items than were weighed, never more of the weighed side.)
    fn sum(&self, at: usize) -> u64 {
        self.sums[at.min(self.sums.len() - 1)]
    }

    fn between(&self, lo: usize, hi: usize) -> u64 {
        self.sum(hi) - self.sum(lo)
    }

    /// The end of the shortest run from `lo` that weighs at least `weight`: in `lo + 1..=hi`.
    fn reach(&self, lo: usize, hi: usize, weight: u64) -> usize {
        let target = self.sum(lo).saturating_add(weight);
        let inner = &self.sums[(lo + 1).min(self.sums.len())..hi.min(self.sums.len())];
        lo + 1 + inner.partition_point(|&sum| sum < target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_measure_runs() {
        let weights = Weights::new([5, 0, 3, 10].into_iter());
        assert_eq!((weights.between(0, 4), weights.between(1, 3)), (19, 4));
        assert_eq!(weights.reach(0, 4, 0), 1);
        assert_eq!(weights.reach(0, 4, 6), 2);
        assert_eq!(weights.reach(0, 4, 7), 3);
        assert_eq!(weights.reach(1, 4, 1000), 4);
        assert_eq!(weights.reach(3, 4, 1), 4);
        let blocks = weights.of_blocks(3, 4);
        assert_eq!((blocks.between(0, 1), blocks.between(1, 2)), (9, 10));
    }

    #[test]
    fn hints_size_claims() {
        let plain = Hints::default();
        assert_eq!((plain.items(3, 10, 4), plain.items(3, 5, 4), plain.middle(2, 10)), (4, 2, 6));
        let with = |set: fn(&mut Hints)| {
            let mut hints = Hints::default();
            set(&mut hints);
            hints
        };
        let fixed = with(|hints| hints.set_chunk(3));
        assert_eq!((fixed.items(0, 10, 100), fixed.items(8, 10, 1)), (3, 2));
        assert_eq!(fixed.of_blocks(2, 10).chunk(), Some(2));
        let bounded = with(|hints| hints.limit(5));
        assert_eq!([3, 5, 100].map(|weight| bounded.items(0, 50, weight)), [3, 5, 5]);
        assert_eq!([2, 3, 7].map(|block| bounded.of_blocks(block, 50).most()), [2, 1, 1]);
        let both = bounded.or(with(|hints| hints.limit(4)));
        assert_eq!(both.clone().or(Hints::default()).most(), 4);
        assert_eq!(Hints::default().or(both).most(), 4);
        assert_eq!([0, 1, 2, 3].map(|part| plain.part(10, 20, part, 3)), [10, 13, 16, 20]);
        let weighed = with(|hints| hints.weigh(Weights::new([100, 1, 1, 1].into_iter())));
        assert_eq!((weighed.items(0, 4, 50), weighed.items(1, 4, 2)), (1, 2));
        assert_eq!(weighed.middle(0, 4), 1);
        assert_eq!([0, 1, 2].map(|part| weighed.part(0, 4, part, 3)), [0, 1, 1]);
    }
}
