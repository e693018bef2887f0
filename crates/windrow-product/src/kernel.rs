//! The operations that differ by instruction set, and all unsafe code of this crate.
//!
//! A *micro-tile* is a part of the result, up to [`Shape::rows`] rows and [`Shape::vectors`] vectors of columns, whose sums stay in registers
//! while the kernel goes through some steps of the inner axis. The kernels are safe code but for four things: loads and stores of vectors, reads
//! of operands whose bounds were checked for the whole micro-tile, prefetches, and the calls of code compiled for an instruction set. A value of an instruction set's type is the
//! proof that the CPU has it: [`InstructionSet::available`] alone makes one, after it has asked the CPU. `portable` needs nothing, runs on
//! every CPU, and is the others' twin in the tests.
#![allow(unsafe_code, reason = "vector instructions; the only file of the crate that may")]

/// The maximum length of a block of the inner axis.
///
/// A block of a panel of `b` (48 columns of `f32`) has 96 KiB, and stays in the second-level cache while all rows of a block of `a` use it.
/// Longer blocks read and write the result less often.
pub(crate) const DEPTH: usize = 512;

/// Steps after which a result that is written has come from memory.
const NEAR: usize = 64;

/// The most rows of a block that is transposed as one: 16 would compete for the same sets of the cache.
const TALL: usize = 8;

/// Steps of one row that are added together: as many rows of `b`, where they lie, do not compete for the same sets of the cache.
pub(crate) const AT_ONCE: usize = 8;

/// The most elements of a vector of any instruction set.
pub(crate) const LANES: usize = 16;

/// The size of a micro-tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    /// Vectors of a row.
    pub(crate) vectors: usize,
    /// Elements of a vector.
    pub(crate) lanes: usize,
}

