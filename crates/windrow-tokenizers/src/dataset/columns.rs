//! Documents of Arrow files and Parquet files.

use std::fmt;
use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::FileReaderBuilder;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::error::DatasetError;
use super::visit::Visitor;
use crate::engine::caught;
use crate::output::Format;

/// Rows of Parquet that are decoded at a time.
const ROWS: usize = 1024;

/// Visits the rows of a file, until the visitor breaks.
pub(super) fn walk(format: Format, path: &Path, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let damaged = |what: &dyn fmt::Display| DatasetError::damaged(path, what);
    let file = File::open(path).map_err(|error| DatasetError::io(path, &error))?;
    // The readers panic on some damaged files.
    let opened = caught(|| -> Result<Batches, DatasetError> {
        if format == Format::Arrow {
            let reader = FileReaderBuilder::new().build(file).map_err(|error| damaged(&error))?;
            Ok(Box::new(reader.map(|batch| batch.map_err(|error| error.to_string()))))
        } else {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
            let columns = ProjectionMask::columns(builder.parquet_schema(), ["ids.list.item"]);
            let reader = builder.with_projection(columns).with_batch_size(ROWS).build();
            let reader = reader.map_err(|error| damaged(&error))?;
            Ok(Box::new(reader.map(|batch| batch.map_err(|error| error.to_string()))))
        }
    });
    let mut batches = opened.unwrap_or_else(|message| Err(damaged(&message)))?;
    loop {
        let batch = match caught(|| batches.next()) {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(batch))) => batch,
            Ok(Some(Err(message))) | Err(message) => return Err(damaged(&message)),
        };
        let column = batch.column_by_name("ids").and_then(|column| column.as_list_opt::<i64>());
        let ids = column.and_then(|lists| Some((lists, lists.values().as_primitive_opt::<UInt32Type>()?)));
        let Some((lists, ids)) = ids.filter(|(lists, ids)| lists.null_count() == 0 && ids.null_count() == 0) else {
            return Err(damaged(&"it has no column \"ids\" of large lists of u32 without nulls"));
        };
        for row in lists.value_offsets().windows(2) {
            if visit(&ids.values()[row[0] as usize..row[1] as usize]).is_break() {
                return Ok(());
            }
        }
    }
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>>>;
