//! Ranks of MPI.
//!
//! Ranks add up sums themselves, because MPI promises neither an order of a reduction nor the same bits on all ranks. Elements travel to
//! the rank that adds them up (`MPI_Alltoallv`), and sums travel to all ranks (`MPI_Allgatherv`). Each rank sends and receives as much as
//! in a ring. To MPI, elements are bytes, `bf16` and `f16` too. [`MpiRank::mpi_sums`] has MPI add up `f32` and `f64` instead.
//!
//! # Errors of all ranks
//!
//! Before a collective, ranks exchange *headers*: what each of them called, and the data if it is small. That turns differing calls,
//! refusals and leaving ranks into errors of all ranks.
//!
//! Ranks that have *announced* the same calls need no header for them. With the data of each announced call travels a *word* a rank: 0, or
//! 1 if the rank cannot make the call. Such a rank takes part in the exchange with zeros for data. All ranks then have the same words. If a
//! word is 1, all of them exchange headers, and get the error from there. So no rank waits for a call that another does not make.
//!
//! All operations are non-blocking ones: the caller tests them and yields in between.

mod handles;
mod header;
mod wait;

use std::collections::VecDeque;
use std::thread;

use ::mpi::Threading;
use ::mpi::collective::{CommunicatorCollectives, Root, SystemOperation};
use ::mpi::datatype::{Equivalence, Partition, PartitionMut};
use ::mpi::environment::{Universe, is_finalized, is_initialized, threading_support};
use ::mpi::request::{self, LocalScope, Request};
use ::mpi::topology::{Communicator as Topology, SimpleCommunicator};
use bytemuck::{cast_slice, cast_slice_mut};
use twox_hash::XxHash3_64;
use windrow_sync::machine;

use self::header::{Coming, DATA, Header, SMALL_BYTES};
use crate::buffer::Buffer;
use crate::call::{Call, part};
use crate::post::judge;
use crate::{Communicator, Element, Error};

/// This process as a rank of a communicator of MPI.
///
/// A rank has a duplicate of its communicator, so messages of windrow never meet those of the program. A process may have several ranks, of
/// several communicators.
///
/// Dropping a rank tells the others of its communicator. The drop waits until each of them makes its next call or is dropped. If a process
/// is *killed*, MPI ends all processes.
///
/// Ranks call MPI from the thread that uses them; [`Fused`](crate::Fused) does so from two threads, in turns. With
/// `MPI_THREAD_SERIALIZED`, the program must not call MPI itself during a call of windrow.
#[derive(Debug)]
pub struct MpiRank {
    /// The number of the communicator.
    handle: u64,
    rank: usize,
    size: usize,
    gone: Option<Error>,
    announced: VecDeque<Call>,
    mpi_sums: bool,
    received: Buffer,
    summed: Buffer,
    /// Ranks of this machine that may run on the same CPUs.
    sharers: usize,
    /// If windrow has started MPI: ends it when it is dropped.
    universe: Option<Ending>,
}

/// This process as a rank of `MPI_COMM_WORLD`: `World::init()`.
pub type World = MpiRank;

/// Ends MPI when it is dropped.
struct Ending(#[expect(dead_code, reason = "it is dropped")] Universe);

impl std::fmt::Debug for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ending")
    }
}

impl MpiRank {
    /// Starts MPI, and makes this process a rank of `MPI_COMM_WORLD`. Dropping the rank ends MPI: drop it last, on the thread that made it.
    ///
    /// # Errors
    /// MPI was started before in this process, or does not let several threads call it one at a time.
    pub fn init() -> Result<Self, Error> {
        let Some((universe, threading)) = ::mpi::initialize_with_threading(Threading::Serialized) else {
            let why = "was already started in this process\nhint: pass a communicator to MpiRank::duplicate_of";
            return Err(Error::Mpi { why: why.to_owned() });
        };
        serves(threading)?;
        let mut rank = Self::duplicate_of(&universe.world())?;
        rank.universe = Some(Ending(universe));
        Ok(rank)
    }

