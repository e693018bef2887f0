//! A product that is summed over two ranks, with a link between them: not tiled, in uniform tiles, and cut by the planner.
//!
//! ```sh
//! cargo run --release -p windrow-collective --example matmul_all_reduce            # 2048 x 512 times 512 x 512, 100 MB/s
//! cargo run --release -p windrow-collective --example matmul_all_reduce -- 4096 1024 512 250
//! ```
//!
//! The arguments are m, n, k of a rank, and megabytes a second. The runs of the cuts are interleaved; the example prints the median of seven.

use std::error::Error;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use windrow_collective::{Calibration, Fused, Group, Link, MatMut, MatRef, Operation, Rank, Tiles};

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), Box<dyn Error>> {
    let mut numbers = [2048, 512, 512, 100];
    for (number, text) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = text.parse()?;
    }
    let [m, n, k, megabytes] = numbers;
    let ranks = Group::new(2).link(Link::new(megabytes as f64 * 1e6, Duration::from_micros(50))).ranks();
    thread::scope(|scope| {
        let running: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank, [m, n, k]))).collect();
        running.into_iter().try_for_each(|rank| rank.join().expect("a rank panicked"))
    })?;
    Ok(())
}

fn run(rank: Rank, [m, n, k]: [usize; 3]) -> Result<(), windrow_collective::Error> {
    let mut fused = Fused::new(rank)?;
    let speaks = fused.rank() == 0;
    let how = Calibration { rows: vec![64, 128, 256, 512, 1024], align: 32, repeats: 7, ..Calibration::default() };
    let profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, n, k, &how)?;
    if speaks {
        let contention = profile.contention();
        println!("together, computation and communication take {contention} as long");
        println!("predictions may be off by {:.1} %", 100.0 * profile.fit_error());
        print!("{}", profile.plan(m as u64)?);
    }
    fused.use_profile(profile);

    let (a, b) = (vec![0.5_f32; m * k], vec![2.0_f32; k * n]);
    let mut c = vec![0.0_f32; m * n];
    let (a, b) = (MatRef::new(&a, m, k), MatRef::new(&b, k, n));
    let cuts = [("none", Tiles::None), ("auto", Tiles::Auto)]
        .into_iter()
        .chain([2, 4, 8, 16].map(|tiles| ("uniform", Tiles::Uniform(tiles))));
    let cuts: Vec<_> = cuts.collect();
    let mut times = vec![Vec::new(); cuts.len()];
    for _ in 0..7 {
        for ((_, tiles), times) in cuts.iter().zip(&mut times) {
            let outcome = fused.matmul_all_reduce(a, b, MatMut::new(&mut c, m, n), tiles)?;
            times.push((outcome.trace.end, outcome.predicted, outcome.tiles));
        }
    }
    assert!(c.iter().all(|&sum| sum == 2.0 * k as f32));
    for ((name, _), times) in cuts.iter().zip(&mut times).filter(|_| speaks) {
        times.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
        let (took, predicted, tiles) = &times[times.len() / 2];
        print!("{name:>8}: {took} {tiles}");
        println!("{}", predicted.map_or(String::new(), |predicted| format!(", {predicted} predicted")));
    }
    Ok(())
}
