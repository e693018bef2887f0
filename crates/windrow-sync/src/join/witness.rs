//! Counts of joins by place, for a caller that wants to know which joins a recursion has.
//!
//! A join that has [fuel](super::tree) left is not told: it costs a few nanoseconds, and to count it would cost as much. The join at which the
//! fuel is used up stands for all that have burned it. Of these joins one is kept at random, with the number of all, and told after some turns.
//! The first joins of a member get no fuel, so each of them is told.

use std::cell::Cell;
use std::panic::Location;

use crate::base::unwind::quietly;
use crate::join::Place;

/// What is told of the joins in a tree.
#[derive(Clone, Copy, Debug)]
pub struct JoinWitness {
    /// Called with a place, the number of joins for which it stands, and `weight`. It may join. A panic of it is discarded.
    pub tell: fn(&'static Location<'static>, u32, f32),
    /// Given to `tell`.
    pub weight: f32,
    /// So many joins of each member are told one by one before they are sampled.
    pub singly: u32,
}

/// Joins that a member has made and not told.
#[derive(Default)]
pub(crate) struct JoinTally {
    /// The place of one of them, or of the last that was told.
    place: Cell<Place>,
    joins: Cell<u32>,
    /// How often joins were added.
    turns: Cell<u32>,
    /// How many joins are told one by one from now on.
    singly: Cell<u32>,
    /// A random number.
    random: Cell<u64>,
    /// `tell` runs. Joins that it makes are counted, and told later.
    is_telling: Cell<bool>,
}

/// Joins are told after so many turns, since telling takes longer than a turn.
///
/// Measure: count of turns.
const TURNS: u32 = 64;

impl JoinTally {
    /// Has so many joins told one by one from now on.
    pub(crate) fn tell_singly(&self, joins: u32) {
        self.singly.set(joins);
    }

    /// The fuel for about `fuel` joins: a random number of a quarter less, and none for a join that is told alone.
    pub(crate) fn less(&self, fuel: u32) -> u32 {
        if self.singly.get() > 0 { 0 } else { fuel - self.below(fuel / 4 + 1) }
    }

    /// Adds `joins`, the last of which was made at `place`, at the time `now`.
    pub(crate) fn add(&self, witness: JoinWitness, place: Place, joins: u32, now: u64) {
        self.random.set(self.random.get().wrapping_add(now));
        let all = self.joins.get().saturating_add(joins);
        self.joins.set(all);
        if self.below(all) < joins {
            self.place.set(place);
        }
        self.turns.set(self.turns.get() + 1);
        let single = self.singly.get();
        self.singly.set(single.saturating_sub(joins));
        if single > 0 || self.turns.get() >= TURNS {
            self.rest(witness, 0);
        }
    }

    /// Tells what was not told, with `joins` of unknown places.
    pub(crate) fn rest(&self, witness: JoinWitness, joins: u32) {
        self.turns.set(0);
        if self.is_telling.get() {
            return;
        }
        let joins = self.joins.take().saturating_add(joins);
        if let Some(place) = self.place.get().filter(|_| joins > 0) {
            self.is_telling.set(true);
            // The callers are joins, whose halves must run, and members that leave their tree.
            quietly(|| (witness.tell)(place, joins, witness.weight));
            self.is_telling.set(false);
        }
    }

    /// A random number below `end`.
    fn below(&self, end: u32) -> u32 {
        // A linear congruential generator (Knuth's MMIX), of which the upper bits are the better ones.
        let next = self.random.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.set(next);
        (((next >> 32) * u64::from(end)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static FIRST: AtomicU32 = AtomicU32::new(0);
    static SECOND: AtomicU32 = AtomicU32::new(0);
    static COLUMN: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn each_place_gets_its_joins() {
        let [first, second]: [&'static Location<'static>; 2] = [Location::caller(), here()];
        COLUMN.store(first.column(), Ordering::Relaxed);
        let tell = |place: &'static Location<'static>, joins: u32, _: f32| {
            let of = if place.column() == COLUMN.load(Ordering::Relaxed) { &FIRST } else { &SECOND };
            of.fetch_add(joins, Ordering::Relaxed);
        };
        let witness = JoinWitness { tell, weight: 1.0, singly: 10 };
        let told = || (FIRST.swap(0, Ordering::Relaxed), SECOND.swap(0, Ordering::Relaxed));
        let tally = JoinTally::default();
        tally.tell_singly(witness.singly);
        for _ in 0..5 {
            assert_eq!(tally.less(100), 0);
            tally.add(witness, Some(first), 1, 0);
            tally.add(witness, Some(second), 1, 0);
        }
        assert_eq!(told(), (5, 5), "one by one");
        // Three joins of the first place follow one of the second.
        let mut place = [first, first, first, second].into_iter().cycle();
        let mut all = 0;
        for _ in 0..400_000 {
            let joins = tally.less(64);
            assert!((48..=64).contains(&joins));
            tally.add(witness, place.nth(joins as usize - 1), joins, 0);
            all += joins;
        }
        tally.rest(witness, 7);
        let (one, other) = told();
        assert_eq!(one + other, all + 7);
        let part = f64::from(other) / f64::from(all);
        assert!((0.22..0.28).contains(&part), "{part}");
    }

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }
}
