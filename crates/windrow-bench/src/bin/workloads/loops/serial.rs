//! Loops that fold parts, as they were; and the names of parallel iterators for those of the standard library.

use std::collections::HashMap;

use super::*;

pub(super) fn wordcount(data: &Data, _: &mut Room) -> u64 {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for word in &data.words {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts.values().map(|count| count * count).sum()
}

pub(super) fn group(data: &Data, _: &mut Room) -> u64 {
    let mut groups = Groups::new();
    for (key, value) in &data.records {
        groups.entry(key).or_default().push(*value);
    }
    digest_of_groups(&groups)
}

pub(super) fn mapvals(data: &Data, _: &mut Room) -> u64 {
    data.map.iter().map(|(key, value)| key ^ value).fold(0, |a, b| a ^ b)
}

pub(super) fn btvals(data: &Data, _: &mut Room) -> u64 {
    data.tree.iter().map(|(key, value)| key ^ value).fold(0, |a, b| a ^ b)
}

pub(super) fn hist(data: &Data, _: &mut Room) -> u64 {
    let mut counts = vec![0_u32; COUNTERS];
    for x in &data.numbers {
        counts[*x as usize % COUNTERS] += 1;
    }
    sample(&counts, u64::from)
}

pub(super) fn fmax(data: &Data, _: &mut Room) -> u64 {
    data.floats.iter().copied().fold(f64::NEG_INFINITY, f64::max).to_bits()
}

pub(super) fn minmax(data: &Data, _: &mut Room) -> u64 {
    let ends = data.numbers.iter().fold((u64::MAX, 0), |(low, high), x| (low.min(*x), high.max(*x)));
    ends.0 ^ ends.1
}

pub(super) fn join<A, B>(a: impl FnOnce() -> A, b: impl FnOnce() -> B) -> (A, B) {
    (a(), b())
}

pub(super) mod prelude {
    use std::slice::{Chunks, ChunksMut, Windows};

    pub(crate) trait Refs<'a> {
        type Iter: Iterator;
        fn par_iter(&'a self) -> Self::Iter;
    }

    impl<'a, C: ?Sized + 'a> Refs<'a> for C
    where
        &'a C: IntoIterator,
    {
        type Iter = <&'a C as IntoIterator>::IntoIter;
        fn par_iter(&'a self) -> Self::Iter {
            self.into_iter()
        }
    }

    pub(crate) trait Owned: IntoIterator + Sized {
        fn into_par_iter(self) -> Self::IntoIter {
            self.into_iter()
        }
    }

    impl<I: IntoIterator> Owned for I {}

    pub(crate) trait More: Iterator + Sized {
        fn par_bridge(self) -> Self {
            self
        }
        fn flat_map_iter<U: IntoIterator>(self, f: impl FnMut(Self::Item) -> U) -> impl Iterator<Item = U::Item> {
            self.flat_map(f)
        }
        fn position_first(mut self, is: impl FnMut(Self::Item) -> bool) -> Option<usize> {
            self.position(is)
        }
    }

    impl<I: Iterator> More for I {}

    #[rustfmt::skip]
    pub(crate) trait Slice<T> {
        fn slice(&mut self) -> &mut [T];
        fn par_iter_mut(&mut self) -> std::slice::IterMut<'_, T> { self.slice().iter_mut() }
        fn par_chunks_mut(&mut self, n: usize) -> ChunksMut<'_, T> { self.slice().chunks_mut(n) }
        fn par_sort(&mut self) where T: Ord { self.slice().sort() }
        fn par_sort_unstable(&mut self) where T: Ord { self.slice().sort_unstable() }
        fn par_sort_by_cached_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K) { self.slice().sort_by_cached_key(key) }
    }

    impl<T> Slice<T> for [T] {
        fn slice(&mut self) -> &mut [T] {
            self
        }
    }

    #[rustfmt::skip]
    pub(crate) trait Parts<T> {
        fn slice(&self) -> &[T];
        fn par_chunks(&self, n: usize) -> Chunks<'_, T> { self.slice().chunks(n) }
        fn par_windows(&self, n: usize) -> Windows<'_, T> { self.slice().windows(n) }
    }

    impl<T> Parts<T> for [T] {
        fn slice(&self) -> &[T] {
            self
        }
    }

    #[rustfmt::skip]
    pub(crate) trait Text {
        fn text(&self) -> &str;
        fn par_lines(&self) -> std::str::Lines<'_> { self.text().lines() }
        fn par_chars(&self) -> std::str::Chars<'_> { self.text().chars() }
    }

    impl Text for str {
        fn text(&self) -> &str {
            self
        }
    }
}
