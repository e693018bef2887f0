//! Sources, collections, strings and scans: what the standard library gives, on every pool.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use proptest::collection::vec;
use proptest::prelude::*;
use windrow::Pool;
use windrow::iter::Either;
use windrow::prelude::*;
use windrow_testkit::{on_all, pools, same, spin};

const MOST: usize = if cfg!(miri) { 12 } else { 300 };

fn sorted<T: Ord>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut items: Vec<T> = items.into_iter().collect();
    items.sort();
    items
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { windrow_testkit::cases(20) }))]

    #[test]
    fn collections(v in vec((0u16..300, 0u32..1000), 0..MOST), turn in 0..MOST, cost in 0u64..2) {
        let slow = |x: u32| {
            spin(cost);
            x
        };
        let tree: BTreeMap<u16, u32> = v.iter().copied().collect();
        let hash: HashMap<u16, u32> = v.iter().copied().collect();
        let set: HashSet<u16> = hash.keys().copied().collect();
        let mut deque: VecDeque<u32> = v.iter().map(|x| x.1).collect();
        deque.rotate_left(turn.min(deque.len()));
        deque.iter().take(turn % 5).copied().collect::<Vec<_>>().into_iter().for_each(|x| deque.push_front(x));
        let list: LinkedList<u32> = deque.iter().copied().collect();
        let heap: BinaryHeap<u32> = deque.iter().copied().collect();
        let boxed: Box<[u32]> = deque.iter().copied().collect();
        let plus = |mut map: BTreeMap<u16, u32>| {
            map.par_iter_mut().for_each(|(k, v)| *v = slow(*v) + u32::from(*k));
            map
        };
        same! {
            tree.iter().map(|(k, v)| (*k, *v)).collect::<Vec<_>>() => tree.par_iter().map(|(k, v)| (*k, slow(*v))).collect::<Vec<_>>();
            tree.iter().map(|(k, v)| (*k, v + u32::from(*k))).collect::<BTreeMap<_, _>>() => plus(tree.clone());
            tree.clone() => hash.clone().into_par_iter().collect::<BTreeMap<_, _>>();
            hash.clone() => tree.clone().into_par_iter().collect::<HashMap<_, _>>();
            v.iter().copied().collect::<HashMap<_, _>>() => v.par_iter().copied().collect::<HashMap<_, _>>();
            sorted(&set) => sorted(set.par_iter().collect::<Vec<_>>());
            set.iter().copied().collect::<BTreeSet<_>>() => set.clone().into_par_iter().collect::<BTreeSet<_>>();
            deque.iter().copied().collect::<Vec<_>>() => deque.par_iter().map(|x| slow(*x)).collect::<Vec<_>>();
            deque.iter().map(|x| x + 1).collect::<VecDeque<_>>() => {
                let mut deque = deque.clone();
                deque.par_iter_mut().for_each(|x| *x = slow(*x) + 1);
                deque
            };
            deque.iter().enumerate().collect::<Vec<_>>() => deque.par_iter().enumerate().collect::<Vec<_>>();
            deque.clone() => deque.clone().into_par_iter().collect::<VecDeque<_>>();
            list.clone() => list.par_iter().copied().collect::<LinkedList<_>>();
            list.iter().map(|x| x / 2).collect::<Vec<_>>() => list.par_iter().map(|x| slow(*x) / 2).with_claim_size(3).collect::<Vec<_>>();
            list.iter().enumerate().rev().collect::<Vec<_>>() => list.par_iter().enumerate().rev().collect::<Vec<_>>();
            tree.iter().zip(&list).skip(turn / 4).step_by(3).collect::<Vec<_>>()
                => tree.par_iter().zip(&list).skip(turn / 4).step_by(3).with_claim_size(2).collect::<Vec<_>>();
            tree.iter().chain(&tree).filter(|(k, _)| **k > 99).map(|(_, v)| v).sum::<u32>()
                => tree.par_iter().chain(&tree).filter(|(k, _)| **k > 99).map(|(_, v)| v).sum::<u32>();
            hash.iter().find(|(_, v)| **v % 3 == 0) => hash.par_iter().find_first(|(_, v)| slow(**v) % 3 == 0);
            boxed.clone() => boxed.clone().into_par_iter().collect::<Box<[u32]>>();
            heap.iter().sum::<u32>() => heap.par_iter().sum::<u32>();
            heap.clone().into_sorted_vec() => heap.clone().into_par_iter().collect::<BinaryHeap<_>>().into_sorted_vec();
            (v.first().copied(), usize::from(!v.is_empty())) => {
                let first = v.first().copied();
                let result = first.ok_or(());
                assert_eq!(result.as_ref().into_par_iter().count(), result.par_iter().count());
                (first.into_par_iter().reduce_with(|a, _| a), first.par_iter().count())
            };
        }
    }

    #[test]
    fn taking_out_and_putting_in(v in vec(0u32..1000, 0..MOST), a in 0..MOST, b in 0..MOST) {
        let (from, to) = (a.min(b).min(v.len()), a.max(b).min(v.len()));
        let mut rest = v.clone();
        let taken: Vec<u32> = rest.drain(from..to).collect();
        same! {
            (taken.clone(), rest.clone()) => {
                let mut v = v.clone();
                (v.par_drain(from..to).collect::<Vec<_>>(), v)
            };
            rest.clone() => {
                let mut v = v.clone();
                drop(v.par_drain(from..to));
                v
            };
            (sorted(v.iter().copied().collect::<BTreeSet<_>>()), 0) => {
                let mut set: HashSet<u32> = v.iter().copied().collect();
                (sorted(set.par_drain().collect::<Vec<_>>()), set.len())
            };
            [&taken[..], &v, &rest].concat() => {
                let mut all = taken.clone();
                all.par_extend(v.clone());
                all.par_extend(&rest);
                all
            };
            v.iter().chain(&rest).map(|x| (x % 50, *x)).collect::<HashMap<_, _>>() => {
                let mut map: HashMap<u32, u32> = v.iter().map(|x| (x % 50, *x)).collect();
                map.par_extend(rest.par_iter().map(|x| (x % 50, *x)));
                map
            };
        }
    }

    #[test]
    fn runs_of_slices(v in vec(0u8..6, 0..MOST), size in 1usize..20, cut in 0u8..6) {
        let mut by_hand = v.clone();
        by_hand.rchunks_mut(size).enumerate().for_each(|(i, run)| run.fill(i as u8));
        same! {
            v.windows(size).collect::<Vec<_>>() => v.par_windows(size).collect::<Vec<_>>();
            v.windows(size).enumerate().map(|(i, w)| i + w.len()).rev().collect::<Vec<_>>()
                => v.par_windows(size).enumerate().map(|(i, w)| i + w.len()).rev().collect::<Vec<_>>();
            v.chunks_exact(size).collect::<Vec<_>>() => v.par_chunks_exact(size).collect::<Vec<_>>();
            v.rchunks(size).collect::<Vec<_>>() => v.par_rchunks(size).collect::<Vec<_>>();
            v.split(|x| *x == cut).collect::<Vec<_>>() => v.par_split(|x| *x == cut).collect::<Vec<_>>();
            v.split(|x| *x == cut).collect::<Vec<_>>() => v.par_split(|x| *x == cut).with_claim_size(size).collect::<Vec<_>>();
            v.chunk_by(|a, b| a <= b).collect::<Vec<_>>() => v.par_chunk_by(|a, b| a <= b).collect::<Vec<_>>();
            v.chunk_by(|a, b| a <= b).collect::<Vec<_>>() => v.par_chunk_by(|a, b| a <= b).with_claim_size(size).collect::<Vec<_>>();
            by_hand.clone() => {
                let mut w = v.clone();
                w.par_rchunks_mut(size).enumerate().for_each(|(i, run)| run.fill(i as u8));
                w
            };
            v.chunks_exact(size).flat_map(|run| run.iter().rev()).copied().chain(v.chunks_exact(size).remainder().to_vec()).collect::<Vec<_>>() => {
                let mut w = v.clone();
                w.par_chunks_exact_mut(size).for_each(<[u8]>::reverse);
                w
            };
        }
    }

    /// Pieces of any size: where they are cut must not show.
    #[test]
    fn strings(words in vec("[ab\u{e4}\u{1f33e} \t\r\n,;\u{2003}]{0,7}", 0..60), size in 1usize..9) {
        let text = words.concat();
        let text = text.as_str();
        let several = [',', '\u{1f33e}'];
        let odd = |c: char| c.is_whitespace() || c == '\u{e4}';
        same! {
            text.lines().collect::<Vec<_>>() => text.par_lines().with_claim_size(size).collect::<Vec<_>>();
            text.lines().collect::<Vec<_>>() => text.par_lines().collect::<Vec<_>>();
            text.chars().collect::<Vec<_>>() => text.par_chars().with_claim_size(size).collect::<Vec<_>>();
            text.char_indices().collect::<Vec<_>>() => text.par_char_indices().with_claim_size(size).collect::<Vec<_>>();
            text.bytes().rev().collect::<Vec<_>>() => text.par_bytes().rev().collect::<Vec<_>>();
            text.split_whitespace().collect::<Vec<_>>() => text.par_split_whitespace().with_claim_size(size).collect::<Vec<_>>();
            text.split_ascii_whitespace().collect::<Vec<_>>() => text.par_split_ascii_whitespace().with_claim_size(size).collect::<Vec<_>>();
            text.split(',').collect::<Vec<_>>() => text.par_split(',').with_claim_size(size).collect::<Vec<_>>();
            text.split('\u{1f33e}').collect::<Vec<_>>() => text.par_split('\u{1f33e}').with_claim_size(size).collect::<Vec<_>>();
            text.split(several).collect::<Vec<_>>() => text.par_split(several).with_claim_size(size).collect::<Vec<_>>();
            text.split(&several[..]).collect::<Vec<_>>() => text.par_split(&several[..]).with_claim_size(size).collect::<Vec<_>>();
            text.split(odd).collect::<Vec<_>>() => text.par_split(odd).with_claim_size(size).collect::<Vec<_>>();
            text.split_terminator(',').collect::<Vec<_>>() => text.par_split_terminator(',').with_claim_size(size).collect::<Vec<_>>();
            text.split_terminator(odd).collect::<Vec<_>>() => text.par_split_terminator(odd).with_claim_size(size).collect::<Vec<_>>();
            text.chars().filter(|c| c.is_alphabetic()).collect::<String>() => text.par_chars().filter(|c| c.is_alphabetic()).collect::<String>();
            words.concat() + text => {
                let mut all: String = words.par_iter().map(String::as_str).collect();
                all.par_extend(text.par_chars());
                all
            };
        }
    }

    #[test]
    fn inclusive_ranges(from in any::<i8>(), to in any::<i8>(), skip in 0usize..300, by in 1usize..9) {
        same! {
            (from..=to).collect::<Vec<_>>() => (from..=to).into_par_iter().collect::<Vec<_>>();
            (from..=to).rev().skip(skip).step_by(by).collect::<Vec<_>>() => (from..=to).into_par_iter().rev().skip(skip).step_by(by).collect::<Vec<_>>();
            (from as u8..=to as u8).len() => (from as u8..=to as u8).into_par_iter().len();
        }
    }

    /// Scans of what does not commute are in order; of floats, the same bits everywhere.
    #[test]
    fn scans(v in vec("[a-z]{0,2}", 0..MOST), x in vec(-1e9f64..1e9, 0..3 * MOST), cost in 0u64..3) {
        let add = |a: &String, b: &String| {
            spin(cost);
            format!("{a}{b}")
        };
        let mut sum = String::from("<");
        let mut starts = Vec::new();
        let ends: Vec<String> = v.iter().map(|word| {
            starts.push(sum.clone());
            sum += word;
            sum.clone()
        }).collect();
        same! {
            ends.clone() => v.par_iter().cloned().inclusive_scan(add, "<".into());
            starts.clone() => v.clone().into_par_iter().exclusive_scan(add, "<".into());
            ends.clone() => {
                let mut v = v.clone();
                v.par_inclusive_scan(add, "<".into());
                v
            };
            starts.clone() => {
                let mut v = v.clone();
                v.par_exclusive_scan(add, "<".into());
                v
            };
        }
        let bits = |x: Vec<f64>| x.into_iter().map(f64::to_bits).collect::<Vec<_>>();
        let ends = on_all(|| bits(x.par_iter().copied().inclusive_scan(|a, b| a + b, 0.0)));
        let starts = on_all(|| bits(x.par_iter().copied().exclusive_scan(|a, b| a + b, 0.0)));
        let serial = x.iter().scan(0.0, |sum, x| {
            *sum += x;
            Some(*sum)
        });
        for (serial, end) in serial.zip(&ends) {
            assert!((serial - f64::from_bits(*end)).abs() <= 1e-3, "{serial}");
        }
        assert!(starts.iter().skip(1).zip(&ends).all(|(start, end)| start == end));
    }
}

