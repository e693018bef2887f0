//! Blocked, right-looking decompositions as rounds. The next panel is decomposed while the other columns are updated.
//!
//! Round `k` applies the ready panel `k` to the columns right of it. The member with the first of these columns updates the next
//! panel's columns and decomposes them in the same round. So one round a panel is enough, and members do not wait for the panel as
//! long as other columns are left. This is *look-ahead* (Strazdins, "A comparison of lookahead and algorithmic blocking techniques
//! for parallel matrix factorization", 1998).
//!
//! The sequential version is the same with one member. The split of the columns among members does not change any bit of the result.

use std::fmt::Debug;

use super::kernel::{COLUMNS, WIDEST, exchange};

/// A decomposed panel, packed for its use on the columns right of it.
pub trait Panel: Debug + Send + Sync + 'static {
    /// Whether the decomposition exchanges rows.
    const EXCHANGES: bool;

    /// Room for all panels of `width` columns of a matrix of `height` rows.
    fn with_capacity(height: usize, width: usize) -> Self;

    /// Decomposes columns of `height` rows, whose diagonal begins in row `first`.
    fn decompose(&mut self, columns: &mut [f64], height: usize, first: usize);

    /// Updates columns right of the panel, the first of which is column `first` of the matrix.
    fn update(&self, columns: &mut [f64], height: usize, first: usize);

    /// The cost of a column that is `at` columns behind the panel, which has `rows` rows below its triangle.
    fn cost(at: usize, rows: usize) -> f64;

    /// For each of its columns, the row that was exchanged with its diagonal's row; empty without exchanges.
    fn pivots(&self) -> &[usize];
}

/// The cost of decomposing a panel, for each of its columns: in updates of a column of the same height. Measured for 32 and 48 columns of
/// 128 to 2048 rows (`bin decompose -- --panel`).
const PANEL: f64 = 1.5;

/// A square matrix, with the memory to decompose it in place.
#[derive(Debug)]
pub struct Blocked<P> {
    n: usize,
    /// Columns of a panel.
    width: usize,
    /// Column-major.
    matrix: Vec<f64>,
    /// The panel in use and the next one.
    panels: [P; 2],
    pivots: Vec<usize>,
}

/// The number of parts that columns are divided into.
#[derive(Clone, Copy, Debug)]
pub(super) enum Split {
    /// One for each member; the member with the next panel included.
    Members(usize),
    /// As many as there are panels of columns left, with the next panel in a separate part.
    Panels,
}

/// Columns that one member updates.
#[derive(Debug)]
pub struct Part<'a, P> {
    height: usize,
    /// The index of the first column.
    first: usize,
    columns: &'a mut [f64],
    /// The next panel, if its columns are the first of these, and its width.
    next: Option<(&'a mut P, usize)>,
}

impl<P: Panel> Part<'_, P> {
    /// Does the work of a round.
    pub fn work(mut self, panel: &P) {
        if let Some((next, width)) = self.next {
            let (own, rest) = self.columns.split_at_mut(width * self.height);
            panel.update(own, self.height, self.first);
            next.decompose(own, self.height, self.first);
            self.columns = rest;
            self.first += width;
        }
        panel.update(self.columns, self.height, self.first);
    }
}

/// Divides `count` items among `members`, by cost: item `at` costs `cost(at)`. The first member gets at least `least` of them, and has the
/// further cost `extra`.
fn shares(
    count: usize,
    least: usize,
    members: usize,
    extra: f64,
    cost: impl Fn(usize) -> f64,
) -> impl Iterator<Item = usize> {
    let (mut at, mut open) = (0, extra + (0..count).map(&cost).sum::<f64>());
    (0..members).map(move |member| {
        let start = at;
        let share = open / (members - member) as f64;
        let mut taken = if member == 0 { extra } else { 0.0 };
        let least = if member == 0 { least } else { 0 };
        // Up to the end that is nearer to the share.
        while at < count && (at < least || member + 1 == members || taken + cost(at) / 2.0 < share) {
            taken += cost(at);
            at += 1;
        }
        open -= taken;
        at - start
    })
}

/// Takes `count` columns off the front, or all that are left.
fn take<'a>(columns: &mut &'a mut [f64], count: usize, height: usize) -> &'a mut [f64] {
    let all = std::mem::take(columns);
    let (front, rest) = all.split_at_mut(all.len().min(count * height));
    *columns = rest;
    front
}

