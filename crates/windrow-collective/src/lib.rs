//! Ranks and collectives, and matrix products that overlap with them.
//!
//! A [`Communicator`] is one rank of a group: [`Group`] makes the ranks of one process, a thread each, over shared memory or over a
//! [`Link`] of a given speed. [`Fused`] binds a rank to a thread that communicates, and runs products and collectives at the same time, tile by
//! tile: [`matmul_all_reduce`](Fused::matmul_all_reduce), [`matmul_reduce_scatter`](Fused::matmul_reduce_scatter) and
//! [`all_gather_matmul`](Fused::all_gather_matmul). [`Tiles`] says how they are cut; a [`Profile`], measured once, finds the best cut,
//! which may be none.
//!
//! ```
//! use std::thread;
//! use windrow_collective::{Fused, Group, MatMut, MatRef, Tiles};
//!
//! // Each of two ranks holds half of the inner axis of a 4 x 2 times 2 x 3 product.
//! let results = thread::scope(|scope| {
//!     let ranks = Group::new(2).ranks();
//!     let running: Vec<_> = ranks
//!         .into_iter()
//!         .map(|rank| {
//!             scope.spawn(move || {
//!                 let mut fused = Fused::new(rank)?;
//!                 let (a, b, mut c) = ([1.0_f32, 2.0, 3.0, 4.0], [1.0_f32, 0.0, 2.0], [0.0; 12]);
//!                 let (a, b) = (MatRef::new(&a, 4, 1), MatRef::new(&b, 1, 3));
//!                 fused.matmul_all_reduce(a, b, MatMut::new(&mut c, 4, 3), &Tiles::Uniform(2))?;
//!                 Ok::<_, windrow_collective::Error>(c)
//!             })
//!         })
//!         .collect();
//!     running.into_iter().map(|thread| thread.join().unwrap()).collect::<Result<Vec<_>, _>>()
//! })?;
//! assert_eq!(results, [[2.0, 0.0, 4.0, 4.0, 0.0, 8.0, 6.0, 0.0, 12.0, 8.0, 0.0, 16.0]; 2]);
//! # Ok::<(), windrow_collective::Error>(())
//! ```
//!
//! # Precision
//!
//! Products are computed by `ndarray` (`matrixmultiply`), tile by tile. Sums over ranks go by rank ([`Communicator`]), so they do not depend on the tiles, and
//! all ranks have the same bits. The order in which the *product* adds up its `k` terms is that of its kernels, which depends on the
//! shape of a tile. So where all sums are exact (integers, say, that fit the mantissa), results have the same bits however they are cut. In general an
//! element differs from its exact value by at most `(k + p) e s / (1 - (k + p) e)`: `s` is the sum of the magnitudes of its `k` products,
//! of all ranks together, `p` the number of ranks, and `e` half of the distance from 1 to the next number (`f32`: 2^-24, `f64`: 2^-53). For
//! `bf16` that is the bound of the sums in `f32`; a rank's product is rounded to `bf16` before it is communicated, and the sum over
//! ranks once more, which adds `2 * 2^-8 s` at most, and a little for both together: less than `(2^-7 + 2^-14) s` in all for
//! `k + p < 2^9`.
//!
//! # Faults
//!
//! An error or a panic in either lane of any rank stops both lanes of all ranks, and all of them return an error. The result is invalid
//! then: some of it may have been written. The ranks stay usable, unless one has left.
#![forbid(unsafe_code)]

mod agree;
mod buffer;
mod calibrate;
mod call;
mod communicator;
mod element;
mod error;
mod fused;
mod in_process;
mod lanes;
#[cfg(feature = "mpi")]
mod mpi;
mod product;
mod profile;
mod prompt;
mod refit;
mod tiles;
mod view;

pub use calibrate::{Calibration, Tried};
pub use call::Call;
pub use communicator::{Communicator, Pace};
pub use element::Element;
pub use error::Error;
pub use fused::{Fused, Outcome};
pub use in_process::{Group, Link, Paced, Rank};
pub use lanes::Trace;
#[cfg(feature = "mpi")]
pub use mpi::World;
pub use product::Float;
pub use profile::{Measured, Profile, Shape, Stage};
pub use refit::Refit;
pub use tiles::{Operation, Tiles};
pub use view::{MatMut, MatRef};
