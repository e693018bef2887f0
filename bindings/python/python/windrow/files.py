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
    ``Tokenizer(...)`` takes, a name of tiktoken, or the path of a ``tokenizer.json``. Special tokens that are written in a text are text,
    whatever a ``Tokenizer`` does with them, unless ``special_in_text``. The other options are those of the command
    (``windrow encode --help``). With ``progress=True`` the library tqdm draws a bar; a function is called with a ``Progress`` some forty times
    a second, and what it raises ends the run.

    After an error nothing is published. A bad document or option raises ``InputError``, a file that cannot be read or written ``OSError``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Hello world")
    >>> encode_files(folder, folder / "ids", "gpt2")["tokens"]
    2
    """
    words = ["windrow", "encode", f"--output={os.fspath(output)}", f"--format={format}"]
    words += _fields(field, join, keep)
    words += _options(dtype=dtype, eos=eos, bos=bos, input_format=input_format, max_skipped=max_skipped, threads=threads, memory=memory)
    words += _options(shard_size=shard_size)
    words += _flags(append_eos=append_eos, add_special_tokens=add_special_tokens, lines=lines, all_text=all_text)
    words += _flags(special_in_text=special_in_text)
    words += _flags(hidden=hidden, no_ignore=not ignore_files, overwrite=overwrite, resume=resume)
    words += [f"--ext={extension}" for extension in _strings(extensions)]
    words += [f"--on-error={on_error}", "--", *_strings(inputs)]
    loaded = _loaded(tokenizer, special_in_text)
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

    ``tokenizer`` and ``special_in_text`` are as for ``encode_files``. A file with a bad document or that cannot be read raises its error when
    all others are counted, or is listed under ``errors`` with ``on_error="skip"``. Binary files of folders are listed under ``binary``.

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
    words += [*_flags(hidden=hidden, no_ignore=not ignore_files), "--", *_strings(paths)]
    loaded = _loaded(tokenizer, special_in_text)
    result: Counts = json.loads(_count(words, loaded, special_in_text, on_error == "skip"))
    return result


def _options(**values: object) -> Iterator[str]:
    return (f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None)


def _flags(**flags: bool) -> Iterator[str]:
    return (f"--{name.replace('_', '-')}" for name, is_set in flags.items() if is_set)


def _fields(field: str | Iterable[str], join: str, keep: Iterable[str]) -> list[str]:
    """The options of fields. ``join`` has an effect with several."""
    fields = [field] if isinstance(field, str) else list(field)
    words = [f"--field={name}" for name in fields]
    if len(fields) > 1:
        escaped = join.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        words.append(f"--join={escaped}")
    return words + [f"--keep={name}" for name in ([keep] if isinstance(keep, str) else keep)]


def _strings(paths: Path | Iterable[Path]) -> list[str]:
    if isinstance(paths, str | os.PathLike):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


def _loaded(tokenizer: object, special_in_text: bool) -> Tokenizer:
    """A tokenizer, from all that names one. What is loaded here treats special tokens as it will be used."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if isinstance(tokenizer, os.PathLike) or (isinstance(tokenizer, str) and os.path.exists(tokenizer)):
        return Tokenizer._of_files(os.fspath(tokenizer), not special_in_text)
    if isinstance(tokenizer, str):
        return Tokenizer._restore(None, tokenizer, not special_in_text)
    return Tokenizer(tokenizer)


def _called(progress: Callable[[Progress], object]) -> Callable[..., object]:
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
