//! Panics that no caller receives.

use windrow_sync::unwind::discard;

struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::resume_unwind(Box::new(Bomb(self.0 - 1)));
        }
    }
}

#[test]
fn payloads_that_panic_when_they_are_dropped_are_discarded() {
    (0..4).for_each(|bombs| discard(Bomb(bombs)));
}
