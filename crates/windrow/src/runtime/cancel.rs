//! Cancellation: tokens and deadlines.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use windrow_sync::gate::Inside;
use windrow_sync::machine::{self, tick};
use windrow_sync::unwind::Finally;

use crate::runtime::flag::Flag;

/// Asks parallel calls to end early. Clones are the same token.
///
/// [`cancel`](CancelToken::cancel) may be called from anywhere: another thread, a closure of the call itself, a signal handler. It only
/// raises a flag, and orders no memory. Cancelling is final.
///
/// ```
/// use windrow::CancelToken;
/// use windrow::prelude::*;
///
/// let token = CancelToken::new();
/// let visited = (0..1_000_000u32).into_par_iter().with_cancel(&token).for_each(|i| {
///     if i == 1000 {
///         token.cancel();
///     }
/// });
/// assert_eq!(visited, Err(windrow::Cancelled));
/// ```
///
/// Source of the idea: .NET's `CancellationToken` with its linked sources. (rayon's answer, in its issue 1014, is a
/// flag that the program checks in every closure.)
#[derive(Clone)]
pub struct CancelToken(Arc<Token>);

/// The common state of the clones of a token.
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
/// A closure that spawns its successor makes an endless chain of tokens. Most of them are gone: no [`CancelToken`] for them exists, so no
/// caller can cancel them any more. A child that finds `limit` ancestors above its parent makes a list without those, and takes over their
/// deadlines. The new limit is twice the number of ancestors left, plus a few. So the length of a list is bounded by the number of tokens
/// that exist, and making a child takes constant time on average.
struct Above {
    signal: Arc<Signal>,
    /// Gone with the last clone of the token.
    token: Weak<Token>,
    /// Ancestors from here on.
    depth: usize,
    limit: usize,
    next: Option<Arc<Above>>,
}

/// The smallest limit: with fewer ancestors, no child searches for those that are gone.
///
/// Measure: count of ancestors.
const FEW: usize = 16;

