//! Rounds on threads and by polled tasks: compared with the serial loop, with every way to leave.

use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use windrow_sync::Spin;
use windrow_sync::rounds::{Ended, Family, Lend, MemberSlot, Own, Rounds, TaskRounds, TaskSlot, Turn};

const SPIN: Spin = if cfg!(miri) { Spin::NONE } else { Spin { busy: 2_000, yielding: 20_000 } };
/// One group, a bit more than one, two and a half.
const WIDTHS: &[usize] = if cfg!(miri) { &[1, 2, 17] } else { &[1, 2, 3, 16, 17, 40] };
const FEW: &[usize] = if cfg!(miri) { &[1, 3] } else { &[1, 2, 3, 17] };
const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };

/// Runs `member` on a thread for each slot; returns their results, or their panics.
fn run<T: Send, R: Send>(
    data: &mut T,
    width: usize,
    member: impl Fn(&mut MemberSlot<'_, T>) -> R + Sync,
) -> Vec<thread::Result<R>> {
    let rounds = Rounds::new(data, width);
    let slots: Vec<_> = (0..width).map(|_| rounds.join().unwrap()).collect();
    assert!(rounds.join().is_none());
    assert_eq!(rounds.form(), width);
    let member = &member;
    thread::scope(|scope| {
        let threads: Vec<_> = slots
            .into_iter()
            .map(|mut slot| {
                scope.spawn(move || {
                    member(&mut {
                        slot.width(SPIN);
                        slot
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    })
}

/// The results of a run in which no member may panic.
fn calm<R>(results: Vec<thread::Result<R>>) -> Vec<R> {
    results.into_iter().map(|result| result.unwrap_or_else(|payload| resume_unwind(payload))).collect()
}

/// A value that is counted while it lives.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(living: &Arc<AtomicUsize>) -> Self {
        living.fetch_add(1, Relaxed);
        Counted(living.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(self.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
    }
}

impl Lend for Counted {
    type Family = Own<Counted>;
}

/// Reads what it was lent when it is dropped.
struct Looks<'x>(&'x mut Vec<String>, &'static AtomicUsize);
struct LooksOf;
impl Family for LooksOf {
    type Of<'x> = Looks<'x>;
    fn shorten<'short, 'long: 'short>(of: Looks<'long>) -> Looks<'short> {
        of
    }
}
impl Lend for Looks<'_> {
    type Family = LooksOf;
}

impl Drop for Looks<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(self.0.iter().map(String::len).sum(), Relaxed);
    }
}

fn even(mut of: &mut [u64], width: usize) -> impl Iterator<Item = &mut [u64]> {
    let mut left = width;
    std::iter::from_fn(move || {
        let first = of.len().checked_div(left)?;
        left -= 1;
        Some(of.split_off_mut(..first).unwrap())
    })
}

#[test]
fn rounds_equal_the_serial_loop_at_every_width() {
    for &width in WIDTHS {
        let start: Vec<u64> = (0..ROUNDS as u64 + 50).collect();
        let mut expected = start.clone();
        for i in 0..ROUNDS {
            let (head, tail) = expected[i..].split_first_mut().unwrap();
            tail.iter_mut().for_each(|element| *element = element.wrapping_mul(3).wrapping_add(*head));
        }
        let mut data = start;
        let ended = run(&mut data, width, |slot| {
            for i in 0..ROUNDS {
                let (head, mine) = match slot.arrive(SPIN)? {
                    Turn::Lead(lead) => lead.round::<u64, &mut [u64]>(|data, deal| {
                        let (head, tail) = data[i..].split_first_mut().unwrap();
                        deal.parts(even(tail, deal.width()));
                        *head
                    }),
                    Turn::Follow(follow) => follow.open::<u64, &mut [u64]>(),
                };
                mine.iter_mut().for_each(|element| *element = element.wrapping_mul(3).wrapping_add(head));
            }
            Ok::<_, Ended>(())
        });
        assert_eq!(calm(ended), vec![Ok(()); width], "the last round counts for all");
        assert_eq!(data, expected);
    }
}

/// The data that goes from leader to leader in the next test.
struct Narrow {
    next: usize,
    sums: Vec<u64>,
}

#[test]
fn narrow_rounds_reach_only_their_members() {
    let members = |round: usize, width: usize| 1 + round.wrapping_mul(0x9e37_79b9) / 7 % width;
    const OVER: u64 = u64::MAX;
    for &width in WIDTHS {
        let mut data = Narrow { next: 0, sums: vec![0; width] };
        let took_part = calm(run(&mut data, width, |slot| {
            let mut took_part = 0;
            loop {
                let (round, sum) = match slot.arrive(SPIN).unwrap() {
                    Turn::Lead(mut lead) => {
                        let round = lead.data().next;
                        if round == ROUNDS {
                            let width = lead.width();
                            lead.round_of::<(), ()>(width, OVER, |_, deal| deal.none());
                            return took_part;
                        }
                        lead.data().next += 1;
                        let members = members(round, width);
                        let (at, sum) = lead.round_of::<usize, &mut u64>(members, round as u64, |data, deal| {
                            assert_eq!(deal.width(), members);
                            deal.parts(data.sums.iter_mut().take(members));
                            data.next - 1
                        });
                        (at, sum)
                    }
                    Turn::Follow(follow) => match follow.note() {
                        OVER => return took_part,
                        note => {
                            let (round, sum) = follow.open::<usize, &mut u64>();
                            assert_eq!(round as u64, note);
                            (round, sum)
                        }
                    },
                };
                *sum += round as u64;
                took_part += 1;
            }
        }));
        let all: usize = (0..ROUNDS).map(|round| members(round, width)).sum();
        assert_eq!(took_part.iter().sum::<usize>(), all);
        let sum: u64 = (0..ROUNDS).map(|round| (round * members(round, width)) as u64).sum();
        assert_eq!(data.sums.iter().sum::<u64>(), sum);
    }
}

#[test]
fn what_members_bring_is_given_in_their_order() {
    for &width in WIDTHS {
        let living = Arc::new(AtomicUsize::new(0));
        calm(run(&mut (), width, |slot| {
            for round in 0..ROUNDS {
                slot.contribute(Counted::new(&living));
                slot.contribute((slot.index() + round, Counted::new(&living)));
                let ((), all) = match slot.arrive(SPIN).unwrap() {
                    Turn::Lead(lead) => lead.round_with::<(), Own<Vec<usize>>, (usize, Counted)>(|(), given, deal| {
                        assert_eq!(given.len(), width);
                        let all: Vec<_> = given.map(|(number, _)| number).collect();
                        deal.parts((0..width).map(|_| all.clone()));
                    }),
                    Turn::Follow(follow) => follow.open_with::<(), Own<Vec<usize>>, (usize, Counted)>(),
                };
                assert_eq!(all, (round..round + width).collect::<Vec<_>>());
            }
        }));
        assert_eq!(living.load(Relaxed), 0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(512))]
struct Aligned;
impl Lend for Aligned {
    type Family = Own<Aligned>;
}
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(256))]
struct Large([u64; 100]);
impl Lend for Large {
    type Family = Own<Large>;
}

#[test]
fn values_of_every_size_and_alignment_arrive() {
    fn round<S, P>(slot: &mut MemberSlot<'_, ()>, shared: S, part: P)
    where
        S: Lend<Family = Own<S>> + Copy + PartialEq + std::fmt::Debug + Send + 'static,
        P: Lend<Family = Own<P>> + Clone + PartialEq + std::fmt::Debug + Send + 'static,
    {
        let got = match slot.arrive(SPIN).unwrap() {
            Turn::Lead(lead) => lead.round::<S, P>(|(), deal| {
                deal.parts((0..deal.width()).map(|_| part.clone()));
                shared
            }),
            Turn::Follow(follow) => follow.open::<S, P>(),
        };
        let address = &raw const got.1;
        assert!(address.is_aligned());
        assert_eq!(got, (shared, part));
    }
    calm(run(&mut (), 2, |slot| {
        for at in 0..3 {
            round(slot, (), ());
            round(slot, Aligned, at);
            round(slot, at, Aligned);
            round(slot, Large([at; 100]), 'x');
            round(slot, 1.5, Large([at; 100]));
            round(slot, Aligned, Large([at; 100]));
        }
    }));
}

#[test]
fn parts_are_dropped_once_whichever_members_open_them() {
    for &width in WIDTHS {
        let living = Arc::new(AtomicUsize::new(0));
        calm(run(&mut (), width, |slot| {
            for round in 0..ROUNDS {
                let at = slot.index();
                match slot.arrive(SPIN).unwrap() {
                    Turn::Lead(lead) => {
                        lead.round::<(), Counted>(|(), deal| {
                            deal.parts((0..deal.width()).map(|_| Counted::new(&living)));
                        });
                    }
                    Turn::Follow(follow) if (round + at) % 2 == 0 => drop(follow.open::<(), Counted>()),
                    Turn::Follow(_) => {}
                }
            }
        }));
        assert_eq!(living.load(Relaxed), 0);
    }
}

/// `split` panics after it has dealt this number of parts, or deals too few or too many.
#[test]
fn a_round_that_does_not_come_about_leaves_nothing() {
    for &width in FEW {
        for dealt in [0, 1, width - 1, width, width + 1] {
            for panics in [false, true] {
                if !panics && dealt == width {
                    continue;
                }
                let living = Arc::new(AtomicUsize::new(0));
                let results = run(&mut (), width, |slot| {
                    match slot.arrive(SPIN)? {
                        Turn::Lead(lead) => {
                            lead.round::<(), Counted>(|(), deal| {
                                deal.parts((0..dealt).map(|_| Counted::new(&living)));
                                assert!(!panics, "after {dealt}");
                            });
                        }
                        Turn::Follow(_) => unreachable!("no round took place"),
                    }
                    Ok::<_, Ended>(())
                });
                assert_eq!(living.load(Relaxed), 0);
                assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
                let others: Vec<_> = results.into_iter().flatten().collect();
                assert_eq!(others, vec![Err(Ended::Panicked); width - 1]);
            }
        }
    }
}

#[test]
fn a_leave_or_a_panic_releases_the_others() {
    for &width in &FEW[1..] {
        for leaver in [0, width - 1] {
            for why in [Ended::Left, Ended::Panicked] {
                let results = run(&mut 0u64, width, |slot| {
                    for round in 0.. {
                        if round == 3 && slot.index() == leaver {
                            assert!(why == Ended::Left, "on purpose");
                            return Err(why);
                        }
                        match slot.arrive(SPIN)? {
                            Turn::Lead(lead) => drop(lead.round::<(), ()>(|_, deal| deal.none())),
                            Turn::Follow(follow) => drop(follow.open::<(), ()>()),
                        }
                        assert!(round < 3);
                    }
                    Ok(())
                });
                for (at, result) in results.into_iter().enumerate() {
                    match result {
                        Ok(result) => assert_eq!(result, Err(why)),
                        Err(_) => assert_eq!((at, why), (leaver, Ended::Panicked)),
                    }
                }
            }
        }
    }
}

#[test]
fn a_seat_that_is_dropped_before_the_team_forms_ends_it() {
    let mut data = 0;
    let rounds = Rounds::new(&mut data, 3);
    drop(rounds.join().unwrap());
    let mut slot = rounds.join().unwrap();
    assert_eq!(rounds.form(), 2);
    assert_eq!(slot.width(SPIN), 2);
    assert_eq!(slot.arrive(SPIN).unwrap_err(), Ended::Left);
}

#[test]
fn members_at_rounds_of_different_types_do_not_mix() {
    let results = run(&mut 0u64, 2, |slot| {
        let at = slot.index();
        match slot.arrive(SPIN)? {
            Turn::Lead(lead) if at == 0 => drop(lead.round::<u32, ()>(|_, deal| {
                deal.none();
                1
            })),
            Turn::Lead(lead) => drop(lead.round::<i32, ()>(|_, deal| {
                deal.none();
                1
            })),
            Turn::Follow(follow) if at == 0 => drop(follow.open::<u32, ()>()),
            Turn::Follow(follow) => drop(follow.open::<i32, ()>()),
        }
        slot.arrive(SPIN).map(|_| ())
    });
    let panicked: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(panicked.len(), 1);
    assert!(
        panicked[0].downcast_ref::<&str>().is_some_and(|text| text.contains("different types"))
            || panicked[0].downcast_ref::<String>().is_some_and(|text| text.contains("different types"))
    );
    assert!(results.into_iter().flatten().all(|result| result == Err(Ended::Panicked)));
}

/// A part that no member took is gone before the next leader changes the data that it reads.
#[test]
fn a_letter_that_was_not_opened_is_dropped_before_the_next_round() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let mut data = vec![vec!["one".to_owned()]; 2];
    calm(run(&mut data, 2, |slot| {
        for round in 0..3 {
            // A follower leaves its message unopened.
            if let Turn::Lead(mut lead) = slot.arrive(SPIN).unwrap() {
                assert_eq!(SEEN.load(Relaxed), 6 * round, "both parts of the last round have gone");
                *lead.data() = vec![vec!["two".to_owned()]; 2];
                drop(lead.round::<(), Looks<'_>>(|data, deal| {
                    deal.parts(data.iter_mut().map(|part| Looks(part, &SEEN)));
                }));
            }
        }
    }));
    assert_eq!(SEEN.load(Relaxed), 18);
}

