//! Room for one value of any type, and what is written on it.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;

/// Bytes that need no allocation. With what stands before it a letter fills two cache lines; a number and a slice are in the
/// first of them.
const INLINE: usize = 80;

/// Place for a value: inside, or in an allocation that is kept for the next one.
#[repr(C)]
pub(super) struct Room {
    inline: Inline,
    /// How to drop what lies here; none if nothing does, or nothing that needs it.
    drop: Option<unsafe fn(&mut Room)>,
    spill: Option<Spill>,
}

#[repr(C, align(16))]
struct Inline(MaybeUninit<[u8; INLINE]>);

struct Spill {
    at: NonNull<u8>,
    layout: Layout,
}

impl Spill {
    /// `layout` is not empty.
    fn new(layout: Layout) -> Self {
        // SAFETY: not empty, says `place`, the only caller.
        let at = unsafe { alloc(layout) };
        Self { at: NonNull::new(at).unwrap_or_else(|| handle_alloc_error(layout)), layout }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed only here.
        unsafe { dealloc(self.at.as_ptr(), self.layout) }
    }
}

/// What a letter holds: the part, which is its reader's alone, and a copy of what is shared.
#[repr(C)]
pub(super) struct Mail<P, S> {
    part: P,
    shared: S,
}

impl<P, S> Mail<P, S> {
    const LAYOUT: Layout = Layout::new::<Self>();
}

impl Room {
    fn new() -> Self {
        Self { inline: Inline(MaybeUninit::uninit()), drop: None, spill: None }
    }

    /// Where a value of this layout lies. Only the first call with a larger one than before allocates.
    #[inline]
    fn place(&mut self, layout: Layout) -> *mut u8 {
        if layout.size() <= INLINE && layout.align() <= align_of::<Inline>() {
            return self.inline.0.as_mut_ptr().cast();
        }
        match &self.spill {
            Some(spill) if spill.layout.size() >= layout.size() && spill.layout.align() >= layout.align() => {
                spill.at.as_ptr()
            }
            _ => {
                // What is aligned to more than the inside may be empty; an allocation may not.
                let size = layout.size().max(layout.align());
                let layout =
                    Layout::from_size_align(size, layout.align()).unwrap_or_else(|_| handle_alloc_error(layout));
                self.spill.insert(Spill::new(layout)).at.as_ptr()
            }
        }
    }

    /// Drops what lies here.
    #[inline]
    fn clear(&mut self) {
        if let Some(drop) = self.drop.take() {
            // SAFETY: `drop` was stored when a value of its type was put here, and is used once.
            unsafe { drop(self) }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Drops the `V` at the start of a value with the layout of a `W`.
///
/// # Safety
/// `room` holds one, as part of a `W` that begins with it.
unsafe fn drop_first<V, W>(room: &mut Room) {
    let at = room.place(Layout::new::<W>()).cast::<V>();
    // SAFETY: promised by the caller.
    unsafe { at.drop_in_place() }
}

/// What the leader writes to a member.
#[repr(C)]
pub(super) struct Letter {
    note: u64,
    /// Which families the values are of.
    tag: TypeId,
    room: Room,
}

/// The tag of a letter without values.
struct Nothing;

impl Letter {
    pub(super) fn new() -> Self {
        Self { note: 0, tag: TypeId::of::<Nothing>(), room: Room::new() }
    }

    /// Writes the part. It becomes readable by [`seal`](Letter::seal).
    #[inline]
    pub(super) fn put<P, S>(&mut self, part: P) {
        self.abandon();
        let at = self.room.place(Mail::<P, S>::LAYOUT).cast::<P>();
        // SAFETY: room for a `Mail<P, S>`, which begins with the part.
        unsafe { at.write(part) };
        if needs_drop::<P>() {
            self.room.drop = Some(drop_first::<P, Mail<P, S>>);
        }
    }

    /// Adds the rest to a part.
    ///
    /// # Safety
    /// The part was put with the same types. `tag` stands for them, up to lifetimes that last until the letter is opened or
    /// cleared.
    #[inline]
    pub(super) unsafe fn seal<P, S: Copy>(&mut self, tag: TypeId, note: u64, shared: S) {
        let at = self.room.place(Mail::<P, S>::LAYOUT).cast::<Mail<P, S>>();
        // SAFETY: in bounds of the room for a `Mail<P, S>`.
        let at = unsafe { &raw mut (*at).shared };
        // SAFETY: as above; what lay there was `Copy`.
        unsafe { at.write(shared) };
        self.note = note;
        self.tag = tag;
    }

    /// A letter with nothing but a note.
    pub(super) fn write_note(&mut self, note: u64) {
        self.abandon();
        self.note = note;
    }

    /// Makes it empty. Nothing lies here that needs to be dropped: its owner has seen to that before it arrived. A leader must not do
    /// it, for what was lent in another round may look at data that it is changing; so if there were something it would leak.
    #[inline]
    fn abandon(&mut self) {
        debug_assert!(self.room.drop.is_none());
        if self.room.drop.is_some() {
            self.room.drop = None;
        }
        self.tag = TypeId::of::<Nothing>();
    }

    pub(super) fn note(&self) -> u64 {
        self.note
    }

    /// Takes the values out, if they are those that `tag` stands for. Once a letter.
    ///
    /// # Safety
    /// `tag` stands for these types, up to lifetimes that are valid now; nobody has opened this letter before.
    #[inline]
    pub(super) unsafe fn open<P, S: Copy>(&mut self, tag: TypeId) -> Option<(S, P)> {
        if self.tag != tag {
            return None;
        }
        if needs_drop::<P>() {
            self.room.drop = None;
        }
        let at = self.room.place(Mail::<P, S>::LAYOUT).cast::<Mail<P, S>>();
        // SAFETY: sealed under this tag, so the values are there; they are given up by `drop = None`, or need no drop.
        let Mail { part, shared } = unsafe { at.read() };
        Some((shared, part))
    }

    /// Drops what nobody has taken.
    pub(super) fn clear(&mut self) {
        // First, as the drop may panic.
        self.tag = TypeId::of::<Nothing>();
        self.room.clear();
    }
}

/// What a member brings to a round.
pub(super) struct Brought {
    tag: TypeId,
    room: Room,
}

impl Brought {
    pub(super) fn new() -> Self {
        Self { tag: TypeId::of::<Nothing>(), room: Room::new() }
    }

    #[inline]
    pub(super) fn put<C: 'static>(&mut self, value: C) {
        // First, as the drop may panic.
        self.tag = TypeId::of::<Nothing>();
        self.room.clear();
        let at = self.room.place(Layout::new::<C>()).cast::<C>();
        // SAFETY: room for a `C`.
        unsafe { at.write(value) };
        if needs_drop::<C>() {
            self.room.drop = Some(drop_first::<C, C>);
        }
        self.tag = TypeId::of::<C>();
    }

    /// Takes it out, if it is a `C`.
    #[inline]
    pub(super) fn take<C: 'static>(&mut self) -> Option<C> {
        if self.tag != TypeId::of::<C>() {
            return None;
        }
        self.tag = TypeId::of::<Nothing>();
        self.room.drop = None;
        let at = self.room.place(Layout::new::<C>()).cast::<C>();
        // SAFETY: the tag says that a `C` was put here, and is gone, so it is taken once.
        Some(unsafe { at.read() })
    }
}
