//! Keys that begin alike: leaves and borders leave out the bytes that their keys share.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use windrow_collections::{Key, OrderedMap, OrderedSet, Prefix, Prefixed};

use crate::drop_in::calls;
use crate::oracle::{batches, large, same};

/// A beginning and the digits of a number, in characters of one to four bytes. Some texts begin with others, and one is empty.
fn text(number: u32) -> String {
    const FIRST: [&str; 7] = [
        "",
        "\0\0\0\0\0\0\0\0\0",
        "https://www.example.com/p/",
        "https://www.example.com/q/",
        "ab",
        "élan é",
        "élan è",
    ];
    const DIGITS: [char; 7] = ['\0', 'a', 'b', 'é', 'è', '€', '\u{10FFFF}'];
    let digits = std::iter::successors(Some(number / 7), |rest| Some(rest / 7)).take_while(|rest| *rest > 0);
    FIRST[number as usize % 7].chars().chain(digits.map(|rest| DIGITS[rest as usize % 7])).collect()
}

/// The text of [`text`] in bytes, many of which are the lowest or the highest.
fn bytes(number: u32) -> Vec<u8> {
    const FIRST: [&[u8]; 6] = [&[], &[0; 9], &[255; 9], &[255; 20], b"tenant-12/", b"tenant-13/"];
    let digits = std::iter::successors(Some(number / 6), |rest| Some(rest / 3)).take_while(|rest| *rest > 0);
    let digits = digits.map(|rest| [0, 255, b'a'][rest as usize % 3]);
    FIRST[number as usize % 6].iter().copied().chain(digits).collect()
}

/// A beginning of one string. Only the lengths of two keys differ.
fn beginning(number: u32) -> Vec<u8> {
    vec![0; number as usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(16)))]

    #[test]
    fn texts(batches in batches((0..3_000_u32).prop_map(text))) {
        same(batches)?;
    }

    #[test]
    fn byte_strings(batches in batches((0..3_000_u32).prop_map(bytes))) {
        same(batches)?;
    }

    #[test]
    fn urls_of_a_host(batches in batches("(http)?s://www.example.com/[a-e]{0,9}")) {
        same(batches)?;
    }

    #[test]
    fn beginnings_of_a_string(batches in batches((0..300_u32).prop_map(beginning))) {
        same(batches)?;
    }

    #[test]
    fn arrays(batches in batches((0..2_000_u16).prop_map(|number| {
        let [high, low] = number.to_be_bytes();
        [b'a', 0, 0, 255, 255, 255, 7, 7, 7, 7, 7, high, 0, low]
    }))) {
        same(batches)?;
    }
}

#[test]
fn calls_on_texts() {
    calls(5_000, 1_200, text);
}

#[test]
fn calls_on_byte_strings() {
    calls(5_000, 1_200, bytes);
}

#[test]
fn large_batches_of_urls() {
    large(|number| format!("https://www.example.com/{}/{number:08}", if number % 100 == 0 { 'a' } else { 'p' }));
}

/// Inserts keys in several orders, and looks for each, and for keys below, above and between.
fn in_every_order<K: Key + Eq + std::fmt::Debug>(sorted: &[K], absent: &[K]) {
    let orders: [Vec<usize>; 3] = [
        (0..sorted.len()).collect(),
        (0..sorted.len()).rev().collect(),
        (0..sorted.len()).map(|at| at * 7_919 % sorted.len()).collect(),
    ];
    for order in orders {
        let mut map = OrderedMap::new();
        for at in &order {
            assert_eq!(map.insert(sorted[*at].clone(), *at), None);
        }
        assert_eq!((map.check(), map.len()), (Ok(()), sorted.len()));
        assert!(map.keys().eq(sorted));
        for (at, key) in sorted.iter().enumerate() {
            assert_eq!(map.get(key), Some(&at));
        }
        for key in absent {
            let below = sorted.partition_point(|other| other < key);
            assert_eq!((map.get(key), map.range::<K>(..key).count()), (None, below));
            assert!(map.range::<K>(key..).map(|(_, at)| *at).eq(below..sorted.len()));
        }
        for at in order.iter().step_by(2) {
            assert_eq!(map.remove(&sorted[*at]), Some(*at));
        }
        // One that shares nothing, at either end.
        for key in absent {
            assert_eq!(map.insert(key.clone(), 0), None);
        }
        assert_eq!(map.check(), Ok(()));
    }
}

