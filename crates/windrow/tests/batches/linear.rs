//! Is there an order of all operations, each between its call and its return, in which a serial object gives the same replies?
//!
//! The search of Wing and Gong (1993): whatever was called before the first return that is left may be next. Lowe's (2017) memory of
//! what was tried keeps it from going the same way twice. Since each caller's operations have an order, a place in the search is
//! how far each caller is and what the object is then.

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
    /// `None`: it was called and nobody knows whether it was run.
    pub(crate) reply: Option<R>,
    pub(crate) called: u64,
    pub(crate) returned: u64,
}

/// What each caller did, in its order. What nobody knows of must be its caller's last.
pub(crate) type History<T> = [Vec<Done<<T as Object>::Op, <T as Object>::Reply>>];

pub(crate) fn is_linearizable<T: Object>(history: &History<T>) -> bool {
    let mut tried = HashSet::new();
    let mut open = vec![(vec![0; history.len()], T::default())];
    while let Some((at, object)) = open.pop() {
        let next = || history.iter().zip(&at).enumerate().filter_map(|(who, (done, &at))| Some((who, done.get(at)?)));
        if next().all(|(_, done)| done.reply.is_none()) {
            return true;
        }
        // Who knows nothing never returns.
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

/// Adds; the reply is what was there before.
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
    /// Writes the second if it finds the first.
    Exchange(u64, u64),
}

impl Object for Register {
    type Op = Access;
    type Reply = u64;

    /// What was there before.
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

    /// Whether it was there before.
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
