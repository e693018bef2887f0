//! Waiting for MPI without keeping the processor.

use std::thread;

use ::mpi::request::{LocalScope, Request};

use super::handles;

/// An operation under way, or none.
pub(super) type Pending<'a, 's, D> = Option<Request<'a, D, &'s LocalScope<'a>>>;

/// Tests an operation once. Returns whether it is done.
fn test<D: ?Sized>(pending: &mut Pending<'_, '_, D>) -> bool {
    let _turn = handles::turn();
    if let Some(Err(again)) = pending.take().map(Request::test) {
        *pending = Some(again);
    }
    pending.is_none()
}

/// Tests two operations and yields until both are done. A blocking call of MPI would keep the processor. That would slow down the computing
/// thread or, with fewer processors than ranks, the rank that it waits for.
pub(super) fn both<D: ?Sized, E: ?Sized>(mut one: Pending<'_, '_, D>, mut other: Pending<'_, '_, E>) {
    while !test(&mut one) || !test(&mut other) {
        thread::yield_now();
    }
}
