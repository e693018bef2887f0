//! Stored bytes and decompressed bytes: reading, hashing and decompression.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use flate2::bufread::GzDecoder;

use super::digest::{BlockDigest, Prefix};
use super::packed::{DAMAGED, Fault, HEADER, Packed, Step};
use super::store::ObjectReader;
use super::{Compression, InputError, InputFile, Origin};
use crate::diagnose::{self, compression_of};

/// Size of the buffer of stored bytes: reads of this size cost little more than the copy itself.
pub(super) const BUFFER: usize = 256 << 10;

/// Slices of this length or more are read into directly.
const DIRECT: usize = 64 << 10;

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

/// The longest prefix that identifies a compression.
const MAGIC: usize = 10;

enum Origins {
    File(File, Metadata),
    Stream(Box<dyn Read + Send>),
    Object(ObjectReader),
}

/// The bytes as stored: counted, hashed and buffered.
struct Raw {
    origin: Origins,
    buffer: Vec<u8>,
    /// `buffer[pos..len]` is read but not consumed.
    pos: usize,
    len: usize,
    read: u64,
    /// The source has reported its end, and is not read again (a terminal or a growing file would continue).
    ended: bool,
    /// True if the last error came from the source, not from a decoder above it.
    broken: bool,
    digest: BlockDigest,
    /// The prefixes that end after the last requested position, if they are kept.
    prefixes: Option<VecDeque<Prefix>>,
}

impl Raw {
    fn read_origin(&mut self, direct: Option<&mut [u8]>) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let target = match direct {
            Some(slice) => slice,
            None => &mut self.buffer[self.len..],
        };
        let n = loop {
            let result = match &mut self.origin {
                Origins::File(file, _) => file.read(target),
                Origins::Stream(stream) => stream.read(target),
                Origins::Object(object) => object.read(target),
            };
            match result {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.broken = true;
                    return Err(e);
                }
                Ok(n) => break n,
            }
        };
        let prefixes = &mut self.prefixes;
        self.digest.update(&target[..n], |prefix| {
            if let Some(prefixes) = prefixes {
                prefixes.push_back(prefix.clone());
            }
        });
        self.read += n as u64;
        self.ended = n == 0;
        Ok(n)
    }

    /// At least `n` unconsumed bytes, or all remaining bytes. `n` is small.
    fn peek(&mut self, n: usize) -> io::Result<&[u8]> {
        if self.len - self.pos < n {
            self.buffer.copy_within(self.pos..self.len, 0);
            self.len -= self.pos;
            self.pos = 0;
            while self.len < n {
                let read = self.read_origin(None)?;
                if read == 0 {
                    break;
                }
                self.len += read;
            }
        }
        Ok(&self.buffer[self.pos..self.len])
    }

    /// Number of stored bytes that were consumed.
    fn consumed(&self) -> u64 {
        self.read - (self.len - self.pos) as u64
    }
}

impl BufRead for Raw {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.pos == self.len {
            self.pos = 0;
            self.len = 0;
            self.len = self.read_origin(None)?;
        }
        Ok(&self.buffer[self.pos..self.len])
    }

    fn consume(&mut self, n: usize) {
        self.pos += n;
    }
}

impl Read for Raw {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        if self.pos == self.len && dst.len() >= DIRECT {
            return self.read_origin(Some(dst));
        }
        let available = self.fill_buf()?;
        let n = available.len().min(dst.len());
        dst[..n].copy_from_slice(&available[..n]);
        self.consume(n);
        Ok(n)
    }
}

enum Decoder {
    Plain(Box<Raw>),
    Gzip(Box<GzDecoder<Box<Raw>>>),
    /// zstd, xz or bzip2; true inside a part of the file.
    Packed(Box<Raw>, Packed, bool),
    /// Between two gzip members, or before the first.
    GzipBoundary(Box<Raw>),
    /// Only during a transition between the other states.
    Moving,
}