/// The operands of one call of a kernel: some steps of the inner axis, for rows and columns of the result.
#[derive(Debug)]
pub(crate) struct Steps<'a, S> {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) steps: usize,
    /// Element (row, step) is `row * a_row + step * a_step`.
    pub(crate) a: &'a [S],
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    /// Panels, packed; what follows them is prefetched. Or, with the distance between its rows, a part of the operand as it lies, of whole vectors.
    pub(crate) b: &'a [S],
    pub(crate) b_row: Option<usize>,
    /// Rows of sums of earlier and for later steps: of the columns of `b`, rounded up to whole vectors.
    pub(crate) sums: &'a mut [S],
    /// True if the sums begin at 0.
    pub(crate) first: bool,
    /// True if the sums are complete: then they go to `c`.
    pub(crate) last: bool,
    /// The result: rows that begin `stride` apart.
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

    /// Carries out the steps.
    ///
    /// Each element is a chain of `sum = sum + a * b` from 0, in the order of the inner axis; then `sum * alpha`, or `c + sum * alpha`. So its
    /// bits depend neither on the other elements nor on the number of steps in a call. Vector instructions round `sum + a * b` and
    /// `c + sum * alpha` once, `portable` twice.
    ///
    /// # Panics
    /// A slice is too short.
    fn run(set: InstructionSet, steps: Steps<'_, Self>);

    /// The rows and columns of a block that is transposed as one.
    fn block(set: InstructionSet) -> [usize; 2];

    /// Transposes `blocks`, a number down and one across: rows that begin `from_row` apart become columns of rows `to_row` apart.
    ///
    /// # Panics
    /// A slice is too short.
    fn transpose(
        set: InstructionSet,
        from: &[Self],
        from_row: usize,
        blocks: [usize; 2],
        to: &mut [Self],
        to_row: usize,
    );

    /// Adds the products of steps of one row of `a` by rows of `b`, `b_row` apart, to their sums: whole vectors.
    ///
    /// # Panics
    /// A slice is too short.
    fn axpy(set: InstructionSet, a: &[Self; AT_ONCE], b: &[Self], b_row: usize, sums: &mut [Self]);

    /// Adds the products of steps of one row of `a` by columns of `b`, `b_row` apart, to their sums: a vector of columns, and as many steps as make
    /// whole vectors.
    ///
    /// # Panics
    /// A slice is too short.
    fn dot(set: InstructionSet, a: &[Self], b: &[Self], b_row: usize, sums: &mut [Self]);
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
    ($module:ident, $operations:ident, $number:ident, $(#[$compiled:meta])? rows $($rows:literal)+, vectors $($vectors:literal)+, lanes $lanes:literal) => {
        pub(in crate::kernel) mod $module {
            use super::$operations::*;
            use std::ops::Range;

            use crate::kernel::{AT_ONCE, NEAR, Shape, Steps};

            const ROWS: usize = { let all = [$($rows),+]; all[all.len() - 1] };
            const VECTORS: usize = { let all = [$($vectors),+]; all[all.len() - 1] };
            const TALL: usize = if $lanes < crate::kernel::TALL { $lanes } else { crate::kernel::TALL };
            const LINE: usize = 64 / size_of::<$number>();
            pub(in crate::kernel) const SHAPE: Shape = Shape { rows: ROWS, vectors: VECTORS, lanes: $lanes };

            $(#[$compiled])?
            pub(in crate::kernel) fn run(mut steps: Steps<'_, $number>) {
                for start in (0..steps.cols).step_by(VECTORS * $lanes) {
                    match (steps.cols - start).div_ceil($lanes) {
                        $($vectors => panel::<$vectors>(&mut steps, start),)+
                        _ => panel::<VECTORS>(&mut steps, start),
                    }
                }
            }

            /// The columns of a panel that begins at `start`.
            $(#[$compiled])?
            #[inline]
            fn panel<const VECTORS: usize>(all: &mut Steps<'_, $number>, start: usize) {
                let whole = all.rows - all.rows % ROWS;
                tiles::<ROWS, VECTORS>(all, 0..whole, start);
                match all.rows - whole {
                    0 => {}
                    $($rows => tiles::<$rows, VECTORS>(all, whole..whole + $rows, start),)+
                    _ => unreachable!("fewer than a micro-tile has"),
                }
            }

            /// The micro-tiles of some rows.
            $(#[$compiled])?
            #[inline(never)]
            fn tiles<const ROWS: usize, const VECTORS: usize>(all: &mut Steps<'_, $number>, rows: Range<usize>, start: usize) {
                let Steps { cols, steps, a, a_row, a_step, stride, first, last, alpha, adds, .. } = *all;
                let (b, b_row) = match all.b_row {
                    Some(row) => (&all.b[start..], row),
                    None => (&all.b[start * steps..], VECTORS * $lanes),
                };
                let end = |count: usize, step: usize| count.saturating_sub(1).checked_mul(step);
                let a_end = end(rows.end, a_row).and_then(|row| row.checked_add(end(steps, a_step)?));
                assert!(a_end.is_some_and(|end| end < a.len()), "a has the rows and steps of the tiles");
                let b_end = end(steps, b_row).and_then(|row| row.checked_add(VECTORS * $lanes));
                assert!(b_end.is_some_and(|end| end <= b.len()), "b has the steps and columns of the tiles");
                // Each micro-tile fetches a share of the next panel.
                let next = if all.b_row.is_some() { &[] } else { &b[b_row * steps..] };
                let (next, _) = next[..next.len().min(b_row * steps)].as_chunks::<LINE>();
                let share = next.len().div_ceil(all.rows.div_ceil(SHAPE.rows)).max(1);
                let mut shares = next.chunks(share).skip(rows.start / SHAPE.rows);
                let (width, sums_row) = ((cols - start).min(VECTORS * $lanes), cols.next_multiple_of($lanes));
                let alpha = splat(alpha);
                for top in rows.step_by(ROWS) {
                    let ahead = shares.next().unwrap_or_default();
                    // The result is read or written after thousands of cycles: its lines arrive meanwhile.
                    if last && steps > NEAR {
                        for row in 0..ROWS {
                            for line in all.c[(top + row) * stride + start..][..width].chunks(LINE) {
                                prefetch_near(&line[0]);
                            }
                        }
                    }
                    let mut sums = [[splat(0.0); VECTORS]; ROWS];
                    if !first {
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let (from, _) = all.sums[(top + row) * sums_row + start..].as_chunks::<$lanes>();
                            for (sum, from) in sums.iter_mut().zip(&from[..VECTORS]) {
                                *sum = load(from);
                            }
                        }
                    }
                    for at in 0..steps {
                        if let Some(line) = ahead.get(at) {
                            prefetch_far(&line[0]);
                        }
                        let mut vectors = [splat(0.0); VECTORS];
                        for (number, vector) in vectors.iter_mut().enumerate() {
                            // SAFETY: `at < steps` and `number < VECTORS`, so it ends at `b_end` at most.
                            *vector = unsafe { load_at(b, at * b_row + number * $lanes) };
                        }
                        for (row, sums) in sums.iter_mut().enumerate() {
                            // SAFETY: `top + row < rows.end` and `at < steps`, so it is `a_end` at most.
                            let a = splat(unsafe { get(a, (top + row) * a_row + at * a_step) });
                            for (sum, &b) in sums.iter_mut().zip(&vectors) {
                                *sum = multiply_add(a, b, *sum);
                            }
                        }
                    }
                    if !last {
                        for (row, sums) in sums.iter().enumerate() {
                            let (to, _) = all.sums[(top + row) * sums_row + start..].as_chunks_mut::<$lanes>();
                            for (to, &sum) in to[..VECTORS].iter_mut().zip(sums) {
                                store(to, sum);
                            }
                        }
                    } else if width == VECTORS * $lanes {
                        for (row, sums) in sums.iter().enumerate() {
                            let (c, _) = all.c[(top + row) * stride + start..][..VECTORS * $lanes].as_chunks_mut::<$lanes>();
                            for (c, &sum) in c.iter_mut().zip(sums) {
                                let value = if adds { multiply_add(sum, alpha, load(c)) } else { multiply(sum, alpha) };
                                store(c, value);
                            }
                        }
                    } else {
                        // Through memory: sums whose number is not constant would not stay in registers above.
                        let mut aside = [[[0.0; $lanes]; VECTORS]; ROWS];
                        for (aside, sums) in aside.iter_mut().zip(&sums) {
                            for (aside, &sum) in aside.iter_mut().zip(sums) {
                                store(aside, sum);
                            }
                        }
                        for (row, aside) in aside.iter().enumerate() {
                            let c = &mut all.c[(top + row) * stride + start..][..width];
                            for (c, aside) in c.chunks_mut($lanes).zip(aside) {
                                let sum = load(aside);
                                let value =
                                    if adds { multiply_add(sum, alpha, load_part(c)) } else { multiply(sum, alpha) };
                                store_part(c, value);
                            }
                        }
                    }
                }
            }

            /// Rows become columns, in the order of memory.
            $(#[$compiled])?
            #[inline]
            fn transposed<const TALL: usize>(mut rows: [Vector; TALL]) -> [Vector; TALL] {
                let mut span = 1;
                // Rows half of the block apart are interleaved, until elements that were a row apart are neighbours.
                while span < TALL {
                    let mut mixed = rows;
                    for at in 0..TALL / 2 {
                        [mixed[2 * at], mixed[2 * at + 1]] = interleave(rows[at], rows[at + TALL / 2]);
                    }
                    rows = mixed;
                    span *= 2;
                }
                rows
            }

            $(#[$compiled])?
            pub(in crate::kernel) fn transpose(from: &[$number], from_row: usize, blocks: [usize; 2], to: &mut [$number], to_row: usize) {
                for down in 0..blocks[0] {
                    for across in 0..blocks[1] {
                        let from = &from[down * TALL * from_row + across * $lanes..];
                        let mut rows = [splat(0.0); TALL];
                        for (at, row) in rows.iter_mut().enumerate() {
                            *row = load(from[at * from_row..].first_chunk().expect("a row has a vector"));
                        }
                        let mut all = [[0.0; $lanes]; TALL];
                        for (all, row) in all.iter_mut().zip(transposed(rows)) {
                            store(all, row);
                        }
                        let to = &mut to[across * $lanes * to_row + down * TALL..];
                        let (all, _) = all.as_flattened().as_chunks::<TALL>();
                        for (at, column) in all.iter().enumerate() {
                            *to[at * to_row..].first_chunk_mut().expect("a row has the block's columns") = *column;
                        }
                    }
                }
            }

            $(#[$compiled])?
            pub(in crate::kernel) fn axpy(a: &[$number; AT_ONCE], b: &[$number], b_row: usize, sums: &mut [$number]) {
                let end = b_row.checked_mul(AT_ONCE - 1).and_then(|last| last.checked_add(sums.len()));
                assert!(end.is_some_and(|end| end <= b.len()), "b has the steps and columns");
                let (sums, _) = sums.as_chunks_mut::<$lanes>();
                for (number, sums) in sums.iter_mut().enumerate() {
                    let mut sum = load(sums);
                    for (at, &a) in a.iter().enumerate() {
                        // SAFETY: these columns of this step end at `end` at most.
                        let b = unsafe { load_at(b, at * b_row + number * $lanes) };
                        sum = multiply_add(splat(a), b, sum);
                    }
                    store(sums, sum);
                }
            }

            $(#[$compiled])?
            pub(in crate::kernel) fn dot(a: &[$number], b: &[$number], b_row: usize, sum: &mut [$number]) {
                let end = b_row.checked_mul($lanes - 1).and_then(|last| last.checked_add(a.len()));
                assert!(end.is_some_and(|end| end <= b.len()), "b has the columns and steps");
                let (a, sum) = (a.as_chunks::<$lanes>().0, sum.first_chunk_mut().expect("a vector of sums"));
                let mut all = load(sum);
                for (at, a) in a.iter().enumerate() {
                    let mut rows = [splat(0.0); $lanes];
                    for (row, vector) in rows.iter_mut().enumerate() {
                        // SAFETY: these steps of this column end at `end` at most.
                        *vector = unsafe { load_at(b, row * b_row + at * $lanes) };
                    }
                    for (&a, b) in a.iter().zip(transposed(rows)) {
                        all = multiply_add(splat(a), b, all);
                    }
                }
                store(sum, all);
            }
        }
    };
}

/// Calls a function compiled for an instruction set.
macro_rules! call {
    ($set:ident, $module:ident::$function:ident($($argument:ident),+)) => {
        match $set {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of the type exists, so the CPU has the features.
            InstructionSet::Avx512(_) => unsafe { x86::avx512::$module::$function($($argument),+) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of the type exists, so the CPU has the features.
            InstructionSet::Avx2(_) => unsafe { x86::avx2::$module::$function($($argument),+) },
            InstructionSet::Portable => portable::$module::$function($($argument),+),
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

            fn block(set: InstructionSet) -> [usize; 2] {
                let lanes = Self::shape(set).lanes;
                [lanes.min(TALL), lanes]
            }

            #[inline]
            fn run(set: InstructionSet, steps: Steps<'_, Self>) {
                call!(set, $module::run(steps));
            }

            #[inline]
            fn transpose(set: InstructionSet, from: &[Self], from_row: usize, blocks: [usize; 2], to: &mut [Self], to_row: usize) {
                call!(set, $module::transpose(from, from_row, blocks, to, to_row));
            }

            #[inline]
            fn axpy(set: InstructionSet, a: &[Self; AT_ONCE], b: &[Self], b_row: usize, sums: &mut [Self]) {
                call!(set, $module::axpy(a, b, b_row, sums));
            }

            #[inline]
            fn dot(set: InstructionSet, a: &[Self], b: &[Self], b_row: usize, sums: &mut [Self]) {
                call!(set, $module::dot(a, b, b_row, sums));
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
                pub(super) type Vector = [$number; $lanes];

                #[inline(always)]
                pub(super) fn load(from: &Vector) -> Vector {
                    *from
                }

                #[inline(always)]
                pub(super) fn store(to: &mut Vector, vector: Vector) {
                    *to = vector;
                }

                #[inline(always)]
                pub(super) fn load_part(from: &[$number]) -> Vector {
                    std::array::from_fn(|at| from.get(at).copied().unwrap_or_default())
                }

                #[inline(always)]
                pub(super) fn store_part(to: &mut [$number], vector: Vector) {
                    to.copy_from_slice(&vector[..to.len()]);
                }

                /// Checks what its caller promises.
                #[inline(always)]
                pub(super) unsafe fn load_at(from: &[$number], at: usize) -> Vector {
                    *from[at..].first_chunk().expect("a vector is left")
                }

                /// Checks what its caller promises.
                #[inline(always)]
                pub(super) unsafe fn get(from: &[$number], at: usize) -> $number {
                    from[at]
                }

                #[inline(always)]
                pub(super) fn interleave(a: Vector, b: Vector) -> [Vector; 2] {
                    let half = |from: usize| std::array::from_fn(|at| [a, b][at % 2][from + at / 2]);
                    [half(0), half($lanes / 2)]
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
    kernels!(single, single_operations, f32, rows 1 2 3 4, vectors 1 2, lanes 4);
    kernels!(double, double_operations, f64, rows 1 2 3 4, vectors 1 2, lanes 2);
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
            $load:ident $store:ident $splat:ident $multiply:ident $multiply_add:ident, $($more:item)+
        ) => {
            mod $module {
                use std::arch::x86_64::*;

                pub(super) type Vector = $vector;

                $($more)+

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

                /// # Safety
                /// The slice has a vector's number of elements from `at` on.
                #[target_feature(enable = $features)]
                #[inline]
                pub(super) unsafe fn load_at(from: &[$number], at: usize) -> $vector {
                    // SAFETY: the caller's promise.
                    let from = unsafe { from.as_ptr().add(at) };
                    // SAFETY: the caller's promise.
                    unsafe { $load(from) }
                }

                /// # Safety
                /// The slice has more than `at` elements.
                #[inline(always)]
                pub(super) unsafe fn get(from: &[$number], at: usize) -> $number {
                    // SAFETY: the caller's promise.
                    unsafe { *from.get_unchecked(at) }
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
            _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_mul_ps _mm512_fmadd_ps,
            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn load_part(from: &[f32]) -> __m512 {
                assert!(from.len() <= 16);
                // SAFETY: only the elements of the slice are read.
                unsafe { _mm512_maskz_loadu_ps(((1_u32 << from.len()) - 1) as u16, from.as_ptr()) }
            }

            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn store_part(to: &mut [f32], vector: __m512) {
                assert!(to.len() <= 16);
                // SAFETY: only the elements of the slice are written.
                unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), ((1_u32 << to.len()) - 1) as u16, vector) }
            }

            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn interleave(a: __m512, b: __m512) -> [__m512; 2] {
                let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                let second = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
                [_mm512_permutex2var_ps(a, first, b), _mm512_permutex2var_ps(a, second, b)]
            }
        );
        operations!(
            double_operations, "avx512f", f64, 8, __m512d,
            _mm512_loadu_pd _mm512_storeu_pd _mm512_set1_pd _mm512_mul_pd _mm512_fmadd_pd,
            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn load_part(from: &[f64]) -> __m512d {
                assert!(from.len() <= 8);
                // SAFETY: only the elements of the slice are read.
                unsafe { _mm512_maskz_loadu_pd(((1_u32 << from.len()) - 1) as u8, from.as_ptr()) }
            }

            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn store_part(to: &mut [f64], vector: __m512d) {
                assert!(to.len() <= 8);
                // SAFETY: only the elements of the slice are written.
                unsafe { _mm512_mask_storeu_pd(to.as_mut_ptr(), ((1_u32 << to.len()) - 1) as u8, vector) }
            }

            #[target_feature(enable = "avx512f")]
            #[inline]
            pub(super) fn interleave(a: __m512d, b: __m512d) -> [__m512d; 2] {
                let first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
                let second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
                [_mm512_permutex2var_pd(a, first, b), _mm512_permutex2var_pd(a, second, b)]
            }
        );
        kernels!(
            single, single_operations, f32, #[target_feature(enable = "avx512f")]
            rows 1 2 3 4 5 6 7 8, vectors 1 2 3, lanes 16
        );
        kernels!(
            double, double_operations, f64, #[target_feature(enable = "avx512f")]
            rows 1 2 3 4 5 6 7 8, vectors 1 2 3, lanes 8
        );
    }

    /// 12 of the 16 registers are sums.
    pub(super) mod avx2 {
        operations!(
            single_operations, "avx2,fma", f32, 8, __m256,
            _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_mul_ps _mm256_fmadd_ps,
            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn load_part(from: &[f32]) -> __m256 {
                let mut all = [0.0; 8];
                all[..from.len()].copy_from_slice(from);
                load(&all)
            }

            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn store_part(to: &mut [f32], vector: __m256) {
                let mut all = [0.0; 8];
                store(&mut all, vector);
                to.copy_from_slice(&all[..to.len()]);
            }

            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn interleave(a: __m256, b: __m256) -> [__m256; 2] {
                let (even, odd) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
                [_mm256_permute2f128_ps::<0x20>(even, odd), _mm256_permute2f128_ps::<0x31>(even, odd)]
            }
        );
        operations!(
            double_operations, "avx2,fma", f64, 4, __m256d,
            _mm256_loadu_pd _mm256_storeu_pd _mm256_set1_pd _mm256_mul_pd _mm256_fmadd_pd,
            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn load_part(from: &[f64]) -> __m256d {
                let mut all = [0.0; 4];
                all[..from.len()].copy_from_slice(from);
                load(&all)
            }

            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn store_part(to: &mut [f64], vector: __m256d) {
                let mut all = [0.0; 4];
                store(&mut all, vector);
                to.copy_from_slice(&all[..to.len()]);
            }

            #[target_feature(enable = "avx2,fma")]
            #[inline]
            pub(super) fn interleave(a: __m256d, b: __m256d) -> [__m256d; 2] {
                let (even, odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
                [_mm256_permute2f128_pd::<0x20>(even, odd), _mm256_permute2f128_pd::<0x31>(even, odd)]
            }
        );
        kernels!(
            single, single_operations, f32, #[target_feature(enable = "avx2,fma")]
            rows 1 2 3 4 5 6, vectors 1 2, lanes 8
        );
        kernels!(
            double, double_operations, f64, #[target_feature(enable = "avx2,fma")]
            rows 1 2 3 4 5 6, vectors 1 2, lanes 4
        );
    }
}
