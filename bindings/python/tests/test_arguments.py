"""Wrong arguments: an ordinary exception names the argument, in the words of Python."""

import asyncio
import functools
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import cases
from test_load import byte_level

import windrow
from windrow.overlap import Profile, calibrate, plan, run
from windrow.products import Group, calibrate_matmul
from windrow.tables import EncodeColumn

HUGE = 10**30
SAMPLES = [(256, 60.0), (512, 110.0), (1024, 210.0)]
NOT_TEXTS: list[Any] = [None, 3, 2.5, object()]
NOT_NUMBERS: list[Any] = ["3", 2.5, object()]
OUTSIDE: list[Any] = [-1, HUGE, -HUGE]
FLAG = re.compile(r"(?<![\w-])(--[a-z]|-o\b)")


def tokenizer() -> windrow.Tokenizer:
    return windrow.Tokenizer.from_str(byte_level())


def by_name(call: Callable[..., object], name: str) -> Callable[[Any], object]:
    """Passes the argument of this name."""
    return lambda value: call(**{name: value})


# A name, a call with an argument, that argument, and values that it refuses.
Case = tuple[str, Callable[[Any], object], str, list[Any]]


def calls_of_tokenizers() -> Iterator[Case]:
    it = tokenizer()
    yield "Tokenizer", windrow.Tokenizer, "tokenizer", [*NOT_TEXTS, "gpt2", b"x"]
    yield "from_file", windrow.Tokenizer.from_file, "path", [None, 3, "", "/nowhere/tokenizer.json", "/dev"]
    yield "from_str", windrow.Tokenizer.from_str, "json", [*NOT_TEXTS, b"{}"]
    yield "from_buffer", windrow.Tokenizer.from_buffer, "buffer", [*NOT_TEXTS, "{}"]
    yield "from_tiktoken", windrow.Tokenizer.from_tiktoken, "name", NOT_TEXTS
    yield "from_tiktoken", windrow.Tokenizer.from_tiktoken, "tokenizer", ["", "gpt5", "./gpt2"]
    yield "save", it.save, "path", [None, 3]
    yield "to_str", lambda value: it.to_str(pretty=value), "pretty", [3, "x", None]
    yield "get_vocab", lambda value: it.get_vocab(value), "with_added_tokens", [3, "x"]
    yield "token_to_id", it.token_to_id, "token", NOT_TEXTS
    yield "id_to_token", it.id_to_token, "id", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "add_tokens", it.add_tokens, "tokens", [None, 3, "one", [3]]
    yield "add_special_tokens", it.add_special_tokens, "tokens", [None, 3, "one", [None]]
    yield "encode_batch_ids", it.encode_batch_ids, "texts", NOT_TEXTS
    yield "encode_batch_ids", lambda value: it.encode_batch_ids(["a", value]), "item 1", [*NOT_TEXTS, "\ud800", b"\xff"]
    yield "encode_batch_ids", lambda value: it.encode_batch_ids(["a"], add_special_tokens=value), "add_special_tokens", [3, "x"]
    yield "encode_batch", it.encode_batch, "input", [None, 3, "text", object()]
    yield "encode_batch", lambda value: it.encode_batch(["a", value]), "item 1", [*NOT_TEXTS, b"x", "\ud800", ("a", "\udfff")]
    yield "encode_batch", lambda value: it.encode_batch([["a"], value], is_pretokenized=True), "item 1", [None, 3, "text", ["a", 3], ["\ud800"]]
    yield "encode", it.encode, "item 0", [*NOT_TEXTS, b"x", "\ud800", ["a"]]
    yield "encode", lambda value: it.encode("a", value), "item 0", [3, b"x", "\ud800"]
    yield "async_encode", lambda value: asyncio.run(it.async_encode(value)), "item 0", [3, "\ud800"]
    yield "decode", it.decode, "ids", [None, 3, "text", ["a"], [-1], [HUGE], [2.5]]
    yield "decode_batch", it.decode_batch, "sequences", [None, 3, "text"]
    yield "decode_batch", lambda value: it.decode_batch([value]), "ids", [["a"], [-1]]
    for name in ("length", "pad_to_multiple_of", "pad_id", "pad_type_id"):
        yield "enable_padding", by_name(it.enable_padding, name), name, [*NOT_NUMBERS, *OUTSIDE]
    yield "enable_padding", lambda value: it.enable_padding(direction=value), "direction", [None, 3, "", "up"]
    yield "enable_padding", lambda value: it.enable_padding(pad_token=value), "pad_token", [None, 3]
    yield "enable_truncation", it.enable_truncation, "max_length", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "enable_truncation", lambda value: it.enable_truncation(9, stride=value), "stride", [None, *NOT_NUMBERS, *OUTSIDE, 9]
    yield "enable_truncation", lambda value: it.enable_truncation(9, strategy=value), "strategy", [None, 3, "", "x"]
    encoding = it.encode("ab c")
    yield "pad", encoding.pad, "length", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "truncate", encoding.truncate, "max_length", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "char_to_token", encoding.char_to_token, "char_pos", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "char_to_token", lambda value: encoding.char_to_token(0, value), "sequence_index", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "token_to_chars", encoding.token_to_chars, "token_index", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "word_to_chars", encoding.word_to_chars, "word_index", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "set_sequence_id", encoding.set_sequence_id, "sequence_id", [None, *NOT_NUMBERS, *OUTSIDE]
    yield "byte_offsets", encoding.byte_offsets, "input", ["x"]
    stream = windrow.DecodeStream()
    yield "step", lambda value: stream.step(it, value), "id", [None, "text", 2.5, -1, HUGE]
    yield "EncodeColumn", EncodeColumn, "tokenizer", [*NOT_TEXTS, "", "gpt5", pathlib.Path("/nowhere")]
    yield "EncodeColumn", lambda value: EncodeColumn("gpt2", value), "column", NOT_TEXTS
    yield "EncodeColumn", EncodeColumn("gpt2"), "table", [None, 3, ["a"]]
    yield "encode_batch_ids", lambda value: windrow.encode_batch_ids(value, ["a"]), "tokenizer", [*NOT_TEXTS, "", "gpt5"]


