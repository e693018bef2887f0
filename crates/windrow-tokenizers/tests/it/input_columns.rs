//! Parquet files as inputs. The files are written by the crate `parquet`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int8Array, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Fields as ArrowFields};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression as Codec, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use windrow_tokenizers::input::{Compression, ErrorClass, Fields, Format, InputError, InputFile, Reader};

use crate::input_common::{Owned, in_memory, read_with};

/// Writes columns in row groups of `rows` rows.
pub(crate) fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, rows: usize, properties: WriterPropertiesBuilder) {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
    let batch = batch.expect("columns of the same length");
    let properties = properties.set_max_row_group_row_count(Some(rows)).set_data_page_row_count_limit(7).build();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_write_batch_size(5)
}

fn texts(count: usize) -> Vec<Option<String>> {
    (0..count).map(|i| (i % 11 != 3).then(|| format!("{i} é{}", "word ".repeat(i * 7 % 40)))).collect()
}

pub(crate) fn strings(texts: &[Option<String>]) -> ArrayRef {
    Arc::new(texts.iter().map(Option::as_deref).collect::<StringArray>())
}

/// The values of a column of strings, read by arrow.
pub(crate) fn column(bytes: &[u8], name: &str) -> Vec<Option<String>> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(bytes)).unwrap().build().unwrap();
    let values = reader.flat_map(|batch| {
        let batch = batch.unwrap();
        let array = batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        array.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    });
    values.collect()
}

fn read(path: &Path, fields: Fields, batch_bytes: usize) -> Result<Vec<Owned>, InputError> {
    let file = InputFile::from_path(path, Format::Parquet, Compression::None);
    let reader = Reader::new(vec![file], batch_bytes).fields(fields);
    let (records, reports) = read_with(reader, batch_bytes)?;
    let bytes = fs::read(path).unwrap();
    assert_eq!((reports[0].bytes, reports[0].documents), (bytes.len() as u64, records.len() as u64));
    assert_eq!(reports[0].blake3, blake3::hash(&bytes).to_hex().to_string());
    assert_eq!(reports[0].decompressed_bytes, records.iter().map(|record| record.3.len() as u64).sum::<u64>());
    Ok(records)
}

/// The records of these texts, with the rows as lines.
fn records(texts: &[Option<String>]) -> Vec<Owned> {
    let bytes = texts.iter().map(|text| text.clone().unwrap_or_default().into_bytes());
    bytes.zip(0..).map(|(bytes, row)| (0, row + 1, row, bytes)).collect()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    (directory, path)
}

#[test]
fn strings_of_every_type_are_the_same_records() {
    let (_directory, path) = place();
    let texts = texts(300);
    let dictionary: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
    let large: LargeStringArray = texts.iter().map(Option::as_deref).collect();
    let view: StringViewArray = texts.iter().map(Option::as_deref).collect();
    let bytes: BinaryArray = texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect();
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300));
    let kinds: Vec<ArrayRef> =
        vec![strings(&texts), Arc::new(large), Arc::new(view), Arc::new(dictionary), Arc::new(bytes)];
    for array in kinds {
        for rows in [1, 40, 1000] {
            let columns = vec![("id", id.clone()), ("text", array.clone())];
            write(&path, columns, rows, properties());
            for batch_bytes in [1, 100, 5000, 1 << 20] {
                let read = read(&path, Fields::default(), batch_bytes).unwrap();
                assert!(read == records(&texts), "{:?}, {rows} rows, {batch_bytes}", array.data_type());
            }
        }
    }
}

#[test]
fn codecs_encodings_and_pages_do_not_matter() {
    let (_directory, path) = place();
    let texts = texts(300);
    let codecs = [
        Codec::UNCOMPRESSED,
        Codec::SNAPPY,
        Codec::GZIP(GzipLevel::default()),
        Codec::LZ4,
        Codec::LZ4_RAW,
        Codec::ZSTD(ZstdLevel::default()),
    ];
    let version_2 = parquet::file::properties::WriterVersion::PARQUET_2_0;
    for codec in codecs {
        for encoding in
            [None, Some(Encoding::PLAIN), Some(Encoding::DELTA_LENGTH_BYTE_ARRAY), Some(Encoding::DELTA_BYTE_ARRAY)]
        {
            let properties = properties().set_compression(codec).set_writer_version(version_2);
            let properties = match encoding {
                None => properties,
                Some(encoding) => {
                    properties.set_dictionary_enabled(false).set_column_encoding(ColumnPath::from("text"), encoding)
                }
            };
            write(&path, vec![("text", strings(&texts))], 100, properties);
            let read = read(&path, Fields::default(), 1000).unwrap();
            assert!(read == records(&texts), "{codec}, {encoding:?}");
        }
    }
}

