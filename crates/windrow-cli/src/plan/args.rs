//! The options of `windrow plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use windrow_tiling::cost::Fitting;
use windrow_tiling::tile::{Contention, Order};

use super::Refused;
use super::format::Format;
use super::spans::Spans;

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
  ... three sizes of each stage at least; sizes may be repeated
or a size a line: m,compute,communicate, also with a unit: m,compute_ms,communicate_ms

{usage-heading} {usage}

{all-args}{after-help}
";

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 done (also if the answer is not to tile), 1 failed, 2 usage, 65 bad input, 73 an output cannot be created, \
74 reading or writing failed.";

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The operation: on every rank an m x k matrix times a k x n matrix, and a collective before or after it. Underscores are accepted
    /// too.
    #[arg(value_name = "OP", value_enum)]
    pub(crate) operation: Operation,

    /// Rows of the product, of all ranks together: they are cut into tiles. If rows are divided among ranks (matmul-reduce-scatter,
    /// all-gather-matmul), they are padded to a multiple of the number of ranks; --calibrate needs such a multiple.
    #[arg(long, value_name = "ROWS", value_parser = at_least_1, allow_negative_numbers = true)]
    pub(crate) m: u64,

    /// Columns of the product that one rank computes.
    #[arg(long, value_name = "COLUMNS", value_parser = at_least_1, allow_negative_numbers = true)]
    pub(crate) n: u64,

    /// The dimension that is summed over: the part of it that one rank has.
    #[arg(long, value_name = "DEPTH", value_parser = at_least_1, allow_negative_numbers = true)]
    pub(crate) k: u64,

    /// Ranks of the collective, 2 or more. Measure the samples with the same number.
    #[arg(long, value_name = "RANKS", value_parser = ranks, allow_negative_numbers = true)]
    pub(crate) ranks: u64,

    /// Measured times of tiles of some sizes: CSV with the header stage,m,microseconds or m,compute,communicate, or what --format names.
    /// Can be repeated.
    #[arg(long, value_name = "samples.csv")]
    pub(crate) cost: Vec<PathBuf>,

    /// What the files of --cost hold: samples, or the table of a profiler, whose kernels are chosen by name.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "samples", requires = "cost")]
    pub(crate) format: Format,

    /// Bytes of an element of the operation, such as 2 for half precision. Sizes in bytes become rows with it: a row has n elements, or k
    /// if it is gathered.
    #[arg(long, value_name = "BYTES", value_parser = at_least_1, requires = "cost", allow_negative_numbers = true)]
    pub(crate) element_bytes: Option<u64>,

    /// Fixed cost of a product and of a collective, in microseconds, for a stage that was measured at one size. If not given, 5,10 is
    /// assumed, and half the measured time at most; the plan then says what tiles would gain, and does not tile.
    #[arg(long, value_name = "C,M", value_parser = fixed_costs, requires = "cost", allow_hyphen_values = true)]
    pub(crate) fixed_costs: Option<(f64, f64)>,

    /// The kernels that compute: a part of their names, in which * stands for any text. Can be repeated.
    #[arg(long, value_name = "PATTERN", requires = "cost")]
    pub(crate) compute_kernel: Vec<String>,

    /// The kernels that communicate: a part of their names. Can be repeated.
    #[arg(long, value_name = "PATTERN", requires = "cost")]
    pub(crate) communicate_kernel: Vec<String>,

    /// The rows of the kernels of each lane, in order of their start, such as 256,512,1024. Every size stands for as many kernels. Without
    /// it, the first input shape with two dimensions tells the rows.
    #[arg(long, value_name = "ROWS,ROWS", value_parser = at_least_1, value_delimiter = ',', requires = "cost", allow_negative_numbers = true)]
    pub(crate) sizes: Vec<u64>,

    /// The column with the rows of a kernel; the input shapes if not given.
    #[arg(long, value_name = "NAME", requires = "cost", conflicts_with = "sizes")]
    pub(crate) size_column: Option<String>,

    /// The column with the time of a kernel, in microseconds unless its name or its fields have a unit; the usual one of the format if not
    /// given.
    #[arg(long, value_name = "NAME", requires = "cost")]
    pub(crate) time_column: Option<String>,

    /// Measure the times now: on ranks that multiply f32 on the CPU. Takes as long as some dozens of tiles of each size (256 to 2048
    /// rows), and their memory.
    #[arg(long, value_name = "WHERE", value_enum, conflicts_with = "cost")]
    pub(crate) calibrate: Option<Where>,

    /// The link between the ranks of --calibrate in-process: its rate in megabytes a second, and its latency in microseconds. Without
    /// it they share memory.
    #[arg(long, value_name = "MB/S,US", value_parser = link, requires = "calibrate", conflicts_with = "cost", allow_hyphen_values = true)]
    pub(crate) link: Option<(f64, f64)>,

    /// Write the samples that --calibrate took; --cost reads them.
    #[arg(long, value_name = "samples.csv", requires = "calibrate", conflicts_with = "cost")]
    pub(crate) samples_out: Option<PathBuf>,

    /// Run the three plans that are predicted to be the fastest, and keep the one that is fastest.
    #[arg(long, requires = "calibrate", conflicts_with = "cost")]
    pub(crate) refine: bool,

    /// Profiles of many operations. With --calibrate, this measurement is added to the file; without it and without --cost, the plan is
    /// made from the file; n and k that were not measured are interpolated.
    #[arg(long, value_name = "profiles.json", conflicts_with = "cost")]
    pub(crate) profile: Option<PathBuf>,

    /// The machine of the profile; its processor and number of CPUs if not given.
    #[arg(long, value_name = "NAME", requires = "profile")]
    pub(crate) machine: Option<String>,

    /// The link of the profile. If not given, --calibrate names it after --link, and the only one in the file is read.
    #[arg(long, value_name = "NAME", requires = "profile")]
    pub(crate) link_name: Option<String>,

    /// Plan also for n and k outside of the range of the measured ones, with the rates of the nearest measured shape.
    #[arg(long, requires = "profile", conflicts_with = "calibrate")]
    pub(crate) extrapolate: bool,

    /// The elements of the profile that is read; --calibrate measures f32.
    #[arg(long, value_name = "ELEMENT", default_value = "f32", requires = "profile", conflicts_with = "calibrate")]
    pub(crate) element: String,

    /// Slowdown of computation and communication while both run; as calibrated, or 1,1 if not given.
    #[arg(long, value_name = "C,M", value_parser = contention, allow_hyphen_values = true)]
    pub(crate) contention: Option<Contention>,

    /// Time by which a tile takes longer in each lane than its sample, in microseconds: a launch, a wait, a signal. An operation in one
    /// tile does not pay it.
    #[arg(long, value_name = "US", value_parser = micros, default_value = "0", conflicts_with_all = ["calibrate", "profile"], allow_hyphen_values = true)]
    pub(crate) per_tile: f64,

    /// The operation is one kernel that fuses product and collective. Such a kernel is refused: plans are for two kernels that run in tiles.
    #[arg(long)]
    pub(crate) fused_kernel: bool,

    /// The share by which a fit may miss its samples before the plan is refused: 30 % with --cost; any share with --profile or --calibrate, which
    /// repeats up to 12 passes to get below 10 %, or below this. Beyond 10 % a note says what that means for the plan.
    #[arg(long, value_name = "P%", value_parser = percent, allow_hyphen_values = true)]
    pub(crate) tolerance: Option<f64>,

    /// Tiles begin at multiples of this many rows; if rows are divided among ranks, at multiples of it that all ranks share evenly.
    #[arg(long, value_name = "ROWS", default_value = "128", value_parser = at_least_1, allow_negative_numbers = true)]
    pub(crate) align: u64,

    /// Maximum number of tiles; any number if not given.
    #[arg(long, value_name = "N", value_parser = tiles, allow_negative_numbers = true)]
    pub(crate) max_tiles: Option<usize>,

    /// The cuts to choose from. two-sizes: equal tiles, and one tile of another size before or after them, as kernels with the parameters
    /// tileM, tileNum, tailM and tailNum run them.
    #[arg(long, value_name = "FAMILY", value_enum, default_value = "any")]
    pub(crate) family: Family,

    /// Minimum number of rows of a tile; if not given, the smallest size that was measured in both stages. Times of smaller tiles are
    /// extrapolated.
    #[arg(long, value_name = "ROWS", value_parser = at_least_1, allow_negative_numbers = true)]
    pub(crate) min_tile: Option<u64>,

    /// Write the tiles for the numbers of rows of --table-m: CSV, or a header of C if the name ends in .h. Needs --family two-sizes.
    #[arg(long, value_name = "FILE", requires = "table_m")]
    pub(crate) table: Option<PathBuf>,

    /// Numbers of rows for --table: a list of numbers and ranges, 512,1024..8192 or 1024..8192..512. Without a step, ranges go by the
    /// alignment.
    #[arg(long, value_name = "M,FROM..TO..STEP", value_parser = Spans::parse, requires = "table", allow_hyphen_values = true)]
    pub(crate) table_m: Option<Spans>,

    /// Predict and compare this plan too: {"tiles": [512, 896, ...]}, as --json prints it or written by hand, or a table that --table wrote.
    /// Can be repeated.
    #[arg(long, value_name = "plan.json")]
    pub(crate) replay: Vec<PathBuf>,

    /// Compare with a run of the operation that a program measured, and draw it beside its prediction: the JSON of a
    /// windrow_collective::MeasuredTimeline. Can be repeated.
    #[arg(long, value_name = "run.json")]
    pub(crate) measured: Vec<PathBuf>,

    /// Print the plan as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw which tile is in which lane at which time.
    #[arg(long, value_name = "timeline.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// Write the same as trace events, for Perfetto or chrome://tracing.
    #[arg(long, value_name = "t.json")]
    pub(crate) trace: Option<PathBuf>,

    /// Replace existing files.
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Rows that were added to those of --m, so that ranks get equal numbers.
    #[arg(skip)]
    pub(super) padding: u64,
}

