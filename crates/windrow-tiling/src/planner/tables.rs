//! Files of measured times: samples, tables with a size a line, and the output of nccl-tests.

use crate::cost::Sample;
use crate::tile::Lane;
use crate::{Nanos, Rows};

use super::Unplanned;
use super::csv::fields;
use super::format::CostFormat;
use super::import::{micros, unit_of};
use super::request::PlanRequest;
use super::samples::{CostFile, MeasuredTimes, NOISE, SAMPLE_COLUMNS, origin, quoted};

/// A column of a table of times.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Stage,
    Rows,
    Bytes,
    /// Times of the lane, or of the stage of the line; with the microseconds of their unit.
    Time(Option<Lane>, f64),
    Other,
}

impl Column {
    /// The column with this name, such as `m`, `gemm (ms)` or `communicate_us`.
    fn of(name: &str) -> Self {
        let name = name.to_lowercase();
        let words: Vec<&str> =
            name.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let lane = |name: &str| match name {
            "compute" | "gemm" | "matmul" => Some(Lane::Compute),
            "communicate" | "comm" | "collective" => Some(Lane::Communicate),
            _ => None,
        };
        match words[..] {
            ["stage"] => Self::Stage,
            ["m" | "rows"] => Self::Rows,
            ["size" | "bytes"] | ["size", "b" | "bytes"] => Self::Bytes,
            [name] if lane(name).is_some() => Self::Time(lane(name), 1.0),
            [unit] => unit_of(unit).map_or(Self::Other, |unit| Self::Time(None, unit)),
            [name, unit] if lane(name).is_some() => {
                unit_of(unit).map_or(Self::Other, |unit| Self::Time(lane(name), unit))
            }
            _ => Self::Other,
        }
    }

    /// The columns of a header: a sample a line, or a size a line. `None` if they are neither.
    fn all(header: &[String]) -> Option<Vec<Self>> {
        let columns: Vec<Self> = header.iter().map(|name| Self::of(name)).collect();
        let count = |wanted: &dyn Fn(&Self) -> bool| columns.iter().filter(|column| wanted(column)).count();
        let sizes = count(&|column| matches!(column, Self::Rows | Self::Bytes));
        let times = [Lane::Compute, Lane::Communicate]
            .map(|lane| count(&|column| matches!(column, Self::Time(of, _) if *of == Some(lane))));
        let is_samples = matches!(columns[..], [Self::Stage, Self::Rows | Self::Bytes, Self::Time(None, _)]);
        let is_wide = sizes == 1 && times.iter().sum::<usize>() > 0 && times.iter().all(|&times| times <= 1);
        (is_samples || is_wide && count(&|column| *column == Self::Stage) == 0).then_some(columns)
    }
}

/// Reads files of times.
pub(super) fn read(files: &[CostFile], options: &PlanRequest) -> Result<MeasuredTimes, Unplanned> {
    let mut all =
        Reader { options, file: String::new(), compute: Vec::new(), communicate: Vec::new(), notes: Vec::new() };
    for CostFile { name, text } in files {
        all.file = name.clone();
        all.read(text)?;
    }
    let Reader { compute, communicate, notes, .. } = all;
    Ok(MeasuredTimes { compute, communicate, origin: origin(files), calibrated: None, notes })
}