/// One open input: delivers decompressed bytes, then the totals.
pub(super) struct Stream {
    name: String,
    decoder: Decoder,
    compression: Compression,
    ended: bool,
}

/// The totals of a file after its last byte.
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) blake3: String,
    pub(super) buffer: Vec<u8>,
}

impl Stream {
    /// Opens `file`; `buffer` comes from a previous stream, or is empty.
    pub(super) fn open(file: InputFile, mut buffer: Vec<u8>) -> Result<Self, InputError> {
        let name = file.name;
        let unreadable = |source| InputError::Unreadable { name: name.clone(), source };
        let origin = match file.origin {
            Origin::Stdin => Origins::Stream(Box::new(io::stdin())),
            Origin::Stream(stream) => Origins::Stream(stream),
            Origin::Object(object) => Origins::Object(ObjectReader::new(object)),
            Origin::Path(path) => {
                let opened = File::open(&path).map_err(unreadable)?;
                let metadata = opened.metadata().map_err(unreadable)?;
                Origins::File(opened, metadata)
            }
        };
        buffer.resize(BUFFER, 0);
        let digest = BlockDigest::default();
        let prefixes = None;
        let mut raw =
            Box::new(Raw { origin, buffer, pos: 0, len: 0, read: 0, ended: false, broken: false, digest, prefixes });
        let compression = match file.compression {
            Some(compression) => compression,
            None => {
                let magic = raw.peek(MAGIC).map_err(|source| InputError::read(&name, 0, source))?;
                compression_of(magic)
            }
        };
        let decoder = match compression {
            Compression::None => Decoder::Plain(raw),
            Compression::Gzip => Decoder::GzipBoundary(raw),
            Compression::Zstd | Compression::Xz | Compression::Bzip2 => {
                let packed = Packed::new(compression).ok_or(InputError::NoMemory { bytes: BUFFER })?;
                Decoder::Packed(raw, packed, false)
            }
        };
        Ok(Self { name, decoder, compression, ended: false })
    }

    /// Keeps the results of [`prefix_before`](Self::prefix_before), if another run can seek in this input.
    pub(super) fn keep_prefixes(&mut self) {
        if let Decoder::Plain(raw) = &mut self.decoder
            && match &raw.origin {
                Origins::File(_, metadata) => metadata.is_file(),
                Origins::Object(_) => true,
                Origins::Stream(_) => false,
            }
        {
            raw.prefixes = Some(VecDeque::from([raw.digest.prefix().clone()]));
        }
    }

    /// The longest known prefix that ends at or before `offset`. Later calls must not request an earlier position.
    pub(super) fn prefix_before(&mut self, offset: u64) -> Prefix {
        let Decoder::Plain(raw) = &mut self.decoder else { return Prefix::default() };
        let Some(prefixes) = &mut raw.prefixes else { return Prefix::default() };
        while prefixes.get(1).is_some_and(|next| next.bytes() <= offset) {
            prefixes.pop_front();
        }
        prefixes.front().cloned().unwrap_or_default()
    }

