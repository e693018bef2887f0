//! Ranks of MPI.
//!
//! Ranks add up sums themselves, because MPI promises neither an order of a reduction nor the same bits on all ranks. Elements travel to
//! the rank that adds them up (`MPI_Alltoallv`), and sums travel to all ranks (`MPI_Allgatherv`). Each rank sends and receives as much as
//! in a ring. To MPI, elements are bytes, `bf16` and `f16` too.
//!
//! Before a collective, ranks gather what each of them called, 48 bytes a rank. That turns differing calls, refusals and leaving ranks into
//! errors of all ranks. It costs a small all-gather for every call.
//!
//! All operations are non-blocking ones: the caller tests them and yields in between.

use std::thread;

use ::mpi::Threading;
use ::mpi::collective::{CommunicatorCollectives, Root};
use ::mpi::datatype::{Partition, PartitionMut};
use ::mpi::environment::Universe;
use ::mpi::request::{self, LocalScope, Request};
use ::mpi::topology::{Communicator as _, SimpleCommunicator};
use bytemuck::{cast_slice, cast_slice_mut};

use crate::buffer::Buffer;
use crate::call::{Call, part};
use crate::post::{Post, judge};
use crate::{Communicator, Element, Error};

/// This process as a rank of `MPI_COMM_WORLD`.
///
/// Dropping it tells the other ranks and then ends MPI. The drop waits until every other rank makes its next call or is dropped. Drop it on
/// the thread that made it. If a rank is *killed*, MPI ends all processes.
pub struct World {
    rank: usize,
    size: usize,
    gone: Option<Error>,
    received: Buffer,
    summed: Buffer,
    /// Ends MPI when it is dropped.
    _universe: Universe,
}

impl World {
    /// Starts MPI.
    ///
    /// # Errors
    /// MPI was started before in this process, or does not let several threads call it one at a time.
    pub fn init() -> Result<Self, Error> {
        let Some((universe, threading)) = ::mpi::initialize_with_threading(Threading::Serialized) else {
            return Err(Error::Mpi { why: "was started before in this process".to_owned() });
        };
        if threading < Threading::Serialized {
            let why = format!("provides {threading:?}; the lanes call it from two threads, in turns");
            return Err(Error::Mpi { why });
        }
        let world = universe.world();
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let (received, summed) = (Buffer::default(), Buffer::default());
        Ok(Self { rank, size, gone: None, received, summed, _universe: universe })
    }

    /// Checks that all ranks make the same call; otherwise all get the same error.
    fn meet(&mut self, call: Coming<'_>) -> Result<(), Error> {
        if let Some(gone) = &self.gone {
            return Err(gone.clone());
        }
        let mine = call.words();
        let mut all = vec![0_u64; mine.len() * self.size];
        polite(|scope| world().immediate_all_gather_into(scope, &mine[..], &mut all[..]));
        let mut posts = Vec::with_capacity(self.size);
        for (rank, words) in all.chunks(mine.len()).enumerate() {
            posts.push(Post {
                step: 0,
                call: match words[STATE] {
                    LEAVES | PANICS => Err(Error::Left { rank, panicked: words[STATE] == PANICS }),
                    REFUSES => Err(Error::Refused { rank, why: String::new() }),
                    _ => Ok(call_of(words)),
                },
            });
        }
        // A rank that leaves ends the group, before any other verdict.
        let left = posts.iter().find(|post| matches!(post.call, Err(Error::Left { .. })));
        if let Some(Post { call: Err(gone), .. }) = left {
            self.gone = Some(gone.clone());
            return Err(gone.clone());
        }
        match judge(&posts) {
            Err(Error::Refused { rank, .. }) => {
                let mut why = match call {
                    Coming::Refuses(why) if rank == self.rank => why.as_bytes().to_vec(),
                    _ => Vec::new(),
                };
                why.resize(all[rank * mine.len() + GIVES] as usize, 0);
                broadcast(rank, &mut why);
                Err(Error::Refused { rank, why: String::from_utf8_lossy(&why).into_owned() })
            }
            judged => judged,
        }
    }

    fn call<T: Element>(&mut self, name: &'static str, gives: usize, gets: usize) -> Result<(), Error> {
        self.meet(Coming::Calls(Call { name, element: T::NAME, gives, gets, root: None }))
    }

    /// The sums of this rank's part of all ranks' contributions.
    fn sum<'a, T: Element>(&'a mut self, give: &[T]) -> &'a [T] {
        let Self { rank, size, received, summed, .. } = self;
        let len = part(give.len(), *size, *rank).len();
        let received = received.resize::<T>(len * *size);
        {
            let sent = partition::<T>(give.len(), *size);
            let bytes: &[u8] = cast_slice(give);
            let sent = Partition::new(bytes, sent.0, sent.1);
            let counts = partition::<T>(len * *size, *size);
            let mut taken = PartitionMut::new(cast_slice_mut::<T, u8>(received), counts.0, counts.1);
            polite(|scope| world().immediate_all_to_all_varcount_into(scope, &sent, &mut taken));
        }
        let summed = summed.resize::<T>(len);
        if len > 0 {
            let parts: Vec<&[T]> = received.chunks(len).collect();
            T::sum(&parts, summed);
        }
        summed
    }
}

/// Bytes that one call of MPI moves at most: MPI counts them in 32 bits.
const MOST: usize = 1 << 30;

/// The same limit in elements.
const fn most<T>() -> usize {
    MOST / size_of::<T>()
}

