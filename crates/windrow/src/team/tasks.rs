//! Teams whose members are tasks.

use windrow_sync::Spin;
use windrow_sync::rounds::{Deal, Ended, Given, Lend, Lent, Own, TaskRounds, TaskSeat, Turn, Waited};

/// A team whose members are tasks of any executor, also more of them than it has threads: a member that waits gives its thread back.
///
/// It owns its data, since a future can be forgotten and nothing would tell a borrow's owner; [`finish`](AsyncTeam::finish) gives it back.
/// The width is the number of members that were made. All of them must be spawned or polled; one that is dropped ends the team.
///
/// ```
/// use windrow::team::{AsyncTeam, Ended, split};
///
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut future = std::pin::pin!(future);
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop {
/// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
/// #             return output;
/// #         }
/// #     }
/// # }
/// let (team, mut members) = AsyncTeam::new(vec![1.0_f64; 8], 1);
/// let mut member = members.pop().unwrap();
/// // On an executor: `spawn(async move { .. })` for each of the members.
/// block_on(async move {
///     for i in 0..8 {
///         let (head, mine) = member
///             .round::<f64, &mut [f64]>(|x, deal| {
///                 let (head, tail) = x[i..].split_first_mut().unwrap();
///                 deal.parts(split::even(tail, deal.width()));
///                 *head
///             })
///             .await?;
///         mine.iter_mut().for_each(|element| *element += head);
///     }
///     Ok::<_, Ended>(())
/// })
/// .unwrap();
/// assert_eq!(block_on(team.finish())[3], 8.0);
/// ```
#[derive(Debug)]
pub struct AsyncTeam<T: Send> {
    rounds: TaskRounds<T>,
}

impl<T: Send> AsyncTeam<T> {
    /// A team of `width` members around `data`.
    ///
    /// # Panics
    /// If `width` is 0 or more than 4096.
    pub fn new(data: T, width: usize) -> (AsyncTeam<T>, Vec<AsyncMember<T>>) {
        let (rounds, seats) = TaskRounds::new(data, width);
        let members = seats.into_iter().map(|seat| AsyncMember { seat, patience: Patience::NEW }).collect();
        (AsyncTeam { rounds }, members)
    }

    /// The data, when all members have been dropped.
    pub async fn finish(self) -> T {
        self.rounds.finish().await
    }
}

/// One member of a team of tasks. See [`AsyncTeam`].
#[derive(Debug)]
pub struct AsyncMember<T: Send> {
    seat: TaskSeat<T>,
    patience: Patience,
}

impl<T: Send> AsyncMember<T> {
    /// This member's number, `0..width`.
    pub fn index(&self) -> usize {
        self.seat.index()
    }

    /// How many members the team has.
    pub fn width(&self) -> usize {
        self.seat.width()
    }

    /// As [`Member::round`](super::Member::round). A future of this that is dropped before it is ready leaves the team.
    ///
    /// # Errors
    /// If a member has been dropped or has panicked, so that this round cannot take place.
    ///
    /// # Panics
    /// As [`Member::round`](super::Member::round).
    pub async fn round<S: Lend, P: Lend>(
        &mut self,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let (turn, waited) = self.seat.arrive(self.patience.spin()).await?;
        self.patience.learn(waited);
        Ok(match turn {
            Turn::Lead(lead) => lead.round::<S, P>(split),
            Turn::Follow(follow) => follow.open::<S, P>(),
        })
    }

    /// As [`Member::round_with`](super::Member::round_with).
    ///
    /// # Errors
    /// As [`round`](AsyncMember::round).
    ///
    /// # Panics
    /// As [`Member::round_with`](super::Member::round_with).
    pub async fn round_with<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        bring: C,
        split: impl for<'x> FnOnce(&'x mut T, Given<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.seat.bring(bring);
        let (turn, waited) = self.seat.arrive(self.patience.spin()).await?;
        self.patience.learn(waited);
        Ok(match turn {
            Turn::Lead(lead) => lead.round_with::<S, P, C>(split),
            Turn::Follow(follow) => follow.open_with::<S, P, C>(),
        })
    }

    /// Waits until all members have arrived.
    ///
    /// # Errors
    /// As [`round`](AsyncMember::round).
    pub async fn barrier(&mut self) -> Result<(), Ended> {
        self.round::<(), ()>(|_, deal| deal.none()).await.map(|_| ())
    }

    /// All members' values, combined in their order.
    ///
    /// # Errors
    /// As [`round`](AsyncMember::round).
    pub async fn reduce<V: Clone + Send + 'static>(
        &mut self,
        value: V,
        op: impl Fn(V, V) -> V + Send,
    ) -> Result<V, Ended> {
        let all = self.round_with::<(), Own<V>, _>(value, move |_, given, deal| {
            if let Some(all) = given.reduce(&op) {
                deal.parts(std::iter::repeat_n(all, deal.width()));
            }
        });
        Ok(all.await?.1)
    }
}

/// How long a task looks before it gives its thread back. Looking pays only while the others are running: a task on an executor of one
/// thread looks in vain, and soon hardly at all.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Ticks.
    busy: u64,
    /// Waits in a row that looking has not shortened.
    vain: u32,
}

impl Patience {
    /// About 5 us at the clock rates there are: what a task needs at least to be woken.
    const MOST: u64 = 15_000;
    const LEAST: u64 = 64;
    /// After so many waits in vain it is tried again: the others may be running now. That is 0.1 us a wait where they never are.
    const AGAIN: u32 = 64;
    const NEW: Patience = Patience { busy: Self::MOST, vain: 0 };

    fn spin(self) -> Spin {
        Spin { busy: self.busy, yielding: 0 }
    }

    fn learn(&mut self, waited: Waited) {
        *self = match waited {
            Waited::Looking => Self::NEW,
            Waited::Woken if self.vain + 1 == Self::AGAIN => Self::NEW,
            Waited::Woken => Patience { busy: (self.busy / 2).max(Self::LEAST), vain: self.vain + 1 },
        };
    }
}
