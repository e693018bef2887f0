//! Room in a bounded queue: the number of operations that may still be handed in.
//!
//! A caller that finds too little room waits in [line](crate::waiters). Released room goes to the first in line, not to a newcomer. So single
//! operations do not starve a large chunk, and each wakeup lets one caller go on. A caller that is called owns its room from then on. A
//! future that is dropped leaves the line, and passes on room that it was given. The line allocates only when it gets longer than ever before.

use std::task::{Context, Poll};

use crate::base::unwind::quietly;
use crate::base::waiters::{Locked, Waiter, Waiters};

/// The bound of a queue. See the [module page](self).
#[derive(Debug)]
pub struct Capacity {
    most: usize,
    /// Free room, and the callers that wait for some.
    free: Waiters<usize, usize>,
}

/// Room for some operations, given back when dropped.
#[derive(Debug)]
pub struct Permit<'r> {
    room: &'r Capacity,
    ops: usize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.room.release(self.ops);
    }
}

/// A future's place in line, left when dropped.
#[derive(Debug)]
pub struct Waiting<'r> {
    room: &'r Capacity,
    ops: usize,
    place: u64,
}

impl Capacity {
    /// Room for `most` operations, at least 1.
    pub fn new(most: usize) -> Self {
        Capacity { most: most.max(1), free: Waiters::new(most.max(1)) }
    }

    /// Takes room from the locked state. More than all is all: a chunk larger than the bound waits for an empty queue.
    fn take(&self, free: &mut Locked<'_, usize, usize>, ops: usize) -> Option<Permit<'_>> {
        (**free >= ops && free.first().is_none()).then(|| {
            **free -= ops;
            Permit { room: self, ops }
        })
    }

    /// Room for `ops` operations, if it is free and no caller waits.
    pub fn try_take(&self, ops: usize) -> Option<Permit<'_>> {
        self.take(&mut self.free.lock(), ops.min(self.most))
    }

    /// Blocks until there is room.
    pub fn wait(&self, ops: usize) -> Permit<'_> {
        let (mut free, ops) = (self.free.lock(), ops.min(self.most));
        self.take(&mut free, ops).unwrap_or_else(|| {
            drop(free.wait(ops, None));
            Permit { room: self, ops }
        })
    }

    /// Room, or a place in line. The caller keeps that place in `waiting` from one poll to the next.
    pub fn poll<'r>(
        &'r self,
        waiting: &mut Option<Waiting<'r>>,
        ops: usize,
        context: &mut Context<'_>,
    ) -> Poll<Permit<'r>> {
        let (waiter, ops) = (Waiter::Task(context.waker().clone()), ops.min(self.most));
        let mut free = self.free.lock();
        let Some(waits) = waiting else {
            let taken = self.take(&mut free, ops);
            if taken.is_none() {
                *waiting = Some(Waiting { room: self, ops, place: free.line_up(waiter, ops) });
            }
            return taken.map_or(Poll::Pending, Poll::Ready);
        };
        let renewed = free.renew(waits.place, waiter);
        drop(free);
        if renewed.is_ok() {
            return Poll::Pending;
        }
        // The room was given.
        std::mem::forget(waiting.take());
        Poll::Ready(Permit { room: self, ops })
    }

    fn release(&self, ops: usize) {
        let mut free = self.free.lock();
        *free += ops;
        while let Some(&ops) = free.first().filter(|ops| **ops <= *free) {
            *free -= ops;
            let waiter = free.call();
            drop(free);
            // A waker is foreign code. Its panic must not reach the releasing caller, nor keep callers behind it waiting.
            quietly(|| waiter.into_iter().for_each(Waiter::wake));
            free = self.free.lock();
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // A named variable: the drop of a waker is foreign code, so it runs after the lock is released.
        let left = self.room.free.lock().leave(self.place);
        // The next caller in line may want less room.
        self.room.release(if left.is_none() { self.ops } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll<'r>(room: &'r Capacity, place: &mut Option<Waiting<'r>>, ops: usize) -> Option<Permit<'r>> {
        match room.poll(place, ops, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    /// Free room, if no caller waits.
    fn idle(room: &Capacity) -> Option<usize> {
        let free = room.free.lock();
        free.first().is_none().then_some(*free)
    }

    #[test]
    fn room_is_given_in_the_order_in_which_it_was_asked_for() {
        let room = Capacity::new(4);
        let (one, three) = (room.try_take(1).unwrap(), room.try_take(3).unwrap());
        let (mut all, mut first, mut second) = (None, None, None);
        assert!(poll(&room, &mut all, 9).is_none() && poll(&room, &mut first, 1).is_none());
        drop(one);
        assert!(poll(&room, &mut first, 1).is_none() && room.try_take(1).is_none(), "a chunk is not overtaken");
        drop(three);
        let whole = poll(&room, &mut all, 9).expect("nothing else is there");
        assert!(poll(&room, &mut second, 2).is_none());
        drop(whole);
        assert!(poll(&room, &mut second, 2).is_some() && poll(&room, &mut first, 1).is_some());
        assert_eq!(idle(&room), Some(4));
    }

    #[test]
    fn a_caller_that_leaves_the_line_passes_on_its_room() {
        let room = Capacity::new(1);
        let taken = room.try_take(1).unwrap();
        let mut places = [None, None, None];
        for place in &mut places {
            assert!(poll(&room, place, 1).is_none());
        }
        // First a waiting place leaves, then the first place, which has room.
        places[1] = None;
        drop(taken);
        places[0] = None;
        let taken = poll(&room, &mut places[2], 1).expect("it is the next");
        assert!(room.try_take(1).is_none());
        drop(taken);
        assert!(room.try_take(1).is_some());
        assert_eq!(idle(&room), Some(1));
    }

    struct Bad;

    impl std::task::Wake for Bad {
        fn wake(self: std::sync::Arc<Self>) {
            std::panic::resume_unwind(Box::new("injected"));
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_up_neither_the_line_nor_the_caller_that_gives_its_room_back() {
        let room = Capacity::new(2);
        let taken = room.try_take(2).unwrap();
        let (mut bad, mut behind) = (None, None);
        let waker = Waker::from(std::sync::Arc::new(Bad));
        assert!(room.poll(&mut bad, 1, &mut Context::from_waker(&waker)).is_pending());
        assert!(poll(&room, &mut behind, 1).is_none());
        drop(taken);
        assert_eq!(idle(&room), Some(0), "it went on to the next");
        assert!(poll(&room, &mut behind, 1).is_some() && poll(&room, &mut bad, 1).is_some());
    }

    #[test]
    fn the_caller_behind_a_large_one_goes_when_that_leaves() {
        let room = Capacity::new(2);
        let taken = room.try_take(1).unwrap();
        let (mut large, mut small) = (None, None);
        assert!(poll(&room, &mut large, 2).is_none() && poll(&room, &mut small, 1).is_none());
        large = None;
        assert!(large.is_none() && poll(&room, &mut small, 1).is_some());
        drop(taken);
        assert_eq!(idle(&room), Some(2));
    }
}
