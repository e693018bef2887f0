//! Rows of Parquet files as records.
//!
//! Only the wanted columns are decoded, a few rows at a time, in file order. Next to the batch, one page of each column is in memory.
//! The manifest has the hash of the whole file, so all of its bytes are read once more: the bytes of a row group just before it is decoded.

use parquet::basic::{Compression as Codec, ConvertedType, Type};
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

use super::batch::{Advance, Filling, OpenFile, Record, Spare};
use super::pages::Plausible;
use super::position::{LastRecord, Origin};
use super::report::FileReport;
use super::rows::{Group, RowColumns};
use super::source::{Hashed, Source};
use super::thrift::ParquetFile;
use super::values::ValueColumn;
use super::{Compression, Fields, Format, InputError, InputFile};
use crate::diagnose::{ENCRYPTED, FIRST, not_parquet};
use crate::engine::caught;
use crate::kept::Kept;

/// Rows decoded at a time. The number is small, because each row may be in another page.
const ROWS: usize = 32;

/// Number of columns that an error lists.
const LISTED: usize = 20;

/// An open Parquet file.
pub(super) struct ColumnFile {
    index: u32,
    name: String,
    hashed: Hashed,
    /// True if its footer says that columns are encrypted.
    is_encrypted: bool,
    reader: SerializedFileReader<ParquetFile<Source>>,
    texts: Vec<ValueColumn>,
    /// The columns of conversations, which replace the texts.
    conversations: Option<RowColumns>,
    join: String,
    keep: Vec<ValueColumn>,
    /// The kept values of a row.
    kept: Kept,
    /// Number of row groups opened.
    groups: usize,
    /// Rows of the last row group that are not yet decoded.
    rest: u64,
    /// Number of decoded rows, and the number of them that are records.
    rows: usize,
    taken: usize,
    /// Number of rows to decode next.
    step: usize,
    /// Number of records, and their size in bytes.
    records: u64,
    bytes: u64,
}

/// Opens a Parquet file.
pub(super) fn open(file: InputFile, index: u32, fields: &Fields) -> Result<Box<dyn OpenFile>, InputError> {
    let (name, compression) = (file.name, file.compression);
    let refused = |reason: &str, hint| InputError::Columns { name: name.clone(), reason: reason.to_owned(), hint };
    if !matches!(compression, None | Some(Compression::None)) {
        return Err(refused("a compressed Parquet file cannot be read in place", "decompress it first"));
    }
    let hashed = Hashed::open(file.origin, &name)?;
    let other = hashed.source(&name)?;
    let mut is_encrypted = false;
    let opened = caught(|| {
        let file = ParquetFile::new(other)?;
        is_encrypted = file.is_encrypted();
        SerializedFileReader::new(file)
    });
    if let Some(error) = hashed.take_failure(&name) {
        return Err(error);
    }
    let reader = match opened {
        Ok(Ok(reader)) => reader,
        Ok(Err(error)) => {
            let first = hashed.first(FIRST, &name)?;
            return Err(match not_parquet(&first) {
                _ if is_encrypted => refused(&format!("Parquet with encrypted columns: {}", said(&error)), DECRYPT),
                Some(ENCRYPTED) => refused("encrypted Parquet, which cannot be read without its key", DECRYPT),
                Some(kind) => refused(&format!("not Parquet but {}", kind.what), kind.hint),
                None if first.starts_with(b"PAR1") => refused(&format!("damaged Parquet: {}", said(&error)), DAMAGED),
                None => refused(&format!("not a Parquet file: {}", said(&error)), MISNAMED),
            });
        }
        Err(message) => return Err(refused(&format!("damaged Parquet: {message}"), DAMAGED)),
    };
    let schema = reader.metadata().file_metadata().schema_descr();
    let refused_column = |(reason, hint): (String, _)| refused(&reason, hint);
    let named = if fields.conversations { &[] } else { &fields.text[..] };
    let texts = named.iter().map(|name| {
        let leaf = find(name, schema)?;
        let column = schema.column(leaf);
        // Strings, and bytes without another annotation: each row must then be UTF-8.
        let text = ValueColumn::new(name, leaf, &column).filter(|_| column.physical_type() == Type::BYTE_ARRAY);
        let reason = || format!("column {name:?} has type {}, not text", kind_of(&column));
        text.ok_or_else(|| (reason(), "choose a column of strings with --column NAME"))
    });
    let texts = texts.collect::<Result<_, _>>().map_err(refused_column)?;
    let conversations = fields.conversations.then(|| RowColumns::find(&fields.text[0], schema));
    let conversations = conversations.transpose().map_err(refused_column)?;
    let keep = fields.keep.iter().map(|name| {
        let leaf = find(name, schema).map_err(|(reason, _)| (reason, "correct the name in --keep, or omit it"))?;
        let column = schema.column(leaf);
        let reason = || format!("column {name:?} has type {}, which cannot be kept", kind_of(&column));
        ValueColumn::new(name, leaf, &column).ok_or_else(|| (reason(), KEEP_LESS))
    });
    let keep = keep.collect::<Result<_, _>>().map_err(refused_column)?;
    Ok(Box::new(ColumnFile {
        index,
        hashed,
        is_encrypted,
        name,
        reader,
        texts,
        conversations,
        join: fields.join.clone(),
        keep,
        kept: Kept::default(),
        groups: 0,
        rest: 0,
        rows: 0,
        taken: 0,
        step: 1,
        records: 0,
        bytes: 0,
    }))
}

