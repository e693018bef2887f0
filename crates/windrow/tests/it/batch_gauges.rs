//! Gauges of a structure while it runs, messages of its panics, and calls that do not wait for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use windrow::batch::{Batch, BatchError, BatchOps, Batched, Builder, Overflow, Runner};
use windrow_testkit::Rng;

/// Operation 0 reports that it runs and waits for a signal; operation 13 panics. The reply is the number of operations run so far.
struct Gate {
    runs: Sender<()>,
    go: Receiver<()>,
    ran: u64,
}

impl BatchOps for Gate {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        for entry in batch.iter_mut() {
            match entry.take() {
                0 => {
                    self.runs.send(()).unwrap();
                    self.go.recv().unwrap();
                }
                13 => panic!("operation {} is unlucky", 13),
                _ => {}
            }
            self.ran += 1;
            entry.reply(self.ran);
        }
    }
}

/// A gate, the reports of its operations 0, and the signal for them to go on.
fn gate(build: impl FnOnce(Builder<Gate>, Gate) -> Batched<Gate>) -> (Batched<Gate>, Receiver<()>, Sender<()>) {
    let ((runs, waits), (goes, go)) = (channel(), channel());
    (build(Batched::builder(), Gate { runs, go, ran: 0 }), waits, goes)
}

/// Gates whose batches run on callers, on a separate thread and in spawned closures.
fn gates() -> [(Batched<Gate>, Receiver<()>, Sender<()>); 3] {
    let spawned = |gate| Runner::spawned(gate, |run| drop(thread::spawn(run)));
    [
        gate(|builder, gate| builder.build(gate)),
        gate(|builder, gate| builder.build_on(Runner::thread(|| gate)).unwrap()),
        gate(|builder, gate| builder.build_on(spawned(gate)).unwrap()),
    ]
}

fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never holds");
        thread::yield_now();
    }
}

#[test]
fn gauges_are_read_beside_a_batch_that_hangs() {
    for (gate, waits, goes) in gates() {
        thread::scope(|scope| {
            scope.spawn(|| gate.call(0).unwrap());
            waits.recv().unwrap();
            assert!(gate.gauges().running.is_some());
            for _ in 0..3 {
                scope.spawn(|| gate.call(1).unwrap());
            }
            let mut future = gate.call_async(1);
            assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            until(|| gate.gauges().queued == 4);
            drop(future);
            let gauges = gate.gauges();
            assert_eq!((gauges.queued, gauges.cancelled), (3, 1), "{gauges}");
            thread::sleep(Duration::from_millis(3));
            assert!(gate.gauges().running >= Some(Duration::from_millis(2)), "{}", gate.gauges());
            goes.send(()).unwrap();
        });
        until(|| gate.gauges().running.is_none());
        let gauges = gate.gauges();
        assert_eq!((gauges.queued, gauges.operations, gauges.panicked), (0, 4, 0), "{gauges}");
    }
}

#[test]
fn errors_carry_the_message_of_the_panic() {
    for (gate, ..) in gates() {
        let error = gate.call(13).unwrap_err();
        assert_eq!((error.kind(), error.panic()), (BatchError::Panicked, Some("operation 13 is unlucky")));
        assert_eq!(error.to_string(), "the batch panicked: operation 13 is unlucky");
        let error = gate.call(1).unwrap_err();
        assert_eq!(error.to_string(), "an earlier batch panicked: operation 13 is unlucky");
        assert_eq!(error.into_op(), Some(1));
        let gauges = gate.gauges();
        assert_eq!((gauges.panicked, gauges.last_panic.as_deref()), (1, Some("operation 13 is unlucky")));
    }
    let (gate, ..) = gate(|builder, gate| builder.recover(|_| ()).build(gate));
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        gate.exclusive(|_| std::panic::resume_unwind(Box::new(7)))
    }));
    assert!(payload.is_err());
    assert_eq!(gate.gauges().last_panic.as_deref(), Some("a value that is not text"));
    assert_eq!(gate.call(1), Ok(1), "recovered");
}

