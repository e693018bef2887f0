//! Recipes that may end a call early.
//!
//! These recipes check their marks between pieces of a chunk, so their source is cut into [`Pieces`].

use std::borrow::Borrow;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use windrow_sync::divide::{Divide, Span};
use windrow_sync::views::Pieces;

use super::{Recipe, chunk_items, passes_on};
use crate::iter::marks::{FoundBefore, RemainingQuota};
use crate::iter::reduce::UNPOLLED;
use crate::iter::search::Found;
use crate::iter::tries::Try;

/// Selects the first items, in order of arrival.
pub trait Firsts<I>: Sync + Send {
    /// True if `item` is one of the first items.
    fn has(&self, item: &I) -> bool;
    /// True if no further item will be one.
    fn ended(&self) -> bool;
}

impl<I> Firsts<I> for RemainingQuota {
    fn has(&self, _: &I) -> bool {
        self.draw()
    }

    fn ended(&self) -> bool {
        self.gone()
    }
}

/// Items until a predicate refuses one, at any index.
#[derive(Clone, Debug)]
pub struct Until<F>(F, OnceLock<()>);

impl<F> Until<F> {
    pub(crate) fn new(f: F) -> Self {
        Self(f, OnceLock::new())
    }
}

impl<I, F: Fn(&I) -> bool + Sync + Send> Firsts<I> for Until<F> {
    fn has(&self, item: &I) -> bool {
        let has = self.1.get().is_none() && (self.0)(item);
        if !has {
            self.1.get_or_init(|| ());
        }
        has
    }

    fn ended(&self) -> bool {
        self.1.get().is_some()
    }
}

/// The first items to arrive.
#[derive(Clone, Debug)]
pub struct TakeAny<R, Q>(pub(crate) R, pub(crate) Q);

impl<S: Divide, R: Recipe<S>, Q: Firsts<R::Item>> Recipe<Pieces<S>> for TakeAny<R, Q> {
    type Item = R::Item;
    const PER_CHUNK: bool = R::PER_CHUNK;
    passes_on!(loose true);
    passes_on!(call_off);
    chunk_items!(Pieces<S>: |self, state, _, pieces| {
        let open = |at: &Span| !Recipe::<Pieces<S>>::over(self, at.lo);
        let items = pieces.take_while(move |(at, _)| open(at)).flat_map(|(at, piece)| self.0.iter(state, at, piece));
        items.take_while(|item| {
            let taken = self.1.has(item);
            if self.1.ended() {
                self.0.call_off(0);
            }
            taken
        })
    });

    fn over(&self, from: usize) -> bool {
        self.1.ended() || self.0.over(from)
    }
}

/// All but the first items to arrive.
#[derive(Clone, Debug)]
pub struct SkipAny<R, Q>(pub(crate) R, pub(crate) Q);

impl<S: Divide, R: Recipe<S>, Q: Firsts<R::Item>> Recipe<S> for SkipAny<R, Q> {
    type Item = R::Item;
    const PER_CHUNK: bool = R::PER_CHUNK;
    passes_on!(loose true);
    passes_on!(ends);
    chunk_items!(S: |self, state, at, chunk| self.0.iter(state, at, chunk).filter(|item| !self.1.has(item)));
}

/// The outputs of items until one breaks off. All items before the first one that breaks off are passed on, and perhaps some after
/// that item. `B` records the residual of the first one.
#[derive(Clone, Debug)]
pub struct WhileOk<R, B>(pub(crate) R, pub(crate) B);

impl<S, R, B> Recipe<Pieces<S>> for WhileOk<R, B>
where
    S: Divide,
    R: Recipe<S, Item: Try<Output: Send, Residual: Send>>,
    B: Borrow<Found<<R::Item as Try>::Residual>> + Sync + Send,
{
    type Item = <R::Item as Try>::Output;
    const PER_CHUNK: bool = R::PER_CHUNK;
    passes_on!(loose R::LOOSE);
    passes_on!(call_off);
    chunk_items!(Pieces<S>: |self, state, _, pieces| {
        pieces.take_while(|(at, _)| !Recipe::<Pieces<S>>::over(self, at.lo)).flat_map(move |(at, piece)| {
            self.0.iter(state, at, piece).map_while(move |item| match item.branch() {
                ControlFlow::Continue(item) => Some(item),
                ControlFlow::Break(residual) => {
                    self.1.borrow().offer(at.lo, residual);
                    self.0.call_off(at.lo);
                    None
                }
            })
        })
    });

    fn over(&self, from: usize) -> bool {
        !self.1.borrow().wants(from) || self.0.over(from)
    }
}

/// One reduction for every chunk, until an item or the operation breaks off.
#[derive(Clone, Debug)]
pub(crate) struct TryReduce<'m, R, I, F>(pub(crate) R, pub(crate) I, pub(crate) F, pub(crate) &'m FoundBefore);

impl<S, R, I, F, T> Recipe<S> for TryReduce<'_, R, I, F>
where
    S: Divide,
    R: Recipe<S, Item: Try<Output = T>>,
    I: Fn() -> Option<T> + Sync + Send,
    F: Fn(T, T) -> R::Item + Sync + Send,
{
    type Item = R::Item;
    const PER_CHUNK: bool = true;
    passes_on!(loose R::LOOSE);
    passes_on!(call_off);

    fn over(&self, from: usize) -> bool {
        from > self.3.get() || self.0.over(from)
    }

    chunk_items!(S: |self, state, at, chunk| {
        let wanted = move || at.lo <= self.3.get();
        let items = wanted().then(|| self.0.iter(state, at, chunk));
        items.into_iter().filter_map(move |items| {
            let reduced = if at.len() <= UNPOLLED {
                try_reduce(items, (self.1)(), &self.2)
            } else {
                // In a long run, poll whether an item before it has broken off.
                try_reduce(items.take_while(|_| wanted()), (self.1)(), &self.2)
            };
            match reduced {
                ControlFlow::Continue(sum) => sum.map(Try::from_output),
                ControlFlow::Break(residual) => {
                    self.3.lower(at.lo);
                    self.0.call_off(at.lo);
                    Some(Try::from_residual(residual))
                }
            }
        })
    });
}

/// Reduces `items`, beginning with `seed` if there is one, until an item or `op` breaks off.
fn try_reduce<X: Try>(
    mut items: impl Iterator<Item = X>,
    seed: Option<X::Output>,
    op: impl Fn(X::Output, X::Output) -> X,
) -> ControlFlow<X::Residual, Option<X::Output>> {
    items.try_fold(seed, |sum, item| {
        let item = item.branch()?;
        ControlFlow::Continue(Some(match sum {
            Some(sum) => op(sum, item).branch()?,
            None => item,
        }))
    })
}