    /// Makes this process a rank of `communicator`, in a program that has started MPI. The rank has a duplicate of it (`MPI_Comm_dup`), so
    /// all processes of the communicator call this. MPI stays the program's: drop the rank before MPI ends.
    ///
    /// ```no_run
    /// use mpi::topology::{Color, Communicator};
    /// use mpi::Threading;
    /// use windrow_collective::{Fused, MpiRank};
    ///
    /// let (universe, _) = mpi::initialize_with_threading(Threading::Serialized).expect("MPI was started before");
    /// let world = universe.world();
    /// // Each row of a grid of four columns is a group.
    /// let row = world.split_by_color(Color::with_value(world.rank() / 4)).expect("each process has a color");
    /// let mut fused = Fused::new(MpiRank::duplicate_of(&row)?)?;
    /// # Ok::<(), windrow_collective::Error>(())
    /// ```
    ///
    /// # Errors
    /// MPI has not been started, has ended, or does not let several threads call it one at a time; `communicator` joins two groups.
    pub fn duplicate_of(communicator: &(impl Topology + ?Sized)) -> Result<Self, Error> {
        if !is_initialized() || is_finalized() {
            let state = if is_finalized() { "has ended" } else { "has not been started" };
            let hint = "hint: start it with MpiRank::init or mpi::initialize_with_threading";
            return Err(Error::Mpi { why: format!("{state}\n{hint}") });
        }
        serves(threading_support())?;
        if communicator.target_size() != communicator.size() {
            let why = "cannot sum over two groups: this is an inter-communicator\nhint: merge its groups";
            return Err(Error::Mpi { why: why.to_owned() });
        }
        let own = communicator.duplicate();
        let (rank, size, sharers) = (own.rank() as usize, own.size() as usize, sharers(&own));
        Ok(Self {
            handle: handles::keep(own),
            rank,
            size,
            sharers,
            gone: None,
            announced: VecDeque::new(),
            mpi_sums: false,
            received: Buffer::default(),
            summed: Buffer::default(),
            universe: None,
        })
    }

    /// Whether MPI adds up `f32` and `f64` from now on (`MPI_Allreduce`, `MPI_Reduce_scatter_block`), instead of the ranks. All ranks call
    /// this with the same argument.
    ///
    /// The order of the sums is then that of the MPI library. The same call may give other bits on another rank, with another number of ranks
    /// or with other tiles; errors stay within the same bound. MPI may use what the network offers for sums. `bf16`, `f16` and `u64`
    /// are added up in rank order as before: MPI has neither of the first two.
    ///
    /// # Errors
    /// As for [`all_reduce`](Communicator::all_reduce).
    pub fn mpi_sums(&mut self, yes: bool) -> Result<(), Error> {
        let name = if yes { "mpi_sums(true)" } else { "mpi_sums(false)" };
        self.meet(Coming::Calls(Call { name, element: "", gives: 0, gets: 0, root: None }), &[])?;
        self.mpi_sums = yes;
        Ok(())
    }

    /// Checks that all ranks make the same call; otherwise all get the same error. `data` travels along. Returns the headers of all ranks.
    fn meet(&mut self, coming: Coming<'_>, data: &[u8]) -> Result<Vec<Header>, Error> {
        if let Some(gone) = &self.gone {
            return Err(gone.clone());
        }
        if is_finalized() {
            let why = "has ended\nhint: drop each rank before MPI ends".to_owned();
            return Err(self.gone.insert(Error::Mpi { why }).clone());
        }
        self.announced.clear();
        let mut mine = coming.header();
        cast_slice_mut::<u64, u8>(&mut mine[DATA..])[..data.len()].copy_from_slice(data);
        let mut all = vec![Header::default(); self.size];
        let words = all.as_flattened_mut();
        let bytes = size_of_val(words);
        run(self.handle, bytes, |scope, communicator| communicator.immediate_all_gather_into(scope, &mine[..], words));
        let posts: Vec<_> = all.iter().enumerate().map(|(rank, words)| header::post(rank, words)).collect();
        // A rank that leaves ends the group, before any other verdict.
        let mut left = posts.iter().filter_map(|post| post.call.as_ref().err());
        if let Some(gone) = left.find(|error| matches!(error, Error::Left { .. })) {
            self.gone = Some(gone.clone());
            return Err(gone.clone());
        }
        match judge(&posts) {
            Err(Error::Refused { rank, .. }) => {
                let mut why = match coming {
                    Coming::Refuses(why) if rank == self.rank => why.as_bytes().to_vec(),
                    _ => Vec::new(),
                };
                why.resize(header::reason(&all[rank]), 0);
                self.cast(rank, &mut why);
                Err(Error::Refused { rank, why: String::from_utf8_lossy(&why).into_owned() })
            }
            judged => judged.map(|()| all),
        }
    }

