//! The rates of products on one thread, in GFLOP/s: medians of interleaved runs beside `matrixmultiply` and, with `--numpy PYTHON`, numpy.
//!
//! `cargo run --release -p windrow-product --example rates -- --numpy python3 --rounds 15`
//!
//! Columns: `whole` is one product with `b` packed in the call, `packed` the same with `b` packed before; `64 rows` is the same product in
//! calls of 64 rows, with `b` packed before.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, s};
use windrow_product::{Matrix, MatrixMut, Number, PackedB, Product, Workspace, bf16, f16};

const ROWS: usize = 1024;
const STRIP: usize = 64;
const SIZES: [usize; 4] = [256, 512, 1024, 2048];

/// Runs a product of numpy for every line it reads, and says how many nanoseconds it took.
const NUMPY: &str = "
import sys, time
import numpy as np
rows, size, kind, strip = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
random = np.random.default_rng(1)
a = random.standard_normal((rows, size)).astype(kind)
b = random.standard_normal((size, size)).astype(kind)
c = np.empty((rows, size), kind)
for line in sys.stdin:
    step = rows if line.strip() == 'whole' else strip
    began = time.perf_counter_ns()
    for row in range(0, rows, step):
        np.matmul(a[row:row + step], b, out=c[row:row + step])
    print(time.perf_counter_ns() - began, flush=True)
";

struct Numpy {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Numpy {
    fn start(python: &str, size: usize, kind: &str) -> Self {
        let mut child = Command::new(python)
            .args(["-c", NUMPY, &ROWS.to_string(), &size.to_string(), kind, &STRIP.to_string()])
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python starts");
        let answers = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        Self { child, answers }
    }

