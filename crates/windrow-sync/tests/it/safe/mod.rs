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
use std::path::{Path, PathBuf};
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

/// The text of every file below a folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).expect("the sources are there").map(|entry| entry.unwrap().path());
    let text = |path: PathBuf| if path.is_dir() { sources(&path) } else { std::fs::read_to_string(path).unwrap() };
    entries.map(text).collect()
}

/// The sources say `pub` for what other crates can name, and `pub(crate)` for the rest: each public item is used here.
#[test]
fn every_public_item_is_called() {
    let calls = [
        include_str!("base.rs"),
        include_str!("join.rs"),
        include_str!("region.rs"),
        include_str!("rounds.rs"),
        include_str!("submit.rs"),
    ]
    .concat();
    // Claims cannot be made.
    let exempt = ["Claim", "start", "span"];
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    let (mut missing, sources) = (Vec::new(), sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")));
    for (at, _) in sources.match_indices("pub ") {
        let indent = sources[..at].rsplit('\n').next().unwrap_or("");
        let mut item = &sources[at + "pub ".len()..];
        for word in ["const ", "unsafe "] {
            item = item.strip_prefix(word).unwrap_or(item);
        }
        let kind = ["fn ", "struct ", "enum ", "trait "].into_iter().find(|kind| item.starts_with(kind));
        let Some(kind) = kind.filter(|_| indent.trim().is_empty()) else { continue };
        let name = item[kind.len()..].split(|sign| !is_word(sign)).next().unwrap_or("");
        let head = item.split(" {\n").next().unwrap_or("");
        let is_called = |way: String| calls.contains(&way);
        let is_used = if kind != "fn " || indent.is_empty() {
            is_called(name.to_owned())
        } else if head.split(|sign| !is_word(sign)).any(|word| word == "self") {
            is_called(format!(".{name}(")) || is_called(format!(".{name}::<")) || is_called(format!("::{name}("))
        } else {
            is_called(format!("::{name}("))
        };
        if !is_used && !exempt.contains(&name) {
            missing.push(format!("{kind}{name}"));
        }
    }
    assert!(missing.is_empty(), "public items without a call in tests/it/safe: {missing:#?}");
}
