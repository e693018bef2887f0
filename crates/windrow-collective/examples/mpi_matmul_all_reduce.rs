//! A product that is summed over the ranks of MPI: not tiled, in uniform tiles, and cut by the planner.
//!
//! ```sh
//! cargo build --release -p windrow-collective --features mpi --example mpi_matmul_all_reduce
//! mpirun -n 2 target/release/examples/mpi_matmul_all_reduce 2048 512 512
//! ```
//!
//! The arguments are m, n, and k of a rank. The runs of the cuts are interleaved. The example prints the median of nine whole calls on the
//! slowest rank.
//! `scripts/netns-mpi.sh` runs it over a link of a given speed.

use std::error::Error;
use std::process::ExitCode;

use windrow_collective::{Calibration, Communicator, Fused, MatMut, MatRef, Operation, Tiles, World};

const CUTS: [(&str, Tiles); 6] = [
    ("auto", Tiles::Auto),
    ("none", Tiles::None),
    ("uniform 2", Tiles::Uniform(2)),
    ("uniform 4", Tiles::Uniform(4)),
    ("uniform 8", Tiles::Uniform(8)),
    ("uniform 16", Tiles::Uniform(16)),
];

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
    let mut numbers = [2048_usize, 512, 512];
    for (number, text) in numbers.iter_mut().zip(std::env::args().skip(1)) {
        *number = text.parse()?;
    }
    let [m, n, k] = numbers;
    let mut fused = Fused::new(World::init()?)?;
    let (speaks, ranks) = (fused.rank() == 0, fused.size());
    let align = (m / 64).next_multiple_of(8);
    let rows = [16, 8, 4, 3, 2].map(|parts| (m / parts).next_multiple_of(align)).to_vec();
    let mut how = Calibration { rows, align: align as u64, ..Calibration::default() };
    let mut profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, n, k, &how)?;
    // A busy machine gives times that scatter. All ranks have the same times and repeat together.
    while how.repeats < 12 && profile.fit_error() > how.fitting.tolerance {
        how.repeats *= 2;
        profile = fused.calibrate::<f32>(Operation::MatmulAllReduce, n, k, &how)?;
    }
    if speaks {
        println!("predictions may be off by {:.1} %", 100.0 * profile.fit_error());
        print!("{}", profile.plan(m as u64)?);
    }
    fused.use_profile(profile);

    let (a, b) = (vec![0.5_f32; m * k], vec![2.0_f32; k * n]);
    let mut c = vec![0.0_f32; m * n];
    let (a, b) = (MatRef::new(&a, m, k), MatRef::new(&b, k, n));
    let mut times = vec![Vec::new(); CUTS.len()];
    for _ in 0..9 {
        for ((_, tiles), times) in CUTS.iter().zip(&mut times) {
            c.fill(f32::NAN);
            fused.communicator().barrier()?;
            let outcome = fused.matmul_all_reduce(a, b, MatMut::new(&mut c, m, n), tiles)?;
            assert!(c.iter().all(|&sum| sum == (ranks * k) as f32), "{tiles:?} gives a wrong result");
            let mut all = vec![0.0; ranks];
            fused.communicator().all_gather(&[outcome.elapsed.as_micros() / 1e3], &mut all)?;
            times.push((all.into_iter().fold(0.0, f64::max), outcome.predicted));
        }
    }
    for ((name, _), times) in CUTS.iter().zip(&mut times).filter(|_| speaks) {
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (took, predicted) = &times[times.len() / 2];
        let predicted = predicted.map_or(String::new(), |predicted| format!(", {predicted} predicted"));
        println!("windrow {name}: {took:.2} ms{predicted}");
    }
    Ok(())
}
