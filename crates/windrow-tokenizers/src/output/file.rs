//! One staged file: buffered, hashed while it is written, and checked for abandonment.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::digest::LateHeadDigest;
use super::error::OutputError;
use super::staging::Staging;
use super::storage::{Stored, read_blocks};
use crate::format::Dtype;

/// Bytes per write call. Large enough for any disk, small enough to be still cached when it is hashed.
const BLOCK: usize = 1 << 20;

/// Bytes and ids buffered at a time, so that a document of any length passes through one small buffer.
const PUT: usize = 256 << 10;
pub(crate) const IDS: usize = 1 << 15;

/// Bytes of a file per write-back: a few tenths of a second on most disks.
const WRITE_BACK: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct StagedFile {
    file: Arc<File>,
    target: PathBuf,
    buffer: Vec<u8>,
    bytes: u64,
    /// Bytes of the file that were handed out for write-back.
    handed_out: u64,
    digest: LateHeadDigest,
    /// The marked state, to which the file can return: number of bytes, and their digest.
    mark: Option<(u64, LateHeadDigest)>,
    staging: Staging,
}

/// A staged file that is complete, synced and closed.
#[derive(Debug)]
pub(crate) struct Complete {
    pub(crate) target: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) blake3: blake3::Hash,
}

impl StagedFile {
    pub(crate) fn new(file: File, target: &Path, staging: &Staging) -> Self {
        Self {
            file: Arc::new(file),
            target: target.to_owned(),
            buffer: Vec::with_capacity(BLOCK + BLOCK / 2),
            bytes: 0,
            handed_out: 0,
            digest: LateHeadDigest::default(),
            mark: None,
            staging: staging.clone(),
        }
    }

    /// Continues after the first `bytes`, which another run has written. Calls `each` with them.
    pub(crate) fn resume(mut self, bytes: u64, mut each: impl FnMut(&[u8])) -> Result<Self, OutputError> {
        let Self { file, digest, staging, .. } = &mut self;
        let storage = staging.storage();
        let read = storage.truncate(file, bytes).and_then(|()| {
            (&**file).seek(SeekFrom::Start(0))?;
            read_blocks(storage, file, |block| {
                digest.update(block);
                each(block);
            })
        });
        read.map_err(|error| self.failed("cannot read back", error))?;
        self.bytes = bytes;
        Ok(self)
    }

    /// Lets `add` append to the buffer, and writes the buffer if it is full. `add` should append less than half a mebibyte per call.
    pub(crate) fn put(&mut self, add: impl FnOnce(&mut Vec<u8>)) -> Result<(), OutputError> {
        add(&mut self.buffer);
        if self.buffer.len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    /// Appends any number of bytes.
    pub(crate) fn put_all(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        bytes.chunks(PUT).try_for_each(|part| self.put(|buffer| buffer.extend_from_slice(part)))
    }

    /// Appends any number of ids, all of which fit the element type.
    pub(crate) fn put_ids(&mut self, ids: &[u32], dtype: Dtype) -> Result<(), OutputError> {
        ids.chunks(IDS).try_for_each(|block| self.put(|buffer| dtype.put(block, buffer)))
    }

    /// Writes the buffered bytes.
    pub(crate) fn flush(&mut self) -> Result<(), OutputError> {
        self.staging.check()?;
        self.digest.update(&self.buffer);
        self.bytes += self.buffer.len() as u64;
        let written = self.stored().write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|error| self.failed("cannot write", error))
    }

    /// Marks the state of the file now.
    pub(crate) fn mark(&mut self) -> Result<(), OutputError> {
        self.flush()?;
        self.mark = Some((self.bytes, self.digest.clone()));
        Ok(())
    }

    /// Removes everything that was added since the mark was set.
    pub(crate) fn return_to_mark(&mut self) -> Result<(), OutputError> {
        let Some((bytes, digest)) = self.mark.take() else { return Ok(()) };
        self.staging.check()?;
        self.buffer.clear();
        let truncated = self.staging.storage().truncate(&self.file, bytes);
        truncated.map_err(|error| self.failed("cannot truncate", error))?;
        self.handed_out = self.handed_out.min(bytes);
        (self.bytes, self.digest) = (bytes, digest);
        Ok(())
    }

    /// Replaces the first bytes of the file, up to 1024, which must have been written before.
    pub(crate) fn replace_head(&mut self, head: &[u8]) -> Result<(), OutputError> {
        self.flush()?;
        self.digest.replace_head(head);
        let replaced = (&*self.file).seek(SeekFrom::Start(0)).and_then(|_| self.stored().write_all(head));
        replaced.map_err(|error| self.failed("cannot write the header of", error))
    }

    /// The next part of the file to write back, if enough was written since the last write-back.
    pub(crate) fn write_back(&mut self) -> Option<WriteBack> {
        (self.bytes - self.handed_out >= WRITE_BACK).then(|| {
            self.handed_out = self.bytes;
            WriteBack { file: self.file.clone(), target: self.target.clone(), staging: self.staging.clone() }
        })
    }

    /// Writes the rest and waits until it is on disk. Returns the number of bytes.
    pub(crate) fn sync(&mut self) -> Result<u64, OutputError> {
        self.flush()?;
        self.staging.storage().sync(&self.file).map_err(|error| self.failed("cannot sync", error))?;
        Ok(self.bytes)
    }

    /// blake3 of the bytes written so far, in hexadecimal.
    pub(crate) fn hash_so_far(&self) -> String {
        self.digest.clone().finish().to_hex().to_string()
    }

    /// [Syncs](Self::sync) the file and closes it.
    pub(crate) fn complete(mut self) -> Result<Complete, OutputError> {
        self.sync()?;
        Ok(Complete { bytes: self.bytes, blake3: self.digest.finish(), target: self.target })
    }

    fn stored(&self) -> Stored<'_> {
        Stored(self.staging.storage(), &self.file)
    }

    /// The staging of the file's output.
    pub(crate) fn staging(&self) -> &Staging {
        &self.staging
    }

    /// The final name.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Abandons the whole output after a failed call on this file.
    pub(crate) fn failed(&self, doing: &str, error: io::Error) -> OutputError {
        self.staging.failed(doing, &self.target, error)
    }
}

/// A part of a file to be written to the disk now, so that the final sync has less to do.
#[derive(Debug)]
pub(crate) struct WriteBack {
    file: Arc<File>,
    target: PathBuf,
    staging: Staging,
}

impl WriteBack {
    /// Waits until the part is on disk. The system reports a failed write only once, perhaps here, so an error is an error of the
    /// output.
    pub(crate) fn run(self) -> Result<(), OutputError> {
        self.staging.check()?;
        let written = self.staging.storage().write_back(&self.file);
        written.map_err(|error| self.staging.failed("cannot write back", &self.target, error))
    }
}
