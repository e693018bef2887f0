//! Numerical programs whose steps depend on each other: serial, by a team's `rounds`, by `round`, and by one parallel loop of rayon a step.
//!
//! The programs: Sarah El Kazdadi's article, Jacobi's relaxation until it has converged, an LU decomposition
//! with pivots, an edit distance by anti-diagonals, and a bitonic sort. Each program cuts and does a step in one way, for all arms.

use std::ops::Range;

use windrow::team::{self, Deal, Ended, Lend, Lent, Member, split};
use windrow_scenarios::rounds::{add, input};

/// A program over its data.
pub trait Program: Clone + Send + Sized + 'static {
    /// Data shared by the members of a step.
    type Shared: Lend;
    /// Data of one member.
    type Part: Lend;
    /// Name, and its sizes.
    const SIZES: (&'static str, &'static [usize]);

    /// The input of this size.
    fn new(size: usize) -> Self;
    /// The number of steps; for a program that converges, at most.
    fn steps(&self) -> usize;
    /// The parts of a step, and what they share.
    fn split<'x>(
        &'x mut self,
        step: usize,
        deal: &mut Deal<'x, <Self::Part as Lend>::Family>,
    ) -> Lent<'x, Self::Shared>;
    /// One member's part of a step.
    fn work(step: usize, shared: Lent<'_, Self::Shared>, part: Lent<'_, Self::Part>) -> f64;
    /// All steps as one thread runs them.
    fn serial(&mut self, threads: usize);
    /// All steps, each by one parallel loop of rayon.
    fn rayon(&mut self, threads: usize);
    /// The result.
    fn answer(&self) -> &[u8];

    /// All steps, by [`Member::rounds`].
    fn rounds(&mut self, threads: usize)
    where
        for<'x> Lent<'x, Self::Shared>: Copy,
    {
        let steps = 0..self.steps();
        run(self, threads, |member| {
            let work = |step, shared: Lent<'_, Self::Shared>, part: Lent<'_, Self::Part>| {
                Self::work(step, shared, part);
            };
            member.rounds::<Self::Shared, Self::Part>(steps.clone(), Self::split, work)
        });
    }

    /// All steps, by [`Member::round`].
    fn round(&mut self, threads: usize)
    where
        for<'x> Lent<'x, Self::Shared>: Copy,
    {
        let steps = self.steps();
        run(self, threads, |member| {
            for step in 0..steps {
                let (shared, part) = member.round::<Self::Shared, Self::Part>(|data, deal| data.split(step, deal))?;
                Self::work(step, shared, part);
            }
            Ok(())
        });
    }
}

fn run<P: Program>(data: &mut P, threads: usize, member: impl Fn(&mut Member<'_, '_, P>) -> Result<(), Ended> + Sync) {
    let ended = team::team(data).width(threads).run(member);
    ended.into_iter().for_each(|ended| ended.expect("all members run all rounds"));
}

/// Multiples of an eighth between -1 and 1 (exact in sums), at random.
fn eighths(n: usize) -> impl Iterator<Item = f64> {
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1_u64), next).skip(1).take(n).map(|random| (random >> 60) as f64 / 8.0 - 0.9375)
}

/// `x[i + 1..] += x[i]`.
#[derive(Clone, Debug)]
pub struct Article(Vec<f64>);

impl Article {
    fn step(&mut self, step: usize) -> (f64, &mut [f64]) {
        let (head, tail) = self.0[step..].split_first_mut().expect("no more steps than numbers");
        (*head, tail)
    }
}

impl Program for Article {
    type Shared = f64;
    type Part = &'static mut [f64];
    const SIZES: (&'static str, &'static [usize]) = ("article", &[300, 1000, 10_000, 100_000, 400_000]);

