//! The word of a tree: its fields. The page of [trees](super::tree) says what they mean.

pub(super) const ONE_ASLEEP: u64 = 1;
pub(super) const ONE_LOOKING: u64 = 1 << 16;
pub(super) const COUNT: u64 = 0xffff;
pub(super) const OVER: u64 = 1 << 32;
pub(super) const ONE_TURN: u64 = 1 << 33;

/// The tree's word, read.
#[derive(Clone, Copy)]
pub(super) struct TreeView(pub(super) u64);

impl TreeView {
    pub(super) fn asleep(self) -> u64 {
        self.0 & COUNT
    }
    pub(super) fn looking(self) -> u64 {
        (self.0 / ONE_LOOKING) & COUNT
    }
    pub(super) fn is_over(self) -> bool {
        self.0 & OVER != 0
    }
    /// The half that parked members compare.
    pub(super) fn upper(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
