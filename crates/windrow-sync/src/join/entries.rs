//! A tree's list of invitations. Its lock orders all that [`guests`](super::guests) says of it.

use crate::base::primitives::{AtomicBool, Ordering};

/// An invitation's flag and what guests run. `'static` is not their lifetime: both live as long as the entry.
pub(crate) type Invited = (&'static AtomicBool, &'static (dyn Fn() + Sync));

struct InvitationEntry {
    /// Not 0, never reused.
    id: u64,
    invited: Invited,
    /// The member to ring for when the last guest leaves.
    host: usize,
    inside: usize,
    over: bool,
    /// The host waits for the last guest.
    awaited: bool,
}

/// See the [module page](self).
#[derive(Default)]
pub(crate) struct Entries {
    ids: u64,
    list: Vec<InvitationEntry>,
}

impl Entries {
    fn find(&mut self, id: u64) -> Option<&mut InvitationEntry> {
        self.list.iter_mut().find(|entry| entry.id == id)
    }

    /// Adds an invitation of the member `host`; returns its id.
    pub(crate) fn add(&mut self, invited: Invited, host: usize) -> u64 {
        self.ids += 1;
        self.list.push(InvitationEntry { id: self.ids, invited, host, inside: 0, over: false, awaited: false });
        self.ids
    }

    /// Lets a guest into the first invitation that is `ready`; returns its id, and what the guest runs.
    pub(crate) fn enter(&mut self) -> Option<(u64, *const (dyn Fn() + Sync))> {
        let entry = self.list.iter_mut().find(|entry| {
            let (ready, _) = entry.invited;
            // Relaxed: the swap validates it. Acquire: pairs with the Release in `Invitation::call`; the guest sees the work.
            !entry.over && ready.load(Ordering::Relaxed) && ready.swap(false, Ordering::Acquire)
        })?;
        entry.inside += 1;
        Some((entry.id, entry.invited.1))
    }

    /// A guest leaves; returns the member to ring for, if it waits for this guest.
    pub(crate) fn leave(&mut self, id: u64) -> Option<usize> {
        let entry = self.find(id)?;
        entry.inside -= 1;
        (entry.inside == 0 && std::mem::take(&mut entry.awaited)).then_some(entry.host)
    }

    /// Returns whether no guest is inside. No guest enters from now on if the invitation is `over`.
    pub(crate) fn is_left(&mut self, id: u64, over: bool) -> bool {
        self.find(id).is_none_or(|entry| {
            (entry.over, entry.awaited) = (over, true);
            entry.inside == 0
        })
    }

    /// Takes the entry off the list.
    pub(crate) fn remove(&mut self, id: u64) {
        self.list.retain(|entry| entry.id != id);
    }
}