    fn new(size: usize) -> Self {
        Self(input(size))
    }
    fn steps(&self) -> usize {
        match self.0.len() {
            n @ ..=1000 => n,
            n @ ..=10_000 => n / 2,
            n => 40_000_000 / n - 40,
        }
    }
    fn split<'x>(&'x mut self, step: usize, deal: &mut Deal<'x, <Self::Part as Lend>::Family>) -> f64 {
        let (head, tail) = self.step(step);
        deal.parts(split::lines(tail, deal.width()));
        head
    }
    fn work(_: usize, head: f64, part: &mut [f64]) -> f64 {
        add(head, part);
        0.0
    }
    fn serial(&mut self, _: usize) {
        for step in 0..self.steps() {
            let (head, tail) = self.step(step);
            add(head, tail);
        }
    }
    fn rayon(&mut self, threads: usize) {
        use rayon::prelude::*;
        for step in 0..self.steps() {
            let (head, tail) = self.step(step);
            tail.par_chunks_mut(tail.len().div_ceil(threads).max(1)).for_each(|part| add(head, part));
        }
    }
    fn answer(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Relaxation of a square grid, until no value moves by more than a tolerance.
#[derive(Clone, Debug)]
pub struct Jacobi {
    n: usize,
    grid: Vec<f64>,
    next: Vec<f64>,
}

impl Jacobi {
    const TOLERANCE: f64 = 1e-4;

    /// The mean of the four neighbours, for some rows. Returns the largest change.
    fn relax(n: usize, grid: &[f64], rows: Range<usize>, next: &mut [f64]) -> f64 {
        let mut most = 0.0_f64;
        for (row, out) in rows.zip(next.chunks_exact_mut(n)) {
            let own = &grid[row * n..][..n];
            let sides = own[..n - 2].iter().zip(&own[2..]);
            let above_and_below = grid[(row - 1) * n + 1..].iter().zip(&grid[(row + 1) * n + 1..]);
            for (((out, own), (left, right)), (above, below)) in
                out[1..n - 1].iter_mut().zip(&own[1..]).zip(sides).zip(above_and_below)
            {
                *out = ((above + below) + (left + right)) * 0.25;
                most = most.max((*out - own).abs());
            }
        }
        most
    }

    /// The grid, and the rows that change.
    fn halves(&mut self) -> (&[f64], &mut [f64]) {
        let n = self.n;
        (&self.grid, &mut self.next[n..n * (n - 1)])
    }

    fn swap(&mut self) {
        std::mem::swap(&mut self.grid, &mut self.next);
    }

    /// True if step `step` runs after one that moved values by `most`.
    fn goes_on(&mut self, step: usize, most: f64) -> bool {
        if step > 0 {
            self.swap();
        }
        step < self.steps() && (step == 0 || most > Self::TOLERANCE)
    }
}

impl Program for Jacobi {
    type Shared = (&'static [f64], usize);
    type Part = (team::Own<Range<usize>>, &'static mut [f64]);
    const SIZES: (&'static str, &'static [usize]) = ("jacobi", &[34, 66, 130, 258, 514, 1026]);

    fn new(size: usize) -> Self {
        let mut grid = vec![0.0; size * size];
        grid[..size].fill(1.0);
        Self { n: size, next: grid.clone(), grid }
    }
    fn steps(&self) -> usize {
        (20_000_000 / (self.n * self.n)).clamp(20, 3000)
    }
    fn split<'x>(&'x mut self, _: usize, deal: &mut Deal<'x, <Self::Part as Lend>::Family>) -> (&'x [f64], usize) {
        let n = self.n;
        let (grid, next) = self.halves();
        deal.parts(split::even(1..n - 1, deal.width()).zip(split::blocks(next, deal.width(), n)));
        (grid, n)
    }
    fn work(_: usize, (grid, n): (&[f64], usize), (rows, next): (Range<usize>, &mut [f64])) -> f64 {
        Self::relax(n, grid, rows, next)
    }
    fn serial(&mut self, _: usize) {
        let (mut step, mut most) = (0, 0.0);
        while self.goes_on(step, most) {
            let n = self.n;
            let (grid, next) = self.halves();
            most = Self::relax(n, grid, 1..n - 1, next);
            step += 1;
        }
    }
    fn rayon(&mut self, threads: usize) {
        use rayon::prelude::*;
        let (mut step, mut most) = (0, 0.0);
        while self.goes_on(step, most) {
            let (n, rows) = (self.n, (self.n - 2).div_ceil(threads));
            let (grid, next) = self.halves();
            let parts = next.par_chunks_mut(rows * n).enumerate();
            let relax = |(part, next): (usize, &mut [f64])| Self::relax(n, grid, part * rows + 1..n, next);
            most = parts.map(relax).reduce(|| 0.0, f64::max);
            step += 1;
        }
    }
    fn answer(&self) -> &[u8] {
        bytemuck::cast_slice(&self.grid)
    }

    fn rounds(&mut self, threads: usize) {
        run(self, threads, |member| {
            member.rounds_while::<Self::Shared, Self::Part, f64>(
                |data, step, moved| data.goes_on(step, moved.fold(0.0, f64::max)),
                Self::split,
                Self::work,
            )
        });
    }
    fn round(&mut self, threads: usize) {
        run(self, threads, |member| {
            let (mut step, mut most) = (0, 0.0);
            loop {
                let round =
                    member.round_with::<Option<Self::Shared>, Option<Self::Part>, f64>(most, |data, moved, deal| {
                        if !data.goes_on(step, moved.fold(0.0, f64::max)) {
                            deal.parts((0..deal.width()).map(|_| None));
                            return None;
                        }
                        let n = data.n;
                        let (grid, next) = data.halves();
                        let rows = split::even(1..n - 1, deal.width());
                        deal.parts(rows.zip(split::blocks(next, deal.width(), n)).map(Some));
                        Some((grid, n))
                    })?;
                let (Some(shared), Some(part)) = round else { return Ok(()) };
                most = Self::work(step, shared, part);
                step += 1;
            }
        });
    }
}

/// LU decomposition with partial pivoting, by rows.
#[derive(Clone, Debug)]
pub struct Lu {
    n: usize,
    matrix: Vec<f64>,
}

impl Lu {
    fn eliminate(step: usize, n: usize, pivot: &[f64], rows: &mut [f64]) {
        for row in rows.chunks_exact_mut(n) {
            let factor = row[step] / pivot[step];
            row[step] = factor;
            row[step + 1..].iter_mut().zip(&pivot[step + 1..]).for_each(|(own, other)| *own -= factor * other);
        }
    }

    /// Swaps the pivot's row up. Returns it, and the rows below.
    fn pivot(&mut self, step: usize) -> (&[f64], &mut [f64]) {
        let n = self.n;
        let size = |row: &usize| self.matrix[row * n + step].abs();
        let largest = (step..n).max_by(|a, b| size(a).total_cmp(&size(b))).expect("a step for each row but the last");
        let (above, below) = self.matrix.split_at_mut((step + 1) * n);
        let pivot = &mut above[step * n..];
        if largest > step {
            pivot.swap_with_slice(&mut below[(largest - step - 1) * n..][..n]);
        }
        (pivot, below)
    }
}

impl Program for Lu {
    type Shared = (&'static [f64], usize);
    type Part = &'static mut [f64];
    const SIZES: (&'static str, &'static [usize]) = ("lu", &[32, 64, 128, 256, 512, 768]);

    fn new(size: usize) -> Self {
        Self { n: size, matrix: eighths(size * size).collect() }
    }
    fn steps(&self) -> usize {
        self.n - 1
    }
    fn split<'x>(&'x mut self, step: usize, deal: &mut Deal<'x, <Self::Part as Lend>::Family>) -> (&'x [f64], usize) {
        let n = self.n;
        let (pivot, rows) = self.pivot(step);
        deal.parts(split::blocks(rows, deal.width(), n));
        (pivot, n)
    }
    fn work(step: usize, (pivot, n): (&[f64], usize), rows: &mut [f64]) -> f64 {
        Self::eliminate(step, n, pivot, rows);
        0.0
    }
    fn serial(&mut self, _: usize) {
        for step in 0..self.steps() {
            let n = self.n;
            let (pivot, rows) = self.pivot(step);
            Self::eliminate(step, n, pivot, rows);
        }
    }
    fn rayon(&mut self, threads: usize) {
        use rayon::prelude::*;
        for step in 0..self.steps() {
            let n = self.n;
            let (pivot, rows) = self.pivot(step);
            let part = (n - step - 1).div_ceil(threads) * n;
            rows.par_chunks_mut(part).for_each(|rows| Self::eliminate(step, n, pivot, rows));
        }
    }
    fn answer(&self) -> &[u8] {
        bytemuck::cast_slice(&self.matrix)
    }
}

/// Edit distance of two texts by anti-diagonals: three of them are kept.
#[derive(Clone, Debug)]
pub struct Wavefront {
    texts: [Vec<u8>; 2],
    diagonals: [Vec<u32>; 3],
}

/// The two diagonals before, and the texts.
type Before = (&'static [u32], &'static [u32], &'static [u8], &'static [u8]);

impl Wavefront {
    fn fill(step: usize, (last, one, a, b): Lent<'_, Before>, rows: Range<usize>, out: &mut [u32]) {
        for (row, out) in rows.zip(out) {
            let column = step - row;
            *out = if row == 0 || column == 0 {
                step as u32
            } else {
                let replaced = last[row - 1] + u32::from(a[row - 1] != b[column - 1]);
                replaced.min(one[row - 1].min(one[row]) + 1)
            };
        }
    }

    /// Diagonal `step`: the texts and the two diagonals before it, its rows, and itself.
    fn diagonal(&mut self, step: usize) -> (Lent<'_, Before>, Range<usize>, &mut [u32]) {
        let n = self.texts[0].len();
        let rows = step.saturating_sub(n)..step.min(n) + 1;
        let [x, y, z] = &mut self.diagonals;
        let (last, one, own) = match step % 3 {
            0 => (y, z, x),
            1 => (z, x, y),
            _ => (x, y, z),
        };
        ((last, one, &self.texts[0], &self.texts[1]), rows.clone(), &mut own[rows])
    }
}

impl Program for Wavefront {
    type Shared = Before;
    type Part = (team::Own<Range<usize>>, &'static mut [u32]);
    const SIZES: (&'static str, &'static [usize]) = ("wavefront", &[200, 500, 1000, 2000, 5000]);

    fn new(size: usize) -> Self {
        let mut letters = eighths(2 * size).map(|eighth| (eighth.to_bits() >> 50) as u8 & 3);
        let texts = [(); 2].map(|()| letters.by_ref().take(size).collect());
        Self { texts, diagonals: [(); 3].map(|()| vec![0; size + 1]) }
    }
    fn steps(&self) -> usize {
        2 * self.texts[0].len() + 1
    }
    fn split<'x>(&'x mut self, step: usize, deal: &mut Deal<'x, <Self::Part as Lend>::Family>) -> Lent<'x, Before> {
        let (before, rows, out) = self.diagonal(step);
        deal.parts(split::even((rows, out), deal.width()));
        before
    }
    fn work(step: usize, before: Lent<'_, Before>, (rows, out): (Range<usize>, &mut [u32])) -> f64 {
        Self::fill(step, before, rows, out);
        0.0
    }
    fn serial(&mut self, _: usize) {
        for step in 0..self.steps() {
            let (before, rows, out) = self.diagonal(step);
            Self::fill(step, before, rows, out);
        }
    }
    fn rayon(&mut self, threads: usize) {
        use rayon::prelude::*;
        for step in 0..self.steps() {
            let (before, rows, out) = self.diagonal(step);
            let part = out.len().div_ceil(threads);
            let fill = |(at, out)| Self::fill(step, before, rows.start + at * part..rows.end, out);
            out.par_chunks_mut(part).enumerate().for_each(fill);
        }
    }
    fn answer(&self) -> &[u8] {
        bytemuck::cast_slice(&self.diagonals[(self.steps() - 1) % 3])
    }
}

/// A bitonic sort.
#[derive(Clone, Debug)]
pub struct Bitonic(Vec<u32>);

impl Bitonic {
    /// Length of the runs that step `step` merges, and the distance of the numbers that it compares.
    fn lengths(step: usize) -> (usize, usize) {
        let (mut run, mut before) = (1, 0);
        while before + run <= step {
            before += run;
            run += 1;
        }
        (1 << run, 1 << (before + run - 1 - step))
    }

    fn compare(low: &mut [u32], high: &mut [u32], rises: bool) {
        for (low, high) in low.iter_mut().zip(high) {
            let (least, most) = ((*low).min(*high), (*low).max(*high));
            (*low, *high) = if rises { (least, most) } else { (most, least) };
        }
    }

    /// Whole blocks, from number `from` on.
    fn blocks((run, distance): (usize, usize), from: usize, numbers: &mut [u32]) {
        for (from, block) in (from..).step_by(2 * distance).zip(numbers.chunks_exact_mut(2 * distance)) {
            let (low, high) = block.split_at_mut(distance);
            Self::compare(low, high, from & run == 0);
        }
    }
}

impl Program for Bitonic {
    type Shared = ();
    /// The first number, and numbers; or, of the last run's only block, some of both halves.
    type Part = (usize, &'static mut [u32], &'static mut [u32]);
    const SIZES: (&'static str, &'static [usize]) =
        ("bitonic", &[1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]);

    fn new(size: usize) -> Self {
        let mut random = 1_u32;
        let next = |_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random.rotate_left(16)
        };
        Self((0..size).map(next).collect())
    }
    fn steps(&self) -> usize {
        let runs = self.0.len().ilog2() as usize;
        runs * (runs + 1) / 2
    }
    fn split<'x>(&'x mut self, step: usize, deal: &mut Deal<'x, <Self::Part as Lend>::Family>) {
        let ((_, distance), width) = (Self::lengths(step), deal.width());
        if 2 * distance == self.0.len() {
            deal.parts(split::even(self.0.split_at_mut(distance), width).map(|(low, high)| (0, low, high)));
            return;
        }
        let mut from = 0;
        deal.parts(split::blocks(&mut self.0[..], width, 2 * distance).map(|part| {
            from += part.len();
            (from - part.len(), part, &mut [][..])
        }));
    }
    fn work(step: usize, (): (), (from, numbers, high): (usize, &mut [u32], &mut [u32])) -> f64 {
        match high {
            [] => Self::blocks(Self::lengths(step), from, numbers),
            high => Self::compare(numbers, high, true),
        }
        0.0
    }
    fn serial(&mut self, _: usize) {
        (0..self.steps()).for_each(|step| Self::blocks(Self::lengths(step), 0, &mut self.0));
    }
    fn rayon(&mut self, threads: usize) {
        use rayon::prelude::*;
        for step in 0..self.steps() {
            let (lengths, part) = (Self::lengths(step), self.0.len() / threads);
            if 2 * lengths.1 <= part {
                let parts = self.0.par_chunks_mut(part).enumerate();
                parts.for_each(|(at, numbers)| Self::blocks(lengths, at * part, numbers));
                continue;
            }
            for (from, block) in (0..).step_by(2 * lengths.1).zip(self.0.chunks_exact_mut(2 * lengths.1)) {
                let (low, high) = block.split_at_mut(lengths.1);
                let part = lengths.1.div_ceil(threads);
                let halves = low.par_chunks_mut(part).zip(high.par_chunks_mut(part));
                halves.for_each(|(low, high)| Self::compare(low, high, from & lengths.0 == 0));
            }
        }
    }
    fn answer(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}
