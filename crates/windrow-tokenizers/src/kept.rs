//! Values that are carried from the inputs to the output.

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
/// assert!(kept.values().eq([&b"\"a\""[..], b"17"]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The values, concatenated.
    pub bytes: Vec<u8>,
    /// The end of each value in `bytes`: for each document one for each field.
    pub ends: Vec<usize>,
}

impl Kept {
    /// Ends a value whose bytes were appended.
    pub fn end(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// The values of all fields of all documents.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.ends.iter().scan(0, |start, &end| Some(&self.bytes[std::mem::replace(start, end)..end]))
    }

    /// Appends the values from index `from` to index `to` of another.
    pub(crate) fn append(&mut self, other: &Self, from: usize, to: usize) {
        let start = other.start(from);
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[start..other.start(to)]);
        self.ends.extend(other.ends[from..to].iter().map(|end| base + end - start));
    }

    /// Removes the values from index `from` to index `to`.
    pub(crate) fn remove(&mut self, from: usize, to: usize) {
        let mut left = Self::default();
        left.append(self, 0, from);
        left.append(self, to, self.ends.len());
        *self = left;
    }

    /// Removes the values from index `from` on, and returns them.
    pub(crate) fn split_off(&mut self, from: usize) -> Self {
        let mut later = Self::default();
        later.append(self, from, self.ends.len());
        self.bytes.truncate(self.start(from));
        self.ends.truncate(from);
        later
    }

    /// The memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
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
    fn values_are_appended_and_removed_by_index() {
        let mut all = kept(&["a", "", "bcd", "e"]);
        assert!(all.values().eq([&b"a"[..], b"", b"bcd", b"e"]));
        all.append(&kept(&["x", "yz", ""]), 1, 3);
        assert_eq!(all, kept(&["a", "", "bcd", "e", "yz", ""]));
        all.remove(0, 3);
        assert_eq!(all, kept(&["e", "yz", ""]));
        all.remove(1, 3);
        assert_eq!(all, kept(&["e"]));
        all.remove(1, 1);
        assert_eq!(all, kept(&["e"]));
        let mut all = kept(&["a", "bc", "", "d"]);
        assert_eq!(all.split_off(2), kept(&["", "d"]));
        assert_eq!(all, kept(&["a", "bc"]));
        assert_eq!(all.split_off(2), kept(&[]));
        assert_eq!(all.split_off(0), kept(&["a", "bc"]));
    }
}