impl OpenFile for ColumnFile {
    fn stored(&self) -> u64 {
        self.hashed.bytes()
    }

    fn size(&self) -> u64 {
        self.stored()
    }

    fn origin(&mut self) -> Origin {
        Origin { file: self.index, records: self.records, ..Origin::default() }
    }

    /// Skips everything up to the end of a record. All rows are decoded: the report of the file has the bytes of its texts.
    fn pass(&mut self, last: LastRecord, filling: &mut Filling<'_>) -> Result<(), InputError> {
        while self.records < last.number {
            if self.taken == self.rows {
                (filling.hold)(0)?;
                if !self.decode(filling.batch_bytes)? {
                    // The record had more rows before.
                    return Err(InputError::Changed { name: self.name.clone() });
                }
            }
            let (_, bytes) = self.text_in(self.taken);
            self.take_row(bytes);
        }
        Ok(())
    }

    /// Moves records into the batch until it is full or the file ends.
    fn advance(&mut self, filling: &mut Filling<'_>) -> Result<Advance, InputError> {
        loop {
            if filling.is_full() {
                return Ok(Advance::Full);
            }
            if self.taken == self.rows {
                (filling.hold)(0)?;
                if !self.decode(filling.batch_bytes)? {
                    return Ok(Advance::Finished);
                }
            }
            if !self.put_record(filling)? {
                return Ok(Advance::Full);
            }
        }
    }

    fn close(mut self: Box<Self>, _: &mut Spare) -> Result<FileReport, InputError> {
        let blake3 = self.hashed.finish(&self.name)?;
        Ok(FileReport {
            name: self.name,
            format: Format::Parquet,
            compression: Compression::None,
            bytes: self.hashed.bytes(),
            decompressed_bytes: self.bytes,
            blake3,
            documents: self.records,
        })
    }
}

impl ColumnFile {
    /// The first of the text columns that is null in a row, and the bytes of its text.
    fn text_in(&self, row: usize) -> (Option<usize>, usize) {
        if let Some(columns) = &self.conversations {
            return (None, columns.get(row).len());
        }
        let null = self.texts.iter().position(|column| column.text(row).is_none());
        let texts = self.texts.iter().map(|column| column.text(row).map_or(0, <[u8]>::len));
        let joined = self.join.len() * (self.texts.len() - 1);
        (null, if null.is_some() { 0 } else { texts.sum::<usize>() + joined })
    }

    /// Counts the next row, which has `bytes` bytes of text.
    fn take_row(&mut self, bytes: usize) {
        let row = self.taken;
        self.texts.iter_mut().chain(&mut self.keep).for_each(|column| column.take(row));
        self.taken += 1;
        self.records += 1;
        self.bytes += bytes as u64;
    }

