//! Ordered maps under single operations: ten kinds of keys, four mixes, one to four threads.
//!
//! Every arm holds the same keys and gets the same turns, in an order drawn for each repetition. A thread writes only keys whose number has
//! its remainder, so what it reads does not depend on the others: the answers of each thread are compared with those of a `BTreeMap`, as are
//! all keys and values at the end. What a scan finds is compared on one thread; with several, the number of its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Bound;
use std::time::Duration;

use crossbeam_skiplist::SkipMap;
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};
use scc::TreeIndex;
use windrow::batch::Batched;
use windrow_bench::stats::{geometric_mean, median, quantile};
use windrow_bench::work::Random;
use windrow_collections::{Key, MapOp, OrderedMap};

use crate::arms::together;

/// Keys at the beginning; as many others are absent. Measure: count of keys.
const KEYS: u64 = 100_000;
/// Operations of all threads in a turn. Measure: count of operations.
const OPS: usize = 20_000;
/// Measure: count of keys of a scan.
const SCAN: usize = 100;
/// Measure: count of hot keys.
const HOT: u64 = 16;

/// The mix of operations of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    Reads,
    Half,
    Hot,
    Scans,
}

const MIXES: [(&str, Mix); 4] =
    [("95/5", Mix::Reads), ("50/50", Mix::Half), ("16 hot", Mix::Hot), ("scans", Mix::Scans)];

#[derive(Clone)]
enum Op<K> {
    Get(K),
    Insert(K, u64),
    Remove(K),
    Scan(K),
}

/// Answers to the operations of a thread, summed up.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Answers {
    found: u64,
    scanned: u64,
    values: u64,
}

impl Answers {
    fn of(&mut self, value: Option<u64>) {
        self.found = self.found.wrapping_mul(31).wrapping_add(value.map_or(0, |value| value + 1));
    }

    fn scan(&mut self, values: impl Iterator<Item = u64>) {
        for value in values.take(SCAN) {
            self.scanned += 1;
            self.values = self.values.wrapping_add(value);
        }
    }
}

/// A map of one owner.
trait Own<K>: Send + Sync {
    fn get(&self, key: &K) -> Option<u64>;
    fn insert(&mut self, key: K, value: u64);
    fn remove(&mut self, key: &K) -> bool;
    fn scan(&self, from: &K, answers: &mut Answers);
    fn all(&self) -> Vec<(K, u64)>;

    /// Does the operations of a thread.
    fn share(&mut self, ops: Vec<Op<K>>) -> Answers {
        let mut answers = Answers::default();
        for op in ops {
            match op {
                Op::Get(key) => answers.of(self.get(&key)),
                Op::Insert(key, value) => self.insert(key, value),
                Op::Remove(key) => answers.of(self.remove(&key).then_some(0)),
                Op::Scan(from) => self.scan(&from, &mut answers),
            }
        }
        answers
    }
}

/// A map of several threads.
trait Many<K>: Send + Sync {
    fn get(&self, key: &K) -> Option<u64>;
    fn insert(&self, key: K, value: u64);
    fn remove(&self, key: &K) -> bool;
    fn scan(&self, from: K, answers: &mut Answers);
    fn all(&self) -> Vec<(K, u64)>;

    /// Does the operations of a thread.
    fn share(&self, ops: Vec<Op<K>>) -> Answers {
        let mut answers = Answers::default();
        for op in ops {
            match op {
                Op::Get(key) => answers.of(self.get(&key)),
                Op::Insert(key, value) => self.insert(key, value),
                Op::Remove(key) => answers.of(self.remove(&key).then_some(0)),
                Op::Scan(from) => self.scan(from, &mut answers),
            }
        }
        answers
    }
}