/// The samples of the files that were read so far.
struct Reader<'a> {
    options: &'a PlanRequest,
    /// The name of the file that is read.
    file: String,
    compute: Vec<Sample<Rows>>,
    communicate: Vec<Sample<Rows>>,
    notes: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, text: &str) -> Result<(), Unplanned> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().enumerate().map(|(place, line)| (place + 1, line));
        let lines: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.trim().is_empty() && !is_rule(line)).collect();
        let of_nccl = lines.iter().position(|(_, line)| nccl_columns(line).is_some());
        let is_nccl = self.options.format == CostFormat::NcclTests;
        let skipped = match of_nccl {
            Some(head) if is_nccl => self.nccl(&lines[head..])?,
            _ => self.table(&lines)?,
        };
        if skipped > 0 {
            let (file, row) = (&self.file, self.options.row_bytes().unwrap_or_default());
            self.notes.push(format!(
                "sizes ignored in {file} because they are not multiples of the row size, {row} bytes: {skipped}"
            ));
        }
        Ok(())
    }

    fn refused(&self, line: usize, message: &str) -> Unplanned {
        Unplanned::bad_input(format_args!("{}:{line}: {message}", self.file))
    }

    /// A header and its lines. Returns the number of skipped sizes.
    fn table(&mut self, lines: &[(usize, &str)]) -> Result<usize, Unplanned> {
        let header = SAMPLE_COLUMNS.join(",");
        let Some((&(number, first), lines)) = lines.split_first() else {
            return Err(self.refused(1, &format!("the file is empty\nhint: its first line must be {header}")));
        };
        let names = fields(first);
        let Some(columns) = Column::all(&names) else {
            let others = match first.trim_start().starts_with('#') {
                true => "the output of nccl-tests needs --format nccl-tests --element-bytes 2",
                false => {
                    "a table with one size per line has the columns m,compute,communicate; tables from profilers need \
                     --format msprof, nsys or torch"
                }
            };
            let shown = quoted(&names.join(","));
            return Err(self
                .refused(number, &format!("the header is {shown}\nhint: the first line must be {header}; {others}")));
        };
        let mut skipped = 0;
        for &(line, text) in lines {
            let fields = fields(text);
            if fields.len() != columns.len() {
                let (has, wants, header) = (fields.len(), columns.len(), names.join(","));
                return Err(self.refused(
                    line,
                    &format!("expected {wants} fields, found {has}\nhint: every line must have the columns {header}"),
                ));
            }
            let (mut stage, mut rows, mut times) = (None, None, Vec::new());
            for ((column, field), name) in columns.iter().zip(&fields).zip(&names) {
                match column {
                    Column::Stage => stage = Some(self.lane(line, field)?),
                    Column::Rows => rows = Some(self.rows(line, name, field)?),
                    Column::Bytes => rows = self.rows_of(line, bytes_of(field), field)?,
                    // A size that was not measured in this lane.
                    Column::Time(Some(_), _) if field.is_empty() => {}
                    Column::Time(lane, unit) => times.push((*lane, self.time(line, name, field, *unit)?)),
                    Column::Other => {}
                }
            }
            let Some(size) = rows else {
                skipped += 1;
                continue;
            };
            for (lane, time) in times {
                if let Some(lane) = lane.or(stage) {
                    self.push(lane, size, time);
                }
            }
        }
        Ok(skipped)
    }

    /// The lines of nccl-tests from the names of their columns on: out of place, as that is the first time of a line. Other lines that do
    /// not begin with a number are messages. Returns the number of skipped sizes.
    fn nccl(&mut self, lines: &[(usize, &str)]) -> Result<usize, Unplanned> {
        let (mut columns, mut skipped) = ([0; 2], 0);
        for &(line, text) in lines {
            if let Some(named) = nccl_columns(text) {
                columns = named;
                continue;
            }
            let fields: Vec<&str> = text.split_whitespace().collect();
            let [size, time] = columns.map(|column| fields.get(column).copied().unwrap_or_default());
            if fields.first().is_none_or(|first| first.parse::<u64>().is_err()) {
                continue;
            }
            match self.rows_of(line, size.parse().ok(), size)? {
                Some(rows) => self.push(Lane::Communicate, rows, self.time(line, "time", time, 1.0)?),
                None => skipped += 1,
            }
        }
        Ok(skipped)
    }

    fn push(&mut self, lane: Lane, size: Rows, time: Nanos) {
        let samples = match lane {
            Lane::Compute => &mut self.compute,
            Lane::Communicate => &mut self.communicate,
        };
        samples.push(Sample { size, time });
    }

    fn lane(&self, line: usize, stage: &str) -> Result<Lane, Unplanned> {
        match stage {
            "compute" => Ok(Lane::Compute),
            "communicate" => Ok(Lane::Communicate),
            _ => {
                let stage = quoted(stage);
                Err(self.refused(line, &format!("unknown stage {stage}\nhint: the stages are compute and communicate")))
            }
        }
    }

    fn rows(&self, line: usize, name: &str, field: &str) -> Result<Rows, Unplanned> {
        match field.parse() {
            Ok(rows @ 1..) => Ok(Rows(rows)),
            _ => {
                let field = quoted(field);
                Err(self
                    .refused(line, &format!("{name} is {field}\nhint: it must be a whole number of rows, at least 1")))
            }
        }
    }

    /// The rows of a size in bytes; `None` if it is further from a whole number of rows than samples scatter.
    fn rows_of(&self, line: usize, bytes: Option<u64>, field: &str) -> Result<Option<Rows>, Unplanned> {
        let Some(bytes) = bytes.filter(|&bytes| bytes > 0 || self.options.format == CostFormat::NcclTests) else {
            let field = quoted(field);
            return Err(self.refused(
                line,
                &format!("the size is {field}\nhint: it must be a positive number of bytes, such as 65536 or 64 KiB"),
            ));
        };
        let Some(row) = self.options.row_bytes() else {
            return Err(Unplanned::usage(format_args!(
                "{}:{line}: the number of rows in {bytes} bytes is unknown\n\
                 hint: specify the size of an element in bytes: --element-bytes 2 for half precision",
                self.file
            )));
        };
        let rows = (bytes as f64 / row as f64).round();
        let off = (rows * row as f64 - bytes as f64).abs();
        Ok((rows >= 1.0 && off <= NOISE * bytes as f64).then_some(Rows(rows as u64)))
    }

    fn time(&self, line: usize, name: &str, field: &str, unit: f64) -> Result<Nanos, Unplanned> {
        match micros(field, unit).map(Nanos::micros) {
            Some(time) if time.0.is_finite() && time.0 > 0.0 => Ok(time),
            _ => {
                let is = if name.ends_with('s') && unit_of(name).is_some() { "are" } else { "is" };
                let field = quoted(field);
                Err(self.refused(line, &format!("{name} {is} {field}\nhint: a time must be a positive number")))
            }
        }
    }
}

