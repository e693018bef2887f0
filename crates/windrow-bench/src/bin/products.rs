//! Compares products of matrices with those of faer, matrixmultiply and numpy: `cargo run --release -p windrow-bench --bin products -- --help`
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use faer::linalg::matmul::matmul;
use faer::traits::ComplexField;
use faer::{Accum, Par};
use half::{bf16, f16};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, LinalgScalar};
use windrow_bench::measure::in_turn;
use windrow_bench::record::{self, Recording};
use windrow_bench::stats::median;
use windrow_collective::{Float, Fused, Group, MatMut, MatRef, Operands, Operation, Rank, Tiles};
use windrow_product::{Matrix, MatrixMut, Number, PackedB, Product, Workspace};

/// Measures products of 1024 rows, n = k. `whole` packs `b` in the product, `packed` before; `64 rows` are as many products as that takes, with `b`
/// packed before. One thread computes, but where two are named.
///
/// With `--shapes`, products of other shapes: `whole` takes `b` as it lies and packs what pays, `packed` takes one packed before.
#[derive(Parser)]
struct Options {
    /// Measure thin shapes and transposed operands.
    #[arg(long)]
    shapes: bool,
    /// Number of repetitions.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// A Python with numpy to compare with (PyPI's wheels contain OpenBLAS).
    #[arg(long, value_name = "PYTHON")]
    numpy: Option<String>,
    #[command(flatten)]
    record: Recording,
}

const ROWS: usize = 1024;
const STRIP: usize = 64;
const SIZES: [usize; 4] = [256, 512, 1024, 2048];

/// Sizes m, n and k, and which operands are transposed.
#[derive(Clone, Copy, Debug)]
struct Shape {
    sizes: [usize; 3],
    transposed: [bool; 2],
}

impl Shape {
    const fn new(sizes: [usize; 3], transposed: [bool; 2]) -> Self {
        Self { sizes, transposed }
    }

    /// `1x2048x2048`, and which operand is transposed: `1x2048x2048-b`.
    fn name(&self) -> String {
        let ([m, n, k], orders) = (self.sizes, ["a", "b"]);
        let transposed: String =
            orders.iter().zip(self.transposed).filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        let dash = if transposed.is_empty() { "" } else { "-" };
        format!("{m}x{n}x{k}{dash}{transposed}")
    }

    /// Products in a measurement: at least 20 million operations.
    fn count(&self) -> usize {
        (20_000_000 / (2 * self.sizes.iter().product::<usize>())).clamp(1, 500)
    }
}

const PLAIN: [bool; 2] = [false; 2];

/// Squares, and products with one or two thin sides.
const SHAPES: [Shape; 23] = [
    Shape::new([64, 64, 64], PLAIN),
    Shape::new([256, 256, 256], PLAIN),
    Shape::new([1000, 1000, 1000], PLAIN),
    Shape::new([1, 2048, 2048], PLAIN),
    Shape::new([1, 2048, 2048], [false, true]),
    Shape::new([2, 2048, 2048], PLAIN),
    Shape::new([2, 2048, 2048], [false, true]),
    Shape::new([8, 2048, 2048], PLAIN),
    Shape::new([8, 2048, 2048], [false, true]),
    Shape::new([16, 2048, 2048], PLAIN),
    Shape::new([16, 2048, 2048], [false, true]),
    Shape::new([8192, 8, 8], PLAIN),
    Shape::new([8192, 8, 8], [true, false]),
    Shape::new([8192, 8, 8], [true, true]),
    Shape::new([2048, 1, 2048], PLAIN),
    Shape::new([2048, 1, 2048], [true, false]),
    Shape::new([4096, 16, 256], PLAIN),
    Shape::new([16, 4096, 256], PLAIN),
    Shape::new([512, 512, 8], PLAIN),
    Shape::new([32, 32, 8192], PLAIN),
    Shape::new([32, 32, 8192], [true, true]),
    Shape::new([512, 512, 512], [true, true]),
    Shape::new([2048, 2048, 2048], PLAIN),
];

