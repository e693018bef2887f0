//! Collections of other crates, and trees, become parallel iterators by safe traits, with all adaptors and consumers.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

use hashbrown::HashTable;
use indexmap::IndexMap;
use indexmap::map::Slice;
use ndarray::iter::{AxisIter, AxisIterMut};
use ndarray::{Array2, ArrayView1, ArrayViewMut1, Axis, Ix1};
use windrow::Pool;
use windrow::iter::{
    SplitAt, SplitAtIter, SplitInHalf, SplitInHalfIter, from_split_at, from_split_in_half, split, walk_tree_postfix,
    walk_tree_prefix,
};
use windrow::prelude::*;
use windrow_testkit::{Live, items, on_all, pools, spin};

const N: usize = if cfg!(miri) { 20 } else { 3000 };

/// Rows of a matrix.
struct Rows<'a>(AxisIter<'a, f64, Ix1>);

impl<'a> IntoIterator for Rows<'a> {
    type Item = ArrayView1<'a, f64>;
    type IntoIter = AxisIter<'a, f64, Ix1>;
    fn into_iter(self) -> Self::IntoIter {
        self.0
    }
}

impl SplitAt for Rows<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_at(self, at: usize) -> (Self, Self) {
        let (a, b) = self.0.split_at(at);
        (Rows(a), Rows(b))
    }
}

/// Exclusive rows of a matrix.
struct RowsMut<'a>(AxisIterMut<'a, f64, Ix1>);

impl<'a> IntoIterator for RowsMut<'a> {
    type Item = ArrayViewMut1<'a, f64>;
    type IntoIter = AxisIterMut<'a, f64, Ix1>;
    fn into_iter(self) -> Self::IntoIter {
        self.0
    }
}

impl SplitAt for RowsMut<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_at(self, at: usize) -> (Self, Self) {
        let (a, b) = self.0.split_at(at);
        (RowsMut(a), RowsMut(b))
    }
}

#[test]
fn rows_of_an_array() {
    let mut a = Array2::from_shape_fn((N / 3, 4), |(i, j)| (i * 4 + j) as f64);
    let sums = |micros| {
        let rows = from_split_at(Rows(a.axis_iter(Axis(0))));
        rows.inspect(move |_| spin(micros)).map(|row| row.sum()).rev().enumerate().collect::<Vec<_>>()
    };
    let serial: Vec<_> = a.axis_iter(Axis(0)).map(|row| row.sum()).rev().enumerate().collect();
    assert_eq!(on_all(|| sums(0)), serial);
    assert_eq!(on_all(|| sums(2)), serial);
    let mut doubled = a.clone();
    doubled.axis_iter_mut(Axis(0)).enumerate().for_each(|(at, mut row)| row.mapv_inplace(|x| x * at as f64));
    let rows = from_split_at(RowsMut(a.axis_iter_mut(Axis(0))));
    rows.enumerate().for_each(|(at, mut row)| row.mapv_inplace(|x| x * at as f64));
    assert_eq!(a, doubled);
}

/// Entries of an index map.
#[derive(Clone)]
struct Entries<'a>(&'a Slice<String, usize>);

impl<'a> IntoIterator for Entries<'a> {
    type Item = (&'a String, &'a usize);
    type IntoIter = indexmap::map::Iter<'a, String, usize>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl SplitAt for Entries<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_at(self, at: usize) -> (Self, Self) {
        let (a, b) = self.0.split_at(at);
        (Entries(a), Entries(b))
    }
}

/// A map with a parallel iterator: what a crate would do for its type.
struct Map(IndexMap<String, usize>);

impl<'a> IntoParallelIterator for &'a Map {
    type Item = (&'a String, &'a usize);
    type Iter = SplitAtIter<Entries<'a>>;
    fn into_par_iter(self) -> Self::Iter {
        from_split_at(Entries(self.0.as_slice()))
    }
}