/// A leader that survives a panic in its `split` may change the data: no part may read it any more.
#[test]
fn a_round_alone_that_panicked_leaves_nothing() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let mut data = vec!["one".to_owned()];
    let mut rounds = Rounds::single(&mut data);
    {
        let mut slot = rounds.slot();
        let Ok(Turn::Lead(mut lead)) = slot.arrive(SPIN) else { panic!("it is alone") };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            lead.alone::<(), Looks<'_>>(|data, deal| {
                deal.part(Looks(data, &SEEN));
                panic!("on purpose");
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(SEEN.load(Relaxed), 3, "the part has gone");
        lead.data().clear();
        drop(lead.alone::<(), Looks<'_>>(|data, deal| deal.part(Looks(data, &SEEN))));
        assert_eq!(SEEN.load(Relaxed), 3);
    }
    {
        let mut slot = rounds.slot();
        let Ok(Turn::Lead(lead)) = slot.arrive(SPIN) else { panic!("it is alone") };
        lead.round::<(), ()>(|data, deal| {
            data.push("four".to_owned());
            deal.none();
        });
    }
    drop(rounds);
    assert_eq!((data.len(), SEEN.load(Relaxed)), (1, 3));
}

/// A round that was sent and is forgotten, with its slot, leaves a part. The next slot begins without it, and it is dropped once.
#[test]
fn a_forgotten_round_leaves_nothing_to_the_next_seat() {
    let alive = Arc::new(());
    let mut data = vec![1u64; 4];
    let mut rounds = Rounds::single(&mut data);
    for _ in 0..3 {
        let mut slot = rounds.slot();
        assert_eq!(Arc::strong_count(&alive), 1);
        let Ok(Turn::Lead(lead)) = slot.arrive(Spin::NONE) else { panic!("it is alone") };
        mem::forget(lead.send::<(), Own<Arc<()>>>(1, 0, |_, deal| deal.part(alive.clone())));
        assert!(matches!(slot.arrive(Spin::NONE), Err(Ended::Left)));
        mem::forget(slot);
        assert_eq!(Arc::strong_count(&alive), 2);
    }
    let mut slot = rounds.slot();
    let Ok(Turn::Lead(lead)) = slot.arrive(Spin::NONE) else { panic!("it is alone") };
    let split = |data: &mut Vec<u64>, deal: &mut windrow_sync::rounds::Deal<'_, Own<u64>>| {
        deal.part(data[0]);
        data[1]
    };
    assert_eq!(lead.round::<u64, u64>(split), (1, 1));
    drop(slot);
    drop(rounds);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn what_is_brought_and_panics_when_dropped_is_not_given() {
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(self.0.fetch_add(1, Relaxed) > 0, "on purpose");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut data = ();
    let mut rounds = Rounds::single(&mut data);
    let mut slot = rounds.slot();
    slot.contribute(Bomb(dropped.clone()));
    assert!(catch_unwind(AssertUnwindSafe(|| slot.contribute(1u8))).is_err());
    assert_eq!(dropped.load(Relaxed), 1);
    let Ok(Turn::Lead(lead)) = slot.arrive(SPIN) else { panic!("it is alone") };
    let given = catch_unwind(AssertUnwindSafe(|| {
        lead.round_with::<(), (), Bomb>(|(), given, deal| {
            drop(given.collect::<Vec<_>>());
            deal.none();
        });
    }));
    assert!(given.is_err(), "nothing was contribution");
    assert_eq!(dropped.load(Relaxed), 1);
}