/// The place of the size and of the first time among the columns of nccl-tests, if the line names them.
fn nccl_columns(line: &str) -> Option<[usize; 2]> {
    let names: Vec<&str> = line.trim_start().strip_prefix('#')?.split_whitespace().collect();
    let place = |wanted: &str| names.iter().position(|name| *name == wanted);
    Some([place("size")?, place("time")?])
}

/// Bytes of a size such as `65536`, `64 KiB` or `64K`. Tables of messages mean powers of 1024 by KB and MB, too.
fn bytes_of(field: &str) -> Option<u64> {
    let field = field.trim();
    let (number, unit) = field.split_at(field.find(|char: char| char.is_alphabetic()).unwrap_or(field.len()));
    let factor: u64 = match unit.trim().to_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// True if a line is the rule below the header of a Markdown table.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.chars().all(|char| matches!(char, '|' | '-' | ':' | ' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_and_units() {
        for (name, column) in [
            ("stage", Column::Stage),
            ("M", Column::Rows),
            ("Size (B)", Column::Bytes),
            ("milliseconds", Column::Time(None, 1e3)),
            ("us", Column::Time(None, 1.0)),
            ("gemm (ms)", Column::Time(Some(Lane::Compute), 1e3)),
            ("communicate_us", Column::Time(Some(Lane::Communicate), 1.0)),
            ("comm", Column::Time(Some(Lane::Communicate), 1.0)),
            ("comm (GB/s)", Column::Other),
            ("gemm tflops", Column::Other),
            ("", Column::Other),
        ] {
            assert_eq!(Column::of(name), column, "{name}");
        }
        let all = |header: &str| Column::all(&fields(header)).is_some();
        for good in
            ["stage,m,ms", "m,compute,communicate", "| M | gemm (us) | comm (us) | ratio |", "size,comm", "gemm,m"]
        {
            assert!(all(good), "{good}");
        }
        for bad in
            ["m,stage,us", "stage,m,us,us", "m,n", "m,size,comm", "m,comm,comm_us", "stage,m,comm", "compute,256,5", ""]
        {
            assert!(!all(bad), "{bad}");
        }
    }

    #[test]
    fn sizes_in_bytes() {
        let sizes = ["65536", "64 KiB", "64K", "64kb", "2 MB", "1GiB", "7 B"].map(bytes_of);
        assert_eq!(sizes, [65536, 65536, 65536, 65536, 2 << 20, 1 << 30, 7].map(Some));
        for text in ["", "KiB", "1.5 MiB", "-1", "1 TiB", "64 rows", "99999999999 GiB"] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }

    #[test]
    fn nccl_tests_name_their_columns() {
        assert_eq!(nccl_columns("#  size  count  type  redop  root  time  algbw #wrong time"), Some([0, 5]));
        for line in ["#   (B)  (elements)  (us)", "size count time", "# nThread 1 nGpus 8", ""] {
            assert_eq!(nccl_columns(line), None, "{line}");
        }
    }
}
