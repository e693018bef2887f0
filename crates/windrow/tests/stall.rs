//! Calls that wait long for their members, with `WINDROW_EXPLAIN`. A separate program, since its child ends never.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use windrow::batch::{Batch, BatchOps, Batched, Runner};
use windrow::prelude::*;
use windrow::team::{Width, team};
use windrow::{Pool, overlap};

/// Two threads are inside a call, and one of them never ends.
#[derive(Default)]
struct Stuck {
    inside: AtomicUsize,
}

impl Stuck {
    fn part(&self, ends: bool) {
        self.inside.fetch_add(1, Relaxed);
        while self.inside.load(Relaxed) < 2 || !ends {
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Ends on the thread that calls, and on no other one.
    fn part_of(&self, caller: thread::ThreadId) {
        self.part(thread::current().id() == caller);
    }
}

struct StuckStructure(Stuck);

impl BatchOps for StuckStructure {
    type Op = ();
    type Reply = ();

    fn run(&mut self, _: &mut Batch<'_, (), ()>) {
        self.0.part(false);
    }
}

type Case = (&'static str, fn());

/// Each call waits for ever.
const CASES: [Case; 6] = [
    ("the loop at", || {
        let (stuck, me) = (Stuck::default(), thread::current().id());
        Pool::new(2).install(|| (0..2).into_par_iter().for_each(|_| stuck.part_of(me)));
    }),
    ("the join or scope at", || {
        let (stuck, me) = (Stuck::default(), thread::current().id());
        Pool::new(2).install(|| windrow::join(|| stuck.part_of(me), || stuck.part_of(me)));
    }),
    ("the join or scope at", || {
        let (stuck, me) = (Stuck::default(), thread::current().id());
        Pool::new(2).install(|| {
            windrow::scope(|scope| {
                scope.spawn(|_| stuck.part_of(me));
                stuck.part_of(me);
            });
        });
    }),
    ("the team at", || {
        let (stuck, me) = (Stuck::default(), thread::current().id());
        let member = |member: &mut windrow::team::Member<'_, '_, ()>| {
            stuck.part_of(me);
            member.barrier().is_ok()
        };
        Pool::new(2).install(|| team(&mut ()).width(Width::exactly(2)).run(member));
    }),
    ("the overlapped run at", || {
        let stuck = Stuck { inside: AtomicUsize::new(1) };
        let lanes = overlap::source(0..1).blocking("read", |_: u32| {
            stuck.part(false);
            Ok::<_, ()>(())
        });
        lanes.run().unwrap();
    }),
    ("the call of a batched structure (stall::StuckStructure)", || {
        let batched = Batched::builder().build_on(Runner::thread(|| StuckStructure(Stuck::default()))).unwrap();
        let _ = batched.call(());
    }),
];

#[test]
fn a_call_that_waits_long_is_reported() {
    if std::env::var_os("CHILD").is_some() {
        // The parent ends this process when it has read all.
        thread::spawn(|| {
            thread::sleep(Duration::from_secs(60));
            std::process::abort();
        });
        return thread::scope(|scope| CASES.iter().for_each(|(_, case)| drop(scope.spawn(case))));
    }
    let child = |explain: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_call_that_waits_long_is_reported", "--nocapture"]).env("CHILD", "1");
        command.env("WINDROW_EXPLAIN", explain).env("WINDROW_STALL_MS", "50").env_remove("WINDROW_TRACE");
        command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    };
    let mut stuck = child("1");
    let mut lines = BufReader::new(stuck.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut left: Vec<&str> = CASES.iter().map(|(name, _)| *name).collect();
    let mut said = Vec::new();
    while !left.is_empty()
        && let Some(line) = lines.next()
    {
        let reported = left.iter().position(|name| line.starts_with(&format!("windrow: {name}")));
        reported.into_iter().for_each(|at| _ = left.remove(at));
        said.push(line);
    }
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    said.extend(lines);
    assert!(left.is_empty(), "{left:?} are missing: {said:#?}");
    for line in said.iter().filter(|line| line.starts_with("windrow: ") && line.contains(" at ")) {
        assert!(line.contains("stall.rs:") && line.contains(" has waited "), "{line}");
        assert!(line.ends_with(" for another thread:"), "{line}");
    }
    assert!(said.iter().any(|line| line.contains("  thread windrow-read has been in it for ")), "{said:#?}");
    assert!(said.iter().any(|line| line.starts_with("hint: do items of this call wait for")), "{said:#?}");
}
