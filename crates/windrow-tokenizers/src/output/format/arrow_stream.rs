//! Arrow streams as `datasets` of Hugging Face reads them: a column `input_ids` of lists of i32, and columns of strings.
//!
//! The columns of the other formats with columns are converted to these for writing, and back for reading.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, Int32Array, LargeListArray, ListArray, RecordBatch, StringArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

/// The column of ids, by its name in `transformers`.
pub(crate) const INPUT_IDS: &str = "input_ids";

/// Begins a message.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// A writer of batches with the columns of the other formats.
pub(super) struct ArrowStream<W: Write> {
    writer: StreamWriter<W>,
    schema: SchemaRef,
}

impl<W: Write> ArrowStream<W> {
    pub(super) fn new(target: W, schema: &Schema) -> Result<Self, ArrowError> {
        let field = |field: &Arc<Field>| match field.data_type() {
            DataType::LargeList(item) if *item.data_type() == DataType::UInt32 => {
                Field::new(INPUT_IDS, list_of(DataType::Int32), true)
            }
            DataType::LargeList(item) => Field::new(field.name(), list_of(item.data_type().clone()), true),
            _ => Field::new(field.name(), DataType::Utf8, true),
        };
        let schema = Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()));
        Ok(Self { writer: StreamWriter::try_new(target, &schema)?, schema })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let columns = batch.columns().iter().map(|column| {
            if let Some(strings) = column.as_string_opt::<i64>() {
                let offsets = narrow(strings.value_offsets())?;
                let strings = StringArray::try_new(offsets, strings.values().clone(), strings.nulls().cloned())?;
                return Ok(Arc::new(strings) as ArrayRef);
            }
            let lists = column.as_list::<i64>();
            let values: ArrayRef = match lists.values().as_any().downcast_ref::<UInt32Array>() {
                // The format has no larger ids.
                Some(ids) => {
                    Arc::new(Int32Array::new(ScalarBuffer::new(ids.values().inner().clone(), 0, ids.len()), None))
                }
                None => Arc::clone(lists.values()),
            };
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            Ok(Arc::new(ListArray::try_new(item, narrow(lists.value_offsets())?, values, None)?) as ArrayRef)
        });
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        self.writer.write(&RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }

    pub(super) fn target(&mut self) -> &mut W {
        self.writer.get_mut()
    }

    pub(super) fn into_target(self) -> Result<W, ArrowError> {
        self.writer.into_inner()
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// Offsets in 32 bits. A batch that needs more is one document.
fn narrow(offsets: &[i64]) -> Result<OffsetBuffer<i32>, ArrowError> {
    let narrow: Option<Vec<i32>> = offsets.iter().map(|&offset| i32::try_from(offset).ok()).collect();
    let narrow = narrow.ok_or_else(|| {
        let message = "a document or a kept value is too long for the arrow-stream format; use the arrow format";
        ArrowError::InvalidArgumentError(message.to_owned())
    })?;
    Ok(OffsetBuffer::new(ScalarBuffer::from(narrow)))
}

/// The batches of a file, with ids as the other formats have them.
pub(crate) fn batches(file: File) -> Result<impl Iterator<Item = Result<RecordBatch, String>>, String> {
    let shown = |error: &dyn Display| error.to_string();
    check_messages(&file)?;
    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(|error| shown(&error))?;
    Ok(reader.map(move |batch| {
        let batch = batch.map_err(|error| shown(&error))?;
        let lists = batch.column_by_name(INPUT_IDS).and_then(|column| column.as_list_opt::<i32>());
        let ids = lists.and_then(|lists| lists.values().as_primitive_opt::<Int32Type>());
        let (Some(lists), Some(ids)) = (lists, ids) else {
            return Err(format!("it has no column {INPUT_IDS:?} of lists of i32"));
        };
        let is_whole = lists.null_count() == 0 && ids.null_count() == 0;
        let offsets = lists.value_offsets().iter().map(|&offset| i64::from(offset)).collect::<Vec<_>>();
        // A negative number is beyond every vocabulary.
        let ids = UInt32Array::new(ScalarBuffer::new(ids.values().inner().clone(), 0, ids.len()), None);
        let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let lists = LargeListArray::try_new(item, offsets, Arc::new(ids), None).map_err(|error| shown(&error))?;
        let batch = RecordBatch::try_from_iter([("ids", Arc::new(lists) as ArrayRef)]);
        batch
            .map_err(|error| shown(&error))
            .and_then(|batch| if is_whole { Ok(batch) } else { Err(format!("its column {INPUT_IDS:?} has nulls")) })
    }))
}

/// Refuses a file with a message that is not in it. The reader allocates the memory of a message before it reads any of it, and a failed allocation
/// ends the process.
fn check_messages(mut file: &File) -> Result<(), String> {
    let shown = |error: std::io::Error| error.to_string();
    let bytes = file.metadata().map_err(shown)?.len();
    let mut at = 0;
    for number in 0.. {
        let mut begin = [0; 8];
        file.read_exact(&mut begin).map_err(|_| "its end is missing".to_owned())?;
        let ([continuation, length], []) = begin.as_chunks::<4>() else { unreachable!("eight bytes") };
        if *continuation != CONTINUATION {
            return Err(format!("byte {at}: no message begins here"));
        }
        let outside = || format!("message {number} has an invalid length");
        at += 8;
        let length = u64::try_from(i32::from_le_bytes(*length)).map_err(|_| outside())?;
        if length == 0 {
            break;
        }
        if length > bytes - at.min(bytes) {
            return Err(outside());
        }
        let mut message = vec![0; length as usize];
        file.read_exact(&mut message).map_err(shown)?;
        let message = root_as_message(&message).map_err(|error| format!("message {number}: {error}"))?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| outside())?;
        at = at.saturating_add(length).saturating_add(body);
        if at > bytes {
            return Err(outside());
        }
        file.seek(SeekFrom::Start(at)).map_err(shown)?;
    }
    file.seek(SeekFrom::Start(0)).map(drop).map_err(shown)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn written() -> Vec<u8> {
        let item = Arc::new(Field::new_list_field(DataType::UInt32, false));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(vec![0_i64, 2, 2, 3]));
        let ids = LargeListArray::new(item, offsets, Arc::new(UInt32Array::from(vec![7, 8, 9])), None);
        let kept = arrow_array::LargeStringArray::from(vec![Some("a"), None, Some("bc")]);
        let batch = RecordBatch::try_from_iter([("ids", Arc::new(ids) as ArrayRef), ("url", Arc::new(kept) as _)]);
        let batch = batch.expect("equally long");
        let mut writer = ArrowStream::new(Vec::new(), &batch.schema()).expect("begun");
        writer.write(&batch).expect("written");
        writer.into_target().expect("ended")
    }

    fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.arrow");
        fs::write(&path, bytes).expect("written");
        batches(File::open(&path).expect("opened"))?.collect()
    }

    #[test]
    fn ids_come_back() {
        let bytes = written();
        let schema = StreamReader::try_new(&bytes[..], None).expect("a stream").schema();
        assert_eq!(schema.field(0), &Field::new("input_ids", list_of(DataType::Int32), true));
        assert_eq!(schema.field(1), &Field::new("url", DataType::Utf8, true));
        let all = read(&bytes).expect("whole");
        let lists = all[0].column(0).as_list::<i64>();
        assert_eq!(lists.value_offsets(), [0, 2, 2, 3]);
        assert_eq!(lists.values().as_primitive::<arrow_array::types::UInt32Type>().values()[..], [7, 8, 9]);
    }

    #[test]
    fn a_message_that_is_not_in_the_file_is_an_error_and_takes_no_memory() {
        let bytes = written();
        for cut in [0, 3, 8, 100, bytes.len() - 9, bytes.len() - 1] {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut damaged = bytes.clone();
        damaged[4..8].copy_from_slice(&i32::MAX.to_le_bytes());
        assert_eq!(read(&damaged).err().as_deref(), Some("message 0 has an invalid length"));
        let mut damaged = bytes;
        damaged[0] = 0;
        assert_eq!(read(&damaged).err().as_deref(), Some("byte 0: no message begins here"));
    }
}