    fn run(&mut self, what: &str) -> f64 {
        writeln!(self.child.stdin.as_mut().expect("its input is a pipe"), "{what}").expect("numpy reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("numpy answers");
        line.trim().parse::<f64>().expect("numpy answers nanoseconds")
    }
}

impl Drop for Numpy {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

type Arm<'a> = (&'static str, Box<dyn FnMut() -> f64 + 'a>);

fn nanoseconds(f: impl FnOnce()) -> f64 {
    let began = Instant::now();
    f();
    began.elapsed().as_nanos() as f64
}

/// Runs the arms in turn, and prints the median rate of each.
fn compare(kind: &str, size: usize, rounds: usize, arms: &mut [Arm<'_>]) {
    let mut times = vec![Vec::new(); arms.len()];
    for round in 0..=rounds {
        for (times, (_, run)) in times.iter_mut().zip(arms.iter_mut()) {
            let time = run();
            // The first run touches memory for the first time.
            if round > 0 {
                times.push(time);
            }
        }
    }
    print!("{kind:>4} {size:>5}");
    for (times, (name, _)) in times.iter_mut().zip(arms.iter()) {
        times.sort_by(f64::total_cmp);
        print!("  {name} {:.1}", 2.0 * (ROWS * size * size) as f64 / times[times.len() / 2]);
    }
    println!();
}

fn numbers<T>(len: usize, from: impl Fn(f32) -> T) -> Vec<T> {
    (0..len).map(|at| from(((at * 7919) % 1009) as f32 / 1009.0 - 0.5)).collect()
}

fn own<'a, T: Number>(a: &'a [T], b: &'a [T], c: &'a mut [T], size: usize) -> impl FnMut(&str) -> f64 + 'a {
    let (a, b) = (Matrix::new(a, ROWS, size), Matrix::new(b, size, size));
    let (mut packed, mut workspace) = (PackedB::new(b), Workspace::default());
    move |what| {
        nanoseconds(|| {
            if what == "whole" {
                packed.pack(b);
            }
            let product = Product::new(a, &packed);
            if what != "strips" {
                return product.write(MatrixMut::new(c, ROWS, size), &mut workspace);
            }
            for (strip, c) in c.chunks_mut(STRIP * size).enumerate() {
                let rows = strip * STRIP..(strip + 1) * STRIP;
                product.write_rows(rows, MatrixMut::new(c, STRIP, size), &mut workspace);
            }
        })
    }
}

fn peers<'a, T: ndarray::LinalgScalar>(a: &[T], b: &[T], size: usize) -> impl FnMut(&str) -> f64 + 'a {
    let of = |data: &[T], rows| Array2::from_shape_vec((rows, size), data.to_vec()).expect("the shape fits");
    let (a, b, mut c) = (of(a, ROWS), of(b, size), Array2::from_elem((ROWS, size), T::zero()));
    move |what| {
        nanoseconds(|| {
            let step = if what == "whole" { ROWS } else { STRIP };
            for row in (0..ROWS).step_by(step) {
                let rows = row..row + step;
                let mut c = c.slice_mut(s![rows.clone(), ..]);
                general_mat_mul(T::one(), &a.slice(s![rows, ..]), &b, T::zero(), &mut c);
            }
        })
    }
}

fn wide<T: Number + ndarray::LinalgScalar>(
    kind: &str,
    python: Option<&str>,
    rounds: usize,
    size: usize,
    from: fn(f32) -> T,
) {
    let (a, b) = (numbers(ROWS * size, from), numbers(size * size, from));
    let mut c = numbers(ROWS * size, from);
    let own = std::cell::RefCell::new(own(&a, &b, &mut c, size));
    let peer = std::cell::RefCell::new(peers(&a, &b, size));
    let name = if kind == "f32" { "float32" } else { "float64" };
    let numpy = std::cell::RefCell::new(python.map(|python| Numpy::start(python, size, name)));
    let mut arms: Vec<Arm<'_>> = vec![
        ("whole", Box::new(|| own.borrow_mut()("whole"))),
        ("matrixmultiply", Box::new(|| peer.borrow_mut()("whole"))),
        ("packed", Box::new(|| own.borrow_mut()("packed"))),
        ("| 64 rows:", Box::new(|| own.borrow_mut()("strips"))),
        ("matrixmultiply", Box::new(|| peer.borrow_mut()("strips"))),
    ];
    if python.is_some() {
        let run = |what: &str| numpy.borrow_mut().as_mut().map_or(0.0, |numpy| numpy.run(what));
        arms.insert(2, ("numpy", Box::new(move || run("whole"))));
        arms.push(("numpy", Box::new(move || run("strips"))));
    }
    compare(kind, size, rounds, &mut arms);
}

fn narrow<T: Number>(kind: &str, rounds: usize, size: usize, from: fn(f32) -> T) {
    let (a, b) = (numbers(ROWS * size, from), numbers(size * size, from));
    let mut c = numbers(ROWS * size, from);
    let own = std::cell::RefCell::new(own(&a, &b, &mut c, size));
    compare(
        kind,
        size,
        rounds,
        &mut [
            ("whole", Box::new(|| own.borrow_mut()("whole"))),
            ("packed", Box::new(|| own.borrow_mut()("packed"))),
            ("| 64 rows:", Box::new(|| own.borrow_mut()("strips"))),
        ],
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1);
    let python = option("--numpy").map(String::as_str);
    let rounds = option("--rounds").map_or(9, |rounds| rounds.parse().expect("--rounds takes a number"));
    let kinds = option("--kinds").map_or("f32 f64 bf16 f16", String::as_str);
    let set = PackedB::new(Matrix::new(&[1.0_f32], 1, 1));
    println!("{ROWS} rows, n = k, one thread, {}; GFLOP/s, medians of {rounds}", set.instruction_set());
    for size in SIZES {
        for kind in kinds.split(' ') {
            match kind {
                "f32" => wide::<f32>(kind, python, rounds, size, |x| x),
                "f64" => wide::<f64>(kind, python, rounds, size, f64::from),
                "bf16" => narrow::<bf16>(kind, rounds, size, bf16::from_f32),
                "f16" => narrow::<f16>(kind, rounds, size, f16::from_f32),
                _ => panic!("--kinds takes f32, f64, bf16 and f16, not {kind}"),
            }
        }
    }
}
