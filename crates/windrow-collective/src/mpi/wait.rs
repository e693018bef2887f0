//! Waiting for MPI without keeping the processor.
//!
//! A blocking call of MPI would keep the processor. That would slow down the computing thread or, with fewer processors than ranks, the rank
//! that this one waits for. So the waiting thread tests the operation, and yields or sleeps between two tests:
//!
//! 1. It yields while shared memory would take so long; after that it sleeps.
//! 2. Over a slow link it sleeps from the beginning. The latest waits tell that the link is slow.
//!
//! # Why both
//!
//! - *Yielding alone* leaves a link idle. A yield costs up to a strip of the product (0.75 ms) on the processor of a computing thread, so the
//!   next exchange begins late. A thread that wakes up preempts the computing thread. A product of 4096 x 1024 by 1024 x 512 over
//!   1 Gbit/s took 80 ms by yielding, 78 by step 1, and 75 by sleeping from the beginning.
//! - *Sleeping alone* is wrong in shared memory: each step of a collective then waits for a timer, 28 us. Collectives of four ranks on two
//!   processors took 40 times as long.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use ::mpi::request::{LocalScope, Request};

use super::handles;

/// An operation under way, or none.
pub(super) type Pending<'a, 's, D> = Option<Request<'a, D, &'s LocalScope<'a>>>;

/// Time in which shared memory exchanges a few bytes between ranks that share processors.
const SHARED_MEMORY: Duration = Duration::from_micros(200);

/// Bytes that shared memory exchanges in a nanosecond, however busy the processors are. A link of 8 Gbit/s is as fast.
const RATE: usize = 1;

/// The shortest and the longest sleep between two tests; in between, an eighth of the time waited so far. Processor time for tests and
/// wake-ups limits one side, the buffers of the link limit the other. On two ranks with a processor each and 1 Gbit/s, 2048 x 2048 by
/// 2048 x 2048 in 16 tiles took 197 ms with 20 us at most, 167 with 50, 176 with 100, 223 with 200.
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(50)];

/// The minimum bytes of a wait that tells the rate: more than the buffers of a link pass on at once.
const LARGE: usize = 128 << 10;

/// A link is slow if so many large waits in a row were. One wait may be slow for another reason.
const ROW: u32 = 8;

/// On a slow link, one in so many waits yields as in shared memory, to find out whether the link is slow.
const PROBE: u32 = 16;

thread_local! {
    /// Large waits in a row that were slow.
    static SLOW: Cell<u32> = const { Cell::new(0) };
}

/// Tests an operation once. Returns whether it is done.
fn test<D: ?Sized>(pending: &mut Pending<'_, '_, D>) -> bool {
    let _turn = handles::turn();
    if let Some(Err(again)) = pending.take().map(Request::test) {
        *pending = Some(again);
    }
    pending.is_none()
}

/// Waits until both operations are done. They move so many bytes.
pub(super) fn both<D: ?Sized, E: ?Sized>(mut one: Pending<'_, '_, D>, mut other: Pending<'_, '_, E>, bytes: usize) {
    let began = Instant::now();
    let (slow, large) = (SLOW.get(), bytes >= LARGE);
    let fast = SHARED_MEMORY + Duration::from_nanos((bytes / RATE) as u64);
    let yields = if large && slow >= ROW && !slow.is_multiple_of(PROBE) { Duration::ZERO } else { fast };
    let mut waited = Duration::ZERO;
    while !test(&mut one) || !test(&mut other) {
        waited = began.elapsed();
        if waited < yields {
            thread::yield_now();
        } else {
            thread::sleep((waited / 8).clamp(NAPS[0], NAPS[1]));
        }
    }
    if large {
        SLOW.set(if waited < fast { 0 } else { slow.wrapping_add(1) });
    }
}
