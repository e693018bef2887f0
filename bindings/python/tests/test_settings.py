"""Every copy of a tokenizer has all its settings."""

import base64
import copy
import functools
import json
import multiprocessing
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers
from conftest import cases
from test_load import byte_level
from test_process import of_child

import windrow
from windrow.tables import EncodeColumn

TEXTS = ["ab cd ab cd", "", "a<s>b", "<|endoftext|> the end<|endoftext|>", "naïve 東京 \U0001f600 and more words"]

def everything(tokenizer: windrow.Tokenizer) -> None:
    tokenizer.enable_truncation(9, stride=1)
    tokenizer.enable_padding(pad_to_multiple_of=8, pad_id=1)
    tokenizer.encode_special_tokens = True


SETTINGS: dict[str, Callable[[windrow.Tokenizer], None]] = {
    "nothing": lambda tokenizer: None,
    "truncation": lambda tokenizer: tokenizer.enable_truncation(3),
    "all of truncation": lambda tokenizer: tokenizer.enable_truncation(5, stride=2, strategy="only_first", direction="left"),
    "padding": lambda tokenizer: tokenizer.enable_padding(length=7, pad_id=2),
    "all of padding": lambda tokenizer: tokenizer.enable_padding(
        direction="left", pad_id=3, pad_type_id=1, pad_token="é\"<pad>\\", pad_to_multiple_of=4
    ),
    "special tokens are text": lambda tokenizer: setattr(tokenizer, "encode_special_tokens", True),
    "everything": everything,
}

SOURCES: dict[str, Callable[[pathlib.Path], windrow.Tokenizer]] = {
    "json": lambda folder: windrow.Tokenizer.from_str(byte_level(special=True)),
    "tiktoken": lambda folder: windrow.Tokenizer.from_tiktoken("gpt2"),
    "library": lambda folder: windrow.Tokenizer(tokenizers.Tokenizer.from_str(byte_level(special=True))),
    "rank file": lambda folder: windrow.Tokenizer.from_file(rank_file(folder)),
}


def rank_file(folder: pathlib.Path) -> pathlib.Path:
    """The file of gpt2 that tiktoken publishes."""
    file = folder / "r50k_base.tiktoken"
    file.write_text(ranks())
    return file


@functools.cache
def ranks() -> str:
    decoder = {letter: byte for byte, letter in enumerate(letters())}
    vocabulary = windrow.Tokenizer.from_tiktoken("gpt2").get_vocab(with_added_tokens=False)
    tokens = sorted((id, bytes(decoder[letter] for letter in token)) for token, id in vocabulary.items())
    return "".join(f"{base64.b64encode(token).decode()} {id}\n" for id, token in tokens)


def letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary."""
    vocabulary = json.loads(byte_level())["model"]["vocab"]
    return [letter for letter, byte in sorted(vocabulary.items(), key=lambda item: item[1]) if byte < 256]


def saved(tokenizer: windrow.Tokenizer, folder: pathlib.Path) -> windrow.Tokenizer:
    tokenizer.save(folder / "saved.json")
    return windrow.Tokenizer.from_file(folder / "saved.json")


COPIES: dict[str, Callable[[windrow.Tokenizer, pathlib.Path], windrow.Tokenizer]] = {
    "pickle": lambda tokenizer, _: pickle.loads(pickle.dumps(tokenizer)),
    "copy": lambda tokenizer, _: copy.copy(tokenizer),
    "deepcopy": lambda tokenizer, _: copy.deepcopy(tokenizer),
    "of a tokenizer": lambda tokenizer, _: windrow.Tokenizer(tokenizer),
    "to_str": lambda tokenizer, _: windrow.Tokenizer.from_str(tokenizer.to_str()),
    "pretty to_str": lambda tokenizer, _: windrow.Tokenizer.from_buffer(tokenizer.to_str(pretty=True).encode()),
    "save": saved,
    "pickle of a copy of a file": lambda tokenizer, _: pickle.loads(pickle.dumps(windrow.Tokenizer(copy.copy(tokenizer)))),
}
FILES = ("to_str", "pretty to_str", "save")


def answers(tokenizer: windrow.Tokenizer) -> Any:
    """Results that the settings change."""
    encodings = [*tokenizer.encode_batch(TEXTS), *(tokenizer.encode(text) for text in TEXTS)]
    fields = [(one.ids, one.attention_mask, one.special_tokens_mask, one.type_ids, one.offsets, one.tokens) for one in encodings]
    ids = tokenizer.encode_batch_ids(TEXTS).tolist()
    return fields, ids, tokenizer.truncation, tokenizer.padding, tokenizer.encode_special_tokens


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("source", SOURCES)
def test_copies_have_all_settings(source: str, setting: str, tmp_path: pathlib.Path) -> None:
    tokenizer = SOURCES[source](tmp_path)
    SETTINGS[setting](tokenizer)
    # A copy needs no file.
    for file in tmp_path.iterdir():
        file.unlink()
    expected = answers(tokenizer)
    for name, make in COPIES.items():
        if source in ("tiktoken", "rank file") and name in FILES:
            with pytest.raises(windrow.TokenizerError, match=r"has no tokenizer.json\nhint: "):
                make(tokenizer, tmp_path)
            continue
        made = make(tokenizer, tmp_path)
        assert answers(made) == expected, name
        # Those of the copy can be changed as those of the original. Each change loads a vocabulary again.
        if setting not in ("nothing", "everything") and cases(1) == 1:
            continue
        made.encode_special_tokens = not made.encode_special_tokens
        made.no_truncation()
        assert answers(tokenizer) == expected, name


def with_everything(source: str, folder: pathlib.Path) -> windrow.Tokenizer:
    """A tokenizer whose files are gone."""
    tokenizer = SOURCES[source](folder)
    SETTINGS["everything"](tokenizer)
    for file in folder.iterdir():
        file.unlink()
    return tokenizer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("source", SOURCES)
def test_forked_processes_have_all_settings(source: str, tmp_path: pathlib.Path) -> None:
    tokenizer = with_everything(source, tmp_path)
    expected = answers(tokenizer)
    assert pickle.loads(of_child(lambda: pickle.dumps(answers(tokenizer)))) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_have_all_settings(method: str, tmp_path: pathlib.Path) -> None:
    made = {source: with_everything(source, tmp_path) for source in SOURCES}
    expected = {source: answers(tokenizer) for source, tokenizer in made.items()}
    with multiprocessing.get_context(method).Pool(1) as pool:
        for source, tokenizer in made.items():
            assert pool.apply(answers, (tokenizer,)) == expected[source], source


@pytest.mark.parametrize("encodes", [False, True])
def test_settings_of_other_libraries(encodes: bool) -> None:
    theirs = tokenizers.Tokenizer.from_str(byte_level())
    theirs.encode_special_tokens = encodes
    theirs.enable_truncation(4)
    ours = windrow.Tokenizer(theirs)
    assert ours.encode_special_tokens is encodes
    assert [one.ids for one in ours.encode_batch(TEXTS)] == [one.ids for one in theirs.encode_batch(TEXTS)]

    class Fast:
        """Stand-in for a fast tokenizer of transformers."""

        backend_tokenizer = theirs

    assert windrow.Tokenizer(Fast()).encode_special_tokens is encodes
    Fast.backend_tokenizer = ours  # type: ignore[assignment]
    assert answers(windrow.Tokenizer(Fast())) == answers(ours)


def test_the_library_reads_what_is_written() -> None:
    tokenizer = windrow.Tokenizer.from_str(byte_level())
    tokenizer.encode_special_tokens = True
    for pretty in (False, True):
        text = tokenizer.to_str(pretty)
        assert tokenizers.Tokenizer.from_str(text).get_vocab() == tokenizer.get_vocab()
        again = windrow.Tokenizer.from_str(text)
        assert again.encode_special_tokens
        again.add_special_tokens(["<x>"])
        assert again.encode_special_tokens and not windrow.Tokenizer.from_str(byte_level()).encode_special_tokens
        again.encode_special_tokens = False
        assert "special_in_text" not in again.to_str()
    plain = windrow.Tokenizer.from_str(byte_level())
    assert json.loads(plain.to_str(pretty=True)) == json.loads(plain.to_str()) == json.loads(byte_level())
    theirs = tokenizers.Tokenizer.from_str(byte_level(special=True))
    assert windrow.Tokenizer.from_str(theirs.to_str()).to_str(pretty=True) == theirs.to_str(pretty=True)


def test_damaged_settings_are_refused() -> None:
    restore = windrow.Tokenizer._restore
    for settings in ("", "{}", '{"encode_special_tokens": 3, "truncation": null, "padding": null}'):
        with pytest.raises(ValueError, match="settings: "):
            restore(None, "gpt2", settings)
    truncation = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 5}
    with pytest.raises(ValueError, match="stride 5"):
        restore(None, "gpt2", json.dumps({"encode_special_tokens": False, "truncation": truncation, "padding": None}))


def test_names_and_paths(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is a name first, as in the command; a path object is a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    (tmp_path / "gpt2" / "tokenizer.json").write_text(byte_level())
    (tmp_path / "a.txt").write_text("Hello world")
    (tmp_path / "cl100k").mkdir()
    for name in ("gpt2", "cl100k"):
        assert windrow.count("a.txt", name)["total"]["tokens"] == 2
        assert windrow.encode_files("a.txt", f"out-{name}", name)["tokens"] == 2
        assert EncodeColumn(name).tokenizer.name == {"gpt2": "r50k_base", "cl100k": "cl100k_base"}[name]
        assert len(windrow.encode_batch_ids(name, ["Hello world"])[0]) == 2
    for path in ("./gpt2", tmp_path / "gpt2", pathlib.Path("gpt2"), "gpt2/tokenizer.json"):
        assert windrow.count("a.txt", path)["total"]["tokens"] == 11
        assert EncodeColumn(path).tokenizer.get_vocab_size() == 258
        assert len(windrow.encode_batch_ids(path, ["Hello world"])[0]) == 11
        assert windrow.Tokenizer.from_file(path).get_vocab_size() == 258
    assert windrow.Tokenizer.from_file("gpt2").get_vocab_size() == 258
    with pytest.raises(windrow.TokenizerError, match="a directory without a tokenizer.json"):
        windrow.Tokenizer.from_file("cl100k")
    with pytest.raises(FileNotFoundError, match=r"no such file\nhint: "):
        windrow.Tokenizer.from_file("o200k_base")
