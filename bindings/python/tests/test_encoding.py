"""Encodings, compared field by field with those of Hugging Face's library."""

import asyncio
import copy
import itertools
import json
import os
import pathlib
import pickle
import time
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from conftest import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from test_load import byte_level

import windrow

DATA = pathlib.Path(os.environ.get("WINDROW_DATA") or pathlib.Path(__file__).parents[4] / "shared/data")
FILES = ["gpt2", "qwen2_5", "deepseek_v3", "mistral_nemo", "bert_base_uncased", "t5_small"]
FIELDS = ["ids", "type_ids", "tokens", "offsets", "attention_mask", "special_tokens_mask", "word_ids", "sequence_ids"]
TEXTS = [
    "Hello world",
    "",
    " ",
    "a",
    "Straße, naïve café: 東京 \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467!",
    "  two  spaces\n\n\tand\r\nlines  ",
    "e\u0301 \u1112\u1161\u11ab \u0958 don't I'LL 12345 a_b",
    "<|endoftext|> in <s> the </s> middle<|endoftext|>[SEP]",
    "x" * 100 + " " + "é" * 50,
]
PIECES = st.sampled_from([*TEXTS, "the ", "é", "\n", " 1", "'s", "ab", "\u0301", "<|endoftext|>", "東", "\U0001f600"])
STRINGS = st.lists(PIECES | st.text(max_size=8), max_size=6).map("".join)


class Both:
    """A tokenizer, and the reference."""

    def __init__(self, text: str) -> None:
        self.ours, self.theirs = windrow.Tokenizer.from_str(text), tokenizers.Tokenizer.from_str(text)

    def set(self, name: str, *arguments: Any, **settings: Any) -> None:
        for tokenizer in (self.ours, self.theirs):
            getattr(tokenizer, name)(*arguments, **settings)

    def check(self, inputs: list[Any], **options: Any) -> None:
        ours, theirs = self.ours.encode_batch(inputs, **options), self.theirs.encode_batch(inputs, **options)
        assert len(ours) == len(theirs)
        for mine, other, value in zip(ours, theirs, inputs, strict=True):
            same(mine, other, value)


def same(mine: windrow.Encoding, other: Any, value: Any) -> None:
    assert len(mine) == len(other), value
    # First of all what is there before the rest is made.
    for field in [*FIELDS[:2], *FIELDS[4:6], *FIELDS]:
        assert getattr(mine, field) == getattr(other, field), (field, value)
    assert mine.n_sequences == other.n_sequences
    assert len(mine.overflowing) == len(other.overflowing), value
    for part, others in zip(mine.overflowing, other.overflowing, strict=True):
        same(part, others, value)


