//! Children that are forked inside a call, while other threads are inside it too. A child can make parallel calls, and may leave the
//! call, by a return or a panic; it never waits for threads of its parent. The parent goes on unharmed.
#![cfg(all(target_os = "linux", not(miri)))]

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ThreadId};

use windrow::batch::{Batch, BatchOps, Batched, Runner};
use windrow::overlap;
use windrow::prelude::*;
use windrow::{Pool, Width, team};
use windrow_sync::Spin;
use windrow_sync::gate::{Gate, JoinedWorker, LANES};
use windrow_testkit::{ForkedChild, Side, Sum, end_child, split};

/// Way in which a child leaves the call in which it was forked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    ByReturn,
    ByPanic,
    AtOnce,
}

const WAYS: [Leaves; 3] = [Leaves::ByReturn, Leaves::ByPanic, Leaves::AtOnce];

/// Outcome that a child finds when it has returned from the call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Finds {
    /// The call failed, because threads of the parent were inside it.
    Stranded,
    /// The call ended as in the parent.
    Result,
}

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// A pool of the parent: calls in it start no thread in a child.
static PARENTS: OnceLock<Pool> = OnceLock::new();

/// Two threads of a call: one forks when both are inside, and the other one waits for that.
struct Meeting {
    leaves: Leaves,
    /// The thread that called forks, and not the other one.
    by_caller: bool,
    caller: ThreadId,
    inside: AtomicUsize,
    over: AtomicBool,
    child: Mutex<Option<ForkedChild>>,
}

impl Meeting {
    fn new(leaves: Leaves, by_caller: bool) -> Self {
        Meeting {
            leaves,
            by_caller,
            caller: thread::current().id(),
            inside: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            child: Mutex::new(None),
        }
    }

    fn part(&self) {
        let is_caller = self.caller == thread::current().id();
        self.part_as(is_caller == self.by_caller);
    }

