//! Samples from tables of profilers: kernels become lanes by their names, and their input shapes or a list become numbers of rows.

use std::collections::BTreeMap;

use crate::cost::Sample;
use crate::tile::Lane;
use crate::{Nanos, Rows};

use super::Unplanned;
use super::csv::{self, Record};
use super::format::CostFormat;
use super::request::{FusedOperation, PlanRequest};
use super::samples::{self, CostFile, MeasuredTimes, quoted};

/// Maximum number of names that a message lists.
const LISTED: usize = 8;

/// Maximum number of columns that a message lists.
const COLUMNS: usize = 32;

/// The names that a column can have, without case, spaces and unit; the first one that a file has counts.
struct Names {
    name: &'static [&'static str],
    time: &'static [&'static str],
    start: &'static [&'static str],
    shapes: &'static [&'static str],
    /// The columns of the name and of the time, as files call them.
    shown: [&'static str; 2],
    /// What writes such files.
    writer: &'static str,
}

impl CostFormat {
    fn names(self) -> Names {
        match self {
            Self::Samples | Self::NcclTests => {
                Names { name: &[], time: &[], start: &[], shapes: &[], shown: [""; 2], writer: "" }
            }
            Self::Msprof => Names {
                name: &["opname", "name"],
                time: &["taskduration", "duration"],
                start: &["taskstarttime", "starttime"],
                shapes: &["inputshapes"],
                shown: ["Op Name", "Task Duration(us)"],
                writer: "msprof writes these columns to op_summary_*.csv",
            },
            Self::Nsys => Names {
                name: &["name"],
                time: &["duration"],
                start: &["start"],
                shapes: &[],
                shown: ["Name", "Duration (ns)"],
                writer: "nsys stats --report cuda_gpu_trace --format csv writes these columns",
            },
            Self::Torch => Names {
                name: &["name", "key"],
                time: &[
                    "cudatimeavg",
                    "devicetimeavg",
                    "xputimeavg",
                    "nputimeavg",
                    "devicetime",
                    "cudatime",
                    "cputimeavg",
                    "cputime",
                ],
                start: &[],
                shapes: &["inputshapes"],
                shown: ["Name", "CUDA time avg"],
                writer: "key_averages() of torch.profiler returns these columns",
            },
        }
    }
}

/// A kernel of a lane that ran.
struct Ran {
    file: usize,
    line: usize,
    time: Nanos,
    /// The text of its shapes or of its size.
    rows: Option<String>,
}

/// The columns of a file.
struct Columns {
    name: usize,
    time: usize,
    /// Microseconds of a unit of the time, where the field has none.
    unit: f64,
    start: Option<usize>,
    /// The input shapes, or the number of rows.
    rows: Option<usize>,
}

/// Reads files of a profiler.
pub(super) fn read(files: &[CostFile], options: &PlanRequest) -> Result<MeasuredTimes, Unplanned> {
    let patterns = [("compute", &options.compute_kernel), ("communicate", &options.communicate_kernel)];
    for (lane, patterns) in patterns {
        if patterns.is_empty() {
            return Err(Unplanned::usage(format_args!(
                "windrow does not know which kernels {lane}\n\
                 hint: specify them with --{lane}-kernel PATTERN; * matches any text"
            )));
        }
    }
    let (mut lanes, mut others) = ([Vec::new(), Vec::new()], BTreeMap::new());
    for (number, file) in files.iter().enumerate() {
        kernels(number, file, options, &mut lanes, &mut others)?;
    }
    let origin = samples::origin(files);
    for (ran, (lane, patterns)) in lanes.iter().zip(patterns) {
        if ran.is_empty() {
            return Err(Unplanned::bad_input(format_args!(
                "{origin}: no kernel matches --{lane}-kernel {}\nhint: {}",
                patterns.join(" or "),
                listed(&others)
            )));
        }
    }
    let [compute, communicate] = lanes;
    let lane = |lane, ran: Vec<Ran>| lane_samples(lane, ran, files, options);
    Ok(MeasuredTimes {
        compute: lane(Lane::Compute, compute)?,
        communicate: lane(Lane::Communicate, communicate)?,
        origin,
        calibrated: None,
        notes: Vec::new(),
    })
}

