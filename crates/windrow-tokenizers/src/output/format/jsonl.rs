//! JSON lines of ids, read by all threads.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use memchr::{memchr, memrchr};
use windrow::prelude::*;

use super::{Begin, Ending, Files, Finished, FormatWriter, TokenFiles};
use crate::format::Dtype;
use crate::output::OutputError;
use crate::output::file::{IDS, StagedFile};
use crate::shard::{DatasetError, Shard, Visitor, open_file};

pub(super) struct Jsonl;

impl TokenFiles for Jsonl {
    fn suffixes(&self) -> &'static [&'static str] {
        &[".jsonl"]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[]
    }

    fn mask_suffix(&self) -> Option<&'static str> {
        None
    }

    fn begin(&self, mut files: Files, _: &Begin<'_>) -> Result<Box<dyn FormatWriter>, OutputError> {
        Ok(Box::new(JsonlWriter { lines: files.next(), has_begun: false, has_ids: false }))
    }

    fn walk(&self, shard: &Shard<'_>, _: Option<usize>, visit: Visitor<'_>) -> Result<(), DatasetError> {
        walk(&shard.paths[0], shard.options.has_mask(), visit)
    }
}

#[derive(Debug)]
struct JsonlWriter {
    lines: StagedFile,
    /// True if a line has begun, and has ids.
    has_begun: bool,
    has_ids: bool,
}

impl FormatWriter for JsonlWriter {
    fn ids_file(&mut self) -> Option<&mut StagedFile> {
        Some(&mut self.lines)
    }