/// Runs products for every line it reads, and says how many nanoseconds they took.
const NUMPY: &str = "
import sys, time
import numpy as np
m, n, k, a_transposed, b_transposed, strip = map(int, sys.argv[1:7])
kind = sys.argv[7]
random = np.random.default_rng(1)
def matrix(rows, cols, transposed):
    stored = random.standard_normal((cols, rows) if transposed else (rows, cols)).astype(kind)
    return stored.T if transposed else stored
a, b = matrix(m, k, a_transposed), matrix(k, n, b_transposed)
c = np.empty((m, n), kind)
print(np.__version__, flush=True)
for line in sys.stdin:
    what, count = line.split()
    step = m if what == 'whole' else strip
    began = time.perf_counter_ns()
    for _ in range(int(count)):
        for row in range(0, m, step):
            np.matmul(a[row:row + step], b, out=c[row:row + step])
    print(time.perf_counter_ns() - began, flush=True)
";

/// A process of Python.
struct Numpy {
    child: Child,
    answers: BufReader<ChildStdout>,
    version: String,
}

impl Numpy {
    fn start(python: &str, shape: Shape, kind: &str) -> Result<Self, String> {
        let numbers = shape.sizes.into_iter().chain(shape.transposed.map(usize::from)).chain([STRIP]);
        let mut child = Command::new(python)
            .args(["-c", NUMPY])
            .args(numbers.map(|number| number.to_string()))
            .arg(kind)
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{python}: {error}"))?;
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let mut numpy = Self { child, answers, version: String::new() };
        numpy.version = numpy.answer().map_err(|_| format!("{python} has no numpy"))?;
        Ok(numpy)
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        if line.is_empty() { Err("numpy has ended".to_owned()) } else { Ok(line.trim().to_owned()) }
    }

    fn run(&mut self, what: &str, count: usize) -> Duration {
        writeln!(self.child.stdin.as_mut().expect("its input is a pipe"), "{what} {count}").expect("numpy reads");
        Duration::from_nanos(self.answer().expect("numpy answers").parse().expect("nanoseconds"))
    }
}

impl Drop for Numpy {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let began = Instant::now();
    run();
    began.elapsed()
}

/// The operands of a cell, and all that its arms need.
struct Cell<T: Number> {
    size: usize,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
    packed: PackedB<T>,
    workspace: Workspace<T>,
    fused: Fused<Rank>,
}

impl<T: Float> Cell<T> {
    fn new(size: usize, from: fn(f32) -> T) -> Self {
        let numbers = |len: usize| (0..len).map(|at| from(((at * 7919) % 1009) as f32 / 1009.0 - 0.5)).collect();
        let (a, b, c): (Vec<T>, Vec<T>, Vec<T>) = (numbers(ROWS * size), numbers(size * size), numbers(ROWS * size));
        let packed = PackedB::new(Matrix::new(&b, size, size));
        let fused = Fused::new(Group::new(1).ranks().remove(0)).expect("a thread starts");
        Self { size, a, b, c, packed, workspace: Workspace::default(), fused }
    }

