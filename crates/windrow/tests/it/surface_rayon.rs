//! Calls of programs that use rayon, apart from the common adaptors: as the standard library, on every pool.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::*;
use windrow::iter::{repeatn, split, walk_tree, walk_tree_prefix};
use windrow::prelude::*;
use windrow_testkit::{on_all, pools, same, spin};

const MOST: usize = if cfg!(miri) { 12 } else { 600 };

/// The result of a change of all runs, and the lengths of the runs. Runs are changed by their length, so a wrong run shows.
fn changed(run: &mut [u32]) -> usize {
    let len = run.len();
    run.iter_mut().for_each(|x| *x += len as u32);
    run.reverse();
    len
}

fn separated<T: PartialEq + Clone>(v: &[T], separator: T) -> Vec<T> {
    v.iter().flat_map(|x| [separator.clone(), x.clone()]).skip(1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { windrow_testkit::cases(20) }))]

    #[test]
    fn adaptors_keep_their_indices(v in vec(0u32..1000, 0..MOST), k in 0usize..300, cost in 0u64..3) {
        let slow = |x: &u32| {
            spin(cost);
            *x
        };
        let shortest: Vec<u32> = v.iter().zip(&v[..k.min(v.len())]).flat_map(|(a, b)| [*a, *b]).chain(v.get(k).copied()).collect();
        same! {
            separated(&v, 7).into_iter().enumerate().collect::<Vec<_>>() => v.par_iter().map(slow).intersperse(7).enumerate().collect::<Vec<_>>();
            separated(&v, 7).into_iter().rev().skip(k).collect::<Vec<_>>() => v.par_iter().map(slow).intersperse(7).rev().skip(k).collect::<Vec<_>>();
            separated(&v, 7).len() => v.par_iter().intersperse(&7).len();
            shortest.iter().copied().rev().collect::<Vec<_>>()
                => v.par_iter().map(slow).interleave_shortest(v[..k.min(v.len())].to_vec()).rev().collect::<Vec<_>>();
            v.clone() => v.par_iter().map(slow).collect_vec_list().into_iter().flatten().collect::<Vec<_>>();
            v.iter().filter(|x| **x % 2 == 0).copied().collect::<Vec<_>>()
                => v.par_iter().map(slow).filter(|x| x % 2 == 0).collect_vec_list().into_iter().flatten().collect::<Vec<_>>();
            vec![3; k] => repeatn(3, k).inspect(|x| _ = slow(x)).collect::<Vec<_>>();
        }
    }

    #[test]
    fn tuples_of_iterators(v in vec(0u8..255, 0..MOST), k in 0usize..300) {
        let w = || v.par_iter().skip(k);
        let s = || v.iter().skip(k);
        same! {
            s().zip(&v).map(|(a, b)| (a, b, a, b)).collect::<Vec<_>>() => (w(), &v, w(), &v).into_par_iter().collect::<Vec<_>>();
            s().zip(&v).map(|(a, b)| (b, b, a, b, b)).collect::<Vec<_>>() => (&v, &v, w(), &v, &v).into_par_iter().collect::<Vec<_>>();
            s().zip(0..).map(|(a, i)| (a, a, a, a, a, i)).collect::<Vec<_>>()
                => (w(), w(), w(), w(), w(), 0..1000).into_par_iter().collect::<Vec<_>>();
            s().zip(0..1000).map(|(a, i)| (i, a, a, a, a, a, i)).rev().collect::<Vec<_>>()
                => (0..1000, w(), w(), w(), w(), w(), 0..1000).into_par_iter().rev().collect::<Vec<_>>();
            s().zip(&v).map(|(a, b)| (a, b, a, b, a, b, a, b)).collect::<Vec<_>>()
                => (w(), &v, w(), &v, w(), &v, w(), &v).into_par_iter().collect::<Vec<_>>();
            s().map(|a| (a,)).rev().collect::<Vec<_>>() => (w(),).into_par_iter().rev().collect::<Vec<_>>();
            s().zip(&v).map(|(a, b)| (a, b, a, b, a, b, a, b, a, b, a, b)).collect::<Vec<_>>()
                => (w(), &v, w(), &v, w(), &v, w(), &v, w(), &v, w(), &v).into_par_iter().collect::<Vec<_>>();
        }
    }

    #[test]
    fn runs_of_slices(v in vec(0u32..12, 0..MOST), size in 1usize..40, cost in 0u64..2) {
        let zero = |x: &u32| {
            spin(cost);
            *x == 0
        };
        let near = |a: &u32, b: &u32| a.abs_diff(*b) < 4;
        same! {
            v.split_inclusive(|x| *x == 0).collect::<Vec<_>>() => v.par_split_inclusive(zero).collect::<Vec<_>>();
            v.rchunks_exact(size).collect::<Vec<_>>() => v.par_rchunks_exact(size).collect::<Vec<_>>();
            v.chunks_exact(size).remainder() => v.par_chunks_exact(size).remainder();
            v.rchunks_exact(size).remainder() => v.par_rchunks_exact(size).remainder();
            v.windows(3).rev().collect::<Vec<_>>() => v.par_array_windows::<3>().map(|window| &window[..]).rev().collect::<Vec<_>>();
            v.windows(size).len() => v.par_iter().by_exponential_blocks().by_uniform_blocks(size).len().saturating_sub(size - 1);
        }
        macro_rules! same_changes {
            ($($serial:ident($($argument:expr),*) => $parallel:ident($($same:expr),*);)*) => {$(
                let mut serial = v.clone();
                let lengths: Vec<usize> = serial.$serial($($argument),*).map(changed).collect();
                let parallel = on_all(|| {
                    let mut parallel = v.clone();
                    let lengths: Vec<usize> = parallel.$parallel($($same),*).map(changed).collect();
                    (lengths, parallel)
                });
                assert_eq!(parallel, (lengths, serial), "{}", stringify!($parallel));
            )*};
        }
        same_changes! {
            split_mut(|x| *x == 0) => par_split_mut(zero);
            split_inclusive_mut(|x| *x == 0) => par_split_inclusive_mut(zero);
            chunk_by_mut(near) => par_chunk_by_mut(near);
            rchunks_exact_mut(size) => par_rchunks_exact_mut(size);
        }
        let asked = AtomicUsize::new(0);
        let counts = |answer: bool| (asked.fetch_add(1, Relaxed), answer).1;
        let (mut parallel, items) = (v.clone(), v.len());
        let runs = v.par_chunk_by(|a, b| counts(near(a, b))).count() + parallel.par_chunk_by_mut(|a, b| counts(near(a, b))).count();
        prop_assert_eq!((runs, asked.swap(0, Relaxed)), (2 * v.chunk_by(near).count(), 2 * items.saturating_sub(1)));
        let runs = parallel.par_split_mut(|x| counts(*x == 0)).count();
        prop_assert_eq!((runs, asked.swap(0, Relaxed)), (v.split(|x| *x == 0).count(), items));
        let runs = parallel.par_split_inclusive_mut(|x| counts(*x == 0)).count();
        prop_assert_eq!((runs, asked.swap(0, Relaxed)), (v.split_inclusive(|x| *x == 0).count(), items));
        let (mut serial, mut parallel) = (v.clone(), v.clone());
        let mut runs = parallel.par_chunks_exact_mut(size);
        prop_assert_eq!(runs.remainder(), serial.chunks_exact_mut(size).into_remainder());
        prop_assert_eq!(parallel.par_rchunks_exact_mut(size).into_remainder(), serial.rchunks_exact_mut(size).into_remainder());
        let mut runs = parallel.par_rchunks_exact_mut(size);
        runs.take_remainder().fill(0);
        prop_assert!(runs.take_remainder().is_empty());
        runs.for_each(|run| run.fill(1));
        prop_assert!(parallel.iter().enumerate().all(|(at, x)| *x == u32::from(at >= v.len() % size)));
    }

    #[test]
    fn parts_of_strings(text in "[ab ,é\u{1F600}]{0,200}", from in 0usize..100) {
        same! {
            text.split_inclusive(',').collect::<Vec<_>>() => text.par_split_inclusive(',').collect::<Vec<_>>();
            text.split_inclusive([',', 'é']).rev().collect::<Vec<_>>()
                => text.par_split_inclusive(&[',', 'é']).collect::<Vec<_>>().into_par_iter().rev().collect::<Vec<_>>();
            text.split(&[',', 'a']).collect::<Vec<_>>() => text.par_split(&[',', 'a']).collect::<Vec<_>>();
            text.matches(char::is_alphabetic).collect::<Vec<_>>() => text.par_matches(char::is_alphabetic).collect::<Vec<_>>();
            text.match_indices('é').collect::<Vec<_>>() => text.par_match_indices('é').collect::<Vec<_>>();
            text.encode_utf16().collect::<Vec<_>>() => text.par_encode_utf16().collect::<Vec<_>>();
            text.clone().into_boxed_str() => text.par_chars().collect::<Box<str>>();
            Cow::<str>::Owned(text.clone()) => text.par_split_inclusive('a').collect::<Cow<'_, str>>();
            OsString::from(&text) => text.par_split_inclusive('a').map(OsStr::new).collect::<OsString>();
            Cow::<OsStr>::Owned(OsString::from(&text)) => text.par_split_inclusive('a').map(OsString::from).collect::<Cow<'_, OsStr>>();
            Cow::<[char]>::Owned(text.chars().collect()) => text.par_chars().collect::<Cow<'_, [char]>>();
        }
        let from = text.char_indices().map(|(at, _)| at).nth(from).unwrap_or(text.len());
        let (mut serial, mut parallel) = (text.clone(), text.clone());
        let drained: String = serial.drain(from..).collect();
        prop_assert_eq!(parallel.par_drain(from..).collect::<String>(), drained);
        prop_assert_eq!(parallel, serial);
    }
}

