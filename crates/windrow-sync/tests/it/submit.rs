//! Faults of holders of the lock that do no harm to the callers that wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use windrow_sync::Spin;
use windrow_sync::submit::{Closed, Entry, Fate, Launch, Limit, LockGuard, Submit, TaskOp};

type List = Submit<u64, u64, u64>;

fn limit(ops: usize) -> Limit<'static, u64> {
    Limit { ops, weight: None }
}

/// Adds all operations of the next batch.
fn batch(held: &mut LockGuard<'_, u64, u64, u64>) {
    if let Some(mut cut) = held.cut(&limit(2)) {
        let (sum, entries) = cut.parts();
        for entry in entries {
            *sum += entry.take();
            entry.reply(*sum);
        }
    }
}

/// Counts its wakeups.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn entries<const N: usize>() -> [Entry<u64, u64>; N] {
    std::array::from_fn(|at| Entry::Op(at as u64))
}

#[test]
fn a_batch_that_is_leaked_is_answered() {
    let list = List::new(0, None);
    let mut queued = TaskOp::new(&list, 100, 0);
    assert!(queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, batch).is_pending());
    let mut mine: [_; 4] = entries();
    // The task's operation and the first of these are cut; none is answered, and the lead gives up.
    let mut leads = 0;
    let fate = list.call(&mut mine, 0, Spin::NONE, |held| {
        leads += 1;
        std::mem::forget(held.cut(&limit(2)).expect("all are queued"));
        std::mem::forget(held.cut(&limit(1)).expect("three are left"));
    });
    assert_eq!((fate, leads), (Ok(Fate::default()), 1));
    assert!(mine.iter().all(|entry| !entry.is_answered()), "they have their operations back");
    assert_eq!(mine.map(|entry| *entry.op()), [0, 1, 2, 3]);
    let answer = queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, batch);
    assert!(matches!(answer, Poll::Ready((Entry::Op(100), Ok(_)))));
    // The list still works.
    let mut mine: [_; 3] = entries();
    list.call(&mut mine, 0, Spin::NONE, |held| {
        while !held.is_leader_answered() {
            batch(held);
        }
    })
    .unwrap();
    assert_eq!(mine.map(Entry::into_reply), [Some(0), Some(1), Some(3)]);
}

#[test]
fn a_lead_that_panics_leaves_nothing_behind() {
    let list = List::new(0, None);
    let mut mine: [_; 5] = entries();
    let call = AssertUnwindSafe(|| {
        list.call(&mut mine, 0, Spin::NONE, |held| {
            batch(held);
            panic!("injected");
        })
    });
    assert!(catch_unwind(call).is_err());
    assert_eq!(mine.map(Entry::into_reply), [Some(0), Some(1), None, None, None]);
    assert_eq!(list.close(Spin::NONE, batch), Ok(()));
    assert_eq!((list.close(Spin::NONE, batch), list.is_over()), (Err(Closed), true));
}

#[test]
fn a_signal_that_panics_is_its_callers_panic() {
    let (list, signals) = (Arc::new(OnceLock::<List>::new()), Arc::new(AtomicUsize::new(0)));
    let signal = {
        let (list, signals) = (list.clone(), signals.clone());
        move || {
            signals.fetch_add(1, Relaxed);
            // A runner that is dropped does its duty.
            list.get().expect("it is there").run(batch);
            panic!("injected");
        }
    };
    let list = list.get_or_init(|| List::new(0, Some(Box::new(signal))));
    let mut mine: [_; 2] = entries();
    let call = AssertUnwindSafe(|| list.call(&mut mine, 0, Spin::NONE, |_| unreachable!("there is a runner")));
    assert!(catch_unwind(call).is_err());
    assert_eq!(mine.map(Entry::into_reply), [Some(0), Some(1)]);
    assert_eq!(signals.load(Relaxed), 1);
}

