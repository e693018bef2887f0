//! The operations that differ by instruction set, and all unsafe code of this crate.
//!
//! A *micro-tile* is what one call of a kernel computes: up to [`Shape::rows`] rows and [`Shape::vectors`] vectors of columns of the result,
//! whose sums stay in registers while the kernel goes through a block of the inner axis. The kernels are safe code but for three things: loads
//! and stores of vectors, prefetches, and the calls of code compiled for an instruction set. A value of an instruction set's type is the
//! proof that the CPU has it: [`InstructionSet::available`] alone makes one, after it has asked the CPU. `portable` needs nothing, runs on
//! every CPU, and is the others' twin in the tests.
#![allow(unsafe_code, reason = "vector instructions; the only file of the crate that may")]

/// The maximum length of a block of the inner axis, and the distance between the rows of a packed `a`.
///
/// A block of a panel of `b` (48 columns of `f32`) has 96 KiB, and stays in the second-level cache while all rows of a block of `a` use it.
/// Longer blocks read and write the result less often.
pub(crate) const DEPTH: usize = 512;

/// The largest micro-tile of any instruction set, in elements.
pub(crate) const TILE: usize = 8 * 48;

/// The size of a micro-tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    /// Vectors of a row.
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
}

/// The operands of one call of a kernel.
#[derive(Debug)]
pub(crate) struct Tile<'a, S> {
    /// Rows of the micro-tile.
    pub(crate) rows: usize,
    /// Vectors of a row of the micro-tile.
    pub(crate) vectors: usize,
    /// The rows of `a`, [`DEPTH`] apart.
    pub(crate) a: &'a [S],
    /// A block of a panel of `b`: for each step of the inner axis, the elements of a row of the micro-tile.
    pub(crate) b: &'a [S],
    /// What later calls will read; brought into the second-level cache.
    pub(crate) ahead: &'a [S],
    /// The result: rows of whole vectors, `stride` apart.
    pub(crate) c: &'a mut [S],
    pub(crate) stride: usize,
    /// The factor of the sums.
    pub(crate) alpha: S,
    /// Whether the sums are added to the result, or replace it.
    pub(crate) adds: bool,
}

/// A number in which kernels compute.
pub(crate) trait Kernel: Copy + Default {
    /// The micro-tile of an instruction set.
    fn shape(set: InstructionSet) -> Shape;

    /// Computes a micro-tile.
    ///
    /// Each element is a chain of `sum = sum + a * b` from 0, in the order of the inner axis; then `sum * alpha`, or `c + sum * alpha`. So its
    /// bits depend neither on the other elements nor on the size of the micro-tile. Vector instructions round `sum + a * b` and
    /// `c + sum * alpha` once, `portable` twice.
    ///
    /// # Panics
    /// The instruction set has no such micro-tile, or a slice is too short.
    fn run(set: InstructionSet, tile: Tile<'_, Self>);
}

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstructionSet {
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    Portable,
}

impl InstructionSet {
    /// The sets that this CPU has, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let sets = [x86::Avx512::detect().map(Self::Avx512), x86::Avx2::detect().map(Self::Avx2), Some(Self::Portable)];
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let sets = [Some(Self::Portable)];
        sets.into_iter().flatten()
    }

    pub(crate) fn best() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            Self::Portable => "portable",
        }
    }
}

