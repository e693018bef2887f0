//! The table that a program which depends on `windrow` alone prints at its end with `WINDROW_EXPLAIN`. A separate program, since its children
//! run one test of it.

mod child;

use std::fs;

use child::is_child;
use windrow::Pool;
use windrow::batch::Batched;
use windrow::prelude::*;
use windrow::team::split;
use windrow_testkit::{Sum, spin};

/// Calls every shape, some of them often and briefly.
fn work() {
    let pool = Pool::new(2);
    pool.install(|| {
        for _ in 0..20 {
            (0..1_000u32).into_par_iter().for_each(|_| spin(1)); // loop
        }
        for _ in 0..20_000 {
            (0..4u32).into_par_iter().for_each(|one| assert!(one < 4)); // short loop
        }
        windrow::join(|| spin(50), || spin(50)); // join
        let mut numbers: Vec<u64> = (0..50_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        numbers.par_sort(); // sort
        let mut data = [0u32; 64];
        let rounds = |member: &mut windrow::team::Member<'_, '_, [u32]>| {
            let done = member.rounds::<(), &mut [u32]>(
                0..100,
                |data, _, deal| deal.parts(split::even(data, deal.width())),
                |_, (), part| part.iter_mut().for_each(|one| *one += 1),
            );
            done.expect("no member leaves early");
        };
        windrow::team(&mut data[..]).run(rounds); // team
        let batched = Batched::new(Sum(0));
        for _ in 0..200_000 {
            batched.call(1).unwrap(); // batch
        }
        windrow::overlap::source(0..20u32).compute("odd", |i| Ok::<_, ()>(i | 1)).collect().unwrap(); // overlap
    });
}

/// The line of this file that ends with a comment.
fn line_of(comment: &str) -> usize {
    child::line_of(include_str!("report.rs"), comment)
}

/// Runs the test of this name in a child with the variable, and returns what it writes.
fn child(name: &str, value: &str) -> String {
    let output = child::child(name, &[("WINDROW_EXPLAIN", value)]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_place_is_in_the_report() {
    if is_child() {
        return work();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    let said = child("every_place_is_in_the_report", path.to_str().unwrap());
    assert!(!said.contains("windrow:"), "{said}");
    let report = fs::read_to_string(&path).unwrap();
    let row = |comment: &str, kind: &str| -> Vec<String> {
        let place = format!("{}:{} ", file!(), line_of(comment));
        let found = report.lines().find(|line| {
            line.split_whitespace().next() == Some(place.trim()) && line.split_whitespace().nth(1) == Some(kind)
        });
        let line = found.unwrap_or_else(|| panic!("no {kind} at {place} in\n{report}"));
        line.split_whitespace().skip(2).map(str::to_owned).collect()
    };
    for (comment, kind, calls) in [
        ("loop", "loop", "20"),
        ("join", "join", "1"),
        ("sort", "sort", "1"),
        ("team", "team", "1"),
        ("overlap", "overlap", "1"),
    ] {
        assert_eq!(row(comment, kind)[0], calls, "{report}");
    }
    assert_eq!(row("loop", "loop")[1], "20,000", "{report}");
    assert_eq!(row("team", "rounds")[1], "100", "{report}");
    // Sampled: 20,000 and 200,000 calls.
    for (comment, kind, calls) in [("short loop", "loop", 20_000.0), ("batch", "batch", 200_000.0)] {
        let text = &row(comment, kind)[0];
        let count: f64 = text.trim_start_matches('~').replace(',', "").parse().unwrap();
        assert!(text.starts_with('~'), "{report}");
        assert!(count > calls / 4.0 && count < calls * 4.0, "{report}");
    }
}

#[test]
fn one_prints_on_stderr_and_nothing_means_silence() {
    if is_child() {
        return (0..10u32).into_par_iter().for_each(|_| spin(1));
    }
    let name = "one_prints_on_stderr_and_nothing_means_silence";
    let said = child(name, "1");
    assert!(said.contains("windrow: 1 place, "), "{said}");
    for value in ["", "0"] {
        assert!(!child(name, value).contains("windrow:"));
    }
}

/// A child has its own calls, and inherits what its parent had registered.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_forked_child_reports_its_own_calls() {
    if is_child() {
        (0..10u32).into_par_iter().for_each(|_| spin(1)); // parent
        windrow_testkit::forked(|| {
            (0..20u32).into_par_iter().for_each(|_| spin(1)); // forked
            std::process::exit(0)
        });
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    child("a_forked_child_reports_its_own_calls", path.to_str().unwrap());
    let report = fs::read_to_string(&path).unwrap();
    let places: Vec<_> =
        report.lines().filter_map(|line| line.strip_prefix(file!())?.split_whitespace().next()).collect();
    let line = |comment| format!(":{}", line_of(comment));
    assert_eq!(places, [line("forked"), line("parent")], "{report}");
}
