#![doc = include_str!("divide.md")]

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::OnceLock;

use crate::base::debug::show_as;
use crate::base::relaxed::RelaxedU64;
use crate::base::unwind::{Finally, for_all};
pub use crate::region::claim::{Claim, Span};
use crate::region::ranges::{Ranges, Report, Run};

/// A source of known length that can be handed out in disjoint chunks.
///
/// # Safety
/// `total` does not change. `chunk` may be called from many threads at once, and chunks of different claims do not alias mutably. A
/// view maps its indices one to one into those of the source below it.
pub unsafe trait Divide: Sized + Sync {
    /// The type of an item.
    type Item;
    /// The items of one claim, handed over together.
    type Chunk<'s>
    where
        Self: 's;
    /// The rest of the source when the division is over. Never the source itself: its chunks may outlive the division (`&'a mut` items do).
    type Done;

    /// Number of items.
    fn total(&self) -> usize;

    /// Ends the division.
    fn done(self) -> Self::Done;

    /// Called once, before any chunk: from now on the items of `kept` belong to claims, no longer to the source's drop. Drops all
    /// other items: those of a longer source that have no partner, for example. It completes both even if a drop panics.
    fn start(&mut self, _kept: &Claim) {}

    /// The claimed items. Those that are not taken out of the chunk are dropped with it.
    fn chunk(&self, claim: Claim) -> Self::Chunk<'_>;
}

/// Sources whose chunk is an iterator over the items (all but pairs and outputs).
pub trait Leaf: Divide {
    /// The items of a chunk.
    fn items<'s>(chunk: Self::Chunk<'s>) -> impl Iterator<Item = Self::Item> + 's
    where
        Self: 's;
}

// SAFETY: each side keeps its own contract for the same span.
unsafe impl<A: Divide, B: Divide> Divide for (A, B) {
    type Item = (A::Item, B::Item);
    type Chunk<'s>
        = (A::Chunk<'s>, B::Chunk<'s>)
    where
        Self: 's;
    type Done = (A::Done, B::Done);

    fn total(&self) -> usize {
        self.0.total().min(self.1.total())
    }

    fn done(self) -> Self::Done {
        (self.0.done(), self.1.done())
    }

    fn start(&mut self, kept: &Claim) {
        // If the drop of an item of `a` panics, the items of `b` are dropped all the same.
        let _b = Finally(|| self.1.start(kept));
        self.0.start(kept);
    }

    #[inline]
    fn chunk(&self, claim: Claim) -> Self::Chunk<'_> {
        // SAFETY: the claim on the pair is one on each side.
        let of_a = unsafe { Claim::new(claim.span()) };
        (self.0.chunk(of_a), self.1.chunk(claim))
    }
}

/// The span and the chunk of a claim; `None` if the claim is empty.
#[inline]
pub(super) fn handed_out<S: Divide>(source: &S, claim: Claim) -> Option<(Span, S::Chunk<'_>)> {
    (!claim.is_empty()).then(|| (claim.span(), source.chunk(claim)))
}

/// Claimed items that are in no chunk yet. Those that are not taken are dropped with it.
#[derive(Debug)]
pub struct Held<'s, S: Divide> {
    pub(super) source: &'s S,
    pub(super) claim: Claim,
}

impl<'s, S: Divide> Held<'s, S> {
    /// Items not taken yet.
    pub fn rest(&self) -> usize {
        self.claim.len()
    }

    /// The next chunk of at most `want` items (at least one, if there is one).
    #[inline]
    pub fn take(&mut self, want: usize) -> Option<(Span, S::Chunk<'s>)> {
        handed_out(self.source, self.claim.take_front(want.max(1)))
    }
}

impl<S: Divide> Drop for Held<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // As one chunk: with small ones, a huge claim would take too long.
        drop(self.take(usize::MAX));
    }
}