    /// Begins a collective. An announced one goes on without a header.
    fn begin<T: Element>(&mut self, name: &'static str, gives: usize, gets: usize) -> Result<Turn, Error> {
        let call = Call { name, element: T::NAME, gives, gets, root: None };
        match self.announced.pop_front() {
            None => self.meet(Coming::Calls(call), &[]).map(|_| Turn { call, words: None }),
            Some(next) if next == call => Ok(Turn { call, words: Some(([0], vec![0; self.size])) }),
            Some(next) => {
                self.announced.push_front(next);
                Err(self.refuse(&format!("called {call}, but announced {next}")))
            }
        }
    }

    /// Ends the exchange of an announced collective: all ranks look whether each of them could make the call.
    fn settle(&mut self, turn: Turn) -> Result<(), Error> {
        match turn.words {
            Some((_, all)) if all.contains(&1) => self.meet(Coming::Calls(turn.call), &[]).map(drop),
            _ => Ok(()),
        }
    }

    /// Takes part in the next announced collective with zeros, and says so to the other ranks. They then exchange headers.
    fn abandon(&mut self) {
        let Some(call) = self.announced.pop_front().filter(|_| self.gone.is_none()) else { return };
        self.announced.clear();
        let mut turn = Turn { call, words: Some(([1], vec![0; self.size])) };
        match call.element {
            "f32" => self.exchange_zeros::<f32>(&mut turn),
            "f64" => self.exchange_zeros::<f64>(&mut turn),
            "bf16" => self.exchange_zeros::<half::bf16>(&mut turn),
            "f16" => self.exchange_zeros::<half::f16>(&mut turn),
            _ => self.exchange_zeros::<u64>(&mut turn),
        }
    }

    fn exchange_zeros<T: Element>(&mut self, turn: &mut Turn) {
        let Call { name, gives, gets, .. } = turn.call;
        let (give, mut get) = (vec![T::default(); gives], vec![T::default(); gets]);
        match (name, self.mpi_adds::<T>()) {
            ("all_reduce", false) | ("reduce_scatter", false) => drop(self.exchange(turn, &give)),
            ("all_reduce", true) => self.all_reduce_by_mpi(turn, &mut get),
            ("reduce_scatter", true) => self.reduce_scatter_by_mpi(turn, &give, &mut get),
            _ => self.gather(turn, &give, &mut get),
        }
    }

    /// Runs the exchange of a collective to its end, and that of the words with it. It moves so many bytes.
    fn run_turn<'a, D: ?Sized + 'a>(
        &self,
        turn: &'a mut Turn,
        bytes: usize,
        begin: impl for<'s> FnOnce(&'s LocalScope<'a>, &SimpleCommunicator) -> Request<'a, D, &'s LocalScope<'a>>,
    ) {
        request::scope(|scope| {
            let (words, request) = handles::with(self.handle, |communicator| {
                let words = turn
                    .words
                    .as_mut()
                    .map(|(mine, all)| communicator.immediate_all_gather_into(scope, &mine[..], &mut all[..]));
                (words, begin(scope, communicator))
            });
            wait::both(Some(request), words, bytes);
        });
    }

