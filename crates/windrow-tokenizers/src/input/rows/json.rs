//! Columns of Arrow as JSON: the values of arrow's own writer, with explicit nulls.
//!
//! Only the types that a Parquet schema becomes without hints of Arrow are here. arrow-json would bring all casts of Arrow with it, and ten crates.

use std::fmt::{Debug, Display};
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::{
    as_datetime, date32_to_datetime, time32ms_to_time, time64ns_to_time, time64us_to_time,
};
use arrow_array::types::{
    ArrowTimestampType, Date32Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalDayTime, IntervalDayTimeType, Time32MillisecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Fields, IntervalUnit, TimeUnit};
use chrono::SecondsFormat;
use parquet::errors::{ParquetError, Result};
use serde::Serialize;

/// Appends the rows of a batch, each an object and a line feed.
pub(super) fn put_rows(batch: &RecordBatch, json: &mut Vec<u8>) -> Result<()> {
    let put = object(batch.schema_ref().fields(), batch.columns())?;
    for row in 0..batch.num_rows() {
        put(row, json);
        json.push(b'\n');
    }
    Ok(())
}

/// Appends the value of a row.
type Put<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// A column whose values may be null.
struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    put: Put<'a>,
}

impl<'a> Column<'a> {
    fn new(array: &'a dyn Array) -> Result<Self> {
        Ok(Self { nulls: array.nulls(), put: values(array)? })
    }

    fn put(&self, row: usize, json: &mut Vec<u8>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            json.extend_from_slice(b"null");
        } else {
            (self.put)(row, json);
        }
    }
}

fn values<'a>(array: &'a dyn Array) -> Result<Put<'a>> {
    Ok(match array.data_type() {
        DataType::Null => plain(|_| "null"),
        DataType::Boolean => {
            let values = array.as_boolean();
            plain(|row| values.value(row))
        }
        DataType::Int8 => plain(native::<Int8Type>(array)),
        DataType::Int16 => plain(native::<Int16Type>(array)),
        DataType::Int32 => plain(native::<Int32Type>(array)),
        DataType::Int64 => plain(native::<Int64Type>(array)),
        DataType::UInt8 => plain(native::<UInt8Type>(array)),
        DataType::UInt16 => plain(native::<UInt16Type>(array)),
        DataType::UInt32 => plain(native::<UInt32Type>(array)),
        DataType::UInt64 => plain(native::<UInt64Type>(array)),
        DataType::Float16 => {
            let value = native::<Float16Type>(array);
            floats(move |row| value(row).to_f32())
        }
        DataType::Float32 => floats(native::<Float32Type>(array)),
        DataType::Float64 => floats(native::<Float64Type>(array)),
        DataType::Decimal128(..) => {
            let values = array.as_primitive::<Decimal128Type>();
            plain(|row| values.value_as_string(row))
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<Decimal256Type>();
            plain(|row| values.value_as_string(row))
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            Box::new(|row, json| put(values.value(row), json))
        }
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary();
            plain(|row| {
                format!("\"{}\"", values.value(row).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
            })
        }
        DataType::Date32 => {
            let value = native::<Date32Type>(array);
            plain(move |row| moment(date32_to_datetime(value(row)).map(|time| time.date()), value(row)))
        }
        DataType::Time32(TimeUnit::Millisecond) => {
            let value = native::<Time32MillisecondType>(array);
            plain(move |row| moment(time32ms_to_time(value(row)), value(row)))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let value = native::<Time64MicrosecondType>(array);
            plain(move |row| moment(time64us_to_time(value(row)), value(row)))
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let value = native::<Time64NanosecondType>(array);
            plain(move |row| moment(time64ns_to_time(value(row)), value(row)))
        }
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            timestamps::<TimestampMillisecondType>(array, zone.is_some())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            timestamps::<TimestampMicrosecondType>(array, zone.is_some())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamps::<TimestampNanosecondType>(array, zone.is_some()),
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = native::<IntervalDayTimeType>(array);
            plain(move |row| format!("\"{}\"", interval(value(row))))
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let elements = Column::new(lists.values())?;
            Box::new(move |row, json| {
                let offsets = lists.value_offsets();
                json.push(b'[');
                separated(offsets[row].as_usize()..offsets[row + 1].as_usize(), json, |at, json| {
                    elements.put(at, json)
                });
                json.push(b']');
            })
        }
        DataType::Map(..) => maps(array)?,
        DataType::Struct(fields) => object(fields, array.as_struct().columns())?,
        other => return Err(ParquetError::General(format!("values of type {other} cannot be written as JSON"))),
    })
}