def calls_of_files(folder: pathlib.Path) -> Iterator[Case]:
    text = folder / "a.txt"
    text.write_text("Hello world")
    lines = folder / "a.jsonl"
    lines.write_text('{"a": "b"}\n')
    (folder / "full.ids.npy").write_text("")
    # A small one takes less time than the name of a large one, which each call loads.
    usual = tokenizer() if cases(1) == 1 else "gpt2"

    def encode(**options: Any) -> Callable[[Any], object]:
        (name,) = (name for name, value in options.items() if value is ...)
        given = {"inputs": text, "output": folder / "out", "tokenizer": usual, "overwrite": True, **options}
        return lambda value: windrow.encode_files(**{**given, name: value})

    options: dict[str, list[Any]] = {
        "inputs": [None, 3, "", [], [3], [""], [text, None]],
        "output": [None, 3, ""],
        "tokenizer": [None, 3, "", "gpt5", folder / "none.json", folder],
        "format": [3, "", "x", "parquetx"],
        "dtype": [3, "", "x", "u16x"],
        "eos": ["", "x", -1, HUGE],
        "bos": ["", "no such token", -1, HUGE],
        "input_format": [3, "", "x"],
        "ext": [3, [3], "a/b", "gz"],
        "field": [3, [3]],
        "join": [3],
        "keep": [3, [3], "x"],
        "on_error": [3, "", "x"],
        "max_skipped": ["", "x", -1, 3],
        "shard_size": ["", "x", -1, 0],
        "threads": ["x", -1, HUGE, 2.5],
        "memory": ["", "x", -1],
        "progress": [3, "x", None],
        "resume": [True],
    }
    for name, values in options.items():
        yield "encode_files", encode(**{name: ...}), "shard_size" if name == "resume" else name, values
    yield "encode_files", encode(inputs=lines, keep="x", lines=True, input_format=...), "input_format", ["jsonl"]
    yield "encode_files", encode(inputs=lines, field=...), "field", ["none"]
    yield "encode_files", encode(overwrite=False, output=...), "output", [folder / "full"]
    yield "encode_files", encode(output=...), "no does not exist", [folder / "no" / "out"]
    yield "encode_files", encode(inputs=...), "none.txt", [folder / "none.txt"]

    def count(name: str, **options: Any) -> Callable[[Any], object]:
        return lambda value: windrow.count(**{"paths": text, "tokenizer": usual, **options, name: value})

    options = {
        "paths": [None, 3, "", [], [3], [""]],
        "tokenizer": [None, 3, "", "gpt5", folder / "none.json", folder],
        "top": ["x", -1, 2.5],
        "field": [3, [3]],
        "join": [3],
        "input_format": [3, "", "x"],
        "on_error": [None, 3, "", "x"],
        "threads": ["x", -1, 2.5],
        "memory": ["", "x", -1],
    }
    for name, values in options.items():
        yield "count", count(name), name, values
    yield "count", count("paths"), "none.txt", [folder / "none.txt", [text, folder / "none.txt"]]


