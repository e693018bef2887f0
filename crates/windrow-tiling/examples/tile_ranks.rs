//! The number of ranks from which on tiling does not pay, by the planner and a model of the links, for a table of `book/src/plan.md`.
//!
//! `cargo run --release -p windrow-tiling --example tile_ranks` prints them; with `-- all`, it prints every plan as a line of CSV.

use windrow_tiling::Nanos;
use windrow_tiling::tile::Plan;

#[path = "../tests/it/ranks.rs"]
mod ranks;

use ranks::{ALL_REDUCES, MACHINES, RANKS, SCALINGS, plan};

/// A plan as a cell of the tables: communication relative to computation, the gain, and the number of tiles.
fn cell(plan: &Plan) -> String {
    let ratio = plan.inputs.communicate.0 / plan.inputs.compute.0;
    match plan.tiles.len() {
        1 => format!("{ratio:.2}: none"),
        tiles => format!("{ratio:.2}: {:.1} % ({tiles})", 100.0 * plan.benefit()),
    }
}

fn main() {
    let all = std::env::args().any(|argument| argument == "all");
    if all {
        println!(
            "machine,scaling,all-reduce,ranks,compute us,communicate us,serial us,predicted us,bound us,gap,tiles"
        );
    }
    for machine in &MACHINES {
        if !all {
            println!(
                "\n{}\n\n| ranks | weak, ring | weak, tree | strong, ring | strong, tree |\n|---|---|---|---|---|",
                machine.name
            );
        }
        for ranks in RANKS {
            let mut cells = Vec::new();
            for (scaling, k) in SCALINGS {
                for (name, all_reduce) in ALL_REDUCES {
                    let plan = plan(machine, all_reduce, k(f64::from(ranks)), ranks);
                    let us = |nanos: Nanos| format!("{:.1}", nanos.as_micros());
                    if all {
                        let (inputs, rows) =
                            (&plan.inputs, plan.tiles.iter().map(|tile| tile.to_string()).collect::<Vec<_>>());
                        println!(
                            "{},{scaling},{name},{ranks},{},{},{},{},{},{:.5},{}",
                            machine.name,
                            us(inputs.compute),
                            us(inputs.communicate),
                            us(plan.serial),
                            us(plan.predicted),
                            us(plan.bounds.contended),
                            plan.gap,
                            rows.join(" ")
                        );
                    }
                    cells.push(cell(&plan));
                }
            }
            if !all {
                println!("| {ranks} | {} |", cells.join(" | "));
            }
        }
    }
}
