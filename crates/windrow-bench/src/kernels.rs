//! Kernels of the kind of the NAS Parallel Benchmarks: ep, cg, mg, ft, is and lu, at the sizes of classes S and W.
//!
//! They follow the specification: Bailey et al., "The NAS Parallel Benchmarks", NASA Ames RNR-94-007 (1994) and NAS-95-020 (1995). It
//! defines inputs, the arithmetic up to the order of additions, and the values that a correct run ends with.
//!
//! A kernel is written once. Its data, its inner loops and its check are plain code; its outer loops go through a [`Form`], and
//! so exist as `std` iterators, as rayon's and as windrow's.

use std::fmt::Debug;
use std::iter::Sum;

mod cg;
mod ep;
mod ft;
mod is;
mod lu;
mod mg;

/// A size of the problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Samples: milliseconds a run, but half a second of ep.
    S,
    /// Workstations of 1995: up to seconds a run.
    W,
}

/// An implementation of the outer loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Iterators of `std`, on one thread.
    Serial,
    /// Parallel iterators of rayon, called from outside its pool.
    Rayon,
    /// Parallel iterators of windrow.
    Windrow,
}

/// A kernel with its data, ready to run any number of times.
pub trait Kernel: Debug + Send {
    /// The specified computation, from its initial values to the result.
    fn run(&mut self, by: By);

    /// Comparison of the last run's result with the specified values.
    ///
    /// # Errors
    /// When they differ by more than the specification allows.
    fn check(&self) -> Result<(), String>;
}

/// Makes the data of a kernel.
pub type Make = fn(Class) -> Box<dyn Kernel>;

/// All kernels by name, with the function that makes one.
pub const ALL: [(&str, Make); 6] = [
    ("ep", |class| Box::new(ep::Ep::new(class))),
    ("cg", |class| Box::new(cg::Cg::new(class))),
    ("mg", |class| Box::new(mg::Mg::new(class))),
    ("ft", |class| Box::new(ft::Ft::new(class))),
    ("is", |class| Box::new(is::Is::new(class))),
    ("lu", |class| Box::new(lu::Lu::new(class))),
];

/// A kernel whose loops are generic.
trait Loops: Debug + Send {
    fn run<F: Form>(&mut self);
    fn check(&self) -> Result<(), String>;
}

impl<L: Loops> Kernel for L {
    fn run(&mut self, by: By) {
        match by {
            By::Serial => Loops::run::<Serial>(self),
            By::Rayon => Loops::run::<Rayon>(self),
            By::Windrow => Loops::run::<Windrow>(self),
        }
    }

    fn check(&self) -> Result<(), String> {
        Loops::check(self)
    }
}

/// The outer loops of the kernels. Each function is one line of the library; it keeps the place of its caller, since windrow learns by place.
trait Form {
    /// Threads that loops may run on.
    fn threads() -> usize;

    /// `body` for each item and its index.
    #[track_caller]
    fn each<T: Send>(items: &mut [T], body: impl Fn(usize, &mut T) + Sync + Send);

    /// `body` for each chunk of `size` items and its index.
    #[track_caller]
    fn chunks<T: Send>(items: &mut [T], size: usize, body: impl Fn(usize, &mut [T]) + Sync + Send);

    /// `body` for each item and that of `others` at its place.
    #[track_caller]
    fn zip<T: Send, U: Sync>(items: &mut [T], others: &[U], body: impl Fn(&mut T, &U) + Sync + Send);

    /// The inner product.
    #[track_caller]
    fn dot(a: &[f64], b: &[f64]) -> f64;

    /// The sum of `term` over `0..n`.
    #[track_caller]
    fn sum<S: Send + Sum>(n: usize, term: impl Fn(usize) -> S + Sync + Send) -> S;
}

struct Serial;

impl Form for Serial {
    fn threads() -> usize {
        1
    }

    fn each<T: Send>(items: &mut [T], body: impl Fn(usize, &mut T) + Sync + Send) {
        items.iter_mut().enumerate().for_each(|(at, item)| body(at, item));
    }

    fn chunks<T: Send>(items: &mut [T], size: usize, body: impl Fn(usize, &mut [T]) + Sync + Send) {
        items.chunks_mut(size).enumerate().for_each(|(at, chunk)| body(at, chunk));
    }

    fn zip<T: Send, U: Sync>(items: &mut [T], others: &[U], body: impl Fn(&mut T, &U) + Sync + Send) {
        items.iter_mut().zip(others).for_each(|(item, other)| body(item, other));
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn sum<S: Send + Sum>(n: usize, term: impl Fn(usize) -> S + Sync + Send) -> S {
        (0..n).map(term).sum()
    }
}

macro_rules! form {
    ($name:ident, $library:ident) => {
        struct $name;

        impl Form for $name {
            fn threads() -> usize {
                $library::current_num_threads()
            }

            #[track_caller]
            fn each<T: Send>(items: &mut [T], body: impl Fn(usize, &mut T) + Sync + Send) {
                use $library::prelude::*;
                items.par_iter_mut().enumerate().for_each(|(at, item)| body(at, item));
            }

            #[track_caller]
            fn chunks<T: Send>(items: &mut [T], size: usize, body: impl Fn(usize, &mut [T]) + Sync + Send) {
                use $library::prelude::*;
                items.par_chunks_mut(size).enumerate().for_each(|(at, chunk)| body(at, chunk));
            }

            #[track_caller]
            fn zip<T: Send, U: Sync>(items: &mut [T], others: &[U], body: impl Fn(&mut T, &U) + Sync + Send) {
                use $library::prelude::*;
                items.par_iter_mut().zip(others).for_each(|(item, other)| body(item, other));
            }

            #[track_caller]
            fn dot(a: &[f64], b: &[f64]) -> f64 {
                use $library::prelude::*;
                a.par_iter().zip(b).map(|(a, b)| a * b).sum()
            }

            #[track_caller]
            fn sum<S: Send + Sum>(n: usize, term: impl Fn(usize) -> S + Sync + Send) -> S {
                use $library::prelude::*;
                (0..n).into_par_iter().map(term).sum()
            }
        }
    };
}

form!(Rayon, rayon);
form!(Windrow, windrow);

/// Random numbers of the specification: x' = 5^13 x mod 2^46, as fractions of 2^46.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    const FACTOR: u64 = 1_220_703_125;
    const MASK: u64 = (1 << 46) - 1;
    /// The seed of all kernels but ep.
    const SEED: u64 = 314_159_265;

    /// The generator `steps` numbers after `seed`.
    fn after(seed: u64, mut steps: usize) -> Self {
        let (mut x, mut power) = (seed, Self::FACTOR);
        while steps > 0 {
            if steps % 2 == 1 {
                x = x.wrapping_mul(power);
            }
            power = power.wrapping_mul(power);
            steps /= 2;
        }
        Self(x & Self::MASK)
    }

    /// The next number, 0 to 1.
    #[inline]
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR) & Self::MASK;
        self.0 as i64 as f64 / (1_u64 << 46) as f64
    }
}

/// An error unless `value` is within `most` of `specified`, relative to it.
fn near(quantity: &str, value: f64, specified: f64, most: f64) -> Result<(), String> {
    if ((value - specified) / specified).abs() <= most {
        return Ok(());
    }
    Err(format!("{quantity} is {value:.15e}, specified {specified:.15e}"))
}
