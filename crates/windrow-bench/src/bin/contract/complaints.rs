//! Five measured complaints of commonware-parallel's author about learning by call site: a look-up on every call, cold starts, stale estimates,
//! noise of probes, a duplicated body.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use windrow_bench::measure::compare;
use windrow_testkit::contract::{Loaded, Loop, Pair, full, round};

use crate::median;
use crate::sites::{FRESH, LINE};

/// Notes with bars, and the lines of a record.
pub(crate) fn measure() -> (Vec<String>, Vec<String>) {
    let (mut notes, mut lines) = (Vec::new(), Vec::new());
    let mut add = |complaint: &str, measure: &str, value: f64, bar: Option<f64>| {
        println!("{complaint:16} {measure:60} {value:10.1}");
        lines.push(format!("{complaint},{measure},{value:.1}"));
        notes.extend(bar.map(|bar| {
            let verdict = if value <= bar { "met" } else { "missed" };
            format!("{complaint}: {measure}: {value:.0}, bar <= {bar:.0} {verdict}")
        }));
    };
    add("look-up", "ns of a known call of one item over the loop", looked_up(LINE[1]), Some(20.0));
    let known = full(&[]).into_iter().find(|cell| cell.name == "for_each of 16 x 4").expect("a cell of this name");
    let slowest = known.measure(Duration::from_millis(300))[1].excess();
    add("probe noise", "ns of a known call of 16 items over the loop at q = 0.99", slowest, Some(2e3));
    for (loops, kind) in [(&FRESH[..32], (100, 4)), (&FRESH[32..], (1000, 100))] {
        let times = first_calls(loops, kind);
        for call in [1, 2, 8] {
            let measure = format!("ns of call {call} of a site over the loop of {} x {}", kind.0, kind.1);
            add("cold start", &measure, excess(&times[call - 1]), None);
        }
    }
    for (change, kinds) in [("rises", [(1000, 1), (1000, 100)]), ("falls", [(1000, 100), (1000, 1)])] {
        let (calls, lost) = until_regained(LINE[0], kinds);
        add("stale estimate", &format!("calls until steady after the cost {change}"), calls, Some(128.0));
        add("stale estimate", &format!("ns lost until then after it {change}"), lost, None);
    }
    if let Some([serial, windrow]) = bytes_of_a_site() {
        add("duplicated body", "bytes of code of the loop", serial, None);
        add("duplicated body", "bytes of code of a call site", windrow, None);
    }
    (notes, lines)
}

/// The nanoseconds of a call of one item over the loop, in rows of 1000 calls: the clock is too coarse for one.
fn looked_up((serial, windrow): Pair) -> f64 {
    let row = |call: Loop| {
        move || {
            let mut out = [0];
            (0..1000).for_each(|x| _ = black_box(call)(black_box(&[x]), 4, black_box(&mut out)));
            out
        }
    };
    let (mut serial, mut windrow) = (row(serial), row(windrow));
    let times = compare(&mut [("serial", &mut serial), ("windrow", &mut windrow)], 301);
    (median(&times[1]) - median(&times[0])) / 1e3
}

/// The median of what windrow's call takes longer than the serial one.
fn excess(times: &[[f64; 3]]) -> f64 {
    median(&times.iter().map(|[serial, _, windrow]| windrow - serial).collect::<Vec<_>>())
}

/// The times of calls 1 to 8 of each loop.
fn first_calls(loops: &[Pair], kind: (usize, u64)) -> Vec<Vec<[f64; 3]>> {
    let (mut kind, mut times) = (Loaded::new(kind), vec![Vec::new(); 8]);
    for (at, pair) in loops.iter().enumerate() {
        times.iter_mut().for_each(|times| times.push(round(*pair, &mut kind, Duration::ZERO, at)));
    }
    times
}

/// Calls after a change of the cost until windrow is as fast as it becomes, and the nanoseconds lost until then; medians of 15 changes.
fn until_regained(pair: Pair, kinds: [(usize, u64); 2]) -> (f64, f64) {
    const CALLS: usize = 300;
    let [mut before, mut after] = kinds.map(Loaded::new);
    let mut times = vec![Vec::new(); CALLS];
    for _ in 0..15 {
        for at in 0..CALLS {
            round(pair, &mut before, Duration::ZERO, at);
        }
        for (at, times) in times.iter_mut().enumerate() {
            times.push(round(pair, &mut after, Duration::ZERO, at)[2]);
        }
    }
    let times: Vec<f64> = times.iter().map(|times| median(times)).collect();
    let steady = median(&times[CALLS / 2..]);
    let is_slow = |times: &[f64]| median(times) > steady + f64::max(0.05 * steady, 20.0);
    let calls = times.windows(8).position(|times| !is_slow(times)).unwrap_or(CALLS);
    (calls as f64, times[..calls].iter().fold(0.0, |lost, time| lost + time - steady))
}

/// Bytes of the code that this program has once for each loop, and once for each call site: the symbols that are there as often.
fn bytes_of_a_site() -> Option<[f64; 2]> {
    let sites = LINE.len() + FRESH.len();
    let output = Command::new("nm").args(["-S", "-C"]).arg(std::env::current_exe().ok()?).output().ok()?;
    let mut groups = BTreeMap::<String, (usize, u64)>::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // Address, size, kind, name and hash.
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        let [_, size, "t" | "T", name] = fields[..] else { continue };
        let group = groups.entry(name.rsplit_once("::h").map_or(name, |(name, _)| name).to_owned()).or_default();
        *group = (group.0 + 1, group.1 + u64::from_str_radix(size, 16).ok()?);
    }
    let of = |is_serial: bool| {
        let chosen =
            groups.iter().filter(|(name, (count, _))| *count >= sites && name.contains("serial_site") == is_serial);
        chosen.map(|(_, (count, bytes))| (count / sites) as f64 * *bytes as f64 / *count as f64).sum::<f64>()
    };
    Some([of(true), of(false)])
}
