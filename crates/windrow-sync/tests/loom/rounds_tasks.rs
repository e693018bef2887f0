//! Models of rounds whose members are tasks: a waker that is kept is woken, a task that gives up waiting harms no other, and the
//! data comes back when all have gone.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use windrow_sync::Spin;
use windrow_sync::rounds::{Ended, TaskRounds, TaskSlot, Turn};

use crate::{Watched, model};

type Data = Vec<Watched>;

fn data(width: usize) -> Data {
    (0..width).map(|_| Watched::new(0)).collect()
}

/// Runs a future on this thread, which parks until it is woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Awake(Notify);
    impl Wake for Awake {
        fn wake(self: Arc<Self>) {
            self.0.notify();
        }
    }
    let awake = Arc::new(Awake(Notify::new()));
    let waker = Waker::from(awake.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        awake.0.wait();
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

async fn add(slot: &mut TaskSlot<Data>) -> Result<(), Ended> {
    let ((), part) = match slot.arrive(Spin::NONE).await?.0 {
        Turn::Lead(lead) => lead.round::<(), &mut Watched>(|data, deal| deal.parts(data)),
        Turn::Follow(follow) => follow.open::<(), &mut Watched>(),
    };
    part.set(part.get() + 1);
    Ok(())
}

/// Runs `rounds` on a thread for each of `width` members but the first, which this thread runs; then the data comes back.
fn run(width: usize, rounds: usize) {
    let (team, slots) = TaskRounds::new(data(width), width);
    let member = move |mut slot: TaskSlot<Data>| {
        block_on(async move {
            for _ in 0..rounds {
                assert_eq!(add(&mut slot).await, Ok(()));
            }
        })
    };
    let mut slots = slots.into_iter();
    let mine = slots.next().unwrap();
    slots.for_each(|slot| drop(loom::thread::spawn(move || member(slot))));
    member(mine);
    let data = block_on(team.finish());
    assert!(data.iter().all(|part| part.get() == rounds));
}

#[test]
fn wakers_are_woken_round_after_round() {
    model(2, || run(2, 2));
}

/// A member that leaves after the last round also wakes tasks whose round has not come yet: they wait on.
#[test]
fn the_last_round_counts_for_all() {
    model(1, || run(3, 1));
}

/// The task that waits for the data gets it after the last access of the last member.
#[test]
fn the_data_comes_back_when_all_have_gone() {
    model(2, || {
        let (team, slots) = TaskRounds::new(data(2), 2);
        for mut slot in slots {
            loom::thread::spawn(move || {
                // (This round may fail: the test is about the drop.)
                if let Poll::Ready(Ok((Turn::Lead(mut lead), _))) = poll_once(pin!(slot.arrive(Spin::NONE))) {
                    lead.data().iter().for_each(|part| part.set(1));
                }
            });
        }
        block_on(team.finish()).iter().for_each(|part| part.set(part.get() + 1));
    });
}

/// A task gives up while it waits, at any point of the round it has arrived for. The other gets that round or an error; later
/// contributions of the first reach no leader.
#[test]
fn a_task_that_gives_up_releases_the_others() {
    model(2, || {
        let (team, mut slots) = TaskRounds::new(data(2), 2);
        let mut other = slots.pop().unwrap();
        let mut slot = slots.pop().unwrap();
        loom::thread::spawn(move || {
            block_on(async move {
                other.contribute(Watched::new(1));
                match other.arrive(Spin::NONE).await {
                    Ok((Turn::Lead(lead), _)) => {
                        let ((), part) = lead.round_with::<(), &mut Watched, Watched>(|data, given, deal| {
                            given.for_each(|contribution| assert_eq!(contribution.get(), 1));
                            deal.parts(data);
                        });
                        part.set(1);
                    }
                    // The other has led, and gives up in its second round.
                    Ok((Turn::Follow(follow), _)) => follow.open_with::<(), &mut Watched, Watched>().1.set(1),
                    Err(why) => assert_eq!(why, Ended::Left),
                }
                assert_eq!(other.arrive(Spin::NONE).await.err(), Some(Ended::Left));
            })
        });
        slot.contribute(Watched::new(1));
        let led = match poll_once(pin!(slot.arrive(Spin::NONE))) {
            Poll::Ready(Ok((Turn::Lead(lead), _))) => {
                lead.round_with::<(), &mut Watched, Watched>(|data, _, deal| deal.parts(data)).1.set(1);
                true
            }
            Poll::Ready(Ok((Turn::Follow(_), _))) => true,
            Poll::Ready(Err(_)) => unreachable!("no other member leaves"),
            Poll::Pending => false,
        };
        if !led {
            slot.contribute(Watched::new(2));
        }
        drop(slot);
        block_on(team.finish()).iter().for_each(|part| assert!(part.get() <= 1));
    });
}

/// A leave and a round come at the same time, and both try to wake the third task: the waker goes to one of them.
#[test]
fn a_round_and_a_leave_wake_the_same_task() {
    model(1, || {
        let (team, mut slots) = TaskRounds::new(data(3), 3);
        let mut waits = slots.pop().unwrap();
        let mut gives_up = slots.pop().unwrap();
        let mut leads = slots.pop().unwrap();
        loom::thread::spawn(move || block_on(async move { add(&mut waits).await.is_ok() }));
        loom::thread::spawn(move || poll_once(pin!(add(&mut gives_up))).is_ready());
        let led = block_on(async { add(&mut leads).await });
        assert!(matches!(led, Ok(()) | Err(Ended::Left)));
        drop(leads);
        block_on(team.finish());
    });
}
