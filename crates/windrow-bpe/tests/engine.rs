//! The engine against the definition of BPE and the regexes of its grammars, with random vocabularies.

use std::collections::HashMap;

use proptest::prelude::*;
use unicode_normalization_alignments::UnicodeNormalization;
use windrow::Pool;
use windrow_bpe::{AddedToken, BpeEngine, Definition, Digits, EngineOptions, Grammar, Ragged, merge_by_definition};

/// Texts of which vocabularies and documents are made: letters of several scripts, marks, digits, white space, contractions, added tokens.
const PARTS: [&str; 36] = [
    "a",
    "b",
    "ab",
    "abc",
    "cab",
    "B",
    "'s",
    "'RE",
    "1",
    "23",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    ".",
    "!?",
    "/",
    "é",
    "e\u{301}",
    "я",
    "Яя",
    "中",
    "文",
    "中文",
    "日本",
    "한",
    "\u{1112}\u{1161}",
    "😀",
    "\u{3000}",
    "\0",
    "\u{200d}",
    "<e>",
    "<ee",
    "<e>>",
    "windrow",
];

/// A vocabulary whose merges come from a text: pairs of neighbouring tokens, in a random order.
#[derive(Clone, Debug)]
struct Vocabulary {
    tokens: Vec<(Vec<u8>, u32)>,
    merges: Vec<(Vec<u8>, Vec<u8>)>,
}

fn vocabulary(seeds: &[(usize, usize, usize)]) -> Vocabulary {
    let mut tokens: Vec<(Vec<u8>, u32)> = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    let mut known: HashMap<Vec<u8>, u32> = tokens.iter().cloned().collect();
    let mut merges: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for &(part, cut, partner) in seeds {
        // Merges the prefix of a text with what follows, if both are tokens.
        let text = [PARTS[part], PARTS[partner]].concat();
        let bytes = text.as_bytes();
        let end = 2 + cut % (bytes.len().max(3) - 2);
        for middle in 1..end.min(bytes.len()) {
            let (left, right) = (bytes[..middle].to_vec(), bytes[middle..end.min(bytes.len())].to_vec());
            let merge = (left, right);
            if known.contains_key(&merge.0) && known.contains_key(&merge.1) && !merges.contains(&merge) {
                let union = [&merge.0[..], &merge.1[..]].concat();
                let next = 300 + known.len() as u32;
                known.entry(union.clone()).or_insert_with(|| {
                    tokens.push((union, next));
                    next
                });
                merges.push(merge);
                break;
            }
        }
    }
    Vocabulary { tokens, merges }
}

struct Case {
    definition: Definition,
    merges: Vec<(Vec<u8>, Vec<u8>)>,
}

fn case(grammar: Grammar, vocabulary: &Vocabulary, ignore_merges: bool, nfc: bool) -> Case {
    let Vocabulary { tokens, merges } = vocabulary.clone();
    let ids: HashMap<&[u8], u32> = tokens.iter().map(|(token, id)| (&token[..], *id)).collect();
    let pairs = merges.iter().map(|(left, right)| (ids[&left[..]], ids[&right[..]])).collect();
    let added = [("<e>", Some(5000)), ("<ee", None), ("<e>>", Some(5001))];
    let added = added.map(|(content, id)| AddedToken::new(content, id)).to_vec();
    Case {
        definition: Definition { grammar, tokens: tokens.clone(), merges: pairs, ignore_merges, added, nfc },
        merges,
    }
}

/// The pieces of a text: the first regex splits it, and the others split the parts.
fn pieces<'t>(regexes: &[fancy_regex::Regex], text: &'t str) -> Vec<&'t [u8]> {
    let Some((regex, others)) = regexes.split_first().filter(|_| !text.is_empty()) else {
        return (!text.is_empty()).then_some(text.as_bytes()).into_iter().collect();
    };
    let (mut begin, mut all) = (0, Vec::new());
    for found in regex.find_iter(text).map(Result::unwrap) {
        all.extend(pieces(others, &text[begin..found.start()]));
        all.extend(pieces(others, found.as_str()));
        begin = found.end();
    }
    all.extend(pieces(others, &text[begin..]));
    all
}

