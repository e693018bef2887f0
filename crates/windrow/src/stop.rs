//! Stopping: tokens, deadlines, and parallel calls that may end before they are through.
//!
//! A member looks at the token before each claim, and between the pieces of a block; alone, the caller looks between pieces
//! that last at most a heartbeat. So a look costs one load every microsecond or more (and a clock read if there is a
//! deadline), and what has been begun is finished: a stopped call ends when its longest claimed item does.
//!
//! A call that was stopped gives no result that could be taken for a whole one: it returns [`Stopped`].

use std::cell::RefCell;
use std::fmt;
use std::iter::{Product, Sum};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windrow_sync::divide::{BlockPieces, Blocks, Divide, Division, Lead, Span};
use windrow_sync::flag::Flag;
use windrow_sync::machine::{self, tick};
use windrow_sync::slots::Slots;

use crate::crew::Crew;
use crate::explain::{self, Explained};
use crate::iter::ParallelIterator;
use crate::pool::with_current;
use crate::recipe::Recipe;
use crate::reduce::{Counts, Each, Folds, Gathers, Greatest, Least, Products, Sums, block};
use crate::region::{Hints, Walk, run};
use crate::search::{Found, over};

/// Asks parallel calls to end early. Clones are the same token.
///
/// [`stop`](Stop::stop) may be called from anywhere: another thread, a closure of the call itself, a signal handler. It only
/// raises a flag. A token is stopped for good, and carries no data: who sees it stopped knows that and no more.
///
/// ```
/// use windrow::Stop;
/// use windrow::prelude::*;
///
/// let stop = Stop::new();
/// let visited = (0..1_000_000u32).into_par_iter().stop_when(&stop).for_each(|i| {
///     if i == 1000 {
///         stop.stop();
///     }
/// });
/// let stopped = visited.unwrap_err();
/// assert!(stopped.done > 0 && stopped.done < 1_000_000 && stopped.total == 1_000_000);
/// ```
///
/// Source of the idea: .NET's `CancellationToken` with its linked sources. (rayon's answer to who asks, in its issue 1014, is a
/// flag of one's own in every closure.)
#[derive(Clone, Debug)]
pub struct Stop(Arc<Token>);

#[derive(Debug)]
struct Token {
    flag: Flag,
    deadline: Option<Deadline>,
    parent: Option<Stop>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A token that is not stopped.
    pub fn new() -> Self {
        Self::of(None, None)
    }

    /// A token that stops by itself after `time`.
    pub fn after(time: Duration) -> Self {
        // A time beyond what the clock can tell never comes.
        Self::of(Instant::now().checked_add(time), None)
    }

    /// A token that stops by itself at `deadline`.
    pub fn at(deadline: Instant) -> Self {
        Self::of(Some(deadline), None)
    }

    /// A token that is stopped when this one is, or alone.
    pub fn child(&self) -> Self {
        Self::of(None, Some(self.clone()))
    }

    /// A token that is stopped when this one is, or alone, or after `time`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windrow::Stop;
    /// let request = Stop::new();
    /// let step = request.child_after(Duration::from_secs(3600));
    /// assert!(!step.is_stopped());
    /// request.stop();
    /// assert!(step.is_stopped());
    /// ```
    pub fn child_after(&self, time: Duration) -> Self {
        Self::of(Instant::now().checked_add(time), Some(self.clone()))
    }

    /// The token of the innermost closure that this thread runs for [`offload`](crate::offload()): it is stopped when nobody
    /// will see the closure's result. Elsewhere a new one, which nobody else can stop.
    pub fn current() -> Self {
        ambient().unwrap_or_default()
    }

    /// Stops it, and its children. Calls that look at it return [`Stopped`], unless they are through.
    pub fn stop(&self) {
        self.0.flag.raise();
    }

    /// Whether it is stopped: by [`stop`](Stop::stop), by its deadline, or by its parent.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.0.flag.is_up() || ((self.0.deadline.is_some() || self.0.parent.is_some()) && self.0.has_ended())
    }

    fn of(deadline: Option<Instant>, parent: Option<Stop>) -> Self {
        Stop(Arc::new(Token { flag: Flag::new(), deadline: deadline.map(Deadline::new), parent }))
    }
}

