//! What holders of the lock may get wrong without harm to those who wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use windrow_sync::Spin;
use windrow_sync::submit::{Closed, Entry, Fate, Held, Launch, Limit, Submit, Task};

type List = Submit<u64, u64, u64>;

fn limit(ops: usize) -> Limit<'static, u64> {
    Limit { ops, weight: None }
}

/// Adds all that is in the next batch.
fn batch(held: &mut Held<'_, u64, u64, u64>) {
    if let Some(mut cut) = held.cut(&limit(2)) {
        let (sum, entries) = cut.parts();
        for entry in entries {
            *sum += entry.take();
            entry.reply(*sum);
        }
    }
}

fn entries<const N: usize>() -> [Entry<u64, u64>; N] {
    std::array::from_fn(|at| Entry::Op(at as u64))
}

#[test]
fn a_batch_that_is_leaked_is_answered() {
    let list = List::new(0, None);
    let mut queued = Task::new(&list, 100, 0);
    assert!(queued.poll(&mut Context::from_waker(Waker::noop()), Launch::Deferred, batch).is_pending());
    let mut mine: [_; 4] = entries();
    // The task's operation and the first of these are cut; nobody answers them, and the lead gives up.
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
    assert!(matches!(answer, Poll::Ready(Ok((Entry::Op(100), _)))));
    // The list is as good as new.
    let mut mine: [_; 3] = entries();
    list.call(&mut mine, 0, Spin::NONE, |held| {
        while !held.is_mine_answered() {
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
