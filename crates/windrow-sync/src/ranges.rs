//! Ranges: indices `0..n` divided among members, each index claimed by exactly one of them.
//!
//! # Protocol
//! Every member has one word `begin:32 | end:32`, the indices it has not claimed yet.
//! * *Claim.* The owner exchanges `begin:end` for `begin + k:end` and has `begin..begin + k`.
//! * *Steal.* A member whose word is empty looks for the fullest word and exchanges its `begin:end` for `begin:middle`. It
//!   holds `middle..end` now and puts it into its own word, by an exchange against the empty value it saw there; if that
//!   fails (the same member number is used by two threads, which is allowed) it claims all it holds.
//!
//! # Why it holds
//! An index is in one word, or held by one thread between the two exchanges of a steal, or claimed; each step is an exchange
//! of a whole word, and an exchange that succeeds takes what is in the word at that moment, whatever was in it meanwhile. For a
//! word that holds indices the value cannot even come back: `begin` would have to be unclaimed again. An empty value can (the
//! word was refilled and emptied); then it is empty, and what is put in loses nothing.
//!
//! `None` from `claim` means "nothing that this member could see", not "all is done": a thief may hold indices it has not
//! put down yet. It runs them itself.
//!
//! All accesses are Relaxed: a claim publishes nothing. What is behind the indices was written before the region opened and
//! is read by others after it closed (see [`gate`](crate::gate)).

use crate::Pad;
use crate::primitives::{AtomicBool, AtomicU64, Ordering};

/// Half-open range of indices.
pub type Run = std::ops::Range<u32>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Word(u64);

impl Word {
    fn new(run: &Run) -> Self {
        Word(u64::from(run.start) << 32 | u64::from(run.end))
    }
    fn run(self) -> Run {
        (self.0 >> 32) as u32..self.0 as u32
    }
}

/// See the [module page](self).
#[derive(Debug)]
pub struct Ranges {
    words: Box<[Pad<AtomicU64>]>,
    stopped: AtomicBool,
}

impl Ranges {
    /// `0..n`, divided evenly among `members`.
    ///
    /// # Panics
    /// If `members` is 0.
    pub fn new(n: u32, members: usize) -> Self {
        assert!(members > 0, "a range needs at least one member");
        let at = |i: usize| (u64::from(n) * i as u64 / members as u64) as u32;
        let words = (0..members).map(|i| Pad(AtomicU64::new(Word::new(&(at(i)..at(i + 1))).0))).collect();
        Self { words, stopped: AtomicBool::new(false) }
    }

    /// How many members it was made for.
    pub fn members(&self) -> usize {
        self.words.len()
    }

    /// Claims the next indices for `member` (any number; it wraps): from the front of its own word, or of what it steals.
    ///
    /// `want` gets what the word holds and says how many to take (at least 1 is taken, at most all); `cut` gets what is to be
    /// stolen from and says where the thief's part begins (it is brought to the inside). Both may be called several times.
    #[inline]
    pub fn claim(&self, member: usize, want: impl Fn(&Run) -> u32, cut: impl Fn(&Run) -> u32) -> Option<Run> {
        let own = &self.words[member % self.words.len()].0;
        // Relaxed: a late look costs one more claim (here), or is confirmed by an exchange (all others in this function).
        while !self.stopped.load(Ordering::Relaxed) {
            let mut seen = Word(own.load(Ordering::Relaxed));
            loop {
                let run = seen.run();
                if run.is_empty() {
                    break;
                }
                let middle = run.start + want(&run).clamp(1, run.end - run.start);
                let rest = Word::new(&(middle..run.end));
                // Relaxed: module page.
                match own.compare_exchange_weak(seen.0, rest.0, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(run.start..middle),
                    Err(now) => seen = Word(now),
                }
            }
            match self.steal(&cut) {
                Steal::Nothing => return None,
                Steal::Lost => {}
                Steal::Got(run) => {
                    // Relaxed: module page.
                    let put = own.compare_exchange(seen.0, Word::new(&run).0, Ordering::Relaxed, Ordering::Relaxed);
                    if put.is_err() {
                        return Some(run);
                    }
                }
            }
        }
        None
    }

    /// Takes the back part of the fullest word. (The thief's own word is empty, so it is not the fullest.)
    fn steal(&self, cut: impl Fn(&Run) -> u32) -> Steal {
        let mut fullest = (0, None);
        for word in &self.words {
            // Relaxed: confirmed by the exchange.
            let seen = Word(word.0.load(Ordering::Relaxed));
            let run = seen.run();
            let len = run.end.saturating_sub(run.start);
            if len > fullest.0 {
                fullest = (len, Some((&word.0, seen)));
            }
        }
        let Some((word, seen)) = fullest.1 else { return Steal::Nothing };
        let run = seen.run();
        // One index left: the thief gets it. Otherwise the owner keeps at least one.
        let middle = if fullest.0 == 1 { run.start } else { cut(&run).clamp(run.start + 1, run.end - 1) };
        let kept = Word::new(&(run.start..middle));
        // Relaxed: module page.
        match word.compare_exchange(seen.0, kept.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Steal::Got(middle..run.end),
            Err(_) => Steal::Lost,
        }
    }

    /// Indices nobody has claimed; a hint while members are at work.
    pub fn unclaimed(&self) -> usize {
        // Relaxed: a hint.
        self.words.iter().map(|word| Word(word.0.load(Ordering::Relaxed)).run().len()).sum()
    }

    /// From now on `claim` gives nothing. What is unclaimed stays in the words.
    pub fn stop(&self) {
        // Relaxed: a request; a member that sees it late makes one more claim.
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`stop`](Ranges::stop) has been called.
    pub fn is_stopped(&self) -> bool {
        // Relaxed: a hint.
        self.stopped.load(Ordering::Relaxed)
    }

    /// The indices never claimed, as runs. All members must be through: `&mut self` says so.
    pub fn drain(&mut self) -> impl Iterator<Item = Run> + '_ {
        self.words.iter_mut().filter_map(|word| {
            // Relaxed: exclusive access; a plain store in effect.
            let run = Word(word.0.swap(0, Ordering::Relaxed)).run();
            (!run.is_empty()).then_some(run)
        })
    }
}

enum Steal {
    Nothing,
    Lost,
    Got(Run),
}