fn native<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> impl Fn(usize) -> T::Native + 'a {
    let values = array.as_primitive::<T>();
    |row| values.value(row)
}

/// Values whose text is their JSON.
fn plain<'a, D: Display>(value: impl Fn(usize) -> D + 'a) -> Put<'a> {
    Box::new(move |row, json| write!(json, "{}", value(row)).expect("a vector takes all bytes"))
}

/// Numbers as in columns that are kept; null for those that JSON does not have.
fn floats<'a, F: Serialize>(value: impl Fn(usize) -> F + 'a) -> Put<'a> {
    Box::new(move |row, json| put(value(row), json))
}

fn put(value: impl Serialize, json: &mut Vec<u8>) {
    serde_json::to_writer(json, &value).expect("a vector takes all bytes");
}

/// A date or time as a string. One outside the calendar is its number, as in columns that are kept.
fn moment(time: Option<impl Debug>, number: impl Display) -> String {
    time.map_or_else(|| number.to_string(), |time| format!("\"{time:?}\""))
}

/// Parquet has times in UTC and times without a zone.
fn timestamps<T: ArrowTimestampType>(array: &dyn Array, is_utc: bool) -> Put<'_> {
    let value = native::<T>(array);
    plain(move |row| {
        let time = as_datetime::<T>(value(row));
        match time {
            Some(time) if is_utc => format!("\"{}\"", time.and_utc().to_rfc3339_opts(SecondsFormat::AutoSi, true)),
            _ => moment(time, value(row)),
        }
    })
}

/// Days, hours, minutes and seconds, without those that are zero.
fn interval(of: IntervalDayTime) -> String {
    let (days, milliseconds) = (of.days, of.milliseconds);
    let (hours, minutes) = (milliseconds / 3_600_000, milliseconds / 60_000 % 60);
    let whole = [(days, "days"), (hours, "hours"), (minutes, "mins")];
    let mut parts: Vec<_> =
        whole.iter().filter(|(number, _)| *number != 0).map(|(number, unit)| format!("{number} {unit}")).collect();
    let rest = milliseconds % 60_000;
    if rest != 0 {
        let sign = if rest < 0 { "-" } else { "" };
        parts.push(format!("{sign}{}.{:03} secs", rest.abs() / 1_000, rest.abs() % 1_000));
    }
    if parts.is_empty() { "0 secs".to_owned() } else { parts.join(" ") }
}

fn maps(array: &dyn Array) -> Result<Put<'_>> {
    let maps = array.as_map();
    if maps.keys().data_type() != &DataType::Utf8 || maps.keys().null_count() + maps.entries().null_count() > 0 {
        return Err(ParquetError::General("the keys of a map must be non-null strings".to_owned()));
    }
    let keys = maps.keys().as_string::<i32>();
    let values = Column::new(maps.values())?;
    Ok(Box::new(move |row, json| {
        let offsets = maps.value_offsets();
        json.push(b'{');
        separated(offsets[row].as_usize()..offsets[row + 1].as_usize(), json, |at, json| {
            put(keys.value(at), json);
            json.push(b':');
            values.put(at, json);
        });
        json.push(b'}');
    }))
}

fn object<'a>(fields: &Fields, columns: &'a [arrow_array::ArrayRef]) -> Result<Put<'a>> {
    let columns = fields.iter().zip(columns).map(|(field, column)| {
        let mut name = Vec::new();
        put(field.name(), &mut name);
        name.push(b':');
        Ok((name, Column::new(column)?))
    });
    let columns: Vec<_> = columns.collect::<Result<_>>()?;
    Ok(Box::new(move |row, json| {
        json.push(b'{');
        separated(0..columns.len(), json, |at, json| {
            let (name, column) = &columns[at];
            json.extend_from_slice(name);
            column.put(row, json);
        });
        json.push(b'}');
    }))
}

