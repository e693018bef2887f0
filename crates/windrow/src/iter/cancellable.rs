//! Parallel calls that can be cancelled.
//!
//! A cancelled call ends when its longest claimed item does, and returns [`Cancelled`] instead of a partial result.
//!
//! A member polls the token before each claim, and between the pieces of a block. A caller without workers polls between pieces
//! that last at most a heartbeat. A poll is one load every microsecond or more (and a clock read if there is a deadline). Claims
//! and pieces are sized by the cost of earlier items. Behind a bridge that cost does not predict the next item, so a member polls
//! before each item.

use std::iter::{Product, Sum};
use std::sync::{Arc, Mutex, PoisonError};

use windrow_sync::divide::{Blocks, Divide, Division, Lead, Span};
use windrow_sync::flag::Flag;
use windrow_sync::slots::Slots;

use super::recipe::Recipe;
use super::reduce::{CountItems, Each, Folds, Gathers, Greatest, Least, Products, Sums, block};
use super::search::{Found, over};
use super::{ParallelIterator, consumed};
use crate::runtime::cancel::{CancelToken, Cancelled, Pulled, Tokens, ambient};
use crate::runtime::explain::{self, Explained};
use crate::runtime::hints::Hints;
use crate::runtime::poll::{PollInterval, PolledPieces};
use crate::runtime::pool::with_current;
use crate::runtime::region::{Walk, run};
use crate::runtime::state::PoolState;

/// A parallel iterator that ends early when its token is cancelled: see [`ParallelIterator::with_cancel`].
///
/// The consumers are those of [`ParallelIterator`], and return a `Result`. `Ok` is the result of the plain consumer, bit for bit.
/// `Err` means that items are missing: [`Cancelled`] counts them. An item that was begun is always finished; all others are
/// dropped.
#[derive(Debug)]
#[must_use = "parallel iterators do nothing until they are consumed"]
pub struct Cancellable<'t, P> {
    iter: P,
    token: &'t CancelToken,
}

impl<'t, P: ParallelIterator> Cancellable<'t, P> {
    pub(crate) fn new(iter: P, token: &'t CancelToken) -> Self {
        Self { iter, token }
    }