/// Both maps have the names of std.
macro_rules! own {
    ($($map:ident)*) => { $(
        impl<K: Kind> Own<K> for $map<K, u64> {
            fn get(&self, key: &K) -> Option<u64> {
                $map::get(self, key).copied()
            }
            fn insert(&mut self, key: K, value: u64) {
                $map::insert(self, key, value);
            }
            fn remove(&mut self, key: &K) -> bool {
                $map::remove(self, key).is_some()
            }
            fn scan(&self, from: &K, answers: &mut Answers) {
                answers.scan(self.range((Bound::Included(from), Bound::Unbounded)).map(|(_, value)| *value));
            }
            fn all(&self) -> Vec<(K, u64)> {
                self.iter().map(|(key, value)| (key.clone(), *value)).collect()
            }
        }
    )* };
}

own! { BTreeMap OrderedMap }

/// A map under a lock: its type, and what it is locked by to be read and to be written.
macro_rules! locked {
    ($($lock:ident, $read:ident, $write:ident;)*) => { $(
        impl<K: Kind, M: Own<K>> Many<K> for $lock<M> {
            fn get(&self, key: &K) -> Option<u64> {
                self.$read().get(key)
            }
            fn insert(&self, key: K, value: u64) {
                self.$write().insert(key, value);
            }
            fn remove(&self, key: &K) -> bool {
                self.$write().remove(key)
            }
            fn scan(&self, from: K, answers: &mut Answers) {
                self.$read().scan(&from, answers);
            }
            fn all(&self) -> Vec<(K, u64)> {
                self.$read().all()
            }
        }
    )* };
}

locked! { Mutex, lock, lock; RwLock, read, write; }

/// Why a call cannot fail.
const SOUND: &str = "it is open, and nothing in it panics";

impl<K: Kind> Many<K> for Batched<OrderedMap<K, u64>> {
    fn get(&self, key: &K) -> Option<u64> {
        self.call(MapOp::Get(key.clone())).expect(SOUND)
    }
    fn insert(&self, key: K, value: u64) {
        self.call(MapOp::Insert(key, value)).expect(SOUND);
    }
    fn remove(&self, key: &K) -> bool {
        self.call(MapOp::Remove(key.clone())).expect(SOUND).is_some()
    }
    fn scan(&self, from: K, answers: &mut Answers) {
        let (scan, values) = MapOp::query(move |map: &OrderedMap<K, u64>| {
            let mut own = Answers::default();
            Own::scan(map, &from, &mut own);
            own
        });
        self.call(scan).expect(SOUND);
        let own = values.take().expect(SOUND);
        answers.scanned += own.scanned;
        answers.values = answers.values.wrapping_add(own.values);
    }
    fn all(&self) -> Vec<(K, u64)> {
        self.read(Own::all).expect(SOUND)
    }
}

impl<K: Kind> Many<K> for SkipMap<K, u64> {
    fn get(&self, key: &K) -> Option<u64> {
        SkipMap::get(self, key).map(|entry| *entry.value())
    }
    fn insert(&self, key: K, value: u64) {
        SkipMap::insert(self, key, value);
    }
    fn remove(&self, key: &K) -> bool {
        SkipMap::remove(self, key).is_some()
    }
    fn scan(&self, from: K, answers: &mut Answers) {
        answers.scan(self.range(from..).map(|entry| *entry.value()));
    }
    fn all(&self) -> Vec<(K, u64)> {
        self.iter().map(|entry| (entry.key().clone(), *entry.value())).collect()
    }
}

impl<K: Kind> Many<K> for TreeIndex<K, u64> {
    fn get(&self, key: &K) -> Option<u64> {
        self.peek_with(key, |_, value| *value)
    }
    fn insert(&self, key: K, value: u64) {
        self.upsert_sync(key, value);
    }
    fn remove(&self, key: &K) -> bool {
        self.remove_sync(key)
    }
    fn scan(&self, from: K, answers: &mut Answers) {
        answers.scan(self.range(from.., &scc::Guard::new()).map(|(_, value)| *value));
    }
    fn all(&self) -> Vec<(K, u64)> {
        self.iter(&scc::Guard::new()).map(|(key, value)| (key.clone(), *value)).collect()
    }
}

