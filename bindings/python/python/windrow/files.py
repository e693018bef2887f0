"""Functions for whole corpora that do what the commands ``windrow encode`` and ``windrow count`` do."""

from __future__ import annotations

import datetime
import difflib
import importlib
import json
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from windrow._windrow import Tokenizer
from windrow._windrow import count as _count
from windrow._windrow import encode_files as _encode_files
from windrow.errors import InputError
from windrow.options import CountOptions, EncodeOptions, EncodeRunOptions

if TYPE_CHECKING:
    from typing_extensions import NotRequired, Unpack

__all__ = ["Counted", "Counts", "Documents", "Input", "Progress", "Summary", "count", "encode_files"]

Path = str | os.PathLike[str]


class Progress(NamedTuple):
    """How far a run has come."""

    stored_bytes: int
    """Bytes, as stored, of the inputs whose documents are encoded."""
    total_bytes: int | None
    """Bytes of all inputs, if known."""
    documents: int
    text_bytes: int
    tokens: int


class Documents(TypedDict):
    """The account of documents: ``read = written + skipped + failed + left_out``."""

    read: int
    written: int
    skipped: int
    failed: int
    left_out: NotRequired[int]
    """Documents that ``sample`` did not choose; present only with ``sample``."""


class Input(TypedDict):
    """An input, and what was written of it."""

    name: str
    documents: int
    """Number of documents read, good and bad."""
    bytes: int
    """Bytes of text in the written documents."""
    tokens: int


class Summary(TypedDict):
    """The account of a run of ``encode_files``."""

    schema: int
    documents: Documents
    bytes: int
    """Bytes of text in the written documents."""
    tokens: int
    special_tokens: int
    """Ids of special tokens that come from the texts."""
    inputs: list[Input]
    tokenizer: str
    format: str
    dtype: str | None
    eos: int | None
    """The id after each document."""
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
    """The result of ``count``."""

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
    progress: bool | Callable[[Progress], object] = False,
    **options: Unpack[EncodeOptions],
) -> Summary:
    """Encodes files into token files, as ``windrow encode`` does, and returns its account.

    ``inputs`` are files, folders or patterns, and ``output`` is the prefix of the files to write. ``tokenizer`` is a ``Tokenizer``, an
    argument of ``Tokenizer(...)``, a path object, or a string: a tiktoken name or else the path to a ``tokenizer.json``, as in the command. So
    a file called ``gpt2`` is ``"./gpt2"``.

    The options are those of the command (``windrow.options.EncodeOptions`` and ``windrow encode --help``). None means that an option is not
    given. The options in a manifest repeat its run: ``encode_files(inputs, output, **manifest["options"])``. A document gets no special
    tokens around it unless ``add_special_tokens`` is set: the documents of a corpus have an end-of-text token between them
    (``append_eos``). Special tokens that are written in a text are encoded as text, whatever a ``Tokenizer`` does with them, unless
    ``special_in_text`` is set. Calls that encode texts do the opposite of both by default. With ``progress=True`` the tqdm library draws a
    bar. A function is called with a ``Progress`` about forty times a second, and an exception that it raises ends the run.

    After an error nothing is published. A bad document or option raises ``InputError``, a file that cannot be read or written ``OSError``,
    an output that exists ``FileExistsError``. ``notes`` in the result contains the notes that the command would print.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Hello world")
    >>> encode_files(folder, folder / "ids", "gpt2")["tokens"]
    2
    """
    run: dict[str, object] = {"inputs": _paths("inputs", inputs), "output": _path("output", output)}
    job: dict[str, object] = {}
    for name, value in _known("encode_files", EncodeOptions, options):
        (run if name in EncodeRunOptions.__annotations__ else job)[name] = value
    spec = _json({"job": job, "run": run})
    loaded = Tokenizer._of(tokenizer, not options.get("special_in_text"))
    if progress is True:
        with _Bar() as bar:
            summary, notes = _encode_files(spec, loaded, bar.show)
    else:
        function = None if progress is False else _called(progress)
        summary, notes = _encode_files(spec, loaded, function)
    result: Summary = json.loads(summary)
    result["notes"] = notes
    return result


def count(
    paths: Path | Iterable[Path],
    tokenizer: object = "o200k_base",
    *,
    on_error: Literal["fail", "skip"] = "fail",
    **options: Unpack[CountOptions],
) -> Counts:
    """Counts the tokens of files and folders, as ``windrow count`` does: the tokens that ``encode_files`` would write.

    ``tokenizer`` and ``special_in_text`` are as for ``encode_files``, and no special tokens are added. The options are those of the command
    (``windrow.options.CountOptions``). If a file cannot be read or has a bad document, its error is raised after all other files have been
    counted: the error's attribute ``counts`` is the result without that file. With ``on_error="skip"`` it is listed under ``errors``. Binary files of
    folders are listed under ``binary``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Hello world")
    >>> count(folder, "gpt2")["total"]
    {'bytes': 11, 'files': 1, 'tokens': 2}
    """
    if on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail' or 'skip', not {on_error!r}")
    spec = {"inputs": _paths("paths", paths), **dict(_known("count", CountOptions, options))}
    counted, failed = _count(_json(spec), Tokenizer._of(tokenizer, not options.get("special_in_text")))
    result: Counts = json.loads(counted)
    if failed and on_error == "fail":
        error = failed[0]
        error.counts = result  # type: ignore[attr-defined]
        raise error
    return result


def _known(function: str, known: Any, options: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The options that are given."""
    names = known.__annotations__
    for name, value in options.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"\nhint: did you mean {near[0]}?" if near else ""
            raise TypeError(f"{function}() has no option {name!r}{hint}")
        if value is not None:
            yield name, value


def _json(spec: object) -> str:
    return json.dumps(spec, default=_plain)


def _plain(value: object) -> object:
    """A value for JSON: of a path its text, of numpy's numbers ints, of an iterable a list."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    return operator.index(value)  # type: ignore[arg-type]


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
        raise TypeError(f"{name} must be one or more paths, not {type(paths).__name__}")
    found = [_path(f"{name}[{at}]", path) for at, path in enumerate(paths)]
    if not found:
        raise InputError(f"{name}: no input given\nhint: pass files, folders or patterns")
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
            raise ImportError(f"progress=True needs the tqdm library\n{hint}") from error
        self.tqdm: Any = tqdm(unit="B", unit_scale=True, desc="encode")
        return self

    def show(self, stored: int, total: int | None, documents: int, text_bytes: int, tokens: int) -> None:
        self.tqdm.total = total
        self.tqdm.update(stored - self.tqdm.n)
        self.tqdm.set_postfix(documents=documents, tokens=tokens, refresh=False)

    def __exit__(self, *_exception: object) -> None:
        self.tqdm.close()
