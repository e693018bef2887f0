//! A run of consecutive documents, and its ids as bytes.

use super::error::OutputError;
use super::file::StagedFile;
use super::format::Dtype;

/// Ids converted at a time, so that a document of any length passes through one small buffer.
const BLOCK: usize = 1 << 15;

/// Consecutive documents in one array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) ids: &'a [u32],
    /// The end of each document in `ids`.
    pub(crate) ends: &'a [usize],
    /// The mask of each id, if there are masks; without those of the ids around each document, which are 0.
    pub(crate) mask: Option<&'a [u8]>,
    /// The ids around each document.
    pub(crate) frame: Frame,
}

/// The ids that are written around each document.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Option<u32>,
}

impl Frame {
    /// Their number.
    pub(crate) fn len(self) -> usize {
        self.bos.as_slice().len() + self.eos.as_slice().len()
    }

    /// A document with these ids around it.
    pub(crate) fn around(self, ids: &[u32]) -> Vec<u32> {
        self.bos.iter().chain(ids).chain(&self.eos).copied().collect()
    }
}

impl<'a> Run<'a> {
    /// The documents, without the ids around them.
    pub(crate) fn documents(self) -> impl Iterator<Item = &'a [u32]> {
        self.ends.iter().scan(0, move |start, &end| Some(&self.ids[std::mem::replace(start, end)..end]))
    }

    /// The masks of the documents; none if there are no masks.
    pub(crate) fn masks(self) -> impl Iterator<Item = &'a [u8]> {
        let masks = self.mask.into_iter().flat_map(move |mask| self.ends.iter().map(move |&end| (mask, end)));
        masks.scan(0, |start, (mask, end)| Some(&mask[std::mem::replace(start, end)..end]))
    }

    /// The number of ids of each document as written, with those around it.
    pub(crate) fn lengths(self) -> impl Iterator<Item = usize> {
        self.documents().map(move |ids| ids.len() + self.frame.len())
    }

    /// Appends all ids as written to `file`.
    pub(crate) fn put_ids(self, dtype: Dtype, file: &mut StagedFile) -> Result<(), OutputError> {
        let Frame { bos, eos } = self.frame;
        if self.frame.len() == 0 {
            return put(self.ids, dtype, file);
        }
        for ids in self.documents() {
            file.put(|bytes| dtype.put(bos.as_slice(), bytes))?;
            put(ids, dtype, file)?;
            file.put(|bytes| dtype.put(eos.as_slice(), bytes))?;
        }
        Ok(())
    }
}

/// Appends ids as written to `file`.
pub(crate) fn put(ids: &[u32], dtype: Dtype, file: &mut StagedFile) -> Result<(), OutputError> {
    ids.chunks(BLOCK).try_for_each(|block| file.put(|bytes| dtype.put(block, bytes)))
}

/// Appends documents as lines `{"ids":[...]}`, or `{"ids":[...],"mask":[...]}`.
pub(crate) fn put_json(run: Run<'_>, file: &mut StagedFile) -> Result<(), OutputError> {
    let mut masks = run.masks();
    for ids in run.documents() {
        let mut line = JsonLine::default();
        line.put(run.frame.bos.as_slice(), file)?;
        line.put(ids, file)?;
        match masks.next() {
            None => line.end(run.frame.eos, file)?,
            Some(mask) => line.end_with_mask(run.frame, mask, file)?,
        }
    }
    Ok(())
}

/// A line that is written part by part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonLine {
    has_ids: bool,
    has_begun: bool,
}

impl JsonLine {
    /// Appends ids to the line.
    pub(crate) fn put(&mut self, ids: &[u32], file: &mut StagedFile) -> Result<(), OutputError> {
        if !std::mem::replace(&mut self.has_begun, true) {
            file.put(|bytes| bytes.extend_from_slice(br#"{"ids":["#))?;
        }
        for block in ids.chunks(BLOCK) {
            file.put(|bytes| {
                for &id in block {
                    put_decimal(id, !std::mem::replace(&mut self.has_ids, true), bytes);
                }
            })?;
        }
        Ok(())
    }

    /// Ends the line with the mask of its ids.
    fn end_with_mask(mut self, frame: Frame, mask: &[u8], file: &mut StagedFile) -> Result<(), OutputError> {
        self.put(frame.eos.as_slice(), file)?;
        file.put(|bytes| bytes.extend_from_slice(br#"],"mask":["#))?;
        let (before, behind) = (&[0][..frame.bos.as_slice().len()], &[0][..frame.eos.as_slice().len()]);
        let mut separator: &[u8] = b"";
        for block in [before].into_iter().chain(mask.chunks(BLOCK)).chain([behind]) {
            file.put(|bytes| {
                for one in block {
                    bytes.extend_from_slice(separator);
                    bytes.push(b'0' + one);
                    separator = b",";
                }
            })?;
        }
        file.put(|bytes| bytes.extend_from_slice(b"]}\n"))
    }

    /// Ends the line; the next call begins another.
    pub(crate) fn end(&mut self, eos: Option<u32>, file: &mut StagedFile) -> Result<(), OutputError> {
        self.put(eos.as_slice(), file)?;
        *self = Self::default();
        file.put(|bytes| bytes.extend_from_slice(b"]}\n"))
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

#[cfg(test)]
mod tests {
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
}