/// Without an order: its scans do nothing, and are not reported.
impl<K: Kind> Many<K> for DashMap<K, u64> {
    fn get(&self, key: &K) -> Option<u64> {
        DashMap::get(self, key).map(|value| *value)
    }
    fn insert(&self, key: K, value: u64) {
        DashMap::insert(self, key, value);
    }
    fn remove(&self, key: &K) -> bool {
        DashMap::remove(self, key).is_some()
    }
    fn scan(&self, _: K, _: &mut Answers) {}
    fn all(&self) -> Vec<(K, u64)> {
        let mut all: Vec<_> = self.iter().map(|entry| (entry.key().clone(), *entry.value())).collect();
        all.sort_unstable();
        all
    }
}

struct Arm<K> {
    name: &'static str,
    map: Box<dyn Many<K>>,
}

/// The arm that the others are compared with.
const BASE: &str = "mutex btree";
/// The arm with bars.
const OURS: &str = "mutex ordered";
/// [`BASE`] once more.
const CONTROL: &str = "control";
const UNORDERED: &str = "dashmap";

fn arms<K: Kind>(keys: &[(K, u64)]) -> Vec<Arm<K>> {
    fn many<K, M: Many<K> + 'static>(name: &'static str, map: M) -> Arm<K> {
        Arm { name, map: Box::new(map) }
    }
    let btree = || keys.iter().cloned().collect::<BTreeMap<K, u64>>();
    // As a service would fill it: in no order.
    let ordered = || keys.iter().cloned().collect::<OrderedMap<K, u64>>();
    let mut all = vec![
        many(BASE, Mutex::new(btree())),
        many(CONTROL, Mutex::new(btree())),
        many("rwlock btree", RwLock::new(btree())),
        many(OURS, Mutex::new(ordered())),
        many("rwlock ordered", RwLock::new(ordered())),
        many("batched ordered", Batched::new(ordered())),
    ];
    let peers: [Arm<K>; 3] =
        [many("scc", TreeIndex::new()), many("skipmap", SkipMap::new()), many(UNORDERED, DashMap::new())];
    for arm in &peers {
        keys.iter().for_each(|(key, value)| arm.map.insert(key.clone(), *value));
    }
    all.extend(peers);
    all
}

impl<K: Kind> Arm<K> {
    fn turn(&self, shares: Vec<Vec<Op<K>>>) -> (Duration, Vec<Answers>) {
        let mut answers = vec![Answers::default(); shares.len()];
        let shares = shares.into_iter().zip(&mut answers);
        let time = together(shares.map(|(ops, answers)| move || *answers = self.map.share(ops)));
        (time, answers)
    }
}

/// Keys that every arm takes.
trait Kind: Key<Column: Send + Sync> + Hash + Send + Sync + Debug + 'static {}
impl<K: Key<Column: Send + Sync> + Hash + Send + Sync + Debug + 'static> Kind for K {}