impl Case {
    /// The ids of a text, step by step as the reference does it.
    fn expected(&self, text: &str) -> Vec<u32> {
        let patterns = self.definition.grammar.patterns();
        let regexes: Vec<_> = patterns.iter().map(|pattern| fancy_regex::Regex::new(pattern).unwrap()).collect();
        let ids: HashMap<&[u8], u32> = self.definition.tokens.iter().map(|(token, id)| (&token[..], *id)).collect();
        let mut out = Vec::new();
        let plain = |text: &str, out: &mut Vec<u32>| {
            let text: String = if self.definition.nfc { text.nfc().map(|(c, _)| c).collect() } else { text.to_owned() };
            for piece in pieces(&regexes, &text) {
                match ids.get(piece) {
                    Some(&id) if self.definition.ignore_merges => out.push(id),
                    _ => out.extend(merge_by_definition(piece, &self.merges).iter().map(|part| ids[&part[..]])),
                }
            }
        };
        let (mut begin, mut at) = (0, 0);
        while at < text.len() {
            let here = self.definition.added.iter().filter(|token| text[at..].starts_with(&token.content));
            match here.max_by_key(|token| token.content.len()) {
                Some(AddedToken { content, id, .. }) => {
                    if let Some(id) = id {
                        plain(&text[begin..at], &mut out);
                        out.push(*id);
                        begin = at + content.len();
                    }
                    at += content.len();
                }
                None => at += text[at..].chars().next().unwrap().len_utf8(),
            }
        }
        plain(&text[begin..], &mut out);
        out
    }
}

fn grammars() -> Vec<Grammar> {
    let mut all = vec![Grammar::Gpt2, Grammar::DeepSeek];
    for digits in [Digits::One, Digits::Three] {
        all.push(Grammar::Lines { digits });
        all.extend([true, false].map(|contractions| Grammar::Cases { digits, contractions }));
    }
    all
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    let parts = proptest::collection::vec((0..PARTS.len(), 1_usize..4), 0..60);
    let text = parts.prop_map(|parts| parts.into_iter().map(|(part, times)| PARTS[part].repeat(times)).collect());
    proptest::collection::vec(text, 1..8)
}

fn seeds() -> impl Strategy<Value = Vec<(usize, usize, usize)>> {
    proptest::collection::vec((0..PARTS.len(), 0_usize..20, 0..PARTS.len()), 0..120)
}

fn ragged(documents: &[Vec<u32>]) -> Ragged {
    let mut offsets = vec![0];
    offsets.extend(documents.iter().scan(0, |sum, ids| {
        *sum += ids.len() as u64;
        Some(*sum)
    }));
    Ragged { values: documents.concat(), offsets }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { windrow_testkit::cases(20) }, ..ProptestConfig::default() })]

    #[test]
    fn ids_are_those_of_the_definition(seeds in seeds(), texts in texts(), ignore_merges: bool, nfc: bool) {
        let vocabulary = vocabulary(&seeds);
        for grammar in grammars() {
            let case = case(grammar, &vocabulary, ignore_merges, nfc);
            let expected: Vec<Vec<u32>> = texts.iter().map(|text| case.expected(text)).collect();
            for instructions in [None, Some("avx2"), Some("swar")] {
                let options = EngineOptions { instructions, ..EngineOptions::default() };
                // Not every CPU has every set.
                let Ok(engine) = BpeEngine::new(&case.definition, &options) else { continue };
                // Cold, then warm.
                for _ in 0..2 {
                    prop_assert_eq!(engine.encode_batch(&texts).unwrap(), ragged(&expected), "{:?}", engine);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { windrow_testkit::cases(20) }, ..ProptestConfig::default() })]

    #[test]
    fn ids_decode_to_the_text(seeds in seeds(), texts in texts(), nfc: bool) {
        let case = case(Grammar::Gpt2, &vocabulary(&seeds), false, nfc);
        let engine = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
        for text in texts {
            let (ids, places) = engine.encode_with_offsets(&text).unwrap();
            prop_assert_eq!(&ids, &case.expected(&text));
            let (mut bytes, mut ends) = (Vec::new(), vec![0]);
            for id in &ids {
                engine.decode(&[*id], &mut bytes).unwrap();
                ends.push(bytes.len());
            }
            prop_assert_eq!(places.len(), ids.len());
            let words = engine.words(&text, &ids);
            prop_assert_eq!(words.len(), ids.len());
            prop_assert!(words.first().is_none_or(|first| *first == 0));
            prop_assert!(words.windows(2).all(|pair| pair[0] == pair[1] || pair[0] + 1 == pair[1]));
            if nfc {
                // No added token of these texts is next to a mark.
                prop_assert_eq!(String::from_utf8(bytes).unwrap(), text.nfc().map(|(c, _)| c).collect::<String>());
                prop_assert!(places.is_sorted_by_key(|place| place.start));
                prop_assert!(places.iter().all(|place| text.get(place.clone()).is_some()));
            } else {
                prop_assert_eq!(str::from_utf8(&bytes).unwrap(), &text);
                for (place, ends) in places.iter().zip(ends.windows(2)) {
                    let whole = text.char_indices().map(|(at, c)| at..at + c.len_utf8());
                    let touched: Vec<_> = whole.filter(|c| c.start < ends[1] && c.end > ends[0]).collect();
                    prop_assert_eq!(place.clone(), touched[0].start..touched[touched.len() - 1].end);
                }
            }
        }
    }
}

