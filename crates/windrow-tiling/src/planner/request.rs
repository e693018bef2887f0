//! The operation to plan, and the limits of a plan.

#[cfg(feature = "command")]
use parsers::{at_least_1, contention, fixed_costs, micros, percent, ranks, tiles};

use super::Unplanned;
use super::format::CostFormat;
use crate::Rows;
use crate::cost::Fitting;
use crate::tile::{Contention, Order, counted_rows};

/// An operation to plan, the reading of its measured times, and the limits of the plan.
///
/// With the feature `command`, the fields are the options of `windrow plan`; those that name other options are the front end's.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "command", derive(clap::Args))]
pub struct PlanRequest {
    /// The operation: on every rank an m x k matrix times a k x n matrix, with a collective before or after it.
    /// Underscores are accepted, too.
    #[cfg_attr(feature = "command", arg(value_name = "OP", value_enum))]
    pub operation: FusedOperation,

    /// Rows of the product over all ranks, which are cut into tiles. If rows are divided among ranks
    /// (matmul-reduce-scatter, all-gather-matmul), they are padded to a multiple of the number of ranks; --calibrate
    /// needs such a multiple.
    #[cfg_attr(feature = "command", arg(long, value_name = "ROWS", value_parser = at_least_1, allow_negative_numbers = true))]
    pub m: u64,

    /// Columns of the product that one rank computes.
    #[cfg_attr(feature = "command", arg(long, value_name = "COLUMNS", value_parser = at_least_1, allow_negative_numbers = true))]
    pub n: u64,

    /// The part of the summed dimension that one rank holds.
    #[cfg_attr(feature = "command", arg(long, value_name = "DEPTH", value_parser = at_least_1, allow_negative_numbers = true))]
    pub k: u64,

    /// Number of ranks in the collective, at least 2. Measure the samples with the same number.
    #[cfg_attr(feature = "command", arg(long, value_name = "RANKS", value_parser = ranks, allow_negative_numbers = true))]
    pub ranks: u64,

