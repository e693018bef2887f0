// Included under either prelude; `iter` and `Either` are that library's. The value of a call does not depend on which thread ran which
// part.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// More items than a serial first piece, and a little work for each, so that workers do take part.
const N: usize = 3000;

fn numbers() -> Vec<u64> {
    (0..N as u64).map(|i| i * 7919 % 1009).collect()
}

fn words() -> Vec<String> {
    (0..N).map(|i| format!("w{}", i * 31 % 500)).collect()
}

fn text() -> String {
    (0..300).map(|i| format!("line {i} of\tthe  täxt{}", if i % 7 == 0 { "\r\n" } else { "\n" })).collect()
}

fn slow(x: u64) -> u64 {
    (0..50).fold(x, |x, i| x.rotate_left(5) ^ i)
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

/// Functions of a typical program: this one takes a parallel iterator, others return one.
fn longest<'a>(words: impl ParallelIterator<Item = &'a String>) -> usize {
    words.map(|w| w.len()).max().unwrap_or(0)
}

fn evens(limit: u32) -> impl ParallelIterator<Item = u32> {
    (0..limit).into_par_iter().filter(|i| i % 2 == 0)
}

fn total<I: IntoParallelIterator<Item = u64>>(items: I) -> u64
where
    I::Iter: IndexedParallelIterator,
{
    items.into_par_iter().enumerate().map(|(i, x)| i as u64 * x).sum()
}

/// The item type of a program, with its own collection.
#[derive(Debug, Default)]
struct Bag(Vec<u64>);

impl FromParallelIterator<u64> for Bag {
    fn from_par_iter<I: IntoParallelIterator<Item = u64>>(items: I) -> Self {
        Bag(items.into_par_iter().map(|x| x + 1).collect())
    }
}

impl ParallelExtend<u64> for Bag {
    fn par_extend<I: IntoParallelIterator<Item = u64>>(&mut self, items: I) {
        self.0.par_extend(items);
    }
}