/// Hands out all items of a source on this thread, to `f`. Those that `f` does not take are dropped.
///
/// Always inlined, as what makes the source is: a source that is moved through memory is read in wider pieces than it was written in,
/// which waits until the stores before are done, those of the loop before included. Nothing is left of it but the bounds of a loop.
///
/// ```
/// use windrow_sync::divide::undivided;
///
/// let items: &[u64] = &[1, 2, 3];
/// assert_eq!(undivided(items, |mut held| held.take(2).unwrap().1.sum::<u64>()), 3);
/// ```
#[inline(always)]
pub fn undivided<S: Divide, R>(source: S, f: impl FnOnce(Held<'_, S>) -> R) -> R {
    let all = Span { lo: 0, hi: source.total(), member: 0 };
    // SAFETY: all items; every other claim on them is made from this one.
    let claim = unsafe { Claim::new(all) };
    let mut whole = Whole { source, claim };
    whole.source.start(&whole.claim);
    let claim = whole.claim.take_front(usize::MAX);
    f(Held { source: &whole.source, claim })
}

/// A source, and a claim on the items that are not handed out yet.
struct Whole<S: Divide> {
    source: S,
    claim: Claim,
}

impl<S: Divide> Drop for Whole<S> {
    #[inline(always)]
    fn drop(&mut self) {
        // Not empty if the start has panicked.
        drop(handed_out(&self.source, self.claim.take_front(usize::MAX)));
    }
}

/// The rest of a division once it is shared.
#[derive(Debug)]
struct SharedRest {
    ranges: Ranges,
    /// Items `origin..end`, in units of `unit`.
    origin: usize,
    end: usize,
    unit: usize,
}

impl SharedRest {
    fn new(rest: Range<usize>, parts: usize, first: usize, cut: impl Fn(usize) -> usize) -> Self {
        let mut ranges = Ranges::spare(parts);
        let unit = rest.len().div_ceil(u32::MAX as usize).max(1);
        let units = |item: usize| (item.clamp(rest.start, rest.end) - rest.start) / unit;
        ranges.fill(rest.len().div_ceil(unit) as u32, parts, first, |part| units(cut(part)) as u32);
        Self { ranges, origin: rest.start, end: rest.end, unit }
    }

    #[inline]
    fn items(&self, units: &Run) -> (usize, usize) {
        // The product fits: fewer than 2^32 units of at most 2^32 + 1 items. The sum may not, for a range up to `usize::MAX`.
        let at = |unit: u32| self.origin.saturating_add(unit as usize * self.unit).min(self.end);
        (at(units.start), at(units.end))
    }

    /// The claim on these units, for `member`.
    ///
    /// # Safety
    /// The caller has just taken the units out of a range word.
    #[inline]
    unsafe fn claim(&self, units: &Run, member: usize) -> Claim {
        let (lo, hi) = self.items(units);
        // SAFETY: the rest's claim was turned into range words, and no unit returns there.
        unsafe { Claim::new(Span { lo, hi, member }) }
    }
}

/// A source that is being handed out. See the [module page](self).
///
/// ```
/// use windrow_sync::divide::Division;
///
/// let items: &[u64] = &[1, 2, 3, 4, 5, 6];
/// let mut division = Division::new(items);
/// let (mut lead, shared) = division.lead();
/// lead.share_evenly(2);
/// // Each member begins with its half, and steals when that is used up.
/// let sums: Vec<u64> = std::thread::scope(|scope| {
///     let sum = |member| {
///         let mut claims = shared.claims(member);
///         std::iter::from_fn(|| claims.next(|_, _| 1, |lo, hi| lo.midpoint(hi))).flat_map(|(_, chunk)| chunk).sum()
///     };
///     [0, 1].map(|member| scope.spawn(move || sum(member))).into_iter().map(|it| it.join().unwrap()).collect()
/// });
/// assert_eq!(sums[0] + sums[1], 21);
/// ```
pub struct Division<S: Divide> {
    source: S,
    /// Items that no lead has taken over yet.
    whole: Claim,
    shared: OnceLock<SharedRest>,
    /// 1 once items were skipped. Relaxed: only costs are learned by it.
    skipped: RelaxedU64,
}

show_as!("Division": [S: Divide] Division<S>, |it| whole: it.whole, shared: it.shared);

impl<S: Divide> Division<S> {
    /// Takes over `source`.
    #[inline]
    pub fn new(source: S) -> Self {
        let all = Span { lo: 0, hi: source.total(), member: 0 };
        // SAFETY: all items; every other claim on them is made from this one.
        let whole = unsafe { Claim::new(all) };
        let mut division = Self { source, whole, shared: OnceLock::new(), skipped: RelaxedU64::new(0) };
        // If this panics, the division's drop drops the rest.
        division.source.start(&division.whole);
        division
    }

    /// The lead, with all items that no earlier lead has held; and the division, for members.
    #[inline]
    pub fn lead(&mut self) -> (Lead<'_, S>, &Self) {
        let rest = self.whole.take_front(usize::MAX);
        let division = &*self;
        (Lead { division, rest }, division)
    }

    /// The source, and a claim on the next `want` items (or as many as are left) that no lead has held.
    pub(super) fn take(&mut self, want: usize) -> (&S, Claim) {
        let rest = self.whole.take_front(want);
        (&self.source, rest)
    }

    /// Claims for `member`. Any number of them may exist, with any member numbers: the number selects the range word that is
    /// tried first. Claims that are made before the lead has shared return nothing.
    pub fn claims(&self, member: usize) -> Claims<'_, S> {
        Claims { shared: self.shared.get(), member, held: Held { source: &self.source, claim: Claim::none() } }
    }

    /// True if the lead has moved its rest to where members can claim it.
    pub fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Claims return nothing from now on. Unclaimed items are dropped with the division.
    pub fn stop(&self) {
        if let Some(shared) = self.shared.get() {
            shared.ranges.stop();
        }
    }

    /// True if a shared division was [stopped](Division::stop).
    pub fn is_stopped(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.ranges.is_stopped())
    }

    /// Records that a member skips items, because they are not wanted any more.
    pub fn skip(&self) {
        self.skipped.set(1);
    }

    /// True if a member has [skipped](Division::skip) items, or the division was [stopped](Division::stop).
    pub fn is_incomplete(&self) -> bool {
        self.skipped.get() > 0 || self.is_stopped()
    }

    /// The reports of the members, once the division is shared.
    pub fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.shared.get().into_iter().flat_map(|shared| shared.ranges.reports())
    }

    /// Ends the division; items that no member took are dropped.
    pub fn done(mut self) -> S::Done {
        self.abandon_rest();
        let me = ManuallyDrop::new(self);
        // SAFETY: `me` is not used or dropped after this; its other fields are empty.
        unsafe { std::ptr::read(&me.source) }.done()
    }

    #[inline]
    fn abandon_rest(&mut self) {
        if !self.whole.is_empty() {
            self.abandon_whole();
        }
        // Taken out first: if an item's drop panics, the next attempt must not find these items again.
        if let Some(shared) = self.shared.take() {
            self.abandon_shared(shared);
        }
    }

    #[cold]
    fn abandon_whole(&mut self) {
        drop(handed_out(&self.source, self.whole.take_front(usize::MAX)));
    }

    #[inline(never)]
    fn abandon_shared(&mut self, mut shared: SharedRest) {
        let left: Vec<Run> = shared.ranges.drain().collect();
        // SAFETY: drained from the range words.
        for_all(left.iter(), |units| drop(self.source.chunk(unsafe { shared.claim(units, 0) })));
        shared.ranges.keep();
    }
}