#[test]
fn a_call_within_some_time_gives_up_and_says_whether_it_runs() {
    for (gate, waits, goes) in gates() {
        thread::scope(|scope| {
            scope.spawn(|| gate.call(0).unwrap());
            waits.recv().unwrap();
            let error = gate.call_within(1, Duration::from_millis(1)).unwrap_err();
            assert_eq!(error.kind(), BatchError::TimedOut { runs: false });
            goes.send(()).unwrap();
        });
        assert_eq!(gate.call_within(1, Duration::from_secs(60)), Ok(2), "the late one never ran");
    }
    // In a batch that runs.
    let (gate, waits, goes) = gates().into_iter().nth(1).unwrap();
    let error = gate.call_within(0, Duration::from_millis(20)).unwrap_err();
    waits.recv().unwrap();
    goes.send(()).unwrap();
    match error.kind() {
        BatchError::TimedOut { runs: true } => assert_eq!(gate.call(1), Ok(2), "its reply was dropped"),
        // The runner was late.
        why => assert_eq!(why, BatchError::TimedOut { runs: false }),
    }
}

/// Runs `calls` while an operation runs and the only room of the queue is taken. Afterwards these two have run, and no other one.
fn beside_a_full_queue(full: Overflow, calls: impl FnOnce(&Batched<Gate>)) {
    let (gate, waits, goes) = gate(|builder, gate| builder.queue(1, full).build(gate));
    thread::scope(|scope| {
        scope.spawn(|| gate.call(0).unwrap());
        waits.recv().unwrap();
        scope.spawn(|| gate.call(1).unwrap());
        until(|| gate.gauges().queued == 1);
        calls(&gate);
        goes.send(()).unwrap();
    });
    gate.close().unwrap();
    assert_eq!((gate.gauges().queued, gate.gauges().operations), (0, 2));
}

#[test]
fn a_call_that_waits_for_room_gets_its_operation_back() {
    beside_a_full_queue(Overflow::Block, |gate| {
        let error = gate.call_within(2, Duration::from_millis(1)).unwrap_err();
        assert_eq!((error.kind(), error.into_op()), (BatchError::TimedOut { runs: false }, Some(2)));
    });
}

#[test]
fn calls_that_find_no_room_are_counted() {
    beside_a_full_queue(Overflow::Reject, |gate| {
        assert_eq!(gate.call(2).unwrap_err().kind(), BatchError::Full);
        assert!(matches!(
            Pin::new(&mut gate.call_async(2)).poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Err(error)) if error.kind() == BatchError::Full
        ));
        assert_eq!(gate.gauges().rejected, 2);
    });
}

#[test]
fn refused_calls_of_a_closed_structure_are_not_queued() {
    let (gate, ..) = gate(|builder, gate| builder.build(gate));
    gate.close().unwrap();
    assert_eq!(gate.call(1).unwrap_err().kind(), BatchError::Closed);
    assert_eq!((gate.gauges().queued, gate.gauges().rejected), (0, 0));
}

/// Counts what it runs.
struct Tally(Arc<AtomicU64>);

impl BatchOps for Tally {
    type Op = ();
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, (), ()>) {
        self.0.fetch_add(batch.len() as u64, SeqCst);
        batch.iter_mut().for_each(|entry| entry.answer(|()| ()));
    }
}

/// Callers of all kinds, some of which go away: every operation is counted once, as run or as cancelled.
#[test]
fn gauges_add_up() {
    for seed in 0..u64::from(windrow_testkit::cases(4)) {
        let ran = Arc::new(AtomicU64::new(0));
        let tally = match seed % 2 {
            0 => Batched::new(Tally(ran.clone())),
            _ => Batched::builder()
                .build_on(Runner::thread({
                    let ran = ran.clone();
                    || Tally(ran)
                }))
                .unwrap(),
        };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let callers = (0..4).map(|caller| {
                let tally = &tally;
                scope.spawn(move || {
                    let mut random = Rng(seed * 8 + caller);
                    let mut kept = Vec::new();
                    for _ in 0..500 {
                        match random.below(4) {
                            0 => tally.call(()).unwrap(),
                            1 => _ = tally.call_within((), Duration::from_micros(random.below(50))),
                            2 => kept.clear(),
                            _ => {
                                let mut future = tally.call_async(());
                                let ready =
                                    Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_ready();
                                if !ready {
                                    kept.push(future);
                                }
                                continue;
                            }
                        }
                        if kept.len() > 8 {
                            kept.remove(random.below(8) as usize);
                        }
                    }
                })
            });
            let callers: Vec<_> = callers.collect();
            let (tally, over) = (&tally, &over);
            scope.spawn(move || {
                while !over.load(SeqCst) {
                    // A reading never waits, and may be of several moments.
                    let gauges = tally.gauges();
                    assert!(gauges.queued + gauges.operations <= 2500, "{gauges}");
                }
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            over.store(true, SeqCst);
        });
        tally.close().unwrap();
        let gauges = tally.gauges();
        assert_eq!((gauges.queued, gauges.operations), (0, ran.load(SeqCst)), "{gauges}");
    }
}
