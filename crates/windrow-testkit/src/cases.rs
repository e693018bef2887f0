//! The number of random cases.

/// Random cases of a property: `usual`, and with `WINDROW_CASES=N` in the environment N times as many.
///
/// # Panics
/// If `WINDROW_CASES` is not a number.
pub fn cases(usual: u32) -> u32 {
    let times = std::env::var("WINDROW_CASES").map_or(1, |times| times.parse().expect("WINDROW_CASES is a number"));
    usual * times
}
