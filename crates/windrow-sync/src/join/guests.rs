//! Invitations: work in which any number of members of a [tree](super::tree) may take part while it lasts (the tasks of a scope).
//!
//! # Glossary
//! * *Invitation*: a function that idle members may run while its host runs its own part. *Entry*: its record in the tree's list.
//! * *Host*: the member that put the invitation on the list.
//! * *Guest*: a member without work that has entered an invitation. *Inside*: entered and not left.
//! * *Caller*: a thread, member or not, that has put work where guests find it.
//! * *`ready`*: the invitation's flag: there is work that no guest has come for yet.
//!
//! # Protocol
//! A tree has a list of invitations, under a lock. An entry says which member hosts it, what guests run, how many are inside, and
//! whether it is over.
//! 1. *Host.* A member puts its invitation on the list and runs its own part. Then it marks the entry as over, waits until no
//!    guest is inside and takes it off the list, also while unwinding. Race prevented: a guest runs a function that is gone.
//! 2. *Call.* A caller puts work down and swaps `ready` for true. If it finds false, it announces the call as an offer is
//!    announced. Race prevented: every member parks beside the work.
//! 3. *Come.* An idle member walks through the list under the lock. It enters the first invitation that is not over and whose
//!    `ready` it swaps from true to false. It notes in its seat whose guest it is, and runs the given function. Then it leaves,
//!    under the lock; the last one to leave an invitation that is over rings for the host. Race prevented: the host's last check
//!    misses a guest.
//! 4. *Pass on.* A call, or an offer, wakes no member while one spins: that member will find it. But that member may find other work first. A
//!    member that has done so can pass on: it announces once more. Race prevented: the work stays behind parked members while all others
//!    wait for it. (A [join](super) runs its half itself in the end, so it needs this only if its first half waits for the second.)
//! 5. *Help.* A member that waits for work of an invitation may take what its guests offer, if they are its guests *after* the
//!    taking. Race prevented: a guest leaves and offers unrelated work before the taking.
//!
//! # Why it holds
//! * *What guests run is alive.* The list is read and changed under the lock. The host returns when the invitation is over and no
//!   guest is inside; from then on none gets in.
//! * *No lost call.* A guest that swaps `ready` from true to false sees the work that was put down before `ready` became true. A
//!   caller that puts work down later finds false and announces it.
//! * *No member helps strangers.* A guest comes when it has no work at all: all that it offers is part of the invitation. It
//!   cannot leave while another member has taken one of its frames. So if it is a guest after the taking, it was one when it made
//!   the offer.
//!
//! # Timeline: call against come
//! ```text
//! caller                                    idle member
//! puts work down
//! swaps ready for true: finds true
//! (an earlier call was announced)
//!                                           swaps ready for false: finds true
//!                                           enters, sees the work of both calls
//!
//! caller                                    idle member
//! puts work down
//!                                           swaps ready for false: finds true
//!                                           enters, may miss the work
//! swaps ready for true: finds false
//! announces: turn + 1, wakes a member
//! ```

use crate::join::here;
use crate::join::tree::{Tree, WorkerSlot};
use crate::primitives::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// One entry of a tree's list.
struct InvitationEntry {
    /// Not 0, never reused.
    id: u64,
    ready: *const AtomicBool,
    help: *const (dyn Fn() + Sync),
    /// The member to ring for when the last guest leaves.
    host: usize,
    inside: usize,
    over: bool,
}

// SAFETY: what it points to is `Sync`.
unsafe impl Send for InvitationEntry {}

/// A tree's list of invitations.
#[derive(Default)]
pub(crate) struct Guests {
    ids: u64,
    list: Vec<InvitationEntry>,
}

impl Guests {
    fn find(&mut self, id: u64) -> Option<&mut InvitationEntry> {
        self.list.iter_mut().find(|entry| entry.id == id)
    }
}

/// Where an invitation is being hosted.
#[derive(Clone, Copy)]
struct Hosted {
    tree: *const Tree,
    id: u64,
}

