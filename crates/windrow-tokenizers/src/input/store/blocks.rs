//! An object that is read at any position. Some of its parts, here called blocks, are kept.
//!
//! A Parquet file is read twice: once as a whole for its hash, and again for its wanted columns. A row group that fits in the kept blocks is
//! requested once.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use super::driver::Pending;
use super::{AHEAD, Object, PART, Permit};

/// Number of blocks that are kept.
const KEPT: usize = 6;

/// Memory for reading an object at any position, in bytes.
pub(in crate::input) const BLOCKS_BYTES: usize = (KEPT + 1 + AHEAD) * PART as usize;

/// The blocks of an object. A clone shares them.
#[derive(Clone, Debug)]
pub(in crate::input) struct ObjectBlocks {
    object: Object,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Kept blocks, the most recently used last.
    kept: VecDeque<(u64, Bytes)>,
    requested: VecDeque<(u64, Pending<io::Result<Bytes>>, Option<Permit>)>,
    /// The last error, and its position: decoders lose errors of unexpected kinds.
    failure: Option<(u64, io::Error)>,
}

impl ObjectBlocks {
    pub(in crate::input) fn new(object: Object) -> Self {
        Self { object, shared: Arc::default() }
    }

    pub(in crate::input) fn size(&self) -> u64 {
        self.object.size()
    }

    /// The error of the last failed read, and its position.
    pub(in crate::input) fn take_failure(&self) -> Option<(u64, io::Error)> {
        self.shared().failure.take()
    }

    /// The bytes from a position up to the end of its block; empty at the end. Reading ahead requests the blocks after it.
    pub(in crate::input) fn rest_of_block(&self, place: u64, reads_ahead: bool) -> io::Result<Bytes> {
        if place >= self.size() {
            return Ok(Bytes::new());
        }
        let mut shared = self.shared();
        let block = shared.block(&self.object, place / PART, reads_ahead).map_err(|error| {
            shared.failure = Some((place, error));
            io::Error::other("the store failed")
        })?;
        Ok(block.slice((place % PART) as usize..))
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
        let mut whole = BytesMut::with_capacity(length);
        whole.extend_from_slice(&first);
        while whole.len() < length {
            let more = self.rest_of_block(place + whole.len() as u64, false)?;
            whole.extend_from_slice(&more[..more.len().min(length - whole.len())]);
        }
        Ok(whole.freeze())
    }

    /// Reads on from a position.
    pub(in crate::input) fn read_from(&self, place: u64) -> BlocksRead {
        BlocksRead { blocks: self.clone(), place }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn block(&mut self, object: &Object, number: u64, reads_ahead: bool) -> io::Result<Bytes> {
        if let Some(at) = self.kept.iter().position(|(kept, _)| *kept == number) {
            let kept = self.kept.remove(at).expect("it was found there");
            let block = kept.1.clone();
            self.kept.push_back(kept);
            return Ok(block);
        }
        if !self.requested.iter().any(|(requested, ..)| *requested == number) {
            self.request(object, number, None);
        }
        let mut last = number;
        while reads_ahead && self.requested.len() <= AHEAD {
            last += 1;
            if last * PART >= object.size() {
                break;
            }
            let is_there = self.kept.iter().any(|(kept, _)| *kept == last)
                || self.requested.iter().any(|(requested, ..)| *requested == last);
            if is_there {
                continue;
            }
            let Some(permit) = object.store.ahead.permit() else { break };
            self.request(object, last, Some(permit));
        }
        let at = self.requested.iter().position(|(requested, ..)| *requested == number);
        let (_, pending, _permit) = self.requested.remove(at.expect("it was requested")).expect("it was found there");
        let block = object.answer(pending)?;
        while self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((number, block.clone()));
        Ok(block)
    }

    fn request(&mut self, object: &Object, number: u64, permit: Option<Permit>) {
        let range = number * PART..((number + 1) * PART).min(object.size());
        self.requested.push_back((number, object.begin(range), permit));
    }
}

/// Reads an object from a position.
#[derive(Debug)]
pub(in crate::input) struct BlocksRead {
    blocks: ObjectBlocks,
    place: u64,
}

impl Read for BlocksRead {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let bytes = self.blocks.rest_of_block(self.place, false)?;
        let n = dst.len().min(bytes.len());
        dst[..n].copy_from_slice(&bytes[..n]);
        self.place += n as u64;
        Ok(n)
    }
}