#[test]
fn entries_of_an_index_map() {
    let map = Map((0..N).map(|i| (format!("{}", i * 7 % N), i)).collect());
    let serial = || map.0.iter();
    macro_rules! same {
        ($($serial:expr => $parallel:expr;)*) => {$( assert_eq!(on_all(|| $parallel), $serial, "{}", stringify!($parallel)); )*};
    }
    same! {
        serial().collect::<Vec<_>>() => map.par_iter().collect::<Vec<_>>();
        serial().filter(|(_, v)| **v % 3 == 0).collect::<Vec<_>>() => map.par_iter().filter(|(_, v)| **v % 3 == 0).collect::<Vec<_>>();
        serial().skip(7).step_by(3).take(99).collect::<Vec<_>>() => map.par_iter().skip(7).step_by(3).take(99).collect::<Vec<_>>();
        serial().zip(0..N / 2).collect::<Vec<_>>() => map.par_iter().zip(0..N / 2).collect::<Vec<_>>();
        serial().chain(serial()).map(|(_, v)| *v).collect::<Vec<_>>() => map.par_iter().chain(&map).map(|(_, v)| *v).collect::<Vec<_>>();
        serial().collect::<Vec<_>>().chunks(7).map(<[_]>::to_vec).collect::<Vec<_>>() => map.par_iter().chunks(7).collect::<Vec<_>>();
        serial().map(|(_, v)| v).sum::<usize>() => map.par_iter().map(|(_, v)| v).sum::<usize>();
        serial().position(|(_, v)| *v == N / 2) => map.par_iter().position_first(|(_, v)| *v == N / 2);
        serial().find(|(_, v)| **v > 9) => map.par_iter().find_first(|(_, v)| **v > 9);
        serial().rfind(|(_, v)| **v < 9) => map.par_iter().find_last(|(_, v)| **v < 9);
        serial().max_by_key(|(k, _)| *k) => map.par_iter().max_by_key(|(k, _)| *k);
        serial().map(|(_, v)| *v as f64).fold(0.0, f64::max) => map.par_iter().map(|(_, v)| *v as f64).reduce(|| 0.0, f64::max);
        N.min(5) => map.par_iter().take_any(5).count();
    }
    assert_eq!(map.par_iter().len(), N);
    assert_eq!((&Map(IndexMap::new())).into_par_iter().count(), 0);
}

/// Entries of a hash table, by the buckets they lie in: their number is not known before they are visited.
struct Buckets<'a, T>(&'a HashTable<T>, Range<usize>);

impl<'a, T> Iterator for Buckets<'a, T> {
    type Item = &'a T;
    fn next(&mut self) -> Option<&'a T> {
        self.1.find_map(|bucket| self.0.get_bucket(bucket))
    }
}

impl<T: Sync> SplitInHalf for Buckets<'_, T> {
    fn split(self) -> (Self, Option<Self>) {
        let Buckets(table, buckets) = self;
        if buckets.len() < 2 {
            return (Buckets(table, buckets), None);
        }
        let middle = buckets.start + buckets.len() / 2;
        (Buckets(table, buckets.start..middle), Some(Buckets(table, middle..buckets.end)))
    }
}

#[test]
fn entries_of_a_hash_table() {
    let mut table = HashTable::new();
    for i in 0..N as u64 {
        let hash = |i: &u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        table.insert_unique(hash(&i), i, hash);
    }
    let serial: Vec<u64> = Buckets(&table, 0..table.num_buckets()).copied().collect();
    assert_eq!(serial.len(), N);
    let entries =
        || -> SplitInHalfIter<Buckets<'_, u64>> { from_split_in_half(Buckets(&table, 0..table.num_buckets())) };
    assert_eq!(on_all(|| entries().copied().collect::<Vec<_>>()), serial);
    assert_eq!(on_all(|| entries().inspect(|_| spin(1)).sum::<u64>()), serial.iter().sum::<u64>());
    assert_eq!(on_all(|| entries().find_first(|x| **x % 9 == 8).copied()), serial.iter().copied().find(|x| x % 9 == 8));
    // The grouping of a sum depends on the parts alone.
    let thirds = f64::from_bits(on_all(|| entries().map(|x| *x as f64 / 3.0).sum::<f64>().to_bits()));
    assert!((thirds * 3.0 - serial.iter().sum::<u64>() as f64).abs() < 1e-3);
}

/// A node of a binary tree.
struct Node(u32, Option<Box<Node>>, Option<Box<Node>>);

