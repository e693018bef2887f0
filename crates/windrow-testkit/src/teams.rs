//! Random teams, whose members take random turns, with what they come to serially.
//!
//! A [`Plan`] is data, made from a seed: how wide a team, on which pool, around how many numbers, and the turns that all members take. What
//! it comes to does not depend on the width. Members may be callers of parallel calls ([`Shape`]) and of teams again.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use windrow::team::{Deal, Ended, Lend, Member, Own, TeamError, Width, split, team};

use crate::shapes::{Account, Affine, Counted, Shape, compose, digest};
use crate::{Rng, mix};

/// One team.
#[derive(Clone, Debug)]
pub struct Plan {
    seed: u64,
    n: usize,
    /// `None`: the pool that is current.
    pool: Option<usize>,
    width: Ask,
    turns: Vec<Turn>,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    All,
    AtMost(usize),
    /// If it is refused, as many as there are.
    Exactly(usize),
}

/// What all members do together.
#[derive(Clone, Debug)]
enum Turn {
    /// Every number from `from` on is mixed with the one before these.
    Round {
        from: usize,
        cut: Cut,
    },
    /// The same for each `from` in `0..rounds`, by as many members as the runtime likes.
    Rounds {
        rounds: usize,
    },
    /// Each member brings its share of a sum, which is added to all numbers.
    Bring,
    Barrier,
    Broadcast {
        from: usize,
    },
    Reduce,
    Scan,
    /// Counted parts.
    Counted,
    /// Parallel calls, by one member or by all.
    Calls {
        who: Option<usize>,
        shape: Shape,
    },
    /// A recursion of joins, by all members.
    Joins {
        depth: u32,
    },
    /// A team, by one member.
    Team {
        who: usize,
        plan: Plan,
    },
}

#[derive(Clone, Copy, Debug)]
enum Cut {
    Even,
    Blocks(usize),
    Lines,
    Weighted,
    /// All to one member.
    One(usize),
}

/// When a member shall return before the others, and whether it has.
pub struct Exit {
    after: AtomicUsize,
    taken: AtomicBool,
}

/// Teams so far, by their width.
pub static WIDTHS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Why a member did not take all turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gone {
    /// It returned early, or a team that it called did not come to its end.
    Early,
    Ended(Ended),
}

impl From<Ended> for Gone {
    fn from(ended: Ended) -> Gone {
        Gone::Ended(ended)
    }
}

type Part<'x> = (usize, &'x mut [u64]);

/// How a team is run.
#[derive(Clone, Copy)]
struct Run<'a> {
    account: &'static Account,
    exit: &'a Exit,
}

/// What a team shall suffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Nothing.
    None,
    /// A panic after so many items, splits and turns.
    Panic(usize),
    /// An early return after so many turns.
    Return(usize),
}

impl Plan {
    /// A team with at most `depth` teams inside of each other, and some 100 us of work without them.
    pub fn random(rng: &mut Rng, depth: u32) -> Plan {
        let many = rng.below(8) == 0;
        let n = rng.below(if many { 3000 } else { 60 }) as usize;
        let turns = rng.below(7);
        Plan {
            seed: rng.bits(),
            n,
            // Not the pool of one.
            pool: (rng.below(3) > 0).then(|| 1 + rng.below(3) as usize),
            width: match rng.below(6) {
                0 | 1 => Ask::All,
                2 => Ask::Exactly(rng.below(6) as usize),
                _ => Ask::AtMost(rng.below(40) as usize),
            },
            turns: (0..turns).map(|_| Turn::random(rng, n, depth)).collect(),
        }
    }