    /// Moves a row into the batch, if that has space for it.
    fn put_record(&mut self, filling: &mut Filling<'_>) -> Result<bool, InputError> {
        let row = self.taken;
        let (null, len) = self.text_in(row);
        let line = self.records + 1;
        let start = filling.end;
        let missing = (start + len).saturating_sub(filling.window());
        if missing > 0 {
            if !filling.batch.records.is_empty() {
                return Ok(false);
            }
            filling.grow(missing, &self.name, line)?;
        }
        if let Some(columns) = &self.conversations {
            filling.batch.bytes[start..start + len].copy_from_slice(columns.get(row));
            filling.end += len;
        } else if null.is_none() {
            for (number, column) in self.texts.iter().enumerate() {
                let between = if number == 0 { "" } else { &self.join };
                for part in [between.as_bytes(), column.text(row).unwrap_or_default()] {
                    filling.batch.bytes[filling.end..filling.end + part.len()].copy_from_slice(part);
                    filling.end += part.len();
                }
            }
        }
        if !self.keep.is_empty() {
            self.kept.bytes.clear();
            self.kept.ends.clear();
            for column in &self.keep {
                if !column.put(row, &mut self.kept.bytes) {
                    let reason =
                        format!("row {line}, column {:?}: bytes that are not UTF-8 cannot be kept", column.name);
                    return Err(InputError::Columns { name: self.name.clone(), reason, hint: KEEP_LESS });
                }
                self.kept.end();
            }
            filling.keep(&self.kept, &self.name, line)?;
        }
        let null = null.map(|column| u16::try_from(column).unwrap_or(u16::MAX));
        let (file, format) = (self.index, Format::Parquet);
        let record = Record { file, format, line, offset: self.records, start, len, is_open: false, null };
        filling.push(record, &self.name)?;
        filling.start = filling.end;
        self.take_row(len);
        Ok(true)
    }

    /// Decodes some rows; false at the end of the file.
    fn decode(&mut self, batch_bytes: usize) -> Result<bool, InputError> {
        self.decode_rows(batch_bytes).map_err(|error| match (self.hashed.take_failure(&self.name), error) {
            // Only the source can distinguish a damaged file from a failed store.
            (Some(failure), _) => failure,
            (None, InputError::Columns { name, reason, .. }) if self.is_encrypted => {
                let reason = format!("{reason}; the file has encrypted columns");
                InputError::Columns { name, reason, hint: DECRYPT }
            }
            (None, error) => error,
        })
    }

    fn decode_rows(&mut self, batch_bytes: usize) -> Result<bool, InputError> {
        while self.rest == 0 {
            if self.groups == self.reader.metadata().num_row_groups() {
                return Ok(false);
            }
            self.open_group()?;
        }
        let mut rows = self.step.min(usize::try_from(self.rest).unwrap_or(usize::MAX));
        (self.rows, self.taken) = (0, 0);
        if let Some(columns) = &mut self.conversations {
            rows = flat(caught(|| columns.decode()))
                .map_err(|error| damaged(&self.name, self.groups, MESSAGES, &error))?;
        }
        for column in self.texts.iter_mut().chain(&mut self.keep) {
            let decoded = flat(caught(|| column.decode(rows)));
            decoded.map_err(|error| damaged(&self.name, self.groups, &column.name, &error))?;
        }
        self.rows = rows;
        self.rest = self.rest.saturating_sub(rows as u64);
        // Rows of a page share its memory, and large ones have a page each.
        let bytes: usize = self.texts.iter().map(ValueColumn::text_bytes).sum();
        self.step = if bytes > batch_bytes / 4 { 1 } else { (2 * rows).min(ROWS) };
        Ok(true)
    }

    /// Hashes the bytes of the next row group and opens its columns.
    fn open_group(&mut self) -> Result<(), InputError> {
        let number = self.groups;
        self.groups += 1;
        let group = self.reader.metadata().row_group(number);
        let place = |error: &ParquetError| {
            let first = self.texts.first().map_or(MESSAGES, |column| &column.name);
            damaged(&self.name, number + 1, first, error)
        };
        let rows = u64::try_from(group.num_rows());
        self.rest = rows.map_err(|_| place(&ParquetError::General("a negative number of rows".to_owned())))?;
        let end = flat(caught(|| Ok(group.columns().iter().map(end_of).max().unwrap_or(0)))).map_err(|e| place(&e))?;
        self.hashed.advance(end, &self.name)?;
        let pages = |leaf: usize| {
            let chunk = group.column(leaf);
            if !is_supported(chunk.compression()) {
                return Err(ParquetError::NYI(format!("compressed with {}", chunk.compression())));
            }
            let pages = self.reader.get_row_group(number)?.get_column_page_reader(leaf)?;
            let column = chunk.column_descr_ptr();
            let plausible = Plausible::new(pages, [column.max_rep_level(), column.max_def_level()]);
            Ok((column, Box::new(plausible) as Box<dyn PageReader>))
        };
        if let Some(columns) = &mut self.conversations {
            let metadata = self.reader.metadata();
            let group = Group { metadata, number, pages: |leaf| pages(leaf).map(|(_, pages)| pages) };
            let opened = flat(caught(|| columns.open(&group)));
            opened.map_err(|error| damaged(&self.name, number + 1, MESSAGES, &error))?;
        }
        for column in self.texts.iter_mut().chain(&mut self.keep) {
            let opened = flat(caught(|| pages(column.leaf).and_then(|(leaf, pages)| column.open(leaf, pages))));
            opened.map_err(|error| damaged(&self.name, number + 1, &column.name, &error))?;
        }
        Ok(())
    }
}

