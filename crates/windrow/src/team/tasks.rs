//! Teams whose members are tasks.

use std::future::poll_fn;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::task::Poll;

use windrow_plan::team::Waits;
use windrow_sync::Spin;
use windrow_sync::fork::PerProcess;
use windrow_sync::machine::{cpus, tick};
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::rounds::{
    Contributions, Deal, Ended, LeaderGuard, Lend, Lent, Own, TaskRounds, TaskSlot, Turn, Waited,
};

use super::driver::{ENDLESS, RoundDriver, RoundSite, end_team, follow, over};
use super::form::AS_ASKED;
use crate::runtime::listen::{self, CallKind, EventKind, Reported};
use crate::runtime::sites::{SiteTable, site};
use crate::runtime::state::Timing;

/// A team whose members are tasks of any executor; with the feature `async-team`. There may be more members than threads: a waiting member gives its thread back.
///
/// The team owns its data: a future can be leaked, and then a borrow would end unnoticed. [`finish`](AsyncTeam::finish) returns the data.
/// The width is fixed by [`new`](AsyncTeam::new). All members must be polled. A member that is dropped ends the team.
///
/// ```
/// use windrow::team::{AsyncTeam, split};
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
///     let ended = member.rounds::<f64, &mut [f64]>(
///         0..8,
///         |x, i, deal| {
///             let (head, tail) = x[i..].split_first_mut().unwrap();
///             deal.parts(split::even(tail, deal.width()));
///             *head
///         },
///         |_, head, mine| mine.iter_mut().for_each(|element| *element += head),
///     );
///     ended.await
/// })
/// .unwrap();
/// assert_eq!(block_on(team.finish())[3], 8.0);
/// ```
#[derive(Debug)]
pub struct AsyncTeam<T: Send> {
    rounds: TaskRounds<TaskLeaderState<T>>,
}

/// The data, and the state that passes from leader to leader.
#[derive(Debug)]
struct TaskLeaderState<T> {
    team: TaskDriver,
    data: T,
}

/// The driver of a team of tasks. The team is reported when this is dropped: by [`finish`](AsyncTeam::finish), or with the last member.
#[derive(Debug)]
struct TaskDriver {
    driver: RoundDriver<'static>,
    width: usize,
    reported: Option<Box<Reported>>,
}

impl Drop for TaskDriver {
    fn drop(&mut self) {
        if let Some(reported) = self.reported.take() {
            end_team(*reported, self.width, AS_ASKED, &self.driver);
        }
    }
}

/// The sites of teams of tasks: these have no pool.
static SITES: PerProcess<SiteTable> = PerProcess::new();

impl<T: Send> AsyncTeam<T> {
    /// A team of `width` members around `data`.
    ///
    /// # Panics
    /// If `width` is 0 or more than 4096.
    #[track_caller]
    pub fn new(data: T, width: usize) -> (AsyncTeam<T>, Vec<AsyncMember<T>>) {
        let place = Location::caller();
        let reported = listen::begun(EventKind::Loose(CallKind::Team), Some(place));
        let code = TaskRounds::<T>::new as fn(T, usize) -> _ as *const () as usize;
        let site = RoundSite {
            sites: SITES.get(SiteTable::default),
            site: site(Some(place), code),
            timing: Timing::of_process(),
        };
        let driver = TaskDriver { driver: RoundDriver::new(site, reported.as_ref().map(|_| place)), width, reported };
        let state = TaskLeaderState { team: driver, data };
        let (rounds, slots) = TaskRounds::new(state, width);
        let patience = TaskSpin::new();
        let cpus = cpus().max(2);
        let member = |slot| AsyncMember { slot, patience: patience.clone(), cpus, has_met: false };
        let members = slots.into_iter().map(member).collect();
        (AsyncTeam { rounds }, members)
    }

    /// Returns the data when all members have been dropped.
    pub async fn finish(self) -> T {
        let TaskLeaderState { team, data } = self.rounds.finish().await;
        drop(team);
        data
    }
}

