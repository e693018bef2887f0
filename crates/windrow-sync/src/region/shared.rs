#![doc = include_str!("shared.md")]

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::debug::show_as;
use crate::base::primitives::process_value;
use crate::gate::Gate;

process_value!(WORKERS: SharedWorkers);

/// What has the threads behind a shared gate. Its drop ends them.
///
/// ```
/// use std::sync::Arc;
/// use windrow_sync::gate::Gate;
/// use windrow_sync::shared::{Owner, SharedWorkers};
///
/// struct StopsGate(Arc<Gate>);
/// impl Owner for StopsGate {
///     fn end(&self) {
///         self.0.stop(); // and join the threads
///     }
/// }
/// let gate = Arc::new(Gate::new(0));
/// SharedWorkers::new(gate.clone(), 1, StopsGate(gate.clone())).end();
/// assert!(gate.is_stopped());
/// ```
pub trait Owner: Any + Send + Sync {
    /// Ends the threads, and waits until they have ended. A second call does nothing.
    fn end(&self);
}

/// See the [module page](self).
///
/// ```
/// use std::sync::Arc;
/// use windrow_sync::gate::Gate;
/// use windrow_sync::shared::{Owner, SharedWorkers};
///
/// struct NoThreads;
/// impl Owner for NoThreads {
///     fn end(&self) {}
/// }
/// assert!(SharedWorkers::existing().is_none());
/// let workers = SharedWorkers::of_process(|| SharedWorkers::new(Arc::new(Gate::new(0)), 1, NoThreads));
/// assert!(SharedWorkers::existing().is_some_and(|it| it.members() == 1));
/// assert!(workers.owner::<NoThreads>().is_some());
/// ```
pub struct SharedWorkers {
    gate: Arc<Gate>,
    members: usize,
    owner: Box<dyn Owner>,
    ending: Mutex<()>,
}

show_as!("SharedWorkers": [] SharedWorkers, |it| gate: it.gate);

impl SharedWorkers {
    /// Workers that serve `gate`, for regions of `members`, the caller included.
    pub fn new(gate: Arc<Gate>, members: usize, owner: impl Owner) -> Self {
        Self { gate, members, owner: Box::new(owner), ending: Mutex::new(()) }
    }

    /// Those of this process; `start` starts them if there are none. It may run in several threads at once: all results but one are dropped.
    pub fn of_process(start: impl FnOnce() -> Self) -> &'static Self {
        WORKERS.get(start)
    }

    /// Those of this process, if any version has started them.
    pub fn existing() -> Option<&'static Self> {
        WORKERS.peek()
    }

    /// Where regions are opened.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Members of a full region, the caller included.
    pub fn members(&self) -> usize {
        self.members
    }

    /// What has the threads, if its type is `O`: then the same version of the facade started them.
    pub fn owner<O: Owner>(&self) -> Option<&O> {
        let owner: &dyn Any = &*self.owner;
        owner.downcast_ref()
    }

    /// Ends the threads, and waits until they have ended; so do further calls at the same time.
    pub fn end(&self) {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.end();
    }
}
