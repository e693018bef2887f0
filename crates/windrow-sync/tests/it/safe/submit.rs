//! Operations of many callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use windrow_sync::Spin;
use windrow_sync::submit::room::{Capacity, Permit, Waiting};
use windrow_sync::submit::{
    BatchGuard, Closed, Entry, Fate, Launch, Limit, LockGuard, Notify, Reading, Submit, TaskJob, TaskOp, TaskPoll,
    WeighOp,
};

use super::{Item, Live, boom, panics};

type List<'l> = Submit<Vec<Item<'l>>, Item<'l>, String>;
type Guard<'s, 'l> = LockGuard<'s, Vec<Item<'l>>, Item<'l>, String>;

fn limit<'a, 'l>(ops: usize) -> Limit<'a, Item<'l>> {
    Limit { ops, weight: None }
}

/// Answers everything, in batches of two.
fn lead(guard: &mut Guard<'_, '_>) {
    while let Some(mut batch) = guard.cut(&limit(2)) {
        let (data, entries) = batch.parts();
        for entry in entries {
            let op = entry.take();
            entry.reply(op.text.clone());
            data.push(op);
        }
    }
}

fn polled<'l>(op: &mut TaskOp<'_, Vec<Item<'l>>, Item<'l>, String>, waker: &Waker) -> TaskPoll<Item<'l>, String> {
    op.poll(&mut Context::from_waker(waker), Launch::Deferred, lead)
}

#[test]
fn entries_are_moved_once() {
    let live = Live::default();
    let mut entry: Entry<Item<'_>, String> = Entry::Op(live.item(1));
    assert!(!entry.is_answered() && entry.op().number() == 1);
    assert!(panics(|| entry.answer(|_| boom())));
    assert!(panics(|| _ = entry.op().number()) && panics(|| drop(entry.take())));
    entry.reply("late".to_owned());
    assert!(panics(|| drop(entry.take())) && entry.is_answered());
    assert_eq!(entry.into_reply().as_deref(), Some("late"));
    let mut bomb: Entry<Item<'_>, String> = Entry::Op(live.bomb(1));
    assert!(panics(|| bomb.reply("the bomb is dropped".to_owned())));
    drop(bomb);
    assert_eq!((live.count(), Entry::<(), ()>::default().into_reply()), (0, None));
}

/// Leads that do one thing wrong. Each may run several times, and on behalf of other callers.
fn leads<'l>() -> Vec<fn(&mut Guard<'_, 'l>)> {
    vec![
        |guard| lead(guard),
        |_| {},
        |_| boom(),
        |guard| std::mem::forget(guard.cut(&limit(1))),
        |guard| {
            std::mem::forget(guard.cut(&limit(3)));
            boom()
        },
        |guard| {
            // Weighs a second time, and panics.
            let weighed = AtomicUsize::new(0);
            let weigh: WeighOp<'_, Item<'l>> =
                &|op| if weighed.fetch_add(1, Relaxed) > 1 { boom() } else { op.text.len() };
            drop(guard.cut(&Limit { ops: 64, weight: Some((usize::MAX, weigh)) }));
        },
        |guard| {
            if let Some(mut batch) = guard.cut(&limit(usize::MAX)) {
                let _ = (batch.marks().map(|(_, many)| many).sum::<usize>(), batch.callers(), batch.is_limited());
                batch.set_direct_wakes(0);
                batch.set_fate(Fate(7));
                let (data, entries) = batch.parts();
                entries.reverse();
                data.extend(entries.iter_mut().take(1).map(Entry::take));
                entries[0].answer(|_| boom());
            }
        },
        |guard| {
            let _ = (guard.queued(), guard.is_more(), guard.sleepers(), guard.is_leader_answered());
            guard.wake_answered();
            guard.data().clear();
            // Weighs more than the limit, all of them.
            while guard
                .cut(&Limit { ops: 0, weight: Some((0, &|_| usize::MAX)) })
                .is_some_and(|batch| batch.callers() == 1)
            {}
        },
    ]
}