#[test]
fn what_holds_no_operation_is_refused_where_it_is_handed_in() {
    let list = List::new(0, None);
    let weighed = Limit { ops: 9, weight: Some((100, &|op: &u64| *op as usize)) };
    let mut run = |held: &mut LockGuard<'_, u64, u64, u64>| {
        while let Some(mut cut) = held.cut(&weighed) {
            let (sum, entries) = cut.parts();
            entries.iter_mut().for_each(|entry| entry.answer(|op| *sum + op));
        }
    };
    let mut mine: [_; 3] = entries();
    list.call(&mut mine, 0, Spin::NONE, &mut run).unwrap();
    let mut taken = [Entry::Op(1), Entry::Empty];
    for again in [&mut mine[..], &mut taken] {
        // An operation of another caller is queued.
        let mut queued = TaskOp::new(&list, 5, 0);
        assert!(queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, batch).is_pending());
        let call = AssertUnwindSafe(|| list.call(again, 0, Spin::NONE, |_| unreachable!("nothing was handed in")));
        let refused = catch_unwind(call).unwrap_err();
        assert_eq!(refused.downcast_ref(), Some(&"an entry was handed in without an operation"));
        let answer = queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, &mut run);
        assert!(matches!(answer, Poll::Ready((Entry::Reply(5), Ok(_)))));
    }
    assert_eq!(mine.map(Entry::into_reply), [Some(0), Some(1), Some(2)], "replies stay");
}

/// A task that awaits while it holds the lock does the same.
#[test]
fn a_guard_ends_its_batch_on_another_thread() {
    let list = List::new(0, None);
    let (mut queued, mut job) = (TaskOp::new(&list, 5, 0), TaskOp::job(&list, Box::new(|sum| *sum += 10), false));
    let held = list.take().expect("it is free");
    let poll = |op: &mut TaskOp<'_, _, _, _>| op.poll(&mut Context::from_waker(Waker::noop()), Launch::Now, batch);
    assert!(poll(&mut queued).is_pending() && poll(&mut job).is_pending() && list.take().is_none());
    std::thread::scope(|scope| {
        let mut held = held;
        let called = scope.spawn(|| list.call(&mut entries::<1>(), 0, Spin::NONE, batch));
        scope.spawn(move || {
            while held.is_more() {
                batch(&mut held);
            }
        });
        assert!(called.join().is_ok_and(|fate| fate.is_ok()));
    });
    assert!(matches!(poll(&mut queued), Poll::Ready((Entry::Reply(5), Ok(_)))));
    assert!(matches!(poll(&mut job), Poll::Ready((Entry::Empty, Ok(_)))));
    assert!(list.try_read().is_some_and(|sum| *sum == 15));
}

#[test]
fn the_holder_may_shut_the_list() {
    let list = List::new(0, None);
    let mut queued = TaskOp::new(&list, 5, 0);
    assert!(queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, batch).is_pending());
    assert!(list.run(|held| {
        list.shut();
        assert!(list.is_closed() && !list.is_over());
        batch(held);
    }));
    assert!(list.is_over());
    assert_eq!(list.call(&mut entries::<1>(), 0, Spin::NONE, batch), Err(Closed));
    assert!(queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Now, batch).is_ready());
}

#[test]
fn a_free_lock_is_taken_for_one_function() {
    let list = List::new(0, None);
    let add = |sum: &mut u64, more| {
        *sum += more;
        *sum
    };
    assert_eq!(list.try_with(2, add, |_| panic!("nothing is queued")), Ok(2));
    let mut task = TaskOp::new(&list, 5, 0);
    let mut context = Context::from_waker(Waker::noop());
    // A task hands in meanwhile: `more` gets the lock, and with it the duty to run that operation.
    let queue = |sum: &mut u64, more| {
        assert!(task.poll(&mut context, Launch::Now, batch).is_pending() && !task.is_answered());
        add(sum, more)
    };
    let lead = |mut held: LockGuard<'_, u64, u64, u64>| {
        assert_eq!(held.queued(), Some(1));
        batch(&mut held);
        held.wake_answered();
    };
    assert_eq!(list.try_with(1, queue, lead), Ok(3));
    assert!(task.is_answered() && task.poll(&mut context, Launch::Now, batch).is_ready());
    let held = list.try_lock().expect("it is free");
    assert_eq!(list.try_with(4, add, |held| drop(held)), Err(4), "it is held");
    drop(held);
    let panics = || list.try_with((), |_, ()| std::panic::resume_unwind(Box::new("injected")), |held| drop(held));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err_and(|payload| payload.is::<&str>()));
    assert_eq!(list.try_with(0, add, |held| drop(held)), Ok(8), "a panic lets go of it");
}

