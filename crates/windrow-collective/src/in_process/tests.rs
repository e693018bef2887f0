use std::panic::{AssertUnwindSafe, catch_unwind};

use half::bf16;
use proptest::prelude::*;

use super::*;

/// Runs each rank on a separate thread. Returns their results, in order.
fn on_all<R: Send>(ranks: Vec<Rank>, run: impl Fn(Rank) -> R + Sync) -> Vec<R> {
    let run = &run;
    thread::scope(|scope| {
        let running: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
        running.into_iter().map(|thread| thread.join().expect("a rank panicked")).collect()
    })
}

/// A rank's value at a place: small whole numbers, so that sums are exact in every kind.
fn value(rank: usize, place: usize) -> u64 {
    ((rank + 1) * (place % 7 + 1) % 11) as u64
}

fn collectives_of<T: Element>(size: usize, len: usize, link: Option<Link>, from: fn(u64) -> T) {
    let group = Group { link, ..Group::new(size) };
    let ranks = on_all(group.ranks(), |mut rank| {
        let me = rank.rank();
        let mine = |len: usize| (0..len).map(|place| from(value(me, place))).collect::<Vec<_>>();
        let (mut reduced, given, block) = (Vec::new(), mine(len * size), mine(len));
        let (mut scattered, mut gathered) = (vec![T::default(); len], vec![T::default(); len * size]);
        let mut cast = mine(len);
        for _ in 0..2 {
            reduced = mine(len);
            rank.all_reduce(&mut reduced).unwrap();
            rank.reduce_scatter(&given, &mut scattered).unwrap();
            rank.barrier().unwrap();
            rank.all_gather(&block, &mut gathered).unwrap();
            rank.broadcast(size - 1, &mut cast).unwrap();
        }
        (reduced, scattered, gathered, cast)
    });
    let sum = |place| from((0..size).map(|rank| value(rank, place)).sum());
    for (rank, (reduced, scattered, gathered, cast)) in ranks.into_iter().enumerate() {
        assert_eq!(reduced, (0..len).map(sum).collect::<Vec<_>>());
        assert_eq!(scattered, (rank * len..(rank + 1) * len).map(sum).collect::<Vec<_>>());
        let all = (0..size).flat_map(|rank| (0..len).map(move |place| from(value(rank, place))));
        assert_eq!(gathered, all.collect::<Vec<_>>());
        assert_eq!(cast, (0..len).map(|place| from(value(size - 1, place))).collect::<Vec<_>>());
    }
}

#[test]
fn collectives_equal_serial_ones() {
    for size in 1..=4 {
        // Below, at and above the number of ranks; several pieces.
        for len in [0, 1, size, 7, 40_000] {
            collectives_of(size, len, None, |x| x as f32);
            collectives_of(size, len, None, |x| x as f64);
            collectives_of(size, len, None, |x| bf16::from_f32(x as f32));
            collectives_of(size, len, None, |x| x);
        }
    }
}

#[test]
fn so_do_those_over_a_link() {
    let link = Link::new(4e9, Duration::from_micros(5));
    for (size, len) in [(1, 10), (2, 0), (2, 70_000), (3, 50_000), (4, 5)] {
        collectives_of(size, len, Some(link), |x| x as f32);
        collectives_of(size, len, Some(link), |x| bf16::from_f32(x as f32));
    }
}

#[test]
fn ranks_that_call_something_else_are_named() {
    let errors = on_all(Group::new(3).ranks(), |mut rank| {
        let before = match rank.rank() {
            2 => rank.reduce_scatter(&[1.0_f32; 3], &mut [0.0]),
            _ => rank.all_reduce(&mut [1.0_f64; 8]),
        };
        // All ranks have made one call each: the group works like a new one.
        let mut one = [1_u64];
        rank.all_reduce(&mut one).unwrap();
        assert_eq!(one, [3]);
        before.unwrap_err().to_string()
    });
    assert_eq!(errors, ["rank 0 called all_reduce of 8 f64, but rank 2 called reduce_scatter of 3 f32 to 1"; 3]);
}

