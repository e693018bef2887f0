//! `--resume`: a killed run is continued after its last finished shard, or refused with the reason.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::common::{Place, Ran, bzip2, gzip, tiny, xz};

fn corpus() -> Place {
    let place = Place::new();
    let line = |i: usize| match i % 90 {
        9 => "[]\n".to_owned(),
        _ => format!("{}\n", json!({"text": format!("{i}<|end|> {}", "the path of thorns; ".repeat(i % 60))})),
    };
    let lines: String = (0..6_000).map(line).collect();
    place.file("tiny.json", tiny().to_string());
    place.file("c/1.jsonl", &lines).file("c/2.jsonl.gz", gzip(lines.as_bytes())).file("c/3.txt", "the end");
    place.file("c/4.jsonl.xz", xz(lines.as_bytes())).file("c/5.jsonl.bz2", bzip2(lines.as_bytes()));
    place
}

const LINE: &str = "encode c -o out --tokenizer tiny.json --on-error skip --shard-size 100KB --threads 1";

/// Number of finished shards that the progress record names.
fn recorded(folder: &Path) -> usize {
    let record = fs::read(folder.join("out.windrow-progress")).unwrap_or_default();
    record.iter().filter(|&&byte| byte == b'\n').count().saturating_sub(1)
}

/// Waits until a run has finished a number of shards, and returns whether it has.
fn has_finished(child: &mut Child, folder: &Path, shards: usize) -> bool {
    let begin = Instant::now();
    while recorded(folder) < shards && child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} shards", recorded(folder));
    }
    child.try_wait().unwrap().is_none()
}

