//! Arrow and Parquet files, read back by their crates and, if they are installed, by programs of other people.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use windrow_tokenizers::dataset::Dataset;
use windrow_tokenizers::manifest::{Documents, InputFile, Manifest};
use windrow_tokenizers::output::{Document, Format, Kept, Output, OutputErrorKind, OutputOptions};

const FORMATS: [Format; 3] = [Format::Arrow, Format::ArrowStream, Format::Parquet];

/// The ids of each row, and the other columns.
pub(crate) fn read(options: &OutputOptions) -> (Vec<Vec<u32>>, Vec<Vec<Option<String>>>) {
    let path = format!("{}{}", options.prefix.display(), options.format.suffixes()[0]);
    let file = File::open(path).unwrap();
    let batches: Vec<RecordBatch> = match options.format {
        Format::Arrow => FileReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        Format::ArrowStream => StreamReader::try_new(file, None).unwrap().map(Result::unwrap).collect(),
        _ => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
            let names: Vec<_> = reader.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, [&["ids".to_owned()], options.keep.as_slice()].concat());
            reader.build().unwrap().map(Result::unwrap).collect()
        }
    };
    let mut ids = Vec::new();
    let mut kept = vec![Vec::new(); options.keep.len()];
    for batch in batches {
        if options.format == Format::ArrowStream {
            let lists = batch.column_by_name("input_ids").unwrap().as_list::<i32>();
            let row = |list: arrow_array::ArrayRef| {
                list.as_primitive::<Int32Type>().iter().map(|id| id.unwrap() as u32).collect()
            };
            ids.extend(lists.iter().map(|list| row(list.unwrap())));
            for (column, name) in kept.iter_mut().zip(&options.keep) {
                let values = batch.column_by_name(name).unwrap().as_string::<i32>();
                column.extend(values.iter().map(|value| value.map(str::to_owned)));
            }
            continue;
        }
        let lists = batch.column_by_name("ids").unwrap().as_list::<i64>();
        assert!(matches!(lists.data_type(), DataType::LargeList(item) if item.data_type() == &DataType::UInt32));
        assert_eq!(lists.null_count(), 0);
        ids.extend(lists.iter().map(|list| list.unwrap().as_primitive::<UInt32Type>().values().to_vec()));
        for (column, name) in kept.iter_mut().zip(&options.keep) {
            let values = batch.column_by_name(name).unwrap().as_string::<i64>();
            column.extend(values.iter().map(|value| value.map(str::to_owned)));
        }
    }
    (ids, kept)
}

fn kept_of(range: std::ops::Range<usize>) -> Kept {
    let mut kept = Kept::default();
    for document in range {
        for value in values_of(document) {
            kept.bytes.extend_from_slice(value.as_bytes());
            kept.end();
        }
    }
    kept
}

fn values_of(document: usize) -> [String; 2] {
    let second = match document % 4 {
        0 => "null".to_owned(),
        1 => format!("\"a \\\"{document}\\\" \\u00e9\""),
        2 => format!("[{document}, {{}}]"),
        _ => "\"\"".to_owned(),
    };
    [document.to_string(), second]
}

/// Writes documents with kept values.
fn write(options: &OutputOptions, documents: &[Vec<u32>]) {
    let mut output = Output::create(options).unwrap();
    for (number, ids) in documents.iter().enumerate() {
        let kept = kept_of(number..number + 1);
        output.push(Document { ids, kept: kept.values(), ..Document::default() }).unwrap();
    }
    let written = documents.len() as u64;
    let documents = Documents { read: written, written, ..Documents::default() };
    output.publish(Manifest { documents, ..Manifest::default() }).unwrap();
}

fn options(directory: &Path, format: Format) -> OutputOptions {
    let keep = vec!["id".to_owned(), "a.b".to_owned()];
    OutputOptions { format, keep, overwrite: true, ..OutputOptions::new(directory.join("out"), 70_000) }
}

/// Some documents of many ids, and many of few.
fn documents() -> Vec<Vec<u32>> {
    let long = |n: u32| (0..700_000).map(|id| (id * 7 + n) % 70_000).collect();
    let short = (0..150_000_u32).map(|n| vec![n % 70_000; n as usize % 3]);
    (0..4).map(long).chain(short).chain([vec![1; 3_000_000], vec![]]).collect()
}

#[test]
fn columns_are_read_back() {
    let documents = documents();
    let names = (0..documents.len()).map(|n| Some(n.to_string()));
    let others = (0..documents.len()).map(|n| match n % 4 {
        0 => None,
        1 => Some(format!("a \"{n}\" é")),
        2 => Some(format!("[{n}, {{}}]")),
        _ => Some(String::new()),
    });
    let expected = vec![names.collect::<Vec<_>>(), others.collect::<Vec<_>>()];
    for format in FORMATS {
        let directory = tempfile::tempdir().unwrap();
        let options = options(directory.path(), format);
        write(&options, &documents);
        let (ids, kept) = read(&options);
        assert!(ids == documents && kept == expected, "{format}");
    }
}

