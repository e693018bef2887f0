//! Teams of tasks by hand, without an executor: what must hold at one certain moment.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use windrow::team::{AsyncMember, AsyncTeam, Ended, Family, Lend, split};
use windrow_testkit::block_on;

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A future that is dropped after one look.
fn once<F: Future>(future: F) -> Poll<F::Output> {
    poll(pin!(future))
}

/// A task that has woken another lets it run first.
fn twice<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    assert!(poll(future.as_mut()).is_pending());
    poll(future)
}

/// Data that counts what happens to it.
struct Data {
    text: String,
    gone: Arc<AtomicUsize>,
    parts: Arc<AtomicUsize>,
}
impl Drop for Data {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Relaxed);
    }
}

/// A part that looks at the data when it is dropped.
struct Look<'x>(&'x Data);
struct LookOf;
impl Family for LookOf {
    type Of<'x> = Look<'x>;

    fn shorten<'short, 'long: 'short>(of: Look<'long>) -> Look<'short> {
        of
    }
}
impl Lend for Look<'_> {
    type Family = LookOf;
}
impl Drop for Look<'_> {
    fn drop(&mut self) {
        assert_eq!((self.0.gone.load(Relaxed), &self.0.text[..]), (0, "the data"), "a part outlives the data");
        self.0.parts.fetch_add(1, Relaxed);
    }
}

/// Takes the data and drops it as soon as it can be had.
struct TakeIt(Mutex<Pin<Box<dyn Future<Output = Data> + Send>>>);
impl Wake for TakeIt {
    fn wake(self: Arc<Self>) {
        assert!(poll(self.0.lock().unwrap().as_mut()).is_ready());
    }
}

/// A member that leaves while it waits may have been dealt a part. It is not taken, and it is gone before the data is.
#[test]
fn a_part_that_was_not_taken_is_dropped_before_the_data_comes_back() {
    let (gone, parts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let data = Data { text: "the data".to_string(), gone: gone.clone(), parts: parts.clone() };
    let (team, mut members) = AsyncTeam::new(data, 2);
    let (mut stays, mut leaves) = (members.remove(0), members.remove(0));

    let take_it = Arc::new(TakeIt(Mutex::new(Box::pin(team.finish()))));
    let waker = Waker::from(take_it.clone());
    assert!(take_it.0.lock().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);

    {
        let mut waits = pin!(leaves.round::<(), Look<'_>>(|_, _| unreachable!("it is not the last to arrive")));
        assert!(poll(waits.as_mut()).is_pending());
        let round = stays.round::<(), Look<'_>>(|data, deal| {
            let data = &*data;
            deal.parts([Look(data), Look(data)]);
        });
        let Poll::Ready(Ok(((), mine))) = twice(round) else { panic!("it is the last to arrive") };
        assert_eq!(mine.0.text, "the data");
    }
    assert_eq!(parts.load(Relaxed), 1);
    drop(leaves);
    assert!(matches!(once(stays.barrier()), Poll::Ready(Err(Ended::Left))));
    assert_eq!(gone.load(Relaxed), 0);
    drop(stays);
    assert_eq!((parts.load(Relaxed), gone.load(Relaxed)), (2, 1));
}

/// A future that is forgotten while it waits gives nothing away: its round may take place once, and its member comes to no other.
#[test]
fn a_member_that_forgets_a_future_has_left() {
    let (team, mut members) = AsyncTeam::new(vec![0; 4], 2);
    let mut finish = pin!(team.finish());
    let mut member = members.pop().unwrap();
    let mut forgotten = Box::pin(member.barrier());
    assert!(poll(forgotten.as_mut()).is_pending());
    // The member is free again, but its place at the barrier is taken.
    std::mem::forget(forgotten);
    assert!(matches!(once(member.barrier()), Poll::Ready(Err(Ended::Left))));
    let mut other = members.pop().unwrap();
    let round = other.round::<usize, &mut [i32]>(|data, deal| {
        let (a, b) = data.split_at_mut(2);
        deal.parts([a, b]);
        2
    });
    assert!(matches!(twice(round), Poll::Ready(Ok((2, _)))));
    drop(member);
    assert!(matches!(once(other.barrier()), Poll::Ready(Err(Ended::Left))));
    assert!(poll(finish.as_mut()).is_pending());
    drop(other);
    assert_eq!(poll(finish), Poll::Ready(vec![0; 4]));
}

