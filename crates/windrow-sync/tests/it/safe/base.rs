//! Building blocks of the protocols and of other crates, and closures on loan.

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windrow_sync::exit::at_exit;
use windrow_sync::fork::{PerProcess, Process, Stranded};
use windrow_sync::latch::Latch;
use windrow_sync::lend::{Lender, Loan, lending};
use windrow_sync::machine::{self, Thread, cpus, prefetch, tick, ticks_per_micro};
use windrow_sync::quota::{cpu_quota, rounded_down};
use windrow_sync::relaxed::RelaxedU64;
use windrow_sync::unwind::{Finally, discard, quietly};
use windrow_sync::waiters::{Locked, Outcome, Waiter, Waiters};
use windrow_sync::word::{WideWord, Word, report_long_waits};
use windrow_sync::{Pad, Spin, ThreadBound};

use super::{Live, boom, panics};

#[test]
fn thread_bound_values() {
    let mut here = ThreadBound::confined(Rc::new(String::from("not for others")));
    assert!(here.is_here() && here.get_mut().is_some());
    let text = ThreadBound::confined(String::from("shared, and for this thread"));
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(!text.is_here() && text.get().is_none() && here.get_mut().is_none()));
    });
    assert_eq!(text.get().map(String::len), Some(27));
    // Leaked where it may not be dropped: a second count of the `Rc` keeps its memory in sight.
    let kept = here.get_mut().expect("on its thread").clone();
    let moved = std::thread::spawn(move || here.into_inner().is_none()).join();
    assert!(moved.unwrap() && Rc::strong_count(&kept) == 2);
    let everywhere = ThreadBound::new(String::from("for all"));
    assert_eq!(std::thread::spawn(|| everywhere.into_inner().map(|text| text.len())).join().unwrap(), Some(7));
    let live = Live::default();
    assert!(panics(|| drop(ThreadBound::confined(live.bomb(1)))));
    assert_eq!(live.count(), 0);
}

#[test]
fn values_of_the_process() {
    static TEXT: PerProcess<String> = PerProcess::new();
    static OTHER: std::sync::LazyLock<PerProcess<String>> = std::sync::LazyLock::new(PerProcess::<String>::default);
    assert!(panics(|| _ = TEXT.get(|| boom())) && TEXT.peek().is_none());
    let built = AtomicUsize::new(0);
    // A build that builds, in several threads at once: one result is kept, the others are dropped.
    std::thread::scope(|scope| {
        for at in 0..4 {
            let built = &built;
            scope.spawn(move || {
                TEXT.get(|| {
                    built.fetch_add(1, Relaxed);
                    format!("{at}, {}", TEXT.get(|| "inner".to_owned()))
                })
            });
        }
    });
    assert_eq!(TEXT.peek().map(String::as_str), Some("inner"));
    assert_eq!(OTHER.get(|| "other".to_owned()), "other");
}

/// The calls of [`long_wait`].
static LONG_WAITS: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn long_wait(_: Duration) {
    LONG_WAITS.fetch_add(1, Relaxed);
    boom()
}

#[test]
fn a_report_of_long_waits_that_panics_ends_no_wait() {
    report_long_waits(Duration::from_millis(1), long_wait);
    report_long_waits(Duration::ZERO, |_| unreachable!("only the first call has an effect"));
    let latch = Latch::new();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| latch.wait(Spin::NONE));
        // A wait of another test may have been the one.
        while LONG_WAITS.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(10));
        assert!(!waits.is_finished(), "the panic has not ended the wait");
        latch.set();
    });
}

#[test]
fn forked_children_know_themselves() {
    let made_in = Process::this();
    assert!(std::thread::spawn(move || made_in.is_this()).join().unwrap());
    let thrown = std::panic::catch_unwind(|| Stranded.raise()).unwrap_err();
    assert!(Stranded::is_thrown(&*thrown) && Stranded::is_thrown(&Stranded) && !Stranded::is_thrown(&"boom"));
    let mutex = windrow_sync::Mutex::new(1);
    assert!(panics(|| {
        let _held = mutex.lock();
        boom()
    }));
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn words_latches_and_the_machine() {
    extern "C" fn last() {}
    at_exit(last);
    let latch = Latch::new();
    latch.set();
    latch.set();
    assert!(latch.is_set());
    latch.wait(Spin { busy: u64::MAX, yielding: u64::MAX });
    std::thread::scope(|scope| {
        scope.spawn(|| latch.set());
        latch.wait(Spin::NONE);
    });
    let (word, wide) = (Pad(Word::new(1)), WideWord::new(1));
    word.0.wait(0);
    wide.wait(1);
    word.0.wake(u32::MAX);
    wide.wake(u32::MAX);
    assert!(panics(|| _ = Spin { busy: 1, yielding: u64::MAX }.until(|| boom())));
    let number = RelaxedU64::new(u64::MAX);
    number.add(2);
    assert_eq!(number.get(), 1);
    number.set_f64(-0.0);
    number.set(number.get());
    assert_eq!(number.get_f64().to_bits(), 1 << 63);
    prefetch(&[(); 0]);
    assert!(ticks_per_micro() > 0.0 && cpus() > 0 && machine::fork_generation() == machine::fork_generation());
    assert!(cpu_quota().is_none_or(|cpus| cpus > 0.0) && rounded_down().is_none_or(|quota| quota > cpus() as f64));
    let _ = tick();
    let _ = (machine::cpu(), machine::be_prompt());
    let this = Thread::this();
    let allowed = this.allowed();
    this.confine(&[]);
    this.confine(&[u32::MAX]);
    assert_eq!(this.allowed(), allowed);
    let ended = std::thread::spawn(Thread::this).join().unwrap();
    ended.confine(&allowed);
    assert!(
        !allowed.is_empty() && Thread::first().allowed().len() >= allowed.len(),
        "threads that the tests start inherit its mask"
    );
    let live = Live::default();
    discard((live.bomb(1), live.item(2)));
    quietly(|| drop(live.bomb(1)));
    quietly(|| std::panic::resume_unwind(Box::new(Bomb)));
    assert_eq!(live.count(), 0);
}

/// A payload whose drop panics.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        boom()
    }
}

