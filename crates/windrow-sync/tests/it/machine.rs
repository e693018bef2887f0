//! Clock, prefetch and affinity.

use std::time::Instant;

#[cfg(all(target_os = "linux", not(miri)))]
use windrow_sync::machine::{Thread, cpu};
use windrow_sync::machine::{prefetch, tick, ticks_per_micro};

#[test]
#[cfg_attr(miri, ignore = "Miri's clock does not run with the machine's")]
fn ticks_advance_at_the_measured_rate() {
    let rate = ticks_per_micro();
    assert!(rate > 0.0);
    let (tick0, time0) = (tick(), Instant::now());
    while time0.elapsed().as_millis() < 20 {
        std::hint::spin_loop();
    }
    let micros = tick().saturating_sub(tick0) as f64 / rate;
    let wall = time0.elapsed().as_nanos() as f64 / 1000.0;
    assert!((micros / wall - 1.0).abs() < 0.05, "{micros} us by ticks, {wall} us by the clock");
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_thread_stays_where_it_is_confined() {
    let child = std::thread::spawn(|| {
        let me = Thread::this();
        let before = me.allowed();
        let &last = before.last().expect("it runs on a CPU");
        me.confine(&[last]);
        assert_eq!((me.allowed(), cpu()), (vec![last], Some(last)));
        me.confine(&[]);
        me.confine(&[u32::MAX]);
        assert_eq!(me.allowed(), [last], "a mask without CPUs has no effect");
        me.confine(&before);
        assert_eq!(me.allowed(), before);
    });
    child.join().unwrap();
}

#[test]
fn prefetch_takes_anything() {
    prefetch(&[0u8; 3]);
    prefetch(&());
}