#[test]
fn long_scans() {
    for n in if cfg!(miri) { [0, 1, 200] } else { [16_384, 100_000, 3_000_000] } {
        let v: Vec<u64> = (0..n).map(|i| i * 31 % 17).collect();
        let mut sum = 7;
        let serial: Vec<u64> = v
            .iter()
            .map(|x| {
                sum += x;
                sum - x
            })
            .collect();
        assert_eq!(on_all(|| v.par_iter().copied().exclusive_scan(|a, b| a + b, 7)), serial);
    }
}

#[test]
fn ranges_up_to_the_last_integer() {
    assert_eq!(on_all(|| (u64::MAX - 2..=u64::MAX).into_par_iter().collect::<Vec<_>>()).len(), 3);
    assert_eq!(on_all(|| (i64::MIN..=i64::MIN + 1).into_par_iter().max()), Some(i64::MIN + 1));
    assert_eq!(on_all(|| (0..=usize::MAX - 1).into_par_iter().find_first(|i| *i == 77)), Some(77));
    assert_eq!(on_all(|| (0u8..=255).into_par_iter().map(u32::from).sum::<u32>()), 255 * 128);
    let mut used = 0..=3;
    used.by_ref().for_each(drop);
    assert_eq!(used.into_par_iter().count(), 0);
}

