//! The entries of `explain`: every shape, with its place.

use windrow::batch::Batched;
use windrow::prelude::*;
#[cfg(feature = "async-team")]
use windrow::team::AsyncTeam;
use windrow::team::split;
use windrow::{CallKind, Explained, Pool};
#[cfg(feature = "async-team")]
use windrow_testkit::block_on;
use windrow_testkit::{Sum, spin};

/// The shape, the count and the line of an entry of this file.
fn seen(explained: &Explained) -> (CallKind, u64, u32) {
    let place = explained.place().expect("every call has a place");
    assert_eq!(place.file(), file!());
    assert!(explained.to_string().starts_with(&format!("{}:{}  ", file!(), place.line())), "{explained}");
    assert!(!explained.reason().is_empty(), "{explained}");
    (explained.kind(), explained.count(), place.line())
}

fn rounds(member: &mut windrow::team::Member<'_, '_, [u32]>) {
    let done = member.rounds::<(), &mut [u32]>(
        0..100,
        |data, _, deal| deal.parts(split::even(data, deal.width())),
        |_, (), part| part.iter_mut().for_each(|one| *one += 1),
    );
    done.expect("no member leaves early");
}

#[test]
fn every_shape_says_what_it_decided() {
    let pool = Pool::new(2);
    let mut numbers: Vec<u64> = (0..50_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut data = [0u32; 64];
    let batched = Batched::new(Sum(0));
    let first = line!() + 3;
    let ((), why) = windrow::explain(|| {
        pool.install(|| {
            (0..1_000u32).into_par_iter().for_each(|_| spin(1));
            windrow::join(|| spin(50), || spin(50));
            numbers.par_sort();
            let team = windrow::team(&mut data[..]);
            team.run(rounds);
            for _ in 0..10 {
                batched.call(1).unwrap();
            }
            windrow::overlap::source(0..20u32).compute("odd", |i| Ok::<_, ()>(i | 1)).collect().unwrap();
        });
    });
    let seen: Vec<_> = why.iter().map(seen).collect();
    let team: Vec<_> = seen.iter().filter(|(shape, ..)| matches!(shape, CallKind::Team | CallKind::Rounds)).collect();
    assert_eq!(*team[0], (CallKind::Team, 0, first + 4), "{why:#?}");
    assert!(team.len() == 1 || *team[1] == (CallKind::Rounds, 100, first + 4), "{why:#?}");
    let others: Vec<_> =
        seen.iter().filter(|(shape, ..)| !matches!(shape, CallKind::Team | CallKind::Rounds)).collect();
    let expected = [
        (CallKind::Loop, 1_000, first),
        (CallKind::Join, 0, first + 1),
        (CallKind::Sort, 50_000, first + 2),
        (CallKind::Batch, 10, first + 6),
        (CallKind::Overlap, 20, first + 8),
    ];
    assert!(others.into_iter().eq(&expected), "{why:#?}");
    // A millisecond of items that take a microsecond each is measured and predicted.
    let took = why[0].took().as_micros();
    assert!(took >= 400, "{}", why[0]);
    assert!(why[0].predicted().is_some(), "{}", why[0]);
    assert!(numbers.is_sorted());
}

#[test]
#[cfg(feature = "async-team")]
fn a_team_of_tasks_is_reported_with_its_data() {
    let line = line!() + 2;
    let (data, why) = windrow::explain(|| {
        let (team, mut members) = AsyncTeam::new(vec![0u32; 8], 1);
        let mut member = members.pop().unwrap();
        block_on(async move {
            let ended = member.rounds::<(), &mut [u32]>(
                0..10,
                |data, _, deal| deal.parts(split::even(&mut data[..], deal.width())),
                |_, (), part| part.iter_mut().for_each(|one| *one += 1),
            );
            ended.await
        })
        .expect("no member leaves early");
        block_on(team.finish())
    });
    assert_eq!(data, [10; 8]);
    assert_eq!(seen(&why[0]), (CallKind::Team, 0, line), "{why:#?}");
    assert_eq!(why[0].threads(), 1);
}

#[test]
fn a_reduction_counts_the_callers_items() {
    let ((), why) = windrow::explain(|| {
        let _sum: u64 = (0..1_000_000u64).into_par_iter().sum();
    });
    assert_eq!((why.len(), why[0].count()), (1, 1_000_000), "{}", why[0]);
}

#[test]
fn an_iterator_that_does_not_say_its_length_has_no_predictions() {
    let pool = Pool::new(2);
    let numbers = || {
        let mut next = 0..20_000u64;
        std::iter::from_fn(move || next.next())
    };
    let (sum, entries) =
        windrow::explain(|| pool.install(|| numbers().par_bridge().map(|x| x.wrapping_mul(x)).sum::<u64>()));
    assert_eq!(sum, numbers().map(|x| x.wrapping_mul(x)).sum::<u64>());
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.kind(), entry.count(), entry.predicted()), (CallKind::Loop, 0, None));
    assert_eq!(entry.alternatives().count(), 0);
    let line = entry.to_string();
    assert!(line.contains("  items of an iterator in ") && !line.contains("18,446"), "{line}");
}

#[test]
fn other_threads_and_calls_outside_are_not_heard() {
    let call = || (0..10).into_par_iter().for_each(|_| ());
    call();
    let ((), why) = windrow::explain(|| std::thread::scope(|scope| scope.spawn(call).join().unwrap()));
    assert!(why.is_empty(), "{why:?}");
    let (result, why) = windrow::explain(|| std::panic::catch_unwind(|| windrow::explain(|| panic!("halfway")).1));
    assert!(result.is_err() && why.is_empty());
    call();
    assert!(!windrow::listens(None));
}

/// A site that has learned that its calls are too short to share learns, too, when they no longer are.
#[test]
fn a_site_of_short_calls_learns_that_its_calls_have_become_long() {
    let pool = Pool::new(2);
    let call = |micros: u64| {
        let item = |_| {
            if micros > 0 {
                spin(micros)
            }
        };
        let mut made = pool.install(|| windrow::explain(|| (0..8u32).into_par_iter().for_each(item))).1;
        made.pop().expect("a call")
    };
    let is_short = |made: &Explained| made.reason().contains("too short to be shared, as remembered");
    assert!((0..200).map(|_| call(0)).any(|made| is_short(&made)), "calls of nothing are short");
    let long: Vec<Explained> = (0..5).map(|_| call(500)).collect();
    assert!(long[2..].iter().all(|made| !is_short(made)), "{long:#?}");
    let is_known = long[4].predicted().is_some_and(|time| time.as_millis() > 0);
    assert!(is_known || long[4].threads() == 2, "{long:#?}");
}
