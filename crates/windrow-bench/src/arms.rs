//! The arms: ways to run the items of a cell, all called in the same way and checked against the same output.

use std::fmt;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::cpu::CpuClock;
use crate::work::{Item, serial};

pub mod commonware;
pub mod epcc;
pub mod joins;
mod process;
pub mod rounds;
mod rust_peers;
pub mod windrow_sites;

pub use process::Programs;
pub use rust_peers::min_len_of_2077;

/// A cell, ready to run.
#[derive(Debug)]
pub struct Loaded {
    /// Its place among all cells.
    pub index: usize,
    /// Its items.
    pub items: Vec<Item>,
    /// The expected output of every arm that gives one.
    pub expected: Vec<u64>,
}

impl Loaded {
    /// The checksum of the expected output, as the peers in C compute it.
    pub fn checksum(&self) -> u64 {
        self.expected.iter().fold(0, |sum, value| sum.wrapping_mul(31).wrapping_add(*value))
    }

    /// The cell at `index`, its items computed serially.
    pub fn new(index: usize, items: Vec<Item>) -> Self {
        let mut expected = vec![0; items.len()];
        serial(&items, &mut expected);
        Self { index, items, expected }
    }
}

/// What to run and what to time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask {
    /// Calls before the ones that count.
    pub warm_up: usize,
    /// Calls that count.
    pub calls: usize,
    /// Whether to time each call, or all of them together.
    pub each: bool,
    /// A wait before each call that is timed alone: spinning on the clock if it is short, otherwise asleep.
    pub gap: Duration,
    /// A rest after the calls. The CPU time that the runtime burns in it is measured too.
    pub rest: Duration,
}

/// What was timed.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Nanoseconds of each call, or one entry for all calls together.
    pub nanos: Vec<f64>,
    /// CPU nanoseconds of all calls, with the gaps.
    pub cpu: f64,
    /// CPU nanoseconds of the rest.
    pub cpu_at_rest: f64,
}

/// One way to run a cell.
pub trait Arm {
    /// Name in tables and records.
    fn name(&self) -> &str;

    /// Takes the cell that the next calls run.
    fn load(&mut self, cell: &Rc<Loaded>);

    /// Runs and times calls.
    ///
    /// # Panics
    /// If the output is not what the cell expects.
    fn run(&mut self, ask: Ask) -> Reply;
}

impl fmt::Debug for dyn Arm + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Arm").field(&self.name()).finish()
    }
}

/// Times `call` as asked, and measures its CPU seconds.
fn timed(ask: Ask, mut call: impl FnMut()) -> Reply {
    timed_on(ask, &mut (), |()| (), |()| call())
}

/// Times `call` as asked. `prepare` runs before each call; it is not timed if each call is.
fn timed_on<S>(ask: Ask, state: &mut S, prepare: impl Fn(&mut S), mut call: impl FnMut(&mut S)) -> Reply {
    // Made before the warm-up: making it takes longer than idle workers stay awake.
    let clock = CpuClock::new();
    for _ in 0..ask.warm_up {
        prepare(state);
        call(state);
    }
    let mut nanos = Vec::with_capacity(if ask.each { ask.calls } else { 1 });
    let before = clock.now();
    if ask.each {
        for _ in 0..ask.calls {
            prepare(state);
            wait_for(ask.gap);
            let start = Instant::now();
            call(state);
            nanos.push(start.elapsed().as_nanos() as f64);
        }
    } else {
        let start = Instant::now();
        for _ in 0..ask.calls {
            prepare(state);
            call(state);
        }
        nanos.push(start.elapsed().as_nanos() as f64);
    }
    let ended = clock.now();
    wait_for(ask.rest);
    let spent = |from: Duration, to: Duration| to.saturating_sub(from).as_nanos() as f64;
    Reply { nanos, cpu: spent(before, ended), cpu_at_rest: spent(ended, clock.now()) }
}

