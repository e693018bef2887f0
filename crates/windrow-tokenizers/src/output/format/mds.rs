//! MosaicML's MDS: a folder of shards, `OUT/shard.00000.mds` and so on, and `OUT/index.json`.
//!
//! A shard is the number of its samples, a table with the start and end of each, the columns as JSON, then the samples, all numbers
//! u32. So nothing can be written before the last sample is known: a shard is in memory until it ends. Bytes are those of MosaicML's own
//! writer for the same samples.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Value, json};

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles, check_columns};
use crate::format::Dtype;
use crate::manifest::OutputFile;
use crate::output::file::{Complete, StagedFile};
use crate::output::names::{Targets, staged_name};
use crate::output::storage::Stored;
use crate::output::{OutputError, OutputErrorKind, OutputOptions, Staging};
use crate::shard::{BUFFER, DatasetError, Shard, Visitor, open_file};

pub(super) struct Mds;

impl TokenFiles for Mds {
    fn suffixes(&self) -> &'static [&'static str] {
        &["/index.json"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::U16, Dtype::U32]
    }

    fn has_columns(&self) -> bool {
        true
    }

    fn longest(&self) -> usize {
        LONGEST
    }

    fn check(&self, options: &OutputOptions) -> Result<(), OutputError> {
        check_columns(options, [(TOKENS, "ids"), (MASK, "masks")])?;
        let refused = |message: &str, hint: &str| Err(OutputError::new(OutputErrorKind::Usage, message).hint(hint));
        if let Some(bytes) = options.shard_bytes.filter(|&bytes| bytes > LARGEST_SHARD) {
            let message = format!(
                "a shard of {bytes} bytes is too large for the mds format, whose writer keeps a whole shard in memory"
            );
            return refused(&message, "pass --shard-size 1GiB or less, or omit it");
        }
        if !options.parts.is_empty() {
            let message =
                "output in the mds format cannot be divided into parts: its folder has one index for all shards";
            return refused(message, "omit --split, or use another --format");
        }
        if options.pack.is_some() {
            let message = "output in the mds format cannot be packed: its folder cannot hold the files that record where the documents are";
            return refused(message, "omit --pack, or use another --format");
        }
        Ok(())
    }

    fn begin(&self, mut files: Files, begin: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        let samples = Samples::of(begin.options, begin.dtype);
        let config = samples.config();
        Ok(Box::new(MdsWriter {
            file: files.next(),
            dtype: begin.dtype,
            columns: samples.columns(),
            bytes: 8 + config.len() as u64,
            config,
            blocks: Vec::new(),
            sizes: Vec::new(),
            ids: Vec::new(),
        }))
    }

    fn documents(&self, shard: &Shard<'_>) -> Result<Option<u64>, DatasetError> {
        let path = &shard.paths[0];
        next_u32(path, &mut open(path)?.0).map(Some)
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        walk(shard, visit)
    }
}

/// The columns of ids and of masks.
const TOKENS: &str = "tokens";
const MASK: &str = "mask";

/// Default size of shards: that of MosaicML's writer.
pub(in crate::output) const SHARD_BYTES: u64 = 64 << 20;

/// The largest size of shards: a whole shard is in memory.
const LARGEST_SHARD: u64 = 1 << 30;

/// Maximum number of ids of a document: 1 GiB, which fits into a shard together with other documents.
const LONGEST: usize = 1 << 28;

/// Bytes of the blocks in which samples are collected.
const BLOCK: usize = 1 << 20;

/// A column of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Tokens,
    Mask,
    /// The kept field with this number.
    Kept(usize),
}

/// The properties that the samples of all shards share.
#[derive(Clone, Copy, Debug)]
pub(in crate::output) struct Samples<'a> {
    dtype: Dtype,
    keep: &'a [String],
    has_mask: bool,
    /// The size of shards.
    size_limit: u64,
}

impl<'a> Samples<'a> {
    pub(in crate::output) fn of(options: &'a OutputOptions, dtype: Dtype) -> Self {
        let size_limit = options.shard_bytes.unwrap_or(SHARD_BYTES);
        Self { dtype, keep: &options.keep, has_mask: options.mask, size_limit }
    }