@pytest.fixture(scope="module", params=["small", "template", *FILES])
def both(request: pytest.FixtureRequest) -> Both:
    if request.param in ("small", "template"):
        return Both(byte_level(special=request.param == "template"))
    file = DATA / f"tok/{request.param}.json"
    if not file.exists():
        pytest.skip(f"no {file}")
    return Both(file.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def nothing_set(request: pytest.FixtureRequest) -> None:
    if "both" in request.fixturenames:
        both = request.getfixturevalue("both")
        both.set("no_padding")
        both.set("no_truncation")


@pytest.mark.parametrize("special", [False, True])
def test_single_texts_pairs_and_words(both: Both, special: bool) -> None:
    both.check(TEXTS, add_special_tokens=special)
    both.check(list(itertools.product(TEXTS[:5], TEXTS[4:8])), add_special_tokens=special)
    words = [text.split() for text in TEXTS if text.strip()]
    both.check(words, is_pretokenized=True, add_special_tokens=special)
    both.check([(first, second) for first, second in zip(words, words[1:])], is_pretokenized=True, add_special_tokens=special)


def test_real_text(both: Both) -> None:
    file = DATA / "text/big.txt"
    if not file.exists():
        pytest.skip(f"no {file}")
    both.check(file.read_text(encoding="utf-8", errors="replace")[:60_000].split("\n\n"))


@settings(max_examples=cases(20), deadline=None)
@given(texts=st.lists(STRINGS, min_size=1, max_size=4), special=st.booleans())
def test_any_texts(both: Both, texts: list[str], special: bool) -> None:
    both.check(texts, add_special_tokens=special)


@settings(max_examples=cases(20), deadline=None)
@given(
    texts=st.lists(STRINGS, min_size=1, max_size=4),
    pairs=st.booleans(),
    length=st.integers(8, 30),
    stride=st.integers(0, 2),
    strategy=st.sampled_from(["longest_first", "only_first", "only_second"]),
    direction=st.sampled_from(["left", "right"]),
    padding=st.none() | st.fixed_dictionaries(
        {
            "direction": st.sampled_from(["left", "right"]),
            "length": st.none() | st.integers(1, 40),
            "pad_to_multiple_of": st.none() | st.integers(1, 8),
            "pad_id": st.integers(0, 9),
        }
    ),
)  # fmt: skip
def test_any_truncation_and_padding(
    both: Both,
    texts: list[str],
    pairs: bool,
    length: int,
    stride: int,
    strategy: str,
    direction: str,
    padding: dict[str, Any] | None,
) -> None:
    inputs: list[Any] = list(itertools.pairwise([*texts, *texts])) if pairs else texts
    both.set("enable_truncation", length, stride=stride, strategy=strategy, direction=direction)
    both.set("no_padding") if padding is None else both.set("enable_padding", **padding)
    assert (both.ours.truncation, both.ours.padding) == (both.theirs.truncation, both.theirs.padding)
    try:
        theirs = both.theirs.encode_batch(inputs)
    except BaseException as error:  # The library panics, which is no Exception, where a stride is too long.
        with pytest.raises(windrow.ItemError):
            both.ours.encode_batch(inputs)
        assert type(error).__name__ in ("Exception", "PanicException", "TruncationError"), error
        return
    for mine, other, value in zip(both.ours.encode_batch(inputs), theirs, inputs, strict=True):
        same(mine, other, value)


def test_maps_between_characters_words_and_tokens(both: Both) -> None:
    for text in TEXTS:
        mine, other = both.ours.encode(text, TEXTS[0]), both.theirs.encode(text, TEXTS[0])
        for sequence in (0, 1):
            for place in range(len(text) + 2):
                assert mine.char_to_token(place, sequence) == other.char_to_token(place, sequence)
                assert mine.char_to_word(place, sequence) == other.char_to_word(place, sequence)
                assert mine.word_to_tokens(place, sequence) == other.word_to_tokens(place, sequence)
                assert mine.word_to_chars(place, sequence) == other.word_to_chars(place, sequence)
        for token in range(len(mine) + 1):
            assert mine.token_to_chars(token) == other.token_to_chars(token)
            assert mine.token_to_word(token) == other.token_to_word(token)
            assert mine.token_to_sequence(token) == other.token_to_sequence(token)


def test_vocabulary(both: Both) -> None:
    assert both.ours.get_vocab() == both.theirs.get_vocab()
    assert both.ours.get_vocab_size() == both.theirs.get_vocab_size()
    assert both.ours.get_vocab_size(False) == both.theirs.get_vocab_size(False)
    for id in [*range(300), 10**6]:
        assert both.ours.id_to_token(id) == both.theirs.id_to_token(id), id
    ours, theirs = both.ours.get_added_tokens_decoder(), both.theirs.get_added_tokens_decoder()
    assert ours.keys() == theirs.keys()
    for id, token in ours.items():
        for flag in ("content", "single_word", "lstrip", "rstrip", "normalized", "special"):
            assert getattr(token, flag) == getattr(theirs[id], flag)
    for pair in (False, True):
        assert both.ours.num_special_tokens_to_add(pair) == both.theirs.num_special_tokens_to_add(pair)


def test_decoding(both: Both) -> None:
    from tokenizers.decoders import DecodeStream

    encodings = both.theirs.encode_batch(TEXTS)
    for skip in (False, True):
        ids = [encoding.ids for encoding in encodings]
        assert both.ours.decode_batch(ids, skip) == both.theirs.decode_batch(ids, skip)
        for one in ids:
            ours, theirs = windrow.DecodeStream(skip_special_tokens=skip), DecodeStream(skip_special_tokens=skip)
            for id in one:
                assert ours.step(both.ours, id) == theirs.step(both.theirs, id)


def test_added_tokens_and_files() -> None:
    both = Both(byte_level())
    for method, tokens in [("add_tokens", ["tool", "ab"]), ("add_special_tokens", ["<x>"])]:
        assert getattr(both.ours, method)(tokens) == getattr(both.theirs, method)(tokens)
        both.check(["a tool ab<x>", "tools"])
    added = windrow.AddedToken("<y>", lstrip=True, rstrip=True, normalized=False)
    theirs = tokenizers.AddedToken("<y>", lstrip=True, rstrip=True, normalized=False)
    assert (both.ours.add_tokens([added]), both.theirs.add_tokens([theirs])) == (1, 1)
    both.check(["a <y> b", "<y>", " <y> <y>x"])
    both.set("enable_padding", length=4)
    both.set("enable_truncation", 3)
    assert json.loads(both.ours.to_str()) == json.loads(both.theirs.to_str())
    assert json.loads(both.ours.to_str(pretty=True)) == json.loads(both.theirs.to_str())
    for other in (pickle.loads(pickle.dumps(both.ours)), copy.copy(both.ours), copy.deepcopy(both.ours), windrow.Tokenizer(both.theirs)):
        assert other.padding == both.ours.padding
        for mine, again in zip(both.ours.encode_batch(TEXTS), other.encode_batch(TEXTS), strict=True):
            assert mine == again
    copied = copy.copy(both.ours)
    copied.no_padding()
    assert both.ours.padding is not None


def test_special_tokens_in_texts() -> None:
    both = Both(byte_level())
    for value in (True, False):
        both.ours.encode_special_tokens = both.theirs.encode_special_tokens = value
        assert both.ours.encode_special_tokens is value
        both.check(["a<s>b"])


def test_encodings_are_values() -> None:
    both = Both(byte_level(special=True))
    mine, other = both.ours.encode("ab cd"), both.theirs.encode("ab cd")
    for encoding in (mine, other):
        encoding.pad(8, direction="left", pad_id=3)
    same(mine, other, "padded")
    for encoding in (mine, other):
        encoding.truncate(4, stride=1)
    same(mine, other, "truncated")
    same(pickle.loads(pickle.dumps(mine)), other, "pickled")
    assert windrow.Encoding.merge([mine, mine]).ids == tokenizers.Encoding.merge([other, other]).ids


def test_async() -> None:
    both = Both(byte_level(special=True))

    async def all_of_them() -> None:
        same(await both.ours.async_encode("ab", "c"), both.theirs.encode("ab", "c"), "one")
        for method in (both.ours.async_encode_batch, both.ours.async_encode_batch_fast):
            for mine, other in zip(await method(TEXTS), both.theirs.encode_batch(TEXTS), strict=True):
                same(mine, other, "batch")
        assert await both.ours.async_decode_batch([[97, 98], []]) == both.theirs.decode_batch([[97, 98], []])

    asyncio.run(all_of_them())


def test_what_is_wrong_is_named() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level())
    with pytest.raises(TypeError, match="item 1: expected a str, or a pair of str, not int"):
        tokenizer.encode_batch(["a", 1])
    with pytest.raises(TypeError, match="pass is_pretokenized=False for texts"):
        tokenizer.encode_batch(["a"], is_pretokenized=True)
    with pytest.raises(TypeError, match="encode takes a single text"):
        tokenizer.encode_batch("abc")
    with pytest.raises(windrow.ItemError, match="item 1: has half of a surrogate pair"):
        tokenizer.encode_batch(["ok", "bad \ud800"])
    with pytest.raises(ValueError, match="the stride 3 is not less than max_length 3"):
        tokenizer.enable_truncation(3, stride=3)
    with pytest.raises(ValueError, match='strategy "x" is not one of'):
        tokenizer.enable_truncation(3, strategy="x")
    with pytest.raises(ValueError, match="neither"):
        tokenizer.enable_padding(direction="up")
    with pytest.raises(TypeError, match="expected a Tokenizer or a model from tokenizers, .* not int"):
        windrow.Tokenizer(3)
    with pytest.raises(TypeError):
        tokenizer.enable_padding(unknown=3)  # type: ignore[call-arg]


