//! Every memory ordering of a protocol names its counterpart, or argues why it is sequentially consistent.

use windrow_sources::{Crate, matches, orderings};

pub(super) fn check(folder: &str, files: &Crate) -> Vec<String> {
    let (found, mut problems) = (orderings(files), Vec::new());
    for (path, source) in files {
        for (at, name) in matches(r"\b(Relaxed|Acquire|Release|AcqRel|SeqCst)\b", &source.code) {
            let (comments, place) = (source.comments_about(at), format!("{folder}{path}:{}", source.line(at)));
            let argued = comments.contains(&format!("{name}: "));
            let paired = name == "Relaxed" || name != "SeqCst" && comments.contains("pairs with");
            match found.iter().find(|it| it.file == *path && it.span.contains(&at)) {
                Some(it) if it.in_test || argued || paired => {}
                Some(_) => {
                    let hint = format!("hint: add `// {name}: pairs with ..` on this line or directly above it");
                    problems.push(format!("{place}: {name} has no comment about its partner\n    {hint}"));
                }
                None => {
                    let hint = "hint: write the path in full, and only inside macros that take expressions";
                    problems
                        .push(format!("{place}: write Ordering::{name}, so that every ordering is found\n    {hint}"));
                }
            }
        }
    }
    problems
}

#[test]
fn an_ordering_names_its_partner() {
    let problem = |text: &str| {
        let source = windrow_sources::Source::new(text).expect("a file of Rust");
        check("", &[("src/lib.rs".to_owned(), source)].into()).join("; ")
    };
    let inside = |body: &str| problem(&format!("fn f() {{\n{body}\n}}"));
    assert_eq!(inside("a.store(1, Ordering::Release); // Release: pairs with the load in `f`"), "");
    assert_eq!(inside("a.load(Ordering::Relaxed); b.cmp(&c) == Ordering::Less"), "");
    assert!(inside("// Fast.\nx();\na.load(Ordering::Acquire);").contains(".rs:4: Acquire has no comment"));
    assert!(inside("// Acquire: f\na.store(1, Ordering::Release);").contains("Release has no comment"));
    assert!(inside("// It pairs with g.\nfence(Ordering::SeqCst);").contains("SeqCst has no comment"));
    assert!(problem("macro_rules! m { () => {{ a.load(Ordering::Relaxed); }} }").contains("every ordering is found"));
}
