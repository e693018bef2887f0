//! The kinds of programs that rayon's own demo has (rayon-demo 0.0): written here once, and compiled for rayon and for windrow.

use std::collections::{HashMap, LinkedList};

use crate::loops::{merge as merge_halves, split};
use crate::{Run, Workload};

pub(crate) fn all() -> Vec<Workload> {
    let (rayon, windrow) = (by_rayon::all(), by_windrow::all());
    let pairs = rayon.into_iter().zip(windrow);
    pairs
        .map(|((name, rayon), (_, windrow))| Workload::new(name, vec![("rayon", rayon), ("windrow", windrow)]))
        .collect()
}

/// Numbers that look random, and are the same in every run.
pub(crate) fn numbers(n: usize) -> Vec<u64> {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    (0..n).map(&mut next).collect()
}

/// A number that depends on all values and their order.
pub(crate) fn digest(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(7, |sum, value| (sum ^ value).wrapping_mul(0x100_0000_01b3))
}

fn is_sorted_digest(values: &[u64]) -> u64 {
    assert!(values.is_sorted());
    values[values.len() / 2]
}

/// A number of many digits, in base 10^9.
fn multiplied(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut product = vec![0_u64; a.len() + b.len() + 1];
    for (i, &x) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, &y) in b.iter().enumerate() {
            let sum = product[i + j] + u64::from(x) * u64::from(y) + carry;
            product[i + j] = sum % 1_000_000_000;
            carry = sum / 1_000_000_000;
        }
        product[i + b.len()] += carry;
    }
    while product.len() > 1 && product.last() == Some(&0) {
        product.pop();
    }
    product.into_iter().map(|digit| digit as u32).collect()
}

/// Places of queens in the first rows, as columns.
fn is_free(queens: &[usize], column: usize) -> bool {
    let row = queens.len();
    queens.iter().enumerate().all(|(at, &other)| other != column && row - at != column.abs_diff(other))
}

fn queens_serial(n: usize, queens: &mut Vec<usize>) -> u64 {
    if queens.len() == n {
        return 1;
    }
    let mut count = 0;
    for column in 0..n {
        if is_free(queens, column) {
            queens.push(column);
            count += queens_serial(n, queens);
            queens.pop();
        }
    }
    count
}

/// Whether each of `lo..lo + sieve.len()` is a prime, by the primes up to the root of the last one.
pub(crate) fn strike_out(lo: usize, sieve: &mut [bool], primes: &[usize]) {
    sieve.fill(true);
    for &prime in primes {
        let first = (prime * prime).max(lo.div_ceil(prime) * prime);
        (first..lo + sieve.len()).step_by(prime).for_each(|at| sieve[at - lo] = false);
    }
}

pub(crate) fn small_primes(most: usize) -> Vec<usize> {
    (2..=most).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0)).collect()
}

/// The shortest tour from the last city of `tour` through all others, if it is below `best`.
fn shortest_tour(distances: &[Vec<u64>], tour: &mut Vec<usize>, length: u64, best: u64) -> u64 {
    let (n, last) = (distances.len(), tour[tour.len() - 1]);
    if tour.len() == n {
        return best.min(length + distances[last][tour[0]]);
    }
    let mut best = best;
    for city in 0..n {
        if !tour.contains(&city) && length + distances[last][city] < best {
            tour.push(city);
            best = shortest_tour(distances, tour, length + distances[last][city], best);
            tour.pop();
        }
    }
    best
}

fn alive(board: &[bool], size: usize, at: usize) -> bool {
    let (row, column) = (at / size, at % size);
    let mut neighbours = 0;
    for y in row.saturating_sub(1)..(row + 2).min(size) {
        for x in column.saturating_sub(1)..(column + 2).min(size) {
            neighbours += usize::from((y, x) != (row, column) && board[y * size + x]);
        }
    }
    neighbours == 3 || neighbours == 2 && board[at]
}

pub(crate) type Body = ([f64; 3], [f64; 3]);

