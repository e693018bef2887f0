"""Whole corpora: what the commands ``windrow encode`` and ``windrow count`` do, as functions."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypedDict

from windrow._windrow import Tokenizer
from windrow._windrow import count as _count
from windrow._windrow import encode_files as _encode_files
from windrow.errors import InputError

__all__ = ["Counted", "Counts", "Documents", "Input", "Progress", "Summary", "count", "encode_files"]

Path = str | os.PathLike[str]


class Progress(NamedTuple):
    """How far a run has come."""

    stored_bytes: int
    """Bytes of the inputs, as stored, whose documents are encoded."""
    total_bytes: int | None
    """Those of all inputs, if known."""
    documents: int
    text_bytes: int
    tokens: int


class Documents(TypedDict):
    """The account of documents: ``read = written + skipped + failed``."""

    read: int
    written: int
    skipped: int
    failed: int


class Input(TypedDict):
    """An input, and what was written of it."""

    name: str
    documents: int
    """Read, good and bad."""
    bytes: int
    """Of text, in the written documents."""
    tokens: int


class Summary(TypedDict):
    """What ``encode_files`` has done."""

    schema: int
    documents: Documents
    bytes: int
    """Of text, in the written documents."""
    tokens: int
    special_tokens: int
    """Ids of special tokens that come from the texts."""
    inputs: list[Input]
    tokenizer: str
    format: str
    dtype: str | None
    eos: int | None
    """The id behind each document."""
    seconds: float
    encoding_seconds: float
    publishing_seconds: float
    mb_per_s: float
    peak_in_flight_bytes: int
    outputs: list[str]
    notes: list[str]


class Counted(TypedDict):
    """A file that was counted."""

    path: str
    bytes: int
    tokens: int


class Counts(TypedDict):
    """What ``count`` has found."""

    tokenizer: str
    files: list[Counted]
    total: dict[Literal["files", "bytes", "tokens"], int]
    binary: list[str]
    errors: list[str]


def encode_files(
    inputs: Path | Iterable[Path],
    output: Path,
    tokenizer: object = "o200k_base",
    *,
    format: Literal["npy", "nanogpt", "megatron", "datatrove", "mds", "jsonl", "arrow", "parquet"] = "npy",
    dtype: str | None = None,
    append_eos: bool = False,
    eos: str | int | None = None,
    bos: str | int | None = None,
    add_special_tokens: bool = False,
    special_in_text: bool = False,
    lines: bool = False,
    field: str | Iterable[str] = "text",
    join: str = "\n",
    keep: Iterable[str] = (),
    input_format: Literal["text", "lines", "jsonl", "parquet"] | None = None,
    extensions: Iterable[str] = (),
    all_text: bool = False,
    hidden: bool = False,
    ignore_files: bool = True,
    on_error: Literal["fail", "skip"] = "fail",
    max_skipped: int | str | None = None,
    overwrite: bool = False,
    shard_size: int | str | None = None,
    resume: bool = False,
    threads: int | None = None,
    memory: int | str | None = None,
    progress: bool | Callable[[Progress], object] = False,
) -> Summary:
    """Encodes files into token files, as ``windrow encode`` does, and returns its account.

    ``inputs`` are files, folders or patterns, and ``output`` is the prefix of the files to write. ``tokenizer`` is a ``Tokenizer``, what
    ``Tokenizer(...)`` takes, a path object, or a text: a name of tiktoken, or else the path of a ``tokenizer.json``, as in the command. So a file
    called ``gpt2`` is ``"./gpt2"``.

    A document gets no special tokens around it, unless ``add_special_tokens``: documents of a corpus have an end of text between them
    (``append_eos``). Special tokens that are written in a text are text, whatever a ``Tokenizer`` does with them, unless
    ``special_in_text``. Calls that encode texts do the opposite of both by default. The other options are those of the command
    (``windrow encode --help``). With ``progress=True`` the library tqdm draws a bar; a function is called with a ``Progress`` some forty times
    a second, and what it raises ends the run.

    After an error nothing is published. A bad document or option raises ``InputError``, a file that cannot be read or written ``OSError``,
    an output that exists ``FileExistsError``. ``notes`` of the result are what the command would print as notes.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Hello world")
    >>> encode_files(folder, folder / "ids", "gpt2")["tokens"]
    2
    """
    inputs = _paths("inputs", inputs)
    words = ["windrow", "encode", f"--output={_path('output', output)}", f"--format={format}"]
    words += _fields(field, join, keep)
    words += _options(dtype=dtype, eos=eos, bos=bos, input_format=input_format, max_skipped=max_skipped, threads=threads, memory=memory)
    words += _options(shard_size=shard_size)
    words += _flags(append_eos=append_eos, add_special_tokens=add_special_tokens, lines=lines, all_text=all_text)
    words += _flags(special_in_text=special_in_text)
    words += _flags(hidden=hidden, no_ignore=not ignore_files, overwrite=overwrite, resume=resume)
    words += [f"--ext={extension}" for extension in _texts("extensions", extensions)]
    words += [f"--on-error={on_error}", "--", *inputs]
    loaded = Tokenizer._of(tokenizer, not special_in_text)
    if progress is True:
        with _Bar() as bar:
            summary, notes = _encode_files(words, loaded, add_special_tokens, special_in_text, bar.show)
    else:
        function = None if progress is False else _called(progress)
        summary, notes = _encode_files(words, loaded, add_special_tokens, special_in_text, function)
    result: Summary = json.loads(summary)
    result["notes"] = notes
    return result


def count(
    paths: Path | Iterable[Path],
    tokenizer: object = "o200k_base",
    *,
    top: int | None = None,
    special_in_text: bool = False,
    lines: bool = False,
    field: str | Iterable[str] = (),
    join: str = "\n",
    input_format: Literal["text", "lines", "jsonl", "parquet"] | None = None,
    raw: bool = False,
    hidden: bool = False,
    ignore_files: bool = True,
    on_error: Literal["fail", "skip"] = "fail",
    threads: int | None = None,
    memory: int | str | None = None,
) -> Counts:
    """Counts the tokens of files and folders, as ``windrow count`` does: what ``encode_files`` would write.

    ``tokenizer`` and ``special_in_text`` are as for ``encode_files``, and no special tokens are added. A file with a bad document or that cannot
    be read raises its error when all others are counted: the error's attribute ``counts`` is the result, without that file. With
    ``on_error="skip"`` it is listed under ``errors``. Binary files of folders are listed under ``binary``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Hello world")
    >>> count(folder, "gpt2")["total"]
    {'bytes': 11, 'files': 1, 'tokens': 2}
    """
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', not {on_error!r}")
    words = ["windrow", "count", "--json", *_options(top=top, threads=threads, memory=memory, input_format=input_format)]
    words += _fields(field, join, ())
    words += _flags(special_in_text=special_in_text, lines=lines, raw=raw)
    words += [*_flags(hidden=hidden, no_ignore=not ignore_files), "--", *_paths("paths", paths)]
    counted, failed = _count(words, Tokenizer._of(tokenizer, not special_in_text), special_in_text)
    result: Counts = json.loads(counted)
    if failed and on_error == "fail":
        error = failed[0]
        error.counts = result  # type: ignore[attr-defined]
        raise error
    return result


def _options(**values: object) -> Iterator[str]:
    return (f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None)


def _flags(**flags: bool) -> Iterator[str]:
    return (f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set)


def _fields(field: str | Iterable[str], join: str, keep: Iterable[str]) -> list[str]:
    """The options of fields. ``join`` has an effect with several."""
    fields = _texts("field", field)
    words = [f"--field={name}" for name in fields]
    if not isinstance(join, str):
        raise TypeError(f"join must be a str, not {type(join).__name__}")
    if len(fields) > 1:
        escaped = join.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        words.append(f"--join={escaped}")
    return words + [f"--keep={name}" for name in _texts("keep", keep)]


def _path(name: str, path: Path) -> str:
    """The path that the argument of this name is."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {type(path).__name__}")
    text = os.fspath(path)
    if not text:
        raise InputError(f"{name} is an empty path")
    return text


