//! What the tests of several crates share, and what the example `stress` runs with them.
//!
//! Without features: values that are counted, random numbers, an executor of one future, processes. With `runtime`, windrow is known:
//! pools, random calls (`shapes`), teams (`teams`), overlapped runs (`overlaps`) and batched operations (`chaos`). Each of these is
//! data, made from a seed, and knows its serial result.

#[cfg(feature = "runtime")]
pub mod chaos;
#[cfg(feature = "contract")]
pub mod contract;
#[cfg(feature = "runtime")]
pub mod overlaps;
#[cfg(feature = "runtime")]
mod runtime;
#[cfg(feature = "runtime")]
pub mod shapes;
#[cfg(feature = "runtime")]
pub mod teams;

mod cases;
mod executor;
mod faults;
#[cfg(target_os = "linux")]
mod forked;
mod process;
mod rng;
mod seed;
mod time;

pub use cases::{cases, step};
pub use executor::{block_on, waker};
pub use faults::{Live, items, message_of};
#[cfg(target_os = "linux")]
pub use forked::{ForkedChild, Side, end_child, forked, split};
pub use process::{alone, has_no_threads, path_of};
pub use rng::{Rng, mix};
#[cfg(feature = "runtime")]
pub use runtime::{Sum, on_all, pools};
pub use seed::Seed;
pub use time::{spin, spin_until};
