//! Collecting results in order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

use either::Either;
use windrow_sync::divide::{Divide, Division, undivided};
use windrow_sync::slots::{Fill, Slots};

use super::recipe::Recipe;
use super::runs::{Extended, Gather, Pushed, concat, gathered};
use super::search::Found;
use super::{IntoParallelIterator, ParallelIterator, consumed, while_ok};
use crate::runtime::hints::CallPart;
use crate::runtime::pool::Current;
use crate::runtime::region::{BegunCall, drive};
use crate::runtime::state::PoolState;

/// Collections that [`collect`](ParallelIterator::collect) can build.
///
/// ```
/// use windrow::prelude::*;
///
/// /// A collection of a program: made of a vector.
/// struct Names(Vec<String>);
///
/// impl FromParallelIterator<String> for Names {
///     fn from_par_iter<I: IntoParallelIterator<Item = String>>(iter: I) -> Self {
///         Names(Vec::from_par_iter(iter))
///     }
/// }
///
/// let names: Names = ["Ada", "Bob"].par_iter().map(|name| name.to_lowercase()).collect();
/// assert_eq!(names.0, ["ada", "bob"]);
/// ```
pub trait FromParallelIterator<T: Send>: Sized {
    /// All items of `iter`, in the order of its source.
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(iter: I) -> Self;

    /// The items of a vector.
    #[doc(hidden)]
    #[track_caller]
    fn from_items(items: Vec<T>) -> Self {
        Self::from_par_iter(items.into_par_iter().reported_as(CallPart::Further))
    }
}

/// Collections that can be extended by the items of a parallel iterator.
///
/// ```
/// use windrow::prelude::*;
///
/// let mut words = vec!["one"];
/// words.par_extend(["two", "three"]);
/// assert_eq!(words, ["one", "two", "three"]);
/// ```
pub trait ParallelExtend<T: Send> {
    /// Adds all items of `iter`, in the order of its source.
    #[track_caller]
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, iter: I);

    /// Adds items of a vector.
    #[doc(hidden)]
    fn extend_by(&mut self, items: Vec<T>) {
        self.par_extend(items);
    }
}

impl<T: Send> FromParallelIterator<T> for Vec<T> {
    /// Iterators with one item for every index write straight into the vector's memory. Items of other iterators are gathered in runs,
    /// which are concatenated at the end.
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(iter: I) -> Self {
        let iter = iter.into_par_iter();
        if <I::Iter as ParallelIterator>::Recipe::EXACT {
            in_place(iter, (Slots::new, |items| items))
        } else {
            concat(gathered(iter, &Pushed))
        }
    }

    fn from_items(items: Vec<T>) -> Self {
        items
    }
}

impl<T: Send> ParallelExtend<T> for Vec<T> {
    #[track_caller]
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, iter: I) {
        self.extend_by(iter.into_par_iter().collect());
    }

    fn extend_by(&mut self, mut items: Vec<T>) {
        if self.is_empty() { *self = items } else { self.append(&mut items) }
    }
}

impl FromParallelIterator<()> for () {
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = ()>>(iter: I) -> Self {
        iter.into_par_iter().for_each(|()| ());
    }
}