def _paths(name: str, paths: Path | Iterable[Path]) -> list[str]:
    if isinstance(paths, str | os.PathLike):
        return [_path(name, paths)]
    if not isinstance(paths, Iterable):
        raise TypeError(f"{name} must be a path or several, not {type(paths).__name__}")
    found = [_path(f"{name}[{at}]", path) for at, path in enumerate(paths)]
    if not found:
        raise InputError(f"{name}: no input given\nhint: pass files, folders or patterns")
    return found


def _texts(name: str, texts: str | Iterable[str]) -> list[str]:
    """The texts of an argument that takes one or several."""
    if isinstance(texts, str):
        return [texts]
    if not isinstance(texts, Iterable):
        raise TypeError(f"{name} must be a str or several, not {type(texts).__name__}")
    found = list(texts)
    for at, text in enumerate(found):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{at}] must be a str, not {type(text).__name__}")
    return found


def _called(progress: Callable[[Progress], object]) -> Callable[..., object]:
    if not callable(progress):
        raise TypeError(f"progress must be a bool or a function, not {type(progress).__name__}")
    return lambda *numbers: progress(Progress(*numbers))


class _Bar:
    """A bar of tqdm."""

    def __enter__(self) -> _Bar:
        try:
            tqdm = importlib.import_module("tqdm.auto").tqdm
        except ImportError as error:
            hint = "hint: pip install tqdm, or pass a function"
            raise ImportError(f"progress=True needs the library tqdm\n{hint}") from error
        self.tqdm: Any = tqdm(unit="B", unit_scale=True, desc="encode")
        return self

    def show(self, stored: int, total: int | None, documents: int, text_bytes: int, tokens: int) -> None:
        self.tqdm.total = total
        self.tqdm.update(stored - self.tqdm.n)
        self.tqdm.set_postfix(documents=documents, tokens=tokens, refresh=False)

    def __exit__(self, *_exception: object) -> None:
        self.tqdm.close()
