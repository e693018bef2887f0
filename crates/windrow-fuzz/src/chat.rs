//! Chat templates, and rows of messages.

use std::sync::OnceLock;

use windrow_tokenizers::chat::{Chat, ChatTemplate, Loss, SpecialTokens, ids_and_mask};
use windrow_tokenizers::tokenizer::{LoadOptions, Tokenizer};

/// Steps of a template. A program grants it more, so that it takes longer to find that it does not end.
const STEPS: u64 = 5_000;

/// A byte-level vocabulary.
const TOKENIZER: &[u8] = include_bytes!("../corpus/tokenizer/bpe_bytes");

/// The first byte chooses the special tokens and the date. The template follows, then a line break and the row.
pub(crate) fn run(data: &[u8]) {
    static LOADED: OnceLock<Tokenizer> = OnceLock::new();
    let Some((&choice, bytes)) = data.split_first() else { return };
    let Some(end) = bytes.iter().rposition(|&byte| byte == b'\n') else { return };
    let (Ok(source), Ok(row)) = (str::from_utf8(&bytes[..end]), str::from_utf8(&bytes[end + 1..])) else { return };
    let mut tokens = SpecialTokens::default();
    if choice & 1 != 0 {
        tokens.set("bos_token", "<s>");
        tokens.set("eos_token", "</s>");
    }
    let Ok(template) = ChatTemplate::from_source("fuzz", source, tokens) else { return };
    let mut template = template.with_steps(STEPS);
    if choice & 2 != 0 {
        template = template.with_date("2024-02-29".parse().expect("a day"));
    }
    let _ = template.unknown_tokens();
    let tokenizer = LOADED.get_or_init(|| {
        let tokenizer = Tokenizer::from_json(&TOKENIZER[1..], "fuzz", &LoadOptions::default());
        tokenizer.expect("a tokenizer of the corpus")
    });
    let mut chat = Chat { template, loss: Loss::All };
    let all = chat.render(row, "messages");
    assert_eq!(all, chat.render(row, "messages"), "two runs write the same text");
    if let Ok((text, spans)) = &all {
        assert!(!text.trim().is_empty(), "an empty text means a lost row");
        assert!(spans.is_empty(), "{spans:?}");
    }
    chat.loss = Loss::Assistant;
    let Ok((text, spans)) = chat.render(row, "messages") else { return };
    if let Ok(all) = all {
        assert_eq!(all.0, text, "masks do not change the text");
    }
    for span in &spans {
        assert!(text.get(span.clone()).is_some(), "{span:?} is not a part of {text:?}");
    }
    let Ok((ids, mask)) = ids_and_mask(tokenizer, &text, &spans) else { return };
    assert_eq!(ids.len(), mask.len(), "every id has a mask");
    assert!(mask.iter().all(|mask| *mask <= 1), "{mask:?}");
    let covered: usize = spans.iter().map(|span| span.len()).sum();
    match covered {
        0 => assert!(!mask.contains(&1), "{mask:?} without spans"),
        _ if spans.len() == 1 && covered == text.len() => assert!(!mask.contains(&0), "{mask:?}"),
        _ => {}
    }
}