/// Kills a run when it has finished some shards.
fn killed(place: &Place, line: &str, signal: &str, shards: usize) -> Ran {
    for _ in 0..20 {
        let mut command = place.command(line.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if has_finished(&mut child, &place.path(""), shards) {
            Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            return Ran::of(output);
        }
        // The signal came too late.
        clear(place);
    }
    panic!("no run could be killed")
}

/// Removes all outputs.
fn clear(place: &Place) {
    for name in place.names().into_iter().filter(|name| name.starts_with("out")) {
        let path = place.path(&name);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }
}

/// The outputs, as the manifest lists them, and the manifest.
fn outputs(place: &Place) -> Vec<(String, blake3::Hash)> {
    let names = place.names().into_iter().filter(|name| name.starts_with("out"));
    names.map(|name| (name.clone(), blake3::hash(&place.read(&name)))).collect()
}

/// What an undisturbed run writes to another folder with the same inputs.
fn expected(place: &Place) -> Vec<(String, blake3::Hash)> {
    place.line(LINE).ok();
    let outputs = outputs(place);
    outputs.iter().for_each(|(name, _)| fs::remove_file(place.path(name)).unwrap());
    outputs
}

#[test]
fn a_killed_run_continues_and_writes_the_same_bytes() {
    let place = corpus();
    let expected = expected(&place);
    let shards = expected.iter().filter(|(name, _)| name.ends_with(".ids.npy")).count();
    for at in [1, shards / 3, shards / 2, shards * 4 / 5] {
        killed(&place, LINE, "-KILL", at);
        let ran = place.line(&format!("{LINE} --resume --json")).ok();
        let resumed = ran.summary()["resumed_shards"].as_u64().unwrap() as usize;
        assert!(resumed >= at, "{resumed} of {at} shards");
        assert!(ran.stderr.contains("note: resumed after "), "{}", ran.stderr);
        assert_eq!(outputs(&place), expected);
        expected.iter().for_each(|(name, _)| fs::remove_file(place.path(name)).unwrap());
    }
    // Without --resume the next run starts from the beginning, and with it, too, if nothing is left.
    killed(&place, LINE, "-KILL", 2);
    let ran = place.line(&format!("{LINE} --json")).ok();
    assert_eq!(ran.summary().get("resumed_shards"), None);
    assert_eq!(outputs(&place), expected);
    let ran = place.line(&format!("{LINE} --resume --overwrite --json")).ok();
    assert_eq!(ran.summary().get("resumed_shards"), None);
    assert_eq!(outputs(&place), expected);
}

#[test]
fn the_formats_of_other_libraries_continue() {
    let place = corpus();
    for (format, last) in [("datatrove", "out-00003.ds.metadata"), ("mds", "out/shard.00003.mds")] {
        let line = format!("{LINE} --format {format}");
        place.line(&line).ok();
        let expected = place.contents();
        assert!(expected.contains_key(&place.path(last)), "{format}");
        clear(&place);
        killed(&place, &line, "-KILL", 2);
        let resume = format!("{line} --resume");
        let refused = format!("{resume} --dtype u32");
        place.line(&refused).fails(&refused, 73, &["the option dtype was \"u16\" and is now \"u32\"", "hint: "]);
        let ran = place.line(&resume).ok();
        assert!(ran.stderr.contains("resumed after "), "{}", ran.stderr);
        assert!(place.contents() == expected, "{format}");
        place.line("verify out").ok();
        clear(&place);
    }
    // The shards of mds need no option.
    place.line("encode c -o out --tokenizer tiny.json --on-error skip --format mds --resume").ok();
}

#[test]
fn masks_of_conversations_continue() {
    let place = Place::new();
    let row = |i: usize| {
        let text = format!("{i} {}", "the path of thorns; ".repeat(i % 40));
        match i % 70 {
            9 => "{}\n".to_owned(),
            _ => format!(
                "{}\n",
                json!({"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "of"}]})
            ),
        }
    };
    place.file("tiny.json", tiny().to_string()).file("c.jsonl", (0..6_000).map(row).collect::<String>());
    place.file("t.jinja", "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}\n{% endfor %}");
    let line = "encode c.jsonl -o out --tokenizer tiny.json --on-error skip --shard-size 50KB --threads 1 --chat=t.jinja --loss assistant";
    place.line(line).ok();
    let expected = outputs(&place);
    expected.iter().for_each(|(name, _)| fs::remove_file(place.path(name)).unwrap());
    assert!(expected.iter().any(|(name, _)| name == "out-00003.mask.npy"), "{expected:?}");
    killed(&place, line, "-KILL", 2);
    let ran = place.line(&format!("{line} --resume")).ok();
    assert!(ran.stderr.contains("resumed after "), "{}", ran.stderr);
    assert_eq!(outputs(&place), expected);
    place.line("verify out").ok();
}

#[test]
fn a_terminated_run_says_what_it_keeps() {
    let place = corpus();
    let expected = expected(&place);
    let ran = killed(&place, LINE, "-TERM", 4);
    assert_eq!(ran.code, Some(143));
    assert!(
        ran.stderr.contains("finished shards are kept; rerun the command with --resume to continue"),
        "{}",
        ran.stderr
    );
    place.line(&format!("{LINE} --resume")).ok();
    assert_eq!(outputs(&place), expected);
}

#[test]
fn what_has_changed_is_named_and_nothing_is_lost() {
    let place = corpus();
    let expected = expected(&place);
    killed(&place, LINE, "-KILL", 2);
    let left = place.contents();
    let refused = |line: &str, says: &str| {
        place.line(line).fails(
            line,
            73,
            &["cannot resume out: ", says, "hint: restore what has changed, or start again"],
        );
    };
    let resume = format!("{LINE} --resume");
    refused(&format!("{resume} --append-eos --eos 258"), "the option append_eos was false and is now true");
    refused(&resume.replace("100KB", "200KB"), "the option shard_size was 100000 and is now 200000");
    refused(&format!("{resume} --dtype u32"), "the option dtype was \"u16\" and is now \"u32\"");
    refused(&format!("{resume} --field body"), "the option field was [\"text\"] and is now [\"body\"]");
    refused(&format!("{resume} --bos 258"), "the option bos was null and is now 258");
    refused(&format!("{resume} --limit 5000"), "the option limit was null and is now 5000");
    refused(&format!("{resume} --sample 50%"), "the option sample was null and is now 0.5");
    refused(&resume.replace("tiny.json", "gpt2"), "the tokenizer was \"tiny.json\" and is now \"r50k_base\"");
    refused(&resume.replace("encode c", "encode c c/3.txt"), "the number of inputs was 5 and is now 6");
    refused(
        &resume.replace("encode c", "encode c/3.txt c/1.jsonl c/2.jsonl.gz c/4.jsonl.xz c/5.jsonl.bz2"),
        "the name of input 1 was",
    );

    let tokenizer = place.read("tiny.json");
    place.file("tiny.json", tiny().to_string().replace("258", "259"));
    refused(&resume, "the content of the tokenizer tiny.json has changed");
    place.file("tiny.json", tokenizer);

    let path = place.path("c/3.txt");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    place.file("c/3.txt", "the and");
    refused(&resume, "c/3.txt was modified after the run began");
    place.file("c/3.txt", "the end.");
    refused(&resume, "the size of c/3.txt was 7 and is now 8");
    place.file("c/3.txt", "the end");
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();

    let lost = |name: &Path| !name.to_str().unwrap().ends_with(".windrow-lock");
    let finished: Vec<_> =
        left.keys().filter(|name| lost(name) && name.to_str().unwrap().contains("-0000")).take(2).collect();
    assert!(!finished.is_empty() && finished.iter().all(|name| name.exists()), "{finished:?}");
    place.line(&resume).ok();
    assert_eq!(outputs(&place), expected);
}

#[test]
fn a_stream_cannot_resume() {
    let place = corpus();
    let line = "encode - -o out --tokenizer tiny.json --input-format jsonl --on-error skip --shard-size 100KB";
    let lines = place.read("c/1.jsonl");
    let mut command = place.command(line.split_whitespace());
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    (0..10).for_each(|_| stdin.write_all(&lines).unwrap());
    assert!(has_finished(&mut child, &place.path(""), 2), "it waits for more");
    child.kill().unwrap();
    child.wait().unwrap();
    let line = format!("{line} --resume");
    let ran = place.run_with(&line, &lines);
    ran.fails(
        &line,
        73,
        &[
            "-: cannot resume: windrow cannot check whether this input has changed",
            "hint: save the input to a file first",
        ],
    );
}

#[test]
fn the_run_that_writes_the_output_is_named() {
    let place = corpus();
    let mut child = place.command(LINE.replace("encode c", "encode -").split_whitespace());
    let mut child = child.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while fs::read(place.path("out.windrow-lock")).unwrap_or_default().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
    let says = format!("another run is writing out (process {})", child.id());
    place.line(LINE).fails(LINE, 73, &[&says, "hint: wait until it has finished"]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn only_shards_can_resume() {
    let place = corpus();
    let ran = place.line("encode c -o out --tokenizer tiny.json --resume");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("--shard-size"), "{}", ran.stderr);
}

/// Needs the right to mount.
#[test]
#[cfg(target_os = "linux")]
fn a_small_disk_gets_full_and_then_larger() {
    let place = corpus();
    let expected = expected(&place);
    let disk = place.path("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |options: &str| {
        let ran = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&disk).output();
        ran.is_ok_and(|ran| ran.status.success())
    };
    if !mount("size=1m") {
        eprintln!("skipped: mounting a small tmpfs needs root");
        return;
    }
    let line = LINE.replace("-o out", "-o disk/out");
    let ran = place.line(&line);
    let resumed = if mount("remount,size=64m") { Some(place.line(&format!("{line} --resume"))) } else { None };
    let written = fs::read_dir(&disk).unwrap().map(|entry| entry.unwrap().path());
    let mut written: Vec<_> = written
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), blake3::hash(&fs::read(&path).unwrap())))
        .collect();
    written.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    ran.fails(&line, 74, &["No space left on device", "hint: free space on the disk", "shards are kept"]);
    resumed.expect("the disk becomes larger").ok();
    assert_eq!(written, expected);
}