/// The kernels of a file, in the order in which they started.
fn kernels(
    number: usize,
    file: &CostFile,
    options: &PlanRequest,
    lanes: &mut [Vec<Ran>; 2],
    others: &mut BTreeMap<String, f64>,
) -> Result<(), Unplanned> {
    let shown = &file.name;
    let records = csv::records(&file.text);
    // Profilers write messages above the columns.
    let found = records.iter().enumerate().find_map(|(place, record)| Some((place, Columns::find(record, options)?)));
    let Some((head, columns)) = found else {
        let first = records.iter().rev().max_by_key(|record| record.fields.len());
        let has = first.map_or("is empty".to_owned(), |record| {
            let shown: Vec<String> = record.fields.iter().take(COLUMNS).map(|name| quoted(name)).collect();
            let more = if record.fields.len() > COLUMNS { ", ..." } else { "" };
            let columns = if shown.len() == 1 { "column" } else { "columns" };
            format!("has the {columns} {}{more}", shown.join(", "))
        });
        let (writer, missing) = (options.format.names().writer, options.missing_columns());
        return Err(Unplanned::bad_input(format_args!(
            "{shown} must have the columns {missing}, but it {has}\n\
             hint: {writer}; --time-column and --size-column select other columns"
        )));
    };
    let header = &records[head].fields;
    let mut rows: Vec<(f64, &Record)> = Vec::new();
    for record in &records[head + 1..] {
        if record.fields.len() != header.len() {
            return Err(Unplanned::bad_input(format_args!(
                "{shown}:{}: expected {} fields, found {}\nhint: every line must have the columns of line {}",
                record.line,
                header.len(),
                record.fields.len(),
                records[head].line
            )));
        }
        let start = columns.start.and_then(|start| record.fields[start].parse().ok());
        rows.push((start.unwrap_or(0.0), record));
    }
    rows.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (_, record) in rows {
        let name = &record.fields[columns.name];
        let is_of = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        let time = micros(&record.fields[columns.time], columns.unit);
        let lane = match (is_of(&options.compute_kernel), is_of(&options.communicate_kernel)) {
            (true, true) => {
                return Err(Unplanned::bad_input(format_args!(
                    "{shown}:{}: {} matches both --compute-kernel and --communicate-kernel\nhint: pass longer patterns",
                    record.line,
                    quoted(name)
                )));
            }
            (true, false) => 0,
            (false, true) => 1,
            (false, false) => {
                *others.entry(name.clone()).or_default() += time.unwrap_or(0.0);
                continue;
            }
        };
        let Some(time) = time.filter(|time| time.is_finite() && *time > 0.0) else {
            return Err(Unplanned::bad_input(format_args!(
                "{shown}:{}: {} is {}\nhint: a time must be a positive number; --time-column selects another column",
                record.line,
                header[columns.time],
                quoted(&record.fields[columns.time])
            )));
        };
        let rows = columns.rows.map(|rows| record.fields[rows].clone());
        lanes[lane].push(Ran { file: number, line: record.line, time: Nanos::micros(time), rows });
    }
    Ok(())
}

impl Columns {
    /// The columns of a record, if it names them.
    fn find(header: &Record, options: &PlanRequest) -> Option<Self> {
        let bare: Vec<(String, Option<f64>)> = header.fields.iter().map(|name| bare(name)).collect();
        let one_of = |names: &[&str]| names.iter().find_map(|name| bare.iter().position(|(column, _)| column == name));
        let called = |name: &String| header.fields.iter().position(|column| column == name);
        let names = options.format.names();
        let time = options.time_column.as_ref().map_or_else(|| one_of(names.time), called)?;
        let rows = match &options.size_column {
            Some(name) => Some(called(name)?),
            None => one_of(names.shapes),
        };
        Some(Self {
            name: one_of(names.name)?,
            time,
            unit: bare[time].1.unwrap_or(1.0),
            start: one_of(names.start),
            rows,
        })
    }
}

