//! Models of implicit batching: every operation is run once, alone with the data, and answered; every caller that waits is woken.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use windrow_sync::Spin;
use windrow_sync::submit::{Closed, Entry, Fate, Launch, Limit, LockGuard, Submit, TaskOp};

use crate::{Watched, model};

/// Adds `more`; returns the previous value.
fn add(sum: &Watched, more: usize) -> usize {
    let before = sum.get();
    sum.set(before + more);
    before
}

type List = Submit<Watched, usize, usize>;

fn list() -> Arc<List> {
    Arc::new(Submit::new(Watched::new(0), None))
}

const RAN: Fate = Fate(7);

/// Runs batches of at most `most` until the caller's own operation is answered.
fn lead(most: usize) -> impl FnMut(&mut LockGuard<'_, Watched, usize, usize>) {
    move |held| {
        let _any = held.data().get();
        while !held.is_leader_answered() {
            batch(held, most);
        }
    }
}

fn batch(held: &mut LockGuard<'_, Watched, usize, usize>, most: usize) -> bool {
    let Some(mut cut) = held.cut(&Limit { ops: most, weight: None }) else { return false };
    cut.set_fate(RAN);
    // Of two parked threads, one wakes the other.
    cut.set_direct_wakes(1);
    let (sum, entries) = cut.parts();
    entries.iter_mut().for_each(|entry| entry.answer(|more| add(sum, more)));
    true
}

/// Blocks until `add` is added; returns the previous value.
fn call(list: &List, add: usize, most: usize) -> Result<usize, Closed> {
    let mut entry = [Entry::Op(add)];
    let fate = list.call(&mut entry, 0, Spin::NONE, lead(most))?;
    assert_eq!(fate, RAN);
    let [entry] = entry;
    Ok(entry.into_reply().expect("answered"))
}

async fn task(list: &List, add: usize, launch: Launch) -> usize {
    let mut task = TaskOp::new(list, add, 0);
    let (entry, fate) = poll_fn(|context| task.poll(context, launch, lead(1))).await;
    assert_eq!(fate, Ok(RAN));
    entry.into_reply().expect("answered")
}

fn total(list: Arc<List>) -> usize {
    list.try_lock().expect("no user is left").data().get()
}

/// Wakes a thread of the model. (A thread of loom that unparks itself may miss it.)
#[derive(Default)]
struct Signal {
    is: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.is.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut is = self.is.lock().unwrap();
        if *is {
            // A future may wake itself until another thread has moved on.
            *is = false;
            drop(is);
            return thread::yield_now();
        }
        while !*is {
            is = self.changed.wait(is).unwrap();
        }
        *is = false;
    }
}

