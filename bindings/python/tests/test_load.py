"""Loading tokenizers."""

import json
import pathlib

import pytest

import windrow

BYTES = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]


def byte_level(special: bool = False) -> str:
    """A byte-level tokenizer of single bytes and one merge."""
    others = [byte for byte in range(256) if byte not in BYTES]
    letters = {byte: chr(byte) for byte in BYTES} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    vocabulary = {letters[byte]: byte for byte in range(256)} | {"ab": 256, "<s>": 257}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    around = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [257], "tokens": ["<s>"]}},
    }
    added = {"id": 257, "content": "<s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{**added, "special": True}],
            "normalizer": None,
            "pre_tokenizer": level,
            "post_processor": around if special else level,
            "decoder": level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b"], "unk_token": None},
        }
    )


def test_sources(tmp_path: pathlib.Path) -> None:
    text = byte_level()
    (tmp_path / "tokenizer.json").write_text(text)
    for tokenizer in (
        windrow.Tokenizer.from_str(text),
        windrow.Tokenizer.from_buffer(text.encode()),
        windrow.Tokenizer.from_file(tmp_path / "tokenizer.json"),
        windrow.Tokenizer.from_file(str(tmp_path)),
    ):
        assert tokenizer.encode_batch_ids(["abc<s>"]).tolist() == [[256, 99, 257]]


def test_special_tokens_around_texts() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level(special=True))
    for _ in range(2):
        assert tokenizer.encode_batch_ids(["ab", ""]).tolist() == [[256], []]
        assert tokenizer.encode_batch_ids(["ab", ""], add_special_tokens=True).tolist() == [[257, 256], [257]]


def test_names() -> None:
    for name, id in [("gpt2", 15496), ("r50k_base", 15496), ("cl100k_base", 9906), ("o200k", 13225)]:
        assert windrow.Tokenizer.from_tiktoken(name).encode_batch_ids(["Hello"]).tolist() == [[id]]


def test_what_cannot_be_loaded(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        windrow.Tokenizer.from_file(tmp_path / "nowhere.json")
    for name in ("gpt5", "./gpt2", ""):
        with pytest.raises(windrow.TokenizerError, match="hint: "):
            windrow.Tokenizer.from_tiktoken(name)
    for text in ("", "{", "[]", "[" * 200_000, '{"model": 3}'):
        with pytest.raises(windrow.TokenizerError):
            windrow.Tokenizer.from_str(text)
    assert issubclass(windrow.TokenizerError, ValueError)
    with pytest.raises(TypeError):
        windrow.Tokenizer()  # type: ignore[call-arg]


def damaged(change) -> str:  # type: ignore[no-untyped-def]
    value = json.loads(byte_level(special=True))
    change(value)
    return json.dumps(value)


HOSTILE = {
    "stride": lambda it: it.update(
        truncation={"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5}
    ),
    "no padding": lambda it: it.update(
        padding={"strategy": {"Fixed": 0}, "direction": "Left", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
    ),
    "merge of nothing": lambda it: it["model"].update(merges=["a \u0100\u0101"]),
    "template": lambda it: it["post_processor"].update(special_tokens={}),
    "backtracking": lambda it: it.update(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    ),
    "large id": lambda it: it["model"]["vocab"].update(ab=4_000_000_000),
    "no bytes": lambda it: it["model"].update(vocab={"ab": 0}, merges=[]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_give_ordinary_exceptions(name: str) -> None:
    try:
        tokenizer = windrow.Tokenizer.from_str(damaged(HOSTILE[name]))
        tokenizer.encode_batch_ids(["ab", "a" * 5000 + "b"], add_special_tokens=True)
    except Exception as error:  # A panic would be a BaseException.
        assert isinstance(error, (windrow.WindrowError, MemoryError)), repr(error)
