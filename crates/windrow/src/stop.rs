//! Stopping: tokens, deadlines, and parallel calls that may end before they are through.
//!
//! A member looks at the token before each claim, and between the pieces of a block; alone, the caller looks between pieces
//! that last at most a heartbeat. So a look costs one load every microsecond or more (and a clock read if there is a
//! deadline), and what has been begun is finished: a stopped call ends when its longest claimed item does. Claims and pieces
//! are sized by what items have cost so far. Where that says nothing of the next item, behind a bridge, a member looks
//! before each item.
//!
//! A call that was stopped gives no result that could be taken for a whole one: it returns [`Stopped`].

use std::cell::RefCell;
use std::fmt;
use std::iter::{Product, Sum};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use windrow_sync::divide::{Blocks, Divide, Division, Lead, Span};
use windrow_sync::flag::Flag;
use windrow_sync::machine::{self, tick};
use windrow_sync::slots::Slots;

use crate::crew::Crew;
use crate::explain::{self, Explained};
use crate::iter::ParallelIterator;
use crate::looks::{Beat, Looks};
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
#[derive(Clone)]
pub struct Stop(Arc<Token>);

/// What the clones of a token share.
struct Token {
    signal: Arc<Signal>,
    above: Option<Arc<Above>>,
}

#[derive(Debug)]
struct Signal {
    flag: Flag,
    deadline: Option<Deadline>,
}

/// The ancestors of a token, nearest first. Never changed, and shared by siblings.
///
/// A closure that offloads its successor makes a chain of tokens without end, most of which are gone: no [`Stop`] for them exists,
/// so they will not be stopped any more. Each child that finds `limit` ancestors above its parent makes a list without those,
/// and takes over their deadlines. The limit is twice the number of those left, and a few: so lists stay as long as there are
/// tokens, and making a child costs constant time on average.
struct Above {
    signal: Arc<Signal>,
    /// Gone with the last clone of the token.
    token: Weak<Token>,
    /// Ancestors from here on.
    depth: usize,
    limit: usize,
    next: Option<Arc<Above>>,
}

/// Ancestors that are never looked through for those that are gone.
const FEW: usize = 16;

impl Above {
    /// The ancestors of a child of `parent`. What is gone of them leaves its end and its deadline to the `child`.
    fn of(parent: &Stop, child: &mut Signal) -> Arc<Self> {
        let mut next = parent.0.above.clone();
        let mut limit = next.as_ref().map_or(FEW, |above| above.limit);
        if next.as_ref().is_some_and(|above| above.depth >= above.limit) {
            let mut left: Vec<&Above> = Vec::new();
            for above in next.iter().flat_map(|above| above.all()) {
                if above.token.strong_count() > 0 {
                    left.push(above);
                    continue;
                }
                // Acquire: pairs with the Release in the drop of the last clone; what was stopped before that is seen here.
                fence(Ordering::Acquire);
                if above.signal.has_ended() {
                    child.flag.raise();
                }
                child.deadline = child.deadline.into_iter().chain(above.signal.deadline).min_by_key(|end| end.at);
            }
            limit = 2 * left.len() + FEW;
            let copied = left.iter().rev().fold(None, |next: Option<Arc<Above>>, above| {
                let depth = next.as_ref().map_or(0, |next| next.depth) + 1;
                let (signal, token) = (above.signal.clone(), above.token.clone());
                Some(Arc::new(Above { signal, token, depth, limit, next }))
            });
            next = copied;
        }
        let depth = next.as_ref().map_or(0, |next| next.depth) + 1;
        let (signal, token) = (parent.0.signal.clone(), Arc::downgrade(&parent.0));
        Arc::new(Above { signal, token, depth, limit, next })
    }

    fn all(&self) -> impl Iterator<Item = &Above> {
        std::iter::successors(Some(self), |above| above.next.as_deref())
    }
}

impl Drop for Above {
    fn drop(&mut self) {
        // One after the other: a list that drops its rest needs a stack as deep as it is long.
        let mut next = self.next.take();
        while let Some(above) = next {
            next = Arc::into_inner(above).and_then(|mut above| above.next.take());
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stop").field("stopped", &self.is_stopped()).finish_non_exhaustive()
    }
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
        Self::of(None, Some(self))
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
        Self::of(Instant::now().checked_add(time), Some(self))
    }

    /// The token of the innermost closure that this thread runs for [`offload`](crate::offload()): it is stopped when nobody
    /// will see the closure's result. Elsewhere a new one, which nobody else can stop.
    pub fn current() -> Self {
        ambient().unwrap_or_default()
    }

