#![doc = include_str!("../README.md")]

mod kernel;
mod matrix;
mod number;
mod packed;
mod product;
#[cfg(test)]
mod tests;

pub use half::{bf16, f16};
pub use matrix::{Matrix, MatrixMut};
pub use number::Number;
pub use packed::{PackedB, Part};
pub use product::{Product, Right, Workspace};
