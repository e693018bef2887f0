//! The book's examples, compiled and run: `cargo test --doc -p windrow-book`.
//!
//! The page `from-rayon.md` is compiled in `windrow-bench`, where rayon is. Blocks of the command are tested in `windrow-cli`, those of Python
//! with the Python package. `tests/pages.rs` checks that no block is left out.
#![forbid(unsafe_code)]

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/question.md")]
struct Question;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/first-steps.md")]
struct FirstSteps;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/loops.md")]
struct Loops;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/rounds.md")]
struct Rounds;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/batches.md")]
struct Batches;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/overlap.md")]
struct Overlap;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/decides.md")]
struct Decides;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/verified.md")]
struct Verified;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/from-tokenizers.md")]
struct FromTokenizers;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/from-mutex.md")]
struct FromMutex;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/from-tiles.md")]
struct FromTiles;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside.md")]
struct Beside;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside-rayon.md")]
struct BesideRayon;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside-openmp.md")]
struct BesideOpenmp;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside-gigatoken.md")]
struct BesideGigatoken;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside-actors.md")]
struct BesideActors;

#[cfg(doctest)]
#[doc = include_str!("../../../book/src/beside-mpi4py.md")]
struct BesideMpi4py;
