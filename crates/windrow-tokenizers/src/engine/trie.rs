//! Strings of bytes with numbers, in a double array (Aoe, 1989): a step from a node to its child reads one word.

use std::collections::VecDeque;

/// A trie. The node at slot `at` has its child for `byte` at slot `base ^ byte`, if that slot is the one of this byte: no two nodes have one base.
pub(crate) struct Trie(Vec<Slot>);

/// A node: its base above, then whether the slot is used, the byte before the node, and the number of the string that ends there.
#[derive(Clone, Copy, Default)]
struct Slot(u64);

/// Bits of a number.
const VALUE_BITS: u32 = 23;
const NO_VALUE: u32 = (1 << VALUE_BITS) - 1;
const USED: u64 = 1 << 31;

/// The base of a node without children: no slot is so far.
const LEAF: u32 = u32::MAX - 255;

/// The slot of the root.
const ROOT: u32 = 0;

impl Slot {
    fn new(label: u8) -> Self {
        Self(u64::from(LEAF) << 32 | USED | u64::from(label) << VALUE_BITS | u64::from(NO_VALUE))
    }

    fn base(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn set_base(&mut self, base: u32) {
        self.0 = self.0 & u64::from(u32::MAX) | u64::from(base) << 32;
    }

    fn set_value(&mut self, value: u32) {
        self.0 = self.0 & !u64::from(NO_VALUE) | u64::from(value);
    }

    fn is_of(self, label: u8) -> bool {
        self.0 as u32 >> VALUE_BITS == (USED >> VALUE_BITS) as u32 | u32::from(label)
    }

    fn value(self) -> Option<u32> {
        Some(self.0 as u32 & NO_VALUE).filter(|&value| value != NO_VALUE)
    }
}

impl Trie {
    /// Of equal strings, the last one counts. `None` if they are too long for the table, or a number is too large.
    pub(crate) fn new<'a>(strings: impl Iterator<Item = (&'a [u8], u32)>) -> Option<Self> {
        let mut strings: Vec<(&[u8], u32)> = strings.collect();
        strings.sort_by_key(|&(string, _)| string);
        let bytes: usize = strings.iter().map(|(string, _)| string.len()).sum();
        if bytes >= LEAF as usize / 8 || strings.iter().any(|&(_, value)| value >= NO_VALUE) {
            return None;
        }
        let mut slots = Slots::default();
        slots.take(ROOT, Slot::new(0));
        // With this base, the root would be a child.
        slots.use_base(ROOT);
        // Of each node, its slot, the strings that pass through it, and its depth.
        let mut waiting = VecDeque::from([(ROOT, &strings[..], 0)]);
        let mut labels = Vec::new();
        while let Some((node, strings, depth)) = waiting.pop_front() {
            let ending = strings.partition_point(|(string, _)| string.len() == depth);
            if let Some(&(_, value)) = strings[..ending].last() {
                slots.all[node as usize].set_value(value);
            }
            let strings = &strings[ending..];
            let children = || strings.chunk_by(|(one, _), (other, _)| one[depth] == other[depth]);
            labels.clear();
            labels.extend(children().map(|strings| strings[0].0[depth]));
            if labels.is_empty() {
                continue;
            }
            let base = slots.base(&labels);
            slots.all[node as usize].set_base(base);
            for (&label, strings) in labels.iter().zip(children()) {
                let child = base ^ u32::from(label);
                slots.take(child, Slot::new(label));
                waiting.push_back((child, strings, depth + 1));
            }
        }
        Some(Self(slots.all))
    }

    #[inline]
    fn child(&self, node: Slot, byte: u8) -> Option<Slot> {
        let at = node.base() ^ u32::from(byte);
        self.0.get(at as usize).copied().filter(|slot| slot.is_of(byte))
    }

    /// The strings with which `bytes` begins, in the order of their lengths, with their numbers.
    #[inline]
    pub(crate) fn prefixes(&self, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = self.0[ROOT as usize];
        for (at, &byte) in bytes.iter().enumerate() {
            let Some(child) = self.child(node, byte) else { return };
            node = child;
            if let Some(value) = node.value() {
                found(at + 1, value);
            }
        }
    }

    /// The number of a string.
    pub(crate) fn find(&self, string: &[u8]) -> Option<u32> {
        string.iter().try_fold(self.0[ROOT as usize], |node, &byte| self.child(node, byte))?.value()
    }
}

/// Slots in blocks of 256, so that all children of a node are in one block.
#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    /// A bit for each slot that is free.
    free: Vec<u64>,
    /// A bit for each base that a node has.
    bases: Vec<u64>,
}

/// Words of bits of a block.
const BLOCK: usize = 4;

/// Blocks that are searched for a base. Those before have few free slots, and each search would pass them again.
const SEARCHED: usize = 4;

impl Slots {
    fn take(&mut self, at: u32, slot: Slot) {
        while self.all.len() <= at as usize {
            self.add_block();
        }
        self.all[at as usize] = slot;
        self.free[at as usize / 64] &= !(1 << (at % 64));
    }

    fn add_block(&mut self) {
        self.free.resize(self.free.len() + BLOCK, u64::MAX);
        self.bases.resize(self.free.len(), 0);
        self.all.resize(self.free.len() * 64, Slot::default());
    }

    fn use_base(&mut self, base: u32) {
        self.bases[base as usize / 64] |= 1 << (base % 64);
    }

    /// A base that no node has, at which the slots of all these bytes are free.
    fn base(&mut self, labels: &[u8]) -> u32 {
        let has = |bits: &[u64], at: u32| bits[at as usize / 64] >> (at % 64) & 1 == 1;
        let first = self.free.len().saturating_sub(SEARCHED * BLOCK);
        for word in first.. {
            if word == self.free.len() {
                self.add_block();
            }
            let mut free = self.free[word];
            while free != 0 {
                let base = (word as u32 * 64 + free.trailing_zeros()) ^ u32::from(labels[0]);
                let others = &labels[1..];
                if !has(&self.bases, base) && others.iter().all(|&label| has(&self.free, base ^ u32::from(label))) {
                    self.use_base(base);
                    return base;
                }
                free &= free - 1;
            }
        }
        unreachable!("there is always another word")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(windrow_testkit::cases(200)))]

        #[test]
        fn strings_are_found(
            strings in proptest::collection::vec(proptest::collection::vec(prop_oneof![4 => 0..4_u8, 1 => any::<u8>()], 0..6), 0..400),
            others in proptest::collection::vec(proptest::collection::vec(prop_oneof![4 => 0..4_u8, 1 => any::<u8>()], 0..8), 0..50),
        ) {
            let numbered = || strings.iter().map(|string| &string[..]).zip(0..);
            let trie = Trie::new(numbered()).unwrap();
            let expected: BTreeMap<&[u8], u32> = numbered().collect();
            for string in strings.iter().chain(&others) {
                prop_assert_eq!(trie.find(string), expected.get(&string[..]).copied());
                let mut found = Vec::new();
                trie.prefixes(string, |len, value| found.push((len, value)));
                let prefixes = (1..=string.len()).filter_map(|len| Some((len, *expected.get(&string[..len])?)));
                prop_assert_eq!(found, prefixes.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn numbers_have_a_limit() {
        assert!(Trie::new([(&b"a"[..], NO_VALUE)].into_iter()).is_none());
        let trie = Trie::new([(&b""[..], 3), (b"a", NO_VALUE - 1)].into_iter()).unwrap();
        assert_eq!((trie.find(b""), trie.find(b"a"), trie.find(b"b")), (Some(3), Some(NO_VALUE - 1), None));
    }
}
