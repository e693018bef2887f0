//! Teams of tasks on several executors: results equal those of the serial loop, members leave, and the data comes back.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::thread;

use smol::channel;
use smol::future::FutureExt;
use windrow::team::{AsyncMember, AsyncTeam, Ended, Own, split};
use windrow_testkit::Live;

/// An executor, and the number of its threads.
#[derive(Clone, Copy, Debug)]
enum On {
    Tokio(usize),
    TokioCurrent,
    Smol(usize),
}
use On::{Smol, Tokio, TokioCurrent};

const ALL: [On; 4] = [Tokio(2), TokioCurrent, Smol(1), Smol(2)];
const ONE_THREAD: [On; 3] = [Tokio(1), TokioCurrent, Smol(1)];

impl On {
    /// Runs `main` on the executor until it ends.
    fn run<R>(self, main: impl AsyncFnOnce(Spawner) -> R) -> R {
        let on_tokio = |mut builder: tokio::runtime::Builder| builder.enable_time().build().unwrap();
        match self {
            Tokio(threads) => {
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(threads);
                let runtime = on_tokio(builder);
                runtime.block_on(main(Spawner::Tokio(runtime.handle().clone())))
            }
            TokioCurrent => {
                let runtime = on_tokio(tokio::runtime::Builder::new_current_thread());
                runtime.block_on(main(Spawner::Tokio(runtime.handle().clone())))
            }
            Smol(threads) => {
                let executor = Arc::new(smol::Executor::new());
                let (through, end) = channel::bounded::<()>(1);
                thread::scope(|scope| {
                    for _ in 1..threads {
                        scope.spawn(|| smol::block_on(executor.run(end.recv())));
                    }
                    // (Also dropped by a panic, because the other threads would go on.)
                    let _through = through;
                    smol::block_on(executor.run(main(Spawner::Smol(executor.clone()))))
                })
            }
        }
    }
}

/// The executor on which tasks are spawned.
#[derive(Clone)]
enum Spawner {
    Tokio(tokio::runtime::Handle),
    Smol(Arc<smol::Executor<'static>>),
}

enum Task<R> {
    Tokio(tokio::task::JoinHandle<R>),
    Smol(smol::Task<R>),
}

impl Spawner {
    fn spawn<R: Send + 'static>(&self, future: impl Future<Output = R> + Send + 'static) -> Task<R> {
        match self {
            Spawner::Tokio(runtime) => Task::Tokio(runtime.spawn(future)),
            Spawner::Smol(executor) => Task::Smol(executor.spawn(future)),
        }
    }
}

/// The end of a task.
#[derive(Debug, PartialEq)]
enum Out<R> {
    Done(R),
    Panicked,
    Cancelled,
}
use Out::{Cancelled, Done, Panicked};

impl<R> Task<R> {
    async fn join(self) -> Out<R> {
        match self {
            Task::Tokio(task) => match task.await {
                Ok(result) => Done(result),
                Err(error) if error.is_panic() => Panicked,
                Err(_) => Cancelled,
            },
            Task::Smol(task) => AssertUnwindSafe(task).catch_unwind().await.map_or(Panicked, Done),
        }
    }

    async fn cancel(self) -> Out<R> {
        match self {
            Task::Tokio(task) => {
                task.abort();
                Task::Tokio(task).join().await
            }
            Task::Smol(task) => task.cancel().await.map_or(Cancelled, Done),
        }
    }
}

/// Spawns a team and waits for all of its members.
async fn team<T, R, F>(
    spawner: &Spawner,
    width: usize,
    data: T,
    member: impl Fn(AsyncMember<T>) -> F,
) -> (T, Vec<Out<R>>)
where
    T: Send,
    R: Send + 'static,
    F: Future<Output = R> + Send + 'static,
{
    let (team, members) = AsyncTeam::new(data, width);
    let tasks: Vec<Task<R>> = members.into_iter().map(|one| spawner.spawn(member(one))).collect();
    let mut outs = Vec::new();
    for task in tasks {
        outs.push(task.join().await);
    }
    (team.finish().await, outs)
}

