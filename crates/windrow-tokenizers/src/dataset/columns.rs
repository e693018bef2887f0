//! Documents of Arrow files and Parquet files.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use arrow_ipc::reader::{FileReaderBuilder, read_footer_length};
use arrow_ipc::root_as_footer;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::error::DatasetError;
use super::visit::{Visitor, open_file};
use crate::engine::caught;
use crate::input::ParquetFile;
use crate::output::{Format, arrow_batches as batches};

/// Rows of Parquet that are decoded at a time.
const ROWS: usize = 1024;

/// The number of rows in each row group of a Parquet file.
pub(super) fn groups(path: &Path) -> Result<Vec<u64>, DatasetError> {
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
pub(super) fn walk(format: Format, path: &Path, group: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let damaged = |what: &dyn fmt::Display| DatasetError::damaged(path, what);
    let file = open_file(path).map_err(|error| DatasetError::io(path, &error))?;
    // The readers panic on some damaged files.
    let opened = caught(|| -> Result<Batches, DatasetError> {
        if format == Format::Arrow {
            check_blocks(&file).map_err(|error| damaged(&error))?;
            let reader = FileReaderBuilder::new().build(file).map_err(|error| damaged(&error))?;
            Ok(Box::new(reader.map(|batch| batch.map_err(|error| error.to_string()))))
        } else if format == Format::ArrowStream {
            Ok(Box::new(batches(file).map_err(|error| damaged(&error))?))
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

/// Refuses an Arrow file whose footer lists blocks that are not in it. The reader takes the memory of a block before it reads any of it, and
/// memory that there is not ends the process.
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
        return Err(format!("its footer of {length} bytes is longer than the file"));
    }
    let mut footer = vec![0; length];
    read(TAIL + length, &mut footer)?;
    let footer = root_as_footer(&footer).map_err(|error| format!("its footer: {error}"))?;
    let blocks = footer.dictionaries().into_iter().chain(footer.recordBatches()).flatten();
    for (number, block) in blocks.enumerate() {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let end = parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(u64::try_from(part).ok()?));
        if end.is_none_or(|end| end > bytes) {
            return Err(format!("block {number} of its footer is not in the file"));
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
            assert!(message.contains("block 0 of its footer is not in the file"), "{message}");
        }
        let mut damaged = file.clone();
        damaged[end..end + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(walked(&damaged).unwrap_err().contains("is longer than the file"));
    }
}
