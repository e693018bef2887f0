//! What planning takes: the steps and the time of plans for cost models drawn at random.
//!
//! `cargo run --release -p windrow-plan --example tile_work` prints them, and fails if 32 units take 10 ms or 128 units 100 ms.

use std::process::ExitCode;
use std::time::Instant;

#[path = "../tests/models/mod.rs"]
mod models;

use models::{Model, REGIMES, Random};

const MODELS: usize = 40;

fn main() -> ExitCode {
    let mut late = false;
    println!(
        "| units | tiles | steps, most | front, longest | gap, largest | ms, median | ms, most |\n|---|---|---|---|---|---|---|"
    );
    for (units, limit) in [(32, 10.0), (64, 100.0), (128, 100.0)] {
        for regime in &REGIMES {
            let mut random = Random(units);
            let (mut times, mut steps, mut widest, mut gap) = (Vec::new(), 0, 0, 0.0_f64);
            for _ in 0..MODELS {
                let model = Model::draw(&mut random, regime, Some(units));
                let begun = Instant::now();
                let plan = model.with(|problem| problem.plan()).expect("a model is a problem");
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                steps = steps.max(plan.work.steps);
                widest = widest.max(plan.work.widest);
                gap = gap.max(plan.gap);
            }
            times.sort_by(f64::total_cmp);
            let most = times[MODELS - 1];
            late |= times[MODELS / 2] > limit;
            let (name, gap, median) = (regime.name, 100.0 * gap, times[MODELS / 2]);
            println!("| {units} | {name} | {steps} | {widest} | {gap:.3} % | {median:.2} | {most:.2} |");
        }
    }
    if late { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