impl Token {
    fn has_ended(&self) -> bool {
        let ended =
            self.deadline.as_ref().is_some_and(Deadline::is_past) || self.parent.as_ref().is_some_and(Stop::is_stopped);
        if ended {
            self.flag.raise();
        }
        ended
    }
}

/// A point in time that is asked about often.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    /// Before this tick it has not come.
    near: u64,
}

impl Deadline {
    fn new(at: Instant) -> Self {
        let left = at.saturating_duration_since(Instant::now());
        // The rate of ticks is known to about 1 in 10^4. Within the last 1 in 10^3 the clock itself is read.
        let ticks = left.as_nanos() as f64 * (0.999 / 1000.0) * machine::ticks_per_micro();
        Deadline { at, near: tick().saturating_add(ticks as u64) }
    }

    fn is_past(&self) -> bool {
        tick() >= self.near && Instant::now() >= self.at
    }
}

/// A parallel call was stopped before it was through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Items of the source that were consumed. All others were dropped.
    pub done: usize,
    /// Items that there were.
    pub total: usize,
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped after {} of {} items", self.done, self.total)
    }
}

impl std::error::Error for Stopped {}

thread_local! {
    /// The token of the closure that this thread runs for `offload`.
    static AMBIENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

pub(crate) fn ambient() -> Option<Stop> {
    AMBIENT.try_with(|ambient| ambient.borrow().clone()).ok().flatten()
}

/// Puts a token in place for this thread until it is dropped.
pub(crate) struct Ambient {
    before: Option<Stop>,
}

impl Ambient {
    pub(crate) fn new(stop: Stop) -> Self {
        Self { before: AMBIENT.try_with(|ambient| ambient.replace(Some(stop))).ok().flatten() }
    }
}

impl Drop for Ambient {
    fn drop(&mut self) {
        // While a thread ends its locals may be gone already; then nothing is to be put back.
        let _ = AMBIENT.try_with(|ambient| ambient.replace(self.before.take()));
    }
}

/// A parallel iterator that ends early when its token is stopped: see [`ParallelIterator::stop_when`].
///
/// The consumers are those of [`ParallelIterator`], and say whether they are through: `Ok` is what the plain one would have
/// returned, bit for bit; `Err` means that items are missing. Stopped or not, an item that was begun is finished, all others
/// are dropped, and [`Stopped`] counts them.
#[derive(Debug)]
#[must_use = "parallel iterators do nothing until they are consumed"]
pub struct Stoppable<'t, P> {
    iter: P,
    stop: &'t Stop,
}

impl<'t, P: ParallelIterator> Stoppable<'t, P> {
    pub(crate) fn new(iter: P, stop: &'t Stop) -> Self {
        Self { iter, stop }
    }