    fn cast(&self, root: usize, bytes: &mut [u8]) {
        run(self.handle, bytes.len(), |scope, communicator| {
            communicator.process_at_rank(root as i32).immediate_broadcast_into(scope, bytes)
        });
    }

    /// Gives each rank its part of all ranks' contributions.
    fn exchange<'a, T: Element>(&'a mut self, turn: &mut Turn, give: &[T]) -> &'a [T] {
        let len = part(give.len(), self.size, self.rank).len();
        let mut received = std::mem::take(&mut self.received);
        {
            let (counts, places) = partition::<T>(give.len(), self.size);
            let bytes: &[u8] = cast_slice(give);
            let sent = Partition::new(bytes, counts, places);
            let (counts, places) = partition::<T>(len * self.size, self.size);
            let taken = cast_slice_mut::<T, u8>(received.resize(len * self.size));
            let mut taken = PartitionMut::new(taken, counts, places);
            self.run_turn(turn, bytes.len(), |scope, communicator| {
                communicator.immediate_all_to_all_varcount_into(scope, &sent, &mut taken)
            });
        }
        self.received = received;
        self.received.get()
    }

    /// The sums of this rank's part of all ranks' contributions.
    fn sum<T: Element>(&mut self, mut turn: Turn, give: &[T]) -> Result<&[T], Error> {
        self.exchange(&mut turn, give);
        self.settle(turn)?;
        let len = part(give.len(), self.size, self.rank).len();
        let summed = self.summed.resize::<T>(len);
        if len > 0 {
            let parts: Vec<&[T]> = self.received.get().chunks(len).collect();
            T::sum(&parts, summed);
        }
        Ok(summed)
    }

    fn gather<T: Element>(&self, turn: &mut Turn, input: &[T], output: &mut [T]) {
        let (given, got): (&[u8], &mut [u8]) = (cast_slice(input), cast_slice_mut(output));
        self.run_turn(turn, got.len(), |scope, communicator| communicator.immediate_all_gather_into(scope, given, got));
    }

    /// Whether MPI adds up these elements.
    fn mpi_adds<T: Element>(&self) -> bool {
        self.mpi_sums && ["f32", "f64"].contains(&T::NAME)
    }

    fn all_reduce_by_mpi<T: Element>(&mut self, turn: &mut Turn, data: &mut [T]) {
        let mut given = std::mem::take(&mut self.received);
        given.resize::<T>(data.len()).copy_from_slice(data);
        match T::NAME {
            "f32" => self.reduce::<f32>(turn, given.get(), cast_slice_mut(data)),
            _ => self.reduce::<f64>(turn, given.get(), cast_slice_mut(data)),
        }
        self.received = given;
    }

    fn reduce<T: Equivalence>(&self, turn: &mut Turn, given: &[T], sums: &mut [T]) {
        self.run_turn(turn, 2 * size_of_val(given), |scope, communicator| {
            communicator.immediate_all_reduce_into(scope, given, sums, SystemOperation::sum())
        });
    }

    fn reduce_scatter_by_mpi<T: Element>(&self, turn: &mut Turn, input: &[T], output: &mut [T]) {
        match T::NAME {
            "f32" => self.reduce_blocks::<f32>(turn, cast_slice(input), cast_slice_mut(output)),
            _ => self.reduce_blocks::<f64>(turn, cast_slice(input), cast_slice_mut(output)),
        }
    }

    fn reduce_blocks<T: Equivalence>(&self, turn: &mut Turn, input: &[T], output: &mut [T]) {
        self.run_turn(turn, size_of_val(input), |scope, communicator| {
            communicator.immediate_reduce_scatter_block_into(scope, input, output, SystemOperation::sum())
        });
    }

    /// Makes a call that was not announced.
    fn call(&mut self, call: Call, data: &[u8]) -> Result<Vec<Header>, Error> {
        match self.announced.front() {
            None => self.meet(Coming::Calls(call), data),
            Some(next) => {
                let why = format!("called {call}, but announced {next}");
                Err(self.refuse(&why))
            }
        }
    }
}

