//! Other runtimes for Rust, each used as its documentation shows, and at its best setting if there is a choice.
//!
//! Every runtime has `threads` threads, including the caller if it takes part. The global pool of rayon serves the arms that call it from
//! outside, those inside it, and spindle, which uses rayon's workers.

use std::cell::RefCell;
use std::sync::OnceLock;

use super::{Arm, Here, Setting, outside};
use crate::work::{Item, serial, work};

/// The arms.
pub(super) const NAMES: [&str; 10] = [
    "rayon",
    "rayon-inside",
    "rayon-chunks",
    "rayon-chunks-inside",
    "rayon-min-len",
    "rayon-min-len-inside",
    "chili",
    "paralight",
    "orx",
    "spindle",
];

type Body<'a> = &'a mut (dyn FnMut() + Send);

pub(super) fn arm(name: &str, Setting { threads, .. }: Setting) -> Option<Box<dyn Arm>> {
    Some(match name {
        "rayon" => Here::arm(name, outside_rayon(threads), |_, items, out| for_each(items, out)),
        "rayon-inside" => Here::arm(name, inside_rayon(threads), |_, items, out| for_each(items, out)),
        "rayon-chunks" => Here::arm(name, outside_rayon(threads), move |_, items, out| by_chunks(items, out, threads)),
        "rayon-chunks-inside" => {
            Here::arm(name, inside_rayon(threads), move |_, items, out| by_chunks(items, out, threads))
        }
        "rayon-min-len" => Here::arm(name, outside_rayon(threads), move |_, items, out| min_len(items, out, threads)),
        "rayon-min-len-inside" => {
            Here::arm(name, inside_rayon(threads), move |_, items, out| min_len(items, out, threads))
        }
        "chili" => Here::arm(name, in_chili(threads), |_, items, out| with_chili(items, out)),
        "paralight" => with_paralight(name, threads),
        "orx" => Here::arm(name, outside, move |_, items, out| with_orx(items, out, threads)),
        "spindle" => Here::arm(name, in_spindle(threads), move |_, items, out| with_spindle(items, out, threads)),
        _ => return None,
    })
}

pub(super) fn start_rayon(threads: usize) {
    static STARTED: OnceLock<()> = OnceLock::new();
    STARTED.get_or_init(|| {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build_global()
            .expect("rayon's pool has not been started yet");
    });
    assert_eq!(rayon::current_num_threads(), threads, "a process measures only one number of threads");
}

pub(super) fn outside_rayon(threads: usize) -> impl Fn(Body<'_>) {
    start_rayon(threads);
    outside
}

/// Times the body on a worker of the pool.
pub(super) fn inside_rayon(threads: usize) -> impl Fn(Body<'_>) {
    start_rayon(threads);
    |body| rayon::scope(|_| body())
}

fn for_each(items: &[Item], out: &mut [u64]) {
    use rayon::prelude::*;
    items.par_iter().zip(out.par_iter_mut()).for_each(|(item, out)| *out = work(*item));
}

fn by_chunks(items: &[Item], out: &mut [u64], chunks: usize) {
    use rayon::prelude::*;
    let size = items.len().div_ceil(chunks);
    items.par_chunks(size).zip(out.par_chunks_mut(size)).for_each(|(items, out)| serial(items, out));
}

/// The `min_len` of tokenizers' pull request 2077: four tasks a thread, of one to eight items each.
pub fn min_len_of_2077(items: usize, threads: usize) -> usize {
    items.div_ceil(threads * 4).clamp(1, 8)
}

fn min_len(items: &[Item], out: &mut [u64], threads: usize) {
    use rayon::prelude::*;
    let least = min_len_of_2077(items.len(), threads);
    items.par_iter().zip(out.par_iter_mut()).with_min_len(least).for_each(|(item, out)| *out = work(*item));
}

thread_local! {
    /// One scope lives through a run, as it would through a recursion. Between runs there is none, because its heartbeat costs CPU.
    static CHILI: RefCell<Option<chili::Scope<'static>>> = const { RefCell::new(None) };
}

/// Chili's pool; every caller asks for the same number of threads.
fn chili_pool(threads: usize) -> &'static chili::ThreadPool {
    static POOL: OnceLock<chili::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| {
        chili::ThreadPool::with_config(chili::Config { thread_count: threads.try_into().ok(), ..Default::default() })
    })
}

pub(super) fn in_chili(threads: usize) -> impl Fn(Body<'_>) {
    let pool = chili_pool(threads);
    move |body| {
        CHILI.set(Some(pool.scope()));
        body();
        CHILI.set(None);
    }
}

fn with_chili(items: &[Item], out: &mut [u64]) {
    fn halve(scope: &mut chili::Scope<'_>, items: &[Item], out: &mut [u64]) {
        if items.len() <= 1 {
            return serial(items, out);
        }
        let half = items.len() / 2;
        let ((items, more_items), (out, more_out)) = (items.split_at(half), out.split_at_mut(half));
        scope.join(|scope| halve(scope, items, out), |scope| halve(scope, more_items, more_out));
    }
    with_scope(|scope| halve(scope, items, out));
}

/// Calls `f` with the scope of the run.
pub(super) fn with_scope<R>(f: impl FnOnce(&mut chili::Scope<'_>) -> R) -> R {
    CHILI.with_borrow_mut(|scope| f(scope.as_mut().expect("a run has a scope")))
}

fn with_paralight(name: &str, threads: usize) -> Box<dyn Arm> {
    use paralight::prelude::*;
    let num_threads = ThreadCount::try_from(threads).expect("at least one thread");
    let range_strategy = RangeStrategy::WorkStealing;
    let mut pool = ThreadPoolBuilder { num_threads, range_strategy, cpu_pinning: CpuPinningPolicy::No }.build();
    Here::arm(name, outside, move |_, items, out| {
        let pairs = (out.par_iter_mut(), items.par_iter()).zip_eq();
        pairs.with_thread_pool(&mut pool).for_each(|(out, item)| *out = work(*item));
    })
}

/// orx's iterators cannot be zipped, but numbered.
fn with_orx(items: &[Item], out: &mut Vec<u64>, threads: usize) {
    use orx_parallel::*;
    static POOL: OnceLock<BasicPool> = OnceLock::new();
    let runner = Runner::adaptive_with_pool(POOL.get_or_init(|| Pool::basic(threads)));
    out.par_mut().runner(runner).enumerate().for_each(|(at, out)| *out = work(items[at]));
}

/// Times the body with a team of spindle.
pub(super) fn in_spindle(threads: usize) -> impl Fn(Body<'_>) {
    start_rayon(threads);
    move |body| spindle::with_lock(threads, body)
}

fn with_spindle(items: &[Item], out: &mut [u64], jobs: usize) {
    use rayon::prelude::*;
    let pairs = items.par_iter().zip(out.par_iter_mut());
    spindle::for_each(jobs, pairs, |(item, out)| *out = work(*item));
}

#[cfg(test)]
mod tests {
    use super::min_len_of_2077;

    #[test]
    fn min_len_is_that_of_the_pull_request() {
        let least = |items| min_len_of_2077(items, 2);
        assert_eq!([1, 8, 9, 10, 56, 57, 1000].map(least), [1, 1, 2, 2, 7, 8, 8]);
        assert_eq!(min_len_of_2077(0, 88), 1);
    }
}
