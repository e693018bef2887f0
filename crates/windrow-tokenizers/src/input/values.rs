//! The values of a column of a Parquet file as JSON.

use std::fmt::Display;
use std::io::Write;

use chrono::DateTime;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::column::page::PageReader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use serde::Serialize;

const DAY: i64 = 86_400;

/// The meaning of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    Plain,
    Unsigned,
    /// Days since 1970.
    Date,
    /// Fractions of a second since 1970, with their number per second, and true for times in UTC.
    Timestamp(i64, bool),
}

/// A decoder and the values that it has decoded, without nulls.
enum Values {
    Bools(ColumnReaderImpl<parquet::data_type::BoolType>, Vec<bool>),
    Ints(ColumnReaderImpl<parquet::data_type::Int32Type>, Vec<i32>),
    Longs(ColumnReaderImpl<parquet::data_type::Int64Type>, Vec<i64>),
    Floats(ColumnReaderImpl<parquet::data_type::FloatType>, Vec<f32>),
    Doubles(ColumnReaderImpl<parquet::data_type::DoubleType>, Vec<f64>),
    Bytes(ColumnReaderImpl<parquet::data_type::ByteArrayType>, Vec<ByteArray>),
}

/// A column of values that become JSON.
pub(super) struct ValueColumn {
    pub(super) name: String,
    pub(super) leaf: usize,
    meaning: Meaning,
    level: i16,
    levels: Vec<i16>,
    /// None before the first row group.
    values: Option<Values>,
    next: usize,
}

impl ValueColumn {
    /// `None` for a type that has no JSON.
    pub(super) fn new(name: &str, leaf: usize, column: &ColumnDescriptor) -> Option<Self> {
        let meaning = meaning(column)?;
        let level = column.max_def_level();
        let name = name.to_owned();
        Some(Self { name, leaf, meaning, level, levels: Vec::new(), values: None, next: 0 })
    }

    /// Continues in another row group.
    pub(super) fn open(&mut self, column: ColumnDescPtr, pages: Box<dyn PageReader>) -> Result<(), ParquetError> {
        self.values = Some(match get_column_reader(column, pages) {
            ColumnReader::BoolColumnReader(reader) => Values::Bools(reader, Vec::new()),
            ColumnReader::Int32ColumnReader(reader) => Values::Ints(reader, Vec::new()),
            ColumnReader::Int64ColumnReader(reader) => Values::Longs(reader, Vec::new()),
            ColumnReader::FloatColumnReader(reader) => Values::Floats(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Values::Doubles(reader, Vec::new()),
            ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(reader, Vec::new()),
            _ => return Err(ParquetError::NYI("values of this type cannot be read".to_owned())),
        });
        Ok(())
    }

    /// Decodes the next rows, all of them.
    pub(super) fn decode(&mut self, rows: usize) -> Result<(), ParquetError> {
        self.next = 0;
        let (levels, level) = (&mut self.levels, self.level);
        match self.values.as_mut().expect("a row group is open") {
            Values::Bools(reader, values) => decode(reader, rows, level, levels, values),
            Values::Ints(reader, values) => decode(reader, rows, level, levels, values),
            Values::Longs(reader, values) => decode(reader, rows, level, levels, values),
            Values::Floats(reader, values) => decode(reader, rows, level, levels, values),
            Values::Doubles(reader, values) => decode(reader, rows, level, levels, values),
            Values::Bytes(reader, values) => decode(reader, rows, level, levels, values),
        }
    }

    /// Appends the value of a row as JSON; false if the value should be text but is not.
    pub(super) fn put(&self, row: usize, bytes: &mut Vec<u8>) -> bool {
        let written = if !self.has_value(row) {
            bytes.write_all(b"null")
        } else {
            match self.values.as_ref().expect("a row group is open") {
                Values::Bools(_, values) => write!(bytes, "{}", values[self.next]),
                Values::Ints(_, values) => self.put_number(values[self.next].into(), values[self.next] as u32, bytes),
                Values::Longs(_, values) => self.put_number(values[self.next], values[self.next] as u64, bytes),
                Values::Floats(_, values) => put_float(values[self.next], f64::from(values[self.next]), bytes),
                Values::Doubles(_, values) => put_float(values[self.next], values[self.next], bytes),
                Values::Bytes(_, values) => {
                    let Ok(text) = str::from_utf8(values[self.next].data()) else { return false };
                    serde_json::to_writer(bytes, text).map_err(Into::into)
                }
            }
        };
        written.expect("a vector takes all bytes");
        true
    }

    fn put_number(&self, number: i64, unsigned: impl Display, bytes: &mut Vec<u8>) -> std::io::Result<()> {
        match self.meaning {
            Meaning::Plain => write!(bytes, "{number}"),
            Meaning::Unsigned => write!(bytes, "{unsigned}"),
            Meaning::Date => put_day(number.saturating_mul(DAY), "%Y-%m-%d", number, bytes),
            Meaning::Timestamp(parts, is_utc) => {
                let (seconds, rest) = (number.div_euclid(parts), number.rem_euclid(parts));
                let mut format = "%Y-%m-%dT%H:%M:%S".to_owned();
                if rest > 0 {
                    format += &format!(".{rest:0digits$}", digits = parts.ilog10() as usize);
                }
                format += if is_utc { "Z" } else { "" };
                put_day(seconds, &format, number, bytes)
            }
        }
    }

    /// The row is finished.
    pub(super) fn take(&mut self, row: usize) {
        self.next += usize::from(self.has_value(row));
    }

    /// The bytes in a row of a column of text, among the values not yet taken.
    pub(super) fn text(&self, row: usize) -> Option<&[u8]> {
        match &self.values {
            Some(Values::Bytes(_, values)) if self.has_value(row) => Some(values[self.next].data()),
            _ => None,
        }
    }

    /// Bytes of the decoded rows of a column of text.
    pub(super) fn text_bytes(&self) -> usize {
        match &self.values {
            Some(Values::Bytes(_, values)) => values.iter().map(ByteArray::len).sum(),
            _ => 0,
        }
    }

    fn has_value(&self, row: usize) -> bool {
        self.level == 0 || self.levels[row] == self.level
    }
}

/// Appends a number. A number that JSON cannot write becomes a string.
fn put_float(number: impl Serialize, value: f64, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let name = match value {
        _ if value.is_finite() => return serde_json::to_writer(bytes, &number).map_err(Into::into),
        _ if value.is_nan() => "\"NaN\"",
        _ if value > 0.0 => "\"Infinity\"",
        _ => "\"-Infinity\"",
    };
    bytes.write_all(name.as_bytes())
}

/// Decodes the next rows, all of them: their levels, unless `level` is 0, and their values without nulls.
fn decode<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    level: i16,
    levels: &mut Vec<i16>,
    values: &mut Vec<T::T>,
) -> Result<(), ParquetError> {
    levels.clear();
    values.clear();
    let (read, ..) = reader.read_records(rows, (level > 0).then_some(&mut *levels), None, values)?;
    let expected = if level > 0 { levels.iter().filter(|one| **one == level).count() } else { rows };
    if read != rows || values.len() != expected || (level > 0 && levels.len() != rows) {
        return Err(ParquetError::EOF("it has fewer values than the row group has rows".to_owned()));
    }
    Ok(())
}