// SAFETY: a tree is `Sync`, and it is used under the lock of `Invitation::hosted` or by its own members.
unsafe impl Send for Hosted {}

/// Work for guests. See the [module page](self).
pub struct Invitation {
    ready: AtomicBool,
    hosted: Mutex<Option<Hosted>>,
}

impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation").finish_non_exhaustive()
    }
}

impl Default for Invitation {
    fn default() -> Self {
        Self::new()
    }
}

impl Invitation {
    /// An invitation that no member hosts yet.
    pub fn new() -> Self {
        Self { ready: AtomicBool::new(false), hosted: Mutex::new(None) }
    }

    /// Runs `lead`. Meanwhile members of this thread's tree may come and run `help`, which returns when it finds no more work.
    /// After a [`call`](Invitation::call), one comes. All have left when this returns. Outside of a tree no guest comes.
    ///
    /// # Panics
    /// If it is hosted already. A panic of `help` goes to the caller of [`Tree::serve`] on the guest's thread.
    pub fn host<R>(&self, help: &(dyn Fn() + Sync), lead: impl FnOnce() -> R) -> R {
        // SAFETY: null, or the seat that a caller further down this stack holds.
        let Some(seat) = (unsafe { here().as_ref() }) else { return lead() };
        let _over = Hosting::new(self, seat, help);
        lead()
    }

    /// Tells guests that there is work. From any thread.
    pub fn call(&self) {
        // Release: pairs with the Acquire in `come`; a guest that comes sees the work.
        if !self.ready.swap(true, Ordering::Release) {
            // The lock keeps the host, and so the tree, alive and in place.
            if let Some(hosted) = *lock(&self.hosted) {
                // SAFETY: its host is inside the tree, and cannot leave it without this lock.
                unsafe { &*hosted.tree }.announce_call();
            }
        }
        // SAFETY: as in `host`.
        if let Some(seat) = unsafe { here().as_ref() } {
            seat.has_called();
            seat.burn();
        }
    }

    /// Wakes a parked member, if none spins. For a member that was idle and has found work: another call or offer may have counted on it.
    pub fn pass_on(&self) {
        if let Some(hosted) = *lock(&self.hosted) {
            // SAFETY: its host is inside the tree, and cannot leave it without this lock.
            unsafe { &*hosted.tree }.announce_call();
        }
    }

    /// This thread's number among the members of the tree, if it is one of them.
    pub fn member(&self) -> Option<usize> {
        let hosted = *lock(&self.hosted);
        // SAFETY: as in `host`.
        let seat = unsafe { here().as_ref() }?;
        hosted.filter(|hosted| std::ptr::eq(hosted.tree, seat.tree())).map(|_| seat.index())
    }

    /// Whether this thread is a guest: a member without other work that runs the invitation's `help`.
    pub fn is_guest(&self) -> bool {
        let hosted = *lock(&self.hosted);
        // SAFETY: as in `host`.
        let seat = unsafe { here().as_ref() };
        matches!((hosted, seat), (Some(hosted), Some(seat)) if seat.is_guest_of(hosted.id))
    }

    /// Makes [`wait`](Invitation::wait) of that member check again. From any thread.
    pub fn ring(&self, member: usize) {
        if let Some(hosted) = *lock(&self.hosted) {
            // SAFETY: its host is inside the tree, and cannot leave it without this lock.
            unsafe { &*hosted.tree }.ring(member);
        }
    }

    /// Waits until `done` returns true; the thread that makes it so must [`ring`](Invitation::ring) afterwards. Meanwhile this
    /// thread runs offers of those guests whose number satisfies the first argument. Such guests must work on what is waited for
    /// until it is `done`.
    ///
    /// # Panics
    /// If this thread is not a member: see [`member`](Invitation::member).
    pub fn wait(&self, whom: impl Fn(usize) -> bool, done: impl Fn() -> bool) {
        let hosted = *lock(&self.hosted);
        // SAFETY: as in `host`.
        let seat = unsafe { here().as_ref() };
        let (Some(hosted), Some(seat)) = (hosted, seat.filter(|_| self.member().is_some())) else {
            panic!("only members of the tree wait for an invitation");
        };
        let tree = seat.tree();
        tree.wait_until(seat, &done, || {
            let mut seats = tree.seats().enumerate();
            seats.any(|(index, other)| {
                let is_one = || other.is_guest_of(hosted.id) && whom(index);
                !std::ptr::eq(seat, other) && is_one() && tree.help(seat, index, other, || is_one() && !done())
            })
        });
    }
}

