//! Changes inputs at random, for short runs without a fuzzer.

/// A source of changed inputs. Equal seeds give equal inputs.
#[derive(Debug)]
pub struct Mutator(u64);

impl Mutator {
    /// A source with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    /// An input of the corpus with one to four changes.
    pub fn changed(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            let rest = input.len() - at;
            let length = self.below(rest.min(16) + 1);
            match self.below(6) {
                0 if rest > 0 => input[at] ^= 1 << self.below(8),
                1 if rest > 0 => input[at] = [0, 0xff, 0x7f, 0x80, b'"', b'\n'][self.below(6)],
                2 => drop(input.drain(at..at + length)),
                3 => input.truncate(at),
                4 => {
                    let copy = input[at..at + length].to_vec();
                    input.splice(at..at, copy);
                }
                _ => {
                    let other = &corpus[self.below(corpus.len())];
                    let from = self.below(other.len() + 1);
                    let to = from + self.below((other.len() - from).min(64) + 1);
                    input.splice(at..at, other[from..to].iter().copied());
                }
            }
        }
        input
    }
}