fn wait_for(time: Duration) {
    // The system's shortest sleep is about this long.
    if time < Duration::from_micros(100) {
        let start = Instant::now();
        while start.elapsed() < time {}
    } else {
        std::thread::sleep(time);
    }
}

/// Runs the items of the cell of this index into the output.
type Call = Box<dyn FnMut(usize, &[Item], &mut Vec<u64>) + Send>;
/// Runs its argument inside a pool.
type Enter = Box<dyn Fn(&mut (dyn FnMut() + Send))>;

/// An arm in this process.
struct Here {
    name: String,
    call: Call,
    enter: Enter,
    cell: Option<Rc<Loaded>>,
    out: Vec<u64>,
}

impl Here {
    /// An arm that times `call` inside of `enter`.
    fn arm(
        name: impl Into<String>,
        enter: impl Fn(&mut (dyn FnMut() + Send)) + 'static,
        call: impl FnMut(usize, &[Item], &mut Vec<u64>) + Send + 'static,
    ) -> Box<dyn Arm> {
        Box::new(Here { name: name.into(), call: Box::new(call), enter: Box::new(enter), cell: None, out: Vec::new() })
    }
}

impl Arm for Here {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&mut self, cell: &Rc<Loaded>) {
        self.cell = Some(cell.clone());
    }

    fn run(&mut self, ask: Ask) -> Reply {
        let cell = self.cell.as_deref().expect("a cell was loaded");
        // The output of an earlier run must not count for this one.
        self.out.clear();
        self.out.resize(cell.items.len(), 0);
        let (out, call, mut reply) = (&mut self.out, &mut self.call, Reply::default());
        (self.enter)(&mut || {
            reply = timed(ask, || call(cell.index, black_box(&cell.items), black_box(&mut *out)));
        });
        assert!(self.out == cell.expected, "{} gives a different answer from serial", self.name);
        reply
    }
}

/// Runs on the calling thread, outside of any pool.
fn outside(body: &mut (dyn FnMut() + Send)) {
    body();
}

/// The setting of all arms.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Threads of every pool.
    pub threads: usize,
}

/// The baseline.
pub const SERIAL: &str = "serial";
/// The baseline again.
pub const CONTROL: &str = "control";
/// The arm that runs windrow.
pub const WINDROW: [&str; 1] = ["windrow"];

/// The arms of the other runtimes.
pub fn peers() -> impl Iterator<Item = &'static str> {
    rust_peers::NAMES.into_iter().chain(commonware::NAMES).chain(process::NAMES)
}

/// windrow again, and windrow with one mechanism switched off: `without` selects them. Only with the feature `ablation`.
#[cfg(feature = "ablation")]
pub const WITHOUT: [(&str, Option<windrow::Mechanism>); 8] = {
    use windrow::Mechanism;
    [
        ("windrow-again", None),
        ("windrow-without-sites", Some(Mechanism::Sites)),
        ("windrow-without-placement", Some(Mechanism::Placement)),
        ("windrow-without-debt", Some(Mechanism::Debt)),
        ("windrow-without-long-items", Some(Mechanism::LongItems)),
        ("windrow-without-short-calls", Some(Mechanism::ShortCalls)),
        ("windrow-without-spin-gaps", Some(Mechanism::SpinGaps)),
        ("windrow-without-stand-by", Some(Mechanism::StandBy)),
    ]
};
/// No mechanism can be switched off in this build.
#[cfg(not(feature = "ablation"))]
/// The arms with one mechanism off: none without the feature.
pub const WITHOUT: [(&str, Option<()>); 0] = [];

/// Whether there is an arm of this name, on some machine.
pub fn is_known(name: &str) -> bool {
    let without = WITHOUT.iter().map(|(name, _)| *name);
    [SERIAL, CONTROL].into_iter().chain(WINDROW).chain(peers()).chain(without).any(|known| known == name)
}