/// Ends the hosting when dropped.
struct Hosting<'a> {
    invitation: &'a Invitation,
    seat: &'a WorkerSlot,
    id: u64,
}

impl<'a> Hosting<'a> {
    fn new(invitation: &'a Invitation, seat: &'a WorkerSlot, help: &'a (dyn Fn() + Sync)) -> Self {
        let tree = seat.tree();
        let mut hosted = lock(&invitation.hosted);
        assert!(hosted.is_none(), "an invitation has one host at a time");
        let help: *const (dyn Fn() + Sync + '_) = help;
        // SAFETY: only the lifetime changes. Used by guests only, and this guard's drop waits for them.
        let help = unsafe { std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync)>(help) };
        let mut guests = tree.guests();
        guests.ids += 1;
        let id = guests.ids;
        let ready = &raw const invitation.ready;
        guests.list.push(InvitationEntry { id, ready, help, host: seat.index(), inside: 0, over: false });
        *hosted = Some(Hosted { tree, id });
        drop(guests);
        // Relaxed: a caller that came before there was a host has held the lock before us; one that comes now waits for the lock.
        if invitation.ready.load(Ordering::Relaxed) {
            tree.announce_call();
        }
        Self { invitation, seat, id }
    }
}

impl Drop for Hosting<'_> {
    fn drop(&mut self) {
        *lock(&self.invitation.hosted) = None;
        let tree = self.seat.tree();
        let is_empty = |guests: &mut MutexGuard<'_, Guests>| guests.find(self.id).is_none_or(|entry| entry.inside == 0);
        let mut guests = tree.guests();
        if let Some(entry) = guests.find(self.id) {
            entry.over = true;
        }
        let empty = is_empty(&mut guests);
        drop(guests);
        if !empty {
            tree.wait_until(self.seat, &|| is_empty(&mut tree.guests()), || false);
        }
        tree.guests().list.retain(|entry| entry.id != self.id);
    }
}

/// A guest, counted as inside.
pub(crate) struct Guest<'a> {
    tree: &'a Tree,
    seat: &'a WorkerSlot,
    id: u64,
    help: *const (dyn Fn() + Sync),
}

impl<'a> Guest<'a> {
    /// Enters the first invitation that calls. `seat` is this thread's; it has no work.
    pub(crate) fn come(tree: &'a Tree, seat: &'a WorkerSlot) -> Option<Self> {
        let mut guests = tree.guests();
        let entry = guests.list.iter_mut().find(|entry| {
            // SAFETY: the host is not gone: the entry is on the list.
            let ready = unsafe { &*entry.ready };
            // Relaxed: the swap validates it. Acquire: pairs with the Release in `call`; we see the work.
            !entry.over && ready.load(Ordering::Relaxed) && ready.swap(false, Ordering::Acquire)
        })?;
        entry.inside += 1;
        seat.be_guest_of(entry.id);
        Some(Self { tree, seat, id: entry.id, help: entry.help })
    }

    /// Runs the guest's part.
    pub(crate) fn help(self) {
        // SAFETY: the host waits until this guest has left.
        let help = unsafe { &*self.help };
        help();
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.seat.be_guest_of(0);
        let mut guests = self.tree.guests();
        let Some(entry) = guests.find(self.id) else { return };
        entry.inside -= 1;
        let host = (entry.over && entry.inside == 0).then_some(entry.host);
        drop(guests);
        host.into_iter().for_each(|host| self.tree.ring(host));
    }
}