    /// Stops it, and its children. Calls that look at it return [`Stopped`], unless they are through.
    pub fn stop(&self) {
        self.0.signal.flag.raise();
    }

    /// Whether it is stopped: by [`stop`](Stop::stop), by its deadline, or by its parent.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        let Token { signal, above } = &*self.0;
        signal.has_ended() || above.as_ref().is_some_and(|above| self.0.hears(above))
    }

    fn of(deadline: Option<Instant>, parent: Option<&Stop>) -> Self {
        let mut signal = Signal { flag: Flag::new(), deadline: deadline.map(Deadline::new) };
        let above = parent.map(|parent| Above::of(parent, &mut signal));
        Stop(Arc::new(Token { signal: Arc::new(signal), above }))
    }
}

impl Token {
    /// Whether one of the ancestors is stopped.
    fn hears(&self, above: &Above) -> bool {
        let ended = above.all().any(|above| above.signal.has_ended());
        if ended {
            self.signal.flag.raise();
        }
        ended
    }
}

impl Signal {
    #[inline]
    fn has_ended(&self) -> bool {
        self.flag.is_up() || self.deadline.as_ref().is_some_and(|deadline| self.is_late(deadline))
    }

    fn is_late(&self, deadline: &Deadline) -> bool {
        let late = deadline.is_past();
        if late {
            self.flag.raise();
        }
        late
    }
}

/// A point in time that is asked about often.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    /// From this tick on, and before the next, it has not come.
    from: u64,
    near: u64,
}

impl Deadline {
    fn new(at: Instant) -> Self {
        let rate = machine::ticks_per_micro();
        // The tick comes first: a thread that loses its CPU here makes `near` too early, which costs reads of the clock, not too late.
        let from = tick();
        let left = at.saturating_duration_since(Instant::now());
        // The rate of ticks is known to about 1 in 10^4. Within the last 1 in 10^3 the clock itself is read.
        let ticks = left.as_nanos() as f64 * (0.999 / 1000.0) * rate;
        Deadline { at, from, near: from.saturating_add(ticks as u64) }
    }