#[test]
fn callers_with_hostile_leads() {
    let live = Live::default();
    for (at, hostile) in leads().into_iter().enumerate() {
        for _ in 0..if cfg!(miri) { 1 } else { 10 } {
            let list = List::new(Vec::new(), None);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (list, live) = (&list, &live);
                    scope.spawn(move || {
                        let mut entries = [1, 2, 3].map(|number| Entry::Op(live.item(number)));
                        // A lead that answers nothing once, and does its duty then.
                        let mut first = thread == 0;
                        let called = catch_unwind(AssertUnwindSafe(|| {
                            list.call(&mut entries, thread, Spin::NONE, |guard| {
                                if std::mem::take(&mut first) {
                                    hostile(guard);
                                }
                                lead(guard);
                            })
                        }));
                        assert!(called.is_err() || called.is_ok_and(|fate| fate.is_ok()), "{at}");
                        let job_panics = thread == 1;
                        panics(|| {
                            let mut job = |data: &mut Vec<Item<'_>>| if job_panics { boom() } else { data.clear() };
                            let _ = list.job(&mut job, Spin::NONE, lead);
                        });
                        let waker = Waker::from(Arc::new(Hostile));
                        let mut job = TaskOp::job(
                            list,
                            Box::new(move |_| {
                                if job_panics {
                                    boom()
                                }
                            }),
                            false,
                        );
                        let _ = panics(|| drop(polled(&mut job, &waker)));
                        if thread == 2 {
                            std::mem::forget(job);
                        }
                        let mut kept = TaskOp::new(list, live.item(4), 9);
                        assert!(!kept.is_answered());
                        let _ = panics(|| drop(polled(&mut kept, &waker)));
                        match thread {
                            0 => drop(kept),
                            1 => _ = panics(|| _ = kept.cancel()),
                            _ => std::mem::forget(kept),
                        }
                    });
                }
            });
            assert!(list.cancelled() <= 4, "{at}");
            drop(list);
            assert_eq!(live.count(), 0, "{at}");
        }
    }
}

/// A waker that panics.
struct Hostile;
impl Wake for Hostile {
    fn wake(self: Arc<Self>) {
        boom()
    }
}

fn push<'l>(list: &List<'l>, live: &'l Live) -> Result<(), Item<'l>> {
    list.try_with(live.item(3), |data, item| data.push(item), |guard| drop(guard))
}

#[test]
fn the_lock_and_its_readers() {
    let live = Live::default();
    let mut list = List::new(vec![live.item(1)], None);
    list.data_mut().push(live.item(2));
    assert!(push(&list, &live).is_ok());
    assert!(panics(|| drop(list.try_with(live.item(3), |_, _| boom(), |guard| drop(guard)))));
    // Something is queued meanwhile; what takes the guard panics with it.
    let waker = Waker::noop();
    let mut queued = TaskOp::new(&list, live.item(4), 0);
    let queues = |_: &mut Vec<Item<'_>>, ()| assert!(polled(&mut queued, waker).is_pending());
    assert!(panics(|| _ = list.try_with((), queues, |_| boom())));
    assert!(matches!(polled(&mut queued, waker), Poll::Ready((Entry::Reply(_), Ok(Fate(0))))));
    assert!(panics(|| drop(polled(&mut queued, waker))), "it was ready before");
    drop(queued);
    {
        let readers: Vec<Reading<'_, _, _, _>> = std::iter::from_fn(|| list.try_read()).collect();
        assert!(readers.len() > 1 && readers.iter().all(|reading| reading.len() == 4));
        assert!(list.try_lock().is_none() && push(&list, &live).is_err());
        std::thread::scope(|scope| {
            scope.spawn(|| list.call(&mut [Entry::Op(live.item(5))], 0, Spin::NONE, lead));
            drop(readers);
        });
    }
    // Forgotten guards: the lock stays taken, and the data comes back all the same.
    std::mem::forget(list.try_lock().expect("it is free"));
    assert!(list.try_lock().is_none() && list.try_read().is_none() && !list.run(|_| boom()));
    assert_eq!(list.data_mut().len(), 5);
    let forgotten = List::new(vec![live.item(1)], None);
    let mut task = TaskOp::new(&forgotten, live.item(2), 0);
    {
        let mut guard = forgotten.try_lock().expect("it is free");
        assert!(polled(&mut task, waker).is_pending());
        let batch: BatchGuard<'_, '_, _, _, _> = guard.cut(&limit(1)).expect("a task is queued");
        std::mem::forget(batch);
        std::mem::forget(guard);
    }
    drop(task);
    drop(forgotten);
    drop(list);
    assert_eq!(live.count(), 0);
}

