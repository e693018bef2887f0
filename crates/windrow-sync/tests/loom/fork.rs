//! Model of the per-process value: two threads that build at once get one value, complete.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use windrow_sync::fork::PerProcess;

struct Value(UnsafeCell<usize>);

// SAFETY: loom checks that accesses are ordered.
unsafe impl Sync for Value {}
// SAFETY: a number.
unsafe impl Send for Value {}

fn build() -> Value {
    let value = Value(UnsafeCell::new(0));
    // SAFETY: not shared yet.
    value.0.with_mut(|p| unsafe { *p = 7 });
    value
}

#[test]
fn racing_builders_agree_on_a_complete_value() {
    loom::model(|| {
        let cell: &'static PerProcess<Value> = Box::leak(Box::new(PerProcess::new()));
        let look = move || {
            let value = cell.get(build);
            // SAFETY: loom reports a read that is not ordered after the write in `build`.
            assert_eq!(value.0.with(|p| unsafe { *p }), 7);
            std::ptr::from_ref(value) as usize
        };
        let other = loom::thread::spawn(look);
        let mine = look();
        assert_eq!(mine, other.join().unwrap(), "two values in one process");
        assert_eq!(mine, look());
    });
}
