//! Other programs that keep the CPUs busy: a cause of wrong measurements.

use std::fs;

/// The mean number of threads that ran or waited for a CPU in the last minute, if the system reports it.
pub(crate) fn load() -> Option<f64> {
    parse(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

/// True if other programs keep the CPUs busy. `own` threads of the load belong to this program.
fn is_busy(load: f64, own: usize, cpus: usize) -> bool {
    load - own as f64 >= cpus as f64
}

/// A warning for measurements that begin now, if other programs keep the CPUs busy.
pub(crate) fn before(load: Option<f64>, cpus: usize) -> Option<String> {
    let load = load.filter(|load| is_busy(*load, 0, cpus))?;
    Some(format!("other programs keep the CPUs busy (load {load:.1}): measurements will be inaccurate"))
}

#[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "for `bench`"))]
/// A warning for measurements by `threads` threads, from the load at their start and end.
pub(crate) fn after(begin: Option<f64>, end: Option<f64>, threads: usize, cpus: usize) -> Option<String> {
    let was_busy = begin.is_some_and(|load| is_busy(load, 0, cpus));
    let still_busy = end.is_some_and(|load| is_busy(load, threads.max(cpus), cpus));
    if !was_busy && !still_busy {
        return None;
    }
    let shown = |load: Option<f64>| load.map_or("unknown".to_owned(), |load| format!("{load:.1}"));
    Some(format!(
        "other programs kept the CPUs busy (load {} before the measurement, {} after it, of which this program caused up to {}): \
         the results are inaccurate; measure again on an idle machine",
        shown(begin),
        shown(end),
        threads.max(cpus),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_if_others_could_use_all_its_cpus() {
        assert_eq!(parse("18.80 14.02 11.35 2/384 12345\n"), Some(18.8));
        assert_eq!(parse(""), None);
        assert_eq!(before(Some(1.9), 2), None);
        assert_eq!(before(None, 2), None);
        let busy = "other programs keep the CPUs busy (load 18.8): measurements will be inaccurate";
        assert_eq!(before(Some(18.8), 2).as_deref(), Some(busy));
    }

    #[test]
    fn the_load_after_a_measurement_is_not_blamed_on_others() {
        // (before, after, threads), on two CPUs.
        for (begin, end, threads) in [(0.1, 2.0, 2), (1.9, 3.9, 2), (0.0, 4.0, 4), (0.0, 2.5, 1)] {
            assert_eq!(after(Some(begin), Some(end), threads, 2), None, "{begin} {end} {threads}");
        }
        for (begin, end, threads) in [(2.0, 2.0, 2), (0.1, 4.0, 2), (0.0, 6.1, 4), (18.8, 20.1, 2)] {
            let note = after(Some(begin), Some(end), threads, 2).expect("busy");
            assert!(note.contains(&format!("(load {begin:.1} before the measurement, {end:.1} after it")), "{note}");
        }
        assert!(after(Some(5.0), None, 2, 2).is_some_and(|note| note.contains("unknown after it")));
        assert_eq!(after(None, None, 2, 2), None);
    }
}
