//! Every memory ordering of windrow-sync names its counterpart, and every sequentially consistent one gives a reason.

use super::{RustFile, SYNC};
use crate::orderings::{NAMES, is_production};

pub(super) fn check(files: &[RustFile]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files {
        let in_sync = file.path.strip_prefix(SYNC).is_some_and(|path| path.starts_with("src/"));
        let tests = crate::scopes::inactive(&file.source, &[("test", false)]);
        for (offset, word) in file.source.words().filter(|(_, word)| NAMES.contains(word) || *word == "Relaxed") {
            if word == "SeqCst" && !argued(file, offset) {
                problems.push(format!(
                    "{}: SeqCst without an argument\n    hint: `// SeqCst: why nothing weaker will do`, at most 5 lines above",
                    file.place(offset)
                ));
            }
            if !in_sync || !is_production(&tests, offset) {
                continue;
            }
            if !file.source.code()[..offset].trim_end().ends_with("Ordering::") {
                problems
                    .push(format!("{}: write Ordering::{word}, so that every ordering is found", file.place(offset)));
            } else if word != "Relaxed" && !paired(&file.source.comments_about(offset), word) {
                problems.push(format!(
                    "{}: {word} without its partner\n    hint: `// {word}: pairs with ..`, on the line or directly above",
                    file.place(offset)
                ));
            }
        }
    }
    problems
}

fn paired(comments: &str, ordering: &str) -> bool {
    comments.contains("pairs with") || comments.contains(&format!("{ordering}:"))
}

fn argued(file: &RustFile, offset: usize) -> bool {
    let line = file.source.line_of(offset);
    let argument =
        |line: usize| file.source.comment(line).split_once("SeqCst:").is_some_and(|(_, why)| !why.trim().is_empty());
    (line.saturating_sub(5)..=line).any(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(text: &str) -> Vec<String> {
        check(&[RustFile::new("crates/windrow-sync/src/a.rs", text)])
    }

    #[test]
    fn an_ordering_names_its_partner() {
        assert!(sync("a.store(1, Ordering::Release); // Release: pairs with the load in `f`").is_empty());
        assert!(sync("// The swap pairs with `close`.\na.swap(1, Ordering::AcqRel);").is_empty());
        assert!(sync("a.load(Ordering::Relaxed); b.cmp(&c) == Ordering::Less").is_empty());
        assert!(sync("#[cfg(test)]\nmod tests { fn f() { a.load(Ordering::Acquire); } }").is_empty());
        let bare = sync("// Fast.\nx();\na.load(Ordering::Acquire);");
        assert!(bare[0].starts_with("crates/windrow-sync/src/a.rs:3: Acquire without its partner"), "{bare:?}");
        let other = sync("// Acquire: f\na.store(1, Ordering::Release);");
        assert!(other[0].contains("Release without its partner"), "{other:?}");
    }

    #[test]
    fn an_imported_ordering_is_refused() {
        let found = sync("// Acquire: x\nuse Ordering::{Acquire};\n// Acquire: y\na.load(Acquire);\nb.load(Relaxed)");
        assert_eq!(found.len(), 3, "{found:?}");
    }

    #[test]
    fn sequential_consistency_needs_an_argument_everywhere() {
        let anywhere = |text| check(&[RustFile::new("crates/windrow/src/a.rs", text)]);
        assert!(
            anywhere("// SeqCst: the store before and the load after must not swap.\n\n\n\n\nfence(Ordering::SeqCst)")
                .is_empty()
        );
        assert_eq!(anywhere("// SeqCst: x\n\n\n\n\n\nfence(Ordering::SeqCst)").len(), 1);
        assert_eq!(anywhere("// SeqCst:\nfence(Ordering::SeqCst)").len(), 1);
        assert!(anywhere("a.load(Ordering::Acquire)").is_empty());
    }
}