/// The end of a row group's column in the file.
fn end_of(chunk: &ColumnChunkMetaData) -> u64 {
    let (start, bytes) = chunk.byte_range();
    start.saturating_add(bytes)
}

/// The leaf with this name: a column, or a field of structs by its path.
fn find(name: &str, schema: &SchemaDescriptor) -> Result<usize, (String, &'static str)> {
    let leaves = || schema.columns().iter().enumerate();
    let mut found: Vec<_> =
        leaves().filter(|(_, leaf)| matches!(leaf.path().parts(), [only] if only == name)).collect();
    if found.is_empty() {
        found = leaves().filter(|(_, leaf)| leaf.path().string() == name).collect();
    }
    if let [(first, _), (second, _), ..] = found.as_slice() {
        let reason = format!("column {name:?} occurs more than once: columns {} and {}", first + 1, second + 1);
        return Err((reason, "give the columns different names"));
    }
    if let Some((leaf, column)) = found.pop() {
        if column.max_rep_level() > 0 {
            let reason = format!("column {name:?} is nested: a row can have any number of values");
            return Err((reason, "choose a column of strings with --column NAME"));
        }
        return Ok(leaf);
    }
    let below = leaves().filter(|(_, leaf)| {
        let path = leaf.path().string();
        path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    });
    let below = listed(below.map(|(_, leaf)| leaf.path().string()));
    if !below.is_empty() {
        let reason = format!("column {name:?} is nested: it holds {below}");
        return Err((reason, "choose a column of strings, or a field of a struct by its path, with --column NAME"));
    }
    let columns = listed(leaves().map(|(_, leaf)| leaf.path().string()));
    if columns.is_empty() {
        return Err((
            format!("column {name:?} is missing; the file has no columns"),
            "write the texts to a column of strings",
        ));
    }
    Err((format!("column {name:?} is missing; the columns are {columns}"), "choose one with --column NAME"))
}

/// Names in quotes.
fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    if names.len() > LISTED {
        let more = names.len() - LISTED;
        names.truncate(LISTED);
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

/// The type of a column, for messages.
fn kind_of(column: &ColumnDescriptor) -> String {
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(logical), _) => format!("{logical:?}").to_lowercase(),
        (None, ConvertedType::NONE) => column.physical_type().to_string().to_lowercase(),
        (None, converted) => converted.to_string().to_lowercase(),
    }
}

fn is_supported(codec: Codec) -> bool {
    use Codec::{GZIP, LZ4, LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD};
    matches!(codec, UNCOMPRESSED | SNAPPY | GZIP(_) | LZ4 | LZ4_RAW | ZSTD(_))
}

/// A panic of the decoder, as an error of the file (apache/arrow-rs 9742: corrupt files panic in many places).
fn flat<T>(outcome: Result<Result<T, ParquetError>, String>) -> Result<T, ParquetError> {
    outcome.unwrap_or_else(|message| Err(ParquetError::General(message)))
}

/// `group` counts from 1.
fn damaged(name: &str, group: usize, column: &str, error: &ParquetError) -> InputError {
    let hint = match error {
        ParquetError::NYI(_) => "write it again, compressed with zstd, snappy, lz4 or gzip",
        _ => DAMAGED,
    };
    let reason = format!("row group {group}, column {column:?}: {}", said(error));
    InputError::Columns { name: name.to_owned(), reason, hint }
}

/// An error without the prefix that names its kind.
fn said(error: &ParquetError) -> String {
    match error {
        ParquetError::General(message) | ParquetError::NYI(message) | ParquetError::EOF(message) => message.clone(),
        other => other.to_string(),
    }
}

/// The columns of a conversation, in messages.
const MESSAGES: &str = "messages";
const DECRYPT: &str = "write it again without encryption";
const KEEP_LESS: &str = "omit it from --keep";
const DAMAGED: &str = "the file is damaged; copy, download or write it again";
const MISNAMED: &str = "give it the extension of its format, or pass the format with --input-format";