    fn name(self, column: Column) -> &'a str {
        match column {
            Column::Tokens => TOKENS,
            Column::Mask => MASK,
            Column::Kept(field) => &self.keep[field],
        }
    }

    fn encoding(self, column: Column) -> &'static str {
        match column {
            Column::Tokens if self.dtype == Dtype::U16 => "ndarray:uint16",
            Column::Tokens => "ndarray:uint32",
            Column::Mask => "ndarray:uint8",
            Column::Kept(_) => "json",
        }
    }

    /// The columns, in the order of their names.
    fn columns(self) -> Vec<Column> {
        let kept = (0..self.keep.len()).map(Column::Kept);
        let mut columns: Vec<Column> =
            [Column::Tokens].into_iter().chain(self.has_mask.then_some(Column::Mask)).chain(kept).collect();
        columns.sort_by_key(|&column| self.name(column));
        columns
    }

    /// The encoding of the samples of a shard. A sorted map, as Python sorts the names.
    fn properties(self) -> BTreeMap<&'static str, Value> {
        let columns = self.columns();
        let encodings: Vec<&str> = columns.iter().map(|&column| self.encoding(column)).collect();
        let names: Vec<&str> = columns.iter().map(|&column| self.name(column)).collect();
        BTreeMap::from([
            ("column_encodings", json!(encodings)),
            ("column_names", json!(names)),
            ("column_sizes", json!(vec![Value::Null; columns.len()])),
            ("compression", Value::Null),
            ("format", json!("mds")),
            ("hashes", json!([])),
            ("size_limit", json!(self.size_limit)),
            ("version", json!(2)),
        ])
    }

    /// The columns as JSON in a shard.
    fn config(self) -> Vec<u8> {
        as_python(&self.properties())
    }
}

/// The text that Python's `json.dumps` gives.
fn as_python(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Python)).expect("strings and numbers become JSON");
    text
}

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> std::io::Result<()> {
        for letter in fragment.chars() {
            if matches!(letter, ' '..='~') {
                writer.write_all(&[letter as u8])?;
            } else {
                letter.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// The writer of a shard.
#[derive(Debug)]
struct MdsWriter {
    file: StagedFile,
    dtype: Dtype,
    columns: Vec<Column>,
    config: Vec<u8>,
    /// The samples, and the number of bytes of each.
    blocks: Vec<Vec<u8>>,
    sizes: Vec<u32>,
    /// The bytes of the shard with these samples.
    bytes: u64,
    /// The ids of the document that has not ended.
    ids: Vec<u32>,
}

impl FormatWriter for MdsWriter {
    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        self.ids.extend_from_slice(ids);
        Ok(())
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        let values: Vec<&[u8]> = ending.kept.iter().collect();
        let count = self.ids.len();
        // The number of axes, how wide a length is, and the length.
        let width = match count {
            0..0x100 => 0,
            0x100..0x1_0000 => 1,
            _ => 2,
        };
        let head = 1 + (1 << width);
        let size_of = |column: &Column| match column {
            Column::Kept(field) => values[*field].len(),
            Column::Tokens => head + count * self.dtype.size(),
            Column::Mask => head + count,
        };
        let sizes: Vec<usize> = self.columns.iter().map(size_of).collect();
        let size = 4 * sizes.len() + sizes.iter().sum::<usize>();
        self.bytes += size as u64 + 4;
        if self.bytes > u32::MAX.into() {
            let message = "a shard, including its kept fields, is larger than 4 GiB, the limit of the offsets in mds";
            let error = OutputError::new(OutputErrorKind::Usage, message).hint("pass a smaller --shard-size");
            return Err(self.file.staging().fail(error));
        }
        if self.blocks.last().is_none_or(|block| block.len() + size > block.capacity()) {
            self.blocks.push(Vec::with_capacity(size.max(BLOCK)));
        }
        let block = self.blocks.last_mut().expect("was just added");
        sizes.iter().for_each(|&size| block.extend_from_slice(&(size as u32).to_le_bytes()));
        let begin_array = |block: &mut Vec<u8>| {
            block.push(1 << 2 | width);
            block.extend_from_slice(&(count as u32).to_le_bytes()[..1 << width]);
        };
        for column in &self.columns {
            match column {
                Column::Kept(field) => block.extend_from_slice(values[*field]),
                Column::Tokens => {
                    begin_array(block);
                    self.dtype.put(&self.ids, block);
                }
                Column::Mask => {
                    begin_array(block);
                    block.extend_from_slice(ending.mask.unwrap_or_default());
                }
            }
        }
        self.sizes.push(size as u32);
        self.ids.clear();
        Ok(())
    }

    fn discard(&mut self) -> Result<(), OutputError> {
        self.ids.clear();
        Ok(())
    }

    fn finish(mut self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        let mut offset = (4 * self.sizes.len() + 8 + self.config.len()) as u32;
        self.file.put(|bytes| bytes.extend_from_slice(&(self.sizes.len() as u32).to_le_bytes()))?;
        self.file.put(|bytes| bytes.extend_from_slice(&offset.to_le_bytes()))?;
        for size in self.sizes {
            offset += size;
            self.file.put(|bytes| bytes.extend_from_slice(&offset.to_le_bytes()))?;
        }
        [self.config].iter().chain(&self.blocks).try_for_each(|block| self.file.put_all(block))?;
        Ok(vec![(self.file.complete()?, None)])
    }
}

/// Writes the index of shards that are complete under their staged names.
pub(in crate::output) fn write_index(
    mut index: StagedFile,
    targets: &Targets,
    staging: &Staging,
    samples: Samples<'_>,
    shards: &[OutputFile],
) -> Result<Complete, OutputError> {
    let storage = staging.storage();
    let mut listed = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let mut count = [0; 4];
        for target in targets.shard(0, number) {
            let staged = staged_name(&target);
            let read = storage.open(&staged).and_then(|file| Stored(storage, &file).read_exact(&mut count));
            read.map_err(|error| staging.failed("cannot read back", &staged, error))?;
        }
        let basename = shard.file.rsplit('/').next().unwrap_or(&shard.file);
        let mut properties = samples.properties();
        properties.extend([
            ("raw_data", json!({"basename": basename, "bytes": shard.bytes, "hashes": {}})),
            ("samples", json!(u32::from_le_bytes(count))),
            ("zip_data", Value::Null),
        ]);
        listed.push(properties);
    }
    index.put_all(&as_python(&json!({"shards": listed, "version": 2})))?;
    index.complete()
}

/// A shard that is read from two places: its table and its samples.
struct ShardReader<'p> {
    path: &'p Path,
    table: BufReader<File>,
    samples: BufReader<File>,
    bytes: u64,
}

