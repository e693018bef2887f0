//! Messages: storage for one value of any type, with its tag.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::mem::{MaybeUninit, needs_drop};
use std::ptr::NonNull;

/// Values up to this size need no allocation. Together with the mailbox's words, a message fills two cache lines. If it lends a number
/// and a slice, these lie in the first line.
const INLINE: usize = 80;

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
struct MessageValues<P, S> {
    part: P,
    shared: S,
}

/// The leader's message to one member, or a member's contribution. The values are inline, or in an allocation that is kept for the next ones.
#[repr(C)]
pub(super) struct Message {
    note: u64,
    /// The families of the values.
    tag: TypeId,
    inline: Inline,
    /// The drop of the part; `None` if there is none, or if it needs no drop.
    drop: Option<unsafe fn(&mut Message)>,
    spill: Option<Spill>,
}

/// The tag of a message without values.
struct Nothing;

impl Default for Message {
    fn default() -> Self {
        let (inline, tag) = (Inline(MaybeUninit::uninit()), TypeId::of::<Nothing>());
        Self { note: 0, tag, inline, drop: None, spill: None }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Drops the part of a message with values of these types.
///
/// # Safety
/// The message has such a part.
unsafe fn drop_part<P, S>(message: &mut Message) {
    let at = message.values::<P, S>().cast::<P>();
    // SAFETY: promised by the caller.
    unsafe { at.drop_in_place() }
}

impl Message {
    /// The place of values of these types. They begin with the part.
    #[inline]
    fn values<P, S>(&mut self) -> *mut MessageValues<P, S> {
        self.place(Layout::new::<MessageValues<P, S>>()).cast()
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

    /// Writes the part. [`seal`](Message::seal) makes it readable.
    #[inline]
    pub(super) fn put<P, S>(&mut self, part: P) {
        self.abandon();
        let at = self.values::<P, S>().cast::<P>();
        // SAFETY: storage for the values, which begin with the part.
        unsafe { at.write(part) };
        if needs_drop::<P>() {
            self.drop = Some(drop_part::<P, S>);
        }
    }

    /// Adds the shared value, tag and note to a part.
    ///
    /// # Safety
    /// The part was put with the same types. `tag` stands for them, up to lifetimes that last until the message is opened or
    /// cleared.
    #[inline]
    pub(super) unsafe fn seal<P, S: Copy>(&mut self, tag: TypeId, note: u64, shared: S) {
        let at = self.values::<P, S>();
        // SAFETY: in bounds of the storage for the values.
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
        debug_assert!(self.drop.is_none());
        if self.drop.is_some() {
            self.drop = None;
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
            self.drop = None;
        }
        let at = self.values::<P, S>();
        // SAFETY: sealed under this tag, so it holds the values; `drop = None` gives them up, or they need no drop.
        let MessageValues { part, shared } = unsafe { at.read() };
        Some((shared, part))
    }

    /// Drops a part that no member has taken.
    pub(super) fn clear(&mut self) {
        // First, as the drop may panic.
        self.tag = TypeId::of::<Nothing>();
        if let Some(drop) = self.drop.take() {
            // SAFETY: `drop` was stored when a part of its type was put here, and is used once.
            unsafe { drop(self) }
        }
    }

    /// Writes a contribution in place of the one before.
    #[inline]
    pub(super) fn put_contribution<C: 'static>(&mut self, value: C) {
        self.clear();
        self.put::<C, ()>(value);
        // SAFETY: put just now. `C` borrows nothing.
        unsafe { self.seal::<C, ()>(TypeId::of::<C>(), 0, ()) };
    }

    /// Takes the contribution out, if it is a `C`.
    #[inline]
    pub(super) fn take_contribution<C: 'static>(&mut self) -> Option<C> {
        // SAFETY: only a `C` that was put here has this tag, and the tag is reset below, so the value is taken once.
        let taken = unsafe { self.open::<C, ()>(TypeId::of::<C>()) };
        self.tag = TypeId::of::<Nothing>();
        taken.map(|((), value)| value)
    }
}