/// A kept future: it was woken, and is not polled.
#[test]
fn an_invitation_that_was_not_answered_is_not_the_last() {
    let list = List::new(0, None);
    let held = list.try_lock().expect("it is free");
    let woken: [_; 3] = std::array::from_fn(|_| Arc::new(Counted::default()));
    let mut tasks = [1, 1, 1].map(|op| TaskOp::new(&list, op, 0));
    let wakers = woken.clone().map(Waker::from);
    let poll =
        |at: usize, tasks: &mut [TaskOp<'_, u64, u64, u64>; 3], lead: &mut dyn FnMut(&mut LockGuard<'_, _, _, _>)| {
            tasks[at].poll(&mut Context::from_waker(&wakers[at]), Launch::Now, lead).is_ready()
        };
    for at in 0..3 {
        assert!(!poll(at, &mut tasks, &mut batch));
    }
    let woken = || woken.each_ref().map(|woken| woken.0.load(Relaxed));
    drop(held);
    assert_eq!(woken(), [1, 1, 1], "all that came while it was held are invited");
    // The second and the third come and find the lock held; the first is kept.
    let held = list.run(|_| {
        assert!(!poll(1, &mut tasks, &mut batch) && !poll(2, &mut tasks, &mut batch));
    });
    assert!(held);
    assert_eq!(woken(), [1, 2, 1], "the oldest that has come is invited again");
    // It is dropped, and the duty goes to the third.
    tasks[1] = TaskOp::new(&list, 7, 0);
    assert_eq!(woken(), [1, 2, 2]);
    assert!(poll(2, &mut tasks, &mut |held| while held.is_more() {
        batch(held);
    }));
    assert!(poll(0, &mut tasks, &mut batch));
    assert_eq!(*list.try_lock().expect("it is free").data(), 2);
}

/// Futures that are kept are ahead of it: the lock is granted to the thread.
#[test]
fn a_thread_runs_although_futures_are_ahead_of_it() {
    let list = Arc::new(List::new(0, None));
    let mut held = list.try_lock().expect("it is free");
    let mut kept = [1, 1].map(|op| TaskOp::new(&list, op, 0));
    for task in &mut kept {
        assert!(task.poll(&mut Context::from_waker(Waker::noop()), Launch::Now, batch).is_pending());
    }
    let (done, is_done) = mpsc::channel();
    {
        let list = list.clone();
        thread::spawn(move || {
            let mut mine = [Entry::Op(5)];
            list.call(&mut mine, 0, Spin::NONE, |held| {
                while !held.is_leader_answered() {
                    batch(held);
                }
            })
            .unwrap();
            done.send(mine.map(Entry::into_reply)).unwrap();
        });
    }
    while held.queued() != Some(3) {
        thread::yield_now();
    }
    drop(held);
    assert_eq!(is_done.recv_timeout(Duration::from_secs(60)), Ok([Some(7)]));
    let answers = kept.iter_mut().map(|task| task.poll(&mut Context::from_waker(Waker::noop()), Launch::Now, batch));
    assert_eq!(answers.filter(Poll::is_ready).count(), 2, "with those ahead of it");
}

/// Answers all queued operations in one batch, and wakes at most `direct` of its threads directly.
fn answer_all(held: &mut LockGuard<'_, u64, u64, u64>, direct: usize) -> (usize, usize) {
    let mut cut = held.cut(&limit(usize::MAX)).expect("they have handed in");
    cut.set_direct_wakes(direct);
    let callers = cut.callers();
    let (sum, entries) = cut.parts();
    for entry in entries {
        *sum += entry.take();
        entry.reply(*sum);
    }
    drop(cut);
    (callers, held.sleepers())
}

