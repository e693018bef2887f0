//! Two versions of windrow in one program: the second one is the same source under another version number.
#![cfg(all(target_os = "linux", not(miri)))]

use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = r#"
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

macro_rules! version {
    ($name:ident, $windrow:ident) => {
        mod $name {
            use $windrow::prelude::*;

            /// Runs `item` in a loop, until `count` threads have taken part.
            pub fn threads(count: usize, item: &(dyn Fn() + Sync)) -> super::HashSet<super::ThreadId> {
                let (all, start) = (super::Mutex::new(super::HashSet::new()), super::Instant::now());
                while all.lock().unwrap().len() < count && start.elapsed() < super::Duration::from_secs(20) {
                    (0..60).into_par_iter().with_claim_size(1).for_each(|_: u32| {
                        item();
                        all.lock().unwrap().insert(super::thread::current().id());
                    });
                }
                all.into_inner().unwrap()
            }

            pub fn sum() -> u64 {
                (0..1000u64).into_par_iter().map(|i| i * i).sum()
            }
        }
    };
}
version!(one, windrow_one);
version!(two, windrow_two);

fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.starts_with("windrow-")).count()
}

/// Workers that have ended are in the list of the system for a moment.
fn have_ended() -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while workers() > 0 && Instant::now() < end {
        thread::yield_now();
    }
    workers() == 0
}

fn work() {
    thread::sleep(Duration::from_micros(50));
}

fn main() {
    if std::env::args().nth(1).is_some() {
        // A version that has run nothing ends the workers of the other one.
        one::threads(2, &work);
        assert!(workers() > 0);
        windrow_two::shutdown().unwrap();
        assert!(have_ended());
        return println!("two versions, one set of workers");
    }
    // The second version comes first: its setting counts.
    windrow_two::PoolBuilder::new().threads(3).build_global().unwrap();
    assert!(windrow_one::PoolBuilder::new().threads(5).build_global().is_err());
    assert_eq!((windrow_one::current_num_threads(), windrow_two::current_num_threads()), (3, 3));
    let shared = one::threads(3, &work);
    assert_eq!(shared.len(), 3, "the first version has the workers of the second");
    assert_eq!((two::threads(3, &work), workers()), (shared.clone(), 2));
    // Inside of each other, side by side.
    let nested = two::threads(3, &|| assert_eq!(one::sum(), 332_833_500));
    assert!(nested.is_subset(&shared));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..300).for_each(|_| assert_eq!(one::sum(), 332_833_500)));
            scope.spawn(|| (0..300).for_each(|_| assert_eq!(two::sum(), 332_833_500)));
        }
    });
    assert_eq!(windrow_one::spawn_joinable(one::sum).wait(), two::sum());
    // A panic crosses both.
    let thrown = std::panic::catch_unwind(|| two::threads(3, &|| drop(one::threads(1, &|| std::panic::resume_unwind(Box::new(7))))));
    assert_eq!(*thrown.unwrap_err().downcast::<i32>().unwrap(), 7);

    // A thread of one version must not wait for itself through the other version.
    assert!(windrow_one::spawn_joinable(|| windrow_two::shutdown().is_err()).wait());
    one::threads(3, &|| assert!(windrow_two::shutdown().is_err()));

    // Either version ends the workers of both. Calls go on.
    windrow_one::shutdown().unwrap();
    assert!(have_ended());
    assert_eq!((one::sum(), two::sum()), (332_833_500, 332_833_500));
    windrow_two::shutdown().unwrap();
    windrow_one::PoolBuilder::new().threads(2).build_global().unwrap();
    assert_eq!((windrow_one::current_num_threads(), windrow_two::current_num_threads()), (2, 1));
    println!("two versions, one set of workers");
}
"#;

#[test]
fn two_versions_share_one_set_of_workers() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1) {
        println!("skipped: one CPU");
        return;
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two-versions");
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Unchanged files keep their times, so that a second run builds nothing.
        if fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return;
        }
        fs::write(path, text).unwrap();
    };
    let path = |name: &str| crates.join(name).display().to_string();
    let (windrow, plan, sync) = (path("windrow"), path("windrow-plan"), path("windrow-sync"));
    write(
        "Cargo.toml",
        format!(
            "[package]\nname = \"two-versions\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
             windrow-one = {{ package = \"windrow\", path = {windrow:?} }}\n\
             windrow-two = {{ package = \"windrow\", path = \"other\" }}\n"
        ),
    );
    write(
        "other/Cargo.toml",
        format!(
            "[package]\nname = \"windrow\"\nversion = \"99.0.0\"\nedition = \"2024\"\n\
             [features]\nportable = []\nablation = []\n[lib]\npath = \"{windrow}/src/lib.rs\"\n\
             [dependencies]\neither = \"1\"\nwindrow-plan = {{ path = {plan:?} }}\nwindrow-sync = {{ path = {sync:?} }}\n"
        ),
    );
    write("src/main.rs", PROGRAM.to_owned());
    // The versions that the workspace has: nothing is downloaded.
    fs::copy(crates.parent().unwrap().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    for arguments in [&[][..], &["--", "unused"]] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--offline"]).args(arguments).current_dir(&folder);
        let output =
            cargo.env("CARGO_TARGET_DIR", folder.join("target")).env_remove("WINDROW_THREADS").output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("one set of workers"), "{out}\n{err}");
    }
}
