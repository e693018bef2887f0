//! Indices of threads outside any pool, in items of windrow's calls.
//!
//! A caller from outside takes part in its call, and before a program has used anything but iterators, so do threads of windrow's own global
//! pool. rayon would run all items on threads of its pools. So programs expect an index in each item, and that no other thread has this index
//! meanwhile. A thread that asks for its index *leases* that of a worker of the global pool, until its call, or its part of one, ends:
//! 1. *Ask.* The thread queues a lease and calls a guest. A worker without other work answers: a worker that waits inside a task may be part of
//!    the call. Each call of an outside caller leaves one worker out, since the caller is one of its members.
//! 2. *Lend.* That worker blocks until the lease is over.
//! 3. *Give back.* While the thread waits for tasks of the pool, the worker runs tasks. When the wait is over, the thread goes on once the
//!    worker is between two tasks.
//!
//! So there are never more threads with an index than the pool has workers. One more that asks waits for the end of another's call, as its
//! items would wait for a worker in rayon. A call whose items do not ask pays for two counts in a thread-local.

use std::cell::RefCell;
use std::sync::Arc;

use windrow::hooks;
use windrow_sync::latch::Latch;
use windrow_sync::waiters::Waiters;

use crate::pool::try_global;
use crate::workers::PoolCore;

thread_local! {
    static LEASE: RefCell<Option<Arc<Lease>>> = const { RefCell::new(None) };
}

/// An index that a worker lends to a thread outside the pool.
pub(crate) struct Lease {
    core: Arc<PoolCore>,
    state: Waiters<LeaseState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LeaseState {
    /// No worker has answered.
    Asked,
    /// The thread outside uses the index.
    Lent(usize),
    /// The thread outside waits, and the worker may run tasks.
    Back(usize),
    Over,
}

impl Lease {
    fn set(&self, state: LeaseState) {
        let mut locked = self.state.lock();
        *locked = state;
        locked.wake_all();
    }

    /// The first state that is another one.
    fn wait_while(&self, is: impl Fn(LeaseState) -> bool) -> LeaseState {
        let mut state = self.state.lock();
        while is(*state) {
            (state, _) = state.wait((), None);
        }
        *state
    }

    /// Lends the index of worker `index`, which calls, until the lease is over.
    pub(crate) fn lend(&self, index: usize) {
        self.set(LeaseState::Lent(index));
        while self.wait_while(|state| matches!(state, LeaseState::Lent(_))) != LeaseState::Over {
            // The thread outside asks for the index again by `Asked`, and gets it between two tasks.
            self.core.wait_until(index, &|| *self.state.lock() == LeaseState::Asked);
            self.set(LeaseState::Lent(index));
        }
    }

    /// Runs `wait`, in which the thread outside waits for tasks of the pool. The worker may run them.
    fn give_back(&self, wait: impl FnOnce()) {
        let LeaseState::Lent(index) = *self.state.lock() else { return wait() };
        if !self.core.is_of_this_process() {
            // The worker stayed in the parent.
            return;
        }
        self.set(LeaseState::Back(index));
        wait();
        self.set(LeaseState::Asked);
        self.core.wake(index);
        self.wait_while(|state| state == LeaseState::Asked);
    }
}

/// The index of this thread, if it belongs to no pool and is inside a call of windrow. Makes the global pool.
#[cold]
pub(crate) fn index() -> Option<usize> {
    if !hooks::is_inside_call() {
        return None;
    }
    let lease = match LEASE.with_borrow(Clone::clone) {
        Some(lease) => lease,
        None => {
            let core = try_global()?.core().clone();
            if !core.is_of_this_process() || !core.has_threads() {
                return None;
            }
            let lease = Arc::new(Lease { core, state: Waiters::new(LeaseState::Asked) });
            lease.core.ask_for(lease.clone());
            lease.wait_while(|state| state == LeaseState::Asked);
            LEASE.set(Some(lease.clone()));
            hooks::when_call_ends(end);
            lease
        }
    };
    match *lease.state.lock() {
        LeaseState::Lent(index) | LeaseState::Back(index) => Some(index),
        LeaseState::Asked | LeaseState::Over => None,
    }
}

/// Ends the lease of this thread, if it has one.
fn end() {
    if let Some(lease) = LEASE.try_with(RefCell::take).ok().flatten() {
        lease.set(LeaseState::Over);
    }
}

/// Waits for tasks of a pool that this thread does not belong to, whose end rings `bell`: until `done` if this thread has leased an index, else for
/// a moment, since most waits are shorter than a park and a wake. In a forked child `done` may be false afterwards.
pub(crate) fn wait(done: &dyn Fn() -> bool, bell: &Latch) {
    let Some(lease) = LEASE.try_with(|lease| lease.borrow().clone()).ok().flatten() else {
        hooks::join_timing().settle.until(done);
        return;
    };
    lease.give_back(|| {
        while lease.core.is_of_this_process() && !done() {
            bell.wait_for(None);
        }
    });
}