#[test]
fn brotli_is_refused_by_name() {
    let (_directory, path) = place();
    write(&path, vec![("text", strings(&texts(9)))], 100, properties().set_compression(Codec::UNCOMPRESSED));
    let mut bytes = fs::read(&path).unwrap();
    // The footer names the codec of the column: a field of a compact struct, 0 for none, 4 for brotli.
    let message = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        read(&path, Fields::default(), 100).map_or_else(|error| error.to_string(), |_| String::new())
    };
    let footer = bytes.len() / 2..bytes.len() - 8;
    let refused = footer.into_iter().any(|at| {
        let before = std::mem::replace(&mut bytes[at], 8);
        let said = message(&bytes);
        bytes[at] = before;
        said.contains("row group 1, column \"text\": compressed with BROTLI")
            && said.ends_with("hint: write it again, compressed with zstd, snappy, lz4 or gzip")
    });
    assert!(refused);
}

#[test]
fn columns_are_found_by_name_and_path() {
    let (_directory, path) = place();
    let inner = texts(20);
    let outer = StructArray::new(
        ArrowFields::from(vec![Field::new("body", DataType::Utf8, true)]),
        vec![strings(&inner)],
        Some((0..20).map(|i| i % 2 == 0).collect::<Vec<_>>().into()),
    );
    let mut lists = ListBuilder::new(StringBuilder::new());
    (0..20).for_each(|i| lists.append_value([Some(format!("{i}"))]));
    let literal: Vec<Option<String>> = (0..20).map(|i| Some(format!("literal {i}"))).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..20))),
        ("meta", Arc::new(outer)),
        ("tags", Arc::new(lists.finish())),
        ("a.b", strings(&literal)),
    ];
    write(&path, columns, 6, properties());
    let read = |column: &str| read(&path, Fields::new(column), 100);
    // A null struct has null fields.
    let expected: Vec<_> = inner.into_iter().zip(0..).map(|(text, i)| text.filter(|_| i % 2 == 0)).collect();
    assert_eq!(read("meta.body").unwrap(), records(&expected));
    assert_eq!(read("a.b").unwrap(), records(&literal));
    let refusals = [
        (
            "text",
            "column \"text\" is missing; the columns are \"id\", \"meta.body\", \"tags.list.item\", \"a.b\"\nhint: choose one",
        ),
        ("id", "column \"id\" has type int64, not text\nhint: choose a column of strings with --column NAME"),
        (
            "tags",
            "column \"tags\" is nested: it holds \"tags.list.item\"\nhint: choose a column of strings, or a field",
        ),
        (
            "tags.list.item",
            "column \"tags.list.item\" is nested: a row can have any number of values\nhint: choose a column",
        ),
        ("meta", "column \"meta\" is nested: it holds \"meta.body\"\nhint: "),
    ];
    for (column, says) in refusals {
        let error = read(column).unwrap_err();
        assert!(error.to_string().contains(&format!("a.parquet: {says}")), "{error}");
        assert_eq!(error.class(), ErrorClass::Data);
    }
}