def calls_of_overlap() -> Iterator[Case]:
    def nothing(begin: int, end: int) -> None:
        pass

    profile = Profile.of(SAMPLES, SAMPLES)
    wrong: list[Any] = [None, "3", 2.5, -1]
    yield "Profile", Profile, "profile", ["", "{}"]
    yield "Profile.of", lambda value: Profile.of(value, SAMPLES), "compute", [None, 3, [3], [(1, 2, 3)], [("a", 1)], [(-1, 1.0)]]
    yield "Profile.of", lambda value: Profile.of(SAMPLES, SAMPLES, align=value), "align", [None, "x", 0, -1]
    yield "Profile.plan", profile.plan, "rows", wrong
    yield "Profile.predict", profile.predict, "tiles", [None, 3, "x", [-1], ["x"], [0]]
    yield "plan", lambda value: plan(value, SAMPLES, SAMPLES), "rows", wrong
    yield "run", lambda value: run(value, nothing, nothing), "tiles", [None, 3, "x", [0], [-1], ["x"], [2.5], [True]]
    yield "run", lambda value: run([1], value, nothing), "compute", [None, 3, "x"]
    yield "run", lambda value: run([1], nothing, value), "communicate", [None, 3, "x"]
    yield "run", lambda value: run([1], nothing, nothing, order=value), "order", [None, 3, "x"]
    yield "calibrate", lambda value: calibrate(nothing, nothing, value), "rows", [None, 3, "x", [1, 2], [0, 1, 2], ["x"] * 3]
    yield "calibrate", lambda value: calibrate(value, nothing, [1, 2, 3]), "compute", [None, 3]
    for name in ("repeats", "tiles", "align"):
        call = by_name(functools.partial(calibrate, nothing, nothing, [1, 2, 3]), name)
        yield "calibrate", call, name, [None, "x", 0, -1]
    yield "Group", Group, "size", [None, "x", 0, -1, 2.5]

    def of_ranks(call: Callable[..., object]) -> Callable[..., object]:
        return lambda **given: Group(2).run(lambda rank: call(rank, **given))

    def product(rank: Any, **given: Any) -> object:
        arguments = {"a": np.ones((8, 4), "f4"), "b": np.ones((4, 3), "f4"), **given}
        return windrow.matmul_all_reduce(rank, arguments.pop("a"), arguments.pop("b"), **arguments)

    options: dict[str, list[Any]] = {
        "a": [None, 3, [[1.0]], np.ones(4), np.ones((2, 2, 2)), np.array([["x"]]), np.ones((8, 4), bool), np.ones((8, 5))],
        "b": [None, 3, [[1.0]], np.ones(4), np.array([[None]]), np.ones((5, 3))],
        "out": [3, [[1.0]], np.ones(4), np.empty((8, 3), "f8"), np.empty((3, 8), "f4"), np.empty((8, 6), "f4")[:, ::2]],
        "tiles": [0, -1, 2.5, "x", [3, 4], [8, 0], [-1, 9], [4.0, 4.0], True],
        "profile": [3, "x"],
    }
    for name, values in options.items():
        yield "matmul", by_name(of_ranks(product), name), name, values
    yield "matmul", product, "comm", [None, 3, "x"]

    def calibrated(rank: Any, **given: Any) -> object:
        arguments = {"operation": "matmul-all-reduce", "n": 4, "k": 4, "rows": [2, 4, 8], "repeats": 1, "tiles": 1, **given}
        return calibrate_matmul(rank, **arguments)

    options = {
        "operation": [None, 3, "x"],
        "n": [None, "x", 0, -1, 2.5],
        "k": [None, "x", 0, -1],
        "rows": [None, 3, [1, 2], ["x"], [0, 1, 2]],
        "repeats": [0, -1, "x"],
        "tiles": [0, "x"],
        "align": [0, "x"],
        "dtype": ["O", "U1"],
    }
    for name, values in options.items():
        yield "calibrate_matmul", by_name(of_ranks(calibrated), name), name, values
    yield "calibrate_matmul", calibrated, "comm", [None, 3]

    function: Callable[[list[Any]], list[Any]] = list
    yield "Batcher", windrow.Batcher, "function", [None, 3, "x"]
    yield "Batcher", lambda value: windrow.Batcher(function, limit=value), "limit", [0, *NOT_NUMBERS, *OUTSIDE]
    yield "Batcher", lambda value: windrow.Batcher(function, queue=value), "queue", [0, *NOT_NUMBERS, *OUTSIDE]


def check(calls: Iterator[Case]) -> None:
    wrong = []
    for call, function, argument, values in calls:
        for value in values:
            try:
                function(value)
            except Exception as error:  # A panic is a BaseException.
                text = "\n".join([str(error), *getattr(error, "__notes__", [])])
                if not isinstance(error, (ValueError, TypeError, OSError, windrow.WindrowError)):
                    wrong.append((call, argument, value, repr(error)))
                elif argument not in text:
                    wrong.append((call, argument, value, f"{type(error).__name__}: {text}"))
                elif FLAG.search(text.replace(str(value), "")):
                    wrong.append((call, argument, value, f"flag: {text}"))
            else:
                wrong.append((call, argument, value, "no error"))
    assert not wrong, "\n".join(map(str, wrong))


def test_tokenizers() -> None:
    check(calls_of_tokenizers())


def test_files(tmp_path: pathlib.Path) -> None:
    check(calls_of_files(tmp_path))


def test_overlap_and_batchers() -> None:
    check(calls_of_overlap())
