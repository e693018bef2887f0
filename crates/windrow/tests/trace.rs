//! The file of `WINDROW_TRACE`: its format, and what it says of each kind of call. A separate program, since its children run one test of it.

mod child;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use child::{child, is_child};
use serde_json::Value;
use windrow::batch::{Batched, Chunk};
use windrow::prelude::*;
use windrow::team::split;
use windrow::{Pool, Width};
use windrow_testkit::{Sum, block_on, spin, spin_until};

/// Two items that wait for each other: so two members run them.
fn meet(parts: &AtomicUsize) {
    // Relaxed: a number that orders nothing.
    parts.fetch_add(1, Ordering::Relaxed);
    // Relaxed: as above.
    spin_until(|| parts.load(Ordering::Relaxed) >= 2);
}

/// Calls every shape, from two threads.
fn work() {
    let pool = Pool::new(2);
    let calls = || {
        let met = AtomicUsize::new(0);
        (0..2u32).into_par_iter().for_each(|_| meet(&met)); // loop
        let met = AtomicUsize::new(0);
        windrow::join(|| meet(&met), || meet(&met)); // join
        let inner = |_| (0..4u32).into_par_iter().for_each(|_| spin(1)); // inner
        (0..4u32).into_par_iter().for_each(inner); // outer
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
        windrow::team(&mut data[..]).width(Width::exactly(2)).run(rounds); // team
        let batched = Batched::new(Sum(0));
        batched.call(1).unwrap(); // call
        let mut chunk = Chunk::new();
        chunk.extend(1..=5);
        batched.call_chunk(&mut chunk).unwrap(); // chunk
        block_on(batched.call_async(7)).unwrap(); // async
        let lanes = windrow::overlap::source(0..20u32).compute("odd", |i| Ok::<_, ()>(i | 1));
        lanes.compute_each("next", |i| Ok(i + 1)).collect().unwrap(); // overlap
    };
    pool.install(calls);
    pool.spawn_joinable(|| ()).wait();
    let panics = || (0..3u32).into_par_iter().for_each(|i| assert!(i > 3, "as intended")); // panics
    pool.install(|| catch_unwind(AssertUnwindSafe(panics)).unwrap_err());
    let second = std::thread::Builder::new().name("second \"thread\"".to_owned());
    let call = || (0..10u32).into_par_iter().for_each(|_| spin(1)); // second
    std::thread::scope(|scope| second.spawn_scoped(scope, call).unwrap().join().unwrap());
}

/// The line of this file that ends with a comment.
fn line_of(comment: &str) -> usize {
    child::line_of(include_str!("trace.rs"), comment)
}

/// Runs it with a trace, and returns the folder with its files.
fn traced(name: &str, variables: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf, Output) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let variables = [&[("WINDROW_TRACE", path.to_str().unwrap())], variables].concat();
    let output = child(name, &variables);
    (folder, path, output)
}

/// The lines on stderr about traces.
fn said(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.lines().filter(|line| line.starts_with("windrow: ")).map(|line| format!("{line}\n")).collect()
}

/// A slice of a track, in nanoseconds.
#[derive(Clone, Debug)]
struct Slice {
    begin: u64,
    end: u64,
    category: String,
    name: String,
    args: Value,
    /// The slices around it on its track, the innermost last.
    around: Vec<String>,
}

#[derive(Default)]
struct Trace {
    other: Value,
    /// By name of the track.
    tracks: BTreeMap<String, Vec<Slice>>,
    /// Values by name, in the order of their times.
    counters: BTreeMap<String, Vec<f64>>,
    /// Asynchronous calls.
    asides: Vec<Value>,
}

fn nanos(value: &Value, event: &Value) -> u64 {
    let micros = value.as_f64().filter(|micros| *micros >= 0.0).unwrap_or_else(|| panic!("no time in {event}"));
    (micros * 1000.0).round() as u64
}