#[test]
fn keys_that_begin_otherwise() {
    // 4,999 is prime to 7,919.
    let sorted: Vec<_> = (0..4_999).map(|number| format!("https://www.example.com/p/{number:09}")).collect();
    let absent = [
        "",
        "\0",
        "a",
        "https://www.example.com/",
        "https://www.example.com/p/",
        "https://www.example.com/p/0000",
        "https://www.example.com/p/000002500",
        "https://www.example.com/p/000002500\0",
        "https://www.example.com/o/000002500",
        "https://www.example.com/q/000002500",
        "https://www.example.com/p/:",
        "https://xxx.example.com/p/000002500",
        "é",
        "\u{10FFFF}",
    ];
    let absent: Vec<_> = absent.into_iter().filter(|key| !sorted.contains(&key.to_string())).collect();
    in_every_order(&sorted, &absent.into_iter().map(String::from).collect::<Vec<_>>());
}

/// The skip of a node is limited. Longer beginnings are compared.
#[test]
fn beginnings_longer_than_a_skip() {
    for length in [65_534_usize, 65_536, 70_000] {
        let key = |number: u16| {
            let mut key = vec![7; length];
            key.extend(number.to_be_bytes());
            key
        };
        let sorted: Vec<_> = (0..131).map(|number| key(2 * number)).collect();
        in_every_order(
            &sorted,
            &[vec![], vec![7; length - 1], vec![7; length], key(201), vec![7; length + 3], vec![8]],
        );
    }
}

/// A string whose borrowed form has a prefix, but no bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(Bare);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bare(String);

impl Prefix for Bare {
    type Word = u128;
    fn prefix(&self) -> u128 {
        u128::from(self.0.prefix())
    }
}

impl Prefix for Name {
    type Word = u128;
    fn prefix(&self) -> u128 {
        self.0.prefix()
    }
    fn key_bytes(&self) -> Option<&[u8]> {
        self.0.0.key_bytes()
    }
}

impl Key for Name {
    type Column = Prefixed<Self>;
}

impl Borrow<Bare> for Name {
    fn borrow(&self) -> &Bare {
        &self.0
    }
}

#[test]
fn borrowed_keys_without_bytes() {
    let name = |number: u32| Name(Bare(text(number)));
    let (mut map, mut oracle) = (OrderedMap::new(), BTreeMap::new());
    for number in 0..4_000 {
        let key = name(number * 7_919 % 20_000);
        assert_eq!(map.insert(key.clone(), number), oracle.insert(key, number));
    }
    assert_eq!(map.check(), Ok(()));
    assert!(map.iter().eq(&oracle));
    for number in 0..20_000 {
        let (asked, bare) = (name(number), Bare(text(number)));
        assert_eq!((map.get(&asked), map.get(&bare)), (oracle.get(&asked), oracle.get(&bare)));
    }
    let (low, high) = (Bare("https://www.example.com/p/a".to_owned()), Bare("élan è\0".to_owned()));
    let within = (Bound::Included(&low), Bound::Excluded(&high));
    assert!(map.range::<Bare>(within).eq(oracle.range::<Bare, _>(within)));
    for number in 0..10_000 {
        assert_eq!(map.remove(&Bare(text(number))), oracle.remove(&Bare(text(number))));
    }
    assert_eq!(map.check(), Ok(()));
    assert!(map.into_iter().eq(oracle));
}

#[test]
fn sets_that_are_joined_and_divided() {
    let url = |host: char, number: u32| format!("https://{host}.example.com/{number:06}");
    let set = |host, numbers: std::ops::Range<u32>| OrderedSet::from_sorted(numbers.map(|number| url(host, number)));
    let (mut a, mut b) = (set('a', 0..90_000).unwrap(), set('b', 0..90_000).unwrap());
    a.append(&mut b);
    a.append(&mut set('c', 0..10).unwrap());
    assert_eq!((a.check(), a.len()), (Ok(()), 180_010));
    for number in (0..90_000).step_by(611) {
        assert!(a.contains(url('a', number).as_str()) && a.contains(url('b', number).as_str()));
        assert!(!a.contains(format!("{}x", url('a', number)).as_str()));
    }
    let tail = a.split_off(url('b', 100).as_str());
    assert_eq!((a.check(), tail.check(), a.len()), (Ok(()), Ok(()), 90_100));
    a.retain(|key| key.ends_with("77"));
    assert_eq!((a.check(), a.len(), a.first()), (Ok(()), 901, Some(&url('a', 77))));
}
