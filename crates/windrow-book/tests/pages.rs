//! No block of the book is left out: each has a test, by its language.

use std::fs;
use std::path::Path;

#[test]
fn each_block_is_tested_or_is_no_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let here = read(&root.join("crates/windrow-book/src/lib.rs"));
    let mut pages = 0;
    for file in fs::read_dir(root.join("book/src")).expect("the folder of the book") {
        let path = file.expect("a file").path();
        let (Some(name), true) = (path.file_stem(), path.extension().is_some_and(|it| it == "md")) else { continue };
        let (name, text) = (name.to_string_lossy(), read(&path));
        let opens = text.lines().filter_map(|line| line.strip_prefix("```")).step_by(2);
        let languages: Vec<&str> = opens.collect();
        // windrow-bench, where rayon is, compiles one page.
        let is_compiled = name == "from-rayon" || here.contains(&format!("\"{name}\""));
        assert!(is_compiled || !languages.contains(&"rust"), "{name} is compiled by no crate");
        // `console` and `python` run in windrow-cli and in the tests of the Python package; `text` is output and pseudo-code.
        let known = ["rust", "sh", "console", "python", "text"];
        assert!(languages.iter().all(|it| known.contains(it)), "{name}: {languages:?}");
        pages += 1;
    }
    assert!(pages > 10, "{pages} pages");
}