    /// Runs it and checks everything. Whether the fault has happened.
    pub fn check(&self, account: &'static Account, fault: Fault) -> bool {
        let (fuse, exit) = match fault {
            Fault::None => (usize::MAX, usize::MAX),
            Fault::Panic(fuse) => (fuse, usize::MAX),
            Fault::Return(turns) => (usize::MAX, turns),
        };
        let exit = &Exit { after: AtomicUsize::new(exit), taken: AtomicBool::new(false) };
        let outcome = account.guard(fuse, self.leaves_closures_behind(), || self.parallel(Run { account, exit }));
        match outcome {
            None => true,
            Some(Ok(found)) => {
                assert!(!exit.taken.load(Relaxed), "a return was not reported");
                assert_eq!(found, self.serial());
                false
            }
            Some(Err(gone)) => {
                assert!(exit.taken.load(Relaxed), "{gone:?}");
                true
            }
        }
    }

    /// Teams in it, itself included.
    pub fn teams(&self) -> u64 {
        let inside = |turn: &Turn| if let Turn::Team { plan, .. } = turn { plan.teams() } else { 0 };
        1 + self.turns.iter().map(inside).sum::<u64>()
    }

    /// Turns of one member, itself and in teams inside, and about as many items of all calls.
    pub fn points(&self) -> usize {
        let points = |turn: &Turn| match turn {
            Turn::Team { plan, .. } => plan.points(),
            Turn::Calls { shape, .. } => shape.items(),
            Turn::Rounds { rounds } => *rounds,
            _ => 1,
        };
        self.turns.iter().map(|turn| 2 + points(turn)).sum::<usize>()
    }

    /// Turns of one member, itself and in teams inside: where it may return.
    pub fn returns(&self) -> u64 {
        let inside = |turn: &Turn| if let Turn::Team { plan, .. } = turn { plan.returns() } else { 0 };
        self.turns.iter().map(|turn| 1 + inside(turn)).sum()
    }

    fn leaves_closures_behind(&self) -> bool {
        self.turns.iter().any(|turn| match turn {
            Turn::Calls { shape, .. } => shape.leaves_closures_behind(),
            Turn::Team { plan, .. } => plan.leaves_closures_behind(),
            _ => false,
        })
    }

    fn value(&self, at: usize) -> u64 {
        mix(self.seed ^ at as u64)
    }

    fn affine(&self, range: std::ops::Range<usize>) -> Affine {
        range.map(|at| (self.value(at) | 1, self.value(at))).fold((1, 0), compose)
    }

    fn serial(&self) -> u64 {
        let mut numbers: Vec<u64> = (0..self.n).map(|at| self.value(at)).collect();
        for turn in &self.turns {
            match turn {
                Turn::Round { from, .. } => stir(&mut numbers, *from),
                Turn::Rounds { rounds } => (0..*rounds).for_each(|from| stir(&mut numbers, from)),
                Turn::Bring => {
                    let sum = (0..self.n).fold(0, |sum, at| self.value(at).wrapping_add(sum));
                    numbers.iter_mut().for_each(|number| *number = number.wrapping_add(sum));
                }
                _ => {}
            }
        }
        digest(numbers)
    }

    fn parallel(&self, run: Run<'_>) -> Result<u64, Gone> {
        let result = match self.pool {
            Some(pool) => run.account.world.pools[pool].install(|| self.here(run)),
            None => self.here(run),
        };
        run.account.world.calls.fetch_add(1, Relaxed);
        result
    }

    fn here(&self, run: Run<'_>) -> Result<u64, Gone> {
        let mut numbers: Vec<u64> = (0..self.n).map(|at| self.value(at)).collect();
        let numbers = &mut numbers[..];
        let results = match self.width {
            Ask::All => self.form(numbers, run, Width::all()),
            Ask::AtMost(most) => self.form(numbers, run, Width::at_most(most)),
            Ask::Exactly(wanted) => match self.form(numbers, run, Width::exactly(wanted)) {
                Ok(results) => {
                    assert_eq!(results.len(), wanted.max(1));
                    Ok(results)
                }
                Err(TeamError { wanted: said, found, threads, .. }) => {
                    assert!(said == wanted && found < wanted && found <= threads, "{found} of {said} of {threads}");
                    self.form(numbers, run, Width::all())
                }
            },
        };
        let results = results.unwrap_or_else(|refused| panic!("{refused}"));
        assert!((1..=windrow::current_num_threads()).contains(&results.len()));
        WIDTHS[results.len().min(4)].fetch_add(1, Relaxed);
        if let Ask::AtMost(most) = self.width {
            assert!(results.len() <= most.max(1));
        }
        // A panic would have come out of `run`.
        assert!(results.iter().all(|result| *result != Err(Gone::Ended(Ended::Panicked))), "{results:?}");
        if results.iter().any(Result::is_err) {
            assert!(results.contains(&Err(Gone::Early)), "no member has left, and yet {results:?}");
            return Err(Gone::Early);
        }
        Ok(digest(numbers.iter().copied()))
    }

