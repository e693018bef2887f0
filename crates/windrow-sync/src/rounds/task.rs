//! Slots of tasks: members that wait as futures do.

use std::cell::UnsafeCell;
use std::future::poll_fn;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::slot::{Follow, LeaderGuard, MemberPosition, Turn};
use super::{Core, Ended};
use crate::base::debug::show_as;
use crate::base::mutex::Mutex;
use crate::base::primitives::{Arc, AtomicUsize, Ordering};
use crate::base::spin::Spin;
use crate::base::unwind::{Finally, quietly};

/// The common state of the slots of a team of tasks. It owns the data, because a future can be forgotten: nothing that a future uses may be borrowed.
struct Owned<T: Send> {
    core: Core,
    /// `None` once [`TaskRounds::finish`] has taken the data out.
    data: UnsafeCell<Option<T>>,
    /// Slots that have not been dropped.
    present: AtomicUsize,
    /// The waker of a task that waits until all slots are dropped.
    owner: Mutex<Option<Waker>>,
}

// SAFETY: `data` is used by one leader at a time, then by the thread that found `present` 0, then by the drop.
unsafe impl<T: Send> Sync for Owned<T> {}
// SAFETY: the same; `T: Send`.
unsafe impl<T: Send> Send for Owned<T> {}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        // Parts that no member took may read the data.
        // SAFETY: `&mut self`, which slots keep alive.
        unsafe { self.core.clear_all() };
    }
}

/// A team whose members are tasks: its owner's handle. See the [module page](super).
pub struct TaskRounds<T: Send> {
    shared: Arc<Owned<T>>,
}

show_as!("TaskRounds": [T: Send] TaskRounds<T>);

impl<T: Send> TaskRounds<T> {
    /// A team of `width` members around `data`, and its slots.
    ///
    /// # Panics
    /// If `width` is 0 or more than [`MAX_MEMBERS`](super::MAX_MEMBERS).
    pub fn new(data: T, width: usize) -> (Self, Vec<TaskSlot<T>>) {
        let shared = Arc::new(Owned {
            core: Core::new(width),
            data: UnsafeCell::new(Some(data)),
            present: AtomicUsize::new(width),
            owner: Mutex::new(None),
        });
        let slot = |at| TaskSlot { place: MemberPosition::new(at, width), shared: shared.clone() };
        let slots = (0..width).map(slot).collect();
        (TaskRounds { shared }, slots)
    }

    /// The data, when all slots have been dropped.
    pub async fn finish(self) -> T {
        let shared = self.shared;
        poll_fn(|context| {
            set_waker(&shared.owner, context.waker());
            // Acquire: pairs with the Release in `TaskSlot::drop`; no member uses the data any more.
            if shared.present.load(Ordering::Acquire) > 0 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        // SAFETY: no slot is left (those that are being dropped no longer use messages).
        unsafe { shared.core.clear_all() };
        // SAFETY: no slot is left to use the data.
        let data = unsafe { &mut *shared.data.get() }.take();
        data.unwrap_or_else(|| unreachable!("taken only here"))
    }
}

/// One member's place in a team of tasks. Dropping it leaves the team.
pub struct TaskSlot<T: Send> {
    place: MemberPosition,
    shared: Arc<Owned<T>>,
}

show_as!("TaskSlot": [T: Send] TaskSlot<T>, |it| place: it.place);

impl<T: Send> Drop for TaskSlot<T> {
    fn drop(&mut self) {
        self.place.leave(&self.shared.core);
        // Release: pairs with the Acquire in `TaskRounds::finish`, for all of them: subtractions from one word form a chain.
        if self.shared.present.fetch_sub(1, Ordering::Release) == 1 {
            // Woken without the lock: the owner may poll for the data at once.
            let owner = self.shared.owner.lock().take();
            owner.into_iter().for_each(|owner| quietly(|| owner.wake()));
        }
    }
}

/// The end of a task's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The wait ended before the task had to return `Pending`.
    Looking,
    /// The task was woken.
    Woken,
}

impl<T: Send> TaskSlot<T> {
    /// This member's number, `0..width`.
    pub fn index(&self) -> usize {
        self.place.at
    }

    /// The number of members.
    pub fn width(&self) -> usize {
        self.place.width
    }

    /// Leaves a value for the leader of the next round.
    pub fn contribute<C: Send + 'static>(&mut self, value: C) {
        self.place.contribute(&self.shared.core, value);
    }

    /// Arrives, and waits for all others: the task spins on its thread for as long as `spin` allows, and then returns `Pending` until
    /// it is woken.
    ///
    /// If this future is dropped before it is ready, the member leaves the team.
    ///
    /// # Errors
    /// If a member has left or panicked.
    pub async fn arrive(&mut self, spin: Spin) -> Result<(Turn<'_, T>, Waited), Ended> {
        let TaskSlot { place, shared } = self;
        // (A reference keeps the task's future `Send`; a raw pointer would not.)
        let core = &shared.core;
        let before = place.ready(core)?;
        let mut waited = Waited::Looking;
        if place.width > 1 && !core.arrive(place.at, place.width) {
            // Until the round comes, this member must not arrive again, even if this future is dropped or forgotten.
            place.ended = Some(Ended::Left);
            let at = place.at;
            // If this future is dropped while it waits, its member leaves the team: it has arrived for a round that it will not see.
            let leaves = Finally(|| place.leave(core));
            let mut found = None;
            spin.until(|| {
                found = core.poll_round(at, before);
                found.is_some()
            });
            let found = match found {
                Some(found) => found,
                None => {
                    waited = Waited::Woken;
                    poll_fn(|context| core.poll(at, before, context)).await
                }
            };
            std::mem::forget(leaves);
            return match found {
                Ok(()) => {
                    place.ended = None;
                    Ok((Turn::Follow(Follow::new(core, place)), waited))
                }
                Err(why) => place.end(why),
            };
        }
        // SAFETY: this member leads, so it is the only user.
        let Some(data) = (unsafe { &mut *shared.data.get() }) else { unreachable!("taken when no slot is left") };
        Ok((Turn::Lead(LeaderGuard::new(core, NonNull::from(data), place)), waited))
    }
}

impl Core {
    /// [`poll_round`](Core::poll_round) for a task; without news, keeps its waker.
    fn poll(&self, slot: usize, before: u32, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        let found = self.poll_round(slot, before).or_else(|| {
            set_waker(&self.boxes[slot].waker, context.waker());
            // After `set_waker` has dropped the replaced waker: that drop may end the team, which the check of the mailbox below sees.
            self.announce_sleep(slot);
            // A thread that changes the mailbox from here on finds `SLEEPS`, and then the waker.
            self.poll_round(slot, before)
        });
        match found {
            Some(found) => {
                self.awake(slot);
                Poll::Ready(found)
            }
            None => Poll::Pending,
        }
    }
}

/// Keeps `waker` in place of another one.
///
/// Clones the new one, and drops the other one, without the lock. A waker may be the last owner of a task, and the task the owner of a
/// slot of this team. So the drop of a waker may leave the team, which takes the lock to wake this member.
fn set_waker(place: &Mutex<Option<Waker>>, waker: &Waker) {
    let new = waker.clone();
    let mut kept = place.lock();
    let unused = match &*kept {
        Some(kept) if kept.will_wake(waker) => Some(new),
        _ => kept.replace(new),
    };
    drop(kept);
    drop(unused);
}
