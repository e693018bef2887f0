"""Loading tokenizers."""

import inspect
import json
import pathlib
import re
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

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
        for ids in (
            tokenizer.encode_batch_ids(["ab", ""]).tolist(),
            windrow.encode_batch_ids(tokenizer, ["ab", ""]).tolist(),
            [one.ids for one in tokenizer.encode_batch(["ab", ""])],
            [tokenizer.encode(text).ids for text in ("ab", "")],
        ):
            assert ids == [[257, 256], [257]]
        for ids in (
            tokenizer.encode_batch_ids(["ab", ""], add_special_tokens=False).tolist(),
            windrow.encode_batch_ids(tokenizer, ["ab", ""], add_special_tokens=False).tolist(),
            [one.ids for one in tokenizer.encode_batch(["ab", ""], add_special_tokens=False)],
        ):
            assert ids == [[256], []]


def test_special_tokens_of_files(tmp_path: pathlib.Path) -> None:
    """Files have none around their documents, and what is written there is text."""
    file, text = tmp_path / "tokenizer.json", tmp_path / "a.txt"
    file.write_text(byte_level(special=True))
    text.write_text("ab<s>")
    loaded = windrow.Tokenizer.from_file(file)
    for tokenizer in (file, str(file), loaded):
        assert windrow.count(text, tokenizer)["total"]["tokens"] == 4
        assert windrow.count(text, tokenizer, special_in_text=True)["total"]["tokens"] == 2
        plain = windrow.encode_files(text, tmp_path / "ids", tokenizer, overwrite=True)
        assert (plain["tokens"], plain["special_tokens"]) == (4, 0)
        every = windrow.encode_files(
            text, tmp_path / "ids", tokenizer, overwrite=True, add_special_tokens=True, special_in_text=True
        )
        assert every["tokens"] == 3
    # Texts have both.
    assert loaded.encode_batch_ids(["ab<s>"]).tolist() == [[257, 256, 257]]


def test_names() -> None:
    for name, id in [("gpt2", 15496), ("r50k_base", 15496), ("cl100k_base", 9906), ("o200k", 13225)]:
        assert windrow.Tokenizer.from_tiktoken(name).encode_batch_ids(["Hello"]).tolist() == [[id]]


def test_what_cannot_be_loaded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        windrow.Tokenizer.from_file(tmp_path / "nowhere.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "tokenizer.json").write_text(byte_level())
    monkeypatch.chdir(tmp_path)
    for name in ("gpt5", "gpt-4o", "./gpt2", "", "folder"):
        with pytest.raises(windrow.TokenizerError, match=r"hint: .*from_file loads files") as caught:
            windrow.Tokenizer.from_tiktoken(name)
        assert "path" not in str(caught.value)
    for text in ("", "{", "[]", "[" * 200_000, '{"model": 3}'):
        with pytest.raises(windrow.TokenizerError):
            windrow.Tokenizer.from_str(text)
    assert issubclass(windrow.TokenizerError, ValueError)
    with pytest.raises(TypeError):
        windrow.Tokenizer()  # type: ignore[call-arg]


def hub(monkeypatch: pytest.MonkeyPatch, download: Callable[..., str]) -> None:
    """Puts a library in the place of ``huggingface_hub``."""
    library = types.ModuleType("huggingface_hub")
    library.hf_hub_download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)