    /// The clock decides; ticks only save looking at it. They may start again from 0 (some machines do that when they wake up, or
    /// when they are moved), which shows as a tick from before the deadline was made.
    fn is_past(&self) -> bool {
        let now = tick();
        !(self.from..self.near).contains(&now) && Instant::now() >= self.at
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
        let watch = Watch::new(self.stop, &source, &recipe);
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
        let watch = Watch::new(self.stop, &source, &recipe);
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
        let watch = Watch::new(self.stop, &source, &recipe);
        let found = Found::new();
        let mut division = Division::new(source);
        let (lead, shared) = division.lead();
        with_current(|crew| {
            watched(crew, &hints.0, &watch, lead, shared, |walk, done| {
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
        let watch = Watch::new(self.stop, &source, &recipe);
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
                        // A piece that is taken is consumed.
                        let mut looks = Looks::new(pieces, &mut beat, || watch.is_stopped(), |piece| done.add(piece));
                        let items = looks.by_ref().flat_map(|(at, chunk)| recipe.iter(&state, at, chunk));
                        let result = each.each(items);
                        if looks.is_cut() {
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
        let watch = Watch::new(self.stop, &source, &recipe);
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
    /// The same two for a source that is pulled from.
    tokens: Option<Arc<Tokens>>,
    done: Mutex<usize>,
    total: usize,
    /// The recipe wants no more items, of those there are.
    through: Flag,
}

impl<'t> Watch<'t> {
    fn new<S: Divide, R: Recipe<S>>(stop: &'t Stop, source: &S, recipe: &R) -> Self {
        let ambient = ambient();
        let tokens = R::LOOSE.then(|| {
            let both = std::iter::once(stop.clone()).chain(ambient.clone());
            let tokens = Arc::new(Tokens { stops: both.collect(), pulled: Mutex::default() });
            recipe.look_at(&tokens);
            tokens
        });
        let (done, through) = (Mutex::default(), Flag::new());
        Self { stop, ambient, tokens, done, total: source.total(), through }
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.stop.is_stopped() || self.ambient.as_ref().is_some_and(Stop::is_stopped)
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

    /// `whole`, if all items were consumed. Not whether the token is stopped by now: that may have come too late to matter.
    fn result<T>(self, whole: T) -> Result<T, Stopped> {
        let Pulled { claimed, items, cut } = self.tokens.map_or_else(Pulled::default, |tokens| *tokens.pulled());
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        let done = done.saturating_sub(claimed).saturating_add(items);
        let all = done == self.total && !cut;
        if all || self.through.is_up() { Ok(whole) } else { Err(Stopped { done, total: self.total }) }
    }
}

/// The tokens of a call, for a source that is pulled from item by item. A claim of such a source says nothing of how long it
/// lasts: the next item may come after an hour.
#[derive(Debug)]
pub struct Tokens {
    stops: Vec<Stop>,
    pulled: Mutex<Pulled>,
}

/// What became of the claims of a source that is pulled from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulled {
    pub(crate) claimed: usize,
    /// Items that were pulled. (The claim with the last index may bring more than its share.)
    pub(crate) items: usize,
    /// One was not pulled because of a token.
    pub(crate) cut: bool,
}

impl Tokens {
    pub(crate) fn are_stopped(&self) -> bool {
        self.stops.iter().any(Stop::is_stopped)
    }

    /// After each claim.
    pub(crate) fn add(&self, claim: Pulled) {
        let mut all = self.pulled();
        all.claimed = all.claimed.saturating_add(claim.claimed);
        all.items = all.items.saturating_add(claim.items);
        all.cut |= claim.cut;
    }

    fn pulled(&self) -> MutexGuard<'_, Pulled> {
        self.pulled.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_when_they_do() {
        let at = Instant::now() + Duration::from_millis(3);
        let (stop, never) = (Stop::at(at), Stop::after(Duration::MAX));
        while !stop.is_stopped() {}
        assert!(Instant::now() >= at);
        assert!(!never.is_stopped() && Stop::at(at).is_stopped() && stop.clone().is_stopped());
    }

    #[test]
    fn ticks_that_start_again_do_not_put_a_deadline_off() {
        let (past, future) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        assert!(Deadline { at: past, from: u64::MAX, near: u64::MAX }.is_past());
        assert!(!Deadline { at: future, from: u64::MAX, near: u64::MAX }.is_past());
        assert!(!Deadline { at: past, from: 0, near: u64::MAX }.is_past(), "the clock is not looked at");
    }

    /// On a thread whose stack holds some hundred calls.
    fn shallow(f: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(64 << 10).spawn(f).unwrap().join().unwrap();
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let n = if cfg!(miri) { 500 } else { 200_000 };
        shallow(move || {
            // All of them exist.
            let first = Stop::new();
            let mut chain = vec![first.clone()];
            for at in 0..n {
                chain.push(chain[at].child());
            }
            let last = chain.pop().unwrap();
            assert_eq!(last.0.above.as_ref().unwrap().depth, n);
            assert!(!last.is_stopped() && format!("{last:?}").contains("stopped: false"));
            first.stop();
            assert!(last.is_stopped() && chain[n / 2].is_stopped());
            drop(chain);
            drop(first);
            drop(last);
        });
    }

    #[test]
    fn a_chain_forgets_what_is_gone() {
        let n = if cfg!(miri) { 500 } else { 200_000 };
        shallow(move || {
            let (root, mut last) = (Stop::new(), Stop::new());
            let middle = root.child().child_after(Duration::MAX);
            for at in 0..n {
                last = if at == 0 { middle.child() } else { last.child() };
            }
            assert!(last.0.above.as_ref().unwrap().depth <= 2 * 3 + 2 * FEW, "{n} tokens are gone");
            assert!(!last.is_stopped());
            root.stop();
            assert!(last.is_stopped());
            // One that always lives a little longer than its child.
            let (mut before, mut last) = (Stop::new(), Stop::new());
            for _ in 0..n {
                last = std::mem::replace(&mut before, last.child()).child();
            }
            assert!(last.0.above.as_ref().unwrap().depth <= 4 * FEW);
        });
    }

    #[test]
    fn what_is_gone_leaves_its_end_to_its_children() {
        for link in 0..3 * FEW {
            for of_time in [false, true] {
                let mut last = Stop::new();
                let soon = Instant::now() + Duration::from_millis(2);
                for at in 0..4 * FEW {
                    let child = match of_time && at == link {
                        true => Stop::of(Some(soon), Some(&last)),
                        false => last.child(),
                    };
                    if at == link && !of_time {
                        last.stop();
                    }
                    last = child;
                }
                while of_time && Instant::now() < soon {}
                assert!(last.is_stopped(), "link {link}");
            }
        }
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