#[test]
fn ranges_of_chars_leave_out_the_gap() {
    let around = '\u{d7f0}'..'\u{e010}';
    same! {
        around.clone().collect::<Vec<_>>() => around.clone().into_par_iter().collect::<Vec<_>>();
        around.clone().rev().step_by(3).collect::<Vec<_>>() => around.clone().into_par_iter().rev().step_by(3).collect::<Vec<_>>();
        (around.start..=around.end).enumerate().collect::<Vec<_>>() => (around.start..=around.end).into_par_iter().enumerate().collect::<Vec<_>>();
        Some(char::MAX) => ('\0'..=char::MAX).into_par_iter().find_first(|c| *c == char::MAX);
        0 => ('b'..'a').into_par_iter().len() + ('b'..='a').into_par_iter().len();
    }
}

#[test]
#[expect(clippy::reversed_empty_ranges, reason = "ranges without items, too")]
fn ranges_of_128_bits_may_be_longer_than_any_index() {
    const LONG: u128 = 10u128.pow(22);
    let most = usize::MAX as u128;
    let short = i128::MAX - 1000..i128::MAX;
    assert_eq!(short.clone().into_par_iter().opt_len(), Some(1000));
    assert_eq!((short.start..=short.end).into_par_iter().opt_len(), Some(1001));
    assert_eq!(short.clone().into_par_iter().map(|n| n + 1).opt_len(), Some(1000));
    assert_eq!((0..LONG).into_par_iter().map(|n| n + 1).opt_len(), None);
    assert_eq!((0..=LONG).into_par_iter().chain(0..9).opt_len(), None);
    same! {
        short.clone().collect::<Vec<_>>() => short.clone().into_par_iter().collect::<Vec<_>>();
        (short.start..=short.end).collect::<Vec<_>>() => (short.start..=short.end).into_par_iter().collect::<Vec<_>>();
        Some(5000) => (0..LONG).into_par_iter().find_first(|n| *n == 5000);
        Some(LONG) => (0..=LONG).into_par_iter().find_last(|_| true);
        Some(most + 1) => (0..most + 2).into_par_iter().find_last(|n| *n > most);
        Some(-3) => (-3..=i128::MAX).into_par_iter().find_first(|_| true);
        vec![7] => (7..=7u128).into_par_iter().collect::<Vec<_>>();
        0 => (7..3u128).into_par_iter().count() + (7..=3i128).into_par_iter().count();
    }
}