fn next_u32(path: &Path, file: &mut impl Read) -> Result<u64, DatasetError> {
    let mut number = [0; 4];
    file.read_exact(&mut number).map_err(|error| DatasetError::io(path, &error))?;
    Ok(u32::from_le_bytes(number).into())
}

fn open(path: &Path) -> Result<(File, u64), DatasetError> {
    let open = || {
        let file = open_file(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    };
    open().map_err(|error: io::Error| DatasetError::io(path, &error))
}

/// Visits the documents, until the visitor breaks.
fn walk(of: &Shard<'_>, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let (options, path, dtype) = (of.options, &*of.paths[0], of.dtype()?);
    let ((table, bytes), (samples, _)) = (open(path)?, open(path)?);
    let table = BufReader::with_capacity(BUFFER, table);
    let samples = BufReader::with_capacity(BUFFER, samples);
    let mut shard = ShardReader { path, table, samples, bytes };
    let size_limit = options.shard_size.map_or(0, |size| size.bytes() as u64);
    let samples = Samples { dtype, keep: &options.keep, has_mask: options.has_mask(), size_limit };
    let count = next_u32(path, &mut shard.table)?;
    let mut begin = shard.begin(count, &samples.config())?;
    let columns = samples.columns();
    let heads = 4 * columns.len() as u64;
    let (mut block, mut ids, mut mask, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), vec![0; columns.len()]);
    for number in 0..count {
        let wrong = |what: String| Err(DatasetError::damaged(path, format_args!("document {number}: {what}")));
        let end = next_u32(path, &mut shard.table)?;
        if end < begin + heads {
            return wrong(format!("its end {end} is not at least {heads} bytes after its beginning {begin}"));
        }
        if end > bytes {
            return wrong(format!("its end {end} is beyond the end of the file, which has {bytes} bytes"));
        }
        for size in &mut sizes {
            *size = next_u32(path, &mut shard.samples)?;
        }
        if sizes.iter().sum::<u64>() + heads != end - begin {
            return wrong("the sizes of its columns do not add up to its size".to_owned());
        }
        for (column, &size) in columns.iter().zip(&sizes) {
            if let Column::Kept(_) = column {
                shard.skip(size)?;
                continue;
            }
            block.resize(size as usize, 0);
            shard.samples.read_exact(&mut block).map_err(|error| DatasetError::io(path, &error))?;
            if *column == Column::Mask {
                mask.clear();
                let Some(values) = array(&block, 1) else {
                    return wrong("its masks are not a one-dimensional array of u8".to_owned());
                };
                mask.extend_from_slice(values);
            } else if !parse_array(&block, dtype, &mut ids) {
                return wrong(format!("its ids are not a one-dimensional array of {dtype}"));
            }
        }
        if samples.has_mask && (mask.len() != ids.len() || mask.iter().any(|&one| one > 1)) {
            return wrong("it does not have a mask of 0 or 1 for each id".to_owned());
        }
        if visit(&ids).is_break() {
            return Ok(());
        }
        begin = end;
    }
    if begin == bytes {
        return Ok(());
    }
    Err(DatasetError::damaged(path, format_args!("the documents end at byte {begin}, but the file has {bytes} bytes")))
}

