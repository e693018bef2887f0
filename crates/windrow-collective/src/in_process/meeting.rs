//! Where ranks meet: everybody comes with a call, everybody leaves with the same verdict.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::call::{Call, Post, judge};

#[derive(Debug)]
pub(super) struct Meeting {
    state: Mutex<State>,
    held: Condvar,
}

#[derive(Debug)]
struct State {
    /// What each rank has come with.
    posts: Vec<Option<Post>>,
    /// Meetings that have been held.
    meetings: u64,
    /// Those of them that somebody came to with a new call.
    calls: u64,
    /// What came of the latest: when the last rank had called, or why the call fails. It stays until all ranks have come again.
    verdict: Result<Instant, Error>,
    /// When the last of those that have come had called.
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

    /// Waits for all ranks. What they came with decides. When the last of them had called.
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
            // In this order: who leaves after a meeting was held does not undo it.
            if state.meetings != meeting {
                return state.verdict.clone();
            }
            if let Some(gone) = &state.gone {
                return Err(gone.clone());
            }
        }
    }

    /// Which of the two sets of slots the next call uses. All ranks that have left a meeting agree about it, whatever became of the call
    /// before: it changes only in a meeting, and none is held without them.
    pub(super) fn turn(&self) -> usize {
        (self.lock().calls % 2) as usize
    }

    /// Nobody waits for this rank any more.
    pub(super) fn leave(&self, rank: usize, panicked: bool) {
        self.lock().gone.get_or_insert(Error::Left { rank, panicked });
        self.held.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