/// Every element is added to all that come after it.
fn serial(x: &mut [f64], rounds: usize) {
    for i in 0..rounds {
        let (head, tail) = x[i..].split_first_mut().unwrap();
        tail.iter_mut().for_each(|element| *element += *head);
    }
}

/// One round of this.
async fn round(member: &mut AsyncMember<Vec<f64>>, i: usize) -> Result<(), Ended> {
    let (head, mine) = member
        .round::<f64, &mut [f64]>(|x, deal| {
            let (head, tail) = x[i..].split_first_mut().unwrap();
            deal.parts(split::even(tail, deal.width()));
            *head
        })
        .await?;
    mine.iter_mut().for_each(|element| *element += head);
    Ok(())
}

async fn rounds(mut member: AsyncMember<Vec<f64>>, rounds: usize) -> Result<(), Ended> {
    for i in 0..rounds {
        round(&mut member, i).await?;
    }
    Ok(())
}

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| 1.0 / (i + 1) as f64).collect()
}

#[test]
fn rounds_equal_the_serial_loop_at_every_width() {
    const N: usize = 1000;
    let mut expected = numbers(N);
    serial(&mut expected, N);
    for on in ALL {
        for width in 1..=8 {
            let (x, outs) = on.run(async |spawner| team(&spawner, width, numbers(N), |member| rounds(member, N)).await);
            assert!(outs.iter().all(|out| *out == Done(Ok(()))), "{on:?} {width}: {outs:?}");
            assert!(x.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{on:?} {width}");
        }
    }
}

/// More members than threads: a waiting member yields its thread, so one poll of each is enough for a round.
#[test]
fn many_members_on_one_thread_are_polled_once_a_round() {
    const WIDTH: usize = 64;
    const ROUNDS: usize = 500;
    let mut expected = numbers(1000);
    serial(&mut expected, ROUNDS);
    for on in ONE_THREAD {
        let polls = Arc::new(AtomicUsize::new(0));
        let (x, outs) = on.run(async |spawner| {
            team(&spawner, WIDTH, numbers(1000), |member| {
                let (polls, mut future) = (polls.clone(), Box::pin(rounds(member, ROUNDS)));
                std::future::poll_fn(move |context| {
                    polls.fetch_add(1, Relaxed);
                    future.as_mut().poll(context)
                })
            })
            .await
        });
        assert!(outs.iter().all(|out| *out == Done(Ok(()))), "{on:?}: {outs:?}");
        assert_eq!(x, expected);
        let polls = polls.load(Relaxed);
        assert!(polls <= WIDTH * (ROUNDS + 1), "{on:?}: {polls} polls");
    }
}

/// More members than the first level of a tree holds, on two threads.
#[test]
fn wide_teams_on_few_threads() {
    for on in [Tokio(2), Smol(2)] {
        let (sum, outs) = on.run(async |spawner| {
            team(&spawner, 100, 0, async |mut member: AsyncMember<usize>| {
                for turn in 0..200 {
                    let at = member.index();
                    assert_eq!(member.reduce(at + turn, |a, b| a + b).await?, 99 * 50 + 100 * turn);
                    let (before, text) = member
                        .round_with::<usize, Own<String>, _>(at, |sum, given, deal| {
                            assert!(given.eq(0..100));
                            (0..deal.width()).for_each(|at| deal.part(at.to_string()));
                            *sum += 1;
                            *sum
                        })
                        .await?;
                    assert_eq!((before, text), (turn + 1, at.to_string()));
                    member.barrier().await?;
                }
                Ok::<_, Ended>(())
            })
            .await
        });
        assert!(sum == 200 && outs.iter().all(|out| *out == Done(Ok(()))), "{on:?}: {outs:?}");
    }
}

/// A value that is counted.
type Counted = Live<Arc<AtomicIsize>, ()>;

/// How a member leaves in its fourth round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Returns,
    Panics,
    SplitPanics,
    TooFewParts,
    Never,
    /// Its future is dropped while it waits for a round.
    Drops,
}

