//! Arrow files and Parquet files: a row a document.
//!
//! Rows are collected and written some at a time. Which ones are together depends on the documents alone, so the bytes do not depend on how
//! the documents arrive.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, LargeListArray, LargeStringArray, RecordBatch, UInt8Array, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::arrow_stream::{ArrowStream, INPUT_IDS};
use super::error::{OutputError, OutputErrorKind};
use super::file::{Complete, StagedFile, WriteBack};
use super::format::{Dtype, Format};
use super::run::Run;
use crate::kept::Kept;

/// The column of ids.
const IDS: &str = "ids";

/// The column of masks.
const MASK: &str = "mask";

/// Rows are written together until they have so many ids, so many bytes of kept values, or are so many.
const BATCH_IDS: usize = 1 << 20;
const BATCH_BYTES: usize = 16 << 20;
const BATCH_ROWS: usize = 1 << 16;

/// Of them make a row group of Parquet: its pages are in memory, compressed.
const GROUP: usize = 16;

/// The bytes of a column file on their way to the staged file.
struct Target {
    file: StagedFile,
    failed: Slot,
}

/// What failed in a staged file; the encoder that was writing to it does not say.
type Slot = Arc<Mutex<Option<OutputError>>>;

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.chunks(256 << 10) {
            if let Err(error) = self.file.put(|buffer| buffer.extend_from_slice(part)) {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return Err(io::Error::other("the staged file failed"));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Encoder {
    Arrow(Box<FileWriter<Target>>),
    Stream(Box<ArrowStream<Target>>),
    Parquet(Box<ArrowWriter<Target>>),
}

impl Encoder {
    fn target(&mut self) -> &mut Target {
        match self {
            Self::Arrow(writer) => writer.get_mut(),
            Self::Stream(writer) => writer.target(),
            Self::Parquet(writer) => writer.inner_mut(),
        }
    }
}

/// An error of a writer. What the staged file says about it takes precedence.
struct Failed(String);

impl From<ArrowError> for Failed {
    fn from(error: ArrowError) -> Self {
        Self(error.to_string())
    }
}

impl From<ParquetError> for Failed {
    fn from(error: ParquetError) -> Self {
        Self(error.to_string())
    }
}

impl Failed {
    fn with(self, slot: &Slot) -> OutputError {
        let own = || OutputError::new(OutputErrorKind::Io, format!("cannot write the columns: {}", self.0));
        slot.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(own)
    }
}

/// The writer of both formats.
pub(crate) struct ColumnWriter {
    encoder: Encoder,
    failed: Slot,
    schema: SchemaRef,
    /// Record batches in the row group.
    batches: usize,
    /// The ids of the rows that are not written, then those of a document that has not ended.
    ids: Vec<u32>,
    /// The mask of each of these ids, if there are masks.
    mask: Option<Vec<u8>>,
    /// The ends of these rows.
    ends: Vec<usize>,
    /// Their kept values by column, as far as they are known, and the bytes of these up to each row.
    kept: Vec<Vec<Option<String>>>,
    kept_ends: Vec<usize>,
}

impl fmt::Debug for ColumnWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnWriter").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl ColumnWriter {
    /// Refuses what no column file can hold.
    pub(crate) fn check(format: Format, keep: &[String], mask: bool) -> Result<(), OutputError> {
        let ids = if format == Format::ArrowStream { INPUT_IDS } else { IDS };
        let columns = [(ids, "ids"), (MASK, "masks")];
        let taken = |(name, _): &&(&str, &str)| (*name != MASK || mask) && keep.iter().any(|field| field == name);
        if let Some((name, what)) = columns.iter().find(taken) {
            let message = format!("a kept field cannot have the name {name:?}, which is that of the column of {what}");
            let error = OutputError::new(OutputErrorKind::Usage, message);
            return Err(error.hint("choose another --format, which keeps fields in a file beside the ids"));
        }
        Ok(())
    }

    pub(crate) fn new(format: Format, file: StagedFile, keep: &[String], mask: bool) -> Result<Self, OutputError> {
        let item = Field::new("item", DataType::UInt32, false);
        let ids = Field::new(IDS, DataType::LargeList(Arc::new(item)), false);
        let masks = mask.then(|| {
            let item = Field::new("item", DataType::UInt8, false);
            Field::new(MASK, DataType::LargeList(Arc::new(item)), false)
        });
        let kept = keep.iter().map(|field| Field::new(field, DataType::LargeUtf8, true));
        let schema = Arc::new(Schema::new([ids].into_iter().chain(masks).chain(kept).collect::<Vec<_>>()));
        let failed = Slot::default();
        let target = Target { file, failed: Arc::clone(&failed) };
        let begun = match format {
            Format::Parquet => {
                let level = ZstdLevel::try_new(1).expect("a level of zstd");
                let column = ColumnPath::from(vec![IDS.to_owned(), "list".to_owned(), "item".to_owned()]);
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(level))
                    .set_column_dictionary_enabled(column.clone(), false)
                    .set_column_encoding(column.clone(), Encoding::PLAIN)
                    // No query asks for a range of ids.
                    .set_column_statistics_enabled(column, EnabledStatistics::None)
                    .set_max_row_group_row_count(None)
                    .build();
                let writer = ArrowWriter::try_new(target, Arc::clone(&schema), Some(properties));
                writer.map(|writer| Encoder::Parquet(Box::new(writer))).map_err(Failed::from)
            }
            Format::ArrowStream => {
                let writer = ArrowStream::new(target, &schema);
                writer.map(|writer| Encoder::Stream(Box::new(writer))).map_err(Failed::from)
            }
            _ => {
                let writer = FileWriter::try_new(target, &schema);
                writer.map(|writer| Encoder::Arrow(Box::new(writer))).map_err(Failed::from)
            }
        };
        let encoder = begun.map_err(|error: Failed| error.with(&failed))?;
        let kept = vec![Vec::new(); keep.len()];
        Ok(Self {
            encoder,
            failed,
            schema,
            batches: 0,
            ids: Vec::new(),
            mask: mask.then(Vec::new),
            ends: Vec::new(),
            kept,
            kept_ends: Vec::new(),
        })
    }

    pub(crate) fn append(&mut self, run: Run<'_>) -> Result<(), OutputError> {
        let mut masks = run.masks();
        for ids in run.documents() {
            self.ids.extend(run.frame.bos);
            self.ids.extend_from_slice(ids);
            self.end(run.frame.eos);
            if let (Some(mask), Some(more)) = (&mut self.mask, masks.next()) {
                mask.extend(run.frame.bos.map(|_| 0));
                mask.extend_from_slice(more);
                mask.resize(self.ids.len(), 0);
            }
        }
        self.write_full()
    }

    pub(crate) fn append_part(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
    }

    /// Removes the ids of a document that has not ended.
    pub(crate) fn discard_parts(&mut self) {
        self.ids.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(crate) fn end_parts(&mut self, eos: Option<u32>) -> Result<(), OutputError> {
        self.end(eos);
        self.write_full()
    }

    fn end(&mut self, eos: Option<u32>) {
        self.ids.extend(eos);
        self.ends.push(self.ids.len());
    }

    /// Appends the kept values of the documents that were appended.
    pub(crate) fn keep(&mut self, kept: &Kept) -> Result<(), OutputError> {
        let columns = self.kept.len();
        for (number, value) in kept.values().enumerate() {
            self.kept[number % columns].push(as_text(value));
            if number % columns + 1 == columns {
                let row =
                    kept.ends[number] - (number + 1).checked_sub(columns + 1).map_or(0, |before| kept.ends[before]);
                self.kept_ends.push(self.kept_ends.last().copied().unwrap_or(0) + row);
            }
        }
        self.write_full()
    }

    /// Writes the rows that are complete together.
    fn write_full(&mut self) -> Result<(), OutputError> {
        loop {
            let known = if self.kept.is_empty() { self.ends.len() } else { self.kept_ends.len() };
            let by_ids = self.ends.partition_point(|&end| end < BATCH_IDS) + 1;
            let by_bytes = self.kept_ends.partition_point(|&end| end < BATCH_BYTES) + 1;
            let by_bytes = if self.kept.is_empty() { usize::MAX } else { by_bytes };
            let rows = by_ids.min(by_bytes).min(BATCH_ROWS);
            if rows > known {
                return Ok(());
            }
            self.write(rows)?;
        }
    }

    /// Writes the first rows.
    fn write(&mut self, rows: usize) -> Result<(), OutputError> {
        let end = rows.checked_sub(1).map_or(0, |last| self.ends[last]);
        let ids: Vec<u32> = self.ids.drain(..end).collect();
        let ends = self.ends.drain(..rows).map(|end| end as i64);
        let offsets = OffsetBuffer::new(ScalarBuffer::from([0].into_iter().chain(ends).collect::<Vec<i64>>()));
        self.ends.iter_mut().for_each(|later| *later -= end);
        let lists = |column: usize, values: ArrayRef| -> ArrayRef {
            let DataType::LargeList(item) = self.schema.field(column).data_type() else { unreachable!("lists") };
            Arc::new(LargeListArray::new(Arc::clone(item), offsets.clone(), values, None))
        };
        let mut columns: Vec<ArrayRef> = vec![lists(0, Arc::new(UInt32Array::from(ids)))];
        if let Some(mask) = &mut self.mask {
            let values: Vec<u8> = mask.drain(..end).collect();
            columns.push(lists(1, Arc::new(UInt8Array::from(values))));
        }
        if !self.kept.is_empty() {
            let bytes = self.kept_ends.drain(..rows).next_back().unwrap_or(0);
            self.kept_ends.iter_mut().for_each(|later| *later -= bytes);
            let column =
                |values: &mut Vec<_>| -> ArrayRef { Arc::new(values.drain(..rows).collect::<LargeStringArray>()) };
            columns.extend(self.kept.iter_mut().map(column));
        }
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), columns).expect("columns of the schema, equally long");
        self.batches = (self.batches + 1) % GROUP;
        let is_full = self.batches == 0;
        let written = match &mut self.encoder {
            Encoder::Arrow(writer) => writer.write(&batch).map_err(Failed::from),
            Encoder::Stream(writer) => writer.write(&batch).map_err(Failed::from),
            Encoder::Parquet(writer) => {
                let written = writer.write(&batch);
                written.and_then(|()| if is_full { writer.flush() } else { Ok(()) }).map_err(Failed::from)
            }
        };
        written.map_err(|error| error.with(&self.failed))
    }

    pub(crate) fn write_back(&mut self) -> Option<WriteBack> {
        self.encoder.target().file.write_back()
    }

    pub(crate) fn dtype(&self) -> Dtype {
        if matches!(self.encoder, Encoder::Stream(_)) { Dtype::I32 } else { Dtype::U32 }
    }

    /// Writes the rest, and completes the file.
    pub(crate) fn complete(mut self) -> Result<Complete, OutputError> {
        if !self.ends.is_empty() {
            self.write(self.ends.len())?;
        }
        let target = match self.encoder {
            Encoder::Arrow(writer) => writer.into_inner().map_err(Failed::from),
            Encoder::Stream(writer) => writer.into_target().map_err(Failed::from),
            Encoder::Parquet(writer) => writer.into_inner().map_err(Failed::from),
        };
        let target = target.map_err(|error| error.with(&self.failed))?;
        target.file.complete()
    }
}

/// A string as it is, null as nothing, and any other value as JSON.
fn as_text(value: &[u8]) -> Option<String> {
    match value {
        b"null" => None,
        [b'"', ..] => serde_json::from_slice(value).ok(),
        _ => Some(String::from_utf8_lossy(value).into_owned()),
    }
}