impl Wake for Signal {
    fn wake(self: std::sync::Arc<Self>) {
        self.set();
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let signal = std::sync::Arc::new(Signal::default());
    let waker = Waker::from(signal.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        signal.wait();
    }
}

/// Polls once with a waker that wakes no task.
fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn callers_get_what_was_there_before() {
    for most in [1, 2] {
        model(None, move || {
            let list = list();
            let other = {
                let list = list.clone();
                thread::spawn(move || call(&list, 2, most).unwrap())
            };
            let mine = call(&list, 1, most).unwrap();
            let theirs = other.join().unwrap();
            assert!((mine, theirs) == (0, 1) || (mine, theirs) == (2, 0));
            assert_eq!(total(list), 3);
        });
    }
}

#[test]
fn three_callers_and_a_limit_of_one() {
    model(3, || {
        let list = list();
        let others = [1, 1].map(|add| {
            let list = list.clone();
            thread::spawn(move || call(&list, add, 1).unwrap())
        });
        let mut all = vec![call(&list, 1, 1).unwrap()];
        all.extend(others.map(|other| other.join().unwrap()));
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn of_two_that_sleep_one_wakes_the_other() {
    model(2, || {
        let list = list();
        let mut held = list.try_lock().expect("it is free");
        let others = [1, 1].map(|add| {
            let list = list.clone();
            thread::spawn(move || call(&list, add, 2).unwrap())
        });
        while held.queued() != Some(2) {
            thread::yield_now();
        }
        assert!(batch(&mut held, 2));
        drop(held);
        let mut all = others.map(|other| other.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [0, 1]);
    });
}

#[test]
fn the_fast_path_and_the_list() {
    model(None, || {
        let list = list();
        let other = {
            let list = list.clone();
            thread::spawn(move || call(&list, 1, 2).unwrap())
        };
        for _ in 0..2 {
            match list.try_lock() {
                Some(mut held) => {
                    add(held.data(), 1);
                }
                None => {
                    call(&list, 1, 2).unwrap();
                }
            }
        }
        other.join().unwrap();
        assert_eq!(total(list), 3);
    });
}

#[test]
fn a_job_runs_alone() {
    model(None, || {
        let list = list();
        let other = {
            let list = list.clone();
            thread::spawn(move || call(&list, 1, 2).unwrap())
        };
        let mut seen = None;
        list.job(&mut |sum| seen = Some(add(sum, 2)), Spin::NONE, lead(2)).unwrap();
        let theirs = other.join().unwrap();
        assert!((seen, theirs) == (Some(0), 2) || (seen, theirs) == (Some(1), 0));
        assert_eq!(total(list), 3);
    });
}

/// A future's job adds 2 and sees what was there, unless it is dropped before its turn.
#[test]
fn a_job_of_a_future_runs_once_or_never() {
    for (is_dropped, closes) in [(false, false), (true, false), (false, true)] {
        model(Some(3), move || {
            let (list, seen) = (list(), Arc::new(Mutex::new(None)));
            let other = {
                let list = list.clone();
                thread::spawn(move || call(&list, 1, 2).ok())
            };
            let put = seen.clone();
            let mut task = TaskOp::job(&list, Box::new(move |sum| *put.lock().unwrap() = Some(add(sum, 2))), closes);
            let mut poll = |context: &mut Context<'_>| task.poll(context, Launch::Now, lead(2));
            match is_dropped {
                true => drop(poll(&mut Context::from_waker(Waker::noop()))),
                false => assert_eq!(block_on(poll_fn(poll)).1, Ok(Fate::default())),
            }
            drop(task);
            let theirs = other.join().unwrap();
            let seen = *seen.lock().unwrap();
            match (seen, theirs) {
                (None, Some(0)) => assert!(is_dropped),
                (Some(0), None) => assert!(closes),
                (Some(mine), Some(theirs)) => assert!((mine, theirs) == (0, 2) || (mine, theirs) == (1, 0)),
                other => panic!("{other:?}"),
            }
            assert_eq!(list.cancelled(), u64::from(seen.is_none()));
            drop(list);
        });
    }
}

/// While a holder runs a future's job, the future is polled with another waker, and perhaps dropped.
#[test]
fn the_future_of_a_job_is_polled_and_dropped_while_it_runs() {
    for is_dropped in [false, true] {
        model(None, move || {
            let list = list();
            let mut held = list.try_lock().unwrap();
            let mut mine = Box::pin({
                let list = list.clone();
                async move {
                    let mut task = TaskOp::job(&list, Box::new(|sum| _ = add(sum, 1)), false);
                    poll_fn(|context| task.poll(context, Launch::Now, lead(1))).await.1
                }
            });
            assert!(poll_once(mine.as_mut()).is_pending());
            let other = thread::spawn(move || match is_dropped {
                true => drop(mine),
                false => assert_eq!(block_on(mine), Ok(Fate::default())),
            });
            while held.is_more() {
                batch(&mut held, 1);
            }
            drop(held);
            other.join().unwrap();
            let sum = total(list);
            assert!(sum == 1 || sum == 0 && is_dropped, "{sum}");
        });
    }
}

#[test]
fn readers_share_and_keep_callers_out() {
    model(3, || {
        let list = list();
        let others = [1, 0].map(|add| {
            let list = list.clone();
            thread::spawn(move || match add {
                0 => drop(list.try_read().map(|sum| assert!(sum.get() <= 1))),
                add => drop(call(&list, add, 2).unwrap()),
            })
        });
        if let Some(sum) = list.try_read() {
            assert!(sum.get() <= 1);
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(total(list), 1);
    });
}

#[test]
fn a_close_waits_for_what_came_before() {
    model(None, || {
        let list = list();
        let other = {
            let list = list.clone();
            thread::spawn(move || call(&list, 1, 1).ok())
        };
        list.close(Spin::NONE, lead(1)).unwrap();
        assert!(list.is_closed());
        assert_eq!(call(&list, 1, 1), Err(Closed));
        let theirs = other.join().unwrap();
        assert!(list.is_over());
        let mut list = Arc::try_unwrap(list).unwrap_or_else(|_| panic!("no user is left"));
        assert_eq!(list.data_mut().get(), usize::from(theirs.is_some()));
    });
}

#[test]
fn tasks_invite_each_other() {
    // (Tasks that wake themselves take too many turns for all interleavings.)
    for (launch, preemptions) in [(Launch::Now, None), (Launch::Deferred, Some(4))] {
        model(preemptions, move || {
            let list = list();
            let other = {
                let list = list.clone();
                thread::spawn(move || block_on(task(&list, 2, launch)))
            };
            let mine = block_on(task(&list, 1, launch));
            let theirs = other.join().unwrap();
            assert!((mine, theirs) == (0, 1) || (mine, theirs) == (2, 0));
            assert_eq!(total(list), 3);
        });
    }
}

#[test]
fn a_task_and_a_thread() {
    for launch in [Launch::Now, Launch::Deferred] {
        model(4, move || {
            let list = list();
            let other = {
                let list = list.clone();
                thread::spawn(move || call(&list, 2, 1).unwrap())
            };
            let mine = block_on(task(&list, 1, launch));
            let theirs = other.join().unwrap();
            assert!((mine, theirs) == (0, 1) || (mine, theirs) == (2, 0));
        });
    }
}

/// A lead that answers all callers, but hands the lock on to a task that is still registering, or was polled without being woken.
#[test]
fn an_invitation_is_not_lost() {
    model(None, || {
        let list = list();
        let other = {
            let list = list.clone();
            thread::spawn(move || {
                if let Some(mut held) = list.try_lock() {
                    add(held.data(), 1);
                }
            })
        };
        block_on(async {
            let mut task = pin!(task(&list, 1, Launch::Now));
            let mut polls = 0;
            poll_fn(|context| {
                // The second poll comes without a wakeup.
                polls += 1;
                match task.as_mut().poll(context) {
                    Poll::Pending if polls == 1 => task.as_mut().poll(context),
                    other => other,
                }
            })
            .await;
        });
        other.join().unwrap();
    });
}

/// Wakeups of one of two wakers, counted.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn the_latest_waker_is_woken() {
    model(None, || {
        let list = list();
        let held = list.try_lock().unwrap();
        let (first, second) = (std::sync::Arc::new(Counted::default()), Waker::noop());
        let mut mine = Box::pin({
            let list = list.clone();
            async move { task(&list, 1, Launch::Now).await }
        });
        assert!(mine.as_mut().poll(&mut Context::from_waker(second)).is_pending());
        let other = thread::spawn(move || {
            // Polled with another waker, while it is cut and answered.
            let waker = Waker::from(first.clone());
            let is_ready = mine.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
            (mine, first, is_ready)
        });
        let mut held = held;
        assert!(batch(&mut held, 1));
        drop(held);
        let (mut mine, first, was_ready) = other.join().unwrap();
        if !was_ready {
            assert!(first.0.load(Relaxed) > 0, "it waits, and no thread has woken it");
            assert!(poll_once(mine.as_mut()).is_ready());
        }
        drop(mine);
        assert_eq!(total(list), 1);
    });
}

/// While the holder cuts and answers it, or hands the lock on to it, a future is polled with a new waker each time, and perhaps
/// dropped.
#[test]
fn a_task_is_polled_and_dropped_whenever_it_likes() {
    for (is_cut, polls, is_dropped) in
        [(true, 1, true), (true, 2, false), (true, 2, true), (false, 1, true), (false, 2, false), (false, 2, true)]
    {
        model(None, move || {
            let list = list();
            let mut held = list.try_lock().unwrap();
            let mut mine = Box::pin({
                let list = list.clone();
                async move { task(&list, 1, Launch::Now).await }
            });
            assert!(poll_once(mine.as_mut()).is_pending());
            let other = thread::spawn(move || {
                for _ in 0..polls {
                    let waker = Waker::from(std::sync::Arc::new(Counted::default()));
                    if mine.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                        return None;
                    }
                }
                (!is_dropped).then_some(mine)
            });
            if is_cut {
                batch(&mut held, 1);
            }
            drop(held);
            if let Some(mine) = other.join().unwrap() {
                block_on(mine);
            }
            let sum = total(list);
            assert!(sum == 1 || sum == 0 && is_dropped, "{sum}");
        });
    }
}

/// A waker that panics when it is dropped.
struct Bad;

impl Wake for Bad {
    fn wake(self: std::sync::Arc<Self>) {}
}

impl Drop for Bad {
    fn drop(&mut self) {
        // Without the hook, which would print the panic in every interleaving.
        std::panic::resume_unwind(Box::new("injected"));
    }
}

/// A waker that panics when it is cloned.
fn unclonable() -> Waker {
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| std::panic::resume_unwind(Box::new("injected")), |_| (), |_| (), |_| ());
    // SAFETY: nothing is behind it.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

/// While the holder lets go, a task is polled, perhaps with a waker whose clone panics, and dropped.
#[test]
fn wakers_that_panic_keep_nothing_up() {
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        model(None, move || {
            let list = list();
            let held = list.try_lock().unwrap();
            let mut mine = Box::pin({
                let list = list.clone();
                async move { task(&list, 1, Launch::Now).await }
            });
            {
                let waker = if first == 0 { Waker::noop().clone() } else { Waker::from(std::sync::Arc::new(Bad)) };
                assert!(mine.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            let other = thread::spawn(move || {
                let mut mine = mine;
                let waker =
                    if second == 0 { Waker::from(std::sync::Arc::new(Counted::default())) } else { unclonable() };
                let polled =
                    catch_unwind(AssertUnwindSafe(|| mine.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()));
                drop(mine);
                polled.unwrap_or(false)
            });
            // The holder that lets go may have the first waker to wake, and to drop.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(held)));
            let was_run = other.join().unwrap();
            assert_eq!(total(list), usize::from(was_run));
        });
    }
}

#[test]
fn a_dropped_task_runs_once_or_never_and_its_slot_comes_back() {
    for launch in [Launch::Now, Launch::Deferred] {
        model(3, move || {
            let list = list();
            let other = {
                let list = list.clone();
                thread::spawn(move || call(&list, 1, 1).unwrap())
            };
            {
                let mut dropped = pin!(task(&list, 2, launch));
                let _ = poll_once(dropped.as_mut());
            }
            let mine = block_on(task(&list, 4, launch));
            let theirs = other.join().unwrap();
            let sum = total(list);
            assert!(sum == 5 || sum == 7, "{sum}");
            assert!(mine <= 3 && theirs <= 6);
        });
    }
}

#[test]
fn a_dropped_lead_hands_on_its_duty() {
    model(None, || {
        let list = list();
        let mut leads = Box::pin({
            let list = list.clone();
            async move { task(&list, 2, Launch::Deferred).await }
        });
        assert!(poll_once(leads.as_mut()).is_pending());
        let other = {
            let list = list.clone();
            thread::spawn(move || block_on(task(&list, 1, Launch::Deferred)))
        };
        drop(leads);
        assert_eq!(other.join().unwrap(), 0);
        assert_eq!(total(list), 1);
    });
}

/// A future that is alive and is not polled, even when it is woken.
fn kept(list: &Arc<List>) -> std::pin::Pin<Box<impl Future<Output = usize> + use<>>> {
    let list = list.clone();
    Box::pin(async move { task(&list, 2, Launch::Deferred).await })
}

#[test]
fn a_kept_future_does_not_stop_a_task_that_comes_later() {
    for launch in [Launch::Now, Launch::Deferred] {
        model(None, move || {
            let list = list();
            let mut kept = kept(&list);
            assert!(poll_once(kept.as_mut()).is_pending());
            let other = {
                let list = list.clone();
                thread::spawn(move || block_on(task(&list, 1, launch)))
            };
            drop(list.try_read());
            assert_eq!(other.join().unwrap(), 2);
            drop(kept);
            assert_eq!(total(list), 3);
        });
    }
}

#[test]
fn a_kept_future_does_not_stop_a_task_that_queued_behind_it() {
    for launch in [Launch::Now, Launch::Deferred] {
        model(3, move || {
            let list = list();
            let held = list.try_lock().expect("it is free");
            let mut kept = kept(&list);
            assert!(poll_once(kept.as_mut()).is_pending());
            let other = {
                let list = list.clone();
                thread::spawn(move || block_on(task(&list, 1, launch)))
            };
            drop(held);
            assert_eq!(other.join().unwrap(), 2);
            drop(kept);
            assert_eq!(total(list), 3);
        });
    }
}

/// The second is invited, comes while the lock is held, and gives the invitation back; the first is not polled.
#[test]
fn a_kept_future_does_not_stop_a_task_that_was_invited_before() {
    model(2, || {
        let list = list();
        let held = list.try_lock().expect("it is free");
        let mut kept = kept(&list);
        assert!(poll_once(kept.as_mut()).is_pending());
        let other = {
            let list = list.clone();
            thread::spawn(move || block_on(task(&list, 1, Launch::Now)))
        };
        drop(held);
        // Several times, without running any operation.
        for _ in 0..2 {
            list.run(|held| assert!(held.data().get() <= 3));
        }
        assert_eq!(other.join().unwrap(), 2);
        drop(kept);
        assert_eq!(total(list), 3);
    });
}

#[test]
fn a_kept_future_does_not_stop_a_thread_behind_it() {
    model(None, || {
        let list = list();
        let held = list.try_lock().expect("it is free");
        let mut kept = kept(&list);
        assert!(poll_once(kept.as_mut()).is_pending());
        let other = {
            let list = list.clone();
            thread::spawn(move || call(&list, 1, 1).unwrap())
        };
        drop(held);
        assert_eq!(other.join().unwrap(), 2);
        drop(kept);
        assert_eq!(total(list), 3);
    });
}

#[test]
fn a_runner_elsewhere_is_signalled() {
    model(3, || {
        let bell = Arc::new(Signal::default());
        let signal = {
            let bell = bell.clone();
            Box::new(move || bell.set())
        };
        let list: Arc<List> = Arc::new(Submit::new(Watched::new(0), Some(signal)));
        let runs = {
            let list = list.clone();
            thread::spawn(move || {
                while !list.is_over() {
                    bell.wait();
                    list.run(|held| {
                        while held.is_more() {
                            batch(held, 1);
                        }
                    });
                }
            })
        };
        let other = {
            let list = list.clone();
            thread::spawn(move || call(&list, 1, 1).unwrap())
        };
        assert!(block_on(task(&list, 2, Launch::Now)) <= 1);
        other.join().unwrap();
        list.close(Spin::NONE, |_| panic!("the runner is another")).unwrap();
        runs.join().unwrap();
        let mut list = Arc::try_unwrap(list).unwrap_or_else(|_| panic!("no user is left"));
        assert_eq!(list.data_mut().get(), 3);
    });
}
