//! Models of room in a queue: released room reaches the next caller in line, thread or task, also when callers leave the line meanwhile.

use std::future::poll_fn;
use std::task::{Context, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread::{self, JoinHandle};
use windrow_sync::Spin;
use windrow_sync::latch::Latch;
use windrow_sync::submit::room::Capacity;

use crate::submit::block_on;
use crate::{Watched, model};

type Room = (Capacity, Watched);

/// Takes the only room as a thread or as a task, and adds 1.
fn take(room: &Room, is_task: bool) {
    let mut waiting = None;
    let permit =
        if is_task { block_on(poll_fn(|context| room.0.poll(&mut waiting, 1, context))) } else { room.0.wait(1) };
    room.1.set(room.1.get() + 1);
    drop(permit);
}

fn taker(room: &Arc<Room>, is_task: bool) -> JoinHandle<()> {
    let room = room.clone();
    thread::spawn(move || take(&room, is_task))
}

#[test]
fn the_room_is_one_callers_at_a_time() {
    for tasks in [[false, false], [true, false], [true, true]] {
        model(2, move || {
            let room = Arc::new((Capacity::new(1), Watched::new(0)));
            let takers = tasks.map(|is_task| taker(&room, is_task));
            takers.into_iter().for_each(|taker| taker.join().unwrap());
            assert_eq!(room.1.get(), 2);
            assert!(room.0.try_take(1).is_some());
        });
    }
}

/// A thread that takes the only room before this function returns, and gives it back at any time after that.
fn holder(room: &Arc<Room>) -> JoinHandle<()> {
    let (room, held) = (room.clone(), Arc::new(Latch::new()));
    let taken = held.clone();
    let holder = thread::spawn(move || {
        let permit = room.0.try_take(1);
        taken.set();
        drop(permit);
    });
    held.wait(Spin::NONE);
    holder
}

/// A future is dropped while the room is released; the caller in line after it gets the room.
#[test]
fn a_dropped_future_passes_its_room_on() {
    model(2, || {
        let room = Arc::new((Capacity::new(1), Watched::new(0)));
        let (holder, mut place) = (holder(&room), None);
        let polled = room.0.poll(&mut place, 1, &mut Context::from_waker(Waker::noop()));
        let next = taker(&room, false);
        drop((polled, place));
        next.join().unwrap();
        holder.join().unwrap();
        assert!(room.0.try_take(1).is_some());
    });
}

struct Raised(AtomicBool);

impl Wake for Raised {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// A future is polled with a second waker while the room is released: that waker is woken, or the poll is ready.
#[test]
fn the_latest_waker_is_woken() {
    model(None, || {
        let room = Arc::new((Capacity::new(1), Watched::new(0)));
        let (holder, mut place) = (holder(&room), None);
        let second = std::sync::Arc::new(Raised(AtomicBool::new(false)));
        let waker = Waker::from(second.clone());
        let mut poll = |waker| room.0.poll(&mut place, 1, &mut Context::from_waker(waker)).is_ready();
        let is_ready = poll(Waker::noop()) || poll(&waker);
        holder.join().unwrap();
        assert!(is_ready || second.0.load(Relaxed) && poll(&waker));
    });
}
