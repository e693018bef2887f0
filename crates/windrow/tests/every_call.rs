//! Every function of windrow that runs something is in the report of `WINDROW_EXPLAIN`: with its line, its kind and the number of its calls.
//!
//! Lines end with what the report must say of them: `// loop`; `// 3 loop`, three calls; `// team, rounds of 10`, two rows, one with ten items;
//! `// with async-team: team`, a row if the crate has that feature.

mod child;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;

use child::{child, is_child, line_of};
use windrow::batch::{Batched, Chunk, Overflow, Runner};
use windrow::iter::{once, split, walk_tree};
use windrow::prelude::*;
#[cfg(feature = "async-team")]
use windrow::spawn_joinable;
use windrow::team::Member;
#[cfg(feature = "async-team")]
use windrow::team::{AsyncMember, AsyncTeam};
use windrow::{CancelToken, Pool, Width, overlap, team};
use windrow_testkit::{Sum, block_on, spin};

/// Each consumer of parallel iterators.
#[rustfmt::skip]
fn iterators() {
    let numbers: Vec<u32> = (0..1_000).collect();
    let ones = || numbers.par_iter().map(|number| number % 7);
    ones().for_each(drop); // loop of 1,000
    ones().for_each_with(0, |sum, one| *sum += one); // loop
    ones().for_each_init(|| 0, |sum, one| *sum += one); // loop
    ones().try_for_each(|one| if one < 7 { Ok(()) } else { Err(one) }).unwrap(); // loop
    ones().try_for_each_with(0, |_, one| if one < 7 { Ok(()) } else { Err(one) }).unwrap(); // loop
    ones().try_for_each_init(|| 0, |_, one| if one < 7 { Ok(()) } else { Err(one) }).unwrap(); // loop
    assert_eq!(ones().collect::<Vec<_>>().len(), 1_000); // loop
    assert_eq!(ones().filter(|one| *one > 2).collect::<Vec<_>>().len(), 571); // loop
    assert_eq!(ones().collect::<HashSet<_>>().len(), 7); // loop
    assert_eq!(ones().collect::<BTreeSet<_>>().len(), 7); // loop
    assert_eq!(ones().collect::<VecDeque<_>>().len(), 1_000); // loop
    assert_eq!(ones().collect::<LinkedList<_>>().len(), 1_000); // loop
    assert_eq!(ones().collect::<Box<[_]>>().len(), 1_000); // loop
    assert_eq!(ones().map(|one| (one, one)).collect::<HashMap<_, _>>().len(), 7); // loop
    assert_eq!(ones().map(|one| (one, one)).collect::<BTreeMap<_, _>>().len(), 7); // loop
    assert_eq!(ones().map(|_| 'c').collect::<String>().len(), 1_000); // loop
    ones().map(|_| ()).collect::<()>(); // loop
    assert_eq!(ones().map(Some).collect::<Option<Vec<_>>>().unwrap().len(), 1_000); // loop
    assert_eq!(ones().map(Ok::<_, ()>).collect::<Result<Vec<_>, _>>().unwrap().len(), 1_000); // loop
    assert_eq!(ones().map(|one| (one, one)).collect::<(Vec<_>, HashSet<_>)>().1.len(), 7); // loop
    assert_eq!(Vec::from_par_iter(ones()).len(), 1_000); // loop
    assert_eq!(ones().collect_vec_list().iter().map(Vec::len).sum::<usize>(), 1_000); // loop
    assert_eq!(ones().map(|one| (one, one)).unzip::<_, _, Vec<_>, Vec<_>>().0.len(), 1_000); // loop
    assert_eq!(ones().partition::<Vec<_>, Vec<_>, _>(|one| *one > 2).0.len(), 571); // loop
    assert_eq!(ones().partition_map::<Vec<_>, Vec<_>, _, _, _>(either::Either::<u32, u32>::Left).0.len(), 1_000); // loop
    assert_eq!(ones().reduce(|| 0, u32::max), 6); // loop
    assert_eq!(ones().reduce_with(u32::max), Some(6)); // loop
    assert_eq!(ones().map(Some).try_reduce(|| 0, |a, b| Some(a.max(b))), Some(6)); // loop
    assert_eq!(ones().map(Some).try_reduce_with(|a, b| Some(a.max(b))), Some(Some(6))); // loop
    assert_eq!(ones().fold(|| 0, |sum, one| sum + one).sum::<u32>(), 2_997); // loop
    assert_eq!(ones().sum::<u32>(), 2_997); // loop
    assert_eq!(ones().map(|_| 1).product::<u32>(), 1); // loop
    assert_eq!(ones().count(), 1_000); // loop
    assert_eq!(ones().min(), Some(0)); // loop
    assert_eq!(ones().min_by(u32::cmp), Some(0)); // loop
    assert_eq!(ones().min_by_key(|one| *one), Some(0)); // loop
    assert_eq!(ones().max(), Some(6)); // loop
    assert_eq!(ones().max_by(u32::cmp), Some(6)); // loop
    assert_eq!(ones().max_by_key(|one| *one), Some(6)); // loop
    assert!(ones().any(|one| one == 6)); // loop
    assert!(ones().all(|one| one < 7)); // loop
    assert_eq!(ones().find_any(|one| *one == 6), Some(6)); // loop
    assert_eq!(ones().find_first(|one| *one == 6), Some(6)); // loop
    assert_eq!(ones().find_last(|one| *one == 6), Some(6)); // loop
    assert_eq!(ones().find_map_any(|one| (one == 6).then_some(one)), Some(6)); // loop
    assert_eq!(ones().find_map_first(|one| (one == 6).then_some(one)), Some(6)); // loop
    assert_eq!(ones().find_map_last(|one| (one == 6).then_some(one)), Some(6)); // loop
    assert!(ones().position_any(|one| one == 6).is_some()); // loop
    assert_eq!(ones().position_first(|one| one == 6), Some(6)); // loop
    assert_eq!(ones().position_last(|one| one == 6), Some(993)); // loop
    assert!(ones().cmp(ones()).is_eq()); // loop
    assert!(ones().partial_cmp(ones()).unwrap().is_eq()); // loop
    assert!(ones().eq(ones())); // loop
    assert!(!ones().ne(ones())); // loop
    assert!(!ones().lt(ones())); // loop
    assert!(ones().le(ones())); // loop
    assert!(!ones().gt(ones())); // loop
    assert!(ones().ge(ones())); // loop
    let (mut left, mut right) = (Vec::new(), Vec::new());
    ones().collect_into_vec(&mut left); // loop
    ones().map(|one| (one, one)).unzip_into_vecs(&mut left, &mut right); // loop
    left.par_extend(ones()); // loop
    (left, right).par_extend(ones().map(|one| (one, one))); // loop
    assert_eq!(ones().inclusive_scan(|a, b| a + b, 0).last(), Some(&2_997)); // loop of 1,000
    assert_eq!(ones().exclusive_scan(|a, b| a + b, 0).first(), Some(&0)); // loop
    let mut sums = numbers.clone();
    sums.par_inclusive_scan(|a, b| a.wrapping_add(*b), 0); // loop
    sums.par_exclusive_scan(|a, b| a.wrapping_add(*b), 0); // loop
    let token = CancelToken::new();
    ones().with_cancel(&token).for_each(drop).unwrap(); // loop
    assert_eq!(ones().with_cancel(&token).run(|ones| ones.max()).unwrap(), Some(6)); // loop
    assert!(ones().with_cancel(&token).all(|one| one < 7).unwrap()); // loop
    assert_eq!((0..50u32).par_map_ordered(4, |one| one).collect::<Vec<_>>().len(), 50); // overlap
    (0..50u32).par_map_ordered(4, |one| one).for_each(drop); // overlap
    (0..50u32).par_map_ordered(4, |one| one).try_for_each(|_| Ok::<_, ()>(())).unwrap(); // overlap
    assert_eq!(numbers.iter().par_bridge().count(), 1_000); // loop
    assert_eq!(split(0..100u32, |range| (range, None)).count(), 1); // loop
    assert_eq!(walk_tree(3u32, |&depth| vec![depth.wrapping_sub(1); depth as usize]).count(), 16); // loop
    assert_eq!(numbers.par_chunks(10).map(<[_]>::len).sum::<usize>(), 1_000); // loop
    assert_eq!("a b c".par_split(' ').count(), 3); // loop
    once(1).for_each(drop); // loop of 1
    Vec::<u32>::new().into_par_iter().for_each(drop); // loop
    (0..1_000u32).into_par_iter().with_claim_size(10).for_each(drop); // loop
    ones().flat_map(|one| (0..one).into_par_iter()).for_each(drop); // loop
    for _ in 0..3 { (0..1u32).into_par_iter().for_each(|_| spin(400)); } // 3 loop of 3
}