#[test]
#[should_panic(expected = "at most usize::MAX items")]
fn a_range_of_all_integers_is_too_long() {
    (0..=u64::MAX).into_par_iter().for_each(drop);
}

#[test]
fn bridges_give_every_item_once() {
    /// An iterator that is wrong about its length.
    struct Wrong(std::ops::Range<u64>, Option<usize>);
    impl Iterator for Wrong {
        type Item = u64;
        fn next(&mut self) -> Option<u64> {
            self.0.next()
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (0, self.1)
        }
    }
    let n = if cfg!(miri) { 30 } else { 3000 };
    for cost in [0, 2] {
        for hint in [None, Some(0), Some(1), Some(50), Some(n as usize), Some(usize::MAX)] {
            let bridge = || Wrong(0..n, hint).par_bridge().inspect(|_| spin(cost));
            assert_eq!(on_all(|| sorted(bridge().collect::<Vec<_>>())), (0..n).collect::<Vec<_>>(), "{hint:?}");
            assert_eq!(on_all(|| bridge().sum::<u64>()), n * (n - 1) / 2);
            assert_eq!(on_all(|| bridge().map(|x| x / 2).max()), Some((n - 1) / 2));
            assert_eq!(on_all(|| bridge().fold(|| 0, |a, x| a + x).reduce(|| 0, |a, b| a + b)), n * (n - 1) / 2);
            let seen = AtomicUsize::new(0);
            bridge().for_each(|_| _ = seen.fetch_add(1, Relaxed));
            assert_eq!(seen.into_inner() as u64, n);
        }
    }
    assert_eq!(on_all(|| (0u64..).par_bridge().find_any(|x| *x == n)), Some(n));
    assert_eq!(on_all(|| (0u64..).par_bridge().take_any(100).count()), 100);
    assert!(on_all(|| (0u64..).par_bridge().map(|x| (x < n).then_some(x)).while_some().all(|x| x < n)));
}

