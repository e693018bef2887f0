//! Two parties that wait for each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A count on a separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU32);

/// A repeated meeting of two parties. Each writes its line and reads the other's.
#[derive(Debug, Default)]
pub struct Meeting {
    lines: [Line; 2],
    missed: AtomicU64,
}

/// The longest wait: a runtime that runs one part after the other cannot make them meet.
const PATIENCE: Duration = Duration::from_millis(10);

impl Meeting {
    /// Waits for the other party. The parties have the numbers 0 and 1.
    pub fn meet(&self, who: usize) {
        let (mine, other) = (&self.lines[who].0, &self.lines[1 - who].0);
        // Relaxed: only this party writes this line, and its next part comes after this one.
        let turn = mine.load(Ordering::Relaxed) + 1;
        // Release, pairs with the Acquire load of this line by the other party, as in any handshake.
        mine.store(turn, Ordering::Release);
        if !until(PATIENCE, || other.load(Ordering::Acquire) >= turn) {
            // Relaxed: a count for a table, read after the end.
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of waits that ended without the other party.
    pub fn missed(&self) -> u64 {
        // Relaxed: as where it is counted.
        self.missed.load(Ordering::Relaxed)
    }
}

/// Spins until `done`, or until `patience` is over. Returns whether it was done.
fn until(patience: Duration, done: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..1000 {
            if done() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > patience {
            return done();
        }
    }
}

/// The least cost of a region of two parts: a thread that waits for one line to change, and answers on another.
#[derive(Debug, Default)]
pub struct Bare {
    go: Line,
    done: Line,
}

/// Tells the other thread of a [`Bare`] to end.
const END: u32 = u32::MAX;

impl Bare {
    /// Resets the lines.
    pub fn start(&self) {
        // Relaxed: the thread that will serve is started after this.
        self.go.0.store(0, Ordering::Relaxed);
        self.done.0.store(0, Ordering::Relaxed);
    }

    /// Runs the other thread: does `part` at each [`go`](Bare::go), until [`end`](Bare::end).
    pub fn serve(&self, part: impl Fn()) {
        for turn in 1.. {
            // Acquire, pairs with the Release in `tell`.
            let asked = || self.go.0.load(Ordering::Acquire);
            while asked() < turn {
                std::hint::spin_loop();
            }
            if asked() == END {
                return;
            }
            part();
            // Release, pairs with the Acquire in `go`.
            self.done.0.store(turn, Ordering::Release);
        }
    }

    /// One turn: starts the other thread's part, does `part` here, and waits for the other thread.
    pub fn go(&self, part: impl Fn()) {
        // Relaxed: only this thread writes the line.
        let turn = self.go.0.load(Ordering::Relaxed) + 1;
        self.tell(turn);
        part();
        // Acquire, pairs with the Release in `serve`.
        while self.done.0.load(Ordering::Acquire) < turn {
            std::hint::spin_loop();
        }
    }

    /// Ends the other thread.
    pub fn end(&self) {
        self.tell(END);
    }

    fn tell(&self, turn: u32) {
        // Release, pairs with the Acquire in `serve`.
        self.go.0.store(turn, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_run_at_once_meet() {
        let meeting = Meeting::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..1000).for_each(|_| meeting.meet(0)));
            (0..1000).for_each(|_| meeting.meet(1));
        });
        let turns = meeting.lines.each_ref().map(|line| line.0.load(Ordering::Relaxed));
        assert_eq!(turns, [1000, 1000]);
    }

    #[test]
    fn one_after_the_other_do_not_meet_but_keep_in_step() {
        let meeting = Meeting::default();
        meeting.meet(0);
        meeting.meet(1);
        assert_eq!(meeting.missed(), 1);
        meeting.meet(1);
        meeting.meet(0);
        assert_eq!(meeting.missed(), 2);
    }

    #[test]
    fn a_bare_region_runs_both_parts_of_every_turn() {
        let (bare, parts) = (Bare::default(), AtomicU32::new(0));
        // Relaxed: `go` orders the parts before the count is read.
        let part = || {
            parts.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            scope.spawn(|| bare.serve(part));
            (0..100).for_each(|_| bare.go(part));
            bare.end();
        });
        assert_eq!(parts.into_inner(), 200);
    }
}
