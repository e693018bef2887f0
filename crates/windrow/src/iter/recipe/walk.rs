//! Items of collections without random access, behind references.
//!
//! A serial call walks the collection, as the plain loop does. In a shared call the caller walks on from where it is; a member that has to begin
//! elsewhere gathers references to all items first, once for all members, and takes its items from there.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;

use either::Either;
use windrow_sync::divide::{Divide, Span};

use super::{Indexed, Recipe, chunk_items};

/// The items of a serial iterator that is cheap to clone.
#[derive(Clone, Debug)]
pub struct Walked<I: Iterator> {
    items: I,
    len: usize,
    gathered: OnceLock<Vec<I::Item>>,
}

impl<I: Iterator<Item: Copy> + Clone> Walked<I> {
    /// The items of an iterator of exactly `len` items.
    pub(crate) fn new(items: I, len: usize) -> Self {
        Self { items, len, gathered: OnceLock::new() }
    }

    /// All items. Two members may gather them at the same time: a member that waited for another one might wait for ever in a forked child.
    fn gathered(&self) -> &[I::Item] {
        if self.gathered.get().is_none() {
            let _ = self.gathered.set(self.items.clone().collect());
        }
        self.gathered.get().expect("the items were gathered by this member or by another")
    }
}

impl<I: Iterator> Indexed for Walked<I> {}

impl<I: Iterator<Item: Copy + Send + Sync> + Clone + Send + Sync> Recipe<Range<usize>> for Walked<I> {
    type Item = I::Item;
    /// The member's iterator, and the index of its next item.
    type State = Cell<Option<(usize, I)>>;
    const EXACT: bool = true;

    fn state(&self) -> Self::State {
        Cell::new(Some((0, self.items.clone())))
    }

    chunk_items!(Range<usize>: |self, state, _, run| match state.take() {
        Some((at, items)) if at == run.start => {
            let is_last = run.end == self.len;
            Either::Left(Walk { items: Some(items), run, is_last, kept: state })
        }
        elsewhere => {
            state.set(elsewhere);
            Either::Right(self.gathered()[run].iter().copied())
        }
    });
}

/// A member's walk over one chunk. Its drop keeps the iterator for the next chunk.
struct Walk<'w, I: Iterator> {
    items: Option<I>,
    run: Range<usize>,
    is_last: bool,
    kept: &'w Cell<Option<(usize, I)>>,
}

impl<I: Iterator> Iterator for Walk<'_, I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.run.next()?;
        self.items.as_mut()?.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.run.size_hint()
    }

    #[inline]
    fn fold<B, F: FnMut(B, I::Item) -> B>(mut self, sum: B, f: F) -> B {
        let Some(mut items) = self.items.take() else { return sum };
        // Up to the last item, the iterator's own loop.
        if self.is_last {
            return items.fold(sum, f);
        }
        let (mut sum, mut f) = (sum, f);
        for _ in self.run.clone() {
            let Some(item) = items.next() else { break };
            sum = f(sum, item);
        }
        (self.items, self.run.start) = (Some(items), self.run.end);
        sum
    }
}

impl<I: Iterator> Drop for Walk<'_, I> {
    fn drop(&mut self) {
        self.kept.set(self.items.take().map(|items| (self.run.start, items)));
    }
}