/// One member of a team of tasks. See [`AsyncTeam`].
#[derive(Debug)]
pub struct AsyncMember<T: Send> {
    slot: TaskSlot<TaskLeaderState<T>>,
    patience: TaskSpin,
    /// The CPUs of the process, but at least two.
    cpus: usize,
    /// All members have arrived in `rounds` before.
    has_met: bool,
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

    async fn arrive(&mut self) -> Result<Turn<'_, TaskLeaderState<T>>, Ended> {
        let spin = self.patience.spin();
        let (turn, waited) = self.slot.arrive(spin).await?;
        self.patience.learn(spin, waited);
        Ok(turn)
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
        Ok(match self.arrive().await? {
            Turn::Lead(lead) => {
                let width = lead.width();
                let sent = lead.send::<S, P>(width, 0, |state, deal| {
                    state.team.driver.mix();
                    split(&mut state.data, deal)
                });
                if sent.woke() {
                    yield_now().await;
                }
                sent.open()
            }
            Turn::Follow(follow) => follow.open::<S, P>(),
        })
    }

    /// The [`round_with`](super::Member::round_with) of a task.
    ///
    /// # Errors
    /// As [`round`](AsyncMember::round).
    ///
    /// # Panics
    /// The [`round_with`](super::Member::round_with) of a task.
    pub async fn round_with<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        contribution: C,
        split: impl for<'x> FnOnce(&'x mut T, Contributions<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.slot.contribute(contribution);
        Ok(match self.arrive().await? {
            Turn::Lead(lead) => lead.round_with::<S, P, C>(|state, contributions, deal| {
                state.team.driver.mix();
                split(&mut state.data, contributions, deal)
            }),
            Turn::Follow(follow) => follow.open_with::<S, P, C>(),
        })
    }

    /// The [`rounds`](super::Member::rounds) of a task: runs rounds, each with as many members as pay, but not more than CPUs. The task of the last member to arrive
    /// runs rounds of one member without a barrier, and yields about every 100 microseconds. The call site of [`AsyncTeam::new`] keeps
    /// the widths.
    ///
    /// # Errors
    /// As [`round`](AsyncMember::round).
    ///
    /// # Panics
    /// As [`Member::rounds`](super::Member::rounds).
    pub async fn rounds<S: Lend, P: Lend>(
        &mut self,
        range: Range<usize>,
        split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
        work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>) + Send,
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.run::<S, P, (), false>(range, |_, _| true, split, work).await
    }

    /// The [`rounds_while`](super::Member::rounds_while) of a task: [`rounds`](AsyncMember::rounds) for as long as `more` returns true. Before
    /// round `i`, the member that leads it runs `more(data, i, contributions)`, where the contributions are what `work` returned to the
    /// members of round `i - 1`, in their order; none in round 0.
    ///
    /// ```
    /// use windrow::team::{AsyncTeam, split};
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
    /// let (team, mut members) = AsyncTeam::new(vec![1.0_f64; 100], 1);
    /// let mut member = members.pop().unwrap();
    /// // Halves all numbers until their sum is below 1.
    /// let halved = member.rounds_while::<(), &mut [f64], f64>(
    ///     |_, round, sums| round == 0 || sums.sum::<f64>() >= 1.0,
    ///     |numbers, _, deal| deal.parts(split::even(&mut numbers[..], deal.width())),
    ///     |_, (), mine| {
    ///         mine.iter_mut().for_each(|number| *number /= 2.0);
    ///         mine.iter().sum()
    ///     },
    /// );
    /// block_on(halved).unwrap();
    /// drop(member);
    /// assert_eq!(block_on(team.finish())[0], 1.0 / 128.0);
    /// ```
    ///
    /// # Errors
    /// Errors of [`round`](AsyncMember::round).
    ///
    /// # Panics
    /// If `more` panics, and in the cases of [`rounds`](AsyncMember::rounds).
    pub async fn rounds_while<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        mut more: impl FnMut(&mut T, usize, &mut dyn Iterator<Item = C>) -> bool + Send,
        split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
        work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>) -> C + Send,
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let goes_on = |lead: &mut LeaderGuard<'_, TaskLeaderState<T>>, round| {
            lead.with_contributions::<C, _>(|state, contributions| more(&mut state.data, round, contributions))
        };
        self.run::<S, P, C, true>(ENDLESS, goes_on, split, work).await
    }

    /// Runs rounds of `range` for as long as the leader `goes_on`. If they may `END` early, members contribute what `work` returns.
    async fn run<S: Lend, P: Lend, C: Send + 'static, const END: bool>(
        &mut self,
        range: Range<usize>,
        mut goes_on: impl FnMut(&mut LeaderGuard<'_, TaskLeaderState<T>>, usize) -> bool + Send,
        mut split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S> + Send,
        mut work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>) -> C + Send,
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let AsyncMember { slot, patience, cpus, has_met } = self;
        let mut expected = range.start;
        let mut yielded = tick();
        let mut left = None;
        loop {
            if let Some(contribution) = left.take() {
                slot.contribute(contribution);
            }
            // At first the other members may be queued after this task.
            let spin = if *has_met { patience.spin() } else { patience.briefly() };
            let (turn, waited) = slot.arrive(spin).await?;
            *has_met = true;
            let mut lead = match turn {
                Turn::Follow(message) => match follow::<S, P, C>(message, &range, &mut work) {
                    Some((round, contribution)) => {
                        // A wait for rounds of fewer members says nothing about the spin budget.
                        if round == expected {
                            patience.learn(spin, waited);
                        }
                        expected = round + 1;
                        left = END.then_some(contribution);
                        continue;
                    }
                    None => return Ok(()),
                },
                Turn::Lead(lead) => lead,
            };
            loop {
                let width = lead.width();
                // A round with more members than CPUs waits for a CPU.
                let next = match width {
                    1 if END => Some((range.clone(), 1)),
                    _ => lead.data().team.driver.next(&range, width.min(*cpus)),
                };
                let Some((rounds, members)) = next else {
                    over(lead, &range);
                    return Ok(());
                };
                if members > 1 {
                    let round = rounds.start;
                    if !goes_on(&mut lead, round) {
                        lead.data().team.driver.stop(1);
                        over(lead, &range);
                        return Ok(());
                    }
                    let sent =
                        lead.send::<S, P>(members, round as u64, |state, deal| split(&mut state.data, round, deal));
                    if sent.woke() {
                        yield_now().await;
                    }
                    let (shared, part) = sent.open();
                    let contribution = work(round, shared, part);
                    expected = round + 1;
                    left = END.then_some(contribution);
                    break;
                }
                let end = rounds.end;
                for round in rounds {
                    if !goes_on(&mut lead, round) {
                        lead.data().team.driver.stop(if width == 1 { 0 } else { end - round });
                        over(lead, &range);
                        return Ok(());
                    }
                    if END && width == 1 {
                        lead.data().team.driver.alone();
                    }
                    let (shared, part) = lead.alone::<S, P>(|state, deal| split(&mut state.data, round, deal));
                    let contribution = work(round, shared, part);
                    if END {
                        lead.contribute(contribution);
                    }
                }
                let read = lead.data().team.driver.read;
                if read.saturating_sub(yielded) > patience.long {
                    yield_now().await;
                    yielded = tick();
                }
            }
        }
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

/// Lets other tasks run on this thread. To be awaited after a wake: executors queue a woken task on the thread that wakes it, often where
/// no other thread can steal it. So the woken task runs here, and another thread may take the waking one.
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

/// Spin of the tasks of a team before they give their threads back. Spinning pays while the other members are running: a woken task
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
        match until != 0 && tick() < until {
            true => self.briefly(),
            false => Spin { busy: self.long, yielding: 0 },
        }
    }

    fn briefly(&self) -> Spin {
        Spin { busy: self.short, yielding: 0 }
    }

    fn learn(&self, spun: Spin, waited: Waited) {
        if waited == Waited::Woken && spun.busy == self.long {
            self.useless.set(tick() + self.rest);
        }
    }
}
