#![doc = include_str!("../README.md")]
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