    /// Calls `f` with every item, in no particular order.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn for_each<F: Fn(P::Item) + Sync>(self, f: F) -> Result<(), Cancelled> {
        let (source, recipe, hints) = consumed(self.iter);
        let watch = Watch::new(self.token, &source, &recipe);
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|pool| {
            watched(pool, &hints, &watch, lead, shared, |walk, done| {
                let state = recipe.state();
                for (at, chunk) in walk {
                    recipe.iter(&state, at, chunk).for_each(&f);
                    done.add(at);
                    if watch.is_through(shared, at, &recipe) {
                        return;
                    }
                }
            });
        });
        watch.result(())
    }

    /// All items, in the order of the source: a vector, or a collection made from one.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed. Results so far are dropped.
    ///
    /// ```
    /// use windrow::CancelToken;
    /// use windrow::prelude::*;
    ///
    /// let squares: Vec<u64> = (0..100u64).into_par_iter().map(|x| x * x).with_cancel(&CancelToken::new()).collect()?;
    /// assert_eq!(squares[9], 81);
    /// # Ok::<(), windrow::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn collect<C: From<Vec<P::Item>>>(self) -> Result<C, Cancelled>
    where
        P::Item: Send,
    {
        if !P::Recipe::EXACT {
            return Ok(self.in_blocks(&Gathers)?.into_iter().flatten().collect::<Vec<_>>().into());
        }
        let (source, recipe, hints) = consumed(self.iter);
        let watch = Watch::new(self.token, &source, &recipe);
        let all = with_current(|pool| {
            let slots = Slots::new(source.total(), pool.members);
            let mut division = Division::new((source, slots));
            let (lead, shared) = division.lead();
            watched(pool, &hints, &watch, lead, shared, |walk, done| {
                let state = recipe.state();
                for (at, (chunk, mut fill)) in walk {
                    fill.fill(recipe.iter(&state, at, chunk));
                    done.add(at);
                }
            });
            division.done().1
        });
        watch.result(all).map(|all| all.expect("an exact recipe has one item for every index").into())
    }

    /// Combines all items with `op`, which must be associative; `identity()` may be combined in any number of times.
    ///
    /// `op` combines neighbours only, also when the call is cancelled.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn reduce<I: Fn() -> P::Item + Sync, F: Fn(P::Item, P::Item) -> P::Item + Sync>(
        self,
        identity: I,
        op: F,
    ) -> Result<P::Item, Cancelled>
    where
        P::Item: Send,
    {
        Ok(self.in_blocks(&Folds(&identity, &op))?.into_iter().fold(identity(), &op))
    }

    /// The sum of the items; the same bits for every number of threads, floats included.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn sum<T: Sum<P::Item> + Sum<T> + Send>(self) -> Result<T, Cancelled> {
        Ok(self.in_blocks(&Sums::<T>::new())?.into_iter().sum())
    }

    /// The product of the items; the same bits for every number of threads.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn product<T: Product<P::Item> + Product<T> + Send>(self) -> Result<T, Cancelled> {
        Ok(self.in_blocks(&Products::<T>::new())?.into_iter().product())
    }

    /// The number of items.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn count(self) -> Result<usize, Cancelled> {
        Ok(self.in_blocks(&CountItems)?.into_iter().sum())
    }

    /// The smallest item; of equal ones the first.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn min(self) -> Result<Option<P::Item>, Cancelled>
    where
        P::Item: Ord + Send,
    {
        Ok(self.in_blocks(&Least)?.into_iter().flatten().min())
    }

    /// The largest item; of equal ones the last.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed.
    #[track_caller]
    pub fn max(self) -> Result<Option<P::Item>, Cancelled>
    where
        P::Item: Ord + Send,
    {
        Ok(self.in_blocks(&Greatest)?.into_iter().flatten().max())
    }

    /// Whether `f` holds for an item. `Ok(true)` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed, and `f` held for none of those that were.
    #[track_caller]
    pub fn any<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Cancelled> {
        Ok(self.find_map_any(|item| f(item).then_some(()))?.is_some())
    }

    /// An item for which `f` holds. `Ok(Some(_))` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed, and `f` held for none of those that were.
    #[track_caller]
    pub fn find_any<F: Fn(&P::Item) -> bool + Sync>(self, f: F) -> Result<Option<P::Item>, Cancelled>
    where
        P::Item: Send,
    {
        self.find_map_any(|item| f(&item).then_some(item))
    }

    /// A `Some` that `f` returns. `Ok(Some(_))` also if the token was cancelled afterwards.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed, and `f` returned `None` for those that were.
    #[track_caller]
    pub fn find_map_any<B: Send, F: Fn(P::Item) -> Option<B> + Sync>(self, f: F) -> Result<Option<B>, Cancelled> {
        let (source, recipe, hints) = consumed(self.iter);
        let watch = Watch::new(self.token, &source, &recipe);
        let found = Found::new();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|pool| {
            watched(pool, &hints, &watch, lead, shared, |walk, done| {
                let state = recipe.state();
                for (at, chunk) in walk {
                    if let Some(hit) = recipe.iter(&state, at, chunk).find_map(&f) {
                        found.offer(0, hit);
                        recipe.call_off(0);
                        shared.stop();
                        return;
                    }
                    done.add(at);
                    if watch.is_through(shared, at, &recipe) {
                        return;
                    }
                }
            });
        });
        found.into_best().map_or_else(|| watch.result(None), |hit| Ok(Some(hit)))
    }

    /// Whether `f` holds for all items. `Ok(false)` also if the token was cancelled afterwards: one item is enough.
    ///
    /// # Errors
    /// If its token was cancelled before all items were consumed, and `f` held for all of those that were.
    #[track_caller]
    pub fn all<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Cancelled> {
        self.any(|item| !f(item)).map(|any| !any)
    }

    /// The result of every block, in order, with the blocks of [`reduce::in_blocks`](super::reduce::in_blocks). Members poll the
    /// token inside of blocks too. The result of an unfinished block is dropped.
    #[track_caller]
    fn in_blocks<E: Each<P::Item>>(self, each: &E) -> Result<Vec<E::Result>, Cancelled> {
        if P::Recipe::LOOSE {
            return self.in_chunks(each);
        }
        let (source, recipe, hints) = consumed(self.iter);
        let n = source.total();
        let watch = Watch::new(self.token, &source, &recipe);
        let block = block(n);
        let hints = hints.of_blocks(block, n);
        let all = with_current(|pool| {
            let blocks = Blocks::new(source, block);
            let slots = Slots::new(blocks.total(), pool.members);
            let mut division = Division::new((blocks, slots));
            let (lead, shared) = division.lead();
            watched(pool, &hints, &watch, lead, shared, |walk, done| {
                // A recipe whose items depend on where chunks begin must see the block as one.
                let mut interval = if P::Recipe::PER_CHUNK { PollInterval::whole() } else { PollInterval::new(pool) };
                let state = recipe.state();
                for (_, (mut blocks, mut fill)) in walk {
                    while let Some(pieces) = blocks.next_in_pieces() {
                        // A piece that is taken is consumed.
                        let mut polled =
                            PolledPieces::new(pieces, &mut interval, || watch.is_cancelled(), |piece| done.add(piece));
                        let items = polled.by_ref().flat_map(|(at, chunk)| recipe.iter(&state, at, chunk));
                        let result = each.each(items);
                        if polled.is_cut() {
                            return;
                        }
                        fill.fill(std::iter::once(result));
                    }
                }
            });
            division.done().1
        });
        watch.result(all).map(|all| all.expect("one result for every block"))
    }

    /// The result of every chunk, in order. The order of arrival decides which items come out, so blocks would not fix the result.
    #[track_caller]
    fn in_chunks<E: Each<P::Item>>(self, each: &E) -> Result<Vec<E::Result>, Cancelled> {
        let (source, recipe, hints) = consumed(self.iter);
        let watch = Watch::new(self.token, &source, &recipe);
        let all = Mutex::new(Vec::new());
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|pool| {
            watched(pool, &hints, &watch, lead, shared, |walk, done| {
                let state = recipe.state();
                let mut mine = Vec::new();
                for (at, chunk) in walk {
                    mine.push((at.lo, each.each(recipe.iter(&state, at, chunk))));
                    done.add(at);
                    if watch.is_through(shared, at, &recipe) {
                        break;
                    }
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut mine);
            });
        });
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable_by_key(|(lo, _)| *lo);
        watch.result(all.into_iter().map(|(_, result)| result).collect())
    }
}