#[test]
fn other_formats_have_a_line_per_document_next_to_the_ids() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), Format::Npy);
    write(&options, &[vec![1], vec![], vec![2, 3]]);
    let lines = std::fs::read_to_string(directory.path().join("out.kept.jsonl")).unwrap();
    let expected = "{\"id\":0,\"a.b\":null}\n{\"id\":1,\"a.b\":\"a \\\"1\\\" \\u00e9\"}\n{\"id\":2,\"a.b\":[2, {}]}\n";
    assert_eq!(lines, expected);
    let manifest = std::fs::read(directory.path().join("out.manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let listed = &manifest["outputs"][2];
    assert_eq!(listed["file"], "out.kept.jsonl");
    assert_eq!(listed["blake3"], blake3::hash(lines.as_bytes()).to_hex().as_str());
}

#[test]
#[should_panic(expected = "a value for each kept field")]
fn a_document_without_its_values_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut output = Output::create(&options(directory.path(), Format::Npy)).unwrap();
    let _ = output.append(&[1, 2], &[1, 2]);
}

#[test]
fn a_kept_field_cannot_be_named_as_the_ids() {
    let directory = tempfile::tempdir().unwrap();
    let options = OutputOptions { keep: vec!["ids".to_owned()], ..options(directory.path(), Format::Arrow) };
    let error = Output::create(&options).unwrap_err();
    assert_eq!(error.kind(), OutputErrorKind::Usage);
    assert!(error.to_string().contains("\nhint: choose a --format"), "{error}");
}

#[test]
fn python_reads_both() {
    let has = |module: &str| {
        let found = Command::new("python3").args(["-c", &format!("import {module}")]).output();
        let found = found.is_ok_and(|run| run.status.success());
        if !found {
            println!("skipped: python3 with {module} is not installed");
        }
        found
    };
    let directory = tempfile::tempdir().unwrap();
    let documents = vec![vec![1, 69_999], vec![], vec![2]];
    for format in [Format::Arrow, Format::Parquet] {
        write(&options(directory.path(), format), &documents);
    }
    let rows = "{'ids': [1, 69999], 'id': '0', 'a.b': None}; {'ids': [], 'id': '1', 'a.b': 'a \"1\" é'}; \
                {'ids': [2], 'id': '2', 'a.b': '[2, {}]'}";
    let programs = [
        (
            "pyarrow",
            "import pyarrow as pa, pyarrow.parquet as pq
tables = [pa.ipc.open_file('out.arrow').read_all(), pq.read_table('out.parquet')]
assert all(t.schema.field('ids').type == pa.large_list(pa.field('item', pa.uint32(), False)) for t in tables)
found = [t.to_pylist() for t in tables]",
        ),
        (
            "polars",
            "import polars as pl; found = [pl.read_ipc('out.arrow').to_dicts(), pl.read_parquet('out.parquet').to_dicts()]",
        ),
        (
            "duckdb",
            "import duckdb
found = duckdb.sql(\"select * from 'out.parquet'\")
names = found.columns
found = 2 * [[dict(zip(names, row)) for row in found.fetchall()]]",
        ),
    ];
    for (module, program) in programs {
        if !has(module) {
            continue;
        }
        let program = format!("{program}\nfor rows in found: print(*rows, sep='; ')");
        let run = Command::new("python3").current_dir(directory.path()).args(["-X", "utf8", "-c", &program]).output();
        let run = run.unwrap();
        let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert_eq!(out.trim(), format!("{rows}\n{rows}"), "{module}: {err}");
    }
}

/// The decoder looks at the headers of further pages first, and reads the pages later.
#[test]
fn many_pages_are_verified() {
    let directory = tempfile::tempdir().unwrap();
    let format = Format::Parquet;
    let options = OutputOptions { format, ..OutputOptions::new(directory.path().join("out"), 50_257) };
    let mut output = Output::create(&options).unwrap();
    let mut state = 1_u64;
    let mut id = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % 50_257
    };
    for _ in 0..300 {
        let ids: Vec<u32> = (0..10_000).map(|_| id()).collect();
        let ends: Vec<usize> = (1..=20).map(|number| number * 500).collect();
        output.append(&ids, &ends).unwrap();
    }
    let documents = Documents { read: 6_000, written: 6_000, ..Documents::default() };
    let inputs = vec![InputFile { documents: 6_000, ..InputFile::default() }];
    output.publish(Manifest { documents, inputs, ..Manifest::default() }).unwrap();
    let verified = Dataset::open(&options.prefix).unwrap().verify();
    assert!(verified.bytes > 4 << 20, "several pages");
    assert_eq!(verified.faults, []);
}