#[test]
fn a_member_that_forgets_its_lead_gets_no_further_round() {
    let results = calm(run(&mut (), 2, |slot| {
        match slot.arrive(SPIN) {
            Ok(Turn::Lead(lead)) => mem::forget(lead),
            Ok(Turn::Follow(_)) => unreachable!("no round took place"),
            Err(why) => return why,
        }
        slot.arrive(SPIN).unwrap_err()
    }));
    assert_eq!(results, [Ended::Left; 2]);
}

// --- Tasks, polled by hand.

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn task_round(slot: &mut TaskSlot<Vec<u64>>, round: u64) -> Result<(), Ended> {
    let (add, mine) = match slot.arrive(Spin::NONE).await?.0 {
        Turn::Lead(lead) => lead.round::<u64, &mut [u64]>(|data, deal| {
            deal.parts(even(data, deal.width()));
            round
        }),
        Turn::Follow(follow) => follow.open::<u64, &mut [u64]>(),
    };
    mine.iter_mut().for_each(|element| *element += add);
    Ok(())
}

#[test]
fn tasks_take_turns_on_one_thread() {
    for &width in WIDTHS {
        let (team, slots) = TaskRounds::new(vec![0; 100], width);
        let tasks = slots.into_iter().map(|mut slot| {
            Box::pin(async move {
                for round in 0..ROUNDS as u64 {
                    task_round(&mut slot, round).await?;
                }
                Ok::<_, Ended>(())
            })
        });
        let mut tasks: Vec<_> = tasks.collect();
        let mut finish = pin!(team.finish());
        while !tasks.is_empty() {
            assert!(poll(finish.as_mut()).is_pending());
            tasks.retain_mut(|task| match poll(task.as_mut()) {
                Poll::Ready(result) => {
                    assert_eq!(result, Ok(()));
                    false
                }
                Poll::Pending => true,
            });
        }
        let sum = (0..ROUNDS as u64).sum::<u64>();
        assert_eq!(poll(finish), Poll::Ready(vec![sum; 100]));
    }
}