#[test]
fn ids_without_a_token_are_named() {
    let case = case(Grammar::Gpt2, &vocabulary(&[(2, 0, 2)]), false, false);
    let engine = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
    let mut bytes = b"<".to_vec();
    engine.decode(&[5000, u32::from(b'q'), 5001], &mut bytes).unwrap();
    assert_eq!(bytes, b"<<e>q<e>>");
    let unknown = engine.decode(&[u32::from(b'q'), 4999, 0], &mut bytes).unwrap_err();
    assert_eq!((unknown.index, unknown.id), (1, 4999));
    assert_eq!(bytes, b"<<e>q<e>>q");
    assert_eq!(unknown.to_string(), "id 4999, at index 1, has no token");
}

/// Documents that fill many windows, some of them long.
fn corpus() -> Vec<String> {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let lengths: [usize; 6] = [0, 1, 7, 90, 4_000, 60_000];
    (0..if cfg!(miri) { 4 } else { 300 })
        .map(|number| {
            let length = lengths[if number % 60 == 0 { 5 } else { next(5) }] / if cfg!(miri) { 100 } else { 1 };
            (0..length).map(|_| PARTS[next(PARTS.len())]).collect()
        })
        .collect()
}

#[test]
fn threads_do_not_change_ids() {
    let seeds: Vec<_> =
        (0..PARTS.len() * 20).map(|at| (at % PARTS.len(), at / 7, (at * 5 + at / 34) % PARTS.len())).collect();
    let vocabulary = vocabulary(&seeds);
    let documents = corpus();
    let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
    for grammar in grammars() {
        let case = case(grammar, &vocabulary, false, true);
        let serial = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
        let (mut values, mut ends) = (Vec::new(), Vec::new());
        serial.encode_all(&texts, &mut values, &mut ends).unwrap();
        let offsets = std::iter::once(0).chain(ends.into_iter().map(|end| end as u64)).collect();
        let expected = Ragged { values, offsets };
        assert_eq!(expected.len(), documents.len());
        for threads in [1, 2, 3, 8] {
            for _ in 0..if cfg!(miri) { 1 } else { windrow_testkit::cases(1) } {
                // A small cache, so that it fills up and grows while others read.
                let options = EngineOptions { cache_bytes: 1 << 20, ..EngineOptions::default() };
                let engine = BpeEngine::new(&case.definition, &options).unwrap();
                let mut batch = Ragged::default();
                for _ in 0..2 {
                    Pool::new(threads).install(|| engine.encode_batch_into(&documents, &mut batch)).unwrap();
                    assert!(batch == expected, "{grammar:?}, {threads} threads");
                }
            }
        }
    }
}

/// Words of which most are new, and the others come again soon: short ones, and a few long ones, which the heap of the table holds.
fn words() -> Vec<String> {
    let word = |number: usize| -> String {
        let scattered = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let letters = |count| (0..count).map(move |at| char::from(b'a' + (scattered >> (at * 8 % 40)) as u8 % 26));
        letters(if number.is_multiple_of(32) { 40 } else { 3 }).collect()
    };
    let document =
        |first: usize| (first..first + 90).map(|at| word(at / 2 + at % 7) + ["\n", "\r\n", ". \n", "я\n"][at % 4]);
    (0..if cfg!(miri) { 3 } else { 120 }).map(|number| document(number * 80).collect()).collect()
}