    fn form(&self, numbers: &mut [u64], run: Run<'_>, width: Width) -> Result<Vec<Result<(), Gone>>, TeamError> {
        team(numbers).width(width).try_run(|member| self.member(member, run))
    }

    fn member(&self, member: &mut Member<'_, '_, [u64]>, run: Run<'_>) -> Result<(), Gone> {
        let _alive = Counted::new(run.account, 0);
        for turn in &self.turns {
            run.account.burn();
            run.exit.look()?;
            self.turn(turn, member, run)?;
        }
        Ok(())
    }

    fn turn(&self, turn: &Turn, member: &mut Member<'_, '_, [u64]>, run: Run<'_>) -> Result<(), Gone> {
        let account = run.account;
        let (at, width) = (member.index(), member.width());
        let mine = split::range(self.n, width, at);
        match turn {
            Turn::Round { from, cut } => {
                let (first, (at, part)) = member.round::<u64, Part<'_>>(|numbers, deal| {
                    account.burn();
                    cut.deal(numbers, *from, deal)
                })?;
                account.burn();
                stir_part(first, at, part);
            }
            Turn::Rounds { rounds } => member.rounds::<u64, Part<'_>>(
                0..*rounds,
                |numbers, from, deal| {
                    account.burn();
                    Cut::Even.deal(numbers, from, deal)
                },
                |_, first, (at, part)| {
                    account.burn();
                    stir_part(first, at, part);
                },
            )?,
            Turn::Bring => {
                let share = mine.fold(0, |sum, at| self.value(at).wrapping_add(sum));
                let brought = Counted::new(account, share);
                let (sum, (_, part)) = member.round_with::<u64, Part<'_>, _>(brought, |numbers, given, deal| {
                    account.burn();
                    let sum = given.fold(0, |sum, one| one.value.wrapping_add(sum));
                    Cut::Even.deal(numbers, 0, deal);
                    sum
                })?;
                part.iter_mut().for_each(|number| *number = number.wrapping_add(sum));
            }
            Turn::Barrier => member.barrier()?,
            Turn::Broadcast { from } => {
                let value = member.broadcast(from % width, self.value(at))?;
                assert_eq!(value, self.value(from % width));
            }
            Turn::Reduce => {
                let all = member.reduce(self.affine(mine), |a, b| {
                    account.burn();
                    compose(a, b)
                })?;
                assert_eq!(all, self.affine(0..self.n));
            }
            Turn::Scan => {
                let end = mine.end;
                let before = member.scan(self.affine(mine), |a, b| {
                    account.burn();
                    compose(a, b)
                })?;
                assert_eq!(before, self.affine(0..end));
            }
            Turn::Counted => {
                let (sum, part) = member.round::<u64, Own<Counted>>(|numbers, deal| {
                    for at in 0..deal.width() {
                        account.burn();
                        deal.part(Counted::new(account, at as u64));
                    }
                    numbers.len() as u64
                })?;
                account.burn();
                assert_eq!((sum, part.value), (self.n as u64, at as u64));
            }
            Turn::Calls { who, shape } => {
                if who.is_none_or(|who| who % width == at) {
                    assert_eq!(shape.parallel(account), shape.serial());
                }
            }
            Turn::Joins { depth } => {
                assert_eq!(joins(account, self.seed, *depth), serial_joins(self.seed, *depth));
            }
            Turn::Team { who, plan } => {
                if who % width == at {
                    assert_eq!(plan.parallel(run)?, plan.serial());
                }
            }
        }
        Ok(())
    }
}