/// Items come one at a time from behind a lock that is not held while an item is visited: two can meet.
#[test]
#[cfg_attr(miri, ignore = "busy waiting")]
fn members_of_a_bridge_work_at_once() {
    let pool = &pools()[1];
    let at_work = AtomicUsize::new(0);
    let together = AtomicUsize::new(0);
    // On a busy machine the second thread may get no CPU for the whole of one call.
    let met = (0..50).any(|_| {
        pool.install(|| {
            (0..2000).par_bridge().for_each(|_| {
                together.fetch_add(at_work.fetch_add(1, Relaxed), Relaxed);
                spin(20);
                at_work.fetch_sub(1, Relaxed);
            })
        });
        together.load(Relaxed) > 0
    });
    assert!(met, "50 calls of 40 ms of work stayed on one thread each");
}

/// A slice of `usize::MAX` items has as many windows of one, and one run more than it has separators.
#[test]
fn slices_as_long_as_can_be() {
    static UNITS: [(); usize::MAX] = [(); usize::MAX];
    for pool in pools() {
        pool.install(|| {
            assert_eq!(UNITS.par_windows(1).len(), usize::MAX);
            assert_eq!(UNITS.par_windows(1).position_any(|w| w.len() == 1), Some(0));
            assert_eq!(UNITS.par_windows(usize::MAX).map(<[()]>::len).collect::<Vec<_>>(), [usize::MAX]);
            assert_eq!(UNITS[1..].par_windows(usize::MAX).len(), 0);
            assert_eq!(
                UNITS.par_windows(usize::MAX - 1).rev().map(<[()]>::len).collect::<Vec<_>>(),
                [usize::MAX - 1; 2]
            );
            assert!(UNITS.par_split(|()| true).any(<[()]>::is_empty));
            assert!(UNITS.par_chunk_by(|(), ()| false).any(|run| run.len() == 1));
        });
    }
    assert_eq!([1, 2].par_windows(4).len(), 0);
    assert_eq!([0u8; 0].par_windows(1).len(), 0);
}

/// Names that rayon's users import.
mod by_name {
    use windrow::ParallelSliceMut;

    #[test]
    fn sorts_come_with_the_trait_of_slices() {
        let mut numbers = [3, 1, 2];
        numbers.par_sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(numbers, [3, 2, 1]);
        numbers.par_sort_by_cached_key(|number| number % 3);
        assert_eq!(numbers, [3, 1, 2]);
    }
}

#[test]
fn iterators_over_what_is_shared_can_be_cloned() {
    fn both<P: ParallelIterator<Item = u64> + Clone>(iter: P) -> (u64, usize) {
        (iter.clone().sum(), iter.filter(|item| item % 2 == 0).count())
    }
    let numbers: Vec<u64> = (0..1000).collect();
    let iter = numbers.par_iter().copied().chain(0..10).skip(5).map(|item| item + 1);
    assert_eq!(both(iter), ((6..=1000).sum::<u64>() + (1..=10).sum::<u64>(), 498 + 5));
    assert_eq!(both(numbers.par_chunks(7).map(|run| run[0])).1, 72);
    assert_eq!(both((0..9u64).into_par_iter().map_with(1, |more, item| item + *more)).0, 45);
    let weighed = numbers.par_iter().weigh(|_| 3).with_claim_size(10);
    assert_eq!(weighed.clone().count() + weighed.count(), 2000);
    let exact = numbers.par_chunks_exact(3).weigh(|run| run.len()).map(|run| run[0]);
    assert_eq!(both(exact).1, 167);
    assert_eq!(both((0..10u64).into_par_iter().weigh(|item| *item as usize)).0, 45);
}

