//! The console blocks of the book: each command runs, in the order of its page, and prints what the page shows.
//!
//! `$ ` begins a command, `> ` continues it. The lines after it are its output: `...` stands for any lines, `[..]` for any text. A command
//! without output lines must succeed, and may print anything.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::Place;

const BOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src");

#[derive(Debug, Default, PartialEq)]
struct Step {
    command: String,
    output: Vec<String>,
}

/// The commands of a page's console blocks.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut inside) = (Vec::<Step>::new(), false);
    for line in page.lines() {
        let (command, more) = (line.strip_prefix("$ "), line.strip_prefix("> "));
        match steps.last_mut() {
            _ if line.starts_with("```") => inside = line == "```console",
            _ if !inside => {}
            _ if command.is_some() => {
                let command = command.unwrap_or_default().to_owned();
                steps.push(Step { command, ..Step::default() });
            }
            Some(step) if more.is_some() => step.command += &format!("\n{}", more.unwrap_or_default()),
            Some(step) => step.output.push(line.to_owned()),
            None => panic!("a console block begins with {line:?}"),
        }
    }
    steps
}

/// Whether `printed` are the `shown` lines.
fn matches(shown: &[String], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, _) => printed.is_empty(),
        (Some((line, shown)), _) if line == "..." => (0..=printed.len()).any(|at| matches(shown, &printed[at..])),
        (Some((line, shown)), Some((first, printed))) => is_like(line, first) && matches(shown, printed),
        (Some(_), None) => false,
    }
}

fn is_like(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once("[..]") else { return shown == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| is_like(after, rest))
}

#[test]
fn the_commands_of_the_book_print_what_it_shows() {
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = Path::new(env!("CARGO_BIN_EXE_windrow")).parent().expect("a folder");
    let path = format!("{}:{path}", folder.display());
    let mut ran = 0;
    let pages = fs::read_dir(BOOK).expect("the folder of the book").map(|file| file.expect("a file").path());
    for page in pages.filter(|page| page.extension().is_some_and(|it| it == "md")) {
        let place = Place::new();
        for Step { command, output } in steps(&fs::read_to_string(&page).expect("a page")) {
            let folder = place.path("page");
            fs::create_dir_all(&folder).expect("a folder of this test");
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("exec 2>&1\n{command}")).current_dir(&folder).env("PATH", &path);
            let done = shell.output().expect("a shell");
            let printed = String::from_utf8_lossy(&done.stdout);
            let printed: Vec<&str> = printed.lines().collect();
            let is_right = done.status.success() && (output.is_empty() || matches(&output, &printed));
            assert!(is_right, "{}: {command}\nprints {printed:#?}\nand not {output:#?}", page.display());
            ran += 1;
        }
    }
    assert!(ran > 5, "{ran} commands");
}

#[test]
fn output_that_differs_is_found() {
    let page = "```console\n$ a <<E\n> b\n> E\nx 1 y\n...\nz\n```\n$ no\n```console\n$ c\n```\n";
    let [first, second] = &steps(page)[..] else { panic!("two commands") };
    assert_eq!((first.command.as_str(), second.command.as_str()), ("a <<E\nb\nE", "c"));
    assert!(second.output.is_empty());
    for good in [&["x 1 y", "z"][..], &["x 1 y", "2", "z", "z"]] {
        assert!(matches(&first.output, good), "{good:?}");
    }
    for bad in [&["x 1 y"][..], &["x 2 y", "z"], &["x 1 y", "z", "2"], &[]] {
        assert!(!matches(&first.output, bad), "{bad:?}");
    }
    assert!(is_like("a [..] b [..]", "a 1 2 b ") && !is_like("a [..] b", "a 1 c"));
}
