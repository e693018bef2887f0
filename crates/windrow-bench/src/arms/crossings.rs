//! Crossings of a barrier as arms. The cell has one item, whose turns are the number of crossings. With a seed, every member shows its
//! presence in every round.

use std::rc::Rc;
use std::sync::Barrier;

use windrow::team::{Member, Width, split as into};

use super::rounds::{on_every_thread, team_of};
use super::{Arm, Here, Loaded, Programs, Setting, windrow_pool};
use crate::rounds::barriers::{Lines, Packed, Spin};
use crate::rounds::presence::Presence;
use crate::rounds::split::Split;
use crate::work::Item;

/// windrow's ways: a team of fixed width with its barrier, or with rounds that split numbers; and one that takes the free workers.
pub const WINDROW: [&str; 3] = ["windrow-barrier", "windrow-round", "windrow-moldable"];
/// Other barriers. `lines` is an exchange of cache lines, without any count.
pub const PEERS: [&str; 9] = [
    "lines",
    "spin",
    "spin-packed",
    "hurdles",
    "std-barrier",
    "split",
    "omp-cross",
    "omp-passive-cross",
    "omp-bound-cross",
];

/// A cell with this many crossings.
pub fn cell(crossings: u64, shown: bool) -> Rc<Loaded> {
    let items = vec![Item { seed: shown.into(), turns: crossings }];
    Rc::new(Loaded { index: 0, items, expected: vec![1], sum: [1] })
}

/// The arm of this name.
///
/// # Errors
/// When it cannot be built on this machine.
///
/// # Panics
/// If there is no such arm.
pub fn arm(name: &str, setting: Setting, programs: &mut Programs) -> Result<Box<dyn Arm>, String> {
    let threads = setting.threads;
    let call = |cross: fn(usize, Item)| {
        Here::arm(name, team_of(threads), move |_, items, out| {
            cross(threads, items[0]);
            out[0] = 1;
        })
    };
    Ok(match name {
        "lines" => call(|threads, item| {
            let lines = &Lines::new(threads);
            cross(threads, item, move |member| lines.wait(member));
        }),
        "spin" => call(|threads, item| {
            let barrier = &Spin::new(threads);
            cross(threads, item, move |_| barrier.wait());
        }),
        "spin-packed" => call(|threads, item| {
            let barrier = &Packed::new(threads);
            cross(threads, item, move |_| barrier.wait());
        }),
        "hurdles" => call(|threads, item| {
            let mut barrier = hurdles::Barrier::new(threads);
            cross(threads, item, move |_| {
                barrier.wait();
            });
        }),
        "std-barrier" => call(|threads, item| {
            let barrier = &Barrier::new(threads);
            cross(threads, item, move |_| {
                barrier.wait();
            });
        }),
        "split" => call(|threads, item| {
            let split = &Split::new(threads);
            cross(threads, item, move |member| {
                split.round(member, (), |_| 0.0);
            });
        }),
        "windrow-barrier" => windrow(name, setting, Width::exactly(threads), |member| {
            member.barrier().expect("all members cross together");
        }),
        "windrow-moldable" => windrow(name, setting, Width::at_most(threads), |member| {
            member.barrier().expect("all members cross together");
        }),
        "windrow-round" => windrow(name, setting, Width::exactly(threads), |member| {
            let (_, mine) = member
                .round::<f64, &mut [f64]>(|x, deal| {
                    deal.parts(into::even(&mut *x, deal.width()));
                    0.0
                })
                .expect("all members cross together");
            std::hint::black_box(mine);
        }),
        _ if name.starts_with("omp-") => programs.arm(name, threads)?,
        _ => panic!("no arm is called {name}"),
    })
}

/// Lets a team of `threads` cross the barrier of `wait`.
fn cross(threads: usize, item: Item, wait: impl FnMut(usize) + Clone + Sync) {
    let presence = Presence::new(threads);
    on_every_thread(|member| {
        let mut wait = wait.clone();
        crossings(member, threads, item, &presence, || wait(member));
    });
}

/// A team of windrow, over some numbers.
fn windrow(
    name: &str,
    setting: Setting,
    width: Width,
    wait: impl Fn(&mut Member<'_, '_, [f64]>) + Copy + Send + Sync + 'static,
) -> Box<dyn Arm> {
    let threads = setting.threads;
    let mut numbers = vec![0.0; 64 * threads];
    Here::arm(name, windrow_pool(setting), move |_, items, out| {
        let presence = Presence::new(threads);
        let crossed = |member: &mut Member<'_, '_, [f64]>| {
            let (at, width) = (member.index(), member.width());
            crossings(at, width, items[0], &presence, || wait(member));
        };
        // Beside a neighbour, a worker may not have left the last team yet. A fixed width is then refused, and the call tries again.
        while windrow::team(&mut numbers[..]).width(width).try_run(crossed).is_err() {
            std::thread::yield_now();
        }
        out[0] = 1;
    })
}

/// All crossings of one member.
fn crossings(
    member: usize,
    width: usize,
    Item { seed: shown, turns }: Item,
    presence: &Presence,
    mut wait: impl FnMut(),
) {
    for round in 0..turns as u32 {
        if shown == 0 {
            wait();
        } else {
            presence.arrive(member, round);
            wait();
            presence.check(width, round);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{Ask, alone};

    #[test]
    fn all_members_are_there_in_every_round() {
        let _alone = alone();
        let mut programs = Programs::default();
        for shown in [false, true] {
            for name in WINDROW.into_iter().chain(PEERS) {
                match arm(name, Setting { threads: 2, shared: false }, &mut programs) {
                    Ok(mut arm) => {
                        arm.load(&cell(100, shown));
                        assert_eq!(arm.run(Ask { calls: 1, each: true, ..Ask::default() }).nanos.len(), 1);
                    }
                    // A machine may lack a compiler.
                    Err(error) => assert!(name.starts_with("omp-"), "{error}"),
                }
            }
        }
    }
}