/// Collections that are made from a vector of all items, on the calling thread.
macro_rules! through_a_vector {
    ($([$($generics:tt)*] $collection:ty, $item:ty;)*) => {$(
        /// All items in a vector first, then one by one into the collection, on the calling thread.
        impl<$($generics)*> FromParallelIterator<$item> for $collection {
            #[track_caller]
            fn from_par_iter<I: IntoParallelIterator<Item = $item>>(iter: I) -> Self {
                iter.into_par_iter().collect::<Vec<_>>().into_iter().collect()
            }
        }
    )*};
    (extend $([$($generics:tt)*] $collection:ty, $item:ty;)*) => {$(
        /// All items in a vector first, then one by one into the collection, on the calling thread.
        impl<$($generics)*> ParallelExtend<$item> for $collection {
            #[track_caller]
            fn par_extend<I: IntoParallelIterator<Item = $item>>(&mut self, iter: I) {
                self.extend(iter.into_par_iter().collect::<Vec<_>>());
            }

            fn extend_by(&mut self, items: Vec<$item>) {
                self.extend(items);
            }
        }
    )*};
}
through_a_vector! {
    [T: Send] VecDeque<T>, T;
    [T: Send] Box<[T]>, T;
    [T: Send] Rc<[T]>, T;
    [T: Send] Arc<[T]>, T;
    [T: Ord + Send] BinaryHeap<T>, T;
    [T: Ord + Send] BTreeSet<T>, T;
    [T: Eq + Hash + Send, S: BuildHasher + Default] HashSet<T, S>, T;
    [K: Ord + Send, V: Send] BTreeMap<K, V>, (K, V);
    [K: Eq + Hash + Send, V: Send, S: BuildHasher + Default] HashMap<K, V, S>, (K, V);
}
through_a_vector! { extend
    ['a, T: Copy + Send + Sync + 'a] Vec<T>, &'a T;
    ['a, T: Copy + Send + Sync + 'a] VecDeque<T>, &'a T;
    ['a, T: Copy + Send + Sync + 'a] LinkedList<T>, &'a T;
    ['a, T: Copy + Ord + Send + Sync + 'a] BinaryHeap<T>, &'a T;
    ['a, T: Copy + Ord + Send + Sync + 'a] BTreeSet<T>, &'a T;
    ['a, T: Copy + Eq + Hash + Send + Sync + 'a, S: BuildHasher] HashSet<T, S>, &'a T;
    ['a, K: Copy + Ord + Send + Sync + 'a, V: Copy + Send + Sync + 'a] BTreeMap<K, V>, (&'a K, &'a V);
    ['a, K: Copy + Eq + Hash + Send + Sync + 'a, V: Copy + Send + Sync + 'a, S: BuildHasher] HashMap<K, V, S>, (&'a K, &'a V);
    [T: Send] VecDeque<T>, T;
    [T: Send] LinkedList<T>, T;
    [T: Ord + Send] BinaryHeap<T>, T;
    [T: Ord + Send] BTreeSet<T>, T;
    [T: Eq + Hash + Send, S: BuildHasher] HashSet<T, S>, T;
    [K: Ord + Send, V: Send] BTreeMap<K, V>, (K, V);
    [K: Eq + Hash + Send, V: Send, S: BuildHasher] HashMap<K, V, S>, (K, V);
}

/// Every run of items as a list, on the member that makes the items; the lists are appended to each other.
impl<T: Send> FromParallelIterator<T> for LinkedList<T> {
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(iter: I) -> Self {
        let runs = gathered(iter.into_par_iter(), &Extended::<LinkedList<T>>(PhantomData));
        runs.into_iter().fold(LinkedList::new(), |mut all, mut run| {
            all.append(&mut run);
            all
        })
    }
}

/// Strings, from all items that a string can be extended by.
macro_rules! strings {
    ($string:ty, |$runs:ident| $concat:expr; $([$($generics:tt)*] $item:ty;)*) => {$(
        impl<$($generics)*> FromParallelIterator<$item> for $string {
            #[track_caller]
            fn from_par_iter<I: IntoParallelIterator<Item = $item>>(iter: I) -> Self {
                let mut $runs = gathered(iter.into_par_iter(), &Extended::<$string>(PhantomData));
                if $runs.len() == 1 { $runs.swap_remove(0) } else { $concat }
            }
        }

        impl<$($generics)*> ParallelExtend<$item> for $string {
            #[track_caller]
            fn par_extend<I: IntoParallelIterator<Item = $item>>(&mut self, iter: I) {
                self.extend(gathered(iter.into_par_iter(), &Extended::<$string>(PhantomData)));
            }
        }
    )*};
}
strings! { String, |runs| runs.concat();
    [] char;
    ['a] &'a char;
    ['a] &'a str;
    ['a] Cow<'a, str>;
    [] Box<str>;
    [] String;
}
strings! { OsString, |runs| runs.into_iter().collect();
    ['a] &'a OsStr;
    ['a] Cow<'a, OsStr>;
    [] OsString;
}

/// Extends the collection on the side that is present.
impl<T: Send, L: ParallelExtend<T>, R: ParallelExtend<T>> ParallelExtend<T> for Either<L, R> {
    #[track_caller]
    fn par_extend<I: IntoParallelIterator<Item = T>>(&mut self, iter: I) {
        match self {
            Either::Left(left) => left.par_extend(iter),
            Either::Right(right) => right.par_extend(iter),
        }
    }
}

impl<T: Send> FromParallelIterator<T> for Box<str>
where
    String: FromParallelIterator<T>,
{
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(iter: I) -> Self {
        String::from_par_iter(iter).into_boxed_str()
    }
}

impl<T: Send, C: ?Sized + ToOwned<Owned: FromParallelIterator<T>>> FromParallelIterator<T> for Cow<'_, C> {
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = T>>(iter: I) -> Self {
        Cow::Owned(C::Owned::from_par_iter(iter))
    }
}

/// The first error in the order of the source, as in a serial loop. Items after that error may have been made before it was found. After
/// that, members claim no items after it.
impl<T: Send, E: Send, C: FromParallelIterator<T>> FromParallelIterator<Result<T, E>> for Result<C, E> {
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = Result<T, E>>>(iter: I) -> Self {
        let broken = Found::new();
        let all = C::from_par_iter(while_ok(iter.into_par_iter(), &broken));
        broken.into_best().map_or(Ok(all), Err)
    }
}

/// `None` if an item is `None`. Items after that `None` may have been made before it was found.
impl<T: Send, C: FromParallelIterator<T>> FromParallelIterator<Option<T>> for Option<C> {
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = Option<T>>>(iter: I) -> Self {
        let broken = Found::new();
        let all = C::from_par_iter(while_ok(iter.into_par_iter(), &broken));
        broken.into_best().map_or(Some(all), |()| None)
    }
}

/// Pairs, as by [`unzip`](ParallelIterator::unzip).
impl<A: Send, B: Send, FromA, FromB> FromParallelIterator<(A, B)> for (FromA, FromB)
where
    FromA: FromParallelIterator<A>,
    FromB: FromParallelIterator<B>,
{
    #[track_caller]
    fn from_par_iter<I: IntoParallelIterator<Item = (A, B)>>(iter: I) -> Self {
        let (a, b) = unzipped(iter.into_par_iter());
        (FromA::from_items(a), FromB::from_items(b))
    }
}

/// Pairs, each side into its collection. So `unzip` also works on pairs of pairs.
impl<A: Send, B: Send, FromA, FromB> ParallelExtend<(A, B)> for (FromA, FromB)
where
    FromA: ParallelExtend<A>,
    FromB: ParallelExtend<B>,
{
    #[track_caller]
    fn par_extend<I: IntoParallelIterator<Item = (A, B)>>(&mut self, iter: I) {
        let (a, b) = unzipped(iter.into_par_iter());
        self.0.extend_by(a);
        self.1.extend_by(b);
    }
}

/// All pairs, as two vectors.
#[track_caller]
fn unzipped<P: ParallelIterator<Item = (A, B)>, A: Send, B: Send>(iter: P) -> (Vec<A>, Vec<B>) {
    if !P::Recipe::EXACT {
        return two_vectors(iter, &Extended(PhantomData));
    }
    in_place(iter, (|n, members| (Slots::new(n, members), Slots::new(n, members)), |(a, b)| a.zip(b)))
}

/// The left sides of all runs, and the right ones.
#[track_caller]
pub(crate) fn two_vectors<P, G, A, B>(iter: P, gather: &G) -> (Vec<A>, Vec<B>)
where
    P: ParallelIterator,
    G: Gather<P::Item, Run = (Vec<A>, Vec<B>)>,
{
    let (a, b) = gathered(iter, gather).into_iter().unzip();
    (concat(a), concat(b))
}

/// Slots for results of type `I`, as a source of places.
trait Places<I>: Divide {
    /// Writes items to the places of a chunk.
    fn fill(places: Self::Chunk<'_>, items: impl Iterator<Item = I>);
}

impl<T: Send> Places<T> for Slots<T> {
    #[inline]
    fn fill(mut places: Fill<'_, T>, items: impl Iterator<Item = T>) {
        places.fill(items);
    }
}

impl<A: Send, B: Send> Places<(A, B)> for (Slots<A>, Slots<B>) {
    #[inline]
    fn fill((mut a, mut b): (Fill<'_, A>, Fill<'_, B>), items: impl Iterator<Item = (A, B)>) {
        a.fill_with(&mut b, items);
    }
}

/// Makes the places of a number of items, for a number of members; and takes the results, if no place is empty.
type Filled<O, R> = (fn(usize, usize) -> O, fn(<O as Divide>::Done) -> Option<R>);

/// All items, in order, of a recipe with one item for every index.
#[inline]
#[track_caller]
fn in_place<P: ParallelIterator, O: Places<P::Item>, R: FromIterator<P::Item> + Default>(
    iter: P,
    filled: Filled<O, R>,
) -> R {
    let (source, recipe, hints) = consumed(iter);
    let pool = Current::get();
    let begun = BegunCall::new(&pool, &hints, source.total(), written::<P, O, R> as *const () as usize);
    if begun.is_plain() {
        return begun.run_plain(|| {
            undivided(source, |mut items| match items.take(usize::MAX) {
                Some((at, chunk)) => recipe.iter(&recipe.state(), at, chunk).collect(),
                None => R::default(),
            })
        });
    }
    written::<P, O, R>(&pool, begun, source, &recipe, filled)
}

/// All items, which members write in place: a call that is no plain loop.
#[inline(never)]
fn written<P: ParallelIterator, O: Places<P::Item>, R: Default>(
    pool: &PoolState,
    begun: BegunCall<'_>,
    source: P::Source,
    recipe: &P::Recipe,
    (places, whole): Filled<O, R>,
) -> R {
    let hints = begun.hints;
    let places = places(source.total(), pool.members);
    let mut division = Division::new((source, places));
    let (mut lead, shared) = division.lead();
    drive(
        begun,
        &mut lead,
        shared,
        || recipe.state(),
        |state, at, (chunk, places)| {
            O::fill(places, recipe.iter(state, at, chunk));
            ControlFlow::Continue(())
        },
        drop,
    );
    drop(lead);
    hints.complete(whole(division.done().1))
}
