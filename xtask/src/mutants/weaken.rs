//! The weaker orderings that could stand at a site, as edits of the source.

use std::ops::Range;

use crate::orderings::Site;
use crate::source::Source;

#[derive(Debug, PartialEq)]
pub(super) struct Mutant {
    /// `AcqRel -> Acquire`, as the table prints it.
    pub(super) label: String,
    pub(super) span: Range<usize>,
    pub(super) replacement: &'static str,
}

impl Mutant {
    pub(super) fn apply(&self, text: &str) -> String {
        format!("{}{}{}", &text[..self.span.start], self.replacement, &text[self.span.end..])
    }
}

/// The kind of call that the ordering is an argument of, where it limits the allowed orderings.
#[derive(Clone, Copy, PartialEq)]
enum Use {
    Load,
    Store,
    ReadModifyWrite,
    Fence,
}

pub(super) fn mutants(source: &Source, site: &Site) -> Vec<Mutant> {
    let (role, call) = use_of(source, site.offset);
    let from = site.ordering.as_str();
    if role == Use::Fence && (from == "Acquire" || from == "Release") {
        // A relaxed fence does not exist: it panics, and the kill would test nothing.
        return vec![Mutant { label: format!("{from} fence -> none"), span: call, replacement: "()" }];
    }
    let weaker: &[&'static str] = match (from, role) {
        ("SeqCst", Use::Load) => &["Ordering::Acquire"],
        ("SeqCst", Use::Store) => &["Ordering::Release"],
        ("SeqCst", _) => &["Ordering::AcqRel"],
        ("AcqRel", _) => &["Ordering::Acquire", "Ordering::Release"],
        _ => &["Ordering::Relaxed"],
    };
    let words = source.words().skip_while(|&(at, _)| at <= site.offset);
    let end = words.map(|(at, word)| at + word.len()).next().unwrap_or(site.offset);
    let mutant = |&replacement: &&'static str| Mutant {
        label: format!("{from} -> {}", replacement.trim_start_matches("Ordering::")),
        span: site.offset..end,
        replacement,
    };
    weaker.iter().map(mutant).collect()
}

/// The use of the ordering at `offset`, and the span of its call, path included.
fn use_of(source: &Source, offset: usize) -> (Use, Range<usize>) {
    let code = source.code();
    let Some(open) = opening(code, offset) else { return (Use::ReadModifyWrite, offset..offset) };
    let (name_start, name) = source.word_before(open);
    let close = closing(code, open);
    let orderings_after = code[offset + 1..close].contains("Ordering");
    let role = match name {
        "load" => Use::Load,
        "store" => Use::Store,
        "fence" | "compiler_fence" => Use::Fence,
        // The second ordering of these is for a failed comparison.
        "compare_exchange" | "compare_exchange_weak" | "fetch_update" | "try_update" | "update"
            if !orderings_after && code[open..offset].contains("Ordering") =>
        {
            Use::Load
        }
        _ => Use::ReadModifyWrite,
    };
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let path = code[..name_start].rfind(|c| !is_path(c)).map_or(0, |at| at + 1);
    (role, path..close + 1)
}

/// The parenthesis that encloses `offset`.
fn opening(code: &str, offset: usize) -> Option<usize> {
    let mut depth = 0;
    (0..offset).rev().find(|&at| match code.as_bytes()[at] {
        b')' => {
            depth += 1;
            false
        }
        b'(' => {
            depth -= 1;
            depth < 0
        }
        _ => false,
    })
}

fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0;
    let end = code.bytes().skip(open).position(|b| {
        depth += i32::from(b == b'(') - i32::from(b == b')');
        depth == 0
    });
    end.map_or(code.len() - 1, |len| open + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orderings;

    /// Every mutant of a function body, as changed text.
    fn mutated(body: &str) -> Vec<String> {
        let text = format!("fn f() {{ {body} }}");
        let files: orderings::Crate = [("src/a.rs".to_owned(), Source::new(&text))].into();
        let source = &files["src/a.rs"];
        let all = orderings::sites(&files).into_iter().flat_map(|site| mutants(source, &site));
        all.map(|mutant| mutant.apply(&text).replace("fn f() { ", "").trim_end_matches(" }").to_owned()).collect()
    }

    #[test]
    fn each_ordering_is_weakened_by_one_step() {
        assert_eq!(mutated("a.load(Ordering::Acquire)"), ["a.load(Ordering::Relaxed)"]);
        assert_eq!(mutated("a.store(1, atomic::Ordering::Release)"), ["a.store(1, atomic::Ordering::Relaxed)"]);
        assert_eq!(
            mutated("a.swap(g(1), Ordering::AcqRel)"),
            ["a.swap(g(1), Ordering::Acquire)", "a.swap(g(1), Ordering::Release)"]
        );
    }

    #[test]
    fn sequential_consistency_becomes_what_the_operation_allows() {
        assert_eq!(mutated("a.load(Ordering::SeqCst)"), ["a.load(Ordering::Acquire)"]);
        assert_eq!(mutated("a.store(b.len(), Ordering::SeqCst)"), ["a.store(b.len(), Ordering::Release)"]);
        assert_eq!(mutated("a.fetch_or(1, Ordering::SeqCst)"), ["a.fetch_or(1, Ordering::AcqRel)"]);
        assert_eq!(
            mutated("a.compare_exchange(0, g(1), Ordering::SeqCst, Ordering::SeqCst)"),
            [
                "a.compare_exchange(0, g(1), Ordering::AcqRel, Ordering::SeqCst)",
                "a.compare_exchange(0, g(1), Ordering::SeqCst, Ordering::Acquire)"
            ]
        );
    }

    #[test]
    fn a_fence_is_taken_out() {
        assert_eq!(mutated("atomic::fence(Ordering::Acquire); x"), ["(); x"]);
        assert_eq!(mutated("x; fence( Ordering::Release );"), ["x; ();"]);
        assert_eq!(mutated("fence(Ordering::SeqCst)"), ["fence(Ordering::AcqRel)"]);
    }
}