/// State that the members of one call share: the tokens that they poll, and the count of consumed items.
struct Watch<'t> {
    token: &'t CancelToken,
    ambient: Option<CancelToken>,
    /// The same two tokens, for a source that is pulled from.
    tokens: Option<Arc<Tokens>>,
    done: Mutex<usize>,
    total: usize,
    /// The recipe wants no more items, though some are left.
    through: Flag,
}

impl<'t> Watch<'t> {
    fn new<S: Divide, R: Recipe<S>>(token: &'t CancelToken, source: &S, recipe: &R) -> Self {
        let ambient = ambient();
        let tokens = R::LOOSE.then(|| {
            let both = std::iter::once(token.clone()).chain(ambient.clone());
            let tokens = Arc::new(Tokens::new(both.collect()));
            recipe.look_at(&tokens);
            tokens
        });
        let (done, through) = (Mutex::default(), Flag::new());
        Self { token, ambient, tokens, done, total: source.total(), through }
    }

    #[inline]
    fn is_cancelled(&self) -> bool {
        self.token.is_cancelled() || self.ambient.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Whether a member that has consumed the chunk `at` can leave, because the recipe wants no more.
    #[inline]
    fn is_through<S: Divide>(&self, division: &Division<S>, at: Span, recipe: &impl Recipe<S>) -> bool {
        let leaves = over(division, at.hi, |from| recipe.over(from));
        if leaves {
            self.through.raise();
        }
        leaves
    }

    /// `whole`, if all items were consumed. A token that was cancelled afterwards does not count.
    fn result<T>(self, whole: T) -> Result<T, Cancelled> {
        let Pulled { claimed, items, cut } = self.tokens.map_or_else(Pulled::default, |tokens| *tokens.pulled());
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = done.saturating_sub(claimed).saturating_add(items);
        let all = done == self.total && !cut;
        if all || self.through.is_up() { Ok(whole) } else { Err(Cancelled { done, total: self.total }) }
    }
}

/// One member's count of consumed items. Its drop adds it to the total: one lock a member.
struct Done<'w>(std::cell::Cell<usize>, &'w Watch<'w>);

impl Done<'_> {
    #[inline]
    fn add(&self, consumed: Span) {
        self.0.set(self.0.get() + consumed.len());
    }
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        *self.1.done.lock().unwrap_or_else(PoisonError::into_inner) += self.0.get();
    }
}

/// As [`run`], with a poll of the token before each chunk.
#[track_caller]
fn watched<'s, S: Divide>(
    pool: &PoolState,
    hints: &Hints,
    watch: &Watch<'_>,
    lead: Lead<'s, S>,
    division: &'s Division<S>,
    body: impl Fn(Watched<'_, 's, S>, &Done<'_>) + Sync,
) {
    let member = |way: WatchedState<'_, 's, S>| body(Watched { way, watch, division }, &Done(0.into(), watch));
    if pool.members == 1 {
        // `run` would hand out everything in one chunk.
        let items = lead.rest().len();
        member(WatchedState::Alone { lead, interval: PollInterval::new(pool), chunk: hints.chunk });
        explain::tell(|| Explained { place: hints.place, items, decision: None, shared: None });
    } else {
        run(pool, hints, lead, division, |walk| member(WatchedState::Region(walk)));
    }
}

/// One member's way through the chunks, until the token is cancelled.
struct Watched<'w, 's, S: Divide> {
    way: WatchedState<'w, 's, S>,
    watch: &'w Watch<'w>,
    division: &'s Division<S>,
}

enum WatchedState<'w, 's, S: Divide> {
    /// In a pool without workers.
    Alone {
        lead: Lead<'s, S>,
        interval: PollInterval<'w>,
        chunk: Option<usize>,
    },
    Region(Walk<'w, 's, S>),
}

impl<'s, S: Divide> Iterator for Watched<'_, 's, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.watch.is_cancelled() {
            // Other members stop at this flag, without polling the token.
            self.division.stop();
            return None;
        }
        match &mut self.way {
            WatchedState::Alone { lead, interval, chunk } => {
                lead.take(chunk.unwrap_or_else(|| interval.next(usize::MAX)))
            }
            WatchedState::Region(walk) => walk.next(),
        }
    }
}
