// Loops whose parallel form has the names of the serial one, after `par_`. Compiled for the standard library, rayon and windrow: `library`.

use std::collections::HashSet;

use library::prelude::*;

use super::*;

pub(super) fn blur(data: &Data, room: &mut Room) -> u64 {
    room.pixels.par_chunks_mut(WIDTH).enumerate().for_each(|(y, row)| blur_row(&data.image, y, row));
    sample(&room.pixels, |x| x.to_bits().into())
}

pub(super) fn mandelbrot(_: &Data, room: &mut Room) -> u64 {
    let image = &mut room.numbers[..120 * 300];
    image.par_chunks_mut(300).enumerate().for_each(|(y, row)| {
        row.iter_mut().enumerate().for_each(|(x, out)| *out = escape(x, y));
    });
    sample(image, identity)
}

pub(super) fn sieve(data: &Data, _: &mut Room) -> u64 {
    (0..40).into_par_iter().map(|segment| count_primes(segment, &data.primes)).sum()
}

pub(super) fn nbody(data: &Data, _: &mut Room) -> u64 {
    let forces: Vec<[f64; 3]> = (0..data.bodies.len()).into_par_iter().map(|at| pull(&data.bodies, at)).collect();
    sample(&forces, |force| force[0].to_bits())
}

pub(super) fn matmul(data: &Data, room: &mut Room) -> u64 {
    let out = &mut room.floats[..MATRIX * MATRIX];
    out.par_chunks_mut(MATRIX).enumerate().for_each(|(row, out)| product_row(row, out, &data.floats));
    sample(out, f64::to_bits)
}

pub(super) fn collatz_max(_: &Data, _: &mut Room) -> u64 {
    (1..30_000_u64).into_par_iter().map(|n| (collatz(n), n)).max().map_or(0, |(turns, n)| turns ^ n)
}

pub(super) fn parse(data: &Data, _: &mut Room) -> u64 {
    data.text.par_lines().map(|line| line.parse::<u64>().unwrap_or(0)).sum()
}

pub(super) fn sort_cached(data: &Data, room: &mut Room) -> u64 {
    let values = &mut room.numbers[..20_000];
    values.copy_from_slice(&data.numbers[..20_000]);
    values.par_sort_by_cached_key(|x| x.to_string());
    sample(values, identity)
}

pub(super) fn sort_u(data: &Data, room: &mut Room) -> u64 {
    room.numbers.copy_from_slice(&data.numbers);
    room.numbers.par_sort_unstable();
    sample(&room.numbers, identity)
}

pub(super) fn sort_small(data: &Data, room: &mut Room) -> u64 {
    let values = &mut room.numbers[..100_000];
    values.copy_from_slice(&data.numbers[..100_000]);
    for part in values.chunks_mut(1000) {
        part.par_sort_unstable();
    }
    sample(values, identity)
}

pub(super) fn sort_sorted(_: &Data, room: &mut Room) -> u64 {
    room.sorted.par_sort();
    sample(&room.sorted, identity)
}

pub(super) fn zip3(data: &Data, room: &mut Room) -> u64 {
    let pairs = data.floats.par_iter().zip(&data.small);
    room.floats.par_iter_mut().zip(pairs).for_each(|(out, (a, b))| *out = a * *b as f64 + 1.0);
    sample(&room.floats, f64::to_bits)
}

pub(super) fn chunk_hash(data: &Data, _: &mut Room) -> u64 {
    digest(data.bytes.par_chunks(4096).map(hash).collect::<Vec<_>>())
}

pub(super) fn fib(_: &Data, _: &mut Room) -> u64 {
    fn fibonacci(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = library::join(|| fibonacci(n - 1), || fibonacci(n - 2));
        a + b
    }
    fibonacci(black_box(22))
}

pub(super) fn quick(data: &Data, room: &mut Room) -> u64 {
    fn sort(values: &mut [u64]) {
        if values.len() > 1 {
            let middle = split(values);
            let (left, right) = values.split_at_mut(middle);
            [left, &mut right[1..]].par_iter_mut().for_each(|part| sort(part));
        }
    }
    let values = &mut room.numbers[..50_000];
    values.copy_from_slice(&data.numbers[..50_000]);
    sort(values);
    sample(values, identity)
}

pub(super) fn bfs(data: &Data, _: &mut Room) -> u64 {
    let reached = unreached(&data.graph);
    let (mut frontier, mut levels) = (vec![0], Vec::new());
    while !frontier.is_empty() {
        levels.push(frontier.len() as u64);
        frontier = frontier.par_iter().flat_map_iter(|node| newly_reached(&data.graph, &reached, *node)).collect();
    }
    digest(levels)
}

pub(super) fn triangle(data: &Data, _: &mut Room) -> u64 {
    (0..600_usize).into_par_iter().map(|i| data.small[..i].iter().map(|x| x * i as u64 % 7).sum::<u64>()).sum()
}

pub(super) fn nested(data: &Data, _: &mut Room) -> u64 {
    data.rows.par_iter().map(|row| row.par_iter().map(|x| x % 7).sum::<u64>()).sum()
}

pub(super) fn bridge(data: &Data, _: &mut Room) -> u64 {
    data.prose.lines().par_bridge().map(|line| line.split(' ').count() as u64).sum()
}

