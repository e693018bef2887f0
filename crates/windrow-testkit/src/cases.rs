//! The number of random cases, and the steps of sweeps.

/// Random cases of a property: `usual`, and with `WINDROW_CASES=N` in the environment N times as many.
///
/// # Panics
/// If `WINDROW_CASES` is not a number.
pub fn cases(usual: u32) -> u32 {
    let times = std::env::var("WINDROW_CASES").map_or(1, |times| times.parse().expect("WINDROW_CASES is a number"));
    usual * times
}

/// The step of a sweep: `usual`, and with `WINDROW_CASES=N` an N-th of it, so that N times as many places are tried, or all.
///
/// # Panics
/// If `WINDROW_CASES` is not a number.
pub fn step(usual: usize) -> usize {
    usual.div_ceil(cases(1).max(1) as usize)
}