/// Checks what the format demands of each event: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
fn check(text: &str) -> Trace {
    let whole: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON: {error}\n{text}"));
    assert!(matches!(whole["displayTimeUnit"].as_str(), Some("ns" | "ms")), "{}", whole["displayTimeUnit"]);
    let mut trace = Trace { other: whole["otherData"].clone(), ..Trace::default() };
    assert!(trace.other.is_object());
    let (mut names, mut slices, mut begun) = (BTreeMap::new(), BTreeMap::<u64, Vec<Slice>>::new(), BTreeMap::new());
    let (mut pids, mut counted) = (BTreeSet::new(), BTreeMap::<String, Vec<(u64, f64)>>::new());
    for event in whole["traceEvents"].as_array().expect("an array of events") {
        let text = |key: &str| event[key].as_str().filter(|text| !text.is_empty());
        let name = text("name").unwrap_or_else(|| panic!("no name: {event}")).to_owned();
        let number = |key: &str| event[key].as_u64().unwrap_or_else(|| panic!("no {key}: {event}"));
        let tid = number("tid");
        pids.insert(number("pid"));
        let args = event["args"].as_object().unwrap_or_else(|| panic!("no args: {event}"));
        match text("ph").unwrap_or_else(|| panic!("no phase: {event}")) {
            "M" => match name.as_str() {
                "process_name" => assert!(args["name"].is_string(), "{event}"),
                "thread_name" => {
                    let before = names.insert(tid, args["name"].as_str().expect("a name").to_owned());
                    assert_eq!(before, None, "{event}");
                }
                "thread_sort_index" => assert!(args["sort_index"].is_u64(), "{event}"),
                _ => panic!("no such metadata: {event}"),
            },
            "X" => {
                let begin = nanos(&event["ts"], event);
                let end = begin + nanos(&event["dur"], event);
                let category = text("cat").unwrap_or_else(|| panic!("no category: {event}")).to_owned();
                let slice = Slice { begin, end, category, name, args: event["args"].clone(), around: Vec::new() };
                slices.entry(tid).or_default().push(slice);
            }
            "C" => {
                let at = nanos(&event["ts"], event);
                // Viewers show a number, the name with it, and the name of the value behind it; they take an event without a later time.
                assert!(event["id"].is_null() && args.len() == 1, "{event}");
                let unit = args.keys().next().expect("one value");
                assert!(["members", "operations", "tiles"].contains(&unit.as_str()), "{event}");
                let value = event["args"][unit].as_f64().unwrap_or_else(|| panic!("{event}"));
                let values = counted.entry(name).or_default();
                assert!(values.last().is_none_or(|(last, _)| *last <= at), "{event}");
                values.push((at, value));
            }
            "b" => {
                let key = (text("cat").map(str::to_owned), local(event), name);
                assert!(key.0.is_some() && key.1.is_some(), "{event}");
                assert_eq!(begun.insert(key, nanos(&event["ts"], event)), None, "{event}");
                trace.asides.push(event.clone());
            }
            "e" => {
                let key = (text("cat").map(str::to_owned), local(event), name);
                let begin = begun.remove(&key).unwrap_or_else(|| panic!("it has not begun: {event}"));
                assert!(begin <= nanos(&event["ts"], event), "{event}");
            }
            _ => panic!("no such phase: {event}"),
        }
    }
    assert!(begun.is_empty(), "not ended: {begun:?}");
    for (name, values) in counted {
        trace.counters.insert(name, values.into_iter().map(|(_, value)| value).collect());
    }
    assert_eq!(pids.len(), 1);
    for (tid, mut track) in slices {
        // Slices of a track nest: each ends before the one around it.
        track.sort_by_key(|slice| (slice.begin, std::cmp::Reverse(slice.end)));
        let mut open: Vec<(u64, String)> = Vec::new();
        for slice in &mut track {
            open.retain(|(end, _)| *end > slice.begin || *end == slice.begin && slice.end == slice.begin);
            if let Some((end, name)) = open.last() {
                assert!(slice.end <= *end, "{slice:?} ends after {name}, at {end}");
            }
            slice.around = open.iter().map(|(_, name)| name.clone()).collect();
            open.push((slice.end, slice.name.clone()));
        }
        let name = names.get(&tid).unwrap_or_else(|| panic!("track {tid} has no name"));
        assert!(trace.tracks.insert(name.clone(), track).is_none(), "two tracks are named {name}");
    }
    trace
}