impl Node {
    /// The numbers of `range` in order; the left subtree has `left` of eight nodes.
    fn of(range: Range<u32>, left: u32) -> Option<Box<Node>> {
        let root = range.start + range.len() as u32 * left / 8;
        (!range.is_empty())
            .then(|| Box::new(Node(root, Node::of(range.start..root, left), Node::of(root + 1..range.end, left))))
    }
}

/// A part of a tree in order: subtrees to visit, and nodes whose left subtree was visited. The next one is on top.
struct InOrder<'a>(Vec<(&'a Node, bool)>);

impl<'a> InOrder<'a> {
    fn open(&mut self, node: &'a Node) {
        self.0.extend(node.2.as_deref().map(|right| (right, true)));
        self.0.push((node, false));
        self.0.extend(node.1.as_deref().map(|left| (left, true)));
    }
}

impl Iterator for InOrder<'_> {
    type Item = u32;
    fn next(&mut self) -> Option<u32> {
        loop {
            match self.0.pop()? {
                (node, false) => return Some(node.0),
                (node, true) => self.open(node),
            }
        }
    }
}

impl SplitInHalf for InOrder<'_> {
    fn split(mut self) -> (Self, Option<Self>) {
        if let [(node, true)] = self.0[..] {
            self.0.clear();
            self.open(node);
        }
        let front = self.0.split_off(self.0.len() / 2);
        let rest = (!self.0.is_empty()).then_some(self);
        (InOrder(front), rest)
    }
}

#[test]
fn nodes_of_a_tree() {
    for left in [0, 1, 4, 8] {
        let n = if left % 8 == 0 { 300 } else { N as u32 };
        let tree = Node::of(0..n, left.min(7));
        let nodes = || from_split_in_half(InOrder(tree.as_deref().map(|root| (root, true)).into_iter().collect()));
        let serial: Vec<u32> = (0..n).collect();
        assert_eq!(on_all(|| nodes().collect::<Vec<_>>()), serial);
        assert_eq!(on_all(|| nodes().inspect(|_| spin(1)).filter(|x| x % 2 == 0).count()), serial.len().div_ceil(2));
    }
}

#[test]
fn parts_are_in_order_and_even() {
    let halves = |range: Range<usize>| match range.len() {
        0 | 1 => (range, None),
        n => (range.start..range.start + n / 2, Some(range.start + n / 2..range.end)),
    };
    for n in [0, 1, 2, 255, 256, 257, 10_000] {
        let parts: Vec<Range<usize>> = split(0..n, halves).collect();
        assert_eq!(parts.len(), n.clamp(1, 256));
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        let lengths = parts.iter().map(Range::len);
        assert!(lengths.clone().max() <= lengths.min().map(|least| (2 * least).max(least + 1)), "{n} items");
        assert_eq!(split(0..n, halves).flatten_iter().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
    }
}

#[test]
fn nodes_before_and_after_their_children() {
    // A node has as many children as the remainder says: chains, leaves and wide nodes.
    let children =
        |&(n, depth): &(u32, u32)| (0..if depth == 0 { 0 } else { n % 4 }).map(move |i| (n * 3 + i, depth - 1));
    fn serial(
        node: (u32, u32),
        prefix: bool,
        all: &mut Vec<(u32, u32)>,
        children: &impl Fn(&(u32, u32)) -> Vec<(u32, u32)>,
    ) {
        if prefix {
            all.push(node);
        }
        children(&node).into_iter().for_each(|child| serial(child, prefix, all, children));
        if !prefix {
            all.push(node);
        }
    }
    for root in [(0, 9), (1, 9), (3, 6), (7, 7), (13, 0)] {
        let [mut before, mut after] = [vec![], vec![]];
        serial(root, true, &mut before, &|node| children(node).collect());
        serial(root, false, &mut after, &|node| children(node).collect());
        assert_eq!(on_all(|| walk_tree_prefix(root, children).collect::<Vec<_>>()), before);
        assert_eq!(on_all(|| walk_tree_postfix(root, children).collect::<Vec<_>>()), after);
    }
}

/// Owned items that are split at indices. `step` is called in each method.
struct Owned<'a, F: Fn()>(Vec<Live<&'a AtomicIsize>>, &'a F);

impl<'a, F: Fn()> IntoIterator for Owned<'a, F> {
    type Item = Live<&'a AtomicIsize>;
    type IntoIter = std::vec::IntoIter<Live<&'a AtomicIsize>>;
    fn into_iter(self) -> Self::IntoIter {
        (self.1)();
        self.0.into_iter()
    }
}

impl<F: Fn() + Sync> SplitAt for Owned<'_, F> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn split_at(mut self, at: usize) -> (Self, Self) {
        (self.1)();
        let rest = self.0.split_off(at);
        (Owned(self.0, self.1), Owned(rest, self.1))
    }
}