fn fib(n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// The result of `f` on some items.
fn changed<T>(mut items: Vec<T>, f: impl FnOnce(&mut Vec<T>)) -> Vec<T> {
    f(&mut items);
    items
}

macro_rules! calls {
    ($($name:ident: $call:expr;)*) => {
        pub(super) fn calls() -> Vec<(&'static str, fn() -> String)> {
            vec![$((stringify!($name), || format!("{:?}", $call))),*]
        }
    };
}

calls! {
    // Sources.
    slice: numbers().par_iter().map(|x| slow(*x)).collect::<Vec<_>>();
    slice_mut: {
        let mut v = numbers();
        v.par_iter_mut().for_each(|x| *x = slow(*x));
        v
    };
    owned: words().into_par_iter().map(|w| w.len()).sum::<usize>();
    array: [3, 1, 2].into_par_iter().map(|x| x * 2).collect::<Vec<i32>>();
    array_by_ref: [3, 1, 2].par_iter().max().copied();
    boxed_slice: numbers().into_boxed_slice().into_par_iter().max();
    range: (0..N).into_par_iter().map(|i| i * i).sum::<usize>();
    range_of_whatever_its_items_are_used_as: (0..40).into_par_iter().flat_map_iter(|n| vec![n; numbers()[n] as usize % 3]).sum::<usize>();
    range_inclusive: (1..=20u64).into_par_iter().product::<u64>();
    range_to_the_end: (250..=u8::MAX).into_par_iter().collect::<Vec<_>>();
    range_signed: (-5..5i32).into_par_iter().map(|i| i * i).collect::<Vec<_>>();
    range_empty: (5..5).into_par_iter().map(|i: i32| i).collect::<Vec<_>>();
    hash_map: sorted(numbers().into_iter().zip(words()).collect::<HashMap<_, _>>().into_par_iter().collect());
    hash_map_by_ref: {
        let map: HashMap<u64, String> = numbers().into_iter().zip(words()).collect();
        map.par_iter().map(|(k, v)| *k as usize + v.len()).sum::<usize>()
    };
    hash_map_mut: {
        let mut map: HashMap<u64, u64> = numbers().into_iter().map(|x| (x, x)).collect();
        map.par_iter_mut().for_each(|(k, v)| *v += k);
        sorted(map.into_iter().collect())
    };
    hash_set: numbers().into_iter().collect::<HashSet<_>>().par_iter().map(|x| slow(*x) % 10).sum::<u64>();
    btree_map: numbers().into_iter().zip(words()).collect::<BTreeMap<_, _>>().par_iter().collect::<Vec<_>>();
    btree_set: words().into_iter().collect::<BTreeSet<_>>().into_par_iter().collect::<Vec<_>>();
    deque: {
        let mut deque: VecDeque<u64> = numbers().into();
        deque.rotate_left(700);
        deque.push_front(1);
        deque.par_iter_mut().for_each(|x| *x += 1);
        (deque.par_iter().map(|x| slow(*x)).collect::<Vec<_>>(), deque.into_par_iter().max())
    };
    heap: numbers().into_iter().collect::<BinaryHeap<_>>().par_iter().sum::<u64>();
    list: numbers().into_iter().collect::<LinkedList<_>>().par_iter().copied().collect::<Vec<u64>>();
    option: (Some(3).into_par_iter().sum::<i32>(), None::<i32>.into_par_iter().count(), Some(2).par_iter().count());
    result: (Ok::<i32, ()>(3).into_par_iter().count(), Err::<i32, ()>(()).into_par_iter().count());
    chunks_of_a_slice: numbers().par_chunks(7).map(|run| run.iter().sum::<u64>()).collect::<Vec<_>>();
    chunks_mut: {
        let mut v = numbers();
        v.par_chunks_mut(7).enumerate().for_each(|(i, run)| run.iter_mut().for_each(|x| *x = i as u64));
        v
    };
    chunks_exact: numbers().par_chunks_exact(7).map(|run| run.len()).collect::<Vec<_>>();
    chunks_exact_mut: {
        let mut v = numbers();
        v.par_chunks_exact_mut(7).for_each(|run| run.reverse());
        v
    };
    rchunks: numbers().par_rchunks(7).map(|run| run.to_vec()).collect::<Vec<_>>();
    rchunks_mut: {
        let mut v = numbers();
        v.par_rchunks_mut(7).enumerate().for_each(|(i, run)| run.fill(i as u64));
        v
    };
    windows: numbers().par_windows(3).map(|w| w[2].abs_diff(w[0])).collect::<Vec<_>>();
    split_slice: numbers().par_split(|x| x % 10 == 0).map(|run| run.len()).collect::<Vec<_>>();
    chunk_by: numbers().par_chunk_by(|a, b| a < b).map(|run| run.len()).collect::<Vec<_>>();
    drain: {
        let mut v = numbers();
        let sum: u64 = v.par_drain(10..2000).map(slow).map(|x| x % 100).sum();
        (sum, v)
    };
    drain_map: {
        let mut map: HashMap<u64, u64> = numbers().into_iter().map(|x| (x, x)).collect();
        (sorted(map.par_drain().collect::<Vec<_>>()), map.len())
    };
    bridge: sorted(numbers().into_iter().filter(|x| x % 3 == 0).par_bridge().map(slow).collect::<Vec<_>>());
    bridge_channel: {
        let (sender, receiver) = std::sync::mpsc::channel();
        (0..100u64).for_each(|i| sender.send(i).unwrap());
        drop(sender);
        receiver.into_iter().par_bridge().map(|i| i * i).sum::<u64>()
    };
    empty: iter::empty::<i32>().count();
    once: iter::once(7).chain(iter::once(8)).collect::<Vec<_>>();
    repeat_take: iter::repeat(7u64).take(5).collect::<Vec<_>>();
    repeat_n: iter::repeat_n("ab", 3).collect::<String>();
    chars: text().par_chars().filter(|c| !c.is_ascii()).count();
    char_indices: text().par_char_indices().filter(|(_, c)| *c == 'ä').map(|(i, _)| i).collect::<Vec<_>>();
    bytes: text().par_bytes().map(u64::from).sum::<u64>();
    lines: text().par_lines().map(str::len).collect::<Vec<_>>();
    split_text: text().par_split('i').map(str::len).collect::<Vec<_>>();
    split_text_by: text().par_split(|c: char| c.is_numeric()).map(str::to_owned).collect::<Vec<_>>();
    split_text_by_several: text().par_split(['a', '\n']).map(str::len).collect::<Vec<_>>();
    split_terminator: "a,b,,c,".par_split_terminator(',').map(str::to_owned).collect::<Vec<_>>();
    split_whitespace: text().par_split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    tuple: (&numbers(), words(), 0..N).into_par_iter().map(|(a, b, c)| *a as usize + b.len() + c).sum::<usize>();

    // Adaptors.
    map_filter: numbers().par_iter().map(|x| slow(*x)).filter(|x| x % 3 == 0).collect::<Vec<_>>();
    filter_map: words().par_iter().filter_map(|w| w[1..].parse::<u32>().ok()).sum::<u32>();
    inspect: {
        let seen = AtomicUsize::new(0);
        let sum: u64 = numbers().par_iter().inspect(|_| _ = seen.fetch_add(1, Relaxed)).sum();
        (sum, seen.into_inner())
    };
    update: numbers().into_par_iter().update(|x| *x += 1).collect::<Vec<_>>();
    cloned: words().par_iter().cloned().collect::<Vec<_>>();
    copied: numbers().par_iter().copied().map(slow).min();
    flat_map: (0..100u32).into_par_iter().flat_map(|i| (0..i).into_par_iter().map(move |j| i * j)).collect::<Vec<_>>();
    flat_map_vec: (0..100usize).into_par_iter().flat_map(|i| vec![i; i % 5]).collect::<Vec<_>>();
    flat_map_iter: words().par_iter().flat_map_iter(|w| w.chars().rev()).collect::<String>();
    flatten: vec![vec![1, 2], vec![], vec![3]].into_par_iter().flatten().collect::<Vec<i32>>();
    flatten_option: [Some(1), None, Some(3)].par_iter().flatten().sum::<i32>();
    flatten_iter: vec!["ab".chars(), "c".chars()].into_par_iter().flatten_iter().collect::<String>();
    map_with: {
        let (sender, receiver) = std::sync::mpsc::channel();
        numbers().par_iter().map_with(sender, |sender, x| sender.send(*x).unwrap()).count();
        sorted(receiver.into_iter().collect())
    };
    map_init: numbers().par_iter().map_init(Vec::new, |buffer, x| {
        buffer.clear();
        buffer.extend((0..x % 7).map(slow));
        buffer.len()
    }).collect::<Vec<_>>();
    enumerate: words().par_iter().enumerate().filter(|(i, _)| i % 100 == 0).map(|(i, w)| format!("{i}{w}")).collect::<Vec<_>>();
    zip: numbers().par_iter().zip(words()).map(|(x, w)| *x as usize * w.len()).sum::<usize>();
    zip_uneven: numbers().par_iter().zip(0..10u32).map(|(x, y)| x + u64::from(y)).collect::<Vec<_>>();
    zip_eq: numbers().par_iter_mut().zip_eq(&numbers()).map(|(a, b)| *a + *b).sum::<u64>();
    chain: numbers().par_iter().chain(&numbers()[..5]).copied().collect::<Vec<_>>();
    chain_filtered: numbers().into_par_iter().filter(|x| x % 2 == 0).chain(evens(10).map(u64::from)).collect::<Vec<_>>();
    interleave: (0..10).into_par_iter().interleave(vec![100, 101, 102]).collect::<Vec<i32>>();
    interleave_shortest: (0..10).into_par_iter().interleave_shortest(100..103).collect::<Vec<i32>>();
    intersperse: words().into_par_iter().intersperse(", ".to_owned()).collect::<String>();
    take: numbers().par_iter().map(|x| slow(*x)).take(1000).collect::<Vec<_>>();
    skip: numbers().par_iter().map(|x| slow(*x)).skip(1000).collect::<Vec<_>>();
    skip_take_enumerate: words().into_par_iter().skip(5).take(20).enumerate().collect::<Vec<_>>();
    take_too_many: (0..5).into_par_iter().take(100).skip(3).collect::<Vec<i32>>();
    step_by: numbers().par_iter().step_by(13).copied().collect::<Vec<_>>();
    rev: words().par_iter().rev().cloned().collect::<Vec<_>>();
    enumerate_rev: numbers().into_par_iter().enumerate().rev().collect::<Vec<_>>();
    chunks: numbers().into_par_iter().chunks(100).map(|run| run.into_iter().sum::<u64>()).collect::<Vec<_>>();
    chunks_enumerate: words().into_par_iter().chunks(7).enumerate().map(|(i, run)| i * run.len()).collect::<Vec<_>>();
    fold_chunks: numbers().into_par_iter().fold_chunks(10, || 0, |a, b| a + b).collect::<Vec<u64>>();
    fold_chunks_with: numbers().into_par_iter().fold_chunks_with(10, 1, |a, b| a + b).collect::<Vec<u64>>();
    fold_sum: numbers().par_iter().fold(|| 0, |a, b| a + b).sum::<u64>();
    fold_with: words().par_iter().fold_with(0, |a, w| a + w.len()).reduce(|| 0, |a, b| a + b);
    fold_map: sorted(words().into_par_iter().fold(HashMap::new, |mut counts, w| {
        *counts.entry(w).or_insert(0) += 1;
        counts
    }).reduce(HashMap::new, |mut a: HashMap<String, i32>, b| {
        b.into_iter().for_each(|(w, n)| *a.entry(w).or_insert(0) += n);
        a
    }).into_iter().collect());
    try_fold: numbers().par_iter().try_fold(|| 0u64, |a, b| a.checked_add(*b)).try_reduce(|| 0, |a, b| a.checked_add(b));
    try_fold_with: numbers().par_iter().try_fold_with(0u8, |a, b| a.checked_add(*b as u8)).try_reduce(|| 0, |a, b| a.checked_add(b));
    while_some: words().par_iter().map(|w| w.starts_with('w').then_some(1)).while_some().sum::<i32>();
    with_min_len: numbers().par_iter().with_min_len(64).with_max_len(512).map(|x| slow(*x)).collect::<Vec<_>>();
    panic_fuse: numbers().into_par_iter().panic_fuse().sum::<u64>();
    positions: numbers().par_iter().positions(|x| x % 100 == 0).collect::<Vec<_>>();
    take_any: numbers().par_iter().filter(|x| *x % 2 == 0).take_any(100).count();
    skip_any: numbers().par_iter().skip_any(100).count();
    take_any_while: numbers().par_iter().take_any_while(|x| **x < 2000).count();
    skip_any_while: numbers().par_iter().skip_any_while(|x| **x > 2000).count();

    // Consumers.
    for_each: {
        let sum = AtomicUsize::new(0);
        numbers().par_iter().for_each(|x| _ = sum.fetch_add(*x as usize, Relaxed));
        sum.into_inner()
    };
    for_each_with: {
        let (sender, receiver) = std::sync::mpsc::channel();
        words().into_par_iter().for_each_with(sender, |sender, w| sender.send(w).unwrap());
        sorted(receiver.into_iter().collect())
    };
    for_each_init: {
        let all = Mutex::new(Vec::new());
        words().par_iter().for_each_init(String::new, |buffer, w| {
            buffer.clone_from(w);
            buffer.push('!');
            all.lock().unwrap().push(buffer.clone());
        });
        sorted(all.into_inner().unwrap())
    };
    try_for_each: words().par_iter().try_for_each(|w| w[1..].parse::<u32>().map(drop));
    try_for_each_fails: words().par_iter().try_for_each(|w| if w == "w77" { Err(w.clone()) } else { Ok(()) });
    try_for_each_option: (0..100).into_par_iter().try_for_each(|i: i32| (i < 100).then_some(()));
    try_for_each_flow: (0..100).into_par_iter().try_for_each(|i: i32| match i {
        57 => ControlFlow::Break(i),
        _ => ControlFlow::Continue(()),
    });
    try_for_each_init: (0..100).into_par_iter().try_for_each_init(|| 1, |one, i: i32| if i + *one > 0 { Ok(()) } else { Err(i) });
    try_for_each_with: (0..100).into_par_iter().try_for_each_with(1, |one, i: i32| if i + *one > 0 { Ok(()) } else { Err(i) });
    reduce: numbers().into_par_iter().reduce(|| 0, |a, b| a.max(b));
    reduce_strings: words().into_par_iter().reduce(String::new, |a, b| a + &b);
    reduce_with: numbers().into_par_iter().reduce_with(|a, b| a.min(b));
    reduce_with_nothing: iter::empty::<u64>().reduce_with(|a, b| a.min(b));
    try_reduce: words().par_iter().map(|w| w[1..].parse::<u32>()).try_reduce(|| 0, |a, b| Ok(a + b));
    try_reduce_fails: words().par_iter().map(|w| w[1..].parse::<u8>()).try_reduce(|| 0, |a, b| Ok(a | b)).is_err();
    try_reduce_with: numbers().par_iter().map(|x| Some(*x)).try_reduce_with(|a, b| a.checked_add(b));
    sum: numbers().par_iter().sum::<u64>();
    sum_of_options: numbers().par_iter().map(|x| Some(*x)).sum::<Option<u64>>();
    product: numbers().par_iter().map(|x| x % 3 + 1).take(30).product::<u64>();
    count: words().par_iter().filter(|w| w.len() == 3).count();
    min_max: (words().par_iter().min().cloned(), words().into_par_iter().max());
    min_by: numbers().into_par_iter().enumerate().min_by(|a, b| a.1.cmp(&b.1));
    max_by: numbers().into_par_iter().enumerate().max_by(|a, b| a.1.cmp(&b.1));
    min_by_key: words().into_par_iter().enumerate().min_by_key(|(_, w)| w.len());
    max_by_key: words().into_par_iter().enumerate().max_by_key(|(_, w)| w.len());
    max_by_float: (0..N).into_par_iter().map(|i| (i as f64).sin()).max_by(|a, b| a.total_cmp(b));
    any_all: (numbers().par_iter().any(|x| *x == 500), numbers().par_iter().all(|x| *x < 500));
    find_any: numbers().par_iter().find_any(|x| **x == 500).copied();
    find_any_missing: numbers().par_iter().find_any(|x| **x == 5000);
    find_first: words().par_iter().enumerate().find_first(|(_, w)| w.ends_with("99"));
    find_last: words().par_iter().enumerate().find_last(|(_, w)| w.ends_with("99"));
    find_map_any: words().par_iter().find_map_any(|w| (w == "w77").then_some(7));
    find_map_first: words().par_iter().enumerate().find_map_first(|(i, w)| w.ends_with("98").then_some(i));
    find_map_last: words().par_iter().enumerate().find_map_last(|(i, w)| w.ends_with("98").then_some(i));
    position_any: numbers().par_iter().take(1009).position_any(|x| *x == 500);
    position_first: numbers().par_iter().position_first(|x| *x == 500);
    position_last: numbers().par_iter().position_last(|x| *x == 500);
    partition: numbers().into_par_iter().partition::<Vec<_>, Vec<_>, _>(|x| x % 3 == 0);
    partition_into_sets: {
        let (even, odd): (HashSet<u64>, BTreeSet<u64>) = numbers().into_par_iter().partition(|x| x % 2 == 0);
        (sorted(even.into_iter().collect()), odd)
    };
    partition_map: words().into_par_iter().enumerate().partition_map::<Vec<_>, Vec<_>, _, _, _>(|(i, w)| {
        if i % 3 == 0 { Either::Left(i) } else { Either::Right(w) }
    });
    unzip: numbers().into_par_iter().map(|x| (x, x.to_string())).unzip::<_, _, Vec<_>, Vec<_>>();
    compare: {
        let (a, mut b) = (numbers(), numbers());
        b[N - 1] += 1;
        (a.par_iter().cmp(&b), a.par_iter().partial_cmp(b.par_iter()), a.par_iter().cmp(&a[..5]), b.par_iter().cmp(&a))
    };
    equal: {
        let (a, b) = (numbers(), numbers());
        let short = &b[..N - 1];
        (a.par_iter().eq(&b), a.par_iter().ne(&b), a.par_iter().lt(&b), a.par_iter().le(&b), a.par_iter().gt(short), a.par_iter().ge(short))
    };
    lengths: (numbers().par_iter().len(), numbers().par_iter().opt_len(), numbers().par_iter().filter(|_| true).opt_len());

    // Collections.
    into_vec_deque: numbers().par_iter().copied().collect::<VecDeque<u64>>();
    into_list: numbers().par_iter().copied().collect::<LinkedList<u64>>();
    into_boxed_slice: numbers().par_iter().copied().collect::<Box<[u64]>>();
    into_hash_map: sorted(numbers().into_par_iter().zip(words()).collect::<HashMap<_, _>>().into_iter().collect());
    into_hash_set: sorted(words().into_par_iter().collect::<HashSet<_>>().into_iter().collect());
    into_btree_map: numbers().into_par_iter().zip(words()).collect::<BTreeMap<_, _>>();
    into_btree_set: words().par_iter().map(String::as_str).collect::<BTreeSet<_>>().len();
    into_heap: numbers().into_par_iter().collect::<BinaryHeap<_>>().into_sorted_vec();
    into_string: words().par_iter().map(String::as_str).collect::<String>();
    into_string_of_chars: text().par_chars().filter(|c| c.is_alphabetic()).collect::<String>();
    into_option: (numbers().par_iter().map(|x| Some(*x)).collect::<Option<Vec<_>>>(), words().par_iter().map(|w| (w != "w77").then_some(w)).collect::<Option<Vec<_>>>());
    into_result: words().par_iter().map(|w| w[1..].parse::<u32>()).collect::<Result<Vec<_>, _>>();
    into_result_that_fails: words().par_iter().map(|w| if w == "w77" { Err(w) } else { Ok(1) }).collect::<Result<HashSet<_>, _>>();
    into_unit: words().par_iter().map(|w| drop(w.clone())).collect::<()>();
    into_pair: numbers().par_iter().map(|x| (*x, slow(*x))).collect::<(Vec<_>, BTreeSet<_>)>();
    into_own: numbers().into_par_iter().collect::<Bag>().0;
    collect_into_vec: {
        let mut all = vec![1, 2, 3];
        numbers().par_iter().map(|x| slow(*x)).collect_into_vec(&mut all);
        all
    };
    unzip_into_vecs: {
        let (mut a, mut b) = (vec![0], vec![]);
        numbers().par_iter().map(|x| (*x, slow(*x))).unzip_into_vecs(&mut a, &mut b);
        (a, b)
    };
    extend_vec: {
        let mut v = vec![7];
        v.par_extend(numbers());
        v.par_extend(numbers().par_iter().filter(|x| *x % 2 == 0));
        v
    };
    extend_map: {
        let mut map = HashMap::from([(1, 2)]);
        map.par_extend(numbers().into_par_iter().map(|x| (x, x)));
        sorted(map.into_iter().collect::<Vec<(u64, u64)>>())
    };
    extend_string: {
        let mut s = String::from("a");
        s.par_extend(words());
        s.par_extend("xyz".par_chars());
        s
    };
    extend_own: {
        let mut bag = Bag::default();
        bag.par_extend(numbers());
        let (a, b): (Bag, Vec<u64>) = numbers().into_par_iter().partition(|x| x % 2 == 0);
        (bag.0, a.0, b)
    };

    // Sorts, forks and tasks.
    sort: changed(words(), |w| w.par_sort());
    sort_by: changed(words(), |w| w.par_sort_by(|a, b| b.len().cmp(&a.len())));
    sort_by_key: changed(words(), |w| w.par_sort_by_key(|w| w.len()));
    sort_by_cached_key: changed(words(), |w| w.par_sort_by_cached_key(|w| w.chars().rev().collect::<String>()));
    sort_unstable: changed(numbers(), |v| v.par_sort_unstable());
    sort_unstable_by: changed(numbers(), |v| v.par_sort_unstable_by(|a, b| b.cmp(a)));
    sort_unstable_by_key: changed(numbers(), |v| v.par_sort_unstable_by_key(|x| slow(*x)));
    fork_and_join: (join(|| 1, || "two"), fib(18));
    tasks: {
        let total = AtomicUsize::new(0);
        scope(|s| {
            for w in words() {
                let total = &total;
                s.spawn(move |s| {
                    total.fetch_add(w.len(), Relaxed);
                    s.spawn(move |_| _ = total.fetch_add(1, Relaxed));
                });
            }
        });
        total
    };
    result_of_a_scope: {
        let mut halves = (0, 0);
        let all = numbers();
        let count = scope(|s| {
            s.spawn(|_| halves.0 = all[..N / 2].iter().sum::<u64>());
            s.spawn(|_| halves.1 = all[N / 2..].par_iter().sum::<u64>());
            all.len()
        });
        (halves, count)
    };

    // Typical uses in programs.
    generic: (longest(words().par_iter()), evens(10).collect::<Vec<_>>(), total(numbers()), total(vec![1, 2]));
    histogram: {
        let counts: Vec<AtomicUsize> = (0..10).map(|_| AtomicUsize::new(0)).collect();
        numbers().par_iter().for_each(|x| _ = counts[*x as usize % 10].fetch_add(1, Relaxed));
        counts
    };
    matrix: {
        let (n, a) = (20, numbers());
        let mut c = vec![0u64; n * n];
        c.par_chunks_mut(n).enumerate().for_each(|(i, row)| {
            row.iter_mut().enumerate().for_each(|(j, c)| *c = (0..n).map(|k| a[i * n + k] * a[k * n + j]).sum());
        });
        c
    };
    word_count: sorted(text().par_lines().flat_map_iter(str::split_whitespace).map(str::to_owned).collect::<Vec<_>>()).len();
    nested: (0..20u64).into_par_iter().map(|i| (0..i * 10).into_par_iter().map(slow).max()).collect::<Vec<_>>();
    primes: (2..2000u32).into_par_iter().filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)).count();
    sum_of_squares: (0..N as i64).into_par_iter().map(|x| x - 50).map(|x| x * x).sum::<i64>();
    grid: (0..20).into_par_iter().flat_map(|x| (0..20).into_par_iter().map(move |y| (x, y))).filter(|(x, y)| x < y).collect::<Vec<(i32, i32)>>();
}