/// Bits in no order, which differ for each number.
fn mixed(number: u64) -> u64 {
    let bits = (number ^ number >> 7).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (bits ^ bits >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// 16 random bytes, as of a UUID.
fn bytes(number: u64) -> Vec<u8> {
    [mixed(number), mixed(number | 1 << 40)].into_iter().flat_map(u64::to_be_bytes).collect()
}

fn url(number: u64) -> String {
    let bits = mixed(number);
    let department = ["books", "garden", "shoes", "toys"][bits as usize % 4];
    format!("https://www.example.com/shop/{department}/{bits:x}")
}

fn date(number: u64) -> String {
    let of = |at: u32, end: u64| (mixed(number) >> at) % end;
    let (day, hour, minute, second) = (1 + of(0, 30), of(16, 24), of(32, 60), of(48, 60));
    format!("2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}.{number:06}Z")
}

/// Times of an arm in a cell.
struct Row {
    name: &'static str,
    times: Vec<f64>,
}

/// The cells to measure, and the rows so far.
pub(crate) struct Table {
    repetitions: u16,
    pub(crate) lines: Vec<String>,
    /// Of each cell and arm: its time by that of [`BASE`].
    ratios: Vec<(String, &'static str, f64)>,
}

impl Table {
    pub(crate) fn new(repetitions: u16) -> Self {
        Table { repetitions, lines: Vec::new(), ratios: Vec::new() }
    }

    /// Ten kinds of keys, four of them on four threads, too.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        self.kind("u64", true, mixed)?;
        self.kind("u32", false, |number| (number as u32).wrapping_mul(0x9E37_79B9))?;
        self.kind("i128", false, |number| (i128::from(mixed(number)) << 64) | i128::from(number))?;
        // A customer, and one of its orders.
        self.kind("pair", true, |number| ((mixed(number) % 5_000) as u32, number))?;
        self.kind("hex", false, |number| format!("{:016x}", mixed(number)))?;
        self.kind("user", true, |number| format!("user:{:016x}", mixed(number)))?;
        self.kind("tenant", false, |number| format!("tenant-{}/{:016x}", mixed(number) % 40, mixed(number)))?;
        self.kind("URL", true, url)?;
        self.kind("date", false, date)?;
        self.kind("bytes", false, bytes)
    }

    /// The figures of the table as notes: of each arm, and the bars of the ordered map.
    pub(crate) fn notes(&self) -> Vec<String> {
        let of = |arm: &str| -> Vec<f64> {
            self.ratios.iter().filter(|(_, name, _)| *name == arm).map(|(.., ratio)| *ratio).collect()
        };
        let mut arms: Vec<&str> = Vec::new();
        self.ratios.iter().for_each(|(_, name, _)| {
            if !arms.contains(name) {
                arms.push(name)
            }
        });
        let summary = |arm: &&str| {
            let ratios = of(arm);
            let (least, most) = (quantile(&ratios, 0.0), quantile(&ratios, 1.0));
            format!("{arm} by {BASE}: x{:.3} in geometric mean, {least:.2} to {most:.2}", geometric_mean(ratios))
        };
        let mut notes: Vec<String> = arms.iter().map(summary).collect();
        let word = |is_met: bool| if is_met { "met" } else { "missed" };
        let mean = geometric_mean(of(OURS));
        notes.push(format!("{OURS}, mean time by {BASE}: x{mean:.3}, bar <= 1 {}", word(mean <= 1.0)));
        for (cell, _, ratio) in self.ratios.iter().filter(|(_, name, _)| *name == OURS) {
            notes.push(format!("{cell}: {OURS} by {BASE} x{ratio:.2}, bar <= 1.1 {}", word(*ratio <= 1.1)));
        }
        notes
    }

    fn kind<K: Kind>(&mut self, name: &str, at_four: bool, of: fn(u64) -> K) -> Result<(), String> {
        let mut random = Random::new(44);
        // Runs of four numbers, present and absent: each of up to four threads has both.
        let mut present: Vec<u64> = (0..2 * KEYS).filter(|number| number / 4 % 2 == 0).collect();
        random.shuffle(&mut present);
        let keys: Vec<(K, u64)> = present.iter().map(|number| (of(*number), *number)).collect();
        let mut oracle: BTreeMap<K, u64> = keys.iter().cloned().collect();
        if (0..2 * KEYS).map(of).collect::<BTreeSet<K>>().len() as u64 != 2 * KEYS {
            return Err(format!("{name}: two numbers have the same key"));
        }
        let arms = arms(&keys);
        for (threads, (mix_name, mix)) in [1, 2, 4].into_iter().flat_map(|threads| MIXES.map(|mix| (threads, mix))) {
            if threads == 4 && !at_four {
                continue;
            }
            let cell = format!("{name} {mix_name} x{threads}");
            let is_meant = |arm: &Arm<K>| mix != Mix::Scans || arm.name != UNORDERED;
            let mut rows: Vec<Row> =
                arms.iter().filter(|arm| is_meant(arm)).map(|arm| Row { name: arm.name, times: Vec::new() }).collect();
            let mut order: Vec<usize> = (0..arms.len()).collect();
            for _ in 0..self.repetitions {
                let shares = shares(of, mix, threads, &mut random);
                let expected: Vec<Answers> = shares.iter().map(|ops| oracle.share(ops.clone())).collect();
                random.shuffle(&mut order);
                for at in &order {
                    let arm = &arms[*at];
                    let (time, answers) = arm.turn(shares.clone());
                    let is_right = |(own, of): (&Answers, &Answers)| {
                        // Other threads change what is scanned, and scans near the end are shorter.
                        let same = own.scanned.abs_diff(of.scanned) < 10 && (threads > 1 || own == of);
                        own.found == of.found && (same || arm.name == UNORDERED)
                    };
                    if !answers.iter().zip(&expected).all(is_right) {
                        return Err(format!("{cell}: {} answers {answers:?}, BTreeMap {expected:?}", arm.name));
                    }
                    if let Some(row) = rows.iter_mut().find(|row| row.name == arm.name) {
                        row.times.push(time.as_nanos() as f64);
                    }
                }
            }
            self.close(&cell, &rows);
            for row in &rows {
                let line = |(turn, time)| format!("{name},{mix_name},{threads},{},{turn},{time}", row.name);
                self.lines.extend(row.times.iter().enumerate().map(line));
            }
        }
        for arm in &arms {
            if !arm.map.all().iter().map(|(key, value)| (key, value)).eq(&oracle) {
                return Err(format!("{name}: {} holds different keys or values from BTreeMap", arm.name));
            }
        }
        Ok(())
    }

    fn close(&mut self, cell: &str, rows: &[Row]) {
        println!("{cell}: ops/ms, and time relative to {BASE} (10th and 90th percentile)");
        let base = rows.iter().find(|row| row.name == BASE).map(|row| row.times.clone()).unwrap_or_default();
        for row in rows {
            let ratios: Vec<f64> = row.times.iter().zip(&base).map(|(time, base)| time / base).collect();
            let (low, high) = (quantile(&ratios, 0.1), quantile(&ratios, 0.9));
            let rate = OPS as f64 / median(&row.times) * 1e6;
            println!("  {:<16} {rate:>9.0}  x{:.2} ({low:.2}..{high:.2})", row.name, median(&ratios));
            self.ratios.push((cell.to_owned(), row.name, median(&ratios)));
        }
    }
}

/// The operations of each thread.
fn shares<K>(of: fn(u64) -> K, mix: Mix, threads: u64, random: &mut Random) -> Vec<Vec<Op<K>>> {
    (0..threads)
        .map(|thread| {
            let one = |at: usize| {
                let range = if mix == Mix::Hot { HOT } else { 2 * KEYS };
                let mut own = || random.below((range / threads) as usize) as u64 * threads + thread;
                let number = own();
                let key = of(number);
                let (draw, value) = (random.below(100), at as u64);
                match mix {
                    Mix::Scans if draw < 10 => Op::Scan(key),
                    // Most reads find their keys.
                    Mix::Hot if draw < 50 => Op::Get(key),
                    Mix::Hot => Op::Insert(key, value),
                    Mix::Half if draw < 25 => Op::Insert(key, value),
                    Mix::Half if draw < 50 => Op::Remove(key),
                    Mix::Reads | Mix::Scans if draw >= 98 => Op::Insert(key, value),
                    Mix::Reads | Mix::Scans if draw >= 95 => Op::Remove(key),
                    _ => Op::Get(of(number & !4)),
                }
            };
            (0..OPS / threads as usize).map(one).collect()
        })
        .collect()
}
