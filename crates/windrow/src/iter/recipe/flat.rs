//! Recipes that chain parallel iterators.
//!
//! A member runs through the inner iterator of its item by itself, piece by piece: in place for consumers that fold (a short one as the serial
//! loop), and through a buffer of at most about [`BUFFER`] items for those that may stop at any item (a search). So memory is bounded, and a
//! search pays for no item that it does not need. Between pieces the member polls whether the call still wants items, since an inner iterator may be far longer than a claim.
//!
//! If items are so long that passing them through a vector costs little compared with them, a nested call makes each further window of items. Idle
//! workers may join it. Windows begin short and double, so a search makes at most about twice the items that it needs.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::{mem, thread, vec};

use windrow_plan::Nanos;
use windrow_sync::divide::{Divide, Division, Span, undivided};
use windrow_sync::machine::tick;
use windrow_sync::views::Window;

use super::{Recipe, chunk_items};
use crate::iter::marks::FoundBefore;
use crate::iter::{IntoParallelIterator, Par, ParallelIterator};
use crate::runtime::cancellation::Cancellation;
use crate::runtime::hints::{CallPart, Hints};
use crate::runtime::pool::Current;

/// Items of an inner iterator that are buffered for a consumer that may stop at any item.
///
/// Measure: count of items.
const BUFFER: usize = 1024;

/// The shortest time of an item, in nanoseconds.
///
/// Measure: chosen, so that quotients stay finite.
const SHORTEST: f64 = 0.1;

/// The end of the inner iterators: a hit, a panic, a token.
#[derive(Debug, Default)]
pub(crate) struct InnerStop {
    /// Items of chunks that begin here or later are not wanted.
    from: FoundBefore,
    cancellation: OnceLock<Arc<Cancellation>>,
}

impl InnerStop {
    /// True if the call wants no more items of the chunk that begins at `at`.
    fn is_over(&self, at: usize) -> bool {
        self.from.get() <= at || self.cancellation.get().is_some_and(|cancellation| cancellation.cuts())
    }
}

/// The clone is new, as iterators are cloned before they run.
impl Clone for InnerStop {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The items of a parallel iterator for every item.
#[derive(Clone, Debug)]
pub struct FlatMap<R, F>(pub(crate) R, pub(crate) F, pub(crate) InnerStop);

/// The items of items that are parallel iterators.
#[derive(Clone, Debug)]
pub struct Flatten<R>(pub(crate) R, pub(crate) InnerStop);

macro_rules! chains {
    ($([$($generics:tt)*] $name:ty, $inner:ty: |$recipe:ident, $items:ident| $inners:expr, $stop:tt;)*) => {$(
        impl<S: Divide, $($generics)*> Recipe<S> for $name {
            type Item = $inner;
            const PER_CHUNK: bool = R::PER_CHUNK;
            const LOOSE: bool = R::LOOSE;
            type State = (R::State, Cell<Sizes>);

            fn state(&self) -> Self::State {
                (self.0.state(), Cell::new(Sizes { piece: 1, between: 1 }))
            }

            chunk_items!(S: |self, state, at, chunk| {
                let $recipe = self;
                let $items = self.0.iter(&state.0, at, chunk);
                Chained::new($inners, at, &self.$stop, &state.1)
            });

            fn over(&self, from: usize) -> bool {
                self.0.over(from)
            }

            fn call_off(&self, from: usize) {
                self.$stop.from.lower(from);
                self.0.call_off(from);
            }

            fn look_at(&self, cancellation: &Arc<Cancellation>) {
                self.$stop.cancellation.get_or_init(|| cancellation.clone());
                self.0.look_at(cancellation);
            }
        }
    )*};
}
chains! {
    [R: Recipe<S>, F: Fn(R::Item) -> B + Sync + Send, B: IntoParallelIterator] FlatMap<R, F>, B::Item:
        |recipe, items| items.map(&recipe.1), 2;
    [R: Recipe<S, Item: IntoParallelIterator>] Flatten<R>, <R::Item as IntoParallelIterator>::Item:
        |_recipe, items| items, 1;
}

/// The items of the parallel iterators of one chunk.
struct Chained<'w, O, P: ParallelIterator> {
    outer: O,
    inner: Option<InnerItems<P>>,
    /// Items of the inner iterator that were made before they were wanted.
    ready: vec::IntoIter<P::Item>,
    pace: InnerPace<'w>,
    stop: &'w InnerStop,
    /// The first index of the chunk.
    at: usize,
    /// True if this thread was unwinding when the chunk began. (A drop may make a parallel call.)
    panicking: bool,
}