impl<P: Panel> Blocked<P> {
    /// For matrices of `n` rows and columns.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn new(n: usize) -> Self {
        // The fastest of 8, 16, 32, 48 and 64 for the sequential version (`bin decompose -- --panel`).
        Self::with_panels(n, if n <= 128 { 32 } else { 48 })
    }

    /// As [`new`](Self::new), with panels of `width` columns.
    ///
    /// # Panics
    /// If `n` is 0, or `width` is 0, above [`WIDEST`] or no multiple of [`COLUMNS`].
    pub fn with_panels(n: usize, width: usize) -> Self {
        assert!(n > 0 && (1..=WIDEST).contains(&width) && width.is_multiple_of(COLUMNS), "panels of {width} columns");
        let panels = [(); 2].map(|()| P::with_capacity(n, width));
        Self { n, width, matrix: vec![0.0; n * n], panels, pivots: Vec::with_capacity(n) }
    }

    /// Copies in the matrix to decompose, column by column.
    ///
    /// # Panics
    /// If it has another size.
    pub fn load(&mut self, matrix: &[f64]) {
        self.matrix.copy_from_slice(matrix);
    }

    /// The factors, column by column.
    pub fn matrix(&self) -> &[f64] {
        &self.matrix
    }

    /// For each row, in order, the row that it was exchanged with.
    pub fn pivots(&self) -> &[usize] {
        &self.pivots
    }

    pub(super) fn rounds(&self) -> usize {
        self.n.div_ceil(self.width) - 1
    }

    /// Decomposes the first panel.
    pub(super) fn start(&mut self) {
        self.pivots.clear();
        let columns = self.n.min(self.width);
        self.panels[0].decompose(&mut self.matrix[..columns * self.n], self.n, 0);
        self.pivots.extend_from_slice(self.panels[0].pivots());
    }

    /// Panel `round`, and the columns right of it in parts.
    pub(super) fn round(&mut self, round: usize, split: Split) -> (&P, impl Iterator<Item = Part<'_, P>>) {
        let (height, first) = (self.n, (round + 1) * self.width);
        if round > 0 {
            self.pivots.extend_from_slice(self.panels[round % 2].pivots());
        }
        let [even, odd] = &mut self.panels;
        let (panel, next) = if round.is_multiple_of(2) { (even, odd) } else { (odd, even) };
        let mut rest = &mut self.matrix[first * height..];
        let columns = height - first;
        let width = self.width.min(columns);
        let cost = move |tile: usize| P::cost(tile * COLUMNS, columns) * COLUMNS as f64;
        let (members, extra) = match split {
            Split::Members(members) => (members, PANEL * (width * columns) as f64),
            Split::Panels => (columns.div_ceil(width), 0.0),
        };
        let shares = shares(columns.div_ceil(COLUMNS), width.div_ceil(COLUMNS), members, extra, cost);
        let mut next = Some((next, width));
        let mut first = first;
        let parts = shares.map(move |tiles| {
            let columns = take(&mut rest, tiles * COLUMNS, height);
            let part = Part { height, first, next: next.take(), columns };
            first += tiles * COLUMNS;
            part
        });
        (panel, parts)
    }

    /// After the last round: the row exchanges, and in parts the panels that have not seen them.
    pub(super) fn end(&mut self, split: Split) -> (&[usize], impl Iterator<Item = Stale<'_>>) {
        let rounds = self.rounds();
        if rounds > 0 {
            self.pivots.extend_from_slice(self.panels[rounds % 2].pivots());
        }
        let (height, width) = (self.n, self.width);
        let mut rest = &mut self.matrix[..];
        let cost = move |panel: usize| (height - (panel + 1) * width) as f64;
        let mut first = 0;
        let members = match split {
            Split::Members(members) => members,
            Split::Panels => rounds,
        };
        let parts = shares(if P::EXCHANGES { rounds } else { 0 }, 0, members, 0.0, cost).map(move |panels| {
            let columns = take(&mut rest, panels * width, height);
            let part = Stale { height, width, first, columns };
            first += panels * width;
            part
        });
        (&self.pivots, parts)
    }

    /// Decomposes on one thread.
    pub fn sequential(&mut self) {
        self.start();
        for round in 0..self.rounds() {
            let (panel, parts) = self.round(round, Split::Members(1));
            parts.for_each(|part| part.work(panel));
        }
        let (pivots, parts) = self.end(Split::Members(1));
        parts.for_each(|part| part.work(pivots));
    }
}

/// Panels whose rows must be exchanged like those of later panels.
#[derive(Debug)]
pub struct Stale<'a> {
    height: usize,
    width: usize,
    /// The index of the first column.
    first: usize,
    columns: &'a mut [f64],
}

impl Stale<'_> {
    /// Exchanges the rows.
    pub fn work(self, pivots: &[usize]) {
        let mut end = self.first;
        for columns in self.columns.chunks_mut(self.width * self.height) {
            end += self.width;
            exchange(columns, self.height, end, &pivots[end..]);
        }
    }
}
