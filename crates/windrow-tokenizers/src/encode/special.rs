//! Counts special tokens among ids, and ids that the output adds.

use std::ops::RangeInclusive;

use crate::engine::Engine;

/// With more ranges, a search for each id is faster than a comparison with each range.
const RANGES: usize = 4;

/// The ids of special tokens.
#[derive(Debug, Default)]
pub(super) struct SpecialIds {
    /// Ranges in order, and as long as possible. The special tokens of most vocabularies have consecutive ids.
    ranges: Vec<RangeInclusive<u32>>,
    /// Number of special ids that the tokenizer itself adds to each document.
    around: u64,
    /// Number of ids that the output adds to each document.
    pub(super) framed: u64,
}

impl SpecialIds {
    /// The special ids `ids`, in any order. With `adds_ids`, the engine itself puts some around each document; the output adds `framed` ids.
    pub(super) fn new(ids: Vec<u32>, adds_ids: bool, framed: u64, engine: &dyn Engine) -> Self {
        let special = Self::of(ids);
        let mut empty = Vec::new();
        // An engine that cannot encode the empty text will refuse documents, too.
        let around = match adds_ids && engine.encoder().encode("", &mut empty).is_ok() {
            true => special.count(&empty),
            false => 0,
        };
        Self { around, framed, ..special }
    }

    fn of(mut ids: Vec<u32>) -> Self {
        ids.sort_unstable();
        let mut ranges: Vec<RangeInclusive<u32>> = Vec::new();
        for id in ids {
            match ranges.last_mut().filter(|last| id - *last.end() <= 1) {
                Some(last) => *last = *last.start()..=id,
                None => ranges.push(id..=id),
            }
        }
        Self { ranges, around: 0, framed: 0 }
    }

    /// The number of special tokens in the texts of this number of documents, whose ids are `ids`.
    pub(super) fn in_texts(&self, ids: &[u32], documents: usize) -> u64 {
        self.count(ids).saturating_sub(documents as u64 * self.around)
    }

    fn count(&self, ids: &[u32]) -> u64 {
        if self.ranges.len() <= RANGES {
            // A loop without branches for each range.
            let in_range = |range: &RangeInclusive<u32>| {
                let (low, width) = (*range.start(), range.end() - range.start());
                ids.iter().map(|id| u64::from(id.wrapping_sub(low) <= width)).sum::<u64>()
            };
            return self.ranges.iter().map(in_range).sum();
        }
        let is_special = |id: &&u32| {
            let index = self.ranges.partition_point(|range| range.end() < *id);
            self.ranges.get(index).is_some_and(|range| range.contains(*id))
        };
        ids.iter().filter(is_special).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn special_ids_are_counted_as_by_a_set(
            special in btree_set(prop_oneof![0..40_u32, u32::MAX - 3..=u32::MAX], 0..12),
            ids in vec(prop_oneof![0..48_u32, u32::MAX - 4..=u32::MAX], 0..100),
        ) {
            let counted = SpecialIds::of(special.iter().copied().rev().collect());
            let by_set = |special: &BTreeSet<u32>| ids.iter().filter(|id| special.contains(id)).count() as u64;
            prop_assert_eq!(counted.in_texts(&ids, 7), by_set(&special));
        }
    }
}
