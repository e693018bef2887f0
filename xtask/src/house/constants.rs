//! Numbers that decide something say which measured primitive they are a multiple of, in a table that is made from the sources.
//!
//! The last line of a constant's comment is `Measure: 13 wakes.`; the forms are in [`MEASURES`]. A constant directly below another shares its
//! measure.

use windrow_records::tools::pattern;
use windrow_sources::{Constant, constants};

use super::RustFile;

pub(super) const FILE: &str = "crates/windrow-plan/CONSTANTS.md";

const CRATES: [&str; 4] =
    ["crates/windrow-observe/src/", "crates/windrow-plan/src/", "crates/windrow-sync/src/", "crates/windrow/src/"];

/// Crates in which a real number in the code may be a threshold.
const DECIDES: [&str; 2] = ["crates/windrow-plan/", "crates/windrow/"];

/// Beginnings of measures: primitives of a machine and quantities of a site with a factor, or what depends on no machine.
const MEASURES: &str = r"^(?:[\d.,^/]+ )?(?:clock|claim|line|nap|wake|item|call|round|batch|segment|region)(?:e?s)?\b|^share of |^count of |^size of |^bits of |^chosen, ";

/// Thresholds of the machine and of structures of thresholds, which state it in their bodies.
const STATED: &str =
    r"(?m)^ +(?:pub fn )?(\w+)(?:\(&self\) -> Nanos \{\s*|: )Nanos\((.*\b(claim|line|nap|wake|slice|enter)\b.*)\),?$";

const HEAD: &str = "# Constants

Generated from the sources by `cargo xtask house --write`. A threshold is a multiple of a primitive that the pool measures (clock, claim, line,
nap, wake: `windrow_plan::machine`) or of what a call site measures (item, call, round, batch). Shares and counts do not depend on the machine.
A chosen value has a reason that is not a property of a machine. Expressions in `windrow-plan` and `windrow` contain no real numbers other than
0, 1, 2 and factors of units; integers in expressions are bits, sizes and steps of algorithms.

";

/// The table, and the complaints about constants without a measure.
pub(super) fn table(files: &[RustFile]) -> (String, Vec<String>) {
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    let is_counted = |path: &str| CRATES.iter().any(|folder| path.starts_with(folder)) && !path.contains("/tests");
    for file in files.iter().filter(|file| is_counted(&file.path)) {
        let short = file.path.replace("crates/", "").replace("/src/", "/");
        let mut row = |name: &str, value: &str, measure: &str| {
            let (is_chosen, value) = (measure.starts_with("chosen"), value.replace('|', "\\|"));
            rows.push((is_chosen, format!("| `{name}` in `{short}` | `{value}` | {measure} |\n")));
        };
        let stated: Vec<_> = pattern(STATED).captures_iter(&file.source.text).collect();
        let is_stated = |at| stated.iter().filter_map(|it| it.get(0)).any(|it| it.range().contains(&at));
        for it in constants(&file.source).into_iter().filter(|it| !is_stated(it.at)) {
            problems.extend(problem(&it, file).map(|why| format!("{}: {why}", file.place(it.at))));
            if !it.name.is_empty() && (it.measure.is_some() || !file.in_protocol()) {
                row(&it.name, &it.value, it.measure.as_deref().unwrap_or("-"));
            }
        }
        stated.iter().for_each(|it| row(&it[1], &it[2], &it[3]));
    }
    rows.sort_by_key(|row| row.0);
    let rows: String = rows.into_iter().map(|row| row.1).collect();
    (format!("{HEAD}| constant | value | measure |\n|---|---|---|\n{rows}"), problems)
}

/// The complaint about a constant. In a crate of protocols, which knows no cost, only times and real numbers need a measure.
fn problem(it: &Constant, file: &RustFile) -> Option<String> {
    let (is_time, is_real) = (matches!(it.ty.as_str(), "Nanos" | "Duration"), it.ty.contains('f'));
    let number = |text: &str| text.replace(['_', ','], "").parse::<f64>().ok();
    let (name, Some(measure)) = (&it.name, &it.measure) else {
        let hint = "hint: end its comment with a line such as `Measure: 13 wakes.` (CONTRIBUTING.md)";
        let needs_measure = is_time || is_real || !file.in_protocol();
        let needs_name = !is_real || DECIDES.iter().any(|folder| file.path.starts_with(folder));
        return match it.name.is_empty() {
            true => {
                needs_name.then(|| format!("{} has no name\n    hint: make it a constant with a measure", it.value))
            }
            false => needs_measure.then(|| format!("{} has no measure\n    {hint}", it.name)),
        };
    };
    let stated = measure.split(' ').next().and_then(number);
    if !pattern(MEASURES).is_match(measure) {
        Some(format!("{name}: {measure:?} is not a known kind of measure"))
    } else if measure == "share of the time run" && !file.path.ends_with("windrow-plan/src/explore.rs") {
        Some(format!("{name}: only windrow_plan::explore may have such a measure"))
    } else if is_time && !measure.starts_with("chosen, ") {
        Some(format!("{name}: a fixed time cannot have the measure {measure:?}"))
    } else if stated.is_some_and(|stated| number(&it.value).is_some_and(|value| value != stated)) {
        Some(format!("{name} is not {measure:?}"))
    } else {
        None
    }
}

#[test]
fn a_constant_has_a_measure() {
    let found = |path: &str, text: &str| table(&[RustFile::new(path, text)]);
    let plan = |text: &str| found("crates/windrow-plan/src/a.rs", text);
    let text = "/// Spins.\n///\n/// Measure: 13 wakes.\nconst A: f64 = 13.0;\nconst B: f64 = 6.5 * 2.0;";
    let (table, problems) = plan(text);
    assert_eq!(problems, Vec::<String>::new());
    assert!(table.contains("| `A` in `windrow-plan/a.rs` | `13.0` | 13 wakes |"), "{table}");
    assert!(table.contains("| `6.5 * 2.0` | 13 wakes |"), "{table}");
    for (text, message) in [
        ("/// Measure: 2 wakes.\nconst B: f64 = 2.0;\n\nconst A: usize = 1;", ":4: A has no measure"),
        ("/// Measure: 13 wakes.\nconst A: f64 = 12.0;", "A is not \"13 wakes\""),
        ("/// Measure: share of the time run.\nconst A: f64 = 0.1;", "only windrow_plan::explore may"),
        ("/// Measure: 13 snoozes.\nconst A: f64 = 1.0;", "\"13 snoozes\" is not a known kind"),
        ("/// Measure: 1 wake.\nconst A: Nanos = Nanos(5.0);", "a fixed time cannot have"),
        ("fn f() { wait(Duration::from_millis(5)) }", "Duration::from_millis(5) has no name"),
        ("fn f() { if a > 1.5 * b { 1e9 } else { 2.0 } }", ":1: 1.5 has no name"),
    ] {
        assert!(plan(text).1.first().is_some_and(|it| it.contains(message)), "{text}: {:?}", plan(text).1);
    }
    let none = "const A: &str = \"1\"; fn f() { Nanos(2.0 * x) }\n    pub fn a(&self) -> Nanos {\n        Nanos(7.0 * self.claim.0)\n    }\n#[cfg(test)] mod tests { const A: f64 = 1.0; }";
    assert_eq!(plan(none).1, Vec::<String>::new());
    // The protocols know no costs.
    let sync = |text| found("crates/windrow-sync/src/a.rs", text).1.len();
    assert_eq!((sync("const A: u32 = 1;"), sync("const A: f64 = 1.0;")), (0, 1));
}
