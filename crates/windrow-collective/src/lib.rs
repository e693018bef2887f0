#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod agree;
mod buffer;
mod calibrate;
mod call;
mod communicator;
mod element;
mod error;
mod float;
mod fused;
mod in_process;
mod interpolate;
mod kernels;
mod lanes;
mod measuring;
#[cfg(feature = "mpi")]
mod mpi;
mod operands;
mod operation;
mod outcome;
mod post;
mod product;
mod profile;
mod profiles;
mod prompt;
mod refine;
mod refit;
mod stored;
mod tiles;
mod timeline;
mod view;

pub use calibrate::Calibration;
pub use call::Call;
pub use communicator::{Communicator, Pace};
pub use element::Element;
pub use error::Error;
pub use float::Float;
pub use fused::Fused;
pub use in_process::{Group, Link, Paced, Rank};
pub use kernels::Kernels;
pub use lanes::Trace;
#[cfg(feature = "mpi")]
pub use mpi::{MpiRank, World};
pub use operands::Operands;
pub use operation::Operation;
pub use outcome::Outcome;
pub use profile::Profile;
pub use profiles::{ProfileEntry, Profiles, ProfilesError, ProfilesErrorKind};
pub use refine::Tried;
pub use stored::{Interpolation, Measured, Refit, Shape, Stage};
pub use tiles::Tiles;
pub use timeline::MeasuredTimeline;
pub use view::{MatMut, MatRef};
pub use windrow_product::PackedB;
