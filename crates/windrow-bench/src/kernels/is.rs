//! is: ranks of integers by counting, ten times. A loop of one item a thread, then loops over the counts.

use super::{Class, Form, Loops, Random};

const ROUNDS: usize = 10;
/// Keys whose ranks are checked in every round.
const PROBES: usize = 5;

#[derive(Debug)]
pub(super) struct Is {
    class: Class,
    keys: Vec<u32>,
    /// The first keys as they are before a run, which overwrites two in each round.
    first: Vec<u32>,
    /// Counts of keys, one histogram a thread.
    counts: Vec<Vec<u32>>,
    /// The number of keys up to each key.
    ranks: Vec<u32>,
    /// The first mismatch.
    fault: Option<String>,
}

impl Is {
    pub(super) fn new(class: Class) -> Self {
        let (keys, most) = match class {
            Class::S => (1 << 16, 1 << 11),
            Class::W => (1 << 20, 1 << 16),
        };
        let mut random = Random(Random::SEED);
        let mut key = || f64::from(most / 4) * (random.next() + random.next() + random.next() + random.next());
        let keys: Vec<u32> = (0..keys).map(|_| key() as u32).collect();
        let first = keys[..=2 * ROUNDS].to_vec();
        Self { class, keys, first, counts: Vec::new(), ranks: vec![0; most as usize], fault: Some("no run".to_owned()) }
    }

    fn rank<F: Form>(&mut self) {
        let share = self.keys.len().div_ceil(self.counts.len());
        F::each(&mut self.counts, |part, counts| {
            counts.fill(0);
            self.keys.chunks(share).nth(part).unwrap_or(&[]).iter().for_each(|&key| counts[key as usize] += 1);
        });
        self.ranks.fill(0);
        for counts in &self.counts {
            F::zip(&mut self.ranks, counts, |sum, count| *sum += count);
        }
        let mut below = 0;
        self.ranks.iter_mut().for_each(|rank| {
            below += *rank;
            *rank = below;
        });
    }

    /// The places of the probes, the ranks of their keys, and the change of these ranks in `round`.
    fn specified(&self, round: i64) -> [(usize, i64); PROBES] {
        let (places, ranks, changes) = match self.class {
            Class::S => {
                ([48427, 17148, 23627, 62548, 4431], [0, 18, 346, 64917, 65463], [round, round, round, -round, -round])
            }
            Class::W => (
                [357773, 934767, 875723, 898999, 404505],
                [1249, 11698, 1039987, 1043896, 1048018],
                [round - 2, round - 2, -round, -round, -round],
            ),
        };
        [0, 1, 2, 3, 4].map(|probe| (places[probe], ranks[probe] + changes[probe]))
    }
}

impl Loops for Is {
    fn run<F: Form>(&mut self) {
        let most = self.ranks.len();
        self.fault = None;
        self.keys[..=2 * ROUNDS].copy_from_slice(&self.first);
        self.counts.resize(F::threads(), vec![0; most]);
        for round in 1..=ROUNDS {
            self.keys[round] = round as u32;
            self.keys[round + ROUNDS] = (most - round) as u32;
            self.rank::<F>();
            for (place, specified) in self.specified(round as i64) {
                let rank = self.keys[place].checked_sub(1).map_or(0, |key| self.ranks[key as usize]);
                if i64::from(rank) != specified && self.fault.is_none() {
                    self.fault = Some(format!("round {round}: key {place} has rank {rank}, specified {specified}"));
                }
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        // All keys at their ranks are in order.
        let mut sorted = vec![u32::MAX; self.keys.len()];
        let mut ends = self.ranks.clone();
        for &key in &self.keys {
            ends[key as usize] -= 1;
            sorted[ends[key as usize] as usize] = key;
        }
        if sorted.is_sorted() { Ok(()) } else { Err("the ranks do not sort the keys".to_owned()) }
    }
}
