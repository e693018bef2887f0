//! A `tokenizer.json`.

use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};

const TEXTS: [&str; 8] = [
    "",
    "the path of thorns",
    " Two  spaces, 12345 and\r\n\tlines\n\n",
    "<|end|>the<|end|> [CLS] <s>",
    "e\u{301}\u{212b} 漢字 ʼn ǅ \u{1f600}\u{200d}",
    "\0\u{1}\u{feff}\u{85}\u{2028}",
    "I'ſ don't DON'T",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

/// The first byte chooses the options.
pub(crate) fn run(data: &[u8]) {
    let Some((&choice, json)) = data.split_first() else { return };
    let options =
        LoadOptions { add_special_tokens: choice & 1 != 0, special_in_text: choice & 2 == 0, ..LoadOptions::default() };
    let Ok(tokenizer) = Tokenizer::from_json(json, "fuzz", &options) else { return };
    let mut encoder = tokenizer.engine().encoder();
    // Of a file that windrow's own engine reads, another one gives the same ids; so does the same one, loaded again.
    let other = LoadOptions { engine: EngineChoice::Tokenizers, ..options };
    let other = Tokenizer::from_json(json, "fuzz", &other).ok();
    let mut other = other.as_ref().map(|other| other.engine().encoder());
    for text in TEXTS {
        let mut ids = vec![7];
        match encoder.encode(text, &mut ids) {
            // A refused text leaves no ids.
            Err(_) => assert_eq!(ids, [7]),
            Ok(()) => {
                assert!(
                    ids[1..].iter().all(|&id| id < tokenizer.vocab_size()),
                    "{:?} beyond {}",
                    ids,
                    tokenizer.vocab_size()
                );
                let mut again = Vec::new();
                encoder.encode(text, &mut again).expect("what was encoded before");
                assert_eq!(again, ids[1..], "the same text has different ids");
                let mut others = Vec::new();
                if other.as_mut().is_some_and(|other| other.encode(text, &mut others).is_ok()) {
                    assert_eq!(others, again, "two engines give different ids for {text:?}");
                }
                // Decoders may refuse.
                let _ = tokenizer.decode(&again, false);
            }
        }
    }
}
