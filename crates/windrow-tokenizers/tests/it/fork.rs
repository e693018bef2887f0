//! Forks while another thread encodes: the child has the memory of its parent, and locks that no thread will release.

use std::sync::atomic::{AtomicBool, Ordering};

use windrow_testkit::{alone, forked};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

const FORKS: usize = 400;

#[test]
fn a_child_of_a_busy_process_encodes() {
    alone(
        module_path!(),
        "a_child_of_a_busy_process_encodes",
        |command| {
            command.env("WINDROW_THREADS", "2");
        },
        || {
            let tokenizer = Tokenizer::load("gpt2", &LoadOptions::default()).expect("an embedded vocabulary");
            let text = "The rows that were cut are left to dry, 12345 of them. ".repeat(2000);
            let texts = vec![text.as_str(); 20];
            let encode = |count: usize| tokenizer.encode_batch_ids(&texts[..count]).expect("encodes");
            let (expected, is_over) = (encode(2), AtomicBool::new(false));
            let well = std::thread::scope(|scope| {
                // Relaxed: it may end a batch later.
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        encode(20);
                    }
                });
                let well = (0..FORKS).filter(|_| forked(|| encode(2) == expected)).count();
                // Relaxed: see above.
                is_over.store(true, Ordering::Relaxed);
                well
            });
            assert_eq!(well, FORKS);
        },
    );
}
