//! Arrow files and Parquet files: a row a document.
//!
//! Rows are collected and written some at a time. The division into batches depends only on the documents, so the bytes do not depend on how the
//! documents arrive.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, LargeListArray, LargeStringArray, RecordBatch, UInt8Array, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::reader::{FileReaderBuilder, read_footer_length};
use arrow_ipc::root_as_footer;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::arrow_stream::{ArrowStream, INPUT_IDS, batches};
use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles, check_columns};
use crate::engine::caught;
use crate::format::{Dtype, Format};
use crate::input::ParquetFile;
use crate::output::file::{StagedFile, WriteBack};
use crate::output::{OutputError, OutputErrorKind, OutputOptions};
use crate::shard::{DatasetError, Shard, Visitor, open_file};

/// Files of Arrow, streams of Arrow, or files of Parquet.
pub(super) struct Columns(pub(super) Format);

impl TokenFiles for Columns {
    fn suffixes(&self) -> &'static [&'static str] {
        if self.0 == Format::Parquet { &[".parquet"] } else { &[".arrow"] }
    }

    fn dtypes(&self) -> &'static [Dtype] {
        if self.0 == Format::ArrowStream { &[Dtype::I32] } else { &[Dtype::U32] }
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn check(&self, options: &OutputOptions) -> Result<(), OutputError> {
        let ids = if self.0 == Format::ArrowStream { INPUT_IDS } else { IDS };
        check_columns(options, [(ids, "ids"), (MASK, "masks")])
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        Ok(Box::new(ColumnWriter::new(self.0, files.next(), begin.options)?))
    }

    fn groups(&self, shard: &Shard<'_>) -> Result<Vec<u64>, DatasetError> {
        if self.0 == Format::Parquet { groups(&shard.paths[0]) } else { Ok(Vec::new()) }
    }

    fn walk(&self, shard: &Shard<'_>, group: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        walk(self.0, &shard.paths[0], group, visit)
    }
}

/// The column of ids.
const IDS: &str = "ids";

/// The column of masks.
const MASK: &str = "mask";

/// Limits of the rows that are written together: number of ids, bytes of kept values, number of rows.
const BATCH_IDS: usize = 1 << 20;
const BATCH_BYTES: usize = 16 << 20;
const BATCH_ROWS: usize = 1 << 16;

/// Number of batches in a row group of Parquet: its pages are in memory, compressed.
const GROUP: usize = 16;

/// The bytes of a column file on their way to the staged file.
struct Target {
    file: StagedFile,
    failed: Slot,
}

/// The error of a staged file; the encoder that was writing to it does not report it.
type Slot = Arc<Mutex<Option<OutputError>>>;

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.file.put_all(bytes) {
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return Err(io::Error::other("the staged file failed"));
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

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

/// The error of the staged file, or else that of the writer.
fn failed(slot: &Slot, error: impl fmt::Display) -> OutputError {
    let own = || OutputError::new(OutputErrorKind::Io, format!("cannot write the columns: {error}"));
    slot.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_else(own)
}

/// The writer of these formats.
struct ColumnWriter {
    encoder: Encoder,
    failed: Slot,
    schema: SchemaRef,
    /// Record batches in the row group.
    batches: usize,
    /// The ids of the rows not yet written, then the ids of a document that has not ended.
    ids: Vec<u32>,
    /// The mask of each id of these rows, if there are masks.
    mask: Option<Vec<u8>>,
    /// The ends of these rows.
    ends: Vec<usize>,
    /// The kept values of these rows by column, and their number of bytes.
    kept: Vec<Vec<Option<String>>>,
    kept_bytes: usize,
}

impl fmt::Debug for ColumnWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnWriter").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl ColumnWriter {
    fn new(format: Format, file: StagedFile, options: &OutputOptions) -> Result<Self, OutputError> {
        let OutputOptions { keep, mask, .. } = options;
        let item = Field::new("item", DataType::UInt32, false);
        let ids = Field::new(IDS, DataType::LargeList(Arc::new(item)), false);
        let masks = mask.then(|| {
            let item = Field::new("item", DataType::UInt8, false);
            Field::new(MASK, DataType::LargeList(Arc::new(item)), false)
        });
        let kept = keep.iter().map(|field| Field::new(field, DataType::LargeUtf8, true));
        let schema = Arc::new(Schema::new([ids].into_iter().chain(masks).chain(kept).collect::<Vec<_>>()));
        let slot = Slot::default();
        let target = Target { file, failed: Arc::clone(&slot) };
        let begun = match format {
            Format::Parquet => {
                let level = ZstdLevel::try_new(1).expect("a zstd level");
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
                writer.map(|writer| Encoder::Parquet(Box::new(writer))).map_err(text)
            }
            Format::ArrowStream => {
                let writer = ArrowStream::new(target, &schema);
                writer.map(|writer| Encoder::Stream(Box::new(writer))).map_err(text)
            }
            _ => {
                let writer = FileWriter::try_new(target, &schema);
                writer.map(|writer| Encoder::Arrow(Box::new(writer))).map_err(text)
            }
        };
        let encoder = begun.map_err(|error| failed(&slot, error))?;
        let kept = vec![Vec::new(); keep.len()];
        Ok(Self {
            encoder,
            failed: slot,
            schema,
            batches: 0,
            ids: Vec::new(),
            mask: mask.then(Vec::new),
            ends: Vec::new(),
            kept,
            kept_bytes: 0,
        })
    }

    /// Writes the rows.
    fn write(&mut self) -> Result<(), OutputError> {
        let next = Vec::with_capacity(self.ids.len());
        let ids = std::mem::replace(&mut self.ids, next);
        let ends = self.ends.drain(..).map(|end| end as i64);
        let offsets = OffsetBuffer::new(ScalarBuffer::from([0].into_iter().chain(ends).collect::<Vec<i64>>()));
        let lists = |column: usize, values: ArrayRef| -> ArrayRef {
            let DataType::LargeList(item) = self.schema.field(column).data_type() else { unreachable!("lists") };
            Arc::new(LargeListArray::new(Arc::clone(item), offsets.clone(), values, None))
        };
        let mut columns: Vec<ArrayRef> = vec![lists(0, Arc::new(UInt32Array::from(ids)))];
        if let Some(mask) = &mut self.mask {
            columns.push(lists(1, Arc::new(UInt8Array::from(std::mem::take(mask)))));
        }
        let column = |values: &mut Vec<_>| -> ArrayRef { Arc::new(values.drain(..).collect::<LargeStringArray>()) };
        columns.extend(self.kept.iter_mut().map(column));
        self.kept_bytes = 0;
        let batch =
            RecordBatch::try_new(Arc::clone(&self.schema), columns).expect("equally long columns of the schema");
        self.batches = (self.batches + 1) % GROUP;
        let is_full = self.batches == 0;
        let written = match &mut self.encoder {
            Encoder::Arrow(writer) => writer.write(&batch).map_err(text),
            Encoder::Stream(writer) => writer.write(&batch).map_err(text),
            Encoder::Parquet(writer) => {
                let written = writer.write(&batch);
                written.and_then(|()| if is_full { writer.flush() } else { Ok(()) }).map_err(text)
            }
        };
        written.map_err(|error| failed(&self.failed, error))
    }
}

