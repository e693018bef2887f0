//! Cache lines: which CPUs have them, and what fetching them costs.

use super::{Machine, Time, time};

/// Maximum number of CPUs.
pub(super) const MOST: usize = 1024;

/// A set of CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cpus([u64; MOST / 64]);

impl Cpus {
    const NONE: Cpus = Cpus([0; MOST / 64]);

    fn has(&self, cpu: usize) -> bool {
        self.0[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    fn add(&mut self, cpu: usize) {
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &bits)| {
            let mut bits = bits;
            std::iter::from_fn(move || {
                let low = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (low < 64).then_some(at * 64 + low)
            })
        })
    }
}

/// One line that holds one word.
struct Line {
    value: u64,
    /// The CPU that wrote it last, and so has it.
    writer: usize,
    /// Whether other CPUs have loaded it since: those in `readers`.
    shared: bool,
    readers: Cpus,
    /// When the compare-exchanges issued so far are done.
    free: Time,
}

/// Cache lines and the costs of accesses.
pub(super) struct Lines {
    lines: Vec<Line>,
    group: usize,
    hit: Time,
    exchange: Time,
    near: Time,
    far: Time,
    /// Lines fetched from another CPU or invalidated on others.
    pub(super) transfers: u64,
}

/// The value an access saw, and when its CPU can continue.
pub(super) struct LineState {
    pub(super) value: u64,
    pub(super) done: Time,
    /// Whether the line was in the CPU's own cache.
    pub(super) hit: bool,
}

impl Lines {
    /// Lines with these values, all last written by CPU 0.
    pub(super) fn new(machine: &Machine, values: impl Iterator<Item = u64>) -> Self {
        let line = |value| Line { value, writer: 0, shared: false, readers: Cpus::NONE, free: 0 };
        Lines {
            lines: values.map(line).collect(),
            group: machine.group.max(1),
            hit: time(machine.hit),
            exchange: time(machine.exchange),
            near: time(machine.near),
            far: time(machine.far),
            transfers: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    fn way(&self, from: usize, to: usize) -> Time {
        if from / self.group == to / self.group { self.near } else { self.far }
    }

    /// `cpu` loads the word.
    pub(super) fn load(&mut self, line: usize, cpu: usize, now: Time) -> LineState {
        let it = &self.lines[line];
        if it.writer == cpu || it.shared && it.readers.has(cpu) {
            return LineState { value: it.value, done: now + self.hit, hit: true };
        }
        let way = self.way(it.writer, cpu);
        let it = &mut self.lines[line];
        if !it.shared {
            (it.shared, it.readers) = (true, Cpus::NONE);
        }
        it.readers.add(cpu);
        self.transfers += 1;
        LineState { value: it.value, done: now.max(it.free) + way, hit: false }
    }

    /// `cpu` gets the line exclusively and stores `next(word)`, if that is `Some`. Returns the previous value.
    pub(super) fn update(
        &mut self,
        line: usize,
        cpu: usize,
        now: Time,
        next: impl Fn(u64) -> Option<u64>,
    ) -> LineState {
        let it = &self.lines[line];
        let alone = it.writer == cpu && !it.shared;
        let way = if alone {
            0
        } else {
            let readers = it.readers.iter().filter(|_| it.shared);
            readers
                .chain([it.writer])
                .filter(|&other| other != cpu)
                .map(|other| self.way(other, cpu))
                .max()
                .unwrap_or(0)
        };
        let it = &mut self.lines[line];
        let value = it.value;
        it.value = next(value).unwrap_or(value);
        (it.writer, it.shared) = (cpu, false);
        it.free = if alone { now } else { now.max(it.free) } + way + self.exchange;
        self.transfers += u64::from(!alone);
        LineState { value, done: it.free, hit: alone }
    }

    /// A compare-exchange; it succeeded if the value seen is `old`.
    pub(super) fn exchange(&mut self, line: usize, cpu: usize, now: Time, old: u64, new: u64) -> LineState {
        self.update(line, cpu, now, |value| (value == old).then_some(new))
    }
}

#[cfg(test)]
mod tests {
    use windrow_plan::Nanos;

    use super::*;

    fn lines() -> Lines {
        let machine = Machine { near: Nanos(50.0), far: Nanos(200.0), group: 2, ..Machine::MEASURED };
        Lines::new(&machine, [7, 0].into_iter())
    }

    #[test]
    fn a_line_is_fetched_once_until_it_is_written() {
        let mut lines = lines();
        let first = lines.load(0, 1, 1000);
        assert_eq!((first.value, first.done, first.hit), (7, 51_000, false));
        assert_eq!(lines.load(0, 1, 60_000).done, 61_000);
        // Invalidating the one reader's copy costs one transfer; without readers only the compare-exchange is left.
        assert_eq!(lines.exchange(0, 0, 70_000, 7, 8).done, 70_000 + 50_000 + 10_300);
        assert_eq!(lines.exchange(0, 0, 200_000, 8, 9).done, 210_300);
        assert_eq!(lines.load(0, 1, 300_000).value, 9);
        assert_eq!(lines.transfers, 3);
    }

    #[test]
    fn other_groups_are_far() {
        let mut lines = lines();
        assert_eq!(lines.load(0, 2, 0).done, 200_000);
        // One of the two CPUs that have it is far.
        assert_eq!(lines.exchange(0, 1, 0, 7, 8).done, 210_300);
        assert_eq!(lines.exchange(0, 0, 1_000_000, 8, 8).done, 1_060_300);
    }

    #[test]
    fn exchanges_on_one_line_wait_for_each_other_and_failed_ones_take_it_too() {
        let mut lines = lines();
        assert_eq!(lines.exchange(0, 1, 0, 7, 8).done, 60_300);
        let late = lines.exchange(0, 0, 0, 7, 9);
        assert_eq!((late.value, late.done), (8, 120_600));
        assert!(lines.load(0, 0, 130_000).hit);
        assert!(!lines.load(0, 1, 130_000).hit);
        // Each line has a separate queue.
        assert_eq!(lines.exchange(1, 1, 0, 0, 1).done, 60_300);
    }

    #[test]
    fn sets_hold_what_was_added() {
        let mut cpus = Cpus::NONE;
        for cpu in [0, 63, 64, 1023] {
            cpus.add(cpu);
        }
        assert_eq!(cpus.iter().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        assert!(cpus.has(64) && !cpus.has(65));
    }
}
