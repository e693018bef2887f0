//! Loops whose outer level must be sequential: decompositions, time steps, paths. Each sequentially, as rounds of a team, and on rayon,
//! with the same kernels.
//!
//! The rounds of a problem are written once; its versions differ in who works on their parts. All give the bits of the sequential
//! version.

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
