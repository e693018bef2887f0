//! Overlapped runs in forked children.
//!
//! In a separate process: whether a child can start threads is certain only if no thread of the parent was starting one.
#![cfg(all(target_os = "linux", not(miri)))]

use windrow::overlap;
use windrow_testkit::{alone, forked};

fn works() -> bool {
    let tiles = overlap::source(0..9).blocking("a", Ok::<i32, ()>).compute("b", |i| Ok(i + 1));
    tiles.collect().is_ok_and(|results| results == (1..10).collect::<Vec<_>>())
}

#[test]
fn children_run_their_own() {
    alone(
        module_path!(),
        "children_run_their_own",
        |_| (),
        || {
            // Also while a run of the parent is under way.
            let forks = overlap::source(0..20)
                .compute("fork", |_| if works() && forked(works) { Ok(()) } else { Err("not what it should be") });
            assert_eq!(forks.run().unwrap(), 20);
        },
    );
}
