//! The merges of a long piece that are due: places in the order of priorities, and from left to right for each.
//!
//! A heap of all places would cost the logarithm of their number for each merge. There are far fewer priorities than places, so the heap has
//! only priorities, and a list of places for each. All places of the first priority are taken at once, as a *pass* from left to right. A merge
//! hardly ever makes a pair with a priority before its own; if it does, its pass is interrupted, and goes on later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::memory::reserve;

/// No entry.
const END: u32 = u32::MAX;

/// Places by priority.
#[derive(Default)]
pub(crate) struct Agenda {
    /// The latest entry of each priority.
    latest: Vec<u32>,
    entries: Vec<Entry>,
    /// The priorities that have entries.
    priorities: BinaryHeap<Reverse<u32>>,
    /// Passes that were interrupted, that of the first priority last.
    interrupted: Vec<Pass>,
    /// The memory of a pass.
    places: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    place: u32,
    /// The entry of the same priority that was added before.
    before: u32,
}

/// The places of one priority that were added so far, in ascending order.
pub(crate) struct Pass {
    pub(crate) priority: u32,
    places: Vec<u32>,
    /// The number of places that were taken.
    taken: usize,
}

impl Iterator for Pass {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        let place = *self.places.get(self.taken)?;
        self.taken += 1;
        Some(place)
    }
}

impl Agenda {
    /// Empties the agenda and makes space for so many entries, of priorities below `priorities`. An error is the number of bytes that could
    /// not be allocated.
    pub(crate) fn begin(&mut self, priorities: usize, entries: usize) -> Result<(), usize> {
        // The former use may have ended with an error.
        for Reverse(priority) in self.priorities.drain() {
            self.latest[priority as usize] = END;
        }
        self.interrupted.clear();
        self.entries.clear();
        // The numbers of entries take 32 bits.
        if entries >= END as usize {
            return Err(entries.saturating_mul(size_of::<Entry>()));
        }
        reserve(&mut self.entries, entries)?;
        if self.latest.len() < priorities {
            reserve(&mut self.latest, priorities)?;
            self.latest.resize(priorities, END);
        }
        Ok(())
    }

    /// Adds a place.
    #[inline(always)]
    pub(crate) fn add(&mut self, priority: u32, place: u32) {
        let latest = &mut self.latest[priority as usize];
        let before = std::mem::replace(latest, self.entries.len() as u32);
        self.entries.push(Entry { place, before });
        if before == END {
            self.priorities.push(Reverse(priority));
        }
    }

    /// The places of the first priority.
    pub(crate) fn take(&mut self) -> Result<Option<Pass>, usize> {
        let first = self.priorities.peek().map(|first| first.0);
        let mut pass = match self.interrupted.pop_if(|pass| first.is_none_or(|first| pass.priority <= first)) {
            Some(pass) if first != Some(pass.priority) => return Ok(Some(pass)),
            Some(Pass { priority, mut places, taken }) => {
                places.drain(..taken);
                Pass { priority, places, taken: 0 }
            }
            None => {
                let Some(priority) = first else { return Ok(None) };
                let mut places = std::mem::take(&mut self.places);
                places.clear();
                Pass { priority, places, taken: 0 }
            }
        };
        self.priorities.pop();
        let mut entry = std::mem::replace(&mut self.latest[pass.priority as usize], END);
        while let Some(&Entry { place, before }) = self.entries.get(entry as usize) {
            if pass.places.len() == pass.places.capacity() {
                let more = pass.places.len().max(64);
                reserve(&mut pass.places, more)?;
            }
            pass.places.push(place);
            entry = before;
        }
        pass.places.reverse();
        if !pass.places.is_sorted() {
            pass.places.sort_unstable();
        }
        Ok(Some(pass))
    }

    /// Puts a pass back, of which the rest goes on when its priority is the first again.
    pub(crate) fn interrupt(&mut self, pass: Pass) {
        self.interrupted.push(pass);
    }

    /// The pass is over.
    pub(crate) fn finish(&mut self, pass: Pass) {
        self.places = pass.places;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(agenda: &mut Agenda) -> Vec<(u32, Vec<u32>)> {
        let mut all = Vec::new();
        while let Some(mut pass) = agenda.take().unwrap() {
            all.push((pass.priority, pass.by_ref().collect()));
            agenda.finish(pass);
        }
        all
    }

    #[test]
    fn places_come_by_priority_and_from_left_to_right() {
        let mut agenda = Agenda::default();
        agenda.begin(10, 8).unwrap();
        for (priority, place) in [(3, 1), (3, 5), (0, 9), (3, 2), (9, 0), (0, 10)] {
            agenda.add(priority, place);
        }
        assert_eq!(taken(&mut agenda), [(0, vec![9, 10]), (3, vec![1, 2, 5]), (9, vec![0])]);
        assert_eq!(taken(&mut agenda), []);
    }

    #[test]
    fn an_interrupted_pass_goes_on_with_what_was_added_meanwhile() {
        let mut agenda = Agenda::default();
        agenda.begin(10, 8).unwrap();
        for (priority, place) in [(5, 1), (5, 4), (5, 6), (7, 3)] {
            agenda.add(priority, place);
        }
        let mut pass = agenda.take().unwrap().unwrap();
        assert_eq!((pass.priority, pass.next()), (5, Some(1)));
        agenda.add(2, 0);
        agenda.add(5, 5);
        agenda.interrupt(pass);
        assert_eq!(taken(&mut agenda), [(2, vec![0]), (5, vec![4, 5, 6]), (7, vec![3])]);
    }

    #[test]
    fn nothing_of_an_unfinished_use_is_left() {
        let mut agenda = Agenda::default();
        agenda.begin(10, 8).unwrap();
        (0..5).for_each(|priority| agenda.add(priority, 7));
        let pass = agenda.take().unwrap().unwrap();
        agenda.interrupt(pass);
        agenda.begin(10, 8).unwrap();
        agenda.add(1, 2);
        assert_eq!(taken(&mut agenda), [(1, vec![2])]);
    }
}