/// A leader that lets others run first may be dropped meanwhile: then it has left, and its part is gone before the data is.
#[test]
fn a_leader_that_is_dropped_after_its_round_has_left() {
    let (gone, parts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let data = Data { text: "the data".to_string(), gone: gone.clone(), parts: parts.clone() };
    let (team, mut members) = AsyncTeam::new(data, 2);
    let mut finish = Box::pin(team.finish());
    let (mut first, mut leads) = (members.remove(0), members.remove(0));
    {
        let mut waits = pin!(first.round::<(), Look<'_>>(|_, _| unreachable!("it is not the last to arrive")));
        assert!(poll(waits.as_mut()).is_pending());
        {
            let mut round = pin!(leads.round::<(), Look<'_>>(|data, deal| {
                let data = &*data;
                deal.parts([Look(data), Look(data)]);
            }));
            assert!(poll(round.as_mut()).is_pending());
        }
        assert_eq!(parts.load(Relaxed), 1, "the leader's part");
        assert!(matches!(once(leads.barrier()), Poll::Ready(Err(Ended::Left))));
        // The round has taken place.
        assert!(matches!(poll(waits), Poll::Ready(Ok(_))));
    }
    assert!(matches!(once(first.barrier()), Poll::Ready(Err(Ended::Left))));
    drop((first, leads));
    assert!(poll(finish.as_mut()).is_ready());
    assert_eq!((parts.load(Relaxed), gone.load(Relaxed)), (2, 1));
}

/// A task of an executor whose wakers own it, as executors built on [`Wake`] are.
struct OwnedTask {
    _future: Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>,
}
impl Wake for OwnedTask {
    fn wake(self: Arc<Self>) {}
}

/// The only owner of a task that owns `kept`, as a waker.
fn last_owner(kept: impl Send + 'static) -> Waker {
    let future = async move {
        let _kept = kept;
        std::future::pending::<()>().await
    };
    Waker::from(Arc::new(OwnedTask { _future: Mutex::new(Box::pin(future)) }))
}

/// Runs it on a thread, so that a deadlock fails the test.
fn in_time(test: impl FnOnce() + Send + 'static) {
    let (done, seen) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    let timeout = std::time::Duration::from_secs(60);
    assert_ne!(seen.recv_timeout(timeout), Err(std::sync::mpsc::RecvTimeoutError::Timeout), "a poll does not return");
    thread.join().unwrap();
}

