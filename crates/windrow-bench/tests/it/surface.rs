//! Ordinary parallel calls, written once, under rayon's prelude and under windrow's: the results are the same, on every pool.
//!
//! `book/src/from-rayon.md` lists what does not compile under both, or differs.

mod on_rayon {
    use rayon::iter::{self, Either};
    use rayon::prelude::*;
    use rayon::{join, scope};
    include!("surface/calls.rs");
}

mod on_windrow {
    use windrow::iter::{self, Either};
    use windrow::prelude::*;
    use windrow::{join, scope};
    include!("surface/calls.rs");
}

#[test]
fn every_call_gives_the_same_under_either_prelude() {
    let expected = on_rayon::calls();
    assert!(expected.len() >= 100, "{} calls", expected.len());
    for threads in [1, 2, 4, 7] {
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let windrow = windrow::Pool::new(threads);
        for ((name, on_rayon), (_, on_windrow)) in on_rayon::calls().into_iter().zip(on_windrow::calls()) {
            let theirs = rayon.install(on_rayon);
            assert_eq!(windrow.install(on_windrow), theirs, "{name} on {threads} threads");
        }
    }
    let mut names: Vec<_> = expected.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), expected.len(), "a name is used twice");
}
