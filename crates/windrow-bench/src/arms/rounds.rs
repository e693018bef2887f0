//! Rounds as arms: every runtime gets the same numbers from the start each time, and the same work on a part.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex};

use bytes::BytesMut;
use windrow::team::{AsyncTeam, Ended, split as into};

use super::rust_peers::{in_spindle, outside_rayon, start_rayon};
use super::{Arm, Ask, CONTROL, Enter, Loaded, Programs, Reply, SERIAL, Setting, outside, timed_on, windrow_pool};
use crate::rounds::barriers::Spin;
use crate::rounds::parts::{Cuts, Part, Shared, deal, deal_again, gather};
use crate::rounds::split::Split;
use crate::rounds::{Field, add, numbers, sequential};
use crate::work::Item;

/// windrow's ways.
pub const WINDROW: [&str; 3] = ["windrow-rounds", "windrow-round", "windrow-async"];
/// Other ways to run rounds.
pub const PEERS: [&str; 13] = [
    "rayon",
    "rayon-chunks",
    "spindle",
    "std-barrier",
    "hurdles",
    "spin",
    "split",
    "split-tokio",
    "omp-rounds-serial",
    "omp-team",
    "omp-passive-team",
    "omp-bound-team",
    "omp-region",
];

/// The numbers that all arms of this process use, at the same address for all.
pub type Stage = Rc<RefCell<Field>>;

/// The cell of some rounds of `n` numbers; also puts these numbers on the stage.
pub fn cell(stage: &Stage, index: usize, n: usize, rounds: usize) -> Rc<Loaded> {
    let items = vec![Item { seed: n as u64, turns: rounds as u64 }];
    *stage.borrow_mut() = Field::new(n, rounds);
    let expected = vec![stage.borrow().checksum()];
    Rc::new(Loaded { index, items, expected })
}

/// Runs a number of rounds on the numbers.
type Rounds = Box<dyn FnMut(&mut BytesMut, usize) + Send>;

/// An arm in this process.
struct Here {
    name: String,
    rounds: Rounds,
    enter: Enter,
    stage: Stage,
}

impl Arm for Here {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&mut self, cell: &Rc<Loaded>) {
        let Item { seed, turns } = cell.items[0];
        let field = self.stage.borrow();
        assert_eq!((field.len() as u64, field.rounds as u64), (seed, turns), "the stage is set for this cell");
    }

    fn run(&mut self, ask: Ask) -> Reply {
        let (field, rounds, mut reply) = (&mut *self.stage.borrow_mut(), &mut self.rounds, Reply::default());
        (self.enter)(&mut || reply = timed_on(ask, field, Field::reset, |field| rounds(&mut field.x, field.rounds)));
        assert!(field.is_right(), "{} gives a different answer from sequential", self.name);
        reply
    }
}

/// The arm of this name.
///
/// # Errors
/// When it cannot be built on this machine.
///
/// # Panics
/// If there is no such arm.
pub fn arm(name: &str, setting: Setting, stage: &Stage, programs: &mut Programs) -> Result<Box<dyn Arm>, String> {
    if name.starts_with("omp-") {
        return programs.arm(name, setting.threads);
    }
    let (rounds, enter) = windrow(name, setting)
        .or_else(|| peer(name, setting.threads))
        .unwrap_or_else(|| panic!("no arm is called {name}"));
    Ok(Box::new(Here { name: name.to_owned(), rounds, enter, stage: stage.clone() }))
}

fn windrow(name: &str, setting: Setting) -> Option<(Rounds, Enter)> {
    let threads = setting.threads;
    Some(match name {
        "windrow-rounds" => arm_of(windrow_pool(setting), move |x, rounds| windrow_rounds(x, rounds, threads)),
        "windrow-round" => arm_of(windrow_pool(setting), move |x, rounds| {
            let ended = windrow::team(numbers(x)).width(threads).run(|member| {
                for i in 0..rounds {
                    let (head, mine) = member.round::<f64, &mut [f64]>(|x, deal| {
                        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
                        deal.parts(into::even(tail, deal.width()));
                        *head
                    })?;
                    add(head, mine);
                }
                Ok::<(), Ended>(())
            });
            ended.into_iter().for_each(|ended| ended.expect("all members run all rounds"));
        }),
        "windrow-async" => {
            let runtime = tokio_of(threads);
            arm_of(outside, move |x, rounds| windrow_tasks(&runtime, x, rounds, threads))
        }
        _ => return None,
    })
}

