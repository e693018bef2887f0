//! Checks that a barrier was crossed by as many threads as it claims. In every round each member writes the round and its thread's number,
//! and reads those of all others.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A separate cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// The lines in which members show that they take part.
#[derive(Debug)]
pub struct Presence {
    /// For even and odd rounds: one is read while the next is written.
    members: [Vec<Line>; 2],
}

/// A unique number of this thread; the first is 1.
fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        // Relaxed: the numbers only have to differ.
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl Presence {
    /// For `width` members at most.
    pub fn new(width: usize) -> Self {
        Self { members: [0, 1].map(|_| (0..width).map(|_| Line::default()).collect()) }
    }

    /// Writes this member's line, before the barrier of a round.
    pub fn arrive(&self, member: usize, round: u32) {
        let said = u64::from(round) << 32 | u64::from(this_thread());
        // Relaxed: the barrier under test must order this store before the loads; if it does not, the check fails.
        self.members[round as usize % 2][member].0.store(said, Ordering::Relaxed);
    }

    /// Checks the lines of a team of `width`, after the barrier.
    ///
    /// # Panics
    /// If a member is not in this round, or one thread is two members.
    pub fn check(&self, width: usize, round: u32) {
        let members = &self.members[round as usize % 2][..width];
        // Relaxed: the barrier under test orders this load, as above.
        let said = |member: &Line| member.0.load(Ordering::Relaxed);
        for (at, member) in members.iter().enumerate() {
            let (there, thread) = (said(member) >> 32, said(member) as u32);
            assert_eq!(there, u64::from(round), "member {at} is in another round");
            assert!(thread != 0, "member {at} never came");
            let others = members[..at].iter().map(|other| said(other) as u32);
            others.for_each(|other| assert_ne!(other, thread, "one thread is two members"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "one thread is two members")]
    fn a_thread_cannot_be_two_members() {
        let presence = Presence::new(2);
        presence.arrive(0, 1);
        presence.arrive(1, 1);
        presence.check(2, 1);
    }

    #[test]
    #[should_panic(expected = "member 1 is in another round")]
    fn a_member_that_does_not_come_is_missed() {
        let presence = Presence::new(2);
        std::thread::scope(|scope| drop(scope.spawn(|| presence.arrive(1, 1))));
        presence.arrive(0, 3);
        presence.check(2, 3);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let here = this_thread();
        assert_eq!(here, this_thread());
        assert_ne!(here, std::thread::spawn(this_thread).join().unwrap());
    }
}