#[test]
fn texts_of_columns_are_joined_and_the_first_null_is_named() {
    let (_directory, path) = place();
    let (one, two) = (texts(50), (0..50).map(|i| (i % 5 != 0).then(|| format!("b{i}"))).collect::<Vec<_>>());
    write(&path, vec![("one", strings(&one)), ("two", strings(&two))], 8, properties());
    let fields = Fields { text: vec!["two".into(), "one".into()], join: "--".into(), ..Fields::default() };
    let joined: Vec<_> =
        one.iter().zip(&two).map(|(one, two)| Some(format!("{}--{}", two.as_ref()?, one.as_ref()?))).collect();
    for batch_bytes in [1, 64, 1 << 20] {
        assert_eq!(read(&path, fields.clone(), batch_bytes).unwrap(), records(&joined));
    }
    let file = InputFile::from_path(&path, Format::Parquet, Compression::None);
    let mut reader = Reader::new(vec![file], 1 << 20).fields(fields);
    let batch = reader.next_batch(Default::default(), &mut |_| Ok(())).unwrap().expect("there are rows");
    let nulls = one.iter().zip(&two).map(|(one, two)| match (two, one) {
        (None, _) => Some(0),
        (_, None) => Some(1),
        _ => None,
    });
    assert!(batch.records.iter().map(|record| record.null).eq(nulls));
}

#[test]
fn values_of_every_kind_are_kept_as_json() {
    let (_directory, path) = place();
    let dictionary: DictionaryArray<Int32Type> = [Some("x"), None, Some("\"é\n\"")].into_iter().collect();
    let columns: Vec<(&str, ArrayRef, &str)> = vec![
        ("long", Arc::new(Int64Array::from(vec![Some(-5), None, Some(i64::MAX)])), "-5,null,9223372036854775807"),
        ("unsigned", Arc::new(UInt64Array::from(vec![0, u64::MAX, 7])), "0,18446744073709551615,7"),
        ("byte", Arc::new(Int8Array::from(vec![-1, 2, 3])), "-1,2,3"),
        ("yes", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None])), "true,false,null"),
        ("single", Arc::new(Float32Array::from(vec![0.1, f32::NAN, -2.0])), "0.1,\"NaN\",-2.0"),
        (
            "double",
            Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, f64::INFINITY, 1e300])),
            "\"-Infinity\",\"Infinity\",1e+300",
        ),
        ("text", Arc::new(StringArray::from(vec!["a", "b", "c"])), "\"a\",\"b\",\"c\""),
        ("word", Arc::new(dictionary), "\"x\",null,\"\\\"é\\n\\\"\""),
        ("day", Arc::new(Date32Array::from(vec![0, -1, 19_782])), "\"1970-01-01\",\"1969-12-31\",\"2024-02-29\""),
        (
            "time",
            Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_120, 0, -1]).with_timezone("UTC")),
            "\"2023-11-14T22:13:20.120Z\",\"1970-01-01T00:00:00Z\",\"1969-12-31T23:59:59.999Z\"",
        ),
        (
            "local",
            Arc::new(TimestampMicrosecondArray::from(vec![1, 0, 1_000_000])),
            "\"1970-01-01T00:00:00.000001\",\"1970-01-01T00:00:00\",\"1970-01-01T00:00:01\"",
        ),
    ];
    let arrays = columns.iter().map(|(name, array, _)| (*name, array.clone())).collect();
    write(&path, arrays, 2, properties());
    for (name, _, expected) in columns {
        let fields = Fields { keep: vec![name.to_owned(), "long".to_owned()], ..Fields::default() };
        let file = InputFile::from_path(&path, Format::Parquet, Compression::None);
        let batch = Reader::new(vec![file], 1 << 20).fields(fields).next_batch(Default::default(), &mut |_| Ok(()));
        let batch = batch.unwrap().expect("there are rows");
        let values: Vec<_> =
            batch.kept.values().iter().step_by(2).map(|value| str::from_utf8(value).unwrap()).collect();
        assert_eq!(values.join(","), expected, "{name}");
    }
    let bytes: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"\xff"]));
    let number = |name: &'static str| (name, Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef);
    let columns = vec![("text", strings(&texts(3))), ("bytes", bytes), number("id"), number("id"), number("text")];
    write(&path, columns, 2, properties());
    for (keep, text, says) in [
        ("bytes", "id", "column \"id\" occurs more than once: columns 3 and 4\nhint: give the columns different names"),
        ("id", "bytes", "column \"id\" occurs more than once: columns 3 and 4\nhint: correct the name in --keep"),
        ("id", "text", "column \"text\" occurs more than once: columns 1 and 5"),
        (
            "none",
            "bytes",
            "column \"none\" is missing; the columns are \"text\", \"bytes\", \"id\", \"id\", \"text\"\nhint: correct the name in --keep",
        ),
    ] {
        let fields = Fields { keep: vec![keep.to_owned()], ..Fields::new(text) };
        let said = read(&path, fields, 100).unwrap_err().to_string();
        assert!(said.contains(says), "{keep}, {text}: {said}");
    }
    write(
        &path,
        vec![("text", strings(&texts(3))), ("bytes", Arc::new(BinaryArray::from_vec(vec![b"a", b"b", b"\xff"])))],
        2,
        properties(),
    );
    let fields = Fields { keep: vec!["bytes".to_owned()], ..Fields::default() };
    let said = read(&path, fields, 100).unwrap_err().to_string();
    assert!(said.contains("row 3, column \"bytes\": bytes that are not UTF-8 cannot be kept\nhint: omit it"), "{said}");
    let decimal = Decimal128Array::from(vec![1, 2, 3]);
    write(&path, vec![("text", strings(&texts(3))), ("price", Arc::new(decimal))], 2, properties());
    let fields = Fields { keep: vec!["price".to_owned()], ..Fields::default() };
    let said = read(&path, fields, 100).unwrap_err().to_string();
    assert!(
        said.contains("column \"price\" has type decimal") && said.ends_with("hint: omit it from --keep"),
        "{said}"
    );
}

