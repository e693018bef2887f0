//! The cells: the number of items, their costs and their order. They are data; the arms and the regimes are elsewhere.

use crate::random::Random;
use crate::work::{Calibration, Item};

/// One loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// `uniform/10ns/100`, `outlier/first`, `log/random/1000`.
    pub name: String,
    shape: Shape,
    /// Number of items.
    pub n: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// All items cost the same, in nanoseconds.
    Uniform(f64),
    /// Items of 100 ns, and one item of a thousand times that, at the given place.
    Outlier(Stands),
    /// Costs log-uniform over the three decades from 10 ns to 10 us.
    Log(Order),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stands {
    First,
    Middle,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Random,
    Ascending,
    Descending,
}

const UNIFORM: [(&str, f64, &[usize]); 5] = [
    ("10ns", 1e1, &[100, 1_000, 10_000, 100_000, 1_000_000]),
    ("100ns", 1e2, &[10, 100, 1_000, 10_000, 100_000]),
    ("1us", 1e3, &[2, 10, 100, 1_000, 10_000]),
    ("10us", 1e4, &[2, 10, 100, 1_000]),
    ("100us", 1e5, &[2, 10, 100]),
];
const OUTLIERS: [(&str, Stands); 3] = [("first", Stands::First), ("middle", Stands::Middle), ("last", Stands::Last)];
const SMALL_BESIDE_OUTLIER: usize = 512;
const ORDERS: [(&str, Order); 3] =
    [("random", Order::Random), ("ascending", Order::Ascending), ("descending", Order::Descending)];

/// Number of cells.
pub const CELLS: usize = 31;

/// All cells, always in the same order.
pub fn cells() -> Vec<Cell> {
    let uniform = UNIFORM.iter().flat_map(|&(name, cost, counts)| {
        counts.iter().map(move |&n| Cell { name: format!("uniform/{name}/{n}"), shape: Shape::Uniform(cost), n })
    });
    let outliers = OUTLIERS.map(|(name, stands)| Cell {
        name: format!("outlier/{name}"),
        shape: Shape::Outlier(stands),
        n: SMALL_BESIDE_OUTLIER + 1,
    });
    let log = [1_000, 10_000].into_iter().flat_map(|n| {
        ORDERS.map(|(name, order)| Cell { name: format!("log/{name}/{n}"), shape: Shape::Log(order), n })
    });
    uniform.chain(outliers).chain(log).collect()
}

impl Cell {
    /// The nominal cost of each item, in nanoseconds.
    pub fn costs(&self) -> Vec<f64> {
        match self.shape {
            Shape::Uniform(cost) => vec![cost; self.n],
            Shape::Outlier(stands) => {
                let mut costs = vec![1e2; self.n];
                let at = match stands {
                    Stands::First => 0,
                    Stands::Middle => self.n / 2,
                    Stands::Last => self.n - 1,
                };
                costs[at] *= 1e3;
                costs
            }
            Shape::Log(order) => {
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

    /// Items with these costs on the calibrated machine.
    pub fn items(&self, calibration: &Calibration) -> Vec<Item> {
        let item = |(seed, cost): (usize, f64)| Item { seed: seed as u64, turns: calibration.turns(cost) };
        self.costs().into_iter().enumerate().map(item).collect()
    }

    /// The least time of `threads` threads, as a share of the serial time: half of the work for two threads, or the largest item.
    pub fn bound(&self, threads: usize) -> f64 {
        let costs = self.costs();
        let total: f64 = costs.iter().sum();
        // Two items occupy at most two threads, and three items take two threads two rounds. Items of varying cost fill the gaps.
        let rounds = match self.shape {
            Shape::Uniform(_) => self.n.div_ceil(threads) as f64 / self.n as f64,
            _ => 1.0 / threads as f64,
        };
        rounds.max(costs.into_iter().fold(0.0, f64::max) / total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Cell {
        cells().into_iter().find(|cell| cell.name == name).unwrap()
    }

    #[test]
    fn there_are_as_many_cells_as_the_table_says_and_their_names_differ() {
        let names: std::collections::BTreeSet<String> = cells().into_iter().map(|cell| cell.name).collect();
        assert_eq!((cells().len(), names.len()), (CELLS, CELLS));
    }

    #[test]
    fn every_cell_has_its_items_and_takes_at_most_some_milliseconds() {
        for cell in cells() {
            let costs = cell.costs();
            assert_eq!(costs.len(), cell.n, "{}", cell.name);
            let total: f64 = costs.iter().sum();
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
    fn the_bound_is_half_of_the_work_or_the_largest_item() {
        assert_eq!(named("uniform/1us/100").bound(2), 0.5);
        assert_eq!(named("uniform/1us/2").bound(4), 0.5);
        assert_eq!(named("outlier/last").bound(2), 1e5 / (512.0 * 1e2 + 1e5));
        assert_eq!(named("log/random/1000").bound(2), 0.5);
    }
}