    fn ids(&mut self, ids: &[u32]) -> Result<(), OutputError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.lines.put(|bytes| bytes.extend_from_slice(br#"{"ids":["#))?;
        }
        for block in ids.chunks(IDS) {
            self.lines.put(|bytes| {
                for &id in block {
                    put_decimal(id, !std::mem::replace(&mut self.has_ids, true), bytes);
                }
            })?;
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending<'_>) -> Result<(), OutputError> {
        self.ids(&[])?;
        (self.has_begun, self.has_ids) = (false, false);
        if let Some(mask) = ending.mask {
            self.lines.put(|bytes| bytes.extend_from_slice(br#"],"mask":["#))?;
            let mut separator: &[u8] = b"";
            for block in mask.chunks(IDS) {
                self.lines.put(|bytes| {
                    for one in block {
                        bytes.extend_from_slice(separator);
                        bytes.push(b'0' + one);
                        separator = b",";
                    }
                })?;
            }
        }
        self.lines.put(|bytes| bytes.extend_from_slice(b"]}\n"))
    }

    fn discard(&mut self) -> Result<(), OutputError> {
        (self.has_begun, self.has_ids) = (false, false);
        self.lines.return_to_mark()
    }

    fn finish(self: Box<Self>, _: &str) -> Result<Vec<Finished>, OutputError> {
        Ok(vec![(self.lines.complete()?, None)])
    }
}

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

/// Appends a comma, unless `first`, and `n` in decimal.
fn put_decimal(mut n: u32, first: bool, bytes: &mut Vec<u8>) {
    let mut text = [b','; 11];
    let mut at = text.len();
    while n >= 100 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    at -= 2;
    text[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    // Below 10 the pair has begun with a zero.
    at += usize::from(n < 10);
    if !first {
        at -= 1;
        text[at] = b',';
    }
    bytes.extend_from_slice(&text[at..]);
}

/// Bytes that are read and parsed at a time, unless a line is longer.
const BLOCK: usize = if cfg!(test) { 64 } else { 8 << 20 };

/// Bytes that one thread reads at a time.
const READ: usize = if cfg!(test) { 24 } else { 512 << 10 };

/// Bytes of lines that one thread parses at a time.
const PIECE: usize = if cfg!(test) { 16 } else { 64 << 10 };

/// The ids of consecutive lines.
#[derive(Default)]
struct Parsed {
    ids: Vec<u32>,
    ends: Vec<usize>,
    /// True if the line after them does not have the form of such a line.
    is_broken: bool,
}

/// Visits the ids of each line until the visitor breaks.
fn walk(path: &Path, has_mask: bool, visit: Visitor<'_>) -> Result<(), DatasetError> {
    let bytes = fs::metadata(path).map_err(|error| DatasetError::io(path, &error))?.len();
    let (mut block, mut at) = (Vec::new(), 0);
    let (mut filled, mut number) = (0, 1u64);
    loop {
        let more = usize::try_from(bytes - at).map_or(BLOCK, |left| left.min(BLOCK));
        block.resize(filled + more, 0);
        fill(path, at, &mut block[filled..]).map_err(|error| DatasetError::io(path, &error))?;
        (at, filled) = (at + more as u64, filled + more);
        let has_ended = at == bytes;
        // The last line may lack its end.
        let whole = if has_ended { filled } else { memrchr(b'\n', &block[..filled]).map_or(0, |at| at + 1) };
        let pieces = pieces(&block[..whole]);
        let parsed: Vec<Parsed> = pieces.par_iter().map(|piece| parse(piece, has_mask)).collect();
        for Parsed { ids, ends, is_broken } in parsed {
            let mut begin = 0;
            for end in ends {
                if visit(&ids[begin..end]).is_break() {
                    return Ok(());
                }
                begin = end;
                number += 1;
            }
            if is_broken {
                let mask = if has_mask { ",\"mask\":[...]" } else { "" };
                let what = format!("line {number} does not have the form {{\"ids\":[...]{mask}}}");
                return Err(DatasetError::damaged(path, what));
            }
        }
        if has_ended {
            return Ok(());
        }
        block.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Reads the bytes of a file from this place on. Copying them takes about as long as parsing them, so all threads do it.
fn fill(path: &Path, at: u64, block: &mut [u8]) -> io::Result<()> {
    let parts: Vec<io::Result<()>> = block
        .par_chunks_mut(READ)
        .enumerate()
        .map(|(number, part)| {
            let mut file = open_file(path)?;
            file.seek(SeekFrom::Start(at + (number * READ) as u64))?;
            file.read_exact(part)
        })
        .collect();
    parts.into_iter().collect()
}

/// Divides lines into runs of about equal length.
fn pieces(mut lines: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while !lines.is_empty() {
        let most = lines.len().min(PIECE);
        let end = memchr(b'\n', &lines[most - 1..]).map_or(lines.len(), |at| most + at);
        let (piece, later) = lines.split_at(end);
        pieces.push(piece);
        lines = later;
    }
    pieces
}

fn parse(lines: &[u8], has_mask: bool) -> Parsed {
    let mut parsed = Parsed::default();
    parsed.ids.reserve(lines.len() / 4);
    let mut begin = 0;
    while begin < lines.len() {
        let end = memchr(b'\n', &lines[begin..]).map_or(lines.len(), |at| begin + at + 1);
        if !parse_line(&lines[begin..end], has_mask, &mut parsed.ids) {
            parsed.is_broken = true;
            break;
        }
        parsed.ends.push(parsed.ids.len());
        begin = end;
    }
    parsed
}

/// Appends the ids of a line `{"ids":[1,2,3]}`, or `{"ids":[1,2,3],"mask":[0,1,1]}`, exactly as it is written. A general reader of JSON is
/// several times as slow.
fn parse_line(line: &[u8], has_mask: bool, ids: &mut Vec<u32>) -> bool {
    let before = ids.len();
    let numbers = line.strip_prefix(br#"{"ids":["#).and_then(|rest| rest.strip_suffix(b"]}\n"));
    let Some(mut numbers) = numbers else { return false };
    let mut masks = None;
    if has_mask {
        let between = br#"],"mask":["#;
        let Some(at) = memchr::memmem::find(numbers, between) else { return false };
        masks = Some(&numbers[at + between.len()..]);
        numbers = &numbers[..at];
    }
    let are_masks = |mask: &[u8], count: usize| {
        let bytes = mask.iter().enumerate();
        mask.len() == (2 * count).saturating_sub(1)
            && bytes.into_iter().all(|(at, byte)| if at % 2 == 0 { matches!(byte, b'0' | b'1') } else { *byte == b',' })
    };
    parse_ids(numbers, ids) && masks.is_none_or(|masks| are_masks(masks, ids.len() - before))
}

/// Reads decimal numbers with commas between them.
fn parse_ids(mut numbers: &[u8], ids: &mut Vec<u32>) -> bool {
    if numbers.is_empty() {
        return true;
    }
    loop {
        // Most ids have fewer than eight digits: these are read as one word.
        while let Some((id, digits)) = numbers.first_chunk().and_then(short_number) {
            ids.push(id);
            numbers = &numbers[digits + 1..];
        }
        let digits = numbers.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(numbers.len());
        if digits == 0 || digits > 10 {
            return false;
        }
        let id = numbers[..digits].iter().fold(0, |id, digit| id * 10 + u64::from(digit - b'0'));
        let Ok(id) = u32::try_from(id) else { return false };
        ids.push(id);
        match numbers.get(digits) {
            None => return true,
            Some(b',') => numbers = &numbers[digits + 1..],
            Some(_) => return false,
        }
    }
}

/// The number before a comma, and the number of its digits, if it has 1 to 7 of them.
///
/// Adjacent digits, pairs and quadruples are combined in one word: D. Lemire, "Quickly parsing eight digits", 2018.
fn short_number(bytes: &[u8; 8]) -> Option<(u32, usize)> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let word = u64::from_le_bytes(*bytes) ^ (EACH * u64::from(b'0'));
    // The high bit of each byte that is more than 9; bytes after the first of them may be wrong.
    let others = (word.wrapping_add(EACH * 0x76) | word) & (EACH * 0x80);
    let digits = (others.trailing_zeros() / 8) as usize;
    if digits == 0 || digits == 8 || bytes[digits] != b',' {
        return None;
    }
    // The number with leading zeros, from the lowest byte on.
    let word = word << (64 - 8 * digits);
    let pairs = (word.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let quadruples = (pairs.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    let number = quadruples.wrapping_mul(10_000 << 32 | 1) >> 32;
    Some((number as u32, digits))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    #[test]
    fn decimals_are_those_of_std() {
        let edges = (0..10).map(|k| 10u32.pow(k)).flat_map(|n| [n - 1, n, n + 1]);
        for n in edges.chain(0..1100).chain([u32::MAX - 1, u32::MAX]) {
            for first in [true, false] {
                let mut bytes = b"x".to_vec();
                put_decimal(n, first, &mut bytes);
                let comma = if first { "" } else { "," };
                assert_eq!(String::from_utf8(bytes).unwrap(), format!("x{comma}{n}"));
            }
        }
    }

    #[test]
    fn lines_are_read_as_they_are_written_and_no_others() {
        let read = |line: &str| {
            let mut ids = vec![7];
            parse_line(line.as_bytes(), line.contains("mask"), &mut ids).then(|| ids.split_off(1))
        };
        assert_eq!(read("{\"ids\":[],\"mask\":[]}\n"), Some(vec![]));
        assert_eq!(read("{\"ids\":[1,2],\"mask\":[0,1]}\n"), Some(vec![1, 2]));
        for mask in ["", "0", "0,1,0", "0,2", "0 1", "01,"] {
            assert_eq!(read(&format!("{{\"ids\":[1,2],\"mask\":[{mask}]}}\n")), None, "{mask:?}");
        }
        // Bytes that are no ASCII; an addition of whole words overflows there.
        for bytes in [[0xff; 9], [b'1', b'2', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b',']] {
            let line = [&b"{\"ids\":["[..], &bytes, b"3]}\n"].concat();
            assert!(!parse_line(&line, false, &mut Vec::new()), "{line:?}");
        }
        assert_eq!(read("{\"ids\":[]}\n"), Some(vec![]));
        assert_eq!(read("{\"ids\":[0,12,4294967295]}\n"), Some(vec![0, 12, u32::MAX]));
        for line in [
            "",
            "\n",
            "{\"ids\":[1]}",
            "{\"ids\":[1,]}\n",
            "{\"ids\":[,1]}\n",
            "{\"ids\":[1,,2]}\n",
            "{\"ids\":[-1]}\n",
            "{\"ids\":[1,2 3,4,5,6,7]}\n",
            "{\"ids\":[1;2,3,4,5,6,7]}\n",
            "{\"ids\":[4294967296]}\n",
            "{\"ids\":[4294967296,1]}\n",
            "{\"ids\":[99999999999]}\n",
            "{\"id\":[1]}\n",
        ] {
            assert_eq!(read(line), None, "{line:?}");
        }
    }

    #[test]
    fn numbers_of_all_lengths_are_read() {
        let numbers: Vec<u32> = (0..=9)
            .flat_map(|digits| {
                let least = 10_u32.pow(digits);
                [least - 1, least, least.saturating_mul(3).saturating_add(7), 1_234_567_890 % least.max(2)]
            })
            .chain([u32::MAX])
            .collect();
        for rotation in 0..numbers.len() {
            let mut numbers = numbers.clone();
            numbers.rotate_left(rotation);
            let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let mut ids = Vec::new();
            assert!(parse_ids(text.join(",").as_bytes(), &mut ids));
            assert_eq!(ids, numbers);
        }
    }

    /// Blocks and pieces are a few bytes long here.
    #[test]
    fn lines_of_any_length_are_visited_in_order_up_to_the_broken_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let documents: Vec<Vec<u32>> = (0..60).map(|number| (0..number * 7 % 53).collect()).collect();
        let line = |ids: &Vec<u32>| {
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            format!("{{\"ids\":[{}]}}\n", ids.join(","))
        };
        let lines: Vec<String> = documents.iter().map(line).collect();
        let walked = |text: &str, most: usize| {
            fs::write(&path, text).unwrap();
            let mut found = Vec::new();
            let outcome = walk(&path, false, &mut |ids| {
                found.push(ids.to_vec());
                if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            (found, outcome.map_err(|error| error.to_string()))
        };
        let (found, outcome) = walked(&lines.concat(), usize::MAX);
        assert_eq!((found, outcome), (documents.clone(), Ok(())));
        let (found, outcome) = walked(&lines.concat(), 7);
        assert_eq!((found.as_slice(), outcome), (&documents[..7], Ok(())));
        for broken in [0, 1, 30, 59] {
            let mut lines = lines.clone();
            let length = lines[broken].len();
            lines[broken].truncate(length - 2);
            let (found, outcome) = walked(&lines.concat(), usize::MAX);
            assert_eq!(found, documents[..broken]);
            let error = outcome.unwrap_err();
            assert!(error.contains(&format!("line {} does not have the form", broken + 1)), "{error}");
        }
    }
}
