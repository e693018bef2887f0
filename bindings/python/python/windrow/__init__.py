"""Batches of text to token ids in flat memory, at the speed of the machine.

>>> import windrow
>>> tokenizer = windrow.Tokenizer.from_tiktoken("gpt2")
>>> batch = tokenizer.encode_batch_ids(["Hello world", "", "Hello"])
>>> batch.tolist()
[[15496, 995], [], [15496]]

Texts get the special tokens that a tokenizer's file puts around them, such as ``[CLS]`` and ``[SEP]``, unless ``add_special_tokens=False``.
By default, ``encode_files`` and ``count`` add none. ``batch.values`` and ``batch.offsets`` are flat memory, which numpy, pyarrow, polars and
duckdb read without a copy.

>>> encoding = tokenizer.encode("Hello wörld")
>>> encoding.tokens, encoding.offsets
(['Hello', 'Ġw', 'Ã¶r', 'ld'], [(0, 5), (5, 7), (7, 9), (9, 11)])
"""

from __future__ import annotations

from windrow._windrow import Column, DecodeStream, Encoding, Ragged, Tokenizer, __version__
from windrow.errors import InputError, ItemError, TokenizerError, WindrowError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from windrow import tiktoken
    from windrow.added import AddedToken
    from windrow.batcher import Batcher
    from windrow.files import count, encode_files
    from windrow.overlap import Profile, calibrate, plan
    from windrow.products import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter

__all__ = [
    "AddedToken",
    "Batcher",
    "Column",
    "DecodeStream",
    "Encoding",
    "InputError",
    "ItemError",
    "Profile",
    "Ragged",
    "Tokenizer",
    "TokenizerError",
    "WindrowError",
    "__version__",
    "all_gather_matmul",
    "calibrate",
    "count",
    "encode_batch_ids",
    "encode_files",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "plan",
    "tiktoken",
]

# What needs larger modules, which are imported when it is first used.
_LATE = {
    "AddedToken": "added",
    "Batcher": "batcher",
    "Profile": "overlap",
    "all_gather_matmul": "products",
    "calibrate": "overlap",
    "count": "files",
    "encode_files": "files",
    "matmul_all_reduce": "products",
    "matmul_reduce_scatter": "products",
    "plan": "overlap",
}


def __getattr__(name: str) -> object:
    import importlib

    if name == "tiktoken":
        return importlib.import_module("windrow.tiktoken")
    if name in _LATE:
        return getattr(importlib.import_module(f"windrow.{_LATE[name]}"), name)
    raise AttributeError(f"module 'windrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "errors", "__all__", "__doc__", "__file__", "__name__", "__path__"]


def encode_batch_ids(
    tokenizer: object, texts: Iterable[str | bytes] | object, add_special_tokens: bool = True
) -> Ragged:
    """The ids of all texts. The tokenizer is a ``Tokenizer``, an argument of ``Tokenizer(...)``, a tiktoken name or a file path.

    A tokenizer of another library is copied at each call, because it may have changed. To encode more than once, convert it to
    a ``Tokenizer`` first.
    """
    return Tokenizer._of(tokenizer).encode_batch_ids(texts, add_special_tokens)