    /// Runs a product of this workspace.
    fn own(&mut self, arm: &str) -> Duration {
        let Self { size, a, b, c, packed, workspace, fused } = self;
        let (size, packed) = (*size, &*packed);
        let view = Matrix::new(a, ROWS, size);
        match arm {
            "whole" | "whole again" => timed(|| {
                Product::new(view, Matrix::new(b, size, size)).write(MatrixMut::new(c, ROWS, size), workspace);
            }),
            "packed" => timed(|| Product::new(view, packed).write(MatrixMut::new(c, ROWS, size), workspace)),
            "64 rows" => timed(|| {
                let product = Product::new(view, packed);
                for (strip, c) in c.chunks_mut(STRIP * size).enumerate() {
                    let rows = strip * STRIP..(strip + 1) * STRIP;
                    product.write_rows(rows, MatrixMut::new(c, STRIP, size), workspace);
                }
            }),
            // The computation of a rank alone, without its copies.
            "rank" | "rank on two threads" => {
                fused.use_threads(if arm == "rank" { 1 } else { 2 });
                let operands = Operands::packed(MatRef::new(a, ROWS, size), packed);
                let c = MatMut::new(c, ROWS, size);
                let outcome = fused.run(Operation::MatmulAllReduce, operands, c, &Tiles::None).expect("they fit");
                Duration::from_nanos(outcome.trace.compute[0].length().0 as u64)
            }
            _ => unreachable!("{arm}"),
        }
    }
}

const OWN: [&str; 6] = ["whole", "whole again", "packed", "64 rows", "rank", "rank on two threads"];

/// The product by a peer, in calls of `step` rows.
fn matrixmultiply<T: Float + LinalgScalar>(cell: &mut Cell<T>, step: usize) -> Duration {
    let Cell { size, a, b, c, .. } = cell;
    let b = ArrayView2::from_shape((*size, *size), b).expect("the shape fits");
    timed(|| {
        for (a, c) in a.chunks(step * *size).zip(c.chunks_mut(step * *size)) {
            let a = ArrayView2::from_shape((step, *size), a).expect("the shape fits");
            let mut c = ArrayViewMut2::from_shape((step, *size), c).expect("the shape fits");
            general_mat_mul(T::one(), &a, &b, T::zero(), &mut c);
        }
    })
}

fn faer<T: Float + ComplexField>(cell: &mut Cell<T>, one: T, threads: usize) -> Duration {
    let Cell { size, a, b, c, .. } = cell;
    let parallel = if threads > 1 { Par::rayon(threads) } else { Par::Seq };
    timed(|| {
        let c = faer::MatMut::from_row_major_slice_mut(c, ROWS, *size);
        let (a, b) =
            (faer::MatRef::from_row_major_slice(a, ROWS, *size), faer::MatRef::from_row_major_slice(b, *size, *size));
        matmul(c, Accum::Replace, a, b, one, parallel);
    })
}

/// The times of all arms of a cell.
struct Measured {
    name: String,
    /// Operations of a measurement.
    work: f64,
    arms: Vec<(String, Vec<Duration>)>,
}

impl Measured {
    /// Runs the arms in turn.
    fn of(name: String, work: usize, repetitions: usize, arms: &[&str], mut run: impl FnMut(&str) -> Duration) -> Self {
        let mut times = vec![Vec::new(); arms.len()];
        for arm in arms {
            run(arm);
        }
        for repetition in 0..repetitions {
            for arm in in_turn(arms.len(), repetition) {
                times[arm].push(run(arms[arm]));
            }
        }
        let arms = arms.iter().map(ToString::to_string).zip(times).collect();
        let measured = Self { name, work: work as f64, arms };
        println!("{}", measured.line());
        measured
    }

    fn line(&self) -> String {
        let rate = |times: &[Duration]| {
            self.work / median(&times.iter().map(|time| time.as_nanos() as f64).collect::<Vec<_>>())
        };
        let arms: Vec<String> = self.arms.iter().map(|(arm, times)| format!("{arm} {:.0}", rate(times))).collect();
        format!("{:<22} {}", self.name, arms.join(", "))
    }
}