/// Maximum number of tiles of the short-long rule. It is the only alternative whose tiles do not get coarser with many rows; a list of
/// so many tiles is some MiB.
pub(super) const RULE_TILES: u64 = 1 << 20;

impl Options {
    /// Whether the tiles of the short-long rule can be listed: none of them is shorter than the alignment.
    pub(super) fn lists_rule(&self) -> bool {
        self.m / self.aligned() < RULE_TILES
    }

    /// Number of ranks that rows are divided among: tiles are multiples of it. 1 if every rank has all rows.
    pub(super) fn unit(&self) -> u64 {
        match self.operation {
            Operation::MatmulAllReduce => 1,
            Operation::MatmulReduceScatter | Operation::AllGatherMatmul => self.ranks,
        }
    }

    /// The share by which a fit may miss its samples.
    pub(super) fn limit(&self) -> f64 {
        let usual =
            if self.calibrate.is_some() || self.profile.is_some() { Fitting::UNLIMITED } else { Fitting::default() };
        self.tolerance.unwrap_or(usual.limit)
    }

    /// Whether plans have no other limits than the alignment.
    pub(super) fn without_limits(&self) -> bool {
        self.max_tiles.is_none() && self.min_tile.is_none() && self.contention.is_none() && self.family == Family::Any
    }

