//! Loops whose outer level must be sequential: decompositions, time steps, paths. Each runs sequentially, as rounds of a team, and on
//! rayon, with the same kernels.
//!
//! The rounds of a problem are written once; its versions differ in the threads that work on the parts. All versions give the bits of the
//! sequential version.

pub mod blocked;
pub mod cholesky;
pub mod inputs;
pub mod kernel;
pub mod library;
pub mod lu;
mod rayon;
pub mod sweeps;
mod team;
pub mod versions;