#[test]
fn iterators_that_own_their_items_can_be_cloned() {
    fn both<P: ParallelIterator + Clone>(iter: P) -> (Vec<P::Item>, Vec<P::Item>) {
        (iter.clone().collect(), iter.collect())
    }
    let texts: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let (copy, own) = on_all(|| both(texts.clone().into_par_iter().map(|text| text + "!")));
    assert_eq!(copy, own);
    let set: BTreeSet<_> = texts.iter().collect();
    let (copy, own) = both(set.par_iter());
    assert!(copy == own && copy.into_iter().eq(&set));
    let some = texts.par_iter().map(|text| Some(text).filter(|text| text.len() < 3));
    assert_eq!(both(some.while_some()).0.len(), 100);
    // Each clone counts its own items.
    let (taken, left) = (texts.par_iter().take_any(30), texts.par_iter().skip_any(30));
    assert_eq!((taken.clone().count(), taken.count(), left.clone().count(), left.count()), (30, 30, 970, 970));
    // On one thread: a worker may refuse an item before the caller takes the first one.
    let until = texts.par_iter().take_any_while(|text| text.len() < 3);
    Pool::new(1).install(|| assert_eq!((until.clone().count(), until.count()), (100, 100)));
    let after = texts.par_iter().skip_any_while(|_| false);
    assert_eq!(both(after).1.len(), 1000);
}

#[test]
fn iterators_show_their_source() {
    let shown = format!("{:?}", vec![1, 2].into_par_iter().filter(|x| *x > 1).fold(|| 0, |a, b| a + b));
    assert!(shown.starts_with("Par { source: VecItems { len: 2"), "{shown}");
    assert!(format!("{:?}", [1, 2].par_split_mut(|x| *x == 1)).contains("VecItems"));
}

#[test]
fn pairs_of_pairs_are_taken_apart() {
    let ((a, b), c): ((Vec<u32>, Vec<u32>), HashSet<u32>) =
        (0..100u32).into_par_iter().map(|i| ((i, i + 1), i % 5)).unzip();
    assert!(a.into_iter().eq(0..100) && b.into_iter().eq(1..101));
    assert_eq!(c.len(), 5);
}

#[test]
fn collections_are_extended_by_references() {
    let numbers: Vec<u32> = (0..100).collect();
    let (mut deque, mut tree) = (VecDeque::<u32>::new(), BTreeSet::<u32>::new());
    let (mut set, mut heap) = (HashSet::<u32>::new(), BinaryHeap::<u32>::new());
    deque.par_extend(&numbers);
    tree.par_extend(&numbers);
    set.par_extend(numbers.par_iter());
    heap.par_extend(numbers.par_iter().filter(|number| **number < 10));
    assert!(deque.iter().eq(&numbers) && tree.iter().eq(&numbers) && set.len() == 100 && heap.len() == 10);
    let (mut left, mut right): (Either<Vec<u32>, BTreeSet<u32>>, _) = (Either::Left(vec![7]), Either::Right(set));
    left.par_extend(numbers.clone());
    right.par_extend(0..200u32);
    assert!(
        left.left().is_some_and(|all| all.len() == 101)
            && right.map_left(|_: Vec<u32>| 0).right().is_some_and(|all| all.len() == 200)
    );
    let map: BTreeMap<u32, u32> = numbers.iter().map(|&number| (number, number + 1)).collect();
    let mut copy = HashMap::<u32, u32>::new();
    copy.par_extend(&map);
    assert_eq!(copy.len(), 100);
}

#[test]
fn integer_ranges_of_every_width() {
    macro_rules! same {
        ($($range:expr),*) => {$(
            let parallel: Vec<_> = $range.into_par_iter().with_claim_size(5).collect();
            assert_eq!(parallel, $range.collect::<Vec<_>>());
        )*};
    }
    same!(i8::MIN..i8::MAX, 250u8..255, i16::MIN..i16::MAX, i64::MAX - 3..i64::MAX, 5u32..5, u64::MAX - 9..=u64::MAX);
    #[expect(clippy::reversed_empty_ranges, reason = "that is the case")]
    let reversed = 5i16..2;
    assert_eq!(reversed.into_par_iter().count(), 0);
}
