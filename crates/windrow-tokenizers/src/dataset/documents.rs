//! The documents of a shard, in order. Whatever contradicts the layout is an error with its place.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use super::columns;
use super::error::DatasetError;
use super::lines;
use super::mds;
use super::visit::{Visitor, open_file};
use crate::manifest::EncodeJob;
use crate::output::{
    Dtype, Format, IDX_HEADER, MaskHeader, NPY_HEADER, idx_header, metadata_says, npy_header, npy_header_of_rows,
};

/// Bytes that are read ahead.
const BUFFER: usize = 256 << 10;

/// The files of one shard, or of an output without shards.
pub(super) struct Shard<'m> {
    pub(super) options: &'m EncodeJob,
    /// In the order of the format's suffixes; the file with the kept fields is the last.
    pub(super) paths: Vec<PathBuf>,
}

/// A part of the documents of a shard.
pub(super) struct Stretch {
    /// A row group, or all.
    group: Option<usize>,
    /// Documents before it.
    pub(super) begin: u64,
}

impl Stretch {
    pub(super) const WHOLE: Self = Self { group: None, begin: 0 };
}

/// An open file of a shard.
pub(super) struct Reading<'p> {
    path: &'p Path,
    bytes: u64,
    file: BufReader<File>,
}

impl<'p> Reading<'p> {
    pub(super) fn open(path: &'p Path, from: u64) -> Result<Self, DatasetError> {
        let open = || {
            let mut file = open_file(path)?;
            file.seek(SeekFrom::Start(from))?;
            Ok((file.metadata()?.len(), BufReader::with_capacity(BUFFER, file)))
        };
        let (bytes, file) = open().map_err(|error: io::Error| DatasetError::io(path, &error))?;
        Ok(Self { path, bytes, file })
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), DatasetError> {
        self.file.read_exact(bytes).map_err(|error| DatasetError::io(self.path, &error))
    }

    pub(super) fn next_u64(&mut self) -> Result<u64, DatasetError> {
        let mut number = [0; 8];
        self.fill(&mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Reads so many ids.
    fn ids(&mut self, count: u64, dtype: Dtype, block: &mut Vec<u8>, ids: &mut Vec<u32>) -> Result<(), DatasetError> {
        ids.clear();
        let mut left = count;
        while left > 0 {
            let now = left.min((BUFFER / dtype.size()) as u64) as usize;
            block.resize(now * dtype.size(), 0);
            self.fill(block)?;
            match dtype {
                Dtype::U16 => ids.extend(block.as_chunks().0.iter().map(|id| u32::from(u16::from_le_bytes(*id)))),
                Dtype::U32 | Dtype::I32 => ids.extend(block.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id))),
            }
            left -= now as u64;
        }
        Ok(())
    }

    /// The number of elements of this size behind a header, which must be the file's length.
    pub(super) fn elements(&self, header: usize, size: usize) -> Result<u64, DatasetError> {
        let data = self.bytes.checked_sub(header as u64).filter(|data| data.is_multiple_of(size as u64));
        data.map(|data| data / size as u64).ok_or_else(|| {
            DatasetError::damaged(self.path, format_args!("{} bytes are no whole number of elements", self.bytes))
        })
    }

    pub(super) fn check_header(&mut self, expected: &[u8]) -> Result<(), DatasetError> {
        let mut header = vec![0; expected.len()];
        self.fill(&mut header)?;
        match header.iter().zip(expected).position(|(one, other)| one != other) {
            Some(at) => Err(DatasetError::damaged(
                self.path,
                format_args!("byte {at}: the header is not that of this format, element type and length"),
            )),
            None => Ok(()),
        }
    }
}

fn descr(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::U16 => "<u2",
        Dtype::U32 => "<u4",
        Dtype::I32 => "<i4",
    }
}