/// Rounds, each with as many members as pay, of parts that `parts` deals.
fn windrow_rounds(x: &mut BytesMut, rounds: usize, threads: usize) {
    let ended = windrow::team(numbers(x)).width(threads).run(|member| {
        member.rounds::<f64, &mut [f64]>(
            0..rounds,
            |x, i, deal| {
                let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
                deal.parts(into::even(tail, deal.width()));
                *head
            },
            |_, head, mine| add(head, mine),
        )
    });
    ended.into_iter().for_each(|ended| ended.expect("all members run all rounds"));
}

/// A team with as many tasks as there are threads.
fn windrow_tasks(runtime: &tokio::runtime::Runtime, x: &mut BytesMut, rounds: usize, threads: usize) {
    let (team, members) = AsyncTeam::new(std::mem::take(x), threads);
    let task = |mut member: windrow::team::AsyncMember<BytesMut>| {
        runtime.spawn(async move {
            let done = member.rounds::<f64, &mut [f64]>(
                0..rounds,
                |x, i, deal| {
                    let (head, tail) = numbers(x)[i..].split_first_mut().expect("no more rounds than numbers");
                    deal.parts(into::even(tail, deal.width()));
                    *head
                },
                |_, head, mine| add(head, mine),
            );
            done.await
        })
    };
    let tasks: Vec<_> = members.into_iter().map(task).collect();
    for task in tasks {
        runtime.block_on(task).expect("a member does not panic").expect("all members run all rounds");
    }
    *x = runtime.block_on(team.finish());
}

fn tokio_of(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().expect("threads can be started")
}

fn peer(name: &str, threads: usize) -> Option<(Rounds, Enter)> {
    Some(match name {
        SERIAL | CONTROL => arm_of(outside, |x, rounds| sequential(numbers(x), rounds)),
        "rayon" => arm_of(outside_rayon(threads), |x, rounds| {
            use rayon::prelude::*;
            each_round(x, rounds, |head, tail| tail.par_iter_mut().for_each(|number| *number += head));
        }),
        "rayon-chunks" => arm_of(outside_rayon(threads), move |x, rounds| by_chunks(x, rounds, threads)),
        "spindle" => arm_of(in_spindle(threads), move |x, rounds| with_spindle(x, rounds, threads)),
        "std-barrier" => arm_of(team_of(threads), move |x, rounds| {
            let barrier = &Barrier::new(threads);
            team(x, rounds, threads, move || {
                barrier.wait();
            });
        }),
        "hurdles" => arm_of(team_of(threads), move |x, rounds| {
            let mut barrier = hurdles::Barrier::new(threads);
            team(x, rounds, threads, move || {
                barrier.wait();
            });
        }),
        "spin" => arm_of(team_of(threads), move |x, rounds| {
            let barrier = &Spin::new(threads);
            team(x, rounds, threads, move || barrier.wait());
        }),
        "split" => arm_of(team_of(threads), move |x, rounds| split(x, rounds, threads)),
        "split-tokio" => {
            let runtime = tokio_of(threads);
            arm_of(outside, move |x, rounds| split_tokio(&runtime, x, rounds, threads))
        }
        _ => return None,
    })
}

fn arm_of(
    enter: impl Fn(&mut (dyn FnMut() + Send)) + 'static,
    rounds: impl FnMut(&mut BytesMut, usize) + Send + 'static,
) -> (Rounds, Enter) {
    (Box::new(rounds), Box::new(enter))
}

/// The outer loop of the document, with `share` as the inner one.
fn each_round(x: &mut BytesMut, rounds: usize, share: impl Fn(f64, &mut [f64])) {
    let x = numbers(x);
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().expect("no more rounds than numbers");
        share(*head, tail);
    }
}

fn by_chunks(x: &mut BytesMut, rounds: usize, threads: usize) {
    use rayon::prelude::*;
    each_round(x, rounds, |head, tail| {
        let chunk = tail.len().div_ceil(threads).max(1);
        tail.par_chunks_mut(chunk).for_each(|part| add(head, part));
    });
}

fn with_spindle(x: &mut BytesMut, rounds: usize, threads: usize) {
    use rayon::prelude::*;
    each_round(x, rounds, |head, tail| {
        // rayon divides by the number of items.
        if tail.is_empty() {
            return;
        }
        let chunk = tail.len().div_ceil(threads);
        spindle::for_each(threads, tail.par_chunks_mut(chunk), |part| add(head, part));
    });
}