impl Exit {
    fn look(&self) -> Result<(), Gone> {
        if self.after.load(Relaxed) != usize::MAX && self.after.fetch_sub(1, Relaxed) == 0 {
            // Others go on counting down from the top: far away.
            self.taken.store(true, Relaxed);
            return Err(Gone::Early);
        }
        Ok(())
    }
}

impl Turn {
    fn random(rng: &mut Rng, n: usize, depth: u32) -> Turn {
        let mut below = |n: usize| rng.below(n as u64) as usize;
        match below(15) {
            0..=2 => Turn::Round {
                from: below(n + 1),
                cut: match below(5) {
                    0 => Cut::Even,
                    1 => Cut::Blocks(1 + below(20)),
                    2 => Cut::Lines,
                    3 => Cut::Weighted,
                    _ => Cut::One(below(8)),
                },
            },
            3 | 4 => Turn::Rounds { rounds: below(n.min(200) + 1) },
            5 => Turn::Bring,
            6 => Turn::Barrier,
            7 => Turn::Broadcast { from: below(100) },
            8 => Turn::Reduce,
            9 => Turn::Scan,
            10 => Turn::Counted,
            11 => Turn::Joins { depth: below(7) as u32 },
            12 => Turn::Calls { who: (below(3) > 0).then(|| below(8)), shape: Shape::random(rng, 1) },
            _ if depth > 1 => Turn::Team { who: below(8), plan: Plan::random(rng, depth - 1) },
            _ => Turn::Barrier,
        }
    }
}

impl Cut {
    /// Deals what is behind `from`; the number in front of it.
    fn deal<'x>(
        self,
        numbers: &'x mut [u64],
        from: usize,
        deal: &mut Deal<'x, <Part<'static> as Lend>::Family>,
    ) -> u64 {
        let (before, rest) = numbers.split_at_mut(from.min(numbers.len()));
        let width = deal.width();
        match self {
            Cut::Even => with_places(split::even(rest, width), from, deal),
            Cut::Blocks(block) => with_places(split::blocks(rest, width, block), from, deal),
            Cut::Lines => with_places(split::lines(rest, width), from, deal),
            Cut::Weighted => with_places(split::weighted(rest, width, |at| at as u64), from, deal),
            Cut::One(who) => {
                let n = rest.len();
                let cuts = (1..width).map(move |at| if at > who % width { n } else { 0 });
                with_places(split::at_each(rest, cuts), from, deal);
            }
        }
        before.last().copied().unwrap_or(7)
    }
}

/// Deals parts, each with its place.
fn with_places<'x>(
    parts: impl Iterator<Item = &'x mut [u64]>,
    from: usize,
    deal: &mut Deal<'x, <Part<'static> as Lend>::Family>,
) {
    let mut next = from;
    deal.parts(parts.map(|part| {
        let at = next;
        next += part.len();
        (at, part)
    }));
}

fn stir(numbers: &mut [u64], from: usize) {
    let (before, rest) = numbers.split_at_mut(from.min(numbers.len()));
    stir_part(before.last().copied().unwrap_or(7), from, rest);
}

fn stir_part(first: u64, at: usize, part: &mut [u64]) {
    part.iter_mut().zip(at..).for_each(|(number, at)| *number = mix(*number ^ first.wrapping_add(at as u64)));
}

fn joins(account: &Account, seed: u64, depth: u32) -> u64 {
    if depth == 0 {
        account.burn();
        return mix(seed);
    }
    let half = |salt: u64| joins(account, mix(seed ^ salt), depth - 1);
    let (left, right) = windrow::join(|| half(1), || half(2));
    left.rotate_left(9) ^ right
}

fn serial_joins(seed: u64, depth: u32) -> u64 {
    match depth {
        0 => mix(seed),
        _ => serial_joins(mix(seed ^ 1), depth - 1).rotate_left(9) ^ serial_joins(mix(seed ^ 2), depth - 1),
    }
}
