//! Regions of two parts: how fast runtimes fork and join.

use std::sync::Arc;
use std::thread;

use super::rust_peers::{in_chili, in_spindle, inside_rayon, outside_rayon, with_scope};
use super::{Arm, Here, Programs, Setting, windrow_pool};
use crate::meeting::{Bare, Meeting};

/// The work of the two parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Nothing: a runtime may leave both to the caller.
    Empty,
    /// The parts wait for each other, so that two threads must take part.
    Meet,
}

/// The runtimes; `bare` is two threads and two cache lines, without a runtime.
pub const RUNTIMES: [&str; 9] =
    ["bare", "windrow", "windrow-join", "rayon", "rayon-inside", "chili", "spindle", "omp", "tbb"];

/// A region as an arm, and the meeting of its parts. Its cell has one item, whose output is 1.
///
/// # Errors
/// When it cannot be built on this machine, or this runtime has no such region.
///
/// # Panics
/// If there is no such runtime.
pub fn region(
    runtime: &str,
    parts: Parts,
    setting: Setting,
    programs: &mut Programs,
) -> Result<(Box<dyn Arm>, Arc<Meeting>), String> {
    use windrow::prelude::*;
    let meeting = Arc::new(Meeting::default());
    let meets = meeting.clone();
    let part = move |who| {
        if parts == Parts::Meet {
            meets.meet(who);
        }
    };
    let threads = setting.threads;
    let arm = match (runtime, parts) {
        ("bare", _) => {
            let bare = Arc::new(Bare::default());
            let (there, other) = (bare.clone(), part.clone());
            let enter = move |body: &mut (dyn FnMut() + Send)| {
                there.start();
                thread::scope(|scope| {
                    scope.spawn(|| there.serve(|| other(1)));
                    body();
                    there.end();
                });
            };
            Here::arm(runtime, enter, move |_, _, out| {
                out[0] = {
                    bare.go(|| part(0));
                    1
                }
            })
        }
        // Different regions are different call sites of a program; windrow may remember their costs.
        ("windrow", Parts::Empty) => Here::arm(runtime, windrow_pool(setting), |_, _, out| {
            (0..2usize).into_par_iter().for_each(|_| ());
            out[0] = 1;
        }),
        ("windrow", Parts::Meet) => Here::arm(runtime, windrow_pool(setting), move |_, _, out| {
            // The claim size is given, so both are handed out at once, without measuring the first.
            (0..2usize).into_par_iter().with_claim_size(1).for_each(&part);
            out[0] = 1;
        }),
        #[cfg(feature = "join")]
        ("windrow-join", _) => Here::arm(runtime, windrow_pool(setting), move |_, _, out| {
            windrow::join(|| part(0), || part(1));
            out[0] = 1;
        }),
        #[cfg(not(feature = "join"))]
        ("windrow-join", _) => return Err("built without the feature `join`".to_owned()),
        ("rayon", _) => Here::arm(runtime, outside_rayon(threads), move |_, _, out| {
            rayon::join(|| part(0), || part(1));
            out[0] = 1;
        }),
        ("rayon-inside", _) => Here::arm(runtime, inside_rayon(threads), move |_, _, out| {
            rayon::join(|| part(0), || part(1));
            out[0] = 1;
        }),
        ("chili", _) => Here::arm(runtime, in_chili(threads), move |_, _, out| {
            with_scope(|scope| scope.join(|_| part(0), |_| part(1)));
            out[0] = 1;
        }),
        ("spindle", _) => Here::arm(runtime, in_spindle(threads), move |_, _, out| {
            spindle::for_each_raw(2, &part);
            out[0] = 1;
        }),
        ("omp" | "tbb", Parts::Empty) => programs.arm(&format!("{runtime}-empty"), threads)?,
        ("omp" | "tbb", Parts::Meet) => programs.arm(&format!("{runtime}-meet"), threads)?,
        _ => panic!("no runtime is called {runtime}"),
    };
    Ok((arm, meeting))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arms::{Ask, Loaded, alone};
    use crate::work::Item;
    use std::rc::Rc;

    #[test]
    fn every_runtime_runs_both_parts_or_says_why_not() {
        let _alone = alone();
        let cell = Rc::new(Loaded { index: 0, items: vec![Item { seed: 0, turns: 0 }], expected: vec![1], sum: [1] });
        let mut programs = Programs::default();
        for parts in [Parts::Empty, Parts::Meet] {
            for runtime in RUNTIMES {
                match region(runtime, parts, Setting { threads: 2, shared: false }, &mut programs) {
                    Ok((mut arm, meeting)) => {
                        arm.load(&cell);
                        assert_eq!(arm.run(Ask { calls: 2, each: true, ..Ask::default() }).nanos.len(), 2);
                        assert!(parts == Parts::Meet || meeting.missed() == 0);
                    }
                    Err(error) => assert!(matches!(runtime, "windrow-join" | "omp" | "tbb"), "{runtime}: {error}"),
                }
            }
        }
    }
}
