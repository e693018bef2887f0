//! The options of `windrow plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use windrow_tiling::planner::{CutFamily, PlanRequest, Spans};

use super::Refused;

pub(crate) const HELP: &str = "\
{about}

Examples:
  windrow plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv
  windrow plan all-gather-matmul --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv --contention 1.3,1.05 --json
  windrow plan matmul-reduce-scatter --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv --replay mine.json --svg t.svg
  windrow plan matmul-all-reduce --m 2048 --n 512 --k 512 --ranks 2 --calibrate in-process --link 100,50 --refine
  windrow plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost samples.csv --family two-sizes --max-tiles 16 \
    --table tiles.h --table-m 512..8192
  windrow plan matmul-all-reduce --m 2048 --n 512 --k 512 --ranks 2 --calibrate in-process --profile profiles.json
  windrow plan matmul-all-reduce --m 4096 --n 512 --k 512 --ranks 2 --profile profiles.json
  windrow plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost op_summary.csv --format msprof \
    --compute-kernel MatMul --communicate-kernel allReduce
  windrow plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost trace.csv --format nsys \
    --compute-kernel gemm --communicate-kernel ncclDevKernel_AllReduce --sizes 256,512,1024,2048
  windrow plan matmul-all-reduce --m 4096 --n 8192 --k 3072 --ranks 8 --cost gemm.csv --cost all_reduce_perf.txt \
    --format nccl-tests --element-bytes 2 --per-tile 12
  mpiexec -n 2 windrow plan matmul-all-reduce --m 2048 --n 512 --k 512 --ranks 2 --calibrate mpi

samples.csv:
  stage,m,microseconds
  compute,256,50.2
  communicate,256,110.8
  ... at least three sizes for each stage; a size may occur several times
or one size per line: m,compute,communicate or, with units, m,compute_ms,communicate_ms

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done (even if the answer is not to tile), 1 failed, 2 usage error, 65 bad input, \
73 an output cannot be created, 74 reading or writing failed.";

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) request: PlanRequest,

    /// Measured times of tiles of several sizes: CSV with the header stage,m,microseconds or m,compute,communicate, or the format that --format selects.
    /// Can be repeated.
    #[arg(long, value_name = "samples.csv", display_order = 4)]
    pub(crate) cost: Vec<PathBuf>,

    /// Measure the times now, on ranks that multiply f32 on the CPU. This takes as long as a few dozen tiles of each size (256 to
    /// 2048 rows), and needs memory for them.
    #[arg(long, value_name = "WHERE", value_enum, conflicts_with = "cost")]
    pub(crate) calibrate: Option<Where>,

    /// The link between the ranks of --calibrate in-process: its rate in megabytes per second, and its latency in microseconds. Without
    /// it, they share memory.
    #[arg(long, value_name = "MB/S,US", value_parser = link, requires = "calibrate", conflicts_with = "cost", allow_hyphen_values = true)]
    pub(crate) link: Option<(f64, f64)>,

    /// Write the samples that --calibrate took; --cost reads them.
    #[arg(long, value_name = "samples.csv", requires = "calibrate", conflicts_with = "cost")]
    pub(crate) samples_out: Option<PathBuf>,

    /// Run the three plans that are predicted to be the fastest, and keep the fastest.
    #[arg(long, requires = "calibrate", conflicts_with = "cost")]
    pub(crate) refine: bool,

    /// File of profiles of many operations. With --calibrate, the measurement is added to the file. Without it, the plan is made from the
    /// file, and n and k that were not measured are interpolated.
    #[arg(long, value_name = "profiles.json", conflicts_with = "cost")]
    pub(crate) profile: Option<PathBuf>,

    /// Name of the profile's machine; by default, the processor and the number of CPUs.
    #[arg(long, value_name = "NAME", requires = "profile")]
    pub(crate) machine: Option<String>,

    /// Name of the profile's link. By default, --calibrate names it after --link, and a plan uses the only link in the file.
    #[arg(long, value_name = "NAME", requires = "profile")]
    pub(crate) link_name: Option<String>,

    /// Also plan for n and k outside the measured range, with the rates of the nearest measured shape.
    #[arg(long, requires = "profile", conflicts_with = "calibrate")]
    pub(crate) extrapolate: bool,

    /// Element type of the profile to read; --calibrate measures f32.
    #[arg(long, value_name = "ELEMENT", default_value = "f32", requires = "profile", conflicts_with = "calibrate")]
    pub(crate) element: String,

    /// The operation is one kernel that fuses product and collective. Such a kernel is refused: plans are for two kernels that run in tiles.
    #[arg(long)]
    pub(crate) fused_kernel: bool,

    /// Write the tiles for the numbers of rows in --table-m, as CSV, or as a C header if the name ends in .h. Needs --family two-sizes.
    #[arg(long, value_name = "FILE", requires = "table_m")]
    pub(crate) table: Option<PathBuf>,

    /// Numbers of rows for --table: a list of numbers and ranges, such as 512,1024..8192 or 1024..8192..512. Without a step, a range
    /// advances by the alignment.
    #[arg(long, value_name = "M,FROM..TO..STEP", value_parser = Spans::parse, requires = "table", allow_hyphen_values = true)]
    pub(crate) table_m: Option<Spans>,

    /// Predict and compare this plan too: {"tiles": [512, 896, ...]}, as --json prints it or written by hand, or a table that --table wrote.
    /// Can be repeated.
    #[arg(long, value_name = "plan.json")]
    pub(crate) replay: Vec<PathBuf>,

    /// Compare with a run of the operation that a program measured, and draw it next to its prediction: the JSON of a
    /// windrow_collective::MeasuredTimeline. Can be repeated.
    #[arg(long, value_name = "run.json")]
    pub(crate) measured: Vec<PathBuf>,

    /// Print the plan as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw which tile is in which lane at which time.
    #[arg(long, value_name = "timeline.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// Write the same timeline as trace events, for Perfetto or chrome://tracing.
    #[arg(long, value_name = "t.json")]
    pub(crate) trace: Option<PathBuf>,

    /// Replace existing files.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

