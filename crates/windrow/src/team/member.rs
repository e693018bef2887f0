//! Members of a team: rounds, collective operations, and the move of a member to another CPU.

use std::ops::Range;

use windrow_plan::team::Waits;
use windrow_sync::Spin;
use windrow_sync::machine::tick;
use windrow_sync::rounds::{Contributions, Deal, Ended, LeaderGuard, Lend, Lent, MemberSlot, Own, Turn};

use super::driver::{ENDLESS, RoundDriver, follow, over};
use crate::runtime::listen::{self, EventKind};
use crate::runtime::state::PoolState;

/// The data, and the state that passes from leader to leader.
pub(super) struct LeaderState<'d, T: ?Sized> {
    pub(super) driver: RoundDriver<'d>,
    pub(super) data: &'d mut T,
}

/// One member of a team, as its closure sees it.
///
/// ```
/// use windrow::team::{Ended, Member};
///
/// /// The largest value of all members.
/// fn largest<T: ?Sized + Send>(member: &mut Member<'_, '_, T>, value: usize) -> Result<usize, Ended> {
///     member.reduce(value, usize::max)
/// }
///
/// let found = windrow::team(&mut ()).run(|member| largest(member, 10 * member.index()));
/// assert!(found.iter().all(|value| *value == Ok(10 * (found.len() - 1))));
/// ```
pub struct Member<'r, 'd, T: ?Sized + Send> {
    pub(super) slot: MemberSlot<'r, LeaderState<'d, T>>,
    pub(super) spin: Spin,
    pub(super) pool: &'r PoolState,
    /// Tick of the last move to another CPU.
    pub(super) moved: u64,
}

impl<T: ?Sized + Send> std::fmt::Debug for Member<'_, '_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("slot", &self.slot).finish()
    }
}