/// The kernels of one number in one instruction set: `$module::run`, which calls a function for each size of a micro-tile. The vector
/// operations are the functions of `$operations`.
macro_rules! kernels {
    ($module:ident, $operations:ident, $number:ident, $(#[$compiled:meta])? rows $($rows:literal)+, vectors $vectors:tt, lanes $lanes:literal) => {
        pub(in crate::kernel) mod $module {
            use super::$operations::*;
            use crate::kernel::{DEPTH, Shape, Tile};

            pub(in crate::kernel) const SHAPE: Shape = Shape {
                rows: { let all = [$($rows),+]; all[all.len() - 1] },
                vectors: { let all = $vectors; all[all.len() - 1] },
                lanes: $lanes,
            };

            $(#[$compiled])?
            pub(in crate::kernel) fn run(tile: Tile<'_, $number>) {
                match tile.rows {
                    $($rows => kernels!(@vectors tile $rows $vectors),)+
                    rows => panic!("no micro-tile of {rows} rows"),
                }
            }

            $(#[$compiled])?
            #[inline(never)]
            fn compute<const ROWS: usize, const VECTORS: usize>(tile: Tile<'_, $number>) {
                let Tile { a, b, ahead, c, stride, alpha, adds, .. } = tile;
                let (a, _) = a.as_chunks::<DEPTH>();
                let a: &[[$number; DEPTH]; ROWS] = a.first_chunk().expect("a has the rows of the tile");
                let (b, _) = b.as_chunks::<$lanes>();
                let (b, _) = b.as_chunks::<VECTORS>();
                const LINE: usize = 64 / size_of::<$number>();
                let (ahead, _) = ahead.as_chunks::<LINE>();
                // The result is read or written after thousands of cycles: its lines arrive meanwhile.
                for row in 0..ROWS {
                    for line in c[row * stride..][..VECTORS * $lanes].chunks(LINE) {
                        prefetch_near(&line[0]);
                    }
                }
                let mut sums = [[splat(0.0); VECTORS]; ROWS];
                for at in 0..b.len().min(DEPTH) {
                    if let Some(line) = ahead.get(at) {
                        prefetch_far(&line[0]);
                    }
                    let mut vectors = [splat(0.0); VECTORS];
                    for (vector, b) in vectors.iter_mut().zip(&b[at]) {
                        *vector = load(b);
                    }
                    for (sums, a) in sums.iter_mut().zip(a) {
                        let a = splat(a[at]);
                        for (sum, &b) in sums.iter_mut().zip(&vectors) {
                            *sum = multiply_add(a, b, *sum);
                        }
                    }
                }
                let alpha = splat(alpha);
                for (row, sums) in sums.iter().enumerate() {
                    let (c, _) = c[row * stride..][..VECTORS * $lanes].as_chunks_mut::<$lanes>();
                    for (c, &sum) in c.iter_mut().zip(sums) {
                        let value = if adds { multiply_add(sum, alpha, load(c)) } else { multiply(sum, alpha) };
                        store(c, value);
                    }
                }
            }
        }
    };
    (@vectors $tile:ident $rows:literal [$($vectors:literal),+]) => {
        match $tile.vectors {
            $($vectors => compute::<$rows, $vectors>($tile),)+
            vectors => panic!("no micro-tile of {vectors} vectors"),
        }
    };
}

macro_rules! kernel {
    ($($number:ident: $module:ident;)+) => {$(
        impl Kernel for $number {
            fn shape(set: InstructionSet) -> Shape {
                match set {
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx512(_) => x86::avx512::$module::SHAPE,
                    #[cfg(target_arch = "x86_64")]
                    InstructionSet::Avx2(_) => x86::avx2::$module::SHAPE,
                    InstructionSet::Portable => portable::$module::SHAPE,
                }
            }

            #[inline]
            fn run(set: InstructionSet, tile: Tile<'_, Self>) {
                match set {
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: a value of the type exists, so the CPU has the features.
                    InstructionSet::Avx512(_) => unsafe { x86::avx512::$module::run(tile) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: a value of the type exists, so the CPU has the features.
                    InstructionSet::Avx2(_) => unsafe { x86::avx2::$module::run(tile) },
                    InstructionSet::Portable => portable::$module::run(tile),
                }
            }
        }
    )+};
}

kernel! {
    f32: single;
    f64: double;
}

/// The twin of vector instructions: arrays as vectors.
mod portable {
    macro_rules! operations {
        ($module:ident, $number:ident, $lanes:literal) => {
            mod $module {
                type Vector = [$number; $lanes];

                #[inline(always)]
                pub(super) fn load(from: &Vector) -> Vector {
                    *from
                }

                #[inline(always)]
                pub(super) fn store(to: &mut Vector, vector: Vector) {
                    *to = vector;
                }

                #[inline(always)]
                pub(super) fn splat(number: $number) -> Vector {
                    [number; $lanes]
                }

                #[inline(always)]
                pub(super) fn multiply(mut a: Vector, b: Vector) -> Vector {
                    a.iter_mut().zip(b).for_each(|(a, b)| *a *= b);
                    a
                }

                #[inline(always)]
                pub(super) fn multiply_add(a: Vector, b: Vector, mut sum: Vector) -> Vector {
                    sum.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum += a * b);
                    sum
                }

                #[inline(always)]
                pub(super) fn prefetch_near(_: &$number) {}

                #[inline(always)]
                pub(super) fn prefetch_far(_: &$number) {}
            }
        };
    }

    operations!(single_operations, f32, 4);
    operations!(double_operations, f64, 2);
    kernels!(single, single_operations, f32, rows 1 2 3 4, vectors [1, 2], lanes 4);
    kernels!(double, double_operations, f64, rows 1 2 3 4, vectors [1, 2], lanes 2);
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    /// AVX-512 with its basic instructions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Avx512(());

    /// AVX2 with fused multiply-add.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Avx2(());

    impl Avx512 {
        #[cfg_attr(miri, expect(dead_code, reason = "miri runs the twin"))]
        pub(super) fn detect() -> Option<Self> {
            is_x86_feature_detected!("avx512f").then_some(Self(()))
        }
    }

    impl Avx2 {
        #[cfg_attr(miri, expect(dead_code, reason = "miri runs the twin"))]
        pub(super) fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
        }
    }

    macro_rules! operations {
        (
            $module:ident, $features:literal, $number:ident, $lanes:literal, $vector:ident,
            $load:ident $store:ident $splat:ident $multiply:ident $multiply_add:ident
        ) => {
            mod $module {
                use std::arch::x86_64::*;

                #[target_feature(enable = $features)]
                #[inline]
                pub(super) fn load(from: &[$number; $lanes]) -> $vector {
                    // SAFETY: a vector's number of elements can be read there.
                    unsafe { $load(from.as_ptr()) }
                }

                #[target_feature(enable = $features)]
                #[inline]
                pub(super) fn store(to: &mut [$number; $lanes], vector: $vector) {
                    // SAFETY: a vector's number of elements can be written there.
                    unsafe { $store(to.as_mut_ptr(), vector) }
                }

                #[target_feature(enable = $features)]
                #[inline]
                pub(super) fn splat(number: $number) -> $vector {
                    $splat(number)
                }

                #[target_feature(enable = $features)]
                #[inline]
                pub(super) fn multiply(a: $vector, b: $vector) -> $vector {
                    $multiply(a, b)
                }

                #[target_feature(enable = $features)]
                #[inline]
                pub(super) fn multiply_add(a: $vector, b: $vector, sum: $vector) -> $vector {
                    $multiply_add(a, b, sum)
                }

                #[inline(always)]
                pub(super) fn prefetch_near(line: &$number) {
                    // SAFETY: a prefetch changes no value and cannot fault.
                    unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *line).cast()) }
                }

                #[inline(always)]
                pub(super) fn prefetch_far(line: &$number) {
                    // SAFETY: a prefetch changes no value and cannot fault.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>((&raw const *line).cast()) }
                }
            }
        };
    }

    /// 24 of the 32 registers are sums.
    pub(super) mod avx512 {
        operations!(
            single_operations, "avx512f", f32, 16, __m512,
            _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_mul_ps _mm512_fmadd_ps
        );
        operations!(
            double_operations, "avx512f", f64, 8, __m512d,
            _mm512_loadu_pd _mm512_storeu_pd _mm512_set1_pd _mm512_mul_pd _mm512_fmadd_pd
        );
        kernels!(
            single, single_operations, f32, #[target_feature(enable = "avx512f")]
            rows 1 2 3 4 5 6 7 8, vectors [1, 2, 3], lanes 16
        );
        kernels!(
            double, double_operations, f64, #[target_feature(enable = "avx512f")]
            rows 1 2 3 4 5 6 7 8, vectors [1, 2, 3], lanes 8
        );
    }

    /// 12 of the 16 registers are sums.
    pub(super) mod avx2 {
        operations!(
            single_operations, "avx2,fma", f32, 8, __m256,
            _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_mul_ps _mm256_fmadd_ps
        );
        operations!(
            double_operations, "avx2,fma", f64, 4, __m256d,
            _mm256_loadu_pd _mm256_storeu_pd _mm256_set1_pd _mm256_mul_pd _mm256_fmadd_pd
        );
        kernels!(
            single, single_operations, f32, #[target_feature(enable = "avx2,fma")]
            rows 1 2 3 4 5 6, vectors [1, 2], lanes 8
        );
        kernels!(
            double, double_operations, f64, #[target_feature(enable = "avx2,fma")]
            rows 1 2 3 4 5 6, vectors [1, 2], lanes 4
        );
    }
}