#[test]
fn streams_pipes_and_other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.parquet");
    let first = |file| Reader::new(vec![file], 100).next_batch(Default::default(), &mut |_| Ok(())).unwrap_err();
    let stream = first(in_memory(b"PAR1", Format::Parquet, Compression::None)).to_string();
    assert_eq!(stream, "memory: Parquet cannot be read from a stream\nhint: save it to a file, and pass the file");
    fs::write(&path, b"{\"text\": \"JSON lines of some length\"}\n").unwrap();
    let said = first(InputFile::from_path(&path, Format::Parquet, Compression::None)).to_string();
    assert!(said.contains("a.parquet: not Parquet but JSON lines\nhint: pass --input-format jsonl"), "{said}");
    let said = first(InputFile::from_path(&path, Format::Parquet, Compression::Gzip)).to_string();
    assert!(said.contains("a compressed Parquet file") && said.ends_with("hint: decompress it first"), "{said}");
    fs::write(&path, b"").unwrap();
    let said = first(InputFile::from_path(&path, Format::Parquet, Compression::None)).to_string();
    assert!(said.contains("a.parquet: not a Parquet file: "), "{said}");
}

#[test]
fn only_the_wanted_column_is_decoded() {
    let (_directory, path) = place();
    let (wanted, other) = (texts(100), vec![Some("x".repeat(2000)); 100]);
    write(
        &path,
        vec![("other", strings(&other)), ("text", strings(&wanted))],
        100,
        properties().set_dictionary_enabled(false),
    );
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(100).position(|window| window == [b'x'; 100]).unwrap();
    bytes[4..at + 5000].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert_eq!(read(&path, Fields::default(), 1000).unwrap(), records(&wanted));
    let damaged = read(&path, Fields::new("other"), 1000).unwrap_err();
    let said = damaged.to_string();
    assert!(said.contains("a.parquet: row group 1, column \"other\": "), "{said}");
    assert!(said.ends_with("hint: the file is damaged; copy, download or write it again"), "{said}");
    assert_eq!(damaged.class(), ErrorClass::Data);
}

#[test]
fn damage_is_an_error_or_invisible() {
    let (_directory, path) = place();
    let texts = texts(30);
    write(&path, vec![("text", strings(&texts))], 8, properties().set_compression(Codec::SNAPPY));
    let bytes = fs::read(&path).unwrap();
    let outcome = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let file = InputFile::from_path(&path, Format::Parquet, Compression::None);
        let outcome = read_with(Reader::new(vec![file], 500), 500).map(|(records, _)| records);
        assert!(!matches!(&outcome, Err(error) if error.class() != ErrorClass::Data), "{outcome:?}");
        outcome
    };
    for end in 0..bytes.len() {
        outcome(&bytes[..end]).expect_err("what is cut off is missed");
    }
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            damaged[at] ^= change;
            let _ = outcome(&damaged);
            damaged[at] = bytes[at];
        }
    }
    assert_eq!(outcome(&bytes).unwrap(), records(&texts));
}
