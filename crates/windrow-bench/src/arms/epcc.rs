//! The constructs of the EPCC microbenchmarks (Bull, 1999) as arms, each around a delay. The cell has two items: the delay, and the number of
//! constructs, whose seed is 1 if delays are counted.

use std::ops::Range;
use std::rc::Rc;

use windrow::team::{Ended, Member, Own, Width, split, team};
use windrow_sync::relaxed::RelaxedU64;

use super::rust_peers::outside_rayon;
use super::{Arm, Here, Loaded, Programs, Setting, outside, windrow_pool};
use crate::work::{Item, work};

/// Constructs: a region; a loop of two items; inside a region, a loop of two items, a barrier, and a part of one member; a sum of all members,
/// with its region and inside one.
pub const ROWS: [&str; 7] = ["parallel", "parallel-for", "for", "barrier", "single", "reduction", "reduction-inside"];
/// Runtimes. `reference` is the delay alone; `windrow` takes the free workers where it opens a region, `windrow-exactly` has two members.
pub const RUNTIMES: [&str; 6] = ["reference", "windrow", "windrow-exactly", "rayon", "omp", "omp-clang"];
/// Members of each team.
const MEMBERS: usize = 2;

/// A cell of `constructs` constructs around `delay`.
pub fn cell(delay: Item, constructs: u64, counts: bool) -> Rc<Loaded> {
    let items = vec![delay, Item { seed: counts.into(), turns: constructs }];
    let expected = vec![1, constructs];
    Rc::new(Loaded { index: 0, items, expected })
}

/// A delay, and how often it ran if that is counted.
struct Delay {
    item: Item,
    constructs: u64,
    counts: bool,
    ran: RelaxedU64,
}

impl Delay {
    #[inline]
    fn run(&self) {
        std::hint::black_box(work(std::hint::black_box(self.item)));
        if self.counts {
            self.ran.count(1);
        }
    }
}

/// Runs a closure inside a pool.
type Enter = Box<dyn Fn(&mut (dyn FnMut() + Send))>;

