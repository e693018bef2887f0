//! Indices of threads outside any pool, in items of the iterators that they call.
//!
//! A caller from outside takes part in its call. rayon would hand the call over, so programs expect an index in each item, and that no other
//! thread has this index meanwhile. A caller that asks for its index *leases* that of a worker, until the call ends:
//! 1. *Ask.* The caller queues a lease and calls a guest. A worker without other work answers: a worker that waits inside a task may be part of
//!    the call. Each call leaves one worker out, since the caller is one of its members.
//! 2. *Lend.* That worker blocks until the lease is over.
//! 3. *Give back.* While the caller waits for tasks of the pool, the worker runs tasks. When the wait is over, the caller goes on once the
//!    worker is between two tasks.
//!
//! A call whose items do not ask pays for two counts in a thread-local.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use windrow_sync::latch::Latch;
use windrow_sync::waiters::Waiters;

use crate::pool;
use crate::workers::PoolCore;

thread_local! {
    /// Calls of this thread outside any pool that have not ended.
    static CALLS: Cell<u32> = const { Cell::new(0) };
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
    /// The caller uses the index.
    Lent(usize),
    /// The caller waits, and the worker may run tasks.
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
            // The caller asks for the index again by `Asked`, and gets it between two tasks.
            self.core.wait_until(index, &|| *self.state.lock() == LeaseState::Asked);
            self.set(LeaseState::Lent(index));
        }
    }

    /// Runs `wait`, in which the caller waits for tasks of the pool. The worker may run them.
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

/// Listener to the calls of windrow outside any pool.
pub(crate) struct Calls;

impl windrow::hooks::OutsideCalls for Calls {
    fn begin(&self) {
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    }

    fn end(&self) {
        let is_over = CALLS.try_with(|calls| {
            calls.set(calls.get() - 1);
            calls.get() == 0
        });
        if is_over == Ok(true)
            && let Some(lease) = LEASE.try_with(RefCell::take).ok().flatten()
        {
            lease.set(LeaseState::Over);
        }
    }
}

/// The index of this thread, if it is outside any pool and inside a call on the global one.
#[cold]
pub(crate) fn index() -> Option<usize> {
    if CALLS.try_with(Cell::get).unwrap_or(0) == 0 {
        return None;
    }
    let lease = match LEASE.with_borrow(Clone::clone) {
        Some(lease) => lease,
        None => {
            let core = pool::made_global()?.core().clone();
            if !core.is_of_this_process() || !core.has_threads() {
                return None;
            }
            let lease = Arc::new(Lease { core, state: Waiters::new(LeaseState::Asked) });
            lease.core.ask_for(lease.clone());
            lease.wait_while(|state| state == LeaseState::Asked);
            LEASE.set(Some(lease.clone()));
            lease
        }
    };
    match *lease.state.lock() {
        LeaseState::Lent(index) | LeaseState::Back(index) => Some(index),
        LeaseState::Asked | LeaseState::Over => None,
    }
}

/// Waits until `done`, if this thread has leased an index: for tasks of a pool that it does not belong to, whose end rings `bell`. In a forked
/// child `done` may be false afterwards.
pub(crate) fn wait(done: &dyn Fn() -> bool, bell: &Latch) {
    let Some(lease) = LEASE.try_with(|lease| lease.borrow().clone()).ok().flatten() else { return };
    lease.give_back(|| {
        while lease.core.is_of_this_process() && !done() {
            bell.wait_for(None);
        }
    });
}
