//! All tests of the crate but those over MPI, which `mpirun` starts.

mod agreement;
mod common;
mod contention;
mod explain;
mod faults;
mod fused;
mod interpolate;
mod kernels;
mod operands;
mod profile;
mod profiles;
mod refit;
mod timeline;