impl PlanRequest {
    /// The columns that a file of this format must have, in words.
    fn missing_columns(&self) -> String {
        let names = self.format.names();
        let [name, time] = names.shown;
        let mut columns = vec![name, self.time_column.as_deref().unwrap_or(time)];
        columns.extend(self.size_column.as_deref());
        columns.join(" and ")
    }
}

/// A column's name without case, spaces, punctuation and its unit, and the microseconds of that unit.
fn bare(column: &str) -> (String, Option<f64>) {
    let (name, unit) = match column.trim().strip_suffix(')').and_then(|column| column.rsplit_once('(')) {
        Some((name, unit)) => (name, unit_of(unit)),
        None => (column, None),
    };
    (name.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect(), unit)
}

/// Microseconds of a unit.
pub(super) fn unit_of(unit: &str) -> Option<f64> {
    match unit.trim() {
        "ns" | "nsec" | "nanoseconds" => Some(1e-3),
        "us" | "usec" | "microseconds" | "\u{b5}s" | "\u{3bc}s" => Some(1.0),
        "ms" | "msec" | "milliseconds" => Some(1e3),
        "s" | "sec" | "seconds" => Some(1e6),
        _ => None,
    }
}

/// A time such as `12.5`, in the unit of its column, or `1.2ms`.
pub(super) fn micros(text: &str, unit: f64) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|char: char| char.is_alphabetic() && !matches!(char, 'e' | 'E')).unwrap_or(text.len());
    let (number, own) = text.split_at(end);
    let unit = if own.is_empty() { unit } else { unit_of(own)? };
    number.trim().parse::<f64>().ok().map(|number| number * unit)
}

/// Whether a name has the parts of a pattern, in their order. Parts are separated by `*`.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The samples of a lane.
fn lane_samples(
    lane: Lane,
    ran: Vec<Ran>,
    files: &[CostFile],
    options: &PlanRequest,
) -> Result<Vec<Sample<Rows>>, Unplanned> {
    if !options.sizes.is_empty() {
        let (kernels, sizes) = (ran.len(), options.sizes.len());
        if !kernels.is_multiple_of(sizes) {
            return Err(Unplanned::bad_input(format_args!(
                "{}: the number of {lane} kernels, {kernels}, is not a multiple of the number of sizes, {sizes}\n\
                 hint: --sizes lists the row counts of the kernels in the order in which the kernels started; \
                 each size stands for the same number of kernels",
                samples::origin(files)
            )));
        }
        let size = |place: usize| Rows(options.sizes[place / (kernels / sizes)]);
        return Ok(ran.iter().enumerate().map(|(place, ran)| Sample { size: size(place), time: ran.time }).collect());
    }
    // What a rank puts into an all-gather is its share of the rows.
    let gathers = lane == Lane::Communicate && options.operation == FusedOperation::AllGatherMatmul;
    let times = if gathers && options.size_column.is_none() { options.ranks } else { 1 };
    let sample = |ran: Ran| {
        let shown = format!("{}:{}", files[ran.file].name, ran.line);
        let rows = match (&ran.rows, &options.size_column) {
            (Some(text), Some(_)) => text.parse().ok(),
            (Some(text), None) => rows_of(text).and_then(|rows| rows.checked_mul(times)),
            (None, _) => {
                return Err(Unplanned::usage(format_args!(
                    "{shown}: the number of rows of this kernel is unknown because the file has no input shapes\n\
                     hint: list the row counts in the order in which the kernels started, for example with \
                     --sizes 256,512,1024, or specify a column with --size-column"
                )));
            }
        };
        match rows {
            Some(rows @ 1..) => Ok(Sample { size: Rows(rows), time: ran.time }),
            _ => {
                let (text, column) = (ran.rows.unwrap_or_default(), options.size_column.as_deref());
                Err(Unplanned::bad_input(format_args!(
                    "{shown}: no valid number of rows in {}: {}\n\
                     hint: list the row counts in the order in which the kernels started, for example with \
                     --sizes 256,512,1024",
                    column.unwrap_or("Input Shapes"),
                    quoted(&text)
                )))
            }
        }
    };
    ran.into_iter().map(sample).collect()
}