impl Shard<'_> {
    fn dtype(&self) -> Result<Dtype, DatasetError> {
        self.options.dtype.ok_or_else(|| DatasetError::damaged(&self.paths[0], "the manifest names no element type"))
    }

    /// The number of documents, if the size of a file tells it.
    pub(super) fn documents(&self) -> Result<Option<u64>, DatasetError> {
        match self.options.format {
            Format::Npy if self.options.pack.is_some() => Ok(None),
            Format::Npy => Ok(Some(Reading::open(&self.paths[1], 0)?.elements(NPY_HEADER + 8, 8)?)),
            Format::Megatron => Ok(Some(Reading::open(&self.paths[1], 0)?.elements(IDX_HEADER + 8, 20)?)),
            Format::Datatrove => Ok(Some(Reading::open(&self.paths[1], 0)?.elements(0, 8)?)),
            Format::Mds => Ok(Some(mds::documents(&self.paths[0])?)),
            Format::Nanogpt | Format::Jsonl | Format::Arrow | Format::ArrowStream | Format::Parquet => Ok(None),
        }
    }

    /// The files that tell where the documents of a packed output are.
    pub(super) fn segment_paths(&self) -> [&Path; 2] {
        let end = self.paths.len() - usize::from(self.options.has_sidecar());
        [&self.paths[end - 2], &self.paths[end - 1]]
    }

    /// Parts of it that can be walked by themselves, in order.
    pub(super) fn stretches(&self) -> Result<Vec<Stretch>, DatasetError> {
        if self.options.format != Format::Parquet {
            return Ok(vec![Stretch::WHOLE]);
        }
        let mut begin = 0_u64;
        let mut stretch = |(group, rows)| {
            let stretch = Stretch { group: Some(group), begin };
            begin = begin.saturating_add(rows);
            stretch
        };
        Ok(columns::groups(&self.paths[0])?.into_iter().enumerate().map(&mut stretch).collect())
    }

    /// As [`walk`](Self::walk), of a part.
    pub(super) fn walk_stretch(&self, stretch: &Stretch, visit: Visitor<'_>) -> Result<(), DatasetError> {
        match stretch.group {
            Some(group) => columns::walk(self.options.format, &self.paths[0], Some(group), visit),
            None => self.walk(visit),
        }
    }

    /// Visits the documents, or the rows of a packed output, until the visitor breaks.
    pub(super) fn walk(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        if let Some(length) = self.options.pack
            && matches!(self.options.format, Format::Npy | Format::Nanogpt)
        {
            return self.walk_rows(length.get(), visit);
        }
        match self.options.format {
            Format::Npy => self.walk_npy(visit),
            Format::Nanogpt => self.walk_nanogpt(visit),
            Format::Megatron => self.walk_megatron(visit),
            Format::Datatrove => self.walk_datatrove(visit),
            Format::Mds => mds::walk(self.options, &self.paths[0], visit),
            Format::Jsonl => lines::walk(&self.paths[0], self.options.has_mask(), visit),
            format @ (Format::Arrow | Format::ArrowStream | Format::Parquet) => {
                columns::walk(format, &self.paths[0], None, visit)
            }
        }
    }

    /// The number of lines of the file with the kept fields, if there is one.
    pub(super) fn kept_lines(&self) -> Result<Option<u64>, DatasetError> {
        let Some(path) = self.paths.last().filter(|_| self.options.has_sidecar()) else { return Ok(None) };
        let mut kept = Reading::open(path, 0)?;
        let mut lines = 0;
        loop {
            let block = match kept.file.fill_buf() {
                Ok([]) => return Ok(Some(lines)),
                Ok(block) => block,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(DatasetError::io(path, &error)),
            };
            lines += memchr::memchr_iter(b'\n', block).count() as u64;
            let read = block.len();
            kept.file.consume(read);
        }
    }

    /// The number of ids whose mask is 1, if the masks have a file. It must have one for each of the `tokens`.
    pub(super) fn loss_tokens(&self, tokens: u64) -> Result<Option<u64>, DatasetError> {
        let EncodeJob { format, pack, .. } = *self.options;
        let has_file = self.options.has_mask() && format.has_mask_file();
        // The masks follow the files of the format, of which there is one less if rows need no offsets.
        let files = if format == Format::Npy && pack.is_some() { 1 } else { format.suffixes().len() };
        let Some(path) = self.paths.get(files).filter(|_| has_file) else { return Ok(None) };
        let header = MaskHeader::new(format, pack.map(NonZeroUsize::get));
        let mut masks = Reading::open(path, 0)?;
        let count = masks.elements(header.bytes(0).len(), 1)?;
        masks.check_header(&header.bytes(count))?;
        if count != tokens {
            return Err(DatasetError::damaged(path, format_args!("it has {count} masks for {tokens} ids")));
        }
        let (mut ones, mut at, mut block) = (0, 0, vec![0; BUFFER]);
        while at < count {
            block.truncate((count - at).min(BUFFER as u64) as usize);
            masks.fill(&mut block)?;
            if let Some(wrong) = block.iter().position(|&one| one > 1) {
                let what = format!("mask {}: it is {}, neither 0 nor 1", at + wrong as u64, block[wrong]);
                return Err(DatasetError::damaged(path, what));
            }
            ones += block.iter().map(|&one| u64::from(one)).sum::<u64>();
            at += block.len() as u64;
        }
        Ok(Some(ones))
    }

    fn walk_npy(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = self.dtype()?;
        let (mut data, mut offsets) = (Reading::open(&self.paths[0], 0)?, Reading::open(&self.paths[1], 0)?);
        let (count, documents) = (data.elements(NPY_HEADER, dtype.size())?, offsets.elements(NPY_HEADER + 8, 8)?);
        data.check_header(&npy_header(descr(dtype), count))?;
        offsets.check_header(&npy_header("<u8", documents + 1))?;
        let wrong = |number: u64, what: String| {
            Err(DatasetError::damaged(&self.paths[1], format_args!("offset {number}: {what}")))
        };
        let mut begin = offsets.next_u64()?;
        if begin != 0 {
            return wrong(0, format!("{begin}, not 0"));
        }
        let (mut block, mut ids) = (Vec::new(), Vec::new());
        for number in 1..=documents {
            let end = offsets.next_u64()?;
            if end < begin {
                return wrong(number, format!("{end} is less than {begin} before it"));
            }
            if end > count {
                return wrong(number, format!("{end} is beyond the {count} ids"));
            }
            data.ids(end - begin, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            begin = end;
        }
        if begin == count { Ok(()) } else { wrong(documents, format!("{begin}, and there are {count} ids")) }
    }

    /// Walks rows of so many ids, one after the other.
    fn walk_rows(&self, length: usize, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = self.dtype()?;
        let mut data = Reading::open(&self.paths[0], 0)?;
        let has_header = self.options.format == Format::Npy;
        let count = data.elements(if has_header { NPY_HEADER } else { 0 }, dtype.size())?;
        if !count.is_multiple_of(length as u64) {
            let what = format_args!("{count} ids are no whole number of rows of {length}");
            return Err(DatasetError::damaged(&self.paths[0], what));
        }
        let rows = count / length as u64;
        if has_header {
            data.check_header(&npy_header_of_rows(descr(dtype), rows, length))?;
        }
        let (mut block, mut ids) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            data.ids(length as u64, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn walk_megatron(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = self.dtype()?;
        let mut data = Reading::open(&self.paths[0], 0)?;
        let count = data.elements(0, dtype.size())?;
        let path = &self.paths[1];
        let mut lengths = Reading::open(path, 0)?;
        let documents = lengths.elements(IDX_HEADER + 8, 20)?;
        lengths.check_header(&idx_header(dtype, documents))?;
        let mut pointers = Reading::open(path, IDX_HEADER as u64 + 4 * documents)?;
        let mut numbers = Reading::open(path, IDX_HEADER as u64 + 12 * documents)?;
        let wrong =
            |number: u64, what: String| Err(DatasetError::damaged(path, format_args!("document {number}: {what}")));
        let (mut block, mut ids, mut at) = (Vec::new(), Vec::new(), 0);
        for number in 0..documents {
            let mut length = [0; 4];
            lengths.fill(&mut length)?;
            let length = u64::from(u32::from_le_bytes(length));
            let pointer = pointers.next_u64()?;
            if pointer != at * dtype.size() as u64 {
                return wrong(number, format!("it begins at byte {pointer}, not {}", at * dtype.size() as u64));
            }
            if at + length > count {
                return wrong(number, format!("it ends behind the {count} ids"));
            }
            let index = numbers.next_u64()?;
            if index != number {
                return wrong(number, format!("it begins with sequence {index}"));
            }
            data.ids(length, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            at += length;
        }
        if at == count { Ok(()) } else { wrong(documents, format!("the documents have {at} of {count} ids")) }
    }

    fn walk_datatrove(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = self.dtype()?;
        let mut data = Reading::open(&self.paths[0], 0)?;
        let mut index = Reading::open(&self.paths[1], 0)?;
        let (count, documents) = (data.elements(0, dtype.size())?, index.elements(0, 8)?);
        let mut metadata = Vec::new();
        let read = Reading::open(&self.paths[2], 0)?.file.take(BUFFER as u64).read_to_end(&mut metadata);
        read.map_err(|error| DatasetError::io(&self.paths[2], &error))?;
        if !str::from_utf8(&metadata).is_ok_and(|text| metadata_says(text, dtype, count)) {
            let what = format!("its lines do not say {} bytes an id and {count} ids", dtype.size());
            return Err(DatasetError::damaged(&self.paths[2], what));
        }
        let wrong = |number: u64, what: String| {
            Err(DatasetError::damaged(&self.paths[1], format_args!("document {number}: {what}")))
        };
        let (mut block, mut ids, mut begin) = (Vec::new(), Vec::new(), 0);
        for number in 0..documents {
            let end = index.next_u64()?;
            if end < begin {
                return wrong(number, format!("its end {end} is less than {begin} before it"));
            }
            if end > count {
                return wrong(number, format!("its end {end} is beyond the {count} ids"));
            }
            data.ids(end - begin, dtype, &mut block, &mut ids)?;
            if visit(&ids).is_break() {
                return Ok(());
            }
            begin = end;
        }
        if begin == count { Ok(()) } else { wrong(documents, format!("the documents have {begin} of {count} ids")) }
    }

    fn walk_nanogpt(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        let dtype = self.dtype()?;
        let mut data = Reading::open(&self.paths[0], 0)?;
        let mut left = data.elements(0, dtype.size())?;
        let eos = self.options.eos_id();
        let (mut block, mut ids, mut document) = (Vec::new(), Vec::new(), Vec::new());
        while left > 0 {
            let now = left.min((BUFFER / dtype.size()) as u64);
            data.ids(now, dtype, &mut block, &mut ids)?;
            left -= now;
            for part in ids.split_inclusive(|&id| Some(id) == eos) {
                document.extend_from_slice(part);
                if document.last().copied() == eos && eos.is_some() {
                    if visit(&document).is_break() {
                        return Ok(());
                    }
                    document.clear();
                }
            }
        }
        if document.is_empty() {
            return Ok(());
        }
        Err(DatasetError::damaged(&self.paths[0], "the last document has no end-of-text id"))
    }
}