/// Types of iterators can be written: in a struct, as an associated type.
struct Fields<'a> {
    squares: windrow::iter::Map<windrow::range::Iter<u32>, fn(u32) -> u32>,
    pairs: windrow::iter::Zip<windrow::slice::Iter<'a, u8>, windrow::iter::Rev<windrow::vec::IntoIter<u8>>>,
    chunks: windrow::iter::Enumerate<windrow::slice::ChunksMut<'a, u8>>,
    entries: windrow::collections::hash_map::Iter<'a, u8, u8>,
    words: windrow::iter::StepBy<windrow::iter::Skip<windrow::iter::RepeatN<&'a str>>>,
    lines: windrow::iter::Filter<windrow::str::Lines<'a>, fn(&&str) -> bool>,
    runs: windrow::slice::SplitMut<'a, u8, fn(&u8) -> bool>,
}

struct Squares(u32);

impl IntoParallelIterator for Squares {
    type Item = u32;
    type Iter = windrow::iter::Map<windrow::range::Iter<u32>, fn(u32) -> u32>;
    fn into_par_iter(self) -> Self::Iter {
        (0..self.0).into_par_iter().map(|x| x * x)
    }
}

#[test]
fn types_have_names() {
    let (bytes, mut more, mut three, map) = ([1, 2, 3], [4; 5], [5, 0, 6], std::collections::HashMap::from([(1, 2)]));
    let fields = Fields {
        squares: Squares(5).into_par_iter(),
        pairs: bytes.par_iter().zip(vec![7, 8, 9].into_par_iter().rev()),
        chunks: more.par_chunks_mut(2).enumerate(),
        entries: map.par_iter(),
        words: repeatn("x", 10).skip(1).step_by(4),
        lines: "a\n\nb".par_lines().filter(|line| !line.is_empty()),
        runs: three.par_split_mut(|byte| *byte == 0),
    };
    assert_eq!(fields.squares.sum::<u32>(), 30);
    assert_eq!(fields.pairs.collect::<Vec<_>>(), [(&1, 9), (&2, 8), (&3, 7)]);
    assert_eq!(fields.chunks.map(|(at, run)| at * run.len()).sum::<usize>(), 4);
    assert_eq!(fields.entries.collect::<Vec<_>>(), [(&1, &2)]);
    assert_eq!(fields.words.collect::<Vec<_>>(), ["x"; 3]);
    assert_eq!(fields.lines.collect::<String>(), "ab");
    assert_eq!(fields.runs.collect::<Vec<_>>(), [[5], [6]]);
}