def test_vocabularies_of_tiktoken() -> None:
    tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
    assert tokenizer.get_vocab_size() == 50257
    assert tokenizer.get_vocab()["\u0120world"] == 995
    encoding = tokenizer.encode("Hello w\u00f6rld", "<|endoftext|>")
    assert encoding.word_ids == [0, 1, 1, 1, 0]
    assert encoding.sequence_ids == [0, 0, 0, 0, 1]
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=3)
    assert tokenizer.encode("Hello w\u00f6rld").tokens == ["Hello", "\u0120w", "[PAD]"]
    assert pickle.loads(pickle.dumps(tokenizer)).encode_batch_ids(["Hello"]).tolist() == [[15496]]
    with pytest.raises(windrow.TokenizerError, match="has no tokenizer.json"):
        tokenizer.add_tokens(["x"])
    with pytest.raises(windrow.ItemError, match="item 0: .*this vocabulary has no tokenizer.json"):
        tokenizer.encode_batch([["a", "word"]], is_pretokenized=True)
    assert windrow.encode_batch_ids(tokenizers.Tokenizer.from_str(byte_level()), ["ab"]).tolist() == [[256]]


def test_added_tokens_that_become_equal() -> None:
    file = json.loads(byte_level())
    file["normalizer"] = {"type": "Lowercase"}
    tokenizer = windrow.Tokenizer.from_str(json.dumps(file))
    tokenizer.add_tokens(["COVID"])
    with pytest.raises(windrow.TokenizerError, match='"COVID" and "Covid" are both "covid" after normalization\nhint: set `normalized`'):
        tokenizer.add_tokens(["Covid"])
    tokenizer.add_tokens([windrow.AddedToken("Covid", normalized=False)])
    assert len(tokenizer.encode_batch_ids(["COVID Covid"]).tolist()[0]) == 3


