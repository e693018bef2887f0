//! Items, halves and tasks that wait for each other: the calls end while a worker is free.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use windrow::Pool;
use windrow::prelude::*;

/// Fails instead of waiting for ever.
fn ends(what: &'static str, f: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        f();
        let _ = sender.send(());
    });
    assert!(receiver.recv_timeout(Duration::from_secs(60)).is_ok(), "{what} has not ended");
}

/// Calls one after another, and calls after pauses that let workers park.
fn pauses() -> [(u32, u64); 2] {
    [(windrow_testkit::cases(60), 0), (if cfg!(miri) { 2 } else { 12 }, 3)]
}

fn in_pools(what: &'static str, call: impl Fn() + Send + Sync + Copy + 'static) {
    ends(what, move || {
        for threads in [2, 4] {
            let pool = Pool::new(threads);
            for (calls, pause) in pauses() {
                for _ in 0..calls {
                    pool.install(call);
                    if pause > 0 {
                        std::thread::sleep(Duration::from_millis(pause));
                    }
                }
            }
        }
    });
}

fn pair() -> (Mutex<Sender<u32>>, Mutex<Receiver<u32>>) {
    let (send, receive) = channel();
    (Mutex::new(send), Mutex::new(receive))
}

fn send(to: &Mutex<Sender<u32>>) {
    to.lock().unwrap().send(7).unwrap();
}

fn receive(from: &Mutex<Receiver<u32>>) {
    assert_eq!(from.lock().unwrap().recv(), Ok(7));
}

#[test]
fn the_first_half_of_a_join_waits_for_the_second() {
    in_pools("join", || {
        let (to, from) = pair();
        windrow::join(|| receive(&from), || send(&to));
    });
}

#[test]
fn the_body_of_a_scope_waits_for_its_task() {
    in_pools("scope", || {
        let (to, from) = pair();
        windrow::scope(|s| {
            s.spawn(|_| send(&to));
            receive(&from);
        });
    });
}

#[test]
fn the_first_item_waits_for_the_last() {
    in_pools("two items", || {
        let (to, from) = pair();
        (0..2).into_par_iter().for_each(|i| if i == 0 { receive(&from) } else { send(&to) });
    });
    in_pools("many items", || {
        let (to, from) = pair();
        (0..1000).into_par_iter().for_each(|i| match i {
            0 => receive(&from),
            999 => send(&to),
            _ => {}
        });
    });
}

#[test]
fn all_items_meet_at_a_barrier() {
    in_pools("barrier", || {
        let barrier = Barrier::new(2);
        (0..2).into_par_iter().for_each(|_| _ = barrier.wait());
    });
    in_pools("barrier, each item a claim", || {
        let barrier = Barrier::new(2);
        (0..2).into_par_iter().with_max_len(1).for_each(|_| _ = barrier.wait());
    });
}

/// Calls inside an item: workers that have joined the outer call are free for the inner one when they have left.
#[test]
fn items_of_an_inner_call_wait_for_each_other() {
    in_pools("nested", || {
        (0..2).into_par_iter().for_each(|outer| {
            if outer == 0 {
                let (to, from) = pair();
                (0..2).into_par_iter().for_each(|i| if i == 0 { receive(&from) } else { send(&to) });
            }
        });
    });
}
