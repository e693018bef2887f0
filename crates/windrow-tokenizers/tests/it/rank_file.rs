//! The rank files of tiktoken, against tiktoken.

use std::fs;
use std::path::PathBuf;

use tiktoken_rs::CoreBPE;
use windrow_tokenizers::tokenizer::{EngineChoice, LoadOptions, Tokenizer};

const TEXTS: [&str; 6] = [
    "",
    "Hello world, it's   12345\n\n\tfoo      bar <|endoftext|>",
    "def f(x):\n        return  x\n                         y\n                             z",
    "  \u{3000} 日本語 и \u{1f468}\u{200d}\u{1f469}",
    "a<|fim_prefix|>b<|endofprompt|>",
    "                                                                  ",
];

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - three.len()));
        let digit = |at: u32| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
        let used = three.len() as u32 + 1;
        text.extend((0..4).map(|at| if at < used { digit(at) } else { '=' }));
    }
    text
}

/// The file of a vocabulary, as it is published.
fn published(oracle: &CoreBPE) -> String {
    let special: Vec<Vec<u8>> = oracle.special_tokens().into_iter().map(|token| token.as_bytes().to_vec()).collect();
    let tokens = (0..300_000).filter_map(|rank| Some((oracle.decode_bytes(&[rank]).ok()?, rank)));
    let lines = tokens.filter(|(token, _)| !special.contains(token));
    lines.map(|(token, rank)| format!("{} {rank}\n", base64(&token))).collect()
}

/// Writes a file and loads it.
fn load(name: &str, content: &str, options: &LoadOptions) -> Result<Tokenizer, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join(name);
    fs::write(&path, content).expect("written");
    let path = path.to_str().expect("UTF-8");
    let loaded = Tokenizer::load(path, options);
    loaded.map_err(|error| error.to_string())
}

#[test]
fn published_files_have_the_ids_of_tiktoken() {
    for (name, oracle, size) in [
        ("r50k_base", tiktoken_rs::r50k_base_singleton(), 50_257),
        ("p50k_base", tiktoken_rs::p50k_base_singleton(), 50_281),
        ("cl100k_base", tiktoken_rs::cl100k_base_singleton(), 100_277),
        ("o200k_base", tiktoken_rs::o200k_base_singleton(), 200_019),
    ] {
        let file = published(oracle);
        // Neither the name, nor line ends, nor the order of lines matter.
        let mut lines: Vec<&str> = file.lines().collect();
        lines.reverse();
        let shuffled = format!("{}\r\n", lines.join("\r\n"));
        for special_in_text in [false, true] {
            let options = LoadOptions { special_in_text, ..LoadOptions::default() };
            let embedded = Tokenizer::load(name, &options).expect("embedded");
            assert_eq!((embedded.vocab_size(), embedded.name()), (size, name));
            for (file_name, content) in [(format!("{name}.tiktoken"), &file), ("other.tiktoken".to_owned(), &shuffled)]
            {
                let tokenizer = load(&file_name, content, &options).expect("loads");
                assert!(tokenizer.engine().name().starts_with("windrow-bpe "));
                assert_eq!((tokenizer.vocab_size(), tokenizer.delegated()), (size, None));
                assert_eq!(tokenizer.hash(), blake3::hash(content.as_bytes()).to_hex().as_str());
                assert!(tokenizer.name().ends_with(&file_name));
                for text in TEXTS {
                    let ids = tokenizer.encode_batch_ids(&[text]).expect("encodes").values;
                    let expected = match special_in_text {
                        true => oracle.encode_with_special_tokens(text),
                        false => oracle.encode_ordinary(text),
                    };
                    assert_eq!(ids, expected, "{name}: {text:?}");
                    assert_eq!(ids, embedded.encode_batch_ids(&[text]).expect("encodes").values);
                    assert_eq!(tokenizer.decode(&ids, false).expect("decodes"), text);
                }
                assert_eq!(
                    tokenizer.eos(),
                    Some(("<|endoftext|>".to_owned(), oracle.encode_with_special_tokens("<|endoftext|>")[0]))
                );
            }
        }
    }
}

