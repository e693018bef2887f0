//! Rows of a Parquet file as JSON objects, for conversations: columns of lists and structs, in the form of arrow's JSON writer.

mod json;

use std::iter;

use memchr::memchr_iter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use crate::engine::has_memory;

/// Rows decoded at a time.
const ROWS: usize = 32;

/// The columns of a conversation, and decoded rows of them.
pub(super) struct RowColumns {
    levels: FieldLevels,
    reader: Option<ParquetRecordBatchReader>,
    json: Vec<u8>,
    ends: Vec<usize>,
}

impl RowColumns {
    /// The column with the messages, and the columns named `tools` and `documents`. An error has a reason and a hint.
    pub(super) fn find(messages: &str, schema: &SchemaDescriptor) -> Result<Self, (String, &'static str)> {
        let roots: Vec<&str> = schema.root_schema().get_fields().iter().map(|column| column.name()).collect();
        if roots.iter().filter(|name| **name == messages).count() != 1 {
            let reason =
                format!("exactly one column named {messages:?} is needed for the messages; the columns are {roots:?}");
            return Err((reason, "choose one with --field NAME"));
        }
        let is_wanted = |root: usize| [messages, "tools", "documents"].contains(&roots[root]);
        let wanted = (0..roots.len()).filter(|root| is_wanted(*root));
        let mut leaves = schema.columns().iter().enumerate();
        let bytes = leaves.find(|(at, leaf)| is_wanted(schema.get_column_root_idx(*at)) && is_binary(leaf));
        if let Some((_, leaf)) = bytes {
            let reason = format!("column {:?} holds bytes, not text", leaf.path().string());
            return Err((reason, "write it as a column of strings"));
        }
        let levels = parquet_to_arrow_field_levels(schema, ProjectionMask::roots(schema, wanted), None);
        let levels = levels.map_err(|error| (error.to_string(), "write it as a list of structs of strings"))?;
        Ok(Self { levels, reader: None, json: Vec::new(), ends: Vec::new() })
    }

    /// Continues in another row group.
    pub(super) fn open(&mut self, group: &dyn RowGroups) -> Result<()> {
        self.reader = Some(ParquetRecordBatchReader::try_new_with_row_groups(&self.levels, group, ROWS, None)?);
        Ok(())
    }

    /// Decodes the next rows, and returns their number.
    pub(super) fn decode(&mut self) -> Result<usize> {
        self.json.clear();
        self.ends.clear();
        let ended = || ParquetError::EOF("it has fewer rows than the row group".to_owned());
        let batch = self.reader.as_mut().and_then(Iterator::next).ok_or_else(ended)??;
        if !has_memory(batch.get_array_memory_size().saturating_mul(2)) {
            return Err(ParquetError::General("there is not enough memory to convert its rows to JSON".to_owned()));
        }
        json::put_rows(&batch, &mut self.json)?;
        // Strings have no line feeds in JSON.
        self.ends.extend(memchr_iter(b'\n', &self.json));
        Ok(self.ends.len())
    }

    /// A decoded row: an object of the columns.
    pub(super) fn get(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        &self.json[start..self.ends[row]]
    }
}

/// True if the values of a column are bytes, which arrow's writer has in hexadecimal.
fn is_binary(leaf: &ColumnDescriptor) -> bool {
    let is_text = match leaf.logical_type_ref() {
        Some(logical) => matches!(logical, LogicalType::String | LogicalType::Json),
        None => matches!(leaf.converted_type(), ConvertedType::UTF8 | ConvertedType::JSON),
    };
    leaf.physical_type() == Type::BYTE_ARRAY && !is_text
}

/// A row group, whose pages come from `pages`.
pub(super) struct Group<'g, P> {
    pub(super) metadata: &'g ParquetMetaData,
    pub(super) number: usize,
    /// The pages of a column.
    pub(super) pages: P,
}

impl<P: Fn(usize) -> Result<Box<dyn PageReader>>> RowGroups for Group<'_, P> {
    fn num_rows(&self) -> usize {
        usize::try_from(self.metadata.row_group(self.number).num_rows()).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(Chunk(Some((self.pages)(leaf)?))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(iter::once(self.metadata.row_group(self.number)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of a column in one row group.
struct Chunk(Option<Box<dyn PageReader>>);

impl Iterator for Chunk {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for Chunk {}