pub(crate) fn pull(bodies: &[Body], at: usize) -> [f64; 3] {
    let mut force = [0.0; 3];
    for (other, body) in bodies.iter().enumerate() {
        if other != at {
            let difference = [0, 1, 2].map(|axis| body.0[axis] - bodies[at].0[axis]);
            let square = difference.iter().map(|x| x * x).sum::<f64>() + 1e-3;
            let scale = 1.0 / (square * square.sqrt());
            (0..3).for_each(|axis| force[axis] += difference[axis] * scale);
        }
    }
    force
}

/// Programs by name.
struct All(Vec<(&'static str, Run)>);

impl All {
    fn add(&mut self, name: &'static str, run: impl FnMut() -> u64 + Send + 'static) {
        self.0.push((name, Box::new(run)));
    }
}

macro_rules! programs {
    ($module:ident, $library:ident) => {
        mod $module {
            use super::*;
            use $library::prelude::*;

            fn fibonacci(n: u64) -> u64 {
                if n < 2 {
                    return n;
                }
                let (a, b) = $library::join(|| fibonacci(n - 1), || fibonacci(n - 2));
                a + b
            }

            fn quick(values: &mut [u64]) {
                if values.len() <= 1 {
                    return;
                }
                let middle = split(values);
                let (left, right) = values.split_at_mut(middle);
                $library::join(|| quick(left), || quick(&mut right[1..]));
            }

            fn merge(values: &mut [u64], room: &mut [u64]) {
                if values.len() <= 4096 {
                    return values.sort_unstable();
                }
                let middle = values.len() / 2;
                let ((left, right), (first, second)) = (values.split_at_mut(middle), room.split_at_mut(middle));
                $library::join(|| merge(left, first), || merge(right, second));
                merge_halves(values, room);
            }

            fn increment(values: &mut [u64]) {
                if values.len() <= 512 {
                    return values.iter_mut().for_each(|value| *value += 1);
                }
                let (left, right) = values.split_at_mut(values.len() / 2);
                $library::join(|| increment(left), || increment(right));
            }

            fn queens(n: usize, placed: &[usize]) -> u64 {
                if placed.len() == 3 {
                    return queens_serial(n, &mut placed.to_vec());
                }
                let next = (0..n).into_par_iter().filter(|&column| is_free(placed, column));
                next.map(|column| queens(n, &[placed, &[column]].concat())).sum()
            }

            fn multiply(a: &[f64], b: &[f64], n: usize, out: &mut [f64]) {
                out.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
                    for k in 0..n {
                        let factor = a[row * n + k];
                        out.iter_mut().zip(&b[k * n..(k + 1) * n]).for_each(|(out, b)| *out += factor * b);
                    }
                });
            }

            fn halves(values: &[u64]) -> u64 {
                if values.len() <= 64 {
                    return values.iter().fold(0, |sum, x| sum.wrapping_add(*x));
                }
                let (left, right) = values.split_at(values.len() / 2);
                [left, right].par_iter().map(|half| halves(half)).reduce(|| 0, u64::wrapping_add)
            }

            pub(super) fn all() -> Vec<(&'static str, Run)> {
                let mut all = All(Vec::new());
                let million = numbers(1_000_000);
                let few = numbers(1000);
                all.add("fibonacci by join", || fibonacci(24));
                for (name, n) in [("quicksort of 1000", 1000), ("quicksort of 1000000", 1_000_000)] {
                    let values = numbers(n);
                    all.add(name, move || {
                        let mut values = values.clone();
                        quick(&mut values);
                        is_sorted_digest(&values)
                    });
                }
                let values = million.clone();
                all.add("mergesort", move || {
                    let (mut values, mut room) = (values.clone(), vec![0; values.len()]);
                    merge(&mut values, &mut room);
                    is_sorted_digest(&values)
                });
                let values = million.clone();
                all.add("par_sort_unstable", move || {
                    let mut values = values.clone();
                    values.par_sort_unstable();
                    is_sorted_digest(&values)
                });
                let values = million.clone();
                all.add("par_sort", move || {
                    let mut values = values.clone();
                    values.par_sort();
                    is_sorted_digest(&values)
                });
                let words: Vec<String> = numbers(100_000).iter().map(|n| format!("{n:x}")).collect();
                let sorted = words.clone();
                all.add("par_sort of strings", move || {
                    let mut words = sorted.clone();
                    words.par_sort();
                    words[words.len() / 2].len() as u64
                });
                for (name, n) in [("increment 4096 by join", 4096), ("increment 1000000 by join", 1_000_000)] {
                    all.add(name, move || {
                        let mut values = vec![0; n];
                        increment(&mut values);
                        values[n - 1]
                    });
                }
                all.add("increment 1000000", || {
                    let mut values = vec![0_u64; 1_000_000];
                    values.par_iter_mut().for_each(|value| *value += 1);
                    values[999_999]
                });
                all.add("queens on 9 rows", || queens(9, &[]));
                all.add("queens on 11 rows", || queens(11, &[]));
                for (name, n) in [("matrices of 64", 64), ("matrices of 256", 256)] {
                    let (a, b): (Vec<f64>, Vec<f64>) = (0..n * n).map(|k| ((k % 7) as f64, (k % 5) as f64)).unzip();
                    all.add(name, move || {
                        let mut out = vec![0.0; n * n];
                        multiply(&a, &b, n, &mut out);
                        out.iter().sum::<f64>() as u64
                    });
                }
                for (name, n) in [("100 bodies", 100), ("1000 bodies", 1000)] {
                    let bodies: Vec<Body> =
                        (0..n).map(|k| ([k as f64, (k * k % 97) as f64, (k % 13) as f64], [0.0; 3])).collect();
                    all.add(name, move || {
                        let mut bodies = bodies.clone();
                        for _ in 0..3 {
                            let forces: Vec<_> = (0..n).into_par_iter().map(|at| pull(&bodies, at)).collect();
                            bodies.par_iter_mut().zip(&forces).for_each(|(body, force)| {
                                for axis in 0..3 {
                                    body.1[axis] += force[axis];
                                    body.0[axis] += 0.01 * body.1[axis];
                                }
                            });
                        }
                        digest(bodies.iter().map(|body| body.0[0].to_bits()))
                    });
                }
                for (name, size) in [("life on 40 x 40", 40), ("life on 400 x 400", 400)] {
                    let board: Vec<bool> = numbers(size * size).iter().map(|n| n % 3 == 0).collect();
                    all.add(name, move || {
                        let mut board = board.clone();
                        for _ in 0..5 {
                            board = (0..board.len()).into_par_iter().map(|at| alive(&board, size, at)).collect();
                        }
                        digest(board.iter().map(|&cell| u64::from(cell)))
                    });
                }
                let primes = small_primes(2000);
                all.add("sieve of 4000000", move || {
                    let mut sieve = vec![true; 4_000_000];
                    let parts = sieve.par_chunks_mut(100_000).enumerate();
                    parts.for_each(|(at, part)| strike_out(at * 100_000, part, &primes));
                    sieve.par_iter().filter(|prime| **prime).count() as u64
                });
                all.add("pythagoras", || {
                    let sides = |a: u64| {
                        (a + 1..400).filter_map(move |b| {
                            let square = a * a + b * b;
                            let c = square.isqrt();
                            (c * c == square).then_some(c)
                        })
                    };
                    (1..400).into_par_iter().map(|a| sides(a).sum::<u64>()).sum()
                });
                all.add("pythagoras by nested iterators", || {
                    let pairs =
                        (1..300_u64).into_par_iter().flat_map(|a| (a + 1..300).into_par_iter().map(move |b| (a, b)));
                    pairs
                        .filter(|(a, b)| {
                            let square = a * a + b * b;
                            square.isqrt().pow(2) == square
                        })
                        .count() as u64
                });
                let distances: Vec<Vec<u64>> =
                    numbers(100).chunks(10).map(|row| row.iter().map(|n| n % 100 + 1).collect()).collect();
                all.add("tour of 10 cities", move || {
                    let second = (1..10_usize).into_par_iter();
                    let best =
                        second.map(|city| shortest_tour(&distances, &mut vec![0, city], distances[0][city], u64::MAX));
                    best.min().unwrap_or(0)
                });
                for (name, n) in [("factorial of 300", 300), ("factorial of 2000", 2000)] {
                    all.add(name, move || {
                        let factors = (1..n + 1).into_par_iter().map(|k: u32| vec![k]);
                        let product = factors.reduce(|| vec![1], |a, b| multiplied(&a, &b));
                        digest(product.into_iter().map(u64::from))
                    });
                }
                let values = million.clone();
                all.add("find_any at half", move || {
                    let wanted = values[500_000];
                    *values.par_iter().find_any(|value| **value == wanted).unwrap_or(&0)
                });
                let values = million.clone();
                all.add("find_first of an absent one", move || {
                    values.par_iter().find_first(|value| **value == 1).map_or(3, |value| *value)
                });
                let values = few.clone();
                all.add("any of 1000", move || u64::from(values.par_iter().any(|value| *value == 1)));
                all.add("collect of 1000000", || {
                    let values: Vec<u64> = (0..1_000_000_u64).into_par_iter().map(|x| x * 3).collect();
                    values[777_777]
                });
                let values = million.clone();
                all.add("filter and collect", move || {
                    let odd: Vec<u64> = values.par_iter().copied().filter(|x| x % 2 == 1).collect();
                    odd[odd.len() / 2]
                });
                all.add("fold into vectors", || {
                    let parts = (0..300_000_u64).into_par_iter().fold(Vec::new, |mut all, x| {
                        all.push(x);
                        all
                    });
                    let all = parts.reduce(Vec::new, |mut a, mut b| {
                        a.append(&mut b);
                        a
                    });
                    all[123_456]
                });
                all.add("lists of vectors", || {
                    let parts = (0..300_000_u64).into_par_iter().fold(Vec::new, |mut all, x| {
                        all.push(x);
                        all
                    });
                    let lists: LinkedList<Vec<u64>> =
                        parts.map(|part| LinkedList::from([part])).reduce(LinkedList::new, |mut a, mut b| {
                            a.append(&mut b);
                            a
                        });
                    lists.iter().map(Vec::len).sum::<usize>() as u64
                });
                all.add("collect into a map", || {
                    let map: HashMap<u64, u64> = (0..30_000_u64).into_par_iter().map(|x| (x, x * x)).collect();
                    map[&777]
                });
                all.add("fold into maps", || {
                    let parts = (0..30_000_u64).into_par_iter().fold(HashMap::new, |mut map, x| {
                        map.insert(x, x * x);
                        map
                    });
                    let map = parts.reduce(HashMap::new, |a: HashMap<u64, u64>, b| {
                        let (mut large, small) = if a.len() < b.len() { (b, a) } else { (a, b) };
                        large.extend(small);
                        large
                    });
                    map[&777]
                });
                let text: String = words.iter().flat_map(|word| [word.as_str(), " "]).collect();
                all.add("split of a text", move || text.par_split(' ').filter(|word| !word.is_empty()).count() as u64);
                let lines = words.clone();
                all.add("word lengths", move || lines.par_iter().map(|word| word.len() as u64).sum());
                all.add("bridge of 20000", || {
                    let items = (0..20_000_u64).map(|x| x ^ 5).par_bridge();
                    items.map(|x| (0..100).fold(x, |x, _| x.wrapping_mul(31))).reduce(|| 0, u64::wrapping_add)
                });
                all.add("tasks of a scope", || {
                    let sum = std::sync::atomic::AtomicU64::new(0);
                    $library::scope(|scope| {
                        for k in 0..200_u64 {
                            let sum = &sum;
                            scope.spawn(move |_| {
                                let own = (0..2000).fold(k, |x, _| x.wrapping_mul(31) ^ 1);
                                sum.fetch_add(own, std::sync::atomic::Ordering::Relaxed);
                            });
                        }
                    });
                    sum.into_inner()
                });
                let values = few.clone();
                all.add("halves of 1000 by par_iter", move || halves(&values));
                let values = numbers(100_000);
                all.add("halves of 100000 by par_iter", move || halves(&values));
                all.add("positions and chunks", move || {
                    let sums = few.par_chunks(7).map(|chunk| chunk.iter().fold(0, |a: u64, b| a.wrapping_add(*b)));
                    digest(sums.collect::<Vec<_>>())
                });
                all.0
            }
        }
    };
}
programs!(by_rayon, rayon);
programs!(by_windrow, windrow);
