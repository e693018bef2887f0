//! The bytes of an object at any position, requested in parts, here called blocks. Some blocks are kept, and some are requested before
//! they are needed.
//!
//! A Parquet file is read twice: once as a whole for its hash, and again for its wanted columns. A row group that fits in the kept blocks is
//! requested once. Other files are read from front to back, and keep the block that is being read.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::driver::Pending;
use super::{Object, PART, Permit};

/// Number of blocks that are kept for decoders.
#[cfg(feature = "parquet")]
const KEPT: usize = 6;

/// Memory for reading an object at any position, in bytes.
#[cfg(feature = "parquet")]
pub(in crate::input) const BLOCKS_BYTES: usize = (KEPT + 1 + super::AHEAD) * PART as usize;

/// The blocks of an object. A clone shares them.
#[derive(Clone, Debug)]
pub(in crate::input) struct ObjectBlocks {
    object: Object,
    /// The position at which the first block begins.
    start: u64,
    /// Maximum number of kept blocks.
    most: usize,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Kept blocks, the most recently used last.
    kept: VecDeque<(u64, Bytes)>,
    requested: VecDeque<(u64, Pending<io::Result<Bytes>>, Option<Permit>)>,
    /// The last error of a decoder's read, and its position: decoders lose errors of unexpected kinds.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code, reason = "only decoders take it"))]
    failure: Option<(u64, io::Error)>,
}

impl ObjectBlocks {
    pub(in crate::input) fn size(&self) -> u64 {
        self.object.size()
    }

    /// The bytes from a position up to the end of its block; empty at the end. A reader from front to back reads ahead: the blocks after it are
    /// requested, too. Other reads are those of decoders.
    pub(in crate::input) fn rest_of_block(&self, place: u64, reads_ahead: bool) -> io::Result<Bytes> {
        if place >= self.size() {
            return Ok(Bytes::new());
        }
        let mut shared = self.shared();
        let place_in_blocks = place - self.start;
        match shared.block(self, place_in_blocks / PART, reads_ahead) {
            Ok(block) => Ok(block.slice((place_in_blocks % PART) as usize..)),
            Err(error) if reads_ahead => Err(error),
            Err(error) => {
                shared.failure = Some((place, error));
                Err(io::Error::other("the store failed"))
            }
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(feature = "parquet")]
impl ObjectBlocks {
    pub(in crate::input) fn new(object: Object) -> Self {
        Self { object, start: 0, most: KEPT, shared: Arc::default() }
    }

    /// The error of a decoder's last failed read, and its position.
    pub(in crate::input) fn take_failure(&self) -> Option<(u64, io::Error)> {
        self.shared().failure.take()
    }

    /// The next `length` bytes; an error if the object ends before.
    pub(in crate::input) fn bytes(&self, place: u64, length: usize) -> io::Result<Bytes> {
        let first = self.rest_of_block(place, false)?;
        if first.len() >= length {
            return Ok(first.slice(..length));
        }
        if place.saturating_add(length as u64) > self.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut whole = bytes::BytesMut::with_capacity(length);
        whole.extend_from_slice(&first);
        while whole.len() < length {
            let more = self.rest_of_block(place + whole.len() as u64, false)?;
            whole.extend_from_slice(&more[..more.len().min(length - whole.len())]);
        }
        Ok(whole.freeze())
    }

    /// Reads on from a position.
    pub(in crate::input) fn read_from(&self, place: u64) -> ObjectReader {
        ObjectReader { blocks: self.clone(), place, reads_ahead: false }
    }
}

impl Shared {
    fn block(&mut self, blocks: &ObjectBlocks, number: u64, reads_ahead: bool) -> io::Result<Bytes> {
        if let Some(at) = self.kept.iter().position(|(kept, _)| *kept == number) {
            let kept = self.kept.remove(at).expect("it was found there");
            let block = kept.1.clone();
            self.kept.push_back(kept);
            return Ok(block);
        }
        if !self.is_requested(number) {
            self.request(blocks, number, None);
        }
        if reads_ahead {
            self.request_after(blocks, number);
        }
        let at = self.requested.iter().position(|(requested, ..)| *requested == number);
        let (_, pending, permit) = self.requested.remove(at.expect("it was requested")).expect("it was found there");
        // The oldest block is dropped before the new one arrives.
        while self.kept.len() >= blocks.most {
            self.kept.pop_front();
        }
        let block = blocks.object.answer(pending)?;
        self.kept.push_back((number, block.clone()));
        drop(permit);
        if reads_ahead {
            self.request_after(blocks, number);
        }
        Ok(block)
    }

    /// Requests blocks after this one while other objects leave some.
    fn request_after(&mut self, blocks: &ObjectBlocks, number: u64) {
        for next in number + 1..(blocks.size() - blocks.start).div_ceil(PART) {
            if self.is_requested(next) || self.kept.iter().any(|(kept, _)| *kept == next) {
                continue;
            }
            let Some(permit) = blocks.object.store.ahead.permit() else { return };
            self.request(blocks, next, Some(permit));
        }
    }

    fn is_requested(&self, number: u64) -> bool {
        self.requested.iter().any(|(requested, ..)| *requested == number)
    }

    fn request(&mut self, blocks: &ObjectBlocks, number: u64, permit: Option<Permit>) {
        let begin = blocks.start + number * PART;
        let pending = blocks.object.begin(begin..(begin + PART).min(blocks.size()));
        self.requested.push_back((number, pending, permit));
    }
}

/// Reads an object from a position on.
#[derive(Debug)]
pub(in crate::input) struct ObjectReader {
    blocks: ObjectBlocks,
    place: u64,
    reads_ahead: bool,
}

impl ObjectReader {
    /// Reads from front to back.
    pub(in crate::input) fn new(object: Object) -> Self {
        Self { blocks: ObjectBlocks { object, start: 0, most: 1, shared: Arc::default() }, place: 0, reads_ahead: true }
    }

    pub(in crate::input) fn size(&self) -> u64 {
        self.blocks.size()
    }

    /// Continues at this position, and requests nothing before it.
    pub(in crate::input) fn seek(&mut self, to: u64) {
        *self = Self::new(self.blocks.object.clone());
        (self.place, self.blocks.start) = (to, to);
    }
}

impl Read for ObjectReader {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let bytes = self.blocks.rest_of_block(self.place, self.reads_ahead)?;
        let n = dst.len().min(bytes.len());
        dst[..n].copy_from_slice(&bytes[..n]);
        self.place += n as u64;
        Ok(n)
    }
}
