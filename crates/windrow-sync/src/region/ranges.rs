#![doc = include_str!("ranges.md")]

use std::cell::Cell;

use crate::base::pad::Pad;
use crate::base::primitives::{AtomicBool, AtomicU64, KEEPS_SPARES, Ordering};
use crate::base::relaxed::RelaxedU64;

/// Half-open range of indices.
pub type Run = std::ops::Range<u32>;

#[derive(Clone, Copy, PartialEq, Eq)]
struct RangeWord(u64);

impl RangeWord {
    fn new(run: &Run) -> Self {
        RangeWord(u64::from(run.start) << 32 | u64::from(run.end))
    }
    fn run(self) -> Run {
        (self.0 >> 32) as u32..self.0 as u32
    }
}

/// Counts and times of a member; read by the caller after the region. Only speed depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Ticks it spent in its chunks.
    pub busy: u64,
    /// Weight of its chunks.
    pub weight: u64,
    /// Claims it made, stolen ones included.
    pub claims: u64,
    /// Its longest chunk, in ticks, and the index of that chunk's first item.
    pub longest: u64,
    /// See `longest`.
    pub longest_at: u64,
}

/// A member's word, with its report on the same cache line.
#[derive(Debug, Default)]
struct MemberRange {
    word: AtomicU64,
    report: [RelaxedU64; 5],
}

thread_local! {
    /// One allocation for this thread's next region.
    static SPARE: Cell<Option<Ranges>> = const { Cell::new(None) };
}

/// See the [module page](self).
///
/// ```
/// use windrow_sync::ranges::Ranges;
///
/// let mut ranges = Ranges::new(2);
/// ranges.fill(10, 2, 0, |part| part as u32 * 5);
/// let claim = |member| ranges.claim(member, |_| 5, |run| run.start.midpoint(run.end));
/// assert_eq!((claim(0), claim(0)), (Some(0..5), Some(7..10))); // the second one is stolen
/// assert_eq!((claim(1), claim(1)), (Some(5..7), None));
/// assert_eq!(ranges.drain().count(), 0);
/// ```
#[derive(Debug)]
pub struct Ranges {
    members: Box<[Pad<MemberRange>]>,
    /// The number of them in use.
    used: usize,
    stopped: AtomicBool,
}

impl Ranges {
    /// Empty ranges for up to `members` members. One allocation of 128 bytes a member.
    ///
    /// # Panics
    /// If `members` is 0.
    pub fn new(members: usize) -> Self {
        assert!(members > 0, "a range needs at least one member");
        Self { used: members, members: (0..members).map(|_| Pad::default()).collect(), stopped: AtomicBool::new(false) }
    }

    /// Ranges for at least `members` members: those that this thread has [kept](Ranges::keep), if they are enough.
    pub(super) fn spare(members: usize) -> Self {
        let kept = SPARE.try_with(Cell::take).ok().flatten();
        kept.filter(|ranges| ranges.members.len() >= members).unwrap_or_else(|| Ranges::new(members))
    }

