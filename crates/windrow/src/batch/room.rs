//! Room in a bounded queue: how many more operations may be in flight.
//!
//! Who finds none stands in line. Room that becomes free is given to the first in line, not to whoever comes by: a large chunk is not
//! starved by single operations, and one wake is paid for each that can go on. A future that is dropped leaves its place, and gives on
//! what it was given. Nothing is allocated once the line was as long as it gets.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

use super::lead::quietly;

/// See the [module page](self).
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    line: VecDeque<Place>,
    /// The number of the first place in line.
    first: u64,
    /// The number of the first who waits: whoever stands before has been given room.
    next: u64,
}

/// A place in line.
#[derive(Debug)]
enum Place {
    Waits(Who, usize),
    /// It has room and has not been back yet.
    Given,
    /// Nobody's: it is taken off the line when it is the first.
    Left,
}

#[derive(Debug)]
enum Who {
    Task(Waker),
    Thread(Thread),
}

impl Who {
    fn wake(self) {
        match self {
            Who::Task(waker) => waker.wake(),
            Who::Thread(thread) => thread.unpark(),
        }
    }
}

impl State {
    fn place(&mut self, number: u64) -> &mut Place {
        &mut self.line[(number - self.first) as usize]
    }

    fn end(&self) -> u64 {
        self.first + self.line.len() as u64
    }

    /// Takes a place off the line.
    fn leave(&mut self, number: u64) -> Place {
        let place = std::mem::replace(self.place(number), Place::Left);
        while let Some(Place::Left) = self.line.front() {
            self.line.pop_front();
            self.first += 1;
        }
        self.next = self.next.max(self.first);
        place
    }

    /// Whether anybody waits.
    fn is_wanted(&mut self) -> bool {
        while self.next < self.end() && !matches!(self.place(self.next), Place::Waits(..)) {
            self.next += 1;
        }
        self.next < self.end()
    }

    /// Gives room to the first who waits, if there is enough of it.
    fn give(&mut self) -> Option<Who> {
        if !self.is_wanted() {
            return None;
        }
        let (free, next) = (self.free, self.next);
        let place = self.place(next);
        let ops = match place {
            Place::Waits(_, ops) if *ops <= free => *ops,
            _ => return None,
        };
        let given = std::mem::replace(place, Place::Given);
        self.free -= ops;
        match given {
            Place::Waits(who, _) => Some(who),
            Place::Given | Place::Left => None,
        }
    }
}

/// Room for some operations, given back when dropped.
#[derive(Debug)]
pub(super) struct Taken<'r> {
    room: &'r Room,
    ops: usize,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.release(self.ops);
    }
}