    /// The alignment of tiles: the one requested, with as many rows for each rank.
    pub(super) fn aligned(&self) -> u64 {
        // Larger than any operation; `check` refuses it.
        common_multiple(self.align, self.unit()).unwrap_or(u64::MAX)
    }

    /// The options with rows padded to a multiple of the ranks that they are divided among. A calibration runs the operation, which refuses
    /// other rows.
    pub(super) fn padded(self) -> Self {
        let rows = self.m.checked_next_multiple_of(self.unit()).filter(|_| self.calibrate.is_none()).unwrap_or(self.m);
        Self { padding: rows - self.m, m: rows, ..self }
    }

    /// Bytes of a row that is communicated: of the result, or of the operand that is gathered. `None` if the bytes of an element are unknown.
    pub(super) fn row_bytes(&self) -> Option<u64> {
        let columns = if self.operation == Operation::AllGatherMatmul { self.k } else { self.n };
        columns.checked_mul(self.element_bytes?)
    }

    /// Checks that no single flag can express.
    pub(super) fn check(&self) -> Result<(), Refused> {
        let Self { m, n, k, .. } = *self;
        if self.fused_kernel {
            return Err(Refused::usage(
                "a plan is for two kernels that run in tiles, not for one kernel that fuses both\n\
                 a fused kernel may use another algorithm than the measured collective, and pays no launch for a tile: it may take less\n\
                 than `bound`, which is the longer of the two measured kernels, or more than both one after the other\n\
                 hint: time it at this shape; without --fused-kernel, the plan of the two kernels is printed for comparison",
            ));
        }
        for (name, rows, columns) in [("m x k", m, k), ("k x n", k, n), ("m x n", m, n)] {
            // The smallest elements have two bytes.
            let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(2));
            if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
                return Err(Refused::usage(format_args!(
                    "a matrix of {name} = {rows} x {columns} is larger than any memory\nhint: check --m, --n and --k"
                )));
            }
        }
        let (operation, ranks, unit) = (self.operation.name(), self.ranks, self.unit());
        if !m.is_multiple_of(unit) {
            let below = Some(m - m % unit).filter(|&rows| rows > 0).map(|rows| format!("{rows} or "));
            return Err(Refused::usage(format_args!(
                "{m} rows cannot be dealt out to {ranks} ranks: {operation} gives each rank as many\n\
                 hint: give an --m that is a multiple of {ranks}, such as {}{}",
                below.unwrap_or_default(),
                u128::from(m).next_multiple_of(u128::from(unit))
            )));
        }
        if common_multiple(self.align, unit).is_none() {
            return Err(Refused::usage(format_args!(
                "no number of rows that can be counted is a multiple of {} and of {ranks} ranks\nhint: give a smaller --align",
                self.align
            )));
        }
        let of_kernels =
            !(self.compute_kernel.is_empty() && self.communicate_kernel.is_empty() && self.sizes.is_empty());
        if !self.format.has_kernels() && (of_kernels || self.size_column.is_some() || self.time_column.is_some()) {
            return Err(Refused::usage(
                "kernels, their sizes and their columns are those of a profiler's table, and samples have none\n\
                 hint: name what the file holds with --format msprof, nsys or torch",
            ));
        }
        if self.calibrate == Some(Where::Mpi) && self.link.is_some() {
            return Err(Refused::usage(
                "--link slows down ranks of this process, and those of MPI already have a link\n\
                 hint: leave it out, or choose --calibrate in-process",
            ));
        }
        if self.table.is_some() && self.family == Family::Any {
            return Err(Refused::usage(
                "a table has the columns tileM, tileNum, tailM and tailNum, which hold no tiles of three sizes\n\
                 hint: add --family two-sizes",
            ));
        }
        if self.refine && self.family == Family::TwoSizes {
            return Err(Refused::usage(
                "--refine runs cuts of any family\nhint: leave out --refine, or --family two-sizes",
            ));
        }
        if self.calibrate.is_some() && !self.lists_rule() {
            return Err(Refused::usage(format_args!(
                "{m} rows at multiples of {} may be {RULE_TILES} tiles or more, which are not calibrated for\n\
                 hint: give a larger --align",
                self.aligned()
            )));
        }
        Ok(())
    }
}