/// The arm of this runtime and row.
///
/// # Errors
/// When the runtime has no such construct, or cannot be built on this machine.
pub fn arm(runtime: &str, row: &str, setting: Setting, programs: &mut Programs) -> Result<Box<dyn Arm>, String> {
    let arm = |enter: Enter, times: Range<u64>, all: fn(&Delay)| {
        Here::arm(runtime, enter, move |_, items, out| {
            let [item, constructs] = [items[0], items[1]];
            let counts = constructs.seed == 1;
            let delay = Delay { item, constructs: constructs.turns, counts, ran: RelaxedU64::new(0) };
            all(&delay);
            let ran = delay.ran.get();
            let permitted = times.start * delay.constructs..=(times.end - 1) * delay.constructs;
            *out = vec![u64::from(!counts || permitted.contains(&ran)), delay.constructs];
        })
    };
    let pool = || Box::new(windrow_pool(setting)) as Enter;
    let rayon = || Box::new(outside_rayon(MEMBERS)) as Enter;
    Ok(match (runtime, row) {
        ("reference", _) => arm(Box::new(outside), 1..2, |delay| (0..delay.constructs).for_each(|_| delay.run())),
        ("windrow", "parallel") => arm(pool(), 1..3, |delay| {
            for _ in 0..delay.constructs {
                team(&mut ()).width(MEMBERS).run(|_| delay.run());
            }
        }),
        ("windrow-exactly", "parallel") => arm(pool(), 2..3, |delay| {
            for _ in 0..delay.constructs {
                while team(&mut ()).width(Width::exactly(MEMBERS)).try_run(|_| delay.run()).is_err() {}
            }
        }),
        ("windrow", "parallel-for") => arm(pool(), 2..3, |delay| {
            use windrow::prelude::*;
            for _ in 0..delay.constructs {
                (0..MEMBERS).into_par_iter().for_each(|_| delay.run());
            }
        }),
        ("windrow", "reduction") => arm(pool(), 1..3, |delay| {
            for _ in 0..delay.constructs {
                let members = team(&mut ()).width(MEMBERS).run(|_| {
                    delay.run();
                    1
                });
                std::hint::black_box(members.into_iter().sum::<u64>());
            }
        }),
        ("windrow-exactly", "for") => arm(pool(), 2..3, |delay| {
            inside(|member| {
                member.rounds::<(), Own<Range<usize>>>(
                    0..delay.constructs as usize,
                    |(), _, deal| deal.parts(split::even(0..MEMBERS, deal.width())),
                    |_, (), part| part.for_each(|_| delay.run()),
                )
            });
        }),
        ("windrow-exactly", "barrier") => arm(pool(), 2..3, |delay| {
            inside(|member| {
                (0..delay.constructs).try_for_each(|_| {
                    delay.run();
                    member.barrier()
                })
            });
        }),
        ("windrow-exactly", "single") => arm(pool(), 1..2, |delay| {
            inside(|member| {
                (0..delay.constructs).try_for_each(|_| {
                    let single = member.round::<(), ()>(|(), deal| {
                        delay.run();
                        deal.none();
                    });
                    single.map(|_| ())
                })
            });
        }),
        ("windrow-exactly", "reduction-inside") => arm(pool(), 2..3, |delay| {
            inside(|member| {
                (0..delay.constructs).try_for_each(|_| {
                    delay.run();
                    let members = member.reduce(1, |a: usize, b| a + b)?;
                    assert_eq!(members, MEMBERS, "each member counts");
                    Ok(())
                })
            });
        }),
        ("rayon", "parallel") => arm(rayon(), 2..3, |delay| {
            (0..delay.constructs).for_each(|_| _ = rayon::broadcast(|_| delay.run()));
        }),
        ("rayon", "parallel-for") => arm(rayon(), 2..3, |delay| {
            use rayon::prelude::*;
            (0..delay.constructs).for_each(|_| (0..MEMBERS).into_par_iter().for_each(|_| delay.run()));
        }),
        ("rayon", "reduction") => arm(rayon(), 2..3, |delay| {
            use rayon::prelude::*;
            for _ in 0..delay.constructs {
                let member = |_| {
                    delay.run();
                    1
                };
                assert_eq!((0..MEMBERS).into_par_iter().map(member).sum::<usize>(), MEMBERS, "each item counts");
            }
        }),
        ("omp" | "omp-clang", row) => programs.arm(&format!("{runtime}-epcc-{row}"), MEMBERS)?,
        _ => return Err(format!("{runtime} has no {row}")),
    })
}

/// Runs a team of exactly two. (Next to a neighbour, a worker may not have left the last team yet.)
fn inside(member: impl Fn(&mut Member<'_, '_, ()>) -> Result<(), Ended> + Sync) {
    let ended = loop {
        match team(&mut ()).width(Width::exactly(MEMBERS)).try_run(&member) {
            Ok(ended) => break ended,
            Err(_) => std::thread::yield_now(),
        }
    };
    ended.into_iter().for_each(|ended| ended.expect("all members run all rounds"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{Ask, alone};

    #[test]
    fn every_construct_runs_its_delays() {
        let _alone = alone();
        let mut programs = Programs::default();
        let setting = Setting { threads: MEMBERS };
        for (runtime, row) in RUNTIMES.iter().flat_map(|runtime| ROWS.map(|row| (*runtime, row))) {
            match arm(runtime, row, setting, &mut programs) {
                Ok(mut arm) => {
                    arm.load(&cell(Item { seed: 1, turns: 20 }, 50, true));
                    arm.run(Ask { calls: 2, ..Ask::default() });
                }
                // A machine may lack a compiler.
                Err(error) => assert!(runtime.starts_with("omp") || error.contains("has no"), "{error}"),
            }
        }
    }
}
