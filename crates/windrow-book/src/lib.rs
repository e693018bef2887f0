//! The book's examples, compiled and run: `cargo test --doc -p windrow-book`.
//!
//! The page `from-rayon.md` is compiled in `windrow-bench`, where rayon is. Blocks of the command are tested in `windrow-cli`, those of Python
//! with the Python package. `tests/pages.rs` checks that no block is left out.
#![forbid(unsafe_code)]

macro_rules! pages {
    ($($page:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../book/src/", $page, ".md"))]
            const _: () = ();
        )*
    };
}

pages! {
    "first-steps"
    "loops"
    "rounds"
    "batches"
    "overlap"
    "explain"
    "from-mutex"
    "from-tiles"
}
