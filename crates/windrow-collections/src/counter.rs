//! A counter that takes its additions in batches.

use windrow::prelude::*;

/// Batches from this size on are summed in parallel: below it, the serial loop is as fast.
const LARGE: usize = 1 << 16;

/// A number. An addition returns the previous value. Additions wrap, like those of atomics.
///
/// Batching a counter does not pay by itself: an addition costs less than handing it over. An
/// [`AtomicI64`](std::sync::atomic::AtomicI64) is faster if callers submit single additions, whatever their number. The counter
/// serves to measure batching, as the smallest structure with results that depend on the order. For loops it is faster than an
/// atomic, because their chunks are already batches.
///
/// Inside of [`Batched`](windrow::batch::Batched) an operation is a number to add. A batch is consumed in place; a lone caller adds
/// at once. [`Drained`] is for comparison.
///
/// Without `Batched`, there are three ways to add:
///
/// * [`add_all`](Self::add_all): the additions are in an array, and the results go to another. Large arrays are summed in parallel, as
///   prefix sums.
/// * [`add_in_place`](Self::add_in_place), [`add_each`](Self::add_each): the additions are replaced by their results.
/// * [`add`](Self::add): a single addition.
///
/// ```
/// use windrow_collections::Counter;
///
/// let mut counter = Counter::new(10);
/// let mut before = [0; 3];
/// counter.add_all(&[1, 2, 3], &mut before);
/// assert_eq!(before, [10, 11, 13]);
/// assert_eq!(counter.get(), 16);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    value: i64,
}

impl Counter {
    /// A counter that starts at `value`.
    pub const fn new(value: i64) -> Self {
        Counter { value }
    }

    /// The current value.
    pub const fn get(&self) -> i64 {
        self.value
    }

    /// Adds a number and returns the previous value.
    #[inline]
    pub const fn add(&mut self, by: i64) -> i64 {
        let before = self.value;
        self.value = before.wrapping_add(by);
        before
    }

    /// Adds the numbers in order and stores the value before each in `before`.
    ///
    /// # Panics
    /// If `before` and `by` differ in length.
    pub fn add_all(&mut self, by: &[i64], before: &mut [i64]) {
        assert_eq!(by.len(), before.len(), "one result per addition");
        before.copy_from_slice(by);
        self.add_in_place(before);
    }

    /// Adds the numbers in order and replaces each by the value before it.
    pub fn add_in_place(&mut self, by: &mut [i64]) {
        let Some(last) = by.last().copied() else { return };
        if by.len() < LARGE {
            self.add_each(by);
        } else {
            by.par_exclusive_scan(|a, b| a.wrapping_add(*b), self.value);
            self.value = by[by.len() - 1].wrapping_add(last);
        }
    }

    /// Adds the numbers in order, wherever they are, and replaces each by the value before it.
    ///
    /// ```
    /// let mut requests = [("a", 5), ("b", 1)];
    /// let mut counter = windrow_collections::Counter::default();
    /// counter.add_each(requests.iter_mut().map(|(_, by)| by));
    /// assert_eq!(requests, [("a", 0), ("b", 5)]);
    /// ```
    #[inline]
    pub fn add_each<'a>(&mut self, by: impl IntoIterator<Item = &'a mut i64>) {
        for by in by {
            *by = self.add(*by);
        }
    }
}

/// A [`Counter`] that first drains a batch to an array, and then adds all of it. This is the plainest way to batch the operations
/// of many callers, and the slowest.
///
/// ```
/// use windrow::batch::Batched;
/// use windrow_collections::Drained;
///
/// let counter = Batched::new(Drained::default());
/// assert_eq!((counter.call(5).unwrap(), counter.call(1).unwrap()), (0, 5));
/// assert_eq!(counter.into_inner().unwrap().counter().get(), 6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Drained {
    counter: Counter,
    /// The array of a batch, reused.
    room: Vec<i64>,
}

impl Drained {
    /// Wraps a counter.
    pub const fn new(counter: Counter) -> Self {
        Drained { counter, room: Vec::new() }
    }

    /// The counter.
    pub const fn counter(&self) -> Counter {
        self.counter
    }

    /// Collects the additions, adds them in order, and returns the values before each.
    pub fn add_drained(&mut self, by: impl IntoIterator<Item = i64>) -> &[i64] {
        self.room.clear();
        self.room.extend(by);
        self.counter.add_in_place(&mut self.room);
        &self.room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers, some of which overflow.
    fn numbers(count: usize) -> Vec<i64> {
        (0..count as u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64).collect()
    }

    #[test]
    fn every_form_gives_the_same_results() {
        for count in [0, 1, 2, 1000, LARGE - 1, LARGE, LARGE + 1, 200_000] {
            let by = numbers(count);
            let mut one_by_one = Counter::new(-7);
            let expected: Vec<i64> = by.iter().map(|by| one_by_one.add(*by)).collect();
            let (mut drained, mut in_place, mut each) = (Counter::new(-7), Counter::new(-7), Counter::new(-7));
            let mut before = vec![0; count];
            drained.add_all(&by, &mut before);
            assert!(before == expected, "{count}");
            let mut places = by.clone();
            in_place.add_in_place(&mut places);
            assert!(places == expected, "{count}");
            let mut places = by.clone();
            each.add_each(&mut places);
            assert!(places == expected, "{count}");
            assert_eq!([drained, in_place, each], [one_by_one; 3]);
        }
    }

    #[test]
    fn increments_get_every_number_once() {
        let mut counter = Counter::default();
        let mut before = vec![1; 100_000];
        for batch in before.chunks_mut(4096) {
            counter.add_in_place(batch);
        }
        assert!(before.iter().copied().eq(0..100_000));
    }

    #[test]
    #[should_panic(expected = "one result per addition")]
    fn results_must_fit() {
        Counter::default().add_all(&[1, 2], &mut [0]);
    }
}
