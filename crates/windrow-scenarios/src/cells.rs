//! The loops: the number of items, their costs and their order. They are data; the arms are elsewhere.

use crate::work::{Item, Random, TurnCosts};

/// One loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopCell {
    /// `uniform/10ns/100`, `outlier/first`, `log/random/1000`.
    pub name: String,
    /// The name without the number of items.
    pub(crate) family: String,
    costs: Costs,
    /// Number of items.
    pub n: usize,
    /// Every call comes after a pause.
    pub(crate) cold: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Costs {
    /// All items cost the same, in nanoseconds.
    Uniform(f64),
    /// Items of 100 ns, and one of a thousand times that, at this share of the way.
    Outlier(f64),
    /// Log-uniform over the three decades from 10 ns to 10 us.
    Log(Order),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Random,
    Ascending,
    Descending,
}

/// Items that cost the same: name, nanoseconds, numbers of items.
type Uniform = (&'static str, f64, &'static [usize]);

const UNIFORM: [Uniform; 5] = [
    ("10ns", 1e1, &[1, 10, 100, 1_000, 10_000, 100_000, 1_000_000]),
    ("100ns", 1e2, &[1, 10, 100, 1_000, 10_000, 100_000]),
    ("1us", 1e3, &[1, 2, 10, 100, 1_000, 10_000]),
    ("10us", 1e4, &[1, 2, 10, 100, 1_000]),
    ("100us", 1e5, &[1, 2, 10, 100]),
];
/// The same in calls after a pause.
const COLD: [Uniform; 2] = [("1us", 1e3, &[1, 10, 100, 1_000, 10_000]), ("100us", 1e5, &[10, 100])];
const OUTLIERS: [(&str, f64); 3] = [("first", 0.0), ("middle", 0.5), ("last", 1.0)];
const SMALL_BESIDE_OUTLIER: usize = 512;
const ORDERS: [(&str, Order); 3] =
    [("random", Order::Random), ("ascending", Order::Ascending), ("descending", Order::Descending)];

/// All loops, always in the same order.
pub(crate) fn all() -> Vec<LoopCell> {
    let uniform = |prefix: &'static str, cold: bool| {
        move |&(name, cost, counts): &Uniform| {
            let family = format!("{prefix}/{name}");
            let of = |&n: &usize| LoopCell {
                name: format!("{family}/{n}"),
                family: family.clone(),
                costs: Costs::Uniform(cost),
                n,
                cold,
            };
            counts.iter().map(of).collect::<Vec<_>>()
        }
    };
    let outlier = |(name, at)| LoopCell {
        name: format!("outlier/{name}"),
        family: format!("outlier/{name}"),
        costs: Costs::Outlier(at),
        n: SMALL_BESIDE_OUTLIER + 1,
        cold: false,
    };
    let log = |n: usize| {
        ORDERS.map(|(name, order)| LoopCell {
            name: format!("log/{name}/{n}"),
            family: format!("log/{name}"),
            costs: Costs::Log(order),
            n,
            cold: false,
        })
    };
    let mut cells: Vec<_> = UNIFORM.iter().flat_map(uniform("uniform", false)).collect();
    cells.extend(OUTLIERS.map(outlier));
    cells.extend([1_000, 10_000].into_iter().flat_map(log));
    cells.extend(COLD.iter().flat_map(uniform("after a pause", true)));
    cells
}

/// Number of [`recorded`] loops.
pub const RECORDED: usize = 31;

/// The loops of the records `cells-*`: those of several items and a microsecond or more, back to back. The caller sets the conditions.
pub fn recorded() -> Vec<LoopCell> {
    let is_recorded = |cell: &LoopCell| !cell.cold && cell.n > 1 && cell.costs().iter().sum::<f64>() >= 1e3;
    all().into_iter().filter(is_recorded).collect()
}

impl LoopCell {
    /// The nominal cost of each item, in nanoseconds.
    pub fn costs(&self) -> Vec<f64> {
        match self.costs {
            Costs::Uniform(cost) => vec![cost; self.n],
            Costs::Outlier(at) => {
                let mut costs = vec![1e2; self.n];
                costs[((self.n - 1) as f64 * at) as usize] *= 1e3;
                costs
            }
            Costs::Log(order) => {
                // Evenly spaced, so that all orders hold the same items.
                let cost = |at: usize| 10.0 * 1000f64.powf((at as f64 + 0.5) / self.n as f64);
                let mut costs: Vec<f64> = (0..self.n).map(cost).collect();
                match order {
                    Order::Random => Random::new(self.n as u64).shuffle(&mut costs),
                    Order::Ascending => {}
                    Order::Descending => costs.reverse(),
                }
                costs
            }
        }
    }

    /// Items with these costs on the calibrated machine. No seed is 0, so no result is 0.
    pub fn items(&self, calibration: &TurnCosts) -> Vec<Item> {
        let item = |(cost, seed): (f64, u64)| Item { seed, turns: calibration.turns(cost) };
        self.costs().into_iter().zip(1..).map(item).collect()
    }

    /// The least time of `threads` threads relative to one: equal shares, or the largest item.
    pub fn bound(&self, threads: usize) -> f64 {
        let costs = self.costs();
        let total: f64 = costs.iter().sum();
        // Two items occupy at most two threads, and three items take two threads two turns. Items of varying cost fill the gaps.
        let shares = match self.costs {
            Costs::Uniform(_) => self.n.div_ceil(threads) as f64 / self.n as f64,
            _ => 1.0 / threads as f64,
        };
        shares.max(costs.into_iter().fold(0.0, f64::max) / total)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn named(name: &str) -> LoopCell {
        all().into_iter().find(|cell| cell.name == name).unwrap()
    }

    #[test]
    fn names_differ_and_records_have_their_loops() {
        let names: BTreeSet<String> = all().into_iter().map(|cell| cell.name).collect();
        assert_eq!((names.len(), recorded().len()), (all().len(), RECORDED));
        for cell in recorded() {
            let total: f64 = cell.costs().iter().sum();
            assert!((1e3..2e7).contains(&total), "{} takes {total} ns", cell.name);
        }
    }

    #[test]
    fn the_outlier_stands_where_its_name_says_and_costs_a_thousand_others() {
        for (name, at) in [("outlier/first", 0), ("outlier/middle", 256), ("outlier/last", 512)] {
            let costs = named(name).costs();
            assert_eq!((costs[at], costs.iter().sum::<f64>()), (1e5, 512.0 * 1e2 + 1e5));
        }
    }

    #[test]
    fn orders_differ_and_items_do_not() {
        let [random, ascending, descending] =
            ["random", "ascending", "descending"].map(|order| named(&format!("log/{order}/1000")).costs());
        assert!(ascending.is_sorted() && descending.iter().rev().is_sorted() && !random.is_sorted());
        let mut sorted = random.clone();
        sorted.sort_by(f64::total_cmp);
        assert_eq!(sorted, ascending);
        assert!(ascending[0] > 10.0 && ascending[0] < 10.1 && ascending[999] < 10_000.0 && ascending[999] > 9_900.0);
    }

    #[test]
    fn the_bound_is_an_equal_share_or_the_largest_item() {
        assert_eq!((named("uniform/1us/100").bound(2), named("uniform/1us/1").bound(2)), (0.5, 1.0));
        assert_eq!(named("uniform/1us/2").bound(4), 0.5);
        assert_eq!(named("outlier/last").bound(2), 1e5 / (512.0 * 1e2 + 1e5));
        assert_eq!(named("log/random/1000").bound(2), 0.5);
    }
}
