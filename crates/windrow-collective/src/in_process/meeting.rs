//! Where ranks meet: each rank posts its call, and all ranks leave with the same verdict.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::call::Call;
use crate::post::{Post, judge};

#[derive(Debug)]
pub(super) struct Meeting {
    state: Mutex<State>,
    held: Condvar,
}

#[derive(Debug)]
struct State {
    /// What each rank has posted so far.
    posts: Vec<Option<Post>>,
    /// Meetings that have been held.
    meetings: u64,
    /// Meetings held to which a rank came with a new call.
    calls: u64,
    /// The outcome of the latest meeting: when the last rank had called, or why the call fails. It stays until all ranks have come again.
    verdict: Result<Instant, Error>,
    /// The latest call time among the ranks that have come.
    called: Instant,
    /// The first rank that left.
    gone: Option<Error>,
}

impl Meeting {
    pub(super) fn new(size: usize) -> Self {
        let posts = (0..size).map(|_| None).collect();
        let called = Instant::now();
        let state = State { posts, meetings: 0, calls: 0, verdict: Ok(called), called, gone: None };
        Self { state: Mutex::new(state), held: Condvar::new() }
    }

    /// Waits for all ranks. Returns when the last of them had called, or why the call fails.
    pub(super) fn come(
        &self,
        rank: usize,
        step: u8,
        call: Result<Call, Error>,
        called: Instant,
    ) -> Result<Instant, Error> {
        let mut state = self.lock();
        if let Some(gone) = &state.gone {
            return Err(gone.clone());
        }
        state.posts[rank] = Some(Post { step, call });
        state.called = state.called.max(called);
        if state.posts.iter().all(Option::is_some) {
            let posts: Vec<Post> = state.posts.iter_mut().filter_map(Option::take).collect();
            state.verdict = judge(&posts).map(|()| state.called);
            state.meetings += 1;
            state.calls += u64::from(posts.iter().any(|post| post.step == 0));
            self.held.notify_all();
            return state.verdict.clone();
        }
        let meeting = state.meetings;
        loop {
            state = self.held.wait(state).unwrap_or_else(PoisonError::into_inner);
            // Test for the meeting first: a rank that leaves after the meeting does not undo it.
            if state.meetings != meeting {
                return state.verdict.clone();
            }
            if let Some(gone) = &state.gone {
                return Err(gone.clone());
            }
        }
    }

    /// Which of the two sets of slots the next call uses. All ranks that have left a meeting agree about it, even if the previous call
    /// failed. It changes only in a meeting, and every meeting needs all ranks.
    pub(super) fn turn(&self) -> usize {
        (self.lock().calls % 2) as usize
    }

    /// Marks this rank as gone and wakes the waiting ranks.
    pub(super) fn leave(&self, rank: usize, panicked: bool) {
        self.lock().gone.get_or_insert(Error::Left { rank, panicked });
        self.held.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Poison can be ignored: every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
