//! Values that are made for one member or for one chunk.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use windrow_sync::Mutex;
use windrow_sync::divide::{Divide, Span};

use super::{Indexed, Recipe, chunk_items, passes_on};

/// A way to make a value.
pub trait Init: Sync + Send {
    /// The type of the value.
    type Value;
    /// Makes a value.
    fn make(&self) -> Self::Value;
}

/// Values that a function makes.
#[derive(Clone, Debug)]
pub struct InitCalls<F>(pub(crate) F);

impl<T, F: Fn() -> T + Sync + Send> Init for InitCalls<F> {
    type Value = T;
    fn make(&self) -> T {
        (self.0)()
    }
}

/// Clones of a value. Behind a lock, so that it need not be `Sync` (a sender of a channel, say).
#[derive(Debug)]
pub struct Clones<T>(Mutex<T>);

impl<T: Clone> Clone for Clones<T> {
    fn clone(&self) -> Self {
        Clones(Mutex::new(self.0.lock().clone()))
    }
}

impl<T> Clones<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }
}

impl<T: Clone + Send> Init for Clones<T> {
    type Value = T;
    fn make(&self) -> T {
        self.0.lock().clone()
    }
}

/// Items through a function that also gets a value of the member that runs it.
#[derive(Clone, Debug)]
pub struct MapInit<R, I, F>(pub(crate) R, pub(crate) I, pub(crate) F);

impl<R: Indexed, I, F> Indexed for MapInit<R, I, F> {}

impl<S: Divide, R: Recipe<S>, I: Init, F: Fn(&mut I::Value, R::Item) -> B + Sync + Send, B: Send> Recipe<S>
    for MapInit<R, I, F>
{
    type Item = B;
    /// Made with the first chunk, kept for the next ones: chunks are short, and the value may be costly (a buffer, a parser).
    type State = (R::State, Cell<Option<I::Value>>);
    const EXACT: bool = R::EXACT;
    const PER_CHUNK: bool = R::PER_CHUNK;
    const LOOSE: bool = R::LOOSE;
    passes_on!(ends);
    passes_on!(tokens);

    fn state(&self) -> Self::State {
        (self.0.state(), Cell::new(None))
    }

    chunk_items!(S: |self, (inner, kept), at, chunk| {
        let mut lent = Borrowed::of(kept, || self.1.make());
        self.0.iter(inner, at, chunk).map(move |item| (self.2)(&mut lent, item))
    });
}

/// A value taken out of a cell, and put back on drop. (A nested request finds the cell empty and makes another value.)
struct Borrowed<'w, T> {
    cell: &'w Cell<Option<T>>,
    /// `Some` until dropped.
    value: Option<T>,
}

impl<'w, T> Borrowed<'w, T> {
    fn of(cell: &'w Cell<Option<T>>, make: impl FnOnce() -> T) -> Self {
        Self { cell, value: Some(cell.take().unwrap_or_else(make)) }
    }
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_ref().expect("lent until dropped")
    }
}

impl<T> DerefMut for Borrowed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("lent until dropped")
    }
}

impl<T> Drop for Borrowed<'_, T> {
    fn drop(&mut self) {
        self.cell.set(self.value.take());
    }
}