/// The rows of the first tensor with two dimensions or more: all of them but the last, multiplied. Tensors are written
/// `4096,3072;3072,8192` or `[[4096, 3072], [3072, 8192]]`.
fn rows_of(shapes: &str) -> Option<u64> {
    let tensors = shapes.split([';', '[', ']', '"']);
    let numbers = |tensor: &str| -> Option<Vec<u64>> {
        let tensor = tensor.trim_matches(|char: char| char == ',' || char.is_whitespace());
        tensor.split(',').map(|number| number.trim().parse().ok()).collect()
    };
    let matrix = tensors.filter_map(numbers).find(|numbers| numbers.len() >= 2)?;
    matrix[..matrix.len() - 1].iter().try_fold(1_u64, |rows, &number| rows.checked_mul(number))
}

/// The names of kernels that belong to no lane, those that took longest first.
fn listed(names: &BTreeMap<String, f64>) -> String {
    if names.is_empty() {
        return "the input has no kernels, or only kernels of the other lane".to_owned();
    }
    let mut names: Vec<(&String, &f64)> = names.iter().collect();
    names.sort_by(|one, other| other.1.total_cmp(one.1));
    let more = if names.len() > LISTED { ", ..." } else { "" };
    let shown: Vec<String> = names.iter().take(LISTED).map(|(name, _)| quoted(name)).collect();
    format!("kernels that belong to neither lane: {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_parts() {
        for (pattern, name, is) in [
            ("gemm", "sm90_xmma_gemm_f16", true),
            ("sm90*gemm*f16", "sm90_xmma_gemm_f16", true),
            ("gemm*sm90", "sm90_xmma_gemm_f16", false),
            ("Gemm", "gemm", false),
            ("*", "anything", true),
            ("aa*a", "aa", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(bare("Task Duration(us)"), ("taskduration".to_owned(), Some(1.0)));
        assert_eq!(bare("Duration (ns)"), ("duration".to_owned(), Some(1e-3)));
        assert_eq!(bare("CUDA time avg"), ("cudatimeavg".to_owned(), None));
        assert_eq!(bare("Time (%)"), ("time".to_owned(), None));
        let all = ["12.5", "1.5ms", "2s", "3us", " 7 ns ", "1e3"].map(|text| micros(text, 0.001));
        assert_eq!(all, [0.0125, 1500.0, 2e6, 3.0, 0.007, 1.0].map(Some));
        assert_eq!(["", "x", "1 mile", "--"].map(|text| micros(text, 1.0)), [None; 4]);
    }

    #[test]
    fn rows_are_those_of_the_first_matrix() {
        for (shapes, rows) in [
            ("4096,3072;3072,8192", Some(4096)),
            ("\"512,64;64,32\"", Some(512)),
            ("[[4096, 3072], [3072, 8192]]", Some(4096)),
            ("[[8192], [512, 64], [64, 8192], [], []]", Some(512)),
            ("[[[4, 128, 64]]]", Some(512)),
            ("8,128,64", Some(1024)),
            ("64", None),
            ("N/A", None),
            ("", None),
            ("99999999999,99999999999,2", None),
        ] {
            assert_eq!(rows_of(shapes), rows, "{shapes}");
        }
    }
}
