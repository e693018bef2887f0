//! Models of chunks and slots handed out through an open gate: exclusive items in, ordered results out, nothing lost.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use windrow_sync::Spin;
use windrow_sync::divide::Division;
use windrow_sync::gate::Gate;
use windrow_sync::slots::{Fill, Slots};
use windrow_sync::sources::{SliceMut, Take, VecItems};

use crate::model;

/// The items of a chunk, from both sources.
type Items<'a> = (std::slice::IterMut<'a, usize>, Take<'a, Box<usize>>);

/// A region over `n` items that the lead shares after its first one; `keep` is the number of chunks that each member takes.
fn region(n: usize, keep: usize) -> (Vec<usize>, Option<Vec<usize>>) {
    let gate = Arc::new(Gate::new(1));
    let thread = {
        let gate = gate.clone();
        loom::thread::spawn(move || gate.serve(1, |_| Spin::NONE))
    };
    let mut touched = vec![0; n];
    let source = ((SliceMut::new(&mut touched), VecItems::new((0..n).map(Box::new).collect())), Slots::new(n, 2));
    let mut division = Division::new(source);
    let (mut lead, shared) = division.lead();
    let work = |((touched, items), mut fill): (Items<'_>, Fill<'_, usize>)| {
        fill.fill(touched.zip(items).map(|(touched, item)| {
            *touched += 1;
            *item * 10
        }));
    };
    let run = |member: usize| {
        let mut claims = shared.claims(member);
        for _ in 0..keep {
            let Some((_, chunk)) = claims.next(|_, _| 1, |lo, hi| lo.midpoint(hi)) else { break };
            work(chunk);
        }
    };
    gate.region(&|joined| run(joined.member), Spin::NONE, |door| {
        work(lead.take(1).unwrap().1);
        lead.share_evenly(2);
        door.open(2);
        run(0);
    });
    gate.stop();
    thread.join().unwrap();
    drop(lead);
    let (_, results) = division.done();
    (touched, results)
}

#[test]
fn every_item_once_and_results_in_order() {
    model(2, || {
        let (touched, results) = region(3, usize::MAX);
        assert_eq!(touched, [1; 3]);
        assert_eq!(results, Some(vec![0, 10, 20]));
    });
}

#[test]
fn untaken_items_are_dropped_and_the_results_are_not_whole() {
    model(2, || {
        let (touched, results) = region(4, 1);
        assert!(touched.iter().sum::<usize>() < 4 && touched.iter().all(|&count| count <= 1));
        assert_eq!(results, None);
    });
}

/// Models `any` and similar searches: the stop is seen, and all unclaimed items are still there for the drop.
#[test]
fn stop_loses_nothing() {
    model(2, || {
        static DROPS: AtomicUsizeHolder = AtomicUsizeHolder::new();
        struct Counted;
        impl Drop for Counted {
            fn drop(&mut self) {
                DROPS.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        DROPS.0.store(0, std::sync::atomic::Ordering::Relaxed);
        let mut division = Division::new(VecItems::new((0..4).map(|_| Counted).collect()));
        let (mut lead, _) = division.lead();
        lead.share_evenly(2);
        drop(lead);
        let division = Arc::new(division);
        let found = Arc::new(AtomicUsize::new(0));
        let other = {
            let (division, found) = (division.clone(), found.clone());
            loom::thread::spawn(move || {
                let mut claims = division.claims(1);
                while let Some((_, items)) = claims.next(|_, _| 1, |lo, hi| lo.midpoint(hi)) {
                    found.fetch_add(items.count(), Relaxed);
                }
            })
        };
        let first = division.claims(0).next(|_, _| 1, |lo, hi| lo.midpoint(hi));
        division.stop();
        let taken = first.map_or(0, |(span, ..)| span.len());
        other.join().unwrap();
        drop(Arc::try_unwrap(division).expect("all threads are through"));
        assert_eq!(DROPS.0.load(std::sync::atomic::Ordering::Relaxed), 4);
        assert!(found.load(Relaxed) <= 4 - taken);
    });
}

/// A counter outside the model: loom statics would be reset, and this one only counts.
struct AtomicUsizeHolder(std::sync::atomic::AtomicUsize);
impl AtomicUsizeHolder {
    const fn new() -> Self {
        Self(std::sync::atomic::AtomicUsize::new(0))
    }
}
