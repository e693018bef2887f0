//! The same rounds on rayon: written the usual way, and with the parts of a team.

use rayon::prelude::*;

use super::blocked::{Blocked, Panel, Split};
use super::sweeps::{Additions, Heat, Paths, even};

impl<P: Panel> Blocked<P> {
    /// The next panel joined with the other columns, in pieces as wide as a panel.
    pub fn rayon(&mut self) {
        self.start();
        for round in 0..self.rounds() {
            let (panel, mut parts) = self.round(round, Split::Panels);
            let next = parts.next();
            let others: Vec<_> = parts.collect();
            rayon::join(
                || next.map(|part| part.work(panel)),
                || others.into_par_iter().for_each(|part| part.work(panel)),
            );
        }
        let (pivots, parts) = self.end(Split::Panels);
        parts.collect::<Vec<_>>().into_par_iter().for_each(|part| part.work(pivots));
    }

    /// As many parts as threads.
    pub fn rayon_parts(&mut self, threads: usize) {
        self.start();
        for round in 0..self.rounds() {
            let (panel, parts) = self.round(round, Split::Members(threads));
            parts.collect::<Vec<_>>().into_par_iter().for_each(|part| part.work(panel));
        }
        let (pivots, parts) = self.end(Split::Members(threads));
        parts.collect::<Vec<_>>().into_par_iter().for_each(|part| part.work(pivots));
    }
}

/// The least size of a chunk where rayon chooses: a row is enough, single numbers are not.
const FEW: usize = 1024;

impl Heat {
    /// Row by row.
    pub fn rayon(&mut self) {
        let side = self.side();
        for step in 0..self.steps() {
            let (now, mut inner) = self.step(step, even(side - 2, 1));
            let (_, rows) = inner.next().expect("one part");
            rows.par_chunks_mut(side).enumerate().for_each(|(first, row)| Self::work(side, now, (first, row)));
        }
        self.end();
    }

    /// As many parts as threads.
    pub fn rayon_parts(&mut self, threads: usize) {
        let side = self.side();
        for step in 0..self.steps() {
            let (now, bands) = self.step(step, even(side - 2, threads));
            bands.collect::<Vec<_>>().into_par_iter().for_each(|band| Self::work(side, now, band));
        }
        self.end();
    }
}

impl Paths {
    /// Row by row.
    pub fn rayon(&mut self) {
        let n = self.n();
        for via in 0..n {
            let (row, mut all) = self.round(via, even(n, 1));
            all.next().expect("one part").par_chunks_mut(n).for_each(|rows| Self::work(via, row, rows));
        }
    }

    /// As many parts as threads.
    pub fn rayon_parts(&mut self, threads: usize) {
        let n = self.n();
        for via in 0..n {
            let (row, parts) = self.round(via, even(n, threads));
            parts.collect::<Vec<_>>().into_par_iter().for_each(|rows| Self::work(via, row, rows));
        }
    }
}

impl Additions {
    /// In chunks of 1024 values.
    pub fn rayon(&mut self) {
        for at in 0..self.values().len() {
            let (head, mut all) = self.round(at, |count| even(count, 1));
            all.next().expect("one part").par_chunks_mut(FEW).for_each(|values| Self::work(head, values));
        }
    }

    /// As many parts as threads.
    pub fn rayon_parts(&mut self, threads: usize) {
        for at in 0..self.values().len() {
            let (head, parts) = self.round(at, |count| even(count, threads));
            parts.collect::<Vec<_>>().into_par_iter().for_each(|values| Self::work(head, values));
        }
    }
}