    /// Contents of the --cost files: samples, or a profiler's table, whose kernels are chosen by name.
    #[cfg_attr(
        feature = "command",
        arg(long, value_name = "FORMAT", value_enum, default_value = "samples", requires = "cost")
    )]
    pub format: CostFormat,

    /// Size of an element of the operation in bytes, such as 2 for half precision. It converts sizes in bytes to rows:
    /// a row has n elements, or k if it is gathered.
    #[cfg_attr(feature = "command", arg(long, value_name = "BYTES", value_parser = at_least_1, requires = "cost",
        allow_negative_numbers = true))]
    pub element_bytes: Option<u64>,

    /// Fixed costs of a product and of a collective, in microseconds, for a stage that was measured at one size. By
    /// default 5,10 is assumed, but at most half the measured time; the plan then reports what tiles would gain, and
    /// does not tile.
    #[cfg_attr(feature = "command", arg(long, value_name = "C,M", value_parser = fixed_costs, requires = "cost",
        allow_hyphen_values = true))]
    pub fixed_costs: Option<(f64, f64)>,

    /// The kernels that compute: a part of their names, in which * matches any text. Can be repeated.
    #[cfg_attr(feature = "command", arg(long, value_name = "PATTERN", requires = "cost"))]
    pub compute_kernel: Vec<String>,

    /// The kernels that communicate: a part of their names. Can be repeated.
    #[cfg_attr(feature = "command", arg(long, value_name = "PATTERN", requires = "cost"))]
    pub communicate_kernel: Vec<String>,

    /// The rows of each lane's kernels, in the order in which the kernels started, such as 256,512,1024. Every size
    /// stands for the same number of kernels. By default, the first input shape with two dimensions gives the rows.
    #[cfg_attr(feature = "command", arg(long, value_name = "ROWS,ROWS", value_parser = at_least_1, value_delimiter = ',',
        requires = "cost", allow_negative_numbers = true))]
    pub sizes: Vec<u64>,

    /// The column with a kernel's rows; by default, the input shapes.
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", requires = "cost", conflicts_with = "sizes"))]
    pub size_column: Option<String>,

    /// The column with a kernel's time, in microseconds unless its name or its fields have a unit; by default, the
    /// format's usual column.
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", requires = "cost"))]
    pub time_column: Option<String>,

    /// Slowdown of computation and communication while both run; by default, as calibrated, or 1,1.
    #[cfg_attr(feature = "command", arg(long, value_name = "C,M", value_parser = contention, allow_hyphen_values = true))]
    pub contention: Option<Contention>,

    /// Time that a tile takes in each lane beyond that of its sample, in microseconds: a launch, a wait, a signal. An
    /// operation in one tile does not incur it.
    #[cfg_attr(feature = "command", arg(long, value_name = "US", value_parser = micros, default_value = "0",
        conflicts_with_all = ["calibrate", "profile"], allow_hyphen_values = true))]
    pub per_tile: f64,

    /// The share by which a fit may miss its samples before the plan is refused. By default, 30 % with --cost, and any
    /// share with --profile or --calibrate. --calibrate repeats up to 12 passes to get below 10 %, or below this share.
    /// Above 10 %, a note says what the error means for the plan.
    #[cfg_attr(feature = "command", arg(long, value_name = "P%", value_parser = percent, allow_hyphen_values = true))]
    pub tolerance: Option<f64>,

    /// Tiles begin at multiples of this many rows; if rows are divided among ranks, at multiples that all ranks share
    /// evenly.
    #[cfg_attr(feature = "command", arg(long, value_name = "ROWS", default_value = "128", value_parser = at_least_1,
        allow_negative_numbers = true))]
    pub align: u64,

    /// Maximum number of tiles; unlimited by default.
    #[cfg_attr(feature = "command", arg(long, value_name = "N", value_parser = tiles, allow_negative_numbers = true))]
    pub max_tiles: Option<usize>,

    /// The cuts to choose from. two-sizes: tiles of equal size, with one tile of another size before or after them, for
    /// kernels with the parameters tileM, tileNum, tailM and tailNum.
    #[cfg_attr(feature = "command", arg(long, value_name = "FAMILY", value_enum, default_value = "any"))]
    pub family: CutFamily,

    /// Minimum number of rows of a tile; by default, the smallest size that was measured in both stages. Times of
    /// smaller tiles are extrapolated.
    #[cfg_attr(feature = "command", arg(long, value_name = "ROWS", value_parser = at_least_1, allow_negative_numbers = true))]
    pub min_tile: Option<u64>,

    /// True if the times are those of a profile or of a calibration: their fit may miss samples by any share.
    #[cfg_attr(feature = "command", arg(skip))]
    pub is_profiled: bool,

    /// Rows that were added to those asked for, so that ranks get equal numbers.
    #[cfg_attr(feature = "command", arg(skip))]
    pub padding: u64,
}

/// Maximum number of tiles of the short-long rule. It is the only alternative whose tiles do not get coarser with many rows; a list of
/// N tiles is some MiB.
pub(super) const RULE_TILES: u64 = 1 << 20;

impl PlanRequest {
    /// An operation whose tiles begin at multiples of 128 rows, without other limits.
    pub fn new(operation: FusedOperation, [m, n, k]: [u64; 3], ranks: u64) -> Self {
        Self {
            operation,
            m,
            n,
            k,
            ranks,
            format: CostFormat::Samples,
            element_bytes: None,
            fixed_costs: None,
            compute_kernel: Vec::new(),
            communicate_kernel: Vec::new(),
            sizes: Vec::new(),
            size_column: None,
            time_column: None,
            contention: None,
            per_tile: 0.0,
            tolerance: None,
            align: 128,
            max_tiles: None,
            family: CutFamily::Any,
            min_tile: None,
            is_profiled: false,
            padding: 0,
        }
    }

    /// True if the tiles of the short-long rule can be listed: none of them is shorter than the alignment.
    pub fn lists_rule(&self) -> bool {
        self.m / self.aligned() < RULE_TILES
    }

