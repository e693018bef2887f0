//! Loops as people write them: one line of a parallel iterator where the serial loop stood, and no thought for its grain.
//!
//! Most loops are written once (`loops/each.rs`), and compiled for the iterators of the standard library, of rayon and of windrow. A fold of parts has two
//! forms: `loops/serial.rs` and `loops/parallel.rs`. All forms read the same data.

use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::demos::{Body, digest, numbers, pull, small_primes, strike_out};
use crate::sequences::{eliminate, matrix};
use crate::{Run, Workload};

mod serial;

mod by_loops {
    use super::serial as library;
    pub(super) use super::serial::*;
    include!("loops/each.rs");
}
mod by_rayon {
    pub(super) use self::folds::*;
    use ::rayon as library;
    mod folds {
        use super::*;
        include!("loops/parallel.rs");
    }
    include!("loops/each.rs");
}
mod by_windrow {
    pub(super) use self::folds::*;
    use ::windrow as library;
    mod folds {
        use super::*;
        include!("loops/parallel.rs");
    }
    include!("loops/each.rs");
}

/// Data that loops read.
struct Data {
    /// Random numbers.
    numbers: Vec<u64>,
    /// Numbers below 2^20.
    small: Vec<u64>,
    /// Numbers from 0 to 1.
    floats: Vec<f64>,
    image: Vec<f32>,
    bodies: Vec<Body>,
    /// A matrix of [`LU`] rows.
    matrix: Vec<f64>,
    bytes: Vec<u8>,
    /// One number a line.
    text: String,
    /// 0 to 29 words a line.
    prose: String,
    words: Vec<&'static str>,
    /// A key of few records, and a value.
    records: Vec<(&'static str, u32)>,
    /// 1000 rows of 0 to 39 numbers below 2^32.
    rows: Vec<Vec<u64>>,
    map: HashMap<u64, u64>,
    tree: BTreeMap<u64, u64>,
    primes: Vec<usize>,
    /// Neighbours of nodes.
    graph: Vec<[u32; 8]>,
}

/// Memory that loops write to.
struct Room {
    numbers: Vec<u64>,
    more: Vec<u64>,
    sorted: Vec<u64>,
    floats: Vec<f64>,
    pixels: Vec<f32>,
}

const WIDTH: usize = 1000;
const MATRIX: usize = 192;
const LU: usize = 96;
/// Length of the texts of an edit distance.
const EDITED: usize = 400;
/// Numbers of a segment of the sieve.
const SEGMENT: usize = 1 << 15;
const COUNTERS: usize = 1 << 16;

impl Data {
    fn new() -> Self {
        let all = numbers(200_000);
        // The process lends its words to maps.
        let word = |n: u64| -> &'static str { format!("{n:x}").leak() };
        let few: Vec<&str> = all[..200].iter().map(|n| word(n % 10_000)).collect();
        let keys: Vec<&str> = all[..5000].iter().map(|n| word(*n)).collect();
        Self {
            small: all.iter().map(|n| n >> 44).collect(),
            floats: all.iter().map(|n| (n >> 11) as f64 / (1_u64 << 53) as f64).collect(),
            image: (0..WIDTH * 700).map(|at| (at * 7919 % 256) as f32).collect(),
            bodies: (0..400).map(|k| ([k as f64, (k * k % 97) as f64, (k % 13) as f64], [0.0; 3])).collect(),
            matrix: matrix(LU),
            bytes: all.iter().flat_map(|n| n.to_le_bytes()).take(256 << 10).collect(),
            text: all[..30_000].iter().map(|n| format!("{}\n", n % 1_000_000)).collect(),
            prose: all[..2000].iter().map(|n| format!("{}\n", "word ".repeat((n % 30) as usize))).collect(),
            words: all[..100_000].iter().map(|n| few[(n % 200) as usize]).collect(),
            records: all[..30_000].iter().map(|n| (keys[(n % 5000) as usize], *n as u32)).collect(),
            rows: (0..1000).map(|k| all[k..k + k * 7919 % 40].iter().map(|n| n >> 32).collect()).collect(),
            map: all[..50_000].iter().map(|n| (*n, n >> 1)).collect(),
            tree: all[..50_000].iter().map(|n| (*n, n >> 1)).collect(),
            primes: small_primes(1500),
            graph: all[..60_000]
                .iter()
                .map(|n| [0, 8, 16, 24, 32, 5, 13, 21].map(|bits| (n >> bits) as u32 % 60_000))
                .collect(),
            numbers: all,
        }
    }
}

impl Room {
    fn new(data: &Data) -> Self {
        let n = data.numbers.len();
        Self {
            numbers: vec![0; n],
            more: vec![0; n],
            sorted: (0..1_000_000).collect(),
            floats: vec![0.0; n],
            pixels: vec![0.0; data.image.len()],
        }
    }
}

type Loop = fn(&Data, &mut Room) -> u64;

macro_rules! table {
    ($($name:ident)*) => {
        [$((stringify!($name), [by_loops::$name as Loop, by_rayon::$name, by_windrow::$name])),*]
    };
}

pub(crate) fn all() -> Vec<Workload> {
    let data = Arc::new(Data::new());
    // One for all arms, since they take turns.
    let room = Arc::new(Mutex::new(Room::new(&data)));
    let run = |call: Loop| -> Run {
        let (data, room) = (data.clone(), room.clone());
        Box::new(move || call(black_box(&data), &mut room.lock().expect("no loop panics")))
    };
    let table = table! {
        blur mandelbrot wordcount sieve nbody matmul collatz_max parse sort_cached sort_u sort_small sort_sorted group zip3 chunk_hash fib quick bfs triangle
        nested mapvals btvals bridge chars tostrings filter_collect hist fmax inplace dedup c100log axpy64 lu dp strcat minmax pos unz part flat chain2 win
        mergesort
    };
    let workload = |(name, [serial, rayon, windrow]): (&str, [Loop; 3])| {
        let arms = vec![
            ("serial", run(serial)),
            ("control", run(serial)),
            ("rayon", run(rayon)),
            (crate::INSIDE_RAYON, run(rayon)),
            ("windrow", run(windrow)),
        ];
        Workload::new(name, arms)
    };
    table.into_iter().map(workload).collect()
}

/// A number that depends on values far from each other.
fn sample<T: Copy>(values: &[T], bits: impl Fn(T) -> u64) -> u64 {
    digest(values.iter().step_by(values.len() / 50 + 1).map(|value| bits(*value)))
}

fn identity(x: u64) -> u64 {
    x
}

/// The mean of nine pixels, or of those that exist.
fn blur_row(image: &[f32], y: usize, row: &mut [f32]) {
    let height = image.len() / WIDTH;
    for (x, out) in row.iter_mut().enumerate() {
        let (mut sum, mut count) = (0.0, 0.0);
        for y in y.saturating_sub(1)..(y + 2).min(height) {
            for pixel in &image[y * WIDTH + x.saturating_sub(1)..y * WIDTH + (x + 2).min(WIDTH)] {
                sum += pixel;
                count += 1.0;
            }
        }
        *out = sum / count;
    }
}

/// Turns until a point of the plane leaves the circle, at most 200.
fn escape(x: usize, y: usize) -> u64 {
    let (re, im) = (x as f64 / 100.0 - 2.0, y as f64 / 100.0 - 1.0);
    let (mut a, mut b, mut turns) = (0.0, 0.0, 0);
    while a * a + b * b < 4.0 && turns < 200 {
        (a, b) = (a * a - b * b + re, 2.0 * a * b + im);
        turns += 1;
    }
    turns
}

fn count_primes(segment: usize, primes: &[usize]) -> u64 {
    let mut sieve = vec![true; SEGMENT];
    strike_out(segment * SEGMENT, &mut sieve, primes);
    sieve.iter().filter(|prime| **prime).count() as u64
}

/// A row of a product of two matrices of small numbers.
fn product_row(row: usize, out: &mut [f64], factors: &[f64]) {
    out.fill(0.0);
    for k in 0..MATRIX {
        let factor = factors[row * MATRIX + k];
        out.iter_mut().zip(&factors[k * MATRIX..]).for_each(|(out, other)| *out += factor * other);
    }
}

fn collatz(n: u64) -> u64 {
    let (mut n, mut turns) = (n, 0);
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        turns += 1;
    }
    turns
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Parts values by one of them, which stands between the parts then; returns its place.
pub(crate) fn split(values: &mut [u64]) -> usize {
    let last = values.len() - 1;
    values.swap(values.len() / 2, last);
    let mut middle = 0;
    for at in 0..last {
        if values[at] <= values[last] {
            values.swap(at, middle);
            middle += 1;
        }
    }
    values.swap(middle, last);
    middle
}

/// Merges the sorted halves of `values` by way of `room`.
pub(crate) fn merge(values: &mut [u64], room: &mut [u64]) {
    let (left, right) = values.split_at(values.len() / 2);
    let (mut a, mut b) = (0, 0);
    for slot in room.iter_mut() {
        let takes_left = b == right.len() || a < left.len() && left[a] <= right[b];
        *slot = if takes_left { left[a] } else { right[b] };
        a += usize::from(takes_left);
        b += usize::from(!takes_left);
    }
    values.copy_from_slice(room);
}

/// The nodes that this visit of `node` reaches first.
fn newly_reached<'a>(graph: &'a [[u32; 8]], reached: &'a [AtomicBool], node: u32) -> impl Iterator<Item = u32> + 'a {
    graph[node as usize].iter().copied().filter(|next| !reached[*next as usize].swap(true, Relaxed))
}

fn unreached(graph: &[[u32; 8]]) -> Vec<AtomicBool> {
    (0..graph.len()).map(|node| AtomicBool::new(node == 0)).collect()
}

/// A cell of the table of an edit distance: row `i` of diagonal `d`, from the two diagonals before.
fn edit(bytes: &[u8], d: usize, i: usize, last: &[u64], before: &[u64]) -> u64 {
    let j = d - i;
    if i == 0 || j == 0 {
        return d as u64;
    }
    let differs = u64::from(bytes[i] % 4 != bytes[EDITED + j] % 4);
    (before[i - 1] + differs).min(last[i - 1].min(last[i]) + 1)
}

type Groups = HashMap<&'static str, Vec<u32>>;

/// A digest that does not depend on the order of groups and of their members.
fn digest_of_groups(groups: &Groups) -> u64 {
    groups
        .values()
        .map(|group| group.len() as u64 * group.iter().fold(0, |sum, x| sum ^ u64::from(*x)))
        .fold(0, u64::wrapping_add)
}

fn shade(x: f64) -> u64 {
    ((x + 1.0).ln() * 1e6) as u64
}

/// An involution.
fn turned(x: u64) -> u64 {
    (!x).reverse_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_loop_gives_the_same() {
        for mut workload in all() {
            let expected = workload.arms[0].1();
            for (arm, run) in &mut workload.arms {
                // The second run starts from what the first one left behind.
                assert_eq!([run(), run()], [expected; 2], "{}, {arm}", workload.name);
            }
        }
    }
}