/// A member leaves in some way: the other members are released, all parts are dropped once, and the data comes back.
#[test]
fn a_leaving_member_releases_the_others() {
    const WIDTH: usize = 5;
    for (on, way) in ALL.into_iter().flat_map(|on| {
        [Way::Returns, Way::Panics, Way::SplitPanics, Way::TooFewParts, Way::Never, Way::Drops].map(|way| (on, way))
    }) {
        for faulty in 0..WIDTH {
            let (alive, context) = (Arc::new(AtomicIsize::new(0)), format!("{way:?} by {faulty} on {on:?}"));
            let data = Live::new(alive.clone(), ());
            let (data, outs) = on.run(async |spawner| {
                team(&spawner, WIDTH, data, |mut member| {
                    let alive = alive.clone();
                    async move {
                        for turn in 0..10 {
                            let bad = turn == 3;
                            let me = bad && member.index() == faulty;
                            if me && way == Way::Returns {
                                return Ok(());
                            }
                            assert!(!(me && way == Way::Panics), "a member");
                            let future = member.round::<(), Own<Counted>>(|_, deal| {
                                assert!(!(bad && way == Way::SplitPanics), "a split");
                                let less = usize::from(bad && way == Way::TooFewParts);
                                deal.parts((less..deal.width()).map(|_| Live::new(alive.clone(), ())));
                            });
                            if me && way == Way::Drops {
                                let mut future = pin!(future);
                                // Ready if this was the last member to come; else the future is dropped.
                                let once = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
                                drop(once.await);
                                return Ok(());
                            }
                            let (_, _part) = future.await?;
                        }
                        Ok(())
                    }
                })
                .await
            });
            assert_eq!(alive.load(Relaxed), 1, "{context}");
            drop(data);
            let count = |wanted: Out<Result<(), Ended>>| outs.iter().filter(|out| **out == wanted).count();
            let (ok, left, panicked) =
                (count(Done(Ok(()))), count(Done(Err(Ended::Left))), count(Done(Err(Ended::Panicked))));
            let context = format!("{context}: {outs:?}");
            match way {
                Way::Never => assert_eq!(ok, WIDTH, "{context}"),
                Way::Returns | Way::Drops => assert_eq!((ok, left), (1, WIDTH - 1), "{context}"),
                _ => assert_eq!((panicked, count(Panicked)), (WIDTH - 1, 1), "{context}"),
            }
        }
    }
}

/// Tasks are cancelled while they wait.
#[test]
fn a_member_that_is_cancelled_ends_the_team() {
    for on in ALL {
        for width in [2, 3, 20] {
            for cancelled in 1..3.min(width) {
                on.run(async |spawner| {
                    let (team, mut members) = AsyncTeam::new(numbers(50), width);
                    let ((begun, has_begun), (go, held)) = (channel::bounded::<()>(1), channel::bounded::<()>(1));
                    // The first member delays all others.
                    let mut first = members.remove(0);
                    let first = spawner.spawn(async move {
                        round(&mut first, 0).await?;
                        begun.send(()).await.unwrap();
                        held.recv().await.unwrap();
                        rounds(first, 50).await
                    });
                    let mut others: Vec<_> =
                        members.into_iter().map(|member| spawner.spawn(rounds(member, 50))).collect();
                    has_begun.recv().await.unwrap();
                    assert!(matches!(others.remove(cancelled - 1).cancel().await, Cancelled));
                    go.send(()).await.unwrap();
                    for task in others.into_iter().chain([first]) {
                        assert_eq!(task.join().await, Done(Err(Ended::Left)), "{on:?} {width}");
                    }
                    assert_eq!(team.finish().await.len(), 50);
                });
            }
        }
    }
}

