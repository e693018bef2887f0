//! A barrier that splits data, reimplemented from Sarah El Kazdadi's document (see `rounds`). Members bring their parts; the last
//! to arrive takes all of them and deals them again, with a value for all members. Waiting threads spin and then yield; waiting
//! tasks yield to their executor.
//!
//! In safe code each part changes hands through an uncontended lock.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line<T>(T);

/// A barrier for members that each bring a `P` and get an `S`.
#[derive(Debug)]
pub struct Split<P, S> {
    slots: Vec<Line<Mutex<(P, S)>>>,
    /// The leader's table, kept so that it need not allocate.
    table: Mutex<Vec<P>>,
    missing: Line<AtomicUsize>,
    turn: Line<AtomicU32>,
}

/// Number of spins before a thread yields: about a microsecond.
const LOOKS: u32 = 100;

impl<P: Default, S: Copy + Default> Split<P, S> {
    /// For `width` members.
    pub fn new(width: usize) -> Self {
        Self {
            slots: (0..width).map(|_| Line::default()).collect(),
            table: Mutex::new(Vec::with_capacity(width)),
            missing: Line(AtomicUsize::new(width)),
            turn: Line::default(),
        }
    }

    /// Brings a part. The last member to arrive runs `lead` with all parts, in the order of the members.
    fn arrive(&self, member: usize, part: P, lead: impl FnOnce(&mut [P]) -> S) -> u32 {
        // Relaxed: the turn cannot end before this member has arrived.
        let turn = self.turn.0.load(Ordering::Relaxed);
        locked(&self.slots[member].0).0 = part;
        // AcqRel, pairs with itself: the last member sees everything that the others did before they arrived.
        if self.missing.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut table = locked(&self.table);
            table.extend(self.slots.iter().map(|slot| std::mem::take(&mut locked(&slot.0).0)));
            let shared = lead(&mut table);
            self.slots.iter().zip(table.drain(..)).for_each(|(slot, part)| *locked(&slot.0) = (part, shared));
            // Relaxed: a member counts again only after it has seen the store below.
            self.missing.0.store(self.slots.len(), Ordering::Relaxed);
            // Release, pairs with the Acquire in `is_over`.
            self.turn.0.store(turn.wrapping_add(1), Ordering::Release);
        }
        turn
    }

    fn is_over(&self, turn: u32) -> bool {
        // Acquire, pairs with the Release in `arrive`.
        self.turn.0.load(Ordering::Acquire) != turn
    }

    fn take(&self, member: usize) -> (P, S) {
        let mut slot = locked(&self.slots[member].0);
        (std::mem::take(&mut slot.0), slot.1)
    }

    /// A round of a member that is a thread. Returns its new part, and the value for all.
    pub fn round(&self, member: usize, part: P, lead: impl FnOnce(&mut [P]) -> S) -> (P, S) {
        let turn = self.arrive(member, part, lead);
        let mut looks = 0;
        while !self.is_over(turn) {
            looks += 1;
            if looks < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        self.take(member)
    }

    /// A round of a member that is a task: while others are missing, it yields its thread.
    pub async fn round_of_task(&self, member: usize, part: P, lead: impl FnOnce(&mut [P]) -> S) -> (P, S) {
        let turn = self.arrive(member, part, lead);
        while !self.is_over(turn) {
            tokio::task::yield_now().await;
        }
        self.take(member)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a panic ends the program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Each member brings its number plus the round; the leader reverses the parts and returns their sum.
    fn turned(parts: &mut [usize]) -> usize {
        parts.reverse();
        parts.iter().sum()
    }

    #[test]
    fn the_last_to_arrive_deals_to_threads() {
        let split = Split::new(3);
        std::thread::scope(|scope| {
            for member in 0..3 {
                let split = &split;
                scope.spawn(move || {
                    for round in 0..100 {
                        let (part, sum) = split.round(member, member + round, turned);
                        assert_eq!((part, sum), (2 - member + round, 3 + 3 * round));
                    }
                });
            }
        });
    }

    #[test]
    fn more_tasks_than_threads_get_through() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let split = Arc::new(Split::new(5));
        let task = |member: usize| {
            let split = split.clone();
            async move {
                for round in 0..100 {
                    let (part, sum) = split.round_of_task(member, member + round, turned).await;
                    assert_eq!((part, sum), (4 - member + round, 10 + 5 * round));
                }
            }
        };
        let tasks: Vec<_> = (0..5).map(|member| runtime.spawn(task(member))).collect();
        tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    }
}
