//! A program's own kernels, calibrated, planned and run: a product by the gemm of `ndarray`, and a copy at the rate of a link.

use std::convert::Infallible;
use std::error::Error;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeError};
use windrow_collective::{Calibration, Kernels, Operation, Shape};
use windrow_tiling::tile::Order;

const M: usize = 2048;
const N: usize = 256;
const K: usize = 256;

// The tests run it too.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (a, b, mut c, mut received) = (vec![1.0; M * K], vec![0.5; K * N], vec![0.0; M * N], vec![0.0; M * N]);
    let compute = |rows: Range<usize>, c: &mut [f32]| {
        let a = ArrayView2::from_shape((rows.len(), K), &a[rows.start * K..rows.end * K])?;
        let (b, mut c) = (ArrayView2::from_shape((K, N), &b)?, ArrayViewMut2::from_shape((rows.len(), N), c)?);
        general_mat_mul(1.0, &a, &b, 0.0, &mut c);
        Ok::<(), ShapeError>(())
    };
    let mut communicate = |rows: Range<usize>, c: &mut [f32]| {
        let due = Instant::now() + Duration::from_micros(50) + Duration::from_nanos(4 * c.len() as u64);
        received[rows.start * N..rows.end * N].copy_from_slice(c);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        Ok::<(), Infallible>(())
    };

    let mut kernels = Kernels::new()?;
    let shape = Shape { operation: Operation::MatmulAllReduce, element: "f32".into(), ranks: 2, n: N, k: K };
    let how = Calibration { rows: vec![64, 128, 256, 512, 1024], align: 64, ..Calibration::default() };
    let buffer = |rows: Range<usize>| vec![0.0; rows.len() * N];
    let profile = kernels.calibrate(shape, &how, buffer, |rows, c| compute(rows, c), |rows, c| communicate(rows, c))?;
    let plan = profile.plan(M as u64)?;
    print!("{plan}");

    let mut left = &mut c[..];
    let part = |rows: Range<usize>| left.split_off_mut(..rows.len() * N).expect("tiles have the rows of the plan");
    let trace = kernels.run(
        Order::ComputeFirst,
        &plan.tiles,
        part,
        |rows, c| compute(rows, c),
        |rows, c| communicate(rows, c),
    )?;
    println!("it took {}", trace.end);
    assert_eq!(received, vec![K as f32 / 2.0; M * N]);
    Ok(())
}