/// Begins an operation, then tests and yields until it is done. A blocking call of MPI would keep the processor. That would slow down the
/// computing thread or, with fewer processors than ranks, the rank that it waits for.
fn polite<'a, D: ?Sized + 'a>(begin: impl for<'s> FnOnce(&'s LocalScope<'a>) -> Request<'a, D, &'s LocalScope<'a>>) {
    request::scope(|scope| {
        let mut request = begin(scope);
        while let Err(again) = request.test() {
            request = again;
            thread::yield_now();
        }
    });
}

fn broadcast(root: usize, bytes: &mut [u8]) {
    let world = world();
    let root = world.process_at_rank(root as i32);
    polite(|scope| root.immediate_broadcast_into(scope, bytes));
}

fn world() -> SimpleCommunicator {
    SimpleCommunicator::world()
}

/// Byte counts and offsets of the parts of `len` elements. Fewer than 2^31 bytes.
fn partition<T>(len: usize, parts: usize) -> (Vec<i32>, Vec<i32>) {
    let parts = (0..parts).map(|at| part(len, parts, at));
    parts.map(|part| ((part.len() * size_of::<T>()) as i32, (part.start * size_of::<T>()) as i32)).unzip()
}

/// What a rank brings to a meeting.
#[derive(Clone, Copy)]
enum Coming<'a> {
    Calls(Call),
    Refuses(&'a str),
    Leaves { panicked: bool },
}

const NAMES: [&str; 5] = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"];
const ELEMENTS: [&str; 6] = ["", "f32", "f64", "bf16", "u64", "f16"];

// Words of a header: state, name, element, gives, gets, root + 1.
const STATE: usize = 0;
const GIVES: usize = 3;
// States other than a call.
const REFUSES: u64 = 1;
const LEAVES: u64 = 2;
const PANICS: u64 = 3;

impl Coming<'_> {
    fn words(&self) -> [u64; 6] {
        let place = |of: &[&str], name| of.iter().position(|known| *known == name).unwrap_or(0) as u64;
        match *self {
            Coming::Calls(Call { name, element, gives, gets, root }) => {
                let root = root.map_or(0, |root| root as u64 + 1);
                [0, place(&NAMES, name), place(&ELEMENTS, element), gives as u64, gets as u64, root]
            }
            Coming::Refuses(why) => [REFUSES, 0, 0, why.len() as u64, 0, 0],
            Coming::Leaves { panicked } => [if panicked { PANICS } else { LEAVES }, 0, 0, 0, 0, 0],
        }
    }
}

/// The call that the words of a header stand for.
fn call_of(words: &[u64]) -> Call {
    Call {
        name: NAMES[words[1] as usize % NAMES.len()],
        element: ELEMENTS[words[2] as usize % ELEMENTS.len()],
        gives: words[GIVES] as usize,
        gets: words[4] as usize,
        root: words[5].checked_sub(1).map(|root| root as usize),
    }
}

impl Communicator for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        self.call::<T>("all_reduce", data.len(), data.len())?;
        let size = self.size;
        for data in data.chunks_mut(most::<T>()) {
            let (counts, places) = partition::<T>(data.len(), size);
            let sums: &[u8] = cast_slice(self.sum(data));
            let mut all = PartitionMut::new(cast_slice_mut::<T, u8>(data), counts, places);
            polite(|scope| world().immediate_all_gather_varcount_into(scope, sums, &mut all));
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (each, size) = (output.len(), self.size);
        self.call::<T>("reduce_scatter", input.len(), each)?;
        let most = (most::<T>() / size).max(1);
        if each <= most {
            output.copy_from_slice(self.sum(input));
            return Ok(());
        }
        for (place, output) in output.chunks_mut(most).enumerate() {
            let strip = |rank: usize| &input[rank * each + place * most..][..output.len()];
            let strips: Vec<T> = (0..size).flat_map(strip).copied().collect();
            output.copy_from_slice(self.sum(&strips));
        }
        Ok(())
    }

    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (each, size) = (input.len(), self.size);
        self.call::<T>("all_gather", each, output.len())?;
        let most = (most::<T>() / size).max(1);
        if each <= most {
            let (given, got): (&[u8], &mut [u8]) = (cast_slice(input), cast_slice_mut(output));
            polite(|scope| world().immediate_all_gather_into(scope, given, got));
            return Ok(());
        }
        for (place, input) in input.chunks(most).enumerate() {
            let strips = self.received.resize::<T>(input.len() * size);
            let (given, got): (&[u8], &mut [u8]) = (cast_slice(input), cast_slice_mut(strips));
            polite(|scope| world().immediate_all_gather_into(scope, given, got));
            for (rank, strip) in strips.chunks(input.len()).enumerate() {
                output[rank * each + place * most..][..input.len()].copy_from_slice(strip);
            }
        }
        Ok(())
    }

    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error> {
        let len = data.len();
        let call = Call { name: "broadcast", element: T::NAME, gives: len, gets: len, root: Some(root) };
        self.meet(Coming::Calls(call))?;
        for data in data.chunks_mut(most::<T>()) {
            broadcast(root, cast_slice_mut(data));
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        // The header exchange is a barrier by itself: it ends when all ranks have called.
        self.meet(Coming::Calls(Call { name: "barrier", element: "", gives: 0, gets: 0, root: None }))
    }

    fn refuse(&mut self, why: &str) -> Error {
        match self.meet(Coming::Refuses(why)) {
            Ok(()) => Error::Refused { rank: self.rank, why: why.to_owned() },
            Err(error) => error,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.gone.is_none() {
            // It fails on all ranks, as intended.
            let _ = self.meet(Coming::Leaves { panicked: thread::panicking() });
        }
    }
}