pub(super) fn chars(data: &Data, _: &mut Room) -> u64 {
    data.text.par_chars().filter(|c| c.is_numeric()).count() as u64
}

pub(super) fn tostrings(data: &Data, _: &mut Room) -> u64 {
    let strings: Vec<String> = data.numbers[..20_000].par_iter().map(|n| n.to_string()).collect();
    strings.iter().step_by(100).map(|string| string.len() as u64).sum()
}

pub(super) fn filter_collect(data: &Data, _: &mut Room) -> u64 {
    let odd: Vec<u64> = data.numbers.par_iter().filter(|x| *x % 2 == 1).map(|x| x / 3).collect();
    sample(&odd, identity)
}

pub(super) fn inplace(data: &Data, room: &mut Room) -> u64 {
    room.numbers.copy_from_slice(&data.numbers);
    room.numbers.par_iter_mut().for_each(|x| *x = turned(x.wrapping_mul(31)));
    room.numbers.par_iter_mut().for_each(|x| *x = turned(x.wrapping_mul(37)));
    sample(&room.numbers, identity)
}

pub(super) fn dedup(data: &Data, _: &mut Room) -> u64 {
    data.numbers.par_iter().map(|x| x % 50_000).collect::<HashSet<u64>>().len() as u64
}

pub(super) fn c100log(data: &Data, _: &mut Room) -> u64 {
    data.floats.chunks(100).map(|part| part.par_iter().map(|x| shade(*x)).sum::<u64>()).sum()
}

pub(super) fn axpy64(data: &Data, room: &mut Room) -> u64 {
    room.floats[..10_064].copy_from_slice(&data.floats[..10_064]);
    for k in 0..10_000 {
        let (x, y) = (&data.floats[k..k + 64], &mut room.floats[k..k + 64]);
        y.par_iter_mut().zip(x).for_each(|(y, x)| *y += 0.5 * x);
    }
    sample(&room.floats[..10_000], f64::to_bits)
}

pub(super) fn lu(data: &Data, room: &mut Room) -> u64 {
    let m = &mut room.floats[..LU * LU];
    m.copy_from_slice(&data.matrix);
    for k in 0..LU {
        let (top, rest) = m.split_at_mut((k + 1) * LU);
        rest.par_chunks_mut(LU).for_each(|row| eliminate(row, &top[k * LU..], k));
    }
    sample(m, f64::to_bits)
}

pub(super) fn dp(data: &Data, room: &mut Room) -> u64 {
    let mut diagonals = [(); 3].map(|()| vec![0; EDITED + 1]);
    for d in 0..=2 * EDITED {
        let [out, last, before] = &mut diagonals;
        let (from, to) = (d.saturating_sub(EDITED), d.min(EDITED));
        let cells = out[from..=to].par_iter_mut().enumerate();
        cells.for_each(|(at, out)| *out = edit(&data.bytes, d, from + at, last, before));
        diagonals.rotate_right(1);
    }
    room.numbers[0] = diagonals[1][EDITED];
    room.numbers[0]
}

pub(super) fn strcat(data: &Data, _: &mut Room) -> u64 {
    let text: String = data.numbers[..10_000].par_iter().map(|n| format!("{n:x} ")).collect();
    sample(text.as_bytes(), u64::from)
}

pub(super) fn pos(data: &Data, _: &mut Room) -> u64 {
    let place = |k: usize| data.numbers.par_iter().position_first(|x| *x == data.numbers[10 * k]).unwrap_or(0);
    (0..250).map(|k| place(k) as u64).sum()
}

pub(super) fn unz(data: &Data, _: &mut Room) -> u64 {
    let (low, high): (Vec<u64>, Vec<u64>) = data.numbers.par_iter().map(|x| (x & 0xff, x >> 8)).unzip();
    sample(&low, identity) ^ sample(&high, identity)
}

pub(super) fn part(data: &Data, _: &mut Room) -> u64 {
    let (even, odd): (Vec<u64>, Vec<u64>) = data.numbers.par_iter().partition(|x| *x % 2 == 0);
    sample(&even, identity) ^ sample(&odd, identity)
}

pub(super) fn flat(data: &Data, _: &mut Room) -> u64 {
    data.rows.par_iter().flat_map(|row| row.par_iter()).sum()
}

pub(super) fn chain2(data: &Data, _: &mut Room) -> u64 {
    let (first, second) = data.small.split_at(100_000);
    first.par_iter().chain(second).map(|x| x ^ 5).sum()
}

pub(super) fn win(data: &Data, _: &mut Room) -> u64 {
    let most: Vec<u64> = data.small.par_windows(6).map(|window| window.iter().copied().max().unwrap_or(0)).collect();
    sample(&most, identity)
}

pub(super) fn mergesort(data: &Data, room: &mut Room) -> u64 {
    fn sort(values: &mut [u64], room: &mut [u64]) {
        if values.len() > 1 {
            let middle = values.len() / 2;
            let ((left, right), (first, second)) = (values.split_at_mut(middle), room.split_at_mut(middle));
            library::join(|| sort(left, first), || sort(right, second));
            merge(values, room);
        }
    }
    let (values, room) = (&mut room.numbers[..30_000], &mut room.more[..30_000]);
    values.copy_from_slice(&data.numbers[..30_000]);
    sort(values, room);
    sample(values, identity)
}
