//! Statistics of a data set.

use std::collections::BTreeMap;

/// Ids below this limit are counted in an array, larger ones in a map: no vocabulary has such ids, but a damaged manifest may allow them.
const IN_ARRAY: u32 = 1 << 24;

/// Counts of documents and ids.
///
/// ```
/// use windrow_tokenizers::dataset::Dataset;
/// # use windrow_tokenizers::manifest::{Documents, Manifest};
/// # use windrow_tokenizers::output::{Output, OutputOptions};
/// # let directory = tempfile::tempdir()?;
/// # let prefix = directory.path().join("corpus");
/// # let mut output = Output::create(&OutputOptions::new(&prefix, 300))?;
/// # output.append(&[7, 8, 7], &[0, 3])?;
/// # let documents = Documents { read: 2, written: 2, ..Documents::default() };
/// # output.publish(Manifest { documents, ..Manifest::default() })?;
///
/// // The data set has two documents: [] and [7, 8, 7].
/// let statistics = Dataset::open(&prefix)?.statistics()?;
/// assert_eq!((statistics.documents, statistics.tokens, statistics.longest), (2, 3, 3));
/// assert_eq!(statistics.lengths, [1, 0, 1]);
/// assert_eq!(statistics.most_frequent(1), [(7, 2)]);
/// assert_eq!(statistics.different(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of documents. In nanogpt each end-of-text id ends one.
    pub documents: u64,
    /// Number of ids, including the ids that end documents.
    pub tokens: u64,
    /// Number of ids of the longest document.
    pub longest: u64,
    /// Number of documents by length: with 0 ids, 1, 2 to 3, 4 to 7 and so on.
    pub lengths: Vec<u64>,
    /// Frequency of each id below [`IN_ARRAY`].
    frequencies: Vec<u64>,
    /// Frequency of each of the other ids.
    rare: BTreeMap<u32, u64>,
}

impl Statistics {
    pub(super) fn add(&mut self, ids: &[u32]) {
        self.documents += 1;
        self.tokens += ids.len() as u64;
        self.longest = self.longest.max(ids.len() as u64);
        let class = ids.len().checked_ilog2().map_or(0, |power| power as usize + 1);
        grow(&mut self.lengths, class + 1);
        self.lengths[class] += 1;
        for &id in ids {
            if id < IN_ARRAY {
                grow(&mut self.frequencies, id as usize + 1);
                self.frequencies[id as usize] += 1;
            } else {
                *self.rare.entry(id).or_default() += 1;
            }
        }
    }

    pub(super) fn with(mut self, other: Self) -> Self {
        self.documents += other.documents;
        self.tokens += other.tokens;
        self.longest = self.longest.max(other.longest);
        for (mine, others) in [(&mut self.lengths, other.lengths), (&mut self.frequencies, other.frequencies)] {
            grow(mine, others.len());
            mine.iter_mut().zip(others).for_each(|(mine, others)| *mine += others);
        }
        other.rare.into_iter().for_each(|(id, count)| *self.rare.entry(id).or_default() += count);
        self
    }

    /// The `most` frequent ids with their counts, in order of frequency; among equals the smallest id first.
    pub fn most_frequent(&self, most: usize) -> Vec<(u32, u64)> {
        let mut ids: Vec<(u32, u64)> =
            (0..).zip(self.frequencies.iter().copied()).filter(|(_, count)| *count > 0).collect();
        ids.extend(self.rare.iter().map(|(&id, &count)| (id, count)));
        ids.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        ids.truncate(most);
        ids
    }

    /// Number of different ids.
    pub fn different(&self) -> u64 {
        (self.frequencies.iter().filter(|&&count| count > 0).count() + self.rare.len()) as u64
    }
}

fn grow(counts: &mut Vec<u64>, length: usize) {
    if counts.len() < length {
        counts.resize(length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_any_size_needs_little_memory() {
        let mut one = Statistics::default();
        one.add(&[3, u32::MAX, IN_ARRAY, 3]);
        let mut other = Statistics::default();
        other.add(&[IN_ARRAY]);
        let both = one.with(other);
        assert_eq!(both.most_frequent(3), [(3, 2), (IN_ARRAY, 2), (u32::MAX, 1)]);
        assert_eq!((both.different(), both.tokens, both.documents), (3, 5, 2));
    }
}