#[test]
fn threads_and_tasks_of_one_batch_are_all_woken() {
    for direct in [1, 3, 8, usize::MAX] {
        let (list, woken) = (List::new(0, None), Arc::new(Counted::default()));
        let waker = Waker::from(woken.clone());
        thread::scope(|scope| {
            let mut held = list.try_lock().expect("no other caller is there yet");
            let mut tasks = Vec::new();
            for _ in 0..20 {
                let list = &list;
                scope.spawn(move || {
                    let mut mine: [_; 1] = [Entry::Op(1)];
                    list.call(&mut mine, 0, Spin::NONE, batch).unwrap();
                    assert!(mine[0].is_answered());
                });
                let mut task = TaskOp::new(list, 1, 0);
                assert!(task.poll(&mut Context::from_waker(&waker), Launch::Deferred, batch).is_pending());
                tasks.push(task);
            }
            // Some threads may not be parked yet: they see the answer before they park.
            while held.queued() != Some(40) {
                thread::yield_now();
            }
            let (callers, sleepers) = answer_all(&mut held, direct);
            assert!(callers == 40 && sleepers <= 20);
            drop(held);
            assert_eq!(woken.0.load(Relaxed), 20);
            let answers = tasks.iter_mut().map(|task| task.poll(&mut Context::from_waker(&waker), Launch::Now, batch));
            assert_eq!(answers.filter(|answer| matches!(answer, Poll::Ready((Entry::Reply(_), Ok(_))))).count(), 20);
        });
    }
}

/// The answer comes about when the wait becomes a long one, and its wake ends the timed wait before the report, or after it.
#[test]
#[cfg_attr(miri, ignore = "waits for real time")]
fn an_answer_during_a_report_of_long_waits_is_seen() {
    windrow_sync::word::report_long_waits(Duration::from_millis(1), crate::safe::long_wait);
    for round in 0..200 {
        let list = List::new(0, None);
        thread::scope(|scope| {
            let mut held = list.try_lock().expect("no other caller is there yet");
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut mine = [Entry::Op(1)];
                    list.call(&mut mine, 0, Spin::NONE, batch).expect("the list is open");
                    assert!(mine[0].is_answered());
                });
            }
            while held.queued() != Some(4) {
                thread::yield_now();
            }
            thread::sleep(Duration::from_micros(800 + 2 * round));
            answer_all(&mut held, 2);
        });
    }
}

struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        std::panic::resume_unwind(Box::new("injected"));
    }
}

#[test]
fn a_waker_that_panics_affects_no_other_caller() {
    let signals = Arc::new(AtomicUsize::new(0));
    for is_elsewhere in [false, true] {
        let signal: Option<windrow_sync::submit::Notify> = is_elsewhere.then(|| {
            let signals = signals.clone();
            Box::new(move || _ = signals.fetch_add(1, Relaxed)) as _
        });
        let (list, good) = (List::new(0, signal), Arc::new(Counted::default()));
        let mut held = list.try_lock().expect("no other caller is there yet");
        let mut tasks = Vec::new();
        for at in 0..6 {
            let waker = if at % 2 == 0 { Waker::from(Arc::new(Bad)) } else { Waker::from(good.clone()) };
            let mut task = TaskOp::new(&list, 1, 0);
            assert!(task.poll(&mut Context::from_waker(&waker), Launch::Deferred, batch).is_pending());
            tasks.push(task);
        }
        // Two of six: the others are handed on.
        batch(&mut held);
        drop(held);
        if is_elsewhere {
            assert_eq!(signals.load(Relaxed), 1, "the runner is signalled for the rest");
            assert!(list.run(|held| while held.is_more() {
                batch(held)
            }));
        } else {
            let held = list.try_lock();
            assert!(held.is_none(), "a task is invited");
            let answer = tasks[2].poll(&mut Context::from_waker(Waker::noop()), Launch::Now, |held| {
                while held.is_more() {
                    batch(held);
                }
            });
            assert!(answer.is_ready());
        }
        assert_eq!(good.0.load(Relaxed), 3);
    }
}
