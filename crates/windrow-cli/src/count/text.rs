//! Counts one text.

use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use windrow::prelude::*;
use windrow_tokenizers::engine::{Encoder, EngineError};
use windrow_tokenizers::tokenizer::Tokenizer;

/// Bytes to read before counting continues. A text that cannot be cut is read as a whole.
const BLOCK: usize = 4 << 20;

/// Bytes that one thread counts at a time: some milliseconds.
const PIECE: usize = 128 << 10;

/// A file with a zero byte among so many first bytes is binary, as for git.
const SNIFFED: usize = 8000;

/// Larger buffers are not kept for the next text.
const KEPT: usize = 2 * BLOCK;

/// Bytes and tokens of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) bytes: u64,
    pub(super) tokens: u64,
}

/// Why a text has no count.
#[derive(Debug)]
pub(super) enum Uncounted {
    Read(io::Error),
    Binary,
    /// The first byte that is not UTF-8, counted from 1.
    NotUtf8 {
        byte: u64,
    },
    Engine(EngineError),
    /// The caller wants no more.
    Stopped,
}

/// Counts texts; shared by all threads.
pub(super) struct Counter<'t> {
    tokenizer: &'t Tokenizer,
    /// Asked before each piece, by all threads.
    goes_on: &'t (dyn Fn() -> bool + Sync),
    /// Unused benches; there are no more than threads.
    encoders: Mutex<Vec<Bench<'t>>>,
    buffers: Mutex<Vec<Vec<u8>>>,
}

struct Bench<'t> {
    encoder: Box<dyn Encoder + 't>,
    ids: Vec<u32>,
}

impl<'t> Counter<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, goes_on: &'t (dyn Fn() -> bool + Sync)) -> Self {
        Self { tokenizer, goes_on, encoders: Mutex::default(), buffers: Mutex::default() }
    }

    /// Counts the rest of `input`.
    pub(super) fn count(&self, input: impl Read) -> Result<Count, Uncounted> {
        let kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = kept.unwrap_or_default();
        buffer.clear();
        let count = self.count_in(input, &mut buffer);
        if buffer.capacity() <= KEPT {
            self.buffers.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
        }
        count
    }

    fn count_in(&self, mut input: impl Read, buffer: &mut Vec<u8>) -> Result<Count, Uncounted> {
        let mut read = |buffer: &mut Vec<u8>, most: usize| -> Result<bool, Uncounted> {
            let read = input.by_ref().take(most as u64).read_to_end(buffer).map_err(Uncounted::Read)?;
            Ok(read < most)
        };
        let mut count = Count::default();
        let mut at_end = read(buffer, SNIFFED)?;
        if buffer.contains(&0) {
            return Err(Uncounted::Binary);
        }
        loop {
            if !at_end {
                // The buffer of a text that cannot be cut doubles, so that the text is not checked and searched too often.
                at_end = read(buffer, BLOCK.max(buffer.len()))?;
            }
            // A partial character at the end of a block belongs to the next block.
            let text = match std::str::from_utf8(buffer) {
                Ok(text) => text,
                Err(error) if error.error_len().is_none() && !at_end => {
                    std::str::from_utf8(&buffer[..error.valid_up_to()]).expect("valid up to there")
                }
                Err(error) => return Err(Uncounted::NotUtf8 { byte: count.bytes + error.valid_up_to() as u64 + 1 }),
            };
            let end = if at_end { text.len() } else { self.tokenizer.last_cut(text.as_bytes()).unwrap_or(0) };
            count.tokens += self.tokens(&text[..end])?;
            count.bytes += end as u64;
            if at_end {
                return Ok(count);
            }
            buffer.drain(..end);
        }
    }

    /// The number of tokens; all threads count the pieces of a long text.
    fn tokens(&self, text: &str) -> Result<u64, Uncounted> {
        let pieces = self.pieces(text);
        let counts = pieces.par_iter().weigh(|piece| piece.len()).map(|piece| self.encode(piece));
        let counts: Result<Vec<u64>, Uncounted> = counts.collect();
        Ok(counts?.into_iter().sum())
    }

    fn pieces<'a>(&self, mut text: &'a str) -> Vec<&'a str> {
        let mut pieces = Vec::with_capacity(text.len() / PIECE + 1);
        while text.len() > PIECE {
            let Some(cut) = self.tokenizer.last_cut(&text.as_bytes()[..PIECE]) else { break };
            let (piece, rest) = text.split_at(cut);
            pieces.push(piece);
            text = rest;
        }
        pieces.push(text);
        pieces
    }

    fn encode(&self, text: &str) -> Result<u64, Uncounted> {
        if !(self.goes_on)() {
            return Err(Uncounted::Stopped);
        }
        let kept = self.encoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut bench = kept.unwrap_or_else(|| Bench { encoder: self.tokenizer.engine().encoder(), ids: Vec::new() });
        bench.ids.clear();
        bench.encoder.encode(text, &mut bench.ids).map_err(Uncounted::Engine)?;
        let tokens = bench.ids.len() as u64;
        if bench.ids.capacity() > KEPT {
            bench.ids = Vec::new();
        }
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner).push(bench);
        Ok(tokens)
    }
}
