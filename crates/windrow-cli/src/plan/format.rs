//! The formats that measured times can be read from.

use clap::ValueEnum;

/// What a file of `--cost` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The columns stage, m and microseconds.
    Samples,
    /// op_summary of msProf, or kernel_details of the Ascend profiler of PyTorch.
    Msprof,
    /// nsys stats --report cuda_gpu_trace --format csv.
    Nsys,
    /// Averages of the PyTorch profiler: the columns of key_averages().table(), or its attributes.
    Torch,
}