/// Appends each number of a range with commas between.
fn separated(range: std::ops::Range<usize>, json: &mut Vec<u8>, put: impl Fn(usize, &mut Vec<u8>)) {
    for at in range.clone() {
        if at != range.start {
            json.push(b',');
        }
        put(at, json);
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;
    use std::sync::Arc;

    use arrow_array::builder::{FixedSizeBinaryBuilder, Int64Builder, ListBuilder, MapBuilder, StringBuilder};
    use arrow_array::{
        ArrayRef, BinaryArray, BooleanArray, NullArray, PrimitiveArray, StringArray, StructArray, TimestampSecondArray,
    };
    use arrow_buffer::i256;
    use arrow_json::WriterBuilder;
    use arrow_json::writer::LineDelimited;
    use proptest::prelude::*;

    use super::*;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
            .unwrap()
    }

    fn written(batch: &RecordBatch) -> String {
        let mut json = Vec::new();
        put_rows(batch, &mut json).unwrap();
        String::from_utf8(json).unwrap()
    }

    fn of_arrow(batch: &RecordBatch) -> String {
        let mut json = Vec::new();
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut json);
        writer.write(batch).unwrap();
        writer.finish().unwrap();
        String::from_utf8(json).unwrap()
    }

    /// Each value twice, with a null between.
    fn numbers<T: ArrowPrimitiveType>(values: &[T::Native]) -> PrimitiveArray<T> {
        values.iter().flat_map(|value| [Some(*value), None, Some(*value)]).collect()
    }

    fn column(array: impl Array + 'static) -> RecordBatch {
        batch(vec![("a \"column\"", Arc::new(array))])
    }

    #[test]
    fn numbers_are_those_of_arrow() {
        let batches = [
            column(NullArray::new(3)),
            column(BooleanArray::from(vec![Some(true), None, Some(false)])),
            column(numbers::<Int8Type>(&[i8::MIN, 7])),
            column(numbers::<Int16Type>(&[i16::MIN, 7])),
            column(numbers::<Int32Type>(&[i32::MIN, 7])),
            column(numbers::<Int64Type>(&[i64::MIN, 7])),
            column(numbers::<UInt8Type>(&[u8::MAX])),
            column(numbers::<UInt16Type>(&[u16::MAX])),
            column(numbers::<UInt32Type>(&[u32::MAX])),
            column(numbers::<UInt64Type>(&[u64::MAX])),
            column(numbers::<Decimal128Type>(&[-123, 0, 5]).with_precision_and_scale(9, 4).unwrap()),
            column(numbers::<Decimal256Type>(&[i256::from(-123)]).with_precision_and_scale(50, 0).unwrap()),
        ];
        for batch in batches {
            assert_eq!(written(&batch), of_arrow(&batch));
        }
    }

    /// Asserts that each number of a column reads as arrow's does. Its digits may be others.
    fn same_numbers<F: FromStr + PartialEq + Debug>(batch: RecordBatch) {
        let read = |json: String| {
            let values = json.lines().map(|line| line.rsplit_once(':').unwrap().1.trim_end_matches('}').to_owned());
            values.map(|value| value.parse::<F>().map_err(|_| value)).collect::<Vec<_>>()
        };
        assert_eq!(read(written(&batch)), read(of_arrow(&batch)));
    }

    #[test]
    fn floats_have_points_or_are_null() {
        let numbers = column(numbers::<Float64Type>(&[1.0, -0.0, 1e300, f64::NAN, f64::NEG_INFINITY]));
        let found: Vec<String> = written(&numbers).lines().step_by(3).map(str::to_owned).collect();
        let expected = ["1.0", "-0.0", "1e+300", "null", "null"];
        assert_eq!(found, expected.map(|number| format!("{{\"a \\\"column\\\"\":{number}}}")));
        let halves = [0.1, 65504.0, f32::INFINITY, -2.0].map(<Float16Type as ArrowPrimitiveType>::Native::from_f32);
        same_numbers::<f32>(column(self::numbers::<Float16Type>(&halves)));
    }

    proptest! {
        #[test]
        fn floats_are_those_of_arrow(bits: u64, number in -10_f64..10.0, exponent in -20_i32..20) {
            let near = number * 10_f64.powi(exponent);
            let doubles = numbers::<Float64Type>(&[f64::from_bits(bits), number, near, near.round()]);
            let singles = numbers::<Float32Type>(&[f32::from_bits(bits as u32), near as f32, near.round() as f32]);
            same_numbers::<f64>(column(doubles));
            same_numbers::<f32>(column(singles));
        }

        #[test]
        fn intervals_are_those_of_arrow(days: i32, milliseconds: i32, small in -100_000..100_000) {
            let times = [(0, 0), (days, 0), (0, milliseconds), (days, milliseconds), (0, small), (1, small / 1_000 * 1_000)];
            let times = times.map(|(days, milliseconds)| IntervalDayTime::new(days, milliseconds));
            let batch = column(numbers::<IntervalDayTimeType>(&times));
            prop_assert_eq!(written(&batch), of_arrow(&batch));
        }
    }

    #[test]
    fn times_are_those_of_arrow() {
        let batches = [
            column(numbers::<Date32Type>(&[0, -1, 19_782, -719_529, 4_000_000])),
            column(numbers::<Time32MillisecondType>(&[0, 1, 86_399_999])),
            column(numbers::<Time64MicrosecondType>(&[0, 1, 86_399_999_999])),
            column(numbers::<Time64NanosecondType>(&[0, 1, 86_399_999_999_999])),
            column(numbers::<TimestampMillisecondType>(&[0, 1, -1, 1_700_000_000_000])),
            column(numbers::<TimestampMicrosecondType>(&[0, 1, -1, 1_700_000_000_000_000])),
            column(numbers::<TimestampNanosecondType>(&[0, 1, -1, 1_700_000_000_000_000_000])),
        ];
        for batch in batches {
            assert_eq!(written(&batch), of_arrow(&batch));
        }
    }

    #[test]
    fn times_in_utc_and_outside_the_calendar_are_readable() {
        let utc = numbers::<TimestampMillisecondType>(&[1_500, i64::MAX]).with_timezone("UTC");
        let rows = [r#"{"t":"1970-01-01T00:00:01.500Z"}"#, r#"{"t":9223372036854775807}"#];
        let expected = rows.map(|row| format!("{row}\n{{\"t\":null}}\n{row}\n")).concat();
        assert_eq!(written(&batch(vec![("t", Arc::new(utc))])), expected);
        let time = numbers::<Time32MillisecondType>(&[86_400_000]);
        assert!(written(&batch(vec![("t", Arc::new(time))])).starts_with("{\"t\":86400000}\n"));
    }

    #[test]
    fn nested_values_are_those_of_arrow() {
        let text = StringArray::from(vec![Some("a \"b\"\n\u{1}é"), None, Some("")]);
        let mut bytes = FixedSizeBinaryBuilder::new(3);
        bytes.append_value([0, 10, 255]).unwrap();
        bytes.append_null();
        bytes.append_value([1, 2, 3]).unwrap();
        let mut lists = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        lists.values().append_value([Some(1), None]);
        lists.values().append_null();
        lists.append(true);
        lists.append(false);
        lists.append(true);
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        maps.keys().append_value("a \"key\"");
        maps.values().append_value(1);
        maps.keys().append_value("b");
        maps.values().append_null();
        maps.append(true).unwrap();
        maps.append(false).unwrap();
        maps.append(true).unwrap();
        let inner = batch(vec![("text", Arc::new(text)), ("bytes", Arc::new(bytes.finish()))]);
        let (fields, columns, _) = StructArray::from(inner).into_parts();
        let nulls = NullBuffer::from(vec![true, true, false]);
        let objects = StructArray::new(fields, columns, Some(nulls));
        let whole = batch(vec![
            ("objects", Arc::new(objects)),
            ("lists", Arc::new(lists.finish())),
            ("maps", Arc::new(maps.finish())),
        ]);
        for batch in [whole.clone(), whole.slice(1, 2), whole.slice(0, 0)] {
            assert_eq!(written(&batch), of_arrow(&batch));
        }
    }

    #[test]
    fn values_without_json_are_named() {
        let mut maps = MapBuilder::new(None, Int64Builder::new(), Int64Builder::new());
        maps.append(true).unwrap();
        for (batch, reason) in [
            (column(BinaryArray::from(vec![b"a".as_slice()])), "values of type Binary cannot be written as JSON"),
            (column(TimestampSecondArray::from(vec![1])), "values of type Timestamp(s) cannot be written as JSON"),
            (column(maps.finish()), "the keys of a map must be non-null strings"),
        ] {
            let error = put_rows(&batch, &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