/// Ends the program when a member panics: a member cannot leave a team of these barriers, and the others would wait for ever.
pub(super) struct OrEnd;

impl Drop for OrEnd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("error: a member of a team panicked");
            std::process::abort();
        }
    }
}

/// Makes teams of rayon's threads, as in the document.
pub(super) fn team_of(threads: usize) -> impl Fn(&mut (dyn FnMut() + Send)) {
    start_rayon(threads);
    outside
}

/// Runs `member` on every thread of rayon's pool at once.
pub(super) fn on_every_thread(member: impl Fn(usize) + Sync) {
    rayon::broadcast(|thread| {
        let _or_end = OrEnd;
        member(thread.index());
    });
}

/// Gives each member its part, takes it back, and joins all parts.
fn with_parts(x: &mut BytesMut, threads: usize, member: impl Fn(usize, Part) -> Part + Sync) {
    let parts: Vec<_> = deal(std::mem::take(x), threads).into_iter().map(Mutex::new).collect();
    let swap = |at: usize, part| std::mem::replace(&mut *parts[at].lock().expect("a panic ends the program"), part);
    on_every_thread(|at| drop(swap(at, member(at, swap(at, Part::default())))));
    *x = gather(parts.into_iter().map(|part| part.into_inner().expect("a panic ends the program")));
}

/// A team that has only a barrier.
fn team(x: &mut BytesMut, rounds: usize, threads: usize, wait: impl FnMut() + Clone + Sync) {
    let shared = Shared::new(Cuts { n: x.len() / 8, width: threads });
    with_parts(x, threads, |member, mut part| {
        shared.rounds(member, &mut part, rounds, wait.clone());
        part
    });
}

fn split(x: &mut BytesMut, rounds: usize, threads: usize) {
    let cuts = Cuts { n: x.len() / 8, width: threads };
    let split = Split::new(threads);
    with_parts(x, threads, |member, mut part| {
        for i in 0..rounds {
            let (mine, head) = split.round(member, part, |parts| deal_again(parts, cuts, i));
            part = mine;
            part.add(head, i);
        }
        part
    });
}

fn split_tokio(runtime: &tokio::runtime::Runtime, x: &mut BytesMut, rounds: usize, threads: usize) {
    let cuts = Cuts { n: x.len() / 8, width: threads };
    let split = Arc::new(Split::new(threads));
    let tasks: Vec<_> = deal(std::mem::take(x), threads)
        .into_iter()
        .enumerate()
        .map(|(member, mut part)| {
            let split = split.clone();
            runtime.spawn(async move {
                let _or_end = OrEnd;
                for i in 0..rounds {
                    let (mine, head) = split.round_of_task(member, part, |parts| deal_again(parts, cuts, i)).await;
                    part = mine;
                    part.add(head, i);
                }
                part
            })
        })
        .collect();
    *x = gather(tasks.into_iter().map(|task| runtime.block_on(task).expect("a panic ends the program")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::alone;

    #[test]
    fn every_arm_gives_what_sequential_gives() {
        let _alone = alone();
        let (stage, mut programs) = (Stage::default(), Programs::default());
        for (n, rounds) in [(1500, 1500), (3000, 40)] {
            let cell = cell(&stage, 0, n, rounds);
            for name in [SERIAL, CONTROL].into_iter().chain(WINDROW).chain(PEERS) {
                match arm(name, Setting { threads: 2 }, &stage, &mut programs) {
                    Ok(mut arm) => {
                        arm.load(&cell);
                        let reply = arm.run(Ask { warm_up: 1, calls: 2, each: true, ..Ask::default() });
                        assert_eq!((arm.name(), reply.nanos.len()), (name, 2));
                    }
                    // A machine may lack a compiler.
                    Err(error) => assert!(name.starts_with("omp-"), "{error}"),
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "lazy gives a different answer from sequential")]
    fn an_arm_that_leaves_a_round_out_fails() {
        let stage = Stage::default();
        let cell = cell(&stage, 0, 100, 50);
        let (rounds, enter) = arm_of(outside, |x, rounds| sequential(numbers(x), rounds - 1));
        let mut arm = Here { name: "lazy".to_owned(), rounds, enter, stage };
        arm.load(&cell);
        arm.run(Ask { calls: 1, ..Ask::default() });
    }
}