/// The arm of this name.
///
/// # Errors
/// When it cannot be built on this machine: the peers in C and C++ need a compiler and their libraries.
///
/// # Panics
/// If there is [no such](is_known).
pub fn arm(name: &str, setting: Setting, programs: &mut Programs) -> Result<Box<dyn Arm>, String> {
    assert!(is_known(name), "no arm is called {name}");
    let here = windrow_arm(name, setting).or_else(|| without(name, setting));
    let here = here.or_else(|| rust_peers::arm(name, setting)).or_else(|| commonware::arm(name, setting));
    here.map_or_else(|| programs.arm(name, setting.threads), Ok)
}

fn windrow_arm(name: &str, setting: Setting) -> Option<Box<dyn Arm>> {
    Some(match name {
        SERIAL | CONTROL => Here::arm(name, outside, |_, items, out| serial(items, out)),
        "windrow" => {
            Here::arm(name, windrow_pool(setting), |cell, items, out| windrow_sites::FOR_EACH[cell](items, out))
        }
        _ => return None,
    })
}

/// An arm of [`WITHOUT`].
#[cfg(feature = "ablation")]
fn without(name: &str, setting: Setting) -> Option<Box<dyn Arm>> {
    let (_, off) = WITHOUT.iter().find(|(known, _)| *known == name)?;
    let builder = windrow::Pool::builder().threads(setting.threads);
    let builder = off.iter().fold(builder, |builder, &off| builder.without(off));
    let pool = builder.build().ok()?;
    let enter = move |body: &mut (dyn FnMut() + Send)| pool.install(body);
    Some(Here::arm(name, enter, |cell, items, out| windrow_sites::FOR_EACH[cell](items, out)))
}

#[cfg(not(feature = "ablation"))]
fn without(_: &str, _: Setting) -> Option<Box<dyn Arm>> {
    None
}

/// The global pool, as programs use it, if it has the requested number of threads; otherwise a separate pool.
fn windrow_pool(setting: Setting) -> impl Fn(&mut (dyn FnMut() + Send)) {
    let pool = (windrow::current_num_threads() != setting.threads).then(|| windrow::Pool::new(setting.threads));
    move |body| match &pool {
        Some(pool) => pool.install(body),
        None => body(),
    }
}

/// Pools that spin, and teams that keep a pool's workers, are tested one at a time.
#[cfg(test)]
fn alone() -> impl Drop {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Rc<Loaded> {
        Rc::new(Loaded::new(3, (0..50).map(|seed| Item { seed, turns: seed }).collect()))
    }

    #[test]
    fn every_arm_gives_what_serial_gives() {
        let _alone = alone();
        let mut programs = Programs::default();
        for name in [SERIAL, CONTROL].into_iter().chain(WINDROW).chain(peers()) {
            match arm(name, Setting { threads: 2 }, &mut programs) {
                Ok(mut arm) => {
                    arm.load(&cell());
                    let reply = arm.run(Ask { warm_up: 1, calls: 3, each: true, ..Ask::default() });
                    assert_eq!((arm.name(), reply.nanos.len()), (name, 3));
                }
                // A machine may lack a compiler or a library.
                Err(error) => assert!(process::NAMES.contains(&name), "{error}"),
            }
        }
    }

    #[test]
    fn a_batch_is_timed_as_one() {
        let mut arm = arm(SERIAL, Setting { threads: 1 }, &mut Programs::default()).unwrap();
        arm.load(&cell());
        assert_eq!(arm.run(Ask { calls: 5, ..Ask::default() }).nanos.len(), 1);
    }

    #[test]
    #[should_panic(expected = "lazy gives a different answer from serial")]
    fn an_arm_that_does_not_work_fails() {
        let mut arm = Here::arm("lazy", outside, |_, _, _| {});
        arm.load(&cell());
        arm.run(Ask { calls: 1, ..Ask::default() });
    }
}