/// The message of a task that was dropped after the round and before it was woken.
#[test]
fn an_unread_letter_is_gone_when_the_data_comes_back() {
    struct Adds<'x>(&'x mut u64);
    struct AddsOf;
    impl Family for AddsOf {
        type Of<'x> = Adds<'x>;
        fn shorten<'short, 'long: 'short>(of: Adds<'long>) -> Adds<'short> {
            of
        }
    }
    impl Lend for Adds<'_> {
        type Family = AddsOf;
    }
    impl Drop for Adds<'_> {
        fn drop(&mut self) {
            *self.0 += 1;
        }
    }
    let (team, mut slots) = TaskRounds::new([0; 2], 2);
    let (mut second, mut first) = (slots.pop().unwrap(), slots.pop().unwrap());
    {
        let mut waiting = Box::pin(first.arrive(Spin::NONE));
        assert!(poll(waiting.as_mut()).is_pending());
        let Poll::Ready(Ok((Turn::Lead(lead), _))) = poll(pin!(second.arrive(Spin::NONE))) else { panic!("complete") };
        drop(lead.round::<(), Adds<'_>>(|data, deal| deal.parts(data.iter_mut().map(Adds))));
    }
    assert!(matches!(poll(pin!(first.arrive(Spin::NONE))), Poll::Ready(Err(Ended::Left))));
    drop((first, second));
    assert_eq!(poll(pin!(team.finish())), Poll::Ready([1; 2]), "nothing looks at the data once it is given away");
}

