//! What is in a data set.

/// Counts of documents and ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of documents. Those of nanogpt end with each end-of-text id.
    pub documents: u64,
    /// Number of ids, those at the end of documents included.
    pub tokens: u64,
    /// Ids of the longest document.
    pub longest: u64,
    /// How many documents have so many ids: 0, 1, 2 to 3, 4 to 7 and so on.
    pub lengths: Vec<u64>,
    /// How often each id occurs.
    frequencies: Vec<u64>,
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
            grow(&mut self.frequencies, id as usize + 1);
            self.frequencies[id as usize] += 1;
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
        self
    }

    /// The `most` frequent ids with their counts, the most frequent first, of equal ones the smallest.
    pub fn most_frequent(&self, most: usize) -> Vec<(u32, u64)> {
        let mut ids: Vec<(u32, u64)> =
            (0..).zip(self.frequencies.iter().copied()).filter(|(_, count)| *count > 0).collect();
        ids.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        ids.truncate(most);
        ids
    }

    /// Number of different ids.
    pub fn different(&self) -> u64 {
        self.frequencies.iter().filter(|&&count| count > 0).count() as u64
    }
}

fn grow(counts: &mut Vec<u64>, length: usize) {
    if counts.len() < length {
        counts.resize(length, 0);
    }
}
