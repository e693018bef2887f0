//! Teams whose members are tasks.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use windrow_plan::team::Waits;
use windrow_sync::Spin;
use windrow_sync::machine::tick;
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::rounds::{Contributions, Deal, Ended, Lend, Lent, Own, TaskRounds, TaskSlot, Turn, Waited};

use crate::runtime::state::Timing;

/// A team whose members are tasks of any executor. There may be more members than threads: a waiting member gives its thread back.
///
/// The team owns its data: a future can be leaked, and then a borrow would end unnoticed. [`finish`](AsyncTeam::finish) returns the data.
/// The width is fixed by [`new`](AsyncTeam::new). All members must be polled. A member that is dropped ends the team.
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
        let (rounds, slots) = TaskRounds::new(data, width);
        let patience = TaskSpin::new();
        let members = slots.into_iter().map(|slot| AsyncMember { slot, patience: patience.clone() }).collect();
        (AsyncTeam { rounds }, members)
    }

    /// Returns the data when all members have been dropped.
    pub async fn finish(self) -> T {
        self.rounds.finish().await
    }
}

/// One member of a team of tasks. See [`AsyncTeam`].
#[derive(Debug)]
pub struct AsyncMember<T: Send> {
    slot: TaskSlot<T>,
    patience: TaskSpin,
}

impl<T: Send> AsyncMember<T> {
    /// This member's number, `0..width`.
    pub fn index(&self) -> usize {
        self.slot.index()
    }

    /// The number of members of the team.
    pub fn width(&self) -> usize {
        self.slot.width()
    }

    /// As [`Member::round`](super::Member::round). If the future is dropped before it is ready, the member leaves the team.
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
        let spin = self.patience.spin();
        let (turn, waited) = self.slot.arrive(spin).await?;
        self.patience.learn(spin, waited);
        Ok(match turn {
            Turn::Lead(lead) => {
                let sent = lead.send::<S, P>(split);
                if sent.woke() {
                    // Executors queue a woken task on the thread that wakes it, often where no other thread can steal it. So this task
                    // yields: the woken task runs here, and another thread may take this task.
                    yield_now().await;
                }
                sent.open()
            }
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
        contribution: C,
        split: impl for<'x> FnOnce(&'x mut T, Contributions<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.slot.contribute(contribution);
        let spin = self.patience.spin();
        let (turn, waited) = self.slot.arrive(spin).await?;
        self.patience.learn(spin, waited);
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
        let all = self.round_with::<(), Own<V>, _>(value, move |_, contributions, deal| {
            if let Some(all) = contributions.reduce(&op) {
                deal.parts(std::iter::repeat_n(all, deal.width()));
            }
        });
        Ok(all.await?.1)
    }
}

/// Lets other tasks run on this thread.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// How long the tasks of a team spin before they give their threads back. Spinning pays while the other members are running: a woken task
/// runs late, and on the thread that woke it. With fewer threads than members, spinning is useless. So after a spin without success, tasks
/// spin only briefly for a while.
#[derive(Clone, Debug)]
struct TaskSpin {
    /// The tick until which long spins count as useless.
    useless: Arc<RelaxedU64>,
    /// [`Waits`] of tasks, in ticks.
    long: u64,
    short: u64,
    rest: u64,
}

impl TaskSpin {
    fn new() -> Self {
        let timing = Timing::of_process();
        let waits = Waits::of(&timing.machine);
        TaskSpin {
            useless: Arc::new(RelaxedU64::new(0)),
            long: timing.ticks(waits.task_spins),
            short: timing.ticks(waits.task_spins_briefly),
            rest: timing.ticks(waits.task_rests),
        }
    }

    fn spin(&self) -> Spin {
        let until = self.useless.get();
        let busy = if until != 0 && tick() < until { self.short } else { self.long };
        Spin { busy, yielding: 0 }
    }

    fn learn(&self, spun: Spin, waited: Waited) {
        if waited == Waited::Woken && spun.busy == self.long {
            self.useless.set(tick() + self.rest);
        }
    }
}