    /// Number of ranks that rows are divided among: tiles are multiples of it. 1 if every rank has all rows.
    pub fn unit(&self) -> u64 {
        match self.operation {
            FusedOperation::MatmulAllReduce => 1,
            FusedOperation::MatmulReduceScatter | FusedOperation::AllGatherMatmul => self.ranks,
        }
    }

    /// The share by which a fit may miss its samples.
    pub fn limit(&self) -> f64 {
        let usual = if self.is_profiled { Fitting::UNLIMITED } else { Fitting::default() };
        self.tolerance.unwrap_or(usual.limit)
    }

    /// True if plans have no other limits than the alignment.
    pub fn without_limits(&self) -> bool {
        self.max_tiles.is_none()
            && self.min_tile.is_none()
            && self.contention.is_none()
            && self.family == CutFamily::Any
    }

    /// The alignment of tiles: the one requested, with as many rows for each rank.
    pub fn aligned(&self) -> u64 {
        // Larger than any operation; `check` refuses it.
        common_multiple(self.align, self.unit()).unwrap_or(u64::MAX)
    }

    /// The request with rows padded to a multiple of the ranks that they are divided among.
    #[must_use]
    pub fn padded(self) -> Self {
        let rows = self.m.checked_next_multiple_of(self.unit()).unwrap_or(self.m);
        Self { padding: rows - self.m, m: rows, ..self }
    }

    /// Bytes of a row that is communicated: of the result, or of the operand that is gathered. `None` if the bytes of an element are unknown.
    pub(super) fn row_bytes(&self) -> Option<u64> {
        let columns = if self.operation == FusedOperation::AllGatherMatmul { self.k } else { self.n };
        columns.checked_mul(self.element_bytes?)
    }

    /// Checks that no single field can express.
    ///
    /// # Errors
    /// Matrices larger than any memory, rows that cannot be dealt out, and fields that contradict the format.
    pub fn check(&self) -> Result<(), Unplanned> {
        let Self { m, n, k, .. } = *self;
        for (name, rows, columns) in [("m x k", m, k), ("k x n", k, n), ("m x n", m, n)] {
            // The smallest elements have two bytes.
            let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(2));
            if bytes.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
                return Err(Unplanned::usage(format_args!(
                    "the {name} matrix ({rows} x {columns}) is too large for any memory\nhint: check --m, --n and --k"
                )));
            }
        }
        let (operation, ranks, unit) = (self.operation.name(), self.ranks, self.unit());
        if !m.is_multiple_of(unit) {
            let below = Some(m - m % unit).filter(|&rows| rows > 0).map(|rows| format!("{rows} or "));
            return Err(Unplanned::usage(format_args!(
                "{} cannot be divided evenly among {ranks} ranks, but {operation} gives each rank the same \
                 number of rows\n\
                 hint: pass an --m that is a multiple of {ranks}, such as {}{}",
                counted_rows(Rows(m)),
                below.unwrap_or_default(),
                u128::from(m).next_multiple_of(u128::from(unit))
            )));
        }
        if common_multiple(self.align, unit).is_none() {
            return Err(Unplanned::usage(format_args!(
                "the least common multiple of --align {} and the number of ranks ({ranks}) does not fit in 64 bits\n\
                 hint: pass a smaller --align",
                self.align
            )));
        }
        let of_kernels =
            !(self.compute_kernel.is_empty() && self.communicate_kernel.is_empty() && self.sizes.is_empty());
        if !self.format.has_kernels() && (of_kernels || self.size_column.is_some() || self.time_column.is_some()) {
            return Err(Unplanned::usage(
                "options for kernels, their sizes and their columns apply to a profiler's table, not to samples\n\
                 hint: if the file is a profiler's table, pass --format msprof, nsys or torch",
            ));
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum CutFamily {
    /// All cuts.
    Any,
    /// Tiles of equal size, with one tile of another size before or after them.
    TwoSizes,
}

impl CutFamily {
    /// Its name as an option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::TwoSizes => "two-sizes",
        }
    }
}