/// `finish` may be awaited before the members begin and long after they have ended, and also for a team that was never spawned.
#[test]
fn the_data_comes_back_whenever_it_is_asked_for() {
    let mut expected = numbers(300);
    serial(&mut expected, 300);
    for on in ALL {
        on.run(async |spawner| {
            let (team, members) = AsyncTeam::new(numbers(300), 3);
            let finish = spawner.spawn(async move { team.finish().await });
            // By now it waits, or soon will.
            smol::future::yield_now().await;
            let tasks: Vec<_> = members.into_iter().map(|member| spawner.spawn(rounds(member, 300))).collect();
            assert_eq!(finish.join().await, Done(expected.clone()));
            for task in tasks {
                assert_eq!(task.join().await, Done(Ok(())));
            }

            let (team, members) = AsyncTeam::new(numbers(300), 3);
            for task in members.into_iter().map(|member| spawner.spawn(rounds(member, 300))).collect::<Vec<_>>() {
                assert_eq!(task.join().await, Done(Ok(())));
            }
            assert_eq!(team.finish().await, expected);

            let (team, members) = AsyncTeam::new(numbers(300), 3);
            drop(members);
            assert_eq!(team.finish().await, numbers(300));
        });
    }
}

/// A dropped executor drops its tasks; a thread that waits elsewhere for the data gets the data.
#[test]
fn the_data_outlives_the_executor() {
    for threads in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).build().unwrap();
        let (team, members) = AsyncTeam::new(numbers(50), 4);
        let (begun, has_begun) = channel::bounded(1);
        for mut member in members {
            let begun = begun.clone();
            runtime.spawn(async move {
                round(&mut member, 0).await?;
                if member.index() == 0 {
                    begun.send(()).await.unwrap();
                    std::future::pending::<()>().await;
                }
                round(&mut member, 1).await
            });
        }
        has_begun.recv_blocking().unwrap();
        drop(runtime);
        let mut expected = numbers(50);
        serial(&mut expected, 1);
        // All members have had their part of the first round, and none of the second.
        let x = smol::block_on(team.finish());
        assert_eq!(x.len(), 50);
        assert_eq!(x[0], expected[0]);
    }
}

/// A member may hold its part between rounds while its task waits for something else.
#[test]
fn a_part_may_be_held_while_a_task_waits_for_something_else() {
    for on in ALL {
        let (x, outs) = on.run(async |spawner| {
            team(&spawner, 4, vec![0_u32; 40], async |mut member: AsyncMember<Vec<u32>>| {
                for _ in 0..50 {
                    let split =
                        member.round::<(), &mut [u32]>(|x, deal| deal.parts(split::even(&mut x[..], deal.width())));
                    let ((), mine) = split.await?;
                    for element in mine {
                        smol::future::yield_now().await;
                        *element += 1;
                    }
                }
                Ok::<_, Ended>(())
            })
            .await
        });
        assert!(outs.iter().all(|out| *out == Done(Ok(()))), "{on:?}: {outs:?}");
        assert_eq!(x, [50; 40]);
    }
}

/// The futures can be spawned anywhere.
#[test]
fn futures_are_send_and_borrow_nothing() {
    fn spawned<F: Future + Send + 'static>(_: F) {}
    let (team, mut members) = AsyncTeam::new(vec![0.0; 8], 3);
    spawned(rounds(members.pop().unwrap(), 8));
    let mut member = members.pop().unwrap();
    spawned(async move {
        member.barrier().await?;
        member.reduce(String::new(), |a, b| a + &b).await
    });
    // The data need not be `Sync`.
    let (cells, mut members) = AsyncTeam::new(std::cell::Cell::new(1), 1);
    let mut member = members.pop().unwrap();
    spawned(async move { member.round_with::<(), (), _>(1, |cell, given, _| cell.set(given.count())).await.map(drop) });
    spawned(team.finish());
    spawned(cells.finish());
}