/// The least common multiple of both, which are 1 or more.
fn common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// The cuts to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    /// All cuts.
    Any,
    /// Equal tiles, and one tile of another size before or after them.
    TwoSizes,
}

impl Family {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::TwoSizes => "two-sizes",
        }
    }
}

/// Where to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// Threads of this process.
    InProcess,
    /// Processes that mpiexec has started, each with this same command (if built with the feature mpi).
    Mpi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Operation {
    /// The product, summed over all ranks, to all ranks.
    #[value(alias = "matmul_all_reduce")]
    MatmulAllReduce,
    /// The product, summed over all ranks, to each rank its rows.
    #[value(alias = "matmul_reduce_scatter")]
    MatmulReduceScatter,
    /// The rows of all ranks, times a matrix.
    #[value(alias = "all_gather_matmul")]
    AllGatherMatmul,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MatmulAllReduce => "matmul-all-reduce",
            Self::MatmulReduceScatter => "matmul-reduce-scatter",
            Self::AllGatherMatmul => "all-gather-matmul",
        }
    }

    pub(super) fn order(self) -> Order {
        match self {
            Self::MatmulAllReduce | Self::MatmulReduceScatter => Order::ComputeFirst,
            Self::AllGatherMatmul => Order::CommunicateFirst,
        }
    }
}

fn at_least_1(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err("give a whole number, 1 at least".to_owned()),
    }
}

fn ranks(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(1) => {
            Err("one rank has no other to communicate with, so there is nothing to plan; give 2 at least".to_owned())
        }
        Ok(ranks @ 2..) => Ok(ranks),
        _ => Err("give a whole number of ranks, 2 at least".to_owned()),
    }
}

fn tiles(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(tiles @ 1..) => Ok(tiles),
        _ => Err("give a whole number, 1 at least, which is not to tile".to_owned()),
    }
}