#[test]
fn a_tree_has_an_order_that_every_pool_gives() {
    let children = |&(n, depth): &(u32, u32)| (0..if depth == 0 { 0 } else { 2 }).map(move |i| (2 * n + i, depth - 1));
    let nodes = on_all(|| walk_tree((1, 7), children).map(|(n, _)| n).collect::<Vec<_>>());
    assert_eq!(nodes.len(), 255);
    assert_eq!(on_all(|| walk_tree_prefix((1, 7), children).map(|(n, _)| u64::from(n)).sum::<u64>()), (1..256).sum());
}

/// The panic of the `at`-th call of a closure reaches the caller, and the pool stays usable.
#[test]
fn panics_of_closures_reach_the_caller() {
    type Call = fn(&(dyn Fn() + Sync));
    let calls: [(&str, Call); 8] = [
        ("split_mut", |step| {
            let mut v = [1, 0, 2, 3, 0, 4];
            v.par_split_mut(|x| (step(), *x == 0).1).for_each(|run| run.reverse());
        }),
        ("chunk_by_mut", |step| {
            let mut v = [1, 0, 2, 3, 0, 4];
            v.par_chunk_by_mut(|a, b| (step(), a < b).1).for_each(|run| run.reverse());
        }),
        ("split_inclusive", |step| _ = [1, 0, 2, 0].par_split_inclusive(|x| (step(), *x == 0).1).count()),
        ("positions", |step| _ = (0..30).into_par_iter().positions(|x| (step(), x % 2 == 0).1).collect::<Vec<_>>()),
        ("matches", |step| _ = "a b c".par_matches(|c: char| (step(), c == ' ').1).count()),
        ("split", |step| {
            _ = split(9, |n: u32| (step(), if n > 1 { (n / 2, Some(n - n / 2)) } else { (n, None) }).1).sum::<u32>();
        }),
        ("walk_tree", |step| {
            _ = walk_tree(3, |&n: &u32| (step(), (0..n).collect::<Vec<_>>()).1).count();
        }),
        ("multi_zip", |step| (0..9, 0..9, 0..9, 0..9).into_par_iter().for_each(|_| step())),
    ];
    for (name, call) in calls {
        for pool in pools() {
            for at in 0.. {
                let steps = AtomicUsize::new(0);
                let step = || assert!(steps.fetch_add(1, Relaxed) != at, "step {at}");
                let ended = catch_unwind(AssertUnwindSafe(|| pool.install(|| call(&step))));
                let Err(payload) = ended else {
                    assert!(at > 0 && steps.into_inner() <= at, "{name}: the panic at {at} was lost");
                    break;
                };
                assert_eq!(*payload.downcast::<String>().expect("a message"), format!("step {at}"), "{name}");
            }
            assert_eq!(pool.install(|| (0..100u32).into_par_iter().sum::<u32>()), 4950);
        }
    }
}