/// A place in line, left when dropped.
#[derive(Debug)]
pub(super) struct Waiting<'r> {
    room: &'r Room,
    ops: usize,
    number: u64,
    /// The place has been left.
    is_over: bool,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = State { free: most, line: VecDeque::new(), first: 0, next: 0 };
        Room { most, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, state: &mut State, ops: usize) -> Option<Taken<'_>> {
        // More than there is room for in all goes when nothing else is there.
        let ops = ops.min(self.most);
        (state.free >= ops && !state.is_wanted()).then(|| {
            state.free -= ops;
            Taken { room: self, ops }
        })
    }

    pub(super) fn try_take(&self, ops: usize) -> Option<Taken<'_>> {
        self.take(&mut self.lock(), ops)
    }

    /// Blocks until there is room.
    pub(super) fn wait(&self, ops: usize) -> Taken<'_> {
        let mut waiting = {
            let mut state = self.lock();
            if let Some(taken) = self.take(&mut state, ops) {
                return taken;
            }
            self.line_up(&mut state, Who::Thread(thread::current()), ops)
        };
        loop {
            thread::park();
            if let Some(taken) = waiting.try_finish() {
                return taken;
            }
        }
    }

    fn line_up(&self, state: &mut State, who: Who, ops: usize) -> Waiting<'_> {
        let ops = ops.min(self.most);
        let number = state.end();
        state.line.push_back(Place::Waits(who, ops));
        Waiting { room: self, ops, number, is_over: false }
    }

    /// Room, or a place in line, which is to be kept in `waiting` from one poll to the next.
    pub(super) fn poll<'r>(
        &'r self,
        waiting: &mut Option<Waiting<'r>>,
        ops: usize,
        context: &mut Context<'_>,
    ) -> Poll<Taken<'r>> {
        let Some(place) = waiting else {
            // Another's code, and not to be run under the lock.
            let waker = context.waker().clone();
            let mut state = self.lock();
            let Some(taken) = self.take(&mut state, ops) else {
                *waiting = Some(self.line_up(&mut state, Who::Task(waker), ops));
                return Poll::Pending;
            };
            drop(state);
            return Poll::Ready(taken);
        };
        if let Some(taken) = place.try_finish() {
            *waiting = None;
            return Poll::Ready(taken);
        }
        let mut waker = Who::Task(context.waker().clone());
        let mut state = self.lock();
        match state.place(place.number) {
            Place::Waits(who, _) => std::mem::swap(who, &mut waker),
            // Given since: this waker knows best.
            _ => context.waker().wake_by_ref(),
        }
        drop(state);
        Poll::Pending
    }

    fn release(&self, ops: usize) {
        let mut state = self.lock();
        state.free += ops;
        while let Some(who) = state.give() {
            drop(state);
            // A waker is another's code. Those behind in line, and the caller that gives its room back, are to go on.
            quietly(|| who.wake());
            state = self.lock();
        }
    }
}

impl<'r> Waiting<'r> {
    /// The room, if it has been given; the place is left then.
    fn try_finish(&mut self) -> Option<Taken<'r>> {
        let mut state = self.room.lock();
        self.is_over = matches!(state.place(self.number), Place::Given);
        self.is_over.then(|| {
            state.leave(self.number);
            Taken { room: self.room, ops: self.ops }
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // (Bound, for a waker is another's code, and is to be dropped without the lock.)
        let left = self.room.lock().leave(self.number);
        // Who stands behind may want less.
        self.room.release(if matches!(left, Place::Given) { self.ops } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll<'r>(room: &'r Room, place: &mut Option<Waiting<'r>>, ops: usize) -> Option<Taken<'r>> {
        match room.poll(place, ops, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn room_is_given_in_the_order_in_which_it_was_asked_for() {
        let room = Room::new(4);
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
    fn who_leaves_the_line_gives_on_what_was_given() {
        let room = Room::new(1);
        let taken = room.try_take(1).unwrap();
        let mut places = [None, None, None];
        for place in &mut places {
            assert!(poll(&room, place, 1).is_none());
        }
        // One that waits, then the first, which has room.
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
        let room = Room::new(2);
        let taken = room.try_take(2).unwrap();
        let (mut bad, mut behind) = (None, None);
        let waker = Waker::from(std::sync::Arc::new(Bad));
        assert!(room.poll(&mut bad, 1, &mut Context::from_waker(&waker)).is_pending());
        assert!(poll(&room, &mut behind, 1).is_none());
        drop(taken);
        assert!(matches!(room.lock().place(1), Place::Given), "it went on to the next");
        assert!(poll(&room, &mut behind, 1).is_some() && poll(&room, &mut bad, 1).is_some());
    }

    #[test]
    fn who_stands_behind_a_large_one_goes_when_that_leaves() {
        let room = Room::new(2);
        let taken = room.try_take(1).unwrap();
        let (mut large, mut small) = (None, None);
        assert!(poll(&room, &mut large, 2).is_none() && poll(&room, &mut small, 1).is_none());
        large = None;
        assert!(large.is_none() && poll(&room, &mut small, 1).is_some());
        drop(taken);
        assert_eq!(room.lock().free, 2);
    }
}
