//! A checker: is there an order of all operations, each between its call and its return, in which a serial object gives the same replies?
//!
//! The search of Wing and Gong (1993): any operation that was called before the first remaining return may be next. A set of visited
//! states (Lowe, 2017) prunes the search. Each caller's operations have an order. So a state of the search is the number of operations
//! done by each caller, and the state of the object.

use std::collections::HashSet;
use std::hash::Hash;

/// A serial object.
pub(crate) trait Object: Clone + Default + Eq + Hash {
    type Op: Copy;
    type Reply: Copy + PartialEq;

    fn apply(&mut self, op: Self::Op) -> Self::Reply;
}

/// One operation of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done<O, R> {
    pub(crate) op: O,
    /// `None`: the operation was called, and may have run or not.
    pub(crate) reply: Option<R>,
    pub(crate) called: u64,
    pub(crate) returned: u64,
}

/// The operations of each caller, in order. An operation without a reply must be its caller's last.
pub(crate) type History<T> = [Vec<Done<<T as Object>::Op, <T as Object>::Reply>>];

pub(crate) fn is_linearizable<T: Object>(history: &History<T>) -> bool {
    let mut tried = HashSet::new();
    let mut open = vec![(vec![0; history.len()], T::default())];
    while let Some((at, object)) = open.pop() {
        let next = || history.iter().zip(&at).enumerate().filter_map(|(who, (done, &at))| Some((who, done.get(at)?)));
        if next().all(|(_, done)| done.reply.is_none()) {
            return true;
        }
        // An operation without a reply never returns.
        let first = next().filter_map(|(_, done)| done.reply.map(|_| done.returned)).min().unwrap_or(u64::MAX);
        let ways: Vec<_> = next()
            .filter(|(_, done)| done.called < first)
            .filter_map(|(who, done)| {
                let (mut at, mut object) = (at.clone(), object.clone());
                let reply = object.apply(done.op);
                at[who] += 1;
                done.reply.is_none_or(|said| said == reply).then_some((at, object))
            })
            .collect();
        if tried.insert((at, object)) {
            open.extend(ways);
        }
    }
    false
}

/// Adds; the reply is the value before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counter(u64);

impl Object for Counter {
    type Op = u64;
    type Reply = u64;

    fn apply(&mut self, more: u64) -> u64 {
        let before = self.0;
        self.0 += more;
        before
    }
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Register(u64);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read,
    Write(u64),
    /// Writes the second value if the register holds the first.
    Exchange(u64, u64),
}

impl Object for Register {
    type Op = Access;
    type Reply = u64;

    /// Returns the value before.
    fn apply(&mut self, access: Access) -> u64 {
        let before = self.0;
        match access {
            Access::Write(new) => self.0 = new,
            Access::Exchange(old, new) if old == before => self.0 = new,
            Access::Exchange(..) | Access::Read => {}
        }
        before
    }
}

/// A set of numbers below 64.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Set(u64);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    Insert(u32),
    Remove(u32),
    Look(u32),
}

impl Object for Set {
    type Op = Change;
    type Reply = bool;

    /// Returns whether the number was in the set before.
    fn apply(&mut self, change: Change) -> bool {
        let (Change::Insert(key) | Change::Remove(key) | Change::Look(key)) = change;
        let (bit, before) = (1 << key, self.0);
        match change {
            Change::Insert(_) => self.0 |= bit,
            Change::Remove(_) => self.0 &= !bit,
            Change::Look(_) => {}
        }
        before & bit != 0
    }
}