fn link(text: &str) -> Result<(f64, f64), String> {
    let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    let numbers = text.split_once(',').and_then(|(rate, latency)| Some((number(rate)?, number(latency)?)));
    // From a byte a second to more than any link has; up to an hour.
    match numbers.filter(|(rate, latency)| (1e-6..=1e9).contains(rate) && (0.0..=3.6e9).contains(latency)) {
        Some(link) => Ok(link),
        None => Err("give megabytes a second and microseconds of latency, such as 100,50".to_owned()),
    }
}

/// A share in percent, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse().ok();
    match number.filter(|number: &f64| number.is_finite() && *number > 0.0) {
        Some(number) => Ok(number / 100.0),
        None => Err("give a number above 0, such as 40%".to_owned()),
    }
}

fn micros(text: &str) -> Result<f64, String> {
    match text.trim().parse().ok().filter(|micros: &f64| micros.is_finite() && *micros >= 0.0) {
        Some(micros) => Ok(micros),
        None => Err("give microseconds, 0 or more, such as 12.5".to_owned()),
    }
}

fn fixed_costs(text: &str) -> Result<(f64, f64), String> {
    let costs = text
        .split_once(',')
        .and_then(|(compute, communicate)| Some((micros(compute).ok()?, micros(communicate).ok()?)));
    costs.ok_or_else(|| "give the microseconds of a product and of a collective, such as 5,10".to_owned())
}

fn contention(text: &str) -> Result<Contention, String> {
    let factor = |text: &str| text.trim().parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
    let factors =
        text.split_once(',').and_then(|(compute, communicate)| Some((factor(compute)?, factor(communicate)?)));
    match factors {
        Some((compute, communicate)) => Ok(Contention { compute, communicate }),
        None => Err("give the factor of computation and that of communication, such as 1.3,1.05; both are 1 at least"
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_two_spellings_and_one_name() {
        for operation in Operation::value_variants() {
            let name = operation.name();
            for spelling in [name.to_owned(), name.replace('-', "_")] {
                assert_eq!(Operation::from_str(&spelling, false), Ok(*operation));
            }
            assert_eq!(operation.to_possible_value().unwrap().get_name(), name);
        }
    }

    #[test]
    fn numbers() {
        assert_eq!((at_least_1("1"), at_least_1("4096")), (Ok(1), Ok(4096)));
        for text in ["", "0", "-1", "1.5", "1e3", "x", "99999999999999999999"] {
            assert!(at_least_1(text).is_err() && ranks(text).is_err() && tiles(text).is_err(), "{text}");
        }
        assert_eq!((ranks("2"), ranks("1").is_err(), tiles("1")), (Ok(2), true, Ok(1)));
    }

    #[test]
    fn multiples() {
        assert_eq!(
            [(4, 6), (128, 8), (8, 128), (5, 1), (1, 7), (3, 7)].map(|(a, b)| common_multiple(a, b)),
            [Some(12), Some(128), Some(128), Some(5), Some(7), Some(21)]
        );
        assert_eq!((common_multiple(u64::MAX, u64::MAX), common_multiple(u64::MAX, 2)), (Some(u64::MAX), None));
    }

    #[test]
    fn shares() {
        assert_eq!([percent("40%"), percent("40"), percent("0.5 %")], [Ok(0.4), Ok(0.4), Ok(0.005)]);
        for text in ["", "%", "0", "0%", "-1%", "nan", "inf", "x", "40%%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times() {
        assert_eq!([micros("0"), micros(" 12.5 ")], [Ok(0.0), Ok(12.5)]);
        assert_eq!(fixed_costs("5, 10.5"), Ok((5.0, 10.5)));
        for text in ["", "-1", "nan", "inf", "5us", "x"] {
            assert!(
                micros(text).is_err() && fixed_costs(text).is_err() && fixed_costs(&format!("1,{text}")).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn factors() {
        assert_eq!(contention("1,1"), Ok(Contention::NONE));
        assert_eq!(contention("1.3, 1.05"), Ok(Contention { compute: 1.3, communicate: 1.05 }));
        for text in ["", "1", "1,", ",1", "1,2,3", "0.9,1", "1,0.9", "-1,1", "nan,1", "1,inf", "a,b"] {
            assert!(contention(text).is_err(), "{text}");
        }
    }
}