/// A collective under way.
struct Turn {
    call: Call,
    /// If the call was announced: this rank's word, and those of all ranks.
    words: Option<([u64; 1], Vec<u64>)>,
}

impl Turn {
    /// A further exchange of a collective.
    fn again(&self) -> Self {
        Self { call: self.call, words: None }
    }
}

/// Runs an operation of a communicator to its end. It moves so many bytes.
fn run<'a, D: ?Sized + 'a>(
    handle: u64,
    bytes: usize,
    begin: impl for<'s> FnOnce(&'s LocalScope<'a>, &SimpleCommunicator) -> Request<'a, D, &'s LocalScope<'a>>,
) {
    request::scope(|scope| {
        let request = handles::with(handle, |communicator| begin(scope, communicator));
        wait::both::<D, ()>(Some(request), None, bytes);
    });
}

/// Whether several threads may call MPI in turns.
fn serves(threading: Threading) -> Result<(), Error> {
    if threading >= Threading::Serialized {
        return Ok(());
    }
    let why = format!(
        "provides {threading:?}, but two threads of a rank call it alternately\n\
         hint: start it with mpi::initialize_with_threading(Threading::Serialized)"
    );
    Err(Error::Mpi { why })
}

/// Bytes that one call of MPI moves at most: MPI counts them in 32 bits.
const MOST: usize = 1 << 30;

/// The same limit in elements.
const fn most<T>() -> usize {
    MOST / size_of::<T>()
}

/// Byte counts and offsets of the parts of `len` elements. Fewer than 2^31 bytes.
fn partition<T>(len: usize, parts: usize) -> (Vec<i32>, Vec<i32>) {
    let parts = (0..parts).map(|at| part(len, parts, at));
    parts.map(|part| ((part.len() * size_of::<T>()) as i32, (part.start * size_of::<T>()) as i32)).unzip()
}

/// The ranks of the communicator on this machine that may run on the same CPUs as this one: all of them, unless `mpirun` has bound them.
fn sharers(communicator: &SimpleCommunicator) -> usize {
    let near = communicator.split_shared(communicator.rank());
    let cpus: Vec<u8> = machine::Thread::this().allowed().iter().flat_map(|cpu| cpu.to_le_bytes()).collect();
    let mine = XxHash3_64::oneshot(&cpus);
    let mut all = vec![0_u64; near.size() as usize];
    near.all_gather_into(&mine, &mut all[..]);
    all.into_iter().filter(|cpus| *cpus == mine).count()
}

