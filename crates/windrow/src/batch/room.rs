//! Room in a bounded queue: the number of operations that may still be handed in.
//!
//! A caller that finds too little room waits in line. Released room goes to the first in line, not to a newcomer. So single operations do
//! not starve a large chunk, and each wakeup lets one caller go on. A future that is dropped leaves the line, and passes on room that it
//! was given. The line allocates only when it gets longer than ever before.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

use windrow_sync::fork::lock;
use windrow_sync::unwind::quietly;

/// See the [module page](self).
#[derive(Debug)]
pub(super) struct Capacity {
    most: usize,
    state: Mutex<CapacityState>,
}

#[derive(Debug)]
struct CapacityState {
    free: usize,
    line: VecDeque<QueueTicket>,
    /// The number of the first place in line.
    first: u64,
    /// The number of the first waiting caller: all before it have been given room.
    next: u64,
}

/// A place in line.
#[derive(Debug)]
enum QueueTicket {
    Waits(RoomWaiter, usize),
    /// The caller was given room, and has not run since.
    Given,
    /// The caller has left. The place is removed when it is the first in line.
    Left,
}

#[derive(Debug)]
enum RoomWaiter {
    Task(Waker),
    Thread(Thread),
}

impl RoomWaiter {
    fn wake(self) {
        match self {
            RoomWaiter::Task(waker) => waker.wake(),
            RoomWaiter::Thread(thread) => thread.unpark(),
        }
    }
}

impl CapacityState {
    fn place(&mut self, number: u64) -> &mut QueueTicket {
        &mut self.line[(number - self.first) as usize]
    }

    fn end(&self) -> u64 {
        self.first + self.line.len() as u64
    }

    /// Takes a place off the line.
    fn leave(&mut self, number: u64) -> QueueTicket {
        let place = std::mem::replace(self.place(number), QueueTicket::Left);
        while let Some(QueueTicket::Left) = self.line.front() {
            self.line.pop_front();
            self.first += 1;
        }
        self.next = self.next.max(self.first);
        place
    }

    /// Whether a caller waits.
    fn is_wanted(&mut self) -> bool {
        while self.next < self.end() && !matches!(self.place(self.next), QueueTicket::Waits(..)) {
            self.next += 1;
        }
        self.next < self.end()
    }

    /// Gives room to the first waiting caller, if enough room is free.
    fn give(&mut self) -> Option<RoomWaiter> {
        if !self.is_wanted() {
            return None;
        }
        let (free, next) = (self.free, self.next);
        let place = self.place(next);
        let ops = match place {
            QueueTicket::Waits(_, ops) if *ops <= free => *ops,
            _ => return None,
        };
        let given = std::mem::replace(place, QueueTicket::Given);
        self.free -= ops;
        match given {
            QueueTicket::Waits(waiter, _) => Some(waiter),
            QueueTicket::Given | QueueTicket::Left => None,
        }
    }
}

/// Room for some operations, given back when dropped.
#[derive(Debug)]
pub(super) struct Permit<'r> {
    room: &'r Capacity,
    ops: usize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.room.release(self.ops);
    }
}

/// A place in line, left when dropped.
#[derive(Debug)]
pub(super) struct Waiting<'r> {
    room: &'r Capacity,
    ops: usize,
    number: u64,
    /// The caller has left the line.
    is_over: bool,
}

impl Capacity {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = CapacityState { free: most, line: VecDeque::new(), first: 0, next: 0 };
        Capacity { most, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, CapacityState> {
        lock(&self.state)
    }

    fn take(&self, state: &mut CapacityState, ops: usize) -> Option<Permit<'_>> {
        // A chunk larger than the bound takes all room: it waits for an empty queue.
        let ops = ops.min(self.most);
        (state.free >= ops && !state.is_wanted()).then(|| {
            state.free -= ops;
            Permit { room: self, ops }
        })
    }

    pub(super) fn try_take(&self, ops: usize) -> Option<Permit<'_>> {
        self.take(&mut self.lock(), ops)
    }

    /// Blocks until there is room.
    pub(super) fn wait(&self, ops: usize) -> Permit<'_> {
        let mut waiting = {
            let mut state = self.lock();
            if let Some(taken) = self.take(&mut state, ops) {
                return taken;
            }
            self.line_up(&mut state, RoomWaiter::Thread(thread::current()), ops)
        };
        loop {
            thread::park();
            if let Some(taken) = waiting.try_finish() {
                return taken;
            }
        }
    }

    fn line_up(&self, state: &mut CapacityState, waiter: RoomWaiter, ops: usize) -> Waiting<'_> {
        let ops = ops.min(self.most);
        let number = state.end();
        state.line.push_back(QueueTicket::Waits(waiter, ops));
        Waiting { room: self, ops, number, is_over: false }
    }

    /// Room, or a place in line. The caller keeps that place in `waiting` from one poll to the next.
    pub(super) fn poll<'r>(
        &'r self,
        waiting: &mut Option<Waiting<'r>>,
        ops: usize,
        context: &mut Context<'_>,
    ) -> Poll<Permit<'r>> {
        let Some(place) = waiting else {
            // A waker is foreign code, so it is cloned outside of the lock.
            let waker = context.waker().clone();
            let mut state = self.lock();
            let Some(taken) = self.take(&mut state, ops) else {
                *waiting = Some(self.line_up(&mut state, RoomWaiter::Task(waker), ops));
                return Poll::Pending;
            };
            drop(state);
            return Poll::Ready(taken);
        };
        if let Some(taken) = place.try_finish() {
            *waiting = None;
            return Poll::Ready(taken);
        }
        let mut waker = RoomWaiter::Task(context.waker().clone());
        let mut state = self.lock();
        match state.place(place.number) {
            QueueTicket::Waits(waiter, _) => std::mem::swap(waiter, &mut waker),
            // Room was given meanwhile, to the old waker: wake the new one.
            _ => context.waker().wake_by_ref(),
        }
        drop(state);
        Poll::Pending
    }

    fn release(&self, ops: usize) {
        let mut state = self.lock();
        state.free += ops;
        while let Some(waiter) = state.give() {
            drop(state);
            // A waker is foreign code. Its panic must not reach the releasing caller, nor keep callers behind it waiting.
            quietly(|| waiter.wake());
            state = self.lock();
        }
    }
}

impl<'r> Waiting<'r> {
    /// The room, if it has been given; then the caller leaves the line.
    fn try_finish(&mut self) -> Option<Permit<'r>> {
        let mut state = self.room.lock();
        self.is_over = matches!(state.place(self.number), QueueTicket::Given);
        self.is_over.then(|| {
            state.leave(self.number);
            Permit { room: self.room, ops: self.ops }
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // A named variable: the drop of a waker is foreign code, so it runs after the lock is released.
        let left = self.room.lock().leave(self.number);
        // The next caller in line may want less room.
        self.room.release(if matches!(left, QueueTicket::Given) { self.ops } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<'r>(room: &'r Capacity, place: &mut Option<Waiting<'r>>, ops: usize) -> Option<Permit<'r>> {
        match room.poll(place, ops, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
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
        let state = room.lock();
        assert_eq!((state.free, state.line.len()), (4, 0));
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
        assert_eq!(room.lock().line.len(), 0);
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
        assert!(matches!(room.lock().place(1), QueueTicket::Given), "it went on to the next");
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
        assert_eq!(room.lock().free, 2);
    }
}