impl<'d, T: ?Sized + Send> Member<'_, 'd, T> {
    #[inline]
    fn arrive(&mut self) -> Result<Turn<'_, LeaderState<'d, T>>, Ended> {
        if self.slot.should_move() {
            self.move_away();
        }
        self.slot.arrive(self.spin)
    }

    /// Moves a worker that shares a CPU with another member. Not too often, since the scheduler may move it back.
    #[cold]
    fn move_away(&mut self) {
        let now = tick();
        if self.pool.nanos(now.saturating_sub(self.moved)).0 > Waits::of(self.pool.guess()).stays.0 {
            self.moved = now;
            self.pool.placement.yield_cpu();
        }
    }

    /// Number of this member, `0..width`. The caller of [`Team::run`](super::Team::run) is member 0.
    ///
    /// ```
    /// let indices = windrow::team(&mut ()).run(|member| member.index());
    /// assert!(indices.iter().copied().eq(0..indices.len()));
    /// ```
    pub fn index(&self) -> usize {
        self.slot.index()
    }

    /// The number of members of the team.
    ///
    /// ```
    /// let widths = windrow::team(&mut ()).run(|member| member.width());
    /// assert!(widths.iter().all(|width| *width == widths.len()));
    /// ```
    pub fn width(&mut self) -> usize {
        self.slot.width(self.spin)
    }

    /// A round: waits for all members. The last member to arrive, the leader, runs `split` with exclusive access to the data. `split` deals
    /// each member a part, and returns a shared value, of which each member gets a copy. A member can use both until its next round.
    ///
    /// `S` and `P` are the types of the shared value and of a part. They must be written out, without lifetimes; see [`Lend`] for your own
    /// types.
    ///
    /// ```
    /// use windrow::team::split;
    ///
    /// let mut x: Vec<u32> = (0..100).collect();
    /// windrow::team(&mut x[..]).run(|member| {
    ///     let (first, mine) = member.round::<u32, &mut [u32]>(|x, deal| {
    ///         let (first, rest) = x.split_first_mut().unwrap();
    ///         deal.parts(split::even(rest, deal.width()));
    ///         *first
    ///     })?;
    ///     mine.iter_mut().for_each(|element| *element += 10 + first);
    ///     Ok::<_, windrow::team::Ended>(())
    /// });
    /// assert_eq!(x[99], 109);
    /// ```
    ///
    /// # Errors
    /// If a member has returned or panicked, so that this round cannot take place.
    ///
    /// # Panics
    /// On the leader, if `split` panics, or does not deal one part to each member. On other members, if the leader ran a round of other
    /// types. The team ends with such a panic.
    #[inline]
    pub fn round<S: Lend, P: Lend>(
        &mut self,
        split: impl for<'x> FnOnce(&'x mut T, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        Ok(match self.arrive()? {
            Turn::Lead(lead) => lead.round::<S, P>(|led, deal| {
                led.driver.mix();
                split(led.data, deal)
            }),
            Turn::Follow(follow) => follow.open::<S, P>(),
        })
    }

    /// A round to which each member contributes a value, `contribution`. The leader gets all contributions, in the order of the members.
    ///
    /// ```
    /// let mut total = 100;
    /// let sums = windrow::team(&mut total).run(|member| {
    ///     let shared = member.round_with::<usize, (), usize>(3, |total, contributions, deal| {
    ///         *total += contributions.sum::<usize>();
    ///         deal.none();
    ///         *total
    ///     });
    ///     shared.map(|(sum, ())| sum)
    /// });
    /// assert!(sums.iter().all(|sum| *sum == Ok(100 + 3 * sums.len())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// As [`round`](Member::round); or if a member is at a round without contributions, or with contributions of another type.
    #[inline]
    pub fn round_with<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        contribution: C,
        split: impl for<'x> FnOnce(&'x mut T, Contributions<'x, C>, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
    ) -> Result<(Lent<'_, S>, Lent<'_, P>), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        self.slot.contribute(contribution);
        Ok(match self.arrive()? {
            Turn::Lead(lead) => lead.round_with::<S, P, C>(|led, contributions, deal| {
                led.driver.mix();
                split(led.data, contributions, deal)
            }),
            Turn::Follow(follow) => follow.open_with::<S, P, C>(),
        })
    }

    /// Runs rounds, each with as many members as pay: see the [module page](super). In round `i`, one member runs
    /// `split(data, i, deal)`, and each member of the round runs `work(i, shared, part)`.
    ///
    /// The number of parts is [`Deal::width`] *of this round*. All members must pass the same range.
    ///
    /// ```
    /// use windrow::team::split;
    ///
    /// let mut x = vec![1; 100];
    /// windrow::team(&mut x[..]).run(|member| {
    ///     member.rounds::<(), &mut [usize]>(
    ///         0..10,
    ///         |x, _, deal| deal.parts(split::even(x, deal.width())),
    ///         |i, (), mine| mine.iter_mut().for_each(|element| *element += i),
    ///     )
    /// });
    /// assert_eq!(x, [1 + 45; 100]);
    /// ```
    ///
    /// # Errors
    /// If a member has returned or panicked, so that not all rounds have taken place.
    ///
    /// # Panics
    /// As [`round`](Member::round), and if `work` panics. If members pass different ranges, one of them panics, at the latest
    /// when the rounds of one range are over.
    #[inline]
    pub fn rounds<S: Lend, P: Lend>(
        &mut self,
        range: Range<usize>,
        mut split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
        mut work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>),
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let _rounds = listen::begun(EventKind::Rounds { member: self.index() }, None).map(|part| part.of(range.len()));
        loop {
            let mut lead = match self.arrive()? {
                Turn::Follow(message) => match follow::<S, P, ()>(message, &range, &mut work) {
                    Some(_) => continue,
                    None => return Ok(()),
                },
                Turn::Lead(lead) => lead,
            };
            loop {
                let width = lead.width();
                let Some((rounds, members)) = lead.data().driver.next(&range, width) else {
                    over(lead, &range);
                    return Ok(());
                };
                if members > 1 {
                    let round = rounds.start;
                    let (shared, part) =
                        lead.round_of::<S, P>(members, round as u64, |led, deal| split(led.data, round, deal));
                    work(round, shared, part);
                    break;
                }
                for round in rounds {
                    let (shared, part) = lead.alone::<S, P>(|led, deal| split(led.data, round, deal));
                    work(round, shared, part);
                }
            }
        }
    }

    /// Runs [`rounds`](Member::rounds) for as long as `more` returns true: for loops that end when they have converged. Before round `i`, the member
    /// that leads it runs `more(data, i, contributions)`, where the contributions are what `work` returned to the members of round `i - 1`, in
    /// their order; none in round 0. False ends the rounds of all members.
    ///
    /// ```
    /// use windrow::team::split;
    ///
    /// // Newton's method for square roots, until no value moves by more than 1e-9.
    /// let numbers: Vec<f64> = (1..=1000).map(f64::from).collect();
    /// let mut roots = (numbers.clone(), numbers);
    /// windrow::team(&mut roots).run(|member| {
    ///     member.rounds_while::<(), (&[f64], &mut [f64]), f64>(
    ///         |_, round, moved| round == 0 || moved.fold(0.0, f64::max) > 1e-9,
    ///         |(numbers, roots), _, deal| deal.parts(split::even((&numbers[..], &mut roots[..]), deal.width())),
    ///         |_, (), (numbers, roots)| {
    ///             let step = |(number, root): (&f64, &mut f64)| {
    ///                 let before = std::mem::replace(root, (*root + number / *root) / 2.0);
    ///                 (*root - before).abs()
    ///             };
    ///             numbers.iter().zip(roots).map(step).fold(0.0, f64::max)
    ///         },
    ///     )
    /// });
    /// assert!((roots.1[143] - 12.0).abs() < 1e-9);
    /// ```
    ///
    /// # Errors
    /// Errors of [`rounds`](Member::rounds).
    ///
    /// # Panics
    /// If `more` panics, and in the cases of [`rounds`](Member::rounds).
    #[inline]
    pub fn rounds_while<S: Lend, P: Lend, C: Send + 'static>(
        &mut self,
        mut more: impl FnMut(&mut T, usize, &mut dyn Iterator<Item = C>) -> bool,
        mut split: impl for<'x> FnMut(&'x mut T, usize, &mut Deal<'x, P::Family>) -> Lent<'x, S>,
        mut work: impl for<'x> FnMut(usize, Lent<'x, S>, Lent<'x, P>) -> C,
    ) -> Result<(), Ended>
    where
        for<'x> Lent<'x, S>: Copy,
    {
        let _rounds = listen::begun(EventKind::Rounds { member: self.index() }, None);
        let mut left = None;
        loop {
            if let Some(contribution) = left.take() {
                self.slot.contribute(contribution);
            }
            let mut lead = match self.arrive()? {
                Turn::Follow(message) => {
                    let Some((_, contribution)) = follow::<S, P, C>(message, &ENDLESS, &mut work) else {
                        return Ok(());
                    };
                    left = Some(contribution);
                    continue;
                }
                Turn::Lead(lead) => lead,
            };
            loop {
                let width = lead.width();
                let next = if width == 1 { None } else { lead.data().driver.next(&ENDLESS, width) };
                let (rounds, members) = next.unwrap_or((ENDLESS, 1));
                let (end, mut goes_on) = (rounds.end, |lead: &mut LeaderGuard<'_, LeaderState<'d, T>>, round| {
                    lead.with_contributions::<C, _>(|led, contributions| more(led.data, round, contributions))
                });
                if members > 1 {
                    let round = rounds.start;
                    if !goes_on(&mut lead, round) {
                        lead.data().driver.stop(1);
                        over(lead, &ENDLESS);
                        return Ok(());
                    }
                    let (shared, part) =
                        lead.round_of::<S, P>(members, round as u64, |led, deal| split(led.data, round, deal));
                    left = Some(work(round, shared, part));
                    break;
                }
                for round in rounds {
                    if !goes_on(&mut lead, round) {
                        lead.data().driver.stop(if width == 1 { 0 } else { end - round });
                        over(lead, &ENDLESS);
                        return Ok(());
                    }
                    if width == 1 {
                        lead.data().driver.alone();
                    }
                    let (shared, part) = lead.alone::<S, P>(|led, deal| split(led.data, round, deal));
                    let contribution = work(round, shared, part);
                    lead.contribute(contribution);
                }
            }
        }
    }

    /// Waits until all members have arrived. Afterwards every member sees what all members did before.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let arrived = AtomicUsize::new(0);
    /// let seen = windrow::team(&mut ()).run(|member| {
    ///     arrived.fetch_add(1, Ordering::Relaxed);
    ///     member.barrier().map(|()| arrived.load(Ordering::Relaxed))
    /// });
    /// assert!(seen.iter().all(|members| *members == Ok(seen.len())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    #[inline]
    pub fn barrier(&mut self) -> Result<(), Ended> {
        self.round::<(), ()>(|_, deal| deal.none()).map(|_| ())
    }

    /// Gives every member a clone of the `value` of member `from`. The values of other members are dropped.
    ///
    /// ```
    /// let values = windrow::team(&mut ()).run(|member| member.broadcast(0, 7 + member.index()));
    /// assert!(values.iter().all(|value| *value == Ok(7)));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    ///
    /// # Panics
    /// If the team has no member `from`.
    pub fn broadcast<V: Clone + Send + 'static>(&mut self, from: usize, value: V) -> Result<V, Ended> {
        let width = self.width();
        assert!(from < width, "there is no member {from} in a team of {width}");
        let contribution = (self.index() == from).then_some(value);
        let (_, value) = self.round_with::<(), Own<V>, _>(contribution, |_, contributions, deal| {
            if let Some(value) = contributions.flatten().next() {
                deal.parts(std::iter::repeat_n(value, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// All members' values, combined in their order: `op(op(a0, a1), a2)` and so on.
    ///
    /// ```
    /// let lists = windrow::team(&mut ()).run(|member| member.reduce(vec![member.index()], |a, b| [a, b].concat()));
    /// assert!(lists.iter().all(|list| *list == Ok((0..lists.len()).collect())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn reduce<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, contributions, deal| {
            if let Some(all) = contributions.reduce(&op) {
                deal.parts(std::iter::repeat_n(all, deal.width()));
            }
        })?;
        Ok(value)
    }

    /// The values of the members up to and including this one, combined in their order.
    ///
    /// ```
    /// let lists = windrow::team(&mut ()).run(|member| member.scan(vec![member.index()], |a, b| [a, b].concat()));
    /// assert!(lists.iter().enumerate().all(|(index, list)| *list == Ok((0..=index).collect())));
    /// ```
    ///
    /// # Errors
    /// As [`round`](Member::round).
    pub fn scan<V: Clone + Send + 'static>(&mut self, value: V, op: impl Fn(V, V) -> V) -> Result<V, Ended> {
        let (_, value) = self.round_with::<(), Own<V>, _>(value, |_, contributions, deal| {
            let mut so_far: Option<V> = None;
            for value in contributions {
                let sum = match so_far.take() {
                    None => value,
                    Some(before) => op(before, value),
                };
                deal.part(sum.clone());
                so_far = Some(sum);
            }
        })?;
        Ok(value)
    }
}
