//! The formats that measured times can be read from.

/// The contents of a `--cost` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum CostFormat {
    /// The columns stage, m and microseconds; or m, compute and communicate.
    Samples,
    /// The output of nccl-tests, such as all_reduce_perf, for the communication; other files are samples. Needs --element-bytes.
    NcclTests,
    /// op_summary from msProf, or kernel_details from PyTorch's Ascend profiler.
    Msprof,
    /// nsys stats --report cuda_gpu_trace --format csv.
    Nsys,
    /// Averages from the PyTorch profiler: the columns of key_averages().table(), or its attributes.
    Torch,
}

impl CostFormat {
    /// True if the files hold kernels, which are chosen by name.
    pub fn has_kernels(self) -> bool {
        !matches!(self, Self::Samples | Self::NcclTests)
    }
}