impl Communicator for MpiRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn sharers(&self) -> usize {
        self.sharers
    }

    fn all_reduce<T: Element>(&mut self, data: &mut [T]) -> Result<(), Error> {
        let size = self.size;
        let mut turn = self.begin::<T>("all_reduce", data.len(), data.len())?;
        for data in data.chunks_mut(most::<T>()) {
            let next = turn.again();
            if self.mpi_adds::<T>() {
                self.all_reduce_by_mpi(&mut turn, data);
                self.settle(turn)?;
            } else {
                let (counts, places) = partition::<T>(data.len(), size);
                let (handle, bytes) = (self.handle, size_of_val(data));
                let sums: &[u8] = cast_slice(self.sum(turn, data)?);
                let mut all = PartitionMut::new(cast_slice_mut::<T, u8>(data), counts, places);
                run(handle, bytes, |scope, communicator| {
                    communicator.immediate_all_gather_varcount_into(scope, sums, &mut all)
                });
            }
            turn = next;
        }
        Ok(())
    }

    fn reduce_scatter<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (each, size) = (output.len(), self.size);
        let mut turn = self.begin::<T>("reduce_scatter", input.len(), each)?;
        let most = (most::<T>() / size).max(1);
        let mut strips = Vec::new();
        for (place, output) in output.chunks_mut(most).enumerate() {
            let strip = |rank: usize| &input[rank * each + place * most..][..output.len()];
            let input = match each <= most {
                true => input,
                false => {
                    strips.clear();
                    (0..size).for_each(|rank| strips.extend_from_slice(strip(rank)));
                    &strips
                }
            };
            let next = turn.again();
            if self.mpi_adds::<T>() {
                self.reduce_scatter_by_mpi(&mut turn, input, output);
                self.settle(turn)?;
            } else {
                output.copy_from_slice(self.sum(turn, input)?);
            }
            turn = next;
        }
        Ok(())
    }

    fn all_gather<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        let (each, size) = (input.len(), self.size);
        if self.announced.is_empty() && size_of_val(input) <= SMALL_BYTES {
            let call = Call { name: "all_gather", element: T::NAME, gives: each, gets: output.len(), root: None };
            let all = self.meet(Coming::Calls(call), cast_slice(input))?;
            for (words, output) in all.iter().zip(output.chunks_mut(each.max(1))) {
                cast_slice_mut(output).copy_from_slice(&cast_slice::<u64, u8>(&words[DATA..])[..size_of_val(input)]);
            }
            return Ok(());
        }
        let mut turn = self.begin::<T>("all_gather", each, output.len())?;
        let most = (most::<T>() / size).max(1);
        if each <= most {
            self.gather(&mut turn, input, output);
            return self.settle(turn);
        }
        let mut strips = Vec::new();
        for (place, input) in input.chunks(most).enumerate() {
            strips.resize(input.len() * size, T::default());
            self.gather(&mut turn, input, &mut strips);
            for (rank, strip) in strips.chunks(input.len()).enumerate() {
                output[rank * each + place * most..][..input.len()].copy_from_slice(strip);
            }
        }
        Ok(())
    }

    fn broadcast<T: Element>(&mut self, root: usize, data: &mut [T]) -> Result<(), Error> {
        let len = data.len();
        let call = Call { name: "broadcast", element: T::NAME, gives: len, gets: len, root: Some(root) };
        let bytes: &mut [u8] = cast_slice_mut(data);
        let is_small = bytes.len() <= SMALL_BYTES;
        let all = self.call(call, if is_small { bytes } else { &[] })?;
        if is_small {
            let (_, words) = all[root].split_at(DATA);
            bytes.copy_from_slice(&cast_slice(words)[..bytes.len()]);
            return Ok(());
        }
        for bytes in bytes.chunks_mut(MOST) {
            self.cast(root, bytes);
        }
        Ok(())
    }

    fn barrier(&mut self) -> Result<(), Error> {
        // The exchange of headers is a barrier by itself: it ends when all ranks have called.
        self.call(Call { name: "barrier", element: "", gives: 0, gets: 0, root: None }, &[]).map(drop)
    }

    fn announce(&mut self, calls: &[Call]) {
        // Only calls of one exchange, so that there is one to carry the words. Others have a header each, on all ranks.
        let is_whole = calls.iter().all(|call| call.gives > 0 && call.gives.max(call.gets) <= MOST / 8);
        self.announced.clear();
        if is_whole && self.gone.is_none() {
            self.announced.extend(calls);
        }
    }

    fn refuse(&mut self, why: &str) -> Error {
        self.abandon();
        match self.meet(Coming::Refuses(why), &[]) {
            Ok(_) => Error::Refused { rank: self.rank, why: why.to_owned() },
            Err(error) => error,
        }
    }
}

impl Drop for MpiRank {
    fn drop(&mut self) {
        if is_finalized() {
            return;
        }
        if self.gone.is_none() {
            self.abandon();
            // It fails on all ranks, as intended.
            let _ = self.meet(Coming::Leaves { panicked: thread::panicking() }, &[]);
        }
        handles::free(self.handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_to_be_allowed() {
        assert_eq!(serves(Threading::Serialized).and(serves(Threading::Multiple)), Ok(()));
        let error = serves(Threading::Funneled).unwrap_err().to_string();
        assert!(error.starts_with("mpi provides Funneled") && error.contains("\nhint: "), "{error}");
    }
}