def test_from_pretrained(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(byte_level())
    calls = []

    def download(*arguments: str, **settings: Any) -> str:
        calls.append((arguments, settings))
        return str(file)

    hub(monkeypatch, download)
    assert windrow.Tokenizer.from_pretrained("owner/model").encode_batch_ids(["abc"]).tolist() == [[256, 99]]
    tokenizer = windrow.Tokenizer.from_pretrained("owner/model", revision="v2", token="secret")
    assert tokenizer.name == str(file)
    assert calls == [
        (("owner/model", "tokenizer.json"), {"revision": "main", "token": None}),
        (("owner/model", "tokenizer.json"), {"revision": "v2", "token": "secret"}),
    ]
    file.unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer.json"):
        windrow.Tokenizer.from_pretrained("owner/model")


def test_from_pretrained_passes_the_errors_of_the_library_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoSuchModel(Exception):
        pass

    def download(*arguments: str, **settings: Any) -> str:
        raise NoSuchModel(arguments[0])

    hub(monkeypatch, download)
    with pytest.raises(NoSuchModel, match="owner/nothing"):
        windrow.Tokenizer.from_pretrained("owner/nothing")


def test_from_pretrained_calls_the_library_as_it_is() -> None:
    library = pytest.importorskip("huggingface_hub")
    inspect.signature(library.hf_hub_download).bind("owner/model", "tokenizer.json", revision="main", token=None)


def test_from_pretrained_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(windrow.TokenizerError) as caught:
        windrow.Tokenizer.from_pretrained("owner/model")
    message = str(caught.value)
    assert message.startswith("tokenizer owner/model: the huggingface_hub library is missing\n")
    assert "hint: pip install huggingface_hub" in message and "from_file" in message
    assert isinstance(caught.value.__cause__, ImportError)


def damaged(change: Callable[[dict[str, Any]], Any]) -> str:
    value = json.loads(byte_level(special=True))
    change(value)
    return json.dumps(value)


def split(regex: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}


def padded(**settings: Any) -> dict[str, Any]:
    usual = {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
    return {**usual, **settings}


def truncated(**settings: Any) -> dict[str, Any]:
    return {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0, **settings}


def deep(it: dict[str, Any]) -> None:
    nested = {"type": "Lowercase"}
    for _ in range(60):
        nested = {"type": "Sequence", "normalizers": [nested]}  # type: ignore[dict-item]
    it.update(normalizer=nested)


ADDED = json.loads(byte_level())["added_tokens"][0]
# What is changed, and a part of the message that refuses it; `None` for a file that loads.
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str | None]] = {
    "stride": (lambda it: it.update(truncation=truncated(stride=5)), "stride 5"),
    "truncation to nothing": (lambda it: it.update(truncation=truncated(max_length=0)), None),
    "truncation below the special tokens": (lambda it: it.update(truncation=truncated()), None),
    "huge truncation": (lambda it: it.update(truncation=truncated(max_length=2**64 - 1)), None),
    "padding to nothing": (lambda it: it.update(padding=padded(strategy={"Fixed": 0})), None),
    "padding to a multiple of nothing": (lambda it: it.update(padding=padded(pad_to_multiple_of=0)), None),
    "huge number": (lambda it: it["model"]["vocab"].update(ab=10**30), "token \"ab\""),
    "large id": (lambda it: it["model"]["vocab"].update(ab=4_000_000_000), "4000000000"),
    "negative id": (lambda it: it["model"]["vocab"].update(ab=-1), "token \"ab\""),
    "id twice": (lambda it: it["model"]["vocab"].update(ab=97), "the same id 97"),
    "added token twice": (lambda it: it.update(added_tokens=[ADDED, {**ADDED, "id": 300}]), "occurs twice"),
    "merge of nothing": (lambda it: it["model"].update(merges=["a \u0100\u0101"]), "not in the vocabulary"),
    "merge of a text": (lambda it: it["model"].update(merges=["ab"]), "not two tokens"),
    "merges in a cycle": (lambda it: it["model"].update(merges=["ab a", "a b", "a ba"]), "not in the vocabulary"),
    "merge of itself": (lambda it: it["model"].update(merges=["a ", " a"]), "model.merges"),
    "no merges": (lambda it: it["model"].update(merges=[]), None),
    "no model": (lambda it: it.pop("model"), "model: is missing"),
    "empty model": (lambda it: it.update(model={}), "model"),
    "model of another type": (lambda it: it.update(model=[]), "model: invalid type"),
    "vocabulary of another type": (lambda it: it["model"].update(vocab=[]), "model.vocab"),
    "added tokens of another type": (lambda it: it.update(added_tokens={}), "added_tokens"),
    "no bytes": (lambda it: it["model"].update(vocab={"ab": 0}, merges=[]), "not every byte has a token"),
    "template": (lambda it: it["post_processor"].update(special_tokens={}), "not in special_tokens"),
    "template of unknown ids": (
        lambda it: it["post_processor"]["special_tokens"]["<s>"].update(ids=[4_000_000_000]),
        "4000000000",
    ),
    "invalid regex": (lambda it: it.update(pre_tokenizer=split("(a")), "regex"),
    "backtracking": (lambda it: it.update(pre_tokenizer=split("(a+)+$")), None),
    "pieces of nothing": (lambda it: it.update(pre_tokenizer={"type": "FixedLength", "length": 0}), "pre_tokenizer.length"),
    "deep": (deep, "nested more than 8 levels deep"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_give_ordinary_exceptions(name: str) -> None:
    change, message = HOSTILE[name]
    if message is not None:
        with pytest.raises(windrow.TokenizerError, match=re.escape(message)):
            windrow.Tokenizer.from_str(damaged(change))
        return
    tokenizer = windrow.Tokenizer.from_str(damaged(change))
    texts = ["ab", "", "a" * 5000 + "b"]

    def offsets(encodings: list[windrow.Encoding]) -> None:
        for encoding in encodings:
            assert len(encoding.offsets) == len(encoding.tokens) == len(encoding.ids) == len(encoding)

    works: list[Callable[[], object]] = [
        lambda: tokenizer.encode_batch_ids(texts, add_special_tokens=True),
        lambda: [tokenizer.encode_batch_ids([text]) for text in texts],
        lambda: offsets([tokenizer.encode(text) for text in texts]),
        lambda: offsets([tokenizer.encode("ab", "ab")]),
        lambda: offsets([tokenizer.encode(["a", "b"], is_pretokenized=True)]),
        lambda: offsets(tokenizer.encode_batch(texts)),
        lambda: windrow.Tokenizer.from_str(tokenizer.to_str()),
    ]
    for work in works:
        try:
            work()
        except Exception as error:  # A panic would be a BaseException.
            assert isinstance(error, (windrow.WindrowError, MemoryError)), repr(error)


@pytest.mark.parametrize("special", [False, True])
def test_settings_beyond_all_limits(special: bool) -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level(special=special))
    huge = 2**64 - 1
    settings: list[Callable[[], object]] = [
        lambda: tokenizer.enable_truncation(0),
        lambda: tokenizer.enable_truncation(huge, stride=huge - 1),
        lambda: tokenizer.enable_padding(pad_to_multiple_of=0),
        lambda: tokenizer.enable_padding(length=0, pad_to_multiple_of=0),
        lambda: tokenizer.encode("ab").pad(0),
        lambda: tokenizer.encode("ab").truncate(0),
        lambda: tokenizer.encode("ab").truncate(huge, stride=huge - 1),
    ]
    for number, setting in enumerate(settings):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        try:
            setting()
            assert len(tokenizer.encode("abc").offsets) == len(tokenizer.encode_batch(["abc", "a"])[0])
        except Exception as error:  # A panic would be a BaseException.
            assert isinstance(error, (ValueError, windrow.WindrowError)), (number, repr(error))


LENGTHS = {
    "file": "file['padding'] = dict(json.loads(sys.argv[1]), strategy={'Fixed': length})",
    "multiple of a file": "file['padding'] = dict(json.loads(sys.argv[1]), pad_to_multiple_of=length)",
    "length": "pad = lambda tokenizer: tokenizer.enable_padding(length=length)",
    "multiple": "pad = lambda tokenizer: tokenizer.enable_padding(pad_to_multiple_of=length)",
    "encoding": "pad = lambda tokenizer: tokenizer.encode('ab').pad(length)",
}


@pytest.mark.skipif(sys.platform != "linux", reason="there is no limit of memory")
@pytest.mark.parametrize("length", [10**12, 2**64 - 1])
@pytest.mark.parametrize("name", LENGTHS)
def test_padding_that_no_memory_holds(name: str, length: int) -> None:
    code = (
        "import json, resource, sys, windrow\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "file, pad, length = json.load(sys.stdin), lambda tokenizer: None, int(sys.argv[2])\n"
        f"{LENGTHS[name]}\n"
        "try:\n"
        "    tokenizer = windrow.Tokenizer.from_str(json.dumps(file))\n"
        "    pad(tokenizer)\n"
        "    tokenizer.encode_batch(['a', 'b'])\n"
        "except (MemoryError, ValueError, windrow.WindrowError) as error:\n"
        "    print(type(error).__name__)\n"
    )
    command = [sys.executable, "-c", code, json.dumps(padded()), str(length)]
    done = subprocess.run(command, input=byte_level(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() in ("MemoryError", "ValueError", "ItemError", "TokenizerError")


def test_a_file_that_is_nested_too_deep() -> None:
    brackets = "[" * 200_000 + "]" * 200_000
    for text in (brackets, f'{{"normalizer": {brackets}}}', f'{{"model": {{"vocab": {{"a": {brackets}}}}}}}'):
        with pytest.raises(windrow.TokenizerError):
            windrow.Tokenizer.from_str(text)