#[test]
fn a_forgotten_wait_does_not_arrive_twice() {
    static KEPT: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
    let (team, mut slots) = TaskRounds::new(vec![0; 4], 2);
    let mut slot = slots.pop().unwrap();
    let mut waiting = Box::pin(slot.arrive(Spin::NONE));
    assert!(poll(waiting.as_mut()).is_pending());
    // (Forgotten, but where leak checkers find it.)
    KEPT.store(Box::into_raw(Box::new(waiting)).cast(), Relaxed);
    assert!(matches!(poll(pin!(slot.arrive(Spin::NONE))), Poll::Ready(Err(Ended::Left))));
    drop((slot, slots));
    assert_eq!(poll(pin!(team.finish())), Poll::Ready(vec![0; 4]));
}

#[test]
fn a_waker_that_panics_keeps_no_member_waiting() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    for leaves in [false, true] {
        let (_team, mut slots) = TaskRounds::new(vec![0; 8], 4);
        let mut last = slots.pop().unwrap();
        let mut waits: Vec<_> = slots.iter_mut().map(|slot| Box::pin(task_round(slot, 1))).collect();
        let waker = Waker::from(Arc::new(Panics));
        assert!(waits[0].as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        waits[1..].iter_mut().for_each(|wait| assert!(poll(wait.as_mut()).is_pending()));
        let panicked = catch_unwind(AssertUnwindSafe(|| match leaves {
            true => drop(last),
            false => assert!(matches!(poll(pin!(task_round(&mut last, 1))), Poll::Ready(Ok(())))),
        }));
        assert!(panicked.is_ok(), "a waker's panic is not the member's");
        let expected = if leaves { Err(Ended::Left) } else { Ok(()) };
        waits.iter_mut().for_each(|wait| assert_eq!(poll(wait.as_mut()), Poll::Ready(expected)));
    }
}