impl<'w, O: Iterator<Item: IntoParallelIterator<Iter = P>>, P: ParallelIterator> Chained<'w, O, P> {
    fn new(outer: O, at: Span, stop: &'w InnerStop, sizes: &'w Cell<Sizes>) -> Self {
        let pace = InnerPace { pool: Current::get(), sizes, window: 0, since: tick(), run: 0 };
        Self {
            outer,
            inner: None,
            ready: Vec::new().into_iter(),
            pace,
            stop,
            at: at.lo,
            panicking: thread::panicking(),
        }
    }

    /// Goes on to the next inner iterator.
    fn advance(&mut self) -> Option<()> {
        self.inner = None;
        let next = self.outer.next()?.into_par_iter().into_parts();
        self.open(next);
        Some(())
    }

    /// Begins with an inner iterator.
    #[inline(never)]
    fn open(&mut self, (source, recipe, hints): (P::Source, P::Recipe, Hints)) {
        // The bounds of chunks would show in its items, or its own token must be polled.
        if P::Recipe::PER_CHUNK || hints.cancellation().is_some() {
            self.ready = Par { source, recipe, hints }.collect::<Vec<_>>().into_iter();
        } else {
            let left = source.total();
            let (state, division) = (recipe.state(), Division::new(source));
            self.inner = Some(InnerItems { division, recipe, state, next: 0, left });
            self.pace.begin();
        }
    }
}

type StateOf<P> = <<P as ParallelIterator>::Recipe as Recipe<<P as ParallelIterator>::Source>>::State;

/// One inner iterator that is run through.
struct InnerItems<P: ParallelIterator> {
    division: Division<P::Source>,
    recipe: P::Recipe,
    state: StateOf<P>,
    next: usize,
    left: usize,
}

impl<P: ParallelIterator> InnerItems<P> {
    /// True if an item may be left.
    fn is_open(&self) -> bool {
        self.left > 0 && !self.recipe.over(self.next)
    }

    /// The next `want` items, as a source, and what makes items of them.
    fn window(&mut self, want: usize) -> (Window<'_, P::Source>, &P::Recipe, &StateOf<P>) {
        let want = want.min(self.left);
        (self.next, self.left) = (self.next + want, self.left - want);
        (Window::new(&mut self.division, want), &self.recipe, &self.state)
    }

    /// The next `want` items, made by a nested call that is a part of the outer one, or some of them if `stop` says that the chunk at `at` is not wanted any more.
    fn gathered(&mut self, want: usize, stop: &InnerStop, at: usize) -> Vec<P::Item> {
        let (window, recipe, _) = self.window(want);
        Par::of(window, InWindow { recipe, stop, at }).reported_as(CallPart::Silent).collect()
    }
}

/// Sizes of a member's pieces, kept from one inner iterator to the next.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Indices of the next piece, after which the member polls.
    piece: usize,
    /// Indices to be run between two looks at the clock.
    between: usize,
}

/// Sizes the pieces and the windows of inner iterators.
struct InnerPace<'w> {
    pool: Current,
    sizes: &'w Cell<Sizes>,
    /// Indices of the next window; 0 while items are made in place.
    window: usize,
    /// The last look at the clock, and the indices that were run since.
    since: u64,
    run: usize,
}

impl InnerPace<'_> {
    /// Begins with an inner iterator.
    fn begin(&mut self) {
        if self.run > 0 {
            self.look();
        }
        (self.window, self.since) = (0, tick());
    }

    /// Updates the sizes after a piece or a window of `items`.
    #[inline]
    fn measure(&mut self, items: usize) {
        self.run += items;
        if self.run >= self.sizes.get().between || self.window > 0 {
            self.look();
        }
    }

    #[inline(never)]
    fn look(&mut self) {
        let now = tick();
        let took = self.pool.nanos(now.saturating_sub(mem::replace(&mut self.since, now)));
        let run = mem::take(&mut self.run);
        let machine = self.pool.guess();
        let each = (took.0 / run as f64).max(SHORTEST);
        let fits = |time: Nanos| ((time.0 / each) as usize).max(1);
        if self.pool.members > 1 && each > machine.line.0 {
            let (first, longest) = machine.gathered();
            let (first, longest) = (fits(first), fits(longest));
            self.window = self.window.saturating_mul(2).clamp(first.min(longest), longest);
            self.sizes.set(Sizes { piece: 1, between: 1 });
        } else {
            self.window = 0;
            let between = fits(machine.poll()).min(self.sizes.get().between.saturating_mul(2));
            let piece = (between as f64 * machine.between_polls().0 / machine.poll().0).max(1.0) as usize;
            self.sizes.set(Sizes { piece, between });
        }
    }
}