#[test]
fn lengths_elements_and_roots_are_compared() {
    type Calls = [fn(&mut Rank) -> Result<(), Error>; 2];
    let cases: [(Calls, &str); 6] = [
        (
            [|r| r.all_reduce(&mut [0.0_f32; 2]), |r| r.all_reduce(&mut [0.0_f32; 3])],
            "rank 0 called all_reduce of 2 f32, but rank 1 called all_reduce of 3 f32",
        ),
        ([|r| r.all_reduce(&mut [0_u64; 2]), |r| r.all_reduce(&mut [0.0_f64; 2])], "all_reduce of 2 f64"),
        ([|r| r.broadcast(0, &mut [0_u64]), |r| r.broadcast(1, &mut [0_u64])], "broadcast of 1 u64 from rank 1"),
        ([|r| r.broadcast(2, &mut [0_u64]); 2], "cannot broadcast from rank 2 in a group of 2"),
        ([|r| r.all_gather(&[0_u64], &mut [0; 3]); 2], "rank 0 called all_gather of 1 u64 to 3 in a group of 2"),
        ([|r| r.barrier(), |r| r.reduce_scatter::<f32>(&[], &mut [])], "rank 0 called barrier, but rank 1"),
    ];
    for (calls, message) in cases {
        let errors = on_all(Group::new(2).ranks(), |mut rank| calls[rank.rank()](&mut rank).unwrap_err());
        assert_eq!(errors[0], errors[1]);
        assert!(errors[0].to_string().contains(message), "{}", errors[0]);
    }
}

#[test]
fn a_rank_that_refuses_is_heard_and_stays() {
    let results = on_all(Group::new(3).ranks(), |mut rank| {
        let refused = match rank.rank() {
            1 => rank.refuse("no matrix"),
            _ => rank.barrier().unwrap_err(),
        };
        (refused, rank.barrier())
    });
    let refused = Error::Refused { rank: 1, why: "no matrix".to_owned() };
    assert_eq!(results, vec![(refused, Ok(())); 3]);
}

#[test]
fn no_rank_waits_for_a_rank_that_is_gone() {
    for panicked in [false, true] {
        let results = on_all(Group::new(4).ranks(), |mut rank| {
            if rank.rank() == 2 {
                let left = catch_unwind(AssertUnwindSafe(move || {
                    rank.barrier().unwrap();
                    let _rank = rank;
                    if panicked {
                        std::panic::resume_unwind(Box::new("stop"));
                    }
                }));
                assert_eq!(left.is_err(), panicked);
                return None;
            }
            let first = rank.barrier();
            Some((first, rank.all_reduce(&mut [0.0_f32; 100]).unwrap_err(), rank.barrier().unwrap_err()))
        });
        let left = Error::Left { rank: 2, panicked };
        for result in results.into_iter().flatten() {
            assert_eq!(result, (Ok(()), left.clone(), left.clone()));
        }
    }
}

#[test]
fn damaged_pieces_are_found_by_all() {
    type Collective = fn(&mut Rank) -> Result<(), Error>;
    let collectives: [Collective; 4] = [
        |r| r.all_reduce(&mut [1.0_f32; 100]),
        |r| r.reduce_scatter(&[1.0_f32; 300], &mut [0.0; 100]),
        |r| r.all_gather(&[1.0_f32; 100], &mut [0.0; 300]),
        |r| r.broadcast(1, &mut [1.0_f32; 100]),
    ];
    for collective in collectives {
        let ranks = Group::new(3).link(Link::new(1e9, Duration::ZERO)).ranks();
        *ranks[0].shared.spoil.lock().unwrap() = Some(1);
        let errors = on_all(ranks, |mut rank| {
            let error = collective(&mut rank).unwrap_err();
            collective(&mut rank).unwrap();
            error
        });
        assert!(matches!(errors[0], Error::Damaged { from: 1, .. }), "{}", errors[0]);
        assert_eq!(errors, vec![errors[0].clone(); 3]);
    }
}

