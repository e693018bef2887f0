//! Side-by-side measurements: interleaved, verified, with a control.
//!
//! A comparison runs its arms in turn, `A B A B`, in alternating order, checks every answer, and reports the paired ratio with its spread.
//! A *control* arm runs the same code as the baseline. Its ratio shows how much two equal arms differ on this machine at this moment, and
//! smaller differences mean nothing.
#![forbid(unsafe_code)]

pub mod arms;
pub mod cpu;
pub mod measure;
pub mod neighbour;
pub mod programs;
pub mod record;
pub mod report;
pub mod rounds;
pub mod stats;
pub mod verdict;

pub use windrow_scenarios::{cells, work};

/// The book's page about rayon, compiled: its examples need rayon.
#[doc = include_str!("../../../book/src/from-rayon.md")]
#[cfg(doctest)]
struct FromRayon;

use std::fmt;
use std::process::ExitCode;

/// Ends a program: prints its error to stderr, if it has one.
pub fn exit_code(ran: Result<(), impl fmt::Display>) -> ExitCode {
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