/// The meaning of a column's values; `None` if they have no JSON.
fn meaning(column: &ColumnDescriptor) -> Option<Meaning> {
    match (column.physical_type(), column.logical_type_ref(), column.converted_type()) {
        (Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY, ..) => None,
        (_, Some(LogicalType::Integer(integer)), _) if !integer.is_signed => Some(Meaning::Unsigned),
        (_, Some(LogicalType::Integer(_)), _) => Some(Meaning::Plain),
        (Type::INT32, Some(LogicalType::Date), _) => Some(Meaning::Date),
        (Type::INT64, Some(LogicalType::Timestamp(timestamp)), _) => {
            let parts = match timestamp.unit {
                TimeUnit::MILLIS => 1_000,
                TimeUnit::MICROS => 1_000_000,
                TimeUnit::NANOS => 1_000_000_000,
            };
            Some(Meaning::Timestamp(parts, timestamp.is_adjusted_to_u_t_c))
        }
        (Type::BYTE_ARRAY, Some(LogicalType::String | LogicalType::Enum | LogicalType::Json), _) => {
            Some(Meaning::Plain)
        }
        (_, Some(_), _) => None,
        (_, None, converted) => {
            use ConvertedType::{
                ENUM, INT_8, INT_16, INT_32, INT_64, JSON, NONE, UINT_8, UINT_16, UINT_32, UINT_64, UTF8,
            };
            match converted {
                NONE | UTF8 | ENUM | JSON | INT_8 | INT_16 | INT_32 | INT_64 => Some(Meaning::Plain),
                UINT_8 | UINT_16 | UINT_32 | UINT_64 => Some(Meaning::Unsigned),
                ConvertedType::DATE => Some(Meaning::Date),
                ConvertedType::TIMESTAMP_MILLIS => Some(Meaning::Timestamp(1_000, true)),
                ConvertedType::TIMESTAMP_MICROS => Some(Meaning::Timestamp(1_000_000, true)),
                _ => None,
            }
        }
    }
}

/// Appends a time in seconds since 1970 in a format, or the number of the column if it is outside the years of the calendar.
fn put_day(seconds: i64, format: &str, number: i64, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    match DateTime::from_timestamp(seconds, 0) {
        Some(time) => write!(bytes, "\"{}\"", time.format(format)),
        None => write!(bytes, "{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let written = |days: i64| {
            let mut bytes = Vec::new();
            put_day(days.saturating_mul(DAY), "%Y-%m-%d", days, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        for (days, date) in [
            (0, "\"1970-01-01\""),
            (-1, "\"1969-12-31\""),
            (11_016, "\"2000-02-29\""),
            (19_782, "\"2024-02-29\""),
            (-719_528, "\"0000-01-01\""),
            (i64::MAX, "9223372036854775807"),
        ] {
            assert_eq!(written(days), date, "{days}");
        }
    }
}