/// A member that is polled with another waker drops the one before. That may be the last owner of a task with another member, which
/// leaves the team then, and wakes this one.
#[test]
fn a_waker_that_is_replaced_may_own_a_member() {
    in_time(|| {
        let (team, mut members) = AsyncTeam::new(0, 3);
        let (_third, owned, mut first) = (members.pop(), members.pop(), members.pop().unwrap());
        let mut barrier = Box::pin(async move { first.barrier().await });
        let waker = last_owner(owned);
        assert!(barrier.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert_eq!(poll(barrier.as_mut()), Poll::Ready(Err(Ended::Left)));
        drop(team);
    });
}

/// The same where the owner of the team waits for its end.
#[test]
fn the_owners_waker_that_is_replaced_may_own_the_last_member() {
    in_time(|| {
        let (team, mut members) = AsyncTeam::new(7, 1);
        let mut finish = Box::pin(team.finish());
        let waker = last_owner(members.pop());
        assert!(finish.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        assert_eq!(poll(finish.as_mut()), Poll::Ready(7));
    });
}

/// Runs `member` on a thread each. Returns their results, and the data.
fn team_of<R: Send>(
    data: Vec<f64>,
    width: usize,
    member: impl AsyncFn(AsyncMember<Vec<f64>>) -> R + Sync,
) -> (Vec<thread::Result<R>>, Vec<f64>) {
    let (team, members) = AsyncTeam::new(data, width);
    let results = thread::scope(|scope| {
        let run = |each| scope.spawn(|| block_on(member(each)));
        let threads: Vec<_> = members.into_iter().map(run).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    (results, block_on(team.finish()))
}

const N: usize = if cfg!(miri) { 30 } else { 1500 };

fn start() -> Vec<f64> {
    (0..N).map(|i| 1.0 / (i + 1) as f64).collect()
}

/// Every element is added to all that come after it; `before` is called in each round of each member.
async fn add_heads(
    member: &mut AsyncMember<Vec<f64>>,
    range: std::ops::Range<usize>,
    before: impl Fn(usize) + Sync,
) -> Result<(), Ended> {
    let ended = member.rounds::<f64, &mut [f64]>(
        range,
        |x, i, deal| {
            let (head, tail) = x[i..].split_first_mut().unwrap();
            deal.parts(split::even(tail, deal.width()));
            *head
        },
        |i, head, mine| {
            before(i);
            mine.iter_mut().for_each(|element| *element += head);
        },
    );
    ended.await
}

/// Also if rounds that differ in cost change their width, and if rounds of all members come between.
#[test]
fn rounds_of_tasks_equal_the_serial_loop_at_every_width() {
    let mut expected = start();
    for i in 0..N {
        let (head, tail) = expected[i..].split_first_mut().unwrap();
        tail.iter_mut().for_each(|element| *element += *head);
    }
    for width in 1..=4 {
        for call in 0..3 {
            let (results, x) = team_of(start(), width, async |mut member| {
                add_heads(&mut member, 0..N / 2, |i| {
                    if call == 1 && i % 100 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                })
                .await?;
                member.barrier().await?;
                add_heads(&mut member, N / 2..N / 2, |_| unreachable!("no rounds")).await?;
                add_heads(&mut member, N / 2..N, |_| ()).await?;
                assert_eq!(member.reduce(1, |a, b| a + b).await, Ok(width));
                Ok::<_, Ended>(())
            });
            assert!(results.into_iter().all(|result| result.unwrap() == Ok(())));
            assert_eq!(x, expected, "width {width}");
        }
    }
}

/// A member that panics in its work, returns, or passes another range ends the team for all.
#[test]
fn a_member_of_rounds_that_fails_releases_the_other_tasks() {
    for width in 2..=3 {
        for faulty in 0..width {
            let works = AtomicUsize::new(0);
            let (results, _) = team_of(start(), width, async |mut member| {
                assert_ne!(member.index(), faulty, "on purpose");
                let ended = add_heads(&mut member, 0..N, |_| {
                    works.fetch_add(1, Relaxed);
                })
                .await;
                assert_eq!(ended, Err(Ended::Panicked));
            });
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
            assert_eq!(works.into_inner(), 0);

            for other in [0..N / 2, 5..N, 0..0] {
                let (results, _) = team_of(start(), width, async |mut member| {
                    let range = if member.index() == faulty { other.clone() } else { 0..N };
                    add_heads(&mut member, range, |_| ()).await
                });
                let texts = results.iter().filter_map(|result| result.as_ref().err()?.downcast_ref::<String>());
                // (At least one: members that find all of their rounds done have no such error.)
                assert!(texts.clone().count() >= 1 && texts.clone().all(|text| text.contains("different ranges")));
            }
        }
        // A panic in the work, of the member that runs the round: alone, or with others.
        let (results, _) = team_of(start(), width, async |mut member| {
            add_heads(&mut member, 0..N, |i| assert!(i < N / 2, "on purpose")).await
        });
        assert!(results.iter().any(Result::is_err));
        assert!(results.iter().all(|result| !matches!(result, Ok(Ok(())))));
    }
}

/// A task that runs narrow rounds gives its thread back now and then. If it is dropped then, it has left.
#[test]
#[cfg_attr(miri, ignore = "by the clock")]
fn a_task_that_is_dropped_between_narrow_rounds_has_left() {
    let (team, mut members) = AsyncTeam::new(start(), 2);
    let (mut first, mut leads) = (members.remove(0), members.remove(0));
    let mut waits = Box::pin(add_heads(&mut first, 0..N, |_| ()));
    assert!(poll(waits.as_mut()).is_pending());
    {
        let mut rounds = Box::pin(add_heads(&mut leads, 0..N, |_| thread::sleep(Duration::from_micros(10))));
        assert!(poll(rounds.as_mut()).is_pending());
    }
    let Poll::Ready(ended) = poll(waits.as_mut()) else { panic!("the other has left") };
    assert_eq!(ended, Err(Ended::Left));
    drop(waits);
    drop((first, leads));
    assert_eq!(block_on(team.finish()).len(), N);
}

/// Rounds of tasks end when their members say so: halves numbers until their sum is small, with the same bits as one thread.
#[test]
fn rounds_of_tasks_end_when_they_have_converged() {
    for (width, n) in [(1, 5), (2, 1), (2, 1000), (3, 4000), (4, 2)] {
        let start: Vec<f64> = (0..n).map(|i| f64::from(i) + 1.0).collect();
        let (mut serial, mut rounds) = (start.clone(), 0);
        while rounds == 0 || serial.iter().sum::<f64>() > 1e-3 {
            serial.iter_mut().for_each(|number| *number /= 2.0);
            rounds += 1;
        }
        let (team, members) = AsyncTeam::new((start, 0), width);
        let task = |mut member: AsyncMember<(Vec<f64>, usize)>| {
            thread::spawn(move || {
                let halved = member.rounds_while::<(), &mut [f64], f64>(
                    |(_, rounds), round, sums| {
                        *rounds = round;
                        let (mut members, mut sum) = (0, 0.0);
                        sums.for_each(|one| (members, sum) = (members + 1, sum + one));
                        assert_eq!(round == 0, members == 0, "each member of a round contributes, and no other");
                        round == 0 || sum > 1e-3
                    },
                    |(numbers, _), _, deal| deal.parts(split::even(&mut numbers[..], deal.width())),
                    |_, (), mine| {
                        mine.iter_mut().for_each(|number| *number /= 2.0);
                        mine.iter().sum()
                    },
                );
                block_on(halved)
            })
        };
        let tasks: Vec<_> = members.into_iter().map(task).collect();
        assert!(tasks.into_iter().all(|task| task.join().unwrap() == Ok(())), "{width} members");
        assert_eq!(block_on(team.finish()), (serial, rounds), "{width} members, {n} numbers");
    }
}

/// A panic ends the rounds of all tasks.
#[test]
fn a_panic_in_rounds_of_tasks_without_a_range_ends_the_others() {
    for at in 0..3 {
        let (team, members) = AsyncTeam::new((), 2);
        let task = |mut member: AsyncMember<()>| {
            thread::spawn(move || {
                let panics = |here: usize, round: usize| assert!((here, round) != (at, 3), "at {here}");
                let rounds = member.rounds_while::<(), (), u32>(
                    |(), round, _| {
                        panics(0, round);
                        true
                    },
                    |(), round, deal| {
                        panics(1, round);
                        deal.none();
                    },
                    |round, (), ()| {
                        panics(2, round);
                        7
                    },
                );
                block_on(rounds)
            })
        };
        let tasks: Vec<_> = members.into_iter().map(task).collect();
        let ends: Vec<_> = tasks.into_iter().map(|task| task.join().ok()).collect();
        assert!(ends.contains(&None), "one has panicked: {ends:?}");
        assert!(ends.iter().all(|end| matches!(end, None | Some(Err(_)))), "no round follows: {ends:?}");
        block_on(team.finish());
    }
}