/// A product on each rank, and a collective before or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "command", derive(clap::ValueEnum))]
pub enum FusedOperation {
    /// The product summed over all ranks, on every rank.
    #[cfg_attr(feature = "command", value(alias = "matmul_all_reduce"))]
    MatmulAllReduce,
    /// The product summed over all ranks, with its rows divided among the ranks.
    #[cfg_attr(feature = "command", value(alias = "matmul_reduce_scatter"))]
    MatmulReduceScatter,
    /// The rows of all ranks times a matrix.
    #[cfg_attr(feature = "command", value(alias = "all_gather_matmul"))]
    AllGatherMatmul,
}

impl FusedOperation {
    /// Its name as an option.
    pub fn name(self) -> &'static str {
        match self {
            Self::MatmulAllReduce => "matmul-all-reduce",
            Self::MatmulReduceScatter => "matmul-reduce-scatter",
            Self::AllGatherMatmul => "all-gather-matmul",
        }
    }

    /// The lane that comes first.
    pub fn order(self) -> Order {
        match self {
            Self::MatmulAllReduce | Self::MatmulReduceScatter => Order::ComputeFirst,
            Self::AllGatherMatmul => Order::CommunicateFirst,
        }
    }
}

/// Parsers of the command line.
#[cfg(feature = "command")]
mod parsers {
    use super::Contention;

    pub(super) fn at_least_1(text: &str) -> Result<u64, String> {
        match text.parse() {
            Ok(number @ 1..) => Ok(number),
            _ => Err("expected a whole number, at least 1".to_owned()),
        }
    }

    pub(super) fn ranks(text: &str) -> Result<u64, String> {
        match text.parse() {
            Ok(1) => {
                Err("one rank has no other rank to communicate with, so there is nothing to plan; pass at least 2"
                    .to_owned())
            }
            Ok(ranks @ 2..) => Ok(ranks),
            _ => Err("expected a whole number of ranks, at least 2".to_owned()),
        }
    }

    pub(super) fn tiles(text: &str) -> Result<usize, String> {
        match text.parse() {
            Ok(tiles @ 1..) => Ok(tiles),
            _ => Err("expected a whole number, at least 1 (1 means no tiling)".to_owned()),
        }
    }

    /// A share in percent, with or without its sign.
    pub(super) fn percent(text: &str) -> Result<f64, String> {
        let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse().ok();
        match number.filter(|number: &f64| number.is_finite() && *number > 0.0) {
            Some(number) => Ok(number / 100.0),
            None => Err("expected a percentage above 0, such as 40%".to_owned()),
        }
    }

    pub(super) fn micros(text: &str) -> Result<f64, String> {
        match text.trim().parse().ok().filter(|micros: &f64| micros.is_finite() && *micros >= 0.0) {
            Some(micros) => Ok(micros),
            None => Err("expected a time in microseconds, at least 0, such as 12.5".to_owned()),
        }
    }

    pub(super) fn fixed_costs(text: &str) -> Result<(f64, f64), String> {
        let costs = text
            .split_once(',')
            .and_then(|(compute, communicate)| Some((micros(compute).ok()?, micros(communicate).ok()?)));
        costs.ok_or_else(|| {
            "expected two times in microseconds, one for a product and one for a collective, such as 5,10".to_owned()
        })
    }

    pub(super) fn contention(text: &str) -> Result<Contention, String> {
        let factor = |text: &str| text.trim().parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
        let factors =
            text.split_once(',').and_then(|(compute, communicate)| Some((factor(compute)?, factor(communicate)?)));
        match factors {
            Some((compute, communicate)) => Ok(Contention { compute, communicate }),
            None => {
                Err("expected two factors, for computation and communication, each at least 1, such as 1.3,1.05"
                    .to_owned())
            }
        }
    }
}

#[cfg(all(test, feature = "command"))]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn operations_have_two_spellings_and_one_name() {
        for operation in FusedOperation::value_variants() {
            let name = operation.name();
            for spelling in [name.to_owned(), name.replace('-', "_")] {
                assert_eq!(FusedOperation::from_str(&spelling, false), Ok(*operation));
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