impl Above {
    /// The ancestors of a child of `parent`. `child` takes over the cancellation and the deadline of ancestors that are gone.
    fn of(parent: &CancelToken, child: &mut Signal) -> Arc<Self> {
        let mut next = parent.0.above.clone();
        let mut limit = next.as_ref().map_or(FEW, |above| above.limit);
        if next.as_ref().is_some_and(|above| above.depth >= above.limit) {
            let mut left: Vec<&Above> = Vec::new();
            for above in next.iter().flat_map(|above| above.all()) {
                if above.token.strong_count() > 0 {
                    left.push(above);
                    continue;
                }
                // Acquire: pairs with the Release in the drop of the last clone; a cancellation before that is seen here.
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
        // In a loop: a recursive drop needs a stack as deep as the list is long.
        let mut next = self.next.take();
        while let Some(above) = next {
            next = Arc::into_inner(above).and_then(|mut above| above.next.take());
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::of(None, None)
    }

    /// A token that is cancelled after `time`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windrow::CancelToken;
    /// assert!(CancelToken::after(Duration::ZERO).is_cancelled());
    /// assert!(!CancelToken::after(Duration::from_secs(3600)).is_cancelled());
    /// ```
    pub fn after(time: Duration) -> Self {
        // A time beyond the range of the clock never comes.
        Self::of(Instant::now().checked_add(time), None)
    }

    /// A token that is cancelled at `deadline`.
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # use windrow::CancelToken;
    /// let deadline = Instant::now() + Duration::from_secs(3600);
    /// // Two calls with one deadline.
    /// let (first, second) = (CancelToken::at(deadline), CancelToken::at(deadline));
    /// first.cancel();
    /// assert!(first.is_cancelled() && !second.is_cancelled());
    /// ```
    pub fn at(deadline: Instant) -> Self {
        Self::of(Some(deadline), None)
    }

    /// A child token: cancelled with this one, or alone.
    ///
    /// ```
    /// # use windrow::CancelToken;
    /// let request = CancelToken::new();
    /// let (one, other) = (request.child(), request.child());
    /// one.cancel();
    /// assert!(one.is_cancelled() && !request.is_cancelled() && !other.is_cancelled());
    /// request.cancel();
    /// assert!(other.is_cancelled());
    /// ```
    pub fn child(&self) -> Self {
        Self::of(None, Some(self))
    }

    /// A child token: cancelled with this one, or alone, or after `time`.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windrow::CancelToken;
    /// let request = CancelToken::new();
    /// let step = request.child_after(Duration::from_secs(3600));
    /// assert!(!step.is_cancelled());
    /// request.cancel();
    /// assert!(step.is_cancelled());
    /// ```
    pub fn child_after(&self, time: Duration) -> Self {
        Self::of(Instant::now().checked_add(time), Some(self))
    }

    /// The token of the innermost spawned closure or lane of an [overlapped run](crate::overlap) that this thread runs. Elsewhere a new token.
    ///
    /// The token of a closure of [`spawn_joinable`](crate::spawn_joinable()) is cancelled when the closure's handle is dropped. The token of a
    /// lane is cancelled when the lane's current tile is not wanted any more.
    ///
    /// ```
    /// # use windrow::CancelToken;
    /// let handle = windrow::spawn_joinable(|| {
    ///     while !CancelToken::current().is_cancelled() {
    ///         std::thread::yield_now();
    ///     }
    ///     "cancelled"
    /// });
    /// handle.cancel();
    /// assert_eq!(handle.wait(), "cancelled");
    /// ```
    pub fn current() -> Self {
        ambient().unwrap_or_else(|| {
            let token = CancelToken::new();
            let keep =
                |here: &RefCell<Option<_>>| here.borrow_mut().iter_mut().for_each(|own| *own = Some(token.clone()));
            let _ = AMBIENT.try_with(keep);
            token
        })
    }

    /// Cancels this token and its children. Calls with such a token return [`Cancelled`], unless they are complete.
    ///
    /// ```
    /// use windrow::CancelToken;
    /// use windrow::prelude::*;
    ///
    /// let token = CancelToken::new();
    /// token.clone().cancel();
    /// assert!((0..10).into_par_iter().with_cancel(&token).count().is_err());
    /// ```
    pub fn cancel(&self) {
        self.0.signal.flag.raise();
    }

    /// True if the token is cancelled: by [`cancel`](CancelToken::cancel), by its deadline, or by its parent.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        let Token { signal, above } = &*self.0;
        signal.has_ended() || above.as_ref().is_some_and(|above| self.0.is_cancelled_by(above))
    }

    fn of(deadline: Option<Instant>, parent: Option<&CancelToken>) -> Self {
        let mut signal = Signal { flag: Flag::new(), deadline: deadline.map(Deadline::new) };
        let above = parent.map(|parent| Above::of(parent, &mut signal));
        CancelToken(Arc::new(Token { signal: Arc::new(signal), above }))
    }
}

impl Token {
    /// True if an ancestor is cancelled. If so, this token is cancelled from now on.
    fn is_cancelled_by(&self, above: &Above) -> bool {
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

/// A deadline that is polled often.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    /// In the ticks `from..near` the deadline has not come.
    from: u64,
    near: u64,
}

/// The part of the time to a deadline in which the clock is not read. (The rate of ticks is known to about 1 in 10^4.)
///
/// Measure: share of the time.
const BY_TICKS: f64 = 0.999;

impl Deadline {
    fn new(at: Instant) -> Self {
        let rate = machine::ticks_per_micro();
        // The tick comes first: a thread that loses its CPU here makes `near` too early, which costs reads of the clock, not too late.
        let from = tick();
        let left = at.saturating_duration_since(Instant::now());
        let ticks = left.as_nanos() as f64 * (BY_TICKS / 1000.0) * rate;
        Deadline { at, from, near: from.saturating_add(ticks as u64) }
    }

    /// True once the deadline has come. The clock decides; ticks only save reads of the clock. Ticks may start again from 0: some machines do
    /// that when they wake up, or when they are moved. Then the tick lies before `from`, and the clock is read.
    fn is_past(&self) -> bool {
        let now = tick();
        !(self.from..self.near).contains(&now) && Instant::now() >= self.at
    }
}

/// A parallel call was cancelled before it was complete.
///
/// ```
/// use windrow::prelude::*;
///
/// // The token is cancelled before the call, so that no item is consumed.
/// let token = windrow::CancelToken::new();
/// token.cancel();
/// assert_eq!((0..10).into_par_iter().with_cancel(&token).count(), Err(windrow::Cancelled));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cancelled before all items were consumed")
    }
}

impl std::error::Error for Cancelled {}

thread_local! {
    /// The token of the spawned closure or the overlapped lane that this thread runs. `Some(None)`: of a closure that has not asked for one.
    static AMBIENT: RefCell<Option<Option<CancelToken>>> = const { RefCell::new(None) };
}

pub(crate) fn ambient() -> Option<CancelToken> {
    AMBIENT.try_with(|ambient| ambient.borrow().clone().flatten()).ok().flatten()
}

/// Makes a token the current one of this thread, until the result is dropped. `None`: one that is made if it is asked for.
pub(crate) fn under(token: impl Into<Option<CancelToken>>) -> Finally<impl FnMut()> {
    let token = token.into();
    let mut before = AMBIENT.try_with(|ambient| ambient.replace(Some(token))).ok().flatten();
    let inside = Inside::new();
    Finally(move || {
        let _inside = &inside;
        // While the thread ends, its locals may be gone already. Then nothing is put back.
        let _ = AMBIENT.try_with(|ambient| ambient.replace(before.take()));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_when_they_do() {
        let at = Instant::now() + Duration::from_millis(3);
        let (token, never) = (CancelToken::at(at), CancelToken::after(Duration::MAX));
        while !token.is_cancelled() {}
        assert!(Instant::now() >= at);
        assert!(!never.is_cancelled() && CancelToken::at(at).is_cancelled() && token.clone().is_cancelled());
    }

    #[test]
    fn ticks_that_start_again_do_not_put_a_deadline_off() {
        let (past, future) = (Instant::now(), Instant::now() + Duration::from_secs(3600));
        assert!(Deadline { at: past, from: u64::MAX, near: u64::MAX }.is_past());
        assert!(!Deadline { at: future, from: u64::MAX, near: u64::MAX }.is_past());
        assert!(!Deadline { at: past, from: 0, near: u64::MAX }.is_past(), "the clock is not looked at");
    }

    /// Runs `f` on a thread whose stack holds some hundred calls.
    fn shallow(f: impl FnOnce() + Send + 'static) {
        std::thread::Builder::new().stack_size(64 << 10).spawn(f).unwrap().join().unwrap();
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let n = if cfg!(miri) { 500 } else { 200_000 };
        shallow(move || {
            // All of them exist.
            let first = CancelToken::new();
            let mut chain = vec![first.clone()];
            for at in 0..n {
                chain.push(chain[at].child());
            }
            let last = chain.pop().unwrap();
            assert_eq!(last.0.above.as_ref().unwrap().depth, n);
            assert!(!last.is_cancelled() && format!("{last:?}").contains("cancelled: false"));
            first.cancel();
            assert!(last.is_cancelled() && chain[n / 2].is_cancelled());
            drop(chain);
            drop(first);
            drop(last);
        });
    }

    #[test]
    fn a_chain_forgets_what_is_gone() {
        let n = if cfg!(miri) { 500 } else { 200_000 };
        shallow(move || {
            let (root, mut last) = (CancelToken::new(), CancelToken::new());
            let middle = root.child().child_after(Duration::MAX);
            for at in 0..n {
                last = if at == 0 { middle.child() } else { last.child() };
            }
            assert!(last.0.above.as_ref().unwrap().depth <= 2 * 3 + 2 * FEW, "{n} tokens are gone");
            assert!(!last.is_cancelled());
            root.cancel();
            assert!(last.is_cancelled());
            // Each token lives a little longer than its child.
            let (mut before, mut last) = (CancelToken::new(), CancelToken::new());
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
                let mut last = CancelToken::new();
                let soon = Instant::now() + Duration::from_millis(2);
                for at in 0..4 * FEW {
                    let child = match of_time && at == link {
                        true => CancelToken::of(Some(soon), Some(&last)),
                        false => last.child(),
                    };
                    if at == link && !of_time {
                        last.cancel();
                    }
                    last = child;
                }
                while of_time && Instant::now() < soon {}
                assert!(last.is_cancelled(), "link {link}");
            }
        }
    }

    #[test]
    fn children_hear_their_parents_and_not_the_other_way_round() {
        let parent = CancelToken::new();
        let child = parent.child();
        let grandchild = child.child_after(Duration::MAX);
        child.cancel();
        assert!(!parent.is_cancelled() && child.is_cancelled() && grandchild.is_cancelled());
        let late = CancelToken::after(Duration::ZERO).child();
        assert!(late.is_cancelled());
    }

    #[test]
    fn the_current_token_is_that_of_the_innermost_closure() {
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        {
            let _outer = under(outer.clone());
            {
                let _inner = under(inner.clone());
                CancelToken::current().cancel();
            }
            assert!(inner.is_cancelled() && !CancelToken::current().is_cancelled());
            CancelToken::current().cancel();
        }
        assert!(outer.is_cancelled());
        CancelToken::current().cancel();
        assert!(!CancelToken::current().is_cancelled(), "a new token");
    }
}
