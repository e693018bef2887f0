//! Children that are forked inside a call of a pool, while another thread is inside it too. A child may leave the call; it never waits for
//! threads of its parent. The parent goes on unharmed.
#![cfg(target_os = "linux")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use rayon_core::{ThreadPool, ThreadPoolBuilder, join};
use windrow_testkit::{ForkedChild, Side, end_child, split};

/// Way in which a child leaves the call in which it was forked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    ByReturn,
    ByPanic,
    AtOnce,
}

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Two threads of a call: one forks when both are inside, and the other one waits for that.
struct Meeting {
    leaves: Leaves,
    /// The thread that called forks, and not the other one.
    by_caller: bool,
    caller: Mutex<ThreadId>,
    inside: AtomicUsize,
    over: AtomicBool,
    child: Mutex<Option<ForkedChild>>,
}

impl Meeting {
    /// This thread counts as the caller.
    fn is_called_here(&self) {
        *self.caller.lock().unwrap() = thread::current().id();
    }

    fn part(&self) {
        let is_caller = *self.caller.lock().unwrap() == thread::current().id();
        self.inside.fetch_add(1, Relaxed);
        while self.inside.load(Relaxed) < 2 {
            thread::yield_now();
        }
        if is_caller == self.by_caller && !self.over.load(Relaxed) {
            self.fork();
        }
        while !self.over.load(Relaxed) {
            thread::yield_now();
        }
    }

    fn fork(&self) {
        match split() {
            Side::Parent(child) => *self.child.lock().unwrap() = Some(child),
            Side::Child => {
                IS_CHILD.store(true, Relaxed);
                match self.leaves {
                    Leaves::ByReturn => {}
                    Leaves::ByPanic => resume_unwind(Box::new("as intended".to_owned())),
                    Leaves::AtOnce => end_child(true),
                }
            }
        }
        self.over.store(true, Relaxed);
    }
}

fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or(payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs `call` with each way out of it, on the caller and on another thread.
fn stranded(name: &str, call: impl Fn(&Meeting)) {
    let ways = [Leaves::ByReturn, Leaves::ByPanic, Leaves::AtOnce];
    for (leaves, by_caller) in ways.into_iter().flat_map(|leaves| [(leaves, true), (leaves, false)]) {
        let meeting = Arc::new(Meeting {
            leaves,
            by_caller,
            caller: Mutex::new(thread::current().id()),
            inside: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            child: Mutex::new(None),
        });
        let result = catch_unwind(AssertUnwindSafe(|| call(&meeting))).map_err(|payload| text_of(&*payload));
        if IS_CHILD.load(Relaxed) {
            let is_right = match (leaves, &result) {
                (Leaves::ByReturn, Err(why)) => why.contains("stayed in the parent"),
                (Leaves::ByPanic, Err(why)) => why.contains("as intended"),
                _ => false,
            };
            if !is_right {
                eprintln!("child: {name}, {leaves:?}, {by_caller}: {result:?}");
            }
            end_child(is_right && pool().install(|| 7) == 7);
        }
        let child = meeting.child.lock().unwrap().take().expect("one thread has forked");
        assert_eq!(child.fault(), None, "{name}, {leaves:?}, by the caller: {by_caller}");
        assert_eq!(result, Ok(()), "{name}: the parent");
    }
}

/// One test, so that no other thread of this program starts or ends while a child is forked. Where the call is on a worker, a child ends
/// when the worker has left its task.
#[test]
fn children_forked_inside_calls() {
    let tasks = pool();
    stranded("join", |m| {
        tasks.install(|| {
            m.is_called_here();
            join(|| m.part(), || m.part());
        });
    });
    stranded("broadcast", |m| {
        tasks.broadcast(|at| {
            if at.index() == 0 {
                m.is_called_here();
            }
            m.part();
        });
    });
    stranded("scope", |m| {
        tasks.in_place_scope(|scope| {
            scope.spawn(|_| m.part());
            m.part();
        });
    });
    assert_eq!(tasks.install(|| 7), 7);
}