impl FormatWriter for ColumnWriter {
    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        self.ends.push(self.ids.len());
        if let (Some(mask), Some(more)) = (&mut self.mask, ending.mask) {
            mask.extend_from_slice(more);
        }
        for (column, value) in self.kept.iter_mut().zip(ending.kept.iter()) {
            column.push(as_text(value));
            self.kept_bytes += value.len();
        }
        let is_full = self.ids.len() >= BATCH_IDS || self.kept_bytes >= BATCH_BYTES || self.ends.len() >= BATCH_ROWS;
        if is_full { self.write() } else { Ok(()) }
    }

    fn discard(&mut self) -> Result<(), OutputError> {
        self.ids.truncate(self.ends.last().copied().unwrap_or(0));
        Ok(())
    }

    fn write_back(&mut self) -> Option<WriteBack> {
        self.encoder.target().file.write_back()
    }

    fn finish(mut self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        if !self.ends.is_empty() {
            self.write()?;
        }
        let dtype = if matches!(self.encoder, Encoder::Stream(_)) { Dtype::I32 } else { Dtype::U32 };
        let target = match self.encoder {
            Encoder::Arrow(writer) => writer.into_inner().map_err(text),
            Encoder::Stream(writer) => writer.into_target().map_err(text),
            Encoder::Parquet(writer) => writer.into_inner().map_err(text),
        };
        let target = target.map_err(|error| failed(&self.failed, error))?;
        Ok(vec![(target.file.complete()?, Some(dtype.name()))])
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

/// Rows of Parquet that are decoded at a time.
const ROWS: usize = 1024;

/// The number of rows in each row group of a Parquet file.
fn groups(path: &Path) -> Result<Vec<u64>, DatasetError> {
    let file = open_file(path).map_err(|error| DatasetError::io(path, &error))?;
    let rows = caught(|| -> Result<Vec<u64>, String> {
        let file = ParquetFile::new(file).map_err(|error| error.to_string())?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())?;
        let rows = builder.metadata().row_groups().iter().map(|group| u64::try_from(group.num_rows()));
        rows.collect::<Result<_, _>>().map_err(|error| error.to_string())
    });
    rows.flatten().map_err(|message| DatasetError::damaged(path, message))
}