impl<S: Divide> Drop for Division<S> {
    #[inline]
    fn drop(&mut self) {
        self.abandon_rest();
    }
}

/// The caller's access to the items, without atomics, until it shares.
#[derive(Debug)]
pub struct Lead<'s, S: Divide> {
    division: &'s Division<S>,
    rest: Claim,
}

impl<'s, S: Divide> Lead<'s, S> {
    /// The items that the lead has not taken.
    #[inline]
    pub fn rest(&self) -> Range<usize> {
        let Span { lo, hi, .. } = self.rest.span();
        lo..hi
    }

    /// The next chunk of at most `want` items (at least one, if there is one).
    #[inline]
    pub fn take(&mut self, want: usize) -> Option<(Span, S::Chunk<'s>)> {
        handed_out(&self.division.source, self.rest.take_front(want.max(1)))
    }

    /// The lead's claims, as `member`, once it has shared.
    pub fn claims(&self, member: usize) -> Claims<'s, S> {
        self.division.claims(member)
    }

    /// Moves the rest to where members can claim it, in `parts` parts. `cut(i)` is the item with which part `i` begins. Member 0 gets
    /// part `first`, member 1 the next one, and so on around. Without effect if nothing is left.
    ///
    /// # Panics
    /// If `parts` is 0.
    pub fn share(&mut self, parts: usize, first: usize, cut: impl Fn(usize) -> usize) {
        let rest = self.rest();
        if !rest.is_empty() {
            // Before the rest is given up: if `cut` panics, this lead's drop finds the rest.
            let shared = SharedRest::new(rest, parts, first, cut);
            self.rest = Claim::none();
            // No second rest can exist, because `whole` was taken once. If `shared` were set already, these items would leak.
            let set = self.division.shared.set(shared);
            debug_assert!(set.is_ok(), "a division is shared only once");
        }
    }

    /// [`share`](Lead::share) in parts of one size.
    pub fn share_evenly(&mut self, members: usize) {
        let (rest, members) = (self.rest(), members.max(1));
        self.share(members, 0, |part| rest.start + (rest.len() as u128 * part as u128 / members as u128) as usize);
    }
}