/// Checks that the peers compute the same product.
fn verify<T: Float + LinalgScalar + ComplexField + Into<f64>>(cell: &mut Cell<T>, one: T) -> Result<(), String> {
    cell.own("whole");
    let expected = cell.c.clone();
    type Run<T> = fn(&mut Cell<T>, T) -> Duration;
    let runs: [(&str, Run<T>); 3] = [
        ("faer", |cell, one| faer(cell, one, 2)),
        ("matrixmultiply", |cell, _| matrixmultiply(cell, STRIP)),
        ("64 rows", |cell, _| cell.own("64 rows")),
    ];
    for (name, run) in runs {
        cell.c.fill(T::zero());
        run(cell, one);
        let is_same = |(&got, &sum): (&T, &T)| (got.into() - sum.into()).abs() <= 1e-3 * (1.0 + sum.into().abs());
        if !cell.c.iter().zip(&expected).all(is_same) {
            return Err(format!("{name} gives a different product for {}", cell.size));
        }
    }
    Ok(())
}

fn wide<T: Float + LinalgScalar + ComplexField + Into<f64>>(
    options: &Options,
    [name, kind]: [&str; 2],
    size: usize,
    from: fn(f32) -> T,
) -> Result<Measured, String> {
    let mut cell = Cell::new(size, from);
    verify(&mut cell, from(1.0))?;
    let mut numpy = options
        .numpy
        .as_deref()
        .map(|python| Numpy::start(python, Shape::new([ROWS, size, size], PLAIN), kind))
        .transpose()?;
    let mut arms = OWN.to_vec();
    arms.extend(["faer", "faer on two threads", "matrixmultiply", "matrixmultiply 64 rows"]);
    arms.extend(numpy.iter().flat_map(|_| ["numpy", "numpy 64 rows"]));
    let one = from(1.0);
    Ok(Measured::of(
        format!("{name}/{size}"),
        2 * ROWS * size * size,
        options.repetitions.into(),
        &arms,
        |arm| match arm {
            "faer" => faer(&mut cell, one, 1),
            "faer on two threads" => faer(&mut cell, one, 2),
            "matrixmultiply" => matrixmultiply(&mut cell, ROWS),
            "matrixmultiply 64 rows" => matrixmultiply(&mut cell, STRIP),
            "numpy" => numpy.as_mut().expect("it runs").run("whole", 1),
            "numpy 64 rows" => numpy.as_mut().expect("it runs").run("strips", 1),
            own => cell.own(own),
        },
    ))
}

fn narrow<T: Float>(options: &Options, name: &str, size: usize, from: fn(f32) -> T) -> Measured {
    let mut cell = Cell::new(size, from);
    Measured::of(format!("{name}/{size}"), 2 * ROWS * size * size, options.repetitions.into(), &OWN, |arm| {
        cell.own(arm)
    })
}