impl Options {
    /// The options with rows padded to a multiple of the number of ranks that divide them. A calibration runs the operation, which refuses
    /// other rows.
    pub(super) fn padded(self) -> Self {
        let request = if self.calibrate.is_none() { self.request.padded() } else { self.request };
        let is_profiled = self.calibrate.is_some() || self.profile.is_some();
        Self { request: PlanRequest { is_profiled, ..request }, ..self }
    }

    /// Checks that no single flag can express.
    pub(super) fn check(&self) -> Result<(), Refused> {
        if self.fused_kernel {
            return Err(Refused::usage(
                "a plan is for two kernels that run in tiles, not for one kernel that fuses both\n\
                 a fused kernel may use another algorithm, and launches nothing per tile: it may take less time\n\
                 than `bound`, the time of the slower of the two measured kernels, or more time than both in succession\n\
                 hint: time it at this shape; omit --fused-kernel to plan the two kernels for comparison",
            ));
        }
        self.request.check()?;
        if self.calibrate == Some(Where::Mpi) && self.link.is_some() {
            return Err(Refused::usage(
                "--link simulates a link between ranks of this process, but MPI ranks already have one\n\
                 hint: omit --link, or pass --calibrate in-process",
            ));
        }
        if self.table.is_some() && self.request.family == CutFamily::Any {
            return Err(Refused::usage(
                "a table has the columns tileM, tileNum, tailM and tailNum, which cannot hold tiles of three sizes\n\
                 hint: add --family two-sizes",
            ));
        }
        if self.refine && self.request.family == CutFamily::TwoSizes {
            return Err(Refused::usage(
                "--refine cannot be combined with --family two-sizes, because --refine runs cuts of any family\n\
                 hint: omit one of them",
            ));
        }
        if self.calibrate.is_some() && !self.request.lists_rule() {
            return Err(Refused::usage(format_args!(
                "cutting {} rows at multiples of {} may produce too many tiles to list, so --calibrate cannot be used\n\
                 hint: pass a larger --align",
                self.request.m,
                self.request.aligned()
            )));
        }
        Ok(())
    }
}

/// The place of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// Threads of this process.
    InProcess,
    /// Processes that mpiexec started, each running this same command (if built with the mpi feature).
    Mpi,
}

fn link(text: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let numbers = text.split_once(',').and_then(|(rate, latency)| Some((number(rate)?, number(latency)?)));
    // From a byte a second to more than any link has; up to an hour.
    match numbers.filter(|(rate, latency)| (1e-6..=1e9).contains(rate) && (0.0..=3.6e9).contains(latency)) {
        Some(link) => Ok(link),
        None => Err("expected megabytes per second and microseconds of latency, such as 100,50".to_owned()),
    }
}