/// Visits the rows of a file, or of one row group of a Parquet file, until the visitor breaks.
fn walk(format: Format, path: &Path, group: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let damaged = |what: &dyn fmt::Display| DatasetError::damaged(path, what);
    let file = open_file(path).map_err(|error| DatasetError::io(path, &error))?;
    // The readers panic on some damaged files.
    let opened = caught(|| -> Result<Batches, DatasetError> {
        if format == Format::ArrowStream {
            Ok(Box::new(batches(file).map_err(|error| damaged(&error))?))
        } else if format == Format::Arrow {
            check_blocks(&file).map_err(|error| damaged(&error))?;
            let reader = FileReaderBuilder::new().build(file).map_err(|error| damaged(&error))?;
            Ok(Box::new(reader.map(|batch| batch.map_err(|error| error.to_string()))))
        } else {
            let file = ParquetFile::new(file).map_err(|error| damaged(&error))?;
            let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
            let columns = ProjectionMask::columns(builder.parquet_schema(), ["ids.list.item"]);
            let builder = builder.with_projection(columns).with_batch_size(ROWS);
            let reader = match group {
                Some(group) => builder.with_row_groups(vec![group]).build(),
                None => builder.build(),
            };
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

/// Refuses an Arrow file whose footer lists blocks that are not in it. The reader allocates the memory of a block before it reads any of it, and a
/// failed allocation ends the process.
fn check_blocks(mut file: &File) -> Result<(), String> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let mut read = |from_end: usize, bytes: &mut [u8]| {
        file.seek(SeekFrom::End(-(from_end as i64)))
            .and_then(|_| file.read_exact(bytes))
            .map_err(|error| error.to_string())
    };
    let mut tail = [0; TAIL];
    read(TAIL, &mut tail)?;
    let length = read_footer_length(tail).map_err(|error| error.to_string())?;
    if (TAIL + length) as u64 > bytes {
        return Err(format!("the {length}-byte footer does not fit in the file"));
    }
    let mut footer = vec![0; length];
    read(TAIL + length, &mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| format!("the footer is invalid: {error}"))?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    for (number, block) in blocks.enumerate() {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(u64::try_from(part).ok()?));
        if end.is_none_or(|end| end > bytes) {
            return Err(format!("block {number}, listed in the footer, is not entirely in the file"));
        }
    }
    Ok(())
}

/// The length of the footer, and the magic bytes at the end of an Arrow file.
const TAIL: usize = 10;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>>>;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use arrow_array::types::UInt32Type;
    use arrow_array::{LargeListArray, RecordBatch};
    use arrow_ipc::writer::FileWriter;
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;

    #[test]
    fn row_groups_are_walked_by_themselves() {
        let lists = LargeListArray::from_iter_primitive::<UInt32Type, _, _>((0..5).map(|id| Some([Some(id)])));
        let item = Arc::new(Field::new("item", DataType::UInt32, false));
        let (_, offsets, ids, _) = lists.into_parts();
        let lists = LargeListArray::new(Arc::clone(&item), offsets, ids, None);
        let schema = Arc::new(Schema::new([Arc::new(Field::new("ids", DataType::LargeList(item), false))]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(lists)]).unwrap();
        let mut file = Vec::new();
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
        let mut writer = ArrowWriter::try_new(&mut file, schema, Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.parquet");
        fs::write(&path, &file).unwrap();
        assert_eq!(groups(&path).unwrap(), [2, 2, 1]);
        let walked = |group| {
            let mut documents = Vec::new();
            let visit = &mut |ids: &[u32]| {
                documents.extend_from_slice(ids);
                ControlFlow::Continue(())
            };
            walk(Format::Parquet, &path, group, visit).unwrap();
            documents
        };
        assert_eq!([walked(Some(0)), walked(Some(1)), walked(Some(2))], [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(walked(None), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_block_that_is_not_in_the_file_is_an_error_and_takes_no_memory() {
        let lists = LargeListArray::from_iter_primitive::<UInt32Type, _, _>([Some([Some(3), Some(4)])]);
        let batch = RecordBatch::try_from_iter([("ids", Arc::new(lists) as _)]).unwrap();
        let mut file = Vec::new();
        let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
        writer.write(&batch).and_then(|()| writer.finish()).unwrap();
        drop(writer);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.arrow");
        let walked = |file: &[u8]| {
            fs::write(&path, file).unwrap();
            let mut documents = Vec::new();
            let walked = walk(Format::Arrow, &path, None, &mut |ids| {
                documents.push(ids.to_vec());
                ControlFlow::Continue(())
            });
            walked.map(|()| documents).map_err(|error| error.to_string())
        };
        assert_eq!(walked(&file), Ok(vec![vec![3, 4]]));
        let end = file.len() - TAIL;
        let length = i32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
        let block = root_as_footer(&file[end - length..end]).unwrap().recordBatches().unwrap().get(0).0;
        let at = memchr::memmem::rfind(&file, &block).unwrap();
        // The offset, the length of the metadata, and that of the body.
        for (field, value) in [(0, i64::MAX), (8, i64::from(i32::MAX)), (16, 1 << 40), (16, 1 << 56), (16, -1)] {
            let mut damaged = file.clone();
            damaged[at + field..at + field + 8].copy_from_slice(&value.to_le_bytes());
            let message = walked(&damaged).unwrap_err();
            assert!(message.contains("block 0, listed in the footer, is not entirely in the file"), "{message}");
        }
        let mut damaged = file.clone();
        damaged[end..end + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(walked(&damaged).unwrap_err().contains("footer does not fit in the file"));
    }
}
