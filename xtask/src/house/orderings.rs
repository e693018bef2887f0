//! Every memory ordering of windrow-sync names its counterpart, and every sequentially consistent one gives a reason.

use windrow_sources::{Crate, Ordering, matches};

use super::RustFile;

/// `sync` is windrow-sync.
pub(super) fn check(files: &[RustFile], sync: &Crate) -> Vec<String> {
    let (found, mut problems) = (windrow_sources::orderings(sync), Vec::new());
    for file in files {
        let in_sync = file.in_sync().filter(|path| path.starts_with("src/"));
        for (at, name) in matches(r"\b(Relaxed|Acquire|Release|AcqRel|SeqCst)\b", &file.source.code) {
            let is_this = |it: &&Ordering| Some(it.file.as_str()) == in_sync && it.span.contains(&at);
            let (place, known) = (file.place(at), found.iter().find(is_this));
            if name == "SeqCst" && !is_argued(file, at) {
                let hint = "hint: `// SeqCst: why nothing weaker will do`, at most 5 lines above";
                problems.push(format!("{place}: SeqCst without an argument\n    {hint}"));
            }
            if in_sync.is_none() || known.is_some_and(|it| it.in_test) {
                continue;
            }
            let comments = file.source.comments_about(at);
            if known.is_none() {
                let hint = "hint: write it in full, outside of a macro that does not take expressions";
                problems.push(format!("{place}: write Ordering::{name}, so that every ordering is found\n    {hint}"));
            } else if name != "Relaxed" && !comments.contains("pairs with") && !comments.contains(&format!("{name}:")) {
                let hint = format!("hint: `// {name}: pairs with ..`, on the line or directly above");
                problems.push(format!("{place}: {name} without its partner\n    {hint}"));
            }
        }
    }
    problems
}

/// Whether a comment argues for an ordering, on its line or up to five lines above.
fn is_argued(file: &RustFile, offset: usize) -> bool {
    let last = file.source.line(offset);
    let mut lines = file.source.comments.lines().take(last).skip(last.saturating_sub(6));
    lines.any(|line| line.split_once("SeqCst:").is_some_and(|(_, why)| !why.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windrow_sources::Source;

    fn sync(text: &str) -> Vec<String> {
        let sync = [("src/lib.rs".to_owned(), Source::new(text).expect("a file of Rust"))].into();
        check(&[RustFile::new("crates/windrow-sync/src/lib.rs", text)], &sync)
    }

    #[test]
    fn an_ordering_names_its_partner() {
        let body = |text: &str| sync(&format!("fn f() {{\n{text}\n}}"));
        assert!(body("a.store(1, Ordering::Release); // Release: pairs with the load in `f`").is_empty());
        assert!(body("// The swap pairs with `close`.\na.swap(1, Ordering::AcqRel);").is_empty());
        assert!(body("a.load(Ordering::Relaxed); b.cmp(&c) == Ordering::Less").is_empty());
        assert!(sync("#[cfg(test)]\nmod tests { fn f() { a.load(Ordering::Acquire); } }").is_empty());
        let bare = body("// Fast.\nx();\na.load(Ordering::Acquire);");
        assert!(bare[0].starts_with("crates/windrow-sync/src/lib.rs:4: Acquire without its partner"), "{bare:?}");
        let other = body("// Acquire: f\na.store(1, Ordering::Release);");
        assert!(other[0].contains("Release without its partner"), "{other:?}");
    }

    #[test]
    fn an_ordering_that_the_list_would_miss_is_refused() {
        let imported =
            "// Acquire: x\nuse Ordering::{Acquire};\n// Acquire: y\nfn f() { a.load(Acquire); b.load(Relaxed) }";
        assert_eq!(sync(imported).len(), 3, "{:?}", sync(imported));
        let in_macro = "macro_rules! m { () => {{ a.load(Ordering::Relaxed); }} }";
        assert!(sync(in_macro)[0].contains("so that every ordering is found"));
    }

    #[test]
    fn sequential_consistency_needs_an_argument_everywhere() {
        let anywhere = |text| check(&[RustFile::new("crates/windrow/src/a.rs", text)], &[].into());
        assert!(
            anywhere("// SeqCst: the store before and the load after must not swap.\n\n\n\n\nfence(Ordering::SeqCst)")
                .is_empty()
        );
        assert_eq!(anywhere("// SeqCst: x\n\n\n\n\n\nfence(Ordering::SeqCst)").len(), 1);
        assert_eq!(anywhere("// SeqCst:\nfence(Ordering::SeqCst)").len(), 1);
        assert!(anywhere("a.load(Ordering::Acquire)").is_empty());
    }
}