impl<O: Iterator<Item: IntoParallelIterator<Iter = P>>, P: ParallelIterator> Iterator for Chained<'_, O, P> {
    type Item = P::Item;

    #[inline]
    fn next(&mut self) -> Option<P::Item> {
        loop {
            if let Some(item) = self.ready.next() {
                return Some(item);
            }
            self.refill()?;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.ready.len(), None)
    }

    fn fold<A, G: FnMut(A, P::Item) -> A>(mut self, init: A, mut g: G) -> A {
        let mut sum = init;
        loop {
            sum = mem::take(&mut self.ready).fold(sum, &mut g);
            match &mut self.inner {
                // In place, without a buffer.
                Some(inner) if self.pace.window == 0 && inner.is_open() && !self.stop.is_over(self.at) => {
                    let before = inner.left;
                    let (window, recipe, state) = inner.window(self.pace.sizes.get().piece);
                    if let Some((at, chunk)) = window.whole() {
                        sum = recipe.iter(state, at, chunk).fold(sum, &mut g);
                    }
                    self.pace.measure(before - inner.left);
                }
                Some(inner) if inner.is_open() => match self.refill() {
                    Some(()) => {}
                    None => return sum,
                },
                _ => {
                    self.inner = None;
                    let Some(next) = self.outer.next() else { return sum };
                    let (source, recipe, hints) = next.into_par_iter().into_parts();
                    let (n, is_whole) = (source.total(), P::Recipe::PER_CHUNK || hints.cancellation().is_some());
                    if is_whole || self.pace.window > 0 || n > self.pace.sizes.get().piece || self.stop.is_over(self.at)
                    {
                        self.open((source, recipe, hints));
                        continue;
                    }
                    // One piece: as the serial iterator.
                    sum = undivided(source, |mut items| match items.take(usize::MAX) {
                        Some((at, chunk)) => recipe.iter(&recipe.state(), at, chunk).fold(sum, &mut g),
                        None => sum,
                    });
                    self.pace.measure(n);
                }
            }
        }
    }
}

impl<O: Iterator<Item: IntoParallelIterator<Iter = P>>, P: ParallelIterator> Chained<'_, O, P> {
    /// Makes further items, if there are any. `None` at the end.
    #[inline(never)]
    fn refill(&mut self) -> Option<()> {
        if !self.inner.as_ref().is_some_and(InnerItems::is_open) {
            return self.advance();
        }
        if self.stop.is_over(self.at) {
            return None;
        }
        let inner = self.inner.as_mut()?;
        let before = inner.left;
        let items: Vec<P::Item> = if self.pace.window > 0 {
            inner.gathered(self.pace.window, self.stop, self.at)
        } else {
            let (window, recipe, state) = inner.window(self.pace.sizes.get().piece.min(BUFFER));
            window.whole().into_iter().flat_map(|(at, chunk)| recipe.iter(state, at, chunk)).collect()
        };
        let made = before - inner.left;
        // The time since the last refill also holds what the consumer did with its items. That only makes pieces shorter.
        self.pace.measure(made);
        if items.len() > BUFFER {
            // Each index gives several items.
            let piece = (made * BUFFER / items.len()).max(1);
            self.pace.sizes.set(Sizes { piece, ..self.pace.sizes.get() });
        }
        self.ready = items.into_iter();
        Some(())
    }
}

impl<O, P: ParallelIterator> Drop for Chained<'_, O, P> {
    fn drop(&mut self) {
        if thread::panicking() && !self.panicking {
            self.stop.from.lower(0);
        }
    }
}

/// A recipe over a window of its source. It ends early if the call wants no more items of the chunk at `at`.
struct InWindow<'r, R> {
    recipe: &'r R,
    stop: &'r InnerStop,
    at: usize,
}

impl<'p, S: Divide, R: Recipe<S>> Recipe<Window<'p, S>> for InWindow<'_, R> {
    type Item = R::Item;
    type State = R::State;
    const PER_CHUNK: bool = R::PER_CHUNK;
    const LOOSE: bool = R::LOOSE;

    fn state(&self) -> R::State {
        self.recipe.state()
    }

    chunk_items!(Window<'p, S>: |self, state, _, (at, chunk)| self.recipe.iter(state, at, chunk));

    fn over(&self, _: usize) -> bool {
        self.stop.is_over(self.at) || self.recipe.over(0)
    }
}
