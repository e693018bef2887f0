//! Generic code over parallel iterators needs no bounds but those of rayon: iterators and items are `Send` by the trait.

use windrow::join;
use windrow::prelude::*;

fn all<P: ParallelIterator>(iter: P) -> Vec<P::Item> {
    iter.collect()
}

fn reduced<P: ParallelIterator>(iter: P, op: impl Fn(P::Item, P::Item) -> P::Item + Sync) -> Option<P::Item> {
    iter.reduce_with(op)
}

fn found<P: ParallelIterator + Clone>(
    iter: P,
    f: impl Fn(&P::Item) -> bool + Sync,
) -> (Option<P::Item>, Option<P::Item>) {
    (iter.clone().find_any(&f), iter.find_last(&f))
}

fn extremes<P>(iter: P) -> (Option<P::Item>, Option<P::Item>)
where
    P: ParallelIterator<Item: Ord> + Clone,
{
    (iter.clone().min(), iter.max_by_key(|_| 0))
}

fn counts<A: ParallelIterator, B: ParallelIterator>(a: A, b: B) -> (usize, usize) {
    join(|| a.count(), || b.count())
}

fn halves<I: IntoParallelIterator>(iter: I, f: impl Fn(&I::Item) -> bool + Sync) -> (Vec<I::Item>, Vec<I::Item>) {
    iter.into_par_iter().partition(f)
}

fn texts<'a, C>(collection: &'a C) -> Vec<String>
where
    C: ?Sized + IntoParallelRefIterator<'a, Item: ToString>,
{
    collection.par_iter().map(|item| item.to_string()).collect()
}

fn flat<I>(iter: I) -> Vec<<I::Item as IntoParallelIterator>::Item>
where
    I: IntoParallelIterator<Item: IntoParallelIterator>,
{
    iter.into_par_iter().flatten().collect()
}

fn with_place<P: IndexedParallelIterator>(iter: P) -> impl IndexedParallelIterator<Item = (usize, P::Item)> + Send {
    iter.enumerate()
}

#[test]
fn items_of_any_iterator_can_be_consumed() {
    let iter = (0..1000u32).into_par_iter().map(|x| x ^ 5);
    let serial: Vec<u32> = (0..1000).map(|x| x ^ 5).collect();
    assert_eq!(all(iter.clone()), serial);
    assert_eq!(reduced(iter.clone(), u32::max), serial.iter().copied().max());
    assert_eq!(found(iter.clone(), |x| *x == 7), (Some(7), Some(7)));
    assert_eq!(extremes(iter.clone()), (Some(0), serial.last().copied()));
    assert_eq!(counts(iter.clone(), iter.clone().filter(|x| x % 2 == 0)), (1000, 500));
    assert_eq!(halves(iter.clone(), |x| *x < 10), serial.iter().partition(|x| **x < 10));
    assert_eq!(texts(&serial[..3]), ["5", "4", "7"]);
    assert_eq!(flat(vec![vec![1, 2], vec![], vec![3]]), [1, 2, 3]);
    assert_eq!(all(with_place(iter)), serial.into_iter().enumerate().collect::<Vec<_>>());
}

#[test]
fn iterators_can_be_sent() {
    let iter = vec![1, 2, 3].into_par_iter().map(|x| x + 1).rev();
    assert_eq!(std::thread::spawn(|| iter.collect::<Vec<_>>()).join().unwrap(), [4, 3, 2]);
}
