//! Values that are carried from the inputs to the output.

use std::ops::Range;

/// Values of the kept fields of consecutive documents, as JSON.
///
/// ```
/// use windrow_tokenizers::output::Kept;
///
/// let mut kept = Kept::default();
/// for value in [&b"\"a\""[..], b"17"] {
///     kept.bytes.extend_from_slice(value);
///     kept.end();
/// }
/// assert!(kept.values().iter().eq([&b"\"a\""[..], b"17"]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The values, concatenated.
    pub bytes: Vec<u8>,
    /// The end of each value in `bytes`: for each document, one value per field.
    pub ends: Vec<usize>,
}

impl Kept {
    /// Ends a value whose bytes were appended.
    pub fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// All values.
    pub fn values(&self) -> KeptValues<'_> {
        self.slice(0..self.ends.len())
    }

    /// The values with these indices.
    pub fn slice(&self, range: Range<usize>) -> KeptValues<'_> {
        let start = range.start.checked_sub(1).map_or(0, |before| self.ends[before]);
        KeptValues { bytes: &self.bytes, ends: &self.ends[range], start }
    }

    /// Appends values.
    pub(crate) fn append(&mut self, values: KeptValues<'_>) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(values.bytes());
        self.ends.extend(values.ends().map(|end| base + end));
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// Some of the values of [`Kept`]. A [`Document`](crate::output::Document) has one for each field.
///
/// ```
/// use windrow_tokenizers::output::Kept;
///
/// let kept = Kept { bytes: b"12null".to_vec(), ends: vec![2, 6] };
/// assert!(kept.slice(1..2).iter().eq([b"null"]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct KeptValues<'a> {
    bytes: &'a [u8],
    /// The end of each value in `bytes`, and the start of the first.
    ends: &'a [usize],
    start: usize,
}

impl<'a> KeptValues<'a> {
    /// The values, one by one.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let Self { bytes, ends, mut start } = self;
        ends.iter().map(move |&end| &bytes[std::mem::replace(&mut start, end)..end])
    }

    /// The number of values.
    pub(crate) fn len(self) -> usize {
        self.ends.len()
    }

    /// The values, concatenated.
    pub(crate) fn bytes(self) -> &'a [u8] {
        &self.bytes[self.start..self.ends.last().copied().unwrap_or(self.start)]
    }

    /// The end of each value in the concatenation.
    pub(crate) fn ends(self) -> impl Iterator<Item = usize> {
        self.ends.iter().map(move |end| end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(values: &[&str]) -> Kept {
        let mut kept = Kept::default();
        for value in values {
            kept.bytes.extend_from_slice(value.as_bytes());
            kept.end();
        }
        kept
    }

    #[test]
    fn values_are_appended_by_index() {
        let mut all = kept(&["a", "", "bcd", "e"]);
        assert!(all.values().iter().eq([&b"a"[..], b"", b"bcd", b"e"]));
        assert!(all.slice(2..3).iter().eq([b"bcd"]));
        assert_eq!((all.slice(2..2).bytes(), all.slice(2..4).bytes()), (&b""[..], &b"bcde"[..]));
        all.append(kept(&["x", "yz", ""]).slice(1..3));
        assert_eq!(all, kept(&["a", "", "bcd", "e", "yz", ""]));
    }
}