/// A product of another shape, by the arms that have it.
fn shaped<T: Float + LinalgScalar + Into<f64>>(
    options: &Options,
    [name, kind]: [&str; 2],
    shape: Shape,
    from: fn(f32) -> T,
) -> Result<Measured, String> {
    let ([m, n, k], [a_transposed, b_transposed], count) = (shape.sizes, shape.transposed, shape.count());
    let numbers =
        |len: usize| -> Vec<T> { (0..len).map(|at| from(((at * 7919) % 1009) as f32 / 1009.0 - 0.5)).collect() };
    let (a, b, mut c) = (numbers(m * k), numbers(k * n), vec![T::zero(); m * n]);
    let matrix = |data, rows, cols, transposed| {
        if transposed { Matrix::new(data, cols, rows).transposed() } else { Matrix::new(data, rows, cols) }
    };
    let view = |data, rows, cols, transposed| {
        let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
        let view = ArrayView2::from_shape((rows, cols), data).expect("the shape fits");
        if transposed { view.reversed_axes() } else { view }
    };
    let (a_own, b_own) = (matrix(&a, m, k, a_transposed), matrix(&b, k, n, b_transposed));
    let (a_view, b_view) = (view(&a, m, k, a_transposed), view(&b, k, n, b_transposed));
    let (packed, mut workspace) = (PackedB::new(b_own), Workspace::default());
    let mut run = |arm: &str, count: usize, c: &mut [T]| {
        timed(|| {
            for _ in 0..count {
                match arm {
                    "whole" => Product::new(a_own, b_own).write(MatrixMut::new(c, m, n), &mut workspace),
                    "packed" => Product::new(a_own, &packed).write(MatrixMut::new(c, m, n), &mut workspace),
                    _ => {
                        let mut c = ArrayViewMut2::from_shape((m, n), &mut *c).expect("the shape fits");
                        general_mat_mul(T::one(), &a_view, &b_view, T::zero(), &mut c);
                    }
                }
            }
        })
    };
    run("whole", 1, &mut c);
    for arm in ["packed", "matrixmultiply"] {
        let mut other = vec![T::zero(); m * n];
        run(arm, 1, &mut other);
        let is_same = |(&got, &sum): (&T, &T)| (got.into() - sum.into()).abs() <= 1e-3 * (1.0 + sum.into().abs());
        if !other.iter().zip(&c).all(is_same) {
            return Err(format!("{arm} gives a different product for {}", shape.name()));
        }
    }
    let mut numpy = options.numpy.as_deref().map(|python| Numpy::start(python, shape, kind)).transpose()?;
    let mut arms = vec!["whole", "packed", "matrixmultiply"];
    arms.extend(numpy.iter().map(|_| "numpy"));
    let work = 2 * m * n * k * count;
    // A product of a third of a second in every arm is repeated less often.
    let repetitions = if work > 1 << 30 { options.repetitions.min(3) } else { options.repetitions };
    Ok(Measured::of(format!("{name}/{}", shape.name()), work, repetitions.into(), &arms, |arm| match arm {
        "numpy" => numpy.as_mut().expect("it runs").run("whole", count),
        own => run(own, count, &mut c),
    }))
}

fn main() -> ExitCode {
    windrow_bench::exit_code(run(&Options::parse()))
}

fn run(options: &Options) -> Result<(), String> {
    options.record.allowed()?;
    let set = PackedB::new(Matrix::new(&[1.0_f32], 1, 1)).instruction_set();
    let what = if options.shapes { "m x n x k".to_owned() } else { format!("{ROWS} rows, n = k") };
    println!("{what}, {set}, {}: GFLOP/s, medians of {}", record::machine(), options.repetitions);
    if options.numpy.is_none() {
        println!("numpy is not measured: --numpy PYTHON specifies a Python that has it");
    }
    let mut cells = Vec::new();
    for shape in SHAPES.into_iter().filter(|_| options.shapes) {
        cells.push(shaped::<f64>(options, ["f64", "float64"], shape, f64::from)?);
        cells.push(shaped::<f32>(options, ["f32", "float32"], shape, |x| x)?);
    }
    for size in SIZES.into_iter().filter(|_| !options.shapes) {
        cells.push(wide::<f32>(options, ["f32", "float32"], size, |x| x)?);
        cells.push(wide::<f64>(options, ["f64", "float64"], size, f64::from)?);
        cells.push(narrow::<bf16>(options, "bf16", size, bf16::from_f32));
        cells.push(narrow::<f16>(options, "f16", size, f16::from_f32));
    }
    let mut notes = vec![format!("instructions: {set}"), format!("peers: {}", record::versions().join(", "))];
    if let Some(python) = &options.numpy {
        notes.push(format!("numpy {}", Numpy::start(python, Shape::new([1; 3], PLAIN), "float32")?.version));
    }
    let lines: Vec<String> = cells.iter().flat_map(lines).collect();
    let name = if options.shapes { "products-shapes" } else { "products" };
    options.record.write(name, &notes, "cell,arm,repetition,nanoseconds", &lines)
}

fn lines(cell: &Measured) -> Vec<String> {
    let line = |arm: &str, (repetition, time): (usize, &Duration)| {
        format!("{},{arm},{repetition},{}", cell.name, time.as_nanos())
    };
    cell.arms.iter().flat_map(|(arm, times)| times.iter().enumerate().map(move |time| line(arm, time))).collect()
}