#[test]
fn lists_that_close() {
    let live = Live::default();
    let list = List::new(Vec::new(), None);
    let mut late = TaskOp::new(&list, live.item(1), 0);
    assert!(panics(|| _ = list.close(Spin::NONE, |_| boom())) && list.is_closed());
    assert_eq!(list.close(Spin::NONE, lead), Err(Closed));
    assert!(matches!(polled(&mut late, Waker::noop()), Poll::Ready((Entry::Op(op), Err(Closed))) if op.number() == 1));
    assert_eq!(list.call(&mut [Entry::Op(live.item(1))], 0, Spin::NONE, lead), Err(Closed));
    assert_eq!(list.call(&mut [], 0, Spin::NONE, lead), Ok(Fate(0)));
    assert!(list.is_over() && list.run(lead) && list.take().is_some());
    let job: TaskJob<Vec<Item<'_>>> = Box::new(|_| boom());
    assert!(matches!(
        polled(&mut TaskOp::job(&list, job, true), Waker::noop()),
        Poll::Ready((Entry::Empty, Err(Closed)))
    ));
    list.shut();
    assert!(panics(|| _ = List::new(Vec::new(), None).call(&mut [Entry::Empty], 0, Spin::NONE, lead)));
    drop(late);
    assert_eq!(live.count(), 0);
    // A runner that is the signal itself, and one that panics once.
    let list: Arc<OnceLock<Submit<Vec<String>, String, usize>>> = Arc::default();
    let (runner, signals) = (list.clone(), AtomicUsize::new(0));
    let run = |guard: &mut LockGuard<'_, Vec<String>, String, usize>| {
        while let Some(mut batch) = guard.cut(&Limit { ops: 1, weight: None }) {
            batch.parts().1.iter_mut().for_each(|entry| entry.answer(|op| op.len()));
        }
    };
    let signal: Notify = Box::new(move || {
        runner.get().map(|list| list.run(run));
        if signals.fetch_add(1, Relaxed) == 1 {
            boom();
        }
    });
    let list = list.get_or_init(|| Submit::new(Vec::new(), Some(signal)));
    let call =
        || list.call(&mut [Entry::Op("four".to_owned())], 0, Spin::NONE, |_| unreachable!("callers do not lead"));
    assert!(call().is_ok() && panics(|| _ = call()) && call().is_ok());
    let mut task = TaskOp::new(list, "task".to_owned(), 0);
    let mut poll =
        || task.poll(&mut Context::from_waker(Waker::noop()), Launch::Now, |_| unreachable!("tasks neither"));
    assert!(poll().is_pending());
    assert!(matches!(poll(), Poll::Ready((Entry::Reply(4), Ok(_)))));
}

/// A waker whose wake and drop call back, or panic. (Its clone is that of an `Arc`: safe code has no other.)
struct CallsBack(Box<dyn Fn(&str) + Send + Sync>);

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        (self.0)("wake");
    }
}

impl Drop for CallsBack {
    fn drop(&mut self) {
        (self.0)("drop");
    }
}

#[test]
fn wakers_that_call_back() {
    type Numbers = Submit<Vec<String>, String, String>;
    fn numbers(guard: &mut LockGuard<'_, Vec<String>, String, String>) {
        while let Some(mut batch) = guard.cut(&Limit { ops: 2, weight: None }) {
            batch.parts().1.iter_mut().for_each(|entry| entry.answer(|op| op + "!"));
        }
    }
    let list: Arc<Numbers> = Arc::new(Submit::new(Vec::new(), None));
    for round in 0..if cfg!(miri) { 4 } else { 100 } {
        let called = Arc::new(AtomicUsize::new(0));
        let waker = || {
            let (list, called) = (list.clone(), called.clone());
            Waker::from(Arc::new(CallsBack(Box::new(move |what| {
                called.fetch_add(1, Relaxed);
                // Hands an operation in, and drops it or leaves it, wherever it is called from.
                let mut task = TaskOp::new(&list, what.to_owned(), 0);
                let _ = task.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, |_| ());
                if round % 3 == 0 {
                    std::mem::forget(task);
                }
                if round % 4 == 1 && !std::thread::panicking() {
                    boom();
                }
            }))))
        };
        std::thread::scope(|scope| {
            let held = list.try_lock();
            for number in 0..3 {
                let (list, waker) = (&list, &waker);
                scope.spawn(move || {
                    let mut task = TaskOp::new(&**list, number.to_string(), 0);
                    for poll in 0..4 {
                        // Another waker each time, which replaces the last one.
                        let launch = if poll % 2 == 0 { Launch::Deferred } else { Launch::Now };
                        let polled = catch_unwind(AssertUnwindSafe(|| {
                            task.poll(&mut Context::from_waker(&waker()), launch, numbers)
                        }));
                        if matches!(polled, Ok(Poll::Ready(_))) {
                            return;
                        }
                    }
                    drop(task);
                });
            }
            panics(|| drop(held));
        });
        panics(|| list.try_lock().into_iter().for_each(|mut guard| numbers(&mut guard)));
        list.run(numbers);
    }
    // What is still queued goes with the list.
    drop(list);
}

#[test]
fn room_that_is_forgotten_or_never_taken() {
    let room = Capacity::new(2);
    let permit: Permit<'_> = room.try_take(1).expect("all is free");
    let mut waiting: Option<Waiting<'_>> = None;
    let context = &mut Context::from_waker(Waker::noop());
    assert!(room.poll(&mut waiting, 9, context).is_pending() && room.try_take(1).is_none());
    drop(permit);
    // It was called, and leaves: its room goes back.
    drop(waiting.take());
    drop(room.wait(9));
    assert!(room.poll(&mut waiting, 2, context).is_ready() && waiting.is_none());
    std::mem::forget(room.try_take(1));
    assert!(room.try_take(2).is_none() && room.try_take(1).is_some());
}