/// The number of an asynchronous event among those of its process. With `id`, Perfetto would show the call outside the process.
fn local(event: &Value) -> Option<String> {
    assert!(event["id"].is_null(), "{event}");
    event["id2"]["local"].as_str().map(str::to_owned)
}

fn read(path: &Path) -> Trace {
    check(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

impl Trace {
    /// The slices of a category, with their tracks.
    fn of<'t>(&'t self, category: &'t str) -> impl Iterator<Item = (&'t str, &'t Slice)> {
        let slices = self.tracks.iter().flat_map(|(track, slices)| slices.iter().map(|slice| (track.as_str(), slice)));
        slices.filter(move |(_, slice)| slice.category == category)
    }

    /// The slices of a category with this name.
    fn named(&self, category: &str, name: &str) -> Vec<(&str, &Slice)> {
        let found: Vec<_> =
            self.tracks.iter().flat_map(|(track, all)| all.iter().map(|slice| (track.as_str(), slice))).collect();
        let found: Vec<_> =
            found.into_iter().filter(|(_, slice)| slice.category == category && slice.name == name).collect();
        assert!(!found.is_empty(), "no {category} {name:?} in {:#?}", self.tracks);
        found
    }
}

/// The name of a call: its kind and where it was made.
fn call(kind: &str, comment: &str) -> String {
    format!("{kind} trace.rs:{}", line_of(comment))
}

#[test]
fn every_shape_is_in_the_trace() {
    if is_child() {
        return work();
    }
    let (_folder, path, output) = traced("every_shape_is_in_the_trace", &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(said(&output), "");
    let trace = read(&path);
    assert_eq!(trace.other["dropped_events"], 0);

    for (kind, comment, items) in [
        ("loop", "loop", 2),
        ("join", "join", 0),
        ("loop", "outer", 4),
        ("sort", "sort", 50_000),
        ("team", "team", 0),
        ("batch", "call", 1),
        ("batch", "chunk", 5),
        ("overlap", "overlap", 20),
    ] {
        let [(track, slice)] = trace.named("call", &call(kind, comment))[..] else { panic!("{comment} was one call") };
        // The thread of the test in the child.
        assert_eq!(track, "every_shape_is_in_the_trace");
        let args = &slice.args;
        assert_eq!(args["items"], items, "{slice:?}");
        assert_eq!(args["place"], format!("{}:{}", file!(), line_of(comment)));
        assert_eq!(args["kind"], kind);
        assert!(args["threads"].is_u64() && args["took_us"].is_f64(), "{slice:?}");
        // A batched structure gives its verdict to the report alone.
        assert!(args["decision"].is_string() || kind == "batch", "{slice:?}");
    }
    // Two items that waited for each other were shared.
    let [(_, shared)] = trace.named("call", &call("loop", "loop"))[..] else { panic!("one call") };
    assert!(shared.args["predicted_us"].is_f64() && shared.args["serial_us"].is_f64(), "{shared:?}");

    // What each member did.
    let parts = trace.named("part", &format!("part of {}", call("loop", "loop")));
    assert_eq!(parts.iter().map(|(track, _)| *track).collect::<BTreeSet<_>>().len(), 2, "{parts:?}");
    assert!(parts.iter().any(|(track, _)| *track == "windrow-1"), "{parts:?}");
    assert!(parts.iter().any(|(_, part)| part.args["claims"].as_u64() > Some(0)), "{parts:?}");
    for (track, part) in &parts {
        assert_eq!(part.around.is_empty(), *track == "windrow-1", "{part:?}");
    }
    for (kind, comment) in [("join", "join"), ("team", "team")] {
        let parts = trace.named("part", &format!("part of {}", call(kind, comment)));
        assert!(parts.iter().any(|(track, _)| *track == "windrow-1"), "{parts:?}");
    }

    // Calls inside a call are slices inside its slice, or of the part of another member.
    let inner = trace.named("call", &call("loop", "inner"));
    assert_eq!(inner.len(), 4);
    for (_, slice) in inner {
        assert!(slice.around.iter().any(|name| name.ends_with(&call("loop", "outer"))), "{slice:?}");
    }

    // Rounds and batches, with their counters.
    let rounds = trace.named("rounds", "100 rounds");
    assert_eq!(rounds.iter().map(|(_, slice)| slice.args["member"].as_u64()).collect::<BTreeSet<_>>().len(), 2);
    let widths = &trace.counters[&format!("round width of trace.rs:{}", line_of("team"))];
    assert!(widths.iter().any(|width| [1.0, 2.0].contains(width)) && widths.last() == Some(&0.0), "{widths:?}");
    let [(_, batch)] = trace.named("batch", "batch of 5")[..] else { panic!("one batch of five") };
    assert!(batch.around.contains(&call("batch", "chunk")), "{batch:?}");
    assert!(batch.args["structure"].as_str().is_some_and(|name| name.ends_with("::Sum")), "{batch:?}");
    assert_eq!(trace.counters["batch size of Sum"], [5.0, 0.0, 1.0, 0.0]);
    assert_eq!(trace.counters["queue depth of Sum"], [0.0, 0.0]);
    let aside = trace.asides.iter().find(|event| event["name"] == call("batch", "async").as_str());
    assert_eq!(aside.expect("a future is no slice")["args"]["items"], 1);

    // Tiles by lane, and the queue between the lanes.
    for lane in ["odd", "next"] {
        let tiles: Vec<_> = trace.of("tile").filter(|(_, slice)| slice.args["lane"] == lane).collect();
        assert_eq!(tiles.len(), 20, "{tiles:?}");
        assert!(tiles.iter().all(|(track, _)| track.starts_with(&format!("lane {lane} of trace.rs:"))), "{tiles:?}");
        assert!(tiles.iter().all(|(_, slice)| slice.args["empty_us"].is_f64() && slice.args["full_us"].is_f64()));
    }
    let depths = &trace.counters[&format!("queue before next of trace.rs:{}", line_of("overlap"))];
    assert_eq!((depths.len(), depths.last()), (40, Some(&0.0)), "{depths:?}");

    // A panic, a spawned closure, another thread.
    let [(_, panicked)] = trace.named("call", &call("loop", "panics"))[..] else { panic!("one call") };
    assert_eq!(panicked.args["panicked"], true);
    assert_eq!(trace.of("call").filter(|(_, slice)| slice.args["panicked"] == true).count(), 1);
    assert_eq!(trace.named("spawn", "spawned closure").len(), 1);
    assert_eq!(trace.named("call", &call("loop", "second"))[0].0, "second \"thread\"");
}

#[test]
fn claims_are_slices_if_asked_for() {
    if is_child() {
        return work();
    }
    let name = "claims_are_slices_if_asked_for";
    let (_folder, path, output) = traced(name, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&path).of("claim").count(), 0);
    let (_folder, path, output) = traced(name, &[("WINDROW_TRACE_CLAIMS", "1")]);
    assert!(output.status.success(), "{output:?}");
    let trace = read(&path);
    let mut some = 0;
    for (track, part) in trace.of("part").filter(|(_, part)| part.args["claims"].is_u64()) {
        let is_inside = |claim: &Slice| {
            claim.category == "claim"
                && claim.begin >= part.begin
                && claim.end <= part.end
                && claim.around.last() == Some(&part.name)
        };
        let claims: Vec<_> = trace.tracks[track].iter().filter(|slice| is_inside(slice)).collect();
        assert_eq!(Some(claims.len() as u64), part.args["claims"].as_u64(), "{part:?}");
        let items: u64 = claims.iter().map(|claim| claim.args["items"].as_u64().unwrap()).sum();
        assert_eq!(Some(items), part.args["items"].as_u64(), "{part:?}");
        some += 1;
    }
    assert!(some > 0);
}

#[test]
fn without_the_variable_nothing_is_written() {
    if is_child() {
        std::env::set_current_dir(std::env::var_os("FOLDER").unwrap()).unwrap();
        return work();
    }
    let folder = tempfile::tempdir().unwrap();
    let place = ("FOLDER", folder.path().to_str().unwrap());
    for variables in [&[place][..], &[place, ("WINDROW_TRACE", "")], &[place, ("WINDROW_TRACE", "0")]] {
        let output = child("without_the_variable_nothing_is_written", variables);
        assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_one_line_and_changes_no_exit_code() {
    if is_child() {
        (0..10u32).into_par_iter().for_each(|_| spin(1));
        std::process::exit(7);
    }
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing/trace.json");
    for path in [missing.as_path(), folder.path()] {
        let name = "a_file_that_cannot_be_written_is_one_line_and_changes_no_exit_code";
        let output = child(name, &[("WINDROW_TRACE", path.to_str().unwrap())]);
        assert_eq!(output.status.code(), Some(7));
        let said = said(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with(&format!("windrow: WINDROW_TRACE: {}: ", path.display())), "{said}");
        assert!(said.ends_with("hint: specify a file in a writable folder\n"), "{said}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_full_buffer_drops_the_oldest_events_and_says_so() {
    const CALLS: u64 = 70_000;
    if is_child() {
        for _ in 0..CALLS {
            (0..1u32).into_par_iter().for_each(|one| assert!(one < 4)); // many
        }
        return;
    }
    let (_folder, path, output) = traced("a_full_buffer_drops_the_oldest_events_and_says_so", &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = read(&path);
    let kept = trace.named("call", &call("loop", "many")).len() as u64;
    assert!(kept <= 1 << 16, "{kept}");
    assert_eq!(trace.other["dropped_events"], CALLS - kept);
    let said = said(&output);
    assert!(said.contains("the oldest 4,464 events were dropped; at most 65,536 are kept per thread"), "{said}");
    // The last call is among them.
    let (length, last) = (nanos(&trace.other["length_us"], &trace.other), trace.of("call").last().unwrap().1.end);
    assert!(last * 2 > length, "{last} of {length}");
}

#[test]
fn many_short_threads_are_all_in_the_trace() {
    const THREADS: usize = 3_000;
    if is_child() {
        for _ in 0..THREADS {
            let call = || (0..1u32).into_par_iter().for_each(|one| assert!(one < 4)); // short
            std::thread::scope(|scope| scope.spawn(call).join().unwrap());
        }
        return;
    }
    let (_folder, path, output) = traced("many_short_threads_are_all_in_the_trace", &[]);
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
    let trace = read(&path);
    // Each had its turn after the one before, on one track.
    assert_eq!(trace.named("call", &call("loop", "short")).len(), THREADS);
    let tracks: BTreeSet<&str> = trace.of("call").map(|(track, _)| track).collect();
    assert_eq!(tracks, BTreeSet::from(["unnamed"]));
}

/// Also counters of several structures of one type.
#[test]
fn what_happens_at_once_is_on_separate_tracks() {
    const THREADS: usize = 3;
    if is_child() {
        let inside = AtomicUsize::new(0);
        let item = |_| {
            // Relaxed: a number that orders nothing.
            inside.fetch_add(1, Ordering::Relaxed);
            // Relaxed: as above.
            spin_until(|| inside.load(Ordering::Relaxed) == THREADS);
            let batched = Batched::new(Sum(0));
            let mut chunk = Chunk::new();
            chunk.extend(1..=5);
            batched.call_chunk(&mut chunk).unwrap();
            batched
        };
        let call = || (0..1u32).into_par_iter().map(item).collect::<Vec<_>>(); // meeting
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(call)).collect();
            // All structures live until the last one is made, so no two have the same address.
            let structures: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            drop(structures);
        });
        return;
    }
    let (_folder, path, output) = traced("what_happens_at_once_is_on_separate_tracks", &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = read(&path);
    let tracks: BTreeSet<&str> =
        trace.named("call", &call("loop", "meeting")).iter().map(|(track, _)| *track).collect();
    assert_eq!(tracks, BTreeSet::from(["unnamed", "unnamed (2)", "unnamed (3)"]));
    let sizes: Vec<&String> = trace.counters.keys().filter(|name| name.starts_with("batch size")).collect();
    assert_eq!(sizes, ["batch size of Sum", "batch size of Sum (2)", "batch size of Sum (3)"]);
    assert!(trace.counters.values().all(|values| values.len() <= 2), "{:?}", trace.counters);
}

#[test]
fn an_aborted_program_leaves_no_file() {
    if is_child() {
        (0..10u32).into_par_iter().for_each(|_| spin(1));
        std::process::abort();
    }
    let (folder, _, output) = traced("an_aborted_program_leaves_no_file", &[]);
    assert!(!output.status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_call_that_the_exit_cuts_off_is_in_the_trace() {
    if is_child() {
        let exit = |_| std::process::exit(0);
        (0..2u32).into_par_iter().for_each(exit); // cut
    }
    let (_folder, path, output) = traced("a_call_that_the_exit_cuts_off_is_in_the_trace", &[]);
    assert!(output.status.success(), "{output:?}");
    let trace = read(&path);
    assert_eq!(trace.named("call", &call("loop", "cut"))[0].1.args["unfinished"], true);
}

#[test]
fn a_file_of_another_process_is_kept() {
    if is_child() {
        (0..10u32).into_par_iter().for_each(|_| spin(1));
        let (path, now) = (std::env::var_os("WINDROW_TRACE").unwrap(), SystemTime::now());
        // The clock of files may lag.
        loop {
            fs::write(&path, "another").unwrap();
            if fs::metadata(&path).unwrap().modified().unwrap() > now {
                return;
            }
        }
    }
    let (folder, path, output) = traced("a_file_of_another_process_is_kept", &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    let [ours] = &files.iter().filter(|file| **file != path).collect::<Vec<_>>()[..] else { panic!("{files:?}") };
    assert!(ours.to_str().unwrap().starts_with(&format!("{}.", path.display())), "{files:?}");
    assert!(!read(ours).tracks.is_empty());
}

#[test]
fn an_older_file_is_replaced() {
    if is_child() {
        return (0..10u32).into_par_iter().for_each(|_| spin(1));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, "older").unwrap();
    let past = SystemTime::UNIX_EPOCH;
    fs::File::options().write(true).open(&path).unwrap().set_modified(past).unwrap();
    let output = child("an_older_file_is_replaced", &[("WINDROW_TRACE", path.to_str().unwrap())]);
    assert!(output.status.success(), "{output:?}");
    assert!(!read(&path).tracks.is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A pipe is not replaced by a file.
#[cfg(target_os = "linux")]
#[test]
fn a_pipe_is_written_directly() {
    if is_child() {
        return (0..10u32).into_par_iter().for_each(|_| spin(1));
    }
    let output = child("a_pipe_is_written_directly", &[("WINDROW_TRACE", "/dev/stdout")]);
    assert!(output.status.success(), "{output:?}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let begin = stdout.find("{\"displayTimeUnit\"").unwrap_or_else(|| panic!("{stdout}"));
    assert!(!check(&stdout[begin..]).tracks.is_empty());
}

/// A child has its own calls, and inherits what its parent had registered.
#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn a_forked_child_writes_its_own_file() {
    if is_child() {
        (0..10u32).into_par_iter().for_each(|_| spin(1)); // parent
        windrow_testkit::forked(|| {
            (0..20u32).into_par_iter().for_each(|_| spin(1)); // forked
            std::process::exit(0)
        });
        return;
    }
    let (folder, path, output) = traced("a_forked_child_writes_its_own_file", &[]);
    assert!(output.status.success(), "{output:?}");
    let calls = |path: &Path| read(path).of("call").map(|(_, slice)| slice.name.clone()).collect::<Vec<_>>();
    assert_eq!(calls(&path), [call("loop", "parent")]);
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    let [other] = &files.iter().filter(|file| **file != path).collect::<Vec<_>>()[..] else { panic!("{files:?}") };
    let number = other.to_str().unwrap().strip_prefix(&format!("{}.", path.display())).map(str::parse::<u32>);
    assert!(matches!(number, Some(Ok(_))), "{other:?}");
    assert_eq!(calls(other), [call("loop", "forked")]);
}