impl<S: Divide> Drop for Lead<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // Items that the lead has not taken: it unwinds, say, or a search has ended.
        drop(self.take(usize::MAX));
    }
}

/// One member's access to a shared division.
#[derive(Debug)]
pub struct Claims<'s, S: Divide> {
    shared: Option<&'s SharedRest>,
    member: usize,
    held: Held<'s, S>,
}

impl<'s, S: Divide> Claims<'s, S> {
    /// The next chunk. `want` gets the available items (`lo..hi`) and returns how many to take, at least 1. No chunk is larger,
    /// whatever the size of a unit. `cut` gets the items to steal from and returns the index at which the stolen part begins.
    #[inline]
    pub fn next(
        &mut self,
        want: impl Fn(usize, usize) -> usize,
        cut: impl Fn(usize, usize) -> usize,
    ) -> Option<(Span, S::Chunk<'s>)> {
        let Span { lo, hi, .. } = self.claim(&want, cut)?;
        // A claim of one unit or more: all of it was wanted, unless units are large.
        let want = if self.shared?.unit > 1 { want(lo, hi) } else { usize::MAX };
        self.take(want)
    }

    /// Claims items to [`take`](Claims::take), and returns where they lie; as they are, if some are left of the last claim. `want` and `cut`
    /// as for [`next`](Claims::next), but a claim may be larger than what is wanted, where indices are too large for a range word.
    #[inline]
    pub fn claim(&mut self, want: impl Fn(usize, usize) -> usize, cut: impl Fn(usize, usize) -> usize) -> Option<Span> {
        let shared = self.shared?;
        if self.held.claim.is_empty() {
            let units = shared.ranges.claim(
                self.member,
                |run| {
                    let (lo, hi) = shared.items(run);
                    u32::try_from(want(lo, hi) / shared.unit).unwrap_or(u32::MAX)
                },
                |run| {
                    let (lo, hi) = shared.items(run);
                    let item = cut(lo, hi).clamp(lo, hi);
                    ((item - shared.origin) / shared.unit) as u32
                },
            )?;
            // SAFETY: the compare-exchange in `Ranges::claim` took these units out of a range word.
            self.held.claim = unsafe { shared.claim(&units, self.member) };
        }
        Some(self.held.claim.span())
    }

    /// The next chunk of at most `want` items of the last claim (at least one). `None` if nothing is left of it, or the division is
    /// [stopped](Division::stop).
    #[inline]
    pub fn take(&mut self, want: usize) -> Option<(Span, S::Chunk<'s>)> {
        if self.shared?.ranges.is_stopped() {
            return None;
        }
        self.held.take(want)
    }

    /// The items that this member would claim next, without stealing. It may be outdated at once.
    pub fn at_hand(&self) -> Range<usize> {
        let Some(shared) = self.shared.filter(|_| self.held.claim.is_empty()) else {
            let Span { lo, hi, .. } = self.held.claim.span();
            return lo..hi;
        };
        let (lo, hi) = shared.items(&shared.ranges.at_hand(self.member));
        lo..hi
    }

    /// Adds to this member's report: see [`Division::reports`].
    pub fn report(&self, report: Report) {
        if let Some(shared) = self.shared {
            shared.ranges.report(self.member, report);
        }
    }
}
