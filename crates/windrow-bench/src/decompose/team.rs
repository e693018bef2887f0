//! The same rounds with a team of windrow, which chooses the number of members for each round.

use windrow::team::{Family, Lend, Width};

use super::blocked::{Blocked, Panel, Part, Split, Stale};
use super::sweeps::{Additions, Band, Heat, Paths, even};

/// Stands for [`Part`] with any lifetime.
#[derive(Debug)]
pub struct PartOf<P>(std::marker::PhantomData<fn(P)>);

impl<P: Panel> Family for PartOf<P> {
    type Of<'x> = Part<'x, P>;

    fn shorten<'short, 'long: 'short>(of: Part<'long, P>) -> Part<'short, P> {
        of
    }
}

impl<P: Panel> Lend for Part<'_, P> {
    type Family = PartOf<P>;
}

/// Stands for [`Stale`] with any lifetime.
#[derive(Debug)]
pub struct StaleOf;

impl Family for StaleOf {
    type Of<'x> = Stale<'x>;
    fn shorten<'short, 'long: 'short>(of: Stale<'long>) -> Stale<'short> {
        of
    }
}

impl Lend for Stale<'_> {
    type Family = StaleOf;
}

/// Every member stays in the team until the last round.
const ALL: &str = "all members take part in all rounds";

impl<P: Panel> Blocked<P> {
    /// Runs with a team of the current pool.
    pub fn team(&mut self, width: Width) {
        self.start();
        let rounds = self.rounds();
        windrow::team(self).width(width).run(|member| {
            let done = member.rounds::<&P, Part<'_, P>>(
                0..rounds,
                |it, round, deal| {
                    let (panel, parts) = it.round(round, Split::Members(deal.width()));
                    deal.parts(parts);
                    panel
                },
                |_, panel, part| part.work(panel),
            );
            done.expect(ALL);
            let done = member.rounds::<&[usize], Stale<'_>>(
                0..1,
                |it, _, deal| {
                    let (pivots, parts) = it.end(Split::Members(deal.width()));
                    deal.parts(parts);
                    pivots
                },
                |_, pivots, part| part.work(pivots),
            );
            done.expect(ALL);
        });
    }
}

impl Heat {
    /// Runs with a team of the current pool.
    pub fn team(&mut self, width: Width) {
        let (side, steps) = (self.side(), self.steps());
        windrow::team(self).width(width).run(|member| {
            let done = member.rounds::<&[f64], Band<'_>>(
                0..steps,
                |it, step, deal| {
                    let (now, bands) = it.step(step, even(side - 2, deal.width()));
                    deal.parts(bands);
                    now
                },
                |_, now, band| Self::work(side, now, band),
            );
            done.expect(ALL);
        });
        self.end();
    }
}

impl Paths {
    /// Runs with a team of the current pool.
    pub fn team(&mut self, width: Width) {
        let n = self.n();
        windrow::team(self).width(width).run(|member| {
            let done = member.rounds::<&[f64], &mut [f64]>(
                0..n,
                |it, via, deal| {
                    let (row, parts) = it.round(via, even(n, deal.width()));
                    deal.parts(parts);
                    row
                },
                Self::work,
            );
            done.expect(ALL);
        });
    }
}

impl Additions {
    /// Runs with a team of the current pool.
    pub fn team(&mut self, width: Width) {
        let n = self.values().len();
        windrow::team(self).width(width).run(|member| {
            let done = member.rounds::<f64, &mut [f64]>(
                0..n,
                |it, at, deal| {
                    let members = deal.width();
                    let (head, parts) = it.round(at, |count| even(count, members));
                    deal.parts(parts);
                    head
                },
                |_, head, values| Self::work(head, values),
            );
            done.expect(ALL);
        });
    }
}