    fn part_as(&self, forks: bool) {
        self.inside.fetch_add(1, Relaxed);
        while self.inside.load(Relaxed) < 2 {
            thread::yield_now();
        }
        if forks && !self.over.load(Relaxed) {
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
                if !PARENTS.get().expect("made before").install(serial_works) {
                    say("calls inside the call fail");
                    end_child(false);
                }
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

/// Past the test's capture of what is printed: it is kept in memory, and that of a child is about to go.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "child: {what}");
}

/// Calls that start no thread where the current pool is the parent's. (The stacks of the parent's threads may be used again by new threads,
/// and a child on a worker still refers to what is on its caller's.)
fn serial_works() -> bool {
    let squares: Vec<u64> = (0..1000u64).into_par_iter().map(|i| i * i).collect();
    let both = windrow::join(|| 1, || 2) == (1, 2);
    let scoped = windrow::scope(|scope| scope.spawn_joinable(|_| 3).join().unwrap()) == 3;
    let teamed = team(&mut ()).run(|member| member.barrier()).iter().all(Result::is_ok);
    let batched = Batched::new(Sum(1)).call(1).is_ok_and(|sum| sum == 2);
    let lanes = overlap::source(0..3).compute("a", |i| Ok::<_, ()>(i + 1)).collect();
    squares[999] == 998_001 && both && scoped && teamed && batched && lanes.is_ok_and(|all| all == [1, 2, 3])
}

/// The same, and with new threads.
fn works() -> bool {
    let helped = overlap::source(0..3).blocking("a", |i| Ok::<_, ()>(i + 1)).collect();
    let pooled: u64 = Pool::new(2).install(|| (0..1000u64).into_par_iter().sum());
    serial_works() && helped.is_ok_and(|all| all == [1, 2, 3]) && pooled == 499_500
}

/// The text of a panic.
fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or(payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs `call` with each way out of it, on the caller and on another thread.
fn each_way(name: &str, finds: Finds, call: impl Fn(&Arc<Meeting>) -> Result<(), String>) {
    for (leaves, by_caller) in WAYS.into_iter().flat_map(|leaves| [(leaves, true), (leaves, false)]) {
        let meeting = Arc::new(Meeting::new(leaves, by_caller));
        let result =
            catch_unwind(AssertUnwindSafe(|| call(&meeting))).unwrap_or_else(|payload| Err(text_of(&*payload)));
        if IS_CHILD.load(Relaxed) {
            let is_right = match (leaves, finds, &result) {
                (Leaves::ByReturn, Finds::Stranded, Err(why)) => why.contains("stayed in the parent"),
                (Leaves::ByReturn, Finds::Result, result) => result.is_ok(),
                (Leaves::ByPanic, _, Err(why)) => why.contains("as intended") || why.contains("panicked"),
                _ => false,
            };
            if !is_right {
                say(&format!("{name}, {leaves:?}, {by_caller}: {result:?}"));
            }
            end_child(is_right && works());
        }
        let child = meeting.child.lock().unwrap().take();
        assert_eq!(
            child.expect("one thread has forked").fault(),
            None,
            "{name}, {leaves:?}, by the caller: {by_caller}"
        );
        assert_eq!(result, Ok(()), "{name}: the parent");
    }
}

/// Runs `f`; no error.
fn done<R>(f: impl FnOnce() -> R) -> Result<(), String> {
    f();
    Ok(())
}

/// Regions inside each other until all lanes are taken, and one more that gets none. The caller meets the worker in the innermost one.
fn in_all_lanes(gate: &Gate, body: &(dyn Fn(JoinedWorker) + Sync), regions: usize, innermost: &dyn Fn()) {
    gate.region(body, Spin::NONE, |door| {
        assert_eq!(door.open(2), regions > 0);
        if regions > 0 { in_all_lanes(gate, body, regions - 1, innermost) } else { innermost() }
    });
}

#[derive(Default)]
struct Meets(Option<Arc<Meeting>>);

impl BatchOps for Meets {
    type Op = u64;
    type Reply = u64;

    fn run(&mut self, batch: &mut Batch<'_, u64, u64>) {
        for entry in batch.iter_mut() {
            let op = entry.take();
            if let Some(meeting) = self.0.as_ref().filter(|_| op == 0) {
                meeting.part_as(true);
            }
            entry.reply(op + 1);
        }
    }
}

/// One test, so that no other thread of this program starts or ends while a child is forked.
#[test]
fn children_forked_inside_calls() {
    PARENTS.get_or_init(|| Pool::new(2));
    // A new pool for each call: where a pool has seen a call end alone, its workers need not come.
    let inside = |f: &(dyn Fn() + Sync)| done(|| Pool::new(2).install(f));
    let stranded =
        |name: &str, call: &dyn Fn(&Arc<Meeting>) -> Result<(), String>| each_way(name, Finds::Stranded, call);

    stranded("loop", &|m| inside(&|| (0..2).into_par_iter().for_each(|_| m.part())));
    stranded("collect", &|m| {
        let lists = || (0..2).into_par_iter().map(|i: u8| (m.part(), vec![i]).1).collect::<Vec<_>>();
        (Pool::new(2).install(lists).concat() == [0, 1]).then_some(()).ok_or("wrong".to_owned())
    });
    // One thread is inside an item, and the other one inside `next`, which it entered alone.
    stranded("bridge", &|m| {
        let pulled = || {
            (0..2)
                .inspect(|i| {
                    if *i == 1 {
                        m.part()
                    }
                })
                .par_bridge()
        };
        inside(&|| {
            pulled().for_each(|i| {
                if i == 0 {
                    m.part()
                }
            })
        })
    });
    stranded("all lanes", &|m| {
        let gate = Arc::new(Gate::new(1));
        let served = gate.clone();
        let worker = thread::spawn(move || served.serve(1, |_| Spin::NONE));
        let regions = || in_all_lanes(&gate, &|_| m.part(), LANES, &|| m.part());
        let called = catch_unwind(AssertUnwindSafe(regions));
        gate.stop();
        if IS_CHILD.load(Relaxed) {
            std::mem::forget(worker)
        } else {
            worker.join().unwrap()
        }
        called.map_err(|payload| text_of(&*payload))
    });
    stranded("join", &|m| inside(&|| _ = windrow::join(|| m.part(), || m.part())));
    stranded("join inside a loop", &|m| {
        inside(&|| (0..2).into_par_iter().for_each(|_| _ = windrow::join(|| m.part(), || ())))
    });
    stranded("scope", &|m| {
        inside(&|| {
            windrow::scope(|scope| {
                scope.spawn(|_| m.part());
                m.part();
            });
        })
    });
    stranded("scope, joined", &|m| {
        inside(&|| {
            windrow::scope(|scope| {
                let task = scope.spawn_joinable(|_| m.part());
                m.part();
                task.join().unwrap();
            });
        })
    });
    stranded("team", &|m| {
        let members = |member: &mut windrow::team::Member<'_, '_, ()>| {
            member.barrier().unwrap();
            m.part();
            member.barrier().map_err(|ended| ended.to_string())
        };
        let all = Pool::new(2).install(|| team(&mut ()).width(Width::exactly(2)).try_run(members));
        all.map_err(|error| error.to_string())?.into_iter().collect()
    });
    stranded("overlapped lanes", &|m| {
        let here = |tile| {
            if tile == 1 {
                m.part();
            }
            Ok::<_, ()>(tile)
        };
        let there = |tile| {
            if tile == 0 {
                m.part();
            }
            Ok(())
        };
        let run = overlap::source(0..3).compute("here", here).blocking("there", there).run();
        run.map(drop).map_err(|failure| format!("{failure:?}").replace("Forked", "stayed in the parent"))
    });
    stranded("several tiles", &|m| {
        let tiles = || {
            overlap::source(0..2)
                .compute_each("each", |_| {
                    m.part();
                    Ok::<_, ()>(())
                })
                .run()
        };
        Pool::new(2)
            .install(tiles)
            .map(drop)
            .map_err(|failure| format!("{failure:?}").replace("Forked", "stayed in the parent"))
    });

    // A batch ends with the thread that runs it.
    for (name, build) in [
        ("batch", (|meets| Batched::builder().build(meets)) as fn(Meets) -> Batched<Meets>),
        ("batch on a thread", |meets| Batched::builder().build_on(Runner::thread(|| meets)).unwrap()),
        ("batch beside a thread", |meets| Batched::builder().build_on(Runner::beside_callers(meets)).unwrap()),
        ("spawned batch", |meets| {
            Batched::builder().build_on(Runner::spawned(meets, |run| drop(thread::spawn(run)))).unwrap()
        }),
    ] {
        each_way(name, Finds::Result, |m| {
            let batched = build(Meets(Some(m.clone())));
            thread::scope(|scope| {
                // Another caller waits, or runs alone.
                scope.spawn(|| {
                    m.inside.fetch_add(1, Relaxed);
                    let _ = batched.call(1);
                });
                let called = catch_unwind(AssertUnwindSafe(|| batched.call(0)));
                if IS_CHILD.load(Relaxed) {
                    // The scope would wait for the other caller.
                    let is_right = match (m.leaves, called) {
                        (Leaves::ByPanic, Ok(Err(error))) => error.to_string().contains("panicked"),
                        (Leaves::ByReturn, Ok(Ok(reply))) => reply == 1,
                        _ => false,
                    };
                    end_child(is_right && batched.call(2).is_err() && works());
                }
            });
            Ok(())
        });
    }

    each_way("spawned closure", Finds::Result, |m| {
        m.inside.store(1, Relaxed);
        let m = m.clone();
        done(|| Pool::new(2).spawn_joinable(move || m.part_as(true)).wait())
    });
    // On a worker that a team waits for, and on a worker that ends.
    for starts in [true, false] {
        each_way("handler of a pool", Finds::Result, |m| {
            m.inside.store(1, Relaxed);
            let m = m.clone();
            let forks = move |_| m.part_as(true);
            let builder = Pool::builder().threads(2);
            let builder = if starts { builder.start_handler(forks) } else { builder.exit_handler(forks) };
            let pool = builder.build().map_err(|error| error.to_string())?;
            let members = pool.install(|| team(&mut ()).width(Width::exactly(2)).try_run(|member| member.barrier()));
            members
                .map_err(|error| error.to_string())?
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|ended| ended.to_string())
        });
    }
    // The parent's pool is as it was.
    assert!(works());
}
