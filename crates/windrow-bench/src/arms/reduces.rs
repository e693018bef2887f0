//! Sums of floating-point numbers, whose bits depend on the order of the additions.

use std::rc::Rc;
use std::sync::Mutex;

use super::rust_peers::inside_rayon;
use super::{Arm, CONTROL, Here, Loaded, SERIAL, Setting, outside, windrow_pool};
use crate::work::{Item, work};

/// The ways to add: serially, in windrow's fixed order, in the order in which members of a region arrive, and in rayon's order.
pub const NAMES: [&str; 5] = [SERIAL, CONTROL, "windrow", "windrow-unordered", "rayon-inside"];

/// A number between 0 and 1, with all its bits.
fn number(item: &Item) -> f64 {
    (work(*item) >> 11) as f64 / (1u64 << 53) as f64
}

/// Not inlined, so that the same instructions add the parts of an unordered sum.
#[inline(never)]
fn serial(items: &[Item]) -> f64 {
    items.iter().map(number).sum()
}

/// windrow's sum: the same bits for any number of threads.
fn deterministic(items: &[Item]) -> f64 {
    use windrow::prelude::*;
    items.par_iter().map(number).reduce(|| 0.0, |a, b| a + b)
}

/// Adds each part when it is ready. There are enough parts for balance, and few enough for a cheap lock.
fn unordered(items: &[Item]) -> f64 {
    use windrow::prelude::*;
    let total = Mutex::new(0.0);
    let parts = if items.len() < 100_000 { 16 } else { 64 };
    items.par_chunks(items.len().div_ceil(parts)).for_each(|part| {
        let sum = serial(part);
        *total.lock().expect("nothing panics with the lock") += sum;
    });
    total.into_inner().expect("nothing panics with the lock")
}

/// The bits of windrow's sum in pools of these sizes.
pub fn bits_by_threads(items: &[Item], threads: &[usize]) -> Vec<u64> {
    threads.iter().map(|&threads| windrow::Pool::new(threads).install(|| deterministic(items)).to_bits()).collect()
}

fn rayon(items: &[Item]) -> f64 {
    use rayon::prelude::*;
    items.par_iter().map(number).sum()
}

/// The items of a sum, and the sum that `arm` is compared with.
#[derive(Debug)]
pub struct Sum {
    /// The cell: its output is 1 if the sum is near enough.
    pub cell: Rc<Loaded>,
    expected: f64,
}

impl Sum {
    /// The sum over these items.
    pub fn new(items: Vec<Item>) -> Self {
        let expected = serial(&items);
        Self { cell: Rc::new(Loaded { index: 0, items, expected: vec![1], sum: [1] }), expected }
    }

    /// An arm of this name.
    ///
    /// # Panics
    /// If there is no such arm.
    pub fn arm(&self, name: &str, setting: Setting) -> Box<dyn Arm> {
        let expected = self.expected;
        let call = move |sum: fn(&[Item]) -> f64| {
            move |_, items: &[Item], out: &mut Vec<u64>| {
                out.clear();
                out.push(u64::from((sum(items) - expected).abs() <= 1e-9 * expected));
            }
        };
        match name {
            SERIAL | CONTROL => Here::arm(name, outside, call(serial)),
            "windrow" => Here::arm(name, windrow_pool(setting), call(deterministic)),
            "windrow-unordered" => Here::arm(name, windrow_pool(setting), call(unordered)),
            "rayon-inside" => Here::arm(name, inside_rayon(setting.threads), call(rayon)),
            _ => panic!("no arm is called {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{Ask, alone};

    const SETTING: Setting = Setting { threads: 2, shared: false };

    fn items() -> Vec<Item> {
        (0..3000).map(|seed| Item { seed, turns: 3 }).collect()
    }

    #[test]
    fn every_way_to_add_gives_the_sum() {
        let _alone = alone();
        let sum = Sum::new(items());
        for name in NAMES {
            let mut arm = sum.arm(name, SETTING);
            arm.load(&sum.cell);
            arm.run(Ask { calls: 2, ..Ask::default() });
        }
    }

    #[test]
    #[should_panic(expected = "another answer")]
    fn a_wrong_sum_fails() {
        let mut sum = Sum::new(items());
        sum.expected *= 1.0 + 1e-6;
        let mut arm = sum.arm("windrow", SETTING);
        arm.load(&sum.cell);
        arm.run(Ask { calls: 1, ..Ask::default() });
    }

    #[test]
    fn sums_have_the_same_bits_for_any_number_of_threads() {
        let bits = bits_by_threads(&items(), &[1, 2, 3, 7]);
        assert!(bits.iter().all(|bits| *bits == bits_by_threads(&items(), &[1])[0]), "{bits:?}");
    }
}