#[test]
fn caches_grow_while_threads_read() {
    let seeds: Vec<_> = (0..300).map(|at| (at % 5, at / 7, at * 3 % 5)).collect();
    let (vocabulary, documents) = (vocabulary(&seeds), words());
    let texts: Vec<&str> = documents.iter().map(String::as_str).collect();
    let mut has_grown = 0;
    for round in 0..if cfg!(miri) { 2 } else { 80 } {
        let grammar = grammars()[round % grammars().len()];
        let case = case(grammar, &vocabulary, round % 3 == 0, false);
        // The first table takes 72 KiB. Some may become four times as large, some twice.
        let cache_bytes = [300 << 10, 150 << 10][round % 2];
        let options = EngineOptions { cache_bytes, ..EngineOptions::default() };
        let serial = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
        let (mut values, mut ends) = (Vec::new(), Vec::new());
        serial.encode_all(&texts, &mut values, &mut ends).unwrap();
        let engine = BpeEngine::new(&case.definition, &options).unwrap();
        let slots = engine.cache_size().1;
        let batch = Pool::new(2 + round % 7).install(|| engine.encode_batch(&texts)).unwrap();
        assert!(batch.values == values, "round {round}: {engine:?}");
        assert!(batch.offsets[1..].iter().map(|&end| end as usize).eq(ends), "round {round}: {engine:?}");
        has_grown += usize::from(engine.cache_size().1 > slots);
    }
    assert!(cfg!(miri) || has_grown == 80, "{has_grown} caches have grown");
}

#[test]
fn letters_of_which_form_c_makes_marks_are_not_cut_off() {
    // The second one becomes a letter and U+093C, which is one piece with the full stop. Its last byte and the full stop merge.
    let vocabulary = Vocabulary {
        tokens: (0..=255).map(|byte| (vec![byte], u32::from(byte))).chain([(b"\xbc.".to_vec(), 256)]).collect(),
        merges: vec![(b"\xbc".to_vec(), b".".to_vec())],
    };
    let texts =
        ["\u{915}", "\u{958}"].map(|letter| [letter, "."].concat().repeat(if cfg!(miri) { 20 } else { 20_000 }));
    for grammar in grammars() {
        let case = case(grammar, &vocabulary, false, true);
        let expected = ragged(&[case.expected(&texts[0]), case.expected(&texts[1])]);
        let engine = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
        assert!(Pool::new(2).install(|| engine.encode_batch(&texts)).unwrap() == expected, "{grammar:?}");
    }
}

#[test]
fn long_pieces_take_little_time() {
    let vocabulary = vocabulary(&[(0, 0, 0), (0, 2, 0), (3, 1, 3), (22, 1, 23)]);
    for unit in ["a", " ", "\n", "中", "ab", "😀", "\u{301}", "'s", "1"] {
        let text = unit.repeat(if cfg!(miri) { 20 } else { 200_000 });
        for grammar in grammars() {
            let case = case(grammar, &vocabulary, false, false);
            let engine = BpeEngine::new(&case.definition, &EngineOptions::default()).unwrap();
            let begin = std::time::Instant::now();
            let batch = engine.encode_batch(&[&text]).unwrap();
            let bytes: usize = batch.values.iter().map(|&id| engine.token(id).len()).sum();
            assert_eq!(bytes, text.len(), "{unit:?} {grammar:?}");
            assert!(begin.elapsed().as_secs() < 20, "{unit:?} {grammar:?}: {:?}", begin.elapsed());
        }
    }
}

#[test]
fn definitions_that_cannot_be_encoded() {
    let vocabulary = vocabulary(&[(2, 0, 2)]);
    let good = case(Grammar::Gpt2, &vocabulary, false, false).definition;
    let refused = |change: fn(&mut Definition), why: &str| {
        let mut definition = good.clone();
        change(&mut definition);
        let error = BpeEngine::new(&definition, &EngineOptions::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    assert!(BpeEngine::new(&good, &EngineOptions::default()).is_ok());
    refused(|it| it.tokens.retain(|(token, _)| token != b"q"), "byte 113 is not a token");
    refused(|it| it.tokens.push((b"q".to_vec(), 9000)), "have the same bytes");
    refused(|it| it.tokens.push((b"qqq".to_vec(), 1 << 20)), "must be below 1048575");
    refused(|it| it.merges.push((1, 2)), "joins unknown tokens or produces one");
    refused(|it| it.merges.push(it.merges[0]), "occurs twice");
    refused(|it| it.added.push(AddedToken::default()), "is empty");
    refused(|it| it.added.push(it.added[0].clone()), "\"<e>\" occurs twice");
    let options = EngineOptions { instructions: Some("abacus"), ..EngineOptions::default() };
    assert!(BpeEngine::new(&good, &options).unwrap_err().to_string().contains("this CPU has no abacus"));
}