impl<F: Fn() + Sync> SplitInHalf for Owned<'_, F> {
    fn split(self) -> (Self, Option<Self>) {
        let half = self.0.len() / 2;
        if half == 0 {
            return (self, None);
        }
        let (a, b) = self.split_at(half);
        (a, Some(b))
    }
}

#[test]
fn a_panic_in_a_part_reaches_the_caller_and_loses_no_item() {
    let n = if cfg!(miri) { 6 } else { 40 };
    type Call = fn(Vec<Live<&AtomicIsize>>, &(dyn Fn() + Sync)) -> usize;
    let kinds: [Call; 4] = [
        |items, step| from_split_at(Owned(items, &|| step())).inspect(|_| spin(2)).collect::<Vec<_>>().len(),
        |items, step| from_split_at(Owned(items, &|| step())).map(|x| x.1).rev().take(30).sum(),
        |items, step| from_split_in_half(Owned(items, &|| step())).inspect(|_| spin(2)).count(),
        |items, step| {
            from_split_at(Owned(items, &|| step())).zip(0..9).find_any(|(x, _)| x.1 == 7).map_or(0, |(x, _)| x.1)
        },
    ];
    for (kind, call) in kinds.iter().enumerate() {
        for pool in pools() {
            for at in 0.. {
                let (live, steps) = (AtomicIsize::new(0), AtomicUsize::new(0));
                let step = || {
                    if steps.fetch_add(1, Relaxed) == at {
                        resume_unwind(Box::new(at));
                    }
                };
                let ended = catch_unwind(AssertUnwindSafe(|| pool.install(|| call(items(&live, n), &step))));
                assert_eq!(live.load(Relaxed), 0, "call {kind}, panic at {at}");
                match ended {
                    Ok(_) => {
                        assert!(at > 0 && steps.into_inner() <= at, "call {kind}: the panic at {at} was lost");
                        break;
                    }
                    Err(payload) => assert_eq!(*payload.downcast::<usize>().expect("the step's payload"), at),
                }
            }
        }
    }
    assert_eq!(Pool::new(2).install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
}

/// A source that lies: it says how long it is, and how long its parts are.
struct Liar(Vec<u32>, usize, fn(usize) -> usize);

impl IntoIterator for Liar {
    type Item = u32;
    type IntoIter = std::vec::IntoIter<u32>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl SplitAt for Liar {
    fn len(&self) -> usize {
        self.1
    }
    fn split_at(mut self, at: usize) -> (Self, Self) {
        let rest = self.0.split_off(at.min(self.0.len()));
        let left = (self.2)(at);
        (Liar(self.0, left, self.2), Liar(rest, self.1 - at, self.2))
    }
}

#[test]
fn a_source_that_lies_panics() {
    let collected =
        |liar: Liar| catch_unwind(|| pools()[1].install(|| from_split_at(liar).with_claim_size(5).collect::<Vec<_>>()));
    let message = |liar: Liar| *collected(liar).expect_err("a lie").downcast::<String>().expect("a message");
    // The first split is found out: at a claim of five items, at a piece of one in a caller whose workers have not started yet, or at the
    // half of a worker that comes first.
    let said = message(Liar(vec![1; 30], 30, |at| at + 1));
    let lie = |at: usize| format!("splitting 30 items at {at} gave parts of {} and {} items", at + 1, 30 - at);
    assert!([1, 5, 15].into_iter().any(|at| said == lie(at)), "{said}");
    // Fewer items than promised: no vector with holes. More than promised: they are dropped.
    assert!(collected(Liar(vec![1; 20], 30, |at| at)).is_err());
    assert_eq!(collected(Liar(vec![1; 40], 30, |at| at)).unwrap(), [1; 30]);
}