impl ShardReader<'_> {
    /// Checks everything before the samples, and returns the place where they begin.
    fn begin(&mut self, count: u64, config: &[u8]) -> Result<u64, DatasetError> {
        let path = self.path;
        let table = 4 * count + 8;
        let mut found = vec![0; config.len()];
        let read = self.samples.seek(SeekFrom::Start(table)).and_then(|_| self.samples.read_exact(&mut found));
        read.map_err(|error| DatasetError::io(path, &error))?;
        if found != config {
            let what = format!("byte {table}: the description of the columns does not match the manifest");
            return Err(DatasetError::damaged(path, what));
        }
        let begin = next_u32(path, &mut self.table)?;
        let first = table + config.len() as u64;
        if begin != first {
            return Err(DatasetError::damaged(
                path,
                format_args!("the documents begin at byte {begin}, not at byte {first}"),
            ));
        }
        Ok(begin)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), DatasetError> {
        // No more than the size of the file, which the caller has compared.
        let skipped = self.samples.seek_relative(bytes.min(self.bytes) as i64);
        skipped.map_err(|error| DatasetError::io(self.path, &error))
    }
}

/// The values of an array, which is the number of its axes with the width of a length, the length, the values.
fn array(bytes: &[u8], size: usize) -> Option<&[u8]> {
    let (&head, rest) = bytes.split_first()?;
    let (length, values) = rest.split_at_checked(1 << (head & 3))?;
    let length = length.iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    (head >> 2 == 1 && length.checked_mul(size as u64) == Some(values.len() as u64)).then_some(values)
}

/// Reads an array of ids.
fn parse_array(bytes: &[u8], dtype: Dtype, ids: &mut Vec<u32>) -> bool {
    ids.clear();
    let Some(values) = array(bytes, dtype.size()) else { return false };
    dtype.get(values, ids);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted_as_python_sorts_and_writes_them() {
        let keep = ["url", "id", "\u{e9}t\u{1f600}\u{7f}"].map(str::to_owned);
        let samples = Samples { dtype: Dtype::U16, keep: &keep, has_mask: false, size_limit: 7 };
        let text = |samples: Samples<'_>| String::from_utf8(samples.config()).unwrap();
        let columns = Samples { has_mask: true, ..samples }.columns();
        assert_eq!(columns, [Column::Kept(1), Column::Mask, Column::Tokens, Column::Kept(0), Column::Kept(2)]);
        assert_eq!(
            text(samples),
            "{\"column_encodings\": [\"json\", \"ndarray:uint16\", \"json\", \"json\"], \
             \"column_names\": [\"id\", \"tokens\", \"url\", \"\\u00e9t\\ud83d\\ude00\\u007f\"], \
             \"column_sizes\": [null, null, null, null], \"compression\": null, \"format\": \"mds\", \"hashes\": [], \
             \"size_limit\": 7, \"version\": 2}"
        );
    }

    #[test]
    fn arrays_are_read_with_any_width_of_their_length() {
        let mut ids = vec![7];
        for array in [&b"\x04\x02\x01\0\x02\x01"[..], b"\x05\x02\0\x01\0\x02\x01", b"\x06\x02\0\0\0\x01\0\x02\x01"] {
            assert!(parse_array(array, Dtype::U16, &mut ids));
            assert_eq!(ids, [1, 258]);
        }
        assert!(parse_array(b"\x04\0", Dtype::U32, &mut ids) && ids.is_empty());
        for array in [&b""[..], b"\x04", b"\x05\0", b"\x08\x01\x01\x01\0", b"\x04\x02\x01\0", b"\x04\0\0"] {
            assert!(!parse_array(array, Dtype::U16, &mut ids), "{array:?}");
        }
        assert!(!parse_array(b"\x07\xff\xff\xff\xff\xff\xff\xff\xff", Dtype::U16, &mut ids));
    }
}