#[rustfmt::skip]
fn sorts() {
    let mixed = || (0..1_000u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect::<Vec<_>>();
    mixed().par_sort(); // sort of 1,000
    mixed().par_sort_by(u32::cmp); // sort
    mixed().par_sort_by_key(|one| *one); // sort
    mixed().par_sort_by_cached_key(|one| *one); // sort of 1,000
    mixed().par_sort_unstable(); // sort
    mixed().par_sort_unstable_by(u32::cmp); // sort
    mixed().par_sort_unstable_by_key(|one| *one); // sort
    [3, 1, 2].par_sort(); // sort
    [0u8; 0].par_sort(); // sort
}

#[rustfmt::skip]
fn recursions() {
    windrow::join(|| (), || ()); // join
    windrow::scope(|scope| { // join
        scope.spawn(|scope| { // spawn
            scope.spawn(|_| ()); // spawn
            windrow::scope(|_| ()); // join
            [2, 1].par_sort(); // sort of 2
            (0..10).into_par_iter().for_each(drop); // loop of 10
        });
        scope.spawn_joinable(|_| 1).join().unwrap(); // spawn
    });
    windrow::join(|| { windrow::join(|| (), || ()); }, || ()); // join
    windrow::join( // join
        || windrow::join(|| [2, 1].par_sort(), || (0..9).into_par_iter().for_each(drop)), // sort of 2, loop of 9
        || (0..3).for_each(|_| _ = windrow::join(|| (), || ())),
    );
    let fails = || windrow::join(|| resume_unwind(Box::new(())), || ());
    catch_unwind(AssertUnwindSafe(|| windrow::join(fails, || ()))).unwrap_err(); // join
    walk(6);
    let (done, ended) = channel();
    let sender = done.clone();
    windrow::spawn(move || sender.send(()).unwrap()); // spawn
    assert_eq!(windrow::spawn_joinable(|| 1).wait(), 1); // spawn
    let pool = Pool::new(2);
    pool.spawn(move || done.send(()).unwrap()); // spawn
    assert_eq!(pool.spawn_joinable(|| 1).wait(), 1); // spawn
    assert_eq!(ended.iter().count(), 2);
}

/// A recursion.
#[rustfmt::skip]
fn walk(depth: u32) {
    if depth > 0 {
        windrow::join(|| walk(depth - 1), || walk(depth - 1)); // join
    }
}

type Ones = [u32];

/// Ten rounds, each with the members that pay.
fn ten(member: &mut Member<'_, '_, Ones>) {
    member.rounds::<(), ()>(0..10, |_, _, deal| deal.none(), |_, (), ()| ()).expect("no member leaves early");
}

/// Three rounds with all members.
fn three(member: &mut Member<'_, '_, Ones>) {
    member.barrier().expect("no member leaves early");
    member.round::<(), ()>(|_, deal| deal.none()).expect("no member leaves early");
    member.reduce(1, |a, b| a + b).expect("no member leaves early");
}

#[cfg(feature = "async-team")]
async fn rounds_of_tasks(mut member: AsyncMember<Vec<u32>>) {
    member.barrier().await.expect("no member leaves early");
    let ten = member.rounds::<(), ()>(0..10, |_, _, deal| deal.none(), |_, (), ()| ());
    ten.await.expect("no member leaves early");
    member.reduce(1, |a, b| a + b).await.expect("no member leaves early");
}

#[rustfmt::skip]
fn teams() {
    let mut data = [0; 8];
    team(&mut data[..]).run(ten); // team, rounds of 10
    team(&mut data[..]).run(|member| { ten(member); three(member); ten(member) }); // team, rounds of 23
    team(&mut data[..]).run(three); // team, rounds of 3
    team(&mut data[..]).run(|_| ()); // team
    team(&mut data[..]).width(Width::at_most(1)).run(ten); // team, rounds of 10
    team(&mut data[..]).width(Width::exactly(1)).try_run(three).unwrap(); // team, rounds of 3
    team(&mut data[..]).width(Width::exactly(100)).try_run(ten).unwrap_err(); // team
}

#[cfg(feature = "async-team")]
#[rustfmt::skip]
fn teams_of_tasks() {
    let (one, mut members) = AsyncTeam::new(vec![0; 8], 1); // with async-team: team, rounds of 12
    block_on(rounds_of_tasks(members.pop().unwrap()));
    block_on(one.finish());
    let (two, mut members) = AsyncTeam::new(vec![0; 8], 2); // with async-team: team, rounds of 12
    let (first, second) = (members.pop().unwrap(), members.pop().unwrap());
    let task = spawn_joinable(|| block_on(rounds_of_tasks(first))); // with async-team: spawn
    block_on(rounds_of_tasks(second));
    task.wait();
    block_on(two.finish());
    let (left, mut members) = AsyncTeam::new(vec![0; 8], 1); // with async-team: team, rounds of 12
    drop(left);
    block_on(rounds_of_tasks(members.pop().unwrap()));
}

#[rustfmt::skip]
fn batches() {
    let batched = Batched::new(Sum(0));
    batched.call(1).unwrap(); // batch of 1
    block_on(batched.call_async(2)).unwrap(); // batch of 1
    let mut chunk = Chunk::new();
    chunk.extend(1..=5);
    batched.call_chunk(&mut chunk).unwrap(); // batch of 5
    batched.exclusive(|sum| sum.0 += 1).unwrap(); // batch
    assert_eq!(batched.read(|sum| sum.0).unwrap(), 19); // batch
    let bounded = Batched::builder().queue(4, Overflow::Block).build_on(Runner::thread(|| Sum(0))).unwrap();
    bounded.call(1).unwrap(); // batch of 1
    block_on(bounded.call_async(1)).unwrap(); // batch of 1
    batched.close().unwrap();
    batched.call(1).unwrap_err(); // batch of 1
}

#[rustfmt::skip]
fn overlaps() {
    let tiles = || overlap::source(0..20u32).compute("odd", |i| Ok::<_, ()>(i | 1));
    assert_eq!(tiles().collect().unwrap().len(), 20); // overlap of 20
    assert_eq!(tiles().compute("end", |_| Ok(())).run().unwrap(), 20); // overlap of 20
    assert_eq!(tiles().blocking("next", |i| Ok(i + 1)).collect().unwrap().len(), 20); // overlap of 20
    assert_eq!(tiles().compute_each("next", |i| Ok(i + 1)).collect().unwrap().len(), 20); // overlap of 20
    tiles().compute("fail", |_| Err::<(), _>(())).run().unwrap_err(); // overlap
}

/// Calls that a panic ends.
#[rustfmt::skip]
fn panics() {
    let caught = |call: &dyn Fn()| _ = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    caught(&|| (0..10u32).into_par_iter().for_each(|_| resume_unwind(Box::new(())))); // loop
    caught(&|| _ = windrow::join(|| resume_unwind(Box::new(())), || ())); // join
    caught(&|| [3, 1, 2].par_sort_by(|_, _| resume_unwind(Box::new(())))); // sort
    caught(&|| _ = team(&mut ()).run(|_| -> () { resume_unwind(Box::new(())) })); // team
    caught(&|| _ = overlap::source(0..9).compute("panic", |_| -> Result<(), ()> { resume_unwind(Box::new(())) }).run()); // overlap
    caught(&|| _ = Batched::new(Sum(0)).exclusive(|_| resume_unwind(Box::new(())))); // batch
}

fn all() {
    iterators();
    sorts();
    recursions();
    teams();
    #[cfg(feature = "async-team")]
    teams_of_tasks();
    batches();
    overlaps();
    panics();
}

// No calls from here on.

/// Ends of lines: by line and kind the calls and the items, if they are named.
fn expected() -> BTreeMap<(usize, String), (String, Option<String>)> {
    const KINDS: [&str; 8] = ["loop", "join", "sort", "team", "rounds", "batch", "overlap", "spawn"];
    let mut expected = BTreeMap::new();
    let source = include_str!("every_call.rs");
    let calls = source.lines().enumerate().take(line_of(source, "No calls from here on."));
    for (at, line) in calls.filter(|(_, line)| line.starts_with("    ")) {
        let said = line.rsplit_once(" // ").map(|(_, rows)| rows);
        let rows = said.map(|rows| match rows.strip_prefix("with async-team: ") {
            Some(_) if !cfg!(feature = "async-team") => "",
            rest => rest.unwrap_or(rows),
        });
        for row in rows.filter(|rows| !rows.is_empty()).into_iter().flat_map(|rows| rows.split(", ")) {
            let (row, items) = row.split_once(" of ").map_or((row, None), |(row, items)| (row, Some(items)));
            let (calls, kind) = row.split_once(' ').unwrap_or(("1", row));
            assert!(KINDS.contains(&kind), "no kind of call: {line}");
            let before = expected.insert((at + 1, kind.to_owned()), (calls.to_owned(), items.map(str::to_owned)));
            assert_eq!(before, None, "{line}");
        }
    }
    expected
}

/// Runs all calls with these variables, and compares the report.
fn check(name: &str, variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.txt");
    let output = child(name, &[variables, &[("WINDROW_EXPLAIN", path.to_str().unwrap())]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = fs::read_to_string(&path).unwrap();
    let (mut expected, mut wrong) = (expected(), Vec::new());
    let rows = report.lines().skip(2).filter(|line| !line.starts_with("    ") && !line.starts_with("time and saved"));
    for line in rows {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let at = columns[0].strip_prefix(file!()).and_then(|rest| rest.strip_prefix(':')?.parse().ok());
        match at.and_then(|at| expected.remove(&(at, columns[1].to_owned()))) {
            None => wrong.push(format!("not called, or reported twice: {line}")),
            Some((calls, _)) if calls != columns[2] => wrong.push(format!("{calls} calls: {line}")),
            Some((_, Some(items))) if items != columns[3] => wrong.push(format!("{items} items: {line}")),
            Some(_) => {}
        }
    }
    wrong.extend(expected.keys().map(|(line, kind)| format!("no {kind} of line {line}")));
    assert!(wrong.is_empty(), "{wrong:#?}\n{report}");
}

#[test]
fn every_call_is_in_the_report() {
    if is_child() {
        return all();
    }
    check("every_call_is_in_the_report", &[("WINDROW_THREADS", "2")]);
}

#[test]
fn every_call_of_a_single_thread_is_in_the_report() {
    if is_child() {
        return all();
    }
    check("every_call_of_a_single_thread_is_in_the_report", &[("WINDROW_THREADS", "1")]);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn every_call_on_a_single_cpu_is_in_the_report() {
    if is_child() {
        let mut cpus = nix::sched::CpuSet::new();
        cpus.set(nix::sched::sched_getcpu().unwrap()).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).unwrap();
        return all();
    }
    check("every_call_on_a_single_cpu_is_in_the_report", &[]);
}
