//! Checks whether F and m, fitted on a few sizes of batches, predict the other sizes.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use windrow::batch::{Batch, BatchOps, Batched, Chunk, Runner, Stats};
use windrow_bench::measure::in_turn;
use windrow_bench::random::Random;
use windrow_bench::stats::median;
use windrow_collections::{OrderedSet, SetOp};
use windrow_plan::Nanos;
use windrow_plan::batch::BatchFit;
use windrow_sqlite::GroupCommit;

use crate::arms::{Journal, Outcome, Store, section_of, together};

const SIZES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const FITTED: [usize; 3] = [1, 4, 16];
/// The bar for the prediction error of the other sizes.
const WITHIN: f64 = 0.2;
/// Enough callers that a batch of the largest size is queued whenever one is cut.
const CALLERS: usize = 160;
/// Keys of the ordered set, and inserts of a turn.
const PRESET: usize = 1_000_000;
const INSERTS: usize = 100_000;
/// Threads that insert.
const WORKERS: usize = 2;
/// The time of a batch of the sleeping structure.
const SLEEP: Duration = Duration::from_millis(1);

/// A structure whose batches take a time that does not depend on their size.
struct Sleeper;

impl BatchOps for Sleeper {
    type Op = i64;
    type Reply = ();

    fn run(&mut self, batch: &mut Batch<'_, i64, ()>) {
        std::thread::sleep(SLEEP);
        batch.iter_mut().for_each(|entry| entry.reply(()));
    }
}

impl Store for Batched<Sleeper> {
    fn caller(&self) -> Box<dyn FnMut(i64) + '_> {
        Box::new(|id| self.call(id).expect("run"))
    }

    fn stats(&self) -> Option<Stats> {
        self.stats().ok()
    }
}

/// Loops that hand in as many inserts as make a batch, one batch after the other. Callers that block for each insert would measure how long
/// threads take to wake each other.
fn inserts(preset: &OrderedSet<u64>, keys: &[u64], limit: usize) -> Outcome {
    let set = Batched::builder().limit(limit).build(preset.clone());
    let barrier = Barrier::new(WORKERS + 1);
    let work = |keys: &[u64]| {
        let (mut chunk, mut new) = (Chunk::new(), 0);
        barrier.wait();
        for keys in keys.chunks(limit) {
            chunk.extend(keys.iter().map(|&key| SetOp::Insert(key)));
            set.call_chunk(&mut chunk).expect("it is open");
            new += chunk.replies().filter(|reply| matches!(reply, Ok(true))).count();
        }
        new
    };
    let (seconds, new) = std::thread::scope(|scope| {
        let shares = keys.chunks(keys.len().div_ceil(WORKERS));
        let threads: Vec<_> = shares.map(|share| scope.spawn(|| work(share))).collect();
        barrier.wait();
        let start = Instant::now();
        let new: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        (start.elapsed().as_secs_f64(), new)
    });
    let stats = set.stats().ok();
    let set = set.into_inner().expect("no panic");
    assert_eq!(set.len(), preset.len() + new, "every insert that said so has added a key");
    Outcome { rows_per_second: keys.len() as f64 / seconds, waits: Vec::new(), stats }
}

/// Columns of the lines.
pub(crate) const COLUMNS: &str =
    "structure,limit,fitted,batch,measured_per_s,foretold_per_s,error,per_s_of_each_repetition";

/// Prints a table for each structure. Returns lines for a record, and the verdicts.
pub(crate) fn run(folder: &Path, repetitions: usize, time: Duration) -> (Vec<String>, Vec<String>) {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    let sqlite = |limit: usize| {
        let start = |connection| -> Box<dyn Store> {
            Box::new(GroupCommit::builder().limit(limit).build(connection).expect("a thread"))
        };
        section_of(start, folder, Journal::Wal, CALLERS, time)
    };
    let sleep = |limit: usize| {
        let store = Batched::builder().limit(limit).build_on(Runner::thread(|| Sleeper)).expect("a thread");
        let (seconds, waits) = together(&store, CALLERS, time);
        let ops: usize = waits.iter().map(Vec::len).sum();
        Outcome { rows_per_second: ops as f64 / seconds, waits: Vec::new(), stats: Store::stats(&store) }
    };
    let mut random = Random::new(20);
    let mut key = || random.bits() >> 34;
    let preset: OrderedSet<u64> = (0..PRESET).map(|_| key()).collect();
    let keys: Vec<u64> = (0..INSERTS).map(|_| key()).collect();
    let ordered = |limit| inserts(&preset, &keys, limit);
    let structures: [(&str, &dyn Fn(usize) -> Outcome); 3] =
        [("SQLite, WAL, FULL", &sqlite), ("sleep of 1 ms", &sleep), ("ordered set of 1M keys", &ordered)];
    for (name, section) in structures {
        let mut outcomes: [Vec<Outcome>; SIZES.len()] = Default::default();
        for repetition in 0..repetitions {
            for at in in_turn(SIZES.len(), repetition) {
                outcomes[at].push(section(SIZES[at]));
            }
        }
        table(name, &outcomes, &mut lines, &mut notes);
    }
    (lines, notes)
}

fn table(name: &str, outcomes: &[Vec<Outcome>; SIZES.len()], lines: &mut Vec<String>, notes: &mut Vec<String>) {
    let rates: Vec<f64> =
        outcomes.iter().map(|of| median(&of.iter().map(|it| it.rows_per_second).collect::<Vec<_>>())).collect();
    // The time from one batch to the next includes handing over, so h is within m.
    let mut fit = BatchFit::default();
    for (size, rate) in SIZES.iter().zip(&rates).filter(|(size, _)| FITTED.contains(size)) {
        fit.observe(*size, Nanos(*size as f64 / rate * 1e9));
    }
    let Some(law) = fit.law() else {
        notes.push(format!("{name}: no law can be fitted"));
        return;
    };
    println!("{name}, fitted on B = {FITTED:?}: F = {}, m + h = {}", law.fixed, law.each);
    let mut worst: f64 = 0.0;
    for ((size, rate), of) in SIZES.iter().zip(&rates).zip(outcomes) {
        let (foretold, fitted) = (law.per_second(*size), FITTED.contains(size));
        let error = foretold / rate - 1.0;
        if !fitted {
            worst = worst.max(error.abs());
        }
        let batch = median(&of.iter().map(Outcome::batch).collect::<Vec<_>>());
        println!(
            "  B = {size:>2}{} (mean {batch:>5.1}): measured {rate:>9.0}/s, foretold {foretold:>9.0}/s, {:+.1} %",
            if fitted { "*" } else { " " },
            error * 100.0
        );
        let each: Vec<String> = of.iter().map(|it| format!("{:.0}", it.rows_per_second)).collect();
        lines.push(format!(
            "\"{name}\",{size},{},{batch:.2},{rate:.0},{foretold:.0},{error:.4},{}",
            u8::from(fitted),
            each.join(" ")
        ));
    }
    let met = if worst <= WITHIN { "met" } else { "missed" };
    notes.push(format!(
        "{name}: fitted on B = {FITTED:?}, the others up to 64 are foretold within {:.0} %, bar {:.0} % {met}",
        worst * 100.0,
        WITHIN * 100.0
    ));
}
