//! Model of the per-process value: two threads that build at once get one value, complete.

use windrow_sync::fork::PerProcess;

use crate::Watched;

fn build() -> Watched {
    let value = Watched::new(0);
    value.set(7);
    value
}

#[test]
fn racing_builders_agree_on_a_complete_value() {
    loom::model(|| {
        let cell: &'static PerProcess<Watched> = Box::leak(Box::new(PerProcess::new()));
        let look = move || {
            let value = cell.get(build);
            // Loom reports a read that is not ordered after the write in `build`.
            assert_eq!(value.get(), 7);
            std::ptr::from_ref(value) as usize
        };
        let other = loom::thread::spawn(look);
        let mine = look();
        assert_eq!(mine, other.join().unwrap(), "two values in one process");
        assert_eq!(mine, look());
    });
}