#[test]
fn vocabularies_without_a_file_of_their_own_have_the_ids_of_tiktoken() {
    let marked = "<|start|>user<|message|>hi   there<|end|><|reserved_201087|><|return|>";
    for (name, oracle, size, marks) in [
        ("p50k_edit", tiktoken_rs::p50k_edit_singleton(), 50_284, "x<|fim_middle|>   <|fim_suffix|>"),
        ("gpt-oss-20b", tiktoken_rs::o200k_harmony_singleton(), 201_088, marked),
        ("o200k_harmony", tiktoken_rs::o200k_harmony_singleton(), 201_088, marked),
    ] {
        for engine in [EngineChoice::Automatic, EngineChoice::Tokenizers] {
            for special_in_text in [false, true] {
                let options = LoadOptions { special_in_text, engine, ..LoadOptions::default() };
                let tokenizer = Tokenizer::load(name, &options).expect("embedded");
                assert_eq!(tokenizer.vocab_size(), size);
                for text in TEXTS.into_iter().filter(|text| !text.contains("endofprompt")).chain([marks]) {
                    let expected = match special_in_text {
                        true => oracle.encode_with_special_tokens(text),
                        false => oracle.encode_ordinary(text),
                    };
                    assert_eq!(
                        tokenizer.encode_batch_ids(&[text]).expect("encodes").values,
                        expected,
                        "{name}: {text:?}"
                    );
                    assert_eq!(tokenizer.decode(&expected, false).expect("decodes"), text);
                }
            }
        }
    }
    let harmony = Tokenizer::load("o200k_harmony", &LoadOptions::default()).expect("embedded");
    for name in ["<|endofprompt|>", "<|reserved_200018|>"] {
        assert_eq!(harmony.token_to_id(name), Some(200_018));
    }
    assert_eq!(harmony.decode(&[200_018], false).expect("decodes"), "<|endofprompt|>");
}

#[test]
fn faults_name_line_and_remedy() {
    for (content, says) in [
        ("", "the file is empty\nhint: each line must consist of a token in base64"),
        ("\n\n", "the file is empty"),
        (
            "IQ== 0\nIg==1\n",
            "line 2: there is no space\nhint: each line must consist of a token in base64, a space and a rank; download the file again",
        ),
        ("IQ== 0\n\nIg= 1\n", "line 3: the token is not in base64"),
        (" 0\n", "line 1: the token is empty"),
        ("IQ== x\n", "line 1: the rank is not a whole number"),
        ("IQ== +1\n", "line 1: the rank is not a whole number"),
        ("IQ== 1 2\n", "line 1: the rank is not a whole number"),
        ("IQ== 4294967296\n", "line 1: the rank is not a whole number"),
        ("IQ== 7\nIg== 8\nIw== 7\n", "line 3: rank 7 is already used on line 1"),
        (
            "IQ== 0\nIg== 1\n",
            "not one of the published rank files, so its pattern and special tokens are unknown\nhint: windrow knows only the rank files of r50k_base (or gpt2), p50k_base, p50k_edit, cl100k_base",
        ),
    ] {
        let error = load("x.tiktoken", content, &LoadOptions::default()).err().expect("refused");
        assert!(error.contains(says), "{content:?}\n{error}");
    }
}

#[test]
fn a_published_name_does_not_excuse_other_tokens() {
    let file = published(tiktoken_rs::r50k_base_singleton());
    let half = &file[..file[..file.len() / 2].rfind('\n').expect("lines") + 1];
    let changed = file.replacen("IQ== 0\nIg== 1", "Ig== 0\nIQ== 1", 1);
    for name in ["r50k_base", "gpt2", "p50k_base", "cl100k_base"] {
        for content in [half, &changed] {
            let error = load(&format!("{name}.tiktoken"), content, &LoadOptions::default()).err().expect("refused");
            assert!(
                error.contains(&format!("tokens are not those of the published {name}\nhint: download the file again")),
                "{error}"
            );
        }
    }
}
