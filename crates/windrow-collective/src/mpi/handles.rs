//! The communicators of this process's ranks, where every thread can reach them.
//!
//! A rank is used by two threads in turns: the caller's thread and the communication thread. MPI lets each thread use each handle. But the
//! crate `mpi` does not make communicators `Send`, because a handle of Open MPI is a pointer. So a rank has the number of its
//! communicator, and MPI itself keeps the communicators: as an attribute of `MPI_COMM_SELF`, which every thread can name.
//!
//! A lock covers each call of MPI. Several ranks of one process may so be used at the same time, by several threads, although MPI allows one
//! call at a time (`MPI_THREAD_SERIALIZED`). No call blocks: operations are begun and tested.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::mpi::attribute::CommAttribute;
use ::mpi::topology::{SimpleCommunicator, traits::AnyCommunicator};

/// Held during each call of MPI.
static TURN: Mutex<()> = Mutex::new(());

/// What `MPI_COMM_SELF` keeps. MPI drops it when it is finalized, before anything else.
#[derive(Default)]
struct Handles(Mutex<BTreeMap<u64, SimpleCommunicator>>);

impl Clone for Handles {
    /// A duplicate of `MPI_COMM_SELF` has no ranks.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl CommAttribute for Handles {}

/// Waits until no other thread of windrow calls MPI.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a communicator. Returns its number.
pub(super) fn keep(communicator: SimpleCommunicator) -> u64 {
    let _turn = turn();
    let mut own = SimpleCommunicator::self_comm();
    if own.get_attr::<Handles>().is_none() {
        own.set_attr(Handles::default());
    }
    let mut kept = kept(&own);
    let number = kept.last_key_value().map_or(0, |(last, _)| last + 1);
    kept.insert(number, communicator);
    number
}

/// Frees a communicator.
pub(super) fn free(number: u64) {
    let _turn = turn();
    let communicator = kept(&SimpleCommunicator::self_comm()).remove(&number);
    drop(communicator);
}

/// Calls MPI with a communicator.
pub(super) fn with<R>(number: u64, call: impl FnOnce(&SimpleCommunicator) -> R) -> R {
    let _turn = turn();
    call(&kept(&SimpleCommunicator::self_comm())[&number])
}

fn kept(own: &SimpleCommunicator) -> MutexGuard<'_, BTreeMap<u64, SimpleCommunicator>> {
    let handles = own.get_attr::<Handles>().expect("a rank keeps its communicator");
    handles.0.lock().unwrap_or_else(PoisonError::into_inner)
}
