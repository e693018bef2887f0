//! Batches of the tokenizers library on windrow's pool, against the library's own.

use serde_json::{Value, json};
use windrow::Pool;
use windrow_testkit::alone;
use windrow_tokenizers::BatchEncode;
use windrow_tokenizers::full::{EncodeInput, Encoding, LibraryTokenizer as Tokenizer, PaddingParams};

/// Byte-level, with one merge.
fn file() -> Value {
    let letters = ('!'..='~').chain("ĠĊ".chars()).zip(0..);
    let mut vocab: serde_json::Map<String, Value> =
        letters.map(|(letter, id)| (letter.to_string(), json!(id))).collect();
    vocab.insert("ab".to_owned(), json!(200));
    json!({
        "model": {"type": "BPE", "vocab": vocab, "merges": ["a b"]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    })
}

fn tokenizer() -> Tokenizer {
    file().to_string().parse().expect("a tokenizer")
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("the ab {number} rows, {}", "ab cab ".repeat(number % 40))).collect()
}

/// The three kinds of a batch, by windrow and by the library.
fn compare<'s, E>(tokenizer: &Tokenizer, inputs: Vec<E>)
where
    E: Into<EncodeInput<'s>> + Send + Clone,
{
    let all = |encodings: [Vec<Encoding>; 3]| encodings;
    for special in [false, true] {
        let ours = all([
            tokenizer.encode_batch(inputs.clone(), special).unwrap(),
            tokenizer.encode_batch_char_offsets(inputs.clone(), special).unwrap(),
            tokenizer.encode_batch_fast(inputs.clone(), special).unwrap(),
        ]);
        let library = &**tokenizer;
        let theirs = all([
            library.encode_batch(inputs.clone(), special).unwrap(),
            library.encode_batch_char_offsets(inputs.clone(), special).unwrap(),
            library.encode_batch_fast(inputs.clone(), special).unwrap(),
        ]);
        assert!(ours == theirs);
    }
}

#[test]
fn encodings_are_those_of_the_library() {
    for threads in [1, 2, 8] {
        Pool::new(threads).install(|| {
            let mut tokenizer = tokenizer();
            compare(&tokenizer, Vec::<String>::new());
            compare(&tokenizer, texts(3));
            compare(&tokenizer, texts(500));
            let pairs: Vec<(String, String)> = texts(100).into_iter().zip(texts(100).into_iter().rev()).collect();
            compare(&tokenizer, pairs);
            tokenizer.with_padding(Some(PaddingParams::default()));
            compare(&tokenizer, texts(70));
        });
    }
}

#[test]
fn the_first_error_in_the_order_of_the_inputs() {
    let mut file = file();
    // Longer text than this is an error.
    file["truncation"] = json!({"direction": "Right", "max_length": 4, "strategy": "OnlySecond", "stride": 0});
    let tokenizer: Tokenizer = file.to_string().parse().unwrap();
    let mut inputs = texts(300);
    inputs.splice(0..100, std::iter::repeat_n("ab".to_owned(), 100));
    let ours = tokenizer.encode_batch(inputs.clone(), false).unwrap_err().to_string();
    assert_eq!(ours, (*tokenizer).encode_batch(inputs, false).unwrap_err().to_string());
}

#[test]
fn parallelism_can_be_switched_off() {
    alone(
        module_path!(),
        "parallelism_can_be_switched_off",
        |command| {
            command.env("TOKENIZERS_PARALLELISM", "false");
        },
        || {
            assert_eq!(tokenizer().encode_batch(texts(2000), false).unwrap().len(), 2000);
            assert!(windrow_testkit::has_no_threads(), "a serial batch started threads");
        },
    );
}

/// After a parallel batch, a child of `fork` encodes in parallel too.
#[cfg(target_os = "linux")]
#[test]
fn forked_children_encode() {
    alone(
        module_path!(),
        "forked_children_encode",
        |command| {
            command.env("WINDROW_THREADS", "2");
        },
        || {
            let mut tokenizer = tokenizer();
            // The library pads with threads of rayon, which a child does not have.
            tokenizer.with_padding(Some(PaddingParams::default()));
            let ids = |inputs| -> Vec<Vec<u32>> {
                let encodings = tokenizer.encode_batch(inputs, false).unwrap();
                encodings.iter().map(|encoding| encoding.get_ids().to_vec()).collect()
            };
            let expected = ids(texts(3000));
            let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
            assert!(windrow_testkit::forked(|| threads() == 1 && ids(texts(3000)) == expected && threads() == 2));
            assert!(ids(texts(3000)) == expected, "the parent goes on");
        },
    );
}
