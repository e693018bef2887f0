//! Sources whose items can be weighed before they are handed out.

use windrow_sync::divide::Leaf;
use windrow_sync::sources::{Runs, VecItems};

/// Sources that [`weigh`](crate::Par::weigh) works on: slices, vectors, `par_chunks`. (Ranges have a method of that name.)
///
/// ```
/// use windrow::prelude::*;
///
/// // Text is compressed in time proportional to its length, say.
/// let texts = vec!["a".to_owned(), "a much longer text".to_owned()];
/// let texts = texts.into_par_iter().weigh(|text| text.len());
/// assert_eq!(texts.map(|text| text.matches(' ').count()).collect::<Vec<_>>(), [0, 3]);
/// ```
pub trait Weigh: Leaf {
    /// The argument of the weighing function.
    type Seen: ?Sized;

    /// The items, for the weighing function.
    #[doc(hidden)]
    fn seen(&mut self) -> impl Iterator<Item = &Self::Seen>;
}

impl<T: Sync> Weigh for &[T] {
    type Seen = T;
    fn seen(&mut self) -> impl Iterator<Item = &T> {
        self.iter()
    }
}

impl<T: Sync> Weigh for Runs<'_, T> {
    type Seen = [T];
    fn seen(&mut self) -> impl Iterator<Item = &[T]> {
        self.iter()
    }
}

impl<T: Send> Weigh for VecItems<T> {
    type Seen = T;
    fn seen(&mut self) -> impl Iterator<Item = &T> {
        self.as_slice().iter()
    }
}
