//! Room in a bounded queue: how many more operations may be in flight.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// See the [module page](self).
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Tasks that wait. Some may have been dropped since: waking one that is not there costs nothing.
    tasks: Vec<Waker>,
}

/// Room for some operations, given back when dropped.
#[derive(Debug)]
pub(super) struct Taken<'r> {
    room: &'r Room,
    ops: usize,
}

impl Room {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        Room { most, state: Mutex::new(State { free: most, tasks: Vec::new() }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, state: &mut State, ops: usize) -> Option<Taken<'_>> {
        // More than there is room for in all goes when nothing else is there.
        let ops = ops.min(self.most);
        (state.free >= ops).then(|| {
            state.free -= ops;
            Taken { room: self, ops }
        })
    }

    pub(super) fn try_take(&self, ops: usize) -> Option<Taken<'_>> {
        self.take(&mut self.lock(), ops)
    }

    pub(super) fn wait(&self, ops: usize) -> Taken<'_> {
        let mut state = self.lock();
        loop {
            if let Some(taken) = self.take(&mut state, ops) {
                return taken;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn poll(&self, ops: usize, context: &mut Context<'_>) -> Poll<Taken<'_>> {
        let waker = context.waker().clone();
        let mut state = self.lock();
        match self.take(&mut state, ops) {
            Some(taken) => Poll::Ready(taken),
            None => {
                state.tasks.push(waker);
                Poll::Pending
            }
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.room.lock();
        state.free += self.ops;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.room.changed.notify_all();
        tasks.into_iter().for_each(Waker::wake);
    }
}