#[test]
fn jobs_on_loan() {
    let live = Live::default();
    for hostile in 0..8 {
        let (texts, ended) = (Mutex::new(vec![String::from("borrowed")]), Arc::new(AtomicUsize::new(0)));
        let queue: Mutex<Vec<Loan>> = Mutex::default();
        let kept = Mutex::new(None);
        let ends = ended.clone();
        let on_end = move || {
            ends.fetch_add(1, Relaxed);
            // It may panic in `run`, where no other panic is on its way.
            if hostile == 5 && !std::thread::panicking() {
                boom();
            }
        };
        let item = live.item(1);
        let panicked = panics(|| {
            std::thread::scope(|scope| {
                let result: Box<dyn std::any::Any + Send> = lending(
                    on_end,
                    |is_over| {
                        assert!(!is_over() || hostile == 5);
                        scope.spawn(|| queue.lock().unwrap().drain(..).for_each(|loan| quietly(|| loan.run())));
                        if hostile == 3 {
                            std::panic::resume_unwind(Box::new(Bomb));
                        }
                    },
                    |lender: &Lender<'_, _>| {
                        let (inner, texts, item) = (lender.clone(), &texts, &item);
                        let push = move |text: &str| texts.lock().unwrap().push(format!("{text} {}", item.number()));
                        queue.lock().unwrap().push(lender.lend(move || {
                            inner.lend(move || push("inner")).run();
                            push("outer");
                            if hostile == 1 {
                                boom();
                            }
                        }));
                        drop(lender.lend(move || push("never")));
                        let bomb = item.live.bomb(2);
                        queue.lock().unwrap().push(lender.lend(move || push(&bomb.text)));
                        *kept.lock().unwrap() = Some(lender.clone());
                        match hostile {
                            2 => boom(),
                            // A result that no caller receives, and whose drop panics.
                            3 => Box::new(Bomb) as _,
                            4 => std::panic::resume_unwind(Box::new(Bomb)),
                            _ => Box::new(()) as _,
                        }
                    },
                );
                drop(result);
            });
        });
        assert_eq!(panicked, matches!(hostile, 2..=4), "{hostile}");
        let late = kept.into_inner().unwrap().expect("the host has run");
        assert!(panics(|| late.lend(|| ()).run()), "its scope is over");
        assert_eq!(texts.into_inner().unwrap()[1..].len(), 3);
        assert!(ended.load(Relaxed) > 0);
        drop(item);
        assert_eq!(live.count(), 0);
    }
}

#[test]
fn waiters_that_leave_and_change() {
    let woken = |waiter: &Arc<Latch>| waiter.wait_for(Some(Duration::ZERO));
    let (one, two) = (Arc::new(Latch::new()), Arc::new(Latch::new()));
    let waiters: Waiters<u32, u32> = Waiters::new(7);
    let mut locked: Locked<'_, u32, u32> = waiters.lock();
    *locked += 1;
    let first = locked.line_up(Waiter::Thread(one.clone()), 1);
    let second = locked.line_up(Waiter::Thread(two.clone()), 2);
    assert_eq!((locked.first(), *locked), (Some(&1), 8));
    assert!(locked.renew(second, Waiter::Thread(one.clone())).is_ok() && locked.leave(first).is_some());
    assert!(locked.leave(first).is_none() && locked.renew(first, Waiter::Thread(two.clone())).is_err());
    locked.wake_one();
    assert!(woken(&one) && !woken(&two));
    let (locked, is_called) = waiters.lock().wait(3, Some(Duration::ZERO));
    assert!(!is_called && locked.first().is_none());
    locked.wake_one();
    waiters.lock().line_up(Waiter::Thread(two.clone()), 4);
    waiters.lock().wake_all();
    assert!(woken(&two) && waiters.lock().call().is_none());
    assert!(panics(|| {
        let _locked = waiters.lock();
        boom()
    }));
    assert_eq!(*waiters.lock(), 8);
}

#[test]
fn outcomes_are_given_once() {
    let live = Live::default();
    let latch = Arc::new(Latch::new());
    let outcome = Outcome::default();
    assert!(!outcome.is_given() && outcome.ask(Waiter::Thread(latch.clone())).is_none());
    outcome.give(live.item(1));
    assert!(outcome.is_given() && latch.wait_for(None));
    assert_eq!(outcome.wait().text, "1");
    assert!(panics(|| drop(outcome.ask(Waiter::Thread(latch.clone())))), "it was taken");
    let closed = Outcome::default();
    closed.close();
    closed.give(live.item(2));
    assert_eq!(live.count(), 0);
    assert!(panics(|| drop(closed.wait())));
}

#[test]
fn guards_run_after_panics() {
    let ran = AtomicUsize::new(0);
    assert!(panics(|| {
        let _finally = Finally(|| _ = ran.fetch_add(1, Relaxed));
        boom()
    }));
    assert_eq!(ran.load(Relaxed), 1);
    assert!(machine::time_slice().is_none_or(|slice| slice > Duration::ZERO));
}
