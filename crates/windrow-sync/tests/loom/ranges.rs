//! Models of the range words: every index is claimed once, or drained once, for every order of steals.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use windrow_sync::ranges::{Ranges, Run};

use crate::model;

fn half(run: &Run) -> u32 {
    run.start + (run.end - run.start) / 2
}

fn check(n: u32, members: usize, threads: &'static [usize], want: u32, stop_after: Option<usize>) {
    model(if threads.len() > 2 { 1 } else { 2 }, move || {
        let mut ranges = Ranges::new(members);
        ranges.fill(n, members, 0, |part| n * part as u32 / members as u32);
        let ranges = Arc::new(ranges);
        let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..n).map(|_| AtomicUsize::new(0)).collect());
        let work = move |ranges: &Ranges, seen: &[AtomicUsize], member: usize| {
            let mut claims = 0;
            while let Some(run) = ranges.claim(member, |_| want, half) {
                assert!(!run.is_empty());
                run.for_each(|i| assert_eq!(seen[i as usize].fetch_add(1, Relaxed), 0, "claimed twice"));
                claims += 1;
                if stop_after == Some(claims) {
                    ranges.stop();
                }
            }
        };
        let others: Vec<_> = threads[1..]
            .iter()
            .map(|&member| {
                let (ranges, seen) = (ranges.clone(), seen.clone());
                loom::thread::spawn(move || work(&ranges, &seen, member))
            })
            .collect();
        work(&ranges, &seen, threads[0]);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let mut ranges = Arc::try_unwrap(ranges).expect("all threads are through");
        let drained: Vec<Run> = ranges.drain().collect();
        let left: usize = drained.iter().map(Run::len).sum();
        for run in drained {
            run.for_each(|i| assert_eq!(seen[i as usize].fetch_add(1, Relaxed), 0, "drained what was claimed"));
        }
        assert!(seen.iter().all(|count| count.load(Relaxed) == 1), "an index was lost");
        assert!(stop_after.is_some() || left == 0, "an index was left");
    });
}

#[test]
fn two_members_claim_and_steal() {
    check(4, 2, &[0, 1], 1, None);
}

#[test]
fn everything_at_one_member() {
    check(3, 2, &[1, 1], 1, None); // both use the same number, and the other word holds indices too
}

#[test]
fn three_members_claim_and_steal() {
    check(3, 3, &[0, 1, 2], 2, None);
}

#[test]
fn stop_leaves_the_rest_in_the_words() {
    check(4, 2, &[0, 1], 1, Some(1));
}
