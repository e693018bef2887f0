//! The time that planning takes and the time that plans save, for random cost models, as two tables.
//!
//! `cargo run --release -p windrow-tiling --example tile_work` prints them. It fails if a plan of 32 units takes 10 ms or one of 128
//! units 100 ms.

#![expect(clippy::disallowed_types, reason = "an example measures what a decision may not: its own time")]

use std::process::ExitCode;
use std::time::Instant;

#[path = "../tests/it/models.rs"]
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
                let timed = || {
                    let begun = Instant::now();
                    let plan = model.with(|problem| problem.plan()).expect("a model is a problem");
                    (begun.elapsed().as_secs_f64() * 1e3, plan)
                };
                // The fastest of three, because other processes may use the machine.
                let runs = [timed(), timed(), timed()];
                times.push(runs.iter().map(|run| run.0).fold(f64::INFINITY, f64::min));
                let plan = &runs[0].1;
                steps = steps.max(plan.work.steps);
                widest = widest.max(plan.work.widest);
                gap = gap.max(plan.gap);
            }
            times.sort_by(f64::total_cmp);
            let most = times[MODELS - 1];
            late |= most > limit;
            let (name, gap, median) = (regime.name, 100.0 * gap, times[MODELS / 2]);
            println!("| {units} | {name} | {steps} | {widest} | {gap:.3} % | {median:.2} | {most:.2} |");
        }
    }
    gains();
    if late { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Times of other cuts, relative to the planned ones.
fn gains() {
    let names = ["serial", "short-long rule", "uniform", "two sizes"];
    println!("\n| 150 models | not tiled | {} |\n|---|---|---|---|---|---|", names.join(" | "));
    let mut random = Random(7);
    for regime in &REGIMES {
        let mut over = names.map(|_| Vec::new());
        let mut whole = 0;
        for _ in 0..150 {
            let plan =
                Model::draw(&mut random, regime, None).with(|problem| problem.plan()).expect("a model is a problem");
            whole += u32::from(plan.tiles.len() == 1);
            for (name, over) in names.iter().zip(&mut over) {
                let cut = plan.alternatives.iter().find(|cut| cut.name == *name).expect("all alternatives are there");
                over.push(cut.predicted.0 / plan.predicted.0);
            }
        }
        let cells = over.map(|mut over| {
            over.sort_by(f64::total_cmp);
            format!("{:.2} ({:.2}, {:.2})", over[75], over[134], over[149])
        });
        println!("| {} | {whole} | {} |", regime.name, cells.join(" | "));
    }
}
