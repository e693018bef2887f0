//! Every public method, called from safe code: as it should be, and as it should not be. Closures, drops, clones and iterators panic, lie or
//! call back, guards are forgotten, and other threads do the same at the same time.
//!
//! Some of these programs would only go wrong where nothing looks: `cargo xtask sanitize` runs them under AddressSanitizer. Here they show that
//! each item is dropped once at most, and that the results are right.
#![forbid(unsafe_code)]
#![expect(
    clippy::drop_non_drop,
    clippy::forget_non_drop,
    reason = "to drop and to forget is the point, whatever the type does then"
)]

mod base;
mod join;
mod region;
mod rounds;
mod submit;

pub(crate) use base::long_wait;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use windrow_sync::unwind::discard;

/// Panics without a report.
fn boom() -> ! {
    resume_unwind(Box::new("boom"))
}

/// Runs hostile code; returns whether it panicked.
fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).map_err(discard).is_err()
}

/// Counts its items while they live.
#[derive(Default)]
struct Live(AtomicIsize);

impl Live {
    fn item(&self, number: usize) -> Item<'_> {
        self.0.fetch_add(1, Relaxed);
        Item { live: self, text: number.to_string(), bomb: false }
    }

    /// Its drop panics, unless the thread panics already.
    fn bomb(&self, number: usize) -> Item<'_> {
        let mut item = self.item(number);
        item.bomb = true;
        item
    }

    fn items(&self, n: usize) -> Vec<Item<'_>> {
        (0..n).map(|number| self.item(number)).collect()
    }

    fn count(&self) -> isize {
        self.0.load(Relaxed)
    }
}

/// Owns memory, which a second drop would free twice.
struct Item<'l> {
    live: &'l Live,
    text: String,
    bomb: bool,
}

impl Clone for Item<'_> {
    /// A bomb cannot be cloned.
    fn clone(&self) -> Self {
        if self.bomb { boom() } else { self.live.item(self.number()) }
    }
}

impl Item<'_> {
    fn number(&self) -> usize {
        self.text.parse().expect("it was not freed")
    }
}

impl Drop for Item<'_> {
    fn drop(&mut self) {
        assert!(self.live.0.fetch_sub(1, Relaxed) > 0, "dropped twice");
        if std::mem::take(&mut self.bomb) && !std::thread::panicking() {
            boom();
        }
    }
}

/// The lines of `api/windrow-sync.txt` name every public item: each is used here.
#[test]
fn every_public_item_is_called() {
    let Ok(api) = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../api/windrow-sync.txt")) else {
        return println!("skipped: the list of public items is part of the workspace, not of this crate");
    };
    let calls = [
        include_str!("base.rs"),
        include_str!("join.rs"),
        include_str!("region.rs"),
        include_str!("rounds.rs"),
        include_str!("submit.rs"),
    ]
    .concat();
    // Claims cannot be made; the others are called by the language.
    let exempt = ["chunk", "start", "span", "fmt", "drop", "deref", "Claim"];
    let mut missing = Vec::new();
    for line in api.lines() {
        // Without what stands in angle brackets.
        let (mut bare, mut depth, mut last) = (String::new(), 0, ' ');
        for sign in line.chars() {
            depth -= i32::from(sign == '>' && last != '-');
            if depth == 0 && sign != '>' && sign != '<' {
                bare.push(sign);
            }
            depth += i32::from(sign == '<');
            last = sign;
        }
        if let Some((path, arguments)) = bare.split_once(" fn ").and_then(|(_, rest)| rest.split_once('(')) {
            let (of, name) = path.rsplit_once("::").unwrap_or(("", path));
            let of = of.rsplit("::").next().unwrap_or(of);
            let is_method = arguments
                .split([',', ')'])
                .next()
                .is_some_and(|first| first.starts_with("self") || first.ends_with("self"));
            let is_called = match is_method {
                true => calls.contains(&format!(".{name}(")) || calls.contains(&format!(".{name}::<")),
                false if of.starts_with(char::is_uppercase) => calls.contains(&format!("{of}::{name}(")),
                false => calls.contains(name),
            };
            // A name that a macro or a type says in another way.
            let is_named = calls.contains(&format!("::{name}("));
            if !is_called && !is_named && !exempt.contains(&name) {
                missing.push(line);
            }
        } else if let Some(path) =
            ["struct ", "enum ", "trait ", "const "].iter().find_map(|kind| bare.split_once(kind))
            && bare.starts_with("pub")
        {
            let name = path.1.split([':', '(', ' ']).rfind(|part| part.starts_with(char::is_uppercase));
            if name.is_some_and(|name| !calls.contains(name) && !exempt.contains(&name)) {
                missing.push(line);
            }
        }
    }
    assert!(missing.is_empty(), "public items without a call in tests/it/safe: {missing:#?}");
}