    /// Continues after `prefix`, before anything is read.
    pub(super) fn seek(&mut self, prefix: &Prefix) -> Result<(), InputError> {
        let at = prefix.bytes();
        if at == 0 {
            return Ok(());
        }
        let sought = match &mut self.decoder {
            Decoder::Plain(raw) => match (&mut raw.origin, BlockDigest::after(prefix.clone())) {
                (Origins::File(file, _), Some(digest)) => {
                    let sought = file.seek(SeekFrom::Start(at)).map(drop);
                    // The first bytes may have shown the compression.
                    (raw.pos, raw.len) = (0, 0);
                    (raw.digest, raw.read) = (digest, at);
                    sought
                }
                (Origins::Object(object), Some(digest)) => {
                    object.seek(at);
                    (raw.digest, raw.read) = (digest, at);
                    Ok(())
                }
                _ => Err(io::ErrorKind::InvalidData.into()),
            },
            _ => Err(io::ErrorKind::NotSeekable.into()),
        };
        sought.map_err(|source| InputError::Read { name: self.name.clone(), offset: at, source })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes as stored that were read so far.
    pub(super) fn stored(&self) -> u64 {
        self.raw().read
    }

    /// Size as stored, or the number of bytes read if the size is not known in advance.
    pub(super) fn size(&self) -> u64 {
        let raw = self.raw();
        match &raw.origin {
            Origins::File(_, metadata) => metadata.len().max(raw.read),
            Origins::Object(object) => object.size(),
            Origins::Stream(_) => raw.read,
        }
    }

    /// Size of the rest, if it is known in advance; otherwise 0.
    pub(super) fn rest(&self) -> u64 {
        match &self.decoder {
            Decoder::Plain(raw) => match &raw.origin {
                Origins::File(_, metadata) => metadata.len().saturating_sub(raw.consumed()),
                Origins::Object(object) => object.size().saturating_sub(raw.consumed()),
                Origins::Stream(_) => 0,
            },
            _ => 0,
        }
    }

    /// Reads decompressed bytes; 0 is the end, which implies that every checksum was right.
    pub(super) fn read(&mut self, dst: &mut [u8]) -> Result<usize, InputError> {
        if self.ended || dst.is_empty() {
            return Ok(0);
        }
        let n = match &mut self.decoder {
            Decoder::Plain(raw) => match raw.read(dst) {
                Ok(n) => n,
                Err(e) => return Err(self.read_error(e)),
            },
            Decoder::Packed(..) => self.read_packed(dst)?,
            _ => self.read_gzip(dst)?,
        };
        self.ended = n == 0;
        Ok(n)
    }

    fn read_gzip(&mut self, dst: &mut [u8]) -> Result<usize, InputError> {
        loop {
            match &mut self.decoder {
                Decoder::GzipBoundary(raw) => {
                    let first = raw.consumed() == 0;
                    match raw.peek(2) {
                        Err(e) => return Err(self.read_error(e)),
                        Ok([]) if !first => return Ok(0),
                        Ok(magic) if magic.starts_with(GZIP_MAGIC) => {}
                        Ok(_) => {
                            let other = raw.peek(diagnose::FIRST).unwrap_or_default().to_vec();
                            return Err(self.boundary_error("gzip", first, &other));
                        }
                    }
                    self.cross_gzip_boundary();
                }
                Decoder::Gzip(gzip) => match gzip.read(dst) {
                    Ok(0) => self.cross_gzip_boundary(),
                    Ok(n) => return Ok(n),
                    Err(e) if self.raw().broken => return Err(self.read_error(e)),
                    Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Err(self.truncated("gzip")),
                    Err(e) => return Err(self.compressed(format!("corrupt gzip data ({e})"), DAMAGED)),
                },
                _ => unreachable!("only called for gzip"),
            }
        }
    }

    fn read_packed(&mut self, dst: &mut [u8]) -> Result<usize, InputError> {
        let (compression, what) = (self.compression, self.compression.name());
        loop {
            let Decoder::Packed(raw, packed, is_inside) = &mut self.decoder else { unreachable!("not for gzip") };
            if !*is_inside {
                let first = raw.consumed() == 0;
                match raw.peek(HEADER) {
                    Err(e) => return Err(self.read_error(e)),
                    Ok([]) if !first => return Ok(0),
                    // Padding, which xz has in multiples of four bytes.
                    Ok([0, 0, 0, 0, ..]) if !first && compression == Compression::Xz => {
                        raw.consume(4);
                        continue;
                    }
                    Ok(header) if packed.is_begun_by(header) => {
                        if let Err(fault) = packed.begin(header) {
                            return Err(self.fault(fault));
                        }
                    }
                    Ok(_) => {
                        let other = raw.peek(diagnose::FIRST).unwrap_or_default().to_vec();
                        return Err(self.boundary_error(what, first, &other));
                    }
                }
            }
            let available = match raw.fill_buf() {
                Ok(available) => available,
                Err(e) => return Err(self.read_error(e)),
            };
            let at_end = available.is_empty();
            let Step { consumed, produced, is_last } = packed.step(available, dst);
            raw.consume(consumed);
            match is_last {
                Ok(is_last) => *is_inside = !is_last,
                Err(fault) => return Err(self.fault(fault)),
            }
            if produced > 0 {
                return Ok(produced);
            }
            if at_end && *is_inside {
                return Err(self.truncated(what));
            }
        }
    }

    /// Ends the stream after its last byte.
    pub(super) fn finish(self) -> Result<Totals, InputError> {
        let raw = match self.decoder {
            Decoder::Plain(raw) | Decoder::GzipBoundary(raw) | Decoder::Packed(raw, ..) => raw,
            Decoder::Gzip(_) | Decoder::Moving => unreachable!("`finish` is called only at the end of the stream"),
        };
        if let Origins::File(file, before) = &raw.origin
            && before.is_file()
        {
            let after = file.metadata().map_err(|source| InputError::Unreadable { name: self.name.clone(), source })?;
            if after.len() != before.len() || after.modified().ok() != before.modified().ok() {
                return Err(InputError::Changed { name: self.name });
            }
        }
        Ok(Totals { bytes: raw.read, blake3: raw.digest.finish().to_hex().to_string(), buffer: raw.buffer })
    }

    fn raw(&self) -> &Raw {
        match &self.decoder {
            Decoder::Plain(raw) | Decoder::GzipBoundary(raw) | Decoder::Packed(raw, ..) => raw,
            Decoder::Gzip(gzip) => gzip.get_ref(),
            Decoder::Moving => unreachable!("no call returns while the decoder is being moved"),
        }
    }

    /// Begins or ends a gzip member.
    fn cross_gzip_boundary(&mut self) {
        self.decoder = match std::mem::replace(&mut self.decoder, Decoder::Moving) {
            Decoder::GzipBoundary(raw) => Decoder::Gzip(Box::new(GzDecoder::new(raw))),
            Decoder::Gzip(gzip) => Decoder::GzipBoundary(gzip.into_inner()),
            other => other,
        };
    }

    fn read_error(&self, source: io::Error) -> InputError {
        InputError::read(&self.name, self.raw().read, source)
    }

    fn compressed(&self, reason: String, hint: &'static str) -> InputError {
        InputError::Compressed { name: self.name.clone(), offset: self.raw().consumed(), reason, hint }
    }

    fn fault(&self, fault: Fault) -> InputError {
        match fault {
            Fault::Data(reason, hint) => self.compressed(reason, hint),
            Fault::NoMemory => InputError::NoMemory { bytes: BUFFER },
        }
    }

    fn truncated(&self, what: &str) -> InputError {
        self.compressed(format!("the {what} data ends too early"), CUT_OFF)
    }

    /// The error for bytes that do not begin compressed data, at the start of a file or after other compressed data.
    fn boundary_error(&self, what: &str, first: bool, bytes: &[u8]) -> InputError {
        match (first, diagnose::foreign(bytes)) {
            (true, _) if bytes.is_empty() => {
                self.compressed(format!("expected {what} data, found the end of the file"), CUT_OFF)
            }
            (true, Some(kind)) => self.compressed(format!("expected {what} data, found {}", kind.what), kind.hint),
            (true, None) => self.compressed(format!("no {what} data"), MISNAMED),
            (false, _) => self.compressed(format!("the {what} data is followed by other data"), TRAILING),
        }
    }
}

const CUT_OFF: &str = "the file is truncated; copy or download it again";
const MISNAMED: &str =
    "if it is not compressed, remove the compression extension from its name; otherwise, download it again";
const TRAILING: &str = "remove the other data if it does not belong to the file; otherwise, download the file again";