    /// Calls `f` with every item, in no particular order.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn for_each<F: Fn(P::Item) + Sync>(self, f: F) -> Result<(), Stopped> {
        let (source, recipe, hints) = self.iter.into_parts();
        let watch = Watch::new(self.stop, source.total());
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            watched(crew, &hints.0, &watch, lead, shared, |walk, done| {
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

    /// All items, in the order of the source: a vector, or what can be made of one.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed. Results so far are dropped.
    ///
    /// ```
    /// use windrow::Stop;
    /// use windrow::prelude::*;
    ///
    /// let squares: Vec<u64> = (0..100u64).into_par_iter().map(|x| x * x).stop_when(&Stop::new()).collect()?;
    /// assert_eq!(squares[9], 81);
    /// # Ok::<(), windrow::Stopped>(())
    /// ```
    pub fn collect<C: From<Vec<P::Item>>>(self) -> Result<C, Stopped>
    where
        P::Item: Send,
    {
        if !P::Recipe::EXACT {
            return Ok(self.in_blocks(&Gathers)?.into_iter().flatten().collect::<Vec<_>>().into());
        }
        let (source, recipe, hints) = self.iter.into_parts();
        let watch = Watch::new(self.stop, source.total());
        let all = with_current(|crew| {
            let slots = Slots::new(source.total(), crew.members);
            let mut division = Division::new((source, slots));
            let (lead, shared) = division.lead();
            watched(crew, &hints.0, &watch, lead, shared, |walk, done| {
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
    /// `op` combines neighbours only, also when the call is stopped.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn reduce<I: Fn() -> P::Item + Sync, F: Fn(P::Item, P::Item) -> P::Item + Sync>(
        self,
        identity: I,
        op: F,
    ) -> Result<P::Item, Stopped>
    where
        P::Item: Send,
    {
        Ok(self.in_blocks(&Folds(&identity, &op))?.into_iter().fold(identity(), &op))
    }

    /// The sum of the items; the same bits for every number of threads, floats included.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn sum<T: Sum<P::Item> + Sum<T> + Send>(self) -> Result<T, Stopped> {
        Ok(self.in_blocks(&Sums::<T>::new())?.into_iter().sum())
    }

    /// The product of the items; the same bits for every number of threads.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn product<T: Product<P::Item> + Product<T> + Send>(self) -> Result<T, Stopped> {
        Ok(self.in_blocks(&Products::<T>::new())?.into_iter().product())
    }

    /// How many items there are.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn count(self) -> Result<usize, Stopped> {
        Ok(self.in_blocks(&Counts)?.into_iter().sum())
    }

    /// The smallest item; of equal ones the first.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn min(self) -> Result<Option<P::Item>, Stopped>
    where
        P::Item: Ord + Send,
    {
        Ok(self.in_blocks(&Least)?.into_iter().flatten().min())
    }

    /// The largest item; of equal ones the last.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed.
    pub fn max(self) -> Result<Option<P::Item>, Stopped>
    where
        P::Item: Ord + Send,
    {
        Ok(self.in_blocks(&Greatest)?.into_iter().flatten().max())
    }

    /// Whether `f` holds for an item. `Ok(true)` also if it was stopped afterwards: one item is enough.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed, and `f` held for none of those that were.
    pub fn any<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Stopped> {
        Ok(self.find_map_any(|item| f(item).then_some(()))?.is_some())
    }

    /// An item for which `f` holds. `Ok(Some(_))` also if it was stopped afterwards: one item is enough.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed, and `f` held for none of those that were.
    pub fn find_any<F: Fn(&P::Item) -> bool + Sync>(self, f: F) -> Result<Option<P::Item>, Stopped>
    where
        P::Item: Send,
    {
        self.find_map_any(|item| f(&item).then_some(item))
    }

    /// What `f` makes of an item for which it makes something. `Ok(Some(_))` also if it was stopped afterwards.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed, and `f` made nothing of those that were.
    pub fn find_map_any<B: Send, F: Fn(P::Item) -> Option<B> + Sync>(self, f: F) -> Result<Option<B>, Stopped> {
        let (source, recipe, hints) = self.iter.into_parts();
        let watch = Watch::new(self.stop, source.total());
        let found = Found::new();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            watched(crew, &hints.0, &watch, lead, shared, |walk, done| {
                let state = recipe.state();
                for (at, chunk) in walk {
                    if let Some(hit) = recipe.iter(&state, at, chunk).find_map(&f) {
                        found.offer(0, hit);
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

    /// Whether `f` holds for all items. `Ok(false)` also if it was stopped afterwards: one item is enough.
    ///
    /// # Errors
    /// If it was stopped before all items were consumed, and `f` held for all of those that were.
    pub fn all<F: Fn(P::Item) -> bool + Sync>(self, f: F) -> Result<bool, Stopped> {
        self.any(|item| !f(item)).map(|any| !any)
    }

    /// The result of every block, in order: those of [`reduce::in_blocks`](crate::reduce::in_blocks), with looks at the token
    /// inside of blocks too. What the items of an unfinished block came to is dropped.
    fn in_blocks<E: Each<P::Item>>(self, each: &E) -> Result<Vec<E::Result>, Stopped> {
        if P::Recipe::LOOSE {
            return self.in_chunks(each);
        }
        let (source, recipe, hints) = self.iter.into_parts();
        let n = source.total();
        let watch = Watch::new(self.stop, n);
        let block = block(n);
        let hints = hints.0.of_blocks(block, n);
        let all = with_current(|crew| {
            let blocks = Blocks::new(source, block);
            let slots = Slots::new(blocks.total(), crew.members);
            let mut division = Division::new((blocks, slots));
            let (lead, shared) = division.lead();
            watched(crew, &hints, &watch, lead, shared, |walk, done| {
                // A recipe whose items depend on where chunks begin must see the block as one.
                let mut beat = if P::Recipe::PER_CHUNK { Beat::whole() } else { Beat::new(crew) };
                let state = recipe.state();
                for (_, (mut blocks, mut fill)) in walk {
                    while let Some(pieces) = blocks.next_in_pieces() {
                        let mut looks = Looks { pieces, watch: &watch, beat: &mut beat, done, cut: false };
                        let items = looks.by_ref().flat_map(|(at, chunk)| recipe.iter(&state, at, chunk));
                        let result = each.each(items);
                        if looks.cut {
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

    /// The result of every chunk, in order: where which items come out depends on who comes first, blocks would fix nothing.
    fn in_chunks<E: Each<P::Item>>(self, each: &E) -> Result<Vec<E::Result>, Stopped> {
        let (source, recipe, hints) = self.iter.into_parts();
        let watch = Watch::new(self.stop, source.total());
        let all = Mutex::new(Vec::new());
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            watched(crew, &hints.0, &watch, lead, shared, |walk, done| {
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

/// What the members of one call look at, and where they count what they did.
struct Watch<'t> {
    stop: &'t Stop,
    ambient: Option<Stop>,
    done: Mutex<usize>,
    total: usize,
    /// The recipe wants no more items, of those there are.
    through: Flag,
}

impl<'t> Watch<'t> {
    fn new(stop: &'t Stop, total: usize) -> Self {
        Self { stop, ambient: ambient(), done: Mutex::new(0), total, through: Flag::new() }
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.stop.is_stopped() || self.ambient.as_ref().is_some_and(Stop::is_stopped)
    }

    /// Whether a member that has consumed the chunk `at` can leave, because the recipe wants no more.
    #[inline]
    fn is_through<S: Divide>(&self, division: &Division<S>, at: Span, recipe: &impl Recipe<S>) -> bool {
        let leaves = over(division, at.hi, |from| recipe.over(from));
        if leaves && recipe.over(0) {
            self.through.raise();
        }
        leaves
    }

    /// `whole`, if all items were consumed. Not whether the token is stopped by now: that may have come too late to matter.
    fn result<T>(self, whole: T) -> Result<T, Stopped> {
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if done == self.total || self.through.is_up() { Ok(whole) } else { Err(Stopped { done, total: self.total }) }
    }
}

/// One member's count of consumed items. Reported when it is dropped: one lock a member.
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

/// As [`run`], with a look at the token before each chunk.
fn watched<'s, S: Divide>(
    crew: &Crew,
    hints: &Hints,
    watch: &Watch<'_>,
    lead: Lead<'s, S>,
    division: &'s Division<S>,
    body: impl Fn(Watched<'_, 's, S>, &Done<'_>) + Sync,
) {
    let member = |way: Way<'_, 's, S>| body(Watched { way, watch, division }, &Done(0.into(), watch));
    if crew.members == 1 {
        // `run` would hand out everything in one chunk.
        let items = lead.rest().len();
        member(Way::Alone { lead, beat: Beat::new(crew), chunk: hints.chunk });
        explain::tell(|| Explained { items, decision: None, shared: None });
    } else {
        run(crew, hints, lead, division, |walk| member(Way::Region(walk)));
    }
}

/// One member's way through the chunks, until the token is stopped.
struct Watched<'w, 's, S: Divide> {
    way: Way<'w, 's, S>,
    watch: &'w Watch<'w>,
    division: &'s Division<S>,
}

enum Way<'w, 's, S: Divide> {
    /// In a pool without workers.
    Alone {
        lead: Lead<'s, S>,
        beat: Beat<'w>,
        chunk: Option<usize>,
    },
    Region(Walk<'w, 's, S>),
}

impl<'s, S: Divide> Iterator for Watched<'_, 's, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.watch.is_stopped() {
            // The others need not look for themselves.
            self.division.stop();
            return None;
        }
        match &mut self.way {
            Way::Alone { lead, beat, chunk } => lead.take(chunk.unwrap_or_else(|| beat.next(usize::MAX))),
            Way::Region(walk) => walk.next(),
        }
    }
}

/// A block in pieces, with a look at the token before each.
struct Looks<'a, 'w, 's, S: Divide> {
    pieces: BlockPieces<'s, S>,
    watch: &'a Watch<'w>,
    beat: &'a mut Beat<'w>,
    done: &'a Done<'a>,
    /// The token was stopped before the block was through.
    cut: bool,
}

impl<'s, S: Divide> Iterator for Looks<'_, '_, 's, S> {
    type Item = (Span, S::Chunk<'s>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.pieces.rest();
        if rest == 0 || self.cut {
            return None;
        }
        if self.watch.is_stopped() {
            self.cut = true;
            return None;
        }
        let piece = self.pieces.take(self.beat.next(rest))?;
        // Whoever takes a piece consumes it.
        self.done.add(piece.0);
        Some(piece)
    }
}

/// Sizes pieces so that a look comes about once a heartbeat: twice the last one while that took less than half a heartbeat,
/// half of it if it took more than one.
struct Beat<'w> {
    /// `None`: no looks, everything is one piece.
    crew: Option<&'w Crew>,
    size: usize,
    /// Size of the last piece, and when it was handed out.
    last: Option<(usize, u64)>,
}

impl<'w> Beat<'w> {
    fn new(crew: &'w Crew) -> Self {
        Self { crew: Some(crew), size: 1, last: None }
    }

    fn whole() -> Self {
        Self { crew: None, size: usize::MAX, last: None }
    }

    /// Items of the next piece, of `rest` that are at hand.
    #[inline]
    fn next(&mut self, rest: usize) -> usize {
        let Some(crew) = self.crew else { return rest };
        if cfg!(all(target_family = "wasm", target_os = "unknown")) {
            // Without a clock nothing can be sized in time.
            return 1;
        }
        let now = tick();
        if let Some((last, since)) = self.last {
            let took = crew.nanos(now.saturating_sub(since));
            if took > crew.fixed_costs().heartbeat {
                self.size = (last / 2).max(1);
            } else if took.0 * 2.0 < crew.fixed_costs().heartbeat.0 && last == self.size {
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

    #[test]
    fn pieces_follow_the_time_that_the_last_one_took() {
        with_current(|crew| {
            let mut beat = Beat::new(crew);
            assert_eq!(beat.next(100), 1);
            // In the future: no time has passed, whatever interrupts this thread.
            beat.last = Some((1, u64::MAX));
            assert_eq!(beat.next(100), 2);
            beat.last = Some((2, u64::MAX));
            assert_eq!(beat.next(3), 3, "no more than there is");
            beat.last = Some((3, u64::MAX));
            assert_eq!(beat.next(100), 4, "a short piece is no reason to take a longer one");
            while crew.nanos(tick()) <= crew.fixed_costs().heartbeat {}
            beat.last = Some((4, 0));
            assert_eq!(beat.next(100), 2);
            assert_eq!(Beat::whole().next(100), 100);
        });
    }

    #[test]
    fn deadlines_come_when_they_do() {
        let at = Instant::now() + Duration::from_millis(3);
        let (stop, never) = (Stop::at(at), Stop::after(Duration::MAX));
        while !stop.is_stopped() {}
        assert!(Instant::now() >= at);
        assert!(!never.is_stopped() && Stop::at(at).is_stopped() && stop.clone().is_stopped());
    }

    #[test]
    fn children_hear_their_parents_and_not_the_other_way_round() {
        let parent = Stop::new();
        let child = parent.child();
        let grandchild = child.child_after(Duration::MAX);
        child.stop();
        assert!(!parent.is_stopped() && child.is_stopped() && grandchild.is_stopped());
        let late = Stop::after(Duration::ZERO).child();
        assert!(late.is_stopped());
    }

    #[test]
    fn the_current_token_is_that_of_the_innermost_closure() {
        let (outer, inner) = (Stop::new(), Stop::new());
        {
            let _outer = Ambient::new(outer.clone());
            {
                let _inner = Ambient::new(inner.clone());
                Stop::current().stop();
            }
            assert!(inner.is_stopped() && !Stop::current().is_stopped());
            Stop::current().stop();
        }
        assert!(outer.is_stopped());
        Stop::current().stop();
        assert!(!Stop::current().is_stopped(), "nobody else can stop it");
    }
}
