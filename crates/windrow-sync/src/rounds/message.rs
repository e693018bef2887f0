//! Messages: storage for one value of any type, with its tag.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;

/// Values up to this size need no allocation. Together with the mailbox's words, a message fills two cache lines. If it lends a number
/// and a slice, these lie in the first line.
const INLINE: usize = 80;

/// Storage for a value: inline, or in an allocation that is kept for the next value.
#[repr(C)]
pub(super) struct InlineBox {
    inline: Inline,
    /// The drop of the value; `None` if there is none, or if it needs no drop.
    drop: Option<unsafe fn(&mut InlineBox)>,
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
        // SAFETY: not empty: `place`, the only caller, sees to that.
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

/// Contents of a message: the part, which is its reader's alone, and a copy of what all members share.
#[repr(C)]
pub(super) struct MessageValues<P, S> {
    part: P,
    shared: S,
}

impl InlineBox {
    fn new() -> Self {
        Self { inline: Inline(MaybeUninit::uninit()), drop: None, spill: None }
    }

    /// The place of a value of this layout. Only a call with a larger layout than before allocates.
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
                // A type with a larger alignment than the inline storage may have size 0; an allocation may not.
                let size = layout.size().max(layout.align());
                let layout =
                    Layout::from_size_align(size, layout.align()).unwrap_or_else(|_| handle_alloc_error(layout));
                self.spill.insert(Spill::new(layout)).at.as_ptr()
            }
        }
    }

    /// Writes a `V` into storage for a `W`. (A `W` begins with a `V`.)
    #[inline]
    fn put<V, W>(&mut self, value: V) {
        let at = self.place(Layout::new::<W>()).cast::<V>();
        // SAFETY: storage for a `W`.
        unsafe { at.write(value) };
        if needs_drop::<V>() {
            self.drop = Some(drop_first::<V, W>);
        }
    }

    /// Drops the value.
    #[inline]
    fn clear(&mut self) {
        if let Some(drop) = self.drop.take() {
            // SAFETY: `drop` was stored when a value of its type was put here, and is used once.
            unsafe { drop(self) }
        }
    }
}

impl Drop for InlineBox {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Drops the `V` at the start of a value with the layout of a `W`.
///
/// # Safety
/// `room` holds a `V`, as part of a `W` that begins with it.
unsafe fn drop_first<V, W>(room: &mut InlineBox) {
    let at = room.place(Layout::new::<W>()).cast::<V>();
    // SAFETY: promised by the caller.
    unsafe { at.drop_in_place() }
}

/// The leader's message to one member.
#[repr(C)]
pub(super) struct Message {
    note: u64,
    /// The families of the values.
    tag: TypeId,
    room: InlineBox,
}

/// The tag of a message without values.
struct Nothing;

impl Default for Message {
    fn default() -> Self {
        Self { note: 0, tag: TypeId::of::<Nothing>(), room: InlineBox::new() }
    }
}

impl Message {
    /// Writes the part. [`seal`](Message::seal) makes it readable.
    #[inline]
    pub(super) fn put<P, S>(&mut self, part: P) {
        self.abandon();
        self.room.put::<P, MessageValues<P, S>>(part);
    }

    /// Adds the shared value, tag and note to a part.
    ///
    /// # Safety
    /// The part was put with the same types. `tag` stands for them, up to lifetimes that last until the message is opened or
    /// cleared.
    #[inline]
    pub(super) unsafe fn seal<P, S: Copy>(&mut self, tag: TypeId, note: u64, shared: S) {
        let at = self.room.place(Layout::new::<MessageValues<P, S>>()).cast::<MessageValues<P, S>>();
        // SAFETY: in bounds of the storage for a `MessageValues<P, S>`.
        let at = unsafe { &raw mut (*at).shared };
        // SAFETY: as above; the previous value there was `Copy`.
        unsafe { at.write(shared) };
        self.note = note;
        self.tag = tag;
    }

    /// Makes the message empty, without a drop: the owner has dropped the last part before it arrived. A leader must not drop parts,
    /// because a part of another round may read data that the leader is changing. So a part that is left here leaks.
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

    /// Takes the values out, if `tag` stands for them. Once per message.
    ///
    /// # Safety
    /// `tag` stands for these types, up to lifetimes that are valid now; this message was not opened before.
    #[inline]
    pub(super) unsafe fn open<P, S: Copy>(&mut self, tag: TypeId) -> Option<(S, P)> {
        if self.tag != tag {
            return None;
        }
        if needs_drop::<P>() {
            self.room.drop = None;
        }
        let at = self.room.place(Layout::new::<MessageValues<P, S>>()).cast::<MessageValues<P, S>>();
        // SAFETY: sealed under this tag, so it holds the values; `drop = None` gives them up, or they need no drop.
        let MessageValues { part, shared } = unsafe { at.read() };
        Some((shared, part))
    }

    /// Drops a part that no member has taken.
    pub(super) fn clear(&mut self) {
        // First, as the drop may panic.
        self.tag = TypeId::of::<Nothing>();
        self.room.clear();
    }
}

/// A member's contribution to a round.
pub(super) struct Contribution {
    tag: TypeId,
    room: InlineBox,
}

impl Default for Contribution {
    fn default() -> Self {
        Self { tag: TypeId::of::<Nothing>(), room: InlineBox::new() }
    }
}

impl Contribution {
    #[inline]
    pub(super) fn put<C: 'static>(&mut self, value: C) {
        // First, as the drop may panic.
        self.tag = TypeId::of::<Nothing>();
        self.room.clear();
        self.room.put::<C, C>(value);
        self.tag = TypeId::of::<C>();
    }

    /// Takes the value out, if it is a `C`.
    #[inline]
    pub(super) fn take<C: 'static>(&mut self) -> Option<C> {
        if self.tag != TypeId::of::<C>() {
            return None;
        }
        self.tag = TypeId::of::<Nothing>();
        self.room.drop = None;
        let at = self.room.place(Layout::new::<C>()).cast::<C>();
        // SAFETY: the tag said that a `C` was put here; it is reset above, so the value is taken once.
        Some(unsafe { at.read() })
    }
}