#[test]
fn a_link_takes_its_time() {
    let link = Link::new(50e6, Duration::from_micros(300));
    let paces = on_all(Group::new(2).link(link).ranks(), |mut rank| {
        rank.barrier().unwrap();
        let began = Instant::now();
        rank.all_reduce(&mut [1.0_f32; 100_000]).unwrap();
        let reduced = rank.pace().unwrap();
        rank.all_gather(&[1.0_f64; 10_000], &mut [0.0; 20_000]).unwrap();
        let gathered = rank.pace().unwrap();
        let elapsed = began.elapsed();
        // 400 kB of which each link carries all, and 80 kB of 160 kB.
        assert_eq!(reduced.asked, Duration::from_micros(8000 + 600));
        assert_eq!(gathered.asked, Duration::from_micros(1600 + 300));
        assert!(reduced.taken >= reduced.asked && gathered.taken >= gathered.asked);
        // Each operation began when the last rank had called, so after this rank had.
        assert!(elapsed >= reduced.asked + gathered.asked);
        let paced = rank.paced();
        assert_eq!(paced.operations, 3);
        assert_eq!(paced.asked, Duration::from_micros(300) + reduced.asked + gathered.asked);
        paced
    });
    assert!(paces.iter().all(|paced| paced.taken >= paced.asked));
}

/// One of the collectives, with a length.
fn call(rank: &mut Rank, what: u8, len: usize) -> Result<(), Error> {
    let size = rank.size();
    match what {
        0 => rank.all_reduce(&mut vec![1.0_f32; len]),
        1 => rank.reduce_scatter(&vec![1.0_f32; len * size], &mut vec![0.0; len]),
        2 => rank.all_gather(&vec![1.0_f32; len], &mut vec![0.0; len * size]),
        3 => rank.broadcast(0, &mut vec![1.0_f32; len]),
        4 => rank.barrier(),
        _ => Err(rank.refuse("no")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(32)))]

    /// For any calls of the ranks, each call has the same correct outcome on all of them.
    #[test]
    fn outcomes_are_shared(
        size in 1..5_usize,
        calls in prop::collection::vec((0..6_u8, 0..4_usize, prop::option::weighted(0.2, (0..4_usize, 0..6_u8))), 1..8),
    ) {
        let outcomes = on_all(Group::new(size).ranks(), |mut rank| {
            let made = calls.iter().map(|&(what, len, other)| {
                let what = other.filter(|other| other.0 == rank.rank()).map_or(what, |other| other.1);
                call(&mut rank, what, len)
            });
            made.collect::<Vec<_>>()
        });
        for (at, &(what, len, other)) in calls.iter().enumerate() {
            let other = other.filter(|other| other.0 < size).map_or(what, |other| other.1);
            let differs = other != what && size > 1;
            let fails = other == 5 || (what == 5 && size > 1) || differs;
            // Two different calls are different even without elements.
            prop_assert_eq!(outcomes[0][at].is_err(), fails, "{} {} {}", what, other, len);
            for outcome in &outcomes {
                prop_assert_eq!(&outcome[at], &outcomes[0][at]);
            }
        }
    }
}

#[test]
fn a_rank_that_lost_its_way_inside_a_call_refuses_and_all_go_on() {
    let results = on_all(Group::new(3).ranks(), |mut rank| {
        let lost = if rank.rank() == 1 {
            // As if the caller had caught a panic between the first meeting and the second.
            let call = Call { name: "all_reduce", element: "f64", gives: 4, gets: 4, root: None };
            rank.give(call, &[1.0; 4], 3).map(drop).unwrap();
            rank.refuse("lost")
        } else {
            rank.all_reduce(&mut [1.0; 4]).unwrap_err()
        };
        // The slots are in step: otherwise one of these calls would fail.
        let mut sums = Vec::new();
        for add in 0..3 {
            let mut data = [(rank.rank() + add) as f64; 4];
            rank.all_reduce(&mut data).unwrap();
            sums.push(data[3]);
        }
        (lost, sums)
    });
    let refused = Error::Refused { rank: 1, why: "lost".to_owned() };
    assert_eq!(results, vec![(refused, vec![3.0, 6.0, 9.0]); 3]);
}