def test_ids_of_one_text_take_no_whole_encoding() -> None:
    """A call that returns only ids must not make a whole encoding: the library takes ten times as long for one."""
    file = DATA / "tok/bert_base_uncased.json"
    if not file.exists():
        pytest.skip(f"no {file}")
    tokenizer = windrow.Tokenizer.from_file(file)
    text = "The quick brown fox jumps over the lazy dog, 12345 times. " * 5000

    def cpu(call: Callable[[], object]) -> float:
        begin = time.process_time()
        call()
        return time.process_time() - begin

    plain, whole = (min(cpu(call) for _ in range(3)) for call in (lambda: tokenizer.encode_batch_ids([text]), lambda: tokenizer.encode(text).ids))
    assert whole < 4 * plain, (plain, whole)
    assert tokenizer.encode(text).ids == tokenizer.encode_batch_ids([text]).tolist()[0]


def test_byte_offsets(gpt2: windrow.Tokenizer) -> None:
    text = "Hello wörld 🎉 naïve"
    encoding = gpt2.encode(text)
    raw = text.encode()
    assert encoding.byte_offsets(text) == [(len(text[:a].encode()), len(text[:b].encode())) for a, b in encoding.offsets]
    assert raw[slice(*encoding.byte_offsets(text)[1])] == b" w"
    with pytest.raises(windrow.InputError, match="does not belong to this input"):
        encoding.byte_offsets("Hello")


def test_byte_offsets_of_pairs_and_words() -> None:
    pieces = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "thé", "cat", "ü", "##nder", "ice"]
    model = tokenizers.models.WordPiece({piece: id for id, piece in enumerate(pieces)}, unk_token="[UNK]")
    reference = tokenizers.Tokenizer(model)
    reference.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    reference.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    ours = windrow.Tokenizer(reference)
    ours.enable_padding(length=12)
    first, second = "thé cat", "ünder ice"

    def in_bytes(text: str, place: tuple[int, int]) -> tuple[int, int]:
        return len(text[: place[0]].encode()), len(text[: place[1]].encode())

    encoding = ours.encode(first, second)
    sequences = [(first, second)[one] if one is not None else "" for one in encoding.sequence_ids]
    assert encoding.byte_offsets(first, second) == list(map(in_bytes, sequences, encoding.offsets))
    words = ["thé", "cat"]
    encoding = ours.encode(words, is_pretokenized=True)
    parts = [words[one] if one is not None else "" for one in encoding.word_ids]
    assert encoding.byte_offsets(words) == list(map(in_bytes, parts, encoding.offsets))


def test_encodings_that_do_not_follow_from_ids_are_the_same_before_and_after_their_columns_are_read() -> None:
    pieces = ["[UNK]", "cat", "##s", "ice"]
    model = tokenizers.models.WordPiece({piece: id for id, piece in enumerate(pieces)}, unk_token="[UNK]")
    reference = tokenizers.Tokenizer(model)
    reference.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ours = windrow.Tokenizer(reference)
    texts = ["cats", "ice dogs", ""]
    for expected, text in zip(reference.encode_batch(texts), texts):
        for _ in range(2):
            for encoding in (ours.encode(text), ours.encode_batch(texts)[texts.index(text)]):
                assert [getattr(encoding, field) for field in FIELDS] == [getattr(expected, field) for field in FIELDS]