    /// Keeps these ranges for this thread's next region.
    pub(super) fn keep(self) {
        if KEEPS_SPARES {
            // While the thread ends, there is no next region.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }

    /// Divides `0..n` into `parts` parts. `cut(i)` returns where part `i` begins (in order; part 0 always begins at 0).
    /// Member 0 gets part `first`, member 1 the next one, and so on around.
    ///
    /// # Panics
    /// If `parts` is 0 or more than the members that the ranges were made for.
    pub fn fill(&mut self, n: u32, parts: usize, first: usize, cut: impl Fn(usize) -> u32) {
        assert!(
            (1..=self.members.len()).contains(&parts),
            "a range for {} members cannot have {parts} parts",
            self.members.len()
        );
        self.used = parts;
        // Relaxed: exclusive access, here and below; plain stores in effect.
        self.stopped.store(false, Ordering::Relaxed);
        let mut begin = 0;
        for part in 0..parts {
            let end = if part + 1 == parts { n } else { cut(part + 1).clamp(begin, n) };
            let member = &self.members[(part + parts - first % parts) % parts].0;
            member.word.store(RangeWord::new(&(begin..end)).0, Ordering::Relaxed);
            member.report.iter().for_each(|hint| hint.set(0));
            begin = end;
        }
    }

    fn used(&self) -> &[Pad<MemberRange>] {
        &self.members[..self.used]
    }

    /// Adds to what `member` reports.
    pub fn report(&self, member: usize, report: Report) {
        let hints = &self.used()[member % self.used].0.report;
        let Report { busy, weight, claims, longest, longest_at } = report;
        for (hint, more) in hints.iter().zip([busy, weight, claims]) {
            hint.add(more);
        }
        if longest > hints[3].get() {
            hints[3].set(longest);
            hints[4].set(longest_at);
        }
    }

    /// The reports of the members so far.
    pub fn reports(&self) -> impl Iterator<Item = Report> + '_ {
        self.used().iter().map(|member| {
            let [busy, weight, claims, longest, longest_at] = member.0.report.each_ref().map(RelaxedU64::get);
            Report { busy, weight, claims, longest, longest_at }
        })
    }

    /// Claims the next indices for `member` (any number; it wraps): from the front of the member's word, or of what the member steals.
    ///
    /// `want` gets what the word holds and returns how many to take (clamped to 1 and all). `cut` gets the range to be stolen
    /// from and returns where the thief's part begins (clamped to the inside). Both may be called several times.
    #[inline]
    pub fn claim(&self, member: usize, want: impl Fn(&Run) -> u32, cut: impl Fn(&Run) -> u32) -> Option<Run> {
        let own = &self.used()[member % self.used].0.word;
        // Relaxed: a late stop costs one more claim; all other loads in this function are validated by a compare-exchange.
        while !self.stopped.load(Ordering::Relaxed) {
            let mut seen = RangeWord(own.load(Ordering::Relaxed));
            loop {
                let run = seen.run();
                if run.is_empty() {
                    break;
                }
                let middle = run.start + want(&run).clamp(1, run.end - run.start);
                let rest = RangeWord::new(&(middle..run.end));
                // Relaxed: module page.
                match own.compare_exchange_weak(seen.0, rest.0, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(run.start..middle),
                    Err(now) => seen = RangeWord(now),
                }
            }
            // The salt: the last value of the own word differs between members, and changes over time.
            match self.steal(seen.0.wrapping_add(member as u64), &cut) {
                Steal::Nothing => return None,
                Steal::Lost => {}
                Steal::Got(run) => {
                    // Relaxed: module page.
                    let put =
                        own.compare_exchange(seen.0, RangeWord::new(&run).0, Ordering::Relaxed, Ordering::Relaxed);
                    if put.is_err() {
                        return Some(run);
                    }
                }
            }
        }
        None
    }

    /// The range in the word of `member`. It may be outdated at once.
    pub fn at_hand(&self, member: usize) -> Run {
        // Relaxed: a snapshot.
        RangeWord(self.used()[member % self.used].0.word.load(Ordering::Relaxed)).run()
    }

    /// Takes the back part of a word of another member; `salt` selects the first word to inspect.
    fn steal(&self, salt: u64, cut: impl Fn(&Run) -> u32) -> Steal {
        const WINDOW: usize = 4;
        let words = self.used();
        // The upper bits of a product are mixed best (Knuth).
        let start = (salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % words.len();
        let mut fullest = (0, None);
        for (looked, member) in words[start..].iter().chain(&words[..start]).enumerate() {
            if looked >= WINDOW && fullest.0 > 0 {
                break;
            }
            let word = &member.0.word;
            // Relaxed: validated by the compare-exchange.
            let seen = RangeWord(word.load(Ordering::Relaxed));
            let run = seen.run();
            let len = run.end.saturating_sub(run.start);
            if len > fullest.0 {
                fullest = (len, Some((word, seen)));
            }
        }
        let Some((word, seen)) = fullest.1 else { return Steal::Nothing };
        let run = seen.run();
        // One index left: the thief gets it. Otherwise the owner keeps at least one.
        let middle = if fullest.0 == 1 { run.start } else { cut(&run).clamp(run.start + 1, run.end - 1) };
        let kept = RangeWord::new(&(run.start..middle));
        // Relaxed: module page.
        match word.compare_exchange(seen.0, kept.0, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Steal::Got(middle..run.end),
            Err(_) => Steal::Lost,
        }
    }

    /// From now on `claim` returns `None`. What is unclaimed stays in the words.
    pub fn stop(&self) {
        // Relaxed: a request; a member that sees it late makes one more claim.
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// True after [`stop`](Ranges::stop).
    pub fn is_stopped(&self) -> bool {
        // Relaxed: a snapshot.
        self.stopped.load(Ordering::Relaxed)
    }

    /// The indices never claimed, as ranges. `&mut self` proves that all members have finished.
    pub fn drain(&mut self) -> impl Iterator<Item = Run> + '_ {
        self.members[..self.used].iter_mut().filter_map(|member| {
            // Relaxed: exclusive access; a plain store in effect.
            let run = RangeWord(member.0.word.swap(0, Ordering::Relaxed)).run();
            (!run.is_empty()).then_some(run)
        })
    }
}

enum Steal {
    Nothing,
    Lost,
    Got(Run),
}
